//! The attempts of one turn: the conversation that it continues, the agent's way to us, its run, and whether another
//! attempt follows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use crate::agent::catalog::spec::{COMMAND, conversation_id};
use crate::agent::conversation_files::Native;
use crate::agent::driver::{Trouble, TroubleKind, Turn, TurnClaim};
use crate::error::{Error, Result};
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::session::State;
use crate::model::session::settings::set;
use crate::session::control;
use crate::session::conversation::copy;
use crate::session::conversation::keep::{self, Origin};
use crate::session::supervisor::limits::WhenStuck;
use crate::session::supervisor::socket::Socket;
use crate::session::supervisor::turn::Ending;
use crate::session::supervisor::turn::retry::{self, Patience};
use crate::session::supervisor::{Supervisor, rate_limit};
use crate::session::worktree::{setup, work};

/// Tells the id of a branched-off conversation from those that drivers choose.
const BRANCH: u8 = u8::MAX;

impl Supervisor<'_, '_> {
    /// Listens to the agent, which has no other way to our records from a cell.
    pub(crate) fn listen(&mut self, environment: &BTreeMap<OsString, OsString>) -> Result<()> {
        let session = self.session();
        let at = work::checkout(self.context, session)?;
        if let (None, Some(at)) = (&self.socket, at) {
            let listening = Socket::listen(self.context, session.sid, &at, environment)?;
            self.socket = Some(listening);
        }
        Ok(())
    }

    /// Says once which servers the agent will not have, because it takes none.
    pub(crate) fn tell_of_servers(&mut self, turn: &Turn) -> Result<()> {
        let silent = self.spec.takes_servers || self.spec.name == COMMAND || turn.number > 1;
        if silent || turn.mcp_servers.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = turn
            .mcp_servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        let text = format!(
            "this agent does not support MCP servers: {} is ignored",
            names.join(", ")
        );
        self.live.writer.append(Body::Notice { text })?;
        Ok(())
    }

    /// Records the end of a session that no turn is under way in.
    pub(crate) fn stop_between_turns(&mut self) -> Result<()> {
        match self.live.ending.clone() {
            // An agent that only waits for the next prompt has finished its turn, and the outcome stands.
            Some(Ending::Stopped(_)) if !self.is_at_work()? => Ok(()),
            Some(Ending::Stopped(reason)) => self.live.writer.set_status(State::Stopped, &reason),
            Some(Ending::Limit(reason) | Ending::Stuck(reason)) => {
                self.live.writer.set_status(State::Failed, &reason)
            }
            // The machine goes down, say: `restart` goes on from here.
            Some(Ending::Signal(_)) if self.session().status.needs_supervisor() => self
                .live
                .writer
                .set_status(State::Interrupted, "the supervisor was ended"),
            _ => Ok(()),
        }
    }

    /// Tells what the agent's room refused during the turn, and counts it.
    pub(crate) fn tell_refusals(&mut self) -> Result<()> {
        let refusals = self.live.refusals.take();
        let told = refusals.map(|found| found.in_words()).unwrap_or_default();
        if told.is_empty() {
            return Ok(());
        }
        let before = self.session().settings.refused.unwrap_or(0);
        let count = before + u32::try_from(told.len()).unwrap_or(u32::MAX);
        for text in told {
            self.live.writer.append(Body::Notice { text })?;
        }
        self.live.writer.append(set::refused(Some(count)))?;
        Ok(())
    }

    /// Finds the conversation that a turn goes on with: its own, or the one it branches off from. One that is not on this
    /// machine any more, or never was, is put where the agent looks for it.
    pub(crate) fn find_conversation(&mut self, turn: &mut Turn) -> Result<()> {
        let context = self.context;
        let session = self.session().clone();
        let origin = match turn.resume {
            Some(_) => keep::origin(context, session.sid)?,
            None => copy::origin(context, &self.spec, &session)?,
        };
        let Some(origin) = origin else { return Ok(()) };
        if turn.resume.is_none() && self.spec.native.is_some_and(Native::is_copied) {
            return self.copy_conversation(turn, &origin);
        }
        if turn.resume.is_none() {
            turn.resume.clone_from(&origin.session.vendor_session);
            turn.fork = true;
        }
        let environment = &turn.environment;
        let back = keep::bring_back(context, &self.spec, environment, &origin, &turn.worktree);
        let text = match back {
            Ok(false) => return Ok(()),
            Ok(true) => "the agent's conversation was restored from the session's log".to_owned(),
            // Without it the agent gets the conversation as text.
            Err(error) => format!(
                "the agent's conversation cannot be restored: {}",
                error.with_causes()
            ),
        };
        self.live.writer.append(Body::Notice { text })?;
        Ok(())
    }

    /// Copies the conversation for a fork. Without a copy the agent gets the conversation as text.
    fn copy_conversation(&mut self, turn: &mut Turn, origin: &Origin) -> Result<()> {
        let id = conversation_id(turn, BRANCH);
        match copy::copy(self.context, &self.spec, turn, origin, &id) {
            Ok(Some(id)) => {
                let session = id.clone();
                self.live.writer.append(Body::Vendor { session })?;
                turn.resume = Some(id);
            }
            Ok(None) => {}
            Err(error) => {
                let why = error.with_causes();
                let text = format!("the conversation cannot be copied: {why}");
                self.live.writer.append(Body::Notice { text })?;
            }
        }
        Ok(())
    }

