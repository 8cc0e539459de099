//! Finds all processes below this one, or marked as ours by their environment, and ends them.
//!
//! Agents start tools in their own sessions, and launchers die before their programs, so that neither the child nor its
//! process group is enough. A supervisor that [adopts orphans](adopt_orphans) finds all processes below itself. The
//! marker finds those that a killed supervisor left behind.
//!
//! Every signal goes to one process through a pidfd with a compared start time (see [`crate::process::identity`]),
//! never to a pid or a group, so that a reused pid is safe. This process, its ancestors and pid 1 are never signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, geteuid, getpid, set_child_subreaper, waitpid};

use crate::error::{Context, Error, Result};
use crate::process::identity::{Handle, Signal, Stat, raw_pid};
use crate::process::wait::Poll;

/// How many processes are waited for at once; more could exhaust this process's descriptors.
const AT_ONCE: usize = 200;
/// How much of an environment is read. The kernel allows more, but markers come first.
const ENVIRONMENT: u64 = 2 << 20;
/// How many ancestors are examined.
const ANCESTORS: usize = 64;
/// How long killed processes may take to vanish before we give up.
const STUBBORN: Duration = Duration::from_secs(5);

/// Makes this process the parent of every orphan below it, so that none can escape.
pub fn adopt_orphans() -> Result<()> {
    set_child_subreaper(Some(getpid())).context(|| "cannot adopt orphaned processes".into())
}

/// Returns all processes below one, zombies too, parents first.
pub fn descendants(pid: u32) -> Vec<Stat> {
    let mut found: Vec<Stat> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let Some(children) = children(parent) else {
            // The kernel does not list children here, so ask every process for its parent.
            return below(&snapshot(), &BTreeSet::from([pid]), &|_| false);
        };
        for stat in children.into_iter().filter_map(Stat::of) {
            // A pid may have been reused since the list was read.
            if stat.parent == parent && !found.iter().any(|known| known.pid == stat.pid) {
                parents.push(stat.pid);
                found.push(stat);
            }
        }
    }
    found
}

/// Returns how many bytes a process and its descendants have read and written so far; 0 where the system does not
/// report it.
pub fn traffic(pid: u32) -> u64 {
    let of = |pid: u32| -> u64 {
        let told = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        told.lines()
            .filter_map(|line| {
                line.strip_prefix("rchar: ")
                    .or(line.strip_prefix("wchar: "))
            })
            .filter_map(|count| count.parse::<u64>().ok())
            .sum()
    };
    let below = descendants(pid).into_iter().map(|stat| of(stat.pid));
    below.fold(of(pid), u64::wrapping_add)
}

/// Returns this user's living processes that were started with `name=value` in their environment, except this one, its
/// ancestors and pid 1.
pub fn marked(name: &str, value: &str) -> Vec<Stat> {
    let stats = snapshot();
    let protected = protected(&stats);
    stats
        .into_values()
        .filter(|stat| !protected.contains(&stat.pid) && !stat.is_dead())
        .filter(|stat| has_marker(stat.pid, name, value))
        .collect()
}

/// Returns the values that a variable had when this process and its ancestors were started, the nearest first. A
/// process can change its own variables, but not those of its parent.
pub fn inherited(name: &str) -> Vec<String> {
    let value = |pid: u32| {
        let mut environment = Vec::new();
        let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
        file.take(ENVIRONMENT).read_to_end(&mut environment).ok()?;
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            String::from_utf8(value.to_vec()).ok()
        })
    };
    upwards().into_iter().filter_map(value).collect()
}

/// Returns the nearest of some processes that is above this one.
pub fn nearest_above(pids: &[u32]) -> Option<u32> {
    let mut above = upwards().into_iter().skip(1);
    above.find(|pid| pids.contains(pid))
}

/// Returns whether a process is above this one.
pub fn is_below(pid: u32) -> bool {
    upwards().into_iter().skip(1).any(|above| above == pid)
}

/// Returns this process and its ancestors, the nearest first, without pid 1.
fn upwards() -> Vec<u32> {
    let first = std::process::id();
    let parent = |pid: &u32| Some(Stat::of(*pid)?.parent).filter(|parent| *parent > 1);
    std::iter::successors(Some(first), parent)
        .take(ANCESTORS)
        .collect()
}

/// Collects the exit status of adopted processes that have ended, so that no zombie remains. Returns their number.
///
/// Children in `keep` are left to the code that waits for them.
pub fn reap(keep: &[u32]) -> usize {
    let me = std::process::id();
    let mut reaped = 0;
    for stat in descendants(me) {
        if stat.parent == me && stat.is_dead() && !keep.contains(&stat.pid) {
            let taken = raw_pid(stat.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
            reaped += usize::from(matches!(taken, Some(Ok(Some(_)))));
        }
    }
    reaped
}

/// Constraints for ending processes.
#[derive(Clone, Copy)]
pub struct KillCare<'a> {
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// Selects processes to leave alone with all their descendants, such as the supervisor of another session.
    pub spare: &'a dyn Fn(&Stat) -> bool,
    /// Children whose exit status other code takes.
    pub keep: &'a [u32],
}

