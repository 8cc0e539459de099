//! The files and the index of a new worktree.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::git::worktree::tests::*;

#[test]
fn a_plain_tree_is_copied() {
    let sandbox = Sandbox::new();
    for number in 0..200 {
        sandbox.write(
            &format!("dir{}/file{number}", number % 7),
            &"x".repeat(number),
        );
    }
    sandbox.write("large", &"large\n".repeat(100_000));
    sandbox.commit();
    sandbox.settle();
    let (ours, report) = sandbox.add_fast("ours");
    assert_eq!((report.files, report.copied), (201, 201));
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn nothing_uncommitted_leaks() {
    let sandbox = Sandbox::new();
    for name in [
        "kept",
        "edited",
        "gone",
        "staged",
        "linked",
        "fifo",
        "same-size",
        "touched",
        "dir/a",
    ] {
        sandbox.write(name, &format!("{name}\n"));
    }
    sandbox.write("large-edited", &"large\n".repeat(100_000));
    sandbox.commit();
    sandbox.settle();
    sandbox.write("edited", "EDITED but not committed\n");
    sandbox.write("large-edited", &"LARGE\n".repeat(100_000));
    sandbox.write("same-size", "SAME-SIZE\n");
    sandbox.write("staged", "STAGED\n");
    sandbox.git(&["add", "staged"]);
    fs::remove_file(sandbox.top.join("gone")).expect("removed");
    fs::remove_file(sandbox.top.join("linked")).expect("removed");
    symlink("/etc/passwd", sandbox.top.join("linked")).expect("a link");
    fs::remove_file(sandbox.top.join("fifo")).expect("removed");
    let made = Command::new("mkfifo")
        .arg(sandbox.top.join("fifo"))
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    // The directory now leads to files that look alike.
    fs::rename(sandbox.top.join("dir"), sandbox.base().join("elsewhere")).expect("moved");
    fs::write(sandbox.base().join("elsewhere/a"), "DIR/A\n").expect("a file");
    symlink(sandbox.base().join("elsewhere"), sandbox.top.join("dir")).expect("a link");
    sandbox.write("untracked", "untracked\n");
    let (ours, report) = sandbox.add_fast("ours");
    assert_eq!(report.copied, 2, "only 'kept' and 'touched' are unmodified");
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn files_as_young_as_the_index_are_not_copied() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "aaa\n");
    sandbox.commit();
    let index = sandbox.top.join(".git/index");
    let file = fs::metadata(sandbox.top.join("a")).expect("metadata");
    // An index of the very same time: a change right after it would look the same.
    fs::File::options()
        .write(true)
        .open(&index)
        .and_then(|index| index.set_modified(file.modified().expect("a time")))
        .expect("the time is set");
    let (ours, report) = sandbox.add_fast("ours");
    assert_eq!((report.files, report.copied), (1, 0));
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn content_once_converted_is_not_copied() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "one\ntwo\n");
    sandbox.write("b", "no line end");
    sandbox.commit();
    sandbox.git(&["config", "core.autocrlf", "true"]);
    fs::remove_file(sandbox.top.join("a")).expect("removed");
    sandbox.git(&["checkout", "a"]);
    sandbox.git(&["config", "--unset", "core.autocrlf"]);
    sandbox.settle();
    assert_eq!(
        fs::read(sandbox.top.join("a")).expect("a file"),
        b"one\r\ntwo\r\n"
    );
    let (ours, report) = sandbox.add_fast("ours");
    assert_eq!(report.copied, 1);
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn a_sibling_that_converts_gives_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "hello\n");
    let first = sandbox.commit();
    // The same size, other bytes, and unmodified for git.
    sandbox.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    sandbox.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    sandbox.write(".gitattributes", "a filter=rot\n");
    sandbox.commit();
    fs::remove_file(sandbox.top.join("a")).expect("removed");
    sandbox.git(&["checkout", first.to_string().as_str(), "--", "a"]);
    sandbox.settle();
    assert_eq!(fs::read(sandbox.top.join("a")).expect("a file"), b"uryyb\n");
    let path = sandbox.base().join("ours");
    let added = sandbox.try_add(&path, "ours", first).expect("a worktree");
    let expected = Report {
        files: 1,
        copied: 0,
    };
    assert_eq!(added.way, Way::Fast(expected));
    assert_eq!(fs::read(path.join("a")).expect("a file"), b"hello\n");
}

