//! A worktree that is brought to another state is whole or not there: whatever dies in between, no half of the work is
//! ever taken for the work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git_agent_tests::faults::{self, Action, Fault, Plan};
use git_agent_tests::sessions::{files_below, rounds};
use git_agent_tests::{Output, Repo, Sandbox, wait_until};
use rustix::process::Signal;

const FATAL: [Action; 2] = [Action::Kill, Action::Enospc];
/// Enough files that a killed checkout has done some of them.
const FILES: usize = 400;

fn manifest(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(top)
        .into_iter()
        .filter(|path| path != &top.join(".git"))
        .map(|path| {
            let bytes = std::fs::read(&path).expect("readable");
            (path.strip_prefix(top).expect("below").to_owned(), bytes)
        })
        .collect()
}

/// A repository with a session that has much uncommitted work.
struct World {
    sandbox: Sandbox,
    top: PathBuf,
    work: BTreeMap<PathBuf, Vec<u8>>,
    /// The snapshot of all that.
    snapshot: String,
}

impl World {
    fn new(files: usize) -> Self {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        repo.write("tracked", "committed\n");
        repo.write("second", "committed\n");
        repo.commit("base");
        let once = "test -e first.txt || { echo 1 > first.txt; git add -A; git commit -qm first; }";
        repo.agent(["new", "s", "--", "sh", "-c", once]).success();
        repo.await_state("s", "ready");
        let worktree = repo.worktree_of("s");
        for number in 0..files {
            worktree.write(format!("d{}/{number}", number % 7), format!("{number}\n"));
        }
        worktree.write("tracked", "changed\n");
        worktree.write("second", "staged\n");
        worktree.git(["add", "second"]).success();
        repo.agent(["snapshot", "s"]).success();
        let top = worktree.path().to_owned();
        let work = manifest(&top);
        let refs = repo.refs("refs/agents-local/snapshots");
        let snapshot = refs.values().next().expect("a snapshot").clone();
        World {
            sandbox,
            top,
            work,
            snapshot,
        }
    }

    fn repo(&self) -> Repo<'_> {
        Repo::open(&self.sandbox, self.sandbox.work().join("r"))
    }

    fn cleaned(files: usize) -> Self {
        let world = World::new(files);
        world.repo().agent(["clean", "s"]).success();
        assert!(!world.top.exists());
        world
    }

    /// Returns the files of the newest snapshot of the session.
    fn recorded(&self) -> Vec<PathBuf> {
        let repo = self.repo();
        let refs = repo.refs("refs/agents-local/snapshots");
        let tip = refs.values().next().expect("a snapshot");
        let listed = repo.git(["ls-tree", "-r", "-z", "--name-only", tip]);
        let listed = listed.success();
        let names = listed.stdout().split_terminator('\0');
        names.map(PathBuf::from).collect()
    }

    /// Asserts that looking at the work, judging it and keeping it never sees less than all of it.
    #[track_caller]
    fn assert_nothing_half(&self) {
        let repo = self.repo();
        repo.assert_whole();
        repo.agent(["review", "approve", "s"]).whatever();
        repo.agent(["snapshot", "s"]).whatever();
        let all: Vec<PathBuf> = self.work.keys().cloned().collect();
        assert_eq!(self.recorded(), all, "the recorded work");
        if self.top.exists() {
            assert_eq!(manifest(&self.top), self.work, "the worktree");
        }
    }

    /// Asserts that the session's worktree is there with all of its work, or can be brought back.
    #[track_caller]
    fn assert_comes_back(&self) {
        let repo = self.repo();
        if !self.top.exists() {
            repo.agent(["restore", "s"]).success();
        }
        assert_eq!(manifest(&self.top), self.work, "the worktree");
        let status = repo
            .worktree_of("s")
            .git(["diff", "--cached", "--name-only"]);
        status.success().assert_stdout("second\n");
        self.assert_healthy();
    }

    /// Asserts that git is whole, that nothing lies about, and that the doctor finds at most what he can mend.
    #[track_caller]
    fn assert_healthy(&self) {
        let repo = self.repo();
        repo.agent(["doctor", "--fix"]).success();
        repo.agent(["doctor"]).success();
        repo.assert_whole();
        repo.assert_worktrees_fit();
        let locks: Vec<PathBuf> = files_below(&repo.common_dir())
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "lock"))
            .filter(|path| !path.starts_with(repo.common_dir().join("agents")))
            .collect();
        assert!(locks.is_empty(), "{locks:?}");
    }
}

