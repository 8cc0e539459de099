//! Snapshots and restores, case by case, on real repositories.

use std::fs;
use std::os::unix::fs::symlink;

use super::ObjectId;
use super::scan::{Hidden, Reason};
use super::snapshot_world::{World, files, link, private_files, run, set_mode, staged, who, write};

/// A committed tree with a bit of everything.
fn seeded(world: &World) {
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

/// Every kind of change at once.
fn edit(world: &World) {
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

/// Snapshots, compares, restores into a fresh working tree and over a ruined one.
fn round_trip(world: &World) {
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
    let visible = |mut all: super::snapshot_world::Files| {
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
        "that is not for snapshots to make"
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
    let merged = super::snapshot_world::command(&world.main().top, &["merge", "side"])
        .output()
        .expect("git starts");
    assert!(!merged.status.success(), "a conflict");
    let at = world.main();
    let (original, index) = (files(&at.top), run(&at.top, &["ls-files", "-s"]));
    assert!(index.contains(" 2\tf"), "{index}");
    let snapshot = world.snapshot(&at);
    assert!(world.tree(snapshot.tree)["f"].1.contains("<<<<<<<"));
    world.git(&["reset", "-q", "--hard"]);
    // Kept alive by nothing but the snapshot: restore must find every side.
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
    // A directory becomes a link to a directory with the same files: they are not in the tree any more.
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
    // Configuration inside a submodule is nobody's that we trust.
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
    assert!(!marker.exists(), "nothing of the submodule's ran");
}

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
        // Somebody wrote a file where none should be.
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

#[test]
fn nothing_of_the_worktrees_runs() {
    let world = World::new();
    seeded(&world);
    let marker = world.path().join("ran");
    let evil = world.path().join("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", marker.display())).expect("a script");
    set_mode(&evil, 0o755);
    let at = world.worktree("hostile", &[]);
    // A forged `.git` with a repository that runs something, and forged files beside the real index.
    let forged = world.path().join("forged");
    fs::create_dir(&forged).expect("a directory");
    run(&forged, &["init", "-q", "."]);
    run(
        &forged,
        &["config", "core.fsmonitor", evil.to_str().expect("plain")],
    );
    fs::write(
        at.top.join(".git"),
        format!("gitdir: {}/.git\n", forged.display()),
    )
    .expect("forged");
    let common = at.admin_dir.join("commondir");
    fs::write(&common, format!("{}/.git\n", forged.display())).expect("forged");
    world.git(&["config", "core.fsmonitor", evil.to_str().expect("plain")]);
    world.git(&[
        "config",
        "core.hooksPath",
        world.path().to_str().expect("plain"),
    ]);
    fs::copy(&evil, world.path().join("post-index-change")).expect("a hook");
    set_mode(&world.path().join("post-index-change"), 0o755);
    write(&at.top, "a.txt", "changed");
    write(&at.top, ".gitattributes", "*.x text\n");
    write(&at.top, "n.x", "a\r\n");
    fs::remove_file(&marker).ok();
    let snapshot = world.snapshot(&at);
    assert_eq!(world.tree(snapshot.tree)["a.txt"].1, "changed");
    write(&at.top, "a.txt", "ruined");
    let safety = world.snapshot(&at);
    world
        .repo
        .restore(&at, &snapshot, Some(&safety))
        .expect("restored");
    assert!(!marker.exists(), "nothing ran");
}

#[test]
fn many_and_large_files_go_through_git() {
    let world = World::new();
    seeded(&world);
    for number in 0..300 {
        world.write(&format!("many/{number}"), number.to_string());
    }
    world.write("large", vec![7; 9 << 20]);
    link(&world.main().top, "many/link", "0");
    let snapshot = world.snapshot(&world.main());
    round_trip(&world);
    world.git(&["add", "-A"]);
    assert_eq!(world.git(&["write-tree"]).trim(), snapshot.tree.to_string());
}

#[test]
fn restore_refuses_what_would_be_lost() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    world.write("a.txt", "version one\n");
    let snapshot = world.snapshot(&at);
    world.write("a.txt", "version two\n");
    let error = world
        .repo
        .restore(&at, &snapshot, None)
        .expect_err("unsaved");
    assert!(error.message().contains("'a.txt'"), "{error}");
    // A safety snapshot that is older than the file.
    let error = world
        .repo
        .restore(&at, &snapshot, Some(&snapshot))
        .expect_err("unsaved");
    assert!(error.message().contains("'a.txt'"), "{error}");
    assert_eq!(
        fs::read(at.top.join("a.txt")).expect("a file"),
        b"version two\n"
    );
    // Something staged and nowhere else.
    world.git(&["add", "a.txt"]);
    world.write("a.txt", "version one\n");
    let error = world
        .repo
        .restore(&at, &snapshot, None)
        .expect_err("unsaved");
    assert!(error.message().contains("staged"), "{error}");
    world.git(&["reset", "-q"]);
    // An ignored file where the snapshot has one.
    world.write("out.log", "log\n");
    world.git(&["add", "-f", "out.log"]);
    let with_log = world.snapshot(&at);
    world.git(&["rm", "-q", "--cached", "out.log"]);
    world.write("out.log", "precious\n");
    let safety = world.snapshot(&at);
    assert!(world.repo.restore(&at, &with_log, Some(&safety)).is_err());
    assert_eq!(
        fs::read(at.top.join("out.log")).expect("a file"),
        b"precious\n"
    );
}

#[test]
fn links_never_lead_out_of_the_tree() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    world.write("dir/c.txt", "recorded\n");
    let snapshot = world.snapshot(&at);
    let outside = world.path().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("c.txt"), "outside\n").expect("a file");
    fs::remove_dir_all(at.top.join("dir")).expect("removed");
    symlink(&outside, at.top.join("dir")).expect("a link");
    let safety = world.snapshot(&at);
    assert_eq!(world.tree(safety.tree)["dir"].0, "120000");
    world
        .repo
        .restore(&at, &snapshot, Some(&safety))
        .expect("restored");
    assert_eq!(
        fs::read(outside.join("c.txt")).expect("a file"),
        b"outside\n"
    );
    assert_eq!(
        fs::read(at.top.join("dir/c.txt")).expect("a file"),
        b"recorded\n"
    );
}

