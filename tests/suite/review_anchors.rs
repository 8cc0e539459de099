//! Comments never hang on code that they are not about: not in other files, not at teammates, whatever a record says.

use git_agent_tests::{Repo, Sandbox};
use serde_json::{Value, json};

use crate::review_more::comments;

/// Returns state, file and line of every comment.
fn places(repo: &Repo<'_>) -> Vec<(String, String, Option<u64>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    comments(repo)
        .iter()
        .map(|row| {
            (
                text(&row["state"]),
                text(&row["path"]),
                row["line"].as_u64(),
            )
        })
        .collect()
}

fn place(state: &str, path: &str, line: Option<u64>) -> (String, String, Option<u64>) {
    (state.to_owned(), path.to_owned(), line)
}

#[test]
fn what_every_file_begins_with_is_not_followed_into_another() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let head = "// SPDX-License-Identifier: Apache-2.0\nuse std::collections::HashMap;\n\n";
    let one = "fn one() {\n    the_first_of_all();\n    the_second_of_all();\n}\n\n";
    let two = "fn two() {\n    yet_another_call();\n    the_very_last_one();\n}\n";
    repo.write("doomed.rs", format!("{head}{one}{two}"));
    repo.commit("code");
    repo.new_session("s", &[], &["write new text", "print done"]);
    repo.await_state("s", "ready");
    for at in ["doomed.rs:1", "doomed.rs:2", "doomed.rs:5"] {
        repo.agent(["review", "comment", "s", at, "-m", "here"])
            .success();
    }
    let tree = repo.worktree_of("s");
    std::fs::remove_file(tree.path().join("doomed.rs")).expect("ours");
    tree.write(
        "fresh.rs",
        format!("{head}struct Other {{\n    map: HashMap<u8, u8>,\n}}\n\nimpl Other {{\n    fn make() {{}}\n}}\n"),
    );
    let gone = place("outdated", "doomed.rs", None);
    assert_eq!(places(&repo), [gone.clone(), gone.clone(), gone.clone()]);
    // A part of it that went to a file of its own is the same code.
    tree.write("one.rs", one);
    tree.write("two.rs", two);
    assert_eq!(
        places(&repo),
        [gone.clone(), gone, place("open", "one.rs", Some(2))]
    );
}

#[test]
fn a_file_that_was_taken_elsewhere_takes_its_comments_along() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    let code: String = (1..=30).map(|n| format!("important line {n}\n")).collect();
    tree.write("main.c", &code);
    for at in ["main.c", "main.c:7"] {
        repo.agent(["review", "comment", "s", at, "-m", "here"])
            .success();
    }
    // It was never committed under its old name.
    std::fs::rename(tree.path().join("main.c"), tree.path().join("core.c")).expect("ours");
    tree.commit("moved");
    let there = [
        place("open", "core.c", None),
        place("open", "core.c", Some(7)),
    ];
    assert_eq!(places(&repo), there);
    tree.write("main.c", "#include \"core.c\"\n");
    tree.commit("a stub with the old name");
    assert_eq!(places(&repo), there);
    // A copy is no move.
    tree.write(
        "main.c",
        code.replace("important line 7\n", "another line\n"),
    );
    let here = [
        place("open", "main.c", None),
        place("outdated", "main.c", None),
    ];
    assert_eq!(places(&repo), here);
}

#[test]
fn teammates_without_the_file_do_not_guess() {
    let sandbox = Sandbox::new();
    let ada = sandbox.repo("ada").create();
    let bob = ada.clone_to("bob", &[]);
    let same = "    open_the_database();\n    read_all_the_rows();\n    close_the_database();\n}\n";
    let (one, two) = (
        format!("fn one() {{\n{same}"),
        format!("\nfn two() {{\n{same}"),
    );
    let twice = "the same line\n".repeat(9);
    ada.new_session("s", &[], &["write new text", "print done"]);
    ada.await_state("s", "ready");
    let tree = ada.worktree_of("s");
    tree.write("code.rs", format!("{one}{two}"));
    tree.write("twice", &twice);
    for at in ["code.rs:3", "code.rs:9", "twice:5"] {
        ada.agent(["review", "comment", "s", at, "-m", "here"])
            .success();
    }
    // What was commented on was never committed, so nobody else has it.
    tree.write("code.rs", &one);
    tree.write("twice", "the same line\n".repeat(7));
    ada.agent(["commit", "s", "-m", "work"]).success();
    ada.agent(["wait", "s", "--timeout", "60s"]).success();
    let specs = ["sessions", "notes/review"]
        .map(|kind| format!("+refs/agents/{kind}/*:refs/agents-remote/ada/{kind}/*"));
    bob.command("git")
        .args(["fetch", "--quiet"])
        .arg(ada.path())
        .args(specs)
        .run()
        .success();
    let known = [
        place("open", "code.rs", Some(3)),
        place("outdated", "code.rs", None),
        place("outdated", "twice", None),
    ];
    assert_eq!(places(&ada), known);
    let told = places(&bob);
    assert_eq!(told[1..], known[1..], "never the other function");
}

#[test]
fn records_that_point_at_nothing_harm_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("f", "one line\nanother line\n");
    repo.commit("f");
    let session = repo.new_session("s", &[], &["write f one\\nline\\n", "print done"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "f:1", "-m", "by me"])
        .success();
    let (tip, blob) = (repo.id("HEAD"), repo.id("HEAD:f"));
    let mut now = comments(&repo)[0]["commit"].as_str().map(str::to_owned);
    let now = now.take().expect("a commit");
    let odd = [
        json!({"line": 0}),
        json!({"line": 0, "end": 4_294_967_295_u32}),
        json!({"line": 2, "end": 1}),
        json!({"line": 4_294_967_295_u32}),
        json!({"line": 1, "end": 4_294_967_295_u32}),
    ];
    let mut lines = String::new();
    for (number, odd) in odd.iter().enumerate() {
        for blob in [blob.clone(), String::new()] {
            let mut at = json!({"commit": tip, "path": "f", "text": ["one line"], "blob": blob});
            let fields = odd.as_object().expect("fields").clone();
            at.as_object_mut().expect("fields").extend(fields);
            let id = format!(
                "01m7jgzt4qwe0s1k41jwdap{number}{}0",
                u8::from(blob.is_empty())
            );
            let record = json!({
                "v": 1, "id": id, "sid": session["id"], "lc": 1, "ts": 5, "who": {"n": "Eve", "e": "eve@x"},
                "op": "comment", "body": "odd", "at": at,
            });
            lines += &format!("{record}\n");
        }
    }
    std::fs::write(sandbox.root().join("odd"), lines).expect("ours");
    repo.git(
        ["notes", "--ref=eve", "add", "-F"]
            .map(std::ffi::OsString::from)
            .into_iter()
            .chain([sandbox.root().join("odd").into_os_string(), now.into()]),
    )
    .success();
    repo.git([
        "update-ref",
        "refs/agents-remote/eve/notes/review/eve-1a2b",
        "refs/notes/eve",
    ])
    .success();
    let all = comments(&repo);
    assert_eq!(all.len(), 11, "all of them are shown: {all:?}");
    for verb in [
        &["review", "diff", "s"][..],
        &["review", "list", "s"],
        &["review", "send", "s", "--others", "--dry-run"],
    ] {
        let shown = repo.agent(verb).success();
        assert!(shown.stdout().contains("by me"), "{shown}");
    }
}
