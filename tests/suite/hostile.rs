//! Session logs made by somebody who means harm: each costs one clear line, bounded memory and time, and no other session.

use std::fs;
use std::time::Duration;

use git_agent_tests::output::Output;
use git_agent_tests::{Repo, Sandbox};
use serde_json::{Value, json};

/// What a process of ours may take, in KiB.
const MEMORY: u64 = 64 << 10;

/// A repository with one good session, and places for bad ones.
struct Den<'a> {
    repo: Repo<'a>,
    good: String,
    month: String,
    state: Value,
    made: std::cell::Cell<u32>,
}

impl<'a> Den<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let repo = sandbox.repo("r").create();
        let run = repo
            .command("store-hammer")
            .args(["create", "good", "3"])
            .run();
        let good = run.success().line().to_owned();
        let refs = repo.refs("refs/agents/sessions");
        let name = refs.into_keys().next().expect("a session");
        let state = repo
            .git(["cat-file", "-p", &format!("{name}:state.json")])
            .success()
            .json();
        let month = name.split('/').nth(3).expect("a month").to_owned();
        Den {
            repo,
            good,
            month,
            state,
            made: Default::default(),
        }
    }

    /// Returns an id of the same month that no session has yet.
    fn sid(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("{}{:04}", &self.good[..22], self.made.get())
    }

    fn ref_name(&self, sid: &str) -> String {
        format!("refs/agents/sessions/{}/{sid}", self.month)
    }

    /// Returns the good session's state under another id and name.
    fn state(&self, sid: &str, name: &str) -> Value {
        let mut state = self.state.clone();
        state["sid"] = json!(sid);
        state["name"] = json!(name);
        state
    }

    fn blob(&self, bytes: &[u8]) -> String {
        let hash = self
            .repo
            .command("git")
            .args(["hash-object", "-w", "--stdin"]);
        hash.stdin(bytes).run().success().line().to_owned()
    }

    /// Makes a log of one commit whose tree has these files, given as names and blob ids.
    fn log(&self, sid: &str, entries: &[(&str, &str)]) {
        let lines: String = entries
            .iter()
            .map(|(name, id)| format!("100644 blob {id}\t{name}\n"))
            .collect();
        let mktree = self.repo.command("git").args(["mktree"]).stdin(lines);
        let tree = mktree.run().success().line().to_owned();
        let commit = self.repo.git(["commit-tree", "-m", "agent-log v1", &tree]);
        let commit = commit.success().line().to_owned();
        self.repo
            .git(["update-ref", &self.ref_name(sid), &commit])
            .success();
    }

    fn log_with_state(&self, sid: &str, state: &[u8]) {
        let (empty, state) = (self.blob(b""), self.blob(state));
        self.log(
            sid,
            &[
                ("events.jsonl", &empty),
                ("state.json", &state),
                ("v1", &empty),
            ],
        );
    }

    /// Runs a command of ours and asserts that it stayed small and quick.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Output {
        let file = self.repo.sandbox().root().join("peak");
        let run = self
            .repo
            .command("peak")
            .arg(&file)
            .args(["git", "agent"])
            .args(words)
            .time_limit(Duration::from_secs(120))
            .run()
            .whatever();
        let peak = fs::read_to_string(&file).expect("peak wrote its file");
        let peak: u64 = peak.parse().expect("a number");
        assert!(peak > 0 && peak <= MEMORY, "{words:?} took {peak} KiB");
        run
    }

    /// Asserts that the good session is listed, and that stderr has exactly these words, a line each.
    #[track_caller]
    fn lists_the_good_one(&self, expected: &[&str]) -> Output {
        let run = self.run(&["list", "--all", "--porcelain"]);
        assert!(run.status().success(), "{run}");
        assert!(run.stdout().contains(&self.good), "{run}");
        let lines: Vec<&str> = run.stderr().lines().collect();
        assert_eq!(lines.len(), expected.len(), "{run}");
        for words in expected {
            assert!(
                lines.iter().any(|line| line.contains(words)),
                "{words}: {run}"
            );
        }
        run
    }

    /// Asserts that reading a bad session's events ends with one clear line and git's exit code.
    #[track_caller]
    fn refuses_events(&self, sid: &str, words: &str) {
        self.ends_with(&["log", sid], words);
    }

    /// Asserts the same for everything that reads a session.
    #[track_caller]
    fn refuses(&self, sid: &str, words: &str) {
        self.ends_with(&["log", sid], words);
        self.ends_with(&["show", sid], words);
    }

    #[track_caller]
    fn ends_with(&self, command: &[&str], words: &str) {
        let run = self.run(command);
        assert_eq!(run.status().code(), Some(128), "{run}");
        let aside = |line: &&str| !line.starts_with("hint:") && !line.starts_with("warning:");
        let errors: Vec<&str> = run.stderr().lines().filter(aside).collect();
        assert_eq!(errors.len(), 1, "{run}");
        assert!(errors[0].contains(words), "{run}");
    }
}

