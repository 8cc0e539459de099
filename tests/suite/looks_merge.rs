//! Tables and hints of reviews and merges: short, named, and the most urgent first.

use git_agent_tests::{Cmd, Output, Repo, Sandbox};

use crate::looks_list::cells;

/// Runs a command on a terminal of this width, without colours, and checks that every line fits.
fn on_screen(command: Cmd, width: usize) -> Output {
    let shown = command
        .on_terminal()
        .env("COLUMNS", width.to_string())
        .env("NO_COLOR", "1")
        .env("GIT_PAGER", "cat")
        .stdin("n\n")
        .run()
        .whatever();
    for line in shown.stdout().lines() {
        let line = line.trim_end_matches('\r');
        assert!(cells(line) <= width, "{width}: {line:?}\n{shown}");
    }
    shown
}

fn hints(shown: &Output) -> Vec<String> {
    let lines = shown.stdout().lines().chain(shown.stderr().lines());
    lines
        .filter_map(|line| line.trim_end_matches('\r').strip_prefix("hint: "))
        .map(str::to_owned)
        .collect()
}

/// Returns a repository whose tests pass.
fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.test", "true"]).success();
    repo
}

/// Runs a session to its end and approves its work.
fn session(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    open(repo, name, steps);
    repo.agent(["review", "approve", name]).success();
}

fn open(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    repo.new_session(name, &[], steps);
    repo.agent(["wait", name]).success();
}

#[test]
fn a_broken_test_shows_its_last_lines_and_the_way_back() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "broken", &["write broken x", "commit x"]);
    for name in ["one", "two", "three"] {
        open(&repo, name, &[&format!("write {name} x")]);
    }
    let test = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; ! test -e broken";
    repo.git(["config", "agent.test", test]).success();
    let merged = repo.agent(["merge", "--yes"]).code(1);
    let text = merged.stdout();
    assert!(
        text.contains("the end of the test log of 'broken':"),
        "{merged}"
    );
    assert!(
        text.contains("    line 12\n") && text.contains("    line 3\n"),
        "{merged}"
    );
    assert!(
        !text.contains("    line 2\n"),
        "ten lines are enough: {merged}"
    );
    assert!(
        text.contains("3 more sessions are not approved\n"),
        "{merged}"
    );
    assert!(!text.contains("one  "), "not a row each: {merged}");
    assert_eq!(
        hints(&merged),
        [
            "git agent merge --return broken    send it the test log",
            "git agent review"
        ]
    );
    let hex = |c: char| c.is_ascii_hexdigit();
    let long = |word: &str| word.len() >= 40 && word.chars().all(hex);
    for text in [merged.stdout(), merged.stderr()] {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        assert_eq!(words.filter(|word| long(word)).count(), 0, "{merged}");
    }
    // Programs get every session, and the path of the log.
    let rows = repo.agent(["merge", "--yes", "--porcelain"]).code(1);
    assert_eq!(rows.lines().len(), 4, "{rows}");
    assert!(rows.stdout().contains("; log: /"), "{rows}");
    // The target itself: the log is in the message.
    repo.git(["config", "agent.test", "echo the reason; false"])
        .success();
    let failed = repo.agent(["merge", "--yes"]).code(128);
    failed.assert_says("the reason");
    assert!(!failed.stderr().contains(".log"), "{failed}");
}

#[test]
fn conflicts_have_named_columns_and_fold_the_rest() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("f", "1\n2\n3\n");
    repo.commit("f");
    for name in ["first", "second", "third"] {
        open(
            &repo,
            name,
            &[&format!("write f 1\\n{name}\\n3"), "commit x"],
        );
    }
    for name in ["calm", "quiet"] {
        open(&repo, name, &[&format!("write {name} x"), "commit x"]);
    }
    for width in [80, 120, 200] {
        let shown = on_screen(repo.agent_cmd(["merge", "conflicts"]), width);
        let text = shown.stdout().replace('\r', "");
        let header = text.lines().find(|line| line.starts_with("SESSION"));
        let header = header.unwrap_or_default();
        for column in ["SESSION", "WITH", "FILE", "KIND", "LINES", "THEIR LINES"] {
            assert!(header.contains(column), "{column}: {text}");
        }
        assert!(text.contains("first    second, third  f"), "{text}");
        assert!(text.contains("second   third          f"), "{text}");
        assert!(
            text.contains("2 sessions without conflicts: calm, quiet"),
            "{text}"
        );
        assert!(text.contains("3 of 15 merges would conflict"), "{text}");
    }
}

