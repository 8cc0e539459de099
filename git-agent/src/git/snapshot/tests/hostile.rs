//! Snapshots of odd, huge or hostile trees, and restores that would lose content.

use std::fs;
use std::os::unix::fs::symlink;

use crate::git::snapshot::scan::{Hidden, Reason};
use crate::git::snapshot::tests::cases::{round_trip, seeded};
use crate::git::snapshot::tests::world::{World, link, run, set_mode, who, write};

#[test]
fn nothing_of_the_worktrees_runs() {
    let world = World::new();
    seeded(&world);
    let marker = world.path().join("ran");
    let evil = world.path().join("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", marker.display())).expect("a script");
    set_mode(&evil, 0o755);
    let at = world.worktree("hostile", &[]);
    // A forged `.git` of a repository that runs a program, and forged files beside the real index.
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
    // Staged content that exists nowhere else.
    world.git(&["add", "a.txt"]);
    world.write("a.txt", "version one\n");
    let error = world
        .repo
        .restore(&at, &snapshot, None)
        .expect_err("unsaved");
    assert!(error.message().contains("staged"), "{error}");
    world.git(&["reset", "-q"]);
    // An ignored file in the place of one of the snapshot.
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
        staged.contains("staged files") && staged.contains("+staged"),
        "{staged}"
    );
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.git(&["fsck", "--strict"]);
    world.repo.restore(&at, &second, None).expect("restored");
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "b.txt\n");
}
