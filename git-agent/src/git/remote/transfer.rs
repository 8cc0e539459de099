//! Talks to a git that transfers objects: its answer, its last lines, and whether it is still alive.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::{Context, Result};
use crate::git::phrases::{is_noise, plain};
use crate::process::tree;

/// The number of last lines that are kept for an error.
const SAID: usize = 40;
/// The longest line that is kept.
const LONGEST_WORDS: usize = 1000;
/// How long the remote or git itself may be silent before the transfer is given up.
pub(in crate::git) const SILENCE: Duration = Duration::from_secs(300);

/// The listener to git's progress. Without one, git is not asked for progress, which costs both sides noticeable time.
pub enum Audience<'a> {
    /// No listener.
    Silent,
    /// A function that receives each line, including those of the remote.
    Listener(&'a mut dyn FnMut(&str)),
}

impl std::fmt::Debug for Audience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Audience::Silent => "Silent",
            Audience::Listener(_) => "Listener",
        })
    }
}

impl<'a> Audience<'a> {
    /// Returns a listener if the user watches.
    pub fn of(watching: bool, tell: &'a mut dyn FnMut(&str)) -> Self {
        if watching {
            Audience::Listener(tell)
        } else {
            Audience::Silent
        }
    }

    /// Passes a line to the listener.
    pub fn hear(&mut self, text: &str) {
        if let Audience::Listener(tell) = self {
            tell(text);
        }
    }

    fn is_there(&self) -> bool {
        matches!(self, Audience::Listener(_))
    }

    /// Returns git's option for progress. If the system does not report what a process reads and writes, progress is
    /// the only sign of life.
    pub(in crate::git) fn wish(&self) -> &'static str {
        if self.is_there() || tree::traffic(std::process::id()) == 0 {
            "--progress"
        } else {
            "--no-progress"
        }
    }
}

/// Returns whether a child and its descendants have read or written anything since the last time.
fn grown(child: &Child, before: &mut u64) -> bool {
    let now = tree::traffic(child.id());
    now != std::mem::replace(before, now)
}

/// Feeds a child, reads both its streams, and returns its exit code, its answer and its last lines.
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
            // A git without progress output may still be working.
            Err(RecvTimeoutError::Timeout)
                if !audience.is_there() && grown(&child, &mut before) => {}
            // After a lost connection, git can wait for itself forever.
            Err(RecvTimeoutError::Timeout) => {
                said.push(format!("no data for {} seconds", SILENCE.as_secs()));
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

/// Reads a child's standard error line by line. Progress is overwritten with carriage returns: each state of it is an
/// incomplete line.
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

/// Returns the relevant part of the output, as one line.
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
