//! Differences between two trees: as git's diff program shows them to the user, and as a list.

pub mod counts;
pub(crate) mod line_count;
pub mod paths;
pub(crate) mod size_limit;
pub mod worktree_counts;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::rc::Rc;
use std::thread::JoinHandle;

use gix::objs::tree::EntryKind;

use crate::error::{Context, Error, Result};
use crate::git::command::Git;
use crate::git::object::TreeEntry;
use crate::git::{ObjectId, Repo};

/// The largest tree that is read.
pub const TREE_LIMIT: u64 = 64 << 20;

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// `A`, `D`, `M`, `T` or `R`.
    pub status: char,
    /// The mode before; 0 if the file did not exist.
    pub old_mode: u32,
    /// The mode after; 0 if the file was deleted.
    pub new_mode: u32,
    /// The object before.
    pub old_id: Option<ObjectId>,
    /// The object after.
    pub new_id: Option<ObjectId>,
    /// The path before.
    pub old_path: Vec<u8>,
    /// The path after; for a deleted file, the path before.
    pub path: Vec<u8>,
}

impl Delta {
    /// Returns whether it is a submodule, which git may show differently from files.
    pub fn is_submodule(&self) -> bool {
        const COMMIT: u32 = 0o160_000;
        [self.old_mode, self.new_mode].contains(&COMMIT)
    }
}

/// The changed lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The numbers of added and deleted lines; `None` for binary files.
    pub lines: Option<(u64, u64)>,
    /// The path after.
    pub path: Vec<u8>,
}

impl Repo {
    /// Returns the differences between two trees or commits, with renames.
    pub fn deltas(&self, old: ObjectId, new: ObjectId) -> Result<Vec<Delta>> {
        self.deltas_in(old, new, &[])
    }

    /// Returns the same for some paths; without any, for all.
    pub fn deltas_in(
        &self,
        old: ObjectId,
        new: ObjectId,
        paths: &[OsString],
    ) -> Result<Vec<Delta>> {
        self.require_comparable(old, new)?;
        let answer = self
            .git_common()
            .without_big_files()
            .args(["diff-tree", "-r", "-z", "-M", "--raw", "--no-abbrev"])
            .args(["--no-ext-diff", "--no-textconv", "--no-commit-id"])
            .args([old.to_string(), new.to_string(), "--".to_owned()])
            .args(paths)
            .run()?;
        let mut fields = answer.stdout.split(|byte| *byte == 0);
        let mut deltas = Vec::new();
        while let Some(meta) = fields.next().filter(|meta| !meta.is_empty()) {
            deltas.push(
                self.delta(meta, &mut fields)
                    .ok_or_else(|| Error::fatal("cannot parse the output of 'git diff-tree'"))?,
            );
        }
        Ok(deltas)
    }

    /// Parses a line of `--raw`, without its colon, and its paths.
    fn delta(&self, meta: &[u8], paths: &mut dyn Iterator<Item = &[u8]>) -> Option<Delta> {
        let raw = RawMeta::parse(self, meta)?;
        let old_path = paths.next()?.to_vec();
        let path = match raw.status {
            'R' | 'C' => paths.next()?.to_vec(),
            _ => old_path.clone(),
        };
        Some(raw.with_paths(old_path, path))
    }

    /// Parses a line of `--raw` before a patch, whose paths are quoted as git is configured.
    pub fn raw_line(&self, line: &[u8], unquote: &dyn Fn(&[u8]) -> Vec<u8>) -> Option<Delta> {
        let mut parts = line.split(|byte| *byte == b'\t');
        let raw = RawMeta::parse(self, parts.next()?)?;
        let old_path = unquote(parts.next()?);
        let path = parts.next().map_or_else(|| old_path.clone(), unquote);
        Some(raw.with_paths(old_path, path))
    }

