//! `git agent review send`: open comments go back to the agent, in the same conversation.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result};
use git_agent::invoke::{OutputArgs, site};
use git_agent::output::human::count;
use git_agent::output::sanitize::{block, one_line};
use git_agent::output::{Format, Ui, cannot_write};
use git_agent::session::anchors::{self, Placed, Spot};
use git_agent::session::context::Context;
use git_agent::session::feedback::{self, Whose};
use git_agent::session::prompts::Delivery;
use git_agent::session::work::{self, Keep};
use git_agent::session::{Ulid, looked, remark, select};

use crate::{answer, draft};

#[derive(Debug, Args)]
pub struct Send {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Say something before the comments
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Send what teammates wrote too, marked as theirs
    #[arg(long)]
    others: bool,
    /// Send what was sent before too, as long as it is open
    #[arg(long)]
    again: bool,
    /// Show the prompt and send nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Send) -> Result<u8> {
    site::run(env, args.output.options(), |context, ui| {
        let words = args.message.as_deref().unwrap_or_default();
        draft::keeping(context, "message", words, || send(context, ui, args))
    })
}

fn send(context: &Context<'_>, ui: &Ui, args: &Send) -> Result<u8> {
    let listed = select::select_mine(context, args.session.as_deref())?;
    let sid = listed.session.sid;
    let name = one_line(&listed.session.name).to_string();
    if remark::marks(context)
        .iter()
        .any(|mark| mark == sid.as_str())
    {
        return Err(Error::fatal(format!(
            "session '{name}' cannot send comments to itself"
        )));
    }
    let _alone = match args.dry_run {
        true => None,
        false => Some(feedback::hold(context)?),
    };
    let review = remark::load(context)?.of(sid);
    let keep = if args.dry_run {
        Keep::Nothing
    } else {
        Keep::Snapshot
    };
    let work = work::look(context, &listed, keep)?;
    let placed = anchors::place_all(context, &work, &review)?;
    let me = context.store.writer()?;
    let whose = if args.others {
        Whose::Everybody
    } else {
        Whose::Mine
    };
    let sent = match args.again {
        true => Default::default(),
        false => feedback::sent(context, &listed)?,
    };
    let threads = feedback::unsent(&placed, sid, me.as_ref(), whose, &sent);
    if threads.is_empty() {
        let error = Error::negative(format!(
            "session '{name}' has no open comment that was not sent"
        ));
        let open = placed
            .iter()
            .filter(|placed| placed.thread.is_open())
            .count();
        return Err(match open {
            0 => error.hint(format!(
                "git agent review comment {name} FILE:LINE -m \"<text>\""
            )),
            _ if args.others => error.hint("send them again: --again"),
            _ => error.hint("send them again: --again, or those of teammates: --others"),
        });
    }
    let preface = args.message.as_deref().unwrap_or_default().trim();
    let around = |spot: &Spot| anchors::around(context.repo, &work, spot);
    let prompt = feedback::prompt(&threads, &around, sid, me.as_ref(), whose, preface);
    let first = |placed: &&Placed<'_>| placed.thread.comments.first().map(|said| said.id);
    let ids: Vec<Ulid> = threads.iter().filter_map(first).collect();
    if args.dry_run {
        if ui.format() == Format::Human {
            write!(ui.out(), "{}", block(&prompt)).context(cannot_write)?;
        }
        answer::tell(ui, &ids)?;
        return Ok(0);
    }
    let number = count(threads.len() as u64, "comment");
    match feedback::send(context, sid, prompt)? {
        Delivery::Queued => ui.narrate(format!("{number} queued for '{name}'")),
        Delivery::Started => ui.narrate(format!("{number} sent to '{name}'")),
    }
    looked::remember(context, sid, &work)?;
    ui.hint(format!("git agent log -f {name}"));
    answer::tell(ui, &ids)?;
    Ok(0)
}
