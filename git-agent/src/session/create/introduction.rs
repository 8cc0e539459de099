//! The facts that the user is told about a new session: who works on it, who is asked, and which files stay behind.

use crate::agent::catalog::spec::Asking;
use crate::context::Context;
use crate::error::Result;
use crate::model::session::Session;
use crate::session::create::choose_agent;
use crate::session::worktree::setup;

/// Who answers the permissions of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permissions {
    /// The user, each time.
    Asked,
    /// The policy: the agent does not wait for anyone.
    NotAsked,
    /// The user wants to be asked, but the agent cannot ask.
    CannotAsk,
    /// The session is read-only.
    ReadOnly,
}

impl Permissions {
    /// Returns what the agent asks, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Permissions::Asked => "for each permission; answer with: git agent answer",
            Permissions::NotAsked => "nothing; it may do everything in its worktree (--ask asks)",
            Permissions::CannotAsk => "nothing: this agent cannot ask",
            Permissions::ReadOnly => "nothing: it is read-only",
        }
    }
}

/// Returns who answers the permissions of a session's agent.
pub fn permissions(context: &Context<'_>, session: &Session) -> Result<Permissions> {
    if setup::is_read_only(session) {
        return Ok(Permissions::ReadOnly);
    }
    if !setup::asks(context, session)? {
        return Ok(Permissions::NotAsked);
    }
    let spec = choose_agent::of_session(&context.config, &context.store, session)?;
    Ok(match spec.asking {
        Asking::Never => Permissions::CannotAsk,
        Asking::Always | Asking::Sometimes => Permissions::Asked,
    })
}

/// Returns the agent of a session with its model, the configured one if none was chosen.
pub fn agent(context: &Context<'_>, session: &Session) -> Result<String> {
    let spec = choose_agent::of_session(&context.config, &context.store, session)?;
    let model = session.model.clone().or(spec.model);
    Ok(match (session.agent.as_str(), model) {
        (choose_agent::COMMAND, _) => "a shell command".to_owned(),
        (agent, Some(model)) => format!("{agent}, model {model}"),
        (agent, None) => agent.to_owned(),
    })
}

/// Returns how many changed files of the current checkout are not part of a new session. A checkout that cannot be read
/// has none that are worth a word.
pub fn left_behind(context: &Context<'_>) -> u64 {
    let count = || -> Result<u64> {
        let Some(head) = context.repo.head()?.commit else {
            return Ok(0);
        };
        let checkout = context.repo.checkout()?;
        let changes = context.repo.changes_in(&checkout, head, Some(head))?;
        Ok(changes.uncommitted)
    };
    count().unwrap_or(0)
}