    /// Returns the changed lines of each file between two trees, with renames.
    pub fn numstat(&self, old: ObjectId, new: ObjectId) -> Result<Vec<Counted>> {
        self.numstat_in(old, new, &[])
    }

    /// Returns the same for some paths; without any, for all.
    pub fn numstat_in(
        &self,
        old: ObjectId,
        new: ObjectId,
        paths: &[OsString],
    ) -> Result<Vec<Counted>> {
        self.require_comparable(old, new)?;
        let answer = self
            .git_common()
            .without_big_files()
            .args(["diff-tree", "-r", "-z", "-M", "--numstat", "--no-commit-id"])
            .args(["--no-ext-diff", "--no-textconv"])
            .args([old.to_string(), new.to_string(), "--".to_owned()])
            .args(paths)
            .run()?;
        let mut records = answer.stdout.split(|byte| *byte == 0);
        let mut counted = Vec::new();
        let strange = || Error::fatal("cannot parse the output of 'git diff-tree'");
        while let Some(record) = records.next().filter(|record| !record.is_empty()) {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let mut number = || -> Option<Option<u64>> {
                match std::str::from_utf8(fields.next()?).ok()? {
                    "-" => Some(None),
                    text => text.parse().ok().map(Some),
                }
            };
            let (added, deleted) = number().zip(number()).ok_or_else(strange)?;
            let mut path = fields.next().ok_or_else(strange)?.to_vec();
            if path.is_empty() {
                // A rename: both names follow.
                records.next().ok_or_else(strange)?;
                path = records.next().ok_or_else(strange)?.to_vec();
            }
            counted.push(Counted {
                lines: added.zip(deleted),
                path,
            });
        }
        Ok(counted)
    }

    /// Returns the entry at a path of a tree, if there is one.
    pub fn entry_at(&self, tree: ObjectId, path: &[u8]) -> Result<Option<TreeEntry>> {
        self.entry_among(tree, path, &mut |tree| {
            self.read_tree(tree, TREE_LIMIT).map(Rc::new)
        })
    }

    /// Returns the same with the caller's function to read a directory, which may cache.
    pub fn entry_among(
        &self,
        tree: ObjectId,
        path: &[u8],
        read: &mut dyn FnMut(ObjectId) -> Result<Rc<Vec<TreeEntry>>>,
    ) -> Result<Option<TreeEntry>> {
        let mut tree = tree;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let entries = read(tree)?;
            let Some(entry) = entries.iter().find(|entry| entry.name == part) else {
                return Ok(None);
            };
            if parts.peek().is_none() {
                return Ok(Some(entry.clone()));
            }
            if entry.kind != EntryKind::Tree {
                return Ok(None);
            }
            tree = entry.id;
        }
        Ok(None)
    }

    /// Returns the files for which [`Repo::diff_program`] does not show the plain lines, because of a filter or a
    /// program of the user.
    pub fn shown_converted(&self, tree: ObjectId, paths: &[&[u8]]) -> Result<HashSet<Vec<u8>>> {
        let program = self.config_string("diff.external").unwrap_or_default();
        if !program.is_empty() {
            return Ok(paths.iter().map(|path| path.to_vec()).collect());
        }
        let mut drivers = self.config_subsections("diff");
        drivers.retain(|name| {
            ["textconv", "command"]
                .iter()
                .any(|key| self.config_string(&format!("diff.{name}.{key}")).is_some())
        });
        if drivers.is_empty() || paths.is_empty() {
            return Ok(HashSet::new());
        }
        let answer = self
            .git_common()
            .env("GIT_ATTR_SOURCE", tree.to_string())
            .args(["check-attr", "-z", "--stdin", "diff"])
            .input(paths.join(&0))
            .run()?;
        let fields: Vec<&[u8]> = answer.stdout.split(|byte| *byte == 0).collect();
        let converted = fields
            .chunks_exact(3)
            .filter(|fields| drivers.iter().any(|driver| driver.as_bytes() == fields[2]));
        Ok(converted.map(|fields| fields[0].to_vec()).collect())
    }

    /// Returns a call of git's diff program on two trees, as its user configured it. Attributes come from a tree that
    /// the author of the changes did not write, so that they cannot hide lines; git before 2.41 does not read
    /// attributes from trees. No worktree is read. Refuses trees with too many differences.
    pub fn diff_program(
        &self,
        attributes: ObjectId,
        (old, new): (ObjectId, ObjectId),
        options: &[String],
        paths: &[OsString],
    ) -> Result<Git> {
        self.require_comparable(old, new)?;
        let git = self
            .git_common()
            .without_big_files()
            .env("GIT_ATTR_SOURCE", attributes.to_string())
            .arg("diff")
            .args(options)
            .args([old.to_string(), new.to_string(), "--".to_owned()])
            .args(paths);
        // Programs and files of the configuration may be relative to this directory, as for git.
        Ok(match self.work_tree() {
            Some(top) => git.current_dir(top),
            None => git,
        })
    }
}

