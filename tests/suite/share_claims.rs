//! What others claim in what they share is not taken for the truth.

use git_agent_tests::Member;
use git_agent_tests::team::each_way;

use crate::share_transport::each_way_with_keys;

/// Commits a file to a branch of the hub that everybody has.
fn publish(member: &Member<'_>, file: &str) {
    let script = commit(file);
    member.command("sh").args(["-c", &script]).run().success();
    member.git(["push", "--quiet", "origin", "main"]).success();
}

/// Returns how many files somebody is told that a session changed.
fn files(member: &Member<'_>, name: &str) -> serde_json::Value {
    let listed = member.agent(["list", "--json", name]).success();
    listed.json()["sessions"][0]["changes"]["files"].clone()
}

fn commit(file: &str) -> String {
    format!("echo {file} >{file} && git add {file} && git commit -qm {file}")
}

#[test]
fn a_review_shows_everything_that_a_merge_would_bring() {
    each_way(|_, team| {
        let (ada, bob, carol) = (team.clone("ada"), team.clone("bob"), team.clone("carol"));
        ada.session("first", "a task", &commit("hidden"));
        ada.push().success();
        bob.fetch().success();
        // Its record names the first session's commit as its beginning.
        let seen = commit("seen");
        bob.agent(["fork", "first", "on", "--name", "next", "--", &seen])
            .success();
        bob.agent(["wait", "--timeout", "120s", "next"]).success();
        bob.push().success();
        carol.fetch().success();
        let shows_all = || {
            for verb in [
                &["review", "diff", "next"][..],
                &["review", "diff", "next", "--turn", "1"],
            ] {
                carol.shows(verb, "\n+hidden\n");
                carol.shows(verb, "\n+seen\n");
            }
            assert_eq!(files(&carol, "next"), 2);
        };
        assert_eq!(files(&bob, "next"), 2);
        shows_all();
        // Nor does it help to put the beginning on some branch.
        let code = ada.repo.session("first")["branch"].clone();
        let code = code.as_str().expect("a branch");
        ada.git(["push", "--quiet", "origin", &format!("{code}:evil")])
            .success();
        carol.git(["fetch", "--quiet"]).success();
        shows_all();
        carol.git(["checkout", "--quiet", "--detach"]).success();
        carol.git(["branch", "-D", "main"]).success();
        shows_all();
    });
}

#[test]
fn a_parent_that_is_behind_does_not_lend_its_commits_to_a_session() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        publish(&ada, "published");
        ada.session("work", "a task", &commit("own"));
        ada.push().success();
        bob.fetch().success();
        assert_eq!(files(&bob, "work"), 2, "nothing here tells them apart");
        bob.git(["fetch", "--quiet"]).success();
        assert_eq!(files(&bob, "work"), 1);
        let diff = bob.agent(["review", "diff", "work"]).success();
        assert!(!diff.stdout().contains("published"), "{diff}");
        // Without the branch itself, what the remote has of it counts.
        bob.git(["checkout", "--quiet", "--detach"]).success();
        bob.git(["branch", "-D", "main"]).success();
        assert_eq!(files(&bob, "work"), 1);
        // What has nothing in common with anything here is not shown as if it were something.
        bob.git(["checkout", "--quiet", "--orphan", "other"])
            .success();
        bob.git(["commit", "--quiet", "--allow-empty", "-m", "other"])
            .success();
        for name in ["main", "HEAD"] {
            let name = format!("refs/remotes/origin/{name}");
            bob.git(["update-ref", "-d", "--no-deref", &name]).success();
        }
        assert!(files(&bob, "work").is_null());
        bob.agent(["review", "diff", "work"])
            .code(128)
            .assert_says("cannot tell where the work of session 'work' begins");
    });
}

/// Gives somebody a key, and returns the line by which others know it.
fn sign(member: &Member<'_>, who: &str) -> String {
    let key = member.repo.path().join(".git/key");
    let make = ["-q", "-t", "ed25519", "-N", "", "-f"];
    let make = member.command("ssh-keygen").args(make).arg(&key);
    make.run().success();
    let path = key.display().to_string();
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("user.signingKey", &path),
        ("agent.sign", "true"),
    ] {
        member.git(["config", name, value]).success();
    }
    let public = std::fs::read_to_string(key.with_extension("pub")).expect("a key");
    format!("{who}@example.com {public}")
}

