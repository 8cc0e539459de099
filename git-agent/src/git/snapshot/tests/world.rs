//! Real repositories in temporary directories for the tests of snapshots, and a complete listing of a worktree to
//! compare.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::{Env, Terminals};
use crate::git::object::Signature;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::Hidden;
use crate::git::{ObjectId, Repo};

/// A repository with a main worktree.
pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) repo: Repo,
}

/// All paths of a worktree with mode and bytes (the target for links).
pub(crate) type Files = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

impl World {
    pub(crate) fn new() -> Self {
        World::with(&[])
    }

    /// Creates a repository with further arguments for `git init`.
    pub(crate) fn with(init: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = dir.path().join("main");
        fs::create_dir(&top).expect("a directory");
        let mut words = vec!["init", "-q", "-b", "main"];
        words.extend(init);
        run(&top, &words);
        for (key, value) in [
            ("user.name", "Test"),
            ("user.email", "test@example.com"),
            ("gc.auto", "0"),
            ("core.autocrlf", "false"),
            ("commit.gpgsign", "false"),
            ("protocol.file.allow", "always"),
        ] {
            run(&top, &["config", key, value]);
        }
        let repo = open(&top.join(".git"));
        World { dir, repo }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn main(&self) -> Checkout {
        Checkout {
            admin_dir: self.repo.git_dir().to_owned(),
            top: self.repo.work_tree().expect("a working tree").to_owned(),
        }
    }

    /// Reopens the repository after its configuration changed.
    pub(crate) fn reopen(&mut self) {
        self.repo = open(self.repo.git_dir());
    }

    pub(crate) fn git(&self, words: &[&str]) -> String {
        run(&self.main().top, words)
    }

    pub(crate) fn write(&self, path: &str, data: impl AsRef<[u8]>) {
        write(&self.main().top, path, data);
    }

    pub(crate) fn commit_all(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Adds a linked worktree, detached at HEAD.
    pub(crate) fn worktree(&self, name: &str, options: &[&str]) -> Checkout {
        let top = self.path().join(name);
        let mut words = vec!["worktree", "add", "-q", "--detach"];
        words.extend(options);
        words.push(top.to_str().expect("a plain path"));
        self.git(&words);
        Checkout {
            admin_dir: self.repo.common_dir().join("worktrees").join(name),
            top,
        }
    }

    pub(crate) fn snapshot(&self, at: &Checkout) -> Snapshot {
        let mut captured = self.repo.capture(at, Hidden::Look).expect("captured");
        let id = self
            .repo
            .write_snapshot(&mut captured, None, &who(), "snapshot for a test", &[])
            .expect("written");
        let snapshot = self.repo.read_snapshot(id).expect("read");
        assert!(snapshot.is_state(&captured), "reads back as it was written");
        snapshot
    }

    /// Returns a tree as `mode path` lines with contents.
    pub(crate) fn tree(&self, tree: ObjectId) -> BTreeMap<String, (String, String)> {
        let listed = self.git(&["ls-tree", "-r", "-z", &tree.to_string()]);
        listed
            .split('\0')
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (head, path) = line.split_once('\t').expect("a tab");
                let words: Vec<&str> = head.split(' ').collect();
                let content = if words[1] == "blob" {
                    self.git(&["cat-file", "blob", words[2]])
                } else {
                    words[2].to_owned()
                };
                (path.to_owned(), (words[0].to_owned(), content))
            })
            .collect()
    }
}

pub(crate) fn who() -> Signature {
    Signature {
        name: "Test".into(),
        email: "test@example.com".into(),
        seconds: 1_794_000_000,
    }
}

pub(crate) fn open(git_dir: &Path) -> Repo {
    let env = Env::new(PathBuf::from("/"), [], Terminals::default());
    Repo::open(&env, git_dir).expect("a repository")
}

pub(crate) fn write(top: &Path, path: &str, data: impl AsRef<[u8]>) {
    let path = top.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, data).expect("a file");
}

pub(crate) fn link(top: &Path, path: &str, target: &str) {
    symlink(target, top.join(path)).expect("a link");
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Runs git and returns its output; fails the test unless it succeeds.
pub(crate) fn run(top: &Path, words: &[&str]) -> String {
    let output = command(top, words).output().expect("git starts");
    assert!(
        output.status.success(),
        "git {words:?}: {} {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn command(top: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    for name in crate::env::GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    command.current_dir(top).args(words).env("LC_ALL", "C");
    command
}

/// Returns everything below a top except git's own files.
pub(crate) fn files(top: &Path) -> Files {
    let mut found = Files::new();
    collect(top, Path::new(""), &mut found);
    found
}

fn collect(top: &Path, dir: &Path, found: &mut Files) {
    for entry in fs::read_dir(top.join(dir)).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        if name == ".git" {
            continue;
        }
        let path = dir.join(name);
        let meta = fs::symlink_metadata(top.join(&path)).expect("a file");
        let key = path.as_os_str().as_bytes().to_vec();
        if meta.is_dir() {
            collect(top, &path, found);
        } else if meta.is_symlink() {
            let target = fs::read_link(top.join(&path)).expect("a link");
            found.insert(key, (0o120_000, target.as_os_str().as_bytes().to_vec()));
        } else {
            let data = fs::read(top.join(&path)).expect("a file");
            found.insert(key, (meta.mode() & 0o100, data));
        }
    }
}

/// Returns the index including marks and sides of conflicts, as git prints it.
pub(crate) fn staged(top: &Path) -> String {
    let mut text = run(top, &["ls-files", "-z", "--stage"]);
    text.push_str(&run(top, &["ls-files", "-z", "-v"]));
    text.push_str(&run(top, &["ls-files", "-z", "-t"]));
    text.push_str(&run(top, &["diff", "--cached", "--raw", "--abbrev=40"]));
    text
}

/// Returns the bytes of the files that a snapshot must not change.
pub(crate) fn private_files(at: &Checkout) -> Vec<Option<Vec<u8>>> {
    ["index", "HEAD", "ORIG_HEAD", "index.lock", "logs/HEAD"]
        .iter()
        .map(|name| fs::read(at.admin_dir.join(name)).ok())
        .collect()
}