/// The part of a `--raw` line before the paths.
struct RawMeta {
    status: char,
    modes: (u32, u32),
    ids: (Option<ObjectId>, Option<ObjectId>),
}

impl RawMeta {
    fn parse(repo: &Repo, meta: &[u8]) -> Option<Self> {
        let meta = std::str::from_utf8(meta.strip_prefix(b":")?).ok()?;
        let mut fields = meta.split(' ');
        let mut mode = || u32::from_str_radix(fields.next()?, 8).ok();
        let modes = (mode()?, mode()?);
        let mut id = || {
            // Abbreviated ids are useless: then only the paths identify the file.
            let id = repo.parse_id(fields.next()?).ok();
            Some(id.filter(|id| !id.is_null()))
        };
        let ids = (id()?, id()?);
        let status = fields.next()?.chars().next()?;
        Some(RawMeta { status, modes, ids })
    }

    fn with_paths(self, old_path: Vec<u8>, path: Vec<u8>) -> Delta {
        Delta {
            status: self.status,
            old_mode: self.modes.0,
            new_mode: self.modes.1,
            old_id: self.ids.0,
            new_id: self.ids.1,
            old_path,
            path,
        }
    }
}

/// A running call whose output is read line by line. Dropping it ends the call.
#[derive(Debug)]
pub struct Stream {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    complaints: Option<JoinHandle<Vec<u8>>>,
}

impl Git {
    /// Starts the call, which works while the caller does other things.
    pub fn stream(self) -> Result<Stream> {
        let mut child = self.spawn(Stdio::null(), Stdio::piped(), Stdio::piped())?;
        let complaints = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.read_to_end(&mut text);
                text
            })
        });
        let output = child.stdout.take();
        let output = output.map(|output| BufReader::with_capacity(64 << 10, output));
        Ok(Stream {
            child,
            output,
            complaints,
        })
    }

    /// Runs the call and passes its output line by line, with line ends, until `each` returns false.
    pub fn lines(self, each: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        self.stream()?.lines(each)
    }
}

impl Stream {
    /// Passes the output line by line, with line ends, until `each` returns false.
    pub fn lines(mut self, each: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let mut line = Vec::new();
        while self.next_line(&mut line)? && each(&line)? {}
        Ok(())
    }

    /// Reads the next line with its end; returns `false` if there is none and the call succeeded.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        let cannot = || "cannot read the output of git".to_owned();
        line.clear();
        if let Some(output) = &mut self.output
            && output.read_until(b'\n', line).context(cannot)? > 0
        {
            return Ok(true);
        }
        let status = self.child.wait().context(cannot)?;
        let said = self.complaints.take().and_then(|thread| thread.join().ok());
        if status.success() {
            return Ok(false);
        }
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Err(Error::fatal(format!("git failed: {}", said.trim())))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The output has no reader left. A call that has ended is only reaped.
        drop(self.output.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
