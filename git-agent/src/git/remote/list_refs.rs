//! Lists the refs of another repository with `git ls-remote`.
//!
//! The question is sent at once and the answer is read later, so that the caller can work in between.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};
use crate::git::remote::transfer::{SILENCE, lines_of, summary};
use crate::git::remote::{not_listed, without_password};
use crate::git::{ObjectId, Repo};

/// The longest line of an advertisement that is read.
const LINE: u64 = 8 << 10;
/// The largest answer that is read completely.
const LONGEST_ANSWER: u64 = 512 << 20;
/// How much of git's error output is kept.
const COMPLAINTS: u64 = 64 << 10;
/// The most refs that are read from a remote.
const ENDLESS: usize = 5_000_000;

/// A ref in the advertisement of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The full name at the remote.
    pub name: String,
    /// The object it points at.
    pub id: ObjectId,
}

/// The caller's interest in an advertised ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// The ref is wanted.
    Wanted,
    /// Not wanted, but worth reporting.
    Beside,
    /// Not relevant.
    None,
}

/// The relevant part of an advertisement.
#[derive(Debug, Default)]
pub struct Advertisement {
    /// The wanted refs.
    pub refs: Vec<Advertised>,
    /// The first few names that are only reported.
    pub others: Vec<String>,
    /// The number of refs that are only reported.
    pub other_count: usize,
    /// The number of all refs.
    pub total: usize,
    /// Whether there were more refs than the caller wanted.
    pub cut: bool,
}

/// A listing of a remote in progress.
#[derive(Debug)]
pub struct Asking<'r> {
    repo: &'r Repo,
    remote: String,
    git: Child,
}

impl Repo {
    /// Asks a remote for its refs. [`Asking::finish`] reads the answer.
    ///
    /// Asks for all refs: `git ls-remote` would compare each ref with every pattern locally, and send none of them to
    /// the remote.
    pub fn ask_remote(&self, remote: &str) -> Result<Asking<'_>> {
        let git = self
            .remote_git()
            .args(["ls-remote", "--quiet", "--refs", "--", remote])
            .spawn(Stdio::null(), Stdio::piped(), Stdio::piped())?;
        Ok(Asking {
            repo: self,
            remote: remote.to_owned(),
            git,
        })
    }
}

impl Asking<'_> {
    /// Reads the answer: the wanted refs, up to a limit.
    pub fn finish(self, interest: &dyn Fn(&str) -> Interest, most: usize) -> Result<Advertisement> {
        let listener = Listener {
            hash: self.repo.hash_kind(),
            remote: &self.remote,
            interest,
            most,
        };
        listener.listen(self.git, SILENCE)
    }
}

/// Handles each ref of an answer.
struct Listener<'a> {
    hash: gix::hash::Kind,
    remote: &'a str,
    interest: &'a dyn Fn(&str) -> Interest,
    most: usize,
}

impl Listener<'_> {
    fn cannot(&self) -> String {
        format!("cannot list '{}'", without_password(self.remote))
    }

    /// Reads from `git ls-remote`, which may be silent for this long.
    fn listen(&self, mut child: Child, patience: Duration) -> Result<Advertisement> {
        let complaints = child.stderr.take().map(complaints_of);
        let mut advertised = Advertisement::default();
        let read = match child.stdout.take() {
            Some(stdout) => {
                let reader = BufReader::new(Patient::new(stdout, patience));
                self.read(reader, LONGEST_ANSWER, &mut advertised)
            }
            None => Ok(None),
        };
        if advertised.cut || !matches!(read, Ok(None)) {
            // Enough was read, and the rest is not needed. Children of git may continue to write errors.
            let _ = child.kill();
            let _ = child.wait();
            return match read {
                Ok(None) => Ok(advertised),
                Ok(Some(fault)) => Err(fault),
                Err(error) => Err(match given_up(&error, patience) {
                    Some(reason) => not_listed(self.remote, &reason),
                    None => Error::fatal(self.cannot()).because(error),
                }),
            };
        }
        let status = child.wait().context(|| self.cannot())?;
        if !status.success() {
            let said = complaints.and_then(|thread| thread.join().ok());
            let said = summary(&lines_of(&said.unwrap_or_default()));
            return Err(not_listed(self.remote, &said));
        }
        Ok(advertised)
    }

    /// Reads lines up to a number of bytes. Returns the error of handling one of them, if there is one.
    fn read(
        &self,
        reader: impl BufRead,
        most: u64,
        advertised: &mut Advertisement,
    ) -> io::Result<Option<Error>> {
        let mut reader = reader.take(most);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.by_ref().take(LINE).read_until(b'\n', &mut line)?;
            if length == 0 || reader.limit() == 0 {
                return match reader.limit() {
                    0 => Err(ErrorKind::FileTooLarge.into()),
                    _ => Ok(None),
                };
            }
            let text = String::from_utf8_lossy(&line);
            let Some((id, name)) = text.trim_end_matches('\n').split_once('\t') else {
                let error = Error::fatal(self.cannot());
                return Ok(Some(
                    error.because("cannot parse the output of 'git ls-remote'"),
                ));
            };
            match self.hear(id.as_bytes(), name, advertised) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Ok(Some(error)),
            }
        }
    }

    /// Handles one ref. Returns whether to continue.
    fn hear(&self, id: &[u8], name: &str, advertised: &mut Advertisement) -> Result<bool> {
        advertised.total += 1;
        if advertised.total > ENDLESS {
            return Err(Error::fatal(self.cannot()).because("the remote has too many refs"));
        }
        match (self.interest)(name) {
            Interest::Wanted => {}
            Interest::Beside => {
                advertised.other_count += 1;
                if advertised.others.len() < 20 {
                    advertised.others.push(name.to_owned());
                }
                return Ok(true);
            }
            Interest::None => return Ok(true),
        }
        let id = ObjectId::from_hex(id).context(|| self.cannot())?;
        if id.kind() != self.hash {
            return Err(Error::fatal(format!(
                "'{}' uses another object format than this repository",
                without_password(self.remote)
            )));
        }
        if advertised.refs.len() == self.most {
            advertised.cut = true;
            return Ok(false);
        }
        advertised.refs.push(Advertised {
            name: name.to_owned(),
            id,
        });
        Ok(true)
    }
}

