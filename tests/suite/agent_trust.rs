//! The team's file `.gitagents`: what it may decide at once, what only after a person has looked, and what it may not be.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};

/// A file that would leave a trace in three ways.
const FILE: &str = "[agent]\n\
    \tbranchPrefix = team\n\
    \tsetup = touch setup-ran\n\
    \tnotify = touch \\\"$TRACES/notified\\\"\n\
    [agent \"theirs\"]\n\
    \tcommand = sh -c 'touch agent-ran'\n";

fn team(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.write(
        ".gitagents",
        FILE.replace("$TRACES", &sandbox.work().display().to_string()),
    );
    repo.commit("settings for the team");
    repo
}

/// Runs a session with a shell command to its end and returns its worktree.
fn session<'a>(repo: &Repo<'a>, name: &str) -> Repo<'a> {
    repo.agent(["new", name, "--", "echo done >result"])
        .success();
    repo.agent_cmd(["wait", "--timeout", "60s", name])
        .time_limit(Duration::from_secs(90))
        .run()
        .success();
    Repo::open(
        repo.sandbox(),
        repo.sandbox().work().join("r-worktrees").join(name),
    )
}

#[test]
fn nothing_runs_before_it_is_trusted_and_after_it_changed() {
    let sandbox = Sandbox::new();
    let repo = team(&sandbox);
    let warned = repo.agent(["list"]).success();
    for key in [
        "agent.setup",
        "agent.notify",
        "agent.theirs.command",
        "git agent trust",
    ] {
        warned.assert_says(key);
    }
    let one = session(&repo, "one");
    assert!(one.path().join("result").exists());
    assert!(
        !one.path().join("setup-ran").exists(),
        "the setup command ran untrusted"
    );
    assert!(
        !sandbox.work().join("notified").exists(),
        "the notification ran untrusted"
    );
    repo.git(["rev-parse", "--verify", "--quiet", "team/one"])
        .success();
    repo.agent(["new", "--agent", "theirs", "a task"])
        .code(128)
        .assert_says("theirs");

    repo.agent(["trust", "--yes"]).success();
    assert!(
        !repo
            .agent(["list"])
            .success()
            .stderr()
            .contains("not trusted")
    );
    let two = session(&repo, "two");
    assert!(two.path().join("setup-ran").exists());
    git_agent_tests::wait_until("the notification ran", || {
        sandbox.work().join("notified").exists()
    });
    repo.agent(["new", "--name", "three", "--agent", "theirs", "a task"])
        .success();
    repo.agent(["wait", "--timeout", "60s", "three"]).success();
    assert!(
        two.path()
            .with_file_name("three")
            .join("agent-ran")
            .exists()
    );

    let mut text = repo.read(".gitagents");
    text.extend(b"# changed\n");
    repo.write(".gitagents", text);
    repo.agent(["list"]).success().assert_says("not trusted");
    let four = session(&repo, "four");
    assert!(
        !four.path().join("setup-ran").exists(),
        "the setup command ran after a change"
    );
}

#[test]
fn what_it_has_no_say_in_is_not_offered_for_trust() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let file =
        "[agent]\n\tshare = /srv/elsewhere\n\twriter = somebody-abcd\n[core]\n\tpager = less\n";
    repo.write(".gitagents", file);
    let told = |run: &git_agent_tests::Output| {
        run.assert_says("agent.share is ignored in '.gitagents': only a person decides");
        run.assert_says("agent.writer is ignored in '.gitagents'");
        assert!(!run.stderr().contains("git agent trust"), "{run}");
        assert!(!run.stderr().contains("core.pager"), "{run}");
    };
    told(&repo.agent(["list"]).success());
    let shown = repo.agent(["trust", "--show"]).success();
    let shown = shown.stdout();
    assert!(shown.contains("agent.share (only a person"), "{shown}");
    assert!(
        shown.contains("core.pager (not a setting of git-agent"),
        "{shown}"
    );
    assert!(shown.contains("The file runs no command"), "{shown}");
    // Nor does it get a say by being trusted.
    repo.agent(["trust", "--yes"]).success();
    let config = repo.agent(["config", "--json"]).success();
    told(&config);
    assert!(!config.stdout().contains("elsewhere"), "{config}");
    assert!(!config.stdout().contains("somebody"), "{config}");
    repo.write(".gitagents", format!("{file}[agent]\n\tsetup = true\n"));
    let warned = repo.agent(["list"]).success();
    warned.assert_says("ignored: agent.setup\n");
}

