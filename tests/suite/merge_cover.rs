//! An approval covers what was compared in the review: work that the target lacks and nobody saw does not land with it.

use git_agent_tests::{Repo, Sandbox};
use serde_json::json;

use crate::merge_land::session;

/// A branch with work of its own, and a session made from it.
fn on_a_branch(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("lab").create();
    repo.git(["switch", "--quiet", "-c", "side"]).success();
    repo.write("unseen", "nobody looked at this\n");
    repo.commit("unseen");
    session(&repo, "fix", &["write fix 1", "commit fix"]);
    repo.git(["switch", "--quiet", "main"]).success();
    repo
}

/// A session, and another one made from it.
fn chain(repo: &Repo<'_>, steps: &[&str]) {
    session(repo, "low", steps);
    repo.new_session("high", &["--from", "low"], &["write high 2", "commit high"]);
    repo.await_state("high", "ready");
    assert_eq!(repo.session("high")["parent"], "agent/low");
}

/// Merges, and returns each session with what became of it.
#[track_caller]
fn merge(repo: &Repo<'_>, words: &[&str]) -> Vec<(String, String)> {
    let words = ["merge", "--porcelain"].iter().chain(words);
    let merged = repo.agent(words).whatever();
    let fields = |line: &&str| -> Vec<String> { line.split('\t').map(str::to_owned).collect() };
    let parts = merged.lines();
    let parts = parts.iter().map(fields);
    parts
        .map(|parts| (parts[0].clone(), parts[2].clone()))
        .collect()
}

fn became(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, what): &(&str, &str)| ((*name).to_owned(), (*what).to_owned());
    all.iter().map(owned).collect()
}

#[test]
fn what_the_parent_has_and_the_target_lacks_must_be_approved_too() {
    let sandbox = Sandbox::new();
    let repo = on_a_branch(&sandbox);
    let changed = |more: &[&str]| {
        let words = ["review", "diff", "fix", "--name-only"].iter().chain(more);
        repo.agent(words).success().stdout().to_owned()
    };
    assert_eq!(changed(&[]), "fix\n");
    repo.agent(["review", "approve", "fix"])
        .success()
        .assert_says("hint: git agent merge --into side fix");
    let main = repo.id("main");
    let refused = repo.agent(["merge", "--into", "main", "fix"]).code(1);
    let side = repo.id("side");
    let words = format!(
        "approved from {} on, but not the commit before",
        &side[..10]
    );
    assert!(refused.stdout().contains(&words), "{refused}");
    refused.assert_says("hint: git agent review diff fix --into main");
    assert_eq!(repo.id("main"), main);
    assert_eq!(
        merge(&repo, &["--into", "side", "--dry-run", "fix"]),
        became(&[("fix", "merges")])
    );
    let verdict = &repo
        .agent(["review", "list", "fix", "--json"])
        .success()
        .json()["verdicts"][0];
    assert_eq!(verdict["base"], json!(side));

    repo.agent(["review", "approve", "fix", "--into", "nowhere"])
        .code(128)
        .assert_says("branch 'nowhere' does not exist");
    assert_eq!(changed(&["--into", "main"]), "fix\nunseen\n");
    let approved = repo.agent(["review", "approve", "fix", "--into", "main", "--json"]);
    let approved = approved.success();
    approved.assert_says("hint: git agent merge --into main fix");
    assert_eq!(approved.json()["verdicts"][0]["base"], json!(main));
    assert_eq!(
        merge(&repo, &["--into", "main", "fix"]),
        became(&[("fix", "merged")])
    );
    assert_eq!(repo.read("unseen"), b"nobody looked at this\n");
}

#[test]
fn what_the_target_got_since_needs_no_other_approval() {
    let sandbox = Sandbox::new();
    let repo = on_a_branch(&sandbox);
    repo.agent(["review", "approve", "fix"]).success();
    assert_eq!(
        merge(&repo, &["--into", "main", "fix"]),
        became(&[("fix", "unseen")])
    );
    repo.git(["merge", "--quiet", "--no-ff", "-m", "side", "side"])
        .success();
    assert_eq!(
        merge(&repo, &["--into", "main", "fix"]),
        became(&[("fix", "merged")])
    );
}

