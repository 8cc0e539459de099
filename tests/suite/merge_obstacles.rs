//! What is in the way of a merge: each either lands or stops with one clear message and everything as it was.

use git_agent_tests::process::wait_until;
use git_agent_tests::{Repo, Sandbox};

use crate::merge_land::{lab, session, state, word};

/// A lab with a session that changes `app` and adds `new` and `n.ignored`.
fn changed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = lab(sandbox);
    session(
        &repo,
        "fix",
        &[
            "write app changed",
            "write new file",
            "write n.ignored file",
            "git add -f n.ignored",
            "commit x",
        ],
    );
    repo
}

/// Asserts that a merge stops with these words and changes nothing.
#[track_caller]
fn stops(repo: &Repo<'_>, words: &str) {
    let before = (state(repo), repo.refs("refs/heads"));
    let stopped = repo.agent(["merge", "fix"]).failure();
    let said = format!("{}{}", stopped.stdout(), stopped.stderr());
    assert!(said.contains(words), "'{words}' is not in\n{stopped}");
    let complaints = said.lines().filter(|line| line.starts_with("fatal: "));
    assert!(complaints.count() <= 1, "{stopped}");
    assert_eq!((state(repo), repo.refs("refs/heads")), before);
    assert_eq!(repo.state("fix"), "ready");
    repo.assert_nothing_left_over();
}

#[test]
fn files_of_the_user_in_the_way_stop_it() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.write("app", "of the user\n");
    stops(&repo, "'app' in");
    repo.git(["add", "app"]).success();
    stops(&repo, "'app'");
    repo.git(["reset", "--quiet", "--hard"]).success();
    repo.write("new", "of the user\n");
    stops(&repo, "'new'");
    std::fs::remove_file(repo.path().join("new")).expect("it is there");
    repo.write("n.ignored", "of the user\n");
    stops(&repo, "'n.ignored'");
    std::fs::remove_file(repo.path().join("n.ignored")).expect("it is there");
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("n.ignored"), b"file\n");
}

#[test]
fn a_file_may_take_the_place_of_a_directory_but_not_of_what_nobody_committed_in_it() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("d/inside", "x\n");
    repo.git(["add", "."]).success();
    repo.git(["commit", "--quiet", "--message", "a directory"])
        .success();
    let steps = [
        "git rm -rq d",
        "write d file",
        "write e/new file",
        "commit x",
    ];
    session(&repo, "fix", &steps);
    repo.write("d/n.ignored", "of the user\n");
    stops(&repo, "'d/n.ignored'");
    std::fs::remove_file(repo.path().join("d/n.ignored")).expect("it is there");
    repo.write(".git/info/exclude", "/e\n");
    repo.write("e", "of the user\n");
    stops(&repo, "'e'");
    std::fs::remove_file(repo.path().join("e")).expect("it is there");
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("d"), b"file\n");
    assert_eq!(repo.read("e/new"), b"file\n");
    repo.agent(["merge", "--undo"]).success();
    assert_eq!(repo.read("d/inside"), b"x\n");
}

#[test]
fn files_of_the_user_elsewhere_stay_as_they_are() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.write("other", "dirty\n");
    repo.write("untracked", "of the user\n");
    repo.write("staged", "of the user\n");
    repo.git(["add", "staged"]).success();
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.read("app"), b"changed\n");
    assert_eq!(repo.read("other"), b"dirty\n");
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), " M other\nA  staged\n?? untracked\n");
    repo.agent(["merge", "--undo"]).success();
    let status = repo.git(["status", "--porcelain"]).success();
    assert_eq!(status.stdout(), " M other\nA  staged\n?? untracked\n");
    assert_eq!(repo.read("app"), b"one\ntwo\nthree\n");
}

#[test]
fn a_checkout_in_another_worktree_is_treated_alike() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(["switch", "--quiet", "--detach"]).success();
    let other = sandbox.work().join("other");
    repo.command("git")
        .args(["worktree", "add", "--quiet"])
        .arg(&other)
        .arg("main")
        .run()
        .success();
    let other = Repo::open(&sandbox, other);
    other.write("app", "dirty\n");
    let before = state(&other);
    let stopped = repo.agent(["merge", "--into", "main", "fix"]).code(128);
    stopped.assert_says("'app' in");
    assert_eq!(state(&other), before);
    other.git(["checkout", "--quiet", "app"]).success();
    repo.agent(["merge", "--into", "main", "fix"]).success();
    assert_eq!(other.read("app"), b"changed\n");
    assert_eq!(repo.read("app"), b"one\ntwo\nthree\n");
    other
        .git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
}

