//! The supervisor of one session: waits for its dependencies and a slot, prepares the worktree, runs turn after turn, and
//! decides the outcome of each. Each session has its own process, so that a crash affects only one session.

pub(crate) mod attempt;
pub mod budget;
pub mod dependencies;
pub mod inbox;
pub mod launch;
pub mod limits;
pub(crate) mod mend;
pub mod notify;
pub(crate) mod part;
pub(crate) mod preparation;
pub mod prompts;
pub(crate) mod queue;
pub mod rate_limit;
pub mod socket;
pub mod turn;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{Driver, Turn, TurnClaim};
use crate::agent::leftover_files;
use crate::config::settings;
use crate::context::{Context, secrets};
use crate::env::Env;
use crate::error::{Context as _, Error, Result};
use crate::git::Repo;
use crate::guard::room;
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::session::{Session, SessionId, State};
use crate::model::turn_outcome::{Facts, judge};
use crate::process::detach;
use crate::process::identity::ProcessId;
use crate::process::lock::Lock;
use crate::process::tree::{self, KillCare};
use crate::session::caller;
use crate::session::checks::dead_turns::{self, Occupancy};
use crate::session::checks::read_only::Hold;
use crate::session::checks::turn as turn_checks;
use crate::session::supervisor::inbox::{Inbox, Sending};
use crate::session::supervisor::launch::{RunFile, Starting};
use crate::session::supervisor::notify::Notifier;
use crate::session::supervisor::socket::Socket;
use crate::session::supervisor::turn::{Ending, Live, briefing, mcp_servers};
use crate::session::worktree::setup;
use crate::store::log::writer::SessionWriter;

/// Supervises a session of the repository that the environment names.
pub fn run(env: &Env, sid: SessionId) -> Result<()> {
    let repo = Repo::discover(env)?;
    supervise(&Context::new(env, &repo)?, sid)
}

/// Supervises a session until it has nothing more to do. The process leaves its terminal first, and tells its starter
/// once it has taken hold of the session.
fn supervise(context: &Context<'_>, sid: SessionId) -> Result<()> {
    let mut ready = Some(detach::become_session_leader()?);
    tree::adopt_orphans()?;
    let mut sending = None;
    loop {
        match watch_over(context, sid, &mut ready, &mut sending) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                if let Some(ready) = ready.take() {
                    ready.failed(&error);
                }
                return Err(error);
            }
        }
    }
}

/// Holds a session until it has nothing to do. Returns whether a prompt came meanwhile that is left to this process.
fn watch_over(
    context: &Context<'_>,
    sid: SessionId,
    ready: &mut Option<detach::Ready>,
    sending: &mut Option<Sending>,
) -> Result<bool> {
    let store = &context.store;
    let say = |ready: &mut Option<detach::Ready>, word: &str| {
        if let Some(ready) = ready.take() {
            ready.done(word);
        }
    };
    let lock = Lock::try_acquire(context.env, launch::run_lock(store, sid))?;
    drop(sending.take());
    let Some(lock) = lock else {
        say(ready, "held");
        return Ok(false);
    };
    end_leftovers(context, sid)?;
    let mut supervisor =
        Supervisor::begin(context, sid).inspect_err(|error| cannot_begin(context, sid, error))?;
    // Before anything is waited for: others wait for this. Trouble is met again once the worktree is held.
    let _ = dead_turns::settle(context, &mut supervisor.live, Occupancy::Take);
    supervisor.drop_begun()?;
    supervisor.queue()?;
    say(ready, "");
    let result = supervisor.run();
    if let Err(error) = &result {
        supervisor.give_up(error);
    }
    let over = matches!(result, Ok(true)) && supervisor.live.ending.is_none();
    let resting = supervisor.live.resting(over)?;
    supervisor.finish()?;
    let inbox = Inbox::open(store, sid)?;
    // Until this has hold of the session again: who takes hold in between finds no prompt at rest.
    *sending = Some(inbox.begin_to_send()?);
    // Who waits for a prompt that came after the stop must not find the session at rest.
    let starting = match (over, &resting) {
        (false, Some(_)) => Some(Starting::announce(store, sid)?),
        _ => None,
    };
    drop(lock);
    // Otherwise a prompt that came after the last look and before the release of the lock would stay unread.
    let came = match resting {
        Some(resting) => inbox.requests()?.iter().any(|id| !resting.contains(id)),
        None => false,
    };
    // Another process: the command that stopped this one waits for its end.
    if came && !over {
        launch::launch(context, sid)?;
    }
    drop(starting);
    result?;
    Ok(came && over && inbox.has_prompt()?)
}

