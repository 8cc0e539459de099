//! Asking another repository for its refs.
//!
//! The question goes to the other side at once, so that the caller can do something else until the answer is read. Where
//! that is plain it is put by [`super::ls_refs`], and by `git ls-remote` in every other case: also where the other side
//! gives no answer that makes sense, so that what is wrong is said in git's own words.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use super::ls_refs::Direct;
use super::packets::Heard;
use super::remote::{refused, without_password};
use super::talk::{lines_of, summary};
use super::{ObjectId, Repo};
use crate::error::{Context, Error, Result};

/// The longest line of an advertisement that is looked at.
const LINE: u64 = 8 << 10;
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
        listener.listen(child)
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

    /// Listens to `git ls-remote`.
    fn listen(&self, mut child: Child) -> Result<Advertisement> {
        let stderr = child.stderr.take();
        let complaints = std::thread::spawn(move || {
            let mut said = Vec::new();
            if let Some(stderr) = stderr {
                let _ = stderr.take(64 << 10).read_to_end(&mut said);
            }
            said
        });
        let mut advertised = Advertisement::default();
        let read = match child.stdout.take() {
            Some(stdout) => self.read(BufReader::new(stdout), &mut advertised),
            None => Ok(()),
        };
        if advertised.cut || read.is_err() {
            // Enough was seen: what is still being sent is of no use.
            let _ = child.kill();
        }
        let status = child.wait().context(|| self.cannot())?;
        let said = complaints.join().unwrap_or_default();
        read?;
        if !status.success() && !advertised.cut {
            let said = summary(&lines_of(&said));
            return Err(refused("list", self.remote, &said));
        }
        Ok(advertised)
    }

    fn read(&self, mut reader: impl BufRead, advertised: &mut Advertisement) -> Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader
                .by_ref()
                .take(LINE)
                .read_until(b'\n', &mut line)
                .context(|| self.cannot())?;
            if length == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line);
            let Some((id, name)) = text.trim_end_matches('\n').split_once('\t') else {
                return Err(Error::fatal(self.cannot()).because("git's answer makes no sense"));
            };
            if !self.hear(id.as_bytes(), name, advertised)? {
                return Ok(());
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
                self.remote
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
