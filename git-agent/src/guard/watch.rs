//! Compares the refs before and after a turn, and restores those that the session may not change.
//!
//! Nothing proves who moved a ref. The user and other sessions work at the same time, and a reflog cannot carry a mark
//! of ours: the commands that the hook cannot see (`branch`, `update-ref`, `symbolic-ref`, a push) ignore
//! `GIT_REFLOG_ACTION`, and setting it would break `git switch -`, which reads the message it replaces. So a change is
//! reported with its [`Evidence`], and restored only if the user asks for it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::{Context, Error, Result};
use crate::git::refs::{Expected, RefChange, Swap, Target};
use crate::git::{ObjectId, Repo, worktree};
use crate::guard::policy::{Own, short};
use crate::store::refname;

/// How the lines of [`Refs::to_bytes`] begin, and the values of symbolic refs.
const REF: &str = "ref";
const HEAD: &str = "head";
const SYMBOLIC: &str = "ref:";

/// All refs of a repository, and the HEAD of each worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refs {
    values: BTreeMap<String, Target>,
    heads: BTreeMap<PathBuf, Target>,
}

/// The session whose changes are compared.
pub struct Scope<'a> {
    /// The refs that the session may move.
    pub own: &'a Own,
    /// The top of its worktree.
    pub worktree: &'a Path,
    /// The git directory of its worktree.
    pub git_dir: &'a Path,
    /// Returns whether a known process moved this ref: another live session, or a command of ours.
    pub is_known: &'a dyn Fn(&str) -> bool,
}

/// The thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A ref, by its full name.
    Ref(String),
    /// The HEAD of a worktree, by the worktree's top. If it has no new value, the worktree is gone.
    Head(PathBuf),
}

/// Evidence that the session made a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// None: any process may have made it.
    None,
    /// The reflog says that this branch of the session was renamed to it.
    RenamedFrom(String),
    /// The reflog says that this branch of the session was copied over it.
    CopiedFrom(String),
    /// It is the session's own worktree.
    OwnWorktree,
}

/// A change that the session may not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The thing that changed.
    pub subject: Subject,
    /// The old value; `None` if it is new.
    pub before: Option<Target>,
    /// The new value; `None` if it is gone.
    pub after: Option<Target>,
    /// Evidence that the session made the change.
    pub evidence: Evidence,
}

