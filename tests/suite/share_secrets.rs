//! Secrets and sharing: what must not leave is found before it does, in every version, and can be purged.

use git_agent_tests::team::each_way;

/// Returns whether bytes hold a text.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn a_planted_secret_never_reaches_the_remote() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        // Put together here, so that this file holds none.
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let task = format!("use the token {secret} to log in");
        let script = format!(
            "echo tool output {secret}; echo an error {secret} >&2; echo TOKEN={secret} >env && git add env && git commit -qm 'add {secret}'; echo done"
        );
        ada.agent(["new", "--name", "leaky", &task, "--", &script])
            .success();
        ada.agent(["wait", "--timeout", "120s", "leaky"]).success();
        // Another one that began at the same commit, whose code is clean.
        let script = "echo fine >fine && git add fine && git commit -qm fine; echo done";
        ada.session("clean", "tidy up", script);
        let sid = ada.agent(["list", "--json", "leaky"]).success().json();
        let sid = sid["sessions"][0]["id"].as_str().expect("an id").to_owned();
        ada.hammer(["comment", &sid, &format!("why is {secret} here")]);
        let pushed = ada.push().whatever();
        pushed.assert_says("leaky: its code was not pushed");
        pushed.assert_says("seems to contain a secret");
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 2);
        let code = ada.repo.id("agent/clean");
        team.hub.git(["cat-file", "-e", &code]).success();
        let held = holds(&team.everything(), &secret);
        assert!(!held, "the remote holds the secret");

        // One that redaction did not know then is found before it goes.
        let later = "correct-horse-battery-staple-42";
        ada.hammer(["create", "late", "1"]);
        let late = ada.agent(["list", "--json", "late"]).success().json();
        let late = late["sessions"][0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        ada.hammer(["append", &late, "1", later]);
        let refused = ada
            .command("git")
            .args(["agent", "push"])
            .env("MY_API_TOKEN", later)
            .run()
            .code(1);
        refused.assert_says("late: event");
        refused.assert_says("git agent purge");
        let unredacted = ada.hammer(["create", "raw", "1"]);
        ada.hammer(["unredacted", &unredacted]);
        ada.agent(["push", "raw"])
            .code(1)
            .assert_says("recorded with redaction off");
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 2);

        // Purged, it goes.
        let purged = ada
            .command("git")
            .args(["agent", "purge", "--value-file", "-"])
            .stdin(format!("{later}\n"))
            .run()
            .success();
        purged.assert_says("revoke the secret");
        let at = purged.stderr().find("Purge cannot reach everything");
        let note = &purged.stderr()[at.expect("it says what it cannot do")..];
        assert!(note.lines().all(|line| line.len() <= 80), "{purged}");
        // Nor does this clone keep the command as it was typed.
        let kept = ada.repo.common_dir().join("agents/scratch").join(&sid);
        let command = std::fs::read(kept.join("command.json")).expect("a command is kept");
        assert!(!holds(&command, &secret), "the clone holds the secret");
        ada.command("git")
            .args(["agent", "push", "late"])
            .env("MY_API_TOKEN", later)
            .run()
            .success();
        assert!(!holds(&team.everything(), later));
    });
}

#[test]
fn a_secret_in_a_field_that_nobody_reads_does_not_go_either() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "plain", "1"]);
        ada.hammer(["create", "crafted", "1"]);
        let sessions = ada.agent(["list", "--json", "crafted"]).success().json();
        let sid = sessions["sessions"][0]["id"].as_str().expect("an id");
        let refs = ada.repo.refs("refs/agents");
        let name = refs.keys().find(|name| name.ends_with(sid)).expect("a ref");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let shown = ada.git(["show", &format!("{name}:events.jsonl")]).success();
        let last = shown.stdout().lines().last().expect("an event").to_owned();
        let mut event: serde_json::Value = serde_json::from_str(&last).expect("an event");
        event["seq"] = 99.into();
        event["text"] = "nothing to see".into();
        event["more"] = secret.clone().into();
        let put = ["hash-object", "-w", "--stdin"];
        let written = ada.repo.command("git").args(put).stdin(event.to_string());
        let written = written.run().success().line().to_owned();
        let listed = ada.git(["ls-tree", name]).success();
        let tree: String = listed
            .stdout()
            .lines()
            .map(|line| {
                if line.ends_with("\tevents.jsonl") {
                    format!("100644 blob {written}\tevents.jsonl\n")
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
        let tree = ada.repo.command("git").arg("mktree").stdin(tree).run();
        let tree = tree.success().line().to_owned();
        let message = format!("agent-log v1\n\nAgent-Session: {sid}\n");
        let commit = ["commit-tree", &tree, "-p", name, "-m", &message];
        let commit = ada.git(commit).success().line().to_owned();
        ada.git(["update-ref", name, &commit]).success();
        let pushed = ada.push().code(1);
        pushed.assert_says("crafted: event 99 seems to contain a secret (github-token)");
        assert_eq!(team.hub.refs("refs/agents").len(), 1);
    });
}

