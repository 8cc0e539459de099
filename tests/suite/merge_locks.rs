//! Lock files of git that a killed merge, undo or commit leaves: the next command goes on without anybody's help.

use std::path::{Path, PathBuf};
use std::time::Duration;

use git_agent_tests::faults::{Action, Plan};
use git_agent_tests::sandbox::write_program;
use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox, wait_until};

use crate::merge_land::{lab, session, state};

/// Kills everything from the hook up to the program of ours that works, once, when `LOCKED` says that git holds a lock.
const KILL: &str = r#"#!/bin/sh
if [ -e "$0.armed" ] && LOCKED; then
    rm "$0.armed"
    pid=$$
    all=
    while [ "$pid" -gt 1 ]; do
        pid=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat")
        all="$all $pid"
        case "$(cat "/proc/$pid/comm")" in git-agent*) break ;; esac
    done
    kill -9 $all
fi
"#;

/// Makes the next command that moves a branch die with the git that holds the locks.
fn arm(repo: &Repo<'_>) {
    let locked = r#"[ "$1" = prepared ] && grep -q "refs/heads/""#;
    arm_hook(repo, "reference-transaction", locked);
}

fn arm_hook(repo: &Repo<'_>, name: &str, locked: &str) -> PathBuf {
    let hooks = repo.common_dir().join("hooks");
    std::fs::create_dir_all(&hooks).expect("writable");
    let hook = hooks.join(name);
    write_program(&hook, &KILL.replace("LOCKED", locked));
    std::fs::write(hook.with_extension("armed"), "").expect("writable");
    hook
}

/// Returns the lock files of git in a repository.
fn locks(repo: &Repo<'_>) -> Vec<PathBuf> {
    let common = repo.common_dir();
    let ours = common.join("agents");
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == "lock");
    files_below(&common)
        .into_iter()
        .filter(|path| is_lock(path) && !path.starts_with(&ours))
        .collect()
}

fn journal(repo: &Repo<'_>) -> PathBuf {
    repo.common_dir().join("agents/merge/now.json")
}

/// Asserts that nothing of an interrupted command is left.
#[track_caller]
fn at_rest(repo: &Repo<'_>) {
    assert_eq!(locks(repo), Vec::<PathBuf>::new());
    assert!(!journal(repo).exists(), "a journal is left");
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), "", "{status}");
}

#[test]
fn a_merge_killed_with_its_git_is_followed_by_one_that_lands() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "write new file"]);
    let before = state(&repo);
    arm(&repo);
    repo.agent(["merge", "fix"]).whatever();
    assert!(!locks(&repo).is_empty(), "git died with its locks");
    repo.agent(["merge", "--abort"]).success();
    assert_eq!(state(&repo), before);
    at_rest(&repo);
    arm(&repo);
    repo.agent(["merge", "fix"]).whatever();
    assert!(!locks(&repo).is_empty(), "git died with its locks");
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("new"), b"file\n");
    assert_eq!(repo.state("fix"), "merged");
    at_rest(&repo);
}

#[test]
fn a_merge_killed_while_git_refreshes_the_index_is_followed_by_one_that_lands() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    // Git runs the filter under the lock to see whether a touched file changed.
    let filter = arm_hook(&repo, "filter", "[ -e \"$1\" ]");
    let index_lock = repo.common_dir().join("index.lock");
    let clean = format!("'{}' '{}'; cat", filter.display(), index_lock.display());
    repo.git(["config", "filter.slow.clean", &clean]).success();
    let attributes = repo.common_dir().join("info/attributes");
    std::fs::create_dir_all(repo.common_dir().join("info")).expect("writable");
    std::fs::write(attributes, "app filter=slow\n").expect("writable");
    let app = repo.read("app");
    repo.write("app", app);
    repo.agent(["merge", "fix"]).whatever();
    assert!(index_lock.exists(), "git died with its lock");
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("app"), b"changed\n");
    at_rest(&repo);
}

