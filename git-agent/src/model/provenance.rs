//! Provenance: the session that a commit comes from, in more detail than the `Agent-Session` trailer.
//!
//! The trailer is the link. This record adds details that do not fit into a message, and its patch id finds the link
//! again if a rewritten commit lost the trailer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::session::SessionId;

/// The only format that this version writes.
const FORMAT: u32 = 1;

/// The origin of one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The format of the record.
    pub v: u32,
    /// The session's id.
    pub sid: SessionId,
    /// The first event that led to the commit.
    pub from_seq: u64,
    /// The last event that led to the commit.
    pub to_seq: u64,
    /// The stable patch id of the commit's change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_id: Option<String>,
    /// The agent's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The model, as the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Provenance {
    /// Returns the record for a range of a session's events.
    pub fn new(sid: SessionId, from_seq: u64, to_seq: u64) -> Self {
        Provenance {
            v: FORMAT,
            sid,
            from_seq,
            to_seq,
            patch_id: None,
            agent: String::new(),
            model: None,
            more: BTreeMap::new(),
        }
    }

    /// Returns whether this version understands the record.
    pub fn is_understood(&self) -> bool {
        self.v == FORMAT && self.from_seq <= self.to_seq
    }

    /// Returns the record as JSON, to be redacted and stored.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("records are plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;

    #[test]
    fn a_record_reads_back_and_keeps_what_it_does_not_know() {
        let sid = SessionId::from_parts(Millis(1), [3; 10]);
        let mut record = Provenance::new(sid, 4, 9);
        record.agent = "claude".into();
        record.more.insert("later".into(), Value::from(7));
        let json = record.to_json();
        let read: Provenance = serde_json::from_value(json).expect("own record reads");
        assert_eq!(read, record);
        assert!(read.is_understood());
        assert!(!Provenance::new(sid, 9, 4).is_understood());
    }
}