#[test]
fn a_secret_in_a_comment_that_was_taken_back_does_not_go_either() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let leak = "correct-horse-battery-staple-44";
        let sid = ada.hammer(["create", "talked-about", "1"]);
        ada.hammer(["comment", &sid, "harmless"]);
        let notes = ada.repo.refs("refs/agents/notes/review");
        let (name, before) = notes.into_iter().next().expect("notes");
        let comment = ada.hammer(["comment", &sid, &format!("it is {leak}")]);
        ada.agent(["review", "edit", &comment, "-m", "never mind"])
            .success();
        // What plain git leaves of it: today's version is the harmless one, and the others are history.
        let tree = format!("{before}^{{tree}}");
        let message = "Notes removed";
        let clean = ada.git(["commit-tree", &tree, "-p", &name, "-m", message]);
        let clean = clean.success().line().to_owned();
        let push = || {
            let push = ada.command("git").args(["agent", "push", "--yes"]);
            push.env("MY_API_TOKEN", leak).run()
        };
        let held = || holds(&team.everything(), leak);
        for version in [ada.repo.id(&name), clean.clone()] {
            ada.git(["update-ref", &name, &version]).success();
            let grep = ["log", "--format=%H", "-S", leak, &name];
            assert!(!ada.git(grep).success().stdout().is_empty());
            push()
                .code(1)
                .assert_says("a note seems to contain a secret");
            assert!(team.hub.refs("refs/agents/notes").is_empty());
            assert!(!held(), "the remote holds the secret");
        }
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 1);
        // Nor in the words that a commit of notes goes with.
        let tree = format!("{before}^{{tree}}");
        let said = ada.git(["commit-tree", &tree, "-p", &before, "-m", leak]);
        let said = said.success().line().to_owned();
        ada.git(["update-ref", &name, &said]).success();
        push()
            .code(1)
            .assert_says("a message seems to contain a secret");
        assert!(!held(), "the remote holds the secret");

        // Purged of all versions, today's goes.
        ada.git(["update-ref", &name, &clean]).success();
        ada.command("git")
            .args(["agent", "purge", "--local", "--value-file", "-"])
            .stdin(leak)
            .run()
            .success();
        push().success();
        assert_eq!(team.hub.refs("refs/agents/notes").len(), 1);
        assert!(!held(), "the remote holds the secret");
        assert_eq!(ada.hammer(["comments", &sid]), "ada harmless");
    });
}

#[test]
fn a_secret_below_a_session_or_in_a_name_does_not_go_along_with_its_code() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let named =
            format!("echo x >'at-{secret}' && git add . && git commit -qm named; echo done");
        ada.session("named", "add a file", &named);
        // Committed before the session began, and never pushed.
        ada.repo.write("env", format!("TOKEN={secret}\n"));
        ada.git(["add", "env"]).success();
        ada.git(["commit", "-qm", "not for everybody"]).success();
        let script = "echo fine >fine && git add fine && git commit -qm fine; echo done";
        ada.session("above", "tidy up", script);
        let pushed = ada.push().success();
        pushed.assert_says("above: its code was not pushed: file 'env'");
        pushed.assert_says("named: its code was not pushed: the name of a file");
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 2);
        assert!(!holds(&team.everything(), &secret), "the remote holds it");
        // Once it is where everybody can read it there is nothing left to keep back.
        ada.git(["push", "--quiet", "origin", "main"]).success();
        let pushed = ada.agent(["push", "above"]).success();
        assert!(!pushed.stderr().contains("stays here"), "{pushed}");
        let code = ada.repo.id("agent/above");
        team.hub.git(["cat-file", "-e", &code]).success();
    });
}

