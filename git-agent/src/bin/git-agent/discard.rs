//! `git agent discard`: gives sessions up in one step. `restore` brings them back.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, json};
use git_agent::selection::{self, Selection};
use git_agent::session::control::discard;
use git_agent::share::{Audience, forget};

#[derive(Debug, Args)]
pub struct Discard {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Also delete the record and the snapshots; a copy is kept for 30 days
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Discard) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let selection = Selection {
            names: args.sessions.clone(),
            ..Selection::default()
        };
        let mut discarded = Vec::new();
        for listed in selection::select_all_mine(context, &selection)? {
            let name = one_line(&listed.session.name).to_string();
            let cleaned = discard::discard(context, &listed)?;
            if args.forget {
                let mut show = |how_far: &str| ui.progress(how_far);
                let mut audience = Audience::of(ui.shows_progress(), &mut show);
                forget::forget(context, &listed, false, &mut audience)?;
                ui.clear_progress();
            }
            if ui.format() != Format::Json {
                let what = if args.forget {
                    "discarded and forgotten"
                } else {
                    "discarded"
                };
                writeln!(ui.out(), "{what}: {name}")?;
                for reason in &cleaned.kept {
                    ui.narrate(format!("{name}: {}", one_line(reason.as_str())));
                }
                if !args.forget {
                    let word = shell_word(&listed.session.name);
                    ui.hint(format!("git agent restore {word}    bring it back"));
                }
            }
            discarded.push(cleaned);
        }
        if ui.format() == Format::Json {
            json::write_list(ui, "discarded", &discarded)?;
        }
        Ok(0)
    })
}
