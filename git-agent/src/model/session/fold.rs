//! Folds a session's events into its state, so that the state can be rebuilt after a crash.

use serde_json::Value;

use crate::model::event::{Body, Event};
use crate::model::session::{Asked, Progress, Record, State, Usage};

/// The longest activity line and task in the state; the transcript holds the whole text.
const SHORT: usize = 200;
const TASK: usize = 2_000;
/// How many open requests the state holds at most, to stay small.
const ASKS: usize = 16;

impl Record {
    /// Applies the next event. An event that was applied before changes nothing.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        match &event.body {
            Body::Created { session } => {
                if let Ok(made) = serde_json::from_value::<Record>(Value::Object(session.clone()))
                    && made.sid == self.sid
                {
                    *self = made;
                    self.task = shorten(&self.task, TASK);
                }
            }
            Body::Set { key, value } => self.set(key, value),
            Body::Vendor { session } => self.vendor_session = Some(session.clone()),
            Body::Prompt { text, .. } => {
                self.turns = self.turns.max(event.turn);
                self.turn_started = Some(event.ts);
                self.prompt = Some(event.id);
                self.asks.clear();
                self.note_activity(text);
            }
            Body::Assistant { text } => self.note_said(text),
            Body::Output { text, .. } => self.note_activity(text),
            Body::ToolCall { name, .. } => self.note_activity(name),
            Body::Permission { request, title, .. } => self.note_asked(request, title),
            Body::Answer { request, .. } => self.note_answered(request),
            Body::Error { text, .. } => self.note_activity(text),
            Body::Plan { .. } => self.progress = event.body.progress().filter(Progress::is_some),
            Body::Usage { usage } => self.usage.update(usage),
            Body::Snapshot { head, .. } => {
                if head.is_some() {
                    self.code.clone_from(head);
                }
            }
            Body::Submit { commit } => self.code = Some(commit.clone()),
            Body::Status {
                to, reason, exit, ..
            } => {
                let working = self.status.is_working();
                if working
                    && !to.is_working()
                    && let Some(started) = self.turn_started.take()
                {
                    self.worked_ms += event.ts.0.saturating_sub(started.0);
                }
                self.status = *to;
                if *to != State::Waiting {
                    self.asks.clear();
                }
                if exit.is_some() || !reason.is_empty() || to.is_working() {
                    let mut exit = exit.clone().unwrap_or_default();
                    let words = if exit.reason.is_empty() {
                        reason
                    } else {
                        &exit.reason
                    };
                    exit.reason = shorten(words, SHORT);
                    self.exit = (exit != crate::model::session::Exit::default()).then_some(exit);
                }
            }
            Body::Reasoning { .. }
            | Body::ToolResult { .. }
            | Body::Edit { .. }
            | Body::Notice { .. }
            | Body::Message { .. }
            | Body::Merged { .. }
            | Body::Raw { .. }
            | Body::Unknown(_) => {}
        }
        self.seq = event.seq;
        self.lc = self.lc.max(event.lc);
        self.updated = self.updated.max(event.ts);
    }

    /// Sets a field by name. An unknown field, or a value of the wrong type, goes to the settings.
    fn set(&mut self, key: &str, value: &Value) {
        const FIXED: [&str; 8] = [
            "v", "sid", "writer", "seq", "lc", "created", "updated", "more",
        ];
        // An earlier version recorded facts of its clone; they are not part of the record.
        const LOCAL: [&str; 4] = ["worktree", "port", "set_up", "spool"];
        if FIXED.contains(&key) || LOCAL.contains(&key) {
            return;
        }
        if let Ok(Value::Object(mut fields)) = serde_json::to_value(&*self) {
            let before = fields.clone();
            match value {
                Value::Null => fields.remove(key),
                value => fields.insert(key.to_owned(), value.clone()),
            };
            let known = is_field(key) || before.contains_key(key);
            if known && let Ok(changed) = serde_json::from_value::<Record>(Value::Object(fields)) {
                *self = changed;
                return;
            }
        }
        self.settings.set(key, value);
    }

    /// Applies a message of the agent, which may continue its last line. A final blank stays in the activity as the
    /// sign that more follows.
    fn note_said(&mut self, text: &str) {
        if self.is_asking() {
            return;
        }
        let goes_on = text.ends_with(' ') && !text.trim().is_empty();
        if self.activity.ends_with(' ') {
            self.note_activity(&(self.activity.clone() + text))
        } else {
            self.note_activity(text)
        }
        if goes_on {
            self.activity.push(' ');
        }
    }

    /// Applies a request. The activity shows the oldest one, because the next answer is for that one.
    fn note_asked(&mut self, request: &str, title: &str) {
        self.asks.retain(|asked| asked.request != request);
        if self.asks.len() < ASKS {
            self.asks.push(Asked {
                request: request.to_owned(),
                title: shown_line(title).unwrap_or_default(),
            });
        }
        self.show_asked();
    }

    fn note_answered(&mut self, request: &str) {
        self.asks.retain(|asked| asked.request != request);
        self.show_asked();
    }

    fn show_asked(&mut self) {
        let title = self.asks.first().map(|asked| &asked.title);
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            self.activity.clone_from(title);
        }
    }

    /// Returns whether the session waits for an answer. Other activity must then not hide the question.
    fn is_asking(&self) -> bool {
        self.status == State::Waiting && !self.asks.is_empty()
    }

    fn note_activity(&mut self, text: &str) {
        if let Some(line) = shown_line(text).filter(|_| !self.is_asking()) {
            self.activity = line;
        }
    }
}

