//! What a test asks about sessions, through the product's machine forms and through plain git; and whether anything was
//! left behind that should not be there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::wait_until;
use crate::repo::Repo;

/// How many times a test repeats what happens at random, unless `GIT_AGENT_TEST_ROUNDS` says otherwise.
pub fn rounds(usual: usize) -> usize {
    std::env::var("GIT_AGENT_TEST_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

impl Repo<'_> {
    /// Starts a session whose agent is the fake one with these steps.
    #[track_caller]
    pub fn new_session(&self, name: &str, options: &[&str], steps: &[&str]) -> Value {
        let made = self
            .agent_cmd(["new", "--json", name])
            .args(options)
            .args(["--", "fake-agent"])
            .args(steps)
            .run()
            .success();
        serde_json::from_slice::<Value>(made.stdout_bytes()).expect("an envelope")["sessions"][0]
            .clone()
    }

    /// Returns all sessions as `git agent list` tells them.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Value> {
        let listed = self.agent(["list", "--all", "--json"]).success();
        let envelope: Value = serde_json::from_slice(listed.stdout_bytes()).expect("an envelope");
        envelope["sessions"]
            .as_array()
            .cloned()
            .expect("a list of sessions")
    }

    /// Returns one session as `git agent list` tells it.
    #[track_caller]
    pub fn session(&self, name: &str) -> Value {
        self.sessions()
            .into_iter()
            .find(|session| session["name"] == name)
            .unwrap_or_else(|| panic!("there is no session '{name}'"))
    }

    /// Returns the state that `git agent list` tells of a session.
    #[track_caller]
    pub fn state(&self, name: &str) -> String {
        self.session(name)["state"]
            .as_str()
            .expect("a state")
            .to_owned()
    }

    /// Waits until a session is in a state.
    #[track_caller]
    pub fn await_state(&self, name: &str, state: &str) {
        let mut last = String::new();
        let deadline = std::time::Instant::now() + crate::process::TIME_LIMIT;
        while std::time::Instant::now() < deadline {
            last = self.state(name);
            if last == state {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let session = self.session(name);
        panic!("'{name}' is {last} and never became {state}: {session:#}");
    }

    /// Returns a session's events, oldest first.
    #[track_caller]
    pub fn events(&self, name: &str) -> Vec<Value> {
        let shown = self.agent(["log", "--raw", name]).success();
        String::from_utf8_lossy(shown.stdout_bytes())
            .lines()
            .map(|line| serde_json::from_str(line).expect("one record a line"))
            .collect()
    }

    /// Returns the texts of a session's events of one kind.
    #[track_caller]
    pub fn texts(&self, name: &str, kind: &str) -> Vec<String> {
        self.events(name)
            .iter()
            .filter(|event| event["type"] == kind || event["kind"] == kind)
            .filter_map(|event| event["text"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns a session's worktree.
    #[track_caller]
    pub fn worktree_of(&self, name: &str) -> Self {
        let session = self.session(name);
        let path = session["worktree"].as_str().expect("a worktree");
        Repo::open(self.sandbox(), path)
    }

    /// Asserts that git is whole, that no lock is left, that worktrees, folders and branches belong together, and that
    /// no supervisor is noted that does not run.
    #[track_caller]
    pub fn assert_nothing_left_over(&self) {
        let common = self.common_dir();
        let agents = common.join("agents");
        let run = agents.join("run");
        wait_until("every supervisor took its file away", || {
            let notes = files_below(&run)
                .into_iter()
                .filter(|path| path.extension().is_some_and(|end| end == "json"));
            notes.count() == 0
        });
        for path in files_below(&agents) {
            let is_lock = path.extension().is_some_and(|end| end == "lock")
                || path.starts_with(agents.join("locks"))
                || path.starts_with(agents.join("slots"));
            if is_lock && let Ok(file) = fs::File::open(&path) {
                // A supervisor takes its file away just before it lets go of its lock.
                wait_until(&format!("{} is free", path.display()), || {
                    file.try_lock().is_ok()
                });
            }
        }
        self.assert_whole();
        let locks: Vec<PathBuf> = files_below(&common)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "lock"))
            .filter(|path| !path.starts_with(&agents))
            .collect();
        assert!(locks.is_empty(), "git's locks were left: {locks:?}");
        self.assert_worktrees_fit();
    }

    /// Asserts that every worktree git knows is a folder, that every folder of sessions is a worktree git knows, and that
    /// every session's branch belongs to a session.
    #[track_caller]
    pub fn assert_worktrees_fit(&self) {
        let shown = self
            .git(["worktree", "list", "--porcelain", "-z"])
            .success();
        let known: Vec<PathBuf> = shown
            .stdout_bytes()
            .split(|byte| *byte == 0)
            .filter_map(|field| field.strip_prefix(b"worktree "))
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect();
        for path in &known {
            assert!(path.is_dir(), "worktree {path:?} is no folder");
        }
        let sessions = self.sessions();
        let places: Vec<&str> = sessions
            .iter()
            .filter_map(|session| session["worktree"].as_str())
            .collect();
        if let Some(home) = places.first().and_then(|place| Path::new(place).parent())
            && let Ok(folders) = fs::read_dir(home)
        {
            for folder in folders.flatten() {
                let path = folder.path();
                assert!(known.contains(&path), "{path:?} is no worktree");
            }
        }
        let branches = self.refs("refs/heads");
        for branch in branches.keys().filter(|name| name.contains("/agent/")) {
            let branch = branch.trim_start_matches("refs/heads/");
            assert!(
                sessions.iter().any(|session| session["branch"] == branch),
                "branch '{branch}' belongs to no session"
            );
        }
    }
}

/// Returns every file below a directory, links not followed.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return found;
    };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
    found
}
