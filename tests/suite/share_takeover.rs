//! Somebody who may push to the shared repository writes into one's own sessions there: nothing of it is run, and nothing
//! of one's own is taken away.

use std::fs;
use std::path::PathBuf;

use git_agent_tests::team::each_way;
use git_agent_tests::{Member, Sandbox};
use serde_json::{Value, json};

use crate::share_hostile::{Lair, each_lair, team_clone};

/// Adds to a session at the shared repository in its writer's name, as somebody who may push can: a state, and an event for
/// every change in it.
fn append_to(lair: &Lair<'_>, name: &str, changes: &Value) -> String {
    let hub = lair.hub();
    let state = ["cat-file", "-p", &format!("{name}:state.json")];
    let mut state = hub.git(state).success().json();
    let (tip, mut seq) = (hub.id(name), state["seq"].as_u64().expect("a number"));
    let mut events = String::new();
    for (key, value) in changes.as_object().expect("an object") {
        seq += 1;
        let mut event = json!({"v": 1, "id": format!("7zzzzzzzzzzzzzzzzzzzz{seq:05}"), "seq": seq,
            "lc": seq, "ts": state["updated"], "turn": 1, "type": "set", "key": key, "value": value});
        if key == "status" {
            event["type"] = json!("status");
            event["from"] = state["status"].clone();
            event["to"] = value.clone();
        }
        events.push_str(&format!("{event}\n"));
        match key.as_str() {
            "command" | "shares" | "no_guard" => state["more"][key] = value.clone(),
            _ => state[key] = value.clone(),
        }
    }
    events.push_str(&format!(
        "{}\n",
        json!({"v": 1, "id": format!("7zzzzzzzzzzzzzzzzzzzz{:05}", seq + 1), "seq": seq + 1,
            "lc": seq + 1, "ts": 1, "turn": 1, "type": "assistant", "text": "words of eve"})
    ));
    state["seq"] = json!(seq + 1);
    state["lc"] = json!(seq + 1);
    let empty = lair.object("blob", b"");
    let events = lair.object("blob", events.as_bytes());
    let state = lair.object("blob", state.to_string().as_bytes());
    let tree = lair.tree(&[
        ("100644", b"events.jsonl", &events),
        ("100644", b"state.json", &state),
        ("100644", b"v1", &empty),
    ]);
    let who = "E <e@example.com> 1700000000 +0000";
    let commit =
        format!("tree {tree}\nparent {tip}\nauthor {who}\ncommitter {who}\n\nagent-log v1\n");
    let id = lair.object("commit", commit.as_bytes());
    hub.git(["update-ref", name, &id]).success();
    id
}

/// Returns the state at the tip of a ref, and the worktree that this clone has for it.
fn state_of(member: &Member<'_>, name: &str) -> Value {
    let state = ["cat-file", "-p", &format!("{name}:state.json")];
    let mut state = member.git(state).success().json();
    let listed = member.agent(["list", "--all", "--json"]).success().json();
    let sessions = listed["sessions"].as_array().expect("a list");
    let found = sessions.iter().find(|one| one["id"] == state["sid"]);
    state["worktree"] = found.map_or(Value::Null, |one| one["worktree"].clone());
    state
}

/// Returns the ref of the session with a name.
fn ref_of(member: &Member<'_>, name: &str) -> String {
    let shown = member.agent(["show", name, "--json"]).success().json();
    let sid = shown["sessions"][0]["id"].as_str().expect("an id");
    let refs = member.repo.refs("refs/agents/sessions");
    let found = refs.into_keys().find(|found| found.ends_with(sid));
    found.expect("it has a ref")
}

