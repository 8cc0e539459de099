//! Refs of ours that are moved by hand during a turn: found, named, and an approval that came so does not count.

use git_agent_tests::{RefFormat, Repo, Sandbox};

/// Moves refs past the hooks.
const PAST_HOOKS: &str = "git -c core.hooksPath=/dev/null update-ref";

fn guarded(repo: &Repo<'_>, name: &str) -> String {
    repo.texts(name, "guard").join("\n")
}

/// Returns a repository with a session that is ready, and the ref and the value of notes that approve it. They are taken
/// away again.
fn repo_with_approval(sandbox: &Sandbox, refs: RefFormat) -> (Repo<'_>, String, String) {
    let repo = sandbox.repo(refs.name()).refs(refs).create();
    repo.new_session("victim", &[], &["write work.txt work", "commit work"]);
    repo.await_state("victim", "ready");
    repo.agent(["review", "approve", "victim"]).success();
    assert_eq!(repo.session("victim")["verdict"], "approve");
    let mut notes = repo.refs("refs/agents/notes/review");
    let (name, value) = notes.pop_first().expect("notes");
    repo.git(["update-ref", "-d", &name]).success();
    assert!(repo.session("victim")["verdict"].is_null());
    (repo, name, value)
}

#[test]
fn an_approval_that_no_command_gave_does_not_count() {
    for refs in RefFormat::available() {
        let sandbox = Sandbox::new();
        let (repo, name, value) = repo_with_approval(&sandbox, *refs);
        repo.new_session(
            "forger",
            &[],
            &[&format!("{PAST_HOOKS} {name} {value}"), "write x x"],
        );
        repo.await_state("forger", "ready");
        let told = "an approval of 'victim' in the name of 'C O Mitter' appeared";
        for session in ["forger", "victim"] {
            let said = guarded(&repo, session);
            assert!(said.contains(told), "{refs:?} {session}: {said}");
        }
        assert!(repo.session("victim")["verdict"].is_null());
        let merge = ["merge", "--into", "main", "--yes", "victim"];
        repo.agent(merge).failure();
        // A person who gives it again is believed.
        repo.agent(["review", "approve", "victim"]).success();
        assert_eq!(repo.session("victim")["verdict"], "approve");
        repo.agent(merge).success();
        repo.git(["cat-file", "-e", "main:work.txt"]).success();
        repo.assert_nothing_left_over();
    }
}

#[test]
fn an_approval_on_top_of_a_forged_one_counts_and_the_forged_one_does_not() {
    let sandbox = Sandbox::new();
    let (repo, name, value) = repo_with_approval(&sandbox, RefFormat::Files);
    repo.new_session("other", &[], &["write other.txt other", "commit other"]);
    repo.await_state("other", "ready");
    let go = sandbox.root().join("go");
    let forge = format!("{PAST_HOOKS} {name} {value}");
    let until = format!("until {}", go.display());
    repo.new_session("forger", &[], &[&forge, "write x x", &until]);
    git_agent_tests::wait_until("the notes are forged", || {
        repo.refs("refs/agents/notes/review").contains_key(&name)
    });
    repo.agent(["review", "approve", "other"]).success();
    std::fs::write(&go, "").expect("written");
    repo.await_state("forger", "ready");
    assert!(repo.session("victim")["verdict"].is_null());
    assert_eq!(repo.session("other")["verdict"], "approve");
    repo.assert_nothing_left_over();
}

#[test]
fn what_a_person_decides_during_a_turn_counts() {
    for refs in RefFormat::available() {
        let sandbox = Sandbox::new();
        let (repo, ..) = repo_with_approval(&sandbox, *refs);
        let go = sandbox.root().join("go");
        let until = format!("until {}", go.display());
        repo.new_session("busy", &[], &["write x x", &until]);
        repo.await_state("busy", "running");
        repo.agent(["review", "approve", "victim"]).success();
        std::fs::write(&go, "").expect("written");
        repo.await_state("busy", "ready");
        assert_eq!(repo.session("victim")["verdict"], "approve", "{refs:?}");
        assert_eq!(guarded(&repo, "busy"), "");
        repo.assert_nothing_left_over();
    }
}

#[test]
fn a_ref_of_ours_that_is_moved_by_hand_is_named() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let name = "refs/agents-local/looked-at/01jcxxxxxxxxxxxxxxxxxxxxxx";
    repo.new_session(
        "s",
        &[],
        &[&format!("{PAST_HOOKS} {name} HEAD"), "write x x"],
    );
    repo.await_state("s", "ready");
    let said = guarded(&repo, "s");
    assert!(
        said.contains(&format!(
            "'{name}' appeared during the turn, and no command"
        )),
        "{said}"
    );
}
