//! The built-in agent, with the scripted model on loopback in all three dialects.

use std::fs;
use std::path::Path;

use git_agent_tests::{Background, Cmd, Repo, Sandbox, wait_until};

/// A repository, and a model that runs as long as the test.
struct Lab<'a> {
    repo: Repo<'a>,
    model: Background,
    url: String,
}

impl<'a> Lab<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let port = sandbox.root().join("port");
        let log = sandbox.root().join("model.log");
        let model = sandbox
            .command("fake-model")
            .arg("--port-file")
            .arg(&port)
            .arg("--log")
            .arg(&log)
            .spawn();
        wait_until("the model listens", || port.exists());
        let port = fs::read_to_string(port).expect("it says its port");
        Lab {
            repo: sandbox.repo("r").create(),
            model,
            url: format!("http://127.0.0.1:{port}"),
        }
    }

    /// Runs `git agent` with a key of Anthropic, as most users have one.
    fn agent(&self, args: &[&str]) -> Cmd {
        self.repo
            .agent_cmd(args)
            .env("ANTHROPIC_BASE_URL", &self.url)
            .env("ANTHROPIC_API_KEY", "good-key")
    }

    fn said(&self, name: &str) -> String {
        self.repo.texts(name, "assistant").concat()
    }

    fn log(&self) -> String {
        let log = self.repo.sandbox().root().join("model.log");
        fs::read_to_string(log).unwrap_or_default()
    }

    fn finish(self) {
        drop(self.model);
        self.repo.assert_nothing_left_over();
    }
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_default()
}

#[test]
fn a_model_is_enough_in_every_dialect() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let compatible = format!("{}/v1", lab.url);
    for (name, variables) in [
        (
            "anthropic",
            vec![
                ("ANTHROPIC_BASE_URL", lab.url.as_str()),
                ("ANTHROPIC_API_KEY", "k"),
            ],
        ),
        (
            "openai",
            vec![
                ("OPENAI_BASE_URL", compatible.as_str()),
                ("OPENAI_API_KEY", "k"),
            ],
        ),
        ("ollama", vec![("OLLAMA_HOST", lab.url.as_str())]),
    ] {
        let task = "Please [[write out.txt: hello]] [[bash: touch ran]]";
        let with = |args: &[&str]| {
            let command = lab.repo.agent_cmd(args);
            let set = |command: Cmd, (key, value): &(&str, &str)| command.env(key, value);
            variables.iter().fold(command, set)
        };
        with(&["new", "--name", name, task]).run().success();
        lab.repo.await_state(name, "ready");
        let session = lab.repo.session(name);
        assert_eq!(session["agent"], "builtin", "{session:#}");
        let worktree = lab.repo.worktree_of(name);
        assert_eq!(read(worktree.path(), "out.txt"), "hello\n", "{name}");
        assert!(worktree.path().join("ran").exists(), "{name}");
        assert!(
            lab.said(name).contains("turn=1 calls=2"),
            "{}",
            lab.said(name)
        );
        let kinds = |kind: &str| {
            let events = lab.repo.events(name);
            events.iter().filter(|event| event["type"] == kind).count()
        };
        assert!(
            kinds("tool_call") >= 1 && kinds("tool_result") >= 1,
            "{name}"
        );
        assert!(kinds("usage") >= 1, "{name}");
        with(&["send", name, "Again [[usage 500 10]]"])
            .run()
            .success();
        wait_until("the second turn ends", || {
            let session = lab.repo.session(name);
            session["turns"] == 2 && session["state"] == "ready"
        });
        assert!(lab.said(name).contains("turn=2"), "{}", lab.said(name));
    }
    lab.finish();
}

#[test]
fn without_a_model_it_is_not_chosen() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["new", "a task"]).failure();
    assert!(repo.sessions().is_empty());
    repo.agent(["new", "--agent", "builtin", "--name", "x", "a task"])
        .whatever();
}

#[test]
fn a_killed_conversation_goes_on() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    lab.agent(&["new", "--name", "s", "First [[say: one]]"])
        .run()
        .success();
    lab.repo.await_state("s", "ready");
    lab.agent(&["send", "s", "Slowly [[slow 60]] [[say: never]]"])
        .run()
        .success();
    wait_until("the model is asked", || lab.log().contains("\"never\""));
    let pid = lab.repo.session("s")["pid"].as_i64().expect("a supervisor");
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a pid"), rustix::process::Signal::KILL)
        .expect("killed");
    lab.repo.await_state("s", "interrupted");
    lab.agent(&["restart", "s", "-m", "Go on [[say: Done. turn={turn}]]"])
        .run()
        .success();
    wait_until("it goes on", || lab.said("s").contains("turn=3"));
    lab.repo.await_state("s", "ready");
    lab.finish();
}

