//! Snapshots of a session's worktree: a chain of commits under a local ref, never pushed.

use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::object::Signature;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{Hidden, LeftOut};
use crate::model::session::SessionId;
use crate::process::lock::Lock;
use crate::store::{Store, limits, refname};

const SESSION: &str = "Agent-Session";
const TURN: &str = "Agent-Turn";

/// The result of taking a snapshot.
#[derive(Debug)]
pub struct Taken {
    /// The snapshot: a new one, or the last one if nothing has changed since.
    pub id: ObjectId,
    pub is_new: bool,
    /// The files that are in the worktree but not in the snapshot. Removing the worktree loses them.
    pub left_out: Vec<LeftOut>,
}

/// A snapshot in a session's chain.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The snapshot itself.
    pub snapshot: Snapshot,
    /// The turn after which it was taken, if it was the end of a turn.
    pub turn: Option<u64>,
    /// The reason for taking it.
    pub reason: String,
}

impl Store<'_> {
    /// Takes a snapshot of a session's worktree. `reason` is its title, such as `after turn 3` or `before clean`.
    pub fn take_snapshot(
        &self,
        sid: SessionId,
        turn: Option<u64>,
        reason: &str,
        checkout: &Checkout,
    ) -> Result<Taken> {
        let name = refname::snapshots(sid);
        let _lock = self.lock_snapshots(sid)?;
        let mut captured = self.repo.capture(checkout, Hidden::Look)?;
        let left_out = std::mem::take(&mut captured.left_out);
        let mut is_new = false;
        let id = self.repo.update_ref(&name, |previous| {
            // An unreadable last snapshot must not prevent new ones.
            let last = previous.and_then(|id| self.repo.read_snapshot(id).ok());
            if let (Some(unreadable), None) = (previous, &last) {
                self.keep_lost(&name, unreadable)?;
            }
            is_new = !last.as_ref().is_some_and(|last| last.is_state(&captured));
            if !is_new {
                return Ok(None);
            }
            let mut trailers = vec![(SESSION, sid.to_string())];
            trailers.extend(turn.map(|turn| (TURN, turn.to_string())));
            let id = self.repo.write_snapshot(
                &mut captured,
                last.map(|last| last.id),
                &self.signature(),
                &format!("snapshot {reason}"),
                &trailers,
            )?;
            Ok(Some(id))
        })?;
        let id = id.ok_or_else(|| Error::fatal(format!("ref '{name}' is gone")))?;
        Ok(Taken {
            id,
            is_new,
            left_out,
        })
    }

    /// Returns the last snapshot of a session.
    pub fn last_snapshot(&self, sid: SessionId) -> Result<Option<Kept>> {
        match self.repo.find_ref(&refname::snapshots(sid))? {
            Some(id) => Ok(Some(self.kept(id)?)),
            None => Ok(None),
        }
    }

    /// Returns the snapshots of a session, newest first.
    pub fn snapshots(&self, sid: SessionId) -> Result<Vec<Kept>> {
        let mut chain = Vec::new();
        let mut next = self.repo.find_ref(&refname::snapshots(sid))?;
        while let Some(id) = next {
            if chain.len() >= limits::CHAIN {
                return Err(Error::fatal(format!(
                    "session {sid} has more than {} snapshots",
                    limits::CHAIN
                )));
            }
            let kept = self.kept(id)?;
            next = kept.snapshot.previous;
            chain.push(kept);
        }
        Ok(chain)
    }

    /// Returns the last snapshot taken at the end of a turn.
    ///
    /// A turn without changes has no snapshot: then the previous turn's is returned.
    pub fn snapshot_of_turn(&self, sid: SessionId, turn: u64) -> Result<Option<Kept>> {
        let mut next = self.repo.find_ref(&refname::snapshots(sid))?;
        for _ in 0..limits::CHAIN {
            let Some(id) = next else {
                return Ok(None);
            };
            let kept = self.kept(id)?;
            if kept.turn.is_some_and(|taken| taken <= turn) {
                return Ok(Some(kept));
            }
            next = kept.snapshot.previous;
        }
        Ok(None)
    }

    /// Returns the author of snapshots: the user, or a fixed name where git knows none, so that a snapshot never fails.
    pub(crate) fn signature(&self) -> Signature {
        let (name, email) = self
            .repo
            .committer()
            .unwrap_or_else(|_| ("git-agent".into(), "git-agent@localhost".into()));
        Signature {
            name,
            email,
            seconds: self.env.now().seconds(),
        }
    }

    fn kept(&self, id: ObjectId) -> Result<Kept> {
        let snapshot = self.repo.read_snapshot(id)?;
        let commit = &snapshot.commit;
        let turn = commit
            .trailers(TURN)
            .last()
            .and_then(|turn| turn.parse().ok());
        let title = commit.message.lines().next().unwrap_or_default();
        let reason = title.strip_prefix("snapshot ").unwrap_or(title).to_owned();
        Ok(Kept {
            turn,
            reason,
            snapshot,
        })
    }

    /// Locks a session's local refs (its snapshots, and the work that was last seen) against other writers, until the
    /// value is dropped or the process ends.
    pub fn lock_snapshots(&self, sid: SessionId) -> Result<Lock> {
        let path = self.require_dir("locks")?.join(format!("{sid}.snapshots"));
        Lock::acquire_patiently(self.env, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, Terminals};
    use crate::git::Repo;
    use std::path::{Path, PathBuf};

    fn git(top: &Path, words: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        for name in crate::env::GIT_LOCATION_VARIABLES {
            command.env_remove(name);
        }
        let output = command
            .current_dir(top)
            .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
            .args(words)
            .output()
            .expect("git starts");
        assert!(output.status.success(), "git {words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn env_at(days: u64) -> Env {
        let clock = 1_794_000_000_000 + days * 24 * 60 * 60 * 1000;
        let variables = [("GIT_AGENT_TEST_CLOCK".into(), clock.to_string().into())];
        Env::new(PathBuf::from("/"), variables, Terminals::default())
    }

    fn repository(dir: &Path, format: &str) -> (Repo, Checkout) {
        git(
            dir,
            &[
                "init",
                "-q",
                "-b",
                "main",
                &format!("--ref-format={format}"),
            ],
        );
        std::fs::write(dir.join("a"), "a").expect("a file");
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-q", "-m", "seed"]);
        let repo = Repo::open(&env_at(0), &dir.join(".git")).expect("a repository");
        let checkout = repo.checkout().expect("a working tree");
        (repo, checkout)
    }

    #[test]
    fn a_chain_by_turns_that_ends_some_day() {
        for format in ["files", "reftable"] {
            let dir = tempfile::tempdir().expect("a directory");
            let (repo, at) = repository(dir.path(), format);
            let env = env_at(0);
            let store = Store::new(&env, &repo);
            let sid = SessionId::new(&env);
            let take = |turn, reason: &str| {
                store
                    .take_snapshot(sid, turn, reason, &at)
                    .expect("a snapshot")
            };
            assert!(store.last_snapshot(sid).expect("no error").is_none());
            let first = take(Some(1), "after turn 1");
            assert!(first.is_new);
            std::fs::write(dir.path().join("b"), "b").expect("a file");
            let second = take(Some(2), "after turn 2");
            let idle = take(Some(3), "after turn 3");
            assert!(!idle.is_new, "nothing had changed");
            assert_eq!(idle.id, second.id);
            std::fs::write(dir.path().join("b"), "c").expect("a file");
            let third = take(None, "before clean");
            let chain = store.snapshots(sid).expect("a chain");
            let seen: Vec<_> = chain
                .iter()
                .map(|kept| (kept.snapshot.id, kept.turn, kept.reason.as_str()))
                .collect();
            assert_eq!(
                seen,
                [
                    (third.id, None, "before clean"),
                    (second.id, Some(2), "after turn 2"),
                    (first.id, Some(1), "after turn 1"),
                ]
            );
            let of = |turn| store.snapshot_of_turn(sid, turn).expect("no error");
            assert_eq!(of(1).map(|kept| kept.snapshot.id), Some(first.id));
            assert_eq!(of(3).map(|kept| kept.snapshot.id), Some(second.id));
            assert!(of(0).is_none());
            let message = git(
                dir.path(),
                &["log", "-1", "--format=%B", &second.id.to_string()],
            );
            assert!(
                message.starts_with("snapshot after turn 2\n\nAgent-Session: "),
                "{message}"
            );
            git(dir.path(), &["gc", "-q", "--prune=now"]);
            git(dir.path(), &["fsck", "--strict"]);
            assert_eq!(store.snapshots(sid).expect("a chain").len(), 3);
        }
    }

    #[test]
    fn what_is_lost_is_kept_for_a_while() {
        for format in ["files", "reftable"] {
            let dir = tempfile::tempdir().expect("a directory");
            let (repo, at) = repository(dir.path(), format);
            let head = repo.head_of(&at).expect("no error").expect("a commit");
            let env = env_at(0);
            let name = Store::new(&env, &repo)
                .keep_lost("refs/heads/agents/x/work", head)
                .expect("kept");
            assert!(name.ends_with("-heads,agents,x,work"), "{name}");
            for (days, left) in [(0, 1), (30, 1), (31, 0)] {
                let env = env_at(days);
                let store = Store::new(&env, &repo);
                assert_eq!(store.expire_lost().expect("no error"), 1 - left);
                assert_eq!(store.lost().expect("a list").len(), left);
            }
        }
    }

    #[test]
    fn many_at_once_make_one_chain() {
        let dir = tempfile::tempdir().expect("a directory");
        let (repo, at) = repository(dir.path(), "files");
        let env = env_at(0);
        let sid = SessionId::new(&env);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (git_dir, at) = (repo.git_dir(), &at);
                scope.spawn(move || {
                    let env = env_at(0);
                    let repo = Repo::open(&env, git_dir).expect("a repository");
                    for round in 0..5 {
                        let file = at.top.join(format!("w{writer}"));
                        std::fs::write(file, round.to_string()).expect("a file");
                        Store::new(&env, &repo)
                            .take_snapshot(sid, None, "now", at)
                            .expect("a snapshot");
                    }
                });
            }
        });
        let chain = Store::new(&env, &repo).snapshots(sid).expect("a chain");
        assert!(chain.len() >= 5, "{}", chain.len());
        let last = repo.capture(&at, Hidden::Look).expect("captured");
        assert!(chain[0].snapshot.is_state(&last));
    }
}
