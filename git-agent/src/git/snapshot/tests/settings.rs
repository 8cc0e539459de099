//! Snapshots under settings that change files: line ends, filters, modes, case, sparse checkouts, odd indexes.

use std::fs;

use crate::git::snapshot::tests::cases::{edit, round_trip, seeded};
use crate::git::snapshot::tests::world::{World, files, set_mode};

#[test]
fn line_ends_and_filters() {
    let mut world = World::new();
    world.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    world.git(&["config", "filter.upper.smudge", "tr A-Z a-z"]);
    world.reopen();
    world.write(
        ".gitattributes",
        "*.txt text eol=crlf\n*.up filter=upper\n*.id ident\n*.auto text=auto\n",
    );
    world.write("a.txt", "one\r\ntwo\r\n");
    world.commit_all("seed");
    world.write("a.txt", "one\r\ntwo\nmixed\r\n");
    world.write("b.txt", "unix\nonly\n");
    world.write("c.up", "lower\n");
    world.write("d.id", "$Id$\n");
    world.write("e.auto", "dos\r\n");
    world.write("f.txt", "staged\n");
    world.git(&["add", "f.txt"]);
    let snapshot = world.snapshot(&world.main());
    let tree = world.tree(snapshot.tree);
    assert_eq!(tree["a.txt"].1, "one\ntwo\nmixed\n");
    assert_eq!(tree["c.up"].1, "LOWER\n");
    assert_eq!(tree["e.auto"].1, "dos\n");
    let at = world.main();
    round_trip(&world);
    world.git(&["add", "-A"]);
    assert_eq!(world.git(&["write-tree"]).trim(), snapshot.tree.to_string());
    round_trip(&world);
    assert_eq!(
        fs::read(at.top.join("b.txt")).expect("a file"),
        b"unix\nonly\n"
    );
}

#[test]
fn contents_that_are_stored_differently_each_time() {
    let world = World::new();
    world.write(".gitattributes", "*.txt text\n");
    world.write("a.txt", "\r\r\n");
    world.write("b.txt", "\r\r\n");
    world.commit_all("seed");
    let top = world.main().top;
    fs::rename(top.join("b.txt"), top.join("c.txt")).expect("renamed");
    world.write("d.txt", "\r\r\r\n");
    let (original, snapshot) = (files(&top), world.snapshot(&world.main()));
    let fresh = world.worktree("fresh", &[]);
    world
        .repo
        .restore(&fresh, &snapshot, None)
        .expect("restored");
    let restored = files(&fresh.top);
    for name in ["c.txt", "d.txt"] {
        assert_eq!(restored[name.as_bytes()], original[name.as_bytes()]);
    }
}

#[test]
fn autocrlf_and_safecrlf() {
    let mut world = World::new();
    world.write("old", "a\r\nb\r\n");
    world.commit_all("seed");
    world.git(&["config", "core.autocrlf", "true"]);
    world.git(&["config", "core.safecrlf", "true"]);
    world.reopen();
    world.write("old", "a\r\nb\r\nc\r\n");
    world.write("new", "x\ny\n");
    world.write("dos", "x\r\ny\r\n");
    let snapshot = world.snapshot(&world.main());
    assert_eq!(world.tree(snapshot.tree)["dos"].1, "x\ny\n");
    round_trip(&world);
}

#[test]
fn without_file_modes_or_links() {
    let mut world = World::new();
    seeded(&world);
    world.git(&["config", "core.fileMode", "false"]);
    world.git(&["config", "core.symlinks", "false"]);
    world.reopen();
    let at = world.main();
    set_mode(&at.top.join("run.sh"), 0o644);
    set_mode(&at.top.join("a.txt"), 0o755);
    fs::remove_file(at.top.join("link")).expect("removed");
    world.write("link", "elsewhere");
    let tree = world.tree(world.snapshot(&at).tree);
    assert_eq!(tree["run.sh"].0, "100755");
    assert_eq!(tree["a.txt"].0, "100644");
    assert_eq!(tree["link"], ("120000".into(), "elsewhere".into()));
}

#[test]
fn told_to_ignore_case() {
    let mut world = World::new();
    seeded(&world);
    world.git(&["config", "core.ignoreCase", "true"]);
    world.reopen();
    let at = world.main();
    fs::rename(at.top.join("a.txt"), at.top.join("A.txt")).expect("renamed");
    world.write("B.TXT", "beside b.txt\n");
    let tree = world.tree(world.snapshot(&at).tree);
    assert_eq!(tree["A.txt"].1, "one\n");
    assert_eq!(tree["B.TXT"].1, "beside b.txt\n");
    assert!(!tree.contains_key("a.txt") && tree.contains_key("b.txt"));
}

#[test]
fn sparse_checkouts_keep_what_is_not_there() {
    for index in ["--no-sparse-index", "--sparse-index"] {
        let mut world = World::new();
        seeded(&world);
        world.write("far/away/x", "x");
        world.write("near/y", "y");
        world.commit_all("more");
        world.git(&["sparse-checkout", "set", "--cone", index, "near"]);
        world.reopen();
        let at = world.main();
        assert!(!at.top.join("far").exists());
        world.write("near/y", "changed");
        world.write("near/new", "new");
        let snapshot = world.snapshot(&at);
        let tree = world.tree(snapshot.tree);
        assert_eq!(tree["far/away/x"].1, "x");
        assert_eq!(tree["near/y"].1, "changed");
        let original = files(&at.top);
        world.write("near/y", "ruined");
        fs::remove_file(at.top.join("near/new")).expect("removed");
        let safety = world.snapshot(&at);
        world
            .repo
            .restore(&at, &snapshot, Some(&safety))
            .expect("restored");
        assert_eq!(files(&at.top), original);
        assert!(!at.top.join("far").exists(), "stays sparse");
        assert_eq!(
            world.git(&["status", "--porcelain"]),
            " M near/y\n?? near/new\n"
        );
        // The user wrote a file outside the cone.
        world.write("far/away/x", "here after all");
        assert_eq!(
            world.tree(world.snapshot(&at).tree)["far/away/x"].1,
            "here after all"
        );
    }
}

#[test]
fn files_git_looks_away_from_are_not_lost() {
    let world = World::new();
    seeded(&world);
    world.git(&["update-index", "--skip-worktree", "a.txt"]);
    world.git(&["update-index", "--assume-unchanged", "b.txt"]);
    world.write("a.txt", "local settings\n");
    world.write("b.txt", "other settings\n");
    let tree = world.tree(world.snapshot(&world.main()).tree);
    assert_eq!(tree["a.txt"].1, "local settings\n");
    assert_eq!(tree["b.txt"].1, "other settings\n");
    round_trip(&world);
}

#[test]
fn index_variants_and_a_locked_index() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    world.git(&["update-index", "--split-index"]);
    world.git(&["update-index", "--untracked-cache"]);
    edit(&world);
    world.git(&["config", "core.splitIndex", "true"]);
    round_trip(&world);
    world.git(&["update-index", "--index-version", "4"]);
    world.write("more", "more");
    fs::write(at.admin_dir.join("index.lock"), "").expect("a lock");
    let snapshot = world.snapshot(&at);
    assert!(world.tree(snapshot.tree).contains_key("more"));
    assert!(at.admin_dir.join("index.lock").exists());
    let error = world
        .repo
        .restore(&at, &snapshot, Some(&snapshot))
        .expect_err("locked");
    assert!(error.message().contains("index.lock"), "{error}");
}
