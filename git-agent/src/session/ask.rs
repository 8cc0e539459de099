//! What an agent in a cell asks of its supervisor: a command of ours, over the session's socket.
//!
//! Inside a cell the records of git-agent are out of reach. The programs pass their arguments to the supervisor, which runs
//! the command outside as that session, if the session may give it. The question is one line of JSON; the standard input
//! follows as it is, and the answer comes in frames. No descriptor is passed: a terminal of the agent's would let it
//! type into an editor or a pager outside. Files are named by their text only: the supervisor opens none for an agent.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
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
/// The longest question, in bytes.
pub(crate) const LONGEST: u64 = 1 << 20;
/// The longest frame, in bytes.
const LONGEST_FRAME: usize = 1 << 16;
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
}

/// A part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Standard output.
    Output,
    /// Standard error.
    Narration,
    /// The exit code, in one byte. It comes last.
    Exit,
}

impl Channel {
    const ALL: [Channel; 3] = [Channel::Output, Channel::Narration, Channel::Exit];

    fn number(self) -> u8 {
        match self {
            Channel::Output => 1,
            Channel::Narration => 2,
            Channel::Exit => 0,
        }
    }
}

/// Writes a frame: the channel, the length in four bytes, and the bytes.
pub(crate) fn write_frame(out: &mut impl Write, channel: Channel, bytes: &[u8]) -> io::Result<()> {
    for part in bytes.chunks(LONGEST_FRAME) {
        let length = u32::try_from(part.len()).map_err(io::Error::other)?;
        let mut frame = vec![channel.number()];
        frame.extend(length.to_be_bytes());
        frame.extend(part);
        out.write_all(&frame)?;
    }
    Ok(())
}

fn read_frame(input: &mut impl Read) -> io::Result<(Channel, Vec<u8>)> {
    let mut head = [0u8; 5];
    input.read_exact(&mut head)?;
    let [number, length @ ..] = head;
    let channel = Channel::ALL.into_iter().find(|one| one.number() == number);
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    match channel.filter(|_| length <= LONGEST_FRAME) {
        None => Err(io::ErrorKind::InvalidData.into()),
        Some(channel) => {
            let mut bytes = vec![0; length];
            input.read_exact(&mut bytes)?;
            Ok((channel, bytes))
        }
    }
}

/// Commands that an agent may give in its own session, by program and verb. The checks of each command still apply.
const FREE: [(&str, &[&str]); 2] = [
    (
        "git-agent",
        &[
            "list", "status", "show", "log", "why", "message", "artifact", "mcp",
        ],
    ),
    ("git-agent-review", &["reply", "resolve", "diff", "list"]),
];

/// Options that open a file.
const OPENS_FILES: [&str; 4] = ["-F", "--file", "--output", "-o"];
/// Short options whose value may follow without a space.
const WITH_VALUES: [&str; 2] = ["-m", "-n"];
/// Options of `artifact put`.
const OF_PUT: [&str; 3] = ["--json", "--porcelain", "-z"];

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
    if let [first, second, rest @ ..] = &ask.arguments[..]
        && (first.as_str(), second.as_str()) == ("artifact", "put")
    {
        let is_text = match rest {
            [name, dash, options @ ..] => {
                let known = |option: &String| {
                    option.starts_with("--session=") || OF_PUT.contains(&option.as_str())
                };
                !name.starts_with('-') && dash == "-" && options.iter().all(known)
            }
            _ => false,
        };
        return (!is_text)
            .then(|| "inside a session, 'artifact put' takes a name and a file".to_owned());
    }
    let option = ask.arguments.iter().find(|word| opens_a_file(word))?;
    Some(format!(
        "'{option}' is not possible inside a session: pass the text itself, or '-' and standard input"
    ))
}

/// Returns whether a word may be an option that opens a file, alone or in a cluster of short ones.
fn opens_a_file(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let cluster = word.len() > 2
        && word.starts_with('-')
        && !word.starts_with("--")
        && !WITH_VALUES.iter().any(|option| word.starts_with(option));
    cluster || OPENS_FILES.contains(&name)
}

/// Returns whether a command reads its standard input. Others must leave it alone: it may be the list of a loop.
fn reads_input(arguments: &[String]) -> bool {
    let verb = arguments.first().map(String::as_str);
    let given = |word: &String| word.starts_with("-m") || word.starts_with("--message");
    verb == Some("mcp")
        || arguments.iter().any(|word| word == "-")
        || verb == Some("reply") && !arguments.iter().any(given)
}

/// Returns the socket of the session that a command was started in, if it is in a cell.
pub fn socket(env: &Env) -> Option<PathBuf> {
    env.var_os(SOCKET)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Shows a part of a command's output, on the standard output or on the standard error.
pub type Show = fn(&[u8], bool) -> Result<()>;

/// Passes a command of the agent to the supervisor, with our standard streams. Returns its exit code.
pub fn pass_on(
    env: &Env,
    socket: &Path,
    (program, arguments): (&str, &[OsString]),
    show: Show,
) -> Result<u8> {
    let words = arguments.iter().map(|word| {
        word.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::usage(format!("{word:?} is not UTF-8")))
    });
    let mut words = words.collect::<Result<Vec<String>>>()?;
    let file = take_file(&mut words);
    let input: Option<Box<dyn Read + Send>> = match file {
        Some(file) => {
            let opened = std::fs::File::open(env.absolute(&file));
            Some(Box::new(
                opened.context(|| format!("cannot read '{file}'"))?,
            ))
        }
        None => reads_input(&words).then(|| Box::new(io::stdin()) as Box<dyn Read + Send>),
    };
    pass_on_with(env, socket, (program, words), input, show)
}

