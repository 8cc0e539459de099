//! Sharing over time: what is folded, deleted or rewritten by its owner goes everywhere, and nothing is lost by it.

use git_agent_tests::Member;
use git_agent_tests::team::{each_way, told};

#[test]
fn what_is_folded_or_deleted_goes_everywhere_and_is_kept_for_a_while() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let closed = ada.hammer(["create", "closed", "2"]);
        let secret = ada.hammer(["create", "regretted", "2"]);
        ada.hammer(["create", "open", "2"]);
        ada.push().success();
        bob.fetch().success();
        assert_eq!(bob.names(), ["closed", "open", "regretted"]);

        ada.hammer(["close", &closed]);
        ada.hammer(["fold"]);
        let pushed = ada.agent(["push", "--json"]).success().json();
        assert!(
            told(&pushed).iter().any(|one| one.starts_with("folded ")),
            "{pushed}"
        );
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 2);
        assert_eq!(team.hub.refs("refs/agents/archive").len(), 1);
        ada.agent(["forget", "--remote", "regretted"]).success();
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 1);
        assert_eq!(ada.names(), ["closed", "open"]);

        // Even who does not prune is not shown what its owner deleted.
        let fetched = bob.fetch().success();
        fetched.assert_says("archived: 1 closed session");
        fetched.assert_says("no longer has 1 ref");
        assert_eq!(bob.names(), ["closed", "open"]);
        bob.agent(["fetch", "--prune"])
            .success()
            .assert_says("kept for 30 days");
        assert_eq!(bob.names(), ["closed", "open"]);
        assert!(
            bob.repo
                .refs("refs/agents-remote")
                .keys()
                .all(|name| !name.ends_with(&secret))
        );
        assert_eq!(bob.repo.refs("refs/agents-local/lost").len(), 1);
        bob.shows(&["log", "closed"], "event 0 of closed");
        bob.repo.assert_user_can_work();
        assert_eq!(bob.names(), ["closed", "open"]);
    });
}

#[test]
fn a_deletion_reaches_archives_and_remotes_under_other_names() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let everything = || {
            let refs = team.hub.refs("refs/agents");
            let logs = refs.keys().map(|name| {
                let log = ["log", "--format=%H %B", name.as_str()];
                team.hub.git(log).success().stdout().to_owned()
            });
            logs.collect::<String>()
        };
        let closed = ada.hammer(["create", "closed", "2"]);
        let beside = ada.hammer(["create", "beside", "2"]);
        for sid in [&closed, &beside] {
            ada.hammer(["close", sid]);
        }
        ada.hammer(["fold"]);
        let here = ada.hammer(["create", "here", "2"]);
        let there = ada.hammer(["create", "there", "2"]);
        // By its address, and by a name that is changed later.
        ada.agent(["push", "--yes", team.address()]).success();
        ada.push().success();
        ada.git(["remote", "rename", "origin", "upstream"])
            .success();
        assert!(everything().contains(&closed));

        ada.agent(["forget", "--remote", "closed"]).success();
        assert!(!everything().contains(&closed), "it is still there");
        assert!(everything().contains(&beside), "another one went with it");
        ada.agent(["forget", "--remote", &here]).success();
        assert!(!everything().contains(&here), "it is still there");
        // Deleted here first, and there only afterwards.
        ada.agent(["forget", &there])
            .success()
            .assert_says("git agent forget --remote");
        assert!(everything().contains(&there));
        ada.agent(["forget", "--remote", &there]).success();
        assert!(!everything().contains(&there), "it is still there");
        assert_eq!(ada.names(), ["beside"]);
        ada.repo.assert_user_can_work();

        // A remote that cannot be asked is named.
        let sid = ada.hammer(["create", "unreached", "1"]);
        ada.agent(["push", "--yes", "upstream"]).success();
        let away = sandbox.work().join("away");
        std::fs::rename(team.hub.path(), &away).expect("it is ours");
        let told = ada.agent(["forget", "--remote", &sid]).code(1);
        told.assert_says("'upstream' may still have unreached");
        std::fs::rename(&away, team.hub.path()).expect("it is ours");
        ada.agent(["push", "upstream"]).success();
        assert!(!everything().contains(&sid), "it is still there");
    });
}

