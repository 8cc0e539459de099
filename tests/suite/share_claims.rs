//! What others claim in what they share is not taken for the truth.

use git_agent_tests::{Member, Sandbox, Team, Way};

/// Commits a file to a branch of the hub that everybody has.
fn publish(member: &Member<'_>, file: &str) {
    let script = commit(file);
    member.command("sh").args(["-c", &script]).run().success();
    member.git(["push", "--quiet", "origin", "main"]).success();
}

/// Returns how many files somebody is told that a session changed.
fn files(member: &Member<'_>, name: &str) -> serde_json::Value {
    let listed = member.agent(["list", "--json", name]).success();
    listed.json()["sessions"][0]["changes"]["files"].clone()
}

fn commit(file: &str) -> String {
    format!("echo {file} >{file} && git add {file} && git commit -qm {file}")
}

#[test]
fn a_review_shows_everything_that_a_merge_would_bring() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let (ada, bob, carol) = (team.clone("ada"), team.clone("bob"), team.clone("carol"));
    ada.session("first", "a task", &commit("hidden"));
    ada.push().success();
    bob.fetch().success();
    // Its record names the first session's commit as its beginning.
    let seen = commit("seen");
    bob.agent(["fork", "first", "on", "--name", "next", "--", &seen])
        .success();
    bob.agent(["wait", "--timeout", "120s", "next"]).success();
    bob.push().success();
    carol.fetch().success();
    let shows_all = || {
        for verb in [
            &["review", "diff", "next"][..],
            &["review", "diff", "next", "--turn", "1"],
        ] {
            carol.shows(verb, "\n+hidden\n");
            carol.shows(verb, "\n+seen\n");
        }
        assert_eq!(files(&carol, "next"), 2);
    };
    assert_eq!(files(&bob, "next"), 2);
    shows_all();
    // Nor does it help to put the beginning on some branch.
    let code = ada.repo.session("first")["branch"].clone();
    let code = code.as_str().expect("a branch");
    ada.git(["push", "--quiet", "origin", &format!("{code}:evil")])
        .success();
    carol.git(["fetch", "--quiet"]).success();
    shows_all();
    carol.git(["checkout", "--quiet", "--detach"]).success();
    carol.git(["branch", "-D", "main"]).success();
    shows_all();
}

#[test]
fn a_parent_that_is_behind_does_not_lend_its_commits_to_a_session() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let (ada, bob) = (team.clone("ada"), team.clone("bob"));
    publish(&ada, "published");
    ada.session("work", "a task", &commit("own"));
    ada.push().success();
    bob.fetch().success();
    assert_eq!(files(&bob, "work"), 2, "nothing here tells them apart");
    bob.git(["fetch", "--quiet"]).success();
    assert_eq!(files(&bob, "work"), 1);
    let diff = bob.agent(["review", "diff", "work"]).success();
    assert!(!diff.stdout().contains("published"), "{diff}");
    // Without the branch itself, what the remote has of it counts.
    bob.git(["checkout", "--quiet", "--detach"]).success();
    bob.git(["branch", "-D", "main"]).success();
    assert_eq!(files(&bob, "work"), 1);
    // What has nothing in common with anything here is not shown as if it were something.
    bob.git(["checkout", "--quiet", "--orphan", "other"])
        .success();
    bob.git(["commit", "--quiet", "--allow-empty", "-m", "other"])
        .success();
    for name in ["main", "HEAD"] {
        let name = format!("refs/remotes/origin/{name}");
        bob.git(["update-ref", "-d", "--no-deref", &name]).success();
    }
    assert!(files(&bob, "work").is_null());
    bob.agent(["review", "diff", "work"])
        .code(128)
        .assert_says("cannot tell where the work of session 'work' begins");
}
