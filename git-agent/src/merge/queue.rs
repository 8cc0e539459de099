//! The queue: sessions that shall land when they can, one batch after the other, by a process of its own if wanted.
//!
//! It is one file, written whole under a lock: whoever dies leaves it as it was before or after. What runs it takes the
//! same way as a merge by hand, so a batch that dies is put right by the next.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::env::Millis;
use crate::error::{Context as _, Error, Result};
use crate::fault;
use crate::merge::landing::journal;
use crate::merge::run::{self, Answer, Outcome, Plan, Request, Tell};
use crate::merge::update::{self, How};
use crate::model::merge::{Style, Why};
use crate::model::session::{Session, SessionId, State};
use crate::process::detach;
use crate::process::lock::{self, Lock};

pub use crate::process::detach::Ready;

/// The hidden verb that runs the queue in the background.
pub const VERB: &str = "__queue";
/// How long to wait for others who write the queue at the same moment.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often one that waits for sessions looks again.
const PAUSE: Duration = Duration::from_millis(500);

/// A session that waits to land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The session.
    pub sid: SessionId,
    /// Its name.
    pub name: String,
    /// The branch it lands on.
    pub into: String,
    /// When it was added.
    pub added: Millis,
    /// Why it has not landed yet, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Whether it stays out until a person says otherwise.
    #[serde(default)]
    pub held: bool,
}

/// The queue as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Format.
    pub v: u32,
    /// Whether nothing lands for now.
    #[serde(default)]
    pub paused: bool,
    /// Those that wait, oldest first.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
}

/// How a queue is run.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// How sessions are merged, if not as configured.
    pub style: Option<Style>,
    /// What tests the result, if not as configured.
    pub test: Option<String>,
    /// Whether a session whose work fails the tests gets the log as a prompt.
    pub give_back: bool,
    /// Whether to wait for sessions that are not done yet.
    pub wait: bool,
}

fn path(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("merge")?.join("queue.json"))
}

fn runner_lock(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("locks")?.join("merge-queue"))
}

/// Returns where what runs the queue in the background writes.
pub fn log_file(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("merge")?.join("queue.log"))
}

/// Reads the queue.
pub fn load(context: &Context<'_>) -> Result<Queue> {
    let path = path(context)?;
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Queue {
                v: 1,
                ..Queue::default()
            });
        }
        Err(error) => {
            return Err(Error::fatal(format!("cannot read '{}'", path.display())).because(error));
        }
    };
    let queue: Queue = serde_json::from_slice(&bytes)
        .context(|| format!("cannot understand '{}'", path.display()))?;
    match queue.v {
        1 => Ok(queue),
        _ => Err(Error::fatal(format!(
            "'{}' was written by a newer git-agent",
            path.display()
        ))),
    }
}

/// Changes the queue under its lock.
fn change<T>(context: &Context<'_>, how: impl FnOnce(&mut Queue) -> T) -> Result<T> {
    let locks = context.store.require_dir("locks")?;
    let _lock = Lock::acquire(context.env, locks.join("merge-queue-file"), PATIENCE)?;
    let mut queue = load(context)?;
    let before = queue.clone();
    let answer = how(&mut queue);
    if queue != before {
        fault::point("queue.changing").context(|| "cannot write the queue".into())?;
        journal::write_durably(&path(context)?, &queue)?;
        fault::point("queue.changed").context(|| "cannot write the queue".into())?;
    }
    Ok(answer)
}

/// Adds sessions. One that waits already is only freed if it was held. Returns how many are new.
pub fn add(context: &Context<'_>, sessions: &[Session], into: Option<&str>) -> Result<usize> {
    let mut wanted = Vec::new();
    for session in sessions {
        if session.status.is_closed() {
            return Err(Error::fatal(format!(
                "session '{}' is {}",
                session.name, session.status
            )));
        }
        let branch = into.or(session.parent.as_deref()).ok_or_else(|| {
            Error::fatal(format!("session '{}' has no parent", session.name))
                .hint("say where it shall land: --into BRANCH")
        })?;
        if context.repo.branch_tip(branch)?.is_none() {
            return Err(Error::fatal(format!("no branch '{branch}' to merge into"))
                .hint("git branch --list"));
        }
        wanted.push(Waiting {
            sid: session.sid,
            name: session.name.clone(),
            into: branch.to_owned(),
            added: context.env.now(),
            why: String::new(),
            held: false,
        });
    }
    change(context, |queue| {
        let mut new = 0;
        for one in wanted {
            match queue.waiting.iter_mut().find(|known| known.sid == one.sid) {
                Some(known) => {
                    known.held = false;
                    known.into = one.into;
                    known.why.clear();
                }
                None => {
                    queue.waiting.push(one);
                    new += 1;
                }
            }
        }
        new
    })
}

/// Takes sessions out. Returns how many were in.
pub fn remove(context: &Context<'_>, sessions: &[Session]) -> Result<usize> {
    change(context, |queue| {
        let before = queue.waiting.len();
        queue
            .waiting
            .retain(|known| !sessions.iter().any(|session| session.sid == known.sid));
        before - queue.waiting.len()
    })
}

/// Stops or lets go on what runs the queue, now and later. What is under way ends first.
pub fn pause(context: &Context<'_>, paused: bool) -> Result<()> {
    change(context, |queue| queue.paused = paused)
}

/// Returns the process that runs the queue.
pub fn runner(context: &Context<'_>) -> Result<Option<u32>> {
    let path = runner_lock(context)?;
    Ok(lock::holder(&path)?.map(|holder| holder.pid))
}

