//! What stands between a session and its agent: limits of providers, failed models, silence, budgets, forks, servers, skills.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use git_agent_tests::sessions::files_below;
use git_agent_tests::{Repo, Sandbox, wait_until};
use serde_json::Value;

/// A session's supervisor may take so much memory, in KiB.
const MEMORY: u64 = 64 << 10;

fn store(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("conversations")
}

fn lab<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    fs::create_dir_all(store(sandbox)).expect("the sandbox is writable");
    let command = format!("fake-acp --store '{}'", store(sandbox).display());
    set(&repo, "agent.fake.command", &command);
    set(&repo, "agent.fake.driver", "acp");
    repo
}

fn set(repo: &Repo<'_>, key: &str, value: &str) {
    repo.git(["config", "--add", key, value]).success();
}

fn start(repo: &Repo<'_>, name: &str, options: &[&str], script: &str) {
    repo.agent_cmd(["new", "--name", name, "--agent", "fake"])
        .args(options)
        .arg(script)
        .run()
        .success();
}

fn reason(repo: &Repo<'_>, name: &str) -> String {
    let session = repo.session(name);
    session["exit"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn errors(repo: &Repo<'_>, name: &str, kind: &str) -> Vec<String> {
    repo.texts(name, kind)
}

#[test]
fn a_limit_is_waited_for_and_the_work_goes_on() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let script = "fails 1 -32603 status 429 too many requests, retry after 1\nwrite out.txt done";
    start(&repo, "limited", &[], script);
    repo.await_state("limited", "ready");
    assert_eq!(repo.worktree_of("limited").read("out.txt"), b"done\n");
    let said = errors(&repo, "limited", "rate-limit").join("\n");
    assert!(said.contains("all sessions of fake wait"), "{said}");
    assert_eq!(repo.session("limited")["turns"], 1);
    repo.assert_nothing_left_over();
}

#[test]
fn a_limit_for_ever_is_not_waited_for_for_ever() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.retries", "1");
    let script = "error -32603 status 429 too many requests, retry after 1";
    start(&repo, "limited", &[], script);
    repo.await_state("limited", "failed");
    assert!(reason(&repo, "limited").starts_with("rate limit: "));
    // A wish that nobody can bear is not waited for at all.
    set(&repo, "agent.second.provider", "elsewhere");
    let command = format!("fake-acp --store '{}'", store(&sandbox).display());
    set(&repo, "agent.second.command", &command);
    set(&repo, "agent.second.driver", "acp");
    let script = "error -32603 status 429: usage limit, try again in 5 hours";
    repo.agent(["new", "--name", "far", "--agent", "second", script])
        .success();
    repo.await_state("far", "failed");
    assert!(reason(&repo, "far").contains("try again in 5 hours"));
    // Nobody else of that provider is made to wait for it either.
    repo.agent([
        "new",
        "--name",
        "next",
        "--agent",
        "second",
        "write out.txt x",
    ])
    .success();
    repo.await_state("next", "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn sessions_of_a_provider_cool_down_together() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let dir = repo.common_dir().join("agents/cooldown");
    fs::create_dir_all(&dir).expect("made");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after 1970").as_millis();
    // A wish that is absurd, or longer than anybody waits, holds nobody up.
    for (name, wish) in [("absurd", 99_999_999_999_999), ("far", now + 7_200_000)] {
        fs::write(dir.join("fake"), format!("{wish}\n")).expect("written");
        start(&repo, name, &[], "write out.txt done");
        repo.await_state(name, "ready");
    }
    // Far enough that no machine is too slow to see it.
    fs::write(dir.join("fake"), format!("{}\n", now + 1_800_000)).expect("written");
    start(&repo, "waits", &[], "write out.txt done");
    repo.agent(["new", "other", "--", "fake-agent", "write own.txt x"])
        .success();
    repo.await_state("other", "ready");
    wait_until("it says why it waits", || {
        let said = repo.texts("waits", "notice").join("\n");
        said.contains("rate limit: all sessions of fake wait")
    });
    assert_eq!(repo.state("waits"), "queued");
    repo.agent(["stop", "waits"]).success();
    assert_eq!(repo.state("waits"), "stopped");
    fs::remove_file(dir.join("fake")).expect("it is there");
    repo.agent(["resume", "waits"]).success();
    repo.await_state("waits", "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn a_model_that_fails_is_tried_again_and_what_helps_nothing_is_not() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let script = "fails 1 -32603 API error 500 internal server error\nwrite out.txt done";
    start(&repo, "flaky", &[], script);
    for (name, text, words) in [
        ("auth", "error -32603 401 unauthorized", "not logged in"),
        (
            "long",
            "error -32603 prompt is too long: 210000 tokens",
            "too long for the model",
        ),
        ("crash", "crash 9", "exit code 9"),
    ] {
        start(&repo, name, &[], text);
        repo.await_state(name, "failed");
        let reason = reason(&repo, name);
        assert!(reason.contains(words), "{reason}");
        assert_eq!(
            repo.events(name)
                .iter()
                .filter(|event| event["type"] == "error")
                .count(),
            1
        );
    }
    repo.await_state("flaky", "ready");
    let said = errors(&repo, "flaky", "model").join("\n");
    assert!(
        said.contains("the next attempt follows in 5 s (1 of 2)"),
        "{said}"
    );
    repo.assert_nothing_left_over();
}

#[test]
fn the_time_of_a_turn_is_that_of_all_its_attempts() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.timeout", "2s");
    start(&repo, "slow", &[], "sleep 1500\nerror -32603 status 500");
    repo.await_state("slow", "failed");
    assert_eq!(reason(&repo, "slow"), "over the time limit of 2 seconds");
    repo.assert_nothing_left_over();
}

#[test]
fn an_agent_that_is_stuck_is_started_again_and_then_given_up() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.stuckAfter", "1s");
    set(&repo, "agent.whenStuck", "restart");
    set(&repo, "agent.retries", "1");
    let told = sandbox.root().join("told");
    let notify = format!(
        "echo \"$GIT_AGENT_STATE $GIT_AGENT_ID ${{GIT_AGENT_SESSION-unmarked}}\" >> '{}'",
        told.display()
    );
    set(&repo, "agent.notify", &notify);
    start(&repo, "silent", &[], "hang");
    repo.await_state("silent", "failed");
    assert_eq!(reason(&repo, "silent"), "stuck: no output for 1 s");
    let said = errors(&repo, "silent", "stuck").join("\n");
    assert!(said.contains("started again (1 of 1)"), "{said}");
    let events = repo.events("silent");
    let became = events.iter().filter(|event| event["type"] == "status");
    let became: Vec<_> = became
        .map(|event| (event["to"].as_str(), event["reason"].as_str()))
        .skip_while(|(to, _)| *to != Some("stuck"))
        .collect();
    let (stuck, again) = (Some("no output for 1 s"), Some("started again"));
    let given_up = Some("stuck: no output for 1 s");
    assert_eq!(
        became,
        [
            (Some("stuck"), stuck),
            (Some("running"), again),
            (Some("stuck"), stuck),
            (Some("failed"), given_up)
        ],
        "what it says when it is ended is no work"
    );
    wait_until("a person was told", || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        told.contains("stuck") && told.contains("failed") && told.contains("unmarked")
    });
    repo.assert_nothing_left_over();
}

