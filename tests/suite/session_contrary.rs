//! Sessions under settings, answers and agents that are not as they should be: nothing is lost, nothing is let through, and
//! what is said is true.

use git_agent_tests::{Repo, Sandbox, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Makes an agent of a shell script that speaks the protocol: `hear` waits for a call, `tell RESULT` answers it.
fn acp<'a>(sandbox: &'a Sandbox, script: &str) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    let head = "#!/bin/sh\nhear() { IFS= read -r line || exit 0; id=${line#*\\\"id\\\":}; id=${id%%[,\\}]*}; }\n\
                tell() { printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\\n' \"$id\" \"$1\"; }\n";
    sandbox.program("contrary", &format!("{head}{script}\n"));
    repo.git(["config", "agent.contrary.command", "contrary"])
        .success();
    repo.git(["config", "agent.contrary.driver", "acp"])
        .success();
    repo
}

const OPENING: &str =
    "hear; tell '{\"protocolVersion\":1}'\nhear; tell '{\"sessionId\":\"s\"}'\nhear; prompt=$id\n";

/// Returns the step in which an agent asks with these options, keeps the answer in a file and ends its turn.
fn asking(options: &str) -> String {
    format!(
        "{OPENING}printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"session/request_permission\",\"params\":\
         {{\"sessionId\":\"s\",\"toolCall\":{{\"toolCallId\":\"t\",\"title\":\"do it\"}},\"options\":[{options}]}}}}'\n\
         IFS= read -r answer; printf '%s' \"$answer\" >answer\nid=$prompt; tell '{{\"stopReason\":\"end_turn\"}}'\nhear"
    )
}

fn none_left(repo: &Repo<'_>) {
    assert!(repo.sessions().is_empty(), "{:#?}", repo.sessions());
    assert!(repo.refs("refs/agents").is_empty());
    assert_eq!(repo.refs("refs/heads").len(), 1);
}

#[test]
fn a_prompt_that_was_cut_short_comes_before_those_that_wait() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "echo \"$GIT_AGENT_PROMPT\" >>begun; until test -e go; do sleep 0.05; done; \
                  echo \"$GIT_AGENT_PROMPT\" >>done";
    repo.agent(["new", "--name", "q", "first", "--", script])
        .success();
    let tree = repo.worktree_of("q");
    wait_until("the first turn has begun", || {
        tree.path().join("begun").exists()
    });
    repo.agent(["send", "q", "second"]).success();
    let pid = repo.session("q")["pid"].as_i64().expect("it runs");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("ours");
    repo.await_state("q", "interrupted");
    tree.write("go", "");
    repo.agent(["restart", "q"]).success();
    wait_until("both turns are over", || {
        std::fs::read_to_string(tree.path().join("done")).is_ok_and(|text| text.contains("second"))
    });
    repo.await_state("q", "ready");
    assert_eq!(tree.read("done"), b"first\nsecond\n");
}

#[test]
fn what_an_agent_or_a_person_says_at_length_takes_no_session_away() {
    let sandbox = Sandbox::new();
    let long = "hear; tell '{\"protocolVersion\":1}'\nhear\n\
                tell \"{\\\"sessionId\\\":\\\"$(head -c 90000 /dev/zero | tr '\\0' q)\\\"}\"\nhear";
    let repo = acp(&sandbox, long);
    repo.agent(["new", "--name", "long", "--agent", "contrary", "x"])
        .success();
    repo.await_state("long", "failed");
    let words = "q".repeat(90_000);
    repo.agent(["new", "slow", "--", "echo on; sleep 60"])
        .success();
    repo.await_state("slow", "running");
    repo.agent(["stop", "slow", "-m", &words]).success();
    assert_eq!(repo.state("slow"), "stopped");
    for option in ["--model", "--group"] {
        repo.agent(["new", "odd", option, &words, "--", "true"])
            .code(129);
    }
    assert_eq!(repo.sessions().len(), 2);
    repo.assert_nothing_left_over();
}

#[test]
fn an_answer_to_the_opening_that_is_none_is_no_crash() {
    let sandbox = Sandbox::new();
    let script = "hear; tell 5\nhear; tell '{\"sessionId\":\"s\"}'\nhear; tell '{\"stopReason\":\"end_turn\"}'\nhear";
    let repo = acp(&sandbox, script);
    repo.agent(["new", "--name", "s", "--agent", "contrary", "x"])
        .success();
    wait_until("the turn is over", || {
        ["ready", "failed"].contains(&repo.state("s").as_str())
    });
}

#[test]
fn a_question_nobody_answers_is_asked_once() {
    let sandbox = Sandbox::new();
    let only = "{\"optionId\":\"go\",\"name\":\"Go\",\"kind\":\"allow_once\"}";
    let repo = acp(&sandbox, &asking(only));
    repo.git(["config", "agent.answerTimeout", "1s"]).success();
    repo.agent(["new", "--ask", "--name", "s", "--agent", "contrary", "x"])
        .success();
    let tree = repo.worktree_of("s");
    wait_until("it was answered", || tree.path().join("answer").exists());
    let answer = String::from_utf8(tree.read("answer")).expect("text");
    assert!(answer.contains("cancelled"), "{answer}");
    assert_eq!(repo.texts("s", "permission").len(), 0, "it has no text");
    let asked = repo.events("s");
    let asked = asked.iter().filter(|event| event["type"] == "permission");
    assert_eq!(asked.count(), 1);
}

