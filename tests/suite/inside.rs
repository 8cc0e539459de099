//! Commands given inside sessions: what they may not decide, change or share, and what is said of what they did.

use git_agent_tests::{Repo, Sandbox};

/// Runs a session whose agent is a shell script, to its end.
#[track_caller]
fn script(repo: &Repo<'_>, name: &str, options: &[&str], script: &str) {
    repo.agent_cmd(["new", "--json", "--name", name, "task"])
        .args(options)
        .args(["--", "sh", "-c", script])
        .run()
        .success();
    repo.await_state(name, "ready");
}

/// Makes a session with work that waits for a verdict.
#[track_caller]
fn work(repo: &Repo<'_>, name: &str) {
    let made = format!("echo {name} >{name}; git add .; git commit -qm {name}");
    script(repo, name, &[], &made);
}

#[track_caller]
fn log(repo: &Repo<'_>, name: &str) -> String {
    repo.agent(["log", name]).success().stdout().to_owned()
}

#[test]
fn an_approval_from_inside_a_session_lets_nothing_land() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    work(&repo, "s");
    script(
        &repo,
        "other",
        &["--read-only"],
        "git agent review approve s 2>&1",
    );
    let said = log(&repo, "other");
    assert!(said.contains("does not count"), "{said}");
    assert!(!said.contains("git agent merge --into"), "{said}");
    assert_eq!(repo.state("s"), "ready");
    assert!(repo.session("s")["verdict"].is_null());
    let refused = repo.agent(["merge", "s"]).code(1);
    let why = "the approval by command (other) was given inside a session";
    assert!(refused.stdout().contains(why), "{refused}");
    let shown = repo.agent(["show", "s"]).success();
    assert!(
        shown
            .stdout()
            .contains("does not count: given inside a session"),
        "{shown}"
    );
    let all = repo
        .agent(["review", "list", "s", "--json"])
        .success()
        .json();
    assert_eq!(all["verdicts"][0]["ignored"], "given inside a session");
    assert_eq!(all["verdicts"][0]["who"], "command (other)");
    // Named by the session, its agent, or its role it counts, and only then.
    repo.git(["config", "agent.approvers", "somebody"])
        .success();
    assert!(repo.session("s")["verdict"].is_null());
    repo.git(["config", "--add", "agent.approvers", "other"])
        .success();
    assert_eq!(repo.session("s")["verdict"], "approve");
    repo.agent(["merge", "s"]).success();
    assert_eq!(repo.state("s"), "merged");
}

#[test]
fn two_sessions_do_not_approve_each_other() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.approvers", "command"]).success();
    work(&repo, "one");
    work(&repo, "two");
    let approve = |by: &str, name: &str| {
        let id = repo.session(by)["id"].as_str().map(str::to_owned);
        repo.agent_cmd(["review", "approve", name])
            .env("GIT_AGENT_SESSION", id.expect("an id"))
            .run()
            .success();
    };
    approve("one", "two");
    assert_eq!(repo.session("two")["verdict"], "approve");
    approve("two", "one");
    for name in ["one", "two"] {
        assert!(repo.session(name)["verdict"].is_null(), "{name}");
        repo.agent(["merge", name]).code(1);
    }
}

#[test]
fn a_review_by_an_agent_names_what_was_decided_and_moved_meanwhile() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    work(&repo, "s");
    work(&repo, "other");
    let sly = "git agent review approve s other >/dev/null 2>&1
        git -c core.hooksPath=/dev/null branch sly
        echo '[]'";
    let said = repo.agent(["review", "ai", "s", "--", sly]).success();
    said.assert_says("'command (review-s)' approved 's' meanwhile; it does not count");
    said.assert_says("'command (review-s)' approved 'other' meanwhile; it does not count");
    said.assert_says("'refs/heads/sly' appeared meanwhile");
    repo.agent(["merge", "--into", "main", "--yes"]).code(1);
    let quiet = repo.agent(["review", "ai", "s", "--", "echo '[]'"]);
    let quiet = quiet.success();
    assert!(!quiet.stderr().contains("meanwhile"), "{quiet}");
}

