//! Finds the agents on this machine: path, version, and missing requirements.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::agent::catalog::builtin;
use crate::agent::catalog::reachable;
use crate::agent::catalog::registry::{self, AgentEntry};
use crate::agent::driver::AgentSpec;
use crate::env::Env;

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of a version.
const LONGEST: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstalledAgent {
    /// The agent's name.
    pub name: String,
    /// The name of its driver.
    pub driver: &'static str,
    /// The path of its program; absent if it is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The version it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How it handles permissions.
    pub permissions: &'static str,
    /// The model it uses by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why a model can be reached; only the built-in agent needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Missing requirements, in words.
    pub missing: Vec<String>,
    /// How to install it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub install: String,
    /// Whether it is defined only in the configuration.
    pub configured: bool,
}

impl InstalledAgent {
    /// Returns whether a session with it can start.
    pub fn can_start(&self) -> bool {
        self.path.is_some() && (self.name != builtin::OWN || self.reason.is_some())
    }
}

/// Looks for all agents in parallel. An invalid entry is listed with its problem.
pub fn survey(env: &Env, entries: &[AgentEntry]) -> Vec<InstalledAgent> {
    let names = registry::names(entries);
    std::thread::scope(|scope| {
        let searches: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || look(env, name, entries)))
            .collect();
        searches
            .into_iter()
            .filter_map(|search| search.join().ok())
            .collect()
    })
}

fn look(env: &Env, name: &str, entries: &[AgentEntry]) -> InstalledAgent {
    let configured = !builtin::all().iter().any(|spec| spec.name == name);
    let spec = match registry::require(name, entries) {
        Ok(spec) => spec,
        Err(error) => {
            return InstalledAgent {
                name: name.to_owned(),
                driver: "unknown",
                path: None,
                version: None,
                permissions: "unknown",
                model: None,
                reason: None,
                missing: vec![error.message().to_owned()],
                install: String::new(),
                configured,
            };
        }
    };
    let path = spec.find(env.var_os("PATH"), &env.cwd);
    let version = path
        .as_deref()
        .filter(|_| may_ask_version(&spec))
        .and_then(|path| packaged_version(path).or_else(|| version(env, path)));
    let is_own = path.is_some() && spec.name == builtin::OWN;
    let reason = is_own.then(|| reachable::model(env)).flatten();
    let mut missing = missing(env, &spec, path.is_some());
    if is_own && reason.is_none() {
        missing.push(format!("no model can be reached: {}", reachable::ADVICE));
    }
    InstalledAgent {
        driver: spec.family.as_str(),
        version,
        permissions: spec.asking.as_str(),
        reason,
        missing,
        name: spec.name,
        path,
        model: spec.model,
        install: spec.install,
        configured,
    }
}

/// Returns whether the program is known to support `--version`; another program might start to work.
fn may_ask_version(spec: &AgentSpec) -> bool {
    let name = Path::new(spec.program()).file_name();
    builtin::all()
        .iter()
        .any(|known| Path::new(known.program()).file_name() == name)
}

fn missing(env: &Env, spec: &AgentSpec, found: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !found {
        missing.push(format!(
            "'{}' is not on PATH",
            spec.program().to_string_lossy()
        ));
    }
    let unset = |variable: &String| env.var(variable).is_none();
    let ways: Vec<&String> = spec
        .auth_methods
        .iter()
        .map(|(_, variable)| variable)
        .collect();
    if found && !ways.is_empty() && ways.iter().all(|variable| unset(variable)) {
        let names: Vec<&str> = ways.iter().map(|name| name.as_str()).collect();
        missing.push(format!(
            "{} is not set, unless it is logged in",
            names.join(" or ")
        ));
    }
    missing
}

/// Returns the version of the npm package that contains a program. Most agents come from npm and take seconds to start,
/// too long when all of them are asked at once.
fn packaged_version(program: &Path) -> Option<String> {
    let program = program.canonicalize().ok()?;
    let packages = program
        .ancestors()
        .find(|dir| dir.file_name() == Some(OsStr::new("node_modules")))?;
    let mut below = program.strip_prefix(packages).ok()?.iter();
    let first = below.next()?;
    let mut package = packages.join(first);
    if first.as_encoded_bytes().starts_with(b"@") {
        package.push(below.next()?);
    }
    let text = std::fs::read(package.join("package.json")).ok()?;
    let described: serde_json::Value = serde_json::from_slice(&text).ok()?;
    read_version(described["version"].as_str()?)
}

/// Asks a program for its version.
fn version(env: &Env, program: &Path) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env_remove("GIT_DIR")
        .env("HOME", env.var_os("HOME").unwrap_or_default())
        .spawn()
        .ok()?;
    let mut pipe = child.stdout.take()?;
    let (sender, said) = std::sync::mpsc::channel();
    // Processes that the program starts may hold the pipe open, so this thread is never joined.
    std::thread::spawn(move || {
        let mut text = vec![0; 4096];
        let count = pipe.read(&mut text).unwrap_or(0);
        text.truncate(count);
        let _ = sender.send(text);
    });
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let text = said.recv_timeout(Duration::from_secs(1)).ok()?;
    read_version(&String::from_utf8_lossy(&text))
}

/// Returns the first word with a number in a program's version output.
fn read_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let words = || line.split_whitespace();
    let is_number = |word: &&str| {
        word.trim_start_matches('v')
            .starts_with(|c: char| c.is_ascii_digit())
    };
    let word = words().find(is_number).or_else(|| words().last())?;
    Some(
        word.trim_matches([',', ';', '(', ')'])
            .trim_end_matches('.')
            .chars()
            .take(LONGEST)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_settings_knows_every_driver() {
        let driver = crate::config::keys::find("agent.x.driver").expect("it is in the table");
        for family in crate::agent::driver::Family::ALL {
            assert_eq!(driver.kind.complaint(family.as_str()), None, "{family:?}");
        }
        assert!(driver.kind.complaint("telepathy").is_some());
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, version) in [
            ("1.2.3\n", Some("1.2.3")),
            ("\n goose 1.0.30 (x)\n", Some("1.0.30")),
            ("tool, version v2,\nmore", Some("v2")),
            ("nightly", Some("nightly")),
            ("A Tool 1.0.2. Run 'tool update'", Some("1.0.2")),
            ("\n\n", None),
        ] {
            assert_eq!(read_version(said).as_deref(), version, "{said:?}");
        }
    }
    #[test]
    fn a_package_knows_the_version_of_its_program() {
        let top = tempfile::tempdir().expect("a directory");
        let package = top.path().join("lib/node_modules/@maker/agent");
        std::fs::create_dir_all(package.join("bin")).expect("made");
        let program = package.join("bin/agent.js");
        std::fs::write(&program, "").expect("written");
        let link = top.path().join("agent");
        std::os::unix::fs::symlink(&program, &link).expect("linked");
        assert_eq!(packaged_version(&link), None);
        std::fs::write(package.join("package.json"), r#"{"version":"1.2.3"}"#).expect("written");
        assert_eq!(packaged_version(&link).as_deref(), Some("1.2.3"));
        assert_eq!(packaged_version(&top.path().join("lib")), None);
    }
}
