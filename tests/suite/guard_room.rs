//! The room around an agent at guard level `cell`: what it may ask for, what it is refused, its network and its limits, and
//! the rooms of tests.

use std::fs;
use std::time::Duration;

use git_agent_tests::{Repo, Sandbox, wait_until};

fn with_a_commit(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    repo.write("a", "1\n");
    repo.commit("one");
    repo
}

fn start(repo: &Repo<'_>, name: &str, level: &str, script: &str) {
    repo.agent(["new", name, "--guard", level, "--", "sh", "-c", script])
        .success();
}

fn wait(repo: &Repo<'_>, name: &str) -> String {
    repo.agent(["wait", name, "--timeout", "100s"]).whatever();
    repo.texts(name, "output").join("\n")
}

#[test]
fn a_refusal_is_told_with_the_setting_that_allows_it() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    let home = sandbox.home();
    fs::create_dir_all(home.join(".ssh")).expect("made");
    fs::write(home.join(".ssh/id"), "PRIVATE").expect("written");
    let script = "echo x > \"$HOME/new\" || cat \"$HOME/.ssh/id\" || echo \"$HOME/fine\"";
    start(&repo, "work", "cell", script);
    let said = wait(&repo, "work");
    assert!(!said.contains("PRIVATE") && said.contains("fine"), "{said}");
    let told = repo.texts("work", "notice").join("\n");
    for (path, setting) in [("new", "agent.writable"), (".ssh/id", "agent.readable")] {
        let path = home.join(path).display().to_string();
        let line = told.lines().find(|line| line.contains(&path));
        let line = line.unwrap_or_else(|| panic!("{path}: {told}"));
        assert!(line.contains(setting), "{line}");
    }
    assert_eq!(repo.session("work")["refused"], 2);
    let shown = repo.agent(["show", "work"]).success();
    assert!(shown.stdout().contains("refused 2 paths"), "{shown}");
}

#[test]
fn an_agent_in_a_cell_has_tools_and_artifacts() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    let home = sandbox.home();
    fs::create_dir_all(home.join(".ssh")).expect("made");
    fs::write(home.join(".ssh/id"), "PRIVATE").expect("written");
    start(
        &repo,
        "work",
        "cell",
        "printf 'a\\0b' > api.bin; git agent artifact put api.bin; echo text | git agent artifact put spec -; \
         git agent artifact put stolen \"$HOME/.ssh/id\"; git agent artifact get spec; \
         echo '{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}' | git agent mcp; \
         printf 'one\\ntwo\\n' | while read -r line; do git agent list >/dev/null; echo \"loop $line\"; done",
    );
    let said = wait(&repo, "work");
    for words in ["text", "\"id\":7", "progress", "loop one", "loop two"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let listed = repo.agent(["artifact", "list", "--json"]).success().json();
    let artifacts = listed["artifacts"].as_array().expect("a list").clone();
    let mut names: Vec<&str> = artifacts
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["api.bin", "spec"], "{listed}");
}

#[test]
fn an_agent_without_network_has_only_its_own_loopback() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    repo.git(["config", "agent.network", "off"]).success();
    start(
        &repo,
        "work",
        "cell",
        "sed -n 's/^ *\\([^ :]*\\):.*/device \\1/p' /proc/net/dev; echo end",
    );
    let said = wait(&repo, "work");
    let devices: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("device "))
        .collect();
    // Without namespaces the devices are listed, and sockets refused.
    let report = repo.agent(["doctor", "--json"]).whatever().json();
    let by = report["guard"][2]["by"].to_string();
    assert!(
        devices == ["lo"] || !by.contains("user namespaces"),
        "{said}"
    );
    assert!(said.contains("end"), "{said}");
    start(&repo, "open", "refs", "true");
    wait(&repo, "open");
    let told = repo.session("open").to_string();
    assert!(told.contains("agent.network is 'off'"), "{told}");
}

