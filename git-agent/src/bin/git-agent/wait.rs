//! `git agent wait`: sleeps until sessions are in a state.

use std::time::{Duration, Instant};

use clap::Args;
use git_agent::config::parse_duration;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::detail;
use git_agent::listing::row::Summary;
use git_agent::listing::wait::{self, WaitOutcome, Wish};
use git_agent::model::session::{Session, State};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json};
use git_agent::selection::Selection;

/// The exit code of a wait that took too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

#[derive(Debug, Args)]
pub struct Wait {
    /// Sessions: names or their beginnings, ids, @3 of the last list, '-' the last (default: the one of this worktree, or all that run)
    #[arg(value_name = "SESSION")]
    names: Vec<String>,
    /// Every session of this clone that runs
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "names")]
    group: Option<String>,
    /// The state to wait for; several mean any of them
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        default_value = "ready"
    )]
    state: Vec<State>,
    /// Give up after this time, such as 60s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Return when any session is done
    #[arg(long)]
    any: bool,
    /// Return when any session fails, although others still run
    #[arg(long, conflicts_with = "any")]
    fail_fast: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn time(text: &str) -> Result<Duration> {
    parse_duration(text)
        .ok_or_else(|| Error::usage(format!("'{text}' is not a duration (try 60s, 15m, 2h)")))
}

/// Runs the verb.
pub fn run(env: &Env, args: &Wait) -> Result<u8> {
    let deadline = args
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    in_repo::run(env, args.output.options(), |context, ui| {
        let selection = Selection {
            names: args.names.clone(),
            all: args.all,
            group: args.group.clone(),
            states: Vec::new(),
        };
        let wish = Wish {
            states: args.state.clone(),
            any: args.any,
            fail_fast: args.fail_fast,
            deadline,
        };
        let (code, sessions, words) = match wait::wait(context, &selection, &wish)? {
            WaitOutcome::Reached(sessions) => {
                if sessions.is_empty() {
                    ui.narrate("nothing is running");
                }
                (0, sessions, None)
            }
            WaitOutcome::Ended(sessions) => (1, sessions, Some("is")),
            WaitOutcome::TimedOut(sessions) => (TIMED_OUT, sessions, Some("is still")),
        };
        tell(context, ui, &sessions, words)?;
        Ok(code)
    })
}

fn tell(context: &Context<'_>, ui: &Ui, sessions: &[Session], words: Option<&str>) -> Result<()> {
    if ui.format() == Format::Json {
        let row = |session: &Session| Summary::of_own(session, context.env.now());
        return json::write_list(ui, "sessions", sessions.iter().map(row));
    }
    let Some(words) = words else { return Ok(()) };
    for session in sessions {
        let name = one_line(session.name.as_str());
        let reason = session.exit.as_ref().map_or("", |exit| &exit.reason);
        let text = match reason {
            "" => format!("'{name}' {words} {}", session.status),
            reason => format!("'{name}' {words} {}: {}", session.status, one_line(reason)),
        };
        ui.error(text);
        if let Some(step) = detail::after_failure(context, session) {
            ui.hint(step);
        }
    }
    Ok(())
}
