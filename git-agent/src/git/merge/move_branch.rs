//! Moving a branch together with the working trees that have it checked out: all of it, or nothing.
//!
//! The caller has written down what is about to happen. Every working tree is updated as `git merge` would, and then the
//! branch is compared, locked and moved in one short transaction, in which hooks may object. Whatever fails before that
//! leaves branch and files as they were, and of a process that dies [`Repo::take_back`] undoes the files. No ref is locked
//! while files change: a checkout may take minutes, and a git that is killed leaves its locks. Those that it may leave are
//! [recorded](Repo::record_locks).
//!
//! Before anything changes every file that will is seen to be as it is committed, in the index and on disk: only so is it
//! known afterwards what to put back, and what is somebody's own.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};

use gix::bstr::ByteSlice as _;
use gix::index::State;
use gix::index::entry::{Flags, Mode};
use rustix::fs::{FileType, Stat};

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::git::command::{Complaints, Git};
use crate::git::diff::paths::{Comparer, Touched};
use crate::git::merge::rollback::{follows, is_leaf};
use crate::git::phrases::complaint;
use crate::git::refs::{Expected, RefChange};
use crate::git::snapshot::beneath::Disk;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::move_changes::unfinished;
use crate::git::{ObjectId, Repo, worktree};

/// A branch to be moved.
#[derive(Debug)]
pub struct Landing<'a> {
    /// Its full name.
    pub branch: &'a str,
    /// Where it must be.
    pub old: ObjectId,
    /// Where it shall be.
    pub new: ObjectId,
    /// What its reflog says.
    pub reflog: &'a str,
    /// Other refs that move at the same moment.
    pub also: &'a [RefChange],
    /// The working trees that have it checked out.
    pub checkouts: &'a [Checkout],
}

/// How a landing ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Landed {
    /// The branch and its working trees are at the new commit.
    Done,
    /// Somebody else moved the branch or one of the other refs; nothing was changed.
    Moved,
    /// Something is in the way, in words; nothing was changed.
    Refused(String),
}

impl Repo {
    /// Returns the working trees that have a branch checked out, by its full name.
    pub fn checkouts_of(&self, branch: &str) -> Result<Vec<Checkout>> {
        let mut found = Vec::new();
        for known in worktree::list(self)? {
            if known.branch.as_deref() != Some(branch) || known.bare {
                continue;
            }
            if known.is_main() && self.main_work_tree().as_deref() != Some(&known.path) {
                return Err(Error::fatal(format!(
                    "'{branch}' is checked out in the main worktree, and nothing says where that is"
                ))
                .hint("run this in the main worktree"));
            }
            if known.path.is_dir() {
                found.push(Checkout {
                    admin_dir: known.admin_dir,
                    top: known.path,
                });
            }
        }
        Ok(found)
    }

    /// Says what keeps a working tree from being taken from one commit to another, if anything does. Changes nothing.
    pub fn obstacle(&self, at: &Checkout, old: ObjectId, new: ObjectId) -> Result<Option<String>> {
        if let Some(what) = self.plain_obstacle(at, old, new)? {
            return Ok(Some(what));
        }
        let probe = || {
            self.git_at(&at.admin_dir, &at.top)
                .args(["read-tree", "-n", "-m", "-u"])
                .args([old.to_string(), new.to_string()])
                .answer()
        };
        let mut answer = probe()?;
        if answer.code != Some(0) {
            self.refresh_index(at)?;
            answer = probe()?;
        }
        match answer.code {
            Some(0) => Ok(None),
            _ => Ok(Some(in_place(&answer.stderr, at))),
        }
    }

