//! Sharing where remotes and clones are not the plain ones: several addresses, clones without files, pushes meanwhile.

use std::fs;
use std::time::{Duration, SystemTime};

use git_agent_tests::process::wait_until;
use git_agent_tests::sandbox::write_program;
use git_agent_tests::team::each_way;
use git_agent_tests::{Member, Way};

#[test]
fn every_address_that_a_remote_is_pushed_to_is_agreed_to() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let other = sandbox.repo("other.git").bare().create();
        let second = format!("file://{}", other.path().display());
        ada.hammer(["create", "private", "1"]);
        ada.push().success();
        // A second address under the same name is a second audience.
        for kind in ["--push", "--add"] {
            let address = if kind == "--push" {
                team.address()
            } else {
                &second
            };
            ada.git(["remote", "set-url", "--add", "--push", "origin", address])
                .success();
        }
        ada.hammer(["create", "more", "1"]);
        let refused = ada.agent(["push"]).code(128);
        refused.assert_says("you have not agreed");
        refused.assert_says("other.git");
        assert!(other.refs("refs/agents").is_empty());
        ada.push().success();
        assert_eq!(other.refs("refs/agents").len(), 1);
        ada.agent(["push"]).success();

        // Nor does an address that git rewrites go where nobody agreed to.
        let elsewhere = sandbox.repo("elsewhere.git").bare().create();
        let base = format!("url.file://{}", elsewhere.path().display());
        ada.git(["config", &format!("{base}.pushInsteadOf"), &second])
            .success();
        ada.agent(["push", &second])
            .code(128)
            .assert_says("elsewhere.git");
        assert!(elsewhere.refs("refs/agents").is_empty());
    });
}

#[test]
fn a_remote_is_asked_as_the_settings_of_git_want() {
    each_way(|sandbox, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let hub = team.hub.path().display().to_string();
        let fetch = |settings: &[&str]| {
            let mut command = bob.command("git");
            for setting in settings {
                command = command.args(["-c", setting]);
            }
            command.args(["agent", "fetch", "--json"]).run()
        };
        let new = |settings: &[&str]| {
            ada.hammer(["create", "one", "1"]);
            ada.push().success();
            let refs = fetch(settings).success().json()["refs"].clone();
            assert_eq!(
                refs.as_array().map(Vec::len),
                Some(1),
                "{settings:?}: {refs}"
            );
            let refs = fetch(settings).success().json()["refs"].clone();
            assert_eq!(refs, serde_json::json!([]), "{settings:?}");
        };
        for version in ["0", "1", "2"] {
            new(&[&format!("protocol.version={version}")]);
        }
        let beside = format!("{hub}-too");
        let words = ["init", "--quiet", "--bare", &beside];
        ada.git(words).success();
        let bases = match team.way {
            Way::Path => [hub.clone(), format!("file://{hub}")],
            Way::Http => [team.address().to_owned(), team.address().to_owned()],
        };
        // Not a repository, and not where the name leads to.
        for (short, base) in ["short:", "none/"].into_iter().zip(bases) {
            point(&bob, short);
            new(&[&format!("url.{base}.insteadOf={short}")]);
            // Of two that fit equally well git takes the first.
            let other = format!("url.{base}-too.insteadOf={short}");
            new(&[&format!("url.{base}.insteadOf={short}"), &other]);
        }
        if team.way == Way::Http {
            // The rest is about programs and files here.
            return;
        }
        point(&bob, &hub);
        let (program, seen) = (sandbox.work().join("speaks"), sandbox.work().join("seen"));
        let script = format!(
            "#!/bin/sh\n: >'{}'\nexec git upload-pack \"$@\"\n",
            seen.display()
        );
        write_program(&program, &script);
        new(&[&format!("remote.origin.uploadpack='{}'", program.display())]);
        assert!(seen.exists(), "it was not asked through the program");
        let restricted = bob.command("git").env_remove("GIT_ALLOW_PROTOCOL");
        let never = ["-c", "protocol.file.allow=never", "agent", "fetch"];
        let restricted = restricted.args(never).run();
        restricted.code(128).assert_says("'file' not allowed");
        let restricted = bob.command("git").env("GIT_ALLOW_PROTOCOL", "https");
        let restricted = restricted.args(["agent", "fetch"]).run();
        restricted.code(128).assert_says("'file' not allowed");
        point(&bob, &format!("{hub}/none"));
        fetch(&[])
            .code(128)
            .assert_says("does not appear to be a git repository");
        let other = sandbox.work().join("other.git").display().to_string();
        let words = [
            "init",
            "--quiet",
            "--bare",
            "--object-format=sha256",
            &other,
        ];
        ada.git(words).success();
        point(&bob, &other);
        fetch(&[]).success();
    });
}

