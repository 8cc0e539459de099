//! Tests of the copied files, the skipped ones, and their content.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use crate::env::{Env, Terminals};
use crate::git::worktree::include::*;

struct World {
    _root: tempfile::TempDir,
    main: PathBuf,
    wt: PathBuf,
}

impl World {
    fn new(ignored: &str) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let base = fs::canonicalize(root.path()).expect("a real path");
        let world = World {
            main: base.join("main"),
            wt: base.join("wt"),
            _root: root,
        };
        fs::create_dir(&world.main).expect("a directory");
        world.git(&["init", "-q"]);
        world.git(&["config", "user.name", "A"]);
        world.git(&["config", "user.email", "a@example.com"]);
        world.write(".gitignore", ignored);
        world.write("src/tracked.env", "tracked\n");
        world.git(&["add", "-A", "-f"]);
        world.git(&["commit", "-q", "-m", "first"]);
        world.git(&["worktree", "add", "-q", "-b", "b", "../wt"]);
        world
    }

    fn git(&self, words: &[&str]) {
        let output = Command::new("git")
            .current_dir(&self.main)
            .args(words)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{words:?} {output:?}");
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.main.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    fn include(&self, patterns: &str, large: Large) -> Included {
        self.write(FILE_NAME, patterns);
        let env = Env::new(self.main.clone(), [], Terminals::default());
        let repo = Repo::discover(&env).expect("a repository");
        let patterns = read_patterns(&self.main).expect("readable").expect("there");
        include(
            &repo,
            &patterns,
            (&self.main, &self.main.join(".git/index")),
            (&self.wt, &self.main.join(".git/worktrees/wt/index")),
            large,
        )
        .expect("included")
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.wt.join(path)).ok()
    }
}

fn reasons(included: &Included) -> Vec<(String, Reason)> {
    included
        .left_out
        .iter()
        .map(|left| (left.path.to_string(), left.reason.clone()))
        .collect()
}

/// Lists files that are not from the first commit.
fn list(top: &Path, directory: &Path, out: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path
            .strip_prefix(top)
            .expect("below")
            .to_string_lossy()
            .into_owned();
        if fs::symlink_metadata(&path).expect("metadata").is_dir() {
            list(top, &path, out);
        } else if ![".git", ".gitignore", "src/tracked.env"].contains(&name.as_str()) {
            out.push(name);
        }
    }
}