#[test]
fn it_is_shown_escaped_and_trust_can_be_taken_back() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["trust"]).code(1).assert_says(".gitagents");
    repo.write(".gitagents", "[agent]\n\tsetup = \"echo \x1b[2J\"\n");
    let shown = repo.agent(["trust", "--show"]).success();
    assert!(!shown.stdout().contains('\x1b'), "{shown}");
    assert!(shown.stdout().contains("(not trusted)"), "{shown}");
    assert!(
        shown.stdout().contains("agent.setup = echo \\x1b[2J"),
        "{shown}"
    );
    repo.agent(["trust"]).code(128).assert_says("--yes");
    repo.agent(["trust", "--yes"]).success();
    assert!(
        repo.agent(["trust", "--show"])
            .success()
            .stdout()
            .contains("(trusted)")
    );
    repo.agent(["trust", "--revoke"]).success();
    assert!(
        repo.agent(["trust", "--show"])
            .success()
            .stdout()
            .contains("(not trusted)")
    );
    repo.agent_cmd(["trust", "--yes"])
        .env("GIT_AGENT_SESSION", "01jd0000000000000000000000")
        .run()
        .code(128)
        .assert_says("only the user");
}

#[test]
fn a_person_is_asked() {
    let sandbox = Sandbox::new();
    let repo = team(&sandbox);
    let ask = |answer: &str| {
        repo.agent_cmd(["trust"])
            .env("GIT_TERMINAL_PROMPT", "1")
            .on_terminal()
            .stdin(answer)
            .run()
    };
    let refused = ask("n\n").code(1);
    assert!(
        refused.stdout().contains("trust this file as it is now?"),
        "{refused}"
    );
    assert!(
        repo.agent(["trust", "--show"])
            .success()
            .stdout()
            .contains("(not trusted)")
    );
    ask("y\n").success();
    assert!(
        repo.agent(["trust", "--show"])
            .success()
            .stdout()
            .contains("(trusted)")
    );
}

#[test]
fn what_is_no_team_file_is_said_to_be() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let path = repo.path().join(".gitagents");
    let secret = sandbox.work().join("secret");
    std::fs::write(&secret, "[agent]\n\tdefault = x\n").expect("the sandbox is writable");
    std::os::unix::fs::symlink(&secret, &path).expect("a link can be made");
    repo.agent(["trust"])
        .code(128)
        .assert_says("is not a regular file");
    let goes_on = |words: &str| {
        for verb in ["list", "config"] {
            let run = repo.agent([verb]).success();
            run.assert_says(words);
            run.assert_says("it is ignored");
        }
    };
    goes_on("is not a regular file");
    std::fs::remove_file(&path).expect("it is there");
    repo.write(".gitagents", "#".repeat(300 << 10));
    repo.agent(["trust", "--yes"])
        .code(128)
        .assert_says("larger than 256 KiB");
    repo.write(".gitagents", "[agent\nsetup = x\n");
    goes_on("bad config file");
    repo.write(".gitagents", b"[agent]\n\tdefault = \xff\n");
    goes_on("bad config file");
    repo.agent(["new", "--name", "on", "--", "echo x >x"])
        .success();
    repo.agent(["wait", "on"]).success();
}

#[test]
fn no_value_in_a_team_file_stops_anybodys_work() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    // All that is taken from a file that nobody has trusted, and some that is not.
    let listed = repo.agent(["config", "--json"]).success().json();
    let keys: Vec<String> = listed["settings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["key"].as_str().expect("a name").to_owned())
        .filter(|key| key.matches('.').count() == 1)
        .collect();
    assert!(keys.len() > 30, "{listed}");
    let values = [
        "..",
        "-1",
        "",
        "99999999999999999999g",
        "\\u001b[2J x~^:?*",
        "@{0}/.lock/",
    ];
    for (round, value) in values.iter().enumerate() {
        let mut file = String::new();
        for key in &keys {
            let (section, name) = key.split_once('.').expect("section.name");
            file.push_str(&format!(
                "[{section}]\n\t{name} = \"{}\"\n",
                value.replace("\\u001b", "\u{1b}")
            ));
            file.push_str(&format!(
                "[agent-role \"x\"]\n\t{name} = \"{}\"\n",
                value.replace("\\u001b", "")
            ));
        }
        repo.write(".gitagents", &file);
        let name = format!("s{round}");
        for role in [None, Some("--role=x")] {
            let name = format!("{name}{}", role.map_or("", |_| "r"));
            let mut words = vec!["new", "--name", &name];
            words.extend(role);
            words.extend(["--", "echo x >x"]);
            let run = repo.agent(words).success();
            assert!(!run.stderr().contains('\u{1b}'), "{run}");
            repo.agent(["wait", &name]).success();
        }
        for verb in [
            vec!["list"],
            vec!["show", &name],
            vec!["review"],
            vec!["merge", "-n"],
        ] {
            repo.agent(verb).success();
        }
        repo.agent(["clean", &name]).success();
        repo.agent(["restore", &name]).success();
    }
    repo.write(
        ".gitagents",
        "[agent]\n\tbranchPrefix = a..b\n\tmcp = none\n\tdefault = nobody\n",
    );
    let run = repo
        .agent(["new", "--name", "told", "--", "echo x >x"])
        .success();
    run.assert_says(
        "agent.branchPrefix is ignored in '.gitagents': 'a..b' is not the start of a branch name",
    );
    repo.agent(["wait", "told"]).success();
    assert_eq!(repo.refs("refs/heads/agent/told").len(), 1);
}