impl KillCare<'_> {
    /// Returns constraints with only a grace time.
    pub fn new(grace: Duration) -> Self {
        KillCare {
            grace,
            spare: &|_| false,
            keep: &[],
        }
    }
}

/// The result of ending processes.
#[derive(Debug, Default)]
pub struct Ended {
    /// Processes that ended on TERM.
    pub asked: Vec<Stat>,
    /// Processes that had to be killed.
    pub killed: Vec<Stat>,
    /// Processes that remain: we may not signal them, or they are stuck in the kernel.
    pub left: Vec<Stat>,
}

/// Ends and reaps every process below this one. Requires [`adopt_orphans`] before they started.
pub fn end_all(care: KillCare<'_>) -> Result<Ended> {
    reap(care.keep);
    // Orphans become our children, and a zombie stays a child until it is reaped: without a child there is no
    // descendant.
    if children(std::process::id()).is_some_and(|children| children.is_empty()) {
        return Ok(Ended::default());
    }
    let mut end = End::new(care);
    end.reaps = true;
    end.run(&|stats| below(stats, &BTreeSet::from([std::process::id()]), care.spare))
}

/// Ends this user's processes that were started with `name=value` in their environment, and their descendants.
pub fn end_marked(name: &str, value: &str, care: KillCare<'_>) -> Result<Ended> {
    End::new(care).run(&|stats| {
        stats
            .values()
            .filter(|stat| has_marker(stat.pid, name, value))
            .cloned()
            .collect()
    })
}

type ProcessTable = BTreeMap<u32, Stat>;

/// An ending in progress.
struct End<'a> {
    care: KillCare<'a>,
    /// Whether we reap ended children. When ending unrelated processes, other code may wait for our children.
    reaps: bool,
    /// All targets so far, by pid and start time: a process stays a target when its parent dies.
    seen: BTreeMap<(u32, u64), Stat>,
    asked: BTreeSet<(u32, u64)>,
    killed: BTreeSet<(u32, u64)>,
    refused: BTreeSet<(u32, u64)>,
}