#[test]
fn names_under_comments_and_verdicts_are_claimed_unless_a_signature_says_the_same() {
    each_way_with_keys(|sandbox, team| {
        let (ada, bob, eve) = (team.clone("ada"), team.clone("bob"), team.clone("eve"));
        ada.session("work", "a task", &commit("file"));
        ada.push().success();
        let signers = sandbox.work().join("signers");
        let known = sign(&bob, "bob") + &sign(&eve, "eve");
        std::fs::write(&signers, known).expect("writable");
        let posing = "bob <bob@example.com> (verified)";
        for (member, name, words) in [(&bob, "bob", "by bob"), (&eve, posing, "forged")] {
            member.fetch().success();
            let speak = |words: &[&str]| {
                let speaker = member.command("git").args(["agent", "review"]).args(words);
                let speaker = speaker.env("GIT_COMMITTER_EMAIL", "bob@example.com");
                speaker.env("GIT_COMMITTER_NAME", name).run().success();
            };
            speak(&["comment", "work", "file:1", "-m", words]);
            speak(&["approve", "work", "-m", words]);
            member.push().success();
        }
        ada.agent(["review", "comment", "work", "file:1", "-m", "mine"])
            .success();
        ada.git(["config", "agent.displayNotes", "true"]).success();
        ada.fetch().success();
        let standings = || {
            let json = ada.agent(["review", "list", "--json", "work"]).success();
            let json = json.json();
            let comments = json["comments"].as_array().expect("a list").clone();
            let comments = comments
                .iter()
                .flat_map(|thread| thread["comments"].as_array());
            let mut found: Vec<String> = comments
                .flatten()
                .map(|said| format!("{} {}", said["text"], said["standing"]))
                .collect();
            let verdicts = json["verdicts"].as_array().expect("a list").clone();
            found.extend(
                verdicts
                    .iter()
                    .map(|given| format!("{} {}", given["message"], given["standing"])),
            );
            found.sort();
            found.dedup();
            found
        };
        // Whose key is whose ada does not know yet.
        assert_eq!(
            standings(),
            [
                r#""by bob" "claimed""#,
                r#""forged" "claimed""#,
                r#""mine" null"#
            ]
        );
        let setting = ["config", "gpg.ssh.allowedSignersFile"];
        let setting = ada.command("git").args(setting).arg(&signers);
        setting.run().success();
        for _ in 0..2 {
            assert_eq!(
                standings(),
                [
                    r#""by bob" "verified""#,
                    r#""forged" "claimed""#,
                    r#""mine" null"#
                ]
            );
        }
        let forged = "bob [bob@example.com] [verified] (claimed)";
        let listed = &["review", "list", "work"][..];
        for (args, words) in [
            (listed, "bob (verified), "),
            (listed, "bob (verified) approves"),
            (listed, &format!("{forged}, ")),
            (listed, &format!("{forged} approves")),
            (listed, " ada, "),
            (&["review", "diff", "work"], "bob (verified), "),
            (&["review", "diff", "work"], &format!("{forged}, ")),
            (&["show", "work"], "bob (verified) approves"),
            (&["show", "work"], &format!("{forged} approves")),
        ] {
            ada.shows(args, words);
        }
        ada.agent(["review", "comment", "work", "file:1", "-m", "mine too"])
            .success();
        let log = ["log", "--notes=agents/review", "-1", "agent/work"];
        let log = ada.git(log).success();
        for words in [
            "approved by bob (verified)",
            &format!("approved by {forged}"),
        ] {
            assert!(log.stdout().contains(words), "{words}\n{log}");
        }
        // What is no longer signed is no longer verified.
        std::fs::write(&signers, "").expect("writable");
        assert!(standings().contains(&r#""by bob" "claimed""#.to_owned()));
        let sessions = bob.agent(["list", "--all"]).success();
        assert!(sessions.stdout().contains("  ada  "), "{sessions}");
        assert!(!sessions.stdout().contains("verified"), "{sessions}");
        let sessions = bob.agent(["list", "--json", "work"]).success().json();
        assert_eq!(sessions["sessions"][0]["standing"], "claimed");
    });
}

#[test]
fn where_signatures_are_wanted_an_approval_needs_one() {
    each_way_with_keys(|sandbox, team| {
        let (ada, bob, eve) = (team.clone("ada"), team.clone("bob"), team.clone("eve"));
        ada.session("work", "a task", &commit("file"));
        ada.push().success();
        let signers = sandbox.work().join("signers");
        std::fs::write(&signers, sign(&ada, "ada") + &sign(&bob, "bob")).expect("writable");
        let setting = ["config", "gpg.ssh.allowedSignersFile"];
        let setting = ada.command("git").args(setting).arg(&signers);
        setting.run().success();
        let approves = |member: &Member<'_>| {
            member.fetch().success();
            member.agent(["review", "approve", "work"]).success();
            member.push().success();
            ada.fetch().success();
        };
        // Eve signs nothing: anybody may have written it.
        approves(&eve);
        let before = ada.git(["rev-parse", "main"]).success().line().to_owned();
        let merge = ["merge", "--into", "main", "work"];
        let refused = ada.agent(merge).code(1);
        let words = "the approval by eve (claimed) has no signature that is known here";
        assert!(refused.stdout().contains(words), "{refused}");
        assert_eq!(ada.git(["rev-parse", "main"]).success().line(), before);
        let plan = ["merge", "--into", "main", "--dry-run", "--json", "work"];
        let plan = ada.agent(plan).whatever();
        assert!(plan.stdout().contains("not-verified"), "{plan}");
        // Without the setting it counts, as it is told.
        let unsigned = ada.command("git").args(["-c", "agent.sign=false", "agent"]);
        let unsigned = unsigned.args(["merge", "--into", "main", "--dry-run", "work"]);
        let words = "'work' is approved only by eve (claimed)";
        unsigned.run().success().assert_says(words);
        approves(&bob);
        ada.agent(merge).success();
        assert_ne!(ada.git(["rev-parse", "main"]).success().line(), before);
    });
}

#[test]
fn what_others_wrote_in_ones_notes_is_not_signed() {
    each_way_with_keys(|sandbox, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        bob.session("work", "a task", &commit("file"));
        bob.push().success();
        ada.fetch().success();
        let remark = ["review", "comment", "work", "file:1", "-m", "mine"];
        ada.agent(remark).success();
        ada.push().success();
        // Somebody who may push adds an approval to ada's notes, which has no mark of her clone.
        let notes = ada.repo.refs("refs/agents/notes/review");
        let notes = notes.into_keys().next().expect("notes");
        let eve = team.clone("eve");
        eve.git(["fetch", "--quiet", "origin", &format!("{notes}:{notes}")])
            .success();
        let listed = ["ls-tree", "-r", "--format=%(path) %(objectname)", &notes];
        let listed = eve.git(listed).success().line().to_owned();
        let (path, blob) = listed.split_once(' ').expect("a note");
        let lines = eve.git(["cat-file", "-p", blob]).success();
        let mut record =
            serde_json::from_str::<serde_json::Value>(lines.stdout().lines().next().expect("one"))
                .expect("a record");
        let id = record["id"].as_str().expect("an id").to_owned();
        let work = bob.repo.session("work")["id"].clone();
        let tip = bob.git(["rev-parse", "agent/work"]).success();
        let tree = bob.git(["rev-parse", "agent/work^{tree}"]).success();
        let fields = record.as_object_mut().expect("an object");
        fields.retain(|key, _| ["v", "lc", "ts", "who", "after"].contains(&key.as_str()));
        fields.insert("id".into(), format!("{}{}", &id[..22], "zzzz").into());
        fields.insert("sid".into(), work);
        fields.insert("op".into(), "verdict".into());
        fields.insert("verdict".into(), "approve".into());
        fields.insert("commit".into(), tip.line().into());
        fields.insert("tree".into(), tree.line().into());
        let text = format!("{}{record}\n", lines.stdout());
        let hash = eve.command("git").args(["hash-object", "-w", "--stdin"]);
        let blob = hash.stdin(text).run().success().line().to_owned();
        let index = sandbox.work().join("forged-index");
        let with = |words: &[&str]| {
            let git = eve.command("git").args(words);
            git.env("GIT_INDEX_FILE", &index).run().success()
        };
        with(&["read-tree", &notes]);
        with(&[
            "update-index",
            "--cacheinfo",
            &format!("100644,{blob},{path}"),
        ]);
        let tree = with(&["write-tree"]).line().to_owned();
        let words = ["commit-tree", "-p", &notes, "-m", "forged", &tree];
        let forged = eve.git(words).success().line().to_owned();
        eve.git(["push", "--quiet", "origin", &format!("{forged}:{notes}")])
            .success();
        ada.fetch().success();
        ada.agent(["review", "comment", "work", "-m", "more"])
            .success();
        ada.push().success();
        // Only now ada signs, and bob knows her key.
        let signers = sandbox.work().join("signers");
        std::fs::write(&signers, sign(&ada, "ada") + &sign(&bob, "bob")).expect("writable");
        for member in [&ada, &bob] {
            let setting = ["config", "gpg.ssh.allowedSignersFile"];
            let setting = member.command("git").args(setting).arg(&signers);
            setting.run().success();
        }
        ada.agent(["review", "comment", "work", "-m", "signed"])
            .success();
        ada.push()
            .success()
            .assert_says("not signed: it contains events that this clone did not write");
        bob.fetch().success();
        let merged = bob.agent(["merge", "--into", "main", "work"]).code(1);
        assert!(merged.stdout().contains("no signature"), "{merged}");
    });
}

