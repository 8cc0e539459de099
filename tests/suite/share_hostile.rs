//! A remote full of what somebody who means harm can put there: each piece costs one line, and nothing else anything.

use std::fs;
use std::time::Duration;

use git_agent_tests::output::Output;
use git_agent_tests::{Hash, Member, Repo, Sandbox, Team, Way};
use serde_json::{Value, json};

/// What a process of a fetch may take, in KiB.
const MEMORY: u64 = 128 << 10;

/// A shared repository with one good session, and tools to add bad ones.
pub struct Lair<'a> {
    pub team: Team<'a>,
    pub good: String,
    pub month: String,
    pub state: Value,
    pub made: std::cell::Cell<u32>,
}

impl<'a> Lair<'a> {
    pub fn new(sandbox: &'a Sandbox, way: Way) -> Self {
        let team = Team::new(sandbox, way);
        // What the server needs is the server's business.
        team.hub
            .git(["config", "core.bigFileThreshold", "1m"])
            .success();
        let ada = team.clone("ada");
        let good = ada.hammer(["create", "good", "3"]);
        ada.push().success();
        let name = team
            .hub
            .refs("refs/agents")
            .into_keys()
            .next()
            .expect("a ref");
        let state = ["cat-file", "-p", &format!("{name}:state.json")];
        let state = team.hub.git(state).success().json();
        let month = name.split('/').nth(3).expect("a month").to_owned();
        Lair {
            team,
            good,
            month,
            state,
            made: Default::default(),
        }
    }

    pub fn hub(&self) -> &Repo<'a> {
        &self.team.hub
    }

    pub fn sid(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("{}{:05}", &self.good[..21], self.made.get())
    }

    pub fn object(&self, kind: &str, bytes: &[u8]) -> String {
        let hash = ["hash-object", "-t", kind, "-w", "--literally", "--stdin"];
        let run = self.hub().command("git").args(hash).stdin(bytes).run();
        run.success().line().to_owned()
    }

    pub fn raw(&self, hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    /// Returns a tree of entries as given, in their order: mode, name, id.
    pub fn tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend(self.raw(id));
        }
        self.object("tree", &bytes)
    }

    pub fn state(&self, sid: &str, name: &str) -> Value {
        let mut state = self.state.clone();
        state["sid"] = json!(sid);
        state["name"] = json!(name);
        state
    }

    /// Puts a log there whose tree has one more entry, before or behind the usual ones.
    pub fn log_with(&self, mode: &str, name: &[u8], id: &str) -> String {
        let sid = self.sid();
        let empty = self.object("blob", b"");
        let state = self.object("blob", self.state(&sid, "bad").to_string().as_bytes());
        let mut entries: Vec<(&str, &[u8], &str)> = vec![
            ("100644", b"events.jsonl", &empty),
            ("100644", b"state.json", &state),
            ("100644", b"v1", &empty),
        ];
        let at = entries.iter().position(|entry| entry.1 > name);
        entries.insert(at.unwrap_or(entries.len()), (mode, name, id));
        let tree = self.tree(&entries);
        self.commit(&sid, &tree, "agent-log v1\n", "A <a@example.com>");
        sid
    }

    pub fn commit(&self, sid: &str, tree: &str, message: &str, who: &str) {
        let commit = format!(
            "tree {tree}\nauthor {who} 1700000000 +0000\ncommitter {who} 1700000000 +0000\n\n{message}"
        );
        let id = self.object("commit", commit.as_bytes());
        self.point(sid, &id);
    }

    pub fn point(&self, sid: &str, id: &str) {
        let name = format!("refs/agents/sessions/{}/{sid}", self.month);
        // As somebody with the disk would, past every check.
        let path = self.hub().path().join(&name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("writable");
        fs::write(path, format!("{id}\n")).expect("writable");
    }

    pub fn log_with_files(&self, sid: &str, events: &[u8], state: &[u8]) {
        let empty = self.object("blob", b"");
        let (events, state) = (self.object("blob", events), self.object("blob", state));
        let tree = self.tree(&[
            ("100644", b"events.jsonl", &events),
            ("100644", b"state.json", &state),
            ("100644", b"v1", &empty),
        ]);
        self.commit(sid, &tree, "agent-log v1\n", "A <a@example.com>");
    }
}

