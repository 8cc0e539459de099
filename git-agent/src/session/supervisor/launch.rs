//! Starts a session's supervisor: a detached process that outlives the terminal, one per session.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::fault;
use crate::file::{self, Durability};
use crate::model::session::{Session, SessionId, State, Ulid};
use crate::process::detach::{self, own_program};
use crate::process::identity::{Handle, ProcessId};
use crate::process::lock::{self, Lock};
use crate::process::tree;
use crate::session::caller;
use crate::session::supervisor::inbox::Inbox;
use crate::store::Store;

/// The hidden verb that supervises.
pub const VERB: &str = "__supervise";
/// How long the starter waits to hear that the supervisor began well.
const PATIENCE: Duration = Duration::from_secs(10);

/// The record of a supervisor: `run/<sid>.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunFile {
    /// The supervisor.
    pub supervisor: ProcessId,
    /// The agent's process, while one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ProcessId>,
    /// The worktree it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
}

/// Returns the lock that a supervisor holds as long as it lives.
pub fn run_lock(store: &Store<'_>, sid: SessionId) -> PathBuf {
    store.dir().join("run").join(format!("{sid}.lock"))
}

/// Returns the file with a supervisor's errors.
pub fn log_file(store: &Store<'_>, sid: SessionId) -> PathBuf {
    store.dir().join("run").join(format!("{sid}.log"))
}

/// Starts a supervisor, and returns once it has taken hold of the session.
pub fn launch(context: &Context<'_>, sid: SessionId) -> Result<ProcessId> {
    launch_in(&context.store, sid)
}

/// Does the same for code that has the store only.
pub(crate) fn launch_in(store: &Store<'_>, sid: SessionId) -> Result<ProcessId> {
    store.require_dir("run")?;
    let mut environment = store.env.vars_outside_git();
    environment.push(("GIT_DIR".into(), store.repo.common_dir().into()));
    // A session started by an agent may not review that agent's work, even if the agent cleared its environment.
    if store.env.var(caller::MARK).is_none()
        && let Some(mark) = tree::inherited(caller::MARK).into_iter().next()
    {
        environment.push((caller::MARK.into(), mark.into()));
    }
    let spec = detach::Spec {
        program: own_program(),
        arguments: vec![VERB.into(), sid.as_str().into()],
        environment,
        directory: store.repo.common_dir().to_owned(),
        log: log_file(store, sid),
    };
    let started = detach::start(store.env, &spec, PATIENCE)?;
    let id = started.id.clone();
    started.reap_in_background();
    Ok(id)
}

/// Returns the record of a session's supervisor; `None` when none runs.
pub fn running(store: &Store<'_>, sid: SessionId) -> Result<Option<RunFile>> {
    if !lock::is_held(&run_lock(store, sid))? {
        return Ok(None);
    }
    let text = std::fs::read(store.run_file(sid)).unwrap_or_default();
    Ok(serde_json::from_slice(&text).ok())
}

/// Returns the process that works on a session, to be waited for: its supervisor, or the one that starts it. `None` when
/// there is none (any more), or it cannot be seen from here.
pub fn holder(context: &Context<'_>, sid: SessionId) -> Result<Option<Handle>> {
    let store = &context.store;
    for path in [run_lock(store, sid), starting_lock(store, sid)] {
        if let Some(id) = lock::holder(&path)? {
            return id.open(context.env);
        }
    }
    Ok(None)
}

/// Returns the pids of all supervisors of this repository.
pub fn supervisors(store: &Store<'_>) -> Vec<u32> {
    let all = supervised(store).into_iter();
    all.map(|(pid, _)| pid).collect()
}

/// Returns the supervisors of this repository, each with its session.
pub fn supervised(store: &Store<'_>) -> Vec<(u32, SessionId)> {
    let Ok(entries) = std::fs::read_dir(store.dir().join("run")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            path.extension().filter(|kind| *kind == "json")?;
            let sid = path.file_stem()?.to_str()?.parse().ok()?;
            let run: RunFile = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            run.supervisor
                .is_alive(store.env)
                .then_some((run.supervisor.pid, sid))
        })
        .collect()
}

/// Does something that no supervisor may do meanwhile; `None` when one is there. A prompt that comes while this holds the
/// session is left to this process: its turn begins afterwards.
pub fn without_supervisor<T>(
    context: &Context<'_>,
    sid: SessionId,
    work: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let Some(held) = Held::take(context, sid)? else {
        return Ok(None);
    };
    let result = work();
    held.let_go(context)?;
    result.map(Some)
}

