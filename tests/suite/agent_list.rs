//! `git agent list`: every session in the state it is really in, for people and for scripts.

use std::fs;
use std::time::Duration;

use git_agent_tests::{Repo, Sandbox, wait_until};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// Starts a session that does what the fake agent is told.
fn start(repo: &Repo<'_>, name: &str, steps: &[&str]) {
    let mut words = vec!["new", name, "--", "fake-agent"];
    words.extend(steps);
    repo.agent(words).success();
}

fn wait(repo: &Repo<'_>, name: &str) {
    repo.agent(["wait", name, "--timeout", "60s"]).success();
}

/// Returns a session as `--json` tells it.
fn row(repo: &Repo<'_>, name: &str) -> Value {
    let listed = repo.agent(["list", "--json", name]).success().json();
    assert_eq!(listed["version"], 1);
    listed["sessions"][0].clone()
}

fn states(repo: &Repo<'_>, options: &[&str]) -> Vec<String> {
    let listed = repo
        .agent([&["list", "--porcelain"], options].concat())
        .success();
    let state = |line: &str| line.split('\t').nth(1).expect("a state").to_owned();
    listed.lines().into_iter().map(state).collect()
}

#[test]
fn nothing_is_said_where_nothing_is() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.agent(["list"])
        .success()
        .assert_stdout("")
        .assert_says("no sessions yet");
    repo.agent(["list", "--json"])
        .success()
        .assert_stdout("{\"version\":1,\"sessions\":[]}\n")
        .assert_quiet();
    repo.agent(["status", "--porcelain"])
        .success()
        .assert_stdout("")
        .assert_quiet();
    assert!(
        !repo.common_dir().join("agents/run").exists(),
        "looking leaves nothing behind"
    );
}

#[test]
fn changes_count_what_is_committed_and_what_is_not() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.write("f", "1\n2\n3\n");
    repo.commit("three lines");
    start(
        &repo,
        "wipe",
        &[
            "write committed a\\nb",
            "commit one",
            "write f 1\\n2",
            "write untracked x\\ny\\nz",
        ],
    );
    wait(&repo, "wipe");
    repo.write("other", "main moves on\n");
    repo.commit("on main");
    let row = row(&repo, "wipe");
    assert_eq!(row["state"], "ready");
    assert_eq!(
        row["changes"],
        serde_json::json!({"files": 3, "added": 5, "deleted": 1, "uncommitted": 2})
    );
    assert_eq!((&row["ahead"], &row["behind"]), (&1.into(), &1.into()));
    assert_eq!(row["parent"], "main");
    assert_eq!(row["branch"], "agent/wipe");
    assert_eq!(row["turns"], 1);
    assert_eq!(row["mine"], true);
    assert_eq!(row["exit"]["code"], 0);
    for absent in [
        "model",
        "role",
        "group",
        "progress",
        "pid",
        "conflicts",
        "verdict",
    ] {
        assert!(row.get(absent).is_none(), "{absent} has nothing to report");
    }
    let table = repo.agent(["list"]).success();
    assert!(table.stdout().contains("+5 −1    ↑1 ↓1"), "{table}");
}

#[test]
fn what_cannot_be_determined_is_null() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "odd", &["write f x\\n"]);
    wait(&repo, "odd");
    let index = repo.git([
        "-C",
        "../r-worktrees/odd",
        "rev-parse",
        "--git-path",
        "index",
    ]);
    let index = index.success().line().to_owned();
    fs::write(
        repo.path().join("../r-worktrees/odd").join(index),
        "no index",
    )
    .expect("the index is a file");
    assert_eq!(row(&repo, "odd").get("changes"), Some(&Value::Null));
    let record = repo.agent(["list", "--porcelain"]).success();
    assert!(record.stdout().contains("\t?\t?\t?\t?\tmain\t"), "{record}");
}

#[test]
fn filters_choose_and_closed_ones_hide() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "good", &["write f x"]);
    start(&repo, "bad", &["exit 3"]);
    repo.agent(["new", "idle", "--no-start", "--group", "g", "--", "true"])
        .success();
    wait(&repo, "good");
    repo.agent(["wait", "bad"])
        .code(1)
        .assert_says("'bad' is failed");
    assert_eq!(states(&repo, &[]), ["ready", "failed", "draft"]);
    assert_eq!(states(&repo, &["--failed"]), ["failed"]);
    assert_eq!(
        states(&repo, &["--state", "draft,ready"]),
        ["ready", "draft"]
    );
    assert_eq!(states(&repo, &["--draft"]), ["draft"]);
    assert_eq!(states(&repo, &["--group", "g"]), ["draft"]);
    assert_eq!(states(&repo, &["bad", "good"]), ["failed", "ready"]);
    assert!(states(&repo, &["--running"]).is_empty());
    repo.agent(["list", "--state", "asleep"]).code(129);
    repo.agent(["list", "nobody"])
        .code(128)
        .assert_says("no session 'nobody'");
}

