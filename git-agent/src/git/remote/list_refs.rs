//! Lists the refs of another repository with `git ls-remote`.
//!
//! The question is asked at once and the answer read later, so that the caller can work in between.

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

/// The longest line of an advertisement that is looked at.
const LINE: u64 = 8 << 10;
/// The largest answer that is read to its end.
const LONGEST_ANSWER: u64 = 512 << 20;
/// How much of git's error output is kept.
const COMPLAINTS: u64 = 64 << 10;
/// Somebody who has more refs than this is not listened to any longer.
const ENDLESS: usize = 5_000_000;

/// A ref as another repository advertises it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// Its full name there.
    pub name: String,
    /// What it points at.
    pub id: ObjectId,
}

/// What a ref is to whoever listens to an advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// It is wanted.
    Wanted,
    /// It is not, but worth knowing of.
    Beside,
    /// It is somebody else's affair.
    None,
}

/// Everything of interest that was advertised.
#[derive(Debug, Default)]
pub struct Advertisement {
    /// The refs that were wanted.
    pub refs: Vec<Advertised>,
    /// Names beside them, the first few.
    pub others: Vec<String>,
    /// How many were beside them.
    pub other_count: usize,
    /// How many there were in all.
    pub total: usize,
    /// Whether there was more than the caller wanted to see.
    pub cut: bool,
}

/// A listing of another repository that is under way.
#[derive(Debug)]
pub struct Asking<'r> {
    repo: &'r Repo,
    remote: String,
    git: Child,
}

impl Repo {
    /// Asks another repository for its refs. The answer is read by [`Asking::finish`].
    ///
    /// All refs are asked for: `git ls-remote` would compare each ref with every pattern here, and send none of them to the other side.
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
    /// Reads the answer: the refs that are wanted, at most so many.
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

/// What somebody does with each ref of an answer.
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

    /// Listens to `git ls-remote`, which may be silent for so long.
    fn listen(&self, mut child: Child, patience: Duration) -> Result<Advertisement> {
        let complaints = child.stderr.take().map(complaints_of);
        let mut advertised = Advertisement::default();
        let read = match child.stdout.take() {
            Some(stdout) => {
                let reader = BufReader::new(Patient::new(stdout, patience));
                self.read(reader, LONGEST_ANSWER, &mut advertised)
            }
            None => Ok(Ok(())),
        };
        if advertised.cut || !matches!(read, Ok(Ok(()))) {
            // Enough was seen: what is still being sent is of no use. Whoever git started may go on complaining.
            let _ = child.kill();
            let _ = child.wait();
            return match read {
                Ok(heard) => heard.map(|()| advertised),
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

    /// Reads lines, so many bytes of them at most. What is made of them comes back inside.
    fn read(
        &self,
        reader: impl BufRead,
        most: u64,
        advertised: &mut Advertisement,
    ) -> io::Result<Result<()>> {
        let mut reader = reader.take(most);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.by_ref().take(LINE).read_until(b'\n', &mut line)?;
            if length == 0 || reader.limit() == 0 {
                return match reader.limit() {
                    0 => Err(ErrorKind::FileTooLarge.into()),
                    _ => Ok(Ok(())),
                };
            }
            let text = String::from_utf8_lossy(&line);
            let Some((id, name)) = text.trim_end_matches('\n').split_once('\t') else {
                let error = Error::fatal(self.cannot());
                return Ok(Err(error.because("git's answer makes no sense")));
            };
            match self.hear(id.as_bytes(), name, advertised) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Takes one ref in. Returns whether there may be more.
    fn hear(&self, id: &[u8], name: &str, advertised: &mut Advertisement) -> Result<bool> {
        advertised.total += 1;
        if advertised.total > ENDLESS {
            return Err(Error::fatal(self.cannot()).because("it has more refs than anybody needs"));
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

/// Listens to what a child complains about, of which the beginning is kept: git dies where nobody listens.
fn complaints_of(mut stderr: ChildStderr) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.by_ref().take(COMPLAINTS).read_to_end(&mut said);
        let _ = io::copy(&mut stderr, &mut io::sink());
        said
    })
}

/// Output of somebody who is not waited for without end.
#[derive(Debug)]
struct Patient {
    from: ChildStdout,
    patience: Duration,
}

impl Patient {
    /// Reads from somebody who may be silent for so long at most.
    fn new(from: ChildStdout, patience: Duration) -> Self {
        Patient { from, patience }
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match is_ready(&self.from, self.patience)? {
            true => self.from.read(buffer),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Says why somebody is listened to no longer, if it is not for what they said.
fn given_up(error: &io::Error, patience: Duration) -> Option<String> {
    match error.kind() {
        ErrorKind::TimedOut => Some(format!(
            "no sign of life for {} seconds",
            patience.as_secs()
        )),
        ErrorKind::FileTooLarge => Some("its answer does not end".to_owned()),
        _ => None,
    }
}

/// Waits until something can be read from a descriptor, or is at its end. Returns whether that came in time.
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
        // Whom the shell started keeps its complaints open.
        let silent = listen("printf '1\\trefs/a\\n'; sleep 60; true").expect_err("it says nothing");
        let said = "cannot list 'origin': no sign of life for 2 seconds";
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
        assert!(matches!(read, Ok(Ok(()))) && advertised.total == 1000);
    }
}