#[test]
fn what_offers_no_refusal_can_be_refused() {
    let only = "{\"optionId\":\"go\",\"name\":\"Go\",\"kind\":\"allow_once\"}";
    for (options, word) in [("", "no"), (only, "never")] {
        let sandbox = Sandbox::new();
        let repo = acp(&sandbox, &asking(options));
        repo.agent(["new", "--ask", "--name", "s", "--agent", "contrary", "x"])
            .success();
        repo.await_state("s", "waiting");
        repo.agent(["answer", "s", word]).success();
        let tree = repo.worktree_of("s");
        wait_until("it was answered", || tree.path().join("answer").exists());
        let answer = String::from_utf8(tree.read("answer")).expect("text");
        assert!(answer.contains("cancelled"), "{answer}");
        wait_until("the turn is over", || repo.state("s") != "running");
    }
}

#[test]
fn only_an_answer_that_fits_is_taken() {
    let sandbox = Sandbox::new();
    let options = "{\"optionId\":\"go\",\"name\":\"Allow\",\"kind\":\"allow_once\"},\
                   {\"optionId\":\"no\",\"name\":\"Reject\",\"kind\":\"reject_once\"}";
    let repo = acp(&sandbox, &asking(options));
    // A fork asks as the session did that it comes from.
    repo.agent(["new", "--ask", "--name", "s", "--agent", "contrary", "x"])
        .success();
    repo.await_state("s", "waiting");
    for answer in ["maybe", "always", "", "0", "3"] {
        repo.agent(["answer", "s", answer])
            .code(128)
            .assert_says("does not answer the question")
            .assert_says("2    Reject");
    }
    repo.agent(["answer", "s", "2"]).success();
    repo.await_state("s", "ready");
    let answer = String::from_utf8(repo.worktree_of("s").read("answer")).expect("text");
    assert!(answer.contains("\"no\""), "{answer}");
    repo.agent(["fork", "s", "--name", "f", "again"]).success();
    repo.await_state("f", "waiting");
    repo.agent(["answer", "f", "yes"]).success();
    repo.await_state("f", "ready");
    repo.agent(["fork", "s", "--no-ask", "--name", "g", "again"])
        .success();
    repo.await_state("g", "ready");
}

#[test]
fn a_fork_with_an_agent_that_is_none_is_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    repo.agent(["fork", "s", "go", "--agent", "nosuch"])
        .code(128)
        .assert_says("agent 'nosuch' does not exist");
    repo.agent(["fork", "s", "go", "--agent", "command"])
        .code(129)
        .assert_says("needs a command");
    repo.agent(["new", "go", "--agent", "command"]).code(129);
    assert_eq!(repo.sessions().len(), 1);
    assert_eq!(repo.refs("refs/heads/agent").len(), 1);
    repo.assert_nothing_left_over();
}

#[test]
fn words_that_no_program_could_be_given_are_refused_at_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "printf %s \"$GIT_AGENT_PROMPT\" | wc -c; wc -c <\"$GIT_AGENT_PROMPT_FILE\"";
    repo.agent_cmd(["new", "-F", "-", "--name", "s", "--", script])
        .stdin(b"one\0two")
        .run()
        .code(129)
        .assert_says("NUL");
    none_left(&repo);
    repo.agent_cmd(["new", "-F", "-", "--name", "s", "--", script])
        .stdin("long ".repeat(50_000))
        .run()
        .success();
    repo.await_state("s", "ready");
    let notices = repo.texts("s", "notice").join("\n");
    assert!(notices.contains("GIT_AGENT_PROMPT_FILE"), "{notices}");
    repo.agent_cmd(["send", "s", "-"])
        .stdin(b"\0two\n")
        .run()
        .code(129);
    assert_eq!(repo.session("s")["turns"], 1);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for (key, value) in [
        ("timeout", "abc"),
        ("timeout", "-1"),
        ("stuckAfter", "9999999999999999999"),
        ("maxCost", "nan"),
        ("maxTokens", "x"),
        ("whenStuck", "perhaps"),
        ("permissions", "maybe"),
    ] {
        let key = format!("agent.{key}");
        repo.git(["config", &key, value]).success();
        repo.agent(["new", "--name", "s", "x", "--", "true"])
            .code(128)
            .assert_says(&key);
        repo.git(["config", "--unset", &key]).success();
        none_left(&repo);
    }
    for models in ["a,,b", "a, ,b"] {
        repo.agent(["new", "--model", models, "x", "--", "true"])
            .code(129);
    }
    none_left(&repo);
    repo.git(["config", "agent-role.r.branchPrefix", "a..b"])
        .success();
    repo.agent(["new", "--role", "r", "x", "--", "true"])
        .code(128)
        .assert_says("git config agent-role.r.branchPrefix agent");
    none_left(&repo);
    // One that is spoilt later says so, and not that its supervisor died.
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    repo.git(["config", "agent.permissions", "maybe"]).success();
    repo.agent(["restart", "s"]).whatever();
    repo.await_state("s", "failed");
    let said = repo.session("s")["exit"]["reason"].to_string();
    assert!(said.contains("agent.permissions"), "{said}");
}