#[test]
fn nobody_else_decides_what_ones_own_session_runs_and_where() {
    // With nothing new here the other version would simply be taken; otherwise both are joined.
    for diverged in [false, true] {
        each_lair(|sandbox, lair| {
            let ada = Member::at(sandbox, sandbox.work().join("ada"), "ada");
            let pwned = sandbox.work().join("pwned");
            let script = "echo x >>own && git add own && git commit -qm own && echo ran as mine";
            ada.session("own", "mine", script);
            ada.session("other", "theirs to take", script);
            let other = state_of(&ada, &ref_of(&ada, "other"));
            ada.push().success();
            let name = ref_of(&ada, "own");
            let before = state_of(&ada, &name);
            let evil = format!("touch {}", pwned.display());
            let changes = json!({
                "agent": "command", "command": [&evil], "worktree": other["worktree"],
                "branch": other["branch"], "model": "evil", "task": &evil, "no_guard": true,
                "vendor_session": "evil", "status": "merged", "shares": other["sid"], "base": null,
                "code": other["code"], "parent": "elsewhere", "role": "evil",
            });
            let added = append_to(lair, &name, &changes);
            if diverged {
                ada.hammer([
                    "append",
                    name.rsplit('/').next().expect("an id"),
                    "1",
                    "later",
                ]);
            }
            // What is kept as it was typed hides what the record says.
            let kept = ada.repo.path().join(".git/agents/scratch");
            fs::remove_dir_all(&kept).expect("it is there");
            ada.push().success();
            ada.git(["merge-base", "--is-ancestor", &added, &name])
                .success();
            let after = state_of(&ada, &name);
            for key in [
                "agent",
                "model",
                "task",
                "worktree",
                "branch",
                "base",
                "code",
                "parent",
                "role",
                "more",
                "status",
                "vendor_session",
                "name",
                "author",
                "writer",
            ] {
                assert_eq!(after[key], before[key], "{key}");
            }
            assert_eq!(lair.hub().id(&name), ada.repo.id(&name));
            ada.shows(&["log", "own"], "words of eve");
            ada.shows(&["log", "own"], "the values of this clone are kept");
            let shown = ada.agent(["show", "own", "--json"]).success().json();
            assert_eq!(shown["sessions"][0]["state"], "ready");
            assert_eq!(shown["sessions"][0]["branch"], before["branch"]);
            ada.push().success().assert_says("is up to date");

            let _ = ada.agent(["clean"]);
            for one in [&before, &other] {
                let place = one["worktree"].as_str().expect("a path");
                assert!(std::path::Path::new(place).is_dir(), "{place}");
                ada.repo.id(one["branch"].as_str().expect("a branch"));
            }
            ada.agent(["send", "own", "go on"]).success();
            ada.agent(["wait", "--timeout", "120s", "own"]).success();
            assert!(!pwned.exists());
            let log = ada.agent(["log", "own"]).success();
            assert_eq!(log.stdout().matches("ran as mine").count(), 2, "{log}");
            // And others can read all of it.
            let bob = team_clone(lair, "bob");
            ada.push().success();
            bob.fetch().success();
            bob.shows(&["log", "own"], "ran as mine");
        });
    }
}

#[test]
fn what_is_fetched_by_hand_runs_nothing_and_takes_nothing_away() {
    each_lair(|sandbox, lair| {
        let bob = lair.team.clone("bob");
        bob.session(
            "mine",
            "a task",
            "echo x >mine && git add mine && git commit -qm mine",
        );
        let mine = state_of(&bob, &ref_of(&bob, "mine"));
        let pwned = sandbox.work().join("pwned");
        let mut names = Vec::new();
        for status in ["ready", "running", "merged"] {
            let sid = lair.sid();
            let mut state = lair.state(&sid, &format!("eve-{status}"));
            state["writer"] = json!("eve-1a2b");
            state["status"] = json!(status);
            state["agent"] = json!("command");
            state["worktree"] = mine["worktree"].clone();
            state["branch"] = mine["branch"].clone();
            state["parent"] = json!("main");
            state["turns"] = json!(1);
            state["more"] =
                json!({"command": [format!("touch {}", pwned.display())], "set_up": true});
            lair.log_with_files(&sid, b"", state.to_string().as_bytes());
            let name = format!("refs/agents/sessions/{}/{sid}", lair.month);
            let fetch = ["fetch", "--quiet", "origin", &format!("{name}:{name}")];
            bob.git(fetch).success();
            names.push((format!("eve-{status}"), name));
        }
        for (name, _) in &names {
            let name = name.as_str();
            for words in [
                ["send", name, "go on"].as_slice(),
                &["restart", name],
                &["resume", name],
                &["stop", name],
                &["restore", name],
                &["exec", name, "--", "true"],
                &["commit", name],
                &["merge", name],
                &["review", "send", name],
            ] {
                let run = bob.agent(words).failure();
                run.assert_says("belongs to a teammate");
            }
            let _ = bob.agent(["clean", name]);
            let _ = bob.agent(["update", name]);
            bob.shows(&["show", name], "(claimed)");
        }
        let _ = bob.agent(["clean"]);
        let _ = bob.agent(["restart", "--all"]);
        let _ = bob.agent(["doctor", "--fix"]);
        let place = mine["worktree"].as_str().expect("a path");
        assert!(std::path::Path::new(place).is_dir(), "{place}");
        bob.repo.id(mine["branch"].as_str().expect("a branch"));
        assert!(!pwned.exists());
        let listed = bob.agent(["list", "--json"]).success().json();
        let listed = listed["sessions"].as_array().expect("a list").clone();
        assert!(listed.iter().all(|one| one["mine"] == true), "{listed:?}");
        // It can be let go of.
        let (name, full) = &names[0];
        bob.agent(["forget", name]).success();
        assert!(!bob.repo.refs("refs/agents/sessions").contains_key(full));
    });
}