fn point(member: &Member<'_>, url: &str) {
    member.git(["remote", "set-url", "origin", url]).success();
}

#[test]
fn a_fetch_leaves_tags_and_branches_alone_whatever_the_settings() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.hammer(["create", "one", "1"]);
        ada.push().success();
        team.hub.git(["tag", "theirs", "main"]).success();
        team.hub.git(["branch", "theirs", "main"]).success();
        bob.git(["tag", "mine"]).success();
        bob.git(["update-ref", "refs/remotes/origin/mine", "HEAD"])
            .success();
        bob.git(["update-ref", "-d", "refs/remotes/origin/HEAD"])
            .success();
        for setting in ["fetch.prune", "fetch.pruneTags", "remote.origin.prune"] {
            bob.git(["config", setting, "true"]).success();
        }
        bob.git(["config", "remote.origin.tagOpt", "--tags"])
            .success();
        let places = ["refs/tags", "refs/heads", "refs/remotes"];
        let refs = || places.map(|place| bob.repo.refs(place));
        let before = refs();
        for remote in [team.address(), "origin"] {
            let fetched = bob.agent(["fetch", "--json", remote]).success().json();
            let count = fetched["refs"].as_array().map(Vec::len);
            assert_eq!(count, Some(1), "{fetched}");
            assert_eq!(refs(), before, "after a fetch from {remote}");
        }
    });
}

#[test]
fn a_clone_without_files_takes_in_whole_sessions() {
    each_way(|sandbox, team| {
        team.hub
            .git(["config", "uploadpack.allowFilter", "true"])
            .success();
        let ada = team.clone("ada");
        ada.session(
            "whole",
            "add a file",
            "echo new >new && git add new && git commit -qm new && echo done",
        );
        ada.push().success();
        for filter in ["blob:none", "tree:0"] {
            let name = filter.replace(':', "-");
            let path = sandbox.work().join(&name);
            ada.command("git")
                .args(["clone", "--quiet", "--filter", filter, team.address()])
                .arg(&path)
                .run()
                .success();
            let bob = Member::at(sandbox, path, "bob");
            bob.fetch().success();
            assert_eq!(bob.names(), ["whole"]);
            bob.shows(&["review", "diff", "whole"], "+new");
            bob.repo.assert_user_can_work();
        }
    });
}

#[test]
fn what_a_push_gives_meanwhile_does_not_look_deleted() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "before", "1"]);
        ada.push().success();
        ada.hammer(["create", "meanwhile", "1"]);
        let (there, go) = (sandbox.work().join("there"), sandbox.work().join("go"));
        let hook = team.hub.path().join("hooks/pre-receive");
        fs::create_dir_all(hook.parent().expect("a directory")).expect("writable");
        write_program(
            &hook,
            &format!(
                "#!/bin/sh\n: >'{}'\nuntil test -e '{}'; do sleep 0.05; done\n",
                there.display(),
                go.display()
            ),
        );
        let push = ada.command("git").args(["agent", "push"]).spawn();
        wait_until("the push is at the remote", || there.exists());
        let fetch = ada
            .command("git")
            .args(["agent", "fetch", "--prune", "--json"])
            .spawn();
        // Whatever it asks the remote for now, it must not be believed later.
        std::thread::sleep(Duration::from_millis(300));
        fs::write(&go, "").expect("writable");
        push.wait().success();
        let fetched = fetch.wait().success().json();
        assert_eq!(fetched["refs"], serde_json::json!([]), "{fetched}");
        assert!(ada.repo.refs("refs/agents-local/lost").is_empty());
    });
}

