//! `git agent answer`: one question after the other, each with the thing that is asked for.

use git_agent_tests::{Repo, Sandbox};

fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    let store = sandbox.root().join("conversations");
    std::fs::create_dir_all(&store).expect("the sandbox is writable");
    let command = format!("fake-acp --store '{}'", store.display());
    repo.git(["config", "agent.fake.command", &command])
        .success();
    repo.git(["config", "agent.fake.driver", "acp"]).success();
    repo.git(["config", "agent.default", "fake"]).success();
    repo
}

fn ask(repo: &Repo<'_>, name: &str, script: &str) {
    repo.agent(["new", "--name", name, "--ask", script])
        .success();
    repo.await_state(name, "waiting");
}

/// What the agent says that it was answered.
fn heard(repo: &Repo<'_>, name: &str) -> String {
    let events = repo.events(name);
    let texts = events.iter().filter_map(|event| event["text"].as_str());
    let words: String = texts.filter(|text| text.contains("answer=")).collect();
    let at = words.find("answer=").expect("it was answered") + "answer=".len();
    words[at..]
        .split_whitespace()
        .next()
        .expect("a word")
        .to_owned()
}

#[test]
fn without_arguments_it_goes_through_everything_that_waits() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent(["answer"])
        .success()
        .assert_stdout("")
        .assert_says("no session waits for an answer");
    ask(&repo, "one", "ask rm -rf build");
    ask(&repo, "two", "ask edit src/a.py");
    let shown = repo.agent(["answer"]).success();
    for words in [
        "one (fake) asks: rm -rf build",
        "$ rm -rf build",
        "two (fake) asks: edit src/a.py",
        "- two",
        "+ TWO",
        "1. Allow\n  2. Always allow\n  3. Reject",
    ] {
        assert!(
            shown.stdout().contains(words),
            "'{words}' is not in {shown}"
        );
    }
    let rows = repo.agent(["answer", "--json"]).success().json();
    assert_eq!(rows["requests"][1]["name"], "two");
    assert_eq!(rows["requests"][1]["request"]["options"][0]["id"], "yes");

    let walked = repo
        .agent_cmd(["answer"])
        .env("GIT_TERMINAL_PROMPT", "1")
        .on_terminal()
        .stdin("maybe\nn\n1\n")
        .run()
        .success();
    assert!(walked.stdout().contains("does not answer"), "{walked}");
    repo.await_state("one", "ready");
    repo.await_state("two", "ready");
    assert_eq!(heard(&repo, "one"), "no");
    assert_eq!(
        heard(&repo, "two"),
        "yes",
        "the first option never grants for ever"
    );
}

#[test]
fn a_question_can_be_skipped_and_is_asked_again() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    ask(&repo, "one", "ask edit a");
    let walk = |typed: &str| {
        repo.agent_cmd(["answer", "one"])
            .env("GIT_TERMINAL_PROMPT", "1")
            .on_terminal()
            .stdin(typed)
            .run()
    };
    walk("\n").success();
    walk("q\n").code(1);
    assert_eq!(repo.state("one"), "waiting");
    walk("a\n").success();
    repo.await_state("one", "ready");
    assert_eq!(heard(&repo, "one"), "always");
    repo.agent(["answer", "one"])
        .code(128)
        .assert_says("it has no open question");
}

#[test]
fn a_number_means_the_option_that_is_shown_with_it() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    for (name, number, meant) in [("a", "1", "yes"), ("b", "2", "always"), ("c", "3", "no")] {
        ask(&repo, name, "ask edit file");
        let shown = repo.agent(["show", name]).success();
        assert!(shown.stdout().contains("+ TWO"), "{shown}");
        repo.agent(["answer", name, number]).success();
        repo.await_state(name, "ready");
        assert_eq!(heard(&repo, name), meant);
    }
}