#[test]
fn what_a_new_remote_has_already_is_not_searched_and_large_files_are() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        ada.repo.write("env", format!("TOKEN={secret}\n"));
        ada.git(["add", "env"]).success();
        ada.git(["commit", "-qm", "for everybody to read"])
            .success();
        ada.git(["push", "--quiet", "origin", "main"]).success();
        // Nothing here tells any more what is there.
        ada.git(["remote", "remove", "origin"]).success();
        ada.git(["remote", "add", "hub", team.address()]).success();
        let script = "echo fine >fine && git add fine && git commit -qm fine; echo done";
        ada.session("above", "tidy up", script);
        let large = format!(
            "head -c 9000000 /dev/zero | tr '\\0' x >large && echo >>large && echo {secret} >>large && git add large && git commit -qm large; echo done"
        );
        ada.session("large", "add a file", &large);
        let pushed = ada.agent(["push", "--yes", "hub"]).success();
        pushed.assert_says("large: its code was not pushed: file 'large' of its code");
        assert!(!pushed.stderr().contains("above:"), "{pushed}");
        let code = ada.repo.id("agent/above");
        team.hub.git(["cat-file", "-e", &code]).success();
        let code = ada.repo.id("agent/large");
        team.hub.git(["cat-file", "-e", &code]).code(1);
        // Where it is fetched from says nothing about where it goes.
        let other = sandbox.repo("other.git").bare().create();
        let address = other.path().display().to_string();
        ada.git(["remote", "add", "split", team.address()])
            .success();
        let words = ["remote", "set-url", "--push", "split", &address];
        ada.git(words).success();
        let pushed = ada.agent(["push", "--yes", "split"]).code(1);
        pushed.assert_says("above: file 'env' of its code");
        let all = other.git(["cat-file", "--batch-all-objects", "--batch"]);
        let all = all.success().stdout_bytes().to_vec();
        assert!(!holds(&all, &secret), "the other remote holds it");
    });
}

#[test]
fn what_one_remote_has_does_not_go_to_another_unsearched() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let public = sandbox.repo("public.git").bare().create();
        let address = format!("file://{}", public.path().display());
        let holds_it = |secret: &str| {
            let all = public.git(["cat-file", "--batch-all-objects", "--batch"]);
            holds(all.success().stdout_bytes(), secret)
        };
        ada.git(["remote", "add", "pub", &address]).success();
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        ada.repo.write("env", format!("TOKEN={secret}\n"));
        ada.git(["add", "env"]).success();
        ada.git(["commit", "-qm", "not for everybody"]).success();
        ada.git(["rm", "-q", "env"]).success();
        ada.git(["commit", "-qm", "taken back"]).success();
        let script = "echo fine >fine && git add fine && git commit -qm fine; echo done";
        ada.session("first", "tidy up", script);
        let pushed = ada.agent(["push", "--yes", "pub"]).success();
        pushed.assert_says("first: its code was not pushed: file 'env'");
        // The readers of one remote may have it, and those of the other still not, whatever a branch is called here.
        ada.git(["push", "--quiet", "origin", "main"]).success();
        ada.git(["remote", "rename", "origin", "pub/lic"]).success();
        ada.session("second", "tidy up", script);
        let pushed = ada.agent(["push", "--yes", "pub"]).success();
        pushed.assert_says("second: its code was not pushed: file 'env'");
        assert!(!holds_it(&secret), "the public remote holds it");
        // Nor does what was at one address under a name go to another one.
        ada.git(["remote", "rename", "pub/lic", "origin"]).success();
        ada.agent(["push", "--yes", "origin"]).success();
        ada.git(["remote", "set-url", "origin", &address]).success();
        ada.git(["config", "--unset-all", "agent.share"]).success();
        ada.agent(["push", "--yes", "origin"])
            .code(1)
            .assert_says("second: file 'env' of its code");
        assert!(!holds_it(&secret), "the public remote holds it");
    });
}

#[test]
fn what_a_host_was_cleaned_of_does_not_come_back_with_a_session() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let first = ada.repo.id("main");
        ada.repo.write("env", format!("TOKEN={secret}\n"));
        ada.git(["add", "env"]).success();
        ada.git(["commit", "-qm", "add env"]).success();
        ada.git(["push", "--quiet", "origin", "main", "main:beside"])
            .success();
        let script = "echo fine >fine && git add fine && git commit -qm fine; echo done";
        // What the remote has goes on being its affair, also after somebody else has added to it.
        ada.session("published", "tidy up", script);
        let pushed = ada.push().success();
        assert!(!pushed.stderr().contains("stays here"), "{pushed}");
        bob.git(["pull", "--quiet"]).success();
        let add = |name: &str| {
            bob.repo.write(name, name);
            bob.git(["add", name]).success();
            bob.git(["commit", "-qm", name]).success();
        };
        add("theirs");
        bob.git(["push", "--quiet", "origin", "main", ":beside"])
            .success();
        let before = ada.repo.refs("refs/remotes");
        ada.session("behind", "tidy up", script);
        let pushed = ada.push().success();
        assert!(!pushed.stderr().contains("stays here"), "{pushed}");
        assert_eq!(ada.repo.refs("refs/remotes"), before);
        ada.session("remembered", "tidy up", script);
        ada.git(["push", "--quiet", "origin", "agent/remembered"])
            .success();
        // The host is cleaned: one branch rewritten, others gone, and so is what was shared.
        bob.git(["reset", "--quiet", "--hard", &first]).success();
        add("clean");
        bob.git(["push", "-qf", "origin", "main", ":agent/remembered"])
            .success();
        for name in team.hub.refs("refs/agents").into_keys() {
            team.hub.git(["update-ref", "-d", &name]).success();
        }
        team.hub.git(["gc", "--quiet", "--prune=now"]).success();
        assert!(!holds(&team.everything(), &secret));
        ada.session("cleaned", "tidy up", script);
        let pushed = ada.push().success();
        pushed.assert_says("cleaned: its code was not pushed: file 'env'");
        pushed.assert_says("remembered: its code was not pushed: file 'env'");
        assert!(!holds(&team.everything(), &secret), "{pushed}");
    });
}

