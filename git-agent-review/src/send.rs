//! `git agent review send`: sends open comments and requests for changes to the agent, in the same conversation.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::session::Ulid;
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::{Format, Ui, cannot_write, json};
use git_agent::review::send::{self, Outgoing, SendOptions, Sending};
use git_agent::selection;
use git_agent::session::supervisor::prompts::Delivery;

use crate::{draft, reply};

#[derive(Debug, Args)]
pub struct Send {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// A text before the comments
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Also send the comments of teammates, marked as theirs
    #[arg(long)]
    others: bool,
    /// Also send open comments that were sent before
    #[arg(long)]
    again: bool,
    /// Only show the prompt
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Send) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let words = args.message.as_deref().unwrap_or_default();
        draft::keeping(context, "message", words, || send(context, ui, args, words))
    })
}

fn send(context: &Context<'_>, ui: &Ui, args: &Send, preface: &str) -> Result<u8> {
    let listed = selection::select_mine(context, args.session.as_deref())?;
    let name = one_line(&listed.session.name).to_string();
    let options = SendOptions {
        preface,
        others: args.others,
        again: args.again,
        dry_run: args.dry_run,
    };
    let sent = match send::send(context, &listed, &options)? {
        Sending::Review(sent) => sent,
        Sending::StartedEarlier => {
            ui.narrate(format!("started '{name}' with the comments sent before"));
            tell(ui, &[], &[])?;
            return Ok(0);
        }
    };
    match sent.delivery {
        None if ui.format() == Format::Human => {
            write!(ui.out(), "{}", block(&sent.prompt)).context(cannot_write)?;
        }
        None => {}
        Some(Delivery::Queued) => ui.narrate(format!("{} queued for '{name}'", content(&sent))),
        Some(Delivery::Started) => ui.narrate(format!("{} sent to '{name}'", content(&sent))),
    }
    if sent.delivery.is_some() {
        let name = shell_word(&listed.session.name);
        ui.hint(format!("git agent log -f {name}"));
    }
    tell(ui, &sent.requests, &sent.comments)?;
    Ok(0)
}

/// Names the content of a prompt.
fn content(sent: &Outgoing) -> String {
    let comments = count(sent.comments.len() as u64, "comment");
    match (sent.requests.is_empty(), sent.comments.is_empty()) {
        (true, _) => comments,
        (false, true) => "the request for changes".to_owned(),
        (false, false) => format!("the request for changes and {comments}"),
    }
}

/// Writes the sent verdicts and comments as JSON.
fn tell(ui: &Ui, requests: &[Ulid], comments: &[Ulid]) -> Result<()> {
    if ui.format() != Format::Json {
        return reply::tell(ui, comments);
    }
    let id = |id: &Ulid| serde_json::json!({ "id": id.as_str() });
    let mut out = ui.out();
    let mut list = json::List::begin(&mut out, "comments", ui.table_width().is_some())?;
    for comment in comments {
        list.item(&id(comment))?;
    }
    list.next("verdicts")?;
    for request in requests {
        list.item(&id(request))?;
    }
    list.end()
}