#[test]
fn a_session_whose_supervisor_was_killed_is_interrupted_at_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "doomed", &["print begun", "until never"]);
    repo.agent(["wait", "doomed", "--state", "running"])
        .success();
    let pid = row(&repo, "doomed")["pid"].as_i64().expect("it runs");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
    wait_until("the supervisor is gone", || {
        states(&repo, &[]) == ["interrupted"]
    });
    let row = row(&repo, "doomed");
    assert!(row.get("pid").is_none());
    assert_eq!(row["exit"]["reason"], "the supervisor died");
    // Looking at it has recorded it, for everybody who reads the refs.
    let log = repo.agent(["log", "doomed", "--raw", "-n", "1"]).success();
    assert!(log.stdout().contains("\"to\":\"interrupted\""), "{log}");
    wait_until("what it left running has been ended", || {
        sandbox.survivors().is_empty()
    });
}

#[test]
fn one_that_cannot_be_read_gives_one_warning() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "fine", &["print fine"]);
    wait(&repo, "fine");
    let own = repo.refs("refs/agents/sessions");
    let (name, _) = own.first_key_value().expect("a session");
    // The same moment, so the same month; another session.
    let stem = &name[..name.len() - 4];
    for (end, revision) in [("0000", "HEAD"), ("0001", "HEAD^{tree}")] {
        let id = repo.id(revision);
        repo.git(["update-ref", &format!("{stem}{end}"), &id])
            .success();
    }
    let listed = repo.agent(["list", "--porcelain"]).success();
    assert_eq!(listed.lines().len(), 1, "{listed}");
    let warnings: Vec<&str> = listed.stderr().lines().collect();
    assert_eq!(warnings.len(), 2, "{listed}");
    assert!(
        warnings
            .iter()
            .all(|line| line.starts_with("warning: cannot read '"))
    );
}

#[test]
fn names_and_words_of_agents_are_harmless_on_a_terminal() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "loud", &["escapes"]);
    wait(&repo, "loud");
    let shown = repo.agent_cmd(["list", "--no-color"]).on_terminal().run();
    let shown = shown.success();
    assert!(shown.stdout().contains("loud"), "{shown}");
    assert!(!shown.stdout().contains('\x1b'), "{shown}");
    assert!(!shown.stdout().contains('\u{202e}'), "{shown}");
    for line in shown.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn a_watcher_sees_each_change_and_leaves_with_its_reader() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "slow", &["print begun", "until go"]);
    let watcher = repo
        .agent_cmd(["list", "--watch", "--json"])
        .time_limit(Duration::from_secs(60))
        .spawn();
    watcher.wait_for("\"state\":\"running\"");
    repo.write("../r-worktrees/slow/go", "");
    watcher.wait_for("\"state\":\"ready\"");
    watcher.signal(Signal::INT);
    let seen = watcher.wait().whatever();
    for line in seen.lines() {
        let listing: Value = serde_json::from_str(line).expect("one object a line");
        assert_eq!(listing["version"], 1);
    }
}

#[test]
fn a_watched_screen_rings_and_is_left_as_it_was() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "slow", &["print begun", "until go"]);
    repo.agent(["wait", "slow", "--state", "running"]).success();
    let mut screen = repo
        .agent_cmd(["list", "--watch"])
        .on_terminal()
        .stdin_open()
        .spawn();
    screen.wait_for("\x1b[?1049h");
    screen.wait_for("running");
    repo.write("../r-worktrees/slow/go", "");
    screen.wait_for("\x07");
    screen.wait_for("1 needs attention - q to leave");
    screen.write("q");
    let seen = screen.wait().success();
    assert!(seen.stdout().contains("\x1b[?1049l"), "{seen}");
}

#[test]
fn sessions_of_others_are_listed_with_their_author_on_request() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    start(&repo, "mine", &["print mine"]);
    wait(&repo, "mine");
    let theirs = repo.clone_to("theirs", &[]);
    theirs
        .agent_cmd([
            "new",
            "theirs",
            "--",
            "fake-agent",
            "print theirs",
            "write f x",
        ])
        .env("GIT_COMMITTER_NAME", "Zoe Zebra")
        .run()
        .success();
    wait(&theirs, "theirs");
    for (name, _) in theirs.refs("refs/agents/sessions") {
        let tail = name.strip_prefix("refs/agents/").expect("its name");
        let copy = format!("+{name}:refs/agents-remote/zoe/{tail}");
        repo.git(["fetch", "--quiet", "../theirs", &copy]).success();
    }
    assert_eq!(states(&repo, &[]).len(), 1);
    let all = repo.agent(["list", "--all", "--json"]).success().json();
    let rows = all["sessions"].as_array().expect("a list");
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["mine"], &rows[1]["mine"]),
        (&true.into(), &false.into())
    );
    assert!(
        rows[1].get("worktree").is_none(),
        "a path there means nothing here"
    );
    let author = rows[1]["author"].as_str().expect("a person");
    assert!(author.starts_with("Zoe Zebra <"), "{author}");
    let table = repo.agent(["list", "--all"]).success();
    assert!(table.stdout().contains("Zoe Zebra"), "{table}");
    let log = repo.agent(["log", "theirs"]).success();
    assert!(log.stdout().contains(" theirs\n"), "{log}");
    repo.agent(["path", "theirs"])
        .code(128)
        .assert_says("belongs to a teammate");
    repo.agent(["wait", "theirs"]).code(128);
}