/// Runs a test once for each way to a shared repository, each in a world of its own.
pub fn each_lair(test: impl Fn(&Sandbox, &Lair<'_>)) {
    for way in Way::BOTH {
        let sandbox = Sandbox::new();
        let lair = Lair::new(&sandbox, way);
        test(&sandbox, &lair);
    }
}

/// Fetches, and asserts that no process of it grew too large.
#[track_caller]
fn fetch(member: &Member<'_>, sandbox: &Sandbox) -> Output {
    let file = sandbox.root().join("peak");
    let run = member
        .command("peak")
        .arg(&file)
        .args(["git", "agent", "fetch"])
        .time_limit(Duration::from_secs(300))
        .run()
        .whatever();
    let peak = fs::read_to_string(&file).expect("peak wrote its file");
    let peak: u64 = peak.parse().expect("a number");
    assert!(peak > 0 && peak <= MEMORY, "a fetch took {peak} KiB\n{run}");
    run
}

#[test]
fn crafted_objects_are_refused_one_by_one() {
    each_lair(|sandbox, lair| {
        assert_eq!(
            lair.hub().hash(),
            Hash::Sha1,
            "ids below are of this length"
        );
        let blob = lair.object("blob", b"x");
        let long = vec![b'n'; 5000];
        let modules = lair.object(
            "blob",
            b"[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n",
        );
        let names: [(&str, &[u8], &str); 14] = [
            ("100644", b"..", &blob),
            ("100644", b"a/../../x", &blob),
            ("100644", b"/etc/passwd", &blob),
            ("100644", b".git", &blob),
            ("100644", ".g\u{200c}it".as_bytes(), &blob),
            ("100644", b"state.json", &blob),
            ("100644", &long, &blob),
            ("100644", b".gitmodules", &modules),
            ("100644", b"..\\..\\x", &blob),
            ("100644", b"\x1b]0;owned\x07", &blob),
            ("120000", b"link", &blob),
            ("160000", b"sub", &blob),
            ("100755", b"run", &blob),
            ("100644", b".gitattributes", &blob),
        ];
        let mut bad: Vec<String> = names
            .iter()
            .map(|(mode, name, id)| lair.log_with(mode, name, id))
            .collect();
        // Unsorted, a tree and a blob and nothing at all in the place of a commit, and a commit with a NUL.
        let unsorted = lair.sid();
        let tree = lair.tree(&[("100644", b"v1", &blob), ("100644", b"events.jsonl", &blob)]);
        lair.commit(&unsorted, &tree, "agent-log v1\n", "A <a@example.com>");
        bad.push(unsorted);
        for id in [&tree, &blob] {
            let sid = lair.sid();
            lair.point(&sid, id);
            bad.push(sid);
        }
        let nul = lair.sid();
        lair.commit(&nul, &tree, "agent-log v1\n\0hidden", "A <a@example.com>");
        bad.push(nul);
        // Fields: another session, a clock that is used up, an oversized record, a branch that is an option.
        let wrong = |name: &str, change: &dyn Fn(&mut Value)| {
            let sid = lair.sid();
            let mut state = lair.state(&sid, name);
            change(&mut state);
            lair.log_with_files(&sid, b"", state.to_string().as_bytes());
            sid
        };
        bad.push(wrong("stolen", &|state| state["sid"] = json!(lair.good)));
        bad.push(wrong("clock", &|state| state["lc"] = json!(u64::MAX)));
        bad.push(wrong("option", &|state| {
            state["branch"] = json!("--upload-pack=touch pwn")
        }));
        bad.push(wrong("path", &|state| {
            state["code"] = json!("../../../etc")
        }));
        bad.push(wrong("huge", &|state| {
            state["task"] = json!("x".repeat(70_000))
        }));
        bad.push(wrong(&"long".repeat(100), &|_| {}));
        bad.push(wrong("author", &|state| {
            state["author"] = json!({"n": "A ".repeat(5000), "e": "a@example.com"})
        }));
        bad.push(wrong("bytes", &|state| {
            state["task"] = json!("\u{202e}raw")
        }));

        let bob = team_clone(lair, "bob");
        let before = files_outside(&bob);
        let run = fetch(&bob, sandbox);
        assert_eq!(run.status().code(), Some(1), "{run}");
        assert_eq!(bob.names(), ["good"], "{run}");
        for sid in &bad {
            assert!(
                run.stderr().contains(sid.as_str()),
                "{sid} is not named\n{run}"
            );
        }
        let refused = run.stderr().lines().filter(|line| line.contains("refused"));
        assert_eq!(refused.count(), bad.len(), "{run}");
        assert!(!run.stderr().contains('\u{1b}') && !run.stderr().contains('\u{7}'));
        assert_eq!(files_outside(&bob), before, "something else was written");
        assert!(bob.repo.refs("refs/agents-in").is_empty());
        assert_eq!(bob.repo.refs("refs/agents-remote").len(), 1);
        bob.git(["fetch", "--quiet"]).success();
        bob.repo.assert_user_can_work();
    });
}

#[test]
fn many_broken_refs_keep_no_good_one_out() {
    each_lair(|sandbox, lair| {
        let mut names = vec!["good".to_owned()];
        for number in 0..60 {
            let text = format!("{number}");
            let blob = lair.object("blob", text.as_bytes());
            lair.log_with("100644", b"..", &blob);
            let sid = lair.sid();
            let name = format!("good{number:02}");
            let state = lair.state(&sid, &name).to_string();
            lair.log_with_files(&sid, b"", state.as_bytes());
            names.push(name);
        }
        // What the hub cannot even give is told from the rest all the same.
        let torn = lair.sid();
        let tree = lair.object("tree", b"100644 torn");
        lair.commit(&torn, &tree, "agent-log v1\n", "A <a@example.com>");
        let bob = team_clone(lair, "bob");
        let run = fetch(&bob, sandbox);
        assert_eq!(run.status().code(), Some(1), "{run}");
        assert_eq!(bob.names(), names, "{run}");
        let refused = |words: &str| {
            let lines = run.stderr().lines();
            lines.filter(|line| line.contains(words)).count()
        };
        assert_eq!(
            (refused("refused"), refused("hasDotdot")),
            (61, 60),
            "{run}"
        );
        bob.repo.assert_user_can_work();
    });
}

pub fn team_clone<'a>(lair: &Lair<'a>, who: &str) -> Member<'a> {
    // A clone takes branches only: what is bad there is none of its business.
    lair.team.clone(who)
}

