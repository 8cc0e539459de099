//! Tests of starting programs through a shim. The test binary stands in for the real shim.

use std::io::Write;

use super::super::limits::{Limits, Machine};
use super::super::tests::{alone, env, until};
use super::super::tree;
use super::*;

fn shim() -> Shim {
    let (program, arguments) = super::super::tests::shim();
    Shim { program, arguments }
}

fn spec(command: &[&str]) -> Spec {
    Spec {
        command: command.iter().map(OsString::from).collect(),
        directory: "/".into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        stdin: Stdin::Null,
        limits: LimitPlan::on(&Limits::default(), &Machine::default()),
        name: "test".into(),
        death_signal: Signal::KILL,
        room: None,
    }
}

fn sh(script: &str) -> Spec {
    spec(&["sh", "-c", script])
}

/// Returns the lines after the test runner's own, and the exit code.
fn finish(mut spawned: Spawned) -> (Vec<String>, Option<i32>) {
    drop(spawned.stdin.take());
    let mut text = String::new();
    spawned.stdout.read_to_string(&mut text).expect("reads");
    let lines = text
        .lines()
        .map(|line| {
            line.strip_prefix("test process::shim::tests::acts_as_shim ... ")
                .unwrap_or(line)
        })
        .filter(|line| !line.is_empty() && !line.starts_with("running "))
        .map(str::to_owned)
        .collect();
    (lines, spawned.child.wait().expect("ours").code())
}

fn run(spec: Spec) -> (Vec<String>, Option<i32>) {
    finish(spawn(&env(), &shim(), spec).expect("starts"))
}

#[test]
fn a_program_gets_what_was_given() {
    let mut given = sh("pwd; echo $FOO; echo ${HOME-none}; ulimit -c; cat; exit 7");
    given.directory = "/tmp".into();
    given.environment.push(("FOO".into(), "a b".into()));
    given.stdin = Stdin::Pipe;
    let mut spawned = spawn(&env(), &shim(), given).expect("starts");
    assert!(spawned.id.is_alive(&env()));
    assert_eq!(spawned.handle.pid(), spawned.id.pid);
    let group = super::super::identity::Stat::of(spawned.id.pid)
        .expect("alive")
        .group;
    assert_eq!(group, spawned.id.pid, "its own process group");
    let stdin = spawned.stdin.as_mut().expect("a pipe");
    stdin.write_all(b"hello\n").expect("writes");
    let (lines, code) = finish(spawned);
    assert_eq!(lines, ["/tmp", "a b", "none", "0", "hello"]);
    assert_eq!(code, Some(7));
}

#[test]
fn no_descriptor_is_passed_on() {
    // The tests may have inherited descriptors; a supervisor has none.
    super::super::inherited::keep_all();
    let (lines, _) = run(sh("for fd in /proc/$$/fd/*; do echo ${fd##*/}; done"));
    // 3 is the directory that the shell lists.
    let known = ["0", "1", "2", "3"];
    let unknown: Vec<&String> = lines
        .iter()
        .filter(|line| !known.contains(&line.as_str()))
        .collect();
    assert!(lines.len() >= 3 && unknown.is_empty(), "{unknown:?}");
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"from a file").expect("writes");
    std::io::Seek::rewind(&mut file).expect("rewinds");
    let mut given = sh("cat");
    given.stdin = Stdin::File(file);
    assert_eq!(run(given).0, ["from a file"]);
}

#[test]
fn a_program_that_cannot_start_is_told_from_one_that_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("writes");
    let path = script.to_str().expect("plain");
    let code = |command: &[&str]| {
        let error = spawn(&env(), &shim(), spec(command)).expect_err("cannot start");
        (error.kind().exit_code(), error.message().to_owned())
    };
    let (number, message) = code(&["no-such-program"]);
    assert_eq!(number, 127);
    assert!(
        message.starts_with("cannot start 'no-such-program': "),
        "{message}"
    );
    assert_eq!(code(&[path]).0, 126, "not executable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("ours");
    let (number, message) = code(&[path]);
    assert_eq!(number, 127);
    assert!(message.contains("its interpreter is missing"), "{message}");
    assert_eq!(run(sh("exit 127")).1, Some(127), "its own failure");
    let mut nowhere = sh("true");
    nowhere.directory = dir.path().join("none");
    assert!(spawn(&env(), &shim(), nowhere).is_err());
}

#[test]
fn a_broken_shim_is_said() {
    let broken = Shim {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "echo oh no >&2; exit 3".into()],
    };
    let error = spawn(&env(), &broken, sh("true")).expect_err("never starts");
    assert_eq!(error.message(), "the program ended before it started");
    assert_eq!(error.hints(), ["oh no"]);
}

