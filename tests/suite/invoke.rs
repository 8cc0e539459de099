//! How the programs start and end, through real git: exit codes, help, versions, commands that are programs of their own.

use std::fs;

use git_agent_tests::binaries::{PRODUCT, binaries};
use git_agent_tests::sandbox::write_program;
use git_agent_tests::{Run, Sandbox};

/// Runs `git <command> <args>`, where the command is a product program without its `git-`.
fn git(sandbox: &Sandbox, program: &str, args: &[&str]) -> Run {
    let command = program
        .strip_prefix("git-")
        .expect("a program that git finds");
    sandbox.command("git").arg(command).args(args).run()
}

#[test]
fn short_help_is_an_answer_with_gits_code() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let help = git(&sandbox, program, &["-h"]).code(129);
        assert!(help.stdout().starts_with("usage: git agent"), "{help}");
        help.assert_quiet();
    }
}

#[test]
fn help_needs_no_repository_and_fits_the_terminal() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let help = git(&sandbox, program, &["-h"]).code(129);
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{program} -h: {line}");
            assert_eq!(
                line.trim_end(),
                line,
                "{program} -h ends a line with blanks"
            );
        }
    }
}

#[test]
fn all_programs_have_one_version() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        let long = git(&sandbox, program, &["--version"]).success();
        long.assert_quiet();
        let (name, version) = long
            .line()
            .split_once(" version ")
            .expect("as git prints its own");
        assert_eq!(name, program);
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert_eq!(
            git(&sandbox, program, &["-V"]).success().line(),
            long.line()
        );
    }
}

#[test]
fn an_unknown_option_is_a_usage_error() {
    let sandbox = Sandbox::new();
    for program in PRODUCT {
        for option in ["--no-such-option", "-Q"] {
            let refused = git(&sandbox, program, &[option]).code(129);
            refused
                .assert_stdout("")
                .assert_says(option)
                .assert_says("usage: git agent");
            assert!(refused.stderr().starts_with("error: "), "{refused}");
        }
    }
}

#[test]
fn no_command_at_all_shows_the_usage() {
    let sandbox = Sandbox::new();
    let usage = git(&sandbox, "git-agent", &[]).code(129);
    assert!(
        format!("{}{}", usage.stdout(), usage.stderr()).contains("usage: git agent"),
        "{usage}"
    );
}

#[test]
fn an_unknown_command_is_told_in_gits_words() {
    let sandbox = Sandbox::new();
    git(&sandbox, "git-agent", &["frobnicate", "--really"])
        .code(1)
        .assert_stdout("")
        .assert_stderr("git agent: 'frobnicate' is not a git-agent command. See 'git agent -h'.\n");
    git(&sandbox, "git-agent", &["reveiw"])
        .code(1)
        .assert_says("review");
}

#[test]
fn an_unknown_command_is_printed_harmlessly() {
    let sandbox = Sandbox::new();
    let refused = git(&sandbox, "git-agent", &["a\x1b[31mb\u{202e}c\nd"]).code(1);
    assert!(!refused.stderr().contains('\x1b'), "{refused}");
    assert!(!refused.stderr().contains('\u{202e}'), "{refused}");
}

#[test]
fn a_broken_pipe_is_no_failure() {
    let sandbox = Sandbox::new();
    let piped = sandbox
        .command("bash")
        .args([
            "-c",
            "set -o pipefail; git agent -h | head -c1 >/dev/null; echo ${PIPESTATUS[0]}",
        ])
        .run()
        .success();
    // The help is short enough for the pipe to swallow it before head is gone: then the code is that of help.
    assert!(["0", "129"].contains(&piped.line()), "{piped}");
    piped.assert_quiet();
    let closed = sandbox
        .command("bash")
        .args(["-c", "git agent --version | true; echo ${PIPESTATUS[0]}"])
        .run()
        .success();
    assert_eq!(closed.line(), "0");
    closed.assert_quiet();
}

#[test]
fn a_closed_or_full_output_is_told_or_survived() {
    let sandbox = Sandbox::new();
    if std::path::Path::new("/dev/full").exists() {
        let full = sandbox.sh("git agent --version >/dev/full").run().code(128);
        assert!(full.stderr().starts_with("fatal: "), "{full}");
        full.assert_says("No space left on device");
    }
    let closed = sandbox.sh("git agent --version >&-").run().whatever();
    assert!(!closed.stderr().contains("panicked"), "{closed}");
    assert!(!closed.stderr().contains("internal error"), "{closed}");
}

#[test]
fn a_program_on_path_is_a_command() {
    let sandbox = Sandbox::new();
    sandbox.program(
        "git-agent-foo",
        "#!/bin/sh\nprintf '<%s>' \"$@\"\necho to stderr >&2\nexit 42\n",
    );
    let ran = git(
        &sandbox,
        "git-agent",
        &["foo", "a b", "", "--", "-h", "new\nline"],
    )
    .code(42);
    assert_eq!(ran.stdout(), "<a b><><--><-h><new\nline>");
    ran.assert_stderr("to stderr\n");
}

