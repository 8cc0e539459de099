//! The ref guard: what an agent's git may move, what it may not, and what the guard can't see.
//!
//! Everything is tried with every git on PATH: what a hook is told differs between versions.

use std::fs;
use std::path::PathBuf;

use git_agent_tests::{Cmd, Git, RefFormat, Repo, Run, Sandbox};

pub const BRANCH: &str = "agent/fix";
pub const OWN: &str = "refs/heads/agent/fix";
pub const PARTS: &str = "refs/heads/agent/fix-parts/";

/// A repository with `main`, `side` (in a worktree of its own) and a session's worktree, all run by one git.
pub struct World<'a> {
    pub git: &'static Git,
    pub main: Repo<'a>,
    pub wt: Repo<'a>,
    pub side: Repo<'a>,
}

impl<'a> World<'a> {
    pub fn new(sandbox: &'a Sandbox, git: &'static Git, name: &str) -> Self {
        let main = sandbox.repo(name).create();
        main.write("a", "1\n");
        main.commit("one");
        main.write("a", "2\n");
        main.commit("two");
        main.git(["branch", "other", "HEAD~1"]).success();
        let wt = main.worktree(format!("{name} wt"), BRANCH);
        let side = main.worktree(format!("{name} side"), "side");
        World {
            git,
            main,
            wt,
            side,
        }
    }

    /// Returns a command of the agent.
    pub fn agent(&self, options: &[&str], command: &[&str]) -> Cmd {
        self.wt
            .command("guarded")
            .path_first(self.git.toolbox())
            .args(options)
            .args(command)
    }

    pub fn guarded(&self, command: &[&str]) -> Run {
        self.agent(&["--own", OWN, "--own", PARTS], command).run()
    }

    pub fn watched(&self, command: &[&str]) -> Vec<String> {
        let run = self
            .agent(&["--own", OWN, "--watch"], command)
            .run()
            .whatever();
        run.stdout()
            .lines()
            .filter(|line| line.ends_with(')'))
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    pub fn allowed(&self, command: &[&str]) {
        let seen = self.guarded(command).whatever();
        assert!(
            seen.status().success() && !seen.stderr().contains("git-agent:"),
            "{}: should be allowed\n{seen}",
            self.git
        );
    }

    /// Runs what must be refused, with our message, and change no ref.
    #[track_caller]
    pub fn refused(&self, command: &[&str]) -> String {
        let before = self.state();
        let seen = self.guarded(command).whatever();
        assert!(
            !seen.status().success() && seen.stderr().contains("git-agent: this session may"),
            "{}: should be refused\n{seen}",
            self.git
        );
        assert_eq!(self.state(), before, "{}: {command:?}", self.git);
        seen.stderr().to_owned()
    }

    pub fn state(&self) -> (std::collections::BTreeMap<String, String>, String) {
        let worktrees = self.main.git(["worktree", "list", "--porcelain"]).success();
        (self.main.refs(""), worktrees.stdout().to_owned())
    }

    pub fn log(&self) -> PathBuf {
        self.main.common_dir().join("agents/guarded/refused")
    }
}

pub fn each_git(test: impl Fn(&'static Git, &Sandbox)) {
    let reftable =
        std::env::var_os("GIT_DEFAULT_REF_FORMAT").is_some_and(|name| name == "reftable");
    for git in Git::all() {
        if !reftable || git.has_reftable() {
            test(git, &Sandbox::new());
        }
    }
}

#[test]
fn a_session_works_on_its_own_branch_as_ever() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let origin = world.main.clone_to("origin", &["--bare"]);
        let url = origin.path().to_str().expect("a plain path");
        world.main.git(["remote", "add", "origin", url]).success();
        origin.git(["tag", "brought", "main"]).success();
        let sh = |script: &str| world.allowed(&["sh", "-c", script]);
        sh("echo x >b && git add b && git commit -qm b");
        sh("echo y >b && git commit -qam b2 --no-verify && git commit -q --amend -m b3");
        sh("git switch -qc agent/fix-parts/one && git commit -q --allow-empty -m c");
        sh("git switch -q agent/fix && git merge -q --no-ff --no-edit agent/fix-parts/one");
        sh("git branch -D agent/fix-parts/one");
        sh("git rebase -q other && git rebase -q -i HEAD~1 && git rebase -q -r main");
        sh(
            "echo z >z && git add z && git commit -qm z && git revert --no-edit HEAD && git cherry-pick HEAD~1 >/dev/null",
        );
        sh("git reset -q --hard HEAD~1 && git reset -q --soft HEAD@{1}");
        sh("git bisect start HEAD main && git bisect reset");
        sh("git switch -q --detach && git commit -q --allow-empty -m d && git switch -q -");
        sh(
            "git fetch -q origin && git rev-parse -q --verify brought && git pull -q --rebase origin main",
        );
        sh(
            "git worktree add -q -b agent/fix-parts/two '../sub wt' && cd '../sub wt' && git commit -q --allow-empty -m s",
        );
        sh(
            "git worktree add -q --detach '../sub detached' main && git worktree remove '../sub detached'",
        );
        sh("git update-ref refs/worktree/mine HEAD && git update-ref -d refs/worktree/mine");
        let log = fs::read_to_string(world.log()).expect("the tag was noted");
        assert!(
            log.contains("refs/tags/brought") && !log.contains("\"refused\":true"),
            "{log}"
        );
        world.main.assert_user_can_work();
    });
}