#[test]
fn what_one_copy_of_a_clone_deleted_no_other_gives_back() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "regretted", "2"]);
        ada.push().success();
        let copy = sandbox.work().join("copy");
        let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
        cp.arg(&copy).run().success();
        let twin = Member::at(sandbox, copy, "ada");
        twin.hammer(["append", &sid, "1", "more"]);
        ada.agent(["forget", "--remote", "regretted"]).success();
        twin.fetch().success();
        twin.push().code(1).assert_says("it was deleted");
        assert!(team.hub.refs("refs/agents/sessions").is_empty());
        // Nothing of it is lost here.
        assert!(twin.hammer(["events", &sid]).contains("more 0"));
    });
}

#[test]
fn a_copy_of_a_clone_learns_of_a_deletion_when_it_has_nothing_to_push() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "regretted", "2"]);
        ada.hammer(["create", "kept", "2"]);
        ada.push().success();
        let copied = |to: &str| {
            let copy = sandbox.work().join(to);
            let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
            cp.arg(&copy).run().success();
            Member::at(sandbox, copy, "ada")
        };
        let (silent, noted) = (copied("silent"), copied("noted"));
        // One has notes of its own, which the remote has, too.
        noted.hammer(["note", "1", "a word"]);
        noted.push().success();
        ada.agent(["forget", "--remote", "regretted"]).success();
        let there = || team.hub.refs("refs/agents/sessions");
        assert_eq!(there().len(), 1);
        for twin in [&silent, &noted] {
            for _ in 0..2 {
                twin.agent(["push"]).code(1).assert_says("it was deleted");
                assert_eq!(there().len(), 1, "it came back");
            }
            assert!(twin.hammer(["events", &sid]).contains("event 0"));
            twin.agent(["forget", &sid]).success();
            twin.push().success();
            assert_eq!(twin.names(), ["kept"]);
        }
        assert!(noted.hammer(["notes"]).contains("a word-0"));
        silent.repo.assert_user_can_work();
    });
}

#[test]
fn what_goes_on_after_it_was_deleted_elsewhere_does_not_go() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "regretted", "2"]);
        let lost = ada.hammer(["create", "lost", "2"]);
        let closed = ada.hammer(["create", "closed", "1"]);
        ada.push().success();
        let copy = sandbox.work().join("copy");
        let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
        cp.arg(&copy).run().success();
        let twin = Member::at(sandbox, copy, "ada");
        ada.agent(["forget", "--remote", "regretted"]).success();
        // Nobody deleted this one: the host has lost it.
        let there = || team.hub.refs("refs/agents/sessions");
        let name = there().into_keys().find(|name| name.ends_with(&lost));
        let name = name.expect("it is there");
        team.hub.git(["update-ref", "-d", &name]).success();
        for sid in [&sid, &lost] {
            twin.hammer(["append", sid, "1", "more"]);
        }
        twin.hammer(["create", "new", "1"]);
        twin.hammer(["close", &closed]);
        twin.hammer(["fold"]);
        let pushed = twin.agent(["push", "--json"]).code(1);
        let told = told(&pushed.json());
        let expected = ["new lost", "new new", "folded closed", "refused regretted"];
        assert!(expected.iter().all(|one| told.contains(*one)), "{told:?}");
        pushed.assert_says("it was deleted");
        assert_eq!(there().len(), 2);
        assert!(there().keys().all(|name| !name.ends_with(&sid)));
        assert!(twin.hammer(["events", &sid]).contains("more 0"));
        // What a copy gave meanwhile is no reason to refuse what grew from it.
        ada.fetch().success();
        twin.hammer(["append", &lost, "1", "again"]);
        twin.agent(["push", &lost]).success();
        ada.agent(["push"]).success();
        assert!(ada.hammer(["events", &lost]).contains("again 0"));
    });
}

#[test]
fn what_somebody_rewrote_is_said_and_the_old_version_kept() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let sid = ada.hammer(["create", "rewritten", "2"]);
        ada.push().success();
        ada.hammer(["append", &sid, "1", "second thoughts"]);
        ada.push().success();
        bob.fetch().success();
        let name = team
            .hub
            .refs("refs/agents")
            .into_keys()
            .next()
            .expect("a ref");
        let old = team.hub.id(&name);
        let message = team.hub.git(["log", "-1", "--format=%B", &name]).success();
        let (tree, before) = (format!("{name}^{{tree}}"), format!("{name}~1"));
        let again = ["commit-tree", &tree, "-p", &before, "-m"];
        let again = team.hub.command("git").args(again).arg(message.stdout());
        let again = again.env("GIT_COMMITTER_NAME", "somebody").run();
        let again = again.success().line().to_owned();
        team.hub.git(["update-ref", &name, &again]).success();
        let told = bob.fetch().success();
        told.assert_says("was rewritten at 'origin'");
        let kept = bob.repo.refs("refs/agents-local/lost");
        assert_eq!(kept.into_values().collect::<Vec<_>>(), [old]);
        // The owner's next push brings it back.
        ada.fetch().success();
        ada.push().success();
        bob.fetch().success();
        bob.shows(&["log", "rewritten"], "second thoughts 0");
    });
}