#[test]
fn another_commit_takes_what_is_equal() {
    let sandbox = Sandbox::new();
    for number in 0..50 {
        sandbox.write(&format!("d/{number}"), &format!("{number}\n"));
    }
    let first = sandbox.commit();
    sandbox.write("d/7", "seven\n");
    sandbox.write("new", "new\n");
    fs::remove_file(sandbox.top.join("d/8")).expect("removed");
    sandbox.commit();
    sandbox.settle();
    let path = sandbox.base().join("ours");
    let added = sandbox.try_add(&path, "ours", first).expect("a worktree");
    let Way::Fast(report) = added.way else {
        panic!("not fast: {:?}", added.way)
    };
    assert_eq!((report.files, report.copied), (50, 48));
    sandbox.git(&["checkout", "-q", "--detach", &first.to_string()]);
    assert_same_as_git(&added.path, &sandbox.add_plain("plain"));
}

/// A small seeded generator, the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

#[test]
fn sixty_random_trees_equal_gits() {
    const NAMES: [&[u8]; 14] = [
        b"a",
        b"b.txt",
        b"a-b",
        b"a.b",
        b"sp ace",
        b"q\"uote'",
        b"new\nline",
        "ünï".as_bytes(),
        "u\u{308}".as_bytes(),
        b"\xff\xfe",
        b"-dash",
        b".hidden",
        b"back\\slash",
        b"Case",
    ];
    for seed in 0..60 {
        let sandbox = if seed % 10 == 9 {
            Sandbox::with(&["--object-format=sha256"], OsStr::new("repo"))
        } else {
            Sandbox::new()
        };
        let mut dice = Dice(seed);
        for _ in 0..dice.roll(40) {
            let mut path = sandbox.top.clone();
            for _ in 0..dice.roll(4) {
                path.push(OsStr::from_bytes(NAMES[dice.roll(NAMES.len())]));
            }
            if fs::create_dir_all(&path).is_err() {
                continue;
            }
            path.push(OsStr::from_bytes(NAMES[dice.roll(NAMES.len())]));
            if fs::symlink_metadata(&path).is_ok() {
                continue;
            }
            match dice.roll(8) {
                0 => symlink("../somewhere/else", &path).expect("a link"),
                1 => symlink("a", &path).expect("a link"),
                2 => fs::write(&path, b"").expect("a file"),
                3 => fs::write(&path, b"dos\r\nlines\r\n").expect("a file"),
                4 => fs::write(&path, vec![0xabu8; dice.roll(600_000)]).expect("a file"),
                5 => {
                    fs::write(&path, b"#!/bin/sh\n").expect("a file");
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
                }
                _ => fs::write(&path, format!("{seed} {}\n", dice.roll(99))).expect("a file"),
            }
        }
        sandbox.commit();
        if seed % 3 == 1 {
            sandbox.git(&["gc", "-q"]);
        }
        if seed % 2 == 0 {
            sandbox.settle();
        }
        if seed % 5 == 4 {
            // The main worktree is useless as a source.
            fs::remove_file(sandbox.top.join(".git/index")).expect("removed");
        }
        let (ours, _) = sandbox.add_fast("ours");
        assert_same_as_git(&ours, &sandbox.add_plain("plain"));
    }
}

