//! Files of every kind under review, and words of every kind about them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use git_agent_tests::repo::DIFFICULT_NAMES;
use git_agent_tests::{Output, Repo, Sandbox};

fn session<'a>(sandbox: &'a Sandbox) -> (Repo<'a>, Repo<'a>) {
    let repo = sandbox.repo("r").create();
    repo.write("mode", "a\n");
    repo.write("link", "was a file\n");
    repo.write("crlf", "one\r\ntwo\r\n");
    repo.write("unended", "one\ntwo");
    repo.write("gone", "one\n");
    repo.write("binary", b"a\0b");
    repo.commit("files");
    repo.new_session("s", &[], &["write new text", "print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    (repo, tree)
}

#[test]
fn every_kind_of_change_is_shown() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    let file = |name: &str| tree.path().join(name);
    std::fs::set_permissions(file("mode"), PermissionsExt::from_mode(0o755)).expect("ours");
    std::fs::remove_file(file("link")).expect("ours");
    symlink("target", file("link")).expect("a link");
    tree.write("crlf", "one\r\n2\r\n");
    tree.write("unended", "one\n2");
    std::fs::remove_file(file("gone")).expect("ours");
    tree.write("binary", b"a\0c");
    let commit = tree.id("HEAD");
    tree.git([
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{commit},sub"),
    ])
    .success();
    std::fs::create_dir(file("sub")).expect("a directory");
    tree.write_difficult_names();
    let listed = repo.agent(["review", "diff", "s", "-z"]).success();
    let mut seen: Vec<(u8, Vec<u8>)> = listed
        .stdout_bytes()
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
        .map(|record| {
            let path = record
                .splitn(5, |byte| *byte == b'\t')
                .nth(4)
                .expect("a path");
            (record[0], path.to_vec())
        })
        .collect();
    for (status, path) in [
        (b'M', "mode"),
        (b'T', "link"),
        (b'M', "crlf"),
        (b'M', "unended"),
        (b'D', "gone"),
        (b'M', "binary"),
        (b'A', "sub"),
        (b'A', "new"),
    ] {
        let at = seen
            .iter()
            .position(|known| *known == (status, path.as_bytes().to_vec()));
        seen.remove(at.unwrap_or_else(|| panic!("{path} is missing in {seen:?}")));
    }
    let mut names: Vec<Vec<u8>> = seen.into_iter().map(|(_, path)| path).collect();
    let mut wanted: Vec<Vec<u8>> = DIFFICULT_NAMES.iter().map(|name| name.to_vec()).collect();
    names.sort();
    wanted.sort();
    assert_eq!(names, wanted);
    // Comments hang on all of them, and are found by the same names.
    for name in DIFFICULT_NAMES {
        let mut place = name.to_vec();
        if !name.contains(&b'\n') {
            place.extend_from_slice(b":1");
        }
        repo.agent_cmd(["review", "comment", "-m", "a word", "s", "--"])
            .arg(OsStr::from_bytes(&place))
            .run()
            .success();
    }
    for (place, text) in [
        ("crlf:2", "carriage"),
        ("unended:2", "no end"),
        ("link:1", "to where"),
        ("sub", "which one"),
        ("binary", "why"),
        ("mode", "executable"),
    ] {
        repo.agent(["review", "comment", "s", place, "-m", text])
            .success();
    }
    let open = repo
        .agent(["review", "list", "s", "--open", "--porcelain"])
        .success();
    assert_eq!(open.lines().len(), DIFFICULT_NAMES.len() + 6, "{open}");
    // A name on two lines is told as git tells it, and not as another one.
    for words in [&["list", "s"][..], &["send", "s", "--dry-run"]] {
        let told = repo.agent(["review"].iter().chain(words)).success();
        let told = String::from_utf8_lossy(told.stdout_bytes()).into_owned();
        for name in DIFFICULT_NAMES.iter().filter(|name| name.contains(&b'\n')) {
            let text = String::from_utf8_lossy(name).replace('\n', "\\n");
            assert!(told.contains(&format!("\"{text}\"")), "{text} in {told}");
        }
    }
    let diff = repo.agent(["review", "diff", "s"]).success();
    let text = String::from_utf8_lossy(diff.stdout_bytes()).into_owned();
    let lines: Vec<&str> = text.split('\n').collect();
    for (line, words) in [
        ("+2\r", "carriage"),
        ("+2", "no end"),
        ("+target", "to where"),
    ] {
        let at = lines.iter().position(|shown| shown.contains(words));
        let at = at.unwrap_or_else(|| panic!("'{words}' is missing in {text}"));
        assert_eq!(lines[at - 2], line, "'{words}' is elsewhere in {text}");
    }
    for words in [
        "old mode 100644",
        "Subproject commit",
        "Binary files",
        "\\ No newline at end of file",
    ] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    // Without comments it is a patch that git applies.
    let patch = repo
        .agent([
            "review",
            "diff",
            "s",
            "--no-comments",
            "--",
            "crlf",
            "unended",
            "mode",
        ])
        .success();
    repo.command("git")
        .args(["apply", "--check", "-"])
        .stdin(patch.stdout_bytes())
        .run()
        .success();
    assert_eq!(
        repo.git(["status", "--porcelain"]).success().stdout(),
        "",
        "nothing of the user's was touched"
    );
}

#[test]
fn mistakes_are_said_and_the_text_is_kept() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    std::fs::remove_file(tree.path().join("gone")).expect("ours");
    let drafts = repo.common_dir().join("agents/drafts");
    let kept = || std::fs::read_dir(&drafts).map_or(0, |entries| entries.count());
    let mut count = 0;
    for (place, code, words) in [
        ("new:2", 128, "'new' has only 1 line"),
        ("new:0", 129, "'0' is not a line"),
        ("new:2-1", 129, "'2-1' is not a"),
        ("binary:1", 128, "'binary' is binary: it has no lines"),
        ("gone:1", 128, "session 's' deleted 'gone'"),
        ("nothing:1", 128, "session 's' has no file 'nothing'"),
    ] {
        let said = repo
            .agent(["review", "comment", "s", place, "-m", "precious words"])
            .code(code);
        said.assert_says(words).assert_says("the text is kept in");
        count += 1;
        assert_eq!(kept(), count, "{place}");
    }
    let said = repo
        .command("git")
        .args(["agent", "review", "comment", "s", "new:1", "-F", "-"])
        .stdin("precious\0words")
        .run()
        .code(129);
    said.assert_says("the comment contains a NUL byte")
        .assert_says("the text is kept in");
    count += 1;
    assert_eq!(kept(), count);
    // An agent chooses its names: what is to be typed must not run them.
    for (name, word) in [
        ("a';touch ran;b", r"'a'\'';touch ran;b'"),
        ("new\nline", r"$'new\012line'"),
    ] {
        tree.write(name, b"a\0c");
        let place = format!("{name}:1");
        repo.agent(["review", "comment", "s", &place, "-m", "precious words"])
            .code(128)
            .assert_says(&format!("git agent review comment s {word}\n"));
        count += 1;
        assert_eq!(kept(), count, "{name}");
    }
    repo.agent([
        "review",
        "comment",
        "missing",
        "new:1",
        "-m",
        "precious words",
    ])
    .code(128)
    .assert_says("no session 'missing'")
    .assert_says("the text is kept in");
    repo.agent(["review", "comment", "s", "new:1", "-m", ""])
        .code(129)
        .assert_says("the comment is empty");
    repo.agent([
        "review",
        "comment",
        "s",
        "new:1",
        "-m",
        &"x".repeat(100_000),
    ])
    .code(128)
    .assert_says("more than the 8192 allowed");
    repo.agent(["review", "comment", "s", "--old", "gone:1", "-m", "why?"])
        .success();
    repo.agent(["review", "diff", "s", "--turn", "7"])
        .code(128)
        .assert_says("has no turn 7");
    repo.agent(["review", "compare", "s"])
        .code(129)
        .assert_says("name at least two sessions");
}