    /// Says what git itself would not object to: something under way, and untracked files that are ignored.
    fn plain_obstacle(
        &self,
        at: &Checkout,
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Option<String>> {
        let place = at.top.display();
        if let Some(what) = operation_under_way(at) {
            return Ok(Some(format!("{what} is under way in '{place}'")));
        }
        let touched = self.touched_between(old, new)?;
        if let Some(path) = self.untracked_in_the_way(at, &touched)? {
            return Ok(Some(format!(
                "'{path}' in '{place}' is not tracked and would be overwritten"
            )));
        }
        let index = self.read_index(&at.admin_dir.join("index"))?;
        if let Some(path) = staged(&index, &touched) {
            return Ok(Some(format!(
                "'{path}' in '{place}' has staged changes: commit or unstage them"
            )));
        }
        let path = self.changed(at, &index, &touched)?;
        Ok(path.map(|path| {
            format!(
                "'{path}' in '{place}' has changes that are not committed: commit or stash them"
            )
        }))
    }

    /// Returns a file that will change and is not on disk as it is in the index. One that is missing is no loss.
    fn changed(&self, at: &Checkout, index: &State, touched: &Touched) -> Result<Option<String>> {
        let cannot = || format!("cannot look at '{}'", at.top.display());
        let mut disk = Disk::open(&at.top).context(cannot)?;
        let mut suspects = BTreeSet::new();
        for change in touched.changes() {
            let Some(entry) = index.entry_by_path(change.path.as_bstr()) else {
                continue;
            };
            if entry.mode == Mode::COMMIT || entry.flags.contains(Flags::SKIP_WORKTREE) {
                continue;
            }
            let Some(stat) = disk.stat(&change.path).context(cannot)? else {
                continue;
            };
            let known = &entry.stat;
            // As git compares by default; where it is told to compare less, this only asks git more often.
            let same = known.mtime.secs == stat.st_mtime as u32
                && known.mtime.nsecs == stat.st_mtime_nsec as u32
                && known.ctime.secs == stat.st_ctime as u32
                && known.ctime.nsecs == stat.st_ctime_nsec as u32
                && known.ino == stat.st_ino as u32
                && known.size == stat.st_size as u32;
            if !same {
                suspects.insert(change.path.as_slice());
            }
        }
        if suspects.is_empty() {
            return Ok(None);
        }
        self.refresh_index(at)?;
        let git = self
            .git_at(&at.admin_dir, &at.top)
            .env("GIT_LITERAL_PATHSPECS", "1")
            .args(["diff-files", "-z", "--name-only", "--diff-filter=d", "--"]);
        let git = suspects
            .iter()
            .fold(git, |git, path| git.arg(OsStr::from_bytes(path)));
        let listed = git.run()?.stdout;
        let first = listed
            .split(|byte| *byte == 0)
            .find(|path| !path.is_empty());
        Ok(first.map(|path| path.to_str_lossy().into_owned()))
    }

    /// Looks at files once more that were only touched, or copied from elsewhere: they look changed until git has.
    fn refresh_index(&self, at: &Checkout) -> Result<()> {
        self.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .args(["update-index", "-q", "--refresh"])
            .answer()
            .map(|_| ())
    }

    /// Returns whether the index of a working tree says the same as a commit about what changed since another.
    pub fn index_follows(&self, at: &Checkout, old: ObjectId, new: ObjectId) -> Result<bool> {
        let touched = self.touched_between(old, new)?;
        let index = self.read_index(&at.admin_dir.join("index"))?;
        Ok(follows(&index, touched.changes()))
    }

    /// Returns the paths that differ between two commits or trees.
    pub(in crate::git) fn touched_between(&self, old: ObjectId, new: ObjectId) -> Result<Touched> {
        let tree = |id: ObjectId| -> Result<ObjectId> {
            let cannot = || format!("cannot read the files of {id}");
            let object = self.gix().find_object(id).context(cannot)?;
            Ok(object.peel_to_tree().context(cannot)?.id)
        };
        Comparer::new(self, 0).touched(tree(old)?, tree(new)?)
    }

    /// Returns a path that going from one commit to another adds, and at which there is something already.
    pub fn anything_new_at(
        &self,
        top: &Path,
        from: ObjectId,
        to: ObjectId,
    ) -> Result<Option<String>> {
        let cannot = || format!("cannot look at '{}'", top.display());
        let mut disk = Disk::open(top).context(cannot)?;
        for change in self.touched_between(from, to)?.changes() {
            let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
            if change.before.is_none()
                && disk
                    .stat(&change.path)
                    .context(cannot)?
                    .is_some_and(is_file)
            {
                return Ok(Some(change.path.to_str_lossy().into_owned()));
            }
        }
        Ok(None)
    }

    /// Returns a file that no index knows, ignored ones included, where a new one would be written.
    fn untracked_in_the_way(&self, at: &Checkout, touched: &Touched) -> Result<Option<String>> {
        let (mut files, mut dirs) = (BTreeSet::new(), BTreeSet::new());
        for change in touched.changes() {
            if change.before.is_some() {
                continue;
            }
            // The new file itself, or a file where its directory would be.
            let mut path = change.path.as_slice();
            let found = loop {
                match at.top.join(OsStr::from_bytes(path)).symlink_metadata() {
                    Ok(found) => break Some(found.is_dir()),
                    Err(_) => match path.rfind_byte(b'/') {
                        Some(end) => path = &path[..end],
                        None => break None,
                    },
                }
            };
            match found {
                Some(true) if path.len() == change.path.len() => dirs.insert(path),
                Some(false) => files.insert(path),
                _ => false,
            };
        }
        let list = |options: &[&str], paths: &BTreeSet<&[u8]>| -> Result<Vec<Vec<u8>>> {
            if paths.is_empty() {
                return Ok(Vec::new());
            }
            let git = self
                .git_at(&at.admin_dir, &at.top)
                .env("GIT_LITERAL_PATHSPECS", "1")
                .args(["ls-files", "-z"])
                .args(options)
                .arg("--");
            let git = paths
                .iter()
                .fold(git, |git, path| git.arg(OsStr::from_bytes(path)));
            let listed = git.run()?.stdout;
            let paths = listed.split(|byte| *byte == 0);
            Ok(paths
                .filter(|path| !path.is_empty())
                .map(<[u8]>::to_vec)
                .collect())
        };
        let known = list(&[], &files)?;
        let unknown = files
            .into_iter()
            .find(|path| !known.iter().any(|known| known == path))
            .map(<[u8]>::to_vec);
        let unknown = match unknown {
            Some(path) => Some(path),
            None => list(&["--others"], &dirs)?.into_iter().next(),
        };
        Ok(unknown.map(|path| String::from_utf8_lossy(&path).into_owned()))
    }

    /// Says what keeps working trees from being taken from one commit to another, if anything does, so far as git itself
    /// does not look once more when it takes them there.
    pub fn obstacle_to_landing(
        &self,
        checkouts: &[Checkout],
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Option<String>> {
        for at in checkouts {
            if let Some(what) = self.plain_obstacle(at, old, new)? {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Moves a branch and the working trees that have it checked out, once no [obstacle](Repo::obstacle_to_landing) was
    /// found and what is about to happen is written down.
    pub fn land(&self, landing: &Landing<'_>) -> Result<Landed> {
        let cannot = || format!("cannot move '{}'", landing.branch);
        fault::point("land.checked").context(cannot)?;
        let _record = self
            .record_locks(self.locks_of_landing(landing))?
            .durable()?;
        let mut transaction = Transaction::begin(self, landing)?;
        fault::point("land.begun").context(cannot)?;
        if let Some(said) = self.update_checkouts(landing.checkouts, landing.old, landing.new)? {
            return Ok(Landed::Refused(said));
        }
        let moved = fault::point("land.files.updated")
            .context(cannot)
            .and_then(|()| transaction.commit());
        // What failed may have failed after the branch had moved.
        if !matches!(moved, Ok(Ok(()))) && self.find_ref(landing.branch)? != Some(landing.new) {
            self.take_all_back(landing.checkouts, landing.old, landing.new)?;
            return match moved? {
                Ok(()) => Ok(Landed::Moved),
                Err(said) => self.why_not(landing, said),
            };
        }
        fault::point("land.committed").context(cannot)?;
        Ok(Landed::Done)
    }

    /// Returns the locks that git takes for a landing.
    fn locks_of_landing(&self, landing: &Landing<'_>) -> Vec<PathBuf> {
        let also = landing.also.iter().map(|change| change.name.as_str());
        let refs = self.locks_of_refs(std::iter::once(landing.branch).chain(also));
        let places = landing.checkouts.iter();
        refs.into_iter()
            .chain(places.flat_map(|at| self.locks_of_checkout(at)))
            .collect()
    }

    /// Takes working trees from one commit to another: all, or none and the reason.
    fn update_checkouts(
        &self,
        checkouts: &[Checkout],
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Option<String>> {
        for (index, at) in checkouts.iter().enumerate() {
            let answer = self.switch_tree(at, old, new)?;
            if answer.code != Some(0) {
                let said = in_place(&answer.stderr, at);
                self.take_all_back(&checkouts[..=index], old, new)
                    .map_err(|error| {
                        Error::fatal(format!("{said}; and then: {}", error.message()))
                            .hint("git agent merge --abort    once there is room again")
                    })?;
                return Ok(Some(said));
            }
            fault::point("land.file.updated").context(|| "cannot update files".into())?;
        }
        Ok(None)
    }

    /// Takes back what was changed in working trees that were as they are committed. Whatever they had besides stays.
    fn take_all_back(&self, checkouts: &[Checkout], old: ObjectId, new: ObjectId) -> Result<()> {
        for at in checkouts {
            let head = self.head_of(at)?.filter(|head| *head != old);
            // Somebody has committed the new files meanwhile: there they are at home now.
            if let Some(head) = head
                && self.has_files_of(head, old, new)?
            {
                continue;
            }
            self.take_back(at, &at.admin_dir.join("index"), old, new)?;
        }
        Ok(())
    }

    /// Returns whether a commit has every file that changed between two others as it is in the second of them.
    fn has_files_of(&self, commit: ObjectId, old: ObjectId, new: ObjectId) -> Result<bool> {
        let lacking = self.touched_between(commit, new)?;
        let wanted = self.touched_between(old, new)?;
        let is_wanted = |path: &Vec<u8>| {
            let wanted = wanted.changes();
            wanted
                .binary_search_by(|change| change.path.cmp(path))
                .is_ok()
        };
        Ok(!lacking
            .changes()
            .iter()
            .any(|change| is_wanted(&change.path)))
    }

    fn switch_tree(
        &self,
        at: &Checkout,
        from: ObjectId,
        to: ObjectId,
    ) -> Result<crate::git::command::Answer> {
        self.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .args(["read-tree", "-m", "-u"])
            .args([from.to_string(), to.to_string()])
            .answer()
    }

    /// Tells a branch that somebody moved from one that may not move.
    fn why_not(&self, landing: &Landing<'_>, said: String) -> Result<Landed> {
        if self.find_ref(landing.branch)? != Some(landing.old) {
            return Ok(Landed::Moved);
        }
        for change in landing.also {
            let wanted = match change.expected {
                Expected::Absent => None,
                Expected::At(id) => Some(id),
            };
            if self.find_ref(&change.name)? != wanted {
                return Ok(Landed::Moved);
            }
        }
        Ok(Landed::Refused(said))
    }
}

/// A transaction of refs that git knows and has not begun: nothing is locked.
struct Transaction {
    child: std::process::Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    complaints: Option<Complaints>,
}

impl Transaction {
    /// Tells git what shall move.
    fn begin(repo: &Repo, landing: &Landing<'_>) -> Result<Self> {
        // Where the branch is checked out HEAD's own reflog tells of it too.
        let git = match landing.checkouts.first() {
            Some(at) => repo.git_at(&at.admin_dir, &at.top),
            None => repo.git_common(),
        };
        let mut transaction = Transaction::start(git, landing.reflog)?;
        let null = repo.null_id();
        let mut script = b"start\0".to_vec();
        let own = RefChange {
            name: landing.branch.to_owned(),
            expected: Expected::At(landing.old),
            new: Some(landing.new),
        };
        for change in std::iter::once(&own).chain(landing.also) {
            script.extend_from_slice(change.script_line(null).as_bytes());
        }
        // A git that cannot be told anything does not answer when it is to commit.
        transaction.say(&script);
        Ok(transaction)
    }

    fn start(git: Git, reflog: &str) -> Result<Self> {
        let cannot = || "cannot keep what git says".to_owned();
        // In memory: what a hook left running may hold a pipe for as long as it lives.
        let complaints = Complaints::new().context(cannot)?;
        let mut child = git
            .with_hooks()
            .durable()
            .args(["update-ref", "-m", reflog, "--stdin", "-z"])
            .spawn(
                Stdio::piped(),
                Stdio::piped(),
                complaints.sink().context(cannot)?,
            )?;
        let missing = || Error::fatal("git was started without its streams");
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(missing)?;
        Ok(Transaction {
            child,
            input,
            answers: BufReader::new(output),
            complaints: Some(complaints),
        })
    }

    fn say(&mut self, words: &[u8]) -> bool {
        self.input
            .as_mut()
            .is_some_and(|input| input.write_all(words).and_then(|()| input.flush()).is_ok())
    }

    fn hears(&mut self, wanted: &str) -> bool {
        let mut line = String::new();
        self.answers.read_line(&mut line).is_ok() && line.trim_end() == wanted
    }

    /// Locks and compares the refs, lets hooks object, and moves them. The inner error is what git said when it may not.
    fn commit(&mut self) -> Result<std::result::Result<(), String>> {
        let locked = self.say(b"prepare\0") && self.hears("start: ok") && self.hears("prepare: ok");
        let done = locked && {
            fault::point("land.locked").context(|| "cannot move the branch".into())?;
            self.say(b"commit\0") && self.hears("commit: ok")
        };
        let said = self.end();
        Ok(match (done, said.trim()) {
            (true, _) => Ok(()),
            (false, "") => Err("the branch cannot be locked".to_owned()),
            (false, _) => Err(objection(said.as_bytes())),
        })
    }

    /// Ends the call: what is not committed does not happen. Returns what it complained.
    fn end(&mut self) -> String {
        drop(self.input.take());
        let _ = self.child.wait();
        let text = self
            .complaints
            .take()
            .and_then(|complaints| complaints.take().ok())
            .unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a file that will change and is not in the index as it is committed.
fn staged(index: &State, touched: &Touched) -> Option<String> {
    let other = touched.changes().iter().find(|change| {
        let known = index.entry_by_path(change.path.as_bstr());
        match (known, change.before) {
            (Some(entry), Some(leaf)) => {
                !is_leaf(entry, leaf) || entry.flags.contains(Flags::INTENT_TO_ADD)
            }
            (None, Some(_)) => !index.is_sparse(),
            (known, None) => known.is_some(),
        }
    });
    other.map(|change| change.path.to_str_lossy().into_owned())
}

/// Returns what git objected to in a working tree.
fn in_place(stderr: &[u8], at: &Checkout) -> String {
    format!("{} in '{}'", objection(stderr), at.top.display())
}

/// Returns what git objected, without its prefixes, on one line.
fn objection(stderr: &[u8]) -> String {
    match complaint(stderr) {
        said if said.is_empty() => "git refused without a word".to_owned(),
        said => said.trim_end_matches('.').to_owned(),
    }
}

/// Returns what somebody is in the middle of in a working tree.
fn operation_under_way(at: &Checkout) -> Option<String> {
    let locked = || at.admin_dir.join("index.lock").exists();
    match unfinished(at) {
        Some(what) => Some(format!("a {what}")),
        None => locked().then(|| "another git command".to_owned()),
    }
}
