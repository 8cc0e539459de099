//! Reads notes of this clone and of every teammate, with their writers. Unreadable parts are reported and skipped.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use crate::cores;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::model::session::WriterId;
use crate::store::notes::record_set::{Lines, readable};
use crate::store::notes::{Kind, tree};
use crate::store::refname::{REMOTES, RefName};
use crate::store::{Store, limits};

/// How many records keep a core busy.
const PER_CORE: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotesRef {
    pub writer: WriterId,
    /// The remote that this is a copy of; `None` for this clone's own refs.
    pub remote: Option<String>,
    /// The full name of the ref.
    pub name: String,
    /// The commit at its tip.
    pub tip: ObjectId,
}

/// The notes of one writer on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The writer of the notes.
    pub writer: WriterId,
    /// The annotated object. It need not exist here.
    pub on: ObjectId,
    /// The lines of the records, sorted, without duplicates.
    pub lines: BTreeSet<String>,
}

/// A record in the caller's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<T> {
    pub writer: WriterId,
    /// The annotated object. It need not exist here.
    pub on: ObjectId,
    pub value: T,
}

/// Records, and the lines that are not records.
#[derive(Debug)]
pub struct Records<T> {
    /// The records by object, writer and line, without duplicates.
    pub records: Vec<Record<T>>,
    /// The skipped parts.
    pub problems: Vec<Problem>,
}

/// A skipped part of a notes ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The full name of the ref.
    pub name: String,
    /// The annotated object, if it is about one note.
    pub on: Option<ObjectId>,
    /// The problem, in our own words.
    pub what: String,
}

/// A bounded list of problems.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn push(&mut self, problem: Problem) {
        if self.0.len() < limits::NOTE_PROBLEMS {
            self.0.push(problem);
        }
    }

    fn extend(&mut self, name: &str, on: ObjectId, what: &[String]) {
        for what in what {
            self.push(problem(name, Some(on), what));
        }
    }
}

/// The origin of a line.
#[derive(Debug, Clone, Copy)]
pub struct Source<'t> {
    /// The writer of its ref.
    pub writer: &'t WriterId,
    /// Whether this clone is known to have written the whole ref.
    pub own: bool,
}

/// The unparsed notes of a kind, of every writer.
#[derive(Debug)]
pub struct Texts {
    kind: Kind,
    /// Sorted by object and writer.
    blobs: Vec<Blob>,
    /// The content of each blob.
    held: Vec<Result<Vec<u8>>>,
    problems: Problems,
}

/// A blob with notes of one writer on one object.
#[derive(Debug)]
struct Blob {
    on: ObjectId,
    writer: WriterId,
    id: ObjectId,
    /// The ref that contains it.
    name: String,
    /// Whether this clone is known to have written all of it.
    own: bool,
}

impl Blob {
    fn source(&self) -> Source<'_> {
        Source {
            writer: &self.writer,
            own: self.own,
        }
    }

    /// Returns whether both are notes of the same writer on the same object.
    fn is_beside(&self, other: &Blob) -> bool {
        (self.on, &self.writer) == (other.on, &other.writer)
    }
}

