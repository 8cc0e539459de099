//! Examines refs and objects that may be damaged. Trusts nothing it reads, and removes nothing: damaged files are set
//! aside.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::git::object::sync_dir;
use crate::git::phrases::unreachable_commit;
use crate::git::{ObjectId, ObjectKind, RefBackend, Repo};

/// A ref as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRef {
    /// Its full name.
    pub name: String,
    /// Its target, or the reason why that is unknown.
    pub target: std::result::Result<ObjectId, String>,
}

impl Repo {
    /// Returns every ref under a prefix that ends in `/`, including unreadable ones.
    pub fn raw_refs(&self, prefix: &str) -> Result<Vec<RawRef>> {
        let mut found = Vec::new();
        let list = match self.refs_under(prefix) {
            Ok(list) => list,
            // gix stops at an unreadable ref; the files below show which one it is.
            Err(_) if self.ref_backend() == RefBackend::Files => Default::default(),
            Err(error) => return Err(error),
        };
        for known in list.refs {
            found.push(RawRef {
                name: known.name,
                target: Ok(known.id),
            });
        }
        for (name, reason) in list.broken {
            if !name.is_empty() {
                found.push(RawRef {
                    name,
                    target: Err(reason),
                });
            }
        }
        if self.ref_backend() == RefBackend::Files {
            let base = self.common_dir().join(prefix.trim_end_matches('/'));
            for path in files_below(&base) {
                let Some(name) = self.ref_name_of(&path) else {
                    continue;
                };
                if name.ends_with(".lock") || found.iter().any(|known| known.name == name) {
                    continue;
                }
                let target = match fs::read(&path) {
                    Ok(bytes) => self.parse_target(&bytes),
                    Err(error) => Err(error.to_string()),
                };
                found.push(RawRef { name, target });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn parse_target(&self, bytes: &[u8]) -> std::result::Result<ObjectId, String> {
        if bytes.is_empty() {
            return Err("the file is empty".to_owned());
        }
        std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| self.parse_id(text.trim_end()).ok())
            .ok_or_else(|| "not an object id".to_owned())
    }

    fn ref_name_of(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(self.common_dir()).ok()?;
        below.to_str().map(str::to_owned)
    }

    /// Moves the file of a loose ref to a path outside git's refs.
    pub fn set_ref_file_aside(&self, name: &str, to: &Path) -> Result<()> {
        let path = self.common_dir().join(name);
        let cannot = || format!("cannot set ref '{name}' aside");
        fs::rename(&path, to).context(cannot)?;
        sync_dir(path.parent().unwrap_or(&path)).context(cannot)
    }

    /// Reads a whole object and compares it with its id. Returns its kind and, unless it is a blob, its bytes. For a
    /// blob above `limit`, checks only the header.
    pub fn verify_object(&self, id: ObjectId, limit: u64) -> Result<(ObjectKind, Vec<u8>)> {
        let Some((kind, size)) = self.object_header(id)? else {
            return Err(Error::fatal(format!("object {id} is missing")));
        };
        if size > limit {
            return Ok((kind, Vec::new()));
        }
        let data = self.read_object(id, kind, limit)?;
        let real = gix::objs::compute_hash(self.hash_kind(), kind, &data).map_err(|_| {
            Error::fatal(format!(
                "object {id} appears to be part of a collision attack"
            ))
        })?;
        if real != id || data.len() as u64 != size {
            return Err(Error::fatal(format!("object {id} is damaged")));
        }
        Ok((
            kind,
            if kind == ObjectKind::Blob {
                Vec::new()
            } else {
                data
            },
        ))
    }

    /// Returns the file of a loose object.
    pub fn loose_object(&self, id: ObjectId) -> Option<PathBuf> {
        Some(self.loose_path(id)).filter(|path| path.is_file())
    }

    /// Moves the file of a damaged loose object away.
    pub fn set_object_aside(&self, id: ObjectId, to: &Path) -> Result<()> {
        let path = self.loose_path(id);
        let cannot = || format!("cannot set object {id} aside");
        fs::rename(&path, to).context(cannot)?;
        sync_dir(path.parent().unwrap_or(&path)).context(cannot)
    }

    /// Returns which of `ids` are reachable from anything but the refs that `ours` accepts: other refs, every
    /// worktree's HEAD, reflogs, the index. Returns `None` if git fails.
    pub fn reached_by_others(
        &self,
        ids: &BTreeSet<ObjectId>,
        ours: &dyn Fn(&str) -> bool,
    ) -> Result<Option<BTreeSet<ObjectId>>> {
        let answer = self
            .git_common()
            .args(["for-each-ref", "--format=%(refname)"])
            .answer()?;
        let mut tips = String::new();
        for name in String::from_utf8_lossy(&answer.stdout).lines() {
            if !ours(name) {
                tips.push_str(name);
                tips.push('\n');
            }
        }
        for worktree in crate::git::worktree::list(self)? {
            if let Some(head) = worktree.head {
                tips.push_str(&format!("{head}\n"));
            }
        }
        let answer = self
            .git_common()
            .args(["rev-list", "--objects", "--no-object-names"])
            .args(["--reflog", "--indexed-objects", "--stdin"])
            .input(tips)
            .answer()?;
        if answer.code != Some(0) {
            return Ok(None);
        }
        let listed = String::from_utf8_lossy(&answer.stdout);
        let reached = listed
            .lines()
            .filter_map(|line| self.parse_id(line.trim()).ok())
            .filter(|id| ids.contains(id));
        Ok(Some(reached.collect()))
    }

    /// Returns the commits that git finds unreachable; empty if git fails.
    pub fn unreachable_commits(&self) -> Result<Vec<ObjectId>> {
        let answer = self
            .git_common()
            .args(["fsck", "--unreachable", "--no-reflogs", "--no-progress"])
            .answer()?;
        Ok(String::from_utf8_lossy(&answer.stdout)
            .lines()
            .filter_map(|line| unreachable_commit(line))
            .filter_map(|hex| self.parse_id(hex.trim()).ok())
            .collect())
    }

    /// Returns the lock files of this repository, with the ref's name for locks of refs.
    pub fn lock_files(&self) -> Vec<(PathBuf, Option<String>)> {
        let common = self.common_dir();
        let mut found = Vec::new();
        for path in files_below(&common.join("refs")) {
            let name = self.ref_name_of(&path);
            if let Some(name) = name.as_deref().and_then(|name| name.strip_suffix(".lock")) {
                found.push((path, Some(name.to_owned())));
            }
        }
        let others = [
            "packed-refs.lock",
            "HEAD.lock",
            "config.lock",
            "index.lock",
            "shallow.lock",
        ];
        for name in others {
            found.extend(Some((common.join(name), None)).filter(|(path, _)| path.exists()));
        }
        for path in files_below(&common.join("reftable")) {
            if path
                .extension()
                .is_some_and(|extension| extension == "lock")
            {
                found.push((path, None));
            }
        }
        found
    }
}

/// Returns the regular files below a directory; does not follow links.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries: Vec<fs::DirEntry> = match fs::read_dir(&dir) {
            Ok(entries) => entries.filter_map(io::Result::ok).collect(),
            Err(_) => continue,
        };
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