#[test]
fn everything_else_is_refused() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let sha = world.main.id("main~1");
        world.wt.write("a", "work in progress\n");
        let said = world.refused(&["git", "stash"]);
        assert!(
            said.contains("not 'refs/stash'") && said.contains("git commit -am wip"),
            "{said}"
        );
        assert_eq!(
            world.wt.read("a"),
            b"work in progress\n",
            "the work is still there"
        );
        world.wt.git(["checkout", "-q", "--", "a"]).success();
        let store = concat!("refs/", "agents/sessions/x");
        for command in [
            &["git", "branch", "new"][..],
            &["git", "branch", "-f", "other", "HEAD"],
            &["git", "branch", "-D", "other"],
            &["git", "update-ref", "refs/heads/main", &sha],
            &["git", "update-ref", "-d", "refs/heads/other"],
            &["git", "update-ref", store, "HEAD"],
            &["git", "update-ref", "refs/stash", "HEAD"],
            &[
                "sh",
                "-c",
                "git update-ref refs/heads/other HEAD --no-deref",
            ],
            &[
                "sh",
                "-c",
                "echo create refs/heads/new HEAD | git update-ref --stdin",
            ],
            &["git", "fetch", "-q", ".", "HEAD:new"],
            &["git", "tag", "v1"],
            &["git", "tag", "-a", "-m", "x", "v1"],
            &["git", "notes", "add", "-m", "x"],
            &["git", "replace", "HEAD", "HEAD~1"],
            &[
                "sh",
                "-c",
                "printf 'commit refs/heads/new\\ncommitter a <b> 1 +0000\\ndata 1\\nx\\n' | git fast-import --quiet",
            ],
            &["git", "checkout", "-q", "-B", "other"],
            &["git", "switch", "-q", "-c", "new"],
            &["git", "-C", "../r side", "reset", "-q", "--hard", "HEAD~1"],
            &[
                "git",
                "-C",
                "../r",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
            &["git", "push", "-q", ".", "HEAD:new"],
            &["git", "push", "-q", ".", "HEAD:other", "--no-verify"],
            &["git", "push", "-q", "-f", "../r", "HEAD:other"],
        ] {
            world.refused(command);
        }
        if world.main.ref_format() == RefFormat::Files {
            // Packing looks like moving everything. That is why git must not begin it by itself.
            world.refused(&["git", "gc", "--quiet"]);
            world.refused(&["git", "pack-refs", "--all"]);
        }
        // HEAD may be pointed elsewhere where git asks no hook, but nothing can be committed there.
        let head = [
            "sh",
            "-c",
            "git symbolic-ref HEAD refs/heads/other && git commit -q --allow-empty -m x",
        ];
        let other = world.main.id("other");
        world
            .guarded(&head)
            .failure()
            .assert_says("git-agent: this session may");
        assert_eq!(world.main.id("other"), other);
        world.wt.git(["symbolic-ref", "HEAD", OWN]).success();
        let log = fs::read_to_string(world.log()).expect("refusals are noted");
        let notes: Vec<serde_json::Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("a note is JSON"))
            .collect();
        assert!(notes.len() >= 22, "{log}");
        assert_eq!(notes[0]["refs"][0]["name"], "refs/stash");
        world.main.assert_user_can_work();
    });
}

