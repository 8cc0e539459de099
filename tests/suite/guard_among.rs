//! The ref guard among others: the repository's own hooks, other repositories, sessions in sessions, and what it costs.

use std::fs;

use git_agent_tests::sandbox::write_program;
use git_agent_tests::{Git, Sandbox};

use crate::guard::{OWN, World, each_git};

#[test]
fn the_repository_s_own_hooks_still_run() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r it's [odd]");
        let seen = sandbox.root().join("seen");
        let note = format!(
            "#!/bin/sh\necho \"$(basename \"$0\") $#\" >>'{}'\n",
            seen.display()
        );
        let hooks = world.main.common_dir().join("hooks");
        fs::create_dir_all(&hooks).expect("the repository is writable");
        for name in [
            "pre-commit",
            "commit-msg",
            "post-commit",
            "post-checkout",
            "post-rewrite",
        ] {
            write_program(&hooks.join(name), &note);
        }
        write_program(
            &hooks.join("reference-transaction"),
            &format!(
                "#!/bin/sh\nwhile read -r old new ref; do echo \"$1 $ref\" >>'{}'; done\n",
                seen.display()
            ),
        );
        fs::write(hooks.join("pre-rebase"), "#!/bin/sh\nexit 1\n")
            .expect("written, but not to be run");
        let commit = ["git", "commit", "-q", "--allow-empty", "-m", "x"];
        world.allowed(&commit);
        let text = || fs::read_to_string(&seen).unwrap_or_default();
        for line in [
            "pre-commit 0",
            "commit-msg 1",
            "post-commit 0",
            "prepared refs/heads/agent/fix",
            "committed refs/heads/agent/fix",
        ] {
            assert!(
                text().lines().any(|seen| seen == line),
                "{git}: {line}\n{}",
                text()
            );
        }
        world.allowed(&["git", "rebase", "-q", "main"]);
        // Their verdict counts, whether they read their input or not, with a first line or without.
        write_program(
            &hooks.join("pre-commit"),
            "echo nothing without a ticket >&2; exit 7\n",
        );
        world
            .guarded(&commit)
            .failure()
            .assert_says("nothing without a ticket");
        fs::remove_file(hooks.join("pre-commit")).expect("removed");
        write_program(&hooks.join("reference-transaction"), "#!/bin/sh\nexit 1\n");
        world.guarded(&commit).failure();
        fs::remove_dir_all(&hooks).expect("removed");
        // As husky does: a path of the repository's own, relative to the top, set in the middle of a session.
        fs::remove_file(&seen).expect("removed");
        let script = "git config core.hooksPath .husky/_ && git commit -q --allow-empty -m y";
        fs::create_dir_all(world.wt.path().join(".husky/_")).expect("the worktree is writable");
        write_program(&world.wt.path().join(".husky/_/pre-commit"), &note);
        world.allowed(&["sh", "-c", script]);
        assert_eq!(text(), "pre-commit 0\n", "{git}");
        world.refused(&["git", "branch", "new"]);
        world.refused(&["git", "push", "-q", ".", "HEAD:pushed"]);
        // There the far end of a push sees the repository's setting only; what it did is found afterwards.
        let seen = world.watched(&["git", "push", "-q", "--no-verify", ".", "HEAD:pushed"]);
        assert!(
            seen.iter()
                .any(|line| line.starts_with("refs/heads/pushed: - ->")),
            "{git}: {seen:?}"
        );
        // The same path through an included file.
        let included = sandbox.root().join("included");
        fs::write(&included, "[core]\n\thooksPath = .husky/_\n").expect("written");
        world
            .main
            .git(["config", "--unset", "core.hooksPath"])
            .success();
        world
            .main
            .command("git")
            .args(["config", "include.path"])
            .arg(&included)
            .run()
            .success();
        world.guarded(&commit).success();
        assert_eq!(text(), "pre-commit 0\npre-commit 0\n", "{git}");
        // And the user's own, when the repository has none.
        world
            .main
            .git(["config", "--unset", "include.path"])
            .success();
        fs::write(sandbox.global_config(), "[core]\n\thooksPath = .husky/_\n").expect("written");
        world.guarded(&commit).success();
        assert_eq!(text().lines().count(), 3, "{git}");
    });
}

#[test]
fn a_hook_that_comes_in_the_middle_is_not_passed_over() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let hooks = world.main.common_dir().join("hooks");
        let commit = "git commit -q --allow-empty -m x";
        for (name, come) in [
            ("pre-commit", "cp hook \"$HOOKS/pre-commit\""),
            (
                "commit-msg",
                "cp hook .husky/commit-msg && git config core.hooksPath .husky",
            ),
        ] {
            fs::create_dir_all(world.wt.path().join(".husky")).expect("the worktree is writable");
            fs::create_dir_all(&hooks).expect("the repository is writable");
            write_program(
                &world.wt.path().join("hook"),
                "#!/bin/sh\necho nothing without a ticket >&2; exit 7\n",
            );
            let script = format!(
                "HOOKS='{}'; {commit} || exit 3; {come} && {commit} || {{ echo again >&2; {commit}; }}",
                hooks.display()
            );
            let seen = world.guarded(&["sh", "-c", &script]).failure();
            let said = seen.stderr();
            let (first, second) = said.split_once("again").expect("the first was refused");
            let new = format!("this repository has new hooks, which did not run: {name}");
            assert!(first.contains(&new), "{git}: {said}");
            assert!(second.contains("nothing without a ticket"), "{git}: {said}");
            fs::remove_dir_all(&hooks).expect("removed");
        }
    });
}

