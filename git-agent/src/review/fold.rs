//! What all writers' records on one session mean together: threads and verdicts.
//!
//! The outcome depends on the set of records and their writers alone. It does not matter in which order they arrive, how
//! they are spread over refs, or how often one is seen:
//!
//! - Records are ordered by what they follow (`after`, and what they are about), then by Lamport clock, then by id.
//! - `edit` and `del` count only from the writer of what they are about. Deleted stays deleted.
//! - `resolve` and `reopen` count from anybody; the last one decides.
//! - A writer's verdict is the one with the highest clock and id; if that one was taken back, there is none.

use std::collections::{BTreeMap, BTreeSet};

use super::threads::Threads;
use super::{Action, Place, Record, Severity, Verdict};
use crate::env::Millis;
use crate::session::{Person, SessionId, Ulid, WriterId};

/// How far a clock may run ahead of all others: more is a mistake or malice, and would use the clock up for everybody.
pub const CLOCK_JUMP: u64 = 1_000_000;

/// What the records on one session mean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Review {
    /// Threads, in the order of their first comments.
    pub threads: Vec<Thread>,
    /// Each writer's verdict.
    pub verdicts: BTreeMap<WriterId, Given>,
    /// Writers who say that the session is deleted. It counts from the session's own writer.
    pub deleted_by: BTreeSet<WriterId>,
    /// Records without effect, and why.
    pub ignored: Vec<Ignored>,
    /// The highest clock: the next record takes one more.
    pub lc: u64,
}

/// A comment and the answers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// What it is about; nothing stands for the session as a whole.
    pub at: Option<Place>,
    /// The comments, in order; the first opens the thread.
    pub comments: Vec<Comment>,
    /// Who closed it, if it is closed.
    pub resolved_by: Option<WriterId>,
}

/// One comment as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Its id.
    pub id: Ulid,
    /// Whose ref it came from.
    pub writer: WriterId,
    /// Who, as claimed.
    pub who: Person,
    /// When, as the author's clock said.
    pub ts: Millis,
    /// The text after all edits; empty when deleted.
    pub body: String,
    /// How much it matters.
    pub severity: Option<Severity>,
    /// When it was last edited.
    pub edited: Option<Millis>,
    /// Whether its author took it back.
    pub deleted: bool,
}

/// A verdict that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The record.
    pub id: Ulid,
    /// The judgement.
    pub verdict: Verdict,
    /// The branch tip that was judged.
    pub commit: String,
    /// The tree of the snapshot that was judged.
    pub tree: Option<String>,
    /// Why.
    pub body: String,
    /// Who, as claimed.
    pub who: Person,
    /// When, as the author's clock said.
    pub ts: Millis,
}

/// A record without effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ignored {
    /// Whose.
    pub writer: WriterId,
    /// Which.
    pub id: Ulid,
    /// Why.
    pub why: &'static str,
}

impl Thread {
    /// Returns whether there is anything to show: a thread all of whose comments were taken back is gone.
    pub fn is_visible(&self) -> bool {
        self.comments.iter().any(|comment| !comment.deleted)
    }

    /// Returns whether the thread still waits for somebody.
    pub fn is_open(&self) -> bool {
        self.resolved_by.is_none() && self.is_visible()
    }
}

/// A record and who wrote it: what orders records apart from what they follow.
pub(super) type Key = (u64, Ulid, WriterId);

/// The records of a session in that order. They are large, and a map moves what it holds.
type Records = BTreeMap<Key, Box<Record>>;

/// Folds records of all writers into one review a session.
pub fn fold(records: impl IntoIterator<Item = (WriterId, Record)>) -> BTreeMap<SessionId, Review> {
    let mut sessions: BTreeMap<SessionId, Records> = BTreeMap::new();
    for (writer, record) in records {
        let key = (record.lc, record.id, writer);
        let known = sessions.entry(record.sid).or_default();
        // A writer who uses an id and clock twice for different things gets one of them, the same one everywhere.
        match known.get(&key) {
            Some(kept) if text(kept) <= text(&record) => {}
            _ => {
                known.insert(key, Box::new(record));
            }
        }
    }
    sessions
        .into_iter()
        .map(|(sid, records)| (sid, fold_session(records)))
        .collect()
}

fn text(record: &Record) -> String {
    record.to_json().to_string()
}

