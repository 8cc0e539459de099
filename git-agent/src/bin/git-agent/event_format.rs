//! The formats of events: text, the recorded lines, or JSON with the session's name.

use std::io::Write;
use std::os::fd::BorrowedFd;

use git_agent::context::Context;
use git_agent::error::{Context as _, Result};
use git_agent::model::event::{Body, Event};
use git_agent::output::transcript::{Writer, is_worth_showing};
use git_agent::output::{Ui, cannot_write, closed_pipe, json, sessions};
use git_agent::session::events;
use git_agent::session::events::live::Audience;
use git_agent::session::events::timeline::{self, Ends, Filter, Join};
use git_agent::session::list::Listed;
use serde_json::Value;

/// The form of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For a person.
    Words,
    /// The record.
    Raw,
    /// The record with the session's id and name.
    Json,
}

/// Shows events of sessions.
pub struct Show<'c, 'a> {
    /// The repository.
    pub context: &'c Context<'a>,
    /// Where to.
    pub ui: &'c Ui,
    /// For words.
    pub writer: Writer<'c>,
    /// Which.
    pub filter: Filter,
    /// How.
    pub form: Form,
    /// Whether outputs are shown whole.
    pub full: bool,
}

impl Show<'_, '_> {
    /// Returns whether an event is shown.
    fn shows(&self, event: &Event) -> bool {
        self.filter.fits(event) && (self.form != Form::Words || self.writer.shows(event))
    }

    /// Shows the events so far, or the last of them.
    pub fn backlog(&mut self, sessions: &[Listed], last: Option<usize>) -> Result<Ends> {
        let context = self.context;
        // Which events are shown must be known while they are being shown.
        let (filter, form, full) = (self.filter, self.form, self.full);
        let wanted = |event: &Event| {
            filter.fits(event)
                && (form != Form::Words
                    || full
                    || is_worth_showing(&event.body)
                    // Usage is shown with the end of a turn.
                    || matches!(event.body, Body::Usage { .. }))
        };
        let mut join = Join::default();
        let mut each = |index: usize, event: Event| {
            let now = match &event.body {
                _ if form != Form::Words => vec![(index, event)],
                Body::Usage { .. } if !full => join.take_aside(index, event),
                _ => join.take(index, event),
            };
            now.into_iter()
                .try_for_each(|(index, event)| self.write(&sessions[index], event))
        };
        let in_words = form == Form::Words && !full;
        let ends = timeline::tell_some(context, sessions, (last, in_words), &wanted, &mut each)?;
        if let Some((index, event)) = join.end() {
            self.write(&sessions[index], event)?;
        }
        Ok(ends)
    }

    /// Shows what waits for a later event, when none comes.
    pub fn finish(&mut self) -> Result<()> {
        self.writer.finish()
    }

    /// Shows the events as one JSON object.
    pub fn envelope(&mut self, sessions: &[Listed], last: Option<usize>) -> Result<()> {
        let (context, filter) = (self.context, self.filter);
        let mut out = self.ui.out();
        let pretty = self.ui.table_width().is_some();
        let mut list = json::List::begin(&mut out, "events", pretty)?;
        let wanted = |event: &Event| filter.fits(event);
        let mut each =
            |index: usize, event: Event| list.item(&with_session(&sessions[index], &event));
        timeline::tell_some(context, sessions, (last, false), &wanted, &mut each)?;
        list.end()
    }

    /// Shows one event.
    fn write(&mut self, listed: &Listed, mut event: Event) -> Result<()> {
        match self.form {
            Form::Words => {
                if self.full {
                    self.unfold(listed, &mut event)?;
                }
                let session = &listed.session;
                let agent = sessions::agent_of(session);
                let worktree = session.local.worktree.clone();
                self.writer.introduce(&session.name, agent, worktree);
                self.writer.event(&listed.session.name, &event)
            }
            Form::Raw => writeln!(self.ui.out(), "{}", event.to_line()).context(cannot_write),
            Form::Json => json::write_line(&mut self.ui.out(), &with_session(listed, &event)),
        }
    }

    /// Replaces the shortened text of a large output by the whole text.
    fn unfold(&self, listed: &Listed, event: &mut Event) -> Result<()> {
        let Body::ToolResult {
            output,
            attachment: Some(name),
            ..
        } = &mut event.body
        else {
            return Ok(());
        };
        let found = events::attached(self.context, listed, name)?;
        if let Some(bytes) = found {
            *output = String::from_utf8_lossy(&bytes).into_owned();
        }
        Ok(())
    }
}

impl Audience for Show<'_, '_> {
    fn event(&mut self, listed: &Listed, event: Event) -> Result<()> {
        if self.shows(&event) {
            self.write(listed, event)
        } else {
            Ok(())
        }
    }

    fn caught_up(&mut self) -> Result<()> {
        self.writer.caught_up()?;
        self.ui.out().flush().context(cannot_write)
    }

    fn gone(&self) -> Option<BorrowedFd<'static>> {
        closed_pipe()
    }
}

fn with_session(listed: &Listed, event: &Event) -> Value {
    let mut value = event.to_json();
    if let Value::Object(fields) = &mut value {
        fields.insert("session".to_owned(), listed.session.sid.as_str().into());
        fields.insert("name".to_owned(), listed.session.name.clone().into());
    }
    value
}
