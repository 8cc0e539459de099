//! The hidden command that becomes an agent's program, run by a shell that stands in for the supervisor.

use std::fs;

use git_agent_tests::Sandbox;

/// Returns a script that runs the hidden command with the shell as its supervisor and a file as its status pipe.
fn script(options: &str, program: &str) -> String {
    format!(
        "exec 5>status\n\
         git-agent __exec --supervisor $$ --status 5 --death-signal 9 {options} -- {program}\n\
         exit $?"
    )
}

#[test]
fn it_becomes_the_program_under_its_limits() {
    let sandbox = Sandbox::new();
    let limits = "--limit-memory 268435456 --limit-cpu-seconds 100 --nice 5 --cores 1";
    let program = "sh -c 'ulimit -d; ulimit -t; ulimit -c; nice; exit 9'";
    let run = sandbox.sh(script(limits, program)).run().code(9);
    let lines = run.lines();
    assert_eq!(lines[..3], ["262144", "100", "0"]);
    assert!(lines[3].parse::<u32>().is_ok_and(|nice| nice >= 5), "{run}");
    let status = fs::read_to_string(sandbox.work().join("status"));
    assert_eq!(status.expect("it was opened"), "here\n");
}

#[test]
fn what_cannot_start_is_told_to_the_supervisor() {
    let sandbox = Sandbox::new();
    sandbox.sh(script("", "no-such-program")).run().code(127);
    let status = fs::read_to_string(sandbox.work().join("status"));
    assert_eq!(
        status.expect("it was opened"),
        "here\n127 cannot start 'no-such-program': No such file or directory"
    );
}

#[test]
fn it_refuses_a_stranger() {
    let sandbox = Sandbox::new();
    let run = sandbox
        .command("git")
        .args(["agent", "__exec", "--supervisor", "1", "--status", "5"])
        .args(["--death-signal", "9", "--", "echo", "ran"])
        .run()
        .code(128);
    assert_eq!(run.stdout(), "");
    assert_eq!(run.stderr(), "fatal: the supervisor is gone\n");
}
