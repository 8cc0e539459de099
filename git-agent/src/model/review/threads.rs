//! Groups comments into threads, even if replies form chains or cycles, or refer to missing comments.

use std::collections::HashMap;

use crate::env::Millis;
use crate::model::review::CommentPlace;
use crate::model::review::fold::{Comment, Thread};
use crate::model::session::{Ulid, WriterId};

/// A comment before it is put into a thread.
pub(crate) struct Said {
    /// The index of its record.
    pub(crate) at: usize,
    /// The id of its record.
    pub(crate) id: Ulid,
    /// The index of its writer.
    pub(crate) by: usize,
    /// The comment it replies to.
    pub(crate) answers: Option<Ulid>,
    /// The index of that comment's writer, if the reply names one.
    pub(crate) of: Option<usize>,
}

/// Threads under construction.
pub(crate) struct Threads {
    /// The threads so far.
    pub(crate) list: Vec<Thread>,
    /// The position of each comment: thread, and index in it.
    places: Vec<Option<(usize, usize)>>,
    /// The comment that opens the thread of each comment.
    roots: Vec<Option<usize>>,
    /// The thread that each comment opens.
    threads: Vec<Option<usize>>,
    ids: Ids,
}

/// Comments by id. Ids are random, so only a forger reuses another writer's.
struct Ids {
    first: HashMap<Ulid, One>,
    /// Comments of further writers under the same id.
    others: HashMap<Ulid, Vec<One>>,
}

/// The indexes of a comment and its writer.
#[derive(Clone, Copy)]
struct One {
    by: usize,
    at: usize,
}

impl Ids {
    fn new(ordered: &[Said]) -> Self {
        let mut first: HashMap<Ulid, One> = HashMap::with_capacity(ordered.len());
        let mut others: HashMap<Ulid, Vec<One>> = HashMap::new();
        for said in ordered {
            let one = One {
                by: said.by,
                at: said.at,
            };
            if first.entry(said.id).or_insert(one).at != said.at {
                others.entry(said.id).or_default().push(one);
            }
        }
        Ids { first, others }
    }

    /// Returns the comment that a writer refers to: that of the named writer, else the writer's own, else the first.
    fn meant(&self, id: Ulid, by: usize, of: Option<usize>) -> Option<usize> {
        let first = self.first.get(&id)?;
        let Some(others) = self.others.get(&id) else {
            return Some(first.at);
        };
        let wrote = |by: usize| {
            let all = std::iter::once(first).chain(others);
            all.into_iter().find(|one| one.by == by)
        };
        let meant = of.and_then(wrote).or_else(|| wrote(by)).unwrap_or(first);
        Some(meant.at)
    }

    /// Returns all comments with an id.
    fn all(&self, id: Ulid) -> impl Iterator<Item = usize> {
        let others = self.others.get(&id).map_or(&[][..], Vec::as_slice);
        let first = self.first.get(&id);
        first.into_iter().chain(others).map(|one| one.at)
    }
}

impl Threads {
    /// Finds the thread of each comment. `count` is the number of records.
    pub(crate) fn new(ordered: &[Said], count: usize) -> Self {
        let ids = Ids::new(ordered);
        let mut answers: Vec<Option<usize>> = vec![None; count];
        for said in ordered {
            answers[said.at] = said.answers.and_then(|id| ids.meant(id, said.by, said.of));
        }
        let mut roots: Vec<Option<usize>> = vec![None; count];
        for said in ordered {
            let mut path = vec![said.at];
            let root = loop {
                let last = path[path.len() - 1];
                if let Some(known) = roots[last] {
                    break known;
                }
                let Some(next) = answers[last] else {
                    break last;
                };
                // A cycle of replies: the first in order opens the thread.
                if path.contains(&next) {
                    break path[0];
                }
                path.push(next);
            };
            for step in path {
                roots[step] = Some(root);
            }
        }
        Threads {
            list: Vec::with_capacity(ordered.len()),
            places: vec![None; count],
            roots,
            threads: vec![None; count],
            ids,
        }
    }

    /// Adds the comment with this index to its thread.
    pub(crate) fn comment(&mut self, this: usize, place: Option<CommentPlace>, comment: Comment) {
        let root = self.roots[this].unwrap_or(this);
        let index = *self.threads[root].get_or_insert_with(|| {
            self.list.push(Thread {
                at: None,
                comments: Vec::new(),
                resolved_by: None,
            });
            self.list.len() - 1
        });
        let thread = &mut self.list[index];
        if this == root {
            thread.at = place;
        }
        thread.comments.push(comment);
        self.places[this] = Some((index, thread.comments.len() - 1));
    }

    /// Replaces the text of a comment. Returns whether the comment exists.
    pub(crate) fn edit(&mut self, target: usize, body: String, ts: Millis) -> bool {
        let Some((thread, place)) = self.places[target] else {
            return false;
        };
        let comment = &mut self.list[thread].comments[place];
        if !comment.deleted {
            comment.body = body;
            comment.edited = Some(ts);
        }
        true
    }

    /// Resolves or reopens the threads of all comments with an id. Returns whether there is one.
    pub(crate) fn resolve(&mut self, target: Ulid, by: Option<&WriterId>) -> bool {
        let mut found = false;
        for comment in self.ids.all(target) {
            if let Some((thread, _)) = self.places[comment] {
                self.list[thread].resolved_by = by.cloned();
                found = true;
            }
        }
        found
    }
}
