//! Review: comments, their places, verdicts, and the combined result of all writers' records. Pure.
//!
//! A record never changes once it is written: edits, deletions and resolutions are records too. The union of the
//! writers' records therefore gives the same result in every clone, in any order. [`fold`] computes it.

pub mod anchor;
pub mod authorship;
pub mod findings;
pub mod fold;
pub mod impostor;
pub(crate) mod line;
pub mod path;
pub mod standing;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::env::Millis;
use crate::error::{Context, Error, Result};
use crate::model::session::{Person, SessionId, Ulid, WriterId};

pub use fold::{Comment, Given, Ignored, Review, Thread, fold};

/// One record of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The id by which other records refer to it.
    pub id: Ulid,
    /// The session under review.
    pub sid: SessionId,
    /// Records that its author had seen and that it follows.
    pub after: Vec<Ulid>,
    /// Lamport clock: one more than the highest that its author had seen.
    pub lc: u64,
    /// The time by the author's clock.
    pub ts: Millis,
    /// The author, as claimed.
    pub who: Person,
    /// The action of the record.
    pub action: Action,
}

/// The action of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Action {
    /// Adds a comment.
    Comment {
        /// The comment it replies to; without one it opens a thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Ulid>,
        /// The writer of that comment, if several comments have its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<WriterId>,
        /// The place it is about; without one it is about the session as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<CommentPlace>,
        /// The text.
        body: String,
        /// The severity, if the author gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        severity: Option<Severity>,
    },
    /// Replaces the text of the writer's own comment.
    Edit {
        /// The comment's id.
        target: Ulid,
        /// The new text.
        body: String,
    },
    /// Deletes the writer's own comment or verdict; without a target, the whole session.
    Del {
        /// The id of the comment or verdict.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Ulid>,
    },
    /// Judges the session at one commit.
    Verdict {
        /// The reviewer's decision.
        verdict: Verdict,
        /// The branch tip that was judged.
        commit: String,
        /// The tree of the snapshot that was judged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// The commit it was judged against; the reviewer saw the changes since then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        /// The reason, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        body: String,
    },
    /// Resolves a thread.
    Resolve {
        /// The id of a comment in the thread.
        target: Ulid,
    },
    /// Reopens a thread.
    Reopen {
        /// The id of a comment in the thread.
        target: Ulid,
    },
    /// An action that this version does not know, kept whole.
    #[serde(skip)]
    Unknown(Map<String, Value>),
}

impl Action {
    /// Returns the id of the record that the action is about.
    pub fn target(&self) -> Option<&Ulid> {
        match self {
            Action::Comment { target, .. } | Action::Del { target } => target.as_ref(),
            Action::Edit { target, .. }
            | Action::Resolve { target }
            | Action::Reopen { target } => Some(target),
            Action::Verdict { .. } | Action::Unknown(_) => None,
        }
    }
}

/// The place that a comment is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommentPlace {
    /// An event of the transcript.
    Event {
        /// The event's id.
        event: Ulid,
        /// The turn it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
    },
    /// Lines, a file or a commit.
    Code(CodePlace),
}

/// A place in the code, with enough surroundings to find it again after the code moved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CodePlace {
    /// The commit that the reviewer saw.
    pub commit: String,
    /// The file; without one the comment is about the whole commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The side of the change.
    #[serde(default)]
    pub side: Side,
    /// The first line, from 1; without one the comment is about the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The last line, if there is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
    /// The file's blob on that side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// A hash of the hunk's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk_sha: Option<String>,
    /// The lines before the commented ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The commented lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// The lines after the commented ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Whether the same lines with the same surroundings occur in the file again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// A side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before the change.
    Old,
    /// After the change.
    #[default]
    New,
}

/// The severity of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Optional.
    Note,
    /// Worth doing.
    Minor,
    /// Should be fixed.
    Major,
    /// Must be fixed before the merge.
    Blocker,
}

impl Severity {
    /// All severities, the lowest first.
    pub const ALL: [Severity; 4] = [
        Severity::Note,
        Severity::Minor,
        Severity::Major,
        Severity::Blocker,
    ];

    /// Returns the word in records and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Minor => "minor",
            Severity::Major => "major",
            Severity::Blocker => "blocker",
        }
    }
}

impl std::str::FromStr for Severity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Severity::ALL
            .into_iter()
            .find(|severity| severity.as_str() == text)
            .ok_or_else(|| {
                Error::usage(format!(
                    "severity must be note, minor, major or blocker, not '{text}'"
                ))
            })
    }
}

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The work may be merged.
    Approve,
    /// The work must change before it is merged.
    RequestChanges,
    /// The work must not be merged.
    Reject,
}

impl Verdict {
    /// Returns the word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Approve => "approve",
            Verdict::RequestChanges => "request-changes",
            Verdict::Reject => "reject",
        }
    }
}

/// The fields that every record has, beside those of its action.
#[derive(Serialize, Deserialize)]
struct Header {
    v: u32,
    id: Ulid,
    sid: SessionId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<Ulid>,
    lc: u64,
    ts: Millis,
    #[serde(default)]
    who: Person,
}

const HEADER_KEYS: [&str; 7] = ["v", "id", "sid", "after", "lc", "ts", "who"];
const FORMAT: u32 = 1;

impl Record {
    /// Returns the record as JSON, to be redacted and stored.
    pub fn to_json(&self) -> Value {
        let header = Header {
            v: FORMAT,
            id: self.id,
            sid: self.sid,
            after: self.after.clone(),
            lc: self.lc,
            ts: self.ts,
            who: self.who.clone(),
        };
        let mut fields = match &self.action {
            Action::Unknown(fields) => fields.clone(),
            action => object(action),
        };
        fields.extend(object(&header));
        Value::Object(fields)
    }

    /// Parses a record. An unknown action is kept; an unknown format is an error.
    pub fn from_json(value: Value) -> Result<Self> {
        let Value::Object(mut fields) = value else {
            return Err(Error::fatal("review record is not a JSON object"));
        };
        let mut header = Map::new();
        for key in HEADER_KEYS {
            if let Some(value) = fields.remove(key) {
                header.insert(key.to_owned(), value);
            }
        }
        let header: Header = serde_json::from_value(Value::Object(header))
            .context(|| "review record lacks its header fields".into())?;
        if header.v != FORMAT {
            return Err(Error::fatal(format!(
                "review record has format {}, written by a newer git-agent",
                header.v
            )));
        }
        if !fields.get("op").is_some_and(Value::is_string) {
            return Err(Error::fatal("review record has no op"));
        }
        let action = serde_json::from_value(Value::Object(fields.clone()))
            .unwrap_or(Action::Unknown(fields));
        Ok(Record {
            id: header.id,
            sid: header.sid,
            after: header.after,
            lc: header.lc,
            ts: header.ts,
            who: header.who,
            action,
        })
    }
}

impl Serialize for Record {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        Record::from_json(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).expect("records are plain data") {
        Value::Object(fields) => fields,
        _ => unreachable!("headers and actions are objects"),
    }
}