#[test]
fn something_under_way_stops_it() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(["switch", "--quiet", "--create", "side"])
        .success();
    repo.write("other", "side\n");
    repo.commit("side");
    repo.git(["switch", "--quiet", "main"]).success();
    repo.git(["merge", "--quiet", "--no-ff", "--no-commit", "side"])
        .success();
    stops(&repo, "a merge is in progress");
    repo.git(["merge", "--abort"]).success();
    repo.write(".git/index.lock", "");
    let before = repo.id("main");
    repo.agent(["merge", "fix"])
        .code(128)
        .assert_says("another git command");
    assert_eq!(repo.id("main"), before);
    std::fs::remove_file(repo.path().join(".git/index.lock")).expect("it is there");
    repo.agent(["merge", "fix"]).success();
}

fn hook(repo: &Repo<'_>, name: &str, script: &str) {
    let dir = repo.path().join(".git/hooks");
    std::fs::create_dir_all(&dir).expect("writable");
    git_agent_tests::sandbox::write_program(&dir.join(name), script);
}

#[test]
fn hooks_run_as_for_a_merge_and_may_refuse() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    for name in ["pre-merge-commit", "commit-msg", "prepare-commit-msg"] {
        hook(&repo, name, "#!/bin/sh\necho no way\nexit 1\n");
        stops(&repo, "no way");
        std::fs::remove_file(repo.path().join(".git/hooks").join(name)).expect("it is there");
    }
    hook(
        &repo,
        "reference-transaction",
        "#!/bin/sh\nwhile read old new name; do case \"$1:$name\" in prepared:refs/heads/main) echo protected >&2; exit 1;; esac; done\n",
    );
    stops(&repo, "protected");
    std::fs::remove_file(repo.path().join(".git/hooks/reference-transaction")).expect("there");
    let log = sandbox.root().join("home/hooks.log");
    let note = |what: &str| format!("#!/bin/sh\n{{ {what}; }} >>'{}'\n", log.display());
    hook(
        &repo,
        "pre-merge-commit",
        &note("cat app new; git diff --cached --name-only HEAD"),
    );
    hook(
        &repo,
        "commit-msg",
        "#!/bin/sh\necho 'Change-Id: I1234' >>\"$1\"\n",
    );
    hook(&repo, "post-merge", &note("echo post $1"));
    repo.agent(["merge", "fix"]).success();
    let seen = std::fs::read_to_string(&log).expect("the hooks ran");
    assert_eq!(seen, "changed\nfile\napp\nn.ignored\nnew\npost 0\n");
    let message = repo.git(["log", "-1", "--format=%B", "main"]).success();
    assert!(
        message.stdout().contains("\nChange-Id: I1234\n"),
        "{message}"
    );
    repo.assert_nothing_left_over();
}

#[test]
fn a_branch_that_somebody_moves_meanwhile_is_planned_again() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    let (once, go) = (
        sandbox.root().join("home/once"),
        sandbox.root().join("home/go"),
    );
    // Somebody commits while the tests run, once.
    let script = format!(
        "test -e '{0}' || {{ touch '{0}'; fake-agent 'until {1}'; }}",
        once.display(),
        word(&go)
    );
    let merging = repo.agent_cmd(["merge", "--test", &script, "fix"]).spawn();
    wait_until("the tests run", || once.exists());
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "meanwhile"])
        .success();
    std::fs::write(&go, "").expect("writable");
    let shown = merging.wait().success();
    shown.assert_says("planning again");
    let subjects = repo
        .git(["log", "--first-parent", "--format=%s", "main"])
        .success();
    assert_eq!(subjects.lines()[1], "meanwhile");
    assert_eq!(repo.state("fix"), "merged");
    repo.git(["status", "--porcelain"])
        .success()
        .assert_stdout("");
}

