//! The diff of a session's work begins before all of its files were looked at: nothing of it may be missing, stale or twice.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};

/// Files of which the session commits another version, and one that it adds.
const COMMITTED: [&str; 5] = ["a", "b", "c", "k", "added"];

fn session<'a>(sandbox: &'a Sandbox) -> (Repo<'a>, Repo<'a>) {
    let repo = sandbox.repo("r").create();
    for name in ["a", "b", "c", "k", "kept", "m", "moved", "z"] {
        repo.write(name, format!("{name}\n{}", "a line\n".repeat(20)));
    }
    repo.commit("files");
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    for name in COMMITTED {
        let lines = "a line\n".repeat(20);
        tree.write(name, format!("{name}\n{lines}more\n"));
    }
    tree.commit("work");
    settle(&tree);
    (repo, tree)
}

/// Makes the files old enough for their age to tell that they did not change.
fn settle(tree: &Repo<'_>) {
    std::thread::sleep(Duration::from_millis(60));
    tree.git(["update-index", "--force-write-index"]).success();
}

/// Returns the files of a diff in its order.
fn files(diff: &str) -> Vec<&str> {
    diff.lines()
        .filter_map(|line| line.strip_prefix("diff --git a/"))
        .filter_map(|names| names.split_once(" b/"))
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn what_lies_as_committed_does_not_wait() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    let diff = |options: &[&str]| {
        let run = repo.agent([&["review", "diff", "s"], options].concat());
        run.success().stdout().to_owned()
    };
    assert_eq!(files(&diff(&[])), ["a", "added", "b", "c", "k"]);
    // What is found later comes after what was shown already: in git's order it would be the first.
    tree.write("0", "new\n");
    assert_eq!(files(&diff(&[])), ["a", "added", "b", "c", "k", "0"]);
    // Only what comes before the first file that was changed is sure.
    tree.write("b", "other\n");
    assert_eq!(files(&diff(&[])), ["a", "added", "0", "b", "c", "k"]);
    for options in [&["--stat"][..], &["--name-only"], &["--word-diff"]] {
        assert!(diff(options).contains('0'), "{options:?}");
    }
    // In git's own order where what is shown of a file may depend on others.
    let copies = ["-c", "diff.renames=copies", "agent", "review", "diff", "s"];
    let shown = repo.git(copies).success().stdout().to_owned();
    assert_eq!(files(&shown)[0], "0");
    let external = ["-c", "diff.external=echo", "agent", "review", "diff", "s"];
    let shown = repo.git(external).success().stdout().to_owned();
    assert!(shown.starts_with("0 "), "{shown}");
}

#[test]
fn the_first_files_and_the_rest_are_all_there_is() {
    type Change = fn(&Repo<'_>);
    let changes: [(&str, Change); 10] = [
        ("nothing", |_| {}),
        ("a new file before all", |tree| tree.write("0", "new\n")),
        ("the first file", |tree| tree.write("a", "changed\n")),
        ("a file in between", |tree| tree.write("k", "changed\n")),
        ("another file", |tree| tree.write("m", "changed\n")),
        ("a file that was added", |tree| {
            tree.write("added", "other\n")
        }),
        ("a file is gone", |tree| {
            std::fs::remove_file(tree.path().join("c")).expect("ours");
        }),
        ("a file has another name", |tree| {
            std::fs::rename(tree.path().join("moved"), tree.path().join("0moved")).expect("ours");
        }),
        ("something is staged", |tree| {
            tree.write("b", "staged\n");
            tree.git(["add", "b"]).success();
            tree.git(["rm", "-q", "--cached", "z"]).success();
        }),
        ("names that mean something", |tree| {
            tree.write(":(exclude)a", "odd\n");
            tree.write("*", "odd\n");
        }),
    ];
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    let base = repo.id("main^{tree}");
    for name in COMMITTED {
        let (place, text) = (format!("{name}:22"), format!("about {name}."));
        repo.agent(["review", "comment", "s", &place, "-m", &text])
            .success();
    }
    repo.agent(["review", "comment", "s", "-m", "about everything."])
        .success();
    for (what, change) in changes {
        change(&tree);
        let patch = repo.agent(["review", "diff", "s", "--no-comments"]);
        let patch = patch.success().stdout_bytes().to_vec();
        let index = |repo: &Repo<'_>, args: &[&str]| {
            let file = sandbox.home().join("index");
            let command = repo.command("git").env("GIT_INDEX_FILE", file);
            command.args(args)
        };
        index(&repo, &["read-tree", &base]).run().success();
        if !patch.is_empty() {
            let apply = index(&repo, &["apply", "--cached"]).stdin(patch);
            apply.run().success();
        }
        let shown = index(&repo, &["write-tree"])
            .run()
            .success()
            .line()
            .to_owned();
        index(&tree, &["add", "--all"]).run().success();
        let there = index(&tree, &["write-tree"])
            .run()
            .success()
            .line()
            .to_owned();
        assert_eq!(shown, there, "{what}");
        let diff = repo
            .agent(["review", "diff", "s"])
            .success()
            .stdout()
            .to_owned();
        for name in COMMITTED.iter().chain(&["everything"]) {
            let times = diff.matches(&format!("about {name}.")).count();
            assert_eq!(
                times, 1,
                "the comment about {name} when {what} changed:\n{diff}"
            );
        }
        tree.git(["reset", "-q", "--hard"]).success();
        tree.git(["clean", "-qfd"]).success();
        settle(&tree);
    }
}

#[test]
fn what_is_left_out_is_said_first_where_that_is_known() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    std::fs::create_dir(tree.path().join("nested")).expect("ours");
    let nested = Repo::open(&sandbox, tree.path().join("nested"));
    nested.git(["init", "-q"]).success();
    nested.write("f", "x\n");
    let shown = repo.agent(["review", "diff", "s"]).success();
    assert!(shown.stderr().contains("a nested repository"));
    assert_eq!(files(shown.stdout()), ["a", "added", "b", "c", "k"]);
}
