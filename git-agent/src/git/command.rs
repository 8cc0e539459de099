//! Starts the `git` program. Every call names its repository explicitly and trusts no file that an agent could edit.
//!
//! An agent can rewrite a worktree's `.git` file, `commondir`, hooks and `core.fsmonitor`, and plain `git -C <worktree>
//! status` would then run its command. So git dir, common dir and work tree are always given, `core.fsmonitor` is off,
//! and hooks are off, including those of the configuration, unless a call asks for them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::env::GIT_LOCATION_VARIABLES;
use crate::error::{Context, Error, Result};
use crate::git::phrases::complaint;
use crate::git::{Repo, hooks};

/// The exit code of git for an unknown option.
pub(super) const USAGE: i32 = 129;

/// The variable that makes git ignore `git replace` and read the original objects.
pub(super) const NO_REPLACE: &str = "GIT_NO_REPLACE_OBJECTS";

/// An empty variable, for settings that must be empty.
const NOTHING: &str = "GIT_AGENT_NOTHING";

/// One call of the `git` program.
#[derive(Debug)]
pub struct Git {
    command: Command,
    settings: Vec<OsString>,
    words: Vec<OsString>,
    hooks: bool,
    /// The git directory and the common directory, if the call names them.
    place: Option<(PathBuf, PathBuf)>,
    /// Hooks of the user's configuration.
    known_hooks: BTreeSet<OsString>,
    input: Option<Vec<u8>>,
}

/// The output and exit code of a call.
#[derive(Debug)]
pub struct Answer {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Answer {
    /// Returns standard output as text without its last newline; replaces invalid UTF-8.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.strip_suffix('\n').unwrap_or(&text).to_owned()
    }
}

impl Git {
    /// Returns a call outside any repository.
    pub fn outside() -> Self {
        let mut command = Command::new("git");
        for name in GIT_LOCATION_VARIABLES {
            command.env_remove(name);
        }
        // git's messages become part of our errors, and a few decide something in [`crate::git::phrases`], so the
        // language is fixed.
        command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
        Git {
            command,
            settings: Vec::new(),
            words: Vec::new(),
            hooks: true,
            place: None,
            known_hooks: BTreeSet::new(),
            input: None,
        }
    }

    /// Returns a call on a repository, from the top of the given worktree if there is one.
    pub fn new(git_dir: &Path, common_dir: &Path, work_tree: Option<&Path>) -> Self {
        let mut git = Git::outside();
        git.command
            .env("GIT_DIR", git_dir)
            .env("GIT_COMMON_DIR", common_dir);
        match work_tree {
            Some(top) => git.command.env("GIT_WORK_TREE", top).current_dir(top),
            None => git.command.current_dir(common_dir),
        };
        git.hooks = false;
        git.place = Some((git_dir.to_owned(), common_dir.to_owned()));
        git.config("core.fsmonitor", "false")
    }

    /// Sets a configuration value for this call only.
    #[must_use]
    pub fn config(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        let mut setting = OsString::from(key);
        setting.push("=");
        setting.push(value);
        self.settings.push(setting);
        self
    }

