//! An agent that does exactly what a test tells it, misbehaviour included.
//!
//! The script is one step per argument, or one step per line of `$GIT_AGENT_PROMPT` when there are no arguments. A
//! prompt that is not a script is answered with one line. In texts, `\n`, `\t`, `\e`, `\0`, `\\`, `\s` (a blank) and
//! `\xNN` (any byte) are understood. Empty lines and lines that start with `#` are skipped.
//!
//! | step | does |
//! |---|---|
//! | `print TEXT`, `error TEXT`, `raw TEXT` | writes a line to stdout, to stderr; writes without a line feed |
//! | `bytes N`, `flood` | writes N bytes in lines of 80; writes until it can't |
//! | `escapes`, `invalid` | writes terminal escapes, bidi and control characters; writes invalid UTF-8 |
//! | `write FILE TEXT`, `append FILE TEXT`, `remove FILE` | changes a file; `append` adds a line in one write |
//! | `within FILE LABEL` | appends `+LABEL` now and `-LABEL` at the script's end, to count who runs at once |
//! | `commit TEXT` | commits everything |
//! | `git ARG…`, `try git ARG…` | runs git; its failure ends the script with git's code, or is only printed |
//! | `stash`, `steal BRANCH`, `checkout BRANCH`, `ref NAME` | tries what an agent must not: stash, move another branch, switch, write a ref |
//! | `sleep MS`, `spin MS`, `until FILE` | waits; burns a processor; waits for a file to appear |
//! | `ignore SIGNAL`, `signal SIGNAL`, `abort`, `exit N` | stays alive through a signal; dies |
//! | `daemon MS`, `orphan MS`, `child MS` | leaves a process: in a session of its own, twice forked, or plain |
//! | `noisy MS` | leaves a process that keeps stdout open |
//! | `allocate MIB` | takes memory |
//! | `env [NAME]`, `args`, `cwd` | tells what it was given |
//! | `stdin`, `line` | echoes stdin to its end, or one line of it |

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::Signal;

const LINGER: &str = "--linger";

fn main() -> ExitCode {
    let args: Vec<Vec<u8>> = std::env::args_os()
        .skip(1)
        .map(OsStringExt::into_vec)
        .collect();
    if args.first().is_some_and(|arg| arg == LINGER.as_bytes()) {
        return linger(&args[1..]);
    }
    let script = if args.is_empty() {
        let prompt = std::env::var_os("GIT_AGENT_PROMPT")
            .unwrap_or_default()
            .into_vec();
        prompt
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    } else {
        args
    };
    let mut closing = Vec::new();
    let result = script
        .iter()
        .filter(|step| !step.trim_ascii().is_empty() && !step.starts_with(b"#"))
        .try_for_each(|step| run_step(step.trim_ascii(), &mut closing));
    for (file, line) in closing {
        // Whoever counts will miss the line: that is the report.
        let _ = append(&file, &line);
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Code(code)) => ExitCode::from(code),
        Err(Stop::Trouble(error)) => {
            let _ = writeln!(io::stderr(), "fake-agent: {error}");
            ExitCode::from(99)
        }
    }
}

enum Stop {
    Code(u8),
    Trouble(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Trouble(error.to_string())
    }
}

type Closing = Vec<(Vec<u8>, Vec<u8>)>;

