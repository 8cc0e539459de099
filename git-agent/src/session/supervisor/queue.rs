//! The waits of a session before a turn: for the sessions it depends on, its provider, a slot and its worktree.

use std::time::{Duration, Instant};

use crate::config::settings;
use crate::env::Millis;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::session::{SessionId, State};
use crate::process::lock::Lock;
use crate::process::slots::Slots;
use crate::process::slots::news::News;
use crate::process::wait::{Change, Watch};
use crate::session::checks::read_only::Hold;
use crate::session::supervisor::turn::retry;
use crate::session::supervisor::{Supervisor, dependencies, launch, rate_limit};

/// How soon after the first look at the sessions waited for the second comes.
const SOON: Duration = Duration::from_millis(20);
/// How often they are looked at when the wait is long.
const SELDOM: Duration = Duration::from_secs(30);

impl Supervisor<'_, '_> {
    pub(crate) fn await_dependencies(&mut self) -> Result<bool> {
        if !dependencies::are_open(self.session()) {
            return Ok(true);
        }
        let mut news = News::new()?;
        let mut pause = SOON;
        loop {
            match dependencies::look(self.context, self.session())? {
                dependencies::Look::Ready => return Ok(true),
                dependencies::Look::Blocked(reason) => return self.block(&reason),
                dependencies::Look::Waiting(sessions, _) => {
                    self.expect_the_end(&sessions, &mut news, &mut pause)?;
                    if !self.live.wait_also(&news)? {
                        return self.stopped();
                    }
                }
            }
        }
    }

    /// Ends a session that cannot start now. Its prompt stays: it starts again with `resume`, or when the session that it
    /// needs is ready after all.
    pub(crate) fn block(&mut self, reason: &str) -> Result<bool> {
        self.live.writer.set_status(State::Blocked, reason)?;
        self.live.notify();
        Ok(false)
    }

    /// Waits for the end of those who work on these sessions. One may also come to rest and stay, so it is looked at now
    /// and then.
    fn expect_the_end(
        &self,
        sessions: &[SessionId],
        news: &mut News,
        pause: &mut Duration,
    ) -> Result<()> {
        let mut processes = Vec::with_capacity(sessions.len());
        for sid in sessions {
            processes.extend(launch::holder(self.context, *sid)?);
        }
        let all = processes.len() == sessions.len();
        news.until_ended(processes)?;
        // One that has ended meanwhile, or cannot be seen from here, is looked at soon.
        let longest = if all { SELDOM } else { SOON * 50 };
        *pause = (*pause * 2).min(longest);
        news.within(Some(*pause))
    }

    /// Waits until the provider may be asked again and there is room for one more.
    pub(crate) fn await_turn(&mut self) -> Result<bool> {
        loop {
            if !self.await_provider()? || !self.await_slot()? {
                return Ok(false);
            }
            if self.provider_waits()?.is_none() {
                return Ok(true);
            }
            self.free_slots();
        }
    }

    /// Lets other sessions work.
    pub(crate) fn free_slots(&mut self) {
        self.slot = None;
        self.group_slot = None;
    }

    /// Returns until when the session's provider wants to be left alone, if it does and that can be waited for.
    fn provider_waits(&self) -> Result<Option<Millis>> {
        let Some(provider) = self.live.provider.as_deref() else {
            return Ok(None);
        };
        let Some(until) = rate_limit::until_when(&self.context.store, provider) else {
            return Ok(None);
        };
        let left = Duration::from_millis(until.0.saturating_sub(self.context.env.now().0));
        let bearable = left <= retry::longest_cool_down(self.context)?;
        Ok(bearable.then(|| rate_limit::turn_of(self.session().sid, until)))
    }

    pub(crate) fn await_provider(&mut self) -> Result<bool> {
        let mut said = false;
        while let Some(until) = self.provider_waits()? {
            let left = Duration::from_millis(until.0.saturating_sub(self.context.env.now().0));
            if !std::mem::replace(&mut said, true) {
                let provider = self.live.provider.clone().unwrap_or_default();
                let text = format!(
                    "rate limit: all sessions of {provider} wait, this one {}",
                    retry::in_words(left)
                );
                self.live.writer.append(Body::Notice { text })?;
            }
            if !self.live.pause(Instant::now() + left)? {
                return self.stopped();
            }
        }
        Ok(true)
    }

    /// Waits for a slot: first one of its group, if that has a number of its own, then one of all sessions. Always in this
    /// order, so that two sessions never wait for each other.
    pub(crate) fn await_slot(&mut self) -> Result<bool> {
        let session = self.session();
        let of_group = session.settings.batch_size.zip(session.group.clone());
        if let Some((count, group)) = of_group {
            let digest = crate::git::sha256(group.as_bytes());
            let dir = format!("group-slots/{}", &digest[..16]);
            let dir = self.context.store.require_dir(&dir)?;
            let Some(slot) = self.take_slot(&Slots::new(dir, count as usize))? else {
                return self.stopped();
            };
            self.group_slot = Some(slot);
        }
        let count = self.context.config.require(&settings::MAX_PARALLEL)?.max(1);
        let dir = self.context.store.require_dir("slots")?;
        let slots = Slots::new(dir, usize::try_from(count).unwrap_or(usize::MAX));
        let Some(slot) = self.take_slot(&slots)? else {
            return self.stopped();
        };
        self.slot = Some(slot);
        Ok(true)
    }

    /// Waits for one of some slots; `None` if the session was stopped meanwhile.
    fn take_slot(&mut self, slots: &Slots) -> Result<Option<Lock>> {
        let env = self.context.env;
        let priority = self.session().settings.priority.unwrap_or(0);
        if let Some(slot) = slots.try_take(env, priority)? {
            return Ok(Some(slot));
        }
        let mut queued = slots.wait(env, priority)?;
        loop {
            if let Some(slot) = queued.try_take(env)? {
                return Ok(Some(slot));
            }
            if !self.live.wait_also(&queued)? {
                return Ok(None);
            }
        }
    }

    /// Waits until no other session writes in a shared worktree. Without a writer, any number of sessions may read in it.
    pub(crate) fn await_worktree(&mut self) -> Result<bool> {
        let locks = self.context.store.require_dir("worktrees")?;
        let mut watch = Watch::new()?;
        watch.add(&locks, Change::Settled)?;
        loop {
            self.worktree = Hold::take(self.context, self.session(), &locks)?;
            if self.worktree.is_some() {
                return Ok(true);
            }
            if !self.live.wait_also(&watch)? {
                return self.stopped();
            }
            watch.take();
        }
    }
}