/// Takes the file of a text out of the arguments, and lets the text come from the standard input.
fn take_file(arguments: &mut Vec<String>) -> Option<String> {
    let at = arguments
        .iter()
        .position(|word| word == "-F" || word == "--file" || word.starts_with("--file="))?;
    let (file, words) = match arguments[at].split_once('=') {
        Some((_, file)) => (file.to_owned(), 1),
        None => (arguments.get(at + 1)?.clone(), 2),
    };
    arguments.splice(at..at + words, ["-m".to_owned(), "-".to_owned()]);
    (file != "-").then_some(file)
}

/// Passes a command to the supervisor, with this standard input.
pub fn pass_on_with(
    env: &Env,
    socket: &Path,
    (program, arguments): (&str, Vec<String>),
    input: Option<Box<dyn Read + Send>>,
    show: Show,
) -> Result<u8> {
    let ask = Ask {
        version: VERSION,
        token: env.var(TOKEN).unwrap_or_default().to_owned(),
        program: program.to_owned(),
        arguments,
    };
    let cannot = || "cannot reach the supervisor of this session".to_owned();
    let mut stream = connect(socket).context(cannot)?;
    let mut line = serde_json::to_vec(&ask).context(cannot)?;
    line.push(b'\n');
    stream.write_all(&line).context(cannot)?;
    match input {
        None => stream.shutdown(Shutdown::Write).context(cannot)?,
        Some(mut input) => {
            let mut to = stream.try_clone().context(cannot)?;
            // Not waited for: a command may end before its input does.
            std::thread::spawn(move || {
                let _ = io::copy(&mut input, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
    show_answer(&mut stream, show)
}

/// Shows the frames of an answer until the exit code.
fn show_answer(stream: &mut impl Read, show: Show) -> Result<u8> {
    loop {
        let (channel, bytes) = read_frame(stream)
            .context(|| "the supervisor of this session did not answer".into())?;
        match channel {
            Channel::Exit => return Ok(bytes.first().copied().unwrap_or(128)),
            Channel::Output => show(&bytes, false)?,
            Channel::Narration => show(&bytes, true)?,
        }
    }
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
        }
    }

    #[test]
    fn an_agent_may_ask_only_for_its_own() {
        for (program, words) in [
            ("git-agent", "list --json"),
            ("git-agent", "message other hello"),
            ("git-agent", "artifact put api -"),
            ("git-agent", "artifact put api - --session=other --json"),
            ("git-agent", "artifact get other/api"),
            ("git-agent", "mcp"),
            ("git-agent-review", "reply abc -m fixed"),
            ("git-agent-review", "reply abc -mfixed"),
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
            ("git-agent-review", "reply a -zF/home/me/.ssh/id"),
            ("git-agent", "artifact put api /home/me/.ssh/id"),
            ("git-agent", "artifact put /home/me/.ssh/id"),
            ("git-agent", "artifact put api - /home/me/.ssh/id"),
            ("git-agent", "artifact put -- api /home/me/.ssh/id"),
            ("git-agent", "artifact get api -o/home/me/.bashrc"),
            ("git-agent", "artifact get api --output /home/me/.bashrc"),
            ("git-agent-merge", "--into main"),
            ("sh", "list"),
        ] {
            assert!(refusal(&ask(program, words)).is_some(), "{words}");
        }
    }

    #[test]
    fn a_file_of_the_agent_is_read_by_the_agent() {
        let take = |words: &str| {
            let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let file = take_file(&mut words);
            (file, words.join(" "))
        };
        let read = |file: &str| (Some(file.to_owned()), "reply a -m -".to_owned());
        assert_eq!(take("reply a -F notes"), read("notes"));
        assert_eq!(take("reply a --file=notes"), read("notes"));
        assert_eq!(take("reply a -F -"), (None, "reply a -m -".to_owned()));
        assert_eq!(take("reply a -m x"), (None, "reply a -m x".to_owned()));
    }

    #[test]
    fn frames_arrive_as_they_were_sent() {
        let long = vec![7u8; LONGEST_FRAME + 1];
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Channel::Output, &long).expect("written");
        write_frame(&mut bytes, Channel::Exit, &[3]).expect("written");
        let mut input = &bytes[..];
        let mut read = || read_frame(&mut input).expect("a frame");
        assert_eq!(read(), (Channel::Output, vec![7u8; LONGEST_FRAME]));
        assert_eq!(read(), (Channel::Output, vec![7u8]));
        assert_eq!(read(), (Channel::Exit, vec![3u8]));
        assert!(read_frame(&mut &[9u8, 0, 0, 0, 0][..]).is_err());
        assert!(read_frame(&mut &[1u8, 255, 0, 0, 0][..]).is_err());
    }
}
