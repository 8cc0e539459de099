//! Completion: what is offered, and that each shell that is here offers it.

use std::path::PathBuf;

use git_agent_tests::toolbox::on_path;
use git_agent_tests::{Repo, Sandbox};

/// A repository with two drafts, which need no process.
fn repo(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("r").create();
    for name in ["alpha", "beta"] {
        repo.agent(["new", "--no-start", "--group", "greek", name, "--", "true"])
            .success();
    }
    repo
}

fn offered(repo: &Repo<'_>, words: &[&str]) -> Vec<String> {
    let run = repo.agent(["__complete"].iter().chain(words)).success();
    run.lines()
        .into_iter()
        .filter_map(|line| line.split('\t').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn verbs_options_and_sessions_are_offered() {
    let sandbox = Sandbox::new();
    let repo = repo(&sandbox);
    let verbs = offered(&repo, &[""]);
    for verb in ["new", "list", "config", "review", "merge"] {
        assert!(
            verbs.iter().any(|offered| offered == verb),
            "{verb}: {verbs:?}"
        );
    }
    assert!(
        !verbs.iter().any(|verb| verb.starts_with("__")),
        "{verbs:?}"
    );
    assert_eq!(offered(&repo, &["stop", ""]), ["alpha", "beta"]);
    assert_eq!(offered(&repo, &["stop", "alpha", "b"]), ["beta"]);
    assert_eq!(offered(&repo, &["stop", "--group", ""]), ["greek"]);
    assert_eq!(offered(&repo, &["new", "--no-st"]), ["--no-start"]);
    assert_eq!(offered(&repo, &["new", "--agent=goo"]), ["--agent=goose"]);
    assert_eq!(
        offered(&repo, &["config", "get", "agent.maxP"]),
        ["agent.maxParallel"]
    );
    assert_eq!(offered(&repo, &["completion", ""]), ["bash", "fish", "zsh"]);
    assert_eq!(offered(&repo, &["review", "--vers"]), ["--version"]);
    assert!(offered(&repo, &["new", "x", "--", "l"]).is_empty());
    let outside = sandbox
        .command("git")
        .args(["agent", "__complete", "stop", ""])
        .run();
    outside.success().assert_stdout("").assert_quiet();
}

/// Returns the first file of these that exists.
fn first_file(paths: &[&str]) -> Option<PathBuf> {
    paths.iter().map(PathBuf::from).find(|path| path.is_file())
}

#[test]
fn bash_offers_them() {
    let gits = first_file(&[
        "/usr/share/bash-completion/completions/git",
        "/usr/share/git/completion/git-completion.bash",
        "/etc/bash_completion.d/git-completion.bash",
    ]);
    let (Some(bash), Some(gits)) = (on_path("bash").next(), gits) else {
        // Without git's own completion there is nothing to hook into; that the script is printed is all there is to try.
        Sandbox::new()
            .command("git")
            .args(["agent", "completion", "bash"])
            .run()
            .success();
        return;
    };
    let sandbox = Sandbox::new();
    let repo = repo(&sandbox);
    let script = format!(
        "source '{}'\nsource <(git agent completion bash)\n{}",
        gits.display(),
        r#"complete_line () {
            COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            __git_wrap__git_main
            printf '%s|' "${COMPREPLY[@]}"; echo
        }
        complete_line git agent rewi
        complete_line git agent stop ""
        complete_line git agent new --no-st
        complete_line git -C . agent stop al"#
    );
    let run = repo
        .command(bash)
        .env("PATH", path_with_system(&sandbox))
        .args(["--norc", "-c", &script])
        .run()
        .success();
    assert_eq!(
        run.lines(),
        ["rewind |", "alpha |beta |", "--no-start |", "alpha |"],
        "{run}"
    );
}

#[test]
fn fish_offers_them() {
    let Some(fish) = on_path("fish").next() else {
        Sandbox::new()
            .command("git")
            .args(["agent", "completion", "fish"])
            .run()
            .success();
        return;
    };
    let sandbox = Sandbox::new();
    let repo = repo(&sandbox);
    let script = "git agent completion fish | source\n\
                  complete -C 'git agent stop '; complete -C 'git agent rewi'; complete -C 'git agent new --no-st'";
    let run = repo
        .command(fish)
        .env("PATH", path_with_system(&sandbox))
        .args(["-c", script])
        .run()
        .success();
    let words: Vec<&str> = run
        .lines()
        .into_iter()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(words, ["alpha", "beta", "rewind", "--no-start"], "{run}");
}

#[test]
fn zsh_reads_the_function() {
    let Some(zsh) = on_path("zsh").next() else {
        Sandbox::new()
            .command("git")
            .args(["agent", "completion", "zsh"])
            .run()
            .success();
        return;
    };
    let sandbox = Sandbox::new();
    let repo = repo(&sandbox);
    // Completion itself runs only in an interactive line editor; the two functions it ends in stand in for that.
    let script = r#"_describe () { print -l -- "${(@P)4}" }
        _files () { print files }
        eval "_git-agent () { $(git agent completion zsh) }"
        words=(agent stop ''); CURRENT=3; _git-agent
        words=(agent new x -- y); CURRENT=5; _git-agent"#;
    let run = repo
        .command(zsh)
        .env("PATH", path_with_system(&sandbox))
        .args(["-f", "-c", script])
        .run()
        .success();
    assert_eq!(
        run.lines(),
        ["alpha:draft: alpha", "beta:draft: beta", "files"],
        "{run}"
    );
}

/// Shells' own completion scripts use tools that the sandbox does not have.
fn path_with_system(sandbox: &Sandbox) -> std::ffi::OsString {
    let environment = sandbox.environment();
    let mut path = environment
        .get(std::ffi::OsStr::new("PATH"))
        .cloned()
        .unwrap_or_default();
    path.push(":/usr/bin:/bin");
    path
}