impl Store<'_> {
    /// Returns the refs with notes of a kind: this clone's and the copies of teammates'. Lists the same version of a
    /// writer's notes once.
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

    /// Returns the blobs with the notes of a kind, of every writer, by object and writer.
    fn blobs(&self, kind: Kind, problems: &mut Problems) -> Result<Vec<Blob>> {
        let mut blobs = Vec::new();
        let known = self.own();
        for notes in self.notes_refs(kind)? {
            let mut bytes = 0;
            let walked = self.repo.read_commit(notes.tip).and_then(|commit| {
                let own = notes.remote.is_none() && known.wrote(notes.tip, &commit);
                tree::walk(self.repo, commit.tree, &mut |on, id| {
                    // A missing object, or one that is not a blob, is reported when it is read.
                    let header = self.repo.object_header(id).ok().flatten();
                    bytes += header.map_or(0, |(_, size)| size);
                    if bytes > limits::NOTES_BYTES as u64 {
                        return Err(Error::fatal(format!(
                            "notes have more than the {} bytes allowed",
                            limits::NOTES_BYTES
                        )));
                    }
                    blobs.push(Blob {
                        on,
                        writer: notes.writer.clone(),
                        id,
                        name: notes.name.clone(),
                        own,
                    });
                    Ok(())
                })
            });
            // Notes found before a failure count.
            if let Err(error) = walked {
                problems.push(problem(&notes.name, None, error.message()));
            }
        }
        // Versions of one writer's ref, here and at remotes, become neighbours.
        blobs.sort_by(|one, other| (one.on, &one.writer).cmp(&(other.on, &other.writer)));
        Ok(blobs)
    }

    /// Returns the notes of every writer on one object. Reads only the trees on its path.
    pub fn notes_on(&self, kind: Kind, on: ObjectId) -> Result<(Vec<Note>, Vec<Problem>)> {
        let mut found: BTreeMap<WriterId, BTreeSet<String>> = BTreeMap::new();
        let mut problems = Problems::default();
        for notes in self.notes_refs(kind)? {
            match self.lines_of(&notes, &on) {
                Err(error) => problems.push(problem(&notes.name, Some(on), error.message())),
                Ok(None) => {}
                Ok(Some(lines)) => {
                    let (good, bad) = lines.readable();
                    problems.extend(&notes.name, on, &bad);
                    let own = found.entry(notes.writer).or_default();
                    own.extend(good.into_iter().map(str::to_owned));
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

    /// Returns every line of a version of notes.
    pub(in crate::store) fn note_lines_at(&self, tree: ObjectId) -> Result<BTreeSet<Vec<u8>>> {
        let mut all = BTreeSet::new();
        tree::walk(self.repo, tree, &mut |_, id| {
            let blob = tree::read_blob(self.repo, id)?;
            let lines = blob.split(|byte| *byte == b'\n');
            all.extend(lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns all records of a kind; reports other lines as problems.
    pub fn note_records<T: DeserializeOwned + Send>(&self, kind: Kind) -> Result<Records<T>> {
        let texts = self.note_texts(kind)?;
        Ok(texts.records(&|_, line| Some(serde_json::from_str(line).ok())))
    }

    /// Returns all notes of a kind.
    pub fn note_texts(&self, kind: Kind) -> Result<Texts> {
        let mut problems = Problems::default();
        let blobs = self.blobs(kind, &mut problems)?;
        let own = || self.repo.clone();
        let held = cores::each(&blobs, own, |repo, blob| tree::read_blob(repo, blob.id));
        Ok(Texts {
            kind,
            blobs,
            held,
            problems,
        })
    }
}

impl Texts {
    /// Parses lines on all cores and returns the wanted records. `read` gets a line and its origin. It returns `None`
    /// for an unwanted line, and `Some(None)` for a line that is not a record, which is reported as a problem.
    pub fn records<T: Send>(
        mut self,
        read: &(dyn Fn(Source<'_>, &str) -> Option<Option<T>> + Sync),
    ) -> Records<T> {
        let problems = &mut self.problems;
        let mut found: Vec<(&Blob, &[u8])> = Vec::with_capacity(self.blobs.len());
        for (blob, held) in self.blobs.iter().zip(&self.held) {
            match held {
                Ok(text) => found.push((blob, text)),
                Err(error) => problems.push(problem(&blob.name, Some(blob.on), error.message())),
            }
        }
        let mut lines: Vec<(&Blob, &str)> = Vec::new();
        for versions in found.chunk_by(|(one, _), (other, _)| one.is_beside(other)) {
            let from = lines.len();
            for (blob, text) in versions {
                let (good, bad) = readable(text);
                problems.extend(&blob.name, blob.on, &bad);
                lines.extend(good.into_iter().map(|line| (*blob, line)));
            }
            if versions.len() > 1 {
                let mut all = lines.split_off(from);
                all.sort_by_key(|(blob, line)| (*line, !blob.own));
                all.dedup_by_key(|(_, line)| *line);
                lines.append(&mut all);
            }
        }
        let values = cores::parts(
            &lines,
            PER_CORE,
            || (),
            |(), part| -> Vec<_> {
                part.iter()
                    .map(|(blob, line)| read(blob.source(), line))
                    .collect()
            },
        );
        let mut records = Vec::with_capacity(lines.len());
        for ((blob, _), value) in lines.into_iter().zip(values.into_iter().flatten()) {
            match value {
                None => {}
                Some(Some(value)) => records.push(Record {
                    writer: blob.writer.clone(),
                    on: blob.on,
                    value,
                }),
                Some(None) => problems.push(Problem {
                    name: self.kind.ref_name(blob.writer.clone()).to_string(),
                    on: Some(blob.on),
                    what: format!("a line is not a {} record", self.kind.as_str()),
                }),
            }
        }
        Records {
            records,
            problems: self.problems.0,
        }
    }
}

fn problem(name: &str, on: Option<ObjectId>, what: &str) -> Problem {
    Problem {
        name: name.to_owned(),
        on,
        what: what.to_owned(),
    }
}