#[test]
fn what_converts_content_is_left_to_git() {
    type Setup = fn(&Sandbox);
    let cases: [(&str, Setup); 11] = [
        ("core.autocrlf", |s| {
            drop(s.git(&["config", "core.autocrlf", "true"]))
        }),
        ("core.eol", |s| drop(s.git(&["config", "core.eol", "crlf"]))),
        ("core.symlinks", |s| {
            drop(s.git(&["config", "core.symlinks", "false"]))
        }),
        ("core.ignorecase", |s| {
            drop(s.git(&["config", "core.ignorecase", "true"]))
        }),
        ("the eol attribute", |s| {
            s.write("sub/.gitattributes", "* text eol=crlf\n")
        }),
        ("the ident attribute", |s| {
            s.write(".gitattributes", "*.c ident\n")
        }),
        ("the working-tree-encoding attribute", |s| {
            s.write(
                ".gitattributes",
                "*.wide text working-tree-encoding=UTF-16LE\n",
            );
        }),
        ("content filters", |s| {
            s.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
            s.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
            s.write(".gitattributes", "sub/* filter=rot\n");
        }),
        ("the eol attribute", |s| {
            fs::create_dir_all(s.top.join(".git/info")).expect("a directory");
            fs::write(s.top.join(".git/info/attributes"), "*.txt eol=crlf\n").expect("a file");
        }),
        ("sparse checkout", |s| {
            drop(s.git(&["config", "core.sparseCheckout", "true"]))
        }),
        ("a reference-transaction hook", |s| {
            let hook = s.top.join(".git/hooks/reference-transaction");
            fs::create_dir_all(hook.parent().expect("a parent")).expect("a directory");
            fs::write(&hook, "#!/bin/sh\ncat >>../transactions\n").expect("a hook");
            fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
        }),
    ];
    for (reason, setup) in cases {
        let sandbox = Sandbox::new();
        setup(&sandbox);
        sandbox.write("sub/a.txt", "one\ntwo\n");
        sandbox.write("x.c", "/* $Id$ */\n");
        sandbox.write("y.wide", "w\0i\0d\0e\0\n\0");
        symlink("a", sandbox.top.join("link")).expect("a link");
        sandbox.commit();
        let added = sandbox.add("ours");
        assert_eq!(added.way, Way::Git(reason));
        let plain = sandbox.add_plain("plain");
        assert_eq!(files(&added.path), files(&plain), "{reason}");
        assert_eq!(
            git_in(&added.path, &["status", "--porcelain"]),
            "",
            "{reason}"
        );
        assert_eq!(
            git_in(&added.path, &["ls-files", "-s"]),
            git_in(&plain, &["ls-files", "-s"])
        );
    }
}

#[test]
fn submodules_are_left_to_git() {
    let inner = Sandbox::new();
    inner.write("i", "inner\n");
    inner.commit();
    let sandbox = Sandbox::new();
    sandbox.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        inner.top.to_str().expect("plain"),
        "sub",
    ]);
    sandbox.write("a", "a\n");
    sandbox.commit();
    let added = sandbox.add("ours");
    assert_eq!(added.way, Way::Git("submodules"));
    assert_eq!(files(&added.path), files(&sandbox.add_plain("plain")));
    assert_eq!(git_in(&added.path, &["status", "--porcelain"]), "");
}