fn operate(world: &World, plan: &Plan, words: &[&str]) -> Output {
    plan.apply(world.repo().agent_cmd(words)).run().whatever()
}

#[test]
fn a_restore_that_dies_leaves_all_of_the_work_or_none() {
    let report = faults::sample(
        4,
        &FATAL,
        || World::cleaned(5),
        |world, plan| operate(world, plan, &["restore", "s"]),
        |world: &World, _: Option<&Fault>, _| {
            world.assert_nothing_half();
            world.assert_comes_back();
        },
    );
    assert!(report.unmet.is_empty(), "{:?}", report.unmet);
}

#[test]
fn a_recreate_that_dies_can_be_repeated() {
    faults::sample(
        6,
        &FATAL,
        || World::new(5),
        |world, plan| operate(world, plan, &["recreate", "s"]),
        |world: &World, _: Option<&Fault>, _| {
            let repo = world.repo();
            repo.assert_whole();
            repo.agent(["recreate", "s"]).success();
            let fresh = manifest(&world.top);
            assert_eq!(fresh.len(), 4, "{:?}", fresh.keys());
            world.assert_healthy();
            repo.agent(["rewind", "s", "--to", &world.snapshot])
                .success();
            assert_eq!(manifest(&world.top), world.work);
        },
    );
}

#[test]
fn a_rewind_that_dies_is_finished_by_whatever_comes_next() {
    for next in ["approve", "snapshot", "commit", "clean", "rewind", "doctor"] {
        faults::sample(
            16,
            &FATAL,
            || {
                let world = World::new(5);
                let repo = world.repo();
                let worktree = repo.worktree_of("s");
                worktree.write("later", "later\n");
                worktree.commit("later");
                repo.agent(["snapshot", "s"]).success();
                world
            },
            |world, plan| operate(world, plan, &["rewind", "s", "--turn", "1"]),
            |world: &World, _: Option<&Fault>, _| {
                let repo = world.repo();
                let before: Vec<PathBuf> = {
                    let mut all: Vec<_> = world.work.keys().cloned().collect();
                    all.push("later".into());
                    all.sort();
                    all
                };
                let after: Vec<PathBuf> = ["README.md", "first.txt", "second", "tracked"]
                    .map(PathBuf::from)
                    .to_vec();
                match next {
                    "approve" => repo.agent(["review", "approve", "s"]).whatever(),
                    "doctor" => repo.agent(["doctor", "--fix"]).whatever(),
                    "rewind" => repo.agent(["rewind", "s", "--turn", "1"]).success(),
                    verb => repo.agent([verb, "s"]).whatever(),
                };
                let recorded = world.recorded();
                assert!(
                    recorded == before || recorded == after,
                    "{next}: recorded {recorded:?}"
                );
                if world.top.exists() {
                    let there: Vec<PathBuf> = manifest(&world.top).into_keys().collect();
                    assert!(there == before || there == after, "{next}: {there:?}");
                }
                world.assert_healthy();
            },
        );
    }
}

#[test]
fn an_update_that_dies_makes_nothing_of_the_parent_the_sessions_own() {
    let plain = |repo: &Repo<'_>| {
        let shown = repo.agent(["review", "diff", "--name-only", "s"]).success();
        shown.stdout().to_owned()
    };
    faults::sample(
        6,
        &FATAL,
        || {
            let world = World::new(5);
            let repo = world.repo();
            for number in 0..9 {
                repo.write(format!("parent/{number}"), "parent\n");
            }
            repo.commit("parent");
            world
        },
        |world, plan| operate(world, plan, &["update", "s"]),
        |world: &World, _: Option<&Fault>, _| {
            let repo = world.repo();
            assert!(!plain(&repo).contains("parent/"), "{}", plain(&repo));
            repo.agent(["update", "s"]).whatever();
            assert!(!plain(&repo).contains("parent/"), "{}", plain(&repo));
            assert!(world.top.join("parent/8").exists());
            for (path, bytes) in &world.work {
                assert_eq!(&std::fs::read(world.top.join(path)).expect("there"), bytes);
            }
            world.assert_healthy();
        },
    );
}

