//! Streams that no agent should print: cut, garbled, with unknown events, with a line of fifty megabytes. For every way of
//! driving an agent the session ends in an honest state, and its supervisor stays small.

use git_agent_tests::{Repo, Sandbox, wait_until};

/// A session's supervisor may take so much memory, in KiB.
const MEMORY: u64 = 64 << 10;

/// An agent with the stream named first, which does what is named second.
const ODD: &str = r#"#!/bin/sh
case $1 in
claude)
    begin='{"type":"system","subtype":"init","session_id":"s1"}'
    say='{"type":"assistant","message":{"content":[{"type":"text","text":"plain words"}]},"session_id":"s1"}'
    strange='{"type":"moonlight","depth":[1,{"x":null}]}'
    open='{"type":"assistant","session_id":"s1","message":{"content":[{"type":"text","text":"'
    close='"}]}}'
    end='{"type":"result","subtype":"success","is_error":false,"result":"plain words","usage":{"input_tokens":5,"output_tokens":1}}'
    ;;
qwen)
    begin='{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
    say='{"type":"assistant","uuid":"u","session_id":"s1","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"plain words"}]}}'
    strange='{"type":"stream_event","event":{"type":"moonlight"},"session_id":"s1"}'
    open='{"type":"user","session_id":"s1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"'
    close='"}]}}'
    end='{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"plain words","session_id":"s1"}'
    ;;
codex)
    begin='{"type":"thread.started","thread_id":"t1"}'
    say='{"type":"item.completed","item":{"id":"i0","type":"agent_message","text":"plain words"}}'
    strange='{"type":"moonlight","depth":[1,{"x":null}]}'
    open='{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"cat","status":"completed","aggregated_output":"'
    close='"}}'
    end='{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":1}}'
    ;;
acp)
    begin= open='{"jsonrpc":"2.0","method":"session/update","params":{"x":"' close='"}}' end=
    say='{"jsonrpc":"2.0","method":"moonlight","params":{"text":"plain words"}}'
    strange=$say
    ;;
command)
    begin=hello say='plain words' strange= open= close= end=bye
    ;;
esac
printf '%s\n' "$begin"
case $2 in
cut)
    printf '%s\n%s' "$say" "$(printf %s "$end" | head -c 20)"
    exit 0
    ;;
garbled)
    printf '\377\376\n}{][\n"\n{"type":\n\0\n[]\n7\n'
    ;;
strange)
    printf '%s\n%s\n' "$strange" '{"type":{"type":[]},"message":3,"item":"x"}'
    ;;
big)
    printf %s "$open"
    head -c 50000000 /dev/zero | tr '\0' x
    printf '%s\n' "$close"
    touch printed
    while ! test -e "$GATE"; do sleep 0.05; done
    ;;
esac
touch made
printf '%s\n%s\n' "$say" "$end"
case $2 in
stays) trap '' TERM; while :; do sleep 1; done ;;
esac
"#;

fn lab<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    sandbox.program("odd", ODD);
    for (agent, driver) in [
        ("claude", "claude-stream"),
        ("qwen", "claude-stream"),
        ("codex", "codex-json"),
        ("acp", "acp"),
        ("command", "command"),
    ] {
        for how in ["cut", "garbled", "strange", "big", "stays"] {
            let set = |key: &str, value: &str| {
                let key = format!("agent.odd-{agent}-{how}.{key}");
                repo.git(["config", &key, value]).success();
            };
            set("command", &format!("odd {agent} {how}"));
            set("driver", driver);
        }
    }
    repo.git(["config", "agent.maxParallel", "8"]).success();
    repo.git(["config", "agent.env", "GATE"]).success();
    repo
}

fn start(repo: &Repo<'_>, name: &str) {
    let agent = format!("odd-{name}");
    let gate = repo.sandbox().root().join("gate");
    repo.agent_cmd(["new", "--name", name, "--agent", &agent, "do it"])
        .env("GATE", gate)
        .run()
        .success();
}

fn texts(repo: &Repo<'_>, name: &str) -> String {
    repo.events(name)
        .iter()
        .map(|event| format!("{event}\n"))
        .collect()
}

