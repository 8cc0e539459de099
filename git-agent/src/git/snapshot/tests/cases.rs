//! Snapshots and restores, case by case, on real repositories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::git::ObjectId;
use crate::git::snapshot::scan::{Hidden, Reason};
use crate::git::snapshot::tests::world::{
    World, files, link, private_files, run, set_mode, staged, write,
};

/// A committed tree with some of everything.
pub(crate) fn seeded(world: &World) {
    world.write("a.txt", "one\n");
    world.write("b.txt", "two\n");
    world.write("dir/c.txt", "three\n");
    world.write("dir/sub/d.txt", "four\n");
    world.write("run.sh", "#!/bin/sh\n");
    set_mode(&world.main().top.join("run.sh"), 0o755);
    link(&world.main().top, "link", "a.txt");
    world.write(".gitignore", "*.log\n/target/\n");
    world.commit_all("seed");
}

/// All kinds of changes at once.
pub(crate) fn edit(world: &World) {
    let top = world.main().top;
    world.write("a.txt", "one changed\n");
    fs::remove_file(top.join("b.txt")).expect("removed");
    fs::rename(top.join("dir/c.txt"), top.join("dir/renamed.txt")).expect("renamed");
    set_mode(&top.join("dir/sub/d.txt"), 0o755);
    set_mode(&top.join("run.sh"), 0o644);
    fs::remove_file(top.join("link")).expect("removed");
    link(&top, "link", "nowhere/at all");
    world.write("new/untracked.txt", "new\n");
    world.write("ignored.log", "ignored\n");
    world.write("target/out", "ignored\n");
    world.write("staged.txt", "staged\n");
    world.git(&["add", "staged.txt"]);
    world.write("staged.txt", "staged, then changed\n");
    world.write("announced.txt", "announced\n");
    world.git(&["add", "-N", "announced.txt"]);
}

/// Takes a snapshot, compares it, and restores it into a fresh worktree and over a damaged one.
pub(crate) fn round_trip(world: &World) {
    let at = world.main();
    let before = private_files(&at);
    let (original, index) = (files(&at.top), staged(&at.top));
    let snapshot = world.snapshot(&at);
    assert_eq!(private_files(&at), before, "index and HEAD are untouched");
    assert_eq!(files(&at.top), original, "files are untouched");
    let again = world.repo.capture(&at, Hidden::Look).expect("captured");
    assert!(snapshot.is_state(&again), "the same state has the same ids");

    let fresh = world.worktree("fresh", &[]);
    world
        .repo
        .restore(&fresh, &snapshot, None)
        .expect("restored");
    let visible = |mut all: crate::git::snapshot::tests::world::Files| {
        all.retain(|path, _| !path.ends_with(b".log") && !path.starts_with(b"target/"));
        all
    };
    assert_eq!(files(&fresh.top), visible(original.clone()));
    assert_eq!(staged(&fresh.top), index);

    if at.top.join("a.txt").is_file() {
        fs::write(at.top.join("a.txt"), "ruined").expect("a file");
    } else {
        let _ = fs::remove_dir_all(at.top.join("a.txt"));
    }
    let _ = fs::remove_file(at.top.join("staged.txt"));
    fs::write(at.top.join("junk"), "junk").expect("a file");
    run(
        &at.top,
        &["rm", "-q", "--cached", "--ignore-unmatch", "run.sh"],
    );
    let safety = world.snapshot(&at);
    assert!(
        world.repo.restore(&at, &snapshot, None).is_err(),
        "needs a safety snapshot"
    );
    world
        .repo
        .restore(&at, &snapshot, Some(&safety))
        .expect("restored");
    assert_eq!(files(&at.top), original, "ignored files included");
    assert_eq!(staged(&at.top), index);
    world.git(&["fsck", "--strict", "--no-dangling"]);
    world.git(&["worktree", "remove", "--force", "../fresh"]);
}

#[test]
fn everything_at_once() {
    let world = World::new();
    seeded(&world);
    edit(&world);
    let snapshot = world.snapshot(&world.main());
    let tree = world.tree(snapshot.tree);
    let names: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            ".gitignore",
            "a.txt",
            "announced.txt",
            "dir/renamed.txt",
            "dir/sub/d.txt",
            "link",
            "new/untracked.txt",
            "run.sh",
            "staged.txt"
        ]
    );
    assert_eq!(tree["a.txt"].1, "one changed\n");
    assert_eq!(tree["dir/sub/d.txt"].0, "100755");
    assert_eq!(tree["run.sh"].0, "100644");
    assert_eq!(tree["link"], ("120000".into(), "nowhere/at all".into()));
    assert_eq!(tree["staged.txt"].1, "staged, then changed\n");
    let index = world.tree(snapshot.index_tree);
    assert_eq!(index["staged.txt"].1, "staged\n");
    assert!(!index.contains_key("announced.txt"));
    round_trip(&world);
}

