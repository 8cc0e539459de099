//! The end of a turn of a part of a plan: its work is committed, tested if the plan says so, and a first failure is
//! answered with a second attempt. Other parts start from the commit.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::config::settings;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::Sender;
use crate::model::plan::Gate;
use crate::model::session::settings::set;
use crate::model::session::{Session, State};
use crate::model::turn_outcome::TurnOutcome;
use crate::session::exchange::artifacts;
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::{Supervisor, dependencies};
use crate::session::worktree::{commit, setup};

impl Supervisor<'_, '_> {
    /// Finishes the turn of a part of a plan. Changes the outcome if the tests fail or another attempt follows.
    pub(crate) fn settle_part(&mut self, outcome: &mut TurnOutcome) -> Result<()> {
        if self.session().settings.part.is_none() {
            return Ok(());
        }
        if outcome.state == State::Ready {
            self.commit_part()?;
            self.test_part(outcome)?;
        }
        if outcome.state == State::Ready {
            self.ask_for_artifacts(outcome)?;
        }
        if outcome.state == State::Failed {
            self.try_once_more(outcome)?;
        }
        Ok(())
    }

    /// Commits the work. Without a commit the parts that need this one start from the files as they are.
    fn commit_part(&mut self) -> Result<()> {
        let session = self.session().clone();
        if setup::is_read_only(&session) || session.settings.shares.is_some() {
            return Ok(());
        }
        let body = match commit::commit_all(self.context, &session, None) {
            Ok(None) => return Ok(()),
            Ok(Some(commit)) => Body::Set {
                key: "code".to_owned(),
                value: commit.to_string().into(),
            },
            Err(error) => Body::Notice {
                text: format!("the work could not be committed: {}", error.with_causes()),
            },
        };
        self.live.writer.append(body)?;
        Ok(())
    }

    /// Runs `agent.test` on the work, if the gate of the plan asks for it.
    fn test_part(&mut self, outcome: &mut TurnOutcome) -> Result<()> {
        if self.session().settings.gate != Some(Gate::Tested) {
            return Ok(());
        }
        let Some(command) = self.context.config.text(&settings::TEST) else {
            let text = "the gate is 'tested', but 'agent.test' is not set".to_owned();
            self.live.writer.append(Body::Notice { text })?;
            return Ok(());
        };
        let path = self.place()?;
        let environment = setup::environment(self.context, &self.spec, self.session())?;
        let at = (path.as_path(), &self.spec);
        let tested = setup::test(self.context, &mut self.live, at, environment, &command)?;
        if let Some(words) = tested {
            outcome.state = State::Failed;
            outcome.reason = words;
            outcome.exit.reason.clone_from(&outcome.reason);
        }
        Ok(())
    }

    /// Asks the agent once for the artifacts that its part must leave; the user is told afterwards.
    fn ask_for_artifacts(&mut self, outcome: &mut TurnOutcome) -> Result<()> {
        let missing = artifacts::missing(self.session());
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.join(", ");
        if self.session().settings.asked_artifacts == Some(true) {
            outcome.reason = format!("did not leave the artifact {names}");
            outcome.exit.reason.clone_from(&outcome.reason);
            return Ok(());
        }
        self.live.writer.append(set::asked_artifacts(Some(true)))?;
        let first = &missing[0];
        let text = format!(
            "Other parts of the plan need the artifact {names} from you. Leave it with `git agent artifact put {first} FILE`."
        );
        self.go_on_with(text, outcome, "an artifact is missing")
    }

    fn try_once_more(&mut self, outcome: &mut TurnOutcome) -> Result<()> {
        if self.live.ending.is_some() || self.session().settings.retried == Some(true) {
            return Ok(());
        }
        self.live.writer.append(set::retried(Some(true)))?;
        let reason = outcome.reason.clone();
        let session = self.session();
        let text = match session.vendor_session {
            Some(_) => format!("The last attempt failed: {reason}. Find the cause and go on."),
            // An agent without a memory gets the whole prompt again.
            None => self.last_prompt.clone(),
        };
        self.go_on_with(text, outcome, "failed once, a second attempt follows")
    }

    fn go_on_with(&mut self, text: String, outcome: &mut TurnOutcome, why: &str) -> Result<()> {
        let message = Message::Prompt {
            text,
            from: Sender::Plan,
            again: true,
        };
        self.live.inbox().put(self.context.env, &message)?;
        let reason = match outcome.reason.as_str() {
            "" => why.to_owned(),
            reason => format!("{why}: {reason}"),
        };
        outcome.state = State::Queued;
        outcome.exit.reason.clone_from(&reason);
        outcome.reason = reason;
        Ok(())
    }

    /// Gives the agent the artifacts of other sessions, and records the versions.
    pub(crate) fn provide_artifacts(
        &mut self,
        session: &Session,
        environment: &mut BTreeMap<OsString, OsString>,
    ) -> Result<()> {
        let (directory, versions) = artifacts::provide(self.context, session)?;
        environment.insert(artifacts::VARIABLE.into(), directory.into());
        let before = session.settings.consumed.clone().unwrap_or_default();
        if versions != before {
            let versions = Some(versions).filter(|versions| !versions.is_empty());
            self.live.writer.append(set::consumed(versions))?;
        }
        Ok(())
    }

    /// Starts the sessions that this one blocked, if its turn ended well. Trouble with that is not this session's.
    pub(crate) fn wake_others(&mut self) {
        let session = self.session();
        let passed = matches!(session.status, State::Ready);
        if !passed || session.group.is_none() {
            return;
        }
        let sid = session.sid;
        if let Err(error) = dependencies::wake_blocked(self.context, sid) {
            let text = format!("a session cannot be started: {}", error.with_causes());
            let _ = self.live.writer.append(Body::Notice { text });
        }
    }
}
