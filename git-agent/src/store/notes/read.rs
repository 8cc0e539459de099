//! Reading notes: those of this clone and of every teammate, with who wrote them. What cannot be read is said and skipped.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::lines::Lines;
use super::{Kind, tree};
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::session::WriterId;
use crate::store::refname::{REMOTES, RefName};
use crate::store::{Store, limits};

/// One ref with notes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotesRef {
    /// Who wrote them.
    pub writer: WriterId,
    /// The remote this is a copy of; `None` for what this clone keeps itself.
    pub remote: Option<String>,
    /// The full name of the ref.
    pub name: String,
    /// Its commit.
    pub tip: ObjectId,
}

/// The notes of one writer on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Who wrote them.
    pub writer: WriterId,
    /// The annotated object. It need not exist here.
    pub on: ObjectId,
    /// The records' lines, sorted, none twice.
    pub lines: BTreeSet<String>,
}

/// A record as its caller understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<T> {
    /// Who wrote it.
    pub writer: WriterId,
    /// The annotated object. It need not exist here.
    pub on: ObjectId,
    /// What it says.
    pub value: T,
}

/// Records, and what could not be read as one.
#[derive(Debug)]
pub struct Records<T> {
    /// The records, by object, writer and line, none twice.
    pub records: Vec<Record<T>>,
    /// What was skipped.
    pub problems: Vec<Problem>,
}

/// Something in a notes ref that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The ref.
    pub name: String,
    /// The annotated object, if it is about one note.
    pub on: Option<ObjectId>,
    /// What is wrong, in words of our own.
    pub what: String,
}

/// Problems, as many as anybody would read.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn push(&mut self, problem: Problem) {
        if self.0.len() < limits::NOTE_PROBLEMS {
            self.0.push(problem);
        }
    }
}

