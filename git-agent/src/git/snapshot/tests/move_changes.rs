//! Moving changes, and crashes on the way.

use std::fs;
use std::process::Command;

use crate::error::Result;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::move_changes::Carried;
use crate::git::snapshot::scan::Hidden;
use crate::git::snapshot::tests::world::{
    Files, World, command, files, link, open, private_files, run, set_mode, staged, who, write,
};

const KEEP: &str = "refs/kept/carried";
/// Tells a re-executed test its directory.
const CHILD: &str = "GIT_AGENT_TEST_CARRY_CHILD";

fn changed() -> World {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.write("b.txt", "two\n");
    world.write("dir/c.txt", "three\n");
    world.write("run.sh", "#!/bin/sh\n");
    world.write(".gitignore", "*.log\n");
    world.commit_all("seed");
    let top = world.main().top;
    world.write("a.txt", "one changed\n");
    fs::remove_file(top.join("b.txt")).expect("removed");
    set_mode(&top.join("run.sh"), 0o755);
    world.write("dir/c.txt", "staged\n");
    world.git(&["add", "dir/c.txt"]);
    world.write("dir/c.txt", "staged, then changed\n");
    world.write("new/file", "untracked\n");
    link(&top, "link", "new");
    world.write("announced", "announced\n");
    world.git(&["add", "-N", "announced"]);
    world.write("out.log", "ignored\n");
    world
}

fn carry(world: &World, to: &Checkout) -> Result<Option<Carried>> {
    world.repo.carry(&world.main(), to, KEEP, &who())
}

fn without_logs(mut all: Files) -> Files {
    all.retain(|path, _| !path.ends_with(b".log"));
    all
}

#[test]
fn changes_move_and_staged_stays_staged() {
    for init in [
        &[][..],
        &["--ref-format=reftable", "--object-format=sha256"],
    ] {
        let world = if init.is_empty() {
            changed()
        } else {
            let world = World::with(init);
            world.write("a", "a");
            world.commit_all("seed");
            world.write("a", "b");
            world.git(&["add", "a"]);
            world.write("a", "c");
            world
        };
        let from = world.main();
        let (original, index) = (without_logs(files(&from.top)), staged(&from.top));
        let to = world.worktree("to", &[]);
        carry(&world, &to)
            .expect("carried")
            .expect("there were changes");
        assert_eq!(files(&to.top), original);
        assert_eq!(staged(&to.top), index);
        assert_eq!(world.git(&["status", "--porcelain"]), "");
        if init.is_empty() {
            assert_eq!(
                fs::read(from.top.join("out.log")).expect("kept"),
                b"ignored\n"
            );
        }
        world.git(&["fsck", "--strict", "--no-dangling"]);
        let again = world.worktree("again", &[]);
        assert!(
            carry(&world, &again).expect("no error").is_none(),
            "nothing left"
        );
    }
}

#[test]
fn what_cannot_be_carried_is_refused_untouched() {
    let refused = |world: &World, to: &Checkout, word: &str| {
        let from = world.main();
        let before = (files(&from.top), private_files(&from));
        let error = carry(world, to).expect_err("refused");
        assert!(error.message().contains(word), "{error}");
        assert_eq!((files(&from.top), private_files(&from)), before);
    };
    let world = changed();
    let to = world.worktree("to", &[]);
    write(&to.top, "dirt", "dirt");
    refused(&world, &to, "clean checkout");
    fs::remove_file(to.top.join("dirt")).expect("removed");
    run(
        &to.top,
        &[
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@e",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "other",
        ],
    );
    refused(&world, &to, "clean checkout");
    let to = world.worktree("to2", &[]);
    fs::write(world.main().admin_dir.join("MERGE_HEAD"), "x").expect("a file");
    refused(&world, &to, "merge");
    fs::remove_file(world.main().admin_dir.join("MERGE_HEAD")).expect("removed");
    fs::write(world.main().admin_dir.join("index.lock"), "").expect("a lock");
    refused(&world, &to, "index.lock");
    fs::remove_file(world.main().admin_dir.join("index.lock")).expect("removed");
    // An ignored file is in the way at the destination.
    world.write("forced.log", "forced\n");
    world.git(&["add", "-f", "forced.log"]);
    write(&to.top, "forced.log", "precious\n");
    refused(&world, &to, "in the way");

    let unborn = World::new();
    unborn.write("a", "a");
    let error = unborn
        .repo
        .carry(&unborn.main(), &unborn.main(), KEEP, &who())
        .expect_err("refused");
    assert!(error.message().contains("any commits yet"), "{error}");
}

#[test]
fn files_git_looks_away_from_stay() {
    let world = changed();
    world.git(&["update-index", "--skip-worktree", "run.sh"]);
    world.write("run.sh", "local\n");
    let to = world.worktree("to", &[]);
    carry(&world, &to)
        .expect("carried")
        .expect("there were changes");
    assert_eq!(
        fs::read(to.top.join("run.sh")).expect("a file"),
        b"#!/bin/sh\n"
    );
    assert_eq!(
        fs::read(world.main().top.join("run.sh")).expect("a file"),
        b"local\n"
    );
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert!(world.git(&["ls-files", "-v", "run.sh"]).starts_with('S'));
}