#[test]
fn failures_of_the_provider_are_told_apart() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    lab.repo.git(["config", "agent.retries", "0"]).success();
    for (name, task, words) in [
        ("server", "x [[http 500]]", "500"),
        ("cut", "x [[break cut]]", "broke off"),
        ("garbled", "x [[break garbled]]", "not JSON"),
        ("long", "x [[break long]]", "8 MiB"),
        ("full", "x [[http 413]]", "too long"),
    ] {
        lab.agent(&["new", "--name", name, task]).run().success();
        lab.repo.await_state(name, "failed");
        let reason = lab.repo.session(name)["exit"]["reason"].to_string();
        assert!(reason.contains(words), "{name}: {reason}");
    }
    lab.agent(&["new", "--name", "key", "x [[say: y]]"])
        .env("ANTHROPIC_API_KEY", "bad-key")
        .run()
        .success();
    lab.repo.await_state("key", "failed");
    let reason = lab.repo.session("key")["exit"]["reason"].to_string();
    assert!(reason.contains("401"), "{reason}");
    // The prompt that failed stays: a supervisor that tries again only says to go on.
    lab.agent(&["restart", "key", "-m", "x [[say: turn={turn}]]"])
        .run()
        .success();
    wait_until("it answers", || lab.said("key").contains("turn=2"));
    lab.repo.await_state("key", "ready");
    lab.finish();
}

#[test]
fn it_asks_before_it_acts_if_that_is_wanted() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let task = "Please [[write out.txt: hello]] [[bash: touch ran]]";
    lab.agent(&["new", "--ask", "--name", "s", task])
        .run()
        .success();
    lab.repo.await_state("s", "waiting");
    lab.repo.agent(["answer", "s", "allow_once"]).success();
    wait_until("the second question comes", || {
        let asked = |event: &&serde_json::Value| event["type"] == "permission";
        lab.repo.events("s").iter().filter(asked).count() == 2
    });
    lab.repo.await_state("s", "waiting");
    lab.repo.agent(["answer", "s", "no"]).success();
    lab.repo.await_state("s", "ready");
    let worktree = lab.repo.worktree_of("s");
    assert_eq!(read(worktree.path(), "out.txt"), "hello\n");
    assert!(!worktree.path().join("ran").exists());
    lab.finish();
}

#[test]
fn stopping_ends_a_running_command() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    lab.agent(&["new", "--name", "s", "x [[bash: touch begun; sleep 600]]"])
        .run()
        .success();
    let begun = || lab.repo.worktree_of("s").path().join("begun").exists();
    wait_until("the command runs", begun);
    lab.repo.agent(["stop", "s"]).success();
    lab.repo.await_state("s", "stopped");
    lab.agent(&["restart", "s", "-m", "y [[say: turn={turn}]]"])
        .run()
        .success();
    wait_until("it goes on", || lab.said("s").contains("turn=2"));
    lab.repo.await_state("s", "ready");
    lab.finish();
}

#[test]
fn a_fork_goes_on_with_the_same_conversation() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    lab.agent(&["new", "--name", "s", "First [[say: one]]"])
        .run()
        .success();
    lab.repo.await_state("s", "ready");
    lab.agent(&["fork", "s", "--name", "f", "Second [[say: turn={turn}]]"])
        .run()
        .success();
    lab.repo.await_state("f", "ready");
    assert!(lab.said("f").contains("turn=2"), "{}", lab.said("f"));
    lab.finish();
}

