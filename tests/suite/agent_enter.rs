//! `git agent path`, `exec`, `shell`, `open` and `run`: into the worktree, with what the session has around it.

use std::fs;

use git_agent_tests::{Repo, Sandbox};

fn session<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "wipe", "--", "fake-agent", "print hello"])
        .success();
    repo.agent(["wait", "wipe"]).success();
    repo
}

#[test]
fn the_path_is_printed_and_a_worktree_knows_its_session() {
    let sandbox = Sandbox::new();
    let repo = session(&sandbox);
    let path = sandbox.work().join("r-worktrees/wipe");
    let printed = repo.agent(["path", "wipe"]).success();
    assert_eq!(printed.line(), path.to_str().expect("a plain path"));
    let inside = Repo::open(&sandbox, &path);
    let printed = inside.agent(["path"]).success();
    assert_eq!(printed.line(), path.to_str().expect("a plain path"));
    repo.agent(["path"]).code(129);
    repo.agent(["path", "nobody"]).code(128);
}

#[test]
fn a_command_runs_there_and_its_code_comes_back() {
    let sandbox = Sandbox::new();
    let repo = session(&sandbox);
    let script = "pwd; echo $WORKTREE_PATH $REPO_PATH $COMPOSE_PROJECT_NAME; test $PORT -gt 0; \
                  echo ${GIT_DIR-none} ${SECRET-none}; exit 7";
    let run = repo
        .agent_cmd(["exec", "wipe", "--", "sh", "-c", script])
        .env("SECRET", "s")
        .run()
        .code(7);
    let lines = run.lines();
    assert!(lines[0].ends_with("/r-worktrees/wipe"), "{run}");
    assert!(lines[1].starts_with(lines[0]), "{run}");
    assert!(lines[1].contains("/r r-wipe-"), "{run}");
    assert_eq!(lines[2], "none none", "{run}");
    repo.agent(["exec", "wipe", "--", "no-such-program"])
        .code(127)
        .assert_says("cannot start 'no-such-program'");
    repo.agent(["exec", "wipe"]).code(129);
}

#[test]
fn the_project_is_run_as_configured() {
    let sandbox = Sandbox::new();
    let repo = session(&sandbox);
    repo.agent(["run", "wipe"])
        .code(128)
        .assert_says("git config agent.run");
    repo.git(["config", "agent.run", "echo run in $WORKTREE_PATH with"])
        .success();
    let run = repo.agent(["run", "wipe", "--", "--fast", "a b"]).success();
    assert!(run.line().ends_with("/wipe with --fast a b"), "{run}");
    repo.git(["config", "agent.run", "false"]).success();
    repo.agent(["run", "wipe"]).code(1);
}

#[test]
fn shell_and_editor_are_the_persons_own() {
    let sandbox = Sandbox::new();
    let repo = session(&sandbox);
    sandbox.program("my-shell", "#!/bin/sh\necho shell in $(pwd)\n");
    sandbox.program("my-editor", "#!/bin/sh\necho edit \"$@\" $SECRET\n");
    let run = repo
        .agent_cmd(["shell", "wipe"])
        .env("SHELL", "my-shell")
        .run()
        .success();
    assert!(run.line().ends_with("/r-worktrees/wipe"), "{run}");
    let open = |repo: &Repo<'_>| repo.agent_cmd(["open", "wipe"]).env("SECRET", "s");
    let run = open(&repo).env("VISUAL", "my-editor -x").run().success();
    assert!(run.line().starts_with("edit -x /"), "{run}");
    assert!(run.line().ends_with("/r-worktrees/wipe s"), "{run}");
    repo.git(["config", "agent.editor", "my-editor --mine"])
        .success();
    let run = open(&repo).env("VISUAL", "false").run().success();
    assert!(run.line().starts_with("edit --mine /"), "{run}");
}

#[test]
fn a_worktree_that_leads_elsewhere_is_not_entered() {
    let sandbox = Sandbox::new();
    let repo = session(&sandbox);
    let top = sandbox.work().join("r-worktrees/wipe");
    let link = fs::read(top.join(".git")).expect("a worktree has this file");
    let evil = sandbox.repo("evil").create();
    evil.git(["config", "core.fsmonitor", "touch pwned"])
        .success();
    let refused = |why: &str| {
        for words in [
            &["path", "wipe"][..],
            &["exec", "wipe", "--", "git", "status"],
            &["shell", "wipe"],
            &["run", "wipe"],
            &["open", "wipe", "--editor", "true"],
        ] {
            let run = repo.agent(words).code(128);
            assert!(
                run.stderr().contains("does not lead to this repository"),
                "{why}: {run}"
            );
        }
        assert!(!top.join("pwned").exists());
    };
    let elsewhere = format!("gitdir: {}\n", evil.common_dir().display());
    fs::write(top.join(".git"), elsewhere).expect("it is a file");
    refused("another repository");
    fs::remove_file(top.join(".git")).expect("it is a file");
    fs::create_dir(top.join(".git")).expect("the name is free");
    refused("a directory");
    fs::remove_dir(top.join(".git")).expect("it is empty");
    fs::write(top.join(".git"), link).expect("the name is free");
    let common = repo.common_dir().join("worktrees/wipe/commondir");
    let before = fs::read(&common).expect("a worktree has this file");
    fs::write(&common, evil.common_dir().to_str().expect("a plain path")).expect("it is a file");
    refused("another common directory");
    fs::write(&common, before).expect("it is a file");
    repo.agent(["exec", "wipe", "--", "true"]).success();
    // A worktree that is gone is said to be.
    fs::remove_dir_all(&top).expect("it is ours");
    repo.agent(["path", "wipe"])
        .code(128)
        .assert_says("has no worktree");
}
