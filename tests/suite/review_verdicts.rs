//! Verdicts: what they say and who gets to read it; and on several sessions at once, shown first, never more than was
//! shown, and only what is ready is approved.

use git_agent_tests::Sandbox;

#[test]
fn what_is_ready_is_approved_together() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for name in ["one", "two", "three"] {
        let step = format!("write {name} text\\nmore\\n");
        repo.new_session(name, &["--group", "g"], &[&step, "print done"]);
    }
    for name in ["one", "two", "three"] {
        repo.await_state(name, "ready");
    }
    repo.agent(["review", "request-changes", "three", "-m", "no"])
        .success();
    let asked = repo.agent(["review", "approve", "--group", "g"]).code(128);
    asked.assert_says("without a terminal");
    asked.assert_says("--yes");
    let state = |name: &str| {
        let shown = repo.agent(["list", "--all", "--json"]).success().json();
        let sessions = shown["sessions"].as_array().cloned().expect("a list");
        let found = sessions.into_iter().find(|one| one["name"] == name);
        found.expect("the session")["state"].clone()
    };
    assert_eq!(state("one"), "ready", "nobody agreed");
    let approved = repo
        .agent(["review", "approve", "--all", "--yes", "-m", "fine"])
        .success();
    let lines = approved.lines();
    assert!(
        lines[0].starts_with("one at ") && lines[0].ends_with("1 file, +3 -0, not all committed"),
        "{approved}"
    );
    assert_eq!(lines.len(), 2, "what is not ready is not shown: {approved}");
    approved.assert_says("git agent merge --into main one two");
    assert_eq!(
        (state("one"), state("two"), state("three")),
        (
            "approved".into(),
            "approved".into(),
            "changes-requested".into()
        )
    );
    repo.agent(["review", "approve", "--all", "--yes"])
        .code(1)
        .assert_says("none of these sessions needs this verdict");
    repo.agent(["review", "reject", "--group", "g", "--yes"])
        .success()
        .assert_says("git agent clean one two three");
    assert_eq!(state("three"), "rejected");
}

#[test]
fn a_comparison_knows_the_tests_and_what_to_type() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.git(["config", "agent.test", "test ! -f bad"])
        .success();
    repo.new_session("good", &[], &["write f 1", "commit work", "print done"]);
    repo.new_session("bad", &[], &["write bad 1", "commit work", "print done"]);
    repo.await_state("good", "ready");
    repo.await_state("bad", "ready");
    let tests = || {
        let shown = repo.agent(["review", "compare", "good", "bad"]).success();
        let line = shown
            .lines()
            .into_iter()
            .find(|line| line.starts_with("tests"));
        line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(tests(), None, "nobody has run them");
    let shown = repo.agent(["review", "compare", "good", "bad"]).success();
    shown.assert_says("git agent merge --into main good");
    assert!(!shown.to_string().contains("--pick"), "there is no group");
    repo.agent(["review", "approve", "bad"]).success();
    repo.agent(["merge", "--into", "main", "bad", "--yes"])
        .code(1);
    assert_eq!(tests().as_deref(), Some("tests failed"));
    let listed = repo
        .agent(["review", "compare", "good", "bad", "--json"])
        .success();
    let listed: serde_json::Value = serde_json::from_str(listed.stdout()).expect("JSON");
    assert_eq!(listed["sessions"][1]["tests"], "failed");
    assert!(listed["sessions"][0].get("tests").is_none(), "nobody knows");
}

#[test]
fn plain_git_shows_reviews_once_it_is_asked_for() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\n", "commit work", "print done"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "f:1", "-m", "why \x1b[2Jone?"])
        .success();
    repo.agent([
        "review",
        "comment",
        "s",
        "README.md:1",
        "--old",
        "-m",
        "as it was",
    ])
    .success();
    repo.agent(["review", "comment", "s", "-m", "all of it"])
        .success();
    repo.agent(["review", "comment", "s", "--turn", "1", "-m", "a turn"])
        .success();
    let notes = || {
        let log = repo.git(["log", "-2", "--notes=agents/review", "agent/s"]);
        log.success().stdout().to_owned()
    };
    assert!(!notes().contains("why"), "nobody asked for it");
    let prefix = sandbox.work().join("prefix");
    let install = |more: &[&str]| {
        let mut words = vec!["install", "--display-notes", "--prefix"];
        words.push(prefix.to_str().expect("a path"));
        words.extend(more);
        repo.agent(words).success()
    };
    let said = install(&[]);
    assert!(said.stdout().contains("set agent.displayNotes"), "{said}");
    let shown = notes();
    assert!(
        shown.contains("s: f:1 (open)") && shown.contains("one?") && !shown.contains('\x1b'),
        "{shown}"
    );
    assert!(
        shown.contains("s: README.md:1 (open, before the change)"),
        "{shown}"
    );
    let newest = repo.git(["log", "-1", "--notes=agents/review", "agent/s"]);
    let newest = newest.success();
    for (place, text) in [
        ("s: the session as a whole (open)", "    all of it\n"),
        ("s: turn 1 of the conversation (open)", "    a turn\n"),
    ] {
        let shown = newest.stdout();
        assert!(shown.contains(place) && shown.contains(text), "{newest}");
    }
    let said = install(&["--uninstall"]);
    assert!(said.stdout().contains("unset agent.displayNotes"), "{said}");
}

