//! `git agent review approve`, `request-changes` and `reject`: verdicts on exactly the work as it is.

use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, site, text};
use git_agent::output::sanitize::one_line;
use git_agent::review::Verdict;
use git_agent::session::{display, looked, opinion, select};

use crate::draft;

/// On which sessions, and why
#[derive(Debug, Args)]
pub struct Judge {
    /// Sessions: names, ids, or ends of ids (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Say why
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read why from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a verb.
pub fn run(env: &Env, args: &Judge, verdict: Verdict) -> Result<u8> {
    site::run(env, args.output.options(), |context, ui| {
        let why = match (&args.message, &args.file) {
            (None, None) => String::new(),
            (message, file) => text::read(context, "message", message.as_deref(), file.as_deref())?,
        };
        let selection = select::Selection {
            names: args.sessions.clone(),
            ..select::Selection::default()
        };
        let chosen = draft::keeping(context, "message", &why, || {
            select::select(context, &selection)
        })?;
        for listed in &chosen {
            let work = draft::keeping(context, "message", &why, || {
                opinion::give(context, listed, verdict, &why)
            })?;
            looked::remember(context, listed.session.sid, &work)?;
            let name = one_line(&listed.session.name).to_string();
            let tip = work.tip.to_string();
            let rest = match work.is_committed() {
                true => "",
                false => " with what is not committed",
            };
            let word = match verdict {
                Verdict::Approve => "approved",
                Verdict::RequestChanges => "requested changes to",
                Verdict::Reject => "rejected",
            };
            ui.narrate(format!("{word} '{name}' at {}{rest}", &tip[..12]));
            match verdict {
                Verdict::Approve => {
                    let into = listed.session.parent.as_deref().unwrap_or("main");
                    ui.hint(format!("git agent merge --into {into} {name}"));
                }
                Verdict::RequestChanges => ui.hint(format!("git agent review send {name}")),
                Verdict::Reject => ui.hint(format!("git agent clean {name}")),
            }
        }
        display::refresh(context)?;
        Ok(0)
    })
}
