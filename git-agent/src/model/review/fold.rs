//! Folds the records of all writers on one session into threads and verdicts.
//!
//! The result depends only on the set of records and their writers. The order of arrival, the distribution over refs
//! and repetitions do not matter:
//!
//! - Records are ordered by the records they follow (`after` and their target), then by Lamport clock, then by id.
//! - `edit` and `del` count only from the writer of the target. A deletion is final.
//! - `resolve` and `reopen` count from every writer; the last one decides.
//! - A writer's verdict is the one with the highest clock and id; if it was withdrawn, the writer has none. Agents that
//!   write in the same clone have separate verdicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::env::Millis;
use crate::model::review::authorship::Authorship;
use crate::model::review::standing::session_of;
use crate::model::review::threads::{Said, Threads};
use crate::model::review::{Action, CommentPlace, Record, Severity, Verdict};
use crate::model::session::{Person, SessionId, Ulid, WriterId};

/// How far a clock may run ahead of all others. A larger jump is a mistake or malice, and would exhaust the clock for
/// all.
pub const CLOCK_JUMP: u64 = 1_000_000;

/// The review of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Review {
    /// Threads, in the order of their first comments.
    pub threads: Vec<Thread>,
    /// The verdict of each writer's people, and of each of its agents by session.
    pub verdicts: BTreeMap<(WriterId, Option<SessionId>), Given>,
    /// Writers who deleted the session. Only the session's own writer counts.
    pub deleted_by: BTreeSet<WriterId>,
    /// Records without effect, and the reason.
    pub ignored: Vec<Ignored>,
    /// Whether another person's approval counts only with a matching signature.
    pub wants_signatures: bool,
    /// The sessions named by `agent.approvers`, whose approval counts.
    pub approvers: BTreeSet<SessionId>,
    /// The highest clock; the next record takes one more.
    pub lc: u64,
}

/// A comment and its replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The place it is about; `None` for the session as a whole.
    pub at: Option<CommentPlace>,
    /// The comments, in order; the first opens the thread.
    pub comments: Vec<Comment>,
    /// The writer who resolved it, if it is resolved.
    pub resolved_by: Option<WriterId>,
}

/// One comment after all edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The id of its record.
    pub id: Ulid,
    /// The writer of the ref that holds it.
    pub writer: WriterId,
    /// The author, as claimed.
    pub who: Person,
    /// The proof of the author; `None` for comments of this clone.
    pub claim: Option<Authorship>,
    /// The time by the author's clock.
    pub ts: Millis,
    /// The text after all edits; empty if deleted.
    pub body: String,
    /// The severity, if the author gave one.
    pub severity: Option<Severity>,
    /// The time of the last edit.
    pub edited: Option<Millis>,
    /// Whether its author deleted it.
    pub deleted: bool,
}

/// A verdict that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The id of its record.
    pub id: Ulid,
    /// The reviewer's decision.
    pub verdict: Verdict,
    /// The branch tip that was judged.
    pub commit: String,
    /// The tree of the snapshot that was judged.
    pub tree: Option<String>,
    /// The commit it was judged against; older records lack it.
    pub base: Option<String>,
    /// The reason, in words.
    pub body: String,
    /// The reviewer, as claimed.
    pub who: Person,
    /// The proof of the reviewer; `None` for verdicts of this clone.
    pub claim: Option<Authorship>,
    /// The time by the reviewer's clock.
    pub ts: Millis,
}

/// A record without effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ignored {
    /// The writer of the record.
    pub writer: WriterId,
    /// The id of the record.
    pub id: Ulid,
    /// The reason.
    pub why: &'static str,
}

impl Thread {
    /// Returns whether the thread has anything to show: one with only deleted comments does not.
    pub fn is_visible(&self) -> bool {
        self.comments.iter().any(|comment| !comment.deleted)
    }

    /// Returns whether the thread is unresolved and visible.
    pub fn is_open(&self) -> bool {
        self.resolved_by.is_none() && self.is_visible()
    }
}

/// The records of a session with their writers, boxed because they are large and sorting moves them.
type Records = Vec<(WriterId, Box<Record>)>;

/// A record of a session, and the index of its writer.
struct Entry {
    by: usize,
    /// Moved out at the end, instead of copied.
    record: Option<Box<Record>>,
}

/// The records of a session, ordered by clock, id and writer. The code below names a record by its index in this order.
struct SessionRecords {
    /// Sorted, so that their indexes have the same order.
    writers: Vec<WriterId>,
    entries: Vec<Entry>,
}

