//! Conflicts before they happen: of every session with its branch, and of every two sessions.

use std::time::Duration;

use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

/// Makes a repository with a file of twenty lines.
fn lab(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    let lines: String = (1..=20).map(|line| format!("line {line}\n")).collect();
    repo.write("f", lines);
    repo.write("d/a", "a\na\na\n");
    repo.write("d/b", "b\nb\nb\n");
    repo.commit("first");
    repo
}

/// Makes sessions, each with a shell script as its agent, and waits until they are ready.
fn sessions(repo: &Repo<'_>, all: &[(&str, &str)]) {
    for (name, script) in all {
        repo.agent(["new", name, "--", "sh", "-c", script])
            .success();
    }
    for (name, _) in all {
        repo.agent_cmd(["wait", "--timeout", "100s", name])
            .time_limit(Duration::from_secs(130))
            .run()
            .success();
    }
}

fn pairs(repo: &Repo<'_>, words: &[&str]) -> Vec<String> {
    let run = repo
        .agent(["merge", "conflicts", "--porcelain"].iter().chain(words))
        .whatever();
    run.lines()
        .into_iter()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [verdict, _, ours, _, theirs, kind, first, second, path] = fields.as_slice() else {
                panic!("a record has nine fields: {line}");
            };
            let told = format!("{ours}+{theirs} {verdict} {kind} {first} {second} {path}");
            told.trim_end().to_owned()
        })
        .collect()
}

#[test]
fn every_pair_is_compared_with_what_is_not_committed() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sessions(
        &repo,
        &[
            ("one", "sed -i 's/line 5$/one/' f; git commit -qam one"),
            ("two", "sed -i 's/line 5$/two/' f; echo two > new"),
            ("three", "echo three > other"),
        ],
    );
    repo.write("g", "g\n");
    repo.commit("main goes on");
    let expected = [
        "main+one clean",
        "main+two clean",
        "main+three clean",
        "one+two conflict contents 5 5 f",
        "one+three clean",
        "two+three clean",
    ];
    assert_eq!(pairs(&repo, &[]), expected);
    repo.agent(["merge", "conflicts"]).code(1);
    assert_eq!(pairs(&repo, &[]), expected, "from memory");
    // What is remembered may be damaged at any time.
    let memory = repo.common_dir().join("agents/cache/conflicts");
    let mut bytes = std::fs::read(&memory).expect("there is a memory");
    let at = bytes.len() / 2;
    bytes[at] ^= 0x20;
    bytes.truncate(bytes.len() - 7);
    std::fs::write(&memory, bytes).expect("written");
    assert_eq!(pairs(&repo, &[]), expected, "from a damaged memory");
    // Now, and not at the end of the last turn.
    repo.worktree_of("three").write("f", "everything else\n");
    assert_eq!(pairs(&repo, &["three"]).len(), 3);
    assert!(
        pairs(&repo, &["three"])
            .iter()
            .all(|pair| pair.contains(" clean"))
    );
    let live = pairs(&repo, &["--live", "three"]);
    assert!(
        live[1].starts_with("one+three conflict contents"),
        "{live:?}"
    );
    assert!(
        live[2].starts_with("two+three conflict contents"),
        "{live:?}"
    );
    repo.agent(["merge", "conflicts", "--into", "nowhere"])
        .code(128)
        .assert_says("nowhere");
    let scratch = repo.common_dir().join("agents/tmp");
    let left = std::fs::read_dir(scratch).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left of the merges");
    repo.assert_nothing_left_over();
}

#[test]
fn what_the_branch_did_since_is_nobody_elses_conflict() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sessions(
        &repo,
        &[("a", "sed -i 's/line 5$/a/' f; sed -i 1s/a/A/ d/a; echo > x")],
    );
    let text = String::from_utf8(repo.read("f")).expect("text");
    repo.write("f", text.replace("line 5\n", "main\n"));
    repo.commit("the same line");
    sessions(
        &repo,
        &[
            ("c", "echo looked"),
            ("b", "echo b > d/b"),
            // Changes what 'a' changes too, elsewhere in the file, and what main changed.
            ("e", "sed -i 3s/a/E/ d/a; sed -i 's/line 20$/e/' f"),
            // Conflicts with 'a' in a file that main never touched.
            ("g", "echo g > x; git mv d/b d/moved"),
        ],
    );
    let expected = [
        "main+a conflict contents 5 5 f",
        "main+c clean",
        "main+b clean",
        "main+e clean",
        "main+g clean",
        "a+c clean",
        "a+b clean",
        // Both changed the file, so it stays told, even though the lines that clash are main's.
        "a+e conflict contents 5 5 f",
        "a+g conflict contents 1 1 x",
        "c+b clean",
        "c+e clean",
        "c+g clean",
        "b+e clean",
        "b+g clean",
        "e+g clean",
    ];
    assert_eq!(pairs(&repo, &[]), expected);
    assert_eq!(pairs(&repo, &[]), expected, "from memory");
    let conflicts = |name: &str| {
        let shown = repo.agent(["review", "--json", name]).success();
        let shown: Value = serde_json::from_slice(shown.stdout_bytes()).expect("an envelope");
        shown["sessions"][0]["conflicts_with"].clone()
    };
    assert_eq!(conflicts("c"), Value::Null);
    assert_eq!(conflicts("b"), Value::Null);
    let shown = repo.agent(["review", "a", "b", "c"]).success();
    assert!(shown.stdout().contains(", 1 in conflict"), "{shown}");
}

#[test]
fn the_list_tells_what_conflicts_with_the_parent() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sessions(&repo, &[("one", "sed -i 's/line 5$/one/' f")]);
    assert_eq!(repo.session("one")["conflicts"], Value::Null);
    let text = String::from_utf8(repo.read("f")).expect("text");
    repo.write("f", text.replace("line 5\n", "main\n"));
    repo.commit("the same line");
    assert_eq!(repo.session("one")["conflicts"][0], "f");
    let listed = repo.agent(["list"]).success();
    assert!(listed.stdout().contains("CONFLICTS"), "{listed}");
    let shown = repo.agent(["merge", "conflicts", "--json"]).code(1);
    let shown: Value = serde_json::from_slice(shown.stdout_bytes()).expect("an envelope");
    assert_eq!(shown["version"], 1);
    let pair = &shown["pairs"][0];
    assert_eq!(pair["ours"]["kind"], "branch");
    assert_eq!(pair["theirs"]["uncommitted"], true);
    assert_eq!(pair["files"][0]["lines"][0]["ours"][0], 5);
}

#[test]
fn a_moved_directory_is_judged_by_git() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sessions(&repo, &[("mover", "git mv d e; git commit -qm moved")]);
    repo.write("d/new", "new\n");
    repo.commit("a file where the directory was");
    assert_eq!(
        pairs(&repo, &[]),
        ["main+mover conflict directory rename suggested   e/new"]
    );
    repo.git(["merge-tree", "--write-tree", "main", "agent/mover"])
        .code(1);
}

#[test]
fn random_merges_are_as_git_merges_them() {
    let sandbox = Sandbox::new();
    let run = sandbox
        .command("merge-equal")
        .args(["--histories", "100", "--seed", "11"])
        .time_limit(Duration::from_secs(280))
        .run()
        .success();
    let line = run.line();
    assert!(line.starts_with("merges=100 "), "{run}");
    for part in [
        "asked_clean=",
        "asked_conflict=",
        "by_paths=",
        "criss_cross=",
    ] {
        assert!(line.contains(part), "the histories have no {part}: {line}");
    }
    assert!(line.ends_with("differences=0"), "{run}");
}