/// Closes and folds the only session of a shared repository, and returns who did that.
fn fold<'a>(sandbox: &'a Sandbox, lair: &Lair<'_>) -> Member<'a> {
    let ada = Member::at(sandbox, sandbox.work().join("ada"), "ada");
    ada.hammer(["close", &lair.good]);
    ada.hammer(["fold"]);
    ada.push().success();
    ada
}

/// Makes an archive in the name of whoever wrote the good session: one of hers with another command, and one that she never
/// made.
fn archive_with(lair: &Lair<'_>, parents: &str, evil: &str) -> String {
    let (mut lines, mut parents) = (String::new(), parents.to_owned());
    for (sid, called) in [(lair.good.clone(), "good"), (lair.sid(), "gift")] {
        let mut state = lair.state(&sid, called);
        state["seq"] = json!(99);
        state["status"] = json!("discarded");
        state["agent"] = json!("command");
        state["more"] = json!({"command": [evil]});
        lair.log_with_files(&sid, b"", state.to_string().as_bytes());
        let log = format!("refs/agents/sessions/{}/{sid}", lair.month);
        let id = lair.hub().id(&log);
        lair.hub().git(["update-ref", "-d", &log]).success();
        state["tip"] = json!(id);
        lines.push_str(&format!("{state}\n"));
        parents.push_str(&format!("parent {id}\n"));
    }
    let (empty, lines) = (
        lair.object("blob", b""),
        lair.object("blob", lines.as_bytes()),
    );
    let tree = lair.tree(&[
        ("100644", b"sessions.jsonl", &lines),
        ("100644", b"v1", &empty),
    ]);
    let who = "E <e@example.com> 1700000000 +0000";
    let commit =
        format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nagent-archive v1\n");
    lair.object("commit", commit.as_bytes())
}

#[test]
fn nobody_takes_over_a_session_that_was_folded() {
    each_lair(|sandbox, lair| {
        let ada = fold(sandbox, lair);
        assert!(lair.hub().refs("refs/agents/sessions").is_empty());
        let bob = lair.team.clone("bob");
        bob.fetch().success();
        let mut state = lair.state(&lair.good, "good");
        state["writer"] = json!("eve-1a2b");
        state["task"] = json!("hijacked");
        state["status"] = json!("ready");
        lair.log_with_files(&lair.good, b"", state.to_string().as_bytes());
        for member in [&ada, &bob] {
            let run = member.fetch().code(1);
            run.assert_says("its writer has changed");
        }

        // Where it came before that, one's own is meant all the same.
        let name = format!("sessions/{}/{}", lair.month, lair.good);
        let words = format!("refs/agents/{name}:refs/agents-remote/origin/{name}");
        ada.git(["fetch", "--quiet", "origin", &words]).success();
        for wanted in ["good", lair.good.as_str()] {
            let shown = ada.agent(["show", wanted, "--json"]).success().json();
            assert_eq!(shown["sessions"][0]["mine"], true, "{shown}");
            assert_ne!(shown["sessions"][0]["task"], "hijacked", "{shown}");
            assert!(!ada.agent(["log", wanted]).success().stdout().is_empty());
        }
    });
}