#[test]
fn what_a_fetch_that_died_left_behind_goes() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.hammer(["create", "one", "1"]);
        ada.push().success();
        let scratch = bob.repo.common_dir().join("agents/tmp");
        let (old, young) = (scratch.join("fetch-1-abc"), scratch.join("fetch-2-abc"));
        for left in [&old, &young] {
            fs::create_dir_all(left.join("pack")).expect("writable");
            fs::write(left.join("pack/tmp_pack_x"), "half").expect("writable");
        }
        let long_ago = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
        let dir = fs::File::open(old.join("pack")).expect("it is there");
        dir.set_modified(long_ago).expect("it is ours");
        bob.fetch().success();
        assert!(!old.exists(), "what was left behind is still there");
        assert!(young.exists(), "somebody may still be at it");
    });
}

#[test]
fn a_push_with_nothing_new_gives_what_the_remote_has_no_longer() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "one", "1"]);
        ada.push().success();
        let before = team.hub.refs("refs/agents");
        for name in before.keys() {
            team.hub.git(["update-ref", "-d", name]).success();
        }
        ada.agent(["push"]).success();
        assert_eq!(team.hub.refs("refs/agents"), before);
        ada.agent(["push"]).success().assert_says("is up to date");
        // Another address under the same name has nothing yet, also when something new goes there.
        let other = sandbox.repo("other.git").bare().create();
        let address = format!("file://{}", other.path().display());
        ada.git(["remote", "set-url", "origin", &address]).success();
        ada.hammer(["create", "two", "1"]);
        ada.push().success();
        assert_eq!(other.refs("refs/agents").len(), 2);
        assert!(ada.repo.refs("refs/agents-local/lost").is_empty());
    });
}

#[test]
fn what_one_copy_of_a_clone_folded_no_other_gives_again() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "closed", "1"]);
        ada.hammer(["close", &sid]);
        ada.push().success();
        let copy = sandbox.work().join("copy");
        let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
        cp.arg(&copy).run().success();
        let twin = Member::at(sandbox, copy, "ada");
        ada.hammer(["fold"]);
        ada.push().success();
        twin.push().success().assert_says("is up to date");
        let folded = || {
            assert!(team.hub.refs("refs/agents/sessions").is_empty());
            assert_eq!(team.hub.refs("refs/agents/archive").len(), 1);
        };
        folded();
        twin.fetch().success();
        twin.push().success();
        folded();
        // What goes on there is given all the same.
        twin.hammer(["append", &sid, "1", "elsewhere"]);
        twin.push().success();
        let bob = team.clone("bob");
        bob.fetch().success();
        bob.shows(&["log", "closed"], "elsewhere 0");
    });
}

#[test]
fn a_push_with_nothing_new_joins_what_a_copy_of_the_clone_gave() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "shared", "1"]);
        ada.push().success();
        let copy = sandbox.work().join("copy");
        let cp = sandbox.command("cp").arg("-a").arg(ada.repo.path());
        cp.arg(&copy).run().success();
        let twin = Member::at(sandbox, copy, "ada");
        twin.hammer(["append", &sid, "1", "elsewhere"]);
        twin.push().success();
        let there = team.hub.refs("refs/agents");
        let pushed = ada.push().success();
        assert!(!pushed.stderr().contains("is up to date"), "{pushed}");
        assert!(ada.hammer(["events", &sid]).contains("elsewhere 0"));
        assert_eq!(team.hub.refs("refs/agents"), there);
        ada.push().success().assert_says("is up to date");
    });
}

