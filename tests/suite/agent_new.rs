//! `git agent new`: a wrong agent makes nothing, and the user learns what was chosen.

use git_agent_tests::Sandbox;

#[test]
fn an_agent_that_is_not_installed_makes_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    sandbox.program("goose-binary-linux-x64", "exit 0");
    let before = repo.everything();
    let refused = repo.agent(["new", "--agent", "claude", "x"]).code(128);
    refused.assert_says("fatal: 'claude' is not installed");
    refused.assert_says("hint: npm install -g @anthropic-ai/claude-code");
    refused.assert_says("hint: installed here: goose");
    repo.agent(["new", "--agent", "claud", "x"])
        .code(128)
        .assert_says("hint: did you mean 'claude'?");
    repo.agent(["new", "--role", "nope", "x"])
        .code(128)
        .assert_says("no role 'nope'");
    repo.agent(["new", "--from", "nope", "--", "true"])
        .code(128)
        .assert_says("'nope' is neither a revision nor a session");
    repo.agent(["new", "-n", "0", "x"])
        .code(129)
        .assert_says("between 1 and 50");
    assert_eq!(repo.everything(), before);
    assert!(repo.refs("refs/heads/agent").is_empty());
    assert!(!repo.path().with_file_name("r-worktrees").exists());
}

#[test]
fn without_any_agent_the_way_to_one_is_shown() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let refused = repo.agent(["new", "x"]).code(128);
    refused.assert_says("no coding agent found on PATH (looked for claude, codex");
    refused.assert_says("hint: git agent config agents");
}

#[test]
fn words_need_no_quotes() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    sandbox.program("mine", "echo done");
    repo.git(["config", "agent.mine.command", "mine"]).success();
    let made = repo
        .agent(["new", "--agent", "mine", "fix", "the", "login", "page"])
        .success();
    assert!(made.stdout().starts_with("fix-login-page\n"), "{made}");
    repo.await_state("fix-login-page", "ready");
    assert_eq!(repo.session("fix-login-page")["task"], "fix the login page");
}

#[test]
fn it_says_who_works_and_who_is_asked() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("left", "behind\n");
    let made = repo
        .agent(["new", "one", "--model", "big", "--", "echo done"])
        .success();
    assert!(
        made.stdout().contains("  agent     a shell command\n"),
        "{made}"
    );
    assert!(
        made.stdout().contains("  asks      nothing; it may"),
        "{made}"
    );
    made.assert_says("1 uncommitted file here is not included; '--carry' moves them");
    let made = repo
        .agent(["new", "two", "--ask", "--", "echo done"])
        .success();
    assert!(
        made.stdout().contains("nothing: this agent cannot ask"),
        "{made}"
    );
    sandbox.program("mine", "echo done");
    repo.git(["config", "agent.mine.command", "mine"]).success();
    repo.git(["config", "agent.mine.model", "large"]).success();
    let made = repo.agent(["new", "--agent", "mine", "three"]).success();
    assert!(
        made.stdout().contains("  agent     mine, model large\n"),
        "{made}"
    );
    // Machines read what they always did.
    let made = repo.agent(["new", "four", "--porcelain", "--", "echo done"]);
    let made = made.success();
    assert_eq!(made.stdout().lines().count(), 1, "{made}");
    for name in ["one", "two", "three", "four"] {
        repo.await_state(name, "ready");
    }
}

#[test]
fn toolchains_reach_the_agent_and_secrets_do_not() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let steps = [
        "JAVA_HOME",
        "VIRTUAL_ENV",
        "NODE_ENV",
        "EDITOR",
        "GITHUB_TOKEN",
        "DATABASE_URL",
    ];
    let script: Vec<String> = steps
        .iter()
        .map(|name| format!("echo {name}=${name}"))
        .collect();
    let start = |name: &str| {
        let mut command = repo.agent_cmd(["new", name, "--", &script.join("; ")]);
        for name in steps {
            command = command.env(name, format!("value-of-{name}"));
        }
        command.run().success();
        repo.await_state(name, "ready");
        let events = repo.events(name);
        let texts = events.iter().filter_map(|event| event["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    let said = start("plain");
    for name in ["JAVA_HOME", "VIRTUAL_ENV", "NODE_ENV", "EDITOR"] {
        assert!(said.contains(&format!("{name}=value-of-{name}")), "{said}");
    }
    for name in ["GITHUB_TOKEN", "DATABASE_URL"] {
        assert!(!said.contains(&format!("value-of-{name}")), "{said}");
    }
    repo.git(["config", "--add", "agent.env", "DATABASE_URL"])
        .success();
    // The value is handed on, and is kept out of the record as a secret.
    let said = start("named");
    assert!(!said.contains("DATABASE_URL=\n"), "{said}");
    let shown = repo.agent(["show", "named"]).success();
    assert!(shown.stdout().contains("toolchains (JAVA_HOME"), "{shown}");
    assert!(shown.stdout().contains("and DATABASE_URL"), "{shown}");
}

#[test]
fn a_missing_variable_is_told_with_its_setting_and_not_tried_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent([
        "new",
        "key",
        "--",
        "echo x >>tries; echo 'Missing environment variable: FAKE_KEY' >&2; exit 1",
    ])
    .success();
    repo.await_state("key", "failed");
    let reason = repo.session("key")["exit"]["reason"].to_string();
    assert!(
        reason.contains("FAKE_KEY is not set in its environment"),
        "{reason}"
    );
    assert!(
        reason.contains("git config --add agent.env FAKE_KEY"),
        "{reason}"
    );
    assert_eq!(repo.worktree_of("key").read("tries"), b"x\n");
}