#[test]
fn a_merge_waits_for_a_git_that_holds_the_index_of_the_session() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let worktree = repo.worktree_of("fix");
    let lock = [
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "index.lock",
    ];
    let lock = PathBuf::from(worktree.git(lock).success().line());
    let tip = || repo.git(["rev-parse", "main"]).success().line().to_owned();
    let before = tip();
    let merge = repo
        .command("git")
        .args(["agent", "merge", "fix"])
        .env("GIT_AGENT_TEST_FAULT", "merge.recording:sleep:1500")
        .spawn();
    wait_until("the merge lands", || tip() != before);
    std::fs::write(&lock, "").expect("writable");
    // Longer than the merge sleeps: it meets the lock.
    std::thread::sleep(Duration::from_secs(3));
    std::fs::remove_file(&lock).expect("nobody else may remove it");
    let merged = merge.wait().success();
    assert!(!merged.stderr().contains("index.lock"), "{merged}");
    at_rest(&repo);
    let status = worktree.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), "", "{status}");
}

#[test]
fn an_undo_killed_with_its_git_is_ended_by_the_next() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "one", &["write one file"]);
    repo.agent(["merge", "one"]).success();
    session(&repo, "fix", &["write app changed"]);
    let before = state(&repo);
    repo.agent(["merge", "fix"]).success();
    arm(&repo);
    repo.agent(["merge", "--undo"]).whatever();
    assert!(!locks(&repo).is_empty(), "git died with its locks");
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(state(&repo), before);
    assert_eq!(repo.state("one"), "merged");
    at_rest(&repo);
}

#[test]
fn an_undo_that_died_is_ended_and_no_second_merge_is_undone() {
    for step in [
        "land.locked",
        "land.committed",
        "undo.moved",
        "undo.dropped",
    ] {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox);
        session(&repo, "one", &["write one file"]);
        repo.agent(["merge", "one"]).success();
        session(&repo, "fix", &["write app changed"]);
        let before = repo.id("main");
        repo.agent(["merge", "fix"]).success();
        let plan = Plan::meet(step.to_owned(), Action::Kill);
        plan.apply(repo.agent_cmd(["merge", "--undo"]))
            .run()
            .whatever();
        assert!(plan.fired(), "{step}");
        repo.agent(["merge", "--undo"]).success();
        assert_eq!(repo.id("main"), before, "{step}");
        assert_eq!(repo.state("one"), "merged", "{step}");
        assert_eq!(repo.state("fix"), "ready", "{step}");
        at_rest(&repo);
    }
}

#[test]
fn an_undo_that_died_counts_as_done_where_somebody_went_on_since() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    repo.agent(["merge", "fix"]).success();
    let plan = Plan::meet("land.committed".to_owned(), Action::Kill);
    plan.apply(repo.agent_cmd(["merge", "--undo"]))
        .run()
        .whatever();
    repo.write("mine", "of the user\n");
    repo.commit("the user goes on");
    repo.agent(["merge", "--abort"]).whatever();
    assert_eq!(repo.state("fix"), "ready");
    assert_eq!(repo.read("mine"), b"of the user\n");
    at_rest(&repo);
}

#[test]
fn a_commit_killed_with_its_git_is_followed_by_one_that_commits() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    arm(&repo);
    repo.agent(["commit", "fix"]).whatever();
    assert!(!locks(&repo).is_empty(), "git died with its locks");
    repo.agent(["commit", "fix"]).success();
    let worktree = repo.worktree_of("fix");
    worktree
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
    assert_eq!(worktree.read("app"), b"changed\n");
    at_rest(&repo);
}