#[test]
fn hostile_words_are_only_words() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    let evil = "\x1b[2J\x1b]0;owned\x07 ]]> $(touch owned) `touch owned` \u{202e}desrever\n@@ -1 +1 @@\n-gone\nfatal: no";
    repo.agent(["review", "comment", "s", "new:1", "-m", evil])
        .success();
    tree.write("new", "text\n\x1b[2J\x1b[8mhidden\n");
    for words in [
        &["diff", "s"][..],
        &["list", "s"],
        &["diff", "s", "--word-diff"],
    ] {
        let shown = repo
            .agent_cmd(["review"])
            .args(words)
            .env("GIT_PAGER", "cat")
            .on_terminal()
            .run()
            .success();
        let text = shown.stdout();
        for bad in ["\x1b[2J", "\x1b]0", "\x1b[8m", "\x07", "\u{202e}"] {
            assert!(
                !text.contains(bad),
                "{words:?} lets {bad:?} through: {shown}"
            );
        }
        assert!(
            text.contains("\\x1b[2J"),
            "{words:?} shows it as text: {shown}"
        );
    }
    let sent = repo.agent(["review", "send", "s", "--dry-run"]).success();
    assert!(
        sent.stdout()
            .contains("\n> @@ -1 +1 @@\n> -gone\n> fatal: no\n"),
        "{sent}"
    );
    assert!(
        !sent.stdout().contains('\u{202e}') && !sent.stdout().contains('\x1b'),
        "{sent}"
    );
    assert!(!repo.path().join("owned").exists());
    repo.agent(["config", "set", "displayNotes", "true"])
        .success();
    let log = repo
        .git(["log", "--notes=agents/review", "--all"])
        .success();
    assert!(log.stdout().contains("s: new:1 (open)"), "{log}");
    assert!(!log.stdout().contains('\x1b'), "{log}");
    repo.agent(["review", "approve", "s", "-m", "fine"])
        .success();
    let log = repo
        .git(["log", "--notes=agents/review", "--all"])
        .success();
    assert!(log.stdout().contains("s: approved by"), "{log}");
    repo.assert_user_can_work();
}

