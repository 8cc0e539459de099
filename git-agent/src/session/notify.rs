//! Telling a person that a session needs them: the command of `agent.notify`, started and not waited for.

use std::process::{Command, Stdio};

use super::context::Context;
use super::{Session, State};

/// Runs the configured command when a session waits, is ready or has failed. A command that fails harms nothing.
pub fn tell(context: &Context<'_>, session: &Session) {
    let telling = matches!(
        session.status,
        State::Waiting | State::Ready | State::Failed | State::Stuck | State::Interrupted
    );
    let Some(command) = context.config.string("agent.notify").filter(|_| telling) else {
        return;
    };
    let reason = session
        .exit
        .as_ref()
        .map_or("", |exit| exit.reason.as_str());
    // The session's words go through the environment, never into the command line: they are foreign text.
    let started = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env("GIT_AGENT_SESSION", session.sid.as_str())
        .env("GIT_AGENT_NAME", &session.name)
        .env("GIT_AGENT_STATE", session.status.as_str())
        .env("GIT_AGENT_TASK", &session.task)
        .env("GIT_AGENT_REASON", reason)
        .env_remove("GIT_DIR")
        .current_dir(
            context
                .repo
                .main_work_tree()
                .as_deref()
                .unwrap_or(context.repo.common_dir()),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = started {
        std::thread::spawn(move || child.wait());
    }
}