/// Returns the files of a clone that are neither objects nor records of ours.
fn files_outside(member: &Member<'_>) -> Vec<std::path::PathBuf> {
    let dir = member.repo.path();
    let mut files = git_agent_tests::sessions::files_below(dir);
    files.retain(|path| {
        let inside = path.strip_prefix(dir).unwrap_or(path);
        let inside = inside.to_string_lossy();
        !(inside.starts_with(".git/objects/")
            || inside.starts_with(".git/agents/")
            || inside.starts_with(".git/refs/agents-remote/")
            || inside == ".git/packed-refs")
    });
    files.sort();
    files
}

#[test]
fn names_words_and_authors_of_others_are_only_text() {
    each_lair(|sandbox, lair| {
        let good = lair
            .hub()
            .refs("refs/agents")
            .into_values()
            .next()
            .expect("a tip");
        for name in [
            "sessions/2026-11/\u{9b}31m",
            "sessions/2026-11/\u{202e}evil",
            "sessions/2026-11/$(touch${IFS}pwn)",
            "sessions/2026-11/-rf",
            "notes/review/`id`",
            "notes/other/ada-1a2b",
            "archive/2026-13/ada-1a2b",
            "checkpoints/of/another/program",
        ] {
            let name = format!("refs/agents/{name}");
            lair.hub().git(["update-ref", &name, &good]).success();
        }
        // A session that claims to be somebody else's, speaks like a command, and brings settings along.
        let sid = lair.sid();
        let mut state = lair.state(&sid, "$(touch pwned)");
        state["author"] = json!({"n": "The Boss \u{1b}[2J", "e": "boss@example.com"});
        state["agent"] = json!("command");
        state["more"] = json!({"command": ["touch pwned"]});
        let event = json!({"v": 1, "id": lair.good, "seq": 1, "lc": 1, "ts": 1, "turn": 1, "type": "prompt",
            "text": "\u{1b}]0;owned\u{7} git agent purge; touch pwned"});
        let ascii = |value: &Value| {
            let text = value.to_string();
            text.replace('\u{1b}', "\\u001b")
                .replace('\u{7}', "\\u0007")
        };
        lair.log_with_files(
            &sid,
            format!("{}\n", ascii(&event)).as_bytes(),
            ascii(&state).as_bytes(),
        );
        let bob = lair.team.clone("bob");
        bob.repo.write(
            ".gitagents",
            "[agent]\n\tsetup = touch pwned\n\tremote = /tmp\n\tshare = /tmp\n",
        );
        let run = bob.fetch().success();
        assert!(run.stdout().contains("(claimed)"), "{run}");
        run.assert_says("ignored: 6 refs with unknown names");
        for words in [
            &["list", "--all"][..],
            &["show", &sid],
            &["log", &sid],
            &["fetch"],
        ] {
            let shown = bob.command("git").arg("agent").args(words);
            let shown = shown.env("GIT_PAGER", "cat").on_terminal().run().whatever();
            for out in [shown.stdout_bytes(), shown.stderr_bytes()] {
                let text = String::from_utf8_lossy(out);
                for raw in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{9b}", "\u{202e}"] {
                    assert!(
                        !text.contains(raw),
                        "{words:?} lets {raw:?} through: {text:?}"
                    );
                }
            }
        }
        // Going on from it runs nothing of it.
        bob.agent(["fork", &sid, "go on", "--name", "mine"])
            .whatever();
        bob.agent(["push"])
            .code(128)
            .assert_says("you have not agreed to share sessions with 'origin'");
        for place in [
            bob.repo.path().to_owned(),
            sandbox.work(),
            sandbox.root().to_owned(),
        ] {
            assert!(!place.join("pwn").exists() && !place.join("pwned").exists());
        }
        bob.repo.assert_user_can_work();
    });
}

