//! Moves a branch together with the worktrees that have it checked out: completely, or not at all.
//!
//! The caller has recorded the move. Every worktree is updated as `git merge` would; then one short transaction
//! compares, locks and moves the branch, and hooks may object. A failure before that leaves branch and files unchanged,
//! and [`Repo::take_back`] restores the files after a crash. No ref is locked while files change: a checkout may take
//! minutes, and a killed git leaves its locks. The locks it may leave are [recorded](Repo::record_locks).
//!
//! Before any change, every affected file must equal its committed version, in the index and on disk. Only then is it
//! known afterwards what to restore, and which changes are the user's.

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
use crate::git::refs::{Expected, RefChange, lock_path};
use crate::git::snapshot::beneath::Disk;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::unfinished::unfinished;
use crate::git::{ObjectId, Repo, worktree};

/// A branch to be moved.
#[derive(Debug)]
pub struct Landing<'a> {
    /// The full name of the branch.
    pub branch: &'a str,
    /// The expected old tip.
    pub old: ObjectId,
    /// The new tip.
    pub new: ObjectId,
    /// The reflog message.
    pub reflog: &'a str,
    /// Other refs that move in the same transaction.
    pub also: &'a [RefChange],
    /// The worktrees that have it checked out.
    pub checkouts: &'a [Checkout],
}

/// The result of moving a branch.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Landed {
    /// The branch and its worktrees are at the new commit.
    Done,
    /// Another process moved the branch or one of the other refs; nothing was changed.
    Moved,
    /// An obstacle, in words; nothing was changed.
    Refused(String),
}

