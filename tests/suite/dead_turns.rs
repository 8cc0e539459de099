//! Turns whose supervisor is killed: the next command looks at them as the supervisor would have.

use git_agent_tests::{RefFormat, Repo, Sandbox, wait_until};

/// Moves refs past the hooks.
const PAST_HOOKS: &str = "git -c core.hooksPath=/dev/null update-ref";

fn told(repo: &Repo<'_>, name: &str) -> String {
    repo.texts(name, "guard").join("\n")
}

/// Waits until a session's agent has written a file, and kills everything.
fn kill_after(sandbox: &Sandbox, repo: &Repo<'_>, session: &str, file: &str) {
    wait_until("the agent has written", || {
        repo.worktree_of(session).path().join(file).exists()
    });
    sandbox.kill_all();
}

fn turns(repo: &Repo<'_>) -> usize {
    let turns = repo.path().join(".git").join("agents/turns");
    std::fs::read_dir(turns).map_or(0, |entries| entries.count())
}

#[test]
fn what_a_dead_reader_wrote_is_kept_and_put_back() {
    for verb in ["list", "review", "restart"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        repo.write("a", "a\n");
        repo.commit("add a");
        repo.new_session(
            "r",
            &["--read-only"],
            &["append a more", "write hack.txt x", "sleep 90000"],
        );
        kill_after(&sandbox, &repo, "r", "hack.txt");
        match verb {
            "restart" => repo.agent(["restart", "r"]).success(),
            verb => repo.agent([verb]).success(),
        };
        let worktree = repo.worktree_of("r");
        if verb != "restart" {
            assert!(!worktree.path().join("hack.txt").exists(), "{verb}");
            assert_eq!(worktree.read("a"), b"a\n", "{verb}");
            assert_eq!(turns(&repo), 0, "{verb}");
        }
        let said = told(&repo, "r");
        assert!(said.contains("'a', 'hack.txt' changed"), "{verb}: {said}");
        let told_once = said.lines().count();
        sandbox.kill_all();
        repo.agent(["list"]).success();
        assert_eq!(repo.state("r"), "interrupted");
        if verb != "restart" {
            assert_eq!(told(&repo, "r").lines().count(), told_once, "{verb}");
        }
        let (_, id) = said.rsplit_once(" --to ").expect("the command");
        repo.agent(["rewind", "r", "--to", id.trim()]).success();
        assert_eq!(worktree.read("hack.txt"), b"x\n");
        assert_eq!(worktree.read("a"), b"a\nmore\n");
        repo.assert_whole();
    }
}

#[test]
fn a_dead_reader_in_anothers_worktree_is_undone_before_the_other_writes() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["append own.txt own"]);
    repo.await_state("s", "ready");
    repo.new_session(
        "guest",
        &["--in", "s", "--read-only"],
        &["write hack.txt x", "sleep 90000"],
    );
    kill_after(&sandbox, &repo, "guest", "hack.txt");
    // The other goes on: its work is its own, and the guest's is gone from it.
    repo.agent(["send", "s", "go on"]).success();
    repo.await_state("s", "ready");
    let worktree = repo.worktree_of("s");
    assert!(!worktree.path().join("hack.txt").exists());
    assert_eq!(worktree.read("own.txt"), b"own\nown\n");
    assert!(told(&repo, "guest").contains("'hack.txt' changed"));
    worktree.write("later.txt", "later\n");
    repo.agent(["list"]).success();
    assert_eq!(worktree.read("later.txt"), b"later\n");
    assert_eq!(turns(&repo), 0);
    repo.assert_whole();
}

#[test]
fn an_approval_forged_before_the_supervisor_was_killed_does_not_count() {
    for refs in RefFormat::available() {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo(refs.name()).refs(*refs).create();
        repo.new_session("victim", &[], &["write work.txt work", "commit work"]);
        repo.await_state("victim", "ready");
        repo.agent(["review", "approve", "victim"]).success();
        let (name, value) = repo
            .refs("refs/agents/notes/review")
            .pop_first()
            .expect("notes");
        repo.git(["update-ref", "-d", &name]).success();
        repo.new_session(
            "forger",
            &[],
            &[
                &format!("{PAST_HOOKS} {name} {value}"),
                &format!("{PAST_HOOKS} refs/heads/other HEAD"),
                "write x x",
                "sleep 90000",
            ],
        );
        kill_after(&sandbox, &repo, "forger", "x");
        // The very next command is the one that the forgery was for.
        repo.agent(["merge", "--into", "main", "--yes", "victim"])
            .failure();
        repo.git(["cat-file", "-e", "main:work.txt"]).failure();
        assert!(repo.session("victim")["verdict"].is_null());
        for session in ["forger", "victim"] {
            let said = told(&repo, session);
            let forged = "an approval of 'victim' in the name of 'C O Mitter' appeared";
            assert!(said.contains(forged), "{refs:?} {session}: {said}");
        }
        let said = told(&repo, "forger");
        assert!(said.contains("'refs/heads/other' appeared"), "{said}");
        assert_eq!(turns(&repo), 0);
        // A person who gives it is believed.
        repo.agent(["review", "approve", "victim"]).success();
        repo.agent(["list"]).success();
        assert_eq!(repo.session("victim")["verdict"], "approve");
        repo.assert_whole();
    }
}

#[test]
fn a_damaged_record_of_a_turn_is_told_and_stops_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("s", &[], &["write x x", "sleep 90000"]);
    kill_after(&sandbox, &repo, "s", "x");
    let turns_dir = repo.path().join(".git").join("agents/turns");
    for entry in std::fs::read_dir(&turns_dir).expect("turns").flatten() {
        std::fs::write(entry.path(), "garbage").expect("written");
    }
    repo.agent(["list"]).success();
    assert!(told(&repo, "s").contains("is damaged"));
    assert_eq!(turns(&repo), 0);
    assert_eq!(repo.state("s"), "interrupted");
}
