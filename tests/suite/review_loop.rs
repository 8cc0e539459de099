//! The loop of a review: an agent works, a person comments, the agent answers, the work is approved; and what makes an
//! approval stale.

use git_agent_tests::{Repo, Sandbox, wait_until};
use serde_json::Value;

/// An agent that makes a mistake, and when it is told of it, mends it, answers, and tries to approve itself.
const CODER: &str = r#"#!/bin/sh
case "$GIT_AGENT_PROMPT" in
*"Review comments"*)
    id=$(printf '%s\n' "$GIT_AGENT_PROMPT" | sed -n 's/.*review resolve \([0-9a-z]*\).*/\1/p' | sed -n 1p)
    printf 'zeroth\nfirst\nsecond\nthird\n' >code.txt
    git commit -qam "mend it" || exit 1
    git agent review reply "$id" -m "mended" || exit 1
    git agent review resolve "$id" || exit 1
    git agent review approve && exit 1
    env -u GIT_AGENT_SESSION git agent review approve coded && exit 1
    echo done
    ;;
*)
    printf 'first\nsecond\nthrid\n' >code.txt
    git add code.txt
    git commit -qm "write code" || exit 1
    echo loose >loose.txt
    echo written
    ;;
esac
"#;

fn comments(repo: &Repo<'_>, options: &[&str]) -> Vec<Value> {
    let listed = repo
        .agent_cmd(["review", "list", "--json"])
        .args(options)
        .run()
        .success()
        .json();
    listed["comments"].as_array().cloned().expect("a list")
}

fn verdict(repo: &Repo<'_>, name: &str) -> Value {
    repo.session(name)["verdict"].clone()
}

#[test]
fn a_turn_is_what_the_agent_did_in_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script =
        "n=$(ls t* 2>/dev/null | wc -l); echo $n >t$n; git add -A; git commit -qm t$n; echo done";
    repo.agent(["new", "s", "--", script]).success();
    repo.await_state("s", "ready");
    repo.write("of-the-parent", "news\n");
    repo.commit("the parent goes on");
    repo.agent(["update", "s"]).success();
    repo.worktree_of("s").write("of-a-person", "text\n");
    repo.agent(["send", "s", "again"]).success();
    wait_until("both turns are over", || {
        repo.session("s")["turns"] == 2 && repo.state("s") == "ready"
    });
    for (turn, files) in [("1", "t0\n"), ("2", "t1\n")] {
        let shown = repo
            .agent(["review", "diff", "s", "--name-only", "--turn", turn])
            .success();
        shown.assert_stdout(files);
    }
}

#[test]
fn the_loop_from_the_first_prompt_to_the_approval() {
    let sandbox = Sandbox::new();
    sandbox.program("coder", CODER);
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "--name", "coded", "write code", "--", "coder"])
        .success();
    repo.await_state("coded", "ready");
    repo.agent(["review", "list"])
        .success()
        .assert_says("no comments");
    let table = repo.agent(["review", "--porcelain"]).success();
    let fields: Vec<&str> = table.line().split('\t').collect();
    assert_eq!(
        fields[1..],
        ["ready", "2", "4", "0", "1", "1", "", "", "0", "coded"],
        "{table}"
    );
    let diff = repo.agent(["review", "diff", "coded"]).success();
    assert!(diff.stdout().contains("\n+thrid\n"), "{diff}");
    assert!(
        diff.stdout().contains("\n+loose\n"),
        "untracked work counts: {diff}"
    );

    repo.agent(["review", "comment", "coded", "code.txt:3", "-m", "a typo"])
        .success();
    repo.agent(["review", "comment", "coded", "-m", "otherwise fine"])
        .success();
    let woven = repo.agent(["review", "diff", "coded"]).success();
    let lines = woven.lines();
    let at = lines
        .iter()
        .position(|line| *line == "+thrid")
        .expect("the line");
    assert!(lines[at + 2].contains("a typo"), "{woven}");
    let session = repo.session("coded");
    assert_eq!(session["comments"]["open"], 2, "{session:#}");

    repo.agent(["review", "send", "coded"]).success();
    wait_until("the comment is resolved", || {
        comments(&repo, &["--resolved"]).len() == 1
    });
    repo.await_state("coded", "ready");
    let prompts = repo.texts("coded", "prompt");
    assert_eq!(prompts.len(), 2);
    assert!(prompts[1].contains("code.txt:3"), "{}", prompts[1]);
    assert!(prompts[1].contains("> a typo"), "{}", prompts[1]);
    let all = comments(&repo, &["--everything"]);
    let thread = all
        .iter()
        .find(|thread| thread["state"] == "resolved")
        .expect("one is resolved");
    assert_eq!(thread["sent_turn"], 2, "{thread:#}");
    assert_eq!(thread["comments"][1]["text"], "mended");
    let author = thread["comments"][1]["author"].as_str().expect("an author");
    assert!(
        author.ends_with("(coded)"),
        "the agent answers as itself: {author}"
    );
    assert_eq!(thread.get("line"), None, "the line is gone");
    repo.agent(["review", "send", "coded"])
        .code(1)
        .assert_says("no open comment left to send");

    let news = repo
        .agent(["review", "diff", "coded", "--since-review"])
        .success();
    assert!(news.stdout().contains("\n-thrid\n+third\n"), "{news}");
    assert!(
        !news.stdout().contains("loose"),
        "that was seen before: {news}"
    );
    let turn = repo
        .agent(["review", "diff", "coded", "--turn", "1", "--name-only"])
        .success();
    assert_eq!(turn.lines(), ["code.txt", "loose.txt"]);

    assert_eq!(
        verdict(&repo, "coded"),
        Value::Null,
        "it could not approve itself"
    );
    repo.agent(["review", "approve", "coded", "-m", "good"])
        .success();
    assert_eq!(repo.state("coded"), "approved");
    assert_eq!(verdict(&repo, "coded"), "approve");

    let tree = repo.worktree_of("coded");
    tree.write("loose.txt", "loose!\n");
    assert_eq!(verdict(&repo, "coded"), "stale", "one more byte");
    tree.write("loose.txt", "loose\n");
    assert_eq!(
        verdict(&repo, "coded"),
        "approve",
        "exactly what was approved"
    );
    tree.git(["commit", "--quiet", "--allow-empty", "-m", "one more"])
        .success();
    assert_eq!(verdict(&repo, "coded"), "stale", "one more commit");
    let table = repo.agent(["review"]).success();
    assert!(table.stdout().contains("stale approval"), "{table}");
    repo.assert_nothing_left_over();
}

