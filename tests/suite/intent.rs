//! Words that say what the user wants, though they are not commands of `git agent` itself.

use git_agent_tests::Sandbox;

use crate::merge_land::{lab, session};

#[test]
fn words_of_review_and_merge_work_without_the_program() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    let diff = repo.agent(["diff", "fix"]).success();
    assert!(diff.stdout().contains("+changed"), "{diff}");
    repo.agent(["comment", "fix", "app:1", "-m", "why?"])
        .success();
    let listed = repo
        .agent(["review", "list", "fix", "--json"])
        .success()
        .json();
    let id = listed["comments"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    repo.agent(["reply", &id, "-m", "because"]).success();
    repo.agent(["approve", "fix"])
        .success()
        .assert_says("note: 1 comment is still open");
    repo.agent(["conflicts"]).success();
    repo.agent(["queue", "list"])
        .success()
        .assert_says("the queue is empty");
    repo.agent(["queue", "run"])
        .success()
        .assert_says("the queue is empty");
    repo.agent(["merge", "--yes", "fix"]).success();
    repo.agent(["undo", "--yes"])
        .success()
        .assert_says("undone: move 'main' back to");
    repo.agent(["apply", "fix"]).success();
    assert_eq!(repo.read("app"), b"changed\n");
    repo.agent(["reject", "fix"]).success();
    assert_eq!(repo.state("fix"), "rejected");
    for word in ["compare", "pick", "resolve"] {
        let said = repo.agent([word]).failure();
        assert!(
            !said.stderr().contains("is not a git-agent command"),
            "{said}"
        );
    }
}

#[test]
fn words_that_remove_only_answer_with_the_command() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write app changed"]);
    for (word, command) in [("rm", "discard"), ("delete", "discard"), ("kill", "stop")] {
        repo.agent([word, "fix"])
            .code(1)
            .assert_says(&format!("hint: git agent {command} fix"));
    }
    assert_eq!(repo.state("fix"), "ready");
}

#[test]
fn help_version_and_short_forms_are_understood() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(
        &repo,
        "fix",
        &["print one", "print two", "write app changed"],
    );
    let version = repo.agent(["version"]).success();
    assert_eq!(
        version.stdout(),
        repo.agent(["--version"]).success().stdout()
    );
    let help = repo.agent(["help"]).success();
    assert!(help.stdout().starts_with("usage: git agent "), "{help}");
    let help = repo.agent(["help", "new"]).success();
    assert!(help.stdout().starts_with("usage: git agent new "), "{help}");
    let help = repo.agent(["help", "review", "diff"]).success();
    assert!(
        help.stdout().starts_with("usage: git agent review diff "),
        "{help}"
    );
    for word in ["ls", "ps"] {
        let listed = repo.agent([word, "--porcelain"]).success();
        assert!(listed.stdout().contains("\tfix\t"), "{listed}");
    }
    repo.agent(["list", "-a"]).success();
    let short = repo.agent(["log", "-2", "fix"]).success();
    let long = repo.agent(["log", "-n", "2", "fix"]).success();
    assert_eq!(short.stdout(), long.stdout());
}

#[test]
fn a_program_of_the_user_comes_before_a_word_of_ours() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sandbox.program("git-agent-diff", "echo mine \"$@\"");
    repo.agent(["diff", "x"])
        .success()
        .assert_stdout("mine x\n");
}
