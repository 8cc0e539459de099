//! Previews many merges with git's own engine, started once. All objects it writes are thrown away.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::cores;
use crate::error::{Context, Error, Result};
use crate::git::command::USAGE;
use crate::git::merge::Merged;
use crate::git::object::{Batch, Signature};
use crate::git::{ObjectId, Repo};

/// Fewer merges than this do not justify a second process.
const SHARE: usize = 8;
/// More processes than this only slow each other down.
const PROCESSES: usize = 8;

/// The version of one side at a path in conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The mode, in octal as in a tree.
    pub mode: u32,
    /// The content.
    pub id: ObjectId,
}

/// A path in conflict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conflict {
    pub path: Vec<u8>,
    /// The kinds of conflict, in git's words: `contents`, `modify/delete`, `add/add`, `rename/rename` …
    pub kinds: Vec<String>,
    /// The version of the common ancestor.
    pub base: Option<Stage>,
    /// The version of the first commit.
    pub ours: Option<Stage>,
    /// The version of the second commit.
    pub theirs: Option<Stage>,
}

/// The result of a merge preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The merged tree, with markers for conflicts. It is not kept.
    pub tree: ObjectId,
    /// The conflicts by path; empty for a clean merge.
    pub conflicts: Vec<Conflict>,
    /// Whether git calls the merge clean.
    pub clean: bool,
}