#[test]
fn what_tells_a_person_may_take_longer_than_the_session() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let (go, told) = (sandbox.root().join("go"), sandbox.root().join("told"));
    let (wait, tell) = (go.display(), told.display());
    let notify = format!("while ! test -e '{wait}'; do sleep 0.1; done; touch '{tell}'");
    set(&repo, "agent.notify", &notify);
    start(&repo, "quick", &[], "write out.txt done");
    repo.await_state("quick", "ready");
    repo.agent(["send", "quick", "write more.txt done"])
        .success();
    repo.await_state("quick", "ready");
    fs::write(&go, "").expect("a file");
    wait_until("a person was told", || told.exists());
    repo.assert_nothing_left_over();
}

#[test]
fn nobody_answers_and_the_agent_goes_on_without() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.answerTimeout", "1s");
    let told = sandbox.root().join("told");
    let notify = format!("echo \"$GIT_AGENT_STATE\" >> '{}'", told.display());
    set(&repo, "agent.notify", &notify);
    start(
        &repo,
        "asks",
        &["--ask"],
        "ask rm -r everything\nwrite out.txt done",
    );
    repo.await_state("asks", "ready");
    let events = repo.events("asks");
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "answer" && event["by"] == "timeout"),
        "{events:#?}"
    );
    wait_until("a person was told", || {
        fs::read_to_string(&told).is_ok_and(|told| told.contains("waiting"))
    });
    repo.assert_nothing_left_over();
}

