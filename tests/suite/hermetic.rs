//! The harness keeps its own promises: nothing leaks in, nothing is left behind, faults strike where they are planned.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use git_agent_tests::faults::{self, Action, Plan};
use git_agent_tests::repo::DIFFICULT_NAMES;
use git_agent_tests::{Git, Hash, RefFormat, Repo, Sandbox, wait_until};

#[test]
fn no_variable_leaks_in() {
    let sandbox = Sandbox::new();
    let seen = sandbox.command("env").arg("-0").run().success();
    let seen: BTreeMap<&str, &str> = seen
        .stdout()
        .split_terminator('\0')
        .filter_map(|variable| variable.split_once('='))
        .collect();
    let planned = sandbox.environment();
    for (name, value) in &seen {
        let wanted = planned
            .get(std::ffi::OsStr::new(name))
            .and_then(|value| value.to_str());
        assert_eq!(wanted, Some(*value), "{name} comes from outside");
    }
    assert_eq!(seen.len(), planned.len());
    let root = sandbox.root().to_str().expect("a plain path");
    for name in [
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "TMPDIR",
    ] {
        assert!(seen[name].starts_with(root), "{name} lies outside");
    }
}

#[test]
fn the_user_is_not_known() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let config = repo.git(["config", "--list", "--show-origin"]).success();
    for line in config.lines() {
        assert!(
            line.starts_with("command line:") || line.starts_with("file:.git/config"),
            "a setting from outside: {line}"
        );
    }
    for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        let ident = repo.git(["var", who]).success();
        assert!(ident.line().contains("@example.com> 17000"), "{ident}");
    }
    repo.git(["config", "--global", "user.name", "somebody"])
        .success();
    assert!(
        sandbox.global_config().is_file(),
        "the user's settings lie in the sandbox"
    );
}

#[test]
fn programs_come_from_known_places_only() {
    let sandbox = Sandbox::new();
    let found = sandbox
        .sh("command -v git-agent; command -v git; command -v fake-agent; command -v cargo")
        .run()
        .whatever();
    let found = found.lines();
    assert_eq!(found.len(), 3, "{found:?}");
    let version = sandbox.command("git").arg("--version").run().success();
    let git = Git::under_test();
    let (major, minor, patch) = git.version;
    assert!(
        version
            .line()
            .starts_with(&format!("git version {major}.{minor}.{patch}")),
        "{version}"
    );
}

#[test]
fn no_repository_is_found_above_the_sandbox() {
    let sandbox = Sandbox::new();
    sandbox
        .command("git")
        .arg("rev-parse")
        .arg("--git-dir")
        .run()
        .code(128);
}

#[test]
fn repositories_come_in_every_shape() {
    for hash in [Hash::Sha1, Hash::Sha256] {
        for refs in RefFormat::available() {
            let sandbox = Sandbox::new();
            let repo = sandbox.repo("r").hash(hash).refs(*refs).create();
            assert_eq!(repo.hash(), hash);
            assert_eq!(repo.ref_format(), *refs);
            assert_eq!(repo.id("HEAD").len(), hash.zero().len());
            let bare = sandbox.repo("b.git").hash(hash).refs(*refs).bare().create();
            bare.assert_user_can_work();
            repo.write_difficult_names();
            let commit = repo.commit("difficult names");
            let listed = repo
                .git(["ls-tree", "-z", "--name-only", &commit])
                .success();
            assert_eq!(listed.fields().len(), DIFFICULT_NAMES.len() + 1);
            let linked = repo.worktree("linked", "side");
            assert_eq!(linked.common_dir(), repo.common_dir());
            let clone = repo.clone_to("clone", &[]);
            assert_eq!(clone.id("HEAD"), commit);
            repo.assert_user_can_work();
            linked.assert_user_can_work();
        }
    }
}

#[test]
fn repositories_may_have_difficult_names() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    for name in DIFFICULT_NAMES {
        let repo = sandbox.repo(std::ffi::OsStr::from_bytes(name)).create();
        assert_eq!(
            repo.common_dir(),
            repo.path().join(".git"),
            "{}",
            name.escape_ascii()
        );
    }
}

