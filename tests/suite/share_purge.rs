//! Purging a secret from records that were shared.

use crate::share_secrets::holds;
use git_agent_tests::Member;
use git_agent_tests::team::each_way;

#[test]
fn purging_rewrites_what_was_shared_and_a_later_push_does_not_bring_it_back() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let leak = "correct-horse-battery-staple-43";
        let sid = ada.hammer(["create", "leaky", "2"]);
        let folded = ada.hammer(["create", "folded", "1"]);
        ada.hammer(["append", &sid, "1", leak]);
        ada.hammer(["append", &folded, "1", leak]);
        ada.hammer(["comment", &sid, &format!("oh no {leak}")]);
        ada.hammer(["close", &folded]);
        ada.hammer(["fold"]);
        ada.push().success();
        bob.fetch().success();
        assert!(holds(&team.everything(), leak));
        // Not at once at the remote: the next push knows what to overwrite.
        ada.command("git")
            .args(["agent", "purge", "--local", "--value-file", "-"])
            .stdin(leak)
            .run()
            .success();
        ada.hammer(["append", &sid, "1", "after"]);
        ada.push().success();
        team.hub.git(["gc", "--quiet", "--prune=now"]).success();
        assert!(!holds(&team.everything(), leak), "the remote still has it");
        ada.git(["gc", "--quiet", "--prune=now"]).success();
        let all = ["cat-file", "--batch-all-objects", "--batch"];
        assert!(!holds(ada.git(all).success().stdout_bytes(), leak));
        let came = bob.fetch().success();
        came.assert_says("was rewritten");
        let events = bob.agent(["log", "--full", "leaky"]).success();
        assert!(!events.stdout().contains(leak));
        assert_eq!(bob.names(), ["folded", "leaky"]);
        bob.shows(&["log", "leaky"], "after 0");
    });
}

#[test]
fn what_one_copy_of_a_clone_purged_no_other_brings_back() {
    for purged_first in [true, false] {
        each_way(|sandbox, team| {
            let ada = team.clone("ada");
            let leak = "correct-horse-battery-staple-44";
            let sid = ada.hammer(["create", "leaky", "2"]);
            ada.hammer(["append", &sid, "1", leak]);
            ada.hammer(["comment", &sid, &format!("oh no {leak}")]);
            ada.push().success();
            let copy = sandbox.work().join("copy");
            let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
            cp.arg(&copy).run().success();
            let twin = Member::at(sandbox, copy, "ada");
            twin.hammer(["append", &sid, "1", "unrelated"]);
            twin.hammer(["comment", &sid, "harmless"]);
            let purge = || {
                let purge = ["agent", "purge", "--value-file", "-"];
                let run = ada.command("git").args(purge).stdin(leak).run();
                run.success();
            };
            if purged_first {
                purge();
                twin.push().success();
            } else {
                twin.push().success();
                purge();
            }
            for member in [&ada, &twin] {
                member.fetch().success();
                member.push().success();
            }
            team.hub.git(["gc", "--quiet", "--prune=now"]).success();
            assert!(!holds(&team.everything(), leak), "the remote has it");
            let bob = team.clone("bob");
            bob.fetch().success();
            bob.shows(&["log", "leaky"], "unrelated 0");
            bob.shows(&["log", "leaky"], "event 1 of leaky");
            let comments = bob.hammer(["comments", &sid]);
            assert!(comments.contains("harmless"), "{comments}");
            assert!(comments.contains("oh no [REDACTED"), "{comments}");
            for member in [&ada, &twin] {
                assert_eq!(member.hammer(["events", &sid]).lines().count(), 5);
            }
        });
    }
}