#[test]
fn a_budget_ends_the_turn_and_refuses_the_next() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.maxCost", "1.50");
    start(&repo, "dear", &[], "usage 10 2.25\nhang");
    repo.await_state("dear", "failed");
    assert_eq!(reason(&repo, "dear"), "over the budget of $1.50");
    for words in [
        &["send", "dear", "write out.txt x"][..],
        &["restart", "dear"],
    ] {
        repo.agent(words)
            .failure()
            .assert_says("cannot continue: it is over the budget of $1.50");
    }
    assert_eq!(repo.session("dear")["turns"], 1);
    assert!(!repo.worktree_of("dear").path().join("out.txt").exists());
    repo.assert_nothing_left_over();
}

#[test]
fn a_group_has_a_budget_together() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.maxGroupTokens", "150");
    // Every turn counts 107 tokens.
    start(&repo, "one", &["--group", "g"], "write out.txt x");
    repo.await_state("one", "ready");
    start(&repo, "two", &["--group", "g"], "write out.txt x");
    wait_until("the second one has ended", || {
        ["ready", "failed"].contains(&repo.state("two").as_str())
    });
    start(&repo, "three", &["--group", "g"], "write out.txt x");
    repo.await_state("three", "failed");
    assert_eq!(
        reason(&repo, "three"),
        "over the budget of 150 tokens for group 'g'"
    );
    start(&repo, "elsewhere", &[], "write out.txt x");
    repo.await_state("elsewhere", "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn a_fork_is_told_what_was_said() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    start(
        &repo,
        "first",
        &[],
        "say the secret word is xyzzy\nwrite a.txt a",
    );
    repo.await_state("first", "ready");
    repo.agent(["fork", "first", "--name", "second", "write b.txt b"])
        .success();
    repo.await_state("second", "ready");
    let worktree = repo.worktree_of("second");
    assert_eq!(worktree.read("a.txt"), b"a\n");
    assert_eq!(worktree.read("b.txt"), b"b\n");
    let conversations: Vec<String> = files_below(&store(&sandbox))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .map(|path| fs::read_to_string(path).expect("readable"))
        .collect();
    let told = conversations
        .iter()
        .filter(|text| text.contains("earlier conversation") && text.contains("xyzzy"));
    assert_eq!(told.count(), 1, "{conversations:#?}");
    repo.assert_nothing_left_over();
}