fn fold_session(mut records: Records) -> Review {
    let mut review = Review::default();
    drop_jumps(&mut records, &mut review);
    drop_twins(&mut records, &mut review);
    let ordered = order(&records);
    let deleted = deletions(&ordered, &mut review);
    let mut threads = Threads::new(&ordered);
    for (key, record) in &ordered {
        let (_, id, writer) = key;
        let mut ignore = |why| {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id: *id,
                why,
            });
        };
        match &record.action {
            Action::Comment { .. } => {
                threads.comment(key, record, deleted.contains(&(*id, writer.clone())));
            }
            Action::Edit { target, body } => {
                if !threads.edit(*target, writer, body, record.ts) {
                    ignore("it edits no comment of its writer");
                }
            }
            Action::Resolve { target } => {
                if !threads.resolve(*target, Some(writer)) {
                    ignore("it resolves an unknown thread");
                }
            }
            Action::Reopen { target } => {
                if !threads.resolve(*target, None) {
                    ignore("it reopens an unknown thread");
                }
            }
            Action::Unknown(_) => ignore("its kind is unknown to this version"),
            Action::Del { .. } | Action::Verdict { .. } => {}
        }
    }
    review.verdicts = verdicts(&records, &deleted);
    review.threads = threads.list;
    review.ignored.sort();
    review
}

/// Drops records whose clock runs too far ahead. Looking at all clocks in their order makes the answer the same everywhere.
fn drop_jumps(records: &mut Records, review: &mut Review) {
    let mut highest = 0u64;
    records.retain(|(lc, id, writer), _| {
        if *lc > highest.saturating_add(CLOCK_JUMP) {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id: *id,
                why: "its clock runs too far ahead",
            });
            return false;
        }
        highest = *lc;
        true
    });
    review.lc = highest;
}

/// Drops a writer's later records under an id already used.
fn drop_twins(records: &mut Records, review: &mut Review) {
    let mut seen = BTreeSet::new();
    records.retain(|(_, id, writer), _| {
        let first = seen.insert((*id, writer.clone()));
        if !first {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id: *id,
                why: "its id was used before",
            });
        }
        first
    });
}

/// Orders records by what they follow, then by clock, id and writer. Records that follow each other in a circle, which
/// no honest writer can make, come in the order of their clocks.
fn order(records: &Records) -> Vec<(&Key, &Record)> {
    let mut by_id: BTreeMap<Ulid, Vec<&Key>> = BTreeMap::new();
    for key in records.keys() {
        by_id.entry(key.1).or_default().push(key);
    }
    let mut followers: BTreeMap<&Key, Vec<&Key>> = BTreeMap::new();
    let mut waits: BTreeMap<&Key, usize> = BTreeMap::new();
    for (key, record) in records {
        let before: BTreeSet<&Key> = record
            .after
            .iter()
            .chain(record.action.target())
            .filter_map(|id| by_id.get(id))
            .flatten()
            .copied()
            .filter(|other| *other != key)
            .collect();
        if !before.is_empty() {
            waits.insert(key, before.len());
        }
        for other in before {
            followers.entry(other).or_default().push(key);
        }
    }
    let mut ready: BTreeSet<&Key> = records
        .keys()
        .filter(|key| !waits.contains_key(key))
        .collect();
    let mut ordered = Vec::with_capacity(records.len());
    loop {
        let next = match ready.pop_first() {
            Some(key) => key,
            None => match waits.pop_first() {
                Some((key, _)) => key,
                None => return ordered,
            },
        };
        ordered.push((next, &*records[next]));
        for follower in followers.remove(next).unwrap_or_default() {
            if let Some(count) = waits.get_mut(follower) {
                *count -= 1;
                if *count == 0 {
                    waits.remove(follower);
                    ready.insert(follower);
                }
            }
        }
    }
}

/// Returns what was taken back, each by its own writer.
fn deletions(ordered: &[(&Key, &Record)], review: &mut Review) -> BTreeSet<(Ulid, WriterId)> {
    let known: BTreeSet<(Ulid, &WriterId)> =
        ordered.iter().map(|(key, _)| (key.1, &key.2)).collect();
    let mut deleted = BTreeSet::new();
    for ((_, id, writer), record) in ordered {
        match record.action {
            Action::Del { target: None } => {
                review.deleted_by.insert(writer.clone());
            }
            Action::Del {
                target: Some(target),
            } => {
                if known.contains(&(target, writer)) {
                    deleted.insert((target, writer.clone()));
                } else {
                    review.ignored.push(Ignored {
                        writer: writer.clone(),
                        id: *id,
                        why: "it deletes nothing of its writer",
                    });
                }
            }
            _ => {}
        }
    }
    deleted
}

fn verdicts(records: &Records, deleted: &BTreeSet<(Ulid, WriterId)>) -> BTreeMap<WriterId, Given> {
    let mut verdicts = BTreeMap::new();
    // The map's own order is by clock, then id: the last one wins.
    for ((_, id, writer), record) in records {
        if let Action::Verdict {
            verdict,
            commit,
            tree,
            body,
        } = &record.action
        {
            verdicts.insert(
                writer.clone(),
                Given {
                    id: *id,
                    verdict: *verdict,
                    commit: commit.clone(),
                    tree: tree.clone(),
                    body: body.clone(),
                    who: record.who.clone(),
                    ts: record.ts,
                },
            );
        }
    }
    verdicts.retain(|writer, given| !deleted.contains(&(given.id, writer.clone())));
    verdicts
}
