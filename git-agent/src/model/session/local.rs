//! The facts about a session that hold in this clone alone. They are in a file of this clone, never in git.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::event::{Body, Event};
use crate::model::session::{Record, Session};

/// Where a session works in this clone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Local {
    /// The absolute path of its worktree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worktree: Option<String>,
    /// The port of its worktree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// Whether the setup command has run in its worktree.
    #[serde(default)]
    pub set_up: bool,
}

impl Local {
    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Local::default()
    }

    /// Returns the facts that follow from the record and from the worktree that git has for its branch, for a session
    /// whose file is lost. A turn proves that the setup command has run.
    pub fn derive(record: &Record, worktree: Option<String>) -> Self {
        Local {
            set_up: worktree.is_some() && record.turns > 0,
            worktree,
            port: None,
        }
    }

    /// Takes over a fact that an earlier version recorded as an event.
    fn set_earlier(&mut self, key: &str, value: &Value) {
        match key {
            "worktree" => self.worktree = value.as_str().map(str::to_owned),
            "port" => self.port = value.as_u64().and_then(|port| port.try_into().ok()),
            "set_up" => self.set_up = value.as_bool().unwrap_or(false),
            _ => {}
        }
    }

    fn take_over(&mut self, earlier: Local) {
        if !earlier.is_empty() {
            *self = earlier;
        }
    }
}

impl Session {
    /// Applies the next event. An event that was applied before changes nothing.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        if let Body::Set { key, value } = &event.body {
            self.local.set_earlier(key, value);
        }
        self.record.apply(event);
        let earlier = self.record.take_earlier();
        self.local.take_over(earlier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::session::{Person, SessionId, WriterId};

    fn record() -> Record {
        let sid = SessionId::from_parts(Millis(1), [1; 10]);
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        Record::new(sid, writer, "fix", Person::default())
    }

    /// The record as an earlier version wrote it.
    fn earlier() -> Value {
        let mut value = serde_json::to_value(record()).expect("JSON");
        value["worktree"] = "/home/ada/fix".into();
        value["spool"] = serde_json::json!({"bytes": 77});
        value["more"] = serde_json::json!({"port": 3100, "set_up": true, "novel": 1});
        value
    }

    #[test]
    fn facts_of_this_clone_are_read_from_an_earlier_record_and_never_written_there() {
        let read: Record = serde_json::from_value(earlier()).expect("a record");
        let session = Session::from(read);
        let expected = Local {
            worktree: Some("/home/ada/fix".into()),
            port: Some(3100),
            set_up: true,
        };
        assert_eq!(session.local, expected);
        let written = serde_json::to_value(&session.record).expect("JSON");
        assert_eq!(written["more"], serde_json::json!({"novel": 1}));
        for key in ["worktree", "spool"] {
            assert!(written.get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn events_of_an_earlier_version_change_the_facts_and_not_the_record() {
        let mut session = Session::from(record());
        let Value::Object(fields) = earlier() else {
            panic!("an object")
        };
        let set = |key: &str, value: Value| Body::Set {
            key: key.into(),
            value,
        };
        let bodies = [
            Body::Created { session: fields },
            set("worktree", "/home/ada/moved".into()),
            set("set_up", Value::Null),
            set("ask", true.into()),
        ];
        for (seq, body) in (1..).zip(bodies) {
            session.apply(&Event {
                id: session.sid,
                seq,
                lc: seq,
                ts: Millis(seq),
                turn: 0,
                body,
            });
        }
        let expected = Local {
            worktree: Some("/home/ada/moved".into()),
            port: Some(3100),
            set_up: false,
        };
        assert_eq!((session.local.clone(), session.seq), (expected, 4));
        assert_eq!(session.settings.ask, Some(true));
        let written = serde_json::to_string(&session.record).expect("JSON");
        assert!(!written.contains("/home/ada"), "{written}");
    }

    #[test]
    fn lost_facts_follow_from_the_record() {
        let mut record = record();
        assert!(Local::derive(&record, None).is_empty());
        let found = || Some("/home/ada/fix".to_owned());
        assert!(!Local::derive(&record, found()).set_up);
        record.turns = 1;
        assert!(Local::derive(&record, found()).set_up);
    }
}
