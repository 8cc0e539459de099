//! Faults in writing the store: sessions and notes, held to what was said to be durable.

use git_agent_tests::faults::{self, Action, Fault};
use git_agent_tests::output::Output;
use git_agent_tests::repo::Repo;

use super::{Place, events, formats, hold, no_lock_is_left, tell, user_goes_on};

/// Returns a session's ref, if it has one.
fn session_ref(repo: &Repo<'_>, sid: &str) -> Option<String> {
    let refs = repo.refs("refs/agents/sessions");
    refs.into_keys().find(|name| name.ends_with(sid))
}

/// Returns what plain git finds in a session's log.
fn events_in_git(repo: &Repo<'_>, name: &str) -> Vec<(u64, String)> {
    let commits = repo
        .git(["rev-list", "--reverse", "--first-parent", name])
        .success();
    let mut lines = String::new();
    for commit in commits.lines() {
        let file = format!("{commit}:events.jsonl");
        lines.push_str(repo.git(["cat-file", "blob", &file]).success().stdout());
    }
    events(&lines)
}

/// Reads what `write-store` promised: `synced <seq> <text>`.
fn promised(output: &Output) -> Vec<(u64, String)> {
    let synced = output.lines().into_iter().filter_map(|line| {
        let (seq, text) = line.strip_prefix("synced ")?.split_once(' ')?;
        Some((seq.parse().ok()?, text.to_owned()))
    });
    synced.collect()
}

fn session_survives(repo: &Repo<'_>, fault: Option<&Fault>, output: &Output) {
    let died = matches!(fault, Some(fault) if fault.action == Action::Kill);
    assert!(!died || !output.status().success(), "{output}");
    let promised = promised(output);
    let sid = output.lines()[0]
        .strip_prefix("session ")
        .expect("the id comes first")
        .to_owned();

    user_goes_on(repo, fault);
    repo.agent(["list", "--json"]).success().assert_stderr("");
    let Some(name) = session_ref(repo, &sid) else {
        assert!(promised.is_empty(), "the session is lost\n{output}");
        return;
    };
    hold(&events_in_git(repo, &name), &promised, "git");
    let log = repo.agent(["log", "--raw", &sid]).success();
    hold(&events(log.stdout()), &promised, "git agent log");

    repo.command("write-store")
        .args(["append", &sid, "event-after"])
        .run()
        .success();
    let now = events_in_git(repo, &name);
    hold(&now, &promised, "git after the next append");
    assert_eq!(now.last().expect("it was appended").1, "event-after");
    no_lock_is_left(repo);
}

#[test]
fn a_session_survives_a_fault_at_every_step_of_append_and_flush() {
    let mut survived = 0;
    for (hash, refs) in formats() {
        let place = Place::new(hash, refs, |_| {});
        let report = faults::sample(
            3,
            place.actions(),
            || place.fresh(),
            |repo, plan| {
                let writer = repo.command("write-store").args(["session", "x", "4"]);
                plan.apply(writer).run().whatever()
            },
            session_survives,
        );
        assert!(report.unmet.is_empty(), "{:?}", report.unmet);
        tell("append and flush", &place, &report);
        survived += report.survived;
    }
    assert!(survived >= 60, "only {survived} faults were tried");
}

fn notes(repo: &Repo<'_>) -> Vec<String> {
    let on = repo.id("main");
    let refs = repo.refs("refs/agents/notes/review");
    let Some(name) = refs.into_keys().next() else {
        return Vec::new();
    };
    let shown = repo.git(["cat-file", "blob", &format!("{name}:{on}")]);
    let shown = shown.success();
    shown
        .lines()
        .iter()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).expect("a note is JSON");
            record["id"].as_str().expect("an id").to_owned()
        })
        .collect()
}

fn notes_survive(repo: &Repo<'_>, fault: Option<&Fault>, output: &Output) {
    let promised: Vec<&str> = output
        .lines()
        .into_iter()
        .filter_map(|line| line.strip_prefix("noted "))
        .collect();
    let complete = |extra: &[&str], found: Vec<String>| {
        let mut unique = found.clone();
        unique.dedup();
        assert_eq!(unique, found, "a note is doubled");
        for id in promised.iter().chain(extra) {
            assert!(
                found.iter().any(|note| note == id),
                "{id} is lost: {found:?}"
            );
        }
    };
    complete(&[], notes(repo));
    // On a branch of its own, as the notes are on the tip of `main`.
    repo.git(["switch", "--quiet", "--create", "mine"])
        .success();
    user_goes_on(repo, fault);
    repo.git(["switch", "--quiet", "main"]).success();
    repo.agent(["list", "--json"]).success().assert_stderr("");
    repo.command("write-store")
        .args(["note", "n1", "n2", "n3", "after"])
        .run()
        .success();
    complete(&["n1", "n2", "n3", "after"], notes(repo));
    no_lock_is_left(repo);
}

#[test]
fn notes_survive_a_fault_at_every_step() {
    for (hash, refs) in formats() {
        let place = Place::new(hash, refs, |_| {});
        let report = faults::sample(
            3,
            place.actions(),
            || place.fresh(),
            |repo, plan| {
                let writer = repo.command("write-store").args(["note", "n1", "n2", "n3"]);
                plan.apply(writer).run().whatever()
            },
            notes_survive,
        );
        assert!(report.unmet.is_empty(), "{:?}", report.unmet);
        tell("notes", &place, &report);
    }
}
