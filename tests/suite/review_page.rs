//! The page of `review edit`: what is typed goes where it was typed, whatever is shown and whatever changed since.

use std::os::unix::fs::symlink;

use git_agent_tests::{Repo, Run, Sandbox};

use crate::review_more::comments;

/// Runs the editor as a script.
fn edit(sandbox: &Sandbox, repo: &Repo<'_>, script: &str) -> Run {
    sandbox.program("typist", &format!("#!/bin/sh\n{script}\n"));
    repo.agent_cmd(["review", "edit", "s"])
        .env("GIT_EDITOR", "typist")
        .run()
}

fn drafts(repo: &Repo<'_>) -> Vec<String> {
    let listed = std::fs::read_dir(repo.common_dir().join("agents/drafts")).expect("drafts");
    let names = listed.flatten().map(|entry| entry.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

#[test]
fn what_becomes_another_kind_of_thing_keeps_its_name() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for name in ["bin/tool", "tool", "\u{e9}.txt", "\u{fc}.txt"] {
        repo.write(name, "1\n2\n3\n");
    }
    repo.commit("files");
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    for (link, target) in [("bin/tool", "to-tool"), ("\u{e9}.txt", "to-text")] {
        let link = tree.path().join(link);
        std::fs::remove_file(&link).expect("ours");
        symlink(target, &link).expect("a link");
    }
    tree.write("tool", "1\n2\nthree\n");
    tree.write("\u{fc}.txt", "1\ntwo\n3\n");
    edit(
        &sandbox,
        &repo,
        r#"sed -i -e '/+to-tool$/a A' -e '/+to-text$/a B' -e '/+three$/a C' -e '/+two$/a D' "$1""#,
    )
    .success()
    .assert_says("4 comments");
    let mut places: Vec<(String, String)> = comments(&repo)
        .iter()
        .map(|row| {
            let text = row["comments"][0]["text"].as_str().expect("a text");
            let path = row["path"].as_str().expect("a path");
            (text.to_owned(), format!("{path}:{}", row["line"]))
        })
        .collect();
    places.sort();
    let place = |text: &str, place: &str| (text.to_owned(), place.to_owned());
    assert_eq!(
        places,
        [
            place("A", "bin/tool:1"),
            place("B", "\u{e9}.txt:1"),
            place("C", "tool:3"),
            place("D", "\u{fc}.txt:2"),
        ]
    );
}

#[test]
fn a_draft_knows_what_it_showed_before_threads_changed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\nthree\\n", "print done"]);
    repo.await_state("s", "ready");
    let comment = |at: &str, text: &str| {
        let made = repo.agent(["review", "comment", "s", at, "-m", text, "--json"]);
        let made = made.success().json();
        let id = made["comments"][0]
            .as_str()
            .or(made["comments"][0]["id"].as_str());
        id.expect("an id").to_owned()
    };
    let (goes, stays) = (comment("f:1", "goes away"), comment("f:2", "first words"));
    let broken = r#"sed -i -e 's/+three$/+thr33/' "$1""#;
    edit(&sandbox, &repo, broken).code(128);
    repo.agent(["review", "delete", &goes]).success();
    repo.agent(["review", "edit", &stays, "-m", "other words"])
        .success();
    let before = comments(&repo);
    let answer = r#"sed -i -e 's/+thr33$/+three/' -e '/^> first words/a an answer' "$1""#;
    edit(&sandbox, &repo, answer)
        .success()
        .assert_says("0 comments, 1 reply, 0 resolved");
    let after = comments(&repo);
    assert_eq!(
        after.len(),
        before.len(),
        "nothing that was shown became a comment"
    );
    assert_eq!(drafts(&repo), Vec::<String>::new());
    // Words under a thread that is gone belong to nothing, and are kept.
    let alone = comment("f:3", "nobody answers");
    edit(&sandbox, &repo, broken).code(128);
    repo.agent(["review", "delete", &alone]).success();
    edit(
        &sandbox,
        &repo,
        r#"sed -i -e 's/+thr33$/+three/' -e '/^> nobody answers/a to whom?' "$1""#,
    )
    .code(128)
    .assert_says("was deleted")
    .assert_says("the text is kept");
}

#[test]
fn an_editor_that_fails_leaves_only_what_was_typed() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    let failed = edit(&sandbox, &repo, "exit 1").code(128);
    assert!(!failed.to_string().contains("is kept"), "{failed}");
    assert_eq!(drafts(&repo), Vec::<String>::new());
    edit(
        &sandbox,
        &repo,
        r#"sed -i -e '/+two$/a words' "$1"; exit 1"#,
    )
    .code(128)
    .assert_says("the text is kept");
    repo.worktree_of("s").write("f", "one\n2\n");
    edit(&sandbox, &repo, "exit 0")
        .success()
        .assert_says("the work has changed since")
        .assert_says("--fresh s")
        .assert_says("1 comment");
}

