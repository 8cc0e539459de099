//! Signed pushes, the words of a host, and a fetch without room.

use std::fs;

use git_agent_tests::sandbox::write_program;
use git_agent_tests::team::each_way;
use git_agent_tests::{Member, Sandbox, Team, Way};

use crate::share_transport::each_way_with_keys;

#[test]
fn who_signs_takes_over_nothing_that_others_added() {
    each_way_with_keys(|sandbox, team| {
        let ada = team.clone("ada");
        let key = sandbox.work().join("key");
        let make = ada
            .command("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        make.arg(&key).run().success();
        let public = fs::read_to_string(key.with_extension("pub")).expect("a key");
        let signers = sandbox.work().join("signers");
        fs::write(&signers, format!("ada@example.com {public}")).expect("writable");
        let (key, signers) = (key.to_string_lossy(), signers.to_string_lossy());
        for (name, value) in [
            ("gpg.format", "ssh"),
            ("user.signingKey", &key),
            ("gpg.ssh.allowedSignersFile", &signers),
            ("agent.sign", "true"),
        ] {
            ada.git(["config", name, value]).success();
        }
        let sid = ada.hammer(["create", "signed", "1"]);
        ada.push().success();
        // Copies of one clone, who sign with the same key, still come together.
        let copy = sandbox.work().join("copy");
        let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
        cp.arg(&copy).run().success();
        let twin = Member::at(sandbox, copy, "ada");
        ada.hammer(["append", &sid, "1", "left"]);
        twin.hammer(["append", &sid, "1", "right"]);
        ada.push().success();
        twin.push().success();
        ada.fetch().success();
        ada.push().success();
        assert!(ada.hammer(["events", &sid]).contains("right 0"));
        let shown = ada.agent(["show", "signed"]).success();
        assert!(!shown.stdout().contains("wrong"), "{shown}");

        // Somebody who may push adds to it.
        let name = team
            .hub
            .refs("refs/agents/sessions")
            .into_keys()
            .next()
            .expect("it is there");
        let (tip, tree) = (team.hub.id(&name), team.hub.id(&format!("{name}^{{tree}}")));
        let message = format!("agent-log v1\n\nAgent-Session: {sid}\n");
        let added = team
            .hub
            .git(["commit-tree", &tree, "-p", &tip, "-m", &message])
            .success();
        let added = added.line().to_owned();
        team.hub.git(["update-ref", &name, &added]).success();
        ada.hammer(["append", &sid, "1", "later"]);
        ada.push()
            .code(1)
            .assert_says("the remote's version is not signed");
        assert_eq!(team.hub.id(&name), added);
        let own = ada.repo.id(&name);
        ada.git(["merge-base", "--is-ancestor", &added, &own])
            .failure();

        // Nor with a key that nobody can look up, because nothing says whose keys are whose.
        let other = sandbox.work().join("other-key");
        let make = ["-q", "-t", "ed25519", "-N", "", "-f"];
        let make = ada.command("ssh-keygen").args(make).arg(&other);
        make.run().success();
        let key = format!("user.signingKey={}", other.display());
        let signed = ["-c", "gpg.format=ssh", "-c", &key, "commit-tree", "-S"];
        let commit = [tree.as_str(), "-p", &tip, "-m", &message];
        let signed = team.hub.command("git").args(signed).args(commit).run();
        let signed = signed.success().line().to_owned();
        team.hub.git(["update-ref", &name, &signed]).success();
        ada.git(["config", "--unset", "gpg.ssh.allowedSignersFile"])
            .success();
        let refused = ada.push().code(1);
        refused.assert_says("the signer cannot be checked here");
        refused.assert_says("git config gpg.ssh.allowedSignersFile <file>");
        assert_eq!(team.hub.id(&name), signed);
    });
}

#[test]
fn the_words_of_a_host_decide_nothing_but_what_is_shown() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let (good, bad) = ("good", "bad");
        ada.hammer(["create", good, "1"]);
        let kept_out = ada.hammer(["create", bad, "1"]);
        let hook = team.hub.path().join("hooks/update");
        fs::create_dir_all(hook.parent().expect("a directory")).expect("writable");
        let words = "does not support --atomic: looks like a secret, not this clone, a hidden ref";
        write_program(
            &hook,
            &format!("#!/bin/sh\ncase $1 in *{kept_out}*) echo '{words}' >&2; exit 1 ;; esac\n"),
        );
        for atomic in ["true", "false"] {
            team.hub
                .git(["config", "receive.advertiseAtomic", atomic])
                .success();
            let run = ada.push().code(1);
            run.assert_says("bad: [remote rejected] (hook declined)");
            run.assert_says(words);
            for hint in ["git agent purge", "agent.writer", "agent.remote"] {
                assert!(!run.stderr().contains(hint), "{run}");
            }
            assert_eq!(team.hub.refs("refs/agents").len(), 1, "{run}");
        }
        fs::remove_file(&hook).expect("it was there");
        ada.push().success();
        assert_eq!(team.hub.refs("refs/agents").len(), 2);
    });
}

#[test]
fn a_fetch_without_room_refuses_no_session() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let ada = team.clone("ada");
    for name in ["one", "two"] {
        ada.session(
            name,
            "a task",
            "head -c 3000000 /dev/urandom >file && git add file && git commit -qm file",
        );
    }
    ada.push().success();
    let disk = match sandbox.small_disk(4) {
        Ok(disk) => disk,
        Err(why) => {
            let note = format!("{why}; the unit tests of git/phrases.rs stand in\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
            return;
        }
    };
    let place = disk.join("bob");
    sandbox
        .command("git")
        .args(["clone", "--quiet", team.address()])
        .arg(&place)
        .run()
        .success();
    let bob = Member::at(&sandbox, place, "bob");
    let full = bob.fetch().code(128);
    full.assert_says("cannot fetch from 'origin': ");
    full.assert_says("No space left on device");
    assert!(!full.stderr().contains("refuse"), "{full}");
}