#[test]
fn the_same_tree_as_git_add() {
    let world = World::new();
    seeded(&world);
    edit(&world);
    let tree = world.repo.snapshot_tree(&world.main()).expect("a tree");
    world.git(&["add", "-A"]);
    assert_eq!(world.git(&["write-tree"]).trim(), tree.to_string());
    round_trip(&world);
}

#[test]
fn a_file_changed_within_one_tick_of_the_clock_is_seen() {
    for (attributes, marked) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new();
        let at = world.main();
        if attributes {
            world.write(".gitattributes", "*.txt text eol=crlf\n");
        }
        let (path, index) = (at.top.join("a"), at.admin_dir.join("index"));
        let then = SystemTime::now() - Duration::from_secs(3600);
        let age = |path: &Path| {
            let file = fs::File::options().write(true).open(path);
            file.and_then(|file| file.set_modified(then)).expect("set");
        };
        world.write("a", "before");
        age(&path);
        world.commit_all("seed");
        // A program cannot set this time.
        world.git(&["config", "core.trustctime", "false"]);
        world.reopen();
        if marked {
            world.git(&["update-index", "--assume-unchanged", "a"]);
        }
        fs::write(&path, "behind").expect("written");
        age(&path);
        age(&index);
        // A file to convert: then git stores all changed files.
        world.write("new.txt", "line\r\n");
        let snapshot = world.snapshot(&at);
        assert_eq!(world.tree(snapshot.tree)["a"].1, "behind");
    }
}

#[test]
fn other_hashes_and_ref_formats() {
    for init in [
        &["--object-format=sha256"][..],
        &["--ref-format=reftable"],
        &["--ref-format=reftable", "--object-format=sha256"],
    ] {
        let world = World::with(init);
        seeded(&world);
        edit(&world);
        round_trip(&world);
    }
}

#[test]
fn before_the_first_commit() {
    for init in [&[][..], &["--ref-format=reftable"]] {
        let world = World::with(init);
        let at = world.main();
        let empty = world.snapshot(&at);
        assert_eq!(empty.tree, ObjectId::empty_tree(world.repo.hash_kind()));
        world.write("a", "a");
        let untracked = world.snapshot(&at);
        assert_eq!(untracked.head, None);
        assert!(!at.admin_dir.join("index").exists());
        world.git(&["add", "a"]);
        world.write("a", "b");
        let snapshot = world.snapshot(&at);
        assert_eq!(world.tree(snapshot.index_tree)["a"].1, "a");
        let (original, index) = (files(&at.top), run(&at.top, &["ls-files", "--stage"]));
        fs::remove_file(at.top.join("a")).expect("removed");
        fs::remove_file(at.admin_dir.join("index")).expect("removed");
        world.repo.restore(&at, &snapshot, None).expect("restored");
        assert_eq!(files(&at.top), original);
        assert_eq!(run(&at.top, &["ls-files", "--stage"]), index);
    }
}

#[test]
fn a_linked_worktree_without_index_or_dot_git() {
    let world = World::new();
    seeded(&world);
    let at = world.worktree("linked", &[]);
    write(&at.top, "new", "new");
    let snapshot = world.snapshot(&at);
    fs::remove_dir_all(&at.top).expect("removed");
    fs::create_dir(&at.top).expect("a directory");
    fs::remove_file(at.admin_dir.join("index")).expect("removed");
    world.repo.restore(&at, &snapshot, None).expect("restored");
    assert!(
        !at.top.join(".git").exists(),
        "a snapshot does not create it"
    );
    assert_eq!(fs::read(at.top.join("new")).expect("a file"), b"new");
    assert_eq!(world.snapshot(&at).tree, snapshot.tree);
}

