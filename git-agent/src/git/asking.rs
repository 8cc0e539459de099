//! Asking another repository for its refs.
//!
//! The question goes to the other side at once, so that the caller can do something else until the answer is read. Where
//! that is plain it is put by [`super::ls_refs`], and by `git ls-remote` in every other case: also where the other side
//! gives no answer that makes sense, so that what is wrong is said in git's own words.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ls_refs::{Direct, Patient, given_up};
use super::packets::{self, Heard};
use super::remote::{refused, without_password};
use super::talk::{SILENCE, lines_of, summary};
use super::{ObjectId, Repo};
use crate::error::{Context, Error, Result};

/// The longest line of an advertisement that is looked at.
const LINE: u64 = 8 << 10;
/// How much of what git complains about is kept.
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
    way: Way,
}

#[derive(Debug)]
enum Way {
    Direct(Direct),
    Git(Child),
}

impl Repo {
    /// Asks another repository for its refs below these prefixes, or without any for all. The other side may give more than
    /// that. The answer is read by [`Asking::finish`].
    pub fn ask_remote(&self, remote: &str, prefixes: &[&str]) -> Result<Asking<'_>> {
        let way = match Direct::start(self, remote, prefixes) {
            Some(direct) => Way::Direct(direct),
            None => Way::Git(self.ls_remote(remote)?),
        };
        Ok(Asking {
            repo: self,
            remote: remote.to_owned(),
            way,
        })
    }

    /// Starts `git ls-remote` for all refs: it would compare each with every pattern, and tell the other side of none.
    fn ls_remote(&self, remote: &str) -> Result<Child> {
        self.remote_git()
            .args(["ls-remote", "--quiet", "--refs", "--", remote])
            .spawn(Stdio::null(), Stdio::piped(), Stdio::piped())
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
        let child = match self.way {
            Way::Git(child) => child,
            Way::Direct(direct) => {
                let mut advertised = Advertisement::default();
                let hear = &mut |id: &[u8], name: &[u8]| {
                    listener.hear(id, &String::from_utf8_lossy(name), &mut advertised)
                };
                match direct.read(&self.remote, hear)? {
                    Heard::All | Heard::Enough => return Ok(advertised),
                    Heard::Nonsense => self.repo.ls_remote(&self.remote)?,
                }
            }
        };
        listener.listen(child, SILENCE)
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
                self.read(reader, packets::ENDLESS, &mut advertised)
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
                    Some(reason) => refused("list", self.remote, &reason),
                    None => Error::fatal(self.cannot()).because(error),
                }),
            };
        }
        let status = child.wait().context(|| self.cannot())?;
        if !status.success() {
            let said = complaints.and_then(|thread| thread.join().ok());
            let said = summary(&lines_of(&said.unwrap_or_default()));
            return Err(refused("list", self.remote, &said));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

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
