//! Reviewing in the editor, by an agent, and side by side.

use git_agent_tests::{Repo, Sandbox};
use serde_json::Value;

/// Returns every comment of a repository, as it is listed for machines.
pub fn comments(repo: &Repo<'_>) -> Vec<Value> {
    let listed = repo
        .agent(["review", "list", "--everything", "--json"])
        .success()
        .json();
    listed["comments"].as_array().cloned().expect("a list")
}

#[test]
fn text_typed_into_the_diff_becomes_comments() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\nthree\\n", "print done"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "f:1", "-m", "first"])
        .success();
    let edit = |script: &str| {
        sandbox.program("typist", &format!("#!/bin/sh\n{script}\n"));
        repo.agent_cmd(["review", "edit", "s"])
            .env("GIT_EDITOR", "typist")
            .run()
    };
    edit("exit 0").success().assert_says("nothing to add");
    edit(r#"sed -i -e '/+two$/a why two?' -e '/^> first$/a because' -e 's/^\[ \]/[x]/' "$1""#)
        .success()
        .assert_says("1 comment, 1 reply, 1 resolved");
    let all = comments(&repo);
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0]["state"], &all[0]["comments"][1]["text"]),
        (&"resolved".into(), &"because".into())
    );
    assert_eq!(
        (&all[1]["line"], &all[1]["comments"][0]["text"]),
        (&2.into(), &"why two?".into())
    );
    // A broken page is opened again with the mistake marked, and kept when it stays broken.
    edit(r#"sed -i -e 's/+three$/+thr33/' -e '/+two$/a more words' "$1""#)
        .code(128)
        .assert_says("this line is not part of the diff, or not any more");
    let draft = std::fs::read_dir(repo.common_dir().join("agents/drafts"))
        .expect("drafts")
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("review-"))
        .expect("a draft is kept");
    let text = std::fs::read_to_string(draft.path()).expect("readable");
    assert!(
        text.contains("\nmore words\n") && text.contains("#! this line is not"),
        "{text}"
    );
    assert_eq!(comments(&repo).len(), 2, "nothing of it was written");
    edit(r#"sed -i -e 's/+thr33$/+three/' "$1""#)
        .success()
        .assert_says("continuing the draft");
    let all = comments(&repo);
    assert_eq!(all[2]["comments"][0]["text"], "more words");
    assert!(!draft.path().exists());
    edit(r#"sed -i -e '/+two$/a lost?' "$1"; exit 1"#)
        .code(128)
        .assert_says("the text is kept");
    edit("exit 0").success().assert_says("1 comment");
}

#[test]
fn the_page_takes_comments_on_everything_it_shows() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let body: String = (1..=30).map(|n| format!("line number {n}\n")).collect();
    repo.write("old", &body);
    repo.write("far", &body);
    repo.write("gone", "farewell\n");
    repo.commit("files");
    repo.new_session("s", &[], &["print done"]);
    repo.await_state("s", "ready");
    let tree = repo.worktree_of("s");
    tree.git(["mv", "old", "new"]).success();
    tree.write("new", body.replace("number 5\n", "number five\n"));
    tree.write("far", body.replace("number 5\n", "number five\n"));
    std::fs::remove_file(tree.path().join("gone")).expect("ours");
    for name in ["x", "y"] {
        tree.write(name, format!("the same head\nfile {name}\n"));
    }
    for (at, text) in [("far:25", "far away"), ("old:7", "before the move")] {
        let side = if at == "old:7" { &["--old"][..] } else { &[] };
        repo.agent_cmd(["review", "comment", "s", at, "-m", text])
            .args(side)
            .run()
            .success();
    }
    let edit = |script: &str| {
        sandbox.program("typist", &format!("#!/bin/sh\n{script}\n"));
        repo.agent_cmd(["review", "edit", "s", "--fresh"])
            .env("GIT_EDITOR", "typist")
            .run()
    };
    // Threads whose lines the diff does not show are there all the same.
    edit(r#"sed -i -e 's/^\[ \]/[x]/' -e '/^> far away/a an answer' "$1""#)
        .success()
        .assert_says("0 comments, 1 reply, 2 resolved");
    edit(r#"sed -i -e '/-line number 5$/a why not 5?' -e '/^|= gone/a why gone?' "$1""#)
        .success()
        .assert_says("3 comments");
    let places = |repo: &Repo<'_>| -> Vec<(Value, Value, Value)> {
        comments(repo)[2..]
            .iter()
            .map(|row| {
                (
                    row["path"].clone(),
                    row["side"].clone(),
                    row["line"].clone(),
                )
            })
            .collect()
    };
    assert_eq!(
        places(&repo),
        [
            ("far".into(), "old".into(), 5.into()),
            ("gone".into(), "old".into(), Value::Null),
            ("old".into(), "old".into(), 5.into()),
        ]
    );
    // Both new files begin alike: a line without the name of its file could be either's.
    edit(r#"printf '|           1 +the same head\nabout y\n' > "$1""#)
        .code(128)
        .assert_says("several files have this line");
    edit(r#"printf '|= y\n|           1 +the same head\nabout y\n' > "$1""#).success();
    assert_eq!(places(&repo)[3].0, "y");
    // One editor at a time.
    let inner = "GIT_EDITOR=true git agent review edit s; test $? = 128 || exit 1";
    edit(&format!(r#"{inner}; sed -i -e '/+file y/a kept' "$1""#))
        .success()
        .assert_says("another editor is open")
        .assert_says("1 comment");
    repo.assert_nothing_left_over();
}

#[test]
fn comments_are_sent_once_whoever_else_sends() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let body: String = (1..=40).map(|n| format!("line number {n}\n")).collect();
    repo.write("f", &body);
    repo.commit("f");
    repo.new_session("s", &[], &["append g more"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "f:5-30", "-m", "once"])
        .success();
    let tree = repo.worktree_of("s");
    tree.write("f", format!("one above\n{body}"));
    let prompt = repo.agent(["review", "send", "s", "-n"]).success();
    for line in [
        "\n        | line number 4\n",
        "\n>     6 | line number 5\n",
        "\n>       | …\n        | line number 31\n",
    ] {
        assert!(prompt.stdout().contains(line), "{line}: {prompt}");
    }
    let told = repo
        .agent(["review", "send", "s", "-n", "--json"])
        .success();
    let comments = repo.agent(["review", "list", "s", "--json"]).success();
    let (told, comments) = (told.json(), comments.json());
    assert_eq!(told["comments"][0]["id"], comments["comments"][0]["id"]);
    let sent = sandbox
        .sh("for n in 1 2 3; do git agent review send s & done; wait")
        .cwd(repo.path())
        .run()
        .success();
    let text = sent.to_string();
    assert_eq!(text.matches("1 comment ").count(), 1, "{text}");
    assert_eq!(text.matches("has no open comment").count(), 2, "{text}");
    repo.await_state("s", "ready");
}

#[test]
fn what_a_dead_command_left_unread_is_begun_by_the_next() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["append g more"]);
    repo.await_state("s", "ready");
    repo.agent(["review", "comment", "s", "-m", "once"])
        .success();
    let id = repo.session("s")["id"].as_str().expect("an id").to_owned();
    // As if a supervisor were there, which would read it.
    let lock = repo.path().join(format!(".git/agents/run/{id}.lock"));
    let lock = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(lock)
        .expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    repo.agent(["review", "send", "s"])
        .success()
        .assert_says("queued");
    drop(lock);
    repo.agent(["review", "send", "s"])
        .success()
        .assert_says("started 's' with the comments sent before");
    repo.agent(["wait", "--timeout", "60s", "s"]).success();
    assert_eq!(repo.session("s")["turns"], 2);
    repo.agent(["review", "send", "s"])
        .code(1)
        .assert_says("has no open comment");
}

#[test]
fn only_the_paths_that_are_asked_for_are_shown() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("sub/f", "one\n");
    repo.commit("sub");
    repo.new_session(
        "s",
        &[],
        &["write f text", "write sub/f text", "print done"],
    );
    repo.await_state("s", "ready");
    let listed = |from: &Repo<'_>, path: &str| {
        let diff = from.agent(["review", "diff", "s", "--porcelain", "--", path]);
        let diff = diff.success();
        let names = diff
            .stdout()
            .lines()
            .filter_map(|line| line.rsplit('\t').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(&repo, "f"), ["f"]);
    assert_eq!(listed(&repo, "sub"), ["sub/f"]);
    let below = Repo::open(&sandbox, repo.path().join("sub"));
    assert_eq!(listed(&below, "f"), ["sub/f"]);
    assert_eq!(listed(&below, "../f"), ["f"]);
    let shown = below.agent(["review", "diff", "s", "--name-only", "--", "f"]);
    assert_eq!(shown.success().line(), "sub/f");
}

#[test]
fn an_agent_reviews() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write f one\\ntwo\\n", "print done"]);
    repo.await_state("s", "ready");
    sandbox.program(
        "critic",
        "#!/bin/sh\ntest -f f || exit 1\necho 'thinking [a lot]'\n\
         echo '{\"findings\": [{\"file\": \"f\", \"line\": 2, \"severity\": \"major\", \"message\": \"two?\"},'\n\
         echo '{\"file\": \"nowhere\", \"line\": 9, \"severity\": \"note\", \"message\": \"hm\"}, {\"note\": \"odd\"}]}'\n",
    );
    let before = repo.refs("refs/heads");
    repo.agent(["review", "ai", "s", "--", "critic"])
        .code(1)
        .assert_says("3 findings");
    let all = comments(&repo);
    assert_eq!(all.len(), 3);
    assert_eq!(all[0]["line"], 2);
    assert_eq!(all[0]["comments"][0]["severity"], "major");
    assert_eq!(
        all[1]["comments"][0]["text"], "nowhere:9: hm",
        "what points at nothing is not dropped"
    );
    let odd = all[2]["comments"][0]["text"].as_str().expect("a text");
    assert!(odd.ends_with(r#"{"note":"odd"}"#), "{odd}");
    assert_eq!(repo.refs("refs/heads"), before, "its branch is gone");
    let sarif = repo
        .agent([
            "review",
            "ai",
            "s",
            "-n",
            "--fail-on",
            "never",
            "--format",
            "sarif",
            "--",
            "critic",
        ])
        .success()
        .json();
    assert_eq!(sarif["runs"][0]["results"][0]["level"], "error");
    assert_eq!(comments(&repo).len(), 3);
    let words = repo
        .agent(["review", "ai", "s", "--", "echo looks good to me"])
        .code(128);
    assert!(
        words.stdout().contains("looks good to me"),
        "shown, not dropped: {words}"
    );
    let report = ["review", "ai", "s", "-n", "--format", "gitlab", "--"];
    let words = repo.agent([&report[..], &["echo fine by me"]].concat());
    let words = words.code(128);
    assert_eq!(words.stdout(), "", "no part of a report");
    words.assert_says("fine by me");
    let nothing = ["review", "ai", "--uncommitted", "--format", "sarif", "--"];
    let nothing = repo.agent([&nothing[..], &["false"]].concat()).success();
    assert_eq!(
        nothing.json()["runs"][0]["results"],
        Value::Array(Vec::new())
    );
    // Whoever reviews is told to change nothing, and is found out.
    let there = repo.worktree_of("s");
    let vandal = format!("echo x >>'{}/f'; echo '[]'", there.path().display());
    repo.agent(["review", "ai", "s", "-n", "--", &vandal])
        .success()
        .assert_says("changed during the review");
    repo.write("loose", "not committed\n");
    let github = repo
        .agent([
            "review",
            "ai",
            "--uncommitted",
            "--format",
            "github",
            "--",
            "test -f loose && echo '[]'",
        ])
        .success();
    assert_eq!(github.stdout(), "");
    assert_eq!(repo.read("loose"), b"not committed\n");
    repo.assert_nothing_left_over();
}

#[test]
fn versions_by_several_agents_and_models_are_told_apart() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let store = sandbox.root().join("conversations");
    std::fs::create_dir_all(&store).expect("the sandbox is writable");
    let set = |key: &str, value: &str| {
        repo.git(["config", key, value]).success();
    };
    // The one speaks a protocol and tells what it cost; the other only prints.
    set("agent.careful.driver", "acp");
    set(
        "agent.careful.command",
        &format!("fake-acp --store '{}'", store.display()),
    );
    set(
        "agent.quick.command",
        "sh -c 'echo $GIT_AGENT_MODEL >made; echo made'",
    );
    let script = "usage 1000 0.0123\nwrite made careful";
    repo.agent(["new", "--name", "race", "--agent", "careful, quick", script])
        .success();
    repo.agent_cmd(["new", "--name", "models", "--agent", "quick"])
        .args(["--model", "small, large", "make it"])
        .run()
        .success();
    for name in ["race-v1", "race-v2", "models-v1", "models-v2"] {
        repo.await_state(name, "ready");
    }
    let shown = repo.agent(["review", "compare", "race"]).success();
    for words in ["race-v1", "race-v2", "careful", "quick", "$0.0123", "107"] {
        assert!(
            shown.stdout().contains(words),
            "{words}: {}",
            shown.stdout()
        );
    }
    let listed = repo
        .agent(["review", "compare", "--group", "models", "--json"])
        .success();
    let listed: serde_json::Value = serde_json::from_str(listed.stdout()).expect("JSON");
    let models: Vec<&str> = listed["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|session| session["model"].as_str())
        .collect();
    assert_eq!(models, ["small", "large"]);
    assert_eq!(listed["files"][0]["kind"], "different");
    assert!(listed["sessions"][0]["elapsed_seconds"].is_u64());
    repo.assert_nothing_left_over();
}

#[test]
fn versions_are_compared() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session(
        "one",
        &["--group", "g"],
        &["write same x", "write f 1", "write only 1", "print done"],
    );
    repo.new_session(
        "two",
        &["--group", "g"],
        &["write same x", "write f 2", "commit work", "print done"],
    );
    repo.await_state("one", "ready");
    repo.await_state("two", "ready");
    let listed = repo
        .agent(["review", "compare", "one", "two", "--porcelain"])
        .success();
    let kinds: Vec<(&str, &str)> = listed
        .lines()
        .into_iter()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[2], fields[0])
        })
        .collect();
    assert_eq!(
        kinds,
        [("f", "different"), ("only", "only"), ("same", "same")]
    );
    let shown = repo.agent(["review", "compare", "--group", "g"]).success();
    shown.assert_says("git agent merge --pick one");
    let diff = repo
        .agent(["review", "compare", "one", "two", "--diff"])
        .success();
    assert!(
        diff.stdout().contains("-1") && diff.stdout().contains("+2"),
        "{diff}"
    );
    // The second moves onto a parent that has grown: the difference of the changes stays what it was.
    repo.write("parent", "news\n");
    repo.commit("the parent goes on");
    repo.worktree_of("two")
        .git(["rebase", "--quiet", "main"])
        .success();
    let inter = repo
        .agent(["review", "compare", "one", "two", "--interdiff", "--stat"])
        .success();
    assert!(!inter.stdout().contains("parent"), "{inter}");
    let plain = repo
        .agent(["review", "compare", "one", "two", "--diff", "--stat"])
        .success();
    assert!(plain.stdout().contains("parent"), "{plain}");
}
