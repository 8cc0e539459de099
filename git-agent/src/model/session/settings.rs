//! The settings of one session, and the facts that features keep in its record: typed if this version knows the key,
//! unchanged otherwise.
//!
//! In `state.json` they are one object, `more`. A value of an unexpected type stays there unchanged, so that a record
//! of another version survives a round trip.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::event::Body;
use crate::model::id::{SessionId, Ulid};
use crate::model::plan::Gate;

type Map = BTreeMap<String, Value>;

/// The agent's own conversation file, kept with the session's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptConversation {
    /// The kind of file.
    pub kind: String,
    /// The vendor's id of the conversation.
    pub id: String,
    /// The SHA-256 of the attachment.
    pub attachment: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// The start of the keys of artifacts: each has a key of its own, so that two puts never lose one.
const ARTIFACT: &str = "artifact:";

/// A file that a session left for others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptArtifact {
    /// The SHA-256 of the content, and the name of the attachment.
    pub attachment: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The time at which it was put.
    pub put: crate::env::Millis,
}

impl KeptArtifact {
    /// Returns the event that records it under a name.
    pub fn recorded_as(self, name: &str) -> Body {
        event(&format!("{ARTIFACT}{name}"), Some(self))
    }
}

/// The commit that a session was cut from, and the proof that it contains the sessions it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasedOn {
    /// The commit.
    pub commit: String,
    /// The tip of the parent that it contains.
    pub parent: String,
    /// The sessions it contains, each with the tip that is an ancestor of the commit.
    pub sessions: Vec<ContainedTip>,
}

/// A session whose work another one was cut from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainedTip {
    /// The session.
    pub session: SessionId,
    /// Its name at that time.
    pub name: String,
    /// The commit with its work.
    pub tip: String,
}

/// The facts of one clone that an earlier version kept among the settings.
const EARLIER: [&str; 2] = ["port", "set_up"];

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $type:ty;)*) => {
        /// Settings and facts of one session beyond the fields of its record.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(from = "Map", into = "Map")]
        pub struct SessionSettings {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// Keys that this version does not know, and values of another type.
            other: Map,
            /// Facts of one clone that an earlier version kept here. Never written.
            earlier: Map,
        }

        impl From<Map> for SessionSettings {
            fn from(mut map: Map) -> Self {
                let mut earlier = Map::new();
                for key in EARLIER {
                    earlier.extend(map.remove_entry(key));
                }
                SessionSettings {
                    $($field: take(&mut map, stringify!($field)),)*
                    other: map,
                    earlier,
                }
            }
        }

        impl From<SessionSettings> for Map {
            fn from(settings: SessionSettings) -> Self {
                let mut map = settings.other;
                $(put(&mut map, stringify!($field), settings.$field);)*
                map
            }
        }

        /// Events that change one setting each.
        pub mod set {
            use crate::model::event::Body;
            use crate::model::id::{SessionId, Ulid};
            use crate::model::plan::Gate;
            use crate::model::session::settings::{BasedOn, KeptConversation, event};
            $(
                /// Returns the event that sets or removes the setting of this name.
                pub fn $field(value: Option<$type>) -> Body {
                    event(stringify!($field), value)
                }
            )*
        }
    };
}

settings! {
    /// The sessions that must be ready before this one starts.
    after: Vec<SessionId>;
    /// Whether its agent was told that artifacts are missing.
    asked_artifacts: bool;
    /// Whether the user answers every permission request; absent if not chosen.
    ask: bool;
    /// The commit that it was cut from, if it depends on sessions.
    based_on: BasedOn;
    /// How many sessions of its group may run at once.
    batch_size: u32;
    /// The tree and the tip before the last real prompt.
    before: String;
    /// The agent's command line, as recorded.
    command: Vec<String>;
    /// Whether a forked session may see the conversation it was forked from; absent for the user's own.
    conversation: bool;
    /// The artifacts that its last turn could read, with the SHA-256 of each.
    consumed: Vec<(String, String)>;
    /// The directory that it works in.
    directory: String;
    /// The gate that the sessions it depends on must pass.
    gate: Gate;
    /// The guard level that was asked for.
    guard: String;
    /// The guard level that the last turn had.
    guarded: String;
    /// The last message of the inbox whose turn has begun, in records of an earlier version: see `Record::prompt`.
    inbox_done: Ulid;
    /// The merge commit of its work.
    merged: String;
    /// How many messages it has sent.
    messages_sent: u32;
    /// The agent's own file of the conversation.
    native: KeptConversation;
    /// Whether it runs without the guard.
    no_guard: bool;
    /// The last message of another session that a prompt contained.
    notes_done: Ulid;
    /// The name of the part of a plan that it carries out.
    part: String;
    /// Its priority in the queue: a higher number goes first.
    priority: i32;
    /// The artifacts that it must leave.
    produces: Vec<String>;
    /// Whether it is read-only.
    read_only: bool;
    /// How many times its room was seen to refuse a path.
    refused: u32;
    /// The session whose conflict it resolves.
    resolves: SessionId;
    /// Whether its first failure was answered with a second attempt.
    retried: bool;
    /// The session whose worktree it uses.
    shares: SessionId;
    /// How many uncommitted, and thus unshared, files it had at the last push.
    unshared: u64;
}

