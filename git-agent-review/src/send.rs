//! `git agent review send`: open comments, and why changes were requested, go back to the agent, in the same conversation.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::Review;
use git_agent::model::review::standing::{Judged, Opinion};
use git_agent::model::session::{SessionId, Ulid, WriterId};
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::{Format, Ui, cannot_write, json};
use git_agent::review::anchors::{self, Placed, Spot};
use git_agent::review::send::{self, Sent, Whose};
use git_agent::review::{last_seen, records, verdict};
use git_agent::selection;
use git_agent::session::caller::{self, Act};
use git_agent::session::supervisor::prompts::{self, Delivery};
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::Listed;

use crate::{answer, draft};

#[derive(Debug, Args)]
pub struct Send {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Say something before everything else
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
    in_repo::run(env, args.output.options(), |context, ui| {
        let words = args.message.as_deref().unwrap_or_default();
        draft::keeping(context, "message", words, || send(context, ui, args))
    })
}

fn send(context: &Context<'_>, ui: &Ui, args: &Send) -> Result<u8> {
    let listed = selection::select_mine(context, args.session.as_deref())?;
    let sid = listed.session.sid;
    let name = one_line(&listed.session.name).to_string();
    if caller::is_in(context, sid) {
        return Err(Error::fatal(format!(
            "session '{name}' cannot send comments to itself"
        )));
    }
    if !args.dry_run {
        caller::permit(context, Act::Prompt, [&listed.session])?;
    }
    let _alone = match args.dry_run {
        true => None,
        false => Some(send::hold(context)?),
    };
    let review = records::load(context)?.of(sid);
    let keep = if args.dry_run {
        Keep::Nothing
    } else {
        Keep::Snapshot
    };
    let work = work::look(context, &listed, keep)?;
    let said = Said::of(context, sid, &work, &review)?;
    let whose = if args.others {
        Whose::Everybody
    } else {
        Whose::Mine
    };
    let sent = match args.again {
        true => Sends::new(),
        false => send::sent(context, &listed)?,
    };
    let (requests, threads) = (said.requests(whose, &sent), said.threads(whose, &sent));
    if requests.is_empty() && threads.is_empty() {
        // One that was killed here may have left it unread.
        if !args.dry_run
            && let Some(Delivery::Started) = prompts::deliver_left(context, sid)?
        {
            ui.narrate(format!(
                "what was sent before had not begun: started '{name}'"
            ));
            tell(ui, &[], &[])?;
            return Ok(0);
        }
        let error = Error::negative(format!(
            "session '{name}' has no open comment that was not sent"
        ));
        return Err(error.hint(instead(&said, &name, whose, &sent)));
    }
    let preface = args.message.as_deref().unwrap_or_default().trim();
    let around = |spot: &Spot| anchors::around(context.repo, &work, spot);
    let me = said.me.as_ref();
    let prompt = send::prompt(&requests, &threads, &around, sid, me, whose, preface);
    let first = |placed: &&Placed<'_>| placed.thread.comments.first().map(|said| said.id);
    let ids: Vec<Ulid> = threads.iter().filter_map(first).collect();
    if args.dry_run {
        if ui.format() == Format::Human {
            write!(ui.out(), "{}", block(&prompt)).context(cannot_write)?;
        }
        tell(ui, &requests, &ids)?;
        return Ok(0);
    }
    let comments = count(threads.len() as u64, "comment");
    let what = match (requests.is_empty(), threads.is_empty()) {
        (true, _) => comments,
        (false, true) => "the request for changes".to_owned(),
        (false, false) => format!("the request for changes and {comments}"),
    };
    match send::send(context, sid, prompt)? {
        Delivery::Queued => ui.narrate(format!("{what} queued for '{name}'")),
        Delivery::Started => ui.narrate(format!("{what} sent to '{name}'")),
    }
    last_seen::remember(context, sid, &work)?;
    ui.hint(format!(
        "git agent log -f {}",
        shell_word(&listed.session.name)
    ));
    tell(ui, &requests, &ids)?;
    Ok(0)
}