/// Reads a child's standard error to the end and keeps the start: git would die without a reader.
fn complaints_of(mut stderr: ChildStderr) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.by_ref().take(COMPLAINTS).read_to_end(&mut said);
        let _ = io::copy(&mut stderr, &mut io::sink());
        said
    })
}

/// A child's output with a time limit for silence.
#[derive(Debug)]
struct Patient {
    from: ChildStdout,
    patience: Duration,
}

impl Patient {
    /// Reads from a child that may be silent for at most this long.
    fn new(from: ChildStdout, patience: Duration) -> Self {
        Patient { from, patience }
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if is_ready(&self.from, self.patience)? {
            self.from.read(buffer)
        } else {
            Err(ErrorKind::TimedOut.into())
        }
    }
}

/// Returns why reading was given up, if the reason is not the content.
fn given_up(error: &io::Error, patience: Duration) -> Option<String> {
    match error.kind() {
        ErrorKind::TimedOut => Some(format!("no data for {} seconds", patience.as_secs())),
        ErrorKind::FileTooLarge => Some("the answer is too long".to_owned()),
        _ => None,
    }
}

/// Waits until a descriptor is readable or at its end. Returns whether that happened in time.
fn is_ready(descriptor: impl AsFd, patience: Duration) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        let left = patience.saturating_sub(started.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn listener() -> Listener<'static> {
        Listener {
            hash: gix::hash::Kind::Sha1,
            remote: "origin",
            interest: &|_| Interest::None,
            most: 10,
        }
    }

    fn listen(script: &str) -> Result<Advertisement> {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        listener().listen(child, Duration::from_secs(2))
    }

    #[test]
    fn somebody_silent_is_given_up() {
        let started = Instant::now();
        // The shell's child keeps standard error open.
        let silent = listen("printf '1\\trefs/a\\n'; sleep 60; true").expect_err("it says nothing");
        let said = "cannot list 'origin': no data for 2 seconds";
        assert_eq!(silent.message(), said);
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it was waited for"
        );
    }

    #[test]
    fn somebody_who_complains_at_length_is_heard_out() {
        let long = "head -c 300000 /dev/zero >&2 && printf '1\\trefs/a\\n'";
        assert_eq!(listen(long).expect("it answers").total, 1);
        let failed = listen("echo fatal: no >&2; exit 1").expect_err("it fails");
        assert_eq!(failed.message(), "cannot list 'origin': no");
    }

    #[test]
    fn an_answer_that_does_not_end_is_given_up() {
        let text = "1\trefs/a\n".repeat(1000);
        let length = u64::try_from(text.len()).expect("it is short");
        let mut advertised = Advertisement::default();
        let read = listener().read(text.as_bytes(), length, &mut advertised);
        assert_eq!(read.expect_err("it ends").kind(), ErrorKind::FileTooLarge);
        let mut advertised = Advertisement::default();
        let read = listener().read(text.as_bytes(), length + 1, &mut advertised);
        assert!(matches!(read, Ok(None)) && advertised.total == 1000);
    }
}
