//! The way to a turn: the session waits for its dependencies and a slot, and its worktree is made and set up.

use std::path::Path;

use crate::context::secrets;
use crate::error::Result;
use crate::git::{ObjectId, worktree};
use crate::model::event::Body;
use crate::model::session::State;
use crate::model::session::settings::set;
use crate::session::checks::dead_turns::{self, Occupancy};
use crate::session::create;
use crate::session::supervisor::Supervisor;
use crate::session::supervisor::dependencies::{self, Base};
use crate::session::worktree::restore::{self, Which};
use crate::session::worktree::{setup, work};

/// Whether a turn can begin.
enum Readiness {
    Ready,
    /// A session that it depends on went back to work.
    NotYet,
    /// It was stopped, blocked or failed on the way.
    Over,
}

impl Supervisor<'_, '_> {
    /// Brings the session to the point where a turn may begin. `false` when it was stopped or failed on the way.
    pub(crate) fn get_ready(&mut self) -> Result<bool> {
        loop {
            if self.slot.is_none() {
                if !self.session().status.is_working() {
                    self.live.writer.set_status(State::Queued, "")?;
                }
                if !self.await_dependencies()? || !self.await_turn()? || !self.await_worktree()? {
                    return Ok(false);
                }
            }
            match self.make_ready()? {
                Readiness::Ready => return Ok(true),
                Readiness::Over => return Ok(false),
                Readiness::NotYet => {
                    self.free_slots();
                    self.worktree = None;
                }
            }
        }
    }

    /// Prepares the worktree for a turn.
    fn make_ready(&mut self) -> Result<Readiness> {
        dead_turns::settle(self.context, &mut self.live, Occupancy::Held)?;
        if let Some(moved) = work::moved(self.context, self.session())? {
            work::record_move(&mut self.live.writer, &moved)?;
        }
        work::choose_place(self.context, &mut self.live.writer)?;
        setup::choose_port(self.context, &mut self.live)?;
        let path = self.place()?;
        if !self.has_worktree(&path)? || !self.session().local.set_up {
            // Most preparations are over at once: this goes to git with the next thing that must, or by itself soon.
            self.live.writer.note_status(State::Preparing, "")?;
            return self.prepare(&path);
        }
        Ok(Readiness::Ready)
    }

    /// Returns whether the worktree is there and was finished; a change of its files that was interrupted is ended.
    fn has_worktree(&self, path: &Path) -> Result<bool> {
        let admin_dir = worktree::admin_dir_of(self.context.repo, path)?;
        let unfinished = admin_dir.is_some_and(|admin_dir| worktree::is_initializing(&admin_dir));
        if unfinished || !path.join(".git").exists() {
            return Ok(false);
        }
        work::checkout(self.context, self.session())?;
        Ok(true)
    }

    /// Makes the worktree if need be, and runs the setup command in it.
    fn prepare(&mut self, path: &Path) -> Result<Readiness> {
        if !self.session().local.set_up
            && let Some(start) = create::finish(self.context, self.session())?
        {
            self.set_base(start)?;
        }
        if !self.has_worktree(path)? {
            match self.make_worktree()? {
                Readiness::Ready => {}
                other => return Ok(other),
            }
        }
        // The worktree may have brought files with secrets.
        self.live.writer.look_for(secrets::known(self.context));
        let environment = setup::environment(self.context, &self.spec, self.session())?;
        let at = (path, &self.spec);
        if let Some(reason) = setup::run(self.context, &mut self.live, at, environment)? {
            if self.live.ending.is_some() {
                self.stopped()?;
                return Ok(Readiness::Over);
            }
            self.live.writer.set_status(State::Failed, &reason)?;
            self.live.notify();
            return Ok(Readiness::Over);
        }
        self.live.writer.set_local(|local| local.set_up = true)?;
        Ok(Readiness::Ready)
    }

    /// Makes the worktree. One that was removed after a turn is restored with its uncommitted work.
    fn make_worktree(&mut self) -> Result<Readiness> {
        let (context, session) = (self.context, self.session().clone());
        let guest = session.settings.shares.is_some();
        let worked = !guest && context.store.last_snapshot(session.sid)?.is_some();
        let made = if worked {
            restore::bring_back(context, &session, &Which::Last).map(|(_, notices)| (notices, None))
        } else {
            match dependencies::base(context, &session) {
                Ok(Base::NotYet) => return Ok(Readiness::NotYet),
                Ok(Base::Conflict(words)) => {
                    self.block(&words)?;
                    return Ok(Readiness::Over);
                }
                Ok(Base::Made(start, proof)) => create::prepare(context, &session, start, None)
                    .map(|notices| (notices, Some((start, proof)))),
                Err(error) => Err(error),
            }
        };
        let (notices, start) = made.inspect_err(|error| {
            let _ = self.live.writer.set_status(State::Failed, error.message());
        })?;
        for text in notices {
            self.live.writer.append(Body::Notice { text })?;
        }
        if let Some((start, proof)) = start {
            self.set_base(start)?;
            if let Some(proof) = proof {
                self.live.writer.append(set::based_on(Some(proof)))?;
            }
        }
        Ok(Readiness::Ready)
    }

    fn set_base(&mut self, start: ObjectId) -> Result<()> {
        self.live.writer.append(Body::Set {
            key: "base".to_owned(),
            value: start.to_string().into(),
        })?;
        Ok(())
    }
}