#[test]
fn a_remote_that_hides_what_it_has_gets_what_is_clean() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        for (at, hidden) in ["refs/agents", "refs/heads", "refs"]
            .into_iter()
            .enumerate()
        {
            let hide = ["config", "--replace-all", "uploadpack.hideRefs", hidden];
            team.hub.git(hide).success();
            let name = format!("clean-{at}");
            let script = "date +%N >fine && git add fine && git commit -qm fine; echo done";
            ada.session(&name, "tidy up", script);
            let pushed = ada.push().success();
            let words = format!("{name}: its code was not pushed");
            assert!(!pushed.stderr().contains(&words), "{pushed}");
            let code = ada.repo.id(&format!("agent/{name}"));
            team.hub.git(["cat-file", "-e", &code]).success();
            let name = format!("leaky-{at}");
            let script =
                format!("echo {secret} >env && git add env && git commit -qm env; echo done");
            ada.session(&name, "add a file", &script);
            let pushed = ada.push().success();
            pushed.assert_says(&format!("{name}: its code was not pushed: file 'env'"));
        }
        assert!(!holds(&team.everything(), &secret));
    });
}

#[test]
fn what_is_replaced_here_alone_does_not_go_as_it_was() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let secret = format!("ghp_{}", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
        let script = format!("echo {secret} >env && git add env && git commit -qm env; echo done");
        ada.session("replaced", "add a file", &script);
        // From here on git shows the commit, and the file, as if the secret had never been there.
        let clean = ada.repo.id("main");
        ada.git(["replace", "agent/replaced", &clean]).success();
        let pushed = ada.push().success();
        pushed.assert_says("replaced: its code was not pushed: file 'env'");
        assert!(!holds(&team.everything(), &secret), "the remote holds it");
    });
}

#[test]
fn what_the_settings_hand_to_an_agent_never_reaches_the_remote() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let (set, given, served) = ("Zq8vLw2pXr5t", "Kd7mQx3vTz9s", "Wn4bRy6cHj8g");
        let (copied, rotated) = ("Pf5gUx2kLe7w", "Ms9tVb4qNz6h");
        for (key, value) in [
            (
                "agent.mine.command",
                // The long line ends an event in the middle of the value.
                "sh -c 'echo $DB_PASSWORD $SITE_LOGIN $MODEL; cat .env; printf %016376d 0; echo $DB_PASSWORD'".to_owned(),
            ),
            ("agent.mine.env", format!("DB_PASSWORD={set}")),
            ("agent.mine.env", "MODEL=gpt-4o-mini".to_owned()),
            ("agent.env", "SITE_LOGIN".to_owned()),
            ("agent-mcp.docs.env", format!("DOCS_ACCOUNT={served}")),
        ] {
            ada.git(["config", "--add", key, &value]).success();
        }
        ada.repo.write(".worktreeinclude", ".env\n");
        ada.repo.write(".env", format!("REDIS_PASSWORD={copied}\n"));
        let given_here = |args: &[&str]| {
            let command = ada.command("git").arg("agent").args(args);
            command.env("SITE_LOGIN", given).run().success()
        };
        given_here(&["new", "--name", "told", "--agent", "mine", "look around"]);
        given_here(&["wait", "--timeout", "120s", "told"]);
        let said = "[REDACTED:known-secret] [REDACTED:known-secret] gpt-4o-mini";
        ada.shows(&["log", "told"], said);
        ada.shows(&["log", "told"], "REDIS_PASSWORD=[REDACTED:");
        // The copy still holds what the original held.
        ada.repo
            .write(".env", format!("REDIS_PASSWORD={rotated}\n"));
        let prompt = format!("never say {set}, {given}, {served}, {copied} or {rotated} aloud");
        given_here(&["send", "told", &prompt]);
        given_here(&["wait", "--timeout", "120s", "told"]);
        given_here(&["push", "--yes"]);
        assert_eq!(team.hub.refs("refs/agents/sessions").len(), 1);
        let there = team.everything();
        for secret in [set, given, served, copied, rotated] {
            assert!(!holds(&there, &secret[..8]), "the remote holds '{secret}'");
        }
    });
}