#[test]
fn the_newest_copy_counts_after_a_remote_was_renamed() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        let sid = ada.hammer(["create", "growing", "1"]);
        ada.push().success();
        bob.fetch().success();
        bob.git(["remote", "rename", "origin", "upstream"])
            .success();
        ada.hammer(["append", &sid, "1", "news"]);
        ada.push().success();
        bob.agent(["fetch", "upstream"]).success();
        bob.shows(&["log", "growing"], "news 0");
        // What was fetched under the old name will never grow, nor be deleted, by itself.
        let old = bob.repo.refs("refs/agents-remote/origin");
        assert_eq!(old.len(), 1);
        let pruned = bob.agent(["fetch", "--prune", "upstream"]).success();
        pruned.assert_says("removed 1 copy of 'origin', which is not a remote any more");
        assert!(bob.repo.refs("refs/agents-remote/origin").is_empty());
        let kept: Vec<String> = bob
            .repo
            .refs("refs/agents-local/lost")
            .into_values()
            .collect();
        assert_eq!(kept, old.into_values().collect::<Vec<_>>());
        bob.shows(&["log", "growing"], "news 0");
    });
}

#[test]
fn a_session_fetched_by_hand_to_ones_own_place_is_still_its_owners() {
    each_way(|_, team| {
        let (ada, bob) = (team.clone("ada"), team.clone("bob"));
        ada.session(
            "hers",
            "add a file",
            "echo new >new && git add new && git commit -qm new && echo done",
        );
        ada.push().success();
        let before = team.hub.refs("refs/agents");
        let name = before.keys().next().expect("a ref").clone();
        bob.git(["fetch", "--quiet", "origin", &format!("{name}:{name}")])
            .success();
        // A branch of bob's that happens to be called as the session says.
        bob.git(["branch", "agent/hers"]).success();
        bob.repo.write("private", "not for everybody\n");
        bob.git(["add", "private"]).success();
        bob.git(["commit", "-qm", "private"]).success();
        bob.git(["branch", "--force", "agent/hers"]).success();
        let private = bob.repo.id("HEAD");
        bob.push().code(1).assert_says("not this clone");
        assert_eq!(team.hub.refs("refs/agents"), before);
        team.hub.git(["cat-file", "-e", &private]).failure();
        bob.shows(&["show", "hers"], "(claimed)");
        let listed = bob.agent(["list", "--json", "hers"]).success().json();
        assert_eq!(listed["sessions"][0]["mine"], false, "{listed}");
        // Nor is it bob's to delete there, at once or because it is in an archive of hers.
        bob.fetch().success();
        bob.agent(["forget", "--remote", "hers"])
            .code(128)
            .assert_says("belongs to a teammate");
        assert_eq!(team.hub.refs("refs/agents"), before);
        bob.git(["update-ref", "-d", &name]).success();
        let sid = name.rsplit('/').next().expect("an id");
        ada.hammer(["close", sid]);
        ada.hammer(["fold"]);
        let archive = ada.repo.refs("refs/agents/archive");
        let archive = archive.keys().next().expect("it was folded");
        let words = ["fetch", "--quiet", "../ada"];
        let fetch = bob.command("git").args(words);
        fetch.arg(format!("{archive}:{archive}")).run().success();
        bob.push().code(1).assert_says("not this clone");
        assert_eq!(team.hub.refs("refs/agents"), before);
    });
}

#[test]
fn a_linked_worktree_pushes_where_it_was_agreed_to() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "private", "1"]);
        let other = sandbox.repo("other.git").bare().create();
        let address = format!("file://{}", other.path().display());
        ada.git(["config", "extensions.worktreeConfig", "true"])
            .success();
        ada.git(["worktree", "add", "--quiet", "--detach", "../linked"])
            .success();
        let linked = Member::at(sandbox, sandbox.work().join("linked"), "ada");
        let words = ["config", "--worktree", "remote.origin.pushurl", &address];
        linked.git(words).success();
        linked.git(["config", "agent.share", &address]).success();
        // git is started where the settings of that worktree do not count.
        let refused = linked.agent(["push"]).code(128);
        refused.assert_says("you have not agreed");
        refused.assert_says("hub.git");
        assert!(team.hub.refs("refs/agents").is_empty());
        linked.push().success();
        assert_eq!(team.hub.refs("refs/agents").len(), 1);
        assert!(other.refs("refs/agents").is_empty());
    });
}

