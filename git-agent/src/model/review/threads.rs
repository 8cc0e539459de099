//! Comments put together into threads, whatever they answer: chains, circles, or something nobody has.

use std::collections::HashMap;

use crate::env::Millis;
use crate::model::review::Place;
use crate::model::review::fold::{Comment, Thread};
use crate::model::session::{Ulid, WriterId};

/// A comment before threads are made: which record it is, by number.
pub(crate) struct Said {
    /// The record.
    pub(crate) at: usize,
    /// Its id.
    pub(crate) id: Ulid,
    /// Its writer, by number.
    pub(crate) by: usize,
    /// The comment it answers.
    pub(crate) answers: Option<Ulid>,
    /// Whose comment that is, by number, where it is told.
    pub(crate) of: Option<usize>,
}

/// Threads while they are put together.
pub(crate) struct Threads {
    /// The threads so far.
    pub(crate) list: Vec<Thread>,
    /// Where each comment is: thread and place in it.
    places: Vec<Option<(usize, usize)>>,
    /// The comment that opens the thread of each comment.
    roots: Vec<Option<usize>>,
    /// The thread that a comment opens.
    threads: Vec<Option<usize>>,
    ids: Ids,
}

/// Comments by their ids. Ids are random: only a forger has somebody else's.
struct Ids {
    first: HashMap<Ulid, One>,
    /// Those of other writers under an id that was used before.
    others: HashMap<Ulid, Vec<One>>,
}

/// A comment and its writer, by their numbers.
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

    /// Returns the comment that a writer means: that of whom was named, then the own one, otherwise the first in order.
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
    /// Finds out which comments belong together. The numbers of records are below `count`.
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
                // A circle of answers: the first in order among them opens the thread.
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

    /// Adds a comment, by its number, to its thread.
    pub(crate) fn comment(&mut self, this: usize, place: Option<Place>, comment: Comment) {
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

    /// Replaces the text of a comment; says whether there is such a comment.
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

    /// Closes or opens the thread of a comment, or of all under its id; says whether there is one.
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
