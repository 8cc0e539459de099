//! What an agent in a cell asks of its supervisor: a command of ours, as one line of JSON over the session's socket.
//!
//! Inside a cell the records of git-agent are out of reach. The programs pass their arguments to the supervisor, which runs
//! the command outside as that session, if the session may give it. Files are named by their text only: the supervisor
//! opens none for an agent.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::{Context, Error, Result};

/// The variable that names the socket.
pub const SOCKET: &str = "GIT_AGENT_SOCKET";
/// The variable with the word that the supervisor expects.
pub const TOKEN: &str = "GIT_AGENT_TOKEN";
/// The version of the conversation.
pub(crate) const VERSION: u32 = 1;
/// The longest question and the longest answer, in bytes.
pub(crate) const LONGEST: u64 = 16 << 20;
/// The longest name of a socket that the kernel takes.
const LONGEST_NAME: usize = 100;

/// A command that an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The version of the conversation.
    pub version: u32,
    /// The word from the environment.
    pub token: String,
    /// The program: `git-agent`, `git-agent-review` or `git-agent-merge`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its standard input.
    #[serde(default)]
    pub input: String,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The version of the conversation.
    pub version: u32,
    /// The exit code.
    pub code: u8,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub narration: String,
}

/// Commands that an agent may give in its own session, by program and verb. The checks of each command still apply.
const FREE: [(&str, &[&str]); 2] = [
    (
        "git-agent",
        &[
            "list", "status", "show", "log", "why", "message", "artifact",
        ],
    ),
    ("git-agent-review", &["reply", "resolve", "diff", "list"]),
];

/// Options that open a file. An agent reads its files itself, and passes their text.
const OPENS_FILES: [&str; 5] = ["-F", "--file", "--output", "-o", "--plan"];

/// Returns why an agent may not give a command; nothing if it may.
pub(crate) fn refusal(ask: &Ask) -> Option<String> {
    let verb = ask.arguments.first().map_or("", String::as_str);
    let allowed = FREE
        .iter()
        .any(|(program, verbs)| *program == ask.program && verbs.contains(&verb));
    if !allowed {
        let name = ask.program.strip_prefix("git-").unwrap_or(&ask.program);
        let name = name.replace('-', " ");
        return Some(format!(
            "'git {name} {verb}' is not for agents: the person who started the session runs it"
        ));
    }
    let opens = |argument: &&String| {
        OPENS_FILES.iter().any(|option| {
            argument.as_str() == *option
                || argument.starts_with(&format!("{option}="))
                || (!option.starts_with("--") && argument.starts_with(option))
        })
    };
    let option = ask.arguments.iter().find(opens)?;
    Some(format!(
        "'{option}' is not possible inside a session: pass the text itself, or '-' and standard input"
    ))
}

/// Returns the socket of the session that a command was started in, if it is in a cell.
pub fn socket(env: &Env) -> Option<PathBuf> {
    env.var_os(SOCKET)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Passes a command to the supervisor and returns how it ended.
pub fn pass_on(
    env: &Env,
    socket: &Path,
    program: &str,
    arguments: &[OsString],
    input: String,
) -> Result<Told> {
    let words = arguments.iter().map(|word| {
        word.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::usage(format!("{word:?} is not UTF-8")))
    });
    let ask = Ask {
        version: VERSION,
        token: env.var(TOKEN).unwrap_or_default().to_owned(),
        program: program.to_owned(),
        arguments: words.collect::<Result<_>>()?,
        input,
    };
    let cannot = || "cannot reach the supervisor of this session".to_owned();
    let mut stream = connect(socket).context(cannot)?;
    let mut line = serde_json::to_vec(&ask).context(cannot)?;
    line.push(b'\n');
    stream.write_all(&line).context(cannot)?;
    let mut answer = Vec::new();
    BufReader::new(stream)
        .take(2 * LONGEST)
        .read_until(b'\n', &mut answer)
        .context(cannot)?;
    serde_json::from_slice(&answer).context(cannot)
}

/// Connects to a socket whose path may be longer than the kernel allows.
fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    if socket.as_os_str().len() < LONGEST_NAME {
        return UnixStream::connect(socket);
    }
    let (directory, name) = parts(socket)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Returns the directory and the name of a socket.
pub(crate) fn parts(socket: &Path) -> std::io::Result<(&Path, &str)> {
    let name = socket.file_name().and_then(std::ffi::OsStr::to_str);
    (socket.parent().zip(name))
        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(program: &str, words: &str) -> Ask {
        Ask {
            version: VERSION,
            token: String::new(),
            program: program.to_owned(),
            arguments: words.split(' ').map(str::to_owned).collect(),
            input: String::new(),
        }
    }

    #[test]
    fn an_agent_may_ask_only_for_its_own() {
        for (program, words) in [
            ("git-agent", "list --json"),
            ("git-agent", "message other hello"),
            ("git-agent-review", "reply abc -m fixed"),
        ] {
            assert_eq!(refusal(&ask(program, words)), None, "{words}");
        }
        for (program, words) in [
            ("git-agent", "new x"),
            ("git-agent", "stop s"),
            ("git-agent", "push"),
            ("git-agent", ""),
            ("git-agent-review", "approve s"),
            ("git-agent-review", "reply a -F /home/me/.ssh/id"),
            ("git-agent-review", "reply a -F/home/me/.ssh/id"),
            ("git-agent-review", "reply a --file=x"),
            ("git-agent-merge", "--into main"),
            ("sh", "list"),
        ] {
            assert!(refusal(&ask(program, words)).is_some(), "{words}");
        }
    }
}
