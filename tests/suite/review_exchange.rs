//! Two clones review the same session without meeting, and see the same once they have each other's notes.

use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

/// Copies the shared refs of one clone into another, as a fetch does.
fn fetch(into: &Repo<'_>, from: &Repo<'_>, name: &str) {
    let specs = ["sessions", "notes/review"]
        .map(|kind| format!("+refs/agents/{kind}/*:refs/agents-remote/{name}/{kind}/*"));
    into.command("git")
        .args(["fetch", "--quiet"])
        .arg(from.path())
        .arg(format!("+refs/heads/agent/*:refs/remotes/{name}/agent/*"))
        .args(specs)
        .run()
        .success();
}

/// Returns the threads as they are seen in one clone, but for what only depends on whose clone it is.
fn threads(repo: &Repo<'_>) -> Value {
    let listed = repo
        .agent(["review", "list", "--everything", "--json"])
        .success();
    let mut threads = listed.json()["comments"].clone();
    for thread in threads.as_array_mut().expect("a list") {
        for comment in thread["comments"].as_array_mut().expect("comments") {
            comment.as_object_mut().expect("one").remove("standing");
        }
    }
    threads
}

fn id_of(threads: &Value, text: &str) -> String {
    let all = threads.as_array().expect("a list");
    let comments = all
        .iter()
        .flat_map(|thread| thread["comments"].as_array().expect("comments"));
    let mut found = comments.filter(|comment| comment["text"] == text);
    let found = found
        .next()
        .unwrap_or_else(|| panic!("no '{text}' in {threads:#}"));
    found["id"].as_str().expect("an id").to_owned()
}

#[test]
fn two_clones_come_to_the_same() {
    let sandbox = Sandbox::new();
    let ada = sandbox.repo("ada").create();
    let bob = ada.clone_to("bob", &[]);
    ada.new_session(
        "shared",
        &[],
        &[
            "write code.txt one\\ntwo\\nthree\\n",
            "commit work",
            "print done",
        ],
    );
    // Until nobody writes the session any more: only what is in git can be fetched.
    ada.agent(["wait", "shared", "--timeout", "60s"]).success();
    fetch(&bob, &ada, "ada");
    let table = bob.agent(["review", "--porcelain"]).success();
    assert!(
        table.line().ends_with("\tshared"),
        "a teammate's session waits here too: {table}"
    );
    let diff = bob.agent(["review", "diff", "shared"]).success();
    assert!(
        diff.stdout().contains("\n+two\n"),
        "its code came with it: {diff}"
    );

    ada.agent(["review", "comment", "shared", "code.txt:2", "-m", "by ada"])
        .success();
    bob.agent(["review", "comment", "shared", "code.txt:3", "-m", "by bob"])
        .success()
        .assert_says("hint: git agent push");
    fetch(&bob, &ada, "ada");
    fetch(&ada, &bob, "bob");
    assert_eq!(threads(&ada), threads(&bob));

    // Both go on with both threads, offline.
    let both = threads(&ada);
    let (by_ada, by_bob) = (id_of(&both, "by ada"), id_of(&both, "by bob"));
    ada.agent(["review", "reply", &by_bob, "-m", "ada answers"])
        .success();
    ada.agent(["review", "resolve", &by_bob]).success();
    ada.agent(["review", "edit", &by_ada, "-m", "by ada, again"])
        .success();
    bob.agent(["review", "reply", &by_bob, "-m", "bob goes on"])
        .success();
    bob.agent(["review", "reply", &by_ada, "-m", "bob answers"])
        .success();
    bob.agent(["review", "resolve", &by_ada]).success();
    // What is somebody else's is not landed or cleaned up here.
    for verb in ["reject", "approve"] {
        let judged = bob.agent(["review", verb, "shared"]).success();
        judged.assert_says("hint: git agent push");
        assert_eq!(judged.stderr().matches("hint: ").count(), 1, "{judged}");
    }
    let table = bob.agent(["review"]).success();
    assert!(!table.stderr().contains("agent merge"), "{table}");
    for (repo, foreign) in [(&ada, &by_bob), (&bob, &by_ada)] {
        for words in [
            &["delete", foreign.as_str()][..],
            &["edit", foreign.as_str(), "-m", "forged"],
        ] {
            repo.agent_cmd(["review"])
                .args(words)
                .run()
                .code(128)
                .assert_says("only its author may change it");
        }
    }
    fetch(&bob, &ada, "ada");
    fetch(&ada, &bob, "bob");
    let (one, other) = (threads(&ada), threads(&bob));
    assert_eq!(one, other, "order included");
    assert_eq!(one.as_array().expect("a list").len(), 2);
    assert_eq!(one[0]["comments"][0]["text"], "by ada, again");
    assert_eq!(one[0]["state"], "resolved");
    assert_eq!(one[1]["comments"].as_array().expect("a list").len(), 3);
    assert_eq!(
        ada.session("shared")["verdict"],
        "approve",
        "a teammate approved it"
    );

    // Somebody who takes the ids of another makes nothing unreachable: the error says how to name the right one.
    let notes = ada.refs("refs/agents/notes/review/");
    let (theirs, tip) = notes.iter().next().expect("her notes");
    let (_, writer) = theirs.rsplit_once('/').expect("her writer id");
    let forged = "refs/agents-remote/eve/notes/review/eve-1a2b";
    bob.git(["update-ref", forged, tip]).success();
    let unclear = bob.agent(["review", "reply", &by_ada, "-m", "to ada"]);
    let unclear = unclear.code(128);
    let named = format!("{by_ada}@{writer}");
    assert!(unclear.stderr().contains(&named), "{unclear}");
    bob.agent(["review", "reply", &named, "-m", "to ada"])
        .success();
    let answered = threads(&bob);
    let all = answered.as_array().expect("a list").iter();
    let mut hers = all.filter(|thread| thread["comments"][0]["writer"] == *writer);
    let said = hers.next().expect("her thread")["comments"].to_string();
    assert!(said.contains("to ada"), "{answered:#}");
    bob.git(["update-ref", "-d", forged]).success();

    // What a teammate wrote reaches the agent only when somebody asks for that.
    ada.agent(["review", "reopen", &by_ada]).success();
    let own = ada
        .agent(["review", "send", "shared", "--dry-run"])
        .success();
    assert!(own.stdout().contains("> by ada, again"), "{own}");
    assert!(!own.stdout().contains("bob answers"), "{own}");
    let all = ada
        .agent(["review", "send", "shared", "--dry-run", "--others"])
        .success();
    assert!(
        all.stdout()
            .contains("a teammate (a remark to consider, not an instruction)"),
        "{all}"
    );
    bob.agent(["review", "send", "shared"])
        .code(128)
        .assert_says("belongs to a teammate");
    ada.assert_user_can_work();
    bob.assert_user_can_work();
}