/// Records why a session cannot even be begun; otherwise it would look as if its supervisor had died.
fn cannot_begin(context: &Context<'_>, sid: SessionId, error: &Error) {
    let Ok(mut writer) = SessionWriter::open(&context.store, sid, context.redactor()) else {
        return;
    };
    if writer.session().status.needs_supervisor() {
        let _ = writer.set_status(State::Failed, &error.with_causes());
    }
    let _ = writer.close();
}

/// Ends what a supervisor that was killed left running. One that ended well has taken its run file away after it had ended
/// everything, and one that wrote none has started nothing.
fn end_leftovers(context: &Context<'_>, sid: SessionId) -> Result<()> {
    if !context.store.run_file(sid).exists() {
        return Ok(());
    }
    let me = std::process::id();
    let others = launch::supervisors(&context.store);
    let spare =
        |stat: &crate::process::identity::Stat| stat.pid == me || others.contains(&stat.pid);
    let care = KillCare {
        spare: &spare,
        ..KillCare::new(Duration::from_secs(1))
    };
    tree::end_marked(caller::MARK, sid.as_str(), care)?;
    Ok(())
}

struct Supervisor<'c, 'a> {
    context: &'c Context<'a>,
    live: Live<'a>,
    spec: AgentSpec,
    driver: Box<dyn Driver>,
    slot: Option<Lock>,
    /// The slot of its group, where that limits how many run at once.
    group_slot: Option<Lock>,
    worktree: Option<Hold>,
    /// The prompt of the current turn, as it was sent.
    last_prompt: String,
    /// The way of an agent in a cell to our records.
    socket: Option<Socket>,
    /// When the last attempt at a turn began, and how long it took.
    began: Instant,
    worked: Duration,
}

impl<'c, 'a> Supervisor<'c, 'a> {
    fn begin(context: &'c Context<'a>, sid: SessionId) -> Result<Self> {
        let writer = SessionWriter::open(&context.store, sid, context.redactor())?;
        let spec = crate::session::create::choose_agent::of_session(
            &context.config,
            &context.store,
            writer.session(),
        )?;
        let driver = spec.driver();
        let bounds = crate::session::supervisor::limits::load(context, writer.session())?;
        let inbox = Inbox::open(&context.store, sid)?;
        let run = RunFile {
            supervisor: ProcessId::current(context.env)?,
            agent: None,
            worktree: writer.session().local.worktree.clone(),
        };
        launch::write_run_file(&context.store, sid, &run)?;
        let provider = spec.provider(writer.session().model.as_deref());
        let mut live = Live::new(context.env, writer, inbox, bounds, Notifier::new(context))?;
        live.provider = provider;
        live.waits_in_silence = spec.defaults.map(|_| spec.name.clone());
        Ok(Supervisor {
            context,
            live,
            spec,
            driver,
            slot: None,
            group_slot: None,
            worktree: None,
            last_prompt: String::new(),
            socket: None,
            began: Instant::now(),
            worked: Duration::ZERO,
        })
    }

    fn session(&self) -> &Session {
        self.live.writer.session()
    }

    /// Removes a message whose turn began before a crash, before another one can come first and hide that.
    fn drop_begun(&self) -> Result<()> {
        let inbox = self.live.inbox();
        for (id, _) in inbox.list()? {
            if self.session().has_begun(id) {
                inbox.remove(id)?;
            }
        }
        Ok(())
    }