impl<'a> End<'a> {
    fn new(care: KillCare<'a>) -> Self {
        End {
            care,
            reaps: false,
            seen: BTreeMap::new(),
            asked: BTreeSet::new(),
            killed: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    fn run(mut self, find: &dyn Fn(&ProcessTable) -> Vec<Stat>) -> Result<Ended> {
        let grace = Instant::now().checked_add(self.care.grace);
        loop {
            let alive = self.scan(find);
            if alive.is_empty() || grace.is_none_or(|grace| Instant::now() >= grace) {
                break;
            }
            for stat in &alive {
                if self.asked.insert(key(stat)) {
                    self.signal(stat, Signal::TERM)?;
                    // A stopped process handles the signal only after it continues.
                    if stat.state == 'T' {
                        self.signal(stat, Signal::CONT)?;
                    }
                }
            }
            wait_for_any(&alive, grace)?;
        }
        let mut given_up = Instant::now() + STUBBORN;
        loop {
            let alive = self.scan(find);
            if alive.is_empty() || Instant::now() >= given_up {
                return Ok(self.outcome(&alive));
            }
            for stat in &alive {
                if self.killed.insert(key(stat)) {
                    // A new process, which needs its own time to vanish.
                    given_up = Instant::now() + STUBBORN;
                }
                self.signal(stat, Signal::KILL)?;
            }
            wait_for_any(&alive, Some(Instant::now() + Duration::from_millis(100)))?;
        }
    }

    /// Returns the living targets that may be signalled, and reaps the dead.
    fn scan(&mut self, find: &dyn Fn(&ProcessTable) -> Vec<Stat>) -> Vec<Stat> {
        if self.reaps {
            reap(self.care.keep);
        }
        let stats = snapshot();
        let protected = protected(&stats);
        let mut targets: BTreeMap<u32, Stat> = find(&stats)
            .into_iter()
            .chain(self.seen.values().cloned())
            .filter(|stat| !(self.care.spare)(stat))
            .map(|stat| (stat.pid, stat))
            .collect();
        // A dead target does not identify the process that has its pid now.
        targets.retain(|pid, stat| stats.get(pid).is_some_and(|now| key(now) == key(stat)));
        let roots: BTreeSet<u32> = targets
            .keys()
            .filter(|pid| !protected.contains(pid))
            .copied()
            .collect();
        for stat in below(&stats, &roots, self.care.spare) {
            targets.insert(stat.pid, stat);
        }
        // A group whose leader is a target belongs to it, even if its members were orphaned away from us.
        for stat in stats.values() {
            if roots.contains(&stat.group) && !(self.care.spare)(stat) {
                targets.insert(stat.pid, stat.clone());
            }
        }
        targets.retain(|pid, _| !protected.contains(pid));
        for stat in targets.values() {
            self.seen.insert(key(stat), stat.clone());
        }
        targets
            .keys()
            .filter_map(|pid| stats.get(pid))
            .filter(|stat| !stat.is_dead() && !self.refused.contains(&key(stat)))
            .cloned()
            .collect()
    }

    fn signal(&mut self, stat: &Stat, signal: Signal) -> Result<()> {
        let sent = match Handle::open(stat.pid, stat.start_time) {
            Ok(Some(handle)) => handle.signal(signal).map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match sent {
            // A program of another user, started through sudo or the like. It is reported at the end.
            Err(error) if is_permission(&error) => {
                self.refused.insert(key(stat));
                Ok(())
            }
            other => other,
        }
    }

    fn outcome(self, alive: &[Stat]) -> Ended {
        // The last process to die may have left its own zombies to us.
        while self.reaps && reap(self.care.keep) > 0 {}
        let left: BTreeSet<_> = alive.iter().map(key).chain(self.refused).collect();
        let mut ended = Ended::default();
        for (key, stat) in self.seen {
            if left.contains(&key) {
                ended.left.push(stat);
            } else if self.killed.contains(&key) {
                ended.killed.push(stat);
            } else if self.asked.contains(&key) {
                ended.asked.push(stat);
            }
        }
        ended
    }
}

fn key(stat: &Stat) -> (u32, u64) {
    (stat.pid, stat.start_time)
}

fn is_permission(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rustix::io::Errno>())
        .is_some_and(|errno| *errno == rustix::io::Errno::PERM)
}

/// Sleeps until one of these processes has ended, or until the deadline.
fn wait_for_any(stats: &[Stat], deadline: Option<Instant>) -> Result<()> {
    let mut handles = Vec::new();
    for stat in stats.iter().take(AT_ONCE) {
        match Handle::open(stat.pid, stat.start_time)? {
            Some(handle) => handles.push(handle),
            None => return Ok(()),
        }
    }
    let mut poll = Poll::new();
    for handle in &handles {
        poll.read((), handle);
    }
    poll.wait(deadline).map(drop)
}

/// Returns every process of the machine.
fn snapshot() -> ProcessTable {
    let Ok(listing) = std::fs::read_dir("/proc") else {
        return ProcessTable::new();
    };
    listing
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Stat::of)
        .map(|stat| (stat.pid, stat))
        .collect()
}

/// Returns the descendants of these, without spared processes and their descendants.
fn below(stats: &ProcessTable, roots: &BTreeSet<u32>, spare: &dyn Fn(&Stat) -> bool) -> Vec<Stat> {
    let mut children: BTreeMap<u32, Vec<&Stat>> = BTreeMap::new();
    for stat in stats.values() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut known = roots.clone();
    let mut parents: Vec<u32> = roots.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        for stat in children.get(&parent).into_iter().flatten() {
            if !spare(stat) && known.insert(stat.pid) {
                parents.push(stat.pid);
                found.push((*stat).clone());
            }
        }
    }
    found
}

/// Returns the processes that are never signalled: this one, its ancestors, and pid 1.
fn protected(stats: &ProcessTable) -> BTreeSet<u32> {
    let mut protected = BTreeSet::from([0, 1]);
    let mut next = std::process::id();
    // A pid seen twice would be a loop, which only an inconsistent snapshot can show.
    while protected.insert(next) {
        next = match stats.get(&next) {
            Some(stat) => stat.parent,
            None => break,
        };
    }
    protected
}

/// Returns the children of a process as the kernel lists them; `None` where it does not.
fn children(pid: u32) -> Option<Vec<u32>> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Some(Vec::new());
    };
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(text) => pids.extend(text.split_ascii_whitespace().flat_map(str::parse::<u32>)),
            // The thread ended, or the kernel was built without the list.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(pids)
}

fn has_marker(pid: u32, name: &str, value: &str) -> bool {
    let mine = std::fs::metadata(format!("/proc/{pid}"))
        .is_ok_and(|metadata| metadata.uid() == geteuid().as_raw());
    if !mine {
        return false;
    }
    let mut environment = Vec::new();
    let read = std::fs::File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(ENVIRONMENT).read_to_end(&mut environment));
    read.is_ok()
        && environment.split(|byte| *byte == 0).any(|variable| {
            variable
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
                == Some(value.as_bytes())
        })
}

#[cfg(test)]
#[path = "tests/tree.rs"]
mod tests;