impl Repo {
    /// Returns the worktrees that have a branch checked out, by its full name.
    pub fn checkouts_of(&self, branch: &str) -> Result<Vec<Checkout>> {
        let mut found = Vec::new();
        for known in worktree::list(self)? {
            if known.branch.as_deref() != Some(branch) || known.bare {
                continue;
            }
            if known.is_main() && self.main_work_tree().as_deref() != Some(&known.path) {
                return Err(Error::fatal(format!(
                    "'{branch}' is checked out in the main worktree, whose location is unknown"
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

    /// Describes the obstacle to moving a worktree from one commit to another, if there is one. Changes nothing.
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

    /// Describes obstacles that git itself ignores: an unfinished operation, and ignored untracked files.
    fn plain_obstacle(
        &self,
        at: &Checkout,
        old: ObjectId,
        new: ObjectId,
    ) -> Result<Option<String>> {
        let place = at.top.display();
        if let Some(what) = operation_under_way(at) {
            return Ok(Some(format!("{what} is in progress in '{place}'")));
        }
        let touched = self.touched_between(old, new)?;
        if let Some(path) = self.untracked_in_the_way(at, &touched)? {
            return Ok(Some(format!(
                "untracked file '{path}' in '{place}' would be overwritten"
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
            format!("'{path}' in '{place}' has unstaged changes: commit or stash them")
        }))
    }

    /// Returns an affected file whose content on disk differs from the index. A missing file is not a loss.
    fn changed(&self, at: &Checkout, index: &State, touched: &Touched) -> Result<Option<String>> {
        let cannot = || format!("cannot read '{}'", at.top.display());
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
            // As git compares by default. If git is configured to compare less, this only asks git more often.
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

    /// Refreshes files that were only touched or copied: they look changed until git compares them.
    fn refresh_index(&self, at: &Checkout) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let _record = self.record_locks([lock_path(&at.admin_dir.join("index"))])?;
        self.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .args(["update-index", "-q", "--refresh"])
            .answer()
            .map(|_| ())
    }

    /// Returns whether the index of a worktree agrees with a commit about the changes since another.
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

    /// Returns a path that moving between two commits would add although it already exists.
    pub fn anything_new_at(
        &self,
        top: &Path,
        from: ObjectId,
        to: ObjectId,
    ) -> Result<Option<String>> {
        let cannot = || format!("cannot read '{}'", top.display());
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

    /// Returns an untracked file, ignored or not, in the place of a new one.
    fn untracked_in_the_way(&self, at: &Checkout, touched: &Touched) -> Result<Option<String>> {
        let (mut files, mut dirs) = (BTreeSet::new(), BTreeSet::new());
        for change in touched.changes() {
            if change.before.is_some() {
                continue;
            }
            // The new file itself, or a file in the place of its directory.
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

    /// Describes obstacles to moving worktrees between two commits that git itself does not check again during the
    /// move.
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

    /// Moves a branch and its worktrees, after a check for [obstacles](Repo::obstacle_to_landing) and after the move
    /// was recorded.
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
        // The failure may have come after the branch moved.
        if !matches!(moved, Ok(None)) && self.find_ref(landing.branch)? != Some(landing.new) {
            self.take_all_back(landing.checkouts, landing.old, landing.new)?;
            return match moved? {
                None => Ok(Landed::Moved),
                Some(said) => self.why_not(landing, said),
            };
        }
        fault::point("land.committed").context(cannot)?;
        Ok(Landed::Done)
    }

    /// Returns the locks that git takes for the move.
    fn locks_of_landing(&self, landing: &Landing<'_>) -> Vec<PathBuf> {
        let also = landing.also.iter().map(|change| change.name.as_str());
        let refs = self.locks_of_refs(std::iter::once(landing.branch).chain(also));
        let places = landing.checkouts.iter();
        refs.into_iter()
            .chain(places.flat_map(|at| self.locks_of_checkout(at)))
            .collect()
    }

    /// Moves worktrees from one commit to another: all, or none with a reason.
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
                        Error::fatal(format!("{said}; then: {}", error.message()))
                            .hint("git agent merge --abort")
                    })?;
                return Ok(Some(said));
            }
            fault::point("land.file.updated").context(|| "cannot update files".into())?;
        }
        Ok(None)
    }

    /// Restores the affected files of worktrees, which all had their committed content. Keeps all other changes.
    fn take_all_back(&self, checkouts: &[Checkout], old: ObjectId, new: ObjectId) -> Result<()> {
        for at in checkouts {
            let head = self.head_of(at)?.filter(|head| *head != old);
            // The new files were committed meanwhile, so they stay.
            if let Some(head) = head
                && self.has_files_of(head, old, new)?
            {
                continue;
            }
            self.take_back(at, &at.admin_dir.join("index"), old, new)?;
        }
        Ok(())
    }

    /// Returns whether a commit has all files that changed between two others in the version of the second.
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

    /// Distinguishes a branch that moved from one that may not move.
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

/// A ref transaction that git has received but not begun: nothing is locked.
struct Transaction {
    child: std::process::Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    complaints: Option<Complaints>,
}

impl Transaction {
    /// Passes the changes to git.
    fn begin(repo: &Repo, landing: &Landing<'_>) -> Result<Self> {
        // If the branch is checked out, HEAD's own reflog gets an entry too.
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
        // A git that cannot read this will not answer the commit either.
        transaction.say(&script);
        Ok(transaction)
    }

    fn start(git: Git, reflog: &str) -> Result<Self> {
        let cannot = || "cannot buffer git's errors".to_owned();
        // In memory: a process that a hook left running may hold a pipe for as long as it lives.
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

    /// Locks and compares the refs, lets hooks object, and moves them. Returns git's objection, if it has one.
    fn commit(&mut self) -> Result<Option<String>> {
        let locked = self.say(b"prepare\0") && self.hears("start: ok") && self.hears("prepare: ok");
        let done = locked && {
            fault::point("land.locked").context(|| "cannot move the branch".into())?;
            self.say(b"commit\0") && self.hears("commit: ok")
        };
        let said = self.end();
        Ok(match (done, said.trim()) {
            (true, _) => None,
            (false, "") => Some("the branch cannot be locked".to_owned()),
            (false, _) => Some(objection(said.as_bytes())),
        })
    }

    /// Ends the call; an uncommitted transaction is dropped. Returns its error output.
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

/// Returns an affected file whose staged content differs from the committed one.
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

/// Returns git's objection in a worktree.
fn in_place(stderr: &[u8], at: &Checkout) -> String {
    format!("{} in '{}'", objection(stderr), at.top.display())
}

/// Returns git's objection without prefixes, on one line.
fn objection(stderr: &[u8]) -> String {
    match complaint(stderr) {
        said if said.is_empty() => "git gave no reason".to_owned(),
        said => said.trim_end_matches('.').to_owned(),
    }
}

/// Returns the unfinished operation in a worktree.
fn operation_under_way(at: &Checkout) -> Option<String> {
    let locked = || at.admin_dir.join("index.lock").exists();
    match unfinished(at) {
        Some(what) => Some(format!("a {what}")),
        None => locked().then(|| "another git command".to_owned()),
    }
}