#[test]
fn what_git_cannot_keep_is_said() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    tree.git(["init", "--quiet", "in'ner"]).success();
    let inner = Repo::open(&sandbox, tree.path().join("in'ner"));
    inner.write("hidden", "text\n");
    inner.commit("hidden");
    let counts = || -> Vec<String> {
        let table = repo.agent(["review", "--porcelain"]).success();
        let fields: Vec<&str> = table.stdout().split('\t').collect();
        [fields[2], fields[6]].map(str::to_owned).into()
    };
    assert_eq!(counts(), ["1", "1"], "it is counted as it is shown");
    // git counts what is staged.
    tree.git(["add", "new"]).success();
    assert_eq!(counts(), ["1", "1"]);
    tree.git(["reset", "--quiet"]).success();
    for verb in ["diff", "approve"] {
        repo.agent(["review", verb, "s"])
            .success()
            .assert_says("(a nested repository): not included");
    }
    // Known as a submodule, it is there with its commit.
    tree.git(["-c", "advice.addEmbeddedRepo=false", "add", "in'ner"])
        .success();
    let told = |shown: &Output| {
        shown
            .stderr()
            .contains("has uncommitted work, which is not included")
    };
    let shown = repo.agent(["review", "diff", "s"]).success();
    assert!(shown.stdout().contains("+Subproject commit"), "{shown}");
    assert!(!told(&shown), "all of it is committed: {shown}");
    let marker = sandbox.root().join("ran");
    let evil = format!("touch '{}' #", marker.display());
    for key in ["core.fsmonitor", "filter.evil.clean", "remote.x.uploadpack"] {
        inner.git(["config", key, &evil]).success();
    }
    inner.write("hidden", "other text\n");
    let shown = repo.agent(["review", "diff", "s"]).success();
    assert!(told(&shown));
    shown.assert_says(r"/in'\''ner' status");
    inner.git(["checkout", "--quiet", "hidden"]).success();
    assert!(!told(&repo.agent(["review", "diff", "s"]).success()));
    inner.write("untracked", "more text\n");
    assert!(told(&repo.agent(["review", "diff", "s"]).success()));
    inner.git(["add", "untracked"]).success();
    std::fs::remove_file(&marker).ok();
    inner.write(".gitattributes", "* filter=evil\n");
    assert!(told(&repo.agent(["review", "approve", "s"]).success()));
    assert!(!marker.exists(), "nothing of it is run");
}

#[test]
fn a_diff_for_a_program_can_be_applied() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    tree.write("binary", b"a\0c");
    tree.write("crlf", "one\r\n2\r\n");
    std::fs::remove_file(tree.path().join("gone")).expect("ours");
    repo.agent([
        "review",
        "comment",
        "s",
        "crlf:2",
        "-m",
        "between the lines",
    ])
    .success();
    let patch = repo
        .agent(["review", "diff", "s", "--no-comments"])
        .success();
    repo.command("git")
        .args(["apply", "--index"])
        .stdin(patch.stdout_bytes())
        .run()
        .success();
    tree.git(["add", "--all"]).success();
    let tree_of = |repo: &Repo<'_>| repo.git(["write-tree"]).success().line().to_owned();
    assert_eq!(tree_of(&repo), tree_of(&tree));
}