#[test]
fn a_listing_and_doctor_remove_what_a_killed_merge_locked() {
    for heals in [&["list"][..], &["doctor", "--fix"]] {
        let sandbox = Sandbox::new();
        let repo = lab(&sandbox);
        session(&repo, "fix", &["write app changed"]);
        arm(&repo);
        repo.agent(["merge", "fix"]).whatever();
        assert!(!locks(&repo).is_empty(), "git died with its locks");
        repo.agent(heals).whatever();
        assert_eq!(locks(&repo), Vec::<PathBuf>::new(), "{heals:?}");
        repo.agent(["merge", "fix"]).success();
        at_rest(&repo);
    }
}

#[test]
fn a_lock_that_was_there_before_stays() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let before = state(&repo);
    let lock = repo.common_dir().join("refs/heads/main.lock");
    std::fs::write(&lock, "").expect("writable");
    let refused = repo.agent(["merge", "fix"]).failure();
    assert!(refused.stderr().contains("main.lock"), "{refused}");
    assert!(lock.exists(), "it is somebody else's");
    assert!(!journal(&repo).exists(), "a refused merge leaves nothing");
    repo.agent(["merge", "fix"]).failure();
    assert!(lock.exists(), "it is somebody else's");
    std::fs::remove_file(&lock).expect("there");
    assert_eq!(state(&repo), before);
    repo.agent(["merge", "fix"]).success();
    at_rest(&repo);
}

#[test]
fn no_branch_is_locked_while_files_are_checked_out() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write a.slow file"]);
    let seen = sandbox.root().join("seen");
    let locks = repo.common_dir().join("refs/heads");
    let script = sandbox.root().join("filter.sh");
    let text = format!(
        "case \"$(pwd)\" in */lab) ls '{}' >'{}' ;; esac\ncat\n",
        locks.display(),
        seen.display()
    );
    std::fs::write(&script, text).expect("writable");
    let command = format!("sh '{}'", script.display());
    repo.git(["config", "filter.slow.smudge", &command])
        .success();
    let info = repo.common_dir().join("info");
    std::fs::create_dir_all(&info).expect("a directory");
    std::fs::write(info.join("attributes"), "*.slow filter=slow\n").expect("writable");
    repo.agent(["merge", "fix"]).success();
    let seen = std::fs::read_to_string(&seen).expect("the filter ran");
    assert!(!seen.contains("lock"), "{seen}");
    assert!(seen.contains("main"), "{seen}");
}

#[test]
fn a_hook_that_refuses_a_branch_leaves_files_and_branch_as_they_were() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed", "write new file"]);
    let before = state(&repo);
    let hook = repo.common_dir().join("hooks/reference-transaction");
    std::fs::create_dir_all(hook.parent().expect("a directory")).expect("writable");
    let script = "#!/bin/sh\n[ \"$1\" = prepared ] && grep -q refs/heads/main && exit 1\nexit 0\n";
    write_program(&hook, script);
    repo.agent(["merge", "fix"]).failure();
    std::fs::remove_file(&hook).expect("there");
    assert_eq!(state(&repo), before);
    at_rest(&repo);
}

#[test]
fn a_turn_begins_without_the_locks_that_a_killed_one_left_in_its_worktree() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["append app more", "commit it"]);
    let worktree = repo.worktree_of("fix");
    let own = worktree.git(["rev-parse", "--absolute-git-dir"]).success();
    let own = Path::new(own.stdout().trim()).to_owned();
    let left = [
        own.join("index.lock"),
        own.join("HEAD.lock"),
        repo.common_dir().join("refs/heads/agent/fix.lock"),
    ];
    for path in &left {
        std::fs::write(path, "").expect("writable");
    }
    let tip = repo.id("agent/fix");
    repo.agent(["send", "fix", "once more"]).success();
    repo.agent(["wait", "fix"]).success();
    assert_ne!(repo.id("agent/fix"), tip, "the agent could commit");
    assert_eq!(locks(&repo), Vec::<PathBuf>::new());
    let log = repo.agent(["log", "fix"]).success();
    assert!(log.stdout().contains("index.lock"), "{log}");
}