#[test]
fn servers_and_skills_reach_the_agent() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("skills/care/SKILL.md", "Be careful with the frobnicator.\n");
    repo.commit("a skill");
    set(&repo, "agent.mcp", "docs");
    set(&repo, "agent-mcp.docs.command", "sh -c 'exec docs' --deep");
    set(&repo, "agent-mcp.docs.env", "DOCS_ROOT=/srv/docs");
    set(&repo, "agent-role.careful.agent", "fake");
    set(&repo, "agent-role.careful.skills", "skills/care");
    set(&repo, "agent-role.careful.mcp", "docs");
    repo.agent([
        "new",
        "--name",
        "skilled",
        "--role",
        "careful",
        "write out.txt x",
    ])
    .success();
    repo.await_state("skilled", "ready");
    let opened = fs::read(store(&sandbox).join("opened.json")).expect("it was opened");
    let opened: Value = serde_json::from_slice(&opened).expect("JSON");
    let servers = opened["mcpServers"].as_array().expect("a list");
    assert_eq!(servers.len(), 2, "{opened}");
    assert_eq!(servers[0]["name"], "docs");
    assert_eq!(servers[1]["name"], "git-agent", "our own comes last");
    assert!(
        servers[0]["command"]
            .as_str()
            .is_some_and(|path| path.ends_with("/sh"))
    );
    assert_eq!(servers[0]["env"][0]["value"], "/srv/docs");
    let prompts = files_below(&store(&sandbox))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("frobnicator")));
    assert!(prompts, "the skill is in the prompt");
    // One that cannot be told of servers says so.
    set(&repo, "agent.plain.command", "fake-agent 'write own.txt x'");
    repo.agent(["new", "--name", "without", "--agent", "plain", "x"])
        .success();
    repo.await_state("without", "ready");
    let told = repo.texts("without", "notice").join("\n");
    assert!(
        told.contains("does not support MCP servers: docs"),
        "{told}"
    );
    set(&repo, "agent.mcp", "nowhere");
    start(&repo, "lost", &[], "write out.txt x");
    repo.await_state("lost", "failed");
    assert!(reason(&repo, "lost").contains("MCP server 'nowhere' has no command"));
    repo.assert_nothing_left_over();
}

#[test]
fn eight_agents_at_once_do_not_hear_each_other() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    set(&repo, "agent.maxParallel", "8");
    set(&repo, "agent.env", "MY_SERVICE_TOKEN");
    let secret = "zq8Lr2Vw9pXk4Tn7Yb3Hd6Gs";
    let gate = sandbox.root().join("gate");
    for number in 0..8 {
        let (name, marker) = (format!("n{number}"), format!("marker-{number}-only"));
        let file = gate.display();
        // None ends before all have begun.
        let run = if number % 2 == 0 {
            let script = format!(
                "say {marker} {secret}\nbash touch here; while ! test -e '{file}'; do sleep 0.05; done\nwrite out.txt {marker}"
            );
            repo.agent_cmd(["new", "--name", &name, "--agent", "fake", &script])
        } else {
            let script = format!(
                "echo {marker} $MY_SERVICE_TOKEN; touch here; while ! test -e '{file}'; do sleep 0.05; done; echo {marker} >out.txt"
            );
            repo.agent_cmd(["new", &name, "--", &script])
        };
        run.env("MY_SERVICE_TOKEN", secret).run().success();
    }
    for number in 0..8 {
        let here = repo.worktree_of(&format!("n{number}")).path().join("here");
        wait_until(&format!("n{number} is at work"), || here.exists());
    }
    fs::write(&gate, "").expect("the gate opens");
    for number in 0..8 {
        repo.await_state(&format!("n{number}"), "ready");
    }
    for number in 0..8 {
        let text: String = repo
            .events(&format!("n{number}"))
            .iter()
            .map(|event| format!("{event}\n"))
            .collect();
        assert!(!text.contains(secret), "n{number} tells the secret");
        for other in 0..8 {
            let heard = text.contains(&format!("marker-{other}-only"));
            assert_eq!(heard, other == number, "n{number} and marker {other}");
        }
    }
    repo.assert_nothing_left_over();
}

#[test]
fn a_line_of_fifty_megabytes_takes_little_memory() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    // It waits for an answer at the end, so that it can be measured while it lives.
    start(
        &repo,
        "big",
        &["--ask"],
        "big 50000000\nask anything\nsay the end",
    );
    repo.await_state("big", "waiting");
    let pid = repo.session("big")["pid"].as_u64().expect("a supervisor");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|line| {
            line.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        })
        .expect("a number");
    assert!(peak <= MEMORY, "it took {peak} KiB");
    repo.agent(["answer", "big", "yes"]).success();
    repo.await_state("big", "ready");
    assert!(repo.texts("big", "assistant").concat().contains("the end"));
    repo.assert_nothing_left_over();
}

