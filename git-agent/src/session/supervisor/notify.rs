//! Tells the user that a session needs attention: starts the command of `agent.notify` without waiting for it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::config::settings;
use crate::context::Context;
use crate::model::session::{Session, State};

/// The notification command.
#[derive(Debug, Clone)]
pub struct Notifier {
    command: Option<String>,
    directory: PathBuf,
}

impl Notifier {
    /// Reads the settings.
    pub fn new(context: &Context<'_>) -> Self {
        let top = context.repo.main_work_tree();
        Notifier {
            command: context.config.text(&settings::NOTIFY),
            directory: top.unwrap_or_else(|| context.repo.common_dir().to_owned()),
        }
    }

    /// Runs the configured command when a session waits, is ready or has failed. A command that fails harms nothing. Returns
    /// the process group that it runs in: it is not the agent's, and may take longer than the session.
    pub fn tell(&self, session: &Session) -> Option<u32> {
        let telling = matches!(
            session.status,
            State::Waiting | State::Ready | State::Failed | State::Stuck | State::Interrupted
        );
        let command = self.command.as_ref().filter(|_| telling)?;
        let reason = session
            .exit
            .as_ref()
            .map_or("", |exit| exit.reason.as_str());
        // The session's words go through the environment, never into the command line: they are foreign text.
        let mut child = Command::new("/bin/sh")
            .arg("-c")
            .arg(command)
            // Not by the name that marks what an agent started: that is ended when its session is started again.
            .env_remove(crate::session::caller::MARK)
            .env("GIT_AGENT_ID", session.sid.as_str())
            .env("GIT_AGENT_NAME", &session.name)
            .env("GIT_AGENT_STATE", session.status.as_str())
            .env("GIT_AGENT_TASK", &session.task)
            .env("GIT_AGENT_REASON", reason)
            .env_remove("GIT_DIR")
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let group = child.id();
        std::thread::spawn(move || child.wait());
        Some(group)
    }
}