#[test]
fn work_in_a_submodule_of_a_submodule_is_said() {
    let sandbox = Sandbox::new();
    let (repo, tree) = session(&sandbox);
    let add = |top: &Repo<'_>, name: &str| {
        top.git(["init", "--quiet", name]).success();
        Repo::open(&sandbox, top.path().join(name))
    };
    let record = |top: &Repo<'_>, name: &str| {
        top.git(["-c", "advice.addEmbeddedRepo=false", "add", name])
            .success();
    };
    let outer = add(&tree, "outer");
    outer.write("file", "text\n");
    outer.commit("file");
    let inner = add(&outer, "inner");
    inner.write("deep", "text\n");
    inner.commit("deep");
    record(&outer, "inner");
    outer.git(["commit", "--quiet", "-m", "inner"]).success();
    record(&tree, "outer");
    inner.write("deep", "other text\n");
    // What is that deep is not judged, and that is said.
    repo.agent(["review", "diff", "s"])
        .success()
        .assert_says("uncommitted work in it is not included");
}

#[test]
fn a_session_does_not_hide_its_lines_by_attributes_of_its_own() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("run.sh", "echo one\n");
    repo.write("data.bin", "one\n");
    repo.write(".gitattributes", "*.bin -diff\n");
    repo.commit("first");
    let script = "echo '*.sh -diff' >.gitattributes; echo 'echo two' >>run.sh; echo two >>data.bin";
    repo.agent(["new", "loose", "--", "sh", "-c", script])
        .success();
    let script = format!("{script}; git commit -qam work; echo 'echo three' >>run.sh");
    repo.agent(["new", "done", "--", "sh", "-c", &script])
        .success();
    for name in ["loose", "done"] {
        repo.await_state(name, "ready");
        let shown = repo.agent(["review", "diff", name]).success();
        assert!(shown.stdout().contains("+echo two"), "{shown}");
        assert!(
            shown.stdout().contains("Binary files a/data.bin"),
            "attributes of the base count: {shown}"
        );
    }
    let shown = repo.agent(["review", "diff", "done", "--uncommitted"]);
    let shown = shown.success();
    assert!(shown.stdout().contains("+echo three"), "{shown}");
    let table = repo.agent(["review", "--json"]).success().json();
    for session in table["sessions"].as_array().expect("sessions") {
        let added = session["changes"]["added"].as_u64();
        assert!(added >= Some(2), "lines of run.sh count: {session:#}");
    }
}

#[test]
fn a_file_cannot_paint_a_line_as_another_kind() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("f", "one\n");
    repo.commit("first");
    let paint = "write f one\\n\\e[m\\e[31m-gone\\e[m\\n\\e[36m@@ -1 +1 @@\\e[m\\n";
    repo.new_session("s", &[], &[paint]);
    repo.await_state("s", "ready");
    for words in [&[][..], &["--color=always"], &["--word-diff"]] {
        let shown = repo
            .agent_cmd(["review", "diff", "s"])
            .args(words)
            .env("GIT_PAGER", "cat")
            .on_terminal()
            .run()
            .success();
        let shown = shown.stdout();
        assert!(shown.contains("\\x1b[m\\x1b[31m-gone\\x1b[m"), "{shown:?}");
        assert!(
            shown.contains("\x1b[32m"),
            "git's own colours stay: {shown:?}"
        );
        assert!(!shown.contains("\x1b[31m-gone"), "{shown:?}");
        assert!(!shown.contains("38;2;"), "{shown:?}");
    }
    // The colours are those of git itself.
    repo.git(["switch", "--quiet", "--create", "plain"])
        .success();
    repo.write("g", "a \n\tb\n");
    repo.commit("blanks");
    repo.agent([
        "new",
        "t",
        "--from",
        "main",
        "--",
        "sh",
        "-c",
        "git merge -q plain",
    ])
    .success();
    repo.await_state("t", "ready");
    let ours = repo.agent_cmd(["review", "diff", "t", "--color=always", "--no-comments"]);
    let ours = ours.run().success().stdout().to_owned();
    let gits = repo
        .git(["diff", "--color=always", "main", "plain"])
        .success();
    assert_eq!(ours, gits.stdout());
}
