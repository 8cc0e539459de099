//! The user's stashes and reflogs, beside agents that drop, pop and expire them.

use git_agent_tests::repo::RefFormat;
use git_agent_tests::{Repo, Sandbox, wait_until};

/// Returns the stashes and what git knows about each.
fn stashes(repo: &Repo<'_>) -> String {
    let format = "--format=%gD %H %gn <%ge> %gs";
    let listed = repo.git(["log", "-g", "--date=raw", format, "refs/stash", "--"]);
    String::from_utf8_lossy(listed.whatever().stdout_bytes()).into_owned()
}

fn stash(repo: &Repo<'_>, text: &str) {
    repo.write("a", format!("{text}\n"));
    repo.git(["stash", "push", "--quiet", "-m", text]).success();
    repo.sandbox().tick();
}

fn repo_with_stashes(sandbox: &Sandbox, refs: RefFormat, count: usize) -> Repo<'_> {
    let repo = sandbox.repo(refs.name()).refs(refs).create();
    repo.write("a", "a\n");
    repo.commit("add a");
    for number in 0..count {
        stash(&repo, &format!("stash of the user, {number}"));
    }
    repo
}

#[test]
fn stashes_that_an_agent_drops_come_back() {
    for refs in RefFormat::available() {
        for steps in [
            &["try git stash pop"][..],
            &["try git stash drop stash@{1}", "try git stash pop"],
            &["try git stash clear"],
        ] {
            for count in [1, 3] {
                let sandbox = Sandbox::new();
                let repo = repo_with_stashes(&sandbox, *refs, count);
                let before = stashes(&repo);
                let value = repo.refs("refs/stash");
                repo.new_session("s", &[], &[steps, &["write own.txt own"]].concat());
                repo.await_state("s", "ready");
                assert_eq!(stashes(&repo), before, "{refs:?} {count} {steps:?}");
                assert_eq!(repo.refs("refs/stash"), value);
                let said = repo.texts("s", "guard").join("\n");
                // Where the guard could refuse the whole command there was nothing to put back.
                let words = "the agent dropped the stash 'On main: stash of the user, ";
                let refused = steps == ["try git stash clear"] && !said.contains(words);
                assert!(refused || said.contains("it was restored"), "{said}");
                assert!(repo.refs("refs/agents-local/reflogs").is_empty());
                repo.git(["stash", "pop", "--quiet"]).success();
                repo.assert_nothing_left_over();
            }
        }
    }
}

#[test]
fn reflogs_that_an_agent_expires_come_back() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let repo = repo_with_stashes(&sandbox, *refs, 2);
        repo.git(["commit", "--quiet", "--amend", "-m", "amended"])
            .success();
        let (before, logs) = (stashes(&repo), repo.common_dir().join("logs"));
        let files = ["HEAD", "refs/heads/main", "refs/stash"];
        let read = || files.map(|name| std::fs::read(logs.join(name)).unwrap_or_default());
        let texts = read();
        let amended = repo.id("main@{1}");
        repo.new_session(
            "s",
            &[],
            &[
                "try git reflog expire --expire=now --expire-unreachable=now --all",
                "try git prune --expire=now",
                "write own.txt own",
            ],
        );
        repo.await_state("s", "ready");
        assert_eq!(stashes(&repo), before, "{refs:?}");
        repo.git(["cat-file", "-e", &amended]).success();
        let said = repo.texts("s", "guard").join("\n");
        assert!(said.contains("the reflog of 'main'"), "{said}");
        match refs {
            RefFormat::Files => assert_eq!(read(), texts),
            // Without files only git writes reflogs, and it moves the branch when it does.
            RefFormat::Reftable => assert!(said.contains("kept under"), "{said}"),
        }
        repo.assert_nothing_left_over();
    }
}

#[test]
fn stashes_that_the_user_makes_and_drops_during_a_turn_stay_so() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let repo = repo_with_stashes(&sandbox, *refs, 2);
        let go = repo.path().with_extension("go");
        let _ = std::fs::remove_file(&go);
        let until = format!("until {}", go.display());
        repo.new_session("s", &[], &["write own.txt own", &until]);
        let own = || repo.worktree_of("s").path().join("own.txt").exists();
        repo.await_state("s", "running");
        wait_until("the agent is at work", own);
        repo.git(["stash", "drop", "--quiet"]).success();
        stash(&repo, "made meanwhile");
        let mine = stashes(&repo);
        std::fs::write(&go, "").expect("written");
        repo.await_state("s", "ready");
        assert_eq!(stashes(&repo), mine, "{refs:?}");
        let said = repo.texts("s", "notice").join("\n");
        assert!(said.contains("git stash store -m"), "{said}");
        // One that an agent drops comes back below the one that the user made meanwhile.
        let _ = std::fs::remove_file(&go);
        repo.new_session(
            "t",
            &[],
            &["try git stash drop", "write own.txt own", &until],
        );
        repo.await_state("t", "running");
        wait_until("the agent is at work", || {
            repo.worktree_of("t").path().join("own.txt").exists()
        });
        stash(&repo, "on top");
        std::fs::write(&go, "").expect("written");
        repo.await_state("t", "ready");
        let (top, rest) = {
            let now = stashes(&repo);
            let (top, rest) = now.split_once('\n').expect("several");
            (top.to_owned(), rest.to_owned())
        };
        assert!(top.ends_with("On main: on top"), "{top}");
        assert_eq!(rest, mine, "{refs:?}");
        repo.assert_nothing_left_over();
    }
}

#[test]
fn what_a_killed_supervisor_did_not_put_back_the_next_command_does() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let repo = repo_with_stashes(&sandbox, *refs, 1);
        let before = stashes(&repo);
        repo.new_session(
            "s",
            &[],
            &["try git stash pop", "write own.txt own", "sleep 90000"],
        );
        repo.await_state("s", "running");
        wait_until("the agent has dropped the stash", || {
            repo.worktree_of("s").path().join("own.txt").exists()
        });
        assert_ne!(stashes(&repo), before);
        sandbox.kill_all();
        repo.agent(["list"]).success();
        assert_eq!(stashes(&repo), before, "{refs:?}");
        let said = repo.texts("s", "guard").join("\n");
        assert!(said.contains("it was restored"), "{said}");
        assert!(repo.refs("refs/agents-local/reflogs").is_empty());
        repo.git(["stash", "pop", "--quiet"]).success();
        repo.assert_whole();
    }
}