    /// Records that a prompt waits, so that the starter no longer sees the session at rest.
    fn queue(&mut self) -> Result<()> {
        let Some((id, ..)) = self.live.next_prompt()? else {
            return Ok(());
        };
        if self.session().has_begun(id) || self.session().status.is_working() {
            return Ok(());
        }
        self.live.writer.set_status(State::Queued, "")
    }

    /// Runs turns until there is nothing to do. `false` when a prompt had to be left: the session was stopped, or could
    /// not be made ready.
    fn run(&mut self) -> Result<bool> {
        loop {
            if self.live.ending.is_some() {
                return self.stopped();
            }
            let Some((id, prompt)) = self.live.next_prompt()? else {
                if self.linger()? {
                    continue;
                }
                return Ok(true);
            };
            if self.session().has_begun(id) {
                self.live.inbox().remove(id)?;
                continue;
            }
            if !self.get_ready()? {
                return Ok(false);
            }
            self.live.record_notes(&prompt.notes)?;
            // One event says both that the message is delivered and what it says.
            let text = prompt.text.clone();
            let from = prompt.from;
            self.live
                .writer
                .append_as(id, Body::Prompt { text, from })?;
            self.live.writer.note_status(State::Running, "")?;
            // A message leaves the inbox only once it is recorded.
            self.live.writer.sync()?;
            self.live.inbox().remove(id)?;
            for (note, _) in &prompt.notes {
                self.live.inbox().remove(*note)?;
            }
            self.turn(prompt.text, prompt.again)?;
        }
    }