fn run_step(step: &[u8], closing: &mut Closing) -> Result<(), Stop> {
    let (name, rest) = word(step);
    let Ok(name) = std::str::from_utf8(name) else {
        return answer();
    };
    match name {
        "print" => say(&[&unescape(rest), b"\n"]),
        "error" => Ok(io::stderr().write_all(&[&unescape(rest)[..], b"\n"].concat())?),
        "raw" => say(&[&unescape(rest)]),
        "bytes" => write_bytes(number(rest)?),
        "flood" => loop {
            say(&[&[b'f'; 79], b"\n"])?;
        },
        "escapes" => say(&[
            b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x1b[1;1H \x08\x7f\r",
            "\u{9b}31m \u{202e}desrever\u{202c} \u{2066}isolate\u{2069} zero\u{200b}width \u{feff}bom\n".as_bytes(),
        ]),
        "invalid" => say(&[b"caf\xe9 \xff\xfe \xc3( \xed\xa0\x80 \xf8\x88\x80\x80\x80\n"]),
        "write" | "append" | "remove" | "within" => file_step(name, rest, closing),
        "commit" => {
            git(&[b"add".to_vec(), b"--all".to_vec()])?;
            git(&[b"commit".to_vec(), b"--quiet".to_vec(), b"--message".to_vec(), unescape(rest)])
        }
        "git" => git(&words(rest)),
        "try" => attempt(&words(word(rest).1)),
        "stash" => attempt(&words(b"stash push --include-untracked")),
        "steal" => attempt(&[b"branch".to_vec(), b"--force".to_vec(), unescape(rest), b"HEAD".to_vec()]),
        "checkout" => attempt(&[b"checkout".to_vec(), unescape(rest)]),
        "ref" => attempt(&[b"update-ref".to_vec(), unescape(rest), b"HEAD".to_vec()]),
        "sleep" => {
            std::thread::sleep(Duration::from_millis(number(rest)?));
            Ok(())
        }
        "spin" => spin(Duration::from_millis(number(rest)?)),
        "until" => {
            let path = unescape(rest);
            while !Path::new(OsStr::from_bytes(&path)).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        }
        "ignore" => {
            let signal = signal(rest)?.as_raw();
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
            Ok(())
        }
        "signal" => {
            let (own, signal) = (rustix::process::getpid(), signal(rest)?);
            // Rust's runtime takes the first SIGSEGV and restores the default for the next.
            for _ in 0..2 {
                rustix::process::kill_process(own, signal).map_err(io::Error::from)?;
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        }
        "abort" => std::process::abort(),
        "exit" => Err(Stop::Code(u8::try_from(number(rest)?).map_err(|error| Stop::Trouble(error.to_string()))?)),
        "child" | "daemon" | "orphan" | "noisy" => leave_process(name, rest),
        "allocate" => {
            let size = usize::try_from(number(rest)? << 20).map_err(|error| Stop::Trouble(error.to_string()))?;
            let memory = vec![1u8; size];
            say(&[format!("{} bytes\n", std::hint::black_box(&memory).len()).as_bytes()])
        }
        "env" | "args" | "cwd" => tell(name, rest),
        "stdin" => {
            let mut all = Vec::new();
            io::stdin().read_to_end(&mut all)?;
            say(&[&all])
        }
        "line" => {
            let mut line = Vec::new();
            io::stdin().lock().read_until(b'\n', &mut line)?;
            say(&[&line])
        }
        _ => answer(),
    }
}

fn answer() -> Result<(), Stop> {
    say(&[b"the fake agent has nothing to say to that\n"])
}

fn file_step(name: &str, rest: &[u8], closing: &mut Closing) -> Result<(), Stop> {
    let (file, text) = word(rest);
    let (file, text) = (unescape(file), unescape(text));
    let path = Path::new(OsStr::from_bytes(&file));
    match name {
        "write" => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, [&text[..], b"\n"].concat())?;
        }
        "append" => append(&file, &text)?,
        "remove" => fs::remove_file(path)?,
        _ => {
            append(&file, &[b"+", &text[..]].concat())?;
            closing.push((file, [b"-", &text[..]].concat()));
        }
    }
    Ok(())
}

fn append(file: &[u8], line: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(OsStr::from_bytes(file))?;
    file.write_all(&[line, b"\n"].concat())
}

fn write_bytes(count: u64) -> Result<(), Stop> {
    let mut left = usize::try_from(count).map_err(|error| Stop::Trouble(error.to_string()))?;
    let line = [&[b'x'; 79][..], b"\n"].concat().repeat(512);
    while left > 0 {
        let part = left.min(line.len());
        say(&[&line[..part]])?;
        left -= part;
    }
    Ok(())
}

fn spin(duration: Duration) -> Result<(), Stop> {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok(())
}