/// Returns the line of a text to show: the last one that is not blank.
fn shown_line(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty())?;
    Some(shorten(line, SHORT))
}

fn is_field(key: &str) -> bool {
    const OPTIONAL: [&str; 14] = [
        "name",
        "task",
        "agent",
        "model",
        "role",
        "group",
        "parent",
        "base",
        "branch",
        "parent_session",
        "prompt",
        "vendor_session",
        "code",
        "asks",
    ];
    OPTIONAL.contains(&key)
}

impl Progress {
    fn is_some(&self) -> bool {
        self.total > 0
    }
}

impl Usage {
    /// Takes over the given figures. Vendors report totals, but not all of them every time.
    pub fn update(&mut self, newer: &Usage) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cost_usd = newer.cost_usd.or(self.cost_usd);
    }
}

/// Shortens a text to at most `limit` characters, with `…` in place of the rest.
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(limit.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::event_words::{AnsweredBy, RequestKind, Sender};
    use crate::model::session::{Person, SessionId, WriterId};

    fn session() -> Record {
        let sid = SessionId::from_parts(Millis(1), [1; 10]);
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        Record::new(sid, writer, "fix", Person::default())
    }

    fn event(seq: u64, ts: u64, body: Body) -> Event {
        let id = SessionId::from_parts(Millis(ts), [2; 10]);
        Event {
            id,
            seq,
            lc: seq,
            ts: Millis(ts),
            turn: 1,
            body,
        }
    }

    fn status(from: State, to: State) -> Body {
        Body::Status {
            from,
            to,
            reason: String::new(),
            exit: None,
        }
    }

    #[test]
    fn time_worked_is_counted_once() {
        let mut session = session();
        session.apply(&event(1, 1000, status(State::Draft, State::Running)));
        session.apply(&event(
            2,
            2000,
            Body::Prompt {
                text: "go".into(),
                from: Sender::Unnamed,
            },
        ));
        session.apply(&event(3, 5000, status(State::Running, State::Ready)));
        session.apply(&event(3, 9000, status(State::Running, State::Failed)));
        assert_eq!(
            (session.status, session.worked_ms, session.turns),
            (State::Ready, 3000, 1)
        );
        assert_eq!(session.seq, 3);
    }

    #[test]
    fn a_line_said_in_pieces_is_one_activity() {
        let mut session = session();
        let said = |text: &str| Body::Assistant { text: text.into() };
        let mut tell = |seq: u64, body: Body| {
            session.apply(&event(seq, 1000, body));
            session.activity.clone()
        };
        assert_eq!(tell(1, said("Step 1.\nAll ")), "All ");
        assert_eq!(tell(2, said("tests ")), "All tests ");
        assert_eq!(tell(3, said("pass.")), "All tests pass.");
        assert_eq!(tell(4, said("Next")), "Next");
        let long = "word ".repeat(100);
        let cut = tell(5, said(&long));
        assert!(cut.starts_with("word word") && cut.ends_with("… "));
        assert_eq!(tell(6, said("end")), cut.trim_end());
        tell(7, said("Let me "));
        let call = Body::Permission {
            request: "1".into(),
            kind: RequestKind::Permission,
            title: "rm x".into(),
            options: Vec::new(),
            detail: String::new(),
        };
        assert_eq!(tell(8, call), "rm x");
        assert_eq!(tell(9, said("see")), "see");
    }

    #[test]
    fn of_several_requests_the_oldest_open_one_is_shown() {
        let mut session = session();
        let asks = |request: &str, title: &str| Body::Permission {
            request: request.into(),
            kind: RequestKind::Permission,
            title: title.into(),
            options: Vec::new(),
            detail: String::new(),
        };
        let answer = |request: &str| Body::Answer {
            request: request.into(),
            choice: "yes".into(),
            by: AnsweredBy::User,
        };
        let mut tell = |seq: u64, body: Body| {
            session.apply(&event(seq, 1000, body));
            session.activity.clone()
        };
        tell(1, status(State::Draft, State::Running));
        assert_eq!(tell(2, asks("1", "wipe disk")), "wipe disk");
        tell(3, status(State::Running, State::Waiting));
        assert_eq!(tell(4, asks("2", "list files")), "wipe disk");
        let said = Body::Assistant {
            text: "meanwhile ".into(),
        };
        assert_eq!(tell(5, said.clone()), "wipe disk");
        assert_eq!(tell(6, asks("3", "rm x")), "wipe disk");
        assert_eq!(tell(7, answer("2")), "wipe disk");
        assert_eq!(tell(8, answer("1")), "rm x");
        assert_eq!(tell(9, answer("3")), "rm x");
        tell(10, status(State::Waiting, State::Running));
        assert_eq!(tell(11, said), "meanwhile ");
        for seq in 12..50 {
            tell(seq, asks(&seq.to_string(), "more"));
        }
        assert_eq!(session.asks.len(), ASKS);
    }

    #[test]
    fn fields_are_set_by_name_and_the_fixed_ones_are_not() {
        let mut session = session();
        let set = |key: &str, value: Value| Body::Set {
            key: key.into(),
            value,
        };
        session.apply(&event(1, 1, set("branch", "agent/x".into())));
        session.apply(&event(2, 1, set("sid", "nonsense".into())));
        session.apply(&event(3, 1, set("branch", 7.into())));
        session.apply(&event(4, 1, set("novel", 7.into())));
        assert_eq!(session.branch.as_deref(), Some("agent/x"));
        let kept = serde_json::to_value(&session.settings).expect("JSON");
        assert_eq!(kept["novel"], 7);
        session.apply(&event(5, 1, set("branch", Value::Null)));
        assert_eq!(session.branch, None);
    }

    #[test]
    fn creation_cannot_change_identity() {
        let mut session = session();
        let mut other = session.clone();
        other.sid = SessionId::from_parts(Millis(9), [9; 10]);
        other.name = "evil".into();
        let Ok(Value::Object(fields)) = serde_json::to_value(&other) else {
            panic!("an object")
        };
        session.apply(&event(1, 1, Body::Created { session: fields }));
        assert_eq!(session.name, "fix");
    }
}
