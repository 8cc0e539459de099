//! Faults in the life of a session: while it is made, works, is kept, goes back, and on a disk without room.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use git_agent_tests::faults::{self, Action, Fault, Plan};
use git_agent_tests::output::Output;
use git_agent_tests::process::wait_until;
use git_agent_tests::repo::{Hash, RefFormat, Repo};
use git_agent_tests::sandbox::Sandbox;

use super::{Place, events, hold, no_lock_is_left, tell, user_goes_on};

/// Starts a session whose agent writes a file, and waits until it is over in whatever way.
fn run_session(repo: &Repo<'_>, plan: &Plan, verb: &[&str]) -> Output {
    let started = plan.apply(repo.agent_cmd(verb)).run().whatever();
    if !started.status().success() {
        settled(repo);
        return started;
    }
    let output = wait_for_end(repo);
    settled(repo);
    output
}

/// Waits until a session has ended, well or not. Looked at with a plain eye: `list` would put right what is to be seen.
fn wait_for_end(repo: &Repo<'_>) -> Output {
    repo.agent([
        "wait",
        "x",
        "--state=ready,failed,interrupted,stopped",
        "--timeout=60s",
    ])
    .whatever()
}

fn settled(repo: &Repo<'_>) {
    wait_until("every process has ended", || {
        repo.sandbox().survivors().is_empty()
    });
}

fn state(repo: &Repo<'_>) -> Option<String> {
    let listed = repo.agent(["list", "--json", "--all"]).success();
    let listed = listed.json();
    let sessions = listed["sessions"].as_array().expect("a list").clone();
    let found = sessions.into_iter().find(|session| session["name"] == "x");
    found.map(|session| session["state"].as_str().expect("a state").to_owned())
}

/// Returns what to try in a whole session, which takes long: one kind of error stands for the others.
fn steps(place: &Place) -> &'static [Action] {
    match place.actions() {
        [Action::Kill, _, _] if faults::rounds() == 1 => &[Action::Kill, Action::Enospc],
        all => all,
    }
}

const NEW: [&str; 8] = [
    "new",
    "x",
    "--",
    "fake-agent",
    "write result text",
    "print said-once",
    "write src/more more",
    "print said-last",
];

fn work_survives(repo: &Repo<'_>, fault: Option<&Fault>, output: &Output) {
    user_goes_on(repo, fault);
    let before = state(repo);
    match before.as_deref() {
        None => {
            assert!(fault.is_some(), "there is no session\n{output}");
            repo.agent(NEW).success();
        }
        Some("ready") => {}
        Some("draft" | "interrupted" | "failed") => {
            repo.agent(["restart", "x"]).success();
        }
        Some(other) => panic!("the session is {other}\n{output}"),
    }
    let end = wait_for_end(repo);
    settled(repo);
    assert_eq!(
        state(repo).as_deref(),
        Some("ready"),
        "after {before:?}\n{output}\n{end}\n{}",
        repo.agent(["log", "--raw", "x"]).whatever()
    );
    let log = repo.agent(["log", "--raw", "x"]).success();
    let seqs = events(log.stdout());
    assert!(
        seqs.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{seqs:?}"
    );
    let worktree = repo.path().with_file_name("r-worktrees").join("x");
    for (file, text) in [
        ("result", "text"),
        ("src/more", "more"),
        ("src/code.rs", "fn main() {}\n"),
    ] {
        let found = read(&worktree.join(file));
        assert_eq!(found.trim(), text.trim(), "{file} after {before:?}");
    }
    let seen = Repo::open(repo.sandbox(), &worktree)
        .git(["status", "--porcelain"])
        .success();
    assert_eq!(
        seen.stdout(),
        "?? result\n?? src/more\n",
        "after {before:?}"
    );
    no_lock_is_left(repo);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_new_session_survives_a_fault_at_every_step() {
    for refs in RefFormat::available() {
        let place = Place::new(Hash::Sha1, *refs, |_| {});
        let report = faults::sample(
            6,
            steps(&place),
            || place.fresh(),
            |repo, plan| run_session(repo, plan, &NEW),
            work_survives,
        );
        tell("new", &place, &report);
    }
}

#[test]
fn a_supervisor_survives_a_fault_at_every_step() {
    for refs in RefFormat::available() {
        let place = Place::new(Hash::Sha1, *refs, |repo| {
            let mut draft = NEW.to_vec();
            draft.insert(1, "--no-start");
            repo.agent(draft).success();
        });
        let report = faults::sample(
            6,
            steps(&place),
            || place.fresh(),
            |repo, plan| run_session(repo, plan, &["restart", "x"]),
            work_survives,
        );
        tell("supervisor", &place, &report);
    }
}

/// Makes the session `x` and lets it finish.
pub(super) fn finish_session(repo: &Repo<'_>) {
    repo.agent(NEW).success();
    wait_for_end(repo);
    settled(repo);
    assert_eq!(state(repo).as_deref(), Some("ready"));
}

pub(super) fn worktree<'a>(repo: &Repo<'a>) -> Repo<'a> {
    let path = repo.path().with_file_name("r-worktrees").join("x");
    Repo::open(repo.sandbox(), path)
}

/// Returns whether some commit of our local refs has this text in a file of this name.
fn is_kept(repo: &Repo<'_>, file: &str, text: &str) -> bool {
    let commits = repo
        .git(["rev-list", "--glob=refs/agents-local/*"])
        .success();
    commits.lines().iter().any(|commit| {
        let shown = repo
            .git(["cat-file", "blob", &format!("{commit}:{file}")])
            .whatever();
        shown.status().success() && shown.stdout() == text
    })
}