/// Folds the records of all writers into one review per session.
pub fn fold(records: impl IntoIterator<Item = (WriterId, Record)>) -> BTreeMap<SessionId, Review> {
    let mut sessions: BTreeMap<SessionId, Records> = BTreeMap::new();
    for (writer, record) in records {
        let known = sessions.entry(record.sid).or_default();
        known.push((writer, Box::new(record)));
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
    sort(&mut records);
    drop_jumps(&mut records, &mut review);
    drop_twins(&mut records, &mut review);
    let mut session = SessionRecords::new(records);
    let ids = session.ids();
    let deleted = session.deletions(&ids, &mut review);
    review.verdicts = session.verdicts(&deleted);
    let order = session.order(&ids);
    let mut threads = Threads::new(&session.comments(&order), session.entries.len());
    for at in order {
        let Some(record) = session.entries[at].record.take() else {
            continue;
        };
        let Record {
            id,
            ts,
            who,
            action,
            ..
        } = *record;
        let by = session.entries[at].by;
        let writer = &session.writers[by];
        let mut ignore = |why| {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id,
                why,
            });
        };
        match action {
            Action::Comment {
                at: place,
                body,
                severity,
                ..
            } => {
                let deleted = deleted[at];
                let comment = Comment {
                    id,
                    writer: writer.clone(),
                    who,
                    claim: None,
                    ts,
                    body: if deleted { String::new() } else { body },
                    severity,
                    edited: None,
                    deleted,
                };
                threads.comment(at, place, comment);
            }
            Action::Edit { target, body } => {
                let edited = session.find(&ids, target, by);
                if !edited.is_some_and(|target| threads.edit(target, body, ts)) {
                    ignore("it does not edit a comment of its writer");
                }
            }
            Action::Resolve { target } => {
                if !threads.resolve(target, Some(writer)) {
                    ignore("it resolves an unknown thread");
                }
            }
            Action::Reopen { target } => {
                if !threads.resolve(target, None) {
                    ignore("it reopens an unknown thread");
                }
            }
            Action::Unknown(_) => ignore("its kind is unknown to this version"),
            Action::Del { .. } | Action::Verdict { .. } => {}
        }
    }
    review.threads = threads.list;
    review.ignored.sort();
    review
}

/// Returns the sort key of records, apart from those they follow.
fn key((writer, record): &(WriterId, Box<Record>)) -> (u64, Ulid, &WriterId) {
    (record.lc, record.id, writer)
}

/// Sorts records by clock, id and writer. If a writer used an id and clock twice for different content, the same one
/// wins in every clone.
fn sort(records: &mut Records) {
    records.sort_by(|one, other| {
        key(one)
            .cmp(&key(other))
            .then_with(|| text(&one.1).cmp(&text(&other.1)))
    });
    records.dedup_by(|later, kept| key(later) == key(kept));
}

/// Drops records whose clock runs too far ahead. Reading the clocks in order gives the same result in every clone.
fn drop_jumps(records: &mut Records, review: &mut Review) {
    let mut highest = 0u64;
    records.retain(|(writer, record)| {
        if record.lc > highest.saturating_add(CLOCK_JUMP) {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id: record.id,
                why: "its clock runs too far ahead",
            });
            return false;
        }
        highest = record.lc;
        true
    });
    review.lc = highest;
}

/// Drops a writer's later records under an id that it already used.
fn drop_twins(records: &mut Records, review: &mut Review) {
    let mut named: Vec<(Ulid, &WriterId, usize)> = records
        .iter()
        .enumerate()
        .map(|(at, (writer, record))| (record.id, writer, at))
        .collect();
    named.sort_unstable();
    let mut twins: Vec<usize> = named
        .windows(2)
        .filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1))
        .map(|pair| pair[1].2)
        .collect();
    if twins.is_empty() {
        return;
    }
    twins.sort_unstable();
    let mut at = 0;
    records.retain(|(writer, record)| {
        let first = twins.binary_search(&at).is_err();
        at += 1;
        if !first {
            review.ignored.push(Ignored {
                writer: writer.clone(),
                id: record.id,
                why: "its id was used before",
            });
        }
        first
    });
}

/// Indexes of records, sorted by id.
type Ids = Vec<(Ulid, usize)>;

impl SessionRecords {
    fn new(records: Records) -> Self {
        let mut writers: Vec<WriterId> = Vec::new();
        for (writer, _) in &records {
            if let Err(at) = writers.binary_search(writer) {
                writers.insert(at, writer.clone());
            }
        }
        let entries = records
            .into_iter()
            .map(|(writer, record)| Entry {
                by: writers.partition_point(|other| *other < writer),
                record: Some(record),
            })
            .collect();
        SessionRecords { writers, entries }
    }

