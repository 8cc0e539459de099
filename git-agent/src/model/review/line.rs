//! Parses a record from its line without building a tree of JSON first. Lines that differ from the usual form go to the
//! general parser, so that both give the same result for every line.

use serde::{Deserialize, Deserializer};

use crate::env::Millis;
use crate::error::{Context, Result};
use crate::model::review::{
    Action, CodePlace, CommentPlace, FORMAT, Record, Severity, Side, Verdict,
};
use crate::model::session::{Person, SessionId, Ulid, WriterId};

/// The fields of all kinds of records.
#[derive(Deserialize)]
struct Fields {
    v: u32,
    id: Ulid,
    sid: SessionId,
    #[serde(default)]
    after: Vec<Ulid>,
    lc: u64,
    ts: Millis,
    #[serde(default)]
    who: Person,
    op: Op,
    #[serde(default, deserialize_with = "given")]
    target: Option<Ulid>,
    #[serde(default, deserialize_with = "given")]
    of: Option<WriterId>,
    #[serde(default, deserialize_with = "given")]
    at: Option<Spot>,
    #[serde(default, deserialize_with = "given")]
    body: Option<String>,
    #[serde(default, deserialize_with = "given")]
    severity: Option<Severity>,
    #[serde(default, deserialize_with = "given")]
    verdict: Option<Verdict>,
    #[serde(default, deserialize_with = "given")]
    commit: Option<String>,
    #[serde(default, deserialize_with = "given")]
    tree: Option<String>,
    #[serde(default, deserialize_with = "given")]
    base: Option<String>,
}

/// Parses a field that is present. No version writes nulls, and their meaning differs by field, so a null leads to the
/// general parser.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Comment,
    Edit,
    Del,
    Verdict,
    Resolve,
    Reopen,
}

/// The fields of all kinds of places.
#[derive(Deserialize)]
struct Spot {
    #[serde(default, deserialize_with = "given")]
    event: Option<Ulid>,
    #[serde(default, deserialize_with = "given")]
    turn: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    commit: Option<String>,
    #[serde(default, deserialize_with = "given")]
    path: Option<String>,
    #[serde(default)]
    side: Side,
    #[serde(default, deserialize_with = "given")]
    line: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    end: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    blob: Option<String>,
    #[serde(default, deserialize_with = "given")]
    hunk_sha: Option<String>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    text: Vec<String>,
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    repeated: bool,
}

impl Record {
    /// Parses a record from its line. Fails if the line is not a record, or has a format that this version does not
    /// know.
    pub fn from_line(line: &str) -> Result<Self> {
        match plain(line) {
            Some(record) => Ok(record),
            None => {
                let value = serde_json::from_str(line)
                    .context(|| "review record is not a JSON object".into())?;
                Record::from_json(value)
            }
        }
    }
}

/// Parses a record in the form that this version writes.
fn plain(line: &str) -> Option<Record> {
    let fields: Fields = serde_json::from_str(line).ok()?;
    if fields.v != FORMAT {
        return None;
    }
    let at = match fields.at {
        None => None,
        Some(spot) => Some(place(spot)?),
    };
    let action = match fields.op {
        Op::Comment => Action::Comment {
            target: fields.target,
            of: fields.of,
            at,
            body: fields.body?,
            severity: fields.severity,
        },
        Op::Edit => Action::Edit {
            target: fields.target?,
            body: fields.body?,
        },
        Op::Del => Action::Del {
            target: fields.target,
        },
        Op::Verdict => Action::Verdict {
            verdict: fields.verdict?,
            commit: fields.commit?,
            tree: fields.tree,
            base: fields.base,
            body: fields.body.unwrap_or_default(),
        },
        Op::Resolve => Action::Resolve {
            target: fields.target?,
        },
        Op::Reopen => Action::Reopen {
            target: fields.target?,
        },
    };
    Some(Record {
        id: fields.id,
        sid: fields.sid,
        after: fields.after,
        lc: fields.lc,
        ts: fields.ts,
        who: fields.who,
        action,
    })
}