    /// Adds a word to the command line.
    #[must_use]
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    /// Adds words to the command line.
    #[must_use]
    pub fn args<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Uses this index file instead of the repository's.
    #[must_use]
    pub fn index_file(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    /// Lets the repository's own hooks run, where the user would expect them to.
    #[must_use]
    pub fn with_hooks(mut self) -> Self {
        self.hooks = true;
        self
    }

    /// Makes all objects and refs of this call durable.
    #[must_use]
    pub fn durable(self) -> Self {
        self.config("core.fsync", "all")
            .config("core.fsyncMethod", "batch")
    }

    /// Runs in this directory.
    #[must_use]
    pub fn current_dir(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Passes these bytes on standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Runs the call and returns its answer, whatever the exit code.
    pub fn answer(mut self) -> Result<Answer> {
        let name = self.describe();
        self.complete();
        self.command.stdin(if self.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let cannot = || format!("cannot read the output of '{name}'");
        let complaints = Complaints::new().context(cannot)?;
        self.command.stdout(Stdio::piped());
        self.command.stderr(complaints.sink().context(cannot)?);
        let mut child = self
            .command
            .spawn()
            .map_err(|error| cannot_start(&name, error))?;
        // Feeding and reading must happen at the same time, or both sides block on a full pipe.
        let feeder = self
            .input
            .zip(child.stdin.take())
            .map(|(bytes, mut stdin)| {
                std::thread::spawn(move || {
                    let _ = stdin.write_all(&bytes);
                })
            });
        let said = child.stdout.take();
        let stdout = said.map_or(Ok(Vec::new()), |said| until_end(&child, said));
        if stdout
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
        {
            end(&mut child);
        }
        let status = child.wait().context(cannot)?;
        if let Some(feeder) = feeder {
            let _ = feeder.join();
        }
        Ok(Answer {
            stdout: stdout.context(cannot)?,
            stderr: complaints.take().context(cannot)?,
            code: status.code(),
        })
    }

    /// Runs the call and fails unless it exits 0.
    pub fn run(self) -> Result<Answer> {
        let name = self.describe();
        let answer = self.answer()?;
        if answer.code == Some(0) {
            Ok(answer)
        } else {
            Err(failed(&name, &answer))
        }
    }

    /// Starts the call with the given streams, for a long conversation.
    pub fn spawn(mut self, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> Result<Child> {
        let name = self.describe();
        self.complete();
        self.command.stdin(stdin).stdout(stdout).stderr(stderr);
        self.command
            .spawn()
            .map_err(|error| cannot_start(&name, error))
    }

    fn complete(&mut self) {
        if !self.hooks {
            self.settings.push("core.hooksPath=/dev/null".into());
            self.silence();
        }
        for setting in &self.settings {
            self.command.arg("-c").arg(setting);
        }
        self.command.args(&self.words);
    }

    /// Removes the events from all hooks of the configuration, which git runs since 2.54 regardless of the hooks
    /// directory.
    ///
    /// In 2.54 an event cannot be disabled as a whole, and later versions ignore that beside a hook of the same name.
    fn silence(&mut self) {
        let Some((git_dir, common_dir)) = &self.place else {
            return;
        };
        let mut names = hooks::configured(git_dir, common_dir);
        names.append(&mut self.known_hooks);
        for name in names {
            // A name may contain an equals sign, which would end the key in '-c'.
            let mut setting = OsString::from("--config-env=hook.");
            setting.push(name);
            setting.push(".event=");
            setting.push(NOTHING);
            self.command.arg(setting).env(NOTHING, "");
        }
    }

    /// Returns the subcommand for messages.
    fn describe(&self) -> String {
        let mut name = String::from("git");
        for word in &self.words {
            let word = word.to_string_lossy();
            name.push(' ');
            name.push_str(&word);
            if !word.starts_with('-') {
                break;
            }
        }
        name
    }
}

/// The standard error of a git call, in memory instead of a pipe.
///
/// A hook may leave a process behind that writes to it. Reading a pipe to its end would wait for that process, and
/// closing our end would kill it.
#[derive(Debug)]
pub(super) struct Complaints(File);

impl Complaints {
    /// Returns an empty one.
    pub(super) fn new() -> io::Result<Self> {
        let memory = memfd_create("git-agent-stderr", MemfdFlags::CLOEXEC)?;
        Ok(Complaints(memory.into()))
    }

    /// Returns the stream that a call writes to.
    pub(super) fn sink(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// Returns the text so far. The call has ended.
    pub(super) fn take(self) -> io::Result<Vec<u8>> {
        // The write position is shared with processes that still write, so it is not moved.
        self.take_first(u64::MAX)
    }

    /// Returns the first bytes of the text.
    pub(super) fn take_first(self, most: u64) -> io::Result<Vec<u8>> {
        let length = self.0.metadata()?.len().min(most);
        let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
        self.0.read_exact_at(&mut text, 0)?;
        Ok(text)
    }
}

/// How often a call checks whether it is cancelled.
const MOMENT: Duration = Duration::from_millis(200);
/// How long a cancelled call may take to clean up.
const FAREWELL: Duration = Duration::from_millis(500);

/// Returns whether calls of git must end.
type Cancel = Arc<dyn Fn() -> bool + Send + Sync>;

/// The current cancel function, if there is one.
static CANCEL: Mutex<Option<Cancel>> = Mutex::new(None);

/// Keeps the cancel function in force until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Cancelling(());

/// Ends calls of git in all threads of this process as soon as `cancel` returns true. Ended calls fail.
pub fn cancel_when(cancel: impl Fn() -> bool + Send + Sync + 'static) -> Cancelling {
    *CANCEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(cancel));
    Cancelling(())
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        *CANCEL.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn cancel() -> Option<Cancel> {
    CANCEL
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Returns whether calls of git must end now.
pub(in crate::git) fn is_cancelled() -> bool {
    cancel().is_some_and(|cancel| cancel())
}

/// Ends a call with TERM, so that git removes its temporary files.
fn end(child: &mut Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
}

/// Reads a child's output until the child has ended. Does not wait for other processes that share its output.
fn until_end(child: &Child, mut stdout: ChildStdout) -> io::Result<Vec<u8>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = pid
        .ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))?;
    fcntl_setfl(&stdout, fcntl_getfl(&stdout)? | OFlags::NONBLOCK)?;
    let mut text = Vec::new();
    loop {
        let mut ready = [
            PollFd::new(&stdout, PollFlags::IN),
            PollFd::new(&ended, PollFlags::IN),
        ];
        let cancel = cancel();
        let moment = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: MOMENT.subsec_nanos().into(),
        };
        match poll(&mut ready, cancel.is_some().then_some(&moment)) {
            Ok(0) if cancel.is_some_and(|cancel| cancel()) => {
                return Err(io::Error::new(
                    io::ErrorKind::Interrupted,
                    "the call was cancelled",
                ));
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // Checked before the rest is read, so that the rest is complete.
        let over = !ready[1].revents().is_empty();
        match stdout.read_to_end(&mut text) {
            Ok(_) => return Ok(text),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if over {
                    return Ok(text);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn cannot_start(name: &str, error: std::io::Error) -> Error {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let failure = Error::fatal(format!("cannot start '{name}'")).because(error);
    if missing {
        failure.hint("install git 2.36 or newer")
    } else {
        failure
    }
}

fn failed(name: &str, answer: &Answer) -> Error {
    let said = complaint(&answer.stderr);
    match answer.code {
        _ if !said.is_empty() => Error::fatal(format!("'{name}' failed: {said}")),
        Some(code) => Error::fatal(format!("'{name}' failed (exit {code})")),
        None => Error::fatal(format!("'{name}' was ended by a signal")),
    }
}

impl Repo {
    /// Returns a call of git on this repository.
    pub fn git(&self) -> Git {
        self.beside(Git::new(
            self.git_dir(),
            self.common_dir(),
            self.work_tree(),
        ))
    }

    /// Returns a call of git on the shared part of this repository, without a worktree.
    pub fn git_common(&self) -> Git {
        self.beside(Git::new(self.common_dir(), self.common_dir(), None))
    }

    /// Returns a call of git on the main worktree if there is one, as the user would run it there.
    pub fn git_main(&self) -> Git {
        match self.main_work_tree() {
            Some(top) => self.beside(Git::new(self.common_dir(), self.common_dir(), Some(&top))),
            None => self.git_common(),
        }
    }

    /// Returns a call of git on one linked worktree, given its admin directory and its top.
    pub fn git_at(&self, admin_dir: &Path, top: &Path) -> Git {
        self.beside(Git::new(admin_dir, self.common_dir(), Some(top)))
    }

    /// Directs git's objects to this repository's object directory, and disables the user's hooks.
    fn beside(&self, mut git: Git) -> Git {
        let hooks = self.config_subsections("hook").into_iter();
        git.known_hooks = hooks.map(OsString::from).collect();
        if self.is_read_only() {
            git.env("GIT_OBJECT_DIRECTORY", self.objects_dir())
        } else {
            git
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a call of a shell in place of git.
    fn shell(script: &str) -> Git {
        let mut git = Git::outside();
        git.command = Command::new("/bin/sh");
        git.args(["-c", script])
    }

    #[test]
    fn who_stays_behind_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let (go, done) = (dir.path().join("go"), dir.path().join("done"));
        let script = format!(
            "( until test -e '{}'; do sleep 0.05; done; echo late >&2 && echo x >'{}' ) & echo said; echo oh >&2; exit 3",
            go.display(),
            done.display()
        );
        let answer = shell(&script).answer().expect("an answer");
        assert_eq!(answer.stdout, b"said\n");
        assert_eq!(answer.stderr, b"oh\n");
        assert_eq!(answer.code, Some(3));
        // The process lives on, and can still write.
        std::fs::write(&go, "").expect("writes");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !done.exists() {
            assert!(std::time::Instant::now() < deadline, "it was ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn long_answers_are_whole_and_input_is_fed_meanwhile() {
        let bytes = vec![b'x'; 3 << 20];
        let answer = shell("cat; head -c 2000000 /dev/zero >&2").input(bytes.clone());
        let answer = answer.answer().expect("an answer");
        assert_eq!(
            (answer.stdout == bytes, answer.stderr.len()),
            (true, 2_000_000)
        );
    }
}