#[test]
fn an_agent_does_not_judge_itself_whatever_it_pretends() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let done = sandbox.root().join("done");
    let script = format!(
        "echo work > work
        approve() {{ git agent review approve s 2>&1; }}
        approve
        (unset GIT_AGENT_SESSION; approve)
        (GIT_AGENT_SESSION=01m7jgzt4qwe0s1k41jwdaps9w; approve)
        (unset GIT_AGENT_SESSION; git agent review comment s work:1 -m disguised)
        git agent review reject s 2>&1
        unset GIT_AGENT_SESSION
        git agent review diff s > /dev/null
        git agent review send s 2>&1
        git agent trust --yes 2>&1
        (sh -c 'git agent review approve s > \"{0}.new\" 2>&1; mv \"{0}.new\" \"{0}\"' &)
        until test -e '{0}'; do sleep 0.1; done
        cat '{0}'",
        done.display()
    );
    repo.agent_cmd(["new", "--json", "s", "--", "sh", "-c", &script])
        .run()
        .success();
    repo.await_state("s", "ready");
    let said = repo.agent(["log", "s"]).success();
    let count = |text: &str| said.stdout().matches(text).count();
    assert_eq!(count("'s' cannot approve its own work"), 4, "{said}");
    assert_eq!(count("'s' cannot judge its own work"), 1, "{said}");
    assert_eq!(count("cannot send comments to itself"), 1, "{said}");
    assert_eq!(
        count("only the user can change the trust in the team's file"),
        1,
        "{said}"
    );
    repo.agent(["review", "diff", "s", "--since-review"])
        .success()
        .assert_says("you have not seen session");
    assert!(repo.session("s")["verdict"].is_null());
    let all = repo
        .agent(["review", "list", "s", "--json"])
        .success()
        .json();
    assert_eq!(
        all["comments"][0]["comments"][0]["author"], "command (s)",
        "and it speaks for nobody else: {all}"
    );
}

#[test]
fn a_verdict_on_more_than_was_shown_says_so() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f text", "commit work"]);
    repo.await_state("s", "ready");
    let never = repo.agent(["review", "approve", "s"]).success();
    assert!(!never.stderr().contains("last shown"), "{never}");
    repo.agent(["review", "diff", "s"]).success();
    repo.worktree_of("s").write("late", "text\n");
    let approved = repo.agent(["review", "approve", "s"]).success();
    approved.assert_says("'s' has changed since it was last shown: 1 file");
    approved.assert_says("hint: git agent review diff s\n");
    let all = repo.agent(["review", "diff", "s"]).success();
    assert!(all.stdout().contains("late"), "{all}");
    let again = repo.agent(["review", "approve", "s"]).success();
    assert!(!again.stderr().contains("last shown"), "{again}");
    // What is new is shown with what was seen before, or alone.
    repo.worktree_of("s").write("later", "text\n");
    let news = repo.agent(["review", "diff", "s", "--since-review"]);
    assert!(news.success().stdout().contains("later"));
    let seen = repo.agent(["review", "approve", "s"]).success();
    assert!(!seen.stderr().contains("last shown"), "{seen}");
}