#[test]
fn what_somebody_adds_to_ones_own_archive_runs_nothing() {
    each_lair(|sandbox, lair| {
        let ada = fold(sandbox, lair);
        let refs = ada.repo.refs("refs/agents/archive");
        let (name, tip) = refs.into_iter().next().expect("an archive");
        let pwned = sandbox.work().join("pwned");
        let evil = format!("touch {}", pwned.display());
        let added = archive_with(lair, &format!("parent {tip}\n"), &evil);
        lair.hub().git(["update-ref", &name, &added]).success();
        ada.push().success();
        assert_eq!(ada.repo.id(&name), added);
        // What she folded herself is as it was.
        for (called, why) in [
            ("good", "agent '' does not exist"),
            ("gift", "belongs to a teammate"),
        ] {
            for words in [["send", called, "go on"].as_slice(), &["restart", called]] {
                ada.agent(words).failure().assert_says(why);
            }
        }
        assert!(!pwned.exists());
    });
}

/// Has a session of somebody's own fetched onto its own ref by plain git, in a version that `forge` left at the shared
/// repository. Returns who owns it, the state it had, and the file that only its command would make.
fn fetched_over<'a>(
    sandbox: &'a Sandbox,
    lair: &Lair<'_>,
    forge: impl Fn(&str, &Value, &str),
) -> (Member<'a>, Value, PathBuf) {
    let ada = Member::at(sandbox, sandbox.work().join("ada"), "ada");
    let pwned = sandbox.work().join("pwned");
    let script = "echo x >>own && git add own && git commit -qm own && echo ran as mine";
    ada.session("own", "mine", script);
    ada.push().success();
    let name = ref_of(&ada, "own");
    let before = state_of(&ada, &name);
    forge(&name, &before, &format!("touch {}", pwned.display()));
    let fetch = format!("+{name}:{name}");
    ada.git(["fetch", "--quiet", "origin", &fetch]).success();
    assert_eq!(ada.repo.id(&name), lair.hub().id(&name));
    // What is kept as it was typed hides what the record says.
    let kept = ada.repo.path().join(".git/agents/scratch");
    fs::remove_dir_all(&kept).expect("it is there");
    (ada, before, pwned)
}

/// Asserts that a session's worktree and branch are where they were.
fn assert_kept(member: &Member<'_>, state: &Value) {
    let place = state["worktree"].as_str().expect("a path");
    assert!(std::path::Path::new(place).is_dir(), "{place}");
    let branch = state["branch"].as_str().expect("a branch");
    member.repo.id(branch);
}

#[test]
fn what_was_added_to_ones_own_session_and_fetched_by_hand_runs_nothing() {
    each_lair(|sandbox, lair| {
        let (ada, before, pwned) = fetched_over(sandbox, lair, |name, _, evil| {
            let changes = json!({
                "agent": "command", "command": [evil], "worktree": "/tmp", "branch": "main",
                "task": evil, "no_guard": true, "status": "merged",
            });
            append_to(lair, name, &changes);
        });
        // One's own is what this clone wrote last, and the words of others are words.
        let shown = ada.agent(["show", "own", "--json"]).success().json();
        for key in ["branch", "worktree", "task"] {
            assert_eq!(shown["sessions"][0][key], before[key], "{key}");
        }
        assert_eq!(shown["sessions"][0]["state"], "ready");
        assert_eq!(shown["sessions"][0]["mine"], true);
        ada.shows(&["log", "own"], "words of eve");
        let _ = ada.agent(["clean"]);
        assert_kept(&ada, &before);
        ada.agent(["send", "own", "go on"]).success();
        ada.agent(["wait", "--timeout", "120s", "own"]).success();
        assert!(!pwned.exists());
        let log = ada.agent(["log", "own"]).success();
        assert_eq!(log.stdout().matches("ran as mine").count(), 2, "{log}");
        let after = state_of(&ada, &ref_of(&ada, "own"));
        for key in ["agent", "worktree", "branch", "task"] {
            assert_eq!(after[key], before[key], "{key}");
        }
        assert_eq!(after["more"]["command"], before["more"]["command"]);
        assert_eq!(after["more"]["no_guard"], before["more"]["no_guard"]);
        ada.push().success();
    });
}

