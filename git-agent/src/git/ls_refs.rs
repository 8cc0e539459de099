//! Speaking git's protocol, version 2, to list another repository's refs, without a git of our own in between.
//!
//! What speaks for the other side is `git upload-pack` itself for a repository on this machine, and git's own program for
//! the web. Starting them takes a part of the time that `git ls-remote` does, which starts them through more of itself.
//! Whatever is special in the settings, and every answer that is not as expected, is left to git.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::command::{Complaints, NO_REPLACE};
use super::packets::{Answers, Hear, Heard, put};
use super::remote::refused;
use super::talk::{SILENCE, lines_of, summary};
use super::{Git, Repo};
use crate::env::GIT_LOCATION_VARIABLES;
use crate::error::Result;

/// How long a helper may take to end once it has answered.
const FAREWELL: Duration = Duration::from_secs(10);
/// How much of what a helper complains about is read.
const COMPLAINTS: u64 = 64 << 10;
/// Variables of a repository that git keeps from one on this machine that it asks, beside those that we never pass on.
const OWN_VARIABLES: [&str; 7] = [
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    NO_REPLACE,
    "GIT_REPLACE_REF_BASE",
];

/// A conversation with whoever speaks for another repository.
#[derive(Debug)]
pub(super) struct Direct {
    child: Child,
    /// Where a helper complains. Nobody hears upload-pack: git is asked again for its words.
    complaints: Option<Complaints>,
    question: Question,
}

/// Where the answer comes from; nothing where the two sides do not fit.
type Answer = io::Result<Option<Answers<BufReader<Patient>>>>;

/// How the question is put.
#[derive(Debug)]
enum Question {
    /// It was, to a git of this machine, whose abilities are known before it tells them.
    Put(Answers<BufReader<Patient>>, Wanted),
    /// It will be, once the other side has said what it can.
    Waits(JoinHandle<Answer>),
}

/// Whom to start for an address.
#[derive(Debug, PartialEq, Eq)]
enum Speaker {
    /// The other repository is here.
    Here(String),
    /// It is reached by a helper of this name.
    Helper(&'static str, String),
}

impl Speaker {
    /// Returns the name of the protocol, as settings have it.
    fn scheme(&self) -> &str {
        match self {
            Speaker::Here(_) => "file",
            Speaker::Helper(program, _) => program.rsplit('-').next().unwrap_or_default(),
        }
    }
}

impl Direct {
    /// Puts the question, if the settings leave no doubt about how git would.
    pub(super) fn start(repo: &Repo, remote: &str, prefixes: &[&str]) -> Option<Direct> {
        let top = repo.main_work_tree();
        let dir = top.as_deref().unwrap_or(repo.common_dir());
        let speaker = speaker(&repo.plain_fetch_url(remote)?, dir)?;
        if !may_speak(repo, speaker.scheme()) {
            return None;
        }
        let helped = matches!(speaker, Speaker::Helper(..));
        let complaints = helped.then(Complaints::new).transpose().ok()?;
        let mut child = match &speaker {
            Speaker::Here(path) => start_here(path, dir)?,
            Speaker::Helper(program, url) => {
                let sink = complaints.as_ref()?.sink().ok()?;
                start_helper(repo, program, (remote, url), sink)?
            }
        };
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take())?;
        let wanted = Wanted {
            hash: repo.hash_kind(),
            prefixes: prefixes.iter().map(|one| (*one).to_owned()).collect(),
        };
        let answers = Answers::new(BufReader::new(Patient::new(stdout, SILENCE)));
        let question = match helped {
            true => Question::Waits(std::thread::spawn(move || ask(stdin, answers, &wanted))),
            false => ask_at_once(stdin, answers, wanted)?,
        };
        Some(Direct {
            child,
            complaints,
            question,
        })
    }

    /// Reads the answer.
    pub(super) fn read(self, remote: &str, hear: &mut Hear<'_>) -> Result<Heard> {
        let mut child = self.child;
        let answers = match self.question {
            Question::Put(answers, wanted) => check(answers, &wanted),
            Question::Waits(thread) => thread.join().unwrap_or(Ok(None)),
        };
        let read = answers.and_then(|answers| match answers {
            Some(answers) => answers.refs(hear),
            None => Ok(Ok(Heard::Nonsense)),
        });
        match read {
            Ok(Ok(Heard::All)) => {
                part(&mut child);
                Ok(Heard::All)
            }
            Ok(Ok(Heard::Enough)) => {
                let _ = child.kill();
                let _ = child.wait();
                Ok(Heard::Enough)
            }
            Ok(Err(error)) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
            Err(error) if let Some(reason) = given_up(&error, SILENCE) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(refused("list", remote, &reason))
            }
            Ok(Ok(Heard::Nonsense)) | Err(_) => {
                let failed = !part(&mut child);
                // What a helper says is what git would say, and the user may have been asked for a password already.
                let said = self.complaints.map(|all| all.take_first(COMPLAINTS));
                let said = said.and_then(std::io::Result::ok).unwrap_or_default();
                let said = summary(&lines_of(&said));
                match failed && !said.is_empty() {
                    true => Err(refused("list", remote, &said)),
                    false => Ok(Heard::Nonsense),
                }
            }
        }
    }
}