impl SessionSettings {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == SessionSettings::default()
    }

    /// Takes out the port and whether the setup command has run, as an earlier version recorded them.
    pub(super) fn take_earlier(&mut self) -> (Option<u16>, bool) {
        let earlier = std::mem::take(&mut self.earlier);
        let port = earlier.get("port").and_then(Value::as_u64);
        let set_up = earlier.get("set_up").and_then(Value::as_bool);
        (
            port.and_then(|port| port.try_into().ok()),
            set_up.unwrap_or(false),
        )
    }

    /// Returns a limit that was chosen for this session alone, by the name of its setting.
    pub fn limit(&self, key: &str) -> Option<&str> {
        self.other.get(key)?.as_str()
    }

    /// Returns the artifacts that it left, by name.
    pub fn artifacts(&self) -> impl Iterator<Item = (&str, KeptArtifact)> {
        self.other.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(ARTIFACT)?;
            let kept = serde_json::from_value(value.clone()).ok()?;
            Some((name, kept))
        })
    }

    /// Changes one setting by its key; null removes it.
    pub fn set(&mut self, key: &str, value: &Value) {
        let mut map = Map::from(std::mem::take(self));
        match value {
            Value::Null => map.remove(key),
            value => map.insert(key.to_owned(), value.clone()),
        };
        *self = map.into();
    }

    /// Removes every value of more than `most` bytes: the values that decide how a session runs are short.
    pub fn drop_larger_than(&mut self, most: usize) {
        let mut map = Map::from(std::mem::take(self));
        map.retain(|_, value| value.to_string().len() <= most);
        *self = map.into();
    }
}

/// Takes a value out of the map if it has exactly its type, so that a round trip changes nothing.
fn take<T: Serialize + DeserializeOwned>(map: &mut Map, key: &str) -> Option<T> {
    let value = map.get(key)?;
    let typed: T = serde_json::from_value(value.clone()).ok()?;
    if serde_json::to_value(&typed).ok().as_ref() != Some(value) {
        return None;
    }
    map.remove(key);
    Some(typed)
}

fn put<T: Serialize>(map: &mut Map, key: &str, value: Option<T>) {
    if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
        map.insert(key.to_owned(), value);
    }
}

fn event<T: Serialize>(key: &str, value: Option<T>) -> Body {
    Body::Set {
        key: key.to_owned(),
        value: value
            .and_then(|value| serde_json::to_value(value).ok())
            .unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_and_odd_values_are_written_as_they_were_read() {
        let text = r#"{"ask":"perhaps","novel":[1],"priority":2,"read_only":true,"timeout":"10m"}"#;
        let settings: SessionSettings = serde_json::from_str(text).expect("an object");
        assert_eq!(settings.ask, None);
        assert_eq!(settings.priority, Some(2));
        assert_eq!(settings.read_only, Some(true));
        assert_eq!(settings.limit("timeout"), Some("10m"));
        assert_eq!(serde_json::to_string(&settings).expect("JSON"), text);
    }

    #[test]
    fn a_setting_is_changed_and_removed_by_its_key() {
        let mut settings = SessionSettings::default();
        settings.set("priority", &Value::from(3));
        settings.set("novel", &Value::from("x"));
        assert_eq!(settings.priority, Some(3));
        settings.set("priority", &Value::Null);
        settings.set("novel", &Value::Null);
        assert!(settings.is_empty());
    }
}
