//! Opens a conversation in the agent's own interface, and records afterwards whether the worktree changed.

use std::process::Command;

use crate::agent::driver::Turn;
use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::model::event::Body;
use crate::model::session::Session;
use crate::process::wait::Signals;
use crate::session::caller::{self, Act};
use crate::session::create::choose_agent;
use crate::session::worktree::hold::while_still;
use crate::session::worktree::{setup, work};
use crate::store::log::writer::SessionWriter;

/// Runs the agent's own interface in the session's worktree, on the same conversation, and returns its exit code.
pub fn attach(context: &Context<'_>, session: &Session) -> Result<i32> {
    caller::permit(context, Act::Enter, [session])?;
    while_still(context, session, || hand_over(context, session))
}

fn hand_over(context: &Context<'_>, session: &Session) -> Result<i32> {
    let name = &session.name;
    let checkout = work::require_checkout(context, session)?;
    let spec = choose_agent::of_session(&context.config, &context.store, session)?;
    let mut environment = setup::environment(context, &spec, session)?;
    let guard = setup::hold_refs(context, session, &mut environment)?;
    // A person sits in front of it now: editors and pagers may open.
    for silent in [
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
    ] {
        environment.remove(std::ffi::OsStr::new(silent));
    }
    let turn = Turn {
        mcp_servers: crate::session::supervisor::turn::mcp_servers::offered(
            context,
            session,
            &environment,
        )?,
        session: session.sid.to_string(),
        number: session.turns,
        resume: session.vendor_session.clone(),
        worktree: checkout.top.clone(),
        scratch: context
            .store
            .require_dir(&format!("scratch/{}", session.sid))?,
        model: session.model.clone(),
        environment,
        ..Turn::default()
    };
    let program = spec.driver().attach(&turn).ok_or_else(|| {
        Error::fatal(format!(
            "agent '{}' has no interactive interface",
            session.agent
        ))
        .hint(format!("git agent send {} …", shell_word(name)))
        .hint(format!("git agent shell {}", shell_word(name)))
    })?;
    let (first, rest) = program
        .argv
        .split_first()
        .ok_or_else(|| Error::fatal("the agent's interface has no command"))?;
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    // An interrupt typed on the terminal is meant for the interface; this process must outlive it to see its results.
    let _deaf = Signals::new(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT])?;
    let mut child = Command::new(first)
        .args(rest)
        .env_clear()
        .envs(&turn.environment)
        .envs(program.env.iter().cloned())
        .current_dir(&checkout.top)
        .spawn()
        .context(|| format!("cannot start '{}'", first.to_string_lossy()))?;
    writer.append(Body::Notice {
        text: "attached to the agent's own interface".to_owned(),
    })?;
    writer.flush()?;
    let status = child
        .wait()
        .context(|| format!("cannot tell how '{}' ended", first.to_string_lossy()))?;
    drop(guard);
    let taken = context
        .store
        .take_snapshot(session.sid, None, "after attach", &checkout)?;
    let kept = context.repo.read_snapshot(taken.id)?;
    let text = if taken.is_new {
        "detached; the worktree changed"
    } else {
        "detached; nothing changed"
    };
    writer.append(Body::Notice {
        text: text.to_owned(),
    })?;
    writer.append(Body::Snapshot {
        commit: taken.id.to_string(),
        tree: kept.tree.to_string(),
        head: kept.head.map(|head| head.to_string()),
    })?;
    writer.close()?;
    Ok(status.code().unwrap_or(128))
}