#[test]
fn many_refs_become_lines_of_one_file_and_git_agrees() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let sids: Vec<String> = (0..10)
            .map(|at| ada.hammer(["create", &format!("s{at}"), "1"]))
            .collect();
        ada.push().success();
        // Whoever dies half-way leaves all or nothing, and at most a lock that the doctor knows and the next one removes.
        for fault in ["packed.synced", "packed.locked", "packed.renamed"] {
            let killed = bob.command("git").args(["agent", "fetch"]);
            let killed = killed.env("GIT_AGENT_TEST_FAULT", format!("{fault}:kill"));
            killed.run().whatever();
            let lock = bob.repo.path().join(".git/packed-refs.lock");
            assert_eq!(lock.exists(), fault == "packed.locked", "{fault}");
            let came = bob.repo.refs("refs/agents-remote/origin").len();
            assert_eq!(
                came,
                if fault == "packed.renamed" { 10 } else { 0 },
                "{fault}"
            );
            if lock.exists() {
                let old = ["-d", "1 hour ago", ".git/packed-refs.lock"];
                bob.command("touch").args(old).run().success();
                let found = bob.agent(["doctor"]).whatever();
                assert!(found.stdout().contains("packed-refs.lock"), "{found}");
            }
        }
        bob.fetch().success();
        assert!(bob.repo.refs("refs/agents-in").is_empty());
        let same = || {
            let shared = team.hub.refs("refs/agents");
            for member in [&ada, &bob] {
                let copies = member.repo.refs("refs/agents-remote/origin");
                let copies: Vec<(String, String)> = copies
                    .into_iter()
                    .map(|(name, id)| (name.replace("-remote/origin", ""), id))
                    .collect();
                assert_eq!(copies, shared.clone().into_iter().collect::<Vec<_>>());
                let files = member.repo.path().join(".git/refs/agents-remote/origin");
                assert!(!files.exists(), "{} has files", files.display());
                assert!(!member.repo.path().join(".git/packed-refs.lock").exists());
            }
        };
        same();
        // All of them again, and then most of them gone.
        for sid in &sids {
            ada.hammer(["append", sid, "1", "more"]);
        }
        ada.push().success();
        bob.fetch().success();
        same();
        for sid in &sids[1..] {
            ada.hammer(["close", sid]);
        }
        ada.push().success();
        ada.hammer(["fold"]);
        ada.push()
            .success()
            .assert_says("archived: 9 closed sessions");
        bob.fetch()
            .success()
            .assert_says("archived: 9 closed sessions");
        assert_eq!(bob.repo.refs("refs/agents-remote/origin").len(), 2);
        assert_eq!(bob.names().len(), 10);
        for member in [&ada, &bob] {
            member.git(["pack-refs", "--all"]).success();
            member.repo.assert_whole();
            member.repo.assert_user_can_work();
        }
        assert_eq!(bob.names().len(), 10);
        bob.shows(&["log", "s5"], "more 0");
    });
}

#[test]
fn what_was_closed_before_the_first_push_brings_its_code_along() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        for (name, text) in [("kept", "worth a look"), ("leaky", secret.as_str())] {
            let script = format!("echo {text} >{name} && git add {name} && git commit -qm work");
            ada.session(name, "write it", &script);
            ada.agent(["review", "reject", name, "-m", "not now"])
                .success();
        }
        ada.agent(["clean"]).success();
        // So many others are closed later that those two are in the way.
        for number in 0..20 {
            let sid = ada.hammer(["create", &format!("s{number}"), "1"]);
            ada.hammer(["close", &sid]);
        }
        ada.agent(["clean"]).success();
        assert!(ada.repo.refs("refs/agents/archive").is_empty());
        let pushed = ada.push().whatever();
        pushed.assert_says("leaky: its code was not pushed");
        let bob = team.clone("bob");
        bob.fetch().success();
        assert_eq!(bob.names().len(), 22);
        assert_eq!(team.hub.refs("refs/agents/archive").len(), 1);
        bob.shows(&["review", "diff", "kept"], "worth a look");
    });
}
