//! `git agent review reply`, `resolve`, `reopen` and `delete`: what is done with comments that are there.

use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::Action;
use git_agent::model::session::Ulid;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain};
use git_agent::review::git_notes;
use git_agent::review::records::{self, Found, Reviews};
use git_agent::session::caller::{self, Act};

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
    /// Close the thread with it
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
        let reviews = records::load(context)?;
        let me = context.store.writer()?;
        if args.message.is_none() && args.file.is_none() {
            reviews.find(&args.comment, me.as_ref())?;
        }
        let body = draft::read(
            context,
            "reply",
            args.message.as_deref(),
            args.file.as_deref(),
        )?;
        let id = draft::keeping(context, "reply", &body, || {
            let found = reviews.find(&args.comment, me.as_ref())?;
            let target = found.comment.id;
            let mut actions = vec![Action::Comment {
                target: Some(target),
                of: found.of(),
                at: None,
                body: body.clone(),
                severity: None,
            }];
            if args.resolve {
                actions.push(Action::Resolve { target });
            }
            let who = records::author(context)?;
            let home = records::home(context, found.thread);
            let ids = records::write(context, found.sid, home, &who, actions)?;
            Ok(ids[0])
        })?;
        git_notes::refresh(context)?;
        ui.narrate(format!("reply {}", records::short_id(id)));
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
    in_repo::run(env, args.output.options(), |context, ui| {
        let reviews = records::load(context)?;
        // All of them are looked for before anything is written.
        let found = find_all(context, &reviews, &args.comments)?;
        if let Some(found) = found.iter().find(|found| !found.thread.is_visible()) {
            return Err(deleted(found));
        }
        for found in &found {
            let session = context.store.session(found.sid)?;
            caller::permit(context, Act::CloseThreads, &session)?;
        }
        let ids: Vec<Ulid> = found.iter().map(|found| found.comment.id).collect();
        for found in found {
            let short = records::short_id(found.comment.id);
            let target = found.comment.id;
            if found.thread.is_open() != resolved {
                let word = if resolved { "resolved" } else { "open" };
                ui.narrate(format!("{short} is {word} already"));
                continue;
            }
            let action = match resolved {
                true => Action::Resolve { target },
                false => Action::Reopen { target },
            };
            write(context, &found, action)?;
            let word = if resolved { "resolved" } else { "reopened" };
            ui.narrate(format!("{word} {short}"));
        }
        git_notes::refresh(context)?;
        tell(ui, &ids)?;
        Ok(0)
    })
}

/// Runs `delete`.
pub fn delete(env: &Env, args: &Delete) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let reviews = records::load(context)?;
        let found = find_all(context, &reviews, &args.comments)?;
        for found in &found {
            require_own(context, found)?;
        }
        let ids: Vec<Ulid> = found.iter().map(|found| found.comment.id).collect();
        for found in found {
            let short = records::short_id(found.comment.id);
            if found.comment.deleted {
                ui.narrate(format!("{short} is deleted already"));
                continue;
            }
            let action = Action::Del {
                target: Some(found.comment.id),
            };
            write(context, &found, action)?;
            ui.narrate(format!("deleted {short}"));
        }
        git_notes::refresh(context)?;
        tell(ui, &ids)?;
        Ok(0)
    })
}

/// Tells machines which comments were written or changed.
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

/// Returns what to say when a comment was taken back: that stays so, whatever is done with it.
pub fn deleted(found: &Found<'_>) -> Error {
    let short = records::short_id(found.comment.id);
    Error::fatal(format!("comment {short} was deleted")).hint("git agent review list")
}

fn find_all<'r>(
    context: &Context<'_>,
    reviews: &'r Reviews,
    wanted: &[String],
) -> Result<Vec<Found<'r>>> {
    let me = context.store.writer()?;
    let find = |wanted: &String| reviews.find(wanted, me.as_ref());
    wanted.iter().map(find).collect()
}

/// Writes one record about a comment.
pub fn write(context: &Context<'_>, found: &Found<'_>, action: Action) -> Result<()> {
    let who = records::author(context)?;
    let home = records::home(context, found.thread);
    records::write(context, found.sid, home, &who, vec![action])?;
    Ok(())
}

/// Refuses to change what somebody else said.
pub fn require_own(context: &Context<'_>, found: &Found<'_>) -> Result<()> {
    let writer = context.store.writer()?;
    let speaker = records::author(context)?;
    if records::is_own(found.comment, writer.as_ref(), &speaker) {
        return Ok(());
    }
    let short = records::short_id(found.comment.id);
    Err(Error::fatal(format!(
        "comment {short} is by '{}': only its author may change it",
        found.comment.who.name
    ))
    .hint(format!(
        "git agent review reply {} -m \"<answer>\"",
        shell_word(short)
    )))
}