#[test]
fn leaving_the_branch_is_refused_or_said() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        // The hook learns of symbolic refs since 2.46; before, the checkout has happened when anybody can speak.
        let sees_head = git.version >= (2, 46, 0);
        let command = ["git", "checkout", "-q", "other"];
        if sees_head {
            let said = world.refused(&command);
            assert!(
                said.contains("'HEAD -> other'") && said.contains("git switch --detach other"),
                "{said}"
            );
            world.refused(&["git", "symbolic-ref", "refs/heads/other", OWN]);
        } else {
            let said = world.guarded(&command).failure();
            said.assert_says("is now on 'other'")
                .assert_says("git switch agent/fix");
            let seen = world.watched(&["git", "symbolic-ref", "refs/heads/other", OWN]);
            assert!(
                seen.iter().any(|line| line.starts_with("refs/heads/other:")
                    && line.contains("ref:refs/heads/agent/fix")),
                "{seen:?}"
            );
        }
        // git itself refuses a branch that is checked out elsewhere.
        world.guarded(&["git", "checkout", "-q", "main"]).failure();
    });
}

#[test]
fn a_branch_keeps_its_name_and_its_reflog() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let tip = world.wt.commit("work");
        let reflog = || {
            world
                .main
                .git(["reflog", "--format=%gs", BRANCH])
                .success()
                .stdout()
                .to_owned()
        };
        let before = reflog();
        assert!(before.contains("commit: work"), "{before}");
        for command in [
            ["git", "branch", "-m", "evil"],
            ["git", "branch", "-M", "other"],
        ] {
            if world.main.ref_format() == RefFormat::Files {
                world.refused(&command);
            } else {
                // The whole renaming happens unseen, so it must not stop half-way; it can be taken back.
                let run = world
                    .agent(&["--own", OWN, "--restore"], &command)
                    .run()
                    .success();
                assert!(run.stdout().contains("RenamedFrom"), "{run}");
                assert_eq!(world.main.id(BRANCH), tip);
            }
            assert!(reflog().contains("commit: work"), "{git}: {command:?}");
        }
        world.allowed(&["git", "commit", "-q", "--allow-empty", "-m", "more"]);
        assert_eq!(world.main.id("agent/fix~1"), tip);
    });
}

#[test]
fn a_reader_moves_nothing() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let before = world.state();
        for command in [
            &["git", "commit", "-q", "--allow-empty", "-m", "x"][..],
            &["git", "switch", "-q", "--detach", "HEAD~1"],
            &["git", "update-ref", OWN, "HEAD~1"],
            &["sh", "-c", "echo x >>a && git stash"],
        ] {
            let seen = world.agent(&[], command).run().failure();
            seen.assert_says("may only read");
        }
        assert_eq!(world.state(), before);
        world
            .agent(&[], &["git", "status", "--short"])
            .run()
            .success();
        world
            .agent(&[], &["git", "log", "--oneline"])
            .run()
            .success();
    });
}