#[test]
fn a_remote_that_is_gone_is_not_one_that_nobody_agreed_to() {
    each_way(|sandbox, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "one", "1"]);
        let near = ada.repo.path().join("near");
        for address in ["../srv/hub.git", "near/hub.git"] {
            point(&ada, address);
            ada.push().success();
            let at = ada.repo.path().join(address);
            let gone = at.with_extension("gone");
            fs::rename(&at, &gone).expect("it is there");
            let run = ada.agent(["push"]).code(128);
            run.assert_says("does not appear to be a git repository");
            fs::rename(&gone, &at).expect("it is there");
            ada.agent(["push"]).success();
            if !near.exists() {
                let cp = sandbox.command("cp").arg("-a");
                let cp = cp.arg(sandbox.work().join("srv")).arg(&near);
                cp.run().success();
            }
        }
        let agreed = ada.git(["config", "--get-all", "agent.share"]).success();
        assert!(
            agreed.stdout().lines().all(|one| one.starts_with('/')),
            "{agreed}"
        );
    });
}

#[test]
fn a_hint_names_a_remote_as_a_shell_wants_it() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        ada.hammer(["create", "one", "1"]);
        // A web server takes nothing, and by path there is no program that would.
        team.hub
            .git(["config", "http.receivepack", "false"])
            .success();
        for (name, word) in [("it's;there", "'it'\\''s;there'"), ("my hub", "'my hub'")] {
            let key = |key: &str| format!("remote.{name}.{key}");
            ada.git(["config", &key("url"), team.address()]).success();
            ada.git(["config", &key("receivepack"), "false"]).success();
            let run = ada.agent(["push", "--yes", name]).code(128);
            run.assert_says(&format!("hint: git agent doctor --remote {word}\n"));
        }
    });
}

#[test]
fn what_is_asked_for_and_not_there_is_said_and_a_password_is_not() {
    each_way(|_, team| {
        let ada = team.clone("ada");
        let sid = ada.hammer(["create", "folded", "1"]);
        ada.push().success();
        ada.agent(["fetch", "--session", "nosuchsession"])
            .code(128)
            .assert_says("has no session 'nosuchsession'");
        ada.agent(["fetch", "--session", &sid]).success();
        ada.hammer(["close", &sid]);
        ada.hammer(["fold"]);
        // Whether the remote still has its ref or not.
        for _ in 0..2 {
            ada.agent(["push", "folded"])
                .code(128)
                .assert_says("it was folded or deleted");
            ada.push().success();
        }
        let address = "http://ada:hunter2@127.0.0.1:9/x.git";
        let named = ["remote", "add", "named", address];
        ada.git(named).success();
        for (to, said) in [(address, "contains a password"), ("named", "cannot")] {
            for verb in ["push", "fetch"] {
                let mut words = vec![verb, to];
                words.extend((verb == "push").then_some("--yes"));
                let run = ada.agent(&words).code(128);
                run.assert_says(said);
                assert!(!run.stderr().contains("hunter2"), "{run}");
            }
        }
        // One that was taken when such addresses still were is asked, and not shown.
        let sid = ada.hammer(["create", "kept", "1"]);
        let name = ada.repo.refs("refs/agents/sessions");
        let name = name.keys().next().expect("it is there");
        let hex: String = address.bytes().map(|one| format!("{one:02x}")).collect();
        let copy = name.replace("refs/agents/", &format!("refs/agents-remote/x--{hex}/"));
        ada.git(["update-ref", &copy, name]).success();
        let forgot = ada.agent(["forget", "--remote", &sid]).code(1);
        forgot.assert_says("'http://127.0.0.1:9/x.git' may still have");
        assert!(!forgot.stderr().contains("hunter2"), "{forgot}");
    });
}