/// A session in which no supervisor begins until this is let go.
#[derive(Debug)]
#[must_use]
pub struct Held {
    sid: SessionId,
    lock: Lock,
    /// The prompts with which it rests: it is stopped, say, or was never started. They start nothing by themselves.
    resting: Vec<Ulid>,
}

impl Held {
    /// Takes hold of a session; `None` when another process holds it.
    pub fn take(context: &Context<'_>, sid: SessionId) -> Result<Option<Self>> {
        context.store.require_dir("run")?;
        let path = run_lock(&context.store, sid);
        // Do not wait for a process that is starting a supervisor: that would delay the supervisor itself.
        if lock::is_held(&path)? {
            return Ok(None);
        }
        let inbox = Inbox::open(&context.store, sid)?;
        // Only without a sender in action do all waiting prompts rest. Otherwise a prompt left just before would count as
        // resting here, while its sender sees the lock and leaves the prompt to this process.
        let _settled = inbox.wait_for_senders()?;
        let Some(lock) = Lock::try_acquire(context.env, path)? else {
            return Ok(None);
        };
        let resting = inbox.requests()?;
        fault::point("session.held").context(|| format!("cannot hold session {sid}"))?;
        Ok(Some(Held { sid, lock, resting }))
    }

    /// Releases the session, and starts prompts that came since: their senders saw the lock and left them to this process.
    pub fn let_go(self, context: &Context<'_>) -> Result<()> {
        let inbox = Inbox::open(&context.store, self.sid)?;
        let _sending = inbox.begin_to_send()?;
        drop(self.lock);
        let waiting = inbox.requests()?;
        if waiting.iter().any(|id| !self.resting.contains(id)) {
            launch(context, self.sid)?;
        }
        Ok(())
    }
}

/// Writes the record of a supervisor.
pub fn write_run_file(store: &Store<'_>, sid: SessionId, run: &RunFile) -> Result<()> {
    let path = store.run_file(sid);
    let cannot = || format!("cannot write '{}'", path.display());
    let bytes = serde_json::to_vec(run).context(cannot)?;
    file::replace(&path, bytes, Durability::Volatile)
}

/// Announces a supervisor until dropped: the session's state already needs one, but it was not interrupted.
#[derive(Debug)]
pub struct Starting(Option<Lock>);

impl Starting {
    /// Announces a supervisor. Must come before the record that needs one.
    pub fn announce(store: &Store<'_>, sid: SessionId) -> Result<Self> {
        let lock = Lock::try_acquire(store.env, starting_lock(store, sid))?;
        Ok(Starting(lock))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(lock) = self.0.take() {
            // The lock ends with the process anyway; its file is empty of meaning then.
            let _ = lock.remove();
        }
    }
}

/// Returns whether the process that makes a session, or starts its supervisor, still lives.
pub fn is_starting(store: &Store<'_>, sid: SessionId) -> Result<bool> {
    lock::is_held(&starting_lock(store, sid))
}

fn starting_lock(store: &Store<'_>, sid: SessionId) -> PathBuf {
    store.dir().join("run").join(format!("{sid}.starting"))
}

/// Returns the real state: a session that needs a supervisor and has none was interrupted.
pub fn true_state(store: &Store<'_>, session: &Session) -> Result<State> {
    // In this order: a starter releases its lock only after the supervisor holds the session.
    if session.status.needs_supervisor()
        // The locks in a directory without read permission cannot be seen.
        && !store.is_closed()
        && !is_starting(store, session.sid)?
        && !lock::is_held(&run_lock(store, session.sid))?
    {
        return Ok(State::Interrupted);
    }
    Ok(session.status)
}

/// Puts a session that was read from git into its true state: what a live one has not brought there yet counts too.
pub fn settle_state(store: &Store<'_>, session: &mut Session) -> Result<()> {
    if session.status.needs_supervisor()
        && let Some(fresh) = store.session(session.sid)?
    {
        *session = fresh;
    }
    confirm(store, session)
}

fn confirm(store: &Store<'_>, session: &mut Session) -> Result<()> {
    let mut state = true_state(store, session)?;
    if state != session.status
        && let Some(fresh) = store.session(session.sid)?
    {
        // It may have ended well between the reading and the look at its lock.
        state = true_state(store, &fresh)?;
        *session = fresh;
    }
    session.status = state;
    Ok(())
}

/// Returns one of this clone's sessions as it is now, in its true state.
pub fn current(store: &Store<'_>, sid: SessionId) -> Result<Option<Session>> {
    let mut session = store.session(sid)?;
    if let Some(session) = &mut session {
        confirm(store, session)?;
    }
    Ok(session)
}
