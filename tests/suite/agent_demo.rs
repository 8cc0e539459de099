//! `git agent demo`: it ends well, leaves nothing behind and touches nothing of the user's.

use std::fs;
use std::time::Duration;

use git_agent_tests::Sandbox;
use rustix::process::Signal;

#[test]
fn it_plays_to_the_end_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    fs::write(
        sandbox.global_config(),
        "[agent]\n\tsetup = exit 1\n\tbranchPrefix = mine\n[commit]\n\tgpgSign = true\n",
    )
    .expect("the sandbox is writable");
    let before = fs::read(sandbox.global_config()).expect("it was written");
    let run = sandbox
        .command("git")
        .args(["agent", "demo"])
        .time_limit(Duration::from_secs(180))
        .run()
        .success();
    for words in [
        "$ git agent new --name wipe",
        "$ git agent list\n",
        "usage: todo (add <text> | list | wipe | remaining)",
        "$ git agent clean\n",
        "* main\n",
    ] {
        assert!(run.stdout().contains(words), "{words}: {run}");
    }
    let left: Vec<_> = fs::read_dir(sandbox.root().join("tmp"))
        .expect("the directory is there")
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let home: Vec<_> = fs::read_dir(sandbox.home())
        .expect("a home")
        .flatten()
        .collect();
    assert!(home.is_empty(), "{home:?}");
    let after = fs::read(sandbox.global_config()).expect("it is there");
    assert_eq!(before, after);
}

#[test]
fn a_reader_that_leaves_ends_it_and_nothing_stays() {
    let sandbox = Sandbox::new();
    sandbox
        .sh("git agent demo | head -n 12 >/dev/null")
        .time_limit(Duration::from_secs(120))
        .run()
        .success();
    let left = fs::read_dir(sandbox.root().join("tmp")).expect("the directory is there");
    assert_eq!(left.count(), 0);
}

#[test]
fn it_can_be_kept() {
    let sandbox = Sandbox::new();
    let run = sandbox
        .command("git")
        .args(["agent", "demo", "--keep"])
        .time_limit(Duration::from_secs(180))
        .run()
        .success();
    let line = run
        .lines()
        .into_iter()
        .find_map(|line| line.strip_prefix("# The repository is kept: cd '"))
        .expect("it says where");
    let path = line.trim_end_matches('\'');
    let status = sandbox
        .command("git")
        .args(["-C", path, "status", "--short"])
        .run();
    status.success().assert_stdout("");
}

#[test]
fn an_interrupt_ends_it_and_its_agents_and_nothing_stays() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        // When the sandbox goes, a process that outlived the demo fails the test.
        let sandbox = Sandbox::new();
        let demo = sandbox
            .command("git")
            .args(["agent", "demo"])
            .time_limit(Duration::from_secs(120))
            .spawn();
        demo.wait_for("$ git agent wait");
        demo.signal_group(signal);
        demo.wait().signal(number);
        let left = fs::read_dir(sandbox.root().join("tmp")).expect("the directory is there");
        assert_eq!(left.count(), 0, "after {signal:?}");
    }
}