#[test]
fn other_kinds_of_repository_work() {
    // Reftable, SHA-256 and both.
    for init in [
        &["--ref-format=reftable"][..],
        &["--object-format=sha256"][..],
        &["--ref-format=reftable", "--object-format=sha256"][..],
    ] {
        let sandbox = Sandbox::with(init, OsStr::new("repo"));
        sandbox.write("a/b", "content\n");
        sandbox.commit();
        let added = sandbox.add("ours");
        assert_eq!(
            added.way == Way::Git("reftable"),
            init[0].contains("reftable")
        );
        assert_same_as_git(&added.path, &sandbox.add_plain("plain"));
        let listed = list(&sandbox.repo()).expect("a list");
        assert_eq!(listed.len(), 3);
        assert_eq!(listed[1].head, Some(sandbox.head()));
        assert_eq!(listed[1].branch.as_deref(), Some("refs/heads/ours"));
    }
    // A shallow clone that borrows objects, and a bare one.
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    sandbox.commit();
    sandbox.write("a", "b\n");
    let head = sandbox.commit();
    let url = format!("file://{}", sandbox.top.display());
    for words in [
        &["--depth=1"][..],
        &["--shared"][..],
        &["--bare"][..],
        &["--filter=blob:none"][..],
    ] {
        let name = words[0].trim_start_matches('-').replace([':', '='], "");
        sandbox.git(&["config", "uploadpack.allowFilter", "true"]);
        let source = if words[0] == "--shared" {
            sandbox.top.to_str().expect("plain")
        } else {
            &url
        };
        let target = format!("../{name}");
        let mut all = vec!["clone", "-q"];
        all.extend(words);
        all.extend([source, target.as_str()]);
        sandbox.git(&all);
        let clone = Sandbox {
            top: sandbox.base().join(&name),
            root: tempfile::tempdir().expect("a temporary directory"),
        };
        clone.git(&["config", "user.name", "A"]);
        clone.git(&["config", "user.email", "a@example.com"]);
        let path = clone.base().join("ours");
        let added = clone.try_add(&path, "ours", head).expect("a worktree");
        assert_eq!(
            added.way == Way::Git("partial clone"),
            words[0].contains("filter")
        );
        assert_same_as_git(&path, &clone.add_plain("plain"));
        git_in(&path, &["commit", "-q", "--allow-empty", "-m", "works"]);
    }
}

#[test]
fn a_tree_with_forbidden_names_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "#!/bin/sh\n");
    sandbox.commit();
    let blob = sandbox.git(&["rev-parse", "HEAD:a"]);
    let id: Vec<u8> = (0..blob.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&blob[at..at + 2], 16).expect("hex"))
        .collect();
    for (mode, name) in [
        ("100644", &b".git"[..]),
        ("100644", b"."),
        ("120000", b".gitmodules"),
        ("100644", b".GIT"),
    ] {
        let tree = [mode.as_bytes(), b" ", name, b"\0", &id[..]].concat();
        fs::write(sandbox.base().join("tree"), tree).expect("a file");
        let tree = sandbox.git(&["hash-object", "-t", "tree", "-w", "--literally", "../tree"]);
        fs::remove_file(sandbox.base().join("tree")).expect("removed");
        let commit = sandbox.git(&["commit-tree", "-m", "evil", &tree]);
        let before = sandbox.traces();
        let start = ObjectId::from_hex(commit.as_bytes()).expect("an id");
        sandbox
            .try_add(&sandbox.base().join("ours"), "x/ours", start)
            .expect_err("refused");
        assert_eq!(sandbox.traces(), before);
    }
}

#[test]
fn a_symlink_in_place_of_a_directory_is_never_followed() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "payload\n");
    sandbox.commit();
    let blob = sandbox.git(&["rev-parse", "HEAD:a"]);
    let raw = |hex: &str| -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect()
    };
    let outside = sandbox.base().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(
        sandbox.base().join("target"),
        outside.as_os_str().as_bytes(),
    )
    .expect("a file");
    let link = sandbox.git(&["hash-object", "-w", "../target"]);
    fs::remove_file(sandbox.base().join("target")).expect("removed");
    let inner = sandbox.git(&["rev-parse", "HEAD^{tree}"]);
    let tree = [
        b"120000 d\0",
        &raw(&link)[..],
        b"100644 d-\0",
        &raw(&blob)[..],
        b"40000 d\0",
        &raw(&inner)[..],
    ]
    .concat();
    fs::write(sandbox.base().join("tree"), tree).expect("a file");
    let tree = sandbox.git(&["hash-object", "-t", "tree", "-w", "--literally", "../tree"]);
    fs::remove_file(sandbox.base().join("tree")).expect("removed");
    let commit = sandbox.git(&["commit-tree", "-m", "evil", &tree]);
    let start = ObjectId::from_hex(commit.as_bytes()).expect("an id");
    // git may accept such a tree or not, but nothing may appear outside.
    let _ = sandbox.try_add(&sandbox.base().join("ours"), "ours", start);
    assert_eq!(fs::read_dir(&outside).expect("readable").count(), 0);
}
