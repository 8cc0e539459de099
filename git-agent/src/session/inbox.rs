//! Messages to a running session: one file each, durable before the sender returns, taken in order by the supervisor.
//!
//! Files instead of a socket, so that a prompt sent to a session whose supervisor just died is not lost: the next one
//! finds it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::env::{Env, Millis};
use crate::error::{Context, Result};
use crate::session::{SessionId, Ulid};
use crate::store::Store;

/// Something said to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// A further prompt.
    Prompt {
        /// The text.
        text: String,
        /// Who asks, in the words of the transcript.
        from: String,
        /// Whether it only says to go on with what an earlier prompt asked for.
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
    /// End the supervisor if it only stays for what may come.
    Leave,
}

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

    /// Returns the directory to watch.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Leaves a message; it is on disk when this returns.
    pub fn put(&self, env: &Env, message: &Message) -> Result<Ulid> {
        self.put_as(Ulid::new(env), message)
    }

    /// Leaves a message that comes before all that wait.
    pub fn put_first(&self, env: &Env, message: &Message) -> Result<Ulid> {
        let first = self.list()?.first().map(|(id, _)| id.time());
        let time = first.map_or(env.now(), |first| Millis(first.0.saturating_sub(1)));
        self.put_as(Ulid::from_parts(time, env.random()), message)
    }

    fn put_as(&self, id: Ulid, message: &Message) -> Result<Ulid> {
        let cannot = || format!("cannot leave a message in '{}'", self.dir.display());
        let bytes = serde_json::to_vec(message).context(cannot)?;
        let temporary = self.dir.join(format!(".{id}"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .context(cannot)?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_all())
            .context(cannot)?;
        fs::rename(&temporary, self.dir.join(format!("{id}.json"))).context(cannot)?;
        fs::File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .context(cannot)?;
        Ok(id)
    }

    /// Returns whether a prompt waits.
    pub fn has_prompt(&self) -> Result<bool> {
        Ok(!self.prompts()?.is_empty())
    }

    /// Returns the prompts that wait, oldest first.
    pub fn prompts(&self) -> Result<Vec<Ulid>> {
        let is_prompt = |message: &Message| matches!(message, Message::Prompt { .. });
        let mut messages = self.list()?;
        messages.retain(|(_, message)| is_prompt(message));
        Ok(messages.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns the waiting messages, oldest first. A file that holds none is set aside.
    pub fn list(&self) -> Result<Vec<(Ulid, Message)>> {
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
