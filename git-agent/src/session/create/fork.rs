//! A new session that goes on from another's conversation and work, while the other stays as it is.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::session::Session;
use crate::session::create::{self, Created, Options, choose_agent};
use crate::session::worktree::setup;
use crate::store::list::Listed;

/// What to do differently.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The first prompt of the new session.
    pub prompt: String,
    /// Its name.
    pub name: Option<String>,
    /// Another agent.
    pub agent: Option<String>,
    /// A shell command as the agent.
    pub command: Vec<String>,
    /// Another model.
    pub model: Option<String>,
    /// Whether every permission is asked for, if that is to change.
    pub ask: Option<bool>,
    /// Whether it may change nothing; what may not, may not after a fork either.
    pub read_only: bool,
}

/// Goes on from a session that somebody else shared: the new one starts from its code. Its conversation goes over only
/// when a person said so, and nothing that stands in it becomes an option here.
pub fn fork_theirs(
    context: &Context<'_>,
    listed: &Listed,
    changes: &Changes,
    agent: String,
    conversation: bool,
) -> Result<Created> {
    let session = &listed.session;
    let code = [session.code.as_deref(), session.base.as_deref()]
        .into_iter()
        .flatten()
        .filter_map(|hex| context.repo.parse_id(hex).ok())
        .find(|id| context.repo.tree_of(*id).is_ok());
    let start = code.ok_or_else(|| {
        Error::fatal(format!(
            "the code of session '{}' is not here",
            session.name
        ))
        .hint("its owner shares it with: git agent push")
    })?;
    let options = Options {
        task: changes.prompt.clone(),
        name: changes.name.clone(),
        agent,
        command: changes.command.clone(),
        model: changes.model.clone(),
        from: Some(start.to_string()),
        parent_session: Some(session.sid),
        ask: changes.ask,
        read_only: changes.read_only,
        conversation: Some(conversation),
        ..Options::default()
    };
    create::create(context, &options)
}

/// Forks a session: the new one starts from all of its work, and its agent is given the conversation so far.
pub fn fork(context: &Context<'_>, session: &Session, changes: &Changes) -> Result<Created> {
    let another = match changes.command.is_empty() {
        true => changes.agent.clone(),
        false => Some(choose_agent::COMMAND.to_owned()),
    };
    let same_agent = another.is_none();
    let command = match same_agent {
        true => choose_agent::command_of(&context.store, session),
        false => Some(changes.command.clone()),
    };
    if session.agent == choose_agent::COMMAND && command.is_none() {
        return Err(Error::fatal(format!(
            "the command of '{}' is not known here",
            session.name
        ))
        .hint("git agent fork SESSION PROMPT -- COMMAND"));
    }
    let agent = another.unwrap_or_else(|| session.agent.clone());
    let command = command.unwrap_or_default();
    choose_agent::check(&context.config, &agent, &command, &session.name)?;
    let start = crate::session::worktree::work::as_commit(context, session)?;
    let options = Options {
        task: changes.prompt.clone(),
        name: changes.name.clone(),
        agent,
        command,
        model: changes
            .model
            .clone()
            .or_else(|| session.model.clone().filter(|_| same_agent)),
        role: session.role.clone(),
        from: Some(start.to_string()),
        parent: session.parent.clone(),
        parent_session: Some(session.sid),
        ask: changes.ask.or_else(|| session.settings.ask),
        read_only: changes.read_only || setup::is_read_only(session),
        ..Options::default()
    };
    create::create(context, &options)
}
