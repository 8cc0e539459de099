//! Prompts and messages of a running session: which one is next, and their place in the transcript.

use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::Sender;
use crate::model::session::settings::set;
use crate::model::session::{SessionId, Ulid};
use crate::process::lock;
use crate::session::exchange::messages;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch;
use crate::session::supervisor::turn::{Live, Prompt};

impl Live<'_> {
    /// Returns the oldest prompt that waits.
    pub fn next_prompt(&self) -> Result<Option<(Ulid, Prompt)>> {
        let mut notes = Vec::new();
        let done = self.writer.session().settings.notes_done;
        for (id, message) in self.inbox.list()? {
            match message {
                Message::Prompt { text, from, again } => {
                    let notes = Vec::new();
                    let prompt = Prompt {
                        text,
                        from,
                        again,
                        notes,
                    };
                    return Ok(Some((id, prompt)));
                }
                // Delivered before a crash.
                Message::Note { .. } if done.is_some_and(|done| id <= done) => {
                    self.inbox.remove(id)?;
                }
                Message::Note { .. } => notes.push((id, message)),
                _ => {}
            }
        }
        // All that wait become one prompt.
        let last = notes.last().map(|(id, _)| *id);
        Ok(last.map(|id| {
            let prompt = Prompt {
                text: messages::frame(&notes),
                from: Sender::Message,
                again: false,
                notes,
            };
            (id, prompt)
        }))
    }

    /// Records a message that the session sent, or read while it waited for it.
    pub(crate) fn record_message(&mut self, id: Ulid, message: Message) -> Result<()> {
        let session = self.writer.session();
        let own = session.name.clone();
        let sent = session.settings.messages_sent.unwrap_or(0) + 1;
        let (message, from, to, re, text) = match message {
            Message::Sent {
                message,
                to,
                re,
                text,
            } => {
                self.writer.append(set::messages_sent(Some(sent)))?;
                (message, own, to, re, text)
            }
            Message::Read { from, re, text } | Message::Note { from, re, text, .. } => {
                (id, from, own, re, text)
            }
            _ => return Ok(()),
        };
        self.writer.append(Body::Message {
            message: message.to_string(),
            from,
            to,
            re: re.map(|re| re.to_string()),
            text,
        })?;
        // It leaves the inbox next.
        self.writer.sync()
    }

    /// Records the messages that a prompt delivers.
    pub(crate) fn record_notes(&mut self, notes: &[(Ulid, Message)]) -> Result<()> {
        for (id, message) in notes {
            self.record_message(*id, message.clone())?;
        }
        if let Some((last, _)) = notes.last() {
            self.writer.append(set::notes_done(Some(*last)))?;
        }
        Ok(())
    }

    /// Starts the supervisor of a session that got a message, unless it has one.
    pub(crate) fn wake(&mut self, sid: SessionId) -> Result<()> {
        let store = self.writer.store();
        let inbox = Inbox::open(store, sid)?;
        let _sending = inbox.begin_to_send()?;
        if inbox.has_prompt()? && !lock::is_held(&launch::run_lock(store, sid))? {
            let woken = launch::launch_in(store, sid);
            if let Err(error) = woken {
                let text = format!("a session cannot be woken: {}", error.with_causes());
                self.writer.append(Body::Notice { text })?;
            }
        }
        Ok(())
    }
}
