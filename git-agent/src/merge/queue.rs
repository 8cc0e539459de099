//! The merge queue: sessions that wait to be merged, batch after batch, in the foreground or by a background process.
//!
//! The queue is one file that is replaced whole under a lock, so a crash leaves either the old or the new version. The
//! runner calls the same code as a merge by hand, so the next run recovers a batch that died.

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
use crate::merge::run::{self, MergeAnswer, MergeOutcome, MergePlan, MergeRequest, Tell};
use crate::merge::update::{self, How};
use crate::model::merge::{Style, Why};
use crate::model::session::{Session, SessionId, State};
use crate::process::detach;
use crate::process::lock::{self, Lock};
use crate::selection::{self, Selection};
use crate::session::caller::{self, Act};

pub use crate::process::detach::Ready;

/// The hidden verb that runs the queue in the background.
pub const VERB: &str = "__queue";
/// How long to wait for another process that writes the queue.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often `--wait` looks for finished sessions.
const PAUSE: Duration = Duration::from_millis(500);

/// A session that waits to be merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The session's id.
    pub sid: SessionId,
    /// The session's name when it was added.
    pub name: String,
    /// The branch to merge it into.
    pub into: String,
    /// When it was added.
    pub added: Millis,
    /// Why the last try did not merge it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Whether it is skipped until the user adds it again.
    #[serde(default)]
    pub held: bool,
}

/// The queue file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Version of the file format.
    pub v: u32,
    #[serde(default)]
    pub paused: bool,
    /// The waiting sessions, oldest first.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
}

/// Options for a run of the queue.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// The merge style, if not the configured one.
    pub style: Option<Style>,
    /// The test command, if not the configured one.
    pub test: Option<String>,
    /// Whether a session whose work fails the tests gets the log as a prompt.
    pub give_back: bool,
    /// Whether to wait for sessions that are still working.
    pub wait: bool,
}

fn path(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("merge")?.join("queue.json"))
}

fn runner_lock(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("locks")?.join("merge-queue"))
}

/// Returns the path of the background runner's log.
fn log_file(context: &Context<'_>) -> Result<PathBuf> {
    Ok(context.store.require_dir("merge")?.join("queue.log"))
}

/// Reads the queue file.
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
    let queue: Queue =
        serde_json::from_slice(&bytes).context(|| format!("cannot parse '{}'", path.display()))?;
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

/// The queue and the state of its runner.
#[derive(Debug)]
pub struct QueueOverview {
    pub queue: Queue,
    /// The pid of the process that runs it.
    pub runner: Option<u32>,
    /// The log of the background runner, if there is one.
    pub log: Option<PathBuf>,
}

/// Returns the queue and the state of its runner.
pub fn overview(context: &Context<'_>) -> Result<QueueOverview> {
    let runner = lock::holder(&runner_lock(context)?)?;
    Ok(QueueOverview {
        queue: load(context)?,
        runner: runner.map(|holder| holder.pid),
        log: Some(log_file(context)?).filter(|log| log.exists()),
    })
}

/// Returns sessions of this clone by name, id or end of an id.
fn named(context: &Context<'_>, names: &[String]) -> Result<Vec<Session>> {
    let selection = Selection {
        names: names.to_vec(),
        ..Selection::default()
    };
    let chosen = selection::select_all_mine(context, &selection)?;
    Ok(chosen.into_iter().map(|listed| listed.session).collect())
}

/// Adds sessions, and releases those that were held. Returns the number of new ones.
pub fn add(context: &Context<'_>, names: &[String], into: Option<&str>) -> Result<usize> {
    caller::permit(context, Act::Land, [])?;
    let mut wanted = Vec::new();
    for session in named(context, names)? {
        if session.status.is_closed() {
            return Err(Error::fatal(format!(
                "session '{}' is {}",
                session.name, session.status
            )));
        }
        let branch = into.or(session.parent.as_deref()).ok_or_else(|| {
            Error::fatal(format!("session '{}' has no parent", session.name))
                .hint("git agent merge queue add --into BRANCH")
        })?;
        if context.repo.branch_tip(branch)?.is_none() {
            return Err(
                Error::fatal(format!("branch '{branch}' does not exist")).hint("git branch --list")
            );
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

/// Removes sessions. Returns how many were queued.
pub fn remove(context: &Context<'_>, names: &[String]) -> Result<usize> {
    caller::permit(context, Act::Land, [])?;
    let sessions = named(context, names)?;
    change(context, |queue| {
        let before = queue.waiting.len();
        queue
            .waiting
            .retain(|known| !sessions.iter().any(|session| session.sid == known.sid));
        before - queue.waiting.len()
    })
}

/// Pauses or resumes the queue. A running batch ends first.
pub fn pause(context: &Context<'_>, paused: bool) -> Result<()> {
    caller::permit(context, Act::Land, [])?;
    change(context, |queue| queue.paused = paused)
}

/// Resumes the queue, and starts a background process that runs it. Returns its pid.
pub fn start(context: &Context<'_>, manner: &Manner) -> Result<u32> {
    pause(context, false)?;
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

/// Runs the queue until nothing more can land, or until it is paused; a call in the foreground resumes it first. Shows
/// the result of each batch.
pub fn run(
    context: &Context<'_>,
    manner: &Manner,
    ready: Option<Ready>,
    tell: &mut Tell<'_>,
    show: &mut dyn FnMut(&MergeOutcome) -> Result<()>,
) -> Result<()> {
    if ready.is_none() {
        pause(context, false)?;
    }
    let lock = Lock::try_acquire(context.env, runner_lock(context)?)?;
    let Some(_lock) = lock else {
        let error = Error::fatal("another process runs the queue");
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

/// Tries every target branch once. Returns whether anything was merged.
fn pass(
    context: &Context<'_>,
    manner: &Manner,
    tell: &mut Tell<'_>,
    show: &mut dyn FnMut(&MergeOutcome) -> Result<()>,
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
        let request = MergeRequest {
            into: Some(target.to_owned()),
            names,
            style: manner.style,
            test: manner.test.clone(),
            give_back: manner.give_back,
            ..MergeRequest::default()
        };
        let right = run::begin(context, tell)?;
        let plan = run::plan(context, &request)?;
        let unasked = &mut |_: &MergePlan| Ok(MergeAnswer::Unasked);
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

/// Updates the sessions that wait for a review with the newly merged work, so that reviewers see the current state.
/// Approved sessions are left alone, because an update would void the approval; so are sessions that conflict.
fn bring_up_to_date(context: &Context<'_>, outcome: &MergeOutcome) {
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

/// Returns whether only the user can remove this reason; waiting does not.
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

/// Removes the merged sessions from the queue and records why the others stay.
fn settle(context: &Context<'_>, outcome: &MergeOutcome) -> Result<()> {
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
