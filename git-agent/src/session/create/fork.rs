//! Forks a session: a new one continues its conversation and work, and the original stays unchanged.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::session::Session;
use crate::session::create::{Created, Options, choose_agent, start};
use crate::session::worktree::setup;
use crate::store::list::Listed;

/// The differences from the original session.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The first prompt of the new session.
    pub prompt: String,
    pub name: Option<String>,
    /// Another agent.
    pub agent: Option<String>,
    /// A shell command as the agent.
    pub command: Vec<String>,
    /// Another model.
    pub model: Option<String>,
    /// Whether every permission is asked for, if that is to change.
    pub ask: Option<bool>,
    /// Whether it is read-only. The fork of a read-only session always is.
    pub read_only: bool,
}

/// Starts a session that goes on from another. `may_read` is asked whether the agent may be given the conversation of a
/// teammate's session: it holds words that this clone did not check.
pub fn fork(
    context: &Context<'_>,
    listed: &Listed,
    changes: &Changes,
    may_read: &mut dyn FnMut(&Session) -> Result<bool>,
) -> Result<Created> {
    let session = &listed.session;
    let options = if listed.is_mine() {
        of_own(context, session, changes)?
    } else {
        let conversation = may_read(session)?;
        of_teammate(context, session, changes, conversation)?
    };
    start::start(context, &options)
}

/// Returns the options for a fork of a teammate's session, which starts from its code. No text of the teammate's
/// session becomes an option here.
fn of_teammate(
    context: &Context<'_>,
    session: &Session,
    changes: &Changes,
    conversation: bool,
) -> Result<Options> {
    let wish = choose_agent::AgentChoice {
        agent: changes.agent.as_deref(),
        command: &changes.command,
        model: changes.model.as_deref(),
        ..choose_agent::AgentChoice::default()
    };
    let chosen = choose_agent::choose(&context.config, context.env, &wish)?;
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
        .hint("its owner can share it: git agent push")
    })?;
    Ok(Options {
        task: changes.prompt.clone(),
        name: changes.name.clone(),
        agent: chosen.name,
        command: changes.command.clone(),
        model: chosen.model,
        from: Some(start.to_string()),
        parent_session: Some(session.sid),
        ask: changes.ask,
        read_only: changes.read_only,
        conversation: Some(conversation),
        ..Options::default()
    })
}

/// Returns the options for a fork of a session of this clone, which starts from all of its work; its agent gets the
/// conversation so far.
fn of_own(context: &Context<'_>, session: &Session, changes: &Changes) -> Result<Options> {
    let another = if changes.command.is_empty() {
        changes.agent.clone()
    } else {
        Some(choose_agent::COMMAND.to_owned())
    };
    let same_agent = another.is_none();
    let command = if same_agent {
        choose_agent::command_of(&context.store, session)
    } else {
        Some(changes.command.clone())
    };
    if session.agent == choose_agent::COMMAND && command.is_none() {
        return Err(Error::fatal(format!(
            "this clone does not know the command of '{}'",
            session.name
        ))
        .hint("git agent fork SESSION PROMPT -- COMMAND"));
    }
    let agent = another.unwrap_or_else(|| session.agent.clone());
    let command = command.unwrap_or_default();
    choose_agent::check(
        &context.config,
        context.env,
        &agent,
        &command,
        &session.name,
    )?;
    let start = crate::session::worktree::work::as_commit(context, session)?;
    Ok(Options {
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
        ask: changes.ask.or(session.settings.ask),
        read_only: changes.read_only || setup::is_read_only(session),
        ..Options::default()
    })
}