#[test]
fn named_untracked_files_are_copied_as_they_are() {
    let world = World::new("*.env\nnode_modules/\n");
    world.write(".env", "secret\n");
    world.write("src/deep/er/.env", "deep\n");
    world.write("ignored/dir/.env", "in an untracked directory\n");
    world.write("other.env", "not named\n");
    world.write("keep.local", "negated\n");
    world.write("any.local", "plain untracked\n");
    world.write("node_modules/pkg/index.js", "js\n");
    world.write("node_modules/.bin/tool", "#!/bin/sh\n");
    fs::set_permissions(world.main.join(".env"), fs::Permissions::from_mode(0o640))
        .expect("a mode");
    fs::set_permissions(
        world.main.join("node_modules/.bin/tool"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("a mode");
    fs::set_permissions(
        world.main.join("node_modules/pkg"),
        fs::Permissions::from_mode(0o700),
    )
    .expect("a mode");
    symlink("../pkg/index.js", world.main.join("node_modules/.bin/link")).expect("a link");
    symlink("/etc/passwd", world.main.join("node_modules/outside")).expect("a link");
    let included = world.include(
        "# comment\n.env\n/node_modules/\n*.local\n!keep.local\nsrc/tracked.env\n",
        Large::OnlyShared,
    );
    let mut made = Vec::new();
    list(&world.wt, &world.wt, &mut made);
    assert_eq!(
        made,
        [
            ".env",
            "any.local",
            "ignored/dir/.env",
            "node_modules/.bin/link",
            "node_modules/.bin/tool",
            "node_modules/outside",
            "node_modules/pkg/index.js",
            "src/deep/er/.env",
        ]
    );
    assert_eq!(included.files, 8);
    assert_eq!(reasons(&included), []);
    assert_eq!(world.read(".env").as_deref(), Some("secret\n"));
    assert_eq!(world.read("src/deep/er/.env").as_deref(), Some("deep\n"));
    assert!(world.read("ignored/dir/.env").is_some());
    assert!(world.read("any.local").is_some());
    assert_eq!(
        (world.read("other.env"), world.read("keep.local")),
        (None, None)
    );
    let link = fs::read_link(world.wt.join("node_modules/outside")).expect("a link");
    assert_eq!(link, Path::new("/etc/passwd"));
    for path in [
        ".env",
        "node_modules/.bin/tool",
        "node_modules/pkg",
        "node_modules/pkg/index.js",
    ] {
        let (old, new) = (
            fs::metadata(world.main.join(path)).expect("old"),
            fs::metadata(world.wt.join(path)).expect("new"),
        );
        assert_eq!(old.mode(), new.mode(), "{path}");
        if old.is_file() {
            assert_eq!(
                (old.mtime(), old.mtime_nsec()),
                (new.mtime(), new.mtime_nsec()),
                "{path}"
            );
            assert_ne!(old.ino(), new.ino(), "{path}");
        }
    }
    // The second time copies nothing and overwrites nothing.
    fs::write(world.wt.join(".env"), "edited\n").expect("a file");
    let again = world.include(".env\n", Large::OnlyShared);
    assert_eq!(again.files, 0);
    assert!(reasons(&again).contains(&(".env".into(), Reason::Exists)));
    assert_eq!(world.read(".env").as_deref(), Some("edited\n"));
}

#[test]
fn nothing_foreign_is_copied_or_written_through() {
    let world = World::new("");
    world.write("vendor/own/.git/config", "");
    world.write("vendor/own/file", "another repository\n");
    world.write("vendor/plain", "plain\n");
    world.write("conf/app.env", "secret\n");
    fs::write(world.wt.join("added.env"), "new here\n").expect("a file");
    world.write("added.env", "old\n");
    let made = Command::new("mkfifo")
        .arg(world.main.join("vendor/fifo"))
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    // The new worktree has a symlink in the place of the directory.
    let outside = world.wt.parent().expect("a parent").join("outside");
    fs::create_dir(&outside).expect("a directory");
    symlink(&outside, world.wt.join("conf")).expect("a link");
    // Tracked there, but not here.
    fs::write(world.wt.join("later"), "x").expect("a file");
    let status = Command::new("git")
        .current_dir(&world.wt)
        .args(["add", "later"])
        .status()
        .expect("git runs");
    assert!(status.success());
    fs::remove_file(world.wt.join("later")).expect("removed");
    world.write("later", "untracked here\n");
    let included = world.include("vendor\nconf/\n*.env\nlater\n.git\n", Large::OnlyShared);
    assert_eq!(
        reasons(&included),
        [
            ("added.env".into(), Reason::Exists),
            ("conf/app.env".into(), Reason::Exists),
            ("later".into(), Reason::Tracked),
            ("vendor/own".into(), Reason::Repository),
            ("vendor/fifo".into(), Reason::Special),
        ]
    );
    assert_eq!(included.files, 1);
    assert_eq!(world.read("vendor/plain").as_deref(), Some("plain\n"));
    assert_eq!(fs::read_dir(&outside).expect("readable").count(), 0);
    assert_eq!(world.read("added.env").as_deref(), Some("new here\n"));
}

#[test]
fn large_trees_are_shared_or_left_out_unless_wanted() {
    let world = World::new("big/\n");
    for number in 0..=LARGE_FILES {
        world.write(&format!("big/{}/{number}", number % 9), "x");
    }
    let included = world.include("big/\n", Large::OnlyShared);
    if included.shared == 0 {
        let reason = Reason::Large {
            files: LARGE_FILES + 1,
            bytes: LARGE_FILES as u64 + 1,
        };
        assert_eq!(reasons(&included), [("big".into(), reason)]);
        assert!(!world.wt.join("big").exists());
        let included = world.include("big/\n", Large::Always);
        assert_eq!(included.files, LARGE_FILES + 1);
    }
    assert_eq!(world.read("big/0/0").as_deref(), Some("x"));
}
