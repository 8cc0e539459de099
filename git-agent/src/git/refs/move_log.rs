//! Records every ref move of this program before it happens: any other move came from another program.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::ParseIntError;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Context, Result};
use crate::git::refs::{Expected, RefChange};
use crate::git::{ObjectId, Repo};
use crate::process::identity::Stat;

/// The size at which a new list starts; the previous one is kept.
const LONGEST: u64 = 2 << 20;
/// How many bytes of the list are searched for moves that are under way: about a hundred moves.
const RECENT: u64 = 16 << 10;

/// One move of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The full name of the ref.
    pub name: String,
    /// The old value; `None` if it did not exist.
    pub old: Option<ObjectId>,
    /// The new value; `None` for a deletion.
    pub new: Option<ObjectId>,
    /// The process that recorded it.
    pub pid: Option<u32>,
}

impl Move {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let mut id = || {
            let id: ObjectId = fields.next()?.parse().ok()?;
            Some(Some(id).filter(|id| !id.is_null()))
        };
        Some(Move {
            old: id()?,
            new: id()?,
            name: fields.next()?.to_owned(),
            pid: fields.next().and_then(|pid| pid.parse().ok()),
        })
    }
}

/// A position in the list of moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    file: u64,
    length: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.length)
    }
}

impl FromStr for Position {
    type Err = ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, ParseIntError> {
        let (file, length) = text.split_once(':').unwrap_or((text, ""));
        Ok(Position {
            file: file.parse()?,
            length: length.parse()?,
        })
    }
}

impl Repo {
    fn moves_file(&self) -> PathBuf {
        self.scratch_dir().with_file_name("moves")
    }

    fn earlier_moves_file(&self) -> PathBuf {
        self.moves_file().with_extension("before")
    }

    /// Records moves. A failure does not stop them: they will look like another program's moves.
    pub(crate) fn note_moves(&self, changes: &[RefChange]) {
        let (null, pid) = (self.null_id(), std::process::id());
        let mut lines = String::new();
        for change in changes {
            let old = match change.expected {
                Expected::Absent => null,
                Expected::At(id) => id,
            };
            let new = change.new.unwrap_or(null);
            lines.push_str(&format!("{old} {new} {} {pid}\n", change.name));
        }
        let _ = self.append_moves(lines.as_bytes());
    }

    fn append_moves(&self, lines: &[u8]) -> io::Result<()> {
        let path = self.moves_file();
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&path)
        };
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(self.scratch_dir())?;
                open()?
            }
            other => other?,
        };
        if file.metadata()?.len() > LONGEST && file.try_lock().is_ok() {
            // Unless another process just did it: then the name leads to another file.
            if fs::metadata(&path)?.ino() == file.metadata()?.ino() {
                fs::rename(&path, self.earlier_moves_file())?;
            }
            file = open()?;
        }
        file.write_all(lines)
    }

    /// Returns the current end of the list of moves.
    pub fn moves_so_far(&self) -> Position {
        let Ok(meta) = fs::metadata(self.moves_file()) else {
            return Position::default();
        };
        Position {
            file: meta.ino(),
            length: meta.len(),
        }
    }

    /// Returns the position before the first recent move that is still under way, given the values of refs that were read
    /// after `end` was taken. A move is recorded before it happens, so one that is under way stands before the end.
    ///
    /// Only the last move of a ref counts, and only while the process that recorded it lives: a value that a ref had once
    /// does not explain that the ref gets it again.
    pub fn pending_moves(
        &self,
        end: Position,
        value: impl Fn(&str) -> Option<ObjectId>,
    ) -> Result<Position> {
        let path = self.moves_file();
        let cannot = || format!("cannot read '{}'", path.display());
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(end),
            other => other.context(cannot)?,
        };
        if file.metadata().context(cannot)?.ino() != end.file {
            return Ok(end);
        }
        let mut start = end.length.saturating_sub(RECENT);
        file.seek(SeekFrom::Start(start)).context(cannot)?;
        let mut bytes = Vec::new();
        file.take(end.length - start)
            .read_to_end(&mut bytes)
            .context(cannot)?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line may begin in the middle.
        let skipped = usize::from(start > 0);
        let mut last: BTreeMap<String, (u64, Move)> = BTreeMap::new();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if index >= skipped
                && let Some(step) = Move::parse(line.trim_end_matches('\n'))
            {
                last.insert(step.name.clone(), (start, step));
            }
            start += line.len() as u64;
        }
        let is_pending = |step: &Move| {
            step.new != step.old
                && value(&step.name) == step.old
                && step.pid.is_some_and(|pid| Stat::of(pid).is_some())
        };
        let pending = last.values().filter(|(_, step)| is_pending(step));
        Ok(Position {
            length: pending.map(|(at, _)| *at).min().unwrap_or(end.length),
            ..end
        })
    }

    /// Returns the moves after a position, oldest first; `None` if the list no longer reaches back that far.
    pub fn moves_since(&self, since: Position) -> Result<Option<Vec<Move>>> {
        let mut text = String::new();
        let mut complete = since == Position::default();
        for path in [self.earlier_moves_file(), self.moves_file()] {
            let cannot = || format!("cannot read '{}'", path.display());
            let mut file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.context(cannot)?,
            };
            if file.metadata().context(cannot)?.ino() == since.file {
                // Earlier entries of this file, and of the previous file, are older.
                text.clear();
                complete = true;
                file.seek(SeekFrom::Start(since.length)).context(cannot)?;
            }
            file.read_to_string(&mut text).context(cannot)?;
        }
        Ok(complete.then(|| text.lines().filter_map(Move::parse).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::snapshot::tests::world::World;

    #[test]
    fn a_move_that_was_recorded_and_has_not_happened_is_not_behind_the_position() {
        let world = World::new();
        world.write("a", "a");
        world.commit_all("a");
        let id = world
            .repo
            .parse_id(world.git(&["rev-parse", "HEAD"]).trim());
        let id = id.expect("an id");
        let change = |name: &str| RefChange {
            name: name.to_owned(),
            expected: Expected::Absent,
            new: Some(id),
        };
        world.repo.note_moves(&[change("refs/x/done")]);
        world.repo.note_moves(&[change("refs/x/under-way")]);
        let end = world.repo.moves_so_far();
        let value = |name: &str| (name == "refs/x/done").then_some(id);
        let from = world.repo.pending_moves(end, value).expect("a position");
        let moves = world.repo.moves_since(from).expect("a list");
        let names: Vec<_> = moves.iter().flatten().map(|step| &step.name).collect();
        assert_eq!(names, ["refs/x/under-way"]);
        let done = world.repo.pending_moves(end, |_| Some(id));
        assert_eq!(done.expect("a position"), end);
    }
}
