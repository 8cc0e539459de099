//! Listening to a git that talks to another repository: its answer, its last words, and whether it is still alive.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::{Context, Result};
use crate::git::phrases::{is_noise, plain};
use crate::process::tree;

/// The last lines of what the other side said that are kept for an error.
const SAID: usize = 40;
/// How much of a line that somebody says is heard.
const LONGEST_WORDS: usize = 1000;
/// How long the other side, or git itself, may show no sign of life before it is given up.
pub(in crate::git) const SILENCE: Duration = Duration::from_secs(300);

/// Who hears how far git is. Where nobody does it is not asked to tell: that takes both sides a noticeable part of the time.
pub enum Audience<'a> {
    /// Nobody.
    Nobody,
    /// Somebody, who is told line by line what is said, the other side's words included.
    Somebody(&'a mut dyn FnMut(&str)),
}

impl std::fmt::Debug for Audience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Audience::Nobody => "Nobody",
            Audience::Somebody(_) => "Somebody",
        })
    }
}

impl<'a> Audience<'a> {
    /// Returns somebody who is told, if anybody watches.
    pub fn of(watching: bool, tell: &'a mut dyn FnMut(&str)) -> Self {
        match watching {
            true => Audience::Somebody(tell),
            false => Audience::Nobody,
        }
    }

    /// Tells it something.
    pub fn hear(&mut self, text: &str) {
        if let Audience::Somebody(tell) = self {
            tell(text);
        }
    }

    fn is_there(&self) -> bool {
        matches!(self, Audience::Somebody(_))
    }

    /// Returns the option that makes git tell as much as is heard. Where the system does not say what a process reads and
    /// writes, its progress is the only sign of life.
    pub(in crate::git) fn wish(&self) -> &'static str {
        match self.is_there() || tree::traffic(std::process::id()) == 0 {
            true => "--progress",
            false => "--no-progress",
        }
    }
}

/// Returns whether a child and all below it have read or written anything since the last time.
fn grown(child: &Child, before: &mut u64) -> bool {
    let now = tree::traffic(child.id());
    now != std::mem::replace(before, now)
}

/// Feeds a child, listens to both its streams, and returns its exit code, its answer and the last lines it said.
pub(in crate::git) fn converse(
    mut child: Child,
    input: Vec<u8>,
    audience: &mut Audience<'_>,
) -> Result<(Option<i32>, Vec<u8>, Vec<String>)> {
    let stdin = child.stdin.take();
    let feeder = std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&input);
        }
    });
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(16 << 20).read_to_end(&mut answer);
        }
        answer
    });
    let lines = listen(child.stderr.take());
    let mut said: Vec<String> = Vec::new();
    let mut before = 0;
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok((text, whole)) => {
                audience.hear(&text);
                if whole {
                    said.push(text);
                    if said.len() > SAID {
                        said.remove(0);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // Who was asked to be quiet may still be at work.
            Err(RecvTimeoutError::Timeout)
                if !audience.is_there() && grown(&child, &mut before) => {}
            // A connection that was lost half-way can leave git waiting for itself.
            Err(RecvTimeoutError::Timeout) => {
                said.push(format!("no sign of life for {} seconds", SILENCE.as_secs()));
                let _ = child.kill();
                break;
            }
        }
    }
    let status = child.wait().context(|| "cannot wait for git".to_owned())?;
    let answer = reader.join().unwrap_or_default();
    let _ = feeder.join();
    Ok((status.code(), answer, said))
}

/// Listens to what a child says, line by line. Progress is painted over with carriage returns: each state of it is a line
/// that is not whole.
fn listen(stderr: Option<ChildStderr>) -> Receiver<(String, bool)> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let Some(stderr) = stderr else {
            return;
        };
        let mut line = Vec::new();
        for byte in BufReader::new(stderr).bytes().map_while(Result::ok) {
            if byte != b'\n' && byte != b'\r' {
                if line.len() < LONGEST_WORDS {
                    line.push(byte);
                }
                continue;
            }
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            line.clear();
            if !text.is_empty() && sender.send((text, byte == b'\n')).is_err() {
                return;
            }
        }
    });
    lines
}

pub(in crate::git) fn lines_of(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Returns what matters of what was said, as one line.
pub(in crate::git) fn summary(said: &[String]) -> String {
    let words = |line: &String| {
        let plain = plain(line);
        (!is_noise(plain)).then(|| plain.to_owned())
    };
    let mut kept: Vec<String> = said.iter().filter_map(words).collect();
    kept.dedup();
    let surplus = kept.len().saturating_sub(6);
    kept.drain(..surplus);
    kept.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_no_reason() {
        let said = [
            "Enumerating objects: 3, done.",
            "remote: Resolving deltas: 50% (1/2)",
            "error: failed to push some refs to 'x'",
            "hint: try something",
            "fatal: no",
        ]
        .map(str::to_owned);
        assert_eq!(summary(&said), "failed to push some refs to 'x'; no");
    }
}
