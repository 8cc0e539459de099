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
            let words = format!("{name}: its code stays here: file 'file' of its code");
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
        pushed.assert_says("told: its code stays here: file 'file' of its code");
        // Also what was committed only later, and where the file is gone again.
        let later = "git -C \"$(git agent path told)\" add -A && git -C \"$(git agent path told)\" commit -qm later";
        ada.command("sh").args(["-c", later]).run().success();
        ada.push()
            .success()
            .assert_says("told: its code stays here");
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
