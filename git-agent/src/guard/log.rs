//! The guard's log of a turn: one JSON line for each transaction, written by hooks and read by the supervisor.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::env::Millis;
use crate::error::{Context, Result};
use crate::guard::policy::Update;

/// Maximum number of refs named for one transaction.
const NAMED: usize = 20;
/// Maximum number of bytes read at once, because an agent could write the file itself.
const MOST_BYTES: u64 = 1 << 20;

/// One transaction in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The time of the transaction.
    pub at: Millis,
    /// Whether it was refused; otherwise it was a notable exception, such as a tag from a fetch.
    pub refused: bool,
    /// The first few of its refs.
    pub refs: Vec<NotedRef>,
    /// The number of further refs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The target of a push; `None` for a local change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// One ref of a [`Note`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedRef {
    /// The full name.
    pub name: String,
    /// The old value, as git reported it.
    pub old: String,
    /// The new value.
    pub new: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Note {
    /// Returns a note about these updates.
    pub fn new(at: Millis, refused: bool, updates: &[Update]) -> Self {
        Note {
            at,
            refused,
            refs: updates
                .iter()
                .take(NAMED)
                .map(|update| NotedRef {
                    name: update.name.clone(),
                    old: update.old.clone(),
                    new: update.new.clone(),
                })
                .collect(),
            more: updates.len().saturating_sub(NAMED),
            to: None,
        }
    }

    /// Turns the note into one about a push.
    pub fn pushed(self, to: String) -> Self {
        Note {
            to: Some(to),
            ..self
        }
    }

    /// Describes the note in words.
    pub fn words(&self) -> String {
        let names: Vec<&str> = self.refs.iter().map(|noted| noted.name.as_str()).collect();
        let names = names.join(", ");
        match (&self.to, self.refused) {
            (None, true) => format!("the guard refused to move {names}"),
            (None, false) => format!("the guard let {names} pass"),
            (Some(to), true) => format!("the guard refused to push {names} to {to}"),
            (Some(to), false) => format!("the guard let {names} be pushed to {to}"),
        }
    }

    /// Appends the note to a log in one write, so that notes of several processes never mix.
    pub fn append(&self, log: &Path) -> Result<()> {
        let cannot = || format!("cannot write '{}'", log.display());
        let mut line = serde_json::to_vec(self).context(cannot)?;
        line.push(b'\n');
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(log)
            .and_then(|mut file| file.write_all(&line))
            .context(cannot)
    }
}

/// Returns the notes after an offset, and the offset after them. Ignores invalid lines.
pub fn read(log: &Path, offset: u64) -> Result<(Vec<Note>, u64)> {
    let cannot = || format!("cannot read '{}'", log.display());
    let mut file = match File::open(log) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((Vec::new(), offset));
        }
        other => other.context(cannot)?,
    };
    file.seek(SeekFrom::Start(offset)).context(cannot)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .context(cannot)?;
    let full = bytes.len() as u64 == MOST_BYTES;
    let complete = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => last + 1,
        // A line this long is not a note; skip it.
        None if full => bytes.len(),
        None => 0,
    };
    let notes = bytes[..complete]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    Ok((notes, offset + complete as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_back_from_where_one_stopped() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        assert_eq!(read(&log, 0).expect("an absent log is empty").0, []);
        let update = |n: usize| Update {
            old: "0".repeat(40),
            new: "1".repeat(40),
            name: format!("refs/tags/line\nbreak-{n}"),
        };
        let updates: Vec<Update> = (0..25).map(update).collect();
        let first = Note::new(Millis(1), true, &updates);
        assert_eq!(first.more, 5);
        first.append(&log).expect("it is written");
        let (notes, offset) = read(&log, 0).expect("it is read");
        assert_eq!(notes, [first]);
        let second = Note::new(Millis(2), false, &updates[..1]);
        second.append(&log).expect("it is written");
        OpenOptions::new()
            .append(true)
            .open(&log)
            .and_then(|mut file| file.write_all(b"garbage\n{\"at\":3,"))
            .expect("another process writes");
        let (notes, after) = read(&log, offset).expect("it is read");
        assert_eq!(notes, [second]);
        assert_eq!(read(&log, after).expect("it is read"), (Vec::new(), after));
    }
}