#[test]
fn objections_and_own_words() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("a", &[], &["write f one", "print done"]);
    repo.await_state("a", "ready");
    repo.agent(["review", "request-changes", "a", "-m", "tests are missing"])
        .success();
    assert_eq!(repo.state("a"), "changes-requested");
    assert_eq!(verdict(&repo, "a"), "request-changes");
    repo.agent(["review", "approve", "a"]).success();
    assert_eq!(
        verdict(&repo, "a"),
        "approve",
        "the last word of a writer counts"
    );

    repo.agent(["review", "comment", "a", "f:1", "-m", "hm"])
        .success();
    let id = comments(&repo, &["a"])[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let end = &id[id.len() - 6..];
    repo.agent(["review", "edit", end, "-m", "better words"])
        .success();
    repo.agent(["review", "reply", end, "-m", "an answer", "--resolve"])
        .success();
    let all = comments(&repo, &["--everything"]);
    assert_eq!(all[0]["comments"][0]["text"], "better words");
    assert_eq!(all[0]["comments"][0]["edited"], true);
    assert_eq!(all[0]["state"], "resolved");
    repo.agent(["review", "reopen", &id]).success();
    assert_eq!(comments(&repo, &["a"])[0]["state"], "open");
    // Inside a session it is the agent who speaks, and a person's words are not its own.
    let sid = repo.session("a")["id"].as_str().expect("an id").to_owned();
    repo.agent_cmd(["review", "delete", end])
        .env("GIT_AGENT_SESSION", &sid)
        .run()
        .code(128)
        .assert_says("only its author may change it");
    repo.agent(["review", "delete", end]).success();
    assert_eq!(
        comments(&repo, &["a"])[0]["comments"][0]["text"],
        "an answer"
    );
    repo.agent(["review", "reject", "a"]).success();
    assert_eq!(repo.state("a"), "rejected");
    repo.agent(["review", "resolve", "zzzzzz"])
        .code(128)
        .assert_says("no comment 'zzzzzz'");
}

#[test]
fn comments_follow_their_lines() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let body: String = (1..=30).map(|n| format!("line number {n}\n")).collect();
    repo.write("old.txt", &body);
    repo.commit("lines");
    repo.new_session("s", &[], &["append old.txt one more", "print done"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "old.txt:20", "-m", "here"])
        .success();
    repo.agent(["review", "comment", "s", "old.txt:25-27", "-m", "these"])
        .success();
    let tree = repo.worktree_of("s");
    let place = || {
        let all = comments(&repo, &["s"]);
        let lines = |at: usize| all[at]["line"].as_u64();
        let path = all[0]["path"].as_str().unwrap_or_default().to_owned();
        (path, lines(0), lines(1))
    };
    let at = |path: &str, one: u64, other: u64| (path.to_owned(), Some(one), Some(other));
    assert_eq!(place(), at("old.txt", 20, 25));
    // Edited above, not committed.
    tree.write("old.txt", format!("a\nb\n{body}one more\n"));
    assert_eq!(place(), at("old.txt", 22, 27));
    tree.commit("edited");
    // Renamed and edited in one commit.
    tree.git(["mv", "old.txt", "new.txt"]).success();
    tree.write(
        "new.txt",
        format!(
            "a\n{}one more\n",
            body.replace("number 3\n", "number three\n")
        ),
    );
    tree.commit("renamed");
    assert_eq!(place(), at("new.txt", 21, 26));
    // Rebased onto a parent that grew.
    repo.write("other.txt", "news\n");
    repo.commit("the parent goes on");
    tree.git(["rebase", "--quiet", "main"]).success();
    assert_eq!(place(), at("new.txt", 21, 26));
    // Squashed.
    tree.git(["reset", "--quiet", "--soft", "main"]).success();
    tree.commit("all in one");
    repo.git(["reflog", "expire", "--expire=now", "--all"])
        .success();
    repo.git(["gc", "--quiet", "--prune=now"]).success();
    assert_eq!(place(), at("new.txt", 21, 26));
    // Gone: one line, and one of three.
    let gone = body
        .replace("line number 20\n", "")
        .replace("line number 26\n", "other\n");
    tree.write("new.txt", gone);
    let all = comments(&repo, &["s", "--outdated"]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["code"][0], "line number 20");
    let shown = repo.agent(["review", "diff", "s"]).success();
    assert!(
        shown.stdout().contains("~ line number 20"),
        "with the code it was about: {shown}"
    );
    repo.assert_nothing_left_over();
}

