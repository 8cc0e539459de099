//! A host with many sessions: what every push is told of, and what can be done about it.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use git_agent::model::session::State;
use git_agent_tests::Member;
use git_agent_tests::imported::{Conversations, import_conversations};
use git_agent_tests::sandbox::write_program;
use git_agent_tests::team::each_way;

/// Returns how many refs of sessions a push of code to `origin` is told of.
fn told_of(member: &Member<'_>, branch: &str) -> usize {
    let trace = member.repo.path().join(".git/packets");
    let push = member
        .command("git")
        .args([
            "push",
            "--quiet",
            "origin",
            &format!("HEAD:refs/heads/{branch}"),
        ])
        .env("GIT_TRACE_PACKET", &trace);
    push.run().success();
    let packets = fs::read_to_string(&trace).expect("git wrote it");
    fs::remove_file(&trace).expect("it is there");
    assert!(packets.contains("refs/heads/main"), "{packets}");
    // Over the web more than one process of git hears the same.
    let names: BTreeSet<&str> = packets
        .lines()
        .filter(|line| line.contains("< "))
        .filter_map(|line| line.split_once(" refs/agents/"))
        .map(|(_, name)| name)
        .collect();
    names.len()
}

#[test]
fn a_host_of_ones_own_can_hide_sessions_where_code_is_pushed() {
    each_way(|sandbox, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.hammer(["create", "one", "1"]);
        ada.push().success();
        assert_eq!(told_of(&bob, "before"), 1);

        let hide = ["config", "transfer.hideRefs", "refs/agents"];
        team.hub.git(hide).success();
        assert_eq!(told_of(&bob, "after"), 0);
        ada.hammer(["create", "two", "1"]);
        let refused = ada.push().code(1);
        refused.assert_says("hidden ref");
        refused.assert_says("git config agent.remote <remote>");
        let found = ada.agent(["doctor", "--remote", "origin"]).code(1);
        let words = "it hides them from pushes to this address";
        assert!(found.stdout().contains(words), "{found}");

        // The same repository at another address, where they are not hidden.
        let mut door = sandbox.command("git-web").arg(sandbox.work().join("srv"));
        door = door.env("GIT_CONFIG_COUNT", "2");
        for (at, key) in ["receive", "uploadpack"].iter().enumerate() {
            door = door
                .env(format!("GIT_CONFIG_KEY_{at}"), format!("{key}.hideRefs"))
                .env(format!("GIT_CONFIG_VALUE_{at}"), "!refs/agents");
        }
        let door = door.stdin_open().spawn();
        door.wait_for("\n");
        let port = String::from_utf8_lossy(&door.stdout_so_far())
            .trim()
            .to_owned();
        let address = format!("http://127.0.0.1:{port}/hub.git");
        // By its path, or over ssh, a clone says so by itself.
        let path = team.hub.path().display().to_string();
        let cleo = team.clone("cleo");
        for (member, address) in [(&ada, &address), (&bob, &address), (&cleo, &path)] {
            for (key, value) in [
                ("remote.agents.url", address.as_str()),
                ("agent.remote", "agents"),
            ] {
                member.git(["config", key, value]).success();
            }
        }
        for (section, verb) in [("receive", "receive"), ("uploadpack", "upload")] {
            let command = format!("git -c {section}.hideRefs='!refs/agents' {verb}-pack");
            let key = format!("remote.agents.{verb}pack");
            cleo.git(["config", &key, &command]).success();
        }
        ada.push().success();
        cleo.hammer(["create", "three", "1"]);
        cleo.push().success();
        for member in [&ada, &bob, &cleo] {
            member.fetch().success();
            assert_eq!(member.names(), ["one", "three", "two"]);
        }
        ada.agent(["doctor", "--remote", "agents"]).success();
        assert_eq!(told_of(&bob, "still"), 0);
        bob.git(["fetch", "--quiet"]).success().assert_quiet();
    });
}

#[test]
fn the_doctor_says_what_many_sessions_cost_and_what_helps() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "one", "1"]);
        ada.push().success();
        let doctor = || ada.agent(["doctor", "--remote", "origin"]).success();
        let few = doctor();
        let words = "every push lists its 2 refs, 1 of sessions";
        assert!(few.stdout().contains(words), "{few}");
        assert!(!few.stdout().contains("hint:"), "{few}");
        // This keeps branches alone from being deleted, and a hook everything.
        team.hub
            .git(["config", "receive.denyDeletes", "true"])
            .success();
        let told = doctor();
        assert!(
            told.stdout().contains("ok: it allows their deletion"),
            "{told}"
        );
        let hook = team.hub.path().join("hooks/update");
        std::fs::create_dir_all(hook.parent().expect("a directory")).expect("writable");
        write_program(
            &hook,
            "#!/bin/sh\ncase $3 in *[1-9a-f]*) ;; *) exit 1;; esac\n",
        );
        let told = doctor();
        let words = "warning: it keeps deleted refs: a small ref of this test stays there";
        assert!(told.stdout().contains(words), "{told}");
        std::fs::remove_file(&hook).expect("it is there");
        for name in team.hub.refs("refs/agents/notes").into_keys() {
            team.hub.git(["update-ref", "-d", &name]).success();
        }
        let name = team.hub.refs("refs/agents").into_keys().next();
        let name = name.expect("a ref");
        let stem = name.strip_suffix(&sid[20..]).expect("its id ends it");
        let more: String = (0..260)
            .map(|at| format!("create {stem}{at:06} {}\n", team.hub.id(&name)))
            .collect();
        let update = team.hub.command("git").args(["update-ref", "--stdin"]);
        update.stdin(more).run().success();
        let many = doctor();
        let words = "warning: every push lists its 262 refs, 261 of sessions";
        for words in [words, "agent.remote", "git agent clean", "hide them"] {
            assert!(many.stdout().contains(words), "{many}");
        }
        let mut said = many.stdout().lines().skip(1);
        assert!(said.all(|line| line.len() <= 80), "{many}");
        let told = ada.agent(["doctor", "--remote", "origin", "--json"]);
        let told = told.success().json();
        assert_eq!(told["remotes"][0]["advertised"], 262);
        assert_eq!(told["remotes"][0]["many"], true);
    });
}

#[test]
fn of_many_closed_sessions_only_the_last_keep_a_ref() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        ada.git(["config", "agent.writer", "ada-1a2b"]).success();
        let closed = Conversations {
            count: 30,
            turns: 1,
            state: State::Merged,
            at: today(),
        };
        import_conversations(ada.repo.path(), &closed).expect("made");
        ada.push().success();
        let count = |kind: &str| team.hub.refs(&format!("refs/agents/{kind}")).len();
        assert_eq!((count("sessions"), count("archive")), (20, 1));
        let bob = team.clone("bob");
        bob.agent(["fetch"]).success();
        let listed = bob.agent(["list", "--all", "--porcelain"]).success();
        assert_eq!(listed.stdout().lines().count(), 30, "{listed}");
    });
}

/// Returns this moment, in milliseconds since 1970.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("not that far")
}