#[test]
fn a_review_has_a_state_and_a_verdict_and_two_hints() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    open(&repo, "empty", &["print looked"]);
    session(&repo, "good", &["write good x", "commit x"]);
    open(&repo, "fresh", &["write fresh x", "commit x"]);
    for width in [80, 120, 200] {
        let shown = on_screen(repo.agent_cmd(["review"]), width);
        let text = shown.stdout().replace('\r', "");
        let header = text.lines().find(|line| line.starts_with("SESSION"));
        let header = header.unwrap_or_default();
        assert!(header.starts_with("SESSION  STATE     VERDICT"), "{text}");
        assert!(text.contains("good     approved  approved"), "{text}");
        assert!(text.contains("\nfresh    ready "), "{text}");
        assert_eq!(
            hints(&shown),
            [
                "git agent merge --into main good",
                "git agent review diff fresh"
            ]
        );
    }
    // Nobody is sent to a session without changes.
    repo.agent(["merge", "--yes"]).success();
    repo.agent(["review", "reject", "fresh"]).success();
    let shown = repo.agent(["review"]).success();
    assert!(hints(&shown).is_empty(), "{shown}");
}

#[test]
fn versions_are_compared_by_cost_time_size_tests_and_conflicts() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let words = [
        "new",
        "race",
        "-n",
        "3",
        "--group",
        "race",
        "--",
        "fake-agent",
        "write f x",
    ];
    repo.agent(words).success();
    repo.agent(["wait", "--group", "race"]).success();
    for width in [80, 120, 200] {
        let shown = on_screen(repo.agent_cmd(["review", "compare", "race"]), width);
        let text = shown.stdout().replace('\r', "");
        for row in ["agent", "time", "files", "lines", "conflicts"] {
            let found = text
                .lines()
                .any(|line| line.starts_with(&format!("{row} ")));
            assert!(found, "{row}: {text}");
        }
        let hints = hints(&shown);
        assert_eq!(hints.len(), 2, "{text}");
        assert!(
            hints[0].starts_with("git agent review approve race-v"),
            "{text}"
        );
        assert!(
            hints[1].starts_with("git agent merge --pick race-v"),
            "{text}"
        );
    }
}

#[test]
fn cleaning_is_one_line_a_session() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write(".gitignore", "*.log\n");
    repo.commit("ignore logs");
    session(
        &repo,
        "done",
        &["write done x", "commit x", "write a.log x"],
    );
    repo.agent(["merge", "--yes"]).success();
    let cleaned = repo.agent(["clean"]).success();
    let lines = cleaned.lines();
    assert_eq!(lines.len(), 1, "{cleaned}");
    assert!(
        lines[0].starts_with("done: removed worktree and branch agent/done; ignored, "),
        "{cleaned}"
    );
}

#[test]
fn an_approval_mentions_open_comments_and_late_changes() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    open(&repo, "fix", &["write f x", "commit x"]);
    repo.agent(["review", "diff", "fix"]).success();
    repo.agent(["review", "comment", "fix", "f:1", "-m", "why?"])
        .success();
    repo.write("../r-worktrees/fix/g", "more\n");
    let approved = repo.agent(["review", "approve", "fix"]).success();
    approved.assert_says("note: 1 comment is still open");
    assert_eq!(
        hints(&approved),
        [
            "git agent review diff fix",
            "git agent merge --into main fix"
        ]
    );
}

#[test]
fn the_queue_has_words_of_its_own() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    open(&repo, "fix", &["write f x", "commit x"]);
    repo.agent(["merge", "queue", "add", "fix"]).success();
    let listed = repo.agent(["merge", "queue", "list"]).success();
    assert!(listed.stdout().contains("  queued"), "{listed}");
    let rows = repo
        .agent(["merge", "queue", "list", "--porcelain"])
        .success();
    assert!(rows.stdout().contains("\twaiting\t"), "{rows}");
}

#[test]
fn an_undo_is_one_sentence_for_a_user() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "fix", &["write f x", "commit x"]);
    let before = repo.id("main");
    repo.agent(["merge", "--yes"]).success();
    let shown = on_screen(repo.agent_cmd(["merge", "--undo", "--yes"]), 80);
    let words = format!("undone: move 'main' back to {}, without fix", &before[..10]);
    assert!(shown.stdout().contains(&words), "{shown}");
    assert!(!shown.stdout().contains(&before), "{shown}");
    assert_eq!(repo.id("main"), before);
}
