//! The list and the log as a user sees them: the order, the words, and what fits a screen of 80, 120 or 200 columns.

use git_agent_tests::{Cmd, Output, Repo, Sandbox, wait_until};

/// Runs a command on a terminal of this width, without colours and without a pager.
fn on_screen(command: Cmd, width: usize) -> Output {
    command
        .on_terminal()
        .env("COLUMNS", width.to_string())
        .env("NO_COLOR", "1")
        .env("GIT_PAGER", "cat")
        .run()
        .whatever()
}

/// Returns the number of cells of a line of this test: Japanese characters take two.
pub fn cells(line: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{3000}'..='\u{9fff}' | '\u{ff00}'..='\u{ff60}');
    line.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}

/// Returns the lines of a screen, each of which fits it.
fn lines(shown: &Output, width: usize) -> Vec<String> {
    let lines = shown
        .stdout()
        .lines()
        .map(|line| line.trim_end_matches('\r'));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    for line in &lines {
        assert!(cells(line) <= width, "{width}: {line:?}\n{shown}");
        assert!(!line.contains('\x1b'), "{line:?}");
    }
    lines
}

/// Returns the first words of the lines of a list, without its header and footer.
fn names(repo: &Repo<'_>) -> Vec<String> {
    let listed = repo.agent(["list"]).success();
    let rows = listed.stdout().lines().skip(1);
    rows.filter_map(|line| Some(line.split(' ').next()?.to_owned()))
        .collect()
}

/// Sessions in every section: one that failed, one to review, one at work, two queued, one without changes.
fn sections<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    let gate = sandbox.root().join("gate").display().to_string();
    repo.git(["config", "agent.maxParallel", "1"]).success();
    repo.new_session("nothing", &[], &["print looked around"]);
    repo.await_state("nothing", "ready");
    repo.new_session("api", &[], &["write api x", "print wrote it"]);
    repo.await_state("api", "ready");
    repo.new_session("broken", &[], &["error oops", "exit 3"]);
    repo.await_state("broken", "failed");
    repo.new_session("busy", &[], &["print at work", &format!("until {gate}")]);
    repo.agent(["wait", "busy", "--state", "running"]).success();
    repo.new_session("later", &["--after", "busy"], &["write later x"]);
    repo.new_session("next", &[], &["write next x"]);
    repo.new_session("last", &[], &["write last x"]);
    repo
}

#[test]
fn the_list_begins_with_what_needs_the_user() {
    let sandbox = Sandbox::new();
    let repo = sections(&sandbox);
    wait_until("two wait for the slot", || {
        let listed = repo.agent(["list"]).success();
        listed.stdout().contains("next in the queue") && listed.stdout().contains("1 before it")
    });
    assert_eq!(
        names(&repo),
        ["broken", "api", "busy", "next", "last", "later", "nothing"]
    );
    let listed = repo.agent(["list"]).success();
    let line = |name: &str| {
        let found = listed.stdout().lines().find(|line| line.starts_with(name));
        found.unwrap_or_default().to_owned()
    };
    assert!(line("later").contains("waits for busy"), "{listed}");
    assert!(line("broken").contains("exit code 3: oops"), "{listed}");
    assert!(line("api").contains(" wrote it"), "{listed}");
    let shown = repo.agent(["show", "later"]).success();
    assert!(
        shown.stdout().contains("because   waits for busy"),
        "{shown}"
    );
    let shown = repo.agent(["show", "broken"]).success();
    assert!(
        shown.stdout().contains("because   exit code 3: oops\n"),
        "{shown}"
    );
    // Programs get the order of creation, and whole values without a footer.
    let rows = repo.agent(["list", "--porcelain"]).success();
    let third = |line: &str| line.split('\t').nth(2).map(str::to_owned);
    let order: Vec<String> = rows.stdout().lines().filter_map(third).collect();
    assert_eq!(
        order,
        ["nothing", "api", "broken", "busy", "later", "next", "last"]
    );
    assert!(!listed.stdout().contains("need attention"), "{listed}");
    listed.assert_quiet();
    // On a screen there are counts and the two most urgent steps, dim.
    let screen = on_screen(repo.agent_cmd(["status"]), 80);
    let text = screen.stdout().replace('\r', "");
    assert!(
        text.contains("\n2 need attention, 1 working, 3 queued, 1 done\n"),
        "{text}"
    );
    assert!(
        text.ends_with("hint: git agent restart broken\nhint: git agent review diff api\n"),
        "{text}"
    );
    let colored = repo.agent_cmd(["list"]).on_terminal().run().success();
    assert!(colored.stdout().contains("\x1b[2mhint: "), "{colored}");
    assert!(
        !colored.stdout().contains("\x1b[34m"),
        "no dark blue: {colored}"
    );
    repo.git(["config", "color.agent.bad", "bold magenta"])
        .success();
    let colored = repo.agent_cmd(["list"]).on_terminal().run().success();
    assert!(
        colored.stdout().contains("\x1b[1;35mfailed\x1b[m"),
        "{colored}"
    );
    std::fs::write(sandbox.root().join("gate"), "").expect("the sandbox is writable");
    for name in ["busy", "later", "next", "last"] {
        repo.await_state(name, "ready");
    }
}

