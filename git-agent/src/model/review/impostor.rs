//! Detects records in this clone's name that it did not write, as anyone who may push can do. Such records may add
//! comments, which are marked as claimed, but cannot change or remove this clone's own.

use std::collections::BTreeSet;

use crate::model::review::standing::session_of;
use crate::model::review::{Action, Record};
use crate::model::session::{SessionId, Ulid, WriterId};

/// A record, and whether it is genuine where it bears this clone's name.
#[derive(Debug, Clone)]
pub struct Told {
    /// The record.
    pub record: Record,
    /// Whether the record is not forged in this clone's name.
    pub own: bool,
}

/// Records in this clone's name that it did not write.
pub type Posed = BTreeSet<(WriterId, Ulid)>;

/// A reviewer of a session: writer, session, and the reviewing agent's session if there is one.
type Judge = (WriterId, SessionId, Option<SessionId>);

/// Drops forged records that would change this clone's own verdicts or comments. Returns the remaining records, and the
/// forged ones among them. A forged verdict counts only for the `shared` writer, whose name several machines use.
pub fn sift(
    records: Vec<(WriterId, Told)>,
    shared: Option<&WriterId>,
) -> (Vec<(WriterId, Record)>, Posed) {
    let mut posed = Posed::new();
    if records.iter().all(|(_, told)| told.own) {
        let records = records.into_iter();
        let records = records.map(|(writer, told)| (writer, told.record));
        return (records.collect(), posed);
    }
    let judge = |writer: &WriterId, record: &Record| -> Judge {
        (writer.clone(), record.sid, session_of(&record.who))
    };
    let mut said = BTreeSet::new();
    let mut judged = BTreeSet::new();
    for (writer, told) in records.iter().filter(|(_, told)| told.own) {
        said.insert((writer.clone(), told.record.id));
        if matches!(told.record.action, Action::Verdict { .. }) {
            judged.insert(judge(writer, &told.record));
        }
    }
    let mut kept = Vec::with_capacity(records.len());
    for (writer, Told { record, own }) in records {
        if !own {
            let about = |id: &Ulid| said.contains(&(writer.clone(), *id));
            let changes = match &record.action {
                Action::Verdict { .. } => {
                    shared != Some(&writer) || judged.contains(&judge(&writer, &record))
                }
                Action::Edit { target, .. } => about(target),
                Action::Del { target } => target.as_ref().is_none_or(about),
                _ => about(&record.id),
            };
            if changes {
                continue;
            }
            posed.insert((writer.clone(), record.id));
        }
        kept.push((writer, record));
    }
    (kept, posed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::review::Verdict;
    use crate::model::session::Person;

    fn told(at: u64, own: bool, action: Action) -> (WriterId, Told) {
        let record = Record {
            id: Ulid::from_parts(Millis(at), [1; 10]),
            sid: SessionId::from_parts(Millis(1), [2; 10]),
            after: Vec::new(),
            lc: at,
            ts: Millis(at),
            who: Person::default(),
            action,
        };
        let writer = "ada-1a2b".parse().expect("a writer");
        (writer, Told { record, own })
    }

    fn verdict(verdict: Verdict) -> Action {
        Action::Verdict {
            verdict,
            commit: "c".into(),
            tree: None,
            base: None,
            body: String::new(),
        }
    }

    fn comment(body: &str) -> Action {
        Action::Comment {
            target: None,
            of: None,
            at: None,
            body: body.into(),
            severity: None,
        }
    }

    #[test]
    fn nobody_changes_what_this_clone_said() {
        let target = Ulid::from_parts(Millis(2), [1; 10]);
        let edit = Action::Edit {
            target,
            body: "other words".into(),
        };
        let records = vec![
            told(1, true, verdict(Verdict::Reject)),
            told(2, true, comment("words")),
            told(2, false, comment("others with the same id")),
            told(3, false, verdict(Verdict::Approve)),
            told(4, false, edit),
            told(
                5,
                false,
                Action::Del {
                    target: Some(target),
                },
            ),
            told(6, false, Action::Del { target: None }),
            told(7, false, comment("more")),
        ];
        let shared = records[0].0.clone();
        for shared in [None, Some(&shared)] {
            let (kept, posed) = sift(records.clone(), shared);
            let kept: Vec<u64> = kept.iter().map(|(_, record)| record.lc).collect();
            assert_eq!(kept, [1, 2, 7]);
            assert_eq!(posed.len(), 1);
        }
    }

    #[test]
    fn a_verdict_in_its_name_counts_only_where_the_name_is_shared() {
        let records = vec![told(3, false, verdict(Verdict::Approve))];
        assert!(sift(records.clone(), None).0.is_empty());
        let shared = records[0].0.clone();
        let (kept, posed) = sift(records, Some(&shared));
        assert_eq!((kept.len(), posed.len()), (1, 1));
    }
}