#[test]
fn other_repositories_are_left_alone() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        fs::write(
            sandbox.global_config(),
            "[user]\n\tname = The User\n[init]\n\tdefaultBranch = trunk\n",
        )
        .expect("written");
        let script = "
            set -e
            git init -q '../fixture' && cd ../fixture
            git commit -q --allow-empty -m 1 && git branch b && git tag t && git checkout -q b
            test -z \"$(git config core.hooksPath)\"
            test \"$(git symbolic-ref HEAD)\" = refs/heads/b
            git rev-parse -q --verify refs/heads/trunk
            mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch ran\\n' >.git/hooks/post-commit && chmod +x .git/hooks/post-commit
            git commit -q --allow-empty -m 2 && test -e ran
            git clone -q . ../cloned && git -C ../cloned tag t2
            echo x >x && git add x && git stash -q";
        world.allowed(&["sh", "-c", script]);
        // What an agent sets for itself does not reach its user.
        world.allowed(&["git", "config", "--global", "user.name", "Agent"]);
        let config = fs::read_to_string(sandbox.global_config()).expect("readable");
        assert!(
            config.contains("The User") && !config.contains("Agent"),
            "{config}"
        );
    });
}

#[test]
fn a_submodule_is_another_repository() {
    let sandbox = Sandbox::new();
    let world = World::new(&sandbox, Git::under_test(), "r");
    let library = sandbox.repo("library").create();
    library.commit("one");
    world
        .wt
        .command("git")
        .args(["submodule", "--quiet", "add"])
        .arg(library.path())
        .arg("lib")
        .run()
        .success();
    world.allowed(&["sh", "-c", "git commit -qm sub && cd lib && git switch -qc topic && git commit -q --allow-empty -m x && git tag t"]);
}

#[test]
fn sessions_inside_sessions_have_one_guard_each() {
    let sandbox = Sandbox::new();
    let world = World::new(&sandbox, Git::under_test(), "r");
    let script = "cd '../r side' && guarded --own refs/heads/side git commit -q --allow-empty -m x && git update-ref refs/heads/side HEAD~1";
    let seen = world.guarded(&["sh", "-c", script]).failure();
    seen.assert_says("this session may move only 'agent/fix', 'agent/fix-parts/', not 'side'");
    assert_eq!(
        world
            .main
            .git(["log", "-1", "--format=%s", "side"])
            .success()
            .line(),
        "x"
    );
    // The library reads the same configuration, and opens a repository whose path has signs of its own meaning.
    let world = World::new(&sandbox, Git::under_test(), "r=[x] it's *odd*\nname");
    world.refused(&["git", "branch", "new"]);
    world.allowed(&["git", "commit", "-q", "--allow-empty", "-m", "x"]);
    world.agent(&["--own", OWN, "--open"], &[]).run().success();
}

#[test]
fn a_lost_variable_closes_the_guard() {
    let sandbox = Sandbox::new();
    let world = World::new(&sandbox, Git::under_test(), "r");
    let script = "unset GIT_AGENT_GUARD GIT_AGENT_GUARD_COMMON; git commit -q --allow-empty -m x";
    world
        .guarded(&["sh", "-c", script])
        .failure()
        .assert_says("'GIT_AGENT_GUARD' is not set");
    // Tools that hide secrets from what they start drop such names.
    let script = "for name in $(env | sed -n 's/^\\([A-Z_0-9]*KEY[A-Z_0-9]*\\)=.*/\\1/p'); do unset $name; done; unset GIT_CONFIG_COUNT; git branch new";
    world.refused(&["sh", "-c", script]);
}

/// Prepares `commits`, which makes 20 commits, prints how many milliseconds they took, and passes exit codes on.
const COMMITS: &str = "
    commits() {
        begun=$(date +%s%N)
        for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            git commit -q --allow-empty -m $n || exit
        done
        echo $((($(date +%s%N) - begun) / 1000000))
    }
";

#[test]
fn a_commit_starts_our_program_a_few_times_only() {
    each_git(|git, sandbox| {
        let world = World::new(sandbox, git, "r");
        let starts = sandbox.work().join("starts");
        // The program's copy is replaced by one that takes notes, until the next session repairs it.
        let script = format!(
            "{COMMITS}
            dir=$(git config core.hooksPath) && mv \"$dir/git-agent\" \"$dir/real\" || exit
            printf '#!/bin/sh\\necho \"$2 $3\" >>\"{}\"\\nexec \"${{0%%/*}}/real\" \"$@\"\\n' >\"$dir/git-agent\"
            chmod +x \"$dir/git-agent\" && commits && git branch new",
            starts.display()
        );
        let run = world.guarded(&["sh", "-c", &script]).failure();
        run.assert_says("this session may move only");
        let starts = fs::read_to_string(starts).expect("the program was started");
        // One transaction of a commit moves the branch, another removes what an earlier merge left.
        let prepared = |line: &str| line == "reference-transaction prepared";
        assert!(
            (21..=60).contains(&starts.lines().count()) && starts.lines().all(prepared),
            "{git}: 20 commits and a branch\n{starts}"
        );
    });
}