#[test]
fn the_list_fits_every_screen_with_whole_names() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let name = "a-name-of-29-characters-or-so";
    let task = "日本語の長い説明 \u{1b}[2J\u{202e} and more words than any screen of this test has room for, \
        so that the column must be cut at its end, wherever the screen ends, once and for all and for ever";
    for (name, task) in [(name, task), ("short", "a short task")] {
        let words = ["new", "--name", name, task, "--", "fake-agent", "escapes"];
        repo.agent(
            words
                .into_iter()
                .chain(["write f x", "print \u{1b}[31mred 日本"]),
        )
        .success();
        repo.agent(["wait", name]).success();
    }
    for width in [60, 80, 120, 200] {
        let shown = on_screen(repo.agent_cmd(["list"]), width);
        let lines = lines(&shown, width);
        assert!(lines.iter().any(|line| line.starts_with(name)), "{shown}");
        assert_eq!(lines[0].contains("TASK"), width >= 120, "{shown}");
        assert_eq!(
            shown.stdout().contains("a short task"),
            width >= 120,
            "{shown}"
        );
        // On a very narrow screen the name and the activity come first.
        if width >= 80 {
            assert!(lines[0].contains("UPDATED"), "{shown}");
            assert!(shown.stdout().contains(" ago") || shown.stdout().contains("just now"));
        }
        assert!(shown.stdout().contains("\n2 need attention"), "{shown}");
    }
}

#[test]
fn the_log_has_a_header_for_each_turn_and_fits_every_screen() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let long = "many words ".repeat(30) + &"日本語".repeat(30);
    repo.agent([
        "new",
        "--name",
        "wipe",
        &long,
        "--",
        "fake-agent",
        &format!("print {long}"),
    ])
    .success();
    repo.agent(["wait", "wipe"]).success();
    repo.agent(["send", "wipe", "again"]).success();
    repo.agent(["wait", "wipe"]).success();
    for width in [60, 80, 120, 200] {
        let shown = on_screen(repo.agent_cmd(["log", "wipe"]), width);
        let lines = lines(&shown, width);
        let headers = lines.iter().filter(|line| line.contains(" turn "));
        let headers: Vec<&String> = headers.collect();
        assert_eq!(headers.len(), 2, "{shown}");
        assert!(headers[0].contains(" turn 1 · command · "), "{shown}");
        let words = shown.stdout().matches("many").count();
        assert!(words >= 3 * 30, "nothing is cut: {words}\n{shown}");
    }
    let piped = repo.agent(["log", "wipe"]).success();
    assert!(
        piped.stdout().contains(&long),
        "nothing is wrapped for a program"
    );
}

#[test]
fn the_pager_of_the_log_begins_at_its_end() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("wipe", &[], &["print one"]);
    repo.agent(["wait", "wipe"]).success();
    sandbox.program("less", "#!/bin/sh\necho \"less $*\"; cat");
    let shown = |words: &[&str]| {
        let run = repo.agent_cmd(words).on_terminal().env_remove("PAGER");
        run.env_remove("GIT_PAGER").run().success()
    };
    let log = shown(&["log", "wipe"]);
    assert!(log.stdout().contains("less -~ +G"), "{log}");
    let sheet = shown(&["show", "wipe"]);
    assert!(sheet.stdout().contains("less \r\n"), "{sheet}");
    repo.git(["config", "pager.diff", "sed s/^/diffpager:/"])
        .success();
    repo.write("../r-worktrees/wipe/f", "x\n");
    let diff = shown(&["review", "diff", "wipe"]);
    assert!(diff.stdout().contains("diffpager:"), "{diff}");
}

#[test]
fn agents_are_listed_outside_a_repository_with_the_way_to_install_them() {
    let sandbox = Sandbox::new();
    let outside = sandbox.root().join("outside");
    std::fs::create_dir_all(&outside).expect("the sandbox is writable");
    sandbox
        .command("git")
        .args(["config", "--global", "agent.mine.command", "fake-agent"])
        .run()
        .success();
    let run = |words: &[&str]| {
        let git = sandbox.command("git").cwd(&outside).arg("agent");
        git.args(words).run().success()
    };
    let listed = run(&["config", "agents"]);
    let line = |name: &str| {
        let found = listed.stdout().lines().find(|line| line.starts_with(name));
        found.unwrap_or_default().to_owned()
    };
    assert!(line("claude").contains("npm install"), "{listed}");
    assert!(!line("claude").contains("not installed"), "{listed}");
    assert!(line("mine").contains("fake-agent"), "{listed}");
    let json = run(&["config", "agents", "--json"]).json();
    let names = json["agents"].as_array().expect("a list");
    assert!(names.iter().any(|agent| agent["name"] == "mine"), "{json}");
    sandbox
        .command("git")
        .cwd(&outside)
        .args(["agent", "config", "roles"])
        .run()
        .code(128);
}