    /// Returns the records that have not been moved out, with their indexes.
    fn records(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((at, entry.record.as_deref()?)))
    }

    fn ids(&self) -> Ids {
        let mut ids: Ids = self.records().map(|(at, record)| (record.id, at)).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the record of a writer with an id.
    fn find(&self, ids: &Ids, id: Ulid, by: usize) -> Option<usize> {
        named(ids, id).find(|at| self.entries[*at].by == by)
    }

    /// Orders records by the records they follow, then by clock, id and writer. Records that follow each other in a
    /// cycle, which no honest writer makes, come in the order of their clocks.
    fn order(&self, ids: &Ids) -> Vec<usize> {
        let mut followers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, record) in self.records() {
            let followed = record.after.iter().chain(record.action.target());
            let before: BTreeSet<usize> = followed
                .flat_map(|id| named(ids, *id))
                .filter(|other| *other != at)
                .collect();
            if !before.is_empty() {
                waits.insert(at, before.len());
            }
            for other in before {
                followers.entry(other).or_default().push(at);
            }
        }
        if waits.is_empty() {
            return (0..self.entries.len()).collect();
        }
        let mut ready: BTreeSet<usize> = (0..self.entries.len())
            .filter(|at| !waits.contains_key(at))
            .collect();
        let mut order = Vec::with_capacity(self.entries.len());
        loop {
            let next = match ready.pop_first() {
                Some(next) => next,
                None => match waits.pop_first() {
                    Some((next, _)) => next,
                    None => return order,
                },
            };
            order.push(next);
            for follower in followers.remove(&next).unwrap_or_default() {
                if let Some(count) = waits.get_mut(&follower) {
                    *count -= 1;
                    if *count == 0 {
                        waits.remove(&follower);
                        ready.insert(follower);
                    }
                }
            }
        }
    }

    /// Returns the comments in the given order: index, id, and the comment each replies to.
    fn comments(&self, order: &[usize]) -> Vec<Said> {
        let said = |at: &usize| match self.entries[*at].record.as_deref()? {
            Record {
                id,
                action: Action::Comment { target, of, .. },
                ..
            } => Some(Said {
                at: *at,
                id: *id,
                by: self.entries[*at].by,
                answers: *target,
                of: of
                    .as_ref()
                    .and_then(|of| self.writers.binary_search(of).ok()),
            }),
            _ => None,
        };
        order.iter().filter_map(said).collect()
    }

    /// Returns for each record whether its own writer deleted it.
    fn deletions(&self, ids: &Ids, review: &mut Review) -> Vec<bool> {
        let mut deleted = vec![false; self.entries.len()];
        for (at, record) in self.records() {
            let by = self.entries[at].by;
            let writer = &self.writers[by];
            match record.action {
                Action::Del { target: None } => {
                    review.deleted_by.insert(writer.clone());
                }
                Action::Del {
                    target: Some(target),
                } => match self.find(ids, target, by) {
                    Some(target) => deleted[target] = true,
                    None => review.ignored.push(Ignored {
                        writer: writer.clone(),
                        id: record.id,
                        why: "it does not delete a record of its writer",
                    }),
                },
                _ => {}
            }
        }
        deleted
    }

    fn verdicts(&self, deleted: &[bool]) -> BTreeMap<(WriterId, Option<SessionId>), Given> {
        // The last one by clock, then by id, wins.
        let mut last: BTreeMap<(usize, Option<SessionId>), (usize, &Record)> = BTreeMap::new();
        for (at, record) in self.records() {
            if matches!(record.action, Action::Verdict { .. }) {
                let judge = (self.entries[at].by, session_of(&record.who));
                last.insert(judge, (at, record));
            }
        }
        last.into_iter()
            .filter(|(_, (at, _))| !deleted[*at])
            .filter_map(|((by, agent), (_, record))| {
                Some(((self.writers[by].clone(), agent), given(record)?))
            })
            .collect()
    }
}

/// Returns the indexes of the records with an id.
fn named(ids: &Ids, id: Ulid) -> impl Iterator<Item = usize> {
    let first = ids.partition_point(|(other, _)| *other < id);
    ids[first..]
        .iter()
        .take_while(move |(other, _)| *other == id)
        .map(|(_, at)| *at)
}

fn given(record: &Record) -> Option<Given> {
    let Action::Verdict {
        verdict,
        commit,
        tree,
        base,
        body,
    } = &record.action
    else {
        return None;
    };
    Some(Given {
        id: record.id,
        verdict: *verdict,
        commit: commit.clone(),
        tree: tree.clone(),
        base: base.clone(),
        body: body.clone(),
        who: record.who.clone(),
        claim: None,
        ts: record.ts,
    })
}