/// What was sent, and when.
type Sends = BTreeMap<Ulid, Sent>;

/// What a review says about a session's work as it is.
struct Said<'r> {
    sid: SessionId,
    placed: Vec<Placed<'r>>,
    opinion: Opinion,
    me: Option<WriterId>,
}

impl<'r> Said<'r> {
    fn of(
        context: &Context<'_>,
        sid: SessionId,
        work: &Work,
        review: &'r Review,
    ) -> Result<Said<'r>> {
        Ok(Said {
            sid,
            placed: anchors::place_all(context, work, review)?,
            opinion: verdict::about(review, sid, work),
            me: context.store.writer()?,
        })
    }

    fn requests(&self, whose: Whose, sent: &Sends) -> Vec<&Judged> {
        send::requests(&self.opinion, self.me.as_ref(), whose, sent)
    }

    fn threads(&self, whose: Whose, sent: &Sends) -> Vec<&Placed<'r>> {
        send::unsent(&self.placed, self.sid, self.me.as_ref(), whose, sent)
    }

    /// Returns whether there is anything to send.
    fn has_any(&self, whose: Whose, sent: &Sends) -> bool {
        !self.requests(whose, sent).is_empty() || !self.threads(whose, sent).is_empty()
    }
}

/// Returns how whoever made a session's work gets to know what was said about it; `None` when there is nothing to be told,
/// or whoever asks is the agent itself. What cannot be found out is worth no error: it is only a hint.
pub fn next_step(context: &Context<'_>, listed: &Listed, work: &Work) -> Option<String> {
    if !listed.is_mine() {
        return Some("git agent push".to_owned());
    }
    let sid = listed.session.sid;
    let inside = caller::is_in(context, sid);
    let name = one_line(&listed.session.name);
    (!inside && would_send(context, listed, work).unwrap_or(true))
        .then(|| format!("git agent review send {name}"))
}

/// Returns whether `send` without options would send something about some work of a session.
fn would_send(context: &Context<'_>, listed: &Listed, work: &Work) -> Result<bool> {
    let sid = listed.session.sid;
    let review = records::load_one(context, sid)?;
    let said = Said::of(context, sid, work, &review)?;
    Ok(said.has_any(Whose::Mine, &send::sent(context, listed)?))
}

/// Returns what to type where nothing was sent: only what would send something.
fn instead(said: &Said<'_>, name: &str, whose: Whose, sent: &Sends) -> String {
    let nothing = Sends::new();
    let again = said.has_any(whose, &nothing);
    let others = said.has_any(Whose::Everybody, sent);
    let both = said.has_any(Whose::Everybody, &nothing);
    match (again, others, both) {
        (true, true, _) => "send them again: --again, or those of teammates: --others".to_owned(),
        (true, false, _) => "send them again: --again".to_owned(),
        (false, true, _) => "send those of teammates: --others".to_owned(),
        (false, false, true) => "send those of teammates again: --others --again".to_owned(),
        (false, false, false) => comment_on(name),
    }
}

/// Returns how to say something that can be sent.
pub fn comment_on(name: &str) -> String {
    format!("git agent review comment {name} FILE:LINE -m \"<text>\"")
}

/// Tells machines what was sent.
fn tell(ui: &Ui, requests: &[&Judged], comments: &[Ulid]) -> Result<()> {
    if ui.format() != Format::Json {
        return answer::tell(ui, comments);
    }
    let id = |id: Ulid| serde_json::json!({ "id": id.as_str() });
    let mut out = ui.out();
    let mut list = json::List::begin(&mut out, "comments", ui.table_width().is_some())?;
    for comment in comments {
        list.item(&id(*comment))?;
    }
    list.next("verdicts")?;
    for judged in requests {
        list.item(&id(judged.given.id))?;
    }
    list.end()
}