#[test]
fn a_conflict_in_progress() {
    let world = World::new();
    world.write("f", "base\n");
    world.write("gone", "base\n");
    world.commit_all("base");
    world.git(&["switch", "-q", "-c", "side"]);
    world.write("f", "side\n");
    world.write("gone", "side\n");
    world.commit_all("side");
    world.git(&["switch", "-q", "main"]);
    world.write("f", "main\n");
    fs::remove_file(world.main().top.join("gone")).expect("removed");
    world.commit_all("main");
    let merged = crate::git::snapshot::tests::world::command(&world.main().top, &["merge", "side"])
        .output()
        .expect("git starts");
    assert!(!merged.status.success(), "a conflict");
    let at = world.main();
    let (original, index) = (files(&at.top), run(&at.top, &["ls-files", "-s"]));
    assert!(index.contains(" 2\tf"), "{index}");
    let snapshot = world.snapshot(&at);
    assert!(world.tree(snapshot.tree)["f"].1.contains("<<<<<<<"));
    world.git(&["reset", "-q", "--hard"]);
    // Only the snapshot keeps the objects: the restore must find every side.
    world.git(&["update-ref", "refs/kept", &snapshot.id.to_string()]);
    world.git(&["branch", "-q", "-D", "side"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.repo.restore(&at, &snapshot, None).expect("restored");
    assert_eq!(files(&at.top), original);
    assert_eq!(run(&at.top, &["ls-files", "-s"]), index);
}

#[test]
fn directories_and_files_change_places() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    fs::remove_dir_all(at.top.join("dir")).expect("removed");
    world.write("dir", "a file now");
    fs::remove_file(at.top.join("a.txt")).expect("removed");
    world.write("a.txt/deep/file", "a directory now");
    round_trip(&world);
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["clean", "-qfd"]);
    // A directory becomes a link to a directory with the same files, which then are not in the tree.
    fs::rename(at.top.join("dir"), at.top.join("real")).expect("renamed");
    symlink("real", at.top.join("dir")).expect("a link");
    let snapshot = world.snapshot(&at);
    assert_eq!(world.tree(snapshot.tree)["dir"].0, "120000");
    round_trip(&world);
}

#[test]
fn repositories_inside_are_left_out_and_told() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    let inner = at.top.join("inner");
    fs::create_dir(&inner).expect("a directory");
    run(&inner, &["init", "-q"]);
    write(&inner, "file", "inner");
    world.git(&["worktree", "add", "-q", "--detach", "nested/tree"]);
    world.write("nested/beside", "x");
    let captured = world.repo.capture(&at, Hidden::Look).expect("captured");
    let told: Vec<(&[u8], Reason)> = captured
        .left_out
        .iter()
        .map(|left| (left.path.as_slice(), left.reason))
        .collect();
    let repository = Reason::Repository;
    assert_eq!(
        told,
        [(&b"inner"[..], repository), (b"nested/tree", repository)]
    );
    let tree = world.tree(world.snapshot(&at).tree);
    assert!(tree.contains_key("nested/beside"));
    assert!(
        !tree
            .keys()
            .any(|path| path.starts_with("inner") || path.starts_with("nested/tree"))
    );
}

#[test]
fn submodules_are_recorded_at_their_commit() {
    let library = World::new();
    library.write("lib", "1");
    library.commit_all("one");
    let world = World::new();
    seeded(&world);
    let url = library.main().top;
    world.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        url.to_str().expect("plain"),
        "sub",
    ]);
    world.commit_all("with a submodule");
    let at = world.main();
    let sub = at.top.join("sub");
    run(
        &sub,
        &[
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@e",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "two",
        ],
    );
    // The configuration of a submodule is not trusted.
    let marker = world.path().join("ran");
    let evil = format!("touch {} #", marker.display());
    run(&sub, &["config", "core.fsmonitor", &evil]);
    run(&sub, &["config", "filter.evil.clean", &evil]);
    write(&sub, ".gitattributes", "* filter=evil\n");
    let head = run(&sub, &["rev-parse", "HEAD"]);
    fs::remove_file(&marker).ok();
    let captured = world.repo.capture(&at, Hidden::Look).expect("captured");
    assert_eq!(captured.left_out[0].reason, Reason::Submodule);
    let snapshot = world.snapshot(&at);
    assert_eq!(
        world.tree(snapshot.tree)["sub"],
        ("160000".into(), head.trim().into())
    );
    let fresh = world.worktree("fresh", &[]);
    let restored = world
        .repo
        .restore(&fresh, &snapshot, None)
        .expect("restored");
    assert_eq!(restored.submodules, [b"sub".to_vec()]);
    assert!(!marker.exists(), "no program of the submodule ran");
}
