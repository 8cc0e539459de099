//! Compares our worktrees with those that git creates.

mod filling;
mod hardening;
mod records;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::env::{Env, Terminals};
use crate::git::worktree::checkout::Report;
use crate::git::worktree::*;
use crate::git::{ObjectId, Repo};

static CALM: AtomicBool = AtomicBool::new(false);

struct Sandbox {
    root: tempfile::TempDir,
    top: PathBuf,
}

impl Sandbox {
    fn new() -> Self {
        Sandbox::with(&[], OsStr::new("repo"))
    }

    fn with(init: &[&str], name: &OsStr) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let base = fs::canonicalize(root.path()).expect("a real path");
        let sandbox = Sandbox {
            top: base.join(name),
            root,
        };
        fs::create_dir(&sandbox.top).expect("a new directory");
        let mut words = vec!["init", "-q", "-b", "main"];
        words.extend(init);
        sandbox.git(&words);
        sandbox.git(&["config", "user.name", "A U Thor"]);
        sandbox.git(&["config", "user.email", "author@example.com"]);
        sandbox
    }

    fn base(&self) -> PathBuf {
        fs::canonicalize(self.root.path()).expect("a real path")
    }

    fn git(&self, words: &[&str]) -> String {
        git_in(&self.top, words)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().expect("below the top")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    fn commit(&self) -> ObjectId {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.head()
    }

    /// Writes the index later than the files, so that their times prove something.
    fn settle(&self) {
        std::thread::sleep(std::time::Duration::from_millis(30));
        self.git(&["update-index", "--force-write-index"]);
    }

    fn head(&self) -> ObjectId {
        ObjectId::from_hex(self.git(&["rev-parse", "HEAD"]).as_bytes()).expect("an id")
    }

    fn repo(&self) -> Repo {
        let env = Env::new(self.top.clone(), [], Terminals::default());
        Repo::discover(&env).expect("a repository")
    }

    fn add(&self, name: &str) -> Added {
        self.try_add(&self.base().join(name), name, self.head())
            .expect("a worktree")
    }

    fn try_add(&self, path: &Path, branch: &str, start: ObjectId) -> crate::error::Result<Added> {
        add(
            &self.repo(),
            &AddOptions {
                path,
                branch,
                start,
                start_name: None,
                name_hint: None,
                no_checkout: false,
                interrupt: &CALM,
            },
        )
    }

    fn add_fast(&self, name: &str) -> (PathBuf, Report) {
        let added = self.add(name);
        match added.way {
            Way::Fast(report) => (added.path, report),
            other => panic!("not fast: {other:?}"),
        }
    }

    /// Adds a worktree with git itself.
    fn add_plain(&self, name: &str) -> PathBuf {
        let path = self.base().join(name);
        self.git(&[
            "worktree",
            "add",
            "-q",
            "--no-track",
            "-b",
            name,
            path.to_str().expect("plain"),
            &self.head().to_string(),
        ]);
        path
    }

    /// Everything outside the user's own files that a failed add could leave behind.
    fn traces(&self) -> Vec<String> {
        let mut all = walk(&self.top.join(".git"))
            .into_iter()
            .map(|(path, _)| path.to_string_lossy().into_owned())
            .filter(|path| !path.starts_with("objects"))
            // Directories for temporary files and the list of moves stay.
            .filter(|path| !["agents", "agents/tmp", "agents/moves"].contains(&path.as_str()))
            .collect::<Vec<_>>();
        all.extend(
            fs::read_dir(self.base())
                .expect("readable")
                .map(|entry| format!("/{:?}", entry.expect("an entry").file_name())),
        );
        all.sort();
        all
    }
}

fn git_in(dir: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(words)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// All files below a directory with mode and content, in order.
fn walk(top: &Path) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    fn inner(top: &Path, dir: &Path, out: &mut Vec<(PathBuf, (u32, Vec<u8>))>) {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("an entry").path();
            let relative = path.strip_prefix(top).expect("below").to_owned();
            let meta = fs::symlink_metadata(&path).expect("metadata");
            if meta.is_dir() {
                out.push((relative, (meta.mode(), Vec::new())));
                inner(top, &path, out);
            } else if meta.is_symlink() {
                let target = fs::read_link(&path).expect("a link").into_os_string();
                out.push((relative, (meta.mode(), target.into_vec())));
            } else {
                out.push((relative, (meta.mode(), fs::read(&path).expect("content"))));
            }
        }
    }
    let mut out = Vec::new();
    inner(top, top, &mut out);
    out.sort();
    out
}

fn files(top: &Path) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    walk(top)
        .into_iter()
        .filter(|(path, _)| path != Path::new(".git"))
        .collect()
}

/// Asserts that a worktree equals one created by git, and that status finds nothing to do.
fn assert_same_as_git(ours: &Path, plain: &Path) {
    let (ours_files, plain_files) = (files(ours), files(plain));
    let names = |all: &[(PathBuf, (u32, Vec<u8>))]| {
        all.iter()
            .map(|(path, (mode, content))| format!("{path:?} {mode:o} {}", content.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ours_files), names(&plain_files));
    assert!(ours_files == plain_files, "content differs");
    assert_eq!(
        git_in(ours, &["ls-files", "-s", "-v", "-f"]),
        git_in(plain, &["ls-files", "-s", "-v", "-f"]),
        "index entries differ"
    );
    let index = PathBuf::from(git_in(ours, &["rev-parse", "--absolute-git-dir"])).join("index");
    let before = fs::read(&index).expect("an index");
    assert_eq!(git_in(ours, &["status", "--porcelain"]), "");
    assert_eq!(git_in(ours, &["diff-index", "HEAD"]), "");
    assert_eq!(git_in(ours, &["diff-files"]), "");
    assert!(
        before == fs::read(&index).expect("an index"),
        "status rewrote the index"
    );
    git_in(ours, &["fsck", "--no-dangling", "--no-progress"]);
    // Stat data must be those of the files, field by field.
    assert_eq!(
        git_in(ours, &["update-index", "--really-refresh"]),
        "",
        "stat data are wrong"
    );
}
