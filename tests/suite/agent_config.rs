//! `git agent config`: what is in force, where it comes from, and what may be set.

use std::fs;

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::workspace;

#[test]
fn each_setting_says_where_it_comes_from() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write(
        ".gitagents",
        "[agent]\n\tmodel = team-model\n\ttimeout = 5m\n",
    );
    fs::write(
        sandbox.global_config(),
        "[agent]\n\ttimeout = 7m\n\tmaxCost = 3\n",
    )
    .expect("the sandbox is writable");
    repo.agent(["config", "set", "agent.maxParallel", "7"])
        .success();
    let run = repo
        .command("git")
        .args(["-c", "agent.maxcost=4", "agent", "config", "--json"])
        .run()
        .success();
    let json = run.json();
    let setting = |key: &str| {
        let found = json["settings"].as_array().expect("a list");
        let row = found
            .iter()
            .find(|row| row["key"] == key)
            .expect("it is listed");
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        (word("value"), word("source"))
    };
    let is = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(setting("agent.maxParallel"), is("7", "local"));
    assert_eq!(setting("agent.model"), is("team-model", ".gitagents"));
    assert_eq!(setting("agent.timeout"), is("7m", "global"));
    assert_eq!(setting("agent.maxCost"), is("4", "command"));
    assert_eq!(setting("agent.stuckAfter"), is("10m", "default"));
    repo.git(["config", "agent.maxParallel"])
        .success()
        .assert_stdout("7\n");
    repo.agent(["config", "get", "maxparallel"])
        .success()
        .assert_stdout("7\n");
    repo.agent(["config", "get", "agent.setup"])
        .code(1)
        .assert_stdout("");
}

#[test]
fn only_what_makes_sense_is_set() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for (key, value) in [
        ("agent.maxParallel", "many"),
        ("agent.timeout", "soon"),
        ("agent.permissions", "never"),
        ("agent.autoCommit", "perhaps"),
        ("agent.x.driver", "telepathy"),
    ] {
        repo.agent(["config", "set", key, value])
            .code(128)
            .assert_says(key);
        repo.git(["config", key]).code(1);
    }
    repo.agent(["config", "set", "core.pager", "cat"]).code(129);
    repo.agent(["config", "set", "agent.maxParalel", "3"])
        .code(1)
        .assert_says("unknown setting 'agent.maxParalel'");
    repo.git(["config", "agent.maxParalel"]).code(1);
    repo.agent(["config", "set", "--global", "agent.default", "goose"])
        .success();
    assert!(
        fs::read_to_string(sandbox.global_config())
            .expect("git wrote it")
            .contains("goose")
    );
    repo.agent(["config", "unset", "--global", "agent.default"])
        .success();
    repo.agent(["config", "unset", "agent.default"])
        .code(1)
        .assert_says("not set");
    repo.agent(["config", "set", "agent.setup", "-x"]).success();
    repo.agent(["config", "get", "agent.setup"])
        .success()
        .assert_stdout("-x\n");
}

#[test]
fn agents_are_found_and_asked_for_their_version_only_when_they_know_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    sandbox.program("goose", "#!/bin/sh\necho ' goose 1.2.3'\n");
    let trace = sandbox.work().join("started");
    sandbox.program("mine", &format!("#!/bin/sh\ntouch '{}'\n", trace.display()));
    repo.git(["config", "agent.mine.command", "mine {prompt}"])
        .success();
    repo.git(["config", "agent.broken.driver", "acp"]).success();
    let json = repo.agent(["config", "agents", "--json"]).success().json();
    let agent = |name: &str| {
        let agents = json["agents"].as_array().expect("a list");
        agents
            .iter()
            .find(|agent| agent["name"] == name)
            .expect("it is listed")
            .clone()
    };
    assert_eq!(agent("goose")["version"], "1.2.3");
    assert_eq!(agent("goose")["driver"], "acp");
    assert!(agent("gemini").get("path").is_none());
    assert!(
        agent("gemini")["install"]
            .as_str()
            .is_some_and(|words| words.contains("npm"))
    );
    assert!(
        agent("mine")["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/mine"))
    );
    assert!(agent("mine").get("version").is_none());
    assert!(
        !trace.exists(),
        "an unknown program was started to ask for its version"
    );
    assert!(
        agent("broken")["missing"][0]
            .as_str()
            .is_some_and(|words| words.contains("no command"))
    );
    let human = repo.agent(["config", "agents"]).success();
    assert!(
        human.stdout().contains("npm install -g @google/gemini-cli"),
        "{human}"
    );
}

#[test]
fn roles_are_listed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["config", "roles"])
        .success()
        .assert_says("no roles");
    repo.agent(["config", "set", "agent-role.api.agent", "goose"])
        .success();
    repo.agent(["config", "set", "agent-role.api.timeout", "9m"])
        .success();
    repo.agent(["config", "roles", "--porcelain"])
        .success()
        .assert_stdout("api\tagent\tgoose\napi\ttimeout\t9m\n");
}

/// A setting that is read and not in the table would be unknown to `config`, the manual and a team's file.
#[test]
fn every_setting_that_is_read_is_in_the_table() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let listed = repo.agent(["config", "--porcelain"]).success();
    let listed: Vec<&str> = listed
        .lines()
        .into_iter()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let manual = fs::read_to_string(workspace().join("man/man1/git-agent.1")).expect("a page");
    for key in &listed {
        assert!(
            manual.contains(&format!(".B {key}\n")),
            "the manual lacks {key}"
        );
    }
    let mut directories = vec![workspace().join("git-agent/src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
            for read in code.split('"').filter(|word| is_plain_key(word)) {
                assert!(
                    listed.contains(&read),
                    "{}: {read} is not in the table",
                    path.display()
                );
            }
        }
    }
}

fn is_plain_key(word: &str) -> bool {
    word.strip_prefix("agent.")
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic()))
}