impl fmt::Display for Change {
    /// Says what happened to the subject; the caller adds the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (&self.before, &self.after) {
            (None, _) => "appeared",
            (_, None) => "vanished",
            _ => "moved",
        };
        match &self.subject {
            Subject::Ref(name) => write!(f, "'{name}' {how}"),
            Subject::Head(top) => write!(f, "HEAD of '{}' {how}", top.display()),
        }
    }
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Restored {
    /// Restored. The ref keeps the replaced value, if there was one.
    Done(Option<String>),
    /// It has changed again since; nothing was done.
    Stale,
    /// It cannot be restored, for this reason.
    Kept(&'static str),
}

impl Refs {
    /// Reads all refs and HEADs.
    pub fn take(repo: &Repo) -> Result<Self> {
        Ok(Refs {
            values: values(repo)?,
            heads: heads(repo)?,
        })
    }

    /// Returns them as bytes that [`Refs::parse`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut line = |kind: &str, target: &Target, key: &[u8]| {
            let target = match target {
                Target::Object(id) => id.to_string(),
                Target::Symbolic(name) => format!("{SYMBOLIC}{name}"),
            };
            bytes.extend(format!("{kind} {target} ").into_bytes());
            bytes.extend(key);
            bytes.push(0);
        };
        for (name, target) in &self.values {
            line(REF, target, name.as_bytes());
        }
        for (top, target) in &self.heads {
            line(HEAD, target, top.as_os_str().as_bytes());
        }
        bytes
    }

    /// Reads such bytes; `None` if they are damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut refs = Refs::default();
        let lines = bytes.split(|byte| *byte == 0);
        for line in lines.filter(|line| !line.is_empty()) {
            let mut fields = line.splitn(3, |byte| *byte == b' ');
            let kind = fields.next()?;
            let target = std::str::from_utf8(fields.next()?).ok()?;
            let target = match target.strip_prefix(SYMBOLIC) {
                Some(name) => Target::Symbolic(name.to_owned()),
                None => Target::Object(target.parse().ok()?),
            };
            let key = fields.next()?;
            if kind == REF.as_bytes() {
                let name = std::str::from_utf8(key).ok()?.to_owned();
                refs.values.insert(name, target);
            } else {
                refs.heads.insert(OsStr::from_bytes(key).into(), target);
            }
        }
        Some(refs)
    }

    /// Returns all refs in order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Target)> {
        self.values
            .iter()
            .map(|(name, target)| (name.as_str(), target))
    }

    /// Returns the HEAD of the worktree with this top.
    pub fn head(&self, top: &Path) -> Option<&Target> {
        self.heads.get(top)
    }

    /// Returns the object that a ref points at; `None` if the ref is absent or symbolic.
    pub fn id(&self, name: &str) -> Option<ObjectId> {
        match self.values.get(name) {
            Some(Target::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Returns the refs with such names that differ in `after`, what each was and what it is.
    pub fn differing<'r>(
        &'r self,
        after: &'r Refs,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<(&'r str, Option<&'r Target>, Option<&'r Target>)> {
        let new = after.values.keys();
        let new = new.filter(|name| !self.values.contains_key(*name));
        (self.values.keys().chain(new))
            .filter(|name| wanted(name))
            .map(|name| (name.as_str(), self.values.get(name), after.values.get(name)))
            .filter(|(_, was, is)| was != is)
            .collect()
    }

    /// Returns the differences in `after` that the session may not make and that no known process made.
    pub fn compare(&self, repo: &Repo, after: &Refs, scope: &Scope<'_>) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let names = self.values.keys().chain(
            after
                .values
                .keys()
                .filter(|name| !self.values.contains_key(*name)),
        );
        for name in names {
            let (before, now) = (self.values.get(name), after.values.get(name));
            let exempt = name.starts_with("refs/remotes/") || scope.own.owns(name);
            if before == now || exempt || (scope.is_known)(name) {
                continue;
            }
            changes.push(Change {
                evidence: evidence(repo, name, now, scope.own)?,
                subject: Subject::Ref(name.clone()),
                before: before.cloned(),
                after: now.cloned(),
            });
        }
        for (top, before) in &self.heads {
            let now = after.heads.get(top);
            let is_own = is_same_place(top, scope.worktree);
            let allowed = match now {
                Some(Target::Symbolic(name)) => is_own && scope.own.owns(name),
                Some(Target::Object(_)) => is_own && !scope.own.is_read_only(),
                None => false,
            };
            if Some(before) == now || allowed {
                continue;
            }
            changes.push(Change {
                subject: Subject::Head(top.clone()),
                before: Some(before.clone()),
                after: now.cloned(),
                evidence: if is_own {
                    Evidence::OwnWorktree
                } else {
                    Evidence::None
                },
            });
        }
        Ok(changes)
    }
}

impl Change {
    /// Restores the old value, if the ref still has the new one. A ref keeps the new value first.
    pub fn restore(&self, env: &Env, repo: &Repo, scope: &Scope<'_>) -> Result<Restored> {
        match &self.subject {
            Subject::Ref(name) => self.restore_ref(env, repo, name),
            Subject::Head(_) if self.evidence == Evidence::OwnWorktree => {
                self.restore_own_head(repo, scope)
            }
            Subject::Head(_) => Ok(Restored::Kept("its files may be in use there")),
        }
    }

    fn restore_ref(&self, env: &Env, repo: &Repo, name: &str) -> Result<Restored> {
        if values(repo)?.get(name) != self.after.as_ref() {
            return Ok(Restored::Stale);
        }
        let now = match &self.after {
            Some(Target::Object(id)) => Some(*id),
            Some(Target::Symbolic(target)) => repo.find_ref(target)?,
            None => None,
        };
        if let Evidence::RenamedFrom(own) = &self.evidence
            && repo.find_ref(own)?.is_none()
        {
            // git's own rename also restores the reflog, the branch's settings and every worktree's HEAD.
            let words = ["branch", "-m", short(name), short(own)];
            repo.git_common().args(words).run()?;
            return match self.before.clone() {
                Some(before) => set(repo, name, None, &before).map(|swap| ended(swap, None)),
                None => Ok(Restored::Done(None)),
            };
        }
        let in_use = || -> Result<bool> {
            let wanted = Target::Symbolic(name.to_owned());
            Ok(heads(repo)?.values().any(|head| *head == wanted))
        };
        if self.before.is_none() && in_use()? {
            return Ok(Restored::Kept("a worktree is on it"));
        }
        let kept = match now {
            Some(id) => Some(keep(env, repo, name, id)?),
            None => None,
        };
        if matches!(self.after, Some(Target::Symbolic(_))) {
            repo.git_common()
                .args(["symbolic-ref", "--delete", name])
                .run()?;
        }
        let expected = match &self.after {
            Some(Target::Object(id)) => Some(*id),
            _ => None,
        };
        let swap = match &self.before {
            Some(before) => set(repo, name, expected, before)?,
            None if expected.is_none() => Swap::Done,
            None => repo.swap_refs(&[change(name, expected, None)])?,
        };
        Ok(ended(swap, kept))
    }