#[test]
fn nobody_writes_in_the_name_of_another_writer() {
    each_lair(|_, lair| {
        let bob = lair.team.clone("bob");
        bob.fetch().success();
        let ada = lair.state["writer"].as_str().expect("a writer").to_owned();

        // As a server sees it this is eve's, as JSON it is ada's.
        for spelt in ["writ\\u0065r\":\"", "writer\": \"", "writer\":\"\\u0061"] {
            let sid = lair.sid();
            let state = lair.state(&sid, "forged").to_string();
            let plain = format!("\"writer\":\"{ada}\"");
            let rest = if spelt.ends_with("u0061") {
                &ada[1..]
            } else {
                &ada
            };
            let forged = format!("\"{spelt}{rest}\",\"zz\":{{\"writer\":\"eve-1a2b\"}}");
            assert!(state.contains(&plain), "{state}");
            let state = state.replace(&plain, &forged);
            lair.log_with_files(&sid, b"", state.as_bytes());
        }
        let run = bob.fetch().code(1);
        run.assert_says("its writer is malformed");
        assert_eq!(bob.names(), ["good"]);

        // Eve folds ada's session into an archive of her own, with words that ada never said, and deletes hers.
        let name = format!("refs/agents/sessions/{}/{}", lair.month, lair.good);
        let tip = lair.hub().id(&name);
        let empty = lair.object("blob", b"");
        let mut state = lair.state(&lair.good, "good");
        state["seq"] = json!(99);
        state["status"] = json!("discarded");
        let event = json!({"v": 1, "id": lair.good, "seq": 99, "lc": 9, "ts": 1, "turn": 0,
            "type": "notice", "text": "I owe eve money"});
        let (events, file) = (format!("{event}\n"), format!("{state}\n"));
        let (events, file) = (
            lair.object("blob", events.as_bytes()),
            lair.object("blob", file.as_bytes()),
        );
        let tree = lair.tree(&[
            ("100644", b"events.jsonl", &events),
            ("100644", b"state.json", &file),
            ("100644", b"v1", &empty),
        ]);
        let who = "E <e@example.com> 1700000000 +0000";
        let log = lair.object(
            "commit",
            format!("tree {tree}\nparent {tip}\nauthor {who}\ncommitter {who}\n\nagent-log v1\n")
                .as_bytes(),
        );
        state["tip"] = json!(log);
        let sessions = lair.object("blob", format!("{state}\n").as_bytes());
        let tree = lair.tree(&[
            ("100644", b"sessions.jsonl", &sessions),
            ("100644", b"v1", &empty),
        ]);
        let archive = lair.object(
            "commit",
            format!(
                "tree {tree}\nparent {log}\nauthor {who}\ncommitter {who}\n\nagent-archive v1\n"
            )
            .as_bytes(),
        );
        let own = format!("refs/agents/archive/{}/eve-1a2b", lair.month);
        lair.hub().git(["update-ref", &own, &archive]).success();
        lair.hub().git(["update-ref", "-d", &name]).success();
        let run = bob.agent(["fetch", "--prune"]).code(1);
        run.assert_says("it has more than one writer");
        run.assert_says("the old version is kept for 30 days");
        let kept = bob.repo.refs("refs/agents-local/lost");
        assert!(kept.into_values().any(|id| id == tip), "{run}");
        assert!(bob.names().is_empty());
    });
}

