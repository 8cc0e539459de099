//! Comments in a diff that is shown as the user wants it: under their line, or apart, but never under another one.

use git_agent_tests::{Repo, Sandbox};

/// Makes a session with comments on lines of several files.
fn commented<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    repo.write("f", "one\ntwo\nthree\nfour\n");
    repo.write("g", "one\ntwo\nthree\n");
    // Text that looks like the heading of another file, and is common to both sides.
    repo.write(
        "a.patch",
        "start\ndiff --git a/g b/g\n@@ -1,3 +1,4 @@\nend\n",
    );
    repo.commit("seed");
    repo.new_session(
        "s",
        &[],
        &[
            "write f one\\nTWO\\nthree\\nfour\\n",
            "write g one\\ntwo\\nthree\\nFOUR\\n",
            "write a.patch start\\ndiff --git a/g b/g\\n@@ -1,3 +1,4 @@\\nthe end\\n",
            "print done",
        ],
    );
    repo.await_state("s", "ready");
    for place in ["f:2", "g:4", "a.patch:4"] {
        let text = format!("said on {place}");
        repo.agent(["review", "comment", "s", place, "-m", &text])
            .success();
    }
    repo
}

/// Returns for each comment the line of the diff before it.
fn places(diff: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = diff.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some((_, place)) = line.split_once("said on ") {
            let before = lines[..at].iter().rfind(|line| !line.starts_with('│'));
            found.push((
                place.to_owned(),
                before.map(|line| (*line).to_owned()).unwrap_or_default(),
            ));
        }
    }
    found.sort();
    found
}

fn shown(repo: &Repo<'_>, settings: &[&str], options: &[&str]) -> String {
    let mut words: Vec<&str> = settings.iter().flat_map(|one| ["-c", one]).collect();
    words.extend(["agent", "review", "diff", "s"]);
    words.extend(options);
    repo.git(words).success().stdout().to_owned()
}

fn expected(places: &[(&str, &str)]) -> Vec<(String, String)> {
    places
        .iter()
        .map(|(place, line)| ((*place).to_owned(), (*line).to_owned()))
        .collect()
}

#[test]
fn comments_stay_under_their_lines() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    let right = expected(&[("a.patch:4", "+the end"), ("f:2", "+TWO"), ("g:4", "+FOUR")]);
    for setting in [
        "core.pager=cat",
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.srcPrefix=before/",
        "diff.context=0",
        "diff.algorithm=histogram",
        "diff.suppressBlankEmpty=true",
    ] {
        assert_eq!(places(&shown(&repo, &[setting], &[])), right, "{setting}");
    }
    let colored = shown(&repo, &["diff.colorMoved=zebra"], &["--color"]);
    assert!(colored.contains("said on f:2"), "{colored}");
}

#[test]
fn colors_are_used_where_git_uses_them() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    for (setting, options, colored) in [
        ("color.diff=always", &[][..], true),
        ("color.diff=always", &["--no-color"], false),
        ("color.diff=always", &["--color=auto"], false),
        ("color.diff=never", &[], false),
        ("color.diff=never", &["--color=always"], true),
        ("color.diff=auto", &[], false),
    ] {
        let diff = shown(&repo, &[setting], options);
        assert_eq!(diff.contains("\x1b[32m+"), colored, "{setting} {options:?}");
        assert!(diff.contains("said on f:2"), "{diff}");
    }
}

#[test]
fn without_signs_before_lines_they_come_with_their_hunk() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    let words = shown(&repo, &[], &["--word-diff"]);
    let heading = |place: &str| {
        let at = words.find(&format!("said on {place}")).expect("shown");
        let file = words[..at].rfind("\ndiff --git ").map_or(0, |at| at + 1);
        words[file..].lines().next().expect("a line").to_owned()
    };
    assert_eq!(heading("f:2"), "diff --git a/f b/f", "{words}");
    let at = words.find("said on g:4").expect("shown");
    let real = words.rfind("\ndiff --git a/g b/g\n").expect("its heading");
    assert!(at > real, "not at a line that looks like it: {words}");
}

#[test]
fn what_is_converted_keeps_comments_apart() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    let info = repo.common_dir().join("info");
    std::fs::create_dir_all(&info).expect("a directory");
    std::fs::write(info.join("attributes"), "f diff=turned\n").expect("attributes");
    sandbox.program("turn", "#!/bin/sh\nexec sed -n '1!G;h;$p' \"$1\"\n");
    let turned = shown(&repo, &["diff.turned.textconv=turn"], &[]);
    let found = places(&turned);
    assert_eq!(found[1].0, "f:2");
    assert!(
        turned.contains("│ f:2\n") && found[1].1 != "+TWO",
        "it says where it belongs: {turned}"
    );
    assert_eq!(found[2].1, "+FOUR", "other files are as ever");
    // As git, from the top of the worktree.
    repo.write("turn.sh", "exec sed -n '1!G;h;$p' \"$1\"\n");
    let below = shown(&repo, &["diff.turned.textconv=sh ./turn.sh"], &[]);
    // A second may have passed between the two.
    let ageless = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains(" ago"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(ageless(&below), ageless(&turned));
    sandbox.program("mine", "#!/bin/sh\necho \"mine says $1\"\n");
    let mine = shown(&repo, &["diff.external=mine"], &[]);
    assert!(mine.contains("mine says f"), "{mine}");
    for place in ["f:2", "g:4", "a.patch:4"] {
        assert!(mine.contains(&format!("│ {place}\n")), "{mine}");
    }
    for setting in ["diff.external=mine", "diff.turned.command=mine"] {
        let part = shown(&repo, &[setting], &["--", "f"]);
        assert!(part.contains("mine says f"), "{part}");
        assert_eq!(part.matches("│ f:2\n").count(), 1, "{part}");
        assert!(!part.contains("g:4"), "only what was asked for: {part}");
    }
}