impl Store<'_> {
    /// Returns the refs with notes of a kind: this clone's and the copies of teammates'. The same version of the same
    /// writer's notes is listed once.
    pub fn notes_refs(&self, kind: Kind) -> Result<Vec<NotesRef>> {
        let mut found = Vec::new();
        for listed in self.repo.refs_under(kind.prefix())?.refs {
            if let Some(writer) = RefName::parse(&listed.name).and_then(|name| kind.writer(name)) {
                found.push(NotesRef {
                    writer,
                    remote: None,
                    name: listed.name,
                    tip: listed.id,
                });
            }
        }
        for listed in self.repo.refs_under(REMOTES)?.refs {
            let Some((remote, name)) = RefName::parse_at_remote(&listed.name) else {
                continue;
            };
            if let Some(writer) = kind.writer(name) {
                found.push(NotesRef {
                    writer,
                    remote: Some(remote),
                    name: listed.name,
                    tip: listed.id,
                });
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|notes| seen.insert((notes.writer.clone(), notes.tip)));
        Ok(found)
    }

    /// Calls `each` with every note of a kind of every writer, one at a time; returns what was skipped.
    ///
    /// A writer whose ref exists in several versions (here and at remotes) may come with the same lines again.
    pub fn each_note(
        &self,
        kind: Kind,
        each: &mut dyn FnMut(Note) -> Result<()>,
    ) -> Result<Vec<Problem>> {
        let mut problems = Problems::default();
        for notes in self.notes_refs(kind)? {
            self.each_note_of(&notes, each, &mut problems)?;
        }
        Ok(problems.0)
    }

    fn each_note_of(
        &self,
        notes: &NotesRef,
        each: &mut dyn FnMut(Note) -> Result<()>,
        problems: &mut Problems,
    ) -> Result<()> {
        // The caller's own failure ends everything; a failure to read ends this ref only.
        let mut stopped = None;
        let mut bytes = 0;
        let walked = self.repo.read_commit(notes.tip).and_then(|commit| {
            tree::walk(self.repo, commit.tree, &mut |on, blob| {
                let blob = match tree::read_blob(self.repo, blob) {
                    Ok(blob) => blob,
                    Err(error) => {
                        problems.push(problem(notes, Some(on), error.message()));
                        return Ok(());
                    }
                };
                bytes += blob.len();
                if bytes > limits::NOTES_BYTES {
                    return Err(Error::fatal(format!(
                        "notes have more than the {} bytes allowed",
                        limits::NOTES_BYTES
                    )));
                }
                let lines = readable(notes, on, Lines::parse(&blob), problems);
                let writer = notes.writer.clone();
                each(Note { writer, on, lines }).map_err(|error| {
                    stopped = Some(error);
                    Error::fatal("stopped")
                })
            })
        });
        match (stopped, walked) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(()),
            (None, Err(error)) => {
                problems.push(problem(notes, None, error.message()));
                Ok(())
            }
        }
    }

    /// Returns the notes of every writer on one object, looking only at the trees on its path.
    pub fn notes_on(&self, kind: Kind, on: ObjectId) -> Result<(Vec<Note>, Vec<Problem>)> {
        let mut found: BTreeMap<WriterId, BTreeSet<String>> = BTreeMap::new();
        let mut problems = Problems::default();
        for notes in self.notes_refs(kind)? {
            match self.lines_of(&notes, &on) {
                Err(error) => problems.push(problem(&notes, Some(on), error.message())),
                Ok(None) => {}
                Ok(Some(lines)) => {
                    let lines = readable(&notes, on, lines, &mut problems);
                    found.entry(notes.writer).or_default().extend(lines);
                }
            }
        }
        let found = found
            .into_iter()
            .map(|(writer, lines)| Note { writer, on, lines })
            .collect();
        Ok((found, problems.0))
    }

    fn lines_of(&self, notes: &NotesRef, on: &ObjectId) -> Result<Option<Lines>> {
        let tree = self.repo.read_commit(notes.tip)?.tree;
        let mut lines = None;
        for blob in tree::find(self.repo, tree, on)? {
            lines
                .get_or_insert_with(Lines::default)
                .union(tree::read_lines(self.repo, blob)?);
        }
        Ok(lines)
    }

    /// Returns all records of a kind; lines that are none are among the problems.
    pub fn note_records<T: DeserializeOwned>(&self, kind: Kind) -> Result<Records<T>> {
        self.note_records_by(kind, &|line| Some(serde_json::from_str(line).ok()))
    }

    /// Returns the records of a kind that the caller wants, as it reads them. `read` returns nothing for a line that is
    /// not wanted, and nothing in it for one that is no record: those are among the problems.
    pub fn note_records_by<T>(
        &self,
        kind: Kind,
        read: &dyn Fn(&str) -> Option<Option<T>>,
    ) -> Result<Records<T>> {
        let mut lines: BTreeMap<(ObjectId, WriterId), BTreeSet<String>> = BTreeMap::new();
        let skipped = self.each_note(kind, &mut |note| {
            match lines.entry((note.on, note.writer)) {
                Entry::Vacant(entry) => {
                    entry.insert(note.lines);
                }
                Entry::Occupied(entry) => entry.into_mut().extend(note.lines),
            }
            Ok(())
        })?;
        let mut problems = Problems(skipped);
        let mut records = Vec::new();
        for ((on, writer), lines) in lines {
            for line in lines {
                match read(&line) {
                    None => {}
                    Some(Some(value)) => records.push(Record {
                        writer: writer.clone(),
                        on,
                        value,
                    }),
                    Some(None) => problems.push(Problem {
                        name: kind.ref_name(writer.clone()).to_string(),
                        on: Some(on),
                        what: format!("a line is no {} record", kind.as_str()),
                    }),
                }
            }
        }
        let problems = problems.0;
        Ok(Records { records, problems })
    }
}

/// Returns the lines that can be records; the others are said.
fn readable(
    notes: &NotesRef,
    on: ObjectId,
    lines: Lines,
    problems: &mut Problems,
) -> BTreeSet<String> {
    let (good, bad) = lines.readable();
    for what in bad {
        problems.push(problem(notes, Some(on), &what));
    }
    good
}

fn problem(notes: &NotesRef, on: Option<ObjectId>, what: &str) -> Problem {
    Problem {
        name: notes.name.clone(),
        on,
        what: what.to_owned(),
    }
}
