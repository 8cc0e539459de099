//! Guard level `cell`: a git directory of its own for each turn, made before and taken over after it.

use std::fs;

use git_agent_tests::{Hash, RefFormat, Repo, Sandbox, wait_until};

/// Workflows of git that agents use. All must work in a cell without a word of complaint.
const WORKFLOWS: [(&str, &str); 18] = [
    (
        "add and commit",
        "echo 1 > f1; git add f1; git commit -qm f1",
    ),
    ("amend", "echo 2 > f1; git commit -qam x --amend"),
    (
        "switch and back",
        "git switch -qc topic; echo t > t; git add t; git commit -qm t; git switch -q agent/work",
    ),
    ("merge", "git merge -q --no-ff -m m topic"),
    (
        "rebase",
        "git switch -q topic; echo r > r; git add r; git commit -qm r; git rebase -q agent/work; git switch -q agent/work",
    ),
    (
        "interactive rebase",
        "echo i > i; git add i; git commit -qm i; GIT_SEQUENCE_EDITOR='sed -i s/^pick/reword/' git rebase -q -i HEAD~1",
    ),
    ("cherry-pick", "git cherry-pick topic >/dev/null"),
    ("revert", "git revert --no-edit HEAD >/dev/null"),
    ("reset", "git reset -q --hard HEAD~1"),
    (
        "stash",
        "echo s > f1; git stash -q; git stash pop -q; git checkout -q -- f1",
    ),
    (
        "tag",
        "git tag v1; git tag -a -m v2 v2; git tag -d v1 >/dev/null",
    ),
    (
        "branches",
        "git branch b1; git branch -m b1 b2; git branch -D b2 >/dev/null",
    ),
    (
        "bisection",
        "git bisect start HEAD HEAD~2 >/dev/null 2>&1 && git bisect good >/dev/null 2>&1 && git bisect reset >/dev/null 2>&1",
    ),
    (
        "configuration",
        "git config user.signature x; git config --unset user.signature",
    ),
    ("packing", "git pack-refs --all; git gc -q --prune=now"),
    (
        "reflog",
        "git reflog expire --expire=now --all; git reflog >/dev/null",
    ),
    (
        "worktree",
        "git worktree add -q inner topic; git worktree remove -f inner",
    ),
    (
        "a merge with a conflict",
        "git switch -qc left; echo l > c; git add c; git commit -qm l; git switch -q agent/work; echo w > c; git add c; git commit -qm w; git merge -q left >/dev/null 2>&1; echo both > c; git add c; git commit -qm both",
    ),
];

fn start(repo: &Repo<'_>, name: &str, script: &str) {
    repo.agent(["new", name, "--guard", "cell", "--", "sh", "-c", script])
        .success();
}

fn run(repo: &Repo<'_>, name: &str, script: &str) {
    start(repo, name, script);
    repo.agent(["wait", name, "--timeout", "100s"]).success();
}

fn with_a_commit(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.write("a", "1\n");
    repo.commit("one");
    repo.write("a", "2\n");
    repo.commit("two");
    repo
}

#[track_caller]
fn assert_at_home(repo: &Repo<'_>, name: &str) {
    let worktree = repo.worktree_of(name);
    let link = fs::read_to_string(worktree.path().join(".git")).expect("a file");
    assert!(link.contains("/worktrees/"), "{link}");
    worktree.git(["status"]).success();
    repo.assert_nothing_left_over();
}

#[test]
fn every_workflow_works_in_a_cell() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    let mut script = String::new();
    for (name, commands) in WORKFLOWS {
        // The output of what went well would hide complaints.
        script.push_str(&format!(
            "( {commands}\n) 2>complaints || echo 'FAILED: {name}'; test ! -s complaints || {{ echo 'COMPLAINT: {name}'; cat complaints; }}; rm -f complaints\n"
        ));
    }
    run(&repo, "work", &script);
    let said = repo.texts("work", "output").join("\n");
    assert!(
        !said.contains("FAILED") && !said.contains("COMPLAINT"),
        "{said}"
    );
    let branches = repo.refs("refs/heads/");
    assert_eq!(
        branches.keys().map(String::as_str).collect::<Vec<_>>(),
        ["refs/heads/agent/work", "refs/heads/main"]
    );
    assert!(repo.refs("refs/tags/").is_empty());
    let worktree = repo.worktree_of("work");
    assert_eq!(worktree.read("c"), b"both\n");
    worktree.git(["diff", "--quiet", "HEAD"]).success();
    assert_at_home(&repo, "work");
    assert_eq!(repo.session("work")["guard"], "cell");
}

