//! `git agent restore`, `rewind`, `recreate` and `snapshot`: a session's worktree at other moments.

use std::io::Write;

use clap::Args;
use git_agent::env::{Env, Millis};
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, human, json, porcelain};
use git_agent::selection;
use git_agent::session::caller::{self, Act};
use git_agent::session::worktree::restore::{self, Which};
use git_agent::session::worktree::{ignored_files, work};

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    moment: Moment,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which moment
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
        caller::permit(context, Act::Restore, [&session])?;
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
            return Err(Error::usage("no moment to go back to is given")
                .hint("git agent rewind SESSION --turn N")
                .hint("git agent snapshot --list SESSION"));
        }
        let session = selection::select_mine(context, args.moment.session.as_deref())?.session;
        caller::permit(context, Act::Restore, [&session])?;
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
    /// Let ignored files go that were written there, which no snapshot keeps
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `recreate`.
pub fn recreate(env: &Env, args: &Recreate) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        caller::permit(context, Act::Restore, [&session])?;
        let made = restore::recreate(context, &session, args.yes)?;
        let path = made.checkout.top.display().to_string();
        if !changed_sessions::tell(context, ui, [session.sid])? {
            writeln!(ui.out(), "{}", one_line(path.as_str()))?;
        }
        let gone = [made.ignored.kept, made.ignored.gone].concat();
        if !gone.is_empty() {
            let names = ignored_files::name_some(&gone);
            ui.narrate(format!("gone, as git ignored it: {}", one_line(&names)));
        }
        ui.hint(format!(
            "all else that was in it is in a snapshot: git agent snapshot --list {}",
            shell_word(&session.name)
        ));
        Ok(0)
    })
}

#[derive(Debug, Args)]
pub struct Snapshot {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// List the snapshots, newest first
    #[arg(short, long)]
    list: bool,
    /// Say why it is taken
    #[arg(short, long, value_name = "MESSAGE", default_value = "taken by hand")]
    message: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `snapshot`.
pub fn snapshot(env: &Env, args: &Snapshot) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        if !args.list {
            caller::permit(context, Act::Snapshot, [&session])?;
            let checkout = work::require_checkout(context, &session)?;
            let taken = context
                .store
                .take_snapshot(session.sid, None, &args.message, &checkout)?;
            let made = serde_json::json!({"id": taken.id.to_string(), "new": taken.is_new});
            let made = Some(("snapshots", vec![made]));
            if !changed_sessions::tell_with(context, ui, [session.sid], made)? {
                writeln!(ui.out(), "{}", taken.id)?;
            }
            for left in &taken.left_out {
                ui.warning(format!("not in the snapshot: {left}"));
            }
            return Ok(0);
        }
        let chain = context.store.snapshots(session.sid)?;
        match ui.format() {
            Format::Json => {
                let items: Vec<_> = chain
                    .iter()
                    .map(|kept| {
                        serde_json::json!({
                            "id": kept.snapshot.id.to_string(),
                            "tree": kept.snapshot.tree.to_string(),
                            "head": kept.snapshot.head.map(|id| id.to_string()),
                            "time": kept.snapshot.time,
                            "turn": kept.turn,
                            "reason": kept.reason,
                        })
                    })
                    .collect();
                json::write_list(ui, "snapshots", &items)?;
            }
            Format::Porcelain { nul } => {
                for kept in &chain {
                    let turn = kept.turn.map(|turn| turn.to_string()).unwrap_or_default();
                    let fields = [
                        kept.snapshot.id.to_string(),
                        turn,
                        kept.snapshot.time.to_string(),
                        kept.reason.clone(),
                    ];
                    porcelain::write_record(&mut ui.out(), nul, fields)?;
                }
            }
            Format::Human => {
                let mut table = Table::new([
                    Column::new("SNAPSHOT"),
                    Column::new("TURN").right(),
                    Column::new("WHEN"),
                    Column::new("WHY").shrinks_to(10),
                ]);
                let now = context.env.now();
                for kept in &chain {
                    let when = Millis(u64::try_from(kept.snapshot.time).unwrap_or(0) * 1000);
                    table.row([
                        Cell::new(&kept.snapshot.id.to_string()[..12]),
                        Cell::new(kept.turn.map(|turn| turn.to_string()).unwrap_or_default()),
                        Cell::new(human::ago(now, when)),
                        Cell::new(kept.reason.as_str()),
                    ]);
                }
                ui.table(&table)?;
            }
        }
        Ok(0)
    })
}
