//! Reads HEAD and the refs of a cell, as files. A damaged or too large one counts as absent.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::fs::FileType;

use crate::git::cell::{Cell, LARGEST, SMALL};
use crate::git::refs::Target;
use crate::git::{ObjectId, Repo};

/// The most files that are looked at below `refs/`.
const MOST_REFS: usize = 100_000;
/// The deepest directory that is looked at below `refs/`.
const DEEPEST: usize = 32;

/// The refs of a cell at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// HEAD, if it can be read.
    pub head: Option<Target>,
    /// All refs that point at an object.
    pub refs: BTreeMap<String, ObjectId>,
    /// The stashes, newest first.
    pub stashes: Vec<Stashed>,
}

/// A stash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stashed {
    /// Its commit.
    pub id: ObjectId,
    /// Its message.
    pub message: String,
}

impl Repo {
    /// Reads the refs of a cell.
    pub fn look_into(&self, cell: &Cell) -> Seen {
        let mut refs = BTreeMap::new();
        for line in text(cell, "packed-refs", LARGEST).lines() {
            if let Some((id, name)) = line.split_once(' ')
                && let Ok(id) = self.parse_id(id)
            {
                refs.insert(name.to_owned(), id);
            }
        }
        let mut left = MOST_REFS;
        self.walk(cell, Path::new("refs"), DEEPEST, &mut left, &mut refs);
        let head = text(cell, "HEAD", SMALL);
        let head = match head.trim_end().strip_prefix("ref: ") {
            Some(name) => Some(Target::Symbolic(name.trim_start().to_owned())),
            None => self.parse_id(head.trim_end()).ok().map(Target::Object),
        };
        let stashes = text(cell, "logs/refs/stash", LARGEST);
        let stashed = |line: &str| {
            let (ids, message) = line.split_once('\t').unwrap_or((line, ""));
            Some(Stashed {
                id: self.parse_id(ids.split(' ').nth(1)?).ok()?,
                message: message.to_owned(),
            })
        };
        Seen {
            head,
            refs,
            stashes: stashes.lines().rev().filter_map(stashed).collect(),
        }
    }

    fn walk(
        &self,
        cell: &Cell,
        below: &Path,
        depth: usize,
        left: &mut usize,
        refs: &mut BTreeMap<String, ObjectId>,
    ) {
        if depth == 0 {
            return;
        }
        for name in cell.entries(below, FileType::Directory).unwrap_or_default() {
            self.walk(cell, &below.join(name), depth - 1, left, refs);
        }
        let files = cell.entries(below, FileType::RegularFile);
        for name in files.unwrap_or_default() {
            let Some(rest) = left.checked_sub(1) else {
                return;
            };
            *left = rest;
            let name = below.join(name);
            let id = self.parse_id(text(cell, &name, SMALL).trim_end());
            if let (Ok(id), Some(name)) = (id, name.to_str()) {
                refs.insert(name.to_owned(), id);
            }
        }
    }
}

fn text(cell: &Cell, name: impl AsRef<Path>, most: u64) -> String {
    let bytes = cell.read(name, most).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