#[test]
fn a_dozen_objects_that_stand_for_billions_of_files_cost_nothing() {
    each_lair(|sandbox, lair| {
        let names: Vec<Vec<u8>> = (b'0'..=b'9').map(|name| vec![name]).collect();
        let all = |mode: &str, id: &str| {
            let entries: Vec<_> = names.iter().map(|name| (mode, &name[..], id)).collect();
            lair.tree(&entries)
        };
        let mut tree = all("100644", &lair.object("blob", b"boom\n"));
        for _ in 0..9 {
            tree = all("40000", &tree);
        }
        let main = lair.hub().id("main");
        let who = "A <a@example.com> 1700000000 +0000";
        let text = format!("tree {tree}\nparent {main}\nauthor {who}\ncommitter {who}\n\nbomb\n");
        let bomb = lair.object("commit", text.as_bytes());
        let sid = lair.sid();
        let mut state = lair.state(&sid, "bomb");
        state["base"] = json!(main);
        state["code"] = json!(bomb);
        state["branch"] = json!("agent/bomb");
        let event = json!({"v": 1, "id": lair.good, "seq": 1, "lc": 1, "ts": 1, "turn": 1, "type": "prompt", "text": "x"});
        let empty = lair.object("blob", b"");
        let state = lair.object("blob", state.to_string().as_bytes());
        let events = lair.object("blob", format!("{event}\n").as_bytes());
        let tree = lair.tree(&[
            ("100644", b"events.jsonl", &events),
            ("100644", b"state.json", &state),
            ("100644", b"v1", &empty),
        ]);
        let text = format!(
            "tree {tree}\nparent {bomb}\nauthor {who}\ncommitter {who}\n\nagent-log v1\n\nAgent-Session: {sid}\nAgent-Code: {bomb}\n"
        );
        lair.point(&sid, &lair.object("commit", text.as_bytes()));
        let bob = lair.team.clone("bob");
        let run = fetch(&bob, sandbox);
        assert!(run.stderr().contains("changes 10000000001 files"), "{run}");
        assert_eq!(bob.names(), ["good"]);
        // As it comes past the check.
        let refs = "refs/agents/sessions/*:refs/agents/sessions/*";
        bob.git(["fetch", "--quiet", "origin", refs]).success();
        for words in [
            &["list", "--all"][..],
            &["show", &sid],
            &["review", "diff", &sid],
            &["review", "diff", "--json", &sid],
            &["review", &sid],
        ] {
            let file = sandbox.root().join("peak");
            let run = bob.command("peak").arg(&file).args(["git", "agent"]);
            let run = run.args(words).time_limit(Duration::from_secs(30));
            let run = run.run().whatever();
            let peak = fs::read_to_string(&file).expect("peak wrote its file");
            let peak: u64 = peak.parse().expect("a number");
            assert!(peak <= MEMORY, "{words:?} took {peak} KiB\n{run}");
            match words {
                ["review", _] => assert!(run.stdout().contains("1 not counted"), "{run}"),
                ["review", ..] => {
                    assert!(run.stderr().contains("10000000001 or more files"), "{run}")
                }
                _ => assert!(run.stdout().contains("bomb"), "{run}"),
            }
        }
    });
}

#[test]
fn five_thousand_refs_and_a_huge_blob_stay_small() {
    each_lair(|sandbox, lair| {
        let file = sandbox.root().join("huge");
        fs::File::create(&file)
            .and_then(|file| file.set_len(300 << 20))
            .expect("a sparse file");
        let hash = lair
            .hub()
            .command("git")
            .args(["hash-object", "-w", "--no-filters"])
            .arg(&file);
        let huge = hash.time_limit(Duration::from_secs(240)).run().success();
        let huge = huge.line().to_owned();
        let empty = lair.object("blob", b"");
        let sid = lair.sid();
        let tree = lair.tree(&[
            ("100644", b"events.jsonl", &huge),
            ("100644", b"state.json", &empty),
            ("100644", b"v1", &empty),
        ]);
        lair.commit(&sid, &tree, "agent-log v1\n", "A <a@example.com>");
        let good = lair.hub().id(&format!(
            "refs/agents/sessions/{}/{}",
            lair.month, lair.good
        ));
        let mut script = String::new();
        for _ in 0..5_000 {
            let name = format!("refs/agents/sessions/{}/{}", lair.month, lair.sid());
            script += &format!("create {name} {good}\n");
        }
        let update = lair.hub().command("git").args(["update-ref", "--stdin"]);
        update
            .stdin(script)
            .time_limit(Duration::from_secs(120))
            .run()
            .success();
        lair.hub().git(["pack-refs", "--all"]).success();
        let bob = lair.team.clone("bob");
        let run = fetch(&bob, sandbox);
        assert_eq!(run.status().code(), Some(1), "the log");
        assert!(run.stderr().contains("has 314572800 bytes, more than"));
        let refused = run.stderr().lines().filter(|line| line.contains("refused"));
        assert_eq!(refused.count(), 5_001);
        assert_eq!(bob.names(), ["good"]);
        bob.git(["fetch", "--quiet"]).success();
        bob.git(["gc", "--quiet", "--prune=now"]).success();
        bob.repo.assert_whole();
    });
}