/// Not a test itself: the part that runs in a child process, where faults can be planned.
#[test]
fn child_process() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let dir = std::path::PathBuf::from(dir);
    let repo = open(&dir.join("main/.git"));
    let from = repo.checkout().expect("a working tree");
    let to = Checkout {
        admin_dir: repo.common_dir().join("worktrees/to"),
        top: dir.join("to"),
    };
    if let Err(error) = repo.carry(&from, &to, KEEP, &who()) {
        panic!("carry failed: {error}");
    }
}

fn run_child(world: &World, fault: Option<&str>, log: Option<&str>) -> bool {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args([
            "--exact",
            "git::snapshot::tests::move_changes::child_process",
        ])
        .env(CHILD, world.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    if let Some(fault) = fault {
        child.env("GIT_AGENT_TEST_FAULT", fault);
    }
    if let Some(log) = log {
        child.env("GIT_AGENT_TEST_FAULT_LOG", log);
    }
    child.status().expect("starts").success()
}

#[test]
fn dying_or_failing_at_any_step_loses_nothing() {
    let world = changed();
    world.worktree("to", &[]);
    let log = world.path().join("points");
    assert!(
        run_child(&world, None, log.to_str()),
        "works without faults"
    );
    let points: Vec<String> = fs::read_to_string(&log)
        .expect("a log")
        .lines()
        .filter(|line| {
            // Every step of moving and restoring, and the first write of objects and refs.
            line.starts_with("carry.") || line.starts_with("restore.") || line.ends_with("#1")
        })
        .map(str::to_owned)
        .collect();
    assert!(points.len() >= 12, "{points:?}");
    for point in points {
        for action in ["kill", "eio"] {
            let world = changed();
            let to = world.worktree("to", &[]);
            let from = world.main();
            let (original, index) = (files(&from.top), staged(&from.top));
            let fault = format!("{point}:{action}");
            let done = run_child(&world, Some(&fault), None);
            assert!(!done, "{fault} must be noticed");
            let untouched = files(&from.top) == original && staged(&from.top) == index;
            if action == "eio" {
                assert!(untouched, "{fault}: the source is as it was");
            } else if !untouched {
                // It died while or after the source was cleaned: the snapshot restores everything.
                let id = world.git(&["rev-parse", KEEP]);
                let id = world.repo.parse_id(id.trim()).expect("an id");
                let snapshot = world.repo.read_snapshot(id).expect("complete");
                assert_eq!(files(&to.top), without_logs(original.clone()), "{fault}");
                world
                    .repo
                    .restore(&from, &snapshot, None)
                    .expect("restored");
                assert_eq!(files(&from.top), original, "{fault}");
                assert_eq!(staged(&from.top), index, "{fault}");
            }
            world.git(&["status"]);
            world.git(&["fsck", "--strict", "--no-dangling"]);
            assert!(!from.admin_dir.join("index.lock").exists(), "{fault}");
        }
    }
}

#[test]
fn a_change_meanwhile_is_noticed() {
    // The child pauses between applying and cleaning; meanwhile the user saves a file.
    for (point, path) in [
        ("carry.applied", "a.txt"),
        ("carry.compared", "a.txt"),
        ("carry.applied", "brand-new"),
    ] {
        let world = changed();
        let to = world.worktree("to", &[]);
        let from = world.main();
        let mut expected = files(&from.top);
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let log = world.path().join("points");
        child
            .args([
                "--exact",
                "git::snapshot::tests::move_changes::child_process",
            ])
            .env(CHILD, world.path())
            .env("GIT_AGENT_TEST_FAULT", format!("{point}:sleep:1500"))
            .env("GIT_AGENT_TEST_FAULT_LOG", &log)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut child = child.spawn().expect("starts");
        let wanted = format!("{point}#1");
        while !fs::read_to_string(&log).is_ok_and(|text| text.contains(&wanted)) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        world.write(path, "saved meanwhile\n");
        expected.insert(path.as_bytes().to_vec(), (0, b"saved meanwhile\n".to_vec()));
        let status = child.wait().expect("ends");
        assert!(!status.success(), "{point} {path}: noticed");
        assert_eq!(
            files(&from.top),
            expected,
            "{point} {path}: nothing was removed"
        );
        let _ = to;
    }
}

#[test]
fn cleaning_that_fails_half_way_is_undone() {
    let world = changed();
    let to = world.worktree("to", &[]);
    let from = world.main();
    // A required filter that cannot restore the committed bytes makes git fail during the cleaning.
    world.git(&["config", "filter.broken.clean", "cat"]);
    world.git(&["config", "filter.broken.smudge", "cat"]);
    world.git(&["config", "filter.broken.required", "true"]);
    fs::write(
        from.admin_dir.join("info/attributes"),
        "b.txt filter=broken\n",
    )
    .expect("a file");
    let (original, index) = (files(&from.top), staged(&from.top));
    world.git(&["config", "filter.broken.smudge", "false"]);
    let world_repo = open(world.repo.git_dir());
    let error = world_repo
        .carry(&from, &to, KEEP, &who())
        .expect_err("the filter fails");
    assert!(error.hints().is_empty(), "put back: {error:?}");
    assert_eq!(files(&from.top), original);
    assert_eq!(staged(&from.top), index);
    let again = world
        .repo
        .capture(&from, Hidden::LookAway)
        .expect("captured");
    let id = world.git(&["rev-parse", KEEP]);
    let id = world.repo.parse_id(id.trim()).expect("an id");
    assert!(
        world
            .repo
            .read_snapshot(id)
            .expect("complete")
            .is_state(&again)
    );
    drop(command(&from.top, &["status"]).output());
}