#[test]
fn too_many_processes_and_too_much_disk_end_a_turn() {
    let sandbox = Sandbox::new();
    for (setting, value, level, script, words) in [
        (
            "agent.maxProcesses",
            "20",
            "cell",
            "for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8; do sleep 600 & done; done; wait",
            "over the limit of 20 processes",
        ),
        (
            "agent.maxDisk",
            "4m",
            "refs",
            "head -c 20000000 /dev/zero > big; sleep 600",
            "over the disk limit of 4 MiB",
        ),
    ] {
        let repo = sandbox.repo(setting).create();
        repo.write("a", "1\n");
        repo.commit("one");
        repo.git(["config", setting, value]).success();
        start(&repo, "work", level, script);
        wait(&repo, "work");
        assert_eq!(repo.state("work"), "failed");
        let told = repo.session("work").to_string();
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn tests_of_a_merge_run_in_a_room() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    start(
        &repo,
        "work",
        "cell",
        "echo x > own; git add own; git commit -qm own",
    );
    wait(&repo, "work");
    let main = repo.path().display().to_string();
    let test = format!(
        "test -e own || exit 3; echo x > \"$HOME/escaped\"; git -C '{main}' branch evil; \
         git commit -q --allow-empty -m inside && git log -1 --format=%s; echo x > \"$TMPDIR/fine\" || exit 4; true"
    );
    repo.git(["config", "agent.test", &test]).success();
    repo.git(["config", "agent.mergeStrategy", "auto"])
        .success();
    repo.agent(["merge", "--into", "main", "work"]).success();
    assert_eq!(repo.state("work"), "merged");
    assert!(!sandbox.home().join("escaped").exists());
    let branches = repo.refs("refs/heads/");
    assert!(
        !branches.keys().any(|name| name.contains("evil")),
        "{branches:?}"
    );
    let cells = fs::read_dir(repo.common_dir().join("agents/cells")).expect("there");
    let left: Vec<String> = cells
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("test-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let logs = fs::read_dir(repo.common_dir().join("agents/merge/tests")).expect("there");
    let log: String = logs
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "log"))
        .map(|entry| fs::read_to_string(entry.path()).expect("a log"))
        .collect();
    assert!(log.contains("inside"), "{log}");
    repo.assert_whole();
}

/// A short form of the runs by hand, which kill at random moments.
#[test]
fn a_killed_supervisor_loses_nothing() {
    let sandbox = Sandbox::new();
    let repo = with_a_commit(&sandbox);
    for round in 0..6 {
        let name = format!("work{round}");
        start(
            &repo,
            &name,
            "cell",
            "for i in 1 2 3 4 5 6 7 8; do echo $i > f$i; git add f$i; git commit -qm \"commit $i\"; echo $i > done; done; \
             sleep 600",
        );
        let note = || {
            let notes = fs::read_dir(repo.common_dir().join("agents/run")).ok()?;
            let note = notes
                .flatten()
                .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
                .max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok())?;
            let note = fs::read_to_string(note.path()).ok()?;
            let note: serde_json::Value = serde_json::from_str(&note).ok()?;
            note["supervisor"]["pid"].as_i64()
        };
        wait_until("the supervisor is noted", || note().is_some());
        std::thread::sleep(Duration::from_millis(120 * round));
        let pid = note().expect("a pid");
        sandbox.sh(format!("kill -9 {pid}")).run().whatever();
        wait_until("the session is at rest", || {
            ["interrupted", "failed"].contains(&repo.state(&name).as_str())
        });
        let branch = format!("agent/{name}");
        if repo
            .git(["rev-parse", "-q", "--verify", &branch])
            .whatever()
            .status()
            .success()
        {
            let worktree = repo.worktree_of(&name);
            let link = fs::read_to_string(worktree.path().join(".git")).expect("a file");
            assert!(link.contains("/worktrees/"), "{link}");
            let done = fs::read_to_string(worktree.path().join("done")).unwrap_or_default();
            let made = repo.git(["log", "--format=%s", &branch]).success();
            if !done.trim().is_empty() {
                let wanted = format!("commit {}", done.trim());
                assert!(
                    made.stdout().contains(&wanted),
                    "{wanted}: {}",
                    made.stdout()
                );
            }
            worktree.git(["status"]).success();
        }
        repo.git(["worktree", "list"]).success();
        repo.agent(["discard", &name]).whatever();
    }
    repo.assert_whole();
}