#[test]
fn hostile_calls_are_refused_in_words() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let task = r#"x [[bash: ln -s .. up; echo text > f]]
        [[call edit {"path": "up/evil", "old": "", "new": "x"}]]
        [[call edit {"path": "../evil", "old": "", "new": "x"}]]
        [[call edit {"path": ".git", "old": "gitdir", "new": "x"}]]
        [[call edit {"path": "f", "old": "absent", "new": "x"}]]
        [[call shell {"command": ]]
        [[call fly {"to": "moon"}]]
        [[call shell {"command": "echo out; exit 3"}]]"#;
    lab.agent(&["new", "--name", "s", task]).run().success();
    lab.repo.await_state("s", "ready");
    let worktree = lab.repo.worktree_of("s");
    let beside = worktree.path().parent().expect("a parent").join("evil");
    assert!(!beside.exists());
    assert!(read(worktree.path(), ".git").starts_with("gitdir: "));
    assert!(lab.said("s").contains("calls=8"), "{}", lab.said("s"));
    let asked = lab.log();
    let results = lab.repo.events("s");
    let results: Vec<String> = results
        .iter()
        .filter(|event| event["type"] == "tool_result")
        .map(ToString::to_string)
        .collect();
    let results = results.join("\n");
    for words in [
        "'up/evil' is not in the working directory",
        "'../evil' is not in the working directory",
        "'.git' belongs to git",
        "'old' does not occur in 'f'",
        "exit status: 3",
    ] {
        assert!(results.contains(words), "{words}: {results}");
    }
    assert!(asked.contains("\"fly\""), "{asked}");
    lab.finish();
}

#[test]
fn a_model_that_goes_in_circles_is_stopped() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    lab.repo.git(["config", "agent.retries", "0"]).success();
    let task = format!("x {}", "[[bash: true]] ".repeat(9));
    lab.agent(&["new", "--name", "s", &task]).run().success();
    lab.repo.await_state("s", "failed");
    let reason = lab.repo.session("s")["exit"]["reason"].to_string();
    assert!(reason.contains("same call 6 times"), "{reason}");
    lab.finish();
}

#[test]
fn a_full_context_is_summed_up_and_said() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let task = "x [[usage 190000 10]] [[bash: echo one]] [[bash: echo two]]";
    lab.agent(&["new", "--name", "s", task]).run().success();
    lab.repo.await_state("s", "ready");
    let events = lab.repo.events("s");
    let said = |event: &serde_json::Value| event.to_string().contains("context is nearly full");
    assert!(events.iter().any(said), "{events:#?}");
    lab.finish();
}

#[test]
fn a_limit_is_waited_for_by_the_supervisor() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    for (name, status) in [("limited", 429), ("busy", 529)] {
        let task = format!("{name} [[http {status} x1]] [[say: fine]]");
        lab.agent(&["new", "--name", name, &task]).run().success();
        lab.repo.await_state(name, "ready");
        assert!(lab.said(name).contains("fine"), "{name}");
        let told = lab.repo.events(name);
        let told: String = told.iter().map(ToString::to_string).collect();
        assert!(told.contains(&status.to_string()), "{told}");
    }
    lab.finish();
}

#[test]
fn keys_are_not_kept() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let key = "sk-ant-api03-Zk3Qp9LmWx7RtYv2Bn5C";
    lab.agent(&["new", "--name", "s", "x [[bash: echo $ANTHROPIC_API_KEY]]"])
        .env("ANTHROPIC_API_KEY", key)
        .run()
        .success();
    lab.repo.await_state("s", "ready");
    let told: String = lab
        .repo
        .events("s")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(!told.contains(key), "{told}");
    let kept = sandbox.root().join("data/git-agent/conversations");
    let files: Vec<_> = fs::read_dir(kept).expect("kept").flatten().collect();
    assert_eq!(files.len(), 1);
    let text = fs::read_to_string(files[0].path()).expect("read");
    assert!(text.contains("echo") && !text.contains(key), "{text}");
    lab.finish();
}

#[test]
fn models_are_listed_without_a_repository() {
    let sandbox = Sandbox::new();
    let lab = Lab::new(&sandbox);
    let listed = sandbox
        .command("git")
        .args(["agent", "config", "models", "--json"])
        .cwd(sandbox.root())
        .env("ANTHROPIC_BASE_URL", &lab.url)
        .env("ANTHROPIC_API_KEY", "k")
        .run()
        .success();
    let envelope: serde_json::Value =
        serde_json::from_slice(listed.stdout_bytes()).expect("an envelope");
    assert_eq!(envelope["version"], 1);
    let first = &envelope["providers"][0];
    assert_eq!(first["provider"], "anthropic");
    assert!(
        first["models"].to_string().contains("claude-sonnet"),
        "{first}"
    );
    lab.finish();
}