impl Repo {
    /// Previews the merge of the second commit of each pair into the first. Keeps none of the objects.
    ///
    /// Every pair must have a common ancestor. Attributes come from `attributes`, a commit or tree. Some of the commits
    /// may be only in `also` and not in the repository.
    pub fn preview_merges(
        &self,
        pairs: &[(ObjectId, ObjectId)],
        attributes: Option<ObjectId>,
        also: &[Batch],
    ) -> Result<Vec<Preview>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let scratch = Scratch::new(self)?;
        for batch in also {
            self.write_batch_to(batch, &scratch.dir)?;
        }
        let asker = Asker {
            repo: self,
            scratch: &scratch,
            attributes,
        };
        let kind = self.hash_kind();
        let enough = SHARE.max(pairs.len().div_ceil(PROCESSES));
        let answers = cores::parts(
            pairs,
            enough,
            || asker.call(),
            |call, part| (part, ask(call, kind, part)),
        );
        let mut all = Vec::with_capacity(pairs.len());
        for (part, answer) in answers {
            match answer? {
                answers if answers.len() == part.len() => all.extend(answers),
                // git before 2.39 merges one pair per process.
                _ => {
                    for batch in also {
                        self.write_batch(batch)?;
                    }
                    for (ours, theirs) in part {
                        all.push(self.preview_alone(*ours, *theirs)?);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Writes a commit of some files on top of another commit, without a ref.
    pub fn stand_in(&self, files: ObjectId, on: ObjectId) -> Result<ObjectId> {
        let (id, batch) = self.stand_in_batch(files, on)?;
        self.write_batch(&batch)?;
        Ok(id)
    }

    /// Returns an unwritten commit of some files on top of another commit. The same files give the same commit, so that
    /// cached results about it are found again.
    pub fn stand_in_batch(&self, files: ObjectId, on: ObjectId) -> Result<(ObjectId, Batch)> {
        let who = Signature {
            name: "git-agent".to_owned(),
            email: "git-agent@localhost".to_owned(),
            seconds: self.read_commit(on)?.time,
        };
        let mut batch = self.batch();
        let id = batch.commit(files, &[on], &who, "uncommitted work\n");
        Ok((id, batch))
    }

    fn preview_alone(&self, ours: ObjectId, theirs: ObjectId) -> Result<Preview> {
        Ok(match self.merge_commits(ours, theirs)? {
            Merged::Clean(tree) => Preview {
                tree,
                conflicts: Vec::new(),
                clean: true,
            },
            Merged::Conflict(paths) => Preview {
                tree: self.null_id(),
                conflicts: paths
                    .into_iter()
                    .map(|path| Conflict {
                        path: path.into_bytes(),
                        ..Conflict::default()
                    })
                    .collect(),
                clean: false,
            },
        })
    }
}

/// A directory for temporary objects.
struct Scratch {
    dir: std::path::PathBuf,
    alternates: OsString,
}

impl Scratch {
    fn new(repo: &Repo) -> Result<Self> {
        let parent = repo.scratch_dir();
        let dir = parent.join(format!(
            "merges-{}-{:x}",
            std::process::id(),
            crate::file::jitter()
        ));
        std::fs::create_dir_all(&dir).context(|| format!("cannot create '{}'", dir.display()))?;
        let alternates = quoted(&repo.objects_dir());
        Ok(Scratch { dir, alternates })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The sweep of old temporary files removes the rest.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns a path in the form of a list of alternates: a colon or quote inside would end it.
fn quoted(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.contains(&b':') && bytes.first() != Some(&b'"') {
        return path.into();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

struct Asker<'a> {
    repo: &'a Repo,
    scratch: &'a Scratch,
    attributes: Option<ObjectId>,
}

impl Asker<'_> {
    fn call(&self) -> crate::git::Git {
        let mut git = self
            .repo
            .git_common()
            .env("GIT_OBJECT_DIRECTORY", &self.scratch.dir)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.scratch.alternates)
            .config("core.looseCompression", "0");
        if let Some(attributes) = self.attributes {
            git = git.env("GIT_ATTR_SOURCE", attributes.to_string());
        }
        git = git.args(["merge-tree", "--write-tree", "--stdin"]);
        match self.repo.config_string("diff.algorithm") {
            // git merge follows this setting, merge-tree alone does not.
            Some(algorithm) => git.arg(format!("-Xdiff-algorithm={algorithm}")),
            None => git,
        }
    }
}

fn ask(
    git: crate::git::Git,
    kind: gix::hash::Kind,
    pairs: &[(ObjectId, ObjectId)],
) -> Result<Vec<Preview>> {
    let mut input = String::new();
    for (ours, theirs) in pairs {
        input.push_str(&format!("{ours} {theirs}\n"));
    }
    let answer = git.input(input).answer()?;
    match answer.code {
        // 1 is the result of the last merge.
        Some(0 | 1) => parse(&answer.stdout, kind)
            .ok_or_else(|| Error::fatal("cannot parse the output of 'git merge-tree'")),
        Some(USAGE) => Ok(Vec::new()),
        _ => {
            let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
            Err(Error::fatal(format!("cannot preview merges: {said}")))
        }
    }
}

/// Parses the results of all merges: each a status, a tree, the stages of paths in conflict, and messages about them.
fn parse(text: &[u8], kind: gix::hash::Kind) -> Option<Vec<Preview>> {
    let mut fields = text.split(|byte| *byte == 0);
    let mut all = Vec::new();
    loop {
        let status = fields.next()?;
        if status.is_empty() {
            return Some(all);
        }
        let clean = match status.trim_ascii() {
            b"1" => true,
            b"0" => false,
            _ => return None,
        };
        let tree = id(fields.next()?, kind)?;
        let mut conflicts: BTreeMap<Vec<u8>, Conflict> = BTreeMap::new();
        let mut section = fields.next()?;
        while !section.is_empty() {
            add_stage(&mut conflicts, section, kind)?;
            section = fields.next()?;
        }
        if !clean {
            let mut count = fields.next()?;
            while !count.is_empty() {
                let count_of: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
                let paths: Vec<&[u8]> = fields.by_ref().take(count_of).collect();
                let about = fields.next()?;
                let _words = fields.next()?;
                if let Some(about) = conflict_kind(about) {
                    // The first path is the location of the conflict, if it has one.
                    add_kind(&mut conflicts, paths.first().copied(), about);
                }
                count = fields.next()?;
            }
        }
        all.push(Preview {
            tree,
            conflicts: conflicts.into_values().collect(),
            clean,
        });
    }
}

fn id(hex: &[u8], kind: gix::hash::Kind) -> Option<ObjectId> {
    ObjectId::from_hex(hex).ok().filter(|id| id.kind() == kind)
}

/// Parses `100644 <id> 2<tab>path`.
fn add_stage(
    conflicts: &mut BTreeMap<Vec<u8>, Conflict>,
    field: &[u8],
    kind: gix::hash::Kind,
) -> Option<()> {
    let tab = field.iter().position(|byte| *byte == b'\t')?;
    let path = &field[tab + 1..];
    let mut words = field[..tab].split(|byte| *byte == b' ');
    let mode = u32::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 8).ok()?;
    let stage = Stage {
        mode,
        id: id(words.next()?, kind)?,
    };
    let conflict = conflicts.entry(path.to_vec()).or_insert_with(|| Conflict {
        path: path.to_vec(),
        ..Conflict::default()
    });
    match words.next()? {
        b"1" => conflict.base = Some(stage),
        b"2" => conflict.ours = Some(stage),
        b"3" => conflict.theirs = Some(stage),
        _ => return None,
    }
    Some(())
}

/// Returns the kind of a conflict message: git's type names are stable, the sentences are not.
fn conflict_kind(about: &[u8]) -> Option<String> {
    let about = String::from_utf8_lossy(about);
    let inner = about.strip_prefix("CONFLICT (")?;
    Some(inner.trim_end_matches(')').to_owned())
}

fn add_kind(conflicts: &mut BTreeMap<Vec<u8>, Conflict>, path: Option<&[u8]>, kind: String) {
    let path = path.unwrap_or_default();
    let conflict = conflicts.entry(path.to_vec()).or_insert_with(|| Conflict {
        path: path.to_vec(),
        ..Conflict::default()
    });
    if !conflict.kinds.contains(&kind) {
        conflict.kinds.push(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_after_the_other() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let text = format!(
            "0\0{one}\0100644 {one} 1\tf\0100755 {two} 2\tf\0100644 {two} 3\tg h\0\
             \02\0f\0old\0CONFLICT (rename/delete)\0words\n\01\0f\0Auto-merging\0words\n\0\
             0\0CONFLICT (directory rename split)\0words\n\0\
             \01\0{two}\0\0\
             0\0{one}\0\01\0x\0CONFLICT (contents)\0words\0\0"
        );
        let read = parse(text.as_bytes(), gix::hash::Kind::Sha1).expect("understood");
        assert_eq!(read.len(), 3);
        let paths: Vec<_> = read[0]
            .conflicts
            .iter()
            .map(|conflict| {
                (
                    String::from_utf8_lossy(&conflict.path).into_owned(),
                    conflict.kinds.join(","),
                )
            })
            .collect();
        assert_eq!(
            paths,
            [
                (String::new(), "directory rename split".to_owned()),
                ("f".to_owned(), "rename/delete".to_owned()),
                ("g h".to_owned(), String::new()),
            ]
        );
        assert_eq!(
            read[0].conflicts[1].ours.as_ref().map(|stage| stage.mode),
            Some(0o100_755)
        );
        assert!(read[1].clean && read[1].conflicts.is_empty());
        assert!(!read[2].clean);
        for end in 1..text.len() {
            // A truncated text never panics, and never yields more than it contains.
            let _ = parse(&text.as_bytes()[..end], gix::hash::Kind::Sha1);
        }
    }

    #[test]
    fn odd_paths_are_quoted_for_the_list_of_alternates() {
        assert_eq!(quoted(Path::new("/a b/c")), "/a b/c");
        assert_eq!(quoted(Path::new("/a:b\"c")), "\"/a:b\\\"c\"");
    }
}