#[test]
fn a_stream_that_breaks_off_is_no_success() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let names = ["claude-cut", "qwen-cut", "codex-cut", "acp-cut"];
    names.iter().for_each(|name| start(&repo, name));
    for name in names {
        repo.await_state(name, "failed");
        assert!(texts(&repo, name).contains("plain words"), "{name}");
        let session = repo.session(name);
        let reason = session["exit"]["reason"].as_str().unwrap_or_default();
        let told = reason.contains("the agent") || reason.starts_with("exit code");
        assert!(told, "{name}: {reason}");
    }
    repo.assert_nothing_left_over();
}

#[test]
fn one_that_stays_after_its_turn_is_ended_and_its_word_stands() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let names = ["claude-stays", "codex-stays"];
    names.iter().for_each(|name| start(&repo, name));
    for name in names {
        repo.await_state(name, "ready");
        let told = texts(&repo, name);
        assert!(told.contains("plain words"), "{name}: {told}");
        assert!(
            told.contains("did not exit after the turn"),
            "{name}: {told}"
        );
    }
    repo.assert_nothing_left_over();
}

#[test]
fn a_budget_ends_a_turn_that_is_still_going_on() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    sandbox.program(
        "spender",
        r#"#!/bin/sh
for id in a b c; do
    printf '{"type":"assistant","message":{"id":"%s","content":[],"usage":{"input_tokens":40,"output_tokens":2}}}\n' $id
done
while read -r line; do
    case $line in *interrupt*) break ;; esac
done
printf '{"type":"result","subtype":"error_during_execution","is_error":true,"usage":{"input_tokens":0,"output_tokens":0}}\n'
"#,
    );
    for (key, value) in [
        ("agent.spender.command", "spender"),
        ("agent.spender.driver", "claude-stream"),
        ("agent.maxTokens", "100"),
    ] {
        repo.git(["config", key, value]).success();
    }
    repo.agent(["new", "--name", "s", "--agent", "spender", "do it"])
        .success();
    repo.await_state("s", "failed");
    let session = repo.session("s");
    let reason = session["exit"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("budget of 100 tokens"), "{session:#}");
    assert_eq!(session["usage"]["input_tokens"], 120, "{session:#}");
    repo.assert_nothing_left_over();
}

#[test]
fn what_makes_no_sense_is_kept_and_passed_over() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let names = [
        "claude-garbled",
        "qwen-garbled",
        "codex-garbled",
        "command-garbled",
        "claude-strange",
        "qwen-strange",
        "codex-strange",
    ];
    names.iter().for_each(|name| start(&repo, name));
    for name in names {
        repo.await_state(name, "ready");
        let told = texts(&repo, name);
        assert!(told.contains("plain words"), "{name}: {told}");
        let kept = if name.ends_with("strange") {
            "moonlight"
        } else {
            "}{]["
        };
        assert!(told.contains(kept), "{name}: {told}");
    }
    start(&repo, "acp-garbled");
    repo.await_state("acp-garbled", "failed");
    assert!(texts(&repo, "acp-garbled").contains("}{]["));
    repo.assert_nothing_left_over();
}

#[test]
fn a_line_of_fifty_megabytes_takes_little_memory_in_every_stream() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let names = ["claude-big", "qwen-big", "codex-big", "command-big"];
    names.iter().for_each(|name| start(&repo, name));
    for name in names {
        let printed = repo.worktree_of(name).path().join("printed");
        wait_until(&format!("{name} has printed it"), || printed.exists());
    }
    for name in names {
        let pid = repo.session(name)["pid"].as_u64().expect("a supervisor");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
        let peak: u64 = peak.expect("a number");
        assert!(peak <= MEMORY, "{name} took {peak} KiB");
    }
    std::fs::write(sandbox.root().join("gate"), "").expect("the gate opens");
    for name in names {
        repo.await_state(name, "ready");
        let told = texts(&repo, name);
        assert!(told.contains("plain words"), "{name}");
        assert!(told.len() < 8 << 20, "{name} keeps {} bytes", told.len());
    }
    repo.assert_nothing_left_over();
}