#[test]
fn special_files_are_told() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    fs::remove_file(at.top.join("a.txt")).expect("removed");
    let made = std::process::Command::new("mkfifo")
        .arg(at.top.join("a.txt"))
        .status()
        .expect("mkfifo starts");
    assert!(made.success());
    let captured = world.repo.capture(&at, Hidden::Look).expect("captured");
    assert_eq!(captured.left_out[0].reason, Reason::Special);
    assert!(!world.tree(world.snapshot(&at).tree).contains_key("a.txt"));
}

#[test]
fn odd_names() {
    let world = World::new();
    seeded(&world);
    for name in [
        "with space",
        "quote\"'",
        "new\nline",
        "-dash",
        "ünï",
        ":(top)x",
        "a\\b",
        "#x",
        "*?[",
    ] {
        world.write(name, name);
        world.write(&format!("d{name}/{name}"), name);
    }
    round_trip(&world);
}

#[test]
fn a_person_can_read_it() {
    let world = World::new();
    seeded(&world);
    let at = world.main();
    world.write("a.txt", "changed\n");
    let first = world.snapshot(&at);
    world.write("b.txt", "staged\n");
    world.git(&["add", "b.txt"]);
    world.write("b.txt", "changed\n");
    let mut captured = world.repo.capture(&at, Hidden::Look).expect("captured");
    let trailers = [("Agent-Turn", "2\nSnapshot-Index: forged".to_owned())];
    let id = world
        .repo
        .write_snapshot(
            &mut captured,
            Some(first.id),
            &who(),
            "after\nturn 2",
            &trailers,
        )
        .expect("written");
    let second = world.repo.read_snapshot(id).expect("read");
    assert_eq!(second.previous, Some(first.id));
    assert!(second.is_state(&captured));
    world.git(&["update-ref", "refs/kept", &id.to_string()]);
    let shown = world.git(&[
        "show",
        "--first-parent",
        "--stat",
        "--format=%s%n%p",
        "refs/kept",
    ]);
    assert!(shown.starts_with("after turn 2\n"), "{shown}");
    assert!(
        shown.contains("a.txt") && shown.contains("b.txt"),
        "{shown}"
    );
    let staged = world.git(&["show", "--format=%s", "refs/kept^3"]);
    assert!(
        staged.contains("what was staged") && staged.contains("+staged"),
        "{staged}"
    );
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.git(&["fsck", "--strict"]);
    world.repo.restore(&at, &second, None).expect("restored");
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "b.txt\n");
}