#[test]
fn nonsense_is_refused_in_words() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(["tag", "v1"]).success();
    let before = state(&repo);
    for (args, words) in [
        (&["merge", "--into", "nowhere"][..], "no branch 'nowhere'"),
        (&["merge", "--into", "v1"], "'v1' is a tag"),
        (&["merge", "--into=-x"], "no branch '-x'"),
        (&["merge", "--into", "main", "nobody"], "nobody"),
        (&["merge", "--apply"], "exactly one session"),
        (&["merge", "--pick", "fix"], "in no group"),
        (&["merge", "--continue"], "no interrupted merge"),
        (&["merge", "--abort"], "no interrupted merge"),
        (&["merge", "--squash", "--rebase"], "cannot be used with"),
        (
            &["merge", "queue", "add", "--into", "nowhere", "fix"],
            "no branch 'nowhere'",
        ),
    ] {
        repo.agent(args).failure().assert_says(words);
        assert_eq!(state(&repo), before, "{args:?}");
    }
    repo.git(["checkout", "--quiet", "--orphan", "island"])
        .success();
    repo.commit("alone");
    let refused = repo.agent(["merge", "--into", "island", "fix"]).code(1);
    assert!(refused.stdout().contains("no history"), "{refused}");
    repo.git(["switch", "--quiet", "main"]).success();
    let until = sandbox.root().join("home/go");
    repo.new_session(
        "busy",
        &[],
        &[&format!("until {}", word(&until)), "print done"],
    );
    repo.await_state("busy", "running");
    let refused = repo.agent(["merge", "busy"]).code(1);
    assert!(refused.stdout().contains("at work"), "{refused}");
    std::fs::write(&until, "").expect("writable");
    repo.await_state("busy", "ready");
}

#[test]
fn conflicts_without_lines_are_conflicts() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write("blob", b"\0\x01one");
    repo.commit("a binary");
    session(
        &repo,
        "fix",
        &["git rm -q blob", "write blob \\0two", "commit x"],
    );
    repo.write("blob", b"\0\x01three");
    repo.commit("ours");
    let before = state(&repo);
    let refused = repo.agent(["merge", "fix"]).code(1);
    assert!(refused.stdout().contains("conflict in 'blob'"), "{refused}");
    assert_eq!(state(&repo), before);
}

#[test]
fn a_submodule_that_both_moved_is_a_conflict() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    // Links to commits that do not follow each other: git cannot choose, and needs no clone to see that.
    let link = |repo: &Repo<'_>, digit: &str| {
        let entry = format!("160000,{},sub", digit.repeat(repo.id("HEAD").len()));
        repo.git(["update-index", "--add", "--cacheinfo", &entry])
            .success();
        repo.git(["commit", "--quiet", "--message", "move sub"])
            .success();
    };
    link(&repo, "1");
    session(&repo, "fix", &["write app changed", "commit x"]);
    link(&repo.worktree_of("fix"), "2");
    link(&repo, "3");
    let before = (repo.id("main"), repo.read("app"));
    let refused = repo.agent(["merge", "fix"]).code(1);
    assert!(refused.stdout().contains("conflict in 'sub'"), "{refused}");
    assert_eq!((repo.id("main"), repo.read("app")), before);
}

#[test]
fn commits_are_signed_as_the_user_signs() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    let signer = sandbox.program(
        "signer",
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\necho '-----END PGP SIGNATURE-----'\n",
    );
    repo.command("git")
        .args(["config", "gpg.program"])
        .arg(&signer)
        .run()
        .success();
    repo.git(["config", "commit.gpgSign", "true"]).success();
    // The sandbox's own settings, which outrank the repository's, sign nothing.
    repo.agent_cmd(["merge", "fix"])
        .env("GIT_CONFIG_COUNT", "0")
        .run()
        .success();
    let commit = repo.git(["cat-file", "commit", "main"]).success();
    assert!(commit.stdout().contains("\ngpgsig "), "{commit}");
}