/// Runs the queue in a process of its own. Returns its number.
pub fn start(context: &Context<'_>, manner: &Manner) -> Result<u32> {
    let mut arguments: Vec<OsString> = vec![VERB.into()];
    if let Some(style) = manner.style {
        arguments.push(format!("--{}", style.as_str()).into());
    }
    if let Some(test) = &manner.test {
        arguments.extend(["--test".into(), test.into()]);
    }
    if manner.give_back {
        arguments.push("--return".into());
    }
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut environment = context.env.vars_outside_git();
    environment.push(("GIT_DIR".into(), context.repo.common_dir().into()));
    if let Some(top) = context.repo.main_work_tree() {
        environment.push(("GIT_WORK_TREE".into(), top.into()));
    }
    let spec = detach::Spec {
        program,
        arguments,
        environment,
        directory: context.repo.common_dir().to_owned(),
        log: log_file(context)?,
    };
    let started = detach::start(context.env, &spec, Duration::from_secs(10))?;
    let pid = started.id.pid;
    started.reap_in_background();
    Ok(pid)
}

/// Leaves the terminal, for the process that runs the queue in the background. It tells its starter when it has begun.
pub fn leave_terminal() -> Result<Ready> {
    detach::become_session_leader()
}

/// Runs the queue until nothing more can land, or until it is paused. Returns what came of each batch.
pub fn run(
    context: &Context<'_>,
    manner: &Manner,
    ready: Option<Ready>,
    tell: &mut Tell<'_>,
    show: &mut dyn FnMut(&Outcome) -> Result<()>,
) -> Result<()> {
    let lock = Lock::try_acquire(context.env, runner_lock(context)?)?;
    let Some(_lock) = lock else {
        let error = Error::fatal("the queue is run by another process already");
        if let Some(ready) = ready {
            ready.failed(&error);
        }
        return Err(error);
    };
    if let Some(ready) = ready {
        ready.done("running");
    }
    loop {
        let landed = pass(context, manner, tell, show)?;
        let queue = load(context)?;
        let open = queue.waiting.iter().any(|one| !one.held);
        if queue.paused || !open || (!landed && !manner.wait) {
            return Ok(());
        }
        if !landed {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Tries every target once. Returns whether anything landed.
fn pass(
    context: &Context<'_>,
    manner: &Manner,
    tell: &mut Tell<'_>,
    show: &mut dyn FnMut(&Outcome) -> Result<()>,
) -> Result<bool> {
    let queue = load(context)?;
    let mut targets: Vec<&str> = queue
        .waiting
        .iter()
        .filter(|one| !one.held)
        .map(|one| one.into.as_str())
        .collect();
    targets.sort_unstable();
    targets.dedup();
    let mut any = false;
    for target in targets {
        if load(context)?.paused {
            return Ok(any);
        }
        let names: Vec<String> = queue
            .waiting
            .iter()
            .filter(|one| one.into == target && !one.held)
            .map(|one| one.sid.to_string())
            .collect();
        let request = Request {
            into: Some(target.to_owned()),
            names,
            style: manner.style,
            test: manner.test.clone(),
            give_back: manner.give_back,
            ..Request::default()
        };
        let right = run::begin(context, tell)?;
        let plan = run::plan(context, &request)?;
        let unasked = &mut |_: &Plan| Ok(Answer::Unasked);
        let done = run::execute(context, &right, plan, &request, tell, unasked)?;
        drop(right);
        let Some(outcome) = done else {
            return Ok(any);
        };
        fault::point("queue.landed").context(|| "cannot run the queue".into())?;
        any |= !outcome.landed.is_empty();
        settle(context, &outcome)?;
        if !outcome.landed.is_empty() {
            bring_up_to_date(context, &outcome);
        }
        if !outcome.landed.is_empty() || outcome.left.iter().any(|left| holds(&left.why)) {
            show(&outcome)?;
        }
    }
    Ok(any)
}

/// Brings those that wait for a person up to date with what has landed, before theirs is looked at. An approval would
/// not survive it, and where it does not go by itself the session stays as it is.
fn bring_up_to_date(context: &Context<'_>, outcome: &Outcome) {
    for left in &outcome.left {
        if matches!(
            left.why,
            Why::NotApproved
                | Why::NotVerified(_)
                | Why::NotByPerson(_)
                | Why::Stale(_)
                | Why::ChangesRequested
        ) && let Ok(Some(session)) = context.store.session(left.sid)
        {
            let how = How::configured(context).unwrap_or_default();
            let _ = update::update(context, &session, &outcome.branch, how);
        }
    }
}

/// Returns whether a reason is one that does not go away by waiting.
fn holds(why: &Why) -> bool {
    !matches!(
        why,
        Why::AtWork(_)
            | Why::NotApproved
            | Why::NotVerified(_)
            | Why::NotByPerson(_)
            | Why::Stale(_)
            | Why::Unseen { .. }
            | Why::ChangesRequested
            | Why::Needs(_)
    )
}

/// Takes what landed out of the queue, and notes why the rest did not.
fn settle(context: &Context<'_>, outcome: &Outcome) -> Result<()> {
    change(context, |queue| {
        queue.waiting.retain(|one| {
            let landed = outcome.landed.iter().any(|part| part.sid == one.sid);
            let returned = outcome.returned.contains(&one.name);
            let over = outcome.left.iter().any(|left| {
                left.sid == one.sid && matches!(left.why, Why::Nothing | Why::State(State::Merged))
            });
            !landed && !returned && !over
        });
        for left in &outcome.left {
            if let Some(one) = queue.waiting.iter_mut().find(|one| one.sid == left.sid) {
                one.why = left.why.to_string();
                one.held = holds(&left.why);
            }
        }
    })
}