#[test]
fn a_record_without_a_base_was_judged_against_the_parent() {
    let sandbox = Sandbox::new();
    let repo = on_a_branch(&sandbox);
    let (tip, sid) = (repo.id("agent/fix"), repo.session("fix")["id"].clone());
    let record = |base: Option<&str>| {
        let mut record = json!({
            "v": 1, "id": "01m7jgzt4qwe0s1k41jwdap000", "sid": sid, "lc": 1, "ts": 5,
            "who": {"n": "Bob", "e": "bob@x"}, "op": "verdict", "verdict": "approve",
            "commit": tip, "tree": repo.id("agent/fix^{tree}"),
        });
        if let Some(base) = base {
            record["base"] = base.into();
        }
        repo.git(
            ["notes", "--ref=bob", "add", "-f", "-m"]
                .into_iter()
                .chain([record.to_string().as_str(), tip.as_str()]),
        )
        .success();
        let theirs = "refs/agents-remote/bob/notes/review/bob-1a2b";
        repo.git(["update-ref", theirs, "refs/notes/bob"]).success();
    };
    let into = |branch| merge(&repo, &["--into", branch, "--dry-run", "fix"]);
    record(None);
    assert_eq!(into("side"), became(&[("fix", "merges")]));
    assert_eq!(into("main"), became(&[("fix", "unseen")]));
    // What is not here, or no commit at all, covers nothing.
    for base in ["1234567890123456789012345678901234567890", "--all", ""] {
        record(Some(base));
        assert_eq!(into("side"), became(&[("fix", "unseen")]), "{base}");
    }
    record(Some(&repo.id("main")));
    assert_eq!(into("main"), became(&[("fix", "merges")]));
}

#[test]
fn sessions_made_from_each_other_cover_each_other() {
    for style in ["--no-ff", "--squash", "--rebase"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("lab").create();
        chain(&repo, &["write low 1", "commit low"]);
        repo.agent(["review", "approve", "high"]).success();
        let alone = ["--into", "main", style, "high"];
        assert_eq!(merge(&repo, &alone), became(&[("high", "unseen")]));
        repo.agent(["review", "approve", "low"]).success();
        assert_eq!(
            merge(&repo, &alone),
            became(&[("high", "unseen")]),
            "the other one does not go in"
        );
        let both = ["--into", "main", style, "high", "low"];
        assert_eq!(
            merge(&repo, &both),
            became(&[("low", "merged"), ("high", "merged")]),
            "{style}"
        );
        assert_eq!(repo.read("high"), b"2\n");

        repo.agent(["merge", "--undo", "--yes"]).success();
        let first = ["--into", "main", style, "low"];
        assert_eq!(merge(&repo, &first), became(&[("low", "merged")]));
        assert_eq!(
            merge(&repo, &alone),
            became(&[("high", "merged")]),
            "what it builds on has landed: {style}"
        );
    }
}

#[test]
fn what_is_covered_by_another_session_stays_out_with_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("lab").create();
    repo.git(["config", "agent.test", "test ! -f bad"])
        .success();
    chain(&repo, &["write bad 1", "commit bad"]);
    repo.agent(["review", "approve", "low", "high"]).success();
    assert_eq!(
        merge(&repo, &["--into", "main", "high", "low"]),
        became(&[("low", "tests"), ("high", "needs")])
    );

    // A session that was written anew does not stand for what it was.
    let low = repo.worktree_of("low");
    low.git(["commit", "--quiet", "--amend", "-m", "another"])
        .success();
    repo.agent(["review", "approve", "low"]).success();
    assert_eq!(
        merge(&repo, &["--into", "main", "--no-test", "high", "low"]),
        became(&[("low", "merged"), ("high", "unseen")])
    );
}
