//! `git agent restore`, `rewind` and `recreate`: a session's worktree from a snapshot or from its branch.

use std::io::Write;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::worktree::ignored_files;
use git_agent::session::worktree::restore::{self, Which};

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    moment: Moment,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which snapshot
#[derive(Debug, Args)]
pub struct Moment {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The state at the end of a turn; 0 is before the first
    #[arg(short, long, value_name = "N")]
    turn: Option<u64>,
    /// A snapshot by its id
    #[arg(long, value_name = "ID", conflicts_with = "turn")]
    to: Option<String>,
}

impl Moment {
    fn which(&self) -> Which {
        match (&self.to, self.turn) {
            (Some(id), _) => Which::Snapshot(id.clone()),
            (None, Some(turn)) => Which::Turn(turn),
            (None, None) => Which::Last,
        }
    }
}

/// Runs `restore`.
pub fn restore(env: &Env, args: &Restore) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.moment.session.as_deref())?.session;
        let checkout = restore::restore(context, &session, &args.moment.which())?;
        let path = checkout.top.display().to_string();
        if !changed_sessions::tell(context, ui, [session.sid])? {
            writeln!(ui.out(), "{}", one_line(path.as_str()))?;
        }
        Ok(0)
    })
}

/// Runs `rewind`.
pub fn rewind(env: &Env, args: &Restore) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.moment.turn.is_none() && args.moment.to.is_none() {
            return Err(
                Error::usage("which turn? name one with --turn N or --to ID")
                    .hint("git agent rewind SESSION --turn N")
                    .hint("git agent snapshot --list SESSION"),
            );
        }
        let session = selection::select_mine(context, args.moment.session.as_deref())?.session;
        let kept = restore::rewind(context, &session, &args.moment.which())?;
        ui.narrate(format!(
            "rewound '{}': {}",
            one_line(session.name.as_str()),
            one_line(kept.reason.as_str())
        ));
        changed_sessions::tell(context, ui, [session.sid])?;
        Ok(0)
    })
}

#[derive(Debug, Args)]
pub struct Recreate {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Delete ignored files of the worktree, which snapshots do not keep
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `recreate`.
pub fn recreate(env: &Env, args: &Recreate) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        let made = restore::recreate(context, &session, args.yes)?;
        let path = made.checkout.top.display().to_string();
        if !changed_sessions::tell(context, ui, [session.sid])? {
            writeln!(ui.out(), "{}", one_line(path.as_str()))?;
        }
        let gone = [made.ignored.kept, made.ignored.gone].concat();
        if !gone.is_empty() {
            let names = ignored_files::name_some(&gone);
            ui.narrate(format!("deleted ignored files: {}", one_line(&names)));
        }
        ui.hint(format!(
            "the other files are in a snapshot: git agent snapshot --list {}",
            shell_word(&session.name)
        ));
        Ok(0)
    })
}
