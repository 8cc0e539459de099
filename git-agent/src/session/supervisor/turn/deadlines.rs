//! The deadlines of a turn, and the action when one has passed.

use std::time::{Duration, Instant};

use crate::agent::driver::{Input, Link as _, NOBODY};
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::{AnsweredBy, ErrorKind};
use crate::model::session::{Exit, State};
use crate::process::limits::memory_below;
use crate::process::tree;
use crate::session::supervisor::budget::{self, Spent};
use crate::session::supervisor::limits::WhenStuck;
use crate::session::supervisor::turn::disk_usage as usage;
use crate::session::supervisor::turn::pipes::Running;
use crate::session::supervisor::turn::{Ending, Live, retry};

/// How often the memory of a limited process tree is looked at.
const MEMORY_LOOK: Duration = Duration::from_secs(2);
/// How often processes are counted. A program that only starts others must not fill the machine in between.
const PROCESSES_LOOK: Duration = Duration::from_millis(250);
/// How often the size of a session's files is looked at, and how much longer than the look itself took.
const DISK_LOOK: Duration = Duration::from_secs(2);
const DISK_REST: u32 = 20;
/// What a group has used is looked up at most so often: all of its sessions are read for that.
const GROUP_LOOK: Duration = Duration::from_secs(2);

/// Why an agent was ended that can say nothing any more.
const CLOSED: &str = "the agent closed its output without ending, and was ended";

/// When something is due, of all that may be.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) turn_end: Option<Instant>,
    pub(crate) silent_since: Option<Instant>,
    pub(crate) cancel_by: Option<Instant>,
    pub(crate) memory: Option<Instant>,
    pub(crate) processes: Option<Instant>,
    pub(crate) disk: Option<Instant>,
    pub(crate) group: Option<Instant>,
}

