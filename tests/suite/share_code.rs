//! The code of a session is searched before it leaves, for what a person would not want to be read.

use git_agent_tests::team::each_way;

/// Returns the words of an agent that commits a file.
fn commit(text: &str) -> String {
    format!("echo '{text}' >file && git add file && git commit -qm file; echo done")
}

#[test]
fn what_a_generator_drew_beside_the_name_of_a_secret_stays() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let token = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let drawn = "wEEnYA62OMnhGDQ1";
        for (name, text) in [
            ("assigned", format!("DB_PASSWORD={drawn}")),
            ("address", format!("postgres://app:{drawn}@db.internal/x")),
            ("joined", format!("MY_{token}=1")),
        ] {
            ada.session(name, "write a file", &commit(&text));
            let words = format!("{name}: its code was not pushed: file 'file' of its code");
            ada.push().success().assert_says(&words);
        }
        ada.session("example", "write a file", &commit("DB_PASSWORD=changeme"));
        let pushed = ada.push().success();
        assert!(!pushed.stderr().contains("example"), "{pushed}");
        let there = team.everything();
        for secret in [drawn, &token] {
            let found = there
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "the remote holds '{secret}'");
        }
    });
}

#[test]
fn uncommitted_work_is_said_to_stay_behind() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.session("mixed", "write a file", &commit("one"));
        let add = "echo 2 >\"$(git agent path mixed)/secret-plan\"";
        ada.command("sh").args(["-c", add]).run().success();
        ada.session("loose", "write a file", "echo 3 >three; echo done");
        ada.session("whole", "write a file", &commit("text"));
        ada.agent(["review", "approve", "mixed"]).success();
        for _ in 0..2 {
            let pushed = ada.push().success();
            pushed.assert_says("mixed: uncommitted work in 1 file was not shared");
            pushed.assert_says("loose: uncommitted work in 1 file was not shared");
            pushed.assert_says("hint: git agent commit mixed\n");
            pushed.assert_says("hint: git agent commit loose\n");
            assert!(!pushed.stderr().contains("whole"), "{pushed}");
        }
        bob.fetch().success();
        let said = "has uncommitted work that was not shared";
        for name in ["mixed", "loose"] {
            bob.shows(&["list", name], said);
            bob.shows(&["show", name], said);
            let diff = bob.agent(["review", "diff", name]).whatever();
            diff.assert_says(&format!("'{name}' {said}"));
        }
        let table = bob.agent(["review"]).success();
        table.assert_says(&format!("'mixed' {said}"));
        assert!(!table.stdout().contains("stale"), "{table}");
        let listed = bob.agent(["list", "mixed", "--json"]).success().json();
        assert_eq!(listed["sessions"][0]["unshared"], 1, "{listed:#}");
        assert!(listed["sessions"][0]["verdict"].is_null(), "{listed:#}");
        let verdicts = bob.agent(["review", "list", "mixed", "--json"]);
        let verdicts = verdicts.success().json();
        assert!(verdicts["verdicts"][0]["stale"].is_null(), "{verdicts:#}");
        let there = team.everything();
        let leaked = there.windows(11).any(|part| part == b"secret-plan");
        assert!(
            !leaked,
            "the remote holds the name of a file that was not shared"
        );

        for name in ["mixed", "loose"] {
            ada.agent(["commit", name]).success();
        }
        let pushed = ada.push().success();
        assert!(!pushed.stderr().contains("uncommitted"), "{pushed}");
        bob.fetch().success();
        for name in ["mixed", "loose"] {
            let diff = bob.agent(["review", "diff", name]).success();
            assert!(!diff.stderr().contains(said), "{diff}");
            assert!(diff.stdout().contains("diff --git"), "{diff}");
        }
    });
}

#[test]
fn what_only_the_environment_of_an_agent_told_is_known_to_a_later_push() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        ada.git(["config", "agent.env", "LODGING"]).success();
        let value = "kT9vQ2mXw7LrB4nZ8sJd";
        let given = |args: &[&str]| {
            let command = ada.command("git").arg("agent").args(args);
            command.env("LODGING", value).run().success()
        };
        let script = "echo v: $LODGING >file; git add file; git commit -qm file; echo $LODGING >loose; echo done";
        given(&["new", "--name", "told", "a task", "--", script]);
        given(&["wait", "--timeout", "120s", "told"]);
        // From another terminal, where the variable is not set.
        let pushed = ada.push().success();
        pushed.assert_says("told: its code was not pushed: file 'file' of its code");
        // Also what was committed only later, and where the file is gone again.
        let later = "git -C \"$(git agent path told)\" add -A && git -C \"$(git agent path told)\" commit -qm later";
        ada.command("sh").args(["-c", later]).run().success();
        ada.push()
            .success()
            .assert_says("told: its code was not pushed");
        let there = team.everything();
        let found = there
            .windows(value.len())
            .any(|part| part == value.as_bytes());
        assert!(!found, "the remote holds it");
        let kept = std::fs::read(ada.repo.path().join(".git/agents/secret-objects"));
        let kept = String::from_utf8(kept.expect("noted")).expect("ids");
        assert!(
            kept.lines().count() >= 2 && !kept.contains("kT9vQ2"),
            "{kept}"
        );
    });
}