fn place(spot: Spot) -> Option<CommentPlace> {
    if let Some(event) = spot.event {
        let turn = spot.turn;
        return Some(CommentPlace::Event { event, turn });
    }
    Some(CommentPlace::Code(CodePlace {
        commit: spot.commit?,
        path: spot.path,
        side: spot.side,
        line: spot.line,
        end: spot.end,
        blob: spot.blob,
        hunk_sha: spot.hunk_sha,
        before: spot.before,
        text: spot.text,
        after: spot.after,
        repeated: spot.repeated,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#""v":1,"id":"01m7hvf3dt8j7z5dsasy5gvhd6","sid":"01m7hvf3dt8j7z5dsasy5gvhd7","lc":3,"ts":5"#;
    const ID: &str = "01m7hvf3dt8j7z5dsasy5gvhd8";

    /// Parses a line in both ways and returns whether the fast parser had a result.
    fn both(rest: &str) -> bool {
        let line = format!("{{{HEAD}{rest}}}");
        let slow = serde_json::from_str(&line)
            .ok()
            .and_then(|value| Record::from_json(value).ok());
        assert_eq!(Record::from_line(&line).ok(), slow, "{line}");
        let fast = plain(&line);
        assert!(fast.is_none() || fast == slow, "{line}");
        fast.is_some()
    }

    #[test]
    fn both_ways_read_the_same() {
        let place = r#"{"commit":"c0","path":"a","line":2,"end":4,"blob":"b0","hunk_sha":"h","before":["x"],"text":["y"],"after":["z"],"side":"old"}"#;
        let repeated = place.replace("}", r#","repeated":true}"#);
        for rest in [
            format!(r#","op":"comment","body":"x","at":{repeated}"#),
            format!(r#","op":"comment","body":"t\u00e9xt\n","at":{place}"#),
            format!(
                r#","op":"comment","body":"","target":"{ID}","severity":"major","who":{{"name":"A","email":"a@b"}}"#
            ),
            format!(r#","op":"comment","body":"x","at":{{"event":"{ID}"}},"after":["{ID}"]"#),
            format!(r#","op":"comment","body":"x","at":{{"event":"{ID}","turn":3}}"#),
            format!(r#","op":"comment","body":"x","target":"{ID}","of":"ada-1a2b""#),
            format!(r#","op":"edit","target":"{ID}","body":"new""#),
            r#","op":"del""#.to_owned(),
            format!(r#","op":"del","target":"{ID}""#),
            r#","op":"verdict","verdict":"request-changes","commit":"c","tree":"t""#.to_owned(),
            r#","op":"verdict","verdict":"approve","commit":"c","body":"why""#.to_owned(),
            r#","op":"verdict","verdict":"approve","commit":"c","tree":"t","base":"b""#.to_owned(),
            format!(r#","op":"resolve","target":"{ID}","extra":{{"a":[1]}}"#),
            format!(r#","op":"reopen","target":"{ID}","extra":null"#),
        ] {
            assert!(both(&rest), "{rest}");
        }
    }

    #[test]
    fn what_is_odd_is_read_in_the_general_way() {
        for rest in [
            String::new(),
            r#","op":7"#.to_owned(),
            r#","op":"dance","body":"x""#.to_owned(),
            r#","op":"comment""#.to_owned(),
            r#","op":"comment","body":null"#.to_owned(),
            r#","op":"comment","body":5"#.to_owned(),
            r#","op":"comment","body":"x","severity":"huge""#.to_owned(),
            r#","op":"comment","body":"x","body":"y""#.to_owned(),
            r#","op":"comment","body":"x","at":{"path":"a"}"#.to_owned(),
            r#","op":"comment","body":"x","at":{"event":"no id","commit":"c"}"#.to_owned(),
            r#","op":"comment","body":"x","at":[]"#.to_owned(),
            r#","op":"comment","body":"x","of":"no writer""#.to_owned(),
            r#","op":"comment","body":"x","at":null"#.to_owned(),
            r#","op":"comment","body":"x","at":{"commit":"c","path":null}"#.to_owned(),
            r#","op":"comment","body":"x","at":{"commit":"c","before":null}"#.to_owned(),
            r#","op":"comment","body":"x","who":null"#.to_owned(),
            r#","op":"del","target": null"#.to_owned(),
            r#","op":"edit","body":"x""#.to_owned(),
            r#","op":"verdict","verdict":"approve","commit":"c","body":null"#.to_owned(),
            r#","op":"verdict","verdict":"approve","commit":"c","base":null"#.to_owned(),
            r#","op":"verdict","verdict":"maybe","commit":"c""#.to_owned(),
            r#","op":"resolve""#.to_owned(),
            r#","op":"del","lc":9"#.to_owned(),
        ] {
            assert!(!both(&rest), "{rest}");
        }
        assert!(Record::from_line("{").is_err());
        assert!(Record::from_line("[]").is_err());
        assert!(Record::from_line(&format!("{{{}}}", HEAD.replace("\"v\":1", "\"v\":9"))).is_err());
    }
}