#[test]
fn malformed_logs_cost_a_line_each_and_no_other_session() {
    let sandbox = Sandbox::new();
    let den = Den::new(&sandbox);
    let empty = den.blob(b"");
    let mut expected = Vec::new();

    let newer = den.sid();
    den.log(&newer, &[("v2", &empty), ("whatever", &empty)]);
    expected.push((newer, "written by a newer git-agent (format v2)"));
    let bare = den.sid();
    den.log(&bare, &[]);
    expected.push((bare, "is not a session log"));
    let stateless = den.sid();
    den.log(&stateless, &[("events.jsonl", &empty), ("v1", &empty)]);
    expected.push((stateless, "has no state.json"));
    for bad in [
        &b"{\"v\":1,\"name\":\"\xff\xfe\"}"[..],
        b"[]",
        b"",
        b"{\"v\":\"one\"}",
        &b"[".repeat(60_000),
    ] {
        let sid = den.sid();
        den.log_with_state(&sid, bad);
        expected.push((sid, "is malformed"));
    }
    let typed = den.sid();
    let mut state = den.state(&typed, "typed");
    state["turns"] = json!({"not": "a number"});
    den.log_with_state(&typed, state.to_string().as_bytes());
    expected.push((typed, "is malformed"));
    let later = den.sid();
    let mut state = den.state(&later, "later");
    state["v"] = json!(7);
    den.log_with_state(&later, state.to_string().as_bytes());
    expected.push((later, "written by a newer git-agent (format v7)"));
    let stolen = den.sid();
    den.log_with_state(&stolen, den.state.to_string().as_bytes());
    expected.push((stolen, "belongs to another session"));
    let tree = den.sid();
    let id = den.repo.id("HEAD^{tree}");
    den.repo
        .git(["update-ref", &den.ref_name(&tree), &id])
        .success();
    expected.push((tree, "is a tree, not a commit"));

    let words: Vec<&str> = expected.iter().map(|(sid, _)| sid.as_str()).collect();
    den.lists_the_good_one(&words);
    for (sid, words) in &expected {
        den.refuses(sid, words);
    }
    den.run(&["log", "good"]);
    // What other programs keep beside them is not even looked at.
    let foreign = [
        "refs/agents/abc/checkpoints/turn/0",
        "refs/agents/sessions/x/y/z",
    ];
    for name in foreign {
        den.repo.git(["update-ref", name, "HEAD"]).success();
    }
    let run = den.lists_the_good_one(&words);
    assert!(!run.stdout().contains("checkpoints") && !run.stderr().contains("x/y/z"));
}

#[test]
fn escapes_never_reach_a_terminal() {
    let sandbox = Sandbox::new();
    let den = Den::new(&sandbox);
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}drow\u{200b}\r\nfatal: forged";
    let sid = den.sid();
    let mut state = den.state(&sid, evil);
    state["task"] = json!(evil);
    state["activity"] = json!(evil);
    state["agent"] = json!(evil);
    state["author"] = json!({"n": evil, "e": evil});
    let event = |seq: u64, kind: &str, more: Value| {
        let mut event = json!({"v": 1, "id": den.good, "seq": seq, "lc": seq, "ts": 1, "turn": 1, "type": kind});
        for (key, value) in more.as_object().expect("an object") {
            event[key] = value.clone();
        }
        format!("{event}\n")
    };
    let events = [
        event(1, "prompt", json!({"text": evil, "from": evil})),
        event(2, "assistant", json!({"text": evil})),
        event(
            3,
            "tool_call",
            json!({"call": evil, "name": evil, "kind": "execute", "input": {"command": evil}}),
        ),
        event(
            4,
            "tool_result",
            json!({"call": evil, "ok": true, "output": evil}),
        ),
        event(5, "error", json!({"kind": evil, "text": evil})),
        event(6, "output", json!({"stream": "stdout", "text": evil})),
        event(7, "unheard-of", json!({"text": evil})),
    ];
    let (empty, blob) = (den.blob(b""), den.blob(events.concat().as_bytes()));
    let state = den.blob(state.to_string().as_bytes());
    den.log(
        &sid,
        &[
            ("events.jsonl", &blob),
            ("state.json", &state),
            ("v1", &empty),
        ],
    );
    let bad = den.sid();
    let malformed = format!("{{\"v\":1,\"{evil}\":");
    den.log_with_state(&bad, malformed.as_bytes());

    for words in [
        &["list", "--all"][..],
        &["log", "--full", &sid],
        &["log", &sid],
        &["show", &sid],
        &["doctor"],
        &["list", evil],
    ] {
        let shown = den
            .repo
            .agent_cmd(words)
            .env("GIT_PAGER", "cat")
            .on_terminal()
            .run()
            .whatever();
        for out in [shown.stdout_bytes(), shown.stderr_bytes()] {
            let text = String::from_utf8_lossy(out);
            for raw in [
                "\u{1b}]",
                "\u{7}",
                "\u{1b}[2J",
                "\u{9b}",
                "\u{202e}",
                "\u{200b}",
                "\nfatal: forged",
            ] {
                assert!(
                    !text.contains(raw),
                    "{words:?} lets {raw:?} through: {text:?}"
                );
            }
        }
    }
    let json = den.repo.agent(["list", "--all", "--json"]).success();
    assert!(!json.stdout().contains('\u{1b}') && !json.stdout().contains('\u{202e}'));
}

