//! Worktrees and repositories that were moved by hand.

use std::fs;
use std::path::Path;

use git_agent_tests::{Repo, Sandbox, wait_until};

use crate::doctor::{told, with_session};

#[test]
fn a_worktree_that_was_moved_is_found_and_its_place_recorded() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let old = repo.worktree_of("m").path().to_owned();
    let new = sandbox.work().join("elsewhere");
    repo.command("git")
        .args(["worktree", "move"])
        .args([&old, &new])
        .run()
        .success();
    assert_eq!(
        repo.agent(["path", "m"]).success().line(),
        new.to_str().expect("a plain path")
    );
    let kept = repo.agent(["clean", "m"]).success();
    assert!(kept.stdout().contains("was moved to"), "{kept}");
    repo.agent(["recreate", "m"])
        .code(128)
        .assert_says("was moved to");
    let found = told(&repo, &[]);
    assert!(found[0].contains("was moved here from"), "{found:?}");
    told(&repo, &["--fix"]);
    assert_eq!(told(&repo, &[]), [""; 0]);
    assert_eq!(repo.worktree_of("m").path(), new);
}

#[test]
fn a_turn_goes_on_where_the_worktree_was_moved_to() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("m", &[], &["write m.txt m", "print done"]);
    repo.await_state("m", "ready");
    let old = repo.worktree_of("m").path().to_owned();
    let new = sandbox.work().join("elsewhere");
    repo.command("git")
        .args(["worktree", "move"])
        .args([&old, &new])
        .run()
        .success();
    repo.agent(["send", "m", "go on"]).success();
    repo.agent(["wait", "m"]).success();
    assert_eq!(repo.worktree_of("m").path(), new);
    assert!(!old.exists());
    let noted = repo.texts("m", "notice");
    assert!(noted.iter().any(|text| text.contains("was moved")));
}

/// Moves a repository, once the supervisor of its session, which has done its work, is on its way no longer.
fn moved<'a>(sandbox: &'a Sandbox, repo: Repo<'a>, place: &Path) -> Repo<'a> {
    wait_until("nobody is at work", || repo.session("m")["pid"].is_null());
    fs::rename(repo.path(), place).expect("ours");
    Repo::open(sandbox, place)
}

#[test]
fn a_turn_goes_on_after_the_repository_was_moved() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("m", &[], &["write m.txt m", "print done"]);
    repo.await_state("m", "ready");
    let place = sandbox.work().join("r2");
    let repo = moved(&sandbox, repo, &place);
    repo.agent(["send", "m", "go on"]).success();
    repo.agent(["wait", "m"]).success();
    let noted = repo.texts("m", "notice");
    assert!(
        noted
            .iter()
            .any(|text| text.contains("the worktree was repaired")),
        "{noted:?}"
    );
    repo.worktree_of("m").git(["status"]).success();
}

#[test]
fn a_moved_worktree_that_is_gone_can_be_restored() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("m");
    tree.write("loose.txt", "loose\n");
    repo.agent(["snapshot", "m"]).success();
    let new = sandbox.work().join("elsewhere");
    repo.command("git")
        .args(["worktree", "move"])
        .args([tree.path(), &new])
        .run()
        .success();
    let by_hand = sandbox.work().join("by-hand");
    fs::rename(&new, &by_hand).expect("ours");
    repo.agent(["restore", "m"])
        .code(128)
        .assert_says("git worktree repair");
    fs::remove_dir_all(&by_hand).expect("ours");
    repo.agent(["restore", "m"]).success();
    assert_eq!(tree.read("loose.txt"), b"loose\n");
    repo.agent(["clean", "m"]).success();
    repo.git(["switch", "--quiet", "agent/m"]).success();
    repo.agent(["restore", "m"])
        .code(128)
        .assert_says("switch --detach");
}

#[test]
fn a_repository_that_was_moved_gets_its_worktrees_back() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let tree = repo.worktree_of("m").path().to_owned();
    let place = sandbox.work().join("r2");
    let repo = moved(&sandbox, repo, &place);
    let kept = repo.agent(["clean", "m"]).success();
    assert!(kept.stdout().contains("git agent doctor"), "{kept}");
    let found = told(&repo, &[]);
    assert!(found[0].contains("was this one moved?"), "{found:?}");
    told(&repo, &["--fix"]);
    assert_eq!(told(&repo, &[]), [""; 0]);
    Repo::open(&sandbox, &tree).git(["status"]).success();
    // One that leads to another repository is looked at by a person.
    let other = sandbox.repo("other").create();
    let link = format!("gitdir: {}\n", other.common_dir().display());
    fs::write(tree.join(".git"), &link).expect("ours");
    let found = told(&repo, &["--fix"]);
    assert!(found[0].contains("check its '.git'"), "{found:?}");
    let still = fs::read_to_string(tree.join(".git")).expect("it is there");
    assert_eq!(still, link);
}