#[test]
fn no_remote_keeps_a_purged_secret_without_a_word() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let leak = "correct-horse-battery-staple-46";
        let purge = || {
            let purge = ["agent", "purge", "--value-file", "-"];
            ada.command("git").args(purge).stdin(leak).run()
        };
        let leaky = |name: &str| {
            let sid = ada.hammer(["create", name, "1"]);
            ada.hammer(["append", &sid, "1", leak]);
            sid
        };
        let two = sandbox.repo("two.git").bare().create();
        let address = two.path().to_str().expect("plain").to_owned();
        ada.git(["remote", "add", "two", &address]).success();
        let give = || {
            ada.push().success();
            ada.agent(["push", "--yes", "two"]).success();
        };
        // Folded here and at one remote, the other still has it under its own name.
        let folded = leaky("folded");
        give();
        ada.hammer(["close", &folded]);
        ada.hammer(["fold"]);
        ada.push().success();
        purge().success();
        for hub in [&team.hub, &two] {
            hub.git(["gc", "--quiet", "--prune=now"]).success();
        }
        assert!(!holds(&team.everything(), leak), "the first has it");
        assert!(!holds(&two.everything(), leak), "the second has it");

        // A remote that was away is caught up with by the next purge.
        leaky("away");
        give();
        let aside = sandbox.work().join("aside.git");
        std::fs::rename(two.path(), &aside).expect("ours");
        purge().code(1).assert_says("'two' still has it");
        std::fs::rename(&aside, two.path()).expect("ours");
        purge().success().assert_says("'two': 1 ref rewritten");
        two.git(["gc", "--quiet", "--prune=now"]).success();
        assert!(!holds(&two.everything(), leak), "it was not caught up with");

        // What is only at a remote any more is named.
        let only = leaky("only");
        give();
        ada.agent(["forget", "only"]).success();
        let told = purge().code(1);
        let hint = format!("hint: git agent forget {only} --remote");
        assert!(told.stderr().contains(&hint), "{told}");
        ada.agent(["forget", &only, "--remote"]).success();
    });
}

#[test]
fn purging_reaches_every_place_and_tells_of_the_others() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        ada.git(["config", "agent.displayNotes", "true"]).success();
        let leak = "correct-horse-battery-staple-45";
        let script = format!(
            "echo {leak}; echo {leak} >file && git add file && git commit -qm file; echo done"
        );
        ada.session("leaky", &format!("print {leak}"), &script);
        ada.agent(["review", "comment", "leaky", "file:1", "-m", leak])
            .success();
        let regretted = ada.hammer(["create", "regretted", "1"]);
        ada.hammer(["append", &regretted, "1", leak]);
        ada.agent(["forget", "regretted"]).success();
        // Pushed to an address that has no name here.
        ada.agent(["push", "--yes", team.address()]).success();
        // And to a remote that is not known here any more.
        ada.git(["remote", "add", "gone", team.address()]).success();
        ada.agent(["push", "--yes", "gone"]).success();
        ada.git(["config", "--remove-section", "remote.gone"])
            .success();
        let purge = ["agent", "purge", "--value-file", "-"];
        let purged = ada.command("git").args(purge).stdin(leak).run().code(1);
        purged.assert_says("'gone' still has it");
        assert!(ada.repo.refs("refs/agents-remote/gone").is_empty());
        purged.assert_says("the code of leaky");
        purged.assert_says("file 'file'");

        let log = [
            "log",
            "--format=",
            "-p",
            "--first-parent",
            "--diff-merges=first-parent",
        ];
        for repo in [&team.hub, &ada.repo] {
            for name in repo.refs("refs").into_keys() {
                let ours = name.starts_with("refs/agents/")
                    || name.starts_with("refs/notes/")
                    || name.contains("/lost/");
                if ours {
                    let shown = repo.command("git").args(log).arg(&name).run().success();
                    assert!(!shown.stdout().contains(leak), "{name} holds it\n{shown}");
                }
            }
        }
        let kept = ada.repo.common_dir().join("agents");
        for file in git_agent_tests::sessions::files_below(&kept) {
            // A copy of the program, which guards agents, is not looked through.
            let size = std::fs::metadata(&file).map_or(0, |meta| meta.len());
            if size < 1 << 20 {
                let bytes = std::fs::read(&file).unwrap_or_default();
                assert!(!holds(&bytes, leak), "{} holds it", file.display());
            }
        }
    });
}
