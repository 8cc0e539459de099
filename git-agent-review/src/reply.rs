//! `git agent review reply`, `resolve`, `reopen` and `delete`: acting on comments that exist.

use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::session::Ulid;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain};
use git_agent::review::comment::{self, CommentChange};
use git_agent::review::records::short_id;

use crate::draft;

#[derive(Debug, Args)]
pub struct Reply {
    /// A comment of the thread: its id or the end of it
    #[arg(value_name = "COMMENT")]
    comment: String,
    /// The text ('-' is standard input; default: the editor)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read the text from a file
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also resolve the thread
    #[arg(long)]
    resolve: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct Close {
    /// A comment of each thread: its id or the end of it
    #[arg(value_name = "COMMENT", required = true)]
    comments: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct Delete {
    /// The comments: their ids or the ends of them
    #[arg(value_name = "COMMENT", required = true)]
    comments: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `reply`.
pub fn reply(env: &Env, args: &Reply) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.message.is_none() && args.file.is_none() {
            comment::require_comment(context, &args.comment)?;
        }
        let (message, file) = (args.message.as_deref(), args.file.as_deref());
        let body = draft::read(context, "reply", message, file)?;
        let id = comment::reply(context, &args.comment, &body, args.resolve)?;
        ui.narrate(format!("reply {}", short_id(id)));
        tell(ui, &[id])?;
        Ok(0)
    })
}

/// Runs `resolve`.
pub fn resolve(env: &Env, args: &Close) -> Result<u8> {
    close(env, args, true)
}

/// Runs `reopen`.
pub fn reopen(env: &Env, args: &Close) -> Result<u8> {
    close(env, args, false)
}

fn close(env: &Env, args: &Close, resolved: bool) -> Result<u8> {
    let (done, state) = if resolved {
        ("resolved", "resolved")
    } else {
        ("reopened", "open")
    };
    in_repo::run(env, args.output.options(), |context, ui| {
        let mut narrate = narrator(ui, done, state);
        let ids = comment::close(context, &args.comments, resolved, &mut narrate)?;
        tell(ui, &ids)?;
        Ok(0)
    })
}

/// Runs `delete`.
pub fn delete(env: &Env, args: &Delete) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let mut narrate = narrator(ui, "deleted", "deleted");
        let ids = comment::delete(context, &args.comments, &mut narrate)?;
        tell(ui, &ids)?;
        Ok(0)
    })
}

/// Prints for each comment whether it changed or already was in that state.
fn narrator(ui: &Ui, done: &str, state: &str) -> impl FnMut(Ulid, CommentChange) {
    move |id, what| {
        let short = short_id(id);
        match what {
            CommentChange::Changed => ui.narrate(format!("{done} {short}")),
            CommentChange::Already => ui.narrate(format!("{short} is already {state}")),
        }
    }
}

/// Writes the changed comments as JSON.
pub fn tell(ui: &Ui, ids: &[Ulid]) -> Result<()> {
    match ui.format() {
        Format::Human => Ok(()),
        Format::Json => {
            let rows = ids
                .iter()
                .map(|id| serde_json::json!({ "id": id.as_str() }));
            json::write_list(ui, "comments", rows)
        }
        Format::Porcelain { nul } => ids.iter().try_for_each(|id| {
            porcelain::write_record(&mut ui.out(), nul, [id.as_str()]).context(cannot_write)
        }),
    }
}