#[test]
fn ones_own_session_written_anew_by_others_and_fetched_by_hand_is_theirs() {
    for writer in [None, Some("eve-1a2b")] {
        each_lair(|sandbox, lair| {
            let (ada, before, pwned) = fetched_over(sandbox, lair, |name, state, evil| {
                let mut state = state.clone();
                state["agent"] = json!("command");
                state["more"] = json!({"command": [evil], "set_up": true});
                state["status"] = json!("merged");
                if let Some(writer) = writer {
                    state["writer"] = json!(writer);
                }
                let sid = name.rsplit('/').next().expect("an id");
                lair.log_with_files(sid, b"", state.to_string().as_bytes());
            });
            for words in [["send", "own", "go on"].as_slice(), &["restart", "own"]] {
                let run = ada.agent(words).failure();
                run.assert_says("belongs to a teammate");
            }
            let _ = ada.agent(["clean"]);
            let _ = ada.agent(["restart", "--all"]);
            let _ = ada.agent(["doctor", "--fix"]);
            assert!(!pwned.exists());
            assert_kept(&ada, &before);
            // It can be read, and gone on from.
            ada.shows(&["show", "own"], "own");
            ada.agent(["fork", "own", "more", "--name", "anew", "--", "echo forked"])
                .success();
            ada.agent(["wait", "--timeout", "120s", "anew"]).success();
            ada.shows(&["log", "anew"], "forked");
            assert!(!pwned.exists());
        });
    }
}

#[test]
fn two_that_say_different_things_of_one_session_settle() {
    // A copy of the clone, and a machine that only has the same name.
    for copied in [true, false] {
        each_way(|sandbox, team| {
            let ada = team.clone("ada");
            let sid = ada.hammer(["create", "shared", "2"]);
            ada.push().success();
            let copy = sandbox.work().join("copy");
            let words = ["-a".as_ref(), ada.repo.path().as_os_str(), copy.as_os_str()];
            sandbox.command("cp").args(words).run().success();
            let twin = Member::at(sandbox, copy, "ada");
            if !copied {
                fs::remove_file(twin.repo.path().join(".git/agents/key")).expect("it is there");
            }
            ada.hammer(["set", &sid, "model", "one"]);
            twin.hammer(["set", &sid, "model", "two"]);
            for _ in 0..3 {
                ada.push().success();
                twin.push().success();
            }
            let settled = team.hub.refs("refs/agents");
            for member in [&ada, &twin, &ada, &twin] {
                member.push().success();
                assert_eq!(team.hub.refs("refs/agents"), settled);
                assert_eq!(member.repo.refs("refs/agents"), settled);
            }
            let model = |member: &Member<'_>| {
                let shown = member.agent(["show", "shared", "--json"]).success().json();
                assert_eq!(shown["sessions"][0]["mine"], true);
                shown["sessions"][0]["model"].clone()
            };
            if copied {
                assert_eq!(model(&ada), model(&twin))
            } else {
                assert_eq!([model(&ada), model(&twin)], ["one", "two"])
            }
            for (member, word) in [(&ada, "left"), (&twin, "right")] {
                member.hammer(["append", &sid, "1", word]);
                member.push().success();
            }
            ada.push().success();
            let events = ada.hammer(["events", &sid]);
            assert!(events.contains("left 0") && events.contains("right 0"));
        });
    }
}

#[test]
fn an_archive_written_anew_by_others_and_fetched_by_hand_runs_nothing() {
    each_lair(|sandbox, lair| {
        let ada = fold(sandbox, lair);
        let refs = ada.repo.refs("refs/agents/archive");
        let (name, tip) = refs.into_iter().next().expect("an archive");
        let pwned = sandbox.work().join("pwned");
        let evil = format!("touch {}", pwned.display());
        for parents in [format!("parent {tip}\n"), String::new()] {
            let added = archive_with(lair, &parents, &evil);
            lair.hub().git(["update-ref", &name, &added]).success();
            let fetch = format!("+{name}:{name}");
            ada.git(["fetch", "--quiet", "origin", &fetch]).success();
            assert_eq!(ada.repo.id(&name), added);
            for called in ["good", "gift"] {
                let _ = ada.agent(["restart", called]).whatever();
                let shown = ada.agent(["show", called, "--json"]).success().json();
                let on_top = !parents.is_empty() && called == "good";
                assert_eq!(shown["sessions"][0]["mine"], on_top, "{called}: {shown}");
                let run = ada.agent(["send", called, "go on"]);
                if on_top {
                    drop(run.whatever())
                } else {
                    drop(run.failure())
                }
            }
            assert!(!pwned.exists());
        }
    });
}