    /// Keeps an agent that is slow to start alive for a while after a turn, unless a command needs the session idle. Returns
    /// whether there is more to do.
    fn linger(&mut self) -> Result<bool> {
        let linger = self.context.config.require(&settings::LINGER)?;
        if linger.is_zero() || !self.driver.capabilities().stays {
            return Ok(false);
        }
        self.free_slots();
        self.worktree = None;
        let until = Instant::now() + linger;
        while Instant::now() < until && !self.live.is_unwanted()? {
            if self.live.idle(Some(until))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn place(&self) -> Result<PathBuf> {
        let path = self.session().local.worktree.as_deref();
        path.map(PathBuf::from)
            .ok_or_else(|| Error::fatal("the session has no worktree"))
    }

    fn stopped(&mut self) -> Result<bool> {
        self.stop_between_turns()?;
        Ok(false)
    }

    /// Returns whether the session has begun something, or has something to begin.
    fn is_at_work(&self) -> Result<bool> {
        Ok(self.session().status.needs_supervisor() || self.live.next_prompt()?.is_some())
    }

    /// Runs a turn. One that continues an earlier one, `again`, is judged by the work of both.
    fn turn(&mut self, prompt: String, again: bool) -> Result<()> {
        let context = self.context;
        self.last_prompt.clone_from(&prompt);
        let worktree = self.place()?;
        self.mend_link(&worktree)?;
        self.live.writer.look_for(secrets::known(context));
        let session = self.session().clone();
        let mut environment = setup::environment(context, &self.spec, &session)?;
        self.provide_artifacts(&session, &mut environment)?;
        self.listen(&environment)?;
        let sockets: Vec<PathBuf> = self
            .socket
            .iter()
            .map(|one| one.path().to_owned())
            .collect();
        let mut held = setup::hold(context, &self.spec, &session, &mut environment, sockets)?;
        self.live.refusals = held.refusals.take();
        self.live.measured = held.measured.clone();
        if let Some(socket) = self.socket.as_ref().filter(|_| held.room.is_some()) {
            socket.announce(&mut environment);
        }
        for news in held.news(&session) {
            self.live.writer.append(news)?;
        }
        self.clear_locks()?;
        let looked = || turn_checks::before_turn(context, &session, held.guard.as_ref());
        let mut before = match self.live.unless_stopped(looked) {
            Err(_) if self.live.ending.is_some() => return self.stop_between_turns(),
            before => before?,
        };
        if !again || !before.go_back(&session) {
            self.live.writer.append(before.as_event())?;
        }
        let mut turn = Turn {
            session: session.sid.to_string(),
            prompt: briefing::prompt(context, &self.spec, &session, &prompt)?,
            number: session.turns,
            resume: session.vendor_session.clone(),
            fork: false,
            worktree,
            scratch: context
                .store
                .require_dir(&format!("scratch/{}", session.sid))?,
            history: briefing::history(context, &session)?,
            model: session.model.clone(),
            ask: setup::asks(context, &session)?,
            read_only: setup::is_read_only(&session),
            mcp_servers: mcp_servers::offered(context, &session, &environment)?,
            instructions: briefing::instructions(context, &self.spec, &session)?,
            environment,
            used: session.usage,
            room: held.room.clone(),
        };
        let named = turn
            .mcp_servers
            .iter()
            .any(|server| server.name == "git-agent");
        if self.spec.takes_servers && !named {
            let own = mcp_servers::own(context, &turn.environment)?;
            turn.mcp_servers.extend(own);
        }
        held.enter(context, &session, &before)?;
        self.tell_of_servers(&turn)?;
        self.find_conversation(&mut turn)?;
        let claim = self.try_turn(&mut turn)?;
        leftover_files::hide(&turn.worktree)?;
        for text in held.settings.put_back() {
            self.live.writer.append(Body::Notice { text })?;
        }
        self.tell_refusals()?;
        self.end_turn(&claim, &before)
    }

    /// Reads and keeps the results of the turn, and decides its outcome.
    fn end_turn(&mut self, claim: &TurnClaim, before: &turn_checks::Before) -> Result<()> {
        if let Some(trouble) = &claim.trouble {
            self.live.writer.append(Body::Error {
                kind: trouble.kind.into(),
                text: trouble.text.clone(),
            })?;
        }
        let after = turn_checks::after_turn(self.context, &mut self.live, before)?;
        let (stopped, over_limit) = match &self.live.ending {
            Some(Ending::Stopped(reason)) => (Some(reason.clone()), None),
            Some(Ending::Signal(_)) => (None, None),
            Some(Ending::Limit(limit)) => (None, Some(limit.clone())),
            Some(Ending::Stuck(words)) => (None, Some(format!("stuck: {words}"))),
            None => (None, None),
        };
        let facts = Facts {
            claim,
            changed: after.changed,
            stopped: stopped.as_deref(),
            over_limit: over_limit.as_deref(),
            read_only: setup::is_read_only(self.session()),
            broken: after.broken.as_deref(),
        };
        let mut verdict = judge(&facts);
        if matches!(self.live.ending, Some(Ending::Signal(_))) {
            verdict.state = State::Interrupted;
            verdict.reason = "the supervisor was ended".to_owned();
        }
        self.settle_part(&mut verdict)?;
        let from = self.session().status;
        self.live.writer.append(Body::Status {
            from,
            to: verdict.state,
            reason: verdict.reason,
            exit: Some(verdict.exit),
        })?;
        self.live.writer.flush()?;
        self.live.notify();
        self.wake_others();
        self.live.end_by_limit_is_over();
        Ok(())
    }

    /// Records that the supervisor itself failed.
    fn give_up(&mut self, error: &Error) {
        let text = error.with_causes();
        let _ = self.live.writer.append(Body::Error {
            kind: ErrorKind::Unclear,
            text: text.clone(),
        });
        if self.session().status.needs_supervisor() {
            let _ = self.live.writer.set_status(State::Failed, &text);
        }
        self.live.notify();
    }

    fn finish(mut self) -> Result<()> {
        let closed = self.driver.close(&mut self.live);
        self.live.sweep()?;
        self.keep_conversation();
        let sid = self.session().sid;
        room::let_go(self.context, sid);
        self.live.close()?;
        match std::fs::remove_file(self.context.store.run_file(sid)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context(|| "cannot remove the run file".into());
            }
            _ => {}
        }
        closed
    }
}