/// An agent with the stream and the files of Claude Code: it remembers prompts and says how many it has seen.
const CLAUDE: &str = r#"#!/bin/sh
new= resume=
while [ $# -gt 0 ]; do
    case $1 in
    --session-id) new=$2; shift ;;
    --resume) resume=$2; shift ;;
    esac
    shift
done
read -r prompt
dir=$HOME/.claude/projects/$(pwd | sed 's/[^A-Za-z0-9]/-/g')
mkdir -p "$dir"
id=${new:-$resume}
if [ -n "$resume" ]; then
    old=$(ls "$HOME"/.claude/projects/*/"$resume.jsonl" 2>/dev/null | head -n 1)
    if [ -z "$old" ]; then
        echo '{"type":"result","subtype":"error","is_error":true,"errors":["No conversation found with session ID: '"$resume"'"]}'
        exit 1
    fi
    [ "$old" = "$dir/$id.jsonl" ] || cp "$old" "$dir/$id.jsonl"
fi
printf '%s\n' "$prompt" >>"$dir/$id.jsonl"
count=$(grep -c . "$dir/$id.jsonl")
touch "seen-$count"
echo '{"type":"system","subtype":"init","session_id":"'"$id"'"}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"seen='"$count"'"}]},"session_id":"'"$id"'"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"seen='"$count"'","usage":{"input_tokens":5,"output_tokens":1},"total_cost_usd":0.01}'
"#;

#[test]
fn a_conversation_is_kept_put_back_and_branched_off() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    sandbox.program("claude", CLAUDE);
    let secret = "ghp_zq8Lr2Vw9pXk4Tn7Yb3Hd6GsA1c5Ef0JmQuR";
    let task = format!("remember {secret}");
    repo.agent(["new", "--name", "first", "--agent", "claude", &task])
        .success();
    repo.await_state("first", "ready");
    let seen = |name: &str, text: &str| repo.texts(name, "assistant").contains(&text.to_owned());
    assert!(seen("first", "seen=1"));
    wait_until("the conversation is kept", || {
        repo.events("first")
            .iter()
            .any(|event| event["key"] == "native")
    });
    let kept = repo.events("first");
    let kept = kept
        .iter()
        .find(|event| event["key"] == "native")
        .expect("just seen");
    let name = kept["value"]["attachment"].as_str().expect("a name");
    let log = repo.refs("refs/agents/sessions");
    let log = log.keys().next().expect("one session");
    let attachment = format!("{log}:att/{name}");
    // An event is seen as soon as it is spooled; what it names is in git a moment later.
    wait_until("it is in git", || {
        repo.git(["cat-file", "-e", &attachment])
            .whatever()
            .status()
            .success()
    });
    let held = repo
        .git(["show", &attachment])
        .success()
        .stdout()
        .to_owned();
    assert!(
        held.contains("remember") && !held.contains(secret),
        "{held}"
    );
    // On a machine where the agent was never run.
    fs::remove_dir_all(sandbox.home().join(".claude")).expect("it was there");
    repo.agent(["send", "first", "go on"]).success();
    wait_until("it went on", || seen("first", "seen=2"));
    repo.await_state("first", "ready");
    repo.agent(["fork", "first", "--name", "second", "another way"])
        .success();
    repo.await_state("second", "ready");
    assert!(
        seen("second", "seen=3"),
        "{:?}",
        repo.texts("second", "assistant")
    );
    repo.agent(["send", "first", "and on"]).success();
    wait_until("the first one knows nothing of that", || {
        seen("first", "seen=3")
    });
    repo.await_state("first", "ready");
    repo.assert_nothing_left_over();
}