    fn restore_own_head(&self, repo: &Repo, scope: &Scope<'_>) -> Result<Restored> {
        let (Some(own), Some(Target::Symbolic(now))) = (scope.own.first(), &self.after) else {
            return Ok(Restored::Kept("the worktree is gone"));
        };
        let head = repo.git_at(scope.git_dir, scope.worktree);
        let answer = head.args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
        if answer.text() != *now {
            return Ok(Restored::Stale);
        }
        if repo.find_ref(now)? != repo.find_ref(own)? {
            return Ok(Restored::Kept(
                "its files belong to another commit than the session's branch",
            ));
        }
        repo.git_at(scope.git_dir, scope.worktree)
            .args([
                "symbolic-ref",
                "-m",
                "git-agent: back to the session's branch",
            ])
            .args(["HEAD", own])
            .run()?;
        Ok(Restored::Done(None))
    }
}

fn ended(swap: Swap, kept: Option<String>) -> Restored {
    match swap {
        Swap::Done => Restored::Done(kept),
        Swap::Stale => Restored::Stale,
    }
}

fn change(name: &str, expected: Option<ObjectId>, new: Option<ObjectId>) -> RefChange {
    RefChange {
        name: name.to_owned(),
        expected: expected.map_or(Expected::Absent, Expected::At),
        new,
    }
}

/// Sets a ref if it has the expected value.
fn set(repo: &Repo, name: &str, expected: Option<ObjectId>, value: &Target) -> Result<Swap> {
    match value {
        Target::Object(id) => repo.swap_refs(&[change(name, expected, Some(*id))]),
        Target::Symbolic(target) => {
            if repo.find_ref(name)? != expected {
                return Ok(Swap::Stale);
            }
            repo.git_common()
                .args(["symbolic-ref", name, target])
                .run()?;
            Ok(Swap::Done)
        }
    }
}

/// Keeps an object under a ref, because no other ref may hold it now.
pub(super) fn keep(env: &Env, repo: &Repo, name: &str, id: ObjectId) -> Result<String> {
    let nonce: String = env
        .random::<4>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let lost = refname::lost(env.now().seconds(), &nonce, name);
    match repo.swap_ref(&change(&lost, None, Some(id)))? {
        Swap::Done => Ok(lost),
        Swap::Stale => Err(Error::fatal(format!("ref '{lost}' already exists"))),
    }
}

/// Returns the evidence in a branch's reflog.
fn evidence(repo: &Repo, name: &str, now: Option<&Target>, own: &Own) -> Result<Evidence> {
    if now.is_none() || !name.starts_with("refs/heads/") {
        return Ok(Evidence::None);
    }
    let answer = repo
        .git_common()
        .args(["log", "--no-walk", "--walk-reflogs", "-1", "--format=%gs"])
        .args([name, "--"])
        .answer()?;
    let message = answer.text();
    let source = |verb: &str| {
        let rest = message.strip_prefix("Branch: ")?.strip_prefix(verb)?;
        let source = rest.strip_suffix(name)?.strip_suffix(" to ")?;
        own.owns(source).then(|| source.to_owned())
    };
    Ok(if let Some(source) = source("renamed ") {
        Evidence::RenamedFrom(source)
    } else if let Some(source) = source("copied ") {
        Evidence::CopiedFrom(source)
    } else {
        Evidence::None
    })
}

fn values(repo: &Repo) -> Result<BTreeMap<String, Target>> {
    Ok(repo.refs_as_they_are()?.into_iter().collect())
}

fn heads(repo: &Repo) -> Result<BTreeMap<PathBuf, Target>> {
    let all = worktree::heads(repo).context(|| "cannot list the worktrees".into())?;
    Ok(all.into_iter().collect())
}

fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other
        || one
            .canonicalize()
            .is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
