//! Starts sessions: plans the versions of a task, creates each session and launches its supervisor. A session whose
//! supervisor cannot be launched is undone.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::name;
use crate::model::session::Session;
use crate::process::lock::Lock;
use crate::session::create::{self, Created, Options, carry, choose_agent};
use crate::session::recent;
use crate::session::supervisor::launch;

/// The versions of a task: one session each.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    /// The agents; the default agent if empty.
    pub agents: Vec<String>,
    /// The models; the agent's default if empty.
    pub models: Vec<String>,
    /// How many versions there are at least.
    pub count: Option<u32>,
}

/// Returns the options of each version, with its agent and model chosen. Several versions form a group.
pub fn plan(context: &Context<'_>, mut base: Options, versions: &Versions) -> Result<Vec<Options>> {
    let agents = one_each(&versions.agents);
    let models = one_each(&versions.models);
    let count = (agents.len() * models.len()).max(versions.count.unwrap_or(1) as usize);
    if count == 1 {
        choose(context, &mut base, agents[0], models[0])?;
        return Ok(vec![base]);
    }
    if base.carry {
        return Err(Error::usage(
            "'--carry' moves changes into one session, not into versions",
        ));
    }
    let stem = base
        .name
        .clone()
        .unwrap_or_else(|| name::from_task(&base.task));
    let group = base.group.get_or_insert_with(|| stem.clone()).clone();
    (0..count)
        .map(|index| {
            let mut options = base.clone();
            options.group = Some(group.clone());
            options.name = Some(format!("{stem}-v{}", index + 1));
            let agent = agents[index % agents.len()];
            let model = models[(index / agents.len()) % models.len()];
            choose(context, &mut options, agent, model)?;
            Ok(options)
        })
        .collect()
}

/// Returns each name once, or the one default where no name is given.
fn one_each(names: &[String]) -> Vec<Option<&str>> {
    if names.is_empty() {
        return vec![None];
    }
    names.iter().map(|name| Some(name.as_str())).collect()
}

fn choose(
    context: &Context<'_>,
    options: &mut Options,
    agent: Option<&str>,
    model: Option<&str>,
) -> Result<()> {
    let wish = choose_agent::AgentChoice {
        agent,
        model,
        role: options.role.as_deref(),
        command: &options.command,
        later: options.draft,
    };
    let chosen = choose_agent::choose(&context.config, context.env, &wish)?;
    options.agent = chosen.name;
    options.model = chosen.model;
    Ok(())
}

/// Starts planned sessions one after the other. `tell` is told of each as soon as it runs.
pub fn start_all(
    context: &Context<'_>,
    planned: &[Options],
    tell: &mut dyn FnMut(&Created),
) -> Result<Vec<Created>> {
    let mut started = Vec::with_capacity(planned.len());
    for options in planned {
        let created = start(context, options)?;
        tell(&created);
        started.push(created);
    }
    Ok(started)
}

/// Makes a session and launches its supervisor; a draft is only made. After an error only the log of the supervisor is left.
pub fn start(context: &Context<'_>, options: &Options) -> Result<Created> {
    let (created, ()) = start_after(context, options, |_| Ok(()))?;
    Ok(created)
}

/// Does the same with a step between: `before` sees the session with its worktree, and nothing runs in it yet.
pub fn start_after<T>(
    context: &Context<'_>,
    options: &Options,
    before: impl FnOnce(&Session) -> Result<T>,
) -> Result<(Created, T)> {
    let mut created = if options.carry {
        carry::create(context, options)?
    } else {
        create::create(context, options)?
    };
    let begun = before(&created.session).and_then(|made| {
        if !options.draft {
            launch::launch(context, created.session.sid)?;
        }
        Ok(made)
    });
    match begun {
        Ok(made) => {
            created.starting = None;
            recent::note(context, created.session.sid);
            Ok((created, made))
        }
        Err(error) => Err(undo(context, options, &created.session, error)),
    }
}

/// Undoes a session that could not be started. Returns the error to report.
fn undo(context: &Context<'_>, options: &Options, session: &Session, error: Error) -> Error {
    // A supervisor that runs after all keeps its session.
    let lock = launch::run_lock(&context.store, session.sid);
    let Ok(Some(lock)) = Lock::try_acquire(context.env, lock) else {
        return error;
    };
    let undone = if options.carry {
        carry::take_back(context, session)
    } else {
        Ok(())
    };
    let undone = undone.and_then(|()| create::undo(context, session));
    // Its file has no meaning any more.
    let _ = lock.remove();
    match undone {
        Ok(()) => error,
        Err(second) => error
            .hint(format!(
                "session '{}' was created but not started: {}",
                session.name,
                second.message()
            ))
            .hint(format!("git agent resume {}", shell_word(&session.name))),
    }
}