#[test]
fn nobody_takes_back_an_objection_for_another() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.session("work", "a task", &commit("file"));
        ada.push().success();
        bob.fetch().success();
        bob.agent(["review", "approve", "work"]).success();
        bob.push().success();
        let notes = bob.repo.refs("refs/agents/notes/review");
        let (notes, approved) = notes.into_iter().next().expect("notes");
        bob.agent(["review", "request-changes", "work", "-m", "no"])
            .success();
        bob.push().success();
        ada.fetch().success();
        let eve = team.clone("eve");
        eve.git(["fetch", "--quiet", "origin", &notes]).success();
        eve.git([
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("{approved}:{notes}"),
        ])
        .success();
        ada.fetch()
            .whatever()
            .assert_says("it is older than the version here");
        let merged = ada.agent(["merge", "--into", "main", "work"]).code(1);
        assert!(
            merged.stdout().contains("changes are requested"),
            "{merged}"
        );
        // Who wrote it brings it back.
        bob.fetch().whatever();
        bob.push().success();
        ada.fetch().success();
    });
}

#[test]
fn nobody_judges_in_the_name_of_this_clone() {
    each_way(|_, team| {
        let (ada, eve) = (team.clone("ada"), team.clone("eve"));
        for name in ["judged", "unjudged"] {
            ada.session(name, "a task", &commit(name));
        }
        let refused = ["review", "request-changes", "judged", "-m", "no"];
        ada.agent(refused).success();
        let remark = ["review", "comment", "judged", "-m", "words of ada"];
        ada.agent(remark).success();
        ada.push().success();
        // Eve takes the name of ada's clone.
        let writer = ada.repo.path().join(".git/agents/writer");
        let writer = std::fs::read_to_string(writer).expect("a writer");
        let pose = ["config", "agent.writer", writer.trim()];
        eve.git(pose).success();
        eve.fetch().success();
        for name in ["judged", "unjudged"] {
            eve.agent(["review", "approve", name, "-m", "forged"])
                .success();
            let said = ["review", "comment", name, "-m", "words of eve"];
            eve.agent(said).success();
        }
        eve.push().success();
        // By a fetch, and joined by a push.
        for join in [false, true] {
            if join {
                ada.push().success()
            } else {
                ada.fetch().success()
            };
            for (name, why) in [
                ("judged", "changes are requested"),
                ("unjudged", "not approved"),
            ] {
                let run = ada.agent(["merge", "--into", "main", name]).code(1);
                assert!(run.stdout().contains(why), "{run}");
            }
            let listed = ada
                .agent(["review", "list", "judged", "--json"])
                .success()
                .json();
            let verdicts = listed["verdicts"].as_array().expect("a list");
            assert_eq!(verdicts.len(), 1, "{listed}");
            assert_eq!(verdicts[0]["verdict"], "request-changes");
            let shown = ada.agent(["review", "list", "judged"]).success();
            let of = |words: &str| {
                let lines: Vec<&str> = shown.stdout().lines().collect();
                let at = lines.iter().position(|line| line.contains(words));
                lines[at.expect("shown").saturating_sub(1)..=at.expect("shown")].join("\n")
            };
            assert!(of("words of eve").contains("(claimed)"), "{shown}");
            assert!(!of("words of ada").contains("(claimed)"), "{shown}");
        }
        ada.agent(["review", "approve", "unjudged"]).success();
        ada.agent(["merge", "--into", "main", "unjudged"]).success();
    });
}