#[test]
fn an_agent_changes_no_other_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    work(&repo, "other");
    let before = (repo.refs(""), repo.state("other"));
    let verbs = [
        "stop other",
        "restart other",
        "resume other",
        "send other hello",
        "answer other yes",
        "exec other -- touch hacked",
        "run other",
        "commit other",
        "update other",
        "snapshot other",
        "restore other",
        "rewind other --turn 0",
        "recreate other",
        "clean other",
        "forget other",
        "forget inside",
        "purge --local",
        "push -y",
        "doctor --fix",
        "config set agent.test true",
        "merge other",
        "merge --undo",
        "merge queue add other",
        "merge resolve other",
        "review send other",
    ];
    let lines: Vec<String> = verbs
        .iter()
        .map(|verb| format!("echo \"<{verb}>\"; git agent {verb} </dev/null 2>&1; echo \"=$?\""))
        .collect();
    let own = "
        echo x >x; git agent snapshot >/dev/null && echo snapshot-ok
        git agent commit --force >/dev/null && echo commit-ok
        git agent list >/dev/null && git agent show other >/dev/null && echo read-ok
        git agent review comment other -m 'a remark' >/dev/null && echo comment-ok
        env -u GIT_AGENT_SESSION git agent stop other 2>&1";
    script(
        &repo,
        "inside",
        &[],
        &format!("{}\n{own}\ntrue", lines.join("\n")),
    );
    let said = log(&repo, "inside");
    for verb in verbs {
        let answer = said.split(&format!("<{verb}>")).nth(1).unwrap_or_default();
        let answer = answer.split("\n").take(12).collect::<Vec<_>>().join("\n");
        let answer = answer.split('<').next().unwrap_or_default();
        assert!(
            answer.contains("this runs in session 'inside'") && !answer.contains("=0"),
            "{verb}: {answer}\n{said}"
        );
    }
    for word in ["snapshot-ok", "commit-ok", "read-ok", "comment-ok"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let others = |refs: &std::collections::BTreeMap<String, String>| {
        let is_other = |name: &str| name.starts_with("refs/heads/") && !name.ends_with("/inside");
        let kept = refs.iter().filter(|(name, _)| is_other(name));
        kept.map(|(name, id)| (name.clone(), id.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(others(&repo.refs("")), others(&before.0));
    assert_eq!(repo.state("other"), before.1);
    assert!(!repo.worktree_of("other").path().join("hacked").exists());
    // A person in a session's worktree is no agent.
    repo.agent(["exec", "inside", "--", "git", "agent", "stop", "other"])
        .success();
}

#[test]
fn only_its_own_branch_is_pushed_from_a_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let remote = sandbox.repo("remote").bare().create();
    let url = remote.path().display().to_string();
    repo.git(["remote", "add", "origin", &url]).success();
    repo.git(["push", "-q", "origin", "main"]).success();
    let main = remote.refs("refs/heads")["refs/heads/main"].clone();
    let pushes = "echo x >x; git add .; git commit -qm x
        git push -q origin HEAD:main 2>&1
        git push -q origin HEAD:refs/tags/v1 2>&1
        git push -q origin HEAD HEAD:other 2>&1
        git push -q origin :main 2>&1
        git push -q origin HEAD && echo pushed-own";
    script(&repo, "s", &[], pushes);
    let said = log(&repo, "s");
    let refs = remote.refs("refs");
    let names: Vec<&str> = refs.keys().map(String::as_str).collect();
    assert_eq!(names, ["refs/heads/agent/s", "refs/heads/main"], "{said}");
    assert_eq!(refs["refs/heads/main"], main);
    assert!(said.contains("pushed-own"), "{said}");
    assert_eq!(
        said.matches("git-agent: this session may push only 'agent/s'")
            .count(),
        4,
        "{said}"
    );
    let told = repo.texts("s", "guard");
    let has = |words: &str| told.iter().any(|text| text.contains(words));
    assert!(
        has("the guard let refs/heads/agent/s be pushed to"),
        "{told:?}"
    );
    assert!(
        has("the guard refused to push refs/heads/main to"),
        "{told:?}"
    );
    // A reader pushes nothing.
    script(
        &repo,
        "reader",
        &["--read-only"],
        "git push origin HEAD 2>&1; true",
    );
    assert_eq!(remote.refs("refs"), refs);
}

#[test]
fn tests_of_a_merge_decide_and_move_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["branch", "victim"]).success();
    repo.git(["config", "agent.test", "sh test.sh"]).success();
    work(&repo, "c");
    let test = "cat >test.sh <<'X'\n\
        echo \"mark:$GIT_AGENT_SESSION guard:${GIT_AGENT_GUARD+set}\"\n\
        git agent review approve c\n\
        git branch -f victim HEAD\n\
        git -c core.hooksPath=/dev/null branch sly\n\
        git agent stop c\n\
        git commit -q --allow-empty -m here && echo committed\n\
        exit 0\nX\ngit add .; git commit -qm tested";
    script(&repo, "s", &[], test);
    let victim = repo.refs("refs/heads")["refs/heads/victim"].clone();
    repo.agent(["review", "approve", "s"]).success();
    let merged = repo.agent(["merge", "s"]).success();
    let refs = repo.refs("refs/heads");
    assert_eq!(refs["refs/heads/victim"], victim);
    assert!(repo.session("c")["verdict"].is_null());
    merged.assert_says("'refs/heads/sly' appeared while the tests ran");
    merged.assert_says("the guard refused to move refs/heads/victim");
    let logs = repo.common_dir().join("agents/merge/tests");
    let text: String = std::fs::read_dir(logs)
        .expect("logs")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    let sid = repo.session("s")["id"].as_str().map(str::to_owned);
    let mark = format!("mark:{}/test guard:set", sid.expect("an id"));
    assert!(text.contains(&mark), "{text}");
    assert!(text.contains("committed"), "{text}");
    assert!(
        text.contains("the tests of a merge cannot give a verdict"),
        "{text}"
    );
    assert!(text.contains("this runs in session 's'"), "{text}");
}

#[test]
fn a_setup_command_runs_under_guard() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    work(&repo, "c");
    repo.git(["branch", "victim"]).success();
    let before = repo.refs("refs/heads");
    let setup = "git commit -q --allow-empty -m x; git branch -f victim HEAD
        git -c core.hooksPath=/dev/null branch sly; git agent review approve c; true";
    repo.git(["config", "agent.setup", setup]).success();
    script(&repo, "s", &[], "echo done");
    assert_eq!(
        repo.refs("refs/heads")["refs/heads/victim"],
        before["refs/heads/victim"]
    );
    assert!(repo.session("c")["verdict"].is_null());
    let told = repo.texts("s", "guard");
    let has = |words: &str| told.iter().any(|text| text.contains(words));
    assert!(has("refused to move refs/heads/victim"), "{told:?}");
    assert!(has("'refs/heads/sly' appeared"), "{told:?}");
}
