//! A merge killed at any step: the branch is where it was or where it should be, and the next merge goes on.

use git_agent_tests::faults::{self, Action, Fault, Plan};
use git_agent_tests::output::Output;
use git_agent_tests::repo::{Hash, RefFormat, Repo};

use super::session::{finish_session, worktree};
use super::{Place, no_lock_is_left, tell};

/// A session with uncommitted work, tests that pass, and hooks, so that every step is taken.
fn place(hash: Hash, refs: RefFormat) -> Place {
    Place::new(hash, refs, |repo| {
        finish_session(repo);
        worktree(repo).write("src/code.rs", "fn main() { changed() }\n");
        for (key, value) in [
            ("agent.mergeStrategy", "auto"),
            ("agent.test", "test -e result"),
        ] {
            repo.git(["config", key, value]).success();
        }
        let hooks = repo.path().join(".git/hooks");
        std::fs::create_dir_all(&hooks).expect("writable");
        let hook = hooks.join("commit-msg");
        git_agent_tests::sandbox::write_program(&hook, "#!/bin/sh\necho 'Seen: yes' >>\"$1\"\n");
        repo.write("draft", "of the user\n");
    })
}

fn merge(repo: &Repo<'_>, plan: &Plan, words: &[&str]) -> Output {
    let command = repo.agent_cmd(["merge"].iter().chain(words));
    plan.apply(command).run().whatever()
}

/// Asserts that the files here and the worktrees are those of a repository at rest.
#[track_caller]
fn at_rest(repo: &Repo<'_>, output: &Output) {
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), "?? draft\n", "{output}");
    let worktrees = repo.git(["worktree", "list"]).success();
    assert_eq!(worktrees.lines().len(), 2, "{worktrees}\n{output}");
    let beside = std::fs::read_dir(worktree(repo).path().parent().expect("a parent"));
    assert_eq!(beside.expect("it is there").count(), 1, "{output}");
    repo.assert_whole();
}

/// Asserts that a killed merge left the branch old or new, is taken back or finished, and that the next one lands.
#[track_caller]
fn lands_in_the_end(repo: &Repo<'_>, fault: Option<&Fault>, output: &Output) {
    let landed = repo
        .git(["cat-file", "-e", "main:result"])
        .whatever()
        .status()
        .success();
    assert!(landed || !output.status().success(), "{output}");
    if fault.is_some() {
        // Nothing to take back is as good.
        repo.agent(["merge", "--abort"]).whatever();
        at_rest(repo, output);
        let still = repo
            .git(["cat-file", "-e", "main:result"])
            .whatever()
            .status()
            .success();
        assert_eq!(landed, still, "taking back moves nothing\n{output}");
    }
    repo.agent(["merge", "--into", "main"]).success();
    at_rest(repo, output);
    assert_eq!(repo.read("src/code.rs"), b"fn main() { changed() }\n");
    let message = repo.git(["log", "-1", "--format=%B", "main"]).success();
    assert!(message.stdout().contains("Seen: yes"), "{message}");
    assert_eq!(repo.state("x"), "merged", "{output}");
    worktree(repo)
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    let notes = repo.refs("refs/agents/notes/provenance");
    assert_eq!(notes.len(), 1, "{notes:?}");
    no_lock_is_left(repo);
}

#[test]
fn a_merge_survives_its_death_at_every_step() {
    let place = place(Hash::Sha1, RefFormat::Files);
    let report = faults::sample(
        3,
        actions(),
        || place.fresh(),
        |repo, plan| merge(repo, plan, &["x"]),
        lands_in_the_end,
    );
    assert!(report.unmet.is_empty(), "{:?}", report.unmet);
    assert!(report.places.len() >= 30, "{:?}", report.places);
    tell("merge", &place, &report);
}

/// Returns death, and in a long run also errors.
fn actions() -> &'static [Action] {
    if faults::rounds() > 1 {
        &[Action::Kill, Action::Eio, Action::Enospc]
    } else {
        &[Action::Kill]
    }
}

#[test]
fn undoing_survives_its_death_at_every_step() {
    let place = place(Hash::Sha1, RefFormat::Files);
    let report = faults::sample(
        3,
        actions(),
        || {
            let repo = place.fresh();
            repo.agent(["merge", "x"]).success();
            repo
        },
        |repo, plan| merge(repo, plan, &["--undo"]),
        |repo, fault, output| {
            if fault.is_some() {
                // Finishes what had moved, takes back what had not; then there is still something to undo.
                repo.agent(["merge", "--abort"]).whatever();
            }
            if repo.state("x") == "merged" {
                repo.agent(["merge", "--undo"]).success();
            }
            at_rest(repo, output);
            repo.git(["cat-file", "-e", "main:result"]).failure();
            let status = worktree(repo).git(["status", "--porcelain"]).success();
            assert_eq!(status.stdout(), " M src/code.rs\n?? result\n?? src/more\n");
            repo.agent(["merge", "x"]).success();
            at_rest(repo, output);
            no_lock_is_left(repo);
        },
    );
    tell("undo", &place, &report);
}

#[test]
fn a_merge_that_died_is_continued() {
    let place = place(Hash::Sha1, RefFormat::Files);
    for step in ["merge.tested#1", "land.files.updated#1", "land.committed#1"] {
        let repo = place.fresh();
        let plan = Plan::meet(step, Action::Kill);
        let output = merge(&repo, &plan, &["x"]);
        assert!(plan.fired(), "{step}\n{output}");
        repo.agent(["merge", "--continue"]).success();
        assert_eq!(repo.state("x"), "merged", "{step}");
        at_rest(&repo, &output);
    }
}