#[test]
fn commits_are_repeatable() {
    let make = || {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("r").create();
        repo.write("a", "a\n");
        repo.commit("a")
    };
    assert_eq!(make(), make());
}

#[test]
fn a_program_can_be_given_a_terminal() {
    let sandbox = Sandbox::new();
    let test = "test -t 0 && test -t 1 && test -t 2 && stty size && printf '%s\\n' \"$1\"; exit 7";
    let on_terminal = sandbox
        .command("sh")
        .args(["-c", test, "sh", "it's"])
        .on_terminal();
    assert_eq!(on_terminal.run().code(7).stdout(), "24 80\r\nit's\r\n");
}

#[test]
fn a_slow_program_is_ended() {
    let sandbox = Sandbox::new();
    let slow = std::panic::catch_unwind(|| {
        let _ = sandbox
            .command("sleep")
            .arg("60")
            .time_limit(Duration::from_millis(100))
            .run();
    });
    assert!(slow.is_err(), "the time limit was not kept");
    wait_until("the slow program is gone", || {
        sandbox.survivors().is_empty()
    });
}

#[test]
fn output_kept_open_is_noticed() {
    let sandbox = Sandbox::new();
    let noisy = std::panic::catch_unwind(|| {
        let _ = sandbox
            .command("fake-agent")
            .arg("noisy 60000")
            .time_limit(Duration::from_secs(1))
            .run();
    });
    assert!(noisy.is_err(), "a script would hang on this");
    sandbox.kill_all();
}

#[test]
fn a_process_left_behind_fails_its_test() {
    for step in ["child 60000", "daemon 60000", "orphan 60000"] {
        let sandbox = Sandbox::new().with_grace(Duration::from_millis(50));
        sandbox.command("fake-agent").arg(step).run().success();
        let left = sandbox.survivors();
        assert_eq!(left.len(), 1, "{step}: {left:?}");
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(sandbox)));
        assert!(dropped.is_err(), "{step} was not noticed");
        let pid = left[0].pid;
        wait_until("the process is gone", || {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        });
    }
}

#[test]
fn a_process_without_environment_is_found_by_its_place() {
    let sandbox = Sandbox::new();
    let background = sandbox
        .sh("exec env -i sleep 60")
        .cwd(sandbox.work())
        .spawn();
    wait_until("the process has dropped its environment", || {
        sandbox
            .survivors()
            .iter()
            .any(|survivor| survivor.command.starts_with("sleep"))
    });
    drop(background);
}

#[test]
fn every_git_on_this_machine_can_be_chosen() {
    assert!(!Git::all().is_empty());
    for git in Git::all() {
        let sandbox = Sandbox::new();
        let shown = sandbox
            .command("git")
            .path_first(git.toolbox())
            .arg("version")
            .run()
            .success();
        let (major, minor, _) = git.version;
        assert!(
            shown.line().contains(&format!(" {major}.{minor}.")),
            "{shown}"
        );
    }
}

#[test]
fn a_watched_run_lists_its_points() {
    let sandbox = Sandbox::new();
    let plan = Plan::watch();
    plan.apply(sandbox.command("pass-points")).run().success();
    assert_eq!(plan.places(), ["prop.one#1", "prop.two#1", "prop.one#2"]);
    assert!(!plan.fired());
}

#[test]
fn faults_strike_as_planned() {
    let sandbox = Sandbox::new();
    let strike = |place: &str, action| {
        let plan = Plan::meet(place, action);
        let run = plan.apply(sandbox.command("pass-points")).run();
        assert!(plan.fired(), "{place}:{action} did not fire");
        run
    };
    strike("prop.two#1", Action::Kill)
        .signal(9)
        .assert_stdout("prop.one\n");
    strike("prop.one#2", Action::Abort)
        .signal(6)
        .assert_stdout("prop.one\nprop.two\n");
    strike("*#1", Action::Exit).code(70).assert_stdout("");
    strike("prop.two", Action::Eio)
        .code(128)
        .assert_says("Input/output error");
    strike("prop.two", Action::Enospc)
        .code(128)
        .assert_says("No space left on device");
    let slow = strike("prop.one", Action::Sleep(50)).success();
    assert!(slow.elapsed() >= Duration::from_millis(100), "{slow}");
}