#[test]
fn huge_blobs_are_never_loaded() {
    let sandbox = Sandbox::new();
    let den = Den::new(&sandbox);
    let file = sandbox.root().join("huge");
    fs::File::create(&file)
        .and_then(|file| file.set_len(300 << 20))
        .expect("a sparse file");
    let hash = den
        .repo
        .command("git")
        .args(["hash-object", "-w", "--no-filters"])
        .arg(&file);
    let huge = hash
        .time_limit(Duration::from_secs(120))
        .run()
        .success()
        .line()
        .to_owned();
    let empty = den.blob(b"");
    let state = den.sid();
    den.log(
        &state,
        &[
            ("events.jsonl", &empty),
            ("state.json", &huge),
            ("v1", &empty),
        ],
    );
    let events = den.sid();
    let blob = den.blob(den.state(&events, "events").to_string().as_bytes());
    den.log(
        &events,
        &[
            ("events.jsonl", &huge),
            ("state.json", &blob),
            ("v1", &empty),
        ],
    );
    den.lists_the_good_one(&["has 314572800 bytes, more than the 65536 allowed"]);
    den.refuses(&state, "has 314572800 bytes");
    den.refuses_events(&events, "has 314572800 bytes");
    den.run(&["show", &events]);
}

#[test]
fn an_endless_chain_ends_at_the_limit() {
    let sandbox = Sandbox::new();
    let den = Den::new(&sandbox);
    let sid = den.sid();
    let state = den.state(&sid, "chain").to_string();
    let name = den.ref_name(&sid);
    let who = "committer A <a@example.com> 1790000000 +0000";
    let mut script = String::new();
    for number in 0..=100_000 {
        script += &format!("commit {name}\n{who}\ndata 13\nagent-log v1\n\n");
        if number == 0 {
            let length = state.len();
            script += "M 100644 inline v1\ndata 0\n\nM 100644 inline events.jsonl\ndata 0\n\n";
            script += &format!("M 100644 inline state.json\ndata {length}\n{state}\n");
        }
    }
    let import = den
        .repo
        .command("git")
        .args(["fast-import", "--quiet"])
        .stdin(script);
    import.time_limit(Duration::from_secs(120)).run().success();
    den.lists_the_good_one(&[]);
    den.refuses_events(&sid, "more than the 100000 commits allowed");
    den.run(&["show", &sid]);
}

#[test]
fn sessions_that_are_each_others_parent_are_just_listed() {
    let sandbox = Sandbox::new();
    let den = Den::new(&sandbox);
    let (one, two) = (den.sid(), den.sid());
    for (sid, parent) in [(&one, &two), (&two, &one)] {
        let mut state = den.state(sid, &format!("child-of-{parent}"));
        state["parent_session"] = json!(parent);
        den.log_with_state(sid, state.to_string().as_bytes());
    }
    let itself = den.sid();
    let mut state = den.state(&itself, "itself");
    state["parent_session"] = json!(itself);
    den.log_with_state(&itself, state.to_string().as_bytes());
    let run = den.lists_the_good_one(&[]);
    for sid in [&one, &two, &itself] {
        assert!(run.stdout().contains(sid.as_str()), "{run}");
        assert!(den.run(&["log", sid]).status().success());
    }
}