#[test]
fn a_killed_group_leaves_all_of_the_work_or_none() {
    let mut dice = u64::from(std::process::id()) | 1;
    let mut below = move |limit: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % limit
    };
    let world = World::new(FILES);
    let repo = world.repo();
    for round in 0..rounds(6) {
        let verb = ["restore", "send", "rewind"][round % 3];
        let words: &[&str] = match verb {
            "restore" => &["restore", "s"],
            "send" => &["send", "s", "go on"],
            _ => &["rewind", "s", "--to"],
        };
        let mut words: Vec<&str> = words.to_vec();
        if verb == "rewind" {
            repo.agent(["rewind", "s", "--turn", "1"]).success();
            words.push(&world.snapshot);
        } else {
            repo.agent(["clean", "s"]).success();
        }
        let running = repo.agent_cmd(&words).spawn();
        std::thread::sleep(Duration::from_millis(below(400)));
        running.signal_group(Signal::KILL);
        running.wait().whatever();
        world.sandbox.kill_all();
        wait_until("all are dead", || world.sandbox.survivors().is_empty());
        if verb == "rewind" {
            repo.agent(["rewind", "s", "--to", &world.snapshot])
                .success();
        }
        repo.agent(["stop", "s"]).whatever();
        world.assert_nothing_half();
        world.assert_comes_back();
    }
}

#[test]
fn a_rewind_that_is_refused_changes_nothing() {
    let world = World::new(5);
    let repo = world.repo();
    let worktree = repo.worktree_of("s");
    worktree.write(".gitignore", "d0\n");
    std::fs::remove_file(world.top.join("d0/0")).expect("ours");
    worktree.commit("ignore");
    worktree.write("d0/0", "precious\n");
    let there = manifest(&world.top);
    let tip = worktree.id("HEAD");
    let said = repo.agent(["rewind", "s", "--to", &world.snapshot]);
    said.failure().assert_says("is in the way");
    assert_eq!(manifest(&world.top), there);
    assert_eq!(worktree.id("HEAD"), tip);
    repo.agent(["snapshot", "s"]).success();
    world.assert_healthy();
}

#[test]
fn a_half_made_record_of_a_worktree_is_swept() {
    for heal in [&["restore", "s"][..], &["doctor", "--fix"]] {
        let world = World::cleaned(5);
        let repo = world.repo();
        let admin = repo.common_dir().join("worktrees/s");
        std::fs::create_dir_all(&admin).expect("ours");
        let link = world.top.join(".git");
        std::fs::write(admin.join("gitdir"), format!("{}\n", link.display())).expect("ours");
        std::fs::write(admin.join("locked"), "initializing").expect("ours");
        std::fs::write(admin.join("HEAD.lock"), "").expect("ours");
        repo.git(["fsck"]).failure();
        let told = repo.agent(["doctor"]).code(1);
        assert!(told.stdout().contains("is incomplete"), "{told}");
        repo.agent(heal).success();
        world.assert_nothing_half();
        world.assert_comes_back();
    }
}

#[test]
fn a_full_disk_leaves_nothing_half_and_says_so() {
    let world = World::cleaned(5);
    let repo = world.repo();
    let disk = match world.sandbox.small_disk(1) {
        Ok(disk) => disk,
        // The fault points above report a full disk at every step.
        Err(why) => return eprintln_once(&why),
    };
    let home = world.top.parent().expect("a directory").to_owned();
    let _ = std::fs::remove_dir_all(&home);
    std::os::unix::fs::symlink(&disk, &home).expect("ours");
    std::fs::write(disk.join("full"), vec![0; (1 << 20) - 5 * 4096]).expect("room");
    let said = repo.agent(["restore", "s"]).failure();
    said.assert_says("o space left");
    world.assert_nothing_half();
    assert!(!world.top.exists());
    std::fs::remove_file(disk.join("full")).expect("ours");
    repo.agent(["restore", "s"]).success();
    world.assert_nothing_half();
    assert!(world.top.exists());
}

fn eprintln_once(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{why}");
}