#[test]
fn a_misspelt_fault_is_no_silence() {
    let sandbox = Sandbox::new();
    sandbox
        .command("pass-points")
        .env("GIT_AGENT_TEST_FAULT", "prop.one:burn")
        .run()
        .code(128)
        .assert_says("'prop.one:burn' is not a fault");
}

#[test]
fn a_matrix_tries_every_place_with_every_action() {
    let report = faults::matrix(
        &Action::HARMFUL,
        Sandbox::new,
        |sandbox, plan| plan.apply(sandbox.command("pass-points")).run().whatever(),
        |_, fault, output| assert_eq!(fault.is_none(), output.status().success()),
    );
    assert_eq!(report.to_string(), "15 faults survived at 3 places");
    assert!(report.unmet.is_empty(), "{:?}", report.unmet);
}

#[test]
fn a_small_disk_fills_up() {
    let sandbox = Sandbox::new();
    match sandbox.small_disk(4) {
        Ok(disk) => {
            let repo = sandbox.repo_at(disk.join("r")).create();
            repo.write("small", "fits\n");
            repo.commit("fits");
            let error = fs::write(repo.path().join("large"), vec![1; 8 << 20])
                .expect_err("there is no room");
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            repo.git(["add", "large"]).failure();
            fs::remove_file(repo.path().join("large")).expect("it can be removed");
            repo.assert_user_can_work();
        }
        // Without the right to mount, the fault points stand in for a full disk.
        Err(why) => assert!(why.starts_with("no small disk: "), "{why}"),
    }
}

#[test]
fn the_fake_agent_follows_its_script() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let agent = |steps: &[&str]| repo.command("fake-agent").args(steps).run();
    agent(&["print hello\\tworld", "error oops", "exit 3"])
        .code(3)
        .assert_stdout("hello\tworld\n")
        .assert_stderr("oops\n");
    agent(&[
        "write dir/a\\sb text",
        "within trace x",
        "commit work done",
        "append trace middle",
    ])
    .success();
    assert_eq!(repo.read("dir/a b"), b"text\n");
    assert_eq!(repo.read("trace"), b"+x\nmiddle\n-x\n");
    assert_eq!(
        repo.git(["log", "-1", "--format=%s"]).success().line(),
        "work done"
    );
    agent(&["signal SEGV"]).signal(11);
    agent(&["ignore TERM", "signal TERM", "print alive"])
        .success()
        .assert_stdout("alive\n");
    assert_eq!(
        agent(&["bytes 100000"]).success().stdout_bytes().len(),
        100_000
    );
    assert!(std::str::from_utf8(agent(&["invalid"]).success().stdout_bytes()).is_err());
    assert!(agent(&["escapes"]).success().stdout().contains('\u{1b}'));
    agent(&["try git rev-parse --verify nothing", "print went on"]).success();
    agent(&[
        "git rev-parse --verify --quiet nothing",
        "print not reached",
    ])
    .code(1)
    .assert_stdout("");
    let given = repo.command("fake-agent").env(
        "GIT_AGENT_PROMPT",
        "# a script\nprint from the prompt\n\nprint second\n",
    );
    given
        .run()
        .success()
        .assert_stdout("from the prompt\nsecond\n");
    let echoed = repo
        .command("fake-agent")
        .arg("line")
        .arg("print then")
        .arg("stdin")
        .stdin("one\ntwo\n")
        .run();
    // The line was read through a buffer that took the rest with it, as a careless agent does.
    assert!(echoed.success().stdout().starts_with("one\nthen\n"));
}

#[test]
fn the_fake_agent_waits_for_a_file() {
    let sandbox = Sandbox::new();
    let repo: Repo = sandbox.repo("r").create();
    let mut waiting = repo
        .command("fake-agent")
        .args(["print ready", "until go", "print gone"])
        .spawn();
    waiting.wait_for("ready");
    assert!(waiting.is_running());
    repo.write("go", "");
    waiting.wait().success().assert_stdout("ready\ngone\n");
}