impl Live<'_> {
    /// Returns the clocks of a turn that begins now, or goes on.
    pub(crate) fn start_clocks(&self, worked: Duration) -> Clocks {
        let now = Instant::now();
        Clocks {
            group: self.group_time().map(|_| now),
            turn_end: self
                .bounds
                .timeout
                .map(|timeout| now + timeout.saturating_sub(worked)),
            silent_since: Some(now),
            memory: self.bounds.limits.needs_watch().then(|| now + MEMORY_LOOK),
            processes: self.bounds.processes.map(|_| now + PROCESSES_LOOK),
            disk: self.bounds.disk.map(|_| now),
            ..Clocks::default()
        }
    }

    pub(crate) fn next_clock(&self, wake: Option<Instant>) -> Option<Instant> {
        let clocks = &self.clocks;
        let stuck = clocks.silent_since.zip(self.bounds.stuck_after);
        let stuck = stuck.filter(|_| self.writer.session().status == State::Running);
        [
            wake,
            clocks.turn_end,
            self.requests.iter().filter_map(|(_, by)| *by).min(),
            clocks.cancel_by.filter(|_| self.process.is_some()),
            clocks.memory,
            clocks.processes,
            clocks.disk,
            clocks.group,
            self.process.as_ref().and_then(Running::due),
            stuck.map(|(since, after)| since + after),
            self.flush_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns when the written events must be in git.
    pub(crate) fn flush_at(&self) -> Option<Instant> {
        let due = self.writer.flush_deadline()?;
        let left = due.0.saturating_sub(self.env.now().0);
        Some(Instant::now() + Duration::from_millis(left))
    }

    /// Looks at the clocks and acts on those that have run out.
    pub(crate) fn ring(&mut self, now: Instant) -> Result<()> {
        if let Some(running) = &mut self.process {
            running.flush_due(now, self.writer.redactor(), &mut self.queue);
        }
        if self.clocks.turn_end.is_some_and(|end| now >= end) {
            self.clocks.turn_end = None;
            let limit = self.bounds.timeout.unwrap_or_default().as_secs();
            self.limit(format!("over the time limit of {limit} seconds"))?;
        }
        let late = |(_, by): &&(String, Option<Instant>)| by.is_some_and(|by| now >= by);
        while let Some((request, _)) = self.requests.iter().find(late).cloned() {
            self.answer(request, NOBODY.to_owned(), AnsweredBy::Timeout)?;
        }
        let silent = self.clocks.silent_since.zip(self.bounds.stuck_after);
        if silent.is_some_and(|(since, after)| now >= since + after) {
            self.clocks.silent_since = None;
            if self.writer.session().status == State::Running {
                let after = retry::in_words(self.bounds.stuck_after.unwrap_or_default());
                let words = match &self.waits_in_silence {
                    Some(agent) => format!(
                        "no output for {after}; {agent} may be waiting for a rate limit of its provider"
                    ),
                    None => format!("no output for {after}"),
                };
                self.writer.set_status(State::Stuck, &words)?;
                self.notify();
                if self.bounds.when_stuck != WhenStuck::Wait {
                    self.ending.get_or_insert(Ending::Stuck(words));
                    self.cancel();
                }
            }
        }
        if self.clocks.memory.is_some_and(|at| now >= at) {
            self.clocks.memory = Some(now + MEMORY_LOOK);
            let used = memory_below(std::process::id());
            if let Some(limit) = self.bounds.limits.limits.memory
                && used.bytes > limit
            {
                self.limit(format!("over the memory limit of {} MiB", limit >> 20))?;
            }
        }
        self.measure(now)?;
        if self.clocks.group.is_some_and(|at| now >= at) {
            self.check_group(now)?;
        }
        if self.clocks.cancel_by.is_some_and(|by| now >= by) && self.process.is_some() {
            // Asked and not done: from here on the process is simply ended, and the driver sees that.
            self.clocks.cancel_by = None;
            let mute = |running: &Running| running.dialogue && running.stdout.is_none();
            let mute = self.ending.is_none() && self.process.as_ref().is_some_and(mute);
            let mut exit = self.end()?;
            if mute {
                // The signal was ours, and says nothing about it.
                exit = Exit {
                    reason: CLOSED.to_owned(),
                    ..Exit::default()
                };
            }
            self.queue.push_back(Input::Exited(exit));
        }
        Ok(())
    }

    /// Counts processes and measures files, when that is due.
    fn measure(&mut self, now: Instant) -> Result<()> {
        if let Some(limit) = self.bounds.processes
            && self.clocks.processes.is_some_and(|at| now >= at)
        {
            self.clocks.processes = Some(now + PROCESSES_LOOK);
            let count = tree::descendants(std::process::id()).len() as u64;
            if count > limit {
                self.clocks.processes = None;
                self.limit(format!("over the limit of {limit} processes"))?;
            }
        }
        if let Some(limit) = self.bounds.disk
            && self.clocks.disk.is_some_and(|at| now >= at)
        {
            let used = usage::of(&self.measured, limit);
            self.clocks.disk = Some(Instant::now() + DISK_LOOK + now.elapsed() * DISK_REST);
            if used > limit {
                self.clocks.disk = None;
                self.limit(format!("over the disk limit of {} MiB", limit >> 20))?;
            }
        }
        Ok(())
    }

    fn limit(&mut self, words: String) -> Result<()> {
        self.writer.append(Body::Error {
            kind: ErrorKind::Limit,
            text: words.clone(),
        })?;
        self.ending.get_or_insert(Ending::Limit(words));
        self.cancel();
        Ok(())
    }

    /// Ends a turn that must not even begin, because everything it may use is used up. Returns whether that is so.
    pub fn refuse_over_budget(&mut self) -> Result<bool> {
        self.check_budget()?;
        if self.ending.is_none() {
            self.check_group(Instant::now())?;
        }
        Ok(self.ending.is_some())
    }

    pub(crate) fn check_budget(&mut self) -> Result<()> {
        let spent = Spent::of(&self.writer.session().usage);
        if let Some(words) = self.bounds.budget.complaint(&spent, "") {
            return self.limit(words);
        }
        if self.bounds.group.is_some() {
            let soon = Instant::now() + GROUP_LOOK;
            let look = self.clocks.group.map_or(soon, |at| at.min(soon));
            self.clocks.group = Some(look);
        }
        Ok(())
    }

    /// Checks the usage of the group.
    fn check_group(&mut self, now: Instant) -> Result<()> {
        let Some((group, budget)) = self.bounds.group.clone() else {
            return Ok(());
        };
        let spent = budget::spent_by_group(self.writer.store(), &group)?;
        self.clocks.group = self
            .group_time()
            .map(|limit| now + limit.saturating_sub(spent.time).max(GROUP_LOOK));
        let whose = format!(" for group '{group}'");
        match budget.complaint(&spent, &whose) {
            Some(words) if self.ending.is_none() => self.limit(words),
            _ => Ok(()),
        }
    }

    fn group_time(&self) -> Option<Duration> {
        self.bounds.group.as_ref()?.1.time
    }
}
