//! The page of the formats: every command it shows runs with plain git and shows something.

use std::fs;

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::workspace;
use git_agent_tests::process::wait_until;

/// Returns the commands in a page's examples.
fn commands(page: &str) -> Vec<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| line.replace("\\-", "-").replace("\\e", "\\"))
        .collect()
}

#[test]
fn every_command_in_the_page_shows_what_it_promises() {
    let path = workspace().join("man/man5/gitformat-agent.5");
    let page = fs::read_to_string(path).expect("the page exists");
    assert!(page.starts_with(".TH GITFORMAT-AGENT 5"));
    let commands = commands(&page);
    assert!(commands.len() >= 12, "{commands:?}");

    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let made = repo
        .agent([
            "new",
            "shown",
            "--json",
            "--",
            "sh",
            "-c",
            "echo new >file; echo said",
        ])
        .success()
        .json();
    let sid = made["sessions"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    wait_until("the session is done", || {
        let listed = repo.agent(["list", "--json", "shown"]).success().json();
        listed["sessions"][0]["state"] == "ready"
    });
    let hammer = |words: &[&str]| {
        let run = repo.command("store-hammer").args(words).run().success();
        run.stdout().trim().to_owned()
    };
    hammer(&["note", "2", "shown"]);
    let old = hammer(&["create", "old", "2"]);
    hammer(&["close", &old]);
    hammer(&["fold"]);
    hammer(&["spool", &sid, "1", "spooled"]);
    let only = |prefix: &str| -> String {
        let refs = repo.refs(prefix);
        refs.into_keys().next().expect("there is one")
    };
    for command in commands {
        let run = repo
            .command("sh")
            .args(["-euc", &command])
            .env("sid", &sid)
            .env("ref", only("refs/agents/sessions"))
            .env("archive", only("refs/agents/archive"))
            .env("dir", repo.common_dir().join("agents"))
            .env("GIT_PAGER", "cat")
            .run()
            .whatever();
        assert!(run.status().success(), "{command}\n{run}");
        assert!(!run.stdout().trim().is_empty(), "{command} shows nothing");
        assert!(!run.stdout().contains(" missing\n"), "{command}\n{run}");
    }
}
