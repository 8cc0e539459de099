//! Comments put together into threads, whatever they answer: chains, circles, or something nobody has.

use std::collections::BTreeMap;

use super::fold::{Comment, Key, Thread};
use super::{Action, Record};
use crate::env::Millis;
use crate::session::{Ulid, WriterId};

/// Threads while they are put together.
pub(super) struct Threads {
    /// The threads so far.
    pub(super) list: Vec<Thread>,
    /// Where each comment is: thread and place in it.
    places: BTreeMap<(Ulid, WriterId), (usize, usize)>,
    /// The comment that opens the thread of each comment.
    roots: BTreeMap<(Ulid, WriterId), (Ulid, WriterId)>,
    threads: BTreeMap<(Ulid, WriterId), usize>,
    by_id: BTreeMap<Ulid, (Ulid, WriterId)>,
}

impl Threads {
    /// Finds out which comments belong together.
    pub(super) fn new(ordered: &[(&Key, &Record)]) -> Self {
        let mut by_id: BTreeMap<Ulid, (Ulid, WriterId)> = BTreeMap::new();
        let mut answers: BTreeMap<(Ulid, WriterId), Ulid> = BTreeMap::new();
        for ((_, id, writer), record) in ordered {
            if let Action::Comment { target, .. } = &record.action {
                let this = (*id, writer.clone());
                if let Some(target) = target {
                    answers.insert(this.clone(), *target);
                }
                // Ids are random: only a forger has somebody else's. The first in order stands for the id.
                by_id.entry(*id).or_insert(this);
            }
        }
        let mut roots: BTreeMap<(Ulid, WriterId), (Ulid, WriterId)> = BTreeMap::new();
        for ((_, id, writer), record) in ordered {
            if !matches!(record.action, Action::Comment { .. }) {
                continue;
            }
            let mut path = vec![(*id, writer.clone())];
            let root = loop {
                let last = path[path.len() - 1].clone();
                if let Some(known) = roots.get(&last) {
                    break known.clone();
                }
                let Some(next) = answers.get(&last).and_then(|target| by_id.get(target)) else {
                    break last;
                };
                // A circle of answers: the first in order among them opens the thread.
                if path.contains(next) {
                    break path[0].clone();
                }
                path.push(next.clone());
            };
            for step in path {
                roots.insert(step, root.clone());
            }
        }
        Threads {
            list: Vec::new(),
            places: BTreeMap::new(),
            roots,
            threads: BTreeMap::new(),
            by_id,
        }
    }

    /// Adds a comment to its thread.
    pub(super) fn comment(&mut self, key: &Key, record: &Record, deleted: bool) {
        let Action::Comment {
            at, body, severity, ..
        } = &record.action
        else {
            return;
        };
        let this = (key.1, key.2.clone());
        let root = self.roots.get(&this).cloned().unwrap_or(this.clone());
        let index = *self.threads.entry(root.clone()).or_insert_with(|| {
            self.list.push(Thread {
                at: None,
                comments: Vec::new(),
                resolved_by: None,
            });
            self.list.len() - 1
        });
        let thread = &mut self.list[index];
        if this == root {
            thread.at.clone_from(at);
        }
        thread.comments.push(Comment {
            id: key.1,
            writer: key.2.clone(),
            who: record.who.clone(),
            ts: record.ts,
            body: if deleted { String::new() } else { body.clone() },
            severity: *severity,
            edited: None,
            deleted,
        });
        self.places.insert(this, (index, thread.comments.len() - 1));
    }

    /// Replaces a writer's own text; says whether there is such a comment.
    pub(super) fn edit(&mut self, target: Ulid, writer: &WriterId, body: &str, ts: Millis) -> bool {
        let Some((thread, place)) = self.places.get(&(target, writer.clone())) else {
            return false;
        };
        let comment = &mut self.list[*thread].comments[*place];
        if !comment.deleted {
            comment.body = body.to_owned();
            comment.edited = Some(ts);
        }
        true
    }

    /// Closes or opens the thread of a comment; says whether there is one.
    pub(super) fn resolve(&mut self, target: Ulid, by: Option<&WriterId>) -> bool {
        let Some(thread) = self
            .by_id
            .get(&target)
            .and_then(|comment| self.places.get(comment))
            .map(|(thread, _)| *thread)
        else {
            return false;
        };
        self.list[thread].resolved_by = by.cloned();
        true
    }
}
