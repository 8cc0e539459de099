//! Helpers for the tests of this room: small shell programs, surroundings, and a separate process for a test.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::env::{Env, Terminals};

/// Names the test that a re-executed test binary runs.
const ALONE: &str = "GIT_AGENT_TEST_ALONE";

/// The variable in which the shell of [`shim`] passes the shim's arguments to the test that acts as the shim.
pub const SHIM_ARGUMENTS: &str = "GIT_AGENT_TEST_SHIM";

/// Returns a command that acts as the shim without the real binary: a shell that runs this test binary again.
pub fn shim() -> (PathBuf, Vec<OsString>) {
    let script = format!(
        "IFS=$(printf '\\037'); export {SHIM_ARGUMENTS}=\"$*\"; unset IFS; \
         exec \"$0\" --exact process::shim::tests::acts_as_shim --nocapture --test-threads=1"
    );
    let own = std::env::current_exe().expect("this binary");
    let arguments = ["-c".into(), script.into(), own.into_os_string()];
    ("/bin/sh".into(), arguments.into())
}

/// Returns the surroundings of this process.
pub fn env() -> Env {
    Env::from_process().expect("a current directory")
}

/// Returns surroundings with nothing but these variables.
pub fn env_with(variables: &[(&str, &str)]) -> Env {
    Env::new(
        "/".into(),
        variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        Terminals::default(),
    )
}

/// Returns a shell script as a command without input and output.
pub fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Runs a test's body in its own process, so that it can end all its descendants without those of another test.
///
/// `name` is the test's full path without the crate.
pub fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|value| value == name) {
        return body();
    }
    let output = rerun(name).output().expect("the test binary starts again");
    assert!(
        output.status.success(),
        "{name} failed in its own process:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the command that runs one test of this binary with [`alone`]'s body.
pub fn rerun(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, name);
    command
}

/// Waits until a condition holds, and fails with its name if it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(8);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}
