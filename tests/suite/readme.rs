//! The README: its tour runs as it stands, and its tables name what there is.

use std::fs;
use std::time::Duration;

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::workspace;

fn readme() -> String {
    fs::read_to_string(workspace().join("README.md")).expect("there is a README")
}

/// Returns the shell blocks of a text, in their order.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "```sh" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

#[test]
fn the_tour_runs_as_it_stands() {
    let sandbox = Sandbox::new();
    let blocks = shell_blocks(&readme());
    assert!(blocks.len() >= 5, "the tour has several stops");
    let script = format!("set -eux\n{}\n", blocks.join("\n"));
    let run = sandbox
        .sh(script)
        .time_limit(Duration::from_secs(180))
        .run()
        .success();
    let said = run.stdout();
    assert!(said.contains("\nhello, world\n"), "{run}");
    let repo = git_agent_tests::Repo::open(&sandbox, sandbox.work().join("greet"));
    repo.git(["show", "main:README"])
        .success()
        .assert_stdout("Greets whoever runs it.\nWritten in shell.\n");
    repo.assert_user_can_work();
}

#[test]
fn the_tables_name_every_command_and_setting() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let readme = readme();
    let help = repo.agent(["-h"]).code(129).stdout().to_owned();
    let verbs = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    for verb in verbs {
        assert!(
            readme.contains(&format!("`{verb}`")),
            "the README does not mention '{verb}'"
        );
    }
    let settings = repo.agent(["config", "--porcelain"]).success();
    for line in settings.lines() {
        let mut fields = line.split('\t');
        let (key, default) = (
            fields.next().expect("a key"),
            fields.nth(1).unwrap_or_default(),
        );
        let row = readme
            .lines()
            .find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("the README does not mention '{key}'"));
        assert!(
            default.is_empty() || row.contains(&format!("`{default}`")),
            "{row}: its default is {default}"
        );
    }
}
