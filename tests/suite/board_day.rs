//! A day at the board, by real key presses in a real terminal: sessions are made, a question is answered, lines are commented
//! on, work is approved and merged, a conflict is resolved, a merge is undone, and everything is cleaned up.

use git_agent_tests::terminal::Terminal;
use git_agent_tests::{Repo, Sandbox};

/// An agent that writes a line, mends it when it is told to, and keeps both sides of a conflict.
const CODER: &str = r#"#!/bin/sh
if grep -q '^<<<<<<< ' shared.txt; then
    sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^=======$/d' -e '/^>>>>>>> /d' shared.txt
    exit
fi
case "$GIT_AGENT_PROMPT" in
*"Review comments"*)
    id=$(printf '%s\n' "$GIT_AGENT_PROMPT" | sed -n 's/.*review resolve \([0-9a-z]*\).*/\1/p' | sed -n 1p)
    sed -i 's/^line of alpha$/better line of alpha/' shared.txt
    git commit -qam "mend it" || exit 1
    git agent review reply "$id" -m "mended as you said" || exit 1
    git agent review resolve "$id" || exit 1
    ;;
*alpha*) sed -i 's/^five$/line of alpha/' shared.txt && git commit -qam alpha ;;
*) sed -i 's/^five$/line of beta/' shared.txt && git commit -qam beta ;;
esac
"#;

fn lab(sandbox: &Sandbox) -> Repo<'_> {
    sandbox.program("coder", CODER);
    let repo = sandbox.repo("shop").create();
    repo.write("shared.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    repo.commit("first");
    let store = sandbox.root().join("conversations");
    std::fs::create_dir_all(&store).expect("the sandbox is writable");
    let asker = format!("fake-acp --store '{}'", store.display());
    for (key, value) in [
        ("agent.fake.command", asker.as_str()),
        ("agent.fake.driver", "acp"),
        ("agent.coder.command", "coder"),
        ("agent.default", "coder"),
        ("agent.permissions", "ask"),
    ] {
        repo.git(["config", key, value]).success();
    }
    repo
}

fn day(size: (u16, u16)) {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    let Some(mut board) = Terminal::open(&repo, size, &["git", "agent", "board"]) else {
        return;
    };
    board.sees("No sessions yet");

    // Three sessions; the third asks.
    for (task, name) in [("alpha", "alpha"), ("beta", "beta")] {
        board.press(&["n"]);
        board.sees("What should be done?");
        board.types(task);
        board.press(&["Enter"]);
        board.sees(name);
        repo.await_state(name, "ready");
    }
    board.press(&["n"]);
    board.types("ask rm everything");
    board.press(&["Tab"]);
    board.types("fake");
    board.press(&["Enter"]);
    board.sees("rm everything");
    board.sees("yes, once");
    board.press(&["y"]);
    board.sees("answered yes");

    // A comment on a line, sent; the agent answers; approved and merged.
    board.press(&["/"]);
    board.types("alpha");
    board.press(&["Enter", "Enter"]);
    board.sees("line of alpha");
    board.press(&["]", "j", "c"]);
    board.types("say better");
    board.press(&["Enter"]);
    board.sees("1 to send");
    board.press(&["s"]);
    board.sees("mended as you said");
    board.sees("better line of alpha");
    repo.await_state("alpha", "ready");
    board.press(&["a"]);
    board.sees("approve 'alpha' exactly");
    board.press(&["y"]);
    board.sees("✓ approved");
    board.press(&["L"]);
    board.sees("merge 1 session into 'main'?");
    board.press(&["y"]);
    board.sees("merged alpha into 'main'");
    assert!(String::from_utf8_lossy(&repo.read("shared.txt")).contains("better line of alpha"));

    // The other one conflicts; its agent resolves.
    board.press(&["q", "/"]);
    board.tmux(&["send-keys", "C-u"]);
    board.types("beta");
    board.press(&["Enter"]);
    board.sees("≠ 1 conflict");
    board.press(&["R"]);
    board.sees("let an agent resolve");
    board.press(&["y"]);
    board.sees("take this resolution");
    board.press(&["y"]);
    board.sees("now has the resolution");
    board.press(&["a"]);
    board.sees("approve 'beta' exactly");
    board.press(&["y"]);
    board.sees("approved 'beta'");
    board.press(&["m"]);
    board.sees("merge 1 session into 'main'?");
    board.press(&["y"]);
    board.sees("merged beta into 'main'");
    let both = String::from_utf8_lossy(&repo.read("shared.txt")).into_owned();
    assert!(
        both.contains("line of beta") && both.contains("better line of alpha"),
        "{both}"
    );

    board.press(&["u"]);
    board.sees("undo the last merge?");
    board.press(&["y"]);
    board.sees("undone:");
    let one = String::from_utf8_lossy(&repo.read("shared.txt")).into_owned();
    assert!(!one.contains("line of beta"), "{one}");
    board.press(&["C"]);
    board.sees("remove merged sessions?");
    board.press(&["y"]);
    board.sees("removed 2 worktrees");
    assert!(board.presses <= 40, "{} presses", board.presses);
    drop(board);
    repo.assert_whole();
}

#[test]
#[ignore = "a long day at the keys, run by hand: its waits do not always hold on a busy machine"]
fn a_day_on_a_small_terminal() {
    day((80, 24));
}

#[test]
#[ignore = "a long day at the keys, run by hand: its waits do not always hold on a busy machine"]
fn a_day_on_a_usual_terminal() {
    day((120, 40));
}

#[test]
#[ignore = "a long day at the keys, run by hand: its waits do not always hold on a busy machine"]
fn a_day_on_a_wide_terminal() {
    day((200, 50));
}

#[test]
fn the_terminal_is_put_back_and_sessions_go_on() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent(["new", "--name", "long", "--", "sleep 600"])
        .success();
    repo.await_state("long", "running");
    let script = "stty -a >before; git agent board; stty -a >after; cmp before after && echo put back; read x";
    let Some(mut board) = Terminal::open(&repo, (100, 30), &["sh", "-c", script]) else {
        return;
    };
    board.sees("1 working");
    for size in [(60, 10), (20, 5), (200, 50), (100, 30)] {
        let (wide, high) = (size.0.to_string(), size.1.to_string());
        board.tmux(&["resize-window", "-x", &wide, "-y", &high]);
    }
    board.sees("1 working");
    board.press(&["q"]);
    board.sees("put back");
    assert_eq!(repo.state("long"), "running");
    repo.agent(["stop", "long"]).success();
}

#[test]
fn without_a_terminal_it_names_the_command_to_use() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["board"])
        .code(128)
        .assert_says("the board needs a terminal")
        .assert_says("hint: git agent list");
    repo.agent(["board", "--review", "x"])
        .code(128)
        .assert_says("hint: git agent review diff x");
    repo.agent_cmd(["board"])
        .env("GIT_PAGER_IN_USE", "true")
        .run()
        .code(128)
        .assert_says("pager");
}
