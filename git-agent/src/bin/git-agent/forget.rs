//! `git agent forget`: deletes sessions.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, cannot_write, json};
use git_agent::selection::{self, Selection};
use git_agent::share::{Audience, forget, without_password};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct Forget {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Also delete them on the remotes that have them
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
                ui.narrate("the next fetch restores it unless its owner deletes it");
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