/// Waits for somebody who has nothing more to do, but not for long. Returns whether they ended well.
fn part(child: &mut Child) -> bool {
    if !has_ended(child) {
        let _ = child.kill();
    }
    child.wait().is_ok_and(|status| status.success())
}

fn has_ended(child: &Child) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match ended {
        Some(Ok(ended)) => is_ready(&ended, FAREWELL).unwrap_or(false),
        _ => false,
    }
}

/// Returns whether git may speak a protocol, and in the version that is known here, as far as is plain.
fn may_speak(repo: &Repo, scheme: &str) -> bool {
    let version = repo.config_string("protocol.version");
    if version.is_some_and(|version| version != "2") {
        return false;
    }
    // This and the next but one are how gix keeps GIT_ALLOW_PROTOCOL and GIT_PROTOCOL_FROM_USER. The former counts alone.
    if let Some(allowed) = repo.config_string("gitoxide.allow.protocol") {
        return allowed.split(':').any(|one| one == scheme);
    }
    let told = |key: &str| repo.config_string(key).is_some();
    !told("protocol.allow")
        && !told("gitoxide.allow.protocolFromUser")
        && repo.config_subsections("protocol").is_empty()
}

/// Returns whom to start for an address, seen from a directory. Everything that git may understand in another way, it is
/// left to understand.
fn speaker(address: &str, dir: &Path) -> Option<Speaker> {
    if address.chars().any(char::is_control) {
        return None;
    }
    for (scheme, program) in [
        ("http://", "git-remote-http"),
        ("https://", "git-remote-https"),
    ] {
        if address.starts_with(scheme) {
            return Some(Speaker::Helper(program, address.to_owned()));
        }
    }
    // What is escaped in a URL is not in a path; and a file may be a bundle.
    let path = match address.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && !path.contains(['%', '~']) => path,
        Some(_) => return None,
        None => address,
    };
    let is_path = ["/", "./", "../"].iter().any(|way| path.starts_with(way));
    (is_path && dir.join(path).is_dir()).then(|| Speaker::Here(path.to_owned()))
}

fn start_here(path: &str, dir: &Path) -> Option<Child> {
    let mut git = Git::outside()
        .current_dir(dir)
        .env("GIT_PROTOCOL", "version=2");
    for name in OWN_VARIABLES {
        git = git.env_remove(name);
    }
    git.args(["upload-pack", path])
        .spawn(Stdio::piped(), Stdio::piped(), Stdio::null())
        .ok()
}

/// Starts a helper of git as git does, but for what only git itself needs. Where git did not start us, it may not be found.
fn start_helper(
    repo: &Repo,
    program: &str,
    (remote, url): (&str, &str),
    complaints: Stdio,
) -> Option<Child> {
    let mut command = Command::new(program);
    for name in GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    let top = repo.main_work_tree();
    if let Some(top) = &top {
        command.env("GIT_WORK_TREE", top);
    }
    command
        .args([remote, url])
        .current_dir(top.as_deref().unwrap_or(repo.common_dir()))
        .env("GIT_DIR", repo.common_dir())
        .env("GIT_COMMON_DIR", repo.common_dir())
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints)
        .spawn()
        .ok()
}

/// Says what is wanted before the other side has said what it can. The few words fit into a pipe, so that nobody waits.
fn ask_at_once(
    mut stdin: ChildStdin,
    answers: Answers<BufReader<Patient>>,
    wanted: Wanted,
) -> Option<Question> {
    let usual = [
        "ls-refs".to_owned(),
        format!("object-format={}", wanted.hash),
    ];
    // One that is gone already tells why when it is read from.
    let _ = stdin.write_all(&wanted.question(&usual)?);
    Some(Question::Put(answers, wanted))
}

/// Reads what the other side can, and returns where its answer comes from if it has understood the question.
fn check(mut answers: Answers<BufReader<Patient>>, wanted: &Wanted) -> Answer {
    let capabilities = answers.capabilities()?.unwrap_or_default();
    let told = |one: &String| one.starts_with("object-format=");
    let fits = capabilities.iter().any(told) && wanted.question(&capabilities).is_some();
    Ok(fits.then_some(answers))
}

