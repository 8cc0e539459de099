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
        "color.diff=always",
        "diff.suppressBlankEmpty=true",
    ] {
        assert_eq!(places(&shown(&repo, &[setting], &[])), right, "{setting}");
    }
    let colored = shown(&repo, &["diff.colorMoved=zebra"], &["--color"]);
    assert!(colored.contains("said on f:2"), "{colored}");
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
    sandbox.program("mine", "#!/bin/sh\necho \"mine says $1\"\n");
    let mine = shown(&repo, &["diff.external=mine"], &[]);
    assert!(mine.contains("mine says f"), "{mine}");
    for place in ["f:2", "g:4", "a.patch:4"] {
        assert!(mine.contains(&format!("│ {place}\n")), "{mine}");
    }
}
