//! `git agent snapshot`: takes a snapshot of a session's worktree, or lists them.

use std::io::Write;

use clap::Args;
use git_agent::env::{Env, Millis};
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::{Format, human, json, porcelain};
use git_agent::selection;
use git_agent::session::worktree::snapshot;

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Snapshot {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// List the snapshots, newest first
    #[arg(short, long)]
    list: bool,
    /// The reason
    #[arg(short, long, value_name = "MESSAGE", default_value = "taken by hand")]
    message: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Snapshot) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        if !args.list {
            let taken = snapshot::take(context, &session, &args.message)?;
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
        let chain = snapshot::list(context, &session)?;
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