#[test]
fn what_the_hook_cannot_see_is_seen_afterwards_and_put_back() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let tip = world.wt.commit("work");
        let start = world.state();
        let other = world.main.id("other");
        let restored = |command: &[&str]| -> Vec<String> {
            let run = world
                .agent(&["--own", OWN, "--restore"], command)
                .run()
                .success();
            run.lines().into_iter().map(str::to_owned).collect()
        };
        // Renamed around the hook: the branch, its reflog and HEAD come back under the old name.
        let rename = [
            "git",
            "-c",
            "core.hooksPath=/dev/null",
            "branch",
            "-M",
            BRANCH,
            "evil",
        ];
        let lines = restored(&rename);
        let renamed = format!("refs/heads/evil: - -> {tip} (RenamedFrom(\"{OWN}\")) Done(None)");
        assert!(lines.contains(&renamed), "{git}: {lines:#?}");
        assert_eq!(world.state(), start, "{git}");
        // Copied over an existing branch: that one is back, what it became is kept.
        let lines = restored(&["git", "branch", "-C", BRANCH, "other"]);
        let copied =
            format!("refs/heads/other: {other} -> {tip} (CopiedFrom(\"{OWN}\")) Done(Some(");
        assert!(
            lines.iter().any(|line| line.starts_with(&copied)),
            "{git}: {lines:#?}"
        );
        assert_eq!(world.main.id("other"), other);
        // Around the hook: deleted, moved, created, pointed elsewhere.
        let off = "git -c core.hooksPath=/dev/null";
        let script = format!(
            "{off} branch -qD other && {off} update-ref refs/tags/new HEAD && {off} update-ref refs/heads/main HEAD~2 &&
             {off} update-ref refs/heads/somebody-known HEAD"
        );
        let main = world.main.id("main");
        let lines = restored(&["sh", "-c", &script]);
        assert_eq!(lines.len(), 3, "{git}: {lines:#?}");
        let moved = format!("refs/heads/main: {main} -> {other} (None) Done(Some(");
        assert!(lines[0].starts_with(&moved), "{lines:#?}");
        assert!(
            lines[1].starts_with(&format!("refs/heads/other: {other} -> - (None) Done(None)")),
            "{lines:#?}"
        );
        assert!(
            lines[2].starts_with("refs/tags/new: - -> ") && lines[2].contains("Done(Some("),
            "{lines:#?}"
        );
        assert_eq!(
            (world.main.id("main"), world.main.id("other")),
            (main, other)
        );
        assert!(world.main.refs("refs/tags").is_empty());
        // A file written by hand, as other libraries would.
        if world.main.ref_format() == RefFormat::Files {
            let lines = world.watched(&[
                "sh",
                "-c",
                "git rev-parse HEAD >\"$(git rev-parse --git-common-dir)/refs/heads/by-hand\"",
            ]);
            assert!(
                lines
                    .iter()
                    .any(|line| line.starts_with("refs/heads/by-hand: - ->")),
                "{lines:?}"
            );
        }
        // A worktree removed, a HEAD moved.
        let lines = world.watched(&["sh", "-c", "git worktree remove -f '../r side'"]);
        assert!(
            lines
                .iter()
                .any(|line| line.contains("r side: ref:refs/heads/side -> - ")),
            "{lines:?}"
        );
        assert!(!world.side.path().exists(), "the guard guards refs only");
        world.main.assert_user_can_work();
    });
}

#[test]
fn a_restore_never_overwrites_a_later_change() {
    let sandbox = Sandbox::new();
    let world = World::new(&sandbox, Git::under_test(), "r");
    // While the change is put back, nothing is lost even of what the change made.
    let off = "git -c core.hooksPath=/dev/null";
    let run = world
        .agent(
            &["--own", OWN, "--restore"],
            &[
                "sh",
                "-c",
                &format!("{off} branch fresh && {off} worktree add -q '../in use' fresh"),
            ],
        )
        .run()
        .success();
    assert!(
        run.stdout().contains("Kept(\"a worktree is on it\")"),
        "{run}"
    );
    assert!(world.main.refs("refs/heads/fresh").len() == 1);
}