    /// Runs a turn, and runs it again when the provider's limit, a failed model or a silent agent got in its way.
    pub(crate) fn try_turn(&mut self, turn: &mut Turn) -> Result<TurnClaim> {
        let mut patience = Patience::load(self.context)?;
        let mut worked = Duration::ZERO;
        loop {
            let claim = self.attempt(turn, worked)?;
            worked += self.worked;
            let progressed = self.live.last_progress();
            let goes_on = match self.live.ending.clone() {
                Some(Ending::Stuck(words)) => self.start_anew(&mut patience, &words)?,
                Some(_) => false,
                None => self.wait_and_try_again(&mut patience, &claim)?,
            };
            if !goes_on {
                return Ok(claim);
            }
            turn.resume.clone_from(&self.session().vendor_session);
            turn.fork = turn.fork && turn.resume.is_none();
            turn.used = self.session().usage;
            if progressed.is_some() && turn.resume.is_some() {
                control::restart::GO_ON.clone_into(&mut turn.prompt);
            }
        }
    }

    /// Runs a turn once. What earlier attempts have worked counts for the time that a turn may take.
    fn attempt(&mut self, turn: &Turn, worked: Duration) -> Result<TurnClaim> {
        self.worked = Duration::ZERO;
        if self.live.refuse_over_budget()? {
            return Ok(TurnClaim::default());
        }
        self.live.begin(turn, worked)?;
        self.began = Instant::now();
        let claim = match self.driver.turn(turn, &mut self.live) {
            Ok(claim) => claim,
            Err(error) => failed_claim(&error),
        };
        self.worked = self.began.elapsed();
        self.live.withdraw_requests()?;
        let stays = self.driver.capabilities().stays && self.live.ending.is_none();
        if !stays || claim.trouble.is_some() {
            self.driver.close(&mut self.live)?;
            self.live.sweep()?;
        }
        Ok(claim)
    }

    /// Decides whether an agent that was stuck is started again.
    fn start_anew(&mut self, patience: &mut Patience, words: &str) -> Result<bool> {
        if self.live.when_stuck() != WhenStuck::Restart || !patience.once_more() {
            return Ok(false);
        }
        self.live.ending = None;
        self.live.writer.append(Body::Error {
            kind: ErrorKind::Stuck,
            text: format!(
                "{words}: the agent is started again ({} of {})",
                patience.tried(),
                patience.retries
            ),
        })?;
        self.live
            .writer
            .set_status(State::Running, "started again")?;
        Ok(true)
    }

    /// Decides whether a turn that failed is tried again, and waits until it may be: all sessions of the provider do.
    fn wait_and_try_again(&mut self, patience: &mut Patience, claim: &TurnClaim) -> Result<bool> {
        let Some(trouble) = claim.trouble.as_ref().filter(|_| !claim.cancelled) else {
            return Ok(false);
        };
        let since = self.live.last_progress().unwrap_or(self.began);
        let wait = patience.after(trouble, since.elapsed());
        let limited = trouble.kind == TroubleKind::RateLimit;
        let mut until = None;
        if limited && let Some(provider) = &self.live.provider {
            let told = wait.unwrap_or_else(|| retry::wait_for_limit(trouble, patience.tried()));
            // No session waits longer than that: one that asks the provider sooner gets the same answer.
            if told <= patience.cool_down {
                until = Some(rate_limit::note(&self.context.store, provider, told)?);
            }
        }
        let Some(wait) = wait else { return Ok(false) };
        let now = self.context.env.now();
        let until = until.map_or(
            now.0 + u64::try_from(wait.as_millis()).unwrap_or(0),
            |until| rate_limit::turn_of(self.session().sid, until).0,
        );
        let wait = Duration::from_millis(until.saturating_sub(now.0));
        let who = match self.live.provider.as_deref().filter(|_| limited) {
            Some(provider) => format!("all sessions of {provider} wait; this one continues"),
            None => "the next attempt follows".to_owned(),
        };
        self.live.writer.append(Body::Error {
            kind: trouble.kind.into(),
            text: format!(
                "{}; {who} in {} ({} of {})",
                trouble.text.lines().next().unwrap_or_default(),
                retry::in_words(wait),
                patience.tried(),
                patience.retries
            ),
        })?;
        self.live.writer.flush()?;
        // Others may work meanwhile.
        self.free_slots();
        if !self.live.pause(Instant::now() + wait)? {
            return Ok(false);
        }
        self.await_turn()
    }

    /// Keeps the agent's own file of the conversation. That it cannot be kept ends nothing.
    pub(crate) fn keep_conversation(&mut self) {
        let kept =
            setup::environment(self.context, &self.spec, self.session()).and_then(|environment| {
                keep::keep(
                    self.context,
                    &self.spec,
                    &environment,
                    &mut self.live.writer,
                )
            });
        if let Err(error) = kept {
            let text = format!(
                "the agent's conversation cannot be kept: {}",
                error.with_causes()
            );
            let _ = self.live.writer.append(Body::Notice { text });
        }
    }
}

fn failed_claim(error: &Error) -> TurnClaim {
    let kind = match error.kind() {
        crate::error::Kind::Exit(127) => TroubleKind::NotInstalled,
        _ => TroubleKind::Other,
    };
    let trouble = Trouble {
        kind,
        text: error.with_causes(),
        retry_after: None,
    };
    TurnClaim {
        trouble: Some(trouble),
        ..TurnClaim::default()
    }
}
