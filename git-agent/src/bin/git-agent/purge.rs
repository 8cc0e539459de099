//! `git agent purge`: removes a leaked secret from this clone's own records.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json};
use git_agent::share::purge::{self, RefName};
use git_agent::share::{Audience, without_password};
use serde::Serialize;

use crate::shared_refs;

#[derive(Debug, Args)]
pub struct Purge {
    /// Read secrets from a file, one per line ('-' is standard input); default: only secrets that the rules find
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
    /// Do not change the remotes
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

/// Runs the verb.
pub fn run(env: &Env, args: &Purge) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
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
        return Err(Error::usage("the file contains no secret"));
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
            let label = shared_refs::label(&one.name.to_string(), None);
            writeln!(ui.out(), "purged {label}").context(cannot_write)?;
        }
    }
    for (name, reason) in &purged.kept {
        let label = shared_refs::label(&name.to_string(), None);
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
        let label = shared_refs::label(&name.to_string(), None);
        ui.error(format!("'{remote}' still has it: {label}"));
        match name {
            RefName::Session(sid) => ui.hint(format!("git agent forget {sid} --remote")),
            _ => ui.hint(format!("git agent push {}", shell_word(&remote))),
        }
    }
    for sid in &purged.commands {
        ui.narrate(format!(
            "the stored command of {sid} contained the secret: it was purged and cannot be run again"
        ));
    }
    for name in &purged.kept_versions {
        ui.narrate(format!("purged the copy kept as {name}"));
    }
    for (name, where_) in &purged.code {
        let name = one_line(name);
        ui.warning(format!(
            "the code of {name}, which is pushed with its session, was not changed: {}",
            one_line(where_)
        ));
    }
    let records = purged.refs.len() + purged.kept.len() + purged.kept_versions.len();
    let elsewhere = purged.pushed.len() + purged.unreached.len() + purged.left.len();
    if records + elsewhere + purged.commands.len() + purged.code.len() == 0 {
        ui.narrate("this clone's records do not contain it");
        return Ok(());
    }
    ui.narrate(
        "Purge cannot reach everything: a host keeps rewritten objects for a while and\n\
         may show them by their ids; teammates who fetched have a copy; branches,\n\
         snapshots and the objects here until 'git gc --prune=now' are as they were.",
    );
    ui.hint("revoke the secret where it is valid: others may have seen it");
    Ok(())
}