fn tell(what: &str, rest: &[u8]) -> Result<(), Stop> {
    match what {
        "cwd" => say(&[std::env::current_dir()?.as_os_str().as_bytes(), b"\n"]),
        "args" => std::env::args_os().try_for_each(|arg| say(&[arg.as_bytes(), b"\n"])),
        _ if rest.is_empty() => {
            let mut variables: Vec<_> = std::env::vars_os().collect();
            variables.sort();
            variables.iter().try_for_each(|(name, value)| {
                say(&[name.as_bytes(), b"=", value.as_bytes(), b"\n"])
            })
        }
        _ => match std::env::var_os(OsStr::from_bytes(rest)) {
            Some(value) => say(&[rest, b"=", value.as_bytes(), b"\n"]),
            None => say(&[rest, b" is not set\n"]),
        },
    }
}

/// Runs git and passes its failure on.
fn git(args: &[Vec<u8>]) -> Result<(), Stop> {
    let status = Command::new("git")
        .args(args.iter().map(|arg| OsStr::from_bytes(arg)))
        .status()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Stop::Code(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(Stop::Trouble(format!("git: {status}"))),
    }
}

/// Runs git and tells how it went, so that a test can read what an agent was able to do.
fn attempt(args: &[Vec<u8>]) -> Result<(), Stop> {
    let output = Command::new("git")
        .args(args.iter().map(|arg| OsStr::from_bytes(arg)))
        .output()?;
    let first = args.first().map(Vec::as_slice).unwrap_or_default();
    let code = output
        .status
        .code()
        .map_or_else(|| output.status.to_string(), |code| code.to_string());
    say(&[
        b"git ",
        first,
        b" -> ",
        code.as_bytes(),
        b"\n",
        &output.stdout,
        &output.stderr,
    ])
}

fn leave_process(kind: &str, rest: &[u8]) -> Result<(), Stop> {
    let output = || {
        if kind == "noisy" {
            Stdio::inherit()
        } else {
            Stdio::null()
        }
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args([LINGER, kind])
        .arg(OsStr::from_bytes(rest))
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .spawn()?;
    if kind == "orphan" {
        child.wait()?;
    }
    Ok(())
}

/// The life of a process that was left behind.
fn linger(args: &[Vec<u8>]) -> ExitCode {
    let [kind, millis] = args else {
        return ExitCode::from(98);
    };
    if kind == b"orphan" {
        // The middle process of a double fork: it starts a daemon and ends.
        return match leave_process("daemon", millis) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(97),
        };
    }
    if (kind == b"daemon" || kind == b"noisy") && rustix::process::setsid().is_err() {
        return ExitCode::from(96);
    }
    match number(millis) {
        Ok(millis) => {
            std::thread::sleep(Duration::from_millis(millis));
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::from(95),
    }
}

fn say(parts: &[&[u8]]) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    for part in parts {
        out.write_all(part)?;
    }
    Ok(out.flush()?)
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

fn words(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(unescape)
        .collect()
}

fn number(text: &[u8]) -> Result<u64, Stop> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Stop::Trouble(format!("'{}' is no number", text.escape_ascii())))
}

fn signal(text: &[u8]) -> Result<Signal, Stop> {
    match text {
        b"TERM" => Ok(Signal::TERM),
        b"INT" => Ok(Signal::INT),
        b"HUP" => Ok(Signal::HUP),
        b"QUIT" => Ok(Signal::QUIT),
        b"KILL" => Ok(Signal::KILL),
        b"SEGV" => Ok(Signal::SEGV),
        b"PIPE" => Ok(Signal::PIPE),
        b"USR1" => Ok(Signal::USR1),
        b"STOP" => Ok(Signal::STOP),
        other => Err(Stop::Trouble(format!(
            "'{}' is no signal",
            other.escape_ascii()
        ))),
    }
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'e') => plain.push(0x1b),
            Some(b'0') => plain.push(0),
            Some(b's') => plain.push(b' '),
            Some(b'x') => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let value = std::str::from_utf8(&digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                plain.extend(value);
            }
            Some(other) => plain.push(other),
            None => plain.push(b'\\'),
        }
    }
    plain
}