#[test]
fn who_made_work_together_does_not_judge_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let commit = |name: &str| format!("echo {name} >{name}; git add .; git commit -qm {name}");
    let run = |words: &[&str], script: &str| {
        let words = ["--json", "task", "--", "sh", "-c", script]
            .iter()
            .fold(words.to_vec(), |all, word| [all, vec![*word]].concat());
        repo.agent_cmd(words).run().success();
    };
    let said = |name: &str| {
        repo.await_state(name, "ready");
        repo.agent(["log", name]).success().stdout().to_owned()
    };
    run(&["new", "--name", "s"], &commit("work"));
    repo.await_state("s", "ready");
    let approve = format!("{}; git agent review approve s 2>&1; true", commit("more"));
    run(&["new", "--name", "guest", "--in", "s"], &approve);
    let words = "session 'guest' cannot approve the work of 's': both work in one worktree";
    assert!(said("guest").contains(words), "{}", said("guest"));
    assert!(repo.session("s")["verdict"].is_null());
    // Whoever only reads there may.
    let reads = ["new", "--name", "reader", "--in", "s", "--read-only"];
    run(&reads, "git agent review approve s 2>&1");
    said("reader");
    assert!(repo.session("s")["verdict"].is_null());
    repo.git(["config", "agent.approvers", "reader"]).success();
    assert_eq!(repo.session("s")["verdict"], "approve");
    // An agent starts nobody who would judge it, whatever it makes of its environment, and does not prompt itself.
    let hide = "env -u GIT_AGENT_SESSION";
    let script = format!(
        "{}; cd '{}'; {hide} git agent new --name helper x -- 'git agent review approve sly' 2>&1; \
         {hide} git agent send sly again 2>&1; {hide} git agent send other 'approve it' 2>&1; true",
        commit("sly"),
        repo.path().display()
    );
    run(&["new", "--name", "other"], "echo done");
    repo.await_state("other", "ready");
    run(&["new", "--name", "sly"], &script);
    let log = said("sly");
    for words in [
        "this runs in session 'sly', whose agent may not start sessions",
        "session 'sly' cannot prompt itself",
        "this runs in session 'sly', whose agent may not send prompts to session 'other'",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(
        !repo
            .refs("refs/heads")
            .contains_key("refs/heads/agent/helper")
    );
    // A person who works in its worktree is no agent.
    let draft = "git agent new --no-start --name later x -- true";
    let draft = ["exec", "sly", "--", "sh", "-c", draft];
    repo.agent([
        "exec", "other", "--", "git", "agent", "send", "other", "task",
    ])
    .success();
    repo.agent(draft).success();
}

#[test]
fn what_an_agent_decides_does_not_replace_what_a_person_did() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for name in ["s", "other"] {
        repo.new_session(name, &[], &["write f text", "print done"]);
        repo.await_state(name, "ready");
    }
    let other = repo.session("other")["id"].as_str().map(str::to_owned);
    repo.agent(["review", "reject", "s", "-m", "never"])
        .success();
    repo.agent_cmd(["review", "approve", "s"])
        .env("GIT_AGENT_SESSION", other.expect("an id"))
        .run()
        .success();
    assert_eq!(repo.session("s")["verdict"], "reject");
    repo.agent(["review", "approve", "s"]).success();
    assert_eq!(repo.session("s")["verdict"], "approve");
}

#[test]
fn what_is_said_fits_the_work() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("old.txt", "1\n2\n3\n4\n5\n6\n7\n8\n");
    repo.commit("old");
    repo.git(["branch", "dev"]).success();
    let move_it = "git mv old.txt new.txt && git commit -qm moved";
    for (name, from, work) in [
        ("moved", "main", move_it),
        ("added", "dev", "echo x >x; git add x; git commit -qm x"),
    ] {
        repo.agent(["new", name, "--from", from, "--", "sh", "-c", work])
            .success();
        repo.await_state(name, "ready");
    }
    repo.agent(["review", "comment", "moved", "old.txt:2", "-m", "text"])
        .code(128)
        .assert_says("session 'moved' renamed 'old.txt' to 'new.txt'");
    repo.agent(["review", "comment", "moved", "new.txt", "-m", "text"])
        .success()
        .assert_says("on 'moved', new.txt");
    let compared = repo.agent(["review", "compare", "moved", "added"]);
    let compared = compared.success();
    let lines = compared.lines();
    let changed = lines.iter().find(|line| line.starts_with("lines"));
    let words: Vec<&str> = changed.map_or(Vec::new(), |line| line.split_whitespace().collect());
    let none_and_one = ["lines", "+0", "−0", "+1", "−0"];
    assert_eq!(words, none_and_one, "a rename is none: {compared}");
    repo.agent(["review", "approve", "moved", "added"])
        .success();
    let table = repo.agent(["review"]).success();
    table.assert_says("git agent review send moved");
    table.assert_says("git agent merge --into dev added");
    repo.agent(["merge", "--into", "main", "moved"]).success();
    for verb in ["approve", "reject"] {
        repo.agent(["review", verb, "moved", "-m", "why"])
            .code(128)
            .assert_says("is already merged: it takes no verdict");
    }
    repo.agent(["review", "send", "added", "-m", "my words"])
        .code(1)
        .assert_says("the text is kept in");
}

