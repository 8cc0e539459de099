//! `git agent forget` and `git agent purge`: deleting sessions, and taking secrets out of what is kept.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::git::remote::transfer::Audience;
use git_agent::git::remote::without_password;
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json};
use git_agent::selection::{self, Selection};
use git_agent::session::caller::{self, Act};
use git_agent::share::{forget, purge};
use git_agent::store::refname::RefName;
use serde::Serialize;

use crate::push;

#[derive(Debug, Args)]
pub struct Forget {
    /// Sessions: names, ids, or ends of ids
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Delete it at the remotes that have it too
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A session that was deleted, for machines.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    name: String,
    /// Where it is kept for a while.
    kept: Vec<String>,
    /// Remotes that still have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

/// Runs `forget`.
pub fn run(env: &Env, args: &Forget) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        caller::permit(context, Act::Forget, [])?;
        let selection = Selection {
            names: args.sessions.clone(),
            ..Selection::default()
        };
        let mut rows = Vec::new();
        let mut trouble = false;
        for listed in selection::select(context, &selection)? {
            let mut show = |how_far: &str| ui.progress(how_far);
            let mut audience = Audience::of(ui.shows_progress(), &mut show);
            let done = forget::forget(context, &listed, args.remote, &mut audience)?;
            ui.clear_progress();
            let name = one_line(&listed.session.name).to_string();
            if ui.format() != Format::Json {
                writeln!(ui.out(), "forgot {name}").context(cannot_write)?;
            }
            for (remote, changes) in &done.pushed {
                let remote = without_password(remote);
                for one in changes.iter().filter(|one| one.reason.is_some()) {
                    trouble = true;
                    let reason = one.reason.as_deref().unwrap_or_default();
                    ui.error(format!("{name} at '{remote}': {}", one_line(reason)));
                }
            }
            for (remote, reason) in &done.unreached {
                let remote = without_password(remote);
                trouble = true;
                ui.error(format!(
                    "'{remote}' may still have {name}: {}",
                    one_line(reason)
                ));
                ui.hint(format!("git agent push {}", shell_word(&remote)));
            }
            for remote in &done.left {
                let remote = without_password(remote);
                ui.narrate(format!("'{remote}' still has {name}"));
                ui.hint(format!("git agent forget --remote {}", listed.session.sid));
            }
            if !listed.is_mine() && !args.remote {
                ui.narrate("the next fetch brings it back, unless its owner deletes it");
            }
            rows.push(Row {
                id: listed.session.sid.to_string(),
                name: listed.session.name.clone(),
                kept: done.kept,
                left: done.left,
            });
        }
        if ui.format() == Format::Json {
            json::write_list(ui, "forgotten", &rows)?;
        }
        Ok(u8::from(trouble))
    })
}

#[derive(Debug, Args)]
pub struct Purge {
    /// Read the secret from a file, one a line ('-' is standard input); without it only what the rules find goes
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
    /// Leave the remotes alone
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A ref that was written again, for machines.
#[derive(Debug, Serialize)]
struct PurgedRow {
    #[serde(rename = "ref")]
    name: String,
    old: String,
    new: String,
}

/// Runs `purge`.
pub fn purge(env: &Env, args: &Purge) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        caller::permit(context, Act::Purge, [])?;
        let secrets = secrets(context, args)?;
        let mut show = |how_far: &str| ui.progress(how_far);
        let mut audience = Audience::of(ui.shows_progress(), &mut show);
        let purged = purge::purge(context, &secrets, args.local, &mut audience)?;
        ui.clear_progress();
        write(ui, &purged)?;
        let whole = purged.kept.is_empty() && purged.unreached.is_empty();
        let trouble = !whole || !purged.left.is_empty();
        Ok(u8::from(trouble))
    })
}

fn secrets(context: &Context<'_>, args: &Purge) -> Result<Vec<Vec<u8>>> {
    let Some(path) = &args.value_file else {
        return Ok(Vec::new());
    };
    let text = if path.as_os_str() == "-" {
        let mut text = Vec::new();
        std::io::stdin()
            .read_to_end(&mut text)
            .context(|| "cannot read standard input".into())?;
        text
    } else {
        let path = context.env.absolute(path);
        std::fs::read(&path).context(|| format!("cannot read '{}'", path.display()))?
    };
    let secrets: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii().to_vec())
        .filter(|line| !line.is_empty())
        .collect();
    if secrets.is_empty() {
        return Err(Error::usage("there is no secret in it"));
    }
    Ok(secrets)
}

fn write(ui: &Ui, purged: &purge::Purged) -> Result<()> {
    if ui.format() == Format::Json {
        let rows = purged.refs.iter().map(|one| PurgedRow {
            name: one.name.to_string(),
            old: one.old.to_string(),
            new: one.new.to_string(),
        });
        json::write_list(ui, "refs", rows)?;
    } else {
        for one in &purged.refs {
            let label = push::label(&one.name.to_string(), None);
            writeln!(ui.out(), "purged {label}").context(cannot_write)?;
        }
    }
    for (name, reason) in &purged.kept {
        let label = push::label(&name.to_string(), None);
        ui.error(format!("{label}: {}", one_line(reason)));
    }
    for (remote, changes) in &purged.pushed {
        let remote = without_password(remote);
        let refused: Vec<_> = changes.iter().filter(|one| one.reason.is_some()).collect();
        let count = human::count((changes.len() - refused.len()) as u64, "ref");
        ui.narrate(format!("'{remote}': {count} rewritten"));
        for one in refused {
            let reason = one.reason.as_deref().unwrap_or_default();
            ui.error(format!("'{remote}': {}", one_line(reason)));
        }
    }
    for (remote, reason) in &purged.unreached {
        let remote = without_password(remote);
        ui.error(format!("'{remote}' still has it: {}", one_line(reason)));
        ui.hint(format!("git agent push {}", shell_word(&remote)));
    }
    for (remote, name) in &purged.left {
        let remote = without_password(remote);
        let label = push::label(&name.to_string(), None);
        ui.error(format!("'{remote}' still has it: {label}"));
        match name {
            RefName::Session(sid) => ui.hint(format!("git agent forget {sid} --remote")),
            _ => ui.hint(format!("git agent push {}", shell_word(&remote))),
        }
    }
    for sid in &purged.commands {
        ui.narrate(format!(
            "the command of {sid}, kept here as it was typed, held it: it is purged and cannot be run again"
        ));
    }
    for name in &purged.kept_versions {
        ui.narrate(format!("purged what is kept as {name}"));
    }
    for (name, where_) in &purged.code {
        let name = one_line(name);
        ui.warning(format!(
            "the code of {name} goes wherever its session does and was not touched: {}",
            one_line(where_)
        ));
    }
    let records = purged.refs.len() + purged.kept.len() + purged.kept_versions.len();
    let elsewhere = purged.pushed.len() + purged.unreached.len() + purged.left.len();
    if records + elsewhere + purged.commands.len() + purged.code.len() == 0 {
        ui.narrate("nothing of this clone's records holds it");
        return Ok(());
    }
    ui.narrate(
        "What this cannot reach: a host keeps rewritten objects for a while and may\n\
         show them to who knows their ids; whoever fetched has a copy; branches,\n\
         snapshots and the objects here until 'git gc --prune=now' are as they were.",
    );
    ui.hint("change the secret where it is valid: it has been seen");
    Ok(())
}