#[test]
fn the_same_conversation_goes_on_over_acp() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let store = sandbox.root().join("conversations");
    std::fs::create_dir_all(&store).expect("the sandbox is writable");
    let command = format!("fake-acp --store '{}'", store.display());
    repo.git(["config", "agent.fake.command", &command])
        .success();
    repo.git(["config", "agent.fake.driver", "acp"]).success();
    repo.agent(["new", "--name", "acp", "--agent", "fake", "write f.txt one"])
        .success();
    repo.await_state("acp", "ready");
    repo.agent(["review", "comment", "acp", "f.txt:1", "-m", "two, please"])
        .success();
    let preface = "write f.txt two\n\
                   bash git agent review resolve $(git agent review list --porcelain acp | cut -f1)";
    repo.agent(["review", "send", "acp", "-m", preface])
        .success();
    wait_until("the second turn is over", || {
        let session = repo.session("acp");
        session["turns"] == 2 && session["state"] == "ready"
    });
    let said = repo.texts("acp", "assistant").join("\n");
    assert!(
        said.contains("turn=2"),
        "it remembers the first turn: {said}"
    );
    assert_eq!(comments(&repo, &["--resolved"]).len(), 1);
    let news = repo
        .agent(["review", "diff", "acp", "--since-review"])
        .success();
    assert!(news.stdout().contains("+two"), "{news}");
    repo.agent(["review", "approve", "acp"]).success();
    assert_eq!(verdict(&repo, "acp"), "approve");
    repo.assert_nothing_left_over();
}

#[test]
fn machines_are_told_what_was_done() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    let run = |words: &[&str], form: &str| repo.agent_cmd(["review"]).args(words).arg(form).run();
    let made = run(&["comment", "s", "f:2", "-m", "why?"], "--json").success();
    made.assert_says(", f:2: two");
    let id = made.json()["comments"][0]["id"].as_str().map(str::to_owned);
    let id = id.expect("an id").as_str().to_owned();
    let answer = run(&["reply", &id, "-m", "so"], "--porcelain").success();
    assert!(
        comments(&repo, &["s"])[0]["comments"][1]["id"] == answer.line(),
        "{answer}"
    );
    for words in [
        &["resolve", id.as_str()][..],
        &["reopen", &id],
        &["edit", &id, "-m", "why then?"],
        &["delete", &id],
    ] {
        assert_eq!(run(words, "--porcelain").success().line(), id);
        let told = run(words, "--json").success().json();
        assert_eq!(told["comments"][0]["id"], id.as_str(), "{words:?}");
    }
    // What is deleted stays so, and nobody is told otherwise.
    let notes = repo.refs("refs/agents/notes/review");
    let again = repo.agent(["review", "delete", &id]).success();
    again.assert_says("is already deleted");
    let lost = repo.agent(["review", "edit", &id, "-m", "more"]).code(128);
    lost.assert_says("was deleted");
    lost.assert_says("the text is kept in");
    assert_eq!(repo.refs("refs/agents/notes/review"), notes);
    let judged = run(&["reject", "s"], "--json").success().json();
    let verdict = &judged["verdicts"][0];
    assert_eq!(
        (&verdict["name"], &verdict["verdict"]),
        (&"s".into(), &"reject".into())
    );
    let judged = run(&["approve", "s"], "--porcelain").success();
    let field = |key: &str| verdict[key].as_str().expect("an id");
    let end = format!("\t{}\t{}", field("tree"), field("base"));
    assert!(judged.line().ends_with(&end), "{judged}");

    run(&["comment", "s", "--turn", "1", "-m", "hm"], "--json").success();
    let prompt = repo.agent(["review", "send", "s", "--dry-run"]).success();
    assert!(
        prompt.stdout().contains("Turn 1 of the conversation\n"),
        "{prompt}"
    );

    // Whoever counted lines in what was shown is told that they have moved.
    repo.agent(["review", "diff", "s"]).success();
    let above = repo.worktree_of("s");
    above.write("f", "zero\none\ntwo\n");
    let made = run(&["comment", "s", "f:2", "-m", "here?"], "--json").success();
    made.assert_says("f:2 was 'two' in the last diff you saw");
    made.assert_says(", f:2: one");
}