#[test]
fn why_changes_are_requested_is_shown_and_sent() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one", "print done"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "approve", "s", "-m", "good as it is"])
        .success();
    repo.agent(["review", "send", "s"])
        .code(1)
        .assert_says("hint: git agent review comment s FILE:LINE");
    repo.agent(["review", "request-changes", "s"])
        .success()
        .assert_says("hint: git agent review comment s FILE:LINE");
    let why = "mend \x1b[2Jit\nand test it";
    repo.agent(["review", "request-changes", "s", "-m", why])
        .success()
        .assert_says("hint: git agent review send s");

    let list = || repo.agent(["review", "list", "s"]).success();
    let listed = list();
    let lines = listed.lines();
    let tip = &repo.id("agent/s")[..10];
    assert!(
        lines[1].contains(&format!(" requests changes at {tip}, ")),
        "{listed}"
    );
    assert!(
        lines[2].starts_with("│   mend ") && lines[3] == "│   and test it",
        "{listed}"
    );
    let shown = repo.agent(["show", "s"]).success();
    assert!(
        shown.stdout().contains(" requests changes at ")
            && shown.stdout().contains("            and test it\n"),
        "{shown}"
    );
    for text in [listed.stdout(), shown.stdout()] {
        assert!(!text.contains('\x1b'), "it stays escaped: {text:?}");
    }
    let machines = |words: &[&str]| repo.agent(words).success().json();
    for told in [
        &machines(&["review", "list", "s", "--json"])["verdicts"],
        &machines(&["show", "s", "--json"])["sessions"][0]["verdicts"],
    ] {
        let one = &told[0];
        assert_eq!(told.as_array().map(Vec::len), Some(1), "{told:#}");
        assert_eq!(one["verdict"], "request-changes", "{one:#}");
        assert_eq!(one["message"], why, "{one:#}");
        assert_eq!(one["tip"], repo.id("agent/s"), "{one:#}");
        assert_eq!(one["stale"], false, "{one:#}");
    }

    let sent = repo
        .agent(["review", "send", "s", "--dry-run", "-m", "Please."])
        .success();
    assert!(
        sent.stdout()
            .starts_with("Please.\n\nA reviewer requested changes"),
        "{sent}"
    );
    assert!(
        sent.stdout().contains("\n> and test it\n")
            && !sent.stdout().contains("Review comments")
            && !sent.stdout().contains("good as it is"),
        "{sent}"
    );
    repo.agent(["review", "comment", "s", "f:1", "-m", "here"])
        .success();
    let told = machines(&["review", "send", "s", "--json"]);
    for key in ["comments", "verdicts"] {
        assert_eq!(told[key].as_array().map(Vec::len), Some(1), "{told:#}");
    }
    repo.agent(["wait", "s"]).success();
    let prompts = repo.texts("s", "prompt");
    let last = prompts.last().expect("a prompt");
    let at = |words: &str| last.find(words).expect(words);
    assert!(at("> and test it") < at("> here"), "{last}");

    // Once is enough, and what is about other work is not sent at all.
    let dry = |option: &[&str]| {
        let words = ["review", "send", "s", "--dry-run"];
        repo.agent_cmd(words).args(option).run()
    };
    dry(&[])
        .code(1)
        .assert_says("hint: send them again: --again\n");
    let again = dry(&["--again"]).success();
    assert!(again.stdout().contains("> and test it"), "{again}");
    repo.worktree_of("s").write("f", "two\n");
    assert!(list().lines()[1].ends_with(", stale"), "{}", list());
    let again = dry(&["--again"]).success();
    assert!(!again.stdout().contains("test it"), "{again}");
}

#[test]
fn what_an_agent_said_itself_is_no_hint_to_send_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "echo one >f; git agent review comment s f:1 -m own";
    repo.agent(["new", "s", "--", "sh", "-c", script]).success();
    repo.await_state("s", "ready");
    for options in [&[][..], &["--again"], &["--others"]] {
        let sent = repo.agent_cmd(["review", "send", "s"]).args(options).run();
        let sent = sent.code(1);
        sent.assert_says("hint: git agent review comment s FILE:LINE");
        assert!(!sent.stderr().contains("--"), "{sent}");
    }
}