#[test]
fn limits_bind_the_program() {
    let limits = Limits {
        memory: Some(64 << 20),
        cpu_percent: Some(50),
        cpu_seconds: Some(9),
        nice: None,
    };
    let mut given = sh(
        "ulimit -d; ulimit -t; nice; grep -c . /proc/self/status >/dev/null; \
                        sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status; \
                        x=$(head -c 200000000 /dev/zero | tr '\\0' x) && echo too much",
    );
    let machine = Machine {
        cores: 2,
        ..Machine::default()
    };
    given.limits = LimitPlan::on(&limits, &machine);
    let (lines, code) = run(given);
    assert_eq!(lines[..2], ["65536", "9"]);
    let nice: i32 = lines[2].parse().expect("a number");
    assert!(nice >= 10);
    assert!(lines[3].parse::<u32>().is_ok(), "one core: {}", lines[3]);
    assert_eq!(lines.len(), 4, "200 MB do not fit: {lines:?}");
    assert_ne!(code, Some(0));
}

#[test]
fn a_scope_that_fails_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = dir.path().join("systemd-run");
    let record = dir.path().join("record");
    let install = |script: String| {
        // Written under another name and renamed, because a file that is open for writing cannot be run.
        let draft = dir.path().join("draft");
        std::fs::write(&draft, script).expect("writes");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&draft, mode).expect("ours");
        std::fs::rename(&draft, &manager).expect("renames");
    };
    let given = || {
        let mut given = sh("echo ran");
        let limits = Limits {
            memory: Some(1 << 30),
            ..Limits::default()
        };
        let machine = Machine {
            systemd_run: Some(manager.clone()),
            cores: 1,
            ..Machine::default()
        };
        given.limits = LimitPlan::on(&limits, &machine);
        given
    };
    install("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n".into());
    let spawned = spawn(&env(), &shim(), given()).expect("starts without it");
    assert_eq!(spawned.limits.mechanism, Mechanism::Process { cores: None });
    assert_eq!(finish(spawned).0, ["ran"]);
    install(format!(
        "#!/bin/sh\necho \"$@\" >'{}'\nwhile [ \"$1\" != -- ]; do shift; done; shift\nexec \"$@\"\n",
        record.display()
    ));
    let spawned = spawn(&env(), &shim(), given()).expect("starts within it");
    assert!(matches!(spawned.limits.mechanism, Mechanism::Scope(_)));
    assert_eq!(finish(spawned).0, ["ran"]);
    let asked = std::fs::read_to_string(record).expect("it was run");
    assert!(
        asked.contains("--user --scope --quiet --collect -p MemoryMax=1073741824"),
        "{asked}"
    );
}

#[test]
fn a_cgroup_is_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = Limits {
        memory: Some(1 << 30),
        ..Limits::default()
    };
    let machine = Machine {
        cgroup: Some(dir.path().into()),
        ..Machine::default()
    };
    let mut given = sh("echo $$");
    given.limits = LimitPlan::on(&limits, &machine);
    let mut spawned = spawn(&env(), &shim(), given).expect("starts");
    let cgroup = spawned.cgroup.take().expect("its own");
    let joined = std::fs::read_to_string(cgroup.procs()).expect("written");
    assert_eq!(finish(spawned).0, [joined]);
}

#[test]
fn the_program_dies_with_its_supervisor() {
    const NAME: &str = "process::spawn::tests::the_program_dies_with_its_supervisor";
    if let Ok(file) = std::env::var("GIT_AGENT_TEST_RECORD") {
        // The supervisor that will be killed.
        alone(NAME, || {
            let spawned = spawn(&env(), &shim(), sh("exec sleep 30")).expect("starts");
            let text = serde_json::to_string(&spawned.id).expect("plain data");
            std::fs::write(format!("{file}.new"), text).expect("writes");
            std::fs::rename(format!("{file}.new"), &file).expect("renames");
            std::thread::sleep(Duration::from_secs(20));
        });
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("record");
    let mut supervisor = super::super::tests::rerun(NAME)
        .env("GIT_AGENT_TEST_RECORD", &file)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test binary starts again");
    until("the program runs", || file.exists());
    let id: ProcessId =
        serde_json::from_slice(&std::fs::read(&file).expect("written")).expect("a record");
    assert!(id.is_alive(&env()));
    supervisor.kill().expect("ours");
    supervisor.wait().expect("ours");
    until("the program is gone", || !id.is_alive(&env()));
    assert!(tree::descendants(id.pid).is_empty());
}