#[test]
fn files_are_named_from_where_one_stands_and_as_they_are_shown() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("sub/in", "one\n");
    repo.write("a\tb", "one\ntwo\n");
    repo.commit("files");
    repo.new_session("s", &[], &["write beside one\\n", "print done"]);
    repo.await_state("s", "ready");
    for (at, path) in [
        ("../beside:1", "beside"),
        ("in:1", "sub/in"),
        (r#""a\tb":2"#, "a\tb"),
    ] {
        let cwd = repo.path().join("sub");
        repo.agent_cmd(["review", "comment", "s", at, "-m", "x"])
            .cwd(cwd)
            .run()
            .success();
        let last = comments(&repo).pop().expect("a comment");
        assert_eq!(last["path"], path, "{at}");
    }
    repo.agent(["review", "comment", "s", "--old", "-m", "x"])
        .code(129);
    repo.agent(["review", "list", "s", "--outdated"])
        .success()
        .assert_says("no outdated comments, but 3 others")
        .assert_says("--everything s");
}

#[test]
fn an_answer_stands_anywhere_in_its_thread() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    let text = "please rename\n\nit is\n\nodd";
    repo.agent(["review", "comment", "s", "f:2", "-m", text])
        .success();
    let last = || {
        let said = comments(&repo)[0]["comments"].clone();
        let said = said.as_array().and_then(|said| said.last());
        said.expect("an answer")["text"].clone()
    };
    for (script, answer) in [
        ("s/^\\[ \\] .*/&\\nno, keep it/", "no, keep it"),
        ("0,/^> it is$/s//&\\nhere/", "here"),
        (
            "0,/^> it is$/s//&\\nabove/;0,/^> odd$/s//&\\nbelow/",
            "above\n\nbelow",
        ),
        (
            "0,/^> odd$/s//&\\n> please rename\\nwhy?/",
            "> please rename\nwhy?",
        ),
        (
            "s/^\\[ \\] .*/&\\n> odd\\n>\\n> so what?\\nno/",
            "> odd\n>\n> so what?\nno",
        ),
        ("0,/^>$/{/^>$/d};0,/^> odd$/s//&\\nshort/", "short"),
        (
            "s/^> it is$/> it was/;s/^> odd$/&\\nthen/",
            "> it was\n\nthen",
        ),
    ] {
        edit(&sandbox, &repo, &format!("sed -i -e '{script}' \"$1\""))
            .success()
            .assert_says("0 comments, 1 reply, 0 resolved");
        assert_eq!(last(), answer, "{script}");
    }
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    edit(&sandbox, &repo, r#"sed -i '1s/^/\xef\xbb\xbf/' "$1""#)
        .success()
        .assert_says("nothing to add");
    edit(&sandbox, &repo, r#"sed -i '1s/^/\xef\xbb\xbfA\n/' "$1""#).success();
    sandbox.program(
        "typist",
        "#!/bin/sh\nprintf '\\357\\273\\277# none\\nB\\n' > \"$1\"\n",
    );
    repo.agent_cmd(["review", "comment", "s"])
        .env("GIT_EDITOR", "typist")
        .on_terminal()
        .run()
        .success();
    repo.write("words", "\u{feff}C\n");
    repo.agent(["review", "comment", "s", "-F", "words"])
        .success();
    let texts: Vec<_> = comments(&repo)
        .iter()
        .map(|row| row["comments"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["A", "B", "C"]);
}

#[test]
fn what_is_typed_and_no_text_stays_a_draft() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    // What a file holds is not typed.
    let file = repo.worktree_of("s").path().join("f");
    std::fs::write(&file, b"one\ntw\xf6\n").expect("ours");
    edit(&sandbox, &repo, "exit 0")
        .success()
        .assert_says("nothing to add");
    edit(
        &sandbox,
        &repo,
        r#"sed -i -e '1s/^/na\xefve\n/' -e '/+one$/s/$/\ncaf\xe9/' "$1""#,
    )
    .code(128)
    .assert_says("line 1: this line is not UTF-8")
    .assert_says("the text is kept");
    assert_eq!(comments(&repo).len(), 0);
    std::fs::write(&file, b"one\nmore\n").expect("ours");
    edit(&sandbox, &repo, "LC_ALL=C sed -i 's/na.ve/naive/' \"$1\"")
        .code(128)
        .assert_says("the work has changed since")
        .assert_says("this line is not UTF-8");
    edit(&sandbox, &repo, "LC_ALL=C sed -i 's/^caf.$/tea/' \"$1\"")
        .success()
        .assert_says("2 comments");
    assert_eq!(drafts(&repo), Vec::<String>::new());
    let texts: Vec<_> = comments(&repo)
        .iter()
        .map(|row| row["comments"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["naive", "tea"]);
}
