//! Messages to a running session: one file each, durable before the sender returns, taken in order by the supervisor.
//!
//! Files instead of a socket, so that a prompt sent to a session whose supervisor just died is not lost: the next one
//! finds it.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::{Env, Millis};
use crate::error::{Context, Result};
use crate::file::{self, Durability};
use crate::model::event::PlanEntry;
use crate::model::event_words::Sender;
use crate::model::session::{SessionId, Ulid};
use crate::process::lock::Lock;
use crate::process::slots::doorbell::{self, Doorbell};
use crate::store::Store;

/// How long others may take to leave a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something said to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// A message of another session or of the user, delivered at the end of a turn.
    Note {
        /// The sender's name.
        from: String,
        /// The sender, if it is a session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        re: Option<Ulid>,
        /// The text.
        text: String,
    },
    /// A message that the session waited for and has read: it is only recorded.
    Read {
        /// The sender's name.
        from: String,
        /// The message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        re: Option<Ulid>,
        /// The text.
        text: String,
    },
    /// The session sent a message.
    Sent {
        /// The message.
        message: Ulid,
        /// The receiver's name.
        to: String,
        /// The message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        re: Option<Ulid>,
        /// The text.
        text: String,
    },
    /// The session wanted to send more messages than it may.
    TooMany {
        /// How many it may send.
        most: u64,
    },
    /// Start the supervisor of a session that received a message.
    Wake {
        /// The session.
        session: SessionId,
    },
    /// The session left an artifact; its content is in a file of the inbox.
    Artifact {
        /// Its name.
        name: String,
        /// The SHA-256 of its content, and the name of the file.
        digest: String,
    },
    /// The agent's own plan and how far it is.
    Progress {
        /// The steps.
        entries: Vec<PlanEntry>,
    },
    /// A further prompt.
    Prompt {
        /// The text.
        text: String,
        /// The sender, as the transcript names it.
        from: Sender,
        /// Whether it only continues an earlier prompt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// An answer to a request.
    Answer {
        /// The request.
        request: String,
        /// The chosen option or free text.
        choice: String,
    },
    /// End the turn and the supervisor.
    Stop {
        /// Why, in words.
        reason: String,
    },
    /// End the supervisor if it only waits for the next prompt.
    Leave,
    /// Begin the prompts that rest in the inbox. A process that holds the session for a moment starts a supervisor for it.
    Begin,
}

impl Message {
    /// Returns whether a supervisor is started for it.
    pub fn needs_supervisor(&self) -> bool {
        self.is_prompt() || matches!(self, Message::Begin)
    }

    /// Returns whether it starts a turn.
    pub fn is_prompt(&self) -> bool {
        matches!(self, Message::Prompt { .. } | Message::Note { .. })
    }

    /// Returns a note as one that the session has read.
    #[must_use]
    pub fn read(self) -> Self {
        match self {
            Message::Note { from, re, text, .. } => Message::Read { from, re, text },
            other => other,
        }
    }
}