#[test]
fn sessions_that_are_named_are_judged_together() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for name in ["one", "two"] {
        repo.new_session(name, &[], &["write f text", "print done"]);
        repo.await_state(name, "ready");
    }
    let busy = sandbox.root().join("busy");
    let script = format!("while ! test -e '{}'; do sleep 0.1; done", busy.display());
    repo.agent(["new", "three", "--", "sh", "-c", &script])
        .success();
    let refused = repo
        .agent(["review", "approve", "one", "three", "--json"])
        .code(128);
    refused.assert_says("session 'three' is at work");
    assert_eq!(refused.stdout(), "");
    assert!(repo.session("one")["verdict"].is_null(), "nor is the other");
    std::fs::write(&busy, "").expect("the sandbox is writable");

    // What cannot be foreseen: the work of one cannot be kept.
    repo.worktree_of("two").write("f", "other\n");
    let id = repo.session("two")["id"].as_str().map(str::to_owned);
    let lock = format!(
        "refs/agents-local/snapshots/{}.lock",
        id.expect("a session has an id")
    );
    std::fs::write(repo.common_dir().join(lock), "").expect("the sandbox is writable");
    let half = repo
        .agent(["review", "approve", "one", "two", "--json"])
        .code(128);
    let told = half.json();
    assert_eq!(told["verdicts"][0]["name"], "one", "{half}");
    assert_eq!(repo.session("one")["verdict"], "approve");
}

#[test]
fn only_what_would_be_sent_is_hinted_at() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one", "print done"]);
    repo.await_state("s", "ready");
    let send = "hint: git agent review send s";
    let table = || repo.agent(["review"]).success();
    assert!(!table().stderr().contains(send));
    repo.agent(["review", "comment", "s", "f:1", "-m", "better"])
        .success()
        .assert_says(send);
    table().assert_says(send);
    repo.agent(["review", "send", "s"]).success();
    repo.agent(["wait", "s", "--timeout", "60s"]).success();
    let sent = table();
    assert!(
        !sent.stderr().contains(send),
        "it is open, and sent: {sent}"
    );
    assert!(sent.stdout().contains(" 1 "), "{sent}");
    // The agent speaks about its own work, and cannot send to itself.
    let said = repo
        .agent_cmd([
            "exec", "s", "--", "git", "agent", "review", "comment", "s", "-m", "mine",
        ])
        .run()
        .success();
    assert!(!said.stderr().contains("review send"), "{said}");
}

#[test]
fn of_two_verdicts_at_once_the_state_follows_the_one_that_counts() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one", "print done"]);
    repo.await_state("s", "ready");
    for _ in 0..5 {
        let words = [
            &["review", "approve", "s"][..],
            &["review", "request-changes", "s", "-m", "no"],
        ];
        let running = words.map(|words| repo.agent_cmd(words).spawn());
        for run in running {
            run.wait().success();
        }
        let session = repo.session("s");
        let wanted = match session["verdict"].as_str() {
            Some("approve") => "approved",
            _ => "changes-requested",
        };
        assert_eq!(session["state"], wanted, "{session:#}");
    }
}

#[test]
fn what_changed_nothing_has_nothing_to_land() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("empty", &[], &["print done"]);
    repo.new_session("full", &[], &["write f text", "print done"]);
    for name in ["empty", "full"] {
        repo.await_state(name, "ready");
    }
    let approved = repo.agent(["review", "approve", "empty"]).success();
    assert!(!approved.stderr().contains("git agent merge"), "{approved}");
    let approved = repo.agent(["review", "approve", "empty", "full"]).success();
    approved.assert_says("git agent merge --into main full\n");
    let table = repo.agent(["review"]).success();
    table.assert_says("git agent merge --into main full\n");
}

#[test]
fn the_log_says_one_thing_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("fix", &[], &["write out.txt hello", "commit x"]);
    repo.agent(["wait", "fix"]).success();
    repo.agent(["review", "approve", "fix"]).success();
    repo.agent(["merge", "--yes", "fix"]).success();
    let log = repo.agent(["log", "fix"]).success();
    let told = |words: &str| {
        log.stdout()
            .lines()
            .filter(|line| line.contains(words))
            .count()
    };
    assert_eq!(told("-- approved"), 1, "{log}");
    assert_eq!(told("approved: approved"), 0, "{log}");
    assert_eq!(told("-- merged"), 1, "{log}");
    let shown = repo.agent(["show", "fix"]).success();
    assert!(!shown.stdout().contains("because"), "{shown}");
    assert!(shown.stdout().contains("in 'main' as"), "{shown}");
}
