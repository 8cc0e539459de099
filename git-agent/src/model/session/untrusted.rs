//! Limits what a fetched copy of one's own session can change. Anyone who may push can have written it, so only this
//! clone decides what runs, where, with which rights, and what belongs to the session.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::event::Body;
use crate::model::session::Record;

impl Record {
    /// Returns this state with the news of a later, fetched one. Takes over only the fields named here.
    pub fn with_news_of(&self, later: &Record) -> Record {
        let mut session = Record {
            seq: self.seq.max(later.seq),
            lc: self.lc.max(later.lc),
            updated: self.updated.max(later.updated),
            turns: self.turns.max(later.turns),
            worked_ms: self.worked_ms.max(later.worked_ms),
            turn_started: later.turn_started,
            progress: later.progress,
            usage: later.usage,
            activity: later.activity.clone(),
            asks: later.asks.clone(),
            ..self.clone()
        };
        // A fetched `merged` or `approved` must not decide about work that exists here.
        if self.branch.is_none() && !later.status.needs_supervisor() {
            session.status = later.status;
            session.exit.clone_from(&later.exit);
        }
        session
    }

    /// Returns whether both states agree in these fields.
    pub fn says_the_same(&self, other: &Record, names: &[String]) -> bool {
        let (mine, theirs) = (fields(self), fields(other));
        names.iter().all(|name| mine.get(name) == theirs.get(name))
    }

    /// Returns the names of the fields in which another state differs, and the events that turn it into this one.
    pub fn put_back(&self, other: &Record) -> (Vec<String>, Vec<Body>) {
        let (mine, theirs) = (fields(self), fields(other));
        let mut names = Vec::new();
        let mut events = Vec::new();
        for key in keys(&mine, &theirs) {
            if mine.get(&key) == theirs.get(&key) {
                continue;
            }
            match key.as_str() {
                "more" => events.extend(sets(&inner(&mine, &key), &inner(&theirs, &key))),
                "status" => events.push(Body::Status {
                    from: other.status,
                    to: self.status,
                    reason: String::new(),
                    exit: self.exit.clone(),
                }),
                _ => events.push(set(&key, mine.get(&key))),
            }
            names.push(key);
        }
        (names, events)
    }
}

fn fields(session: &Record) -> Map<String, Value> {
    match serde_json::to_value(session) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn inner(fields: &Map<String, Value>, key: &str) -> Map<String, Value> {
    let value = fields.get(key).and_then(Value::as_object);
    value.cloned().unwrap_or_default()
}

fn keys(one: &Map<String, Value>, other: &Map<String, Value>) -> BTreeSet<String> {
    one.keys().chain(other.keys()).cloned().collect()
}

fn set(key: &str, value: Option<&Value>) -> Body {
    Body::Set {
        key: key.to_owned(),
        value: value.cloned().unwrap_or(Value::Null),
    }
}

fn sets(mine: &Map<String, Value>, theirs: &Map<String, Value>) -> Vec<Body> {
    let keys = keys(mine, theirs).into_iter();
    keys.filter(|key| mine.get(key) != theirs.get(key))
        .map(|key| set(&key, mine.get(&key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::session::{Person, SessionId, State, WriterId};

    fn session() -> Record {
        let sid = SessionId::from_parts(Millis(1), [1; 10]);
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        let mut session = Record::new(sid, writer, "fix", Person::default());
        session.agent = "mine".into();
        session.seq = 7;
        session
    }

    fn evil(session: &Record) -> Record {
        let mut evil = session.clone();
        evil.agent = "command".into();
        evil.model = Some("theirs".into());
        evil.branch = Some("main".into());
        evil.vendor_session = Some("v".into());
        evil.status = State::Merged;
        evil.settings.set("command", &"touch x".into());
        evil.seq = 3;
        evil.turns = 4;
        evil
    }

    #[test]
    fn what_is_run_and_where_is_told_by_this_clone_alone() {
        let mut own = session();
        own.branch = Some("agent/fix".into());
        let kept = own.with_news_of(&evil(&own));
        let expected = Record { turns: 4, ..own };
        assert_eq!(kept, expected);
    }

    #[test]
    fn how_it_ended_elsewhere_counts_where_nothing_hangs_on_it() {
        let own = session();
        assert_eq!(own.with_news_of(&evil(&own)).status, State::Merged);
        let mut running = evil(&own);
        running.status = State::Running;
        assert_eq!(own.with_news_of(&running).status, State::Draft);
    }

    #[test]
    fn what_is_put_back_is_the_state_of_this_clone() {
        let mut own = session();
        own.branch = Some("agent/fix".into());
        own.settings.set("ask", &true.into());
        let evil = evil(&own);
        let kept = own.with_news_of(&evil);
        let (names, events) = kept.put_back(&evil);
        assert!(names.contains(&"agent".to_owned()), "{names:?}");
        let mut told = evil.clone();
        for (at, body) in events.into_iter().enumerate() {
            let event = crate::model::event::Event {
                id: own.sid,
                seq: 8 + at as u64,
                lc: 1,
                ts: Millis(1),
                turn: 1,
                body,
            };
            told.apply(&event);
        }
        (told.seq, told.lc, told.updated) = (kept.seq, kept.lc, kept.updated);
        assert_eq!(told, kept);
        assert_eq!(kept.put_back(&kept).1, Vec::new());
    }
}
