//! Only what was approved lands: exactly that, and nothing that came later.

use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session, state};

/// A lab where an approval is needed, as it is unless somebody says otherwise.
fn strict(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    repo.git(["config", "--unset", "agent.mergeStrategy"])
        .success();
    repo.git(["config", "--unset", "agent.test"]).success();
    repo
}

#[track_caller]
fn refuses(repo: &Repo<'_>, words: &str) {
    let before = state(repo);
    let refused = repo.agent(["merge", "fix"]).code(1);
    assert!(
        refused.stdout().contains(words),
        "'{words}' is not in\n{refused}"
    );
    assert_eq!(state(repo), before);
}

#[test]
fn an_approval_counts_for_exactly_what_was_seen() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(
        &repo,
        "fix",
        &["write app changed", "commit x", "write draft uncommitted"],
    );
    let worktree = repo.worktree_of("fix");
    refuses(&repo, "not approved");
    let quiet = repo
        .agent(["merge", "--into", "main", "--porcelain"])
        .code(1);
    assert!(quiet.stdout().contains("\tnot-approved\t"), "{quiet}");

    repo.agent(["review", "approve", "fix"]).success();
    worktree.write("draft", "one more byte\n");
    refuses(&repo, "changed after it was approved");
    worktree.write("draft", "uncommitted\n");
    worktree
        .git(["commit", "--quiet", "--allow-empty", "-m", "one more"])
        .success();
    refuses(&repo, "changed after it was approved");
    repo.agent(["review", "request-changes", "fix", "-m", "no"])
        .success();
    refuses(&repo, "changes are requested");

    repo.agent(["review", "approve", "fix"]).success();
    repo.agent(["merge", "--into", "main"]).success();
    assert_eq!(repo.state("fix"), "merged");
    assert_eq!(repo.read("draft"), b"uncommitted\n");
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(repo.state("fix"), "approved");
    repo.agent(["merge", "--no-test", "fix"]).success();
    let notices = repo.texts("fix", "notice");
    assert!(
        notices.iter().any(|text| text.contains("without tests")),
        "{notices:?}"
    );
    let notes = repo.refs("refs/agents/notes/provenance");
    let name = notes.keys().next().expect("notes");
    let text = repo.git(["grep", "-h", "tests", name]).success();
    assert!(text.stdout().contains(r#""tests":"skipped""#), "{text}");
    repo.agent(["review", "reject", "fix"]).whatever();
}

/// Returns the state and the verdict that each command tells of a session.
fn told(repo: &Repo<'_>, name: &str) -> Vec<(String, String, String)> {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    [vec!["list"], vec!["show", name], vec!["review", name]]
        .into_iter()
        .map(|mut words| {
            let verb = words[0].to_owned();
            words.extend(["--json"]);
            let all = repo.agent(words).success().json();
            let all = all["sessions"].as_array().cloned().expect("sessions");
            let mut found = all.iter().filter(|session| session["name"] == name);
            let found = found.next().expect("the session");
            (verb, word(&found["state"]), word(&found["verdict"]))
        })
        .collect()
}

#[test]
fn every_command_tells_the_same_state_and_verdict() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    let steps = ["write app changed", "write draft x", "print done"];
    session(&repo, "fix", &steps);
    let same = |state: &str, verdict: &str| {
        for (verb, told, judged) in told(&repo, "fix") {
            assert_eq!((told.as_str(), judged.as_str()), (state, verdict), "{verb}");
        }
    };
    same("ready", "-");
    repo.agent(["review", "approve", "fix"]).success();
    same("approved", "approve");
    let worktree = repo.worktree_of("fix");
    let before = worktree.read("draft");
    worktree.write("draft", "another\n");
    same("ready", "stale");
    let stale = repo.agent(["list", "--approved", "--porcelain"]).success();
    stale.assert_stdout("");
    repo.agent(["wait", "--timeout", "1s", "--state", "approved", "fix"])
        .failure();
    worktree.write("draft", before);
    same("approved", "approve");

    // Merged, taken up again without a change, and the merge undone: it is again what was approved.
    repo.agent(["merge", "fix"]).success();
    let merged = repo.agent(["review", "list", "--everything", "--json", "fix"]);
    let merged = merged.success().json();
    assert_eq!(merged["verdicts"][0]["stale"], false, "{merged:#}");
    repo.agent(["send", "fix", "go on"]).success();
    repo.agent(["wait", "--timeout", "60s", "fix"]).success();
    repo.agent(["merge", "--undo"]).success();
    same("approved", "approve");
    repo.agent(["wait", "--timeout", "9s", "--state", "approved", "fix"])
        .success();
    let listed = repo.agent(["list", "--approved", "--porcelain"]).success();
    assert_eq!(listed.lines().len(), 1, "{listed}");
}