/// Says what is wanted once the other side has said what it can.
fn ask(mut stdin: ChildStdin, mut answers: Answers<BufReader<Patient>>, wanted: &Wanted) -> Answer {
    stdin.write_all(b"stateless-connect git-upload-pack\n")?;
    // Anything but an empty line says that the other side speaks an older version.
    if answers.byte()? != b'\n' {
        return Ok(None);
    }
    let Some(capabilities) = answers.capabilities()? else {
        return Ok(None);
    };
    match wanted.question(&capabilities) {
        None => Ok(None),
        Some(question) => {
            stdin.write_all(&question)?;
            // Whoever reads on finds the end, and ends.
            drop(stdin);
            Ok(Some(answers))
        }
    }
}

/// What is to be listed.
#[derive(Debug)]
struct Wanted {
    hash: gix::hash::Kind,
    prefixes: Vec<String>,
}

impl Wanted {
    /// Returns the question as it goes over the wire, unless somebody with these capabilities would not understand it.
    fn question(&self, capabilities: &[String]) -> Option<Vec<u8>> {
        let value_of = |name: &str| {
            let found = capabilities.iter().find_map(|one| one.strip_prefix(name))?;
            let value = found.strip_prefix('=');
            value.or(found.is_empty().then_some(""))
        };
        value_of("ls-refs")?;
        let format = value_of("object-format");
        if format.unwrap_or("sha1") != self.hash.to_string() {
            return None;
        }
        let mut question = Vec::new();
        put(&mut question, "command=ls-refs\n");
        if let Some(format) = format {
            put(&mut question, &format!("object-format={format}\n"));
        }
        question.extend_from_slice(b"0001");
        for prefix in &self.prefixes {
            put(&mut question, &format!("ref-prefix {prefix}\n"));
        }
        question.extend_from_slice(b"0000");
        Some(question)
    }
}

/// Output of somebody who is not waited for without end.
#[derive(Debug)]
pub(super) struct Patient {
    from: ChildStdout,
    patience: Duration,
}

impl Patient {
    /// Reads from somebody who may be silent for so long at most.
    pub(super) fn new(from: ChildStdout, patience: Duration) -> Self {
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
pub(super) fn given_up(error: &io::Error, patience: Duration) -> Option<String> {
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

    #[test]
    fn the_question_fits_who_is_asked() {
        let wanted = Wanted {
            hash: gix::hash::Kind::Sha1,
            prefixes: vec!["refs/x/".to_owned()],
        };
        let asked = |capabilities: &[&str]| {
            let all: Vec<String> = capabilities.iter().map(|one| (*one).to_owned()).collect();
            let question = wanted.question(&all)?;
            Some(String::from_utf8(question).expect("it is text"))
        };
        assert_eq!(
            asked(&["ls-refs=unborn", "object-format=sha1"]).as_deref(),
            Some("0014command=ls-refs\n0017object-format=sha1\n00010017ref-prefix refs/x/\n0000")
        );
        assert_eq!(
            asked(&["ls-refs"]).as_deref(),
            Some("0014command=ls-refs\n00010017ref-prefix refs/x/\n0000")
        );
        assert_eq!(asked(&["ls-refs", "object-format=sha256"]), None);
        assert_eq!(asked(&["ls-refs-more", "fetch"]), None);
    }

    #[test]
    fn only_plain_addresses_are_asked_directly() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("bare")).expect("writable");
        std::fs::write(dir.path().join("bundle"), "").expect("writable");
        let path = dir.path().join("bare").display().to_string();
        let here = |path: &str| Some(Speaker::Here(path.to_owned()));
        assert_eq!(speaker("./bare", dir.path()), here("./bare"));
        assert_eq!(speaker(&path, dir.path()), here(&path));
        assert_eq!(speaker(&format!("file://{path}"), dir.path()), here(&path));
        for special in [
            "bare",
            "-bare",
            "./bundle",
            "./none",
            "file://host/bare",
            "file:///%2e",
            "host:bare",
            "ssh://host/bare",
            "git://host/bare",
            "ext::bare",
            "http::http://h.example/x",
            "http://h.example/\n",
        ] {
            assert_eq!(speaker(special, dir.path()), None, "{special}");
        }
        let url = "https://h.example/x";
        let helper = Speaker::Helper("git-remote-https", url.to_owned());
        assert_eq!(speaker(url, dir.path()), Some(helper));
    }
}