#[test]
fn a_commit_without_a_good_signature_stays_out_where_signatures_are_verified() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(["config", "merge.verifySignatures", "true"])
        .success();
    let before = state(&repo);
    let refused = repo.agent(["merge", "fix"]).code(1);
    assert!(refused.stdout().contains("no good signature"), "{refused}");
    assert_eq!(state(&repo), before);
    repo.git(["merge", "--no-edit", "agent/fix"]).failure();
    repo.git(["config", "merge.verifySignatures", "false"])
        .success();
    repo.agent(["merge", "fix"]).success();
}

#[test]
fn drivers_and_messages_are_as_the_user_configured_them() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.write(".gitattributes", "app merge=both\n");
    repo.commit("attributes");
    // Keeps the lines of both sides, and says so: no merge without the driver gives that.
    let driver = sandbox.program(
        "driver",
        "#!/bin/sh\nset -e\n{ cat \"$2\"; echo \"driver ran for $4\"; cat \"$3\"; } >\"$2.new\"\nmv \"$2.new\" \"$2\"\n",
    );
    let driver = format!("'{}' %O %A %B %P", driver.display());
    repo.git(["config", "merge.both.driver", &driver]).success();
    repo.git(["config", "merge.log", "true"]).success();
    session(
        &repo,
        "fix",
        &["write app theirs", "commit app: say theirs"],
    );
    repo.write("app", "ours\n");
    repo.commit("ours");
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "agent/fix"])
        .success();
    let (tree, said) = (
        repo.id("HEAD^{tree}"),
        repo.git(["log", "-1", "--format=%b"]).success(),
    );
    repo.git(["reset", "--quiet", "--hard", "HEAD^1"]).success();
    repo.agent(["merge", "fix"]).success();
    assert_eq!(repo.id("HEAD^{tree}"), tree);
    assert_eq!(repo.read("app"), b"ours\ndriver ran for app\ntheirs\n");
    let message = repo.git(["log", "-1", "--format=%b"]).success();
    assert!(
        message.stdout().contains(said.stdout().trim()),
        "{message} lacks {said}"
    );
    assert!(message.stdout().contains("app: say theirs"), "{message}");
}

#[test]
fn who_merges_into_another_branch_hears_where_the_sessions_come_from() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(["branch", "dev"]).success();
    let before = repo.refs("refs/heads");
    let nothing = repo.agent(["merge", "--into", "dev"]).success();
    assert!(nothing.stdout().contains("it was made from 'main'"));
    nothing.assert_says("git agent merge --into main fix");
    assert_eq!(repo.refs("refs/heads"), before);
    repo.agent(["merge", "--abort"])
        .code(128)
        .assert_says("take the last one back");
    repo.agent(["merge", "--into", "dev", "fix"]).success();
    assert_eq!(repo.state("fix"), "merged");
}

#[test]
fn a_repository_whose_path_is_not_utf8_is_merged_in_and_undone() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let path = sandbox
        .work()
        .join(std::ffi::OsStr::from_bytes(b"odd\xff/also \xfe"));
    sandbox
        .command("git")
        .args(["init", "--quiet"])
        .arg(&path)
        .run()
        .success();
    let repo = Repo::open(&sandbox, path);
    repo.write("a", "a\n");
    repo.commit("a");
    let refused = repo
        .agent(["new", "--name", "s", "--", "echo x >x"])
        .code(128);
    refused.assert_says("is not UTF-8");
    refused.assert_says("git config agent.worktreeDir");
    let trees = sandbox.work().join("trees").display().to_string();
    repo.git(["config", "agent.worktreeDir", &trees]).success();
    let script = "echo work >work && git add work && git commit -qm work && echo more >more";
    repo.agent(["new", "--name", "s", "--", script]).success();
    repo.agent(["wait", "s"]).success();
    for verb in [
        vec!["list"],
        vec!["show", "s"],
        vec!["log", "s"],
        vec!["review", "diff", "s"],
        vec!["clean", "s"],
        vec!["restore", "s"],
        vec!["review", "approve", "s"],
        vec!["doctor"],
        vec!["merge", "--yes", "s"],
    ] {
        repo.agent(verb).success();
    }
    assert_eq!(repo.read("work"), b"work\n");
    repo.agent(["merge", "--undo"]).success();
    assert!(!repo.path().join("work").exists());
}