#[test]
fn an_approval_of_what_landed_is_not_stale() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    repo.agent_cmd([
        "new",
        "--json",
        "try",
        "--versions",
        "2",
        "--",
        "fake-agent",
    ])
    .args(["write app changed", "write draft x"])
    .run()
    .success();
    let names: Vec<String> = (repo.sessions().iter())
        .filter_map(|session| session["name"].as_str().map(str::to_owned))
        .collect();
    for name in &names {
        repo.await_state(name, "ready");
    }
    repo.agent(["review", "approve", &names[0]]).success();
    repo.agent(["merge", "--pick", "--yes", &names[0]])
        .success();
    repo.agent(["clean"]).success();
    let listed = repo
        .agent(["review", "list", "--everything", "--json"])
        .success()
        .json();
    let verdicts = listed["verdicts"].as_array().expect("verdicts");
    assert_eq!(verdicts.len(), 1, "{listed:#}");
    assert_eq!(verdicts[0]["stale"], false, "{listed:#}");
    let shown = repo.agent(["show", "--json", &names[0]]).success().json();
    let shown = &shown["sessions"][0];
    assert_eq!(shown["state"], "merged");
    assert_eq!(shown["verdict"], "approve", "{shown:#}");
    let shown = repo.agent(["list", "--all", "--json"]).success().json();
    let shown = shown["sessions"].as_array().expect("sessions");
    let merged = shown.iter().find(|session| session["state"] == "merged");
    assert_eq!(merged.expect("it")["verdict"], "approve");
}

#[test]
fn bytes_that_come_while_it_lands_stay_out() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "fix", &["write app changed", "write draft approved"]);
    repo.agent(["review", "approve", "fix"]).success();
    let worktree = repo.worktree_of("fix");
    let late = format!("echo late >>'{}'", worktree.path().join("draft").display());
    repo.agent(["merge", "--test", &late, "fix"]).success();
    assert_eq!(repo.read("draft"), b"approved\n");
    assert_eq!(worktree.read("draft"), b"approved\nlate\n");
    let status = worktree.git(["status", "--porcelain"]).success();
    assert_eq!(
        status.stdout(),
        " M draft
"
    );
    repo.git(["show", "agent/fix:draft"])
        .success()
        .assert_stdout("approved\n");
}

#[test]
fn what_builds_on_others_waits_for_them() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    session(&repo, "base", &["write base 1", "commit x"]);
    repo.new_session("top", &["--after", "base"], &["write top 2", "commit y"]);
    repo.await_state("top", "ready");
    repo.agent(["review", "approve", "top"]).success();
    let refused = repo.agent(["merge", "top"]).code(1);
    assert!(refused.stdout().contains("builds on 'base'"), "{refused}");
    repo.agent(["review", "approve", "base"]).success();
    let shown = repo
        .agent(["merge", "--into", "main", "--porcelain"])
        .success();
    let names: Vec<&str> = shown
        .lines()
        .iter()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["base", "top"], "{shown}");
    assert_eq!(
        (repo.state("base"), repo.state("top")),
        ("merged".into(), "merged".into())
    );
}

#[test]
fn marks_of_a_conflict_do_not_land() {
    let sandbox = Sandbox::new();
    let repo = strict(&sandbox);
    let marked = "write app <<<<<<< ours\\none\\n=======\\ntwo\\n>>>>>>> theirs";
    session(&repo, "fix", &[marked, "commit x"]);
    repo.agent(["review", "approve", "fix"]).success();
    refuses(&repo, "conflict markers at app:1");
}