#[test]
fn nothing_of_a_cell_is_lost() {
    for (hash, refs) in [
        (Hash::Sha1, RefFormat::Files),
        (Hash::Sha256, *RefFormat::available().last().expect("one")),
    ] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").hash(hash).refs(refs).create();
        repo.write("a", "1\n");
        repo.commit("one");
        repo.write("a", "of the user\n");
        repo.git(["stash"]).success();
        let stashes = repo.git(["stash", "list"]).success().stdout().to_owned();
        run(
            &repo,
            "work",
            "echo x > own; git add own; git commit -qm own; echo y > a; git stash -q; git switch -qc other; \
             echo z > z; git add z; git commit -qm foreign; git tag seen; git switch -q agent/work; \
             echo staged > staged; git add staged; echo loose > loose; git stash list",
        );
        let worktree = repo.worktree_of("work");
        assert_eq!(
            repo.git(["log", "-1", "--format=%s", "agent/work"])
                .success()
                .line(),
            "own"
        );
        assert_eq!(
            worktree.git(["status", "--porcelain"]).success().stdout(),
            "A  staged\n?? loose\n"
        );
        assert_eq!(repo.git(["stash", "list"]).success().stdout(), stashes);
        assert!(repo.refs("refs/tags/").is_empty());
        let lost = repo.refs("refs/agents-local/lost/");
        let subjects: Vec<String> = lost
            .keys()
            .map(|name| {
                repo.git(["log", "-1", "--format=%s", name])
                    .success()
                    .line()
                    .to_owned()
            })
            .collect();
        assert!(
            subjects.iter().any(|text| text == "foreign"),
            "{subjects:?}"
        );
        assert!(
            subjects.iter().any(|text| text.contains("on agent/work")),
            "{subjects:?}"
        );
        let told = repo.texts("work", "notice").join("\n");
        assert!(told.contains("'other' of the session is kept as"), "{told}");
        assert!(
            told.contains("stash@{0} of the session is kept as"),
            "{told}"
        );
        // The stash waits for the next turn.
        repo.agent(["send", "work", "again"]).success();
        repo.agent(["wait", "work", "--timeout", "100s"]).whatever();
        let said = repo.texts("work", "output").join("\n");
        assert!(said.matches("stash@{0}").count() >= 1, "{said}");
        assert_at_home(&repo, "work");
    }
}

#[test]
fn commits_are_seen_while_the_agent_works() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    start(
        &repo,
        "work",
        "echo x > own; git add own; git commit -qm own; while ! test -e go-on; do sleep 0.05; done; rm go-on",
    );
    wait_until("the commit is seen", || repo.session("work")["ahead"] == 1);
    assert_eq!(repo.state("work"), "running");
    let worktree = repo.worktree_of("work");
    let link = fs::read_to_string(worktree.path().join(".git")).expect("a file");
    assert!(link.contains("/agents/cells/"), "{link}");
    // A person's own git there.
    assert_eq!(
        worktree.git(["log", "-1", "--format=%s"]).success().line(),
        "own"
    );
    worktree.git(["status"]).success();
    worktree.write("go-on", "");
    repo.agent(["wait", "work", "--timeout", "100s"]).success();
    assert_at_home(&repo, "work");
}

#[test]
fn a_dead_turn_is_finished_by_the_next_command() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    start(
        &repo,
        "work",
        "echo x > own; git add own; git commit -qm own; echo y > loose; sleep 600",
    );
    let worktree = repo.worktree_of("work");
    wait_until("the agent has worked", || {
        worktree.path().join("loose").exists()
    });
    let run = repo.common_dir().join("agents/run");
    let note = fs::read_dir(run)
        .expect("there")
        .flatten()
        .find(|entry| entry.path().extension().is_some_and(|end| end == "json"));
    let note = fs::read_to_string(note.expect("one runs").path()).expect("readable");
    let note: serde_json::Value = serde_json::from_str(&note).expect("JSON");
    let pid = note["supervisor"]["pid"].as_i64().expect("a pid");
    sandbox.sh(format!("kill -9 {pid}")).run().success();
    wait_until("the session is interrupted", || {
        repo.state("work") == "interrupted"
    });
    assert_eq!(
        repo.git(["log", "-1", "--format=%s", "agent/work"])
            .success()
            .line(),
        "own"
    );
    assert_eq!(
        worktree.git(["status", "--porcelain"]).success().stdout(),
        "?? loose\n"
    );
    let link = fs::read_to_string(worktree.path().join(".git")).expect("a file");
    assert!(link.contains("/worktrees/"), "{link}");
    repo.assert_whole();
}

#[test]
fn a_level_that_was_asked_for_is_held_or_refused() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    repo.git(["config", "extensions.partialClone", "origin"])
        .success();
    repo.agent(["new", "asked", "--guard", "cell", "--", "true"])
        .success();
    repo.agent(["wait", "asked", "--timeout", "100s"]).failure();
    let told = repo.session("asked").to_string();
    assert!(
        told.contains("a partial clone fetches objects while it works"),
        "{told}"
    );
    repo.agent_cmd(["new", "usual", "--", "true"])
        .env_remove("GIT_AGENT_TEST_GUARD")
        .run()
        .success();
    repo.agent(["wait", "usual", "--timeout", "100s"])
        .whatever();
    let told = repo.texts("usual", "notice").join("\n");
    assert!(told.contains("guard level 'refs', not 'cell'"), "{told}");
    assert_eq!(repo.session("usual")["guard"], "refs");
    repo.agent(["new", "x", "--guard", "walls", "--", "true"])
        .code(129);
}

#[test]
fn a_reader_writes_nothing_and_reads_everything() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    repo.agent([
        "new", "read", "--read-only", "--guard", "cell", "--", "sh", "-c",
        "git log --oneline; git status --short; echo x > a || echo refused; echo y > new || echo refused too",
    ])
    .success();
    repo.agent(["wait", "read", "--timeout", "100s"]).success();
    let said = repo.texts("read", "output").join("\n");
    assert!(
        said.contains("two") && said.contains("refused\n") && said.contains("refused too"),
        "{said}"
    );
    assert_eq!(repo.worktree_of("read").read("a"), b"2\n");
}

#[test]
fn an_agent_asks_its_supervisor_and_gets_only_its_own() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    run(
        &repo,
        "work",
        "git agent list --json | grep -c '\"name\":\"work\"'; git agent stop work || echo no stop; \
         git agent review approve work || echo no verdict; git agent new x -- true || echo no session",
    );
    let said = repo.texts("work", "output").join("\n");
    for words in [
        "1",
        "no stop",
        "no verdict",
        "no session",
        "is not for agents",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(repo.sessions().len(), 1);
}