#[test]
fn a_snapshot_survives_a_fault_at_every_step() {
    for refs in RefFormat::available() {
        let place = Place::new(Hash::Sha1, *refs, |repo| {
            finish_session(repo);
            worktree(repo).write("draft", "not yet kept\n");
        });
        let report = faults::sample(
            6,
            place.actions(),
            || place.fresh(),
            |repo, plan| {
                plan.apply(repo.agent_cmd(["snapshot", "x"]))
                    .run()
                    .whatever()
            },
            |repo, fault, output| {
                if output.status().success() {
                    assert!(is_kept(repo, "draft", "not yet kept\n"), "{output}");
                }
                user_goes_on(repo, fault);
                repo.agent(["list", "--json"]).success().assert_stderr("");
                repo.agent(["snapshot", "x"]).success();
                assert!(is_kept(repo, "draft", "not yet kept\n"), "{output}");
                let status = worktree(repo).git(["status", "--porcelain"]).success();
                assert_eq!(status.stdout(), "?? draft\n?? result\n?? src/more\n");
                no_lock_is_left(repo);
            },
        );
        assert!(report.unmet.is_empty(), "{:?}", report.unmet);
        tell("snapshot", &place, &report);
    }
}

#[test]
fn going_back_survives_a_fault_at_every_step() {
    for refs in RefFormat::available() {
        let place = Place::new(Hash::Sha1, *refs, |repo| {
            finish_session(repo);
            worktree(repo).write("draft", "not yet kept\n");
        });
        let report = faults::sample(
            6,
            steps(&place),
            || place.fresh(),
            |repo, plan| {
                let rewind = repo.agent_cmd(["rewind", "x", "--turn", "0"]);
                plan.apply(rewind).run().whatever()
            },
            |repo, fault, output| {
                let draft = worktree(repo).path().join("draft");
                assert!(
                    draft.exists() || is_kept(repo, "draft", "not yet kept\n"),
                    "the draft is lost\n{output}"
                );
                user_goes_on(repo, fault);
                repo.agent(["list", "--json"]).success().assert_stderr("");
                repo.agent(["rewind", "x", "--turn", "0"]).success();
                assert!(is_kept(repo, "draft", "not yet kept\n"), "{output}");
                let status = worktree(repo).git(["status", "--porcelain"]).success();
                assert_eq!(status.stdout(), "", "{output}");
                no_lock_is_left(repo);
            },
        );
        assert!(report.unmet.is_empty(), "{:?}", report.unmet);
        tell("rewind", &place, &report);
    }
}

#[test]
fn uncommitted_work_survives_a_fault_while_it_is_carried() {
    let place = Place::new(Hash::Sha1, RefFormat::Files, |_| {});
    let mut carry = NEW.to_vec();
    carry.insert(1, "--carry");
    carry.insert(1, "--no-guard");
    let report = faults::sample(
        6,
        steps(&place),
        || {
            let repo = place.fresh();
            repo.write("src/code.rs", "fn main() { changed() }\n");
            repo.write("untracked", "not in git\n");
            repo
        },
        |repo, plan| run_session(repo, plan, &carry),
        |repo, fault, output| {
            for (file, text) in [
                ("src/code.rs", "fn main() { changed() }\n"),
                ("untracked", "not in git\n"),
            ] {
                let places = [repo.path(), worktree(repo).path()].map(|top| top.join(file));
                let is_there =
                    |path: &PathBuf| fs::read(path).is_ok_and(|found| found == text.as_bytes());
                assert!(
                    places.iter().any(is_there) || is_kept(repo, file, text),
                    "{file} is lost\n{output}"
                );
            }
            user_goes_on(repo, fault);
            repo.agent(["list", "--json"]).success();
            settled(repo);
        },
    );
    tell("carry", &place, &report);
}

#[test]
fn a_session_survives_a_disk_that_is_full_for_a_while() {
    let sandbox = Sandbox::new();
    let disk = match sandbox.small_disk(16) {
        Ok(disk) => disk,
        Err(why) => {
            // The faults above stand in for a full disk.
            let _ = writeln!(std::io::stderr(), "{why}");
            return;
        }
    };
    let repo = sandbox.repo_at(disk.join("r")).create();
    let go = sandbox.root().join("home/go");
    let until = format!("until {}", go.display().to_string().replace(' ', "\\s"));
    let agent = [
        "new",
        "x",
        "--no-guard",
        "--",
        "fake-agent",
        "print said-first",
        &until,
        "print said-last",
    ];
    repo.agent(agent).success();
    let log = || {
        repo.agent(["log", "--raw", "x"])
            .success()
            .stdout()
            .to_owned()
    };
    wait_until("the agent has said something", || {
        log().contains("said-first")
    });
    let before = events(&log());

    let filler = disk.join("filler");
    let mut file = fs::File::create(&filler).expect("there is room for a name");
    for size in [1 << 16, 1] {
        let block = vec![1; size];
        while file.write_all(&block).is_ok() {}
    }
    drop(file);
    fs::write(&go, "").expect("another disk");
    settled(&repo);
    // Without the optional writing of the index, which git itself may trip over on a full disk.
    repo.git(["--no-optional-locks", "status", "--porcelain"])
        .success();
    fs::remove_file(&filler).expect("it can be removed");

    repo.agent(["list", "--json"]).success();
    let after = events(&log());
    hold(&after, &before, "git agent log");
    repo.assert_user_can_work();
    if state(&repo).as_deref() != Some("ready") {
        repo.agent(["restart", "x"]).success();
        wait_for_end(&repo);
        settled(&repo);
    }
    assert_eq!(state(&repo).as_deref(), Some("ready"), "{}", log());
    no_lock_is_left(&repo);
}