#[test]
fn a_program_beside_ours_is_a_command() {
    let sandbox = Sandbox::new();
    // As when the programs are installed somewhere and only git-agent is linked into a directory of PATH.
    let installed = sandbox.root().join("installed");
    let linked = sandbox.root().join("linked");
    fs::create_dir(&installed).expect("the sandbox is writable");
    fs::create_dir(&linked).expect("the sandbox is writable");
    fs::copy(
        binaries().product.join("git-agent"),
        installed.join("git-agent"),
    )
    .expect("a copy can be made");
    std::os::unix::fs::symlink(installed.join("git-agent"), linked.join("git-agent"))
        .expect("a link can be made");
    write_program(&installed.join("git-agent-foo"), "#!/bin/sh\necho beside\n");
    let run = || {
        sandbox
            .command("git")
            .args(["agent", "foo"])
            .path_first(&linked)
            .run()
    };
    assert_eq!(run().success().line(), "beside");
    sandbox.program("git-agent-foo", "#!/bin/sh\necho on PATH\n");
    assert_eq!(run().success().line(), "on PATH", "PATH comes first");
}

#[test]
fn our_own_programs_are_commands() {
    let sandbox = Sandbox::new();
    for (verb, program) in [("review", "git-agent-review"), ("merge", "git-agent-merge")] {
        let as_verb = git(&sandbox, "git-agent", &[verb, "--version"]).success();
        let as_program = git(&sandbox, program, &["--version"]).success();
        assert_eq!(as_verb.stdout(), as_program.stdout());
        // Git leaves --help to the program when the command is not the word right after it.
        git(&sandbox, "git-agent", &[verb, "--help"])
            .success()
            .assert_quiet();
    }
}

#[test]
fn a_program_that_cannot_run_is_told() {
    let sandbox = Sandbox::new();
    sandbox.program("git-agent-broken", "#!/no/such/interpreter\n");
    let refused = git(&sandbox, "git-agent", &["broken"]).code(128);
    refused.assert_says("git-agent-broken");
    assert!(refused.stderr().starts_with("fatal: "), "{refused}");
}

#[test]
fn a_command_is_never_a_path() {
    let sandbox = Sandbox::new();
    write_program(&sandbox.work().join("evil"), "#!/bin/sh\necho evil\n");
    fs::create_dir(sandbox.root().join("bin/git-agent-x")).expect("the sandbox is writable");
    for verb in ["x/../../../work/evil", "../evil", "/bin/sh"] {
        git(&sandbox, "git-agent", &[verb])
            .code(1)
            .assert_stdout("");
    }
}

#[test]
fn a_program_ended_by_a_signal_is_passed_on() {
    let sandbox = Sandbox::new();
    sandbox.program("git-agent-dies", "#!/bin/sh\nkill -TERM $$\nsleep 1\n");
    git(&sandbox, "git-agent", &["dies"]).signal(15);
}

#[test]
fn words_that_are_not_utf8_do_no_harm() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    for word in [&b"caf\xe9"[..], b"--caf\xe9", b"\xff"] {
        let refused = sandbox
            .command("git")
            .arg("agent")
            .arg(std::ffi::OsStr::from_bytes(word))
            .run()
            .failure();
        assert!(!refused.stderr().contains("internal error"), "{refused}");
    }
}

#[test]
fn a_repository_that_cannot_be_opened_is_told_for_what_it_is() {
    let sandbox = Sandbox::new();
    // The names are words that a message about trust has, too.
    for name in ["plain", "trusty", "unsafe", "untrusted"] {
        let dir = sandbox.work().join(name);
        std::fs::create_dir(&dir).expect("the sandbox is writable");
        let run = sandbox.command("git").cwd(&dir).args(["agent", "list"]);
        let run = run.run().code(128);
        run.assert_says("not a git repository");
        assert!(!run.stderr().contains("another user"), "{run}");
    }
    let broken = sandbox.repo("broken").create();
    broken.write(".git/config", "[core\n");
    let run = sandbox.command("git-agent").cwd(broken.path()).arg("list");
    let run = run.run().code(128);
    run.assert_says("cannot open the repository");
    assert!(!run.stderr().contains("git init"), "{run}");

    let foreign = sandbox.repo("foreign").create();
    let inner = foreign.path().join("inner");
    std::fs::create_dir(&inner).expect("the sandbox is writable");
    let places = [foreign.path().join(".git"), foreign.path().to_owned()];
    let given = places.map(|place| std::os::unix::fs::chown(place, Some(12345), None));
    if given.iter().any(std::io::Result::is_err) {
        let note = "only root gives files away: an owner who is not trusted is not tried\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
        return;
    }
    let top = foreign.path().display().to_string();
    let run = sandbox.command("git-agent").cwd(&inner).arg("list");
    let run = run.run().code(128);
    for words in [
        format!("repository at '{top}' belongs to another user\n"),
        format!("git config --global --add safe.directory '{top}'\n"),
    ] {
        assert!(run.stderr().contains(&words), "{run}");
    }
}