/// Holds the way of prompts to a session's supervisor, until dropped.
#[derive(Debug)]
#[must_use]
pub struct Sending(#[expect(dead_code, reason = "it only has to live")] fs::File);

/// A session's messages.
#[derive(Debug, Clone)]
pub struct Inbox {
    dir: PathBuf,
}

impl Inbox {
    /// Returns a session's inbox, made if need be.
    pub fn open(store: &Store<'_>, sid: SessionId) -> Result<Self> {
        Ok(Inbox {
            dir: store.require_dir(&format!("inbox/{sid}"))?,
        })
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Listens for messages from now on. One process does at a time: the session's supervisor.
    pub fn listen(&self) -> Result<Doorbell> {
        Doorbell::listen(&self.bell())
    }

    fn bell(&self) -> PathBuf {
        self.dir.join(".bell")
    }

    /// Leaves a message; it is on disk when this returns.
    pub fn put(&self, env: &Env, message: &Message) -> Result<Ulid> {
        let _order = self.lock_order(env)?;
        // After all that wait, also when the clock was set back since they came.
        let last = self.ids()?.last().map(|id| id.time());
        let time = last.map_or(env.now(), |last| env.now().max(Millis(last.0 + 1)));
        self.put_as(Ulid::from_parts(time, env.random()), message)
    }

    /// Leaves a message that comes before all that wait.
    pub fn put_first(&self, env: &Env, message: &Message) -> Result<Ulid> {
        let _order = self.lock_order(env)?;
        let first = self.ids()?.first().map(|id| id.time());
        let time = first.map_or(env.now(), |first| Millis(first.0.saturating_sub(1)));
        self.put_as(Ulid::from_parts(time, env.random()), message)
    }

    /// Keeps others from choosing a place in the order at the same time.
    fn lock_order(&self, env: &Env) -> Result<Lock> {
        Lock::acquire(env, self.dir.join("order.lock"), PATIENCE)
    }

    /// Says that a prompt is on its way to a supervisor: from before it is left until one was started for it, or was seen that
    /// reads it. Several may say so at once.
    pub fn begin_to_send(&self) -> Result<Sending> {
        self.lock_senders(fs::File::lock_shared)
    }

    /// Waits until no prompt is on its way to a supervisor, and keeps others from sending until dropped.
    pub fn wait_for_senders(&self) -> Result<Sending> {
        self.lock_senders(fs::File::lock)
    }

    fn lock_senders(&self, lock: fn(&fs::File) -> io::Result<()>) -> Result<Sending> {
        let path = self.dir.join("senders.lock");
        let cannot = || format!("cannot lock '{}'", path.display());
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .context(cannot)?;
        loop {
            match lock(&file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    other.context(cannot)?;
                    return Ok(Sending(file));
                }
            }
        }
    }

    fn put_as(&self, id: Ulid, message: &Message) -> Result<Ulid> {
        let cannot = || format!("cannot leave a message in '{}'", self.dir.display());
        let bytes = serde_json::to_vec(message).context(cannot)?;
        let path = self.dir.join(format!("{id}.json"));
        file::replace(&path, bytes, Durability::Synced)?;
        doorbell::ring(&self.bell());
        Ok(id)
    }

    /// Returns whether a prompt waits.
    pub fn has_prompt(&self) -> Result<bool> {
        Ok(!self.prompts()?.is_empty())
    }

    /// Returns the prompts that wait, oldest first.
    pub fn prompts(&self) -> Result<Vec<Ulid>> {
        let mut messages = self.list()?;
        messages.retain(|(_, message)| message.is_prompt());
        Ok(messages.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns the messages for which a supervisor is started, oldest first.
    pub fn requests(&self) -> Result<Vec<Ulid>> {
        let mut messages = self.list()?;
        messages.retain(|(_, message)| message.needs_supervisor());
        Ok(messages.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns the waiting messages, oldest first. A file that holds none is set aside.
    pub fn list(&self) -> Result<Vec<(Ulid, Message)>> {
        let ids = self.ids()?;
        let mut messages = Vec::with_capacity(ids.len());
        for id in ids {
            let path = self.dir.join(format!("{id}.json"));
            let Ok(bytes) = fs::read(&path) else { continue };
            match serde_json::from_slice(&bytes) {
                Ok(message) => messages.push((id, message)),
                Err(_) => {
                    let _ = fs::rename(&path, self.dir.join(format!("{id}.bad")));
                }
            }
        }
        Ok(messages)
    }

    /// Returns the ids of the waiting messages: their order is that in which they came.
    fn ids(&self) -> Result<Vec<Ulid>> {
        let cannot = || format!("cannot read '{}'", self.dir.display());
        let mut ids: Vec<Ulid> = fs::read_dir(&self.dir)
            .context(cannot)?
            .filter_map(|entry| {
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".json")?
                    .parse()
                    .ok()
            })
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Returns whether a message is still there.
    pub fn holds(&self, id: Ulid) -> bool {
        self.dir.join(format!("{id}.json")).exists()
    }

    /// Puts another message in the place of one.
    pub fn replace(&self, id: Ulid, message: &Message) -> Result<()> {
        self.put_as(id, message).map(drop)
    }

    /// Removes a message that has been dealt with.
    pub fn remove(&self, id: Ulid) -> Result<()> {
        match fs::remove_file(self.dir.join(format!("{id}.json"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context(|| format!("cannot remove message {id}"))
            }
            _ => Ok(()),
        }
    }
}