#[test]
fn an_order_of_files_is_looked_for_where_git_looks() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    repo.write("order", "g\nf\n");
    let diff = shown(&repo, &["diff.orderFile=order"], &["--name-only"]);
    assert_eq!(diff, "g\nf\na.patch\n");
}

#[test]
fn escapes_of_a_file_are_text() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    tree.write("f", "plain\nesc \x1b[32mgreen\n");
    repo.agent(["review", "comment", "s", "f:2", "-m", "said on f:2"])
        .success();
    let expected = expected(&[("f:2", "+esc \x1b[32mgreen")]);
    assert_eq!(places(&shown(&repo, &[], &[])), expected);
    let screen = |option: &str| {
        repo.agent_cmd(["review", "diff", "s", option])
            .env("GIT_PAGER_IN_USE", "true")
            .run()
            .success()
            .stdout()
            .to_owned()
    };
    let plain = screen("--no-color");
    assert!(!plain.contains('\x1b'), "{plain:?}");
    assert_eq!(places(&plain)[0].1, "+esc \\x1b[32mgreen");
    let colored = screen("--color");
    assert!(
        colored.contains("green\x1b[m\n") && !places(&colored)[0].1.contains("plain"),
        "{colored:?}"
    );
}

#[test]
fn paths_are_those_that_git_would_take() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("old", "one\ntwo\nthree\nfour\nfive\n");
    repo.write("sub/file", "one\n");
    repo.commit("files");
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    tree.write("sub/file", "two\n");
    tree.git(["mv", "old", "new"]).success();
    let sub = repo.path().join("sub");
    let named = |path: &str| {
        let names = repo
            .agent_cmd(["review", "diff", "s", "--name-only", "--", path])
            .cwd(&sub)
            .run()
            .success();
        names.stdout().to_owned()
    };
    for path in ["file", ":(icase)FILE", ":/sub", "../sub"] {
        assert_eq!(named(path), "sub/file\n", "{path}");
    }
    let absolute = sub.join("file");
    assert_eq!(named(absolute.to_str().expect("plain")), "sub/file\n");
    assert_eq!(named(":!file"), "new\n");
    // A comment on the side before belongs to the file that was renamed.
    repo.agent(["review", "comment", "s", "--old", "old:2", "-m", "before"])
        .success();
    let files = repo
        .agent(["review", "diff", "s", "--json"])
        .success()
        .json();
    let counted = |path: &str| {
        let rows = files["files"].as_array().expect("a list").iter();
        rows.filter(|row| row["path"] == path)
            .filter_map(|row| row["comments"].as_u64())
            .sum::<u64>()
    };
    assert_eq!((counted("new"), counted("sub/file")), (1, 0), "{files:#}");
}

#[test]
fn a_submodule_shown_by_its_commits_has_its_own_comments() {
    let sandbox = Sandbox::new();
    let repo = commented(&sandbox);
    let tree = repo.worktree_of("s");
    tree.git(["init", "--quiet", "fsub"]).success();
    let inner = Repo::open(&sandbox, tree.path().join("fsub"));
    inner.write("inside", "text\n");
    inner.commit("Submodule g 1..2");
    tree.git(["-c", "advice.addEmbeddedRepo=false", "add", "fsub"])
        .success();
    for place in ["f", "fsub"] {
        let text = format!("all of {place}");
        repo.agent(["review", "comment", "s", place, "-m", &text])
            .success();
    }
    for format in ["short", "log", "diff"] {
        repo.git(["config", "diff.submodule", format]).success();
        let shown = repo.agent(["review", "diff", "s"]).success();
        let at = |text: &str| {
            let found = shown.stdout().find(text);
            found.unwrap_or_else(|| panic!("'{text}' is not in {format}: {shown}"))
        };
        let heading = match format {
            "short" => "diff --git a/fsub b/fsub",
            _ => "Submodule fsub ",
        };
        let order = [
            at("said on f:2"),
            at("all of f\n"),
            at(heading),
            at("all of fsub\n"),
            at("\ndiff --git a/g b/g\n"),
            at("said on g:4"),
        ];
        assert!(order.is_sorted(), "{format}: {shown}");
    }
}
