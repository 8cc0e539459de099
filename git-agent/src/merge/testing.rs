//! Tests a merged result before it lands, in a temporary worktree; results are remembered by tree and command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Kind, Result};
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::temporary::Scratch;
use crate::git::{ObjectId, sha256};
use crate::guard::environment::Guard;
use crate::guard::level::{self, Level};
use crate::guard::policy::Own;
use crate::guard::room::{self, Use};
use crate::guard::test_cell::TestCell;
use crate::merge::bisect::TestColour;
use crate::merge::landing::journal;
use crate::model::session::SessionId;
use crate::process::detach::own_program;
use crate::process::identity::{Handle, Signal};
use crate::process::limits::{Limits, plan_limits};
use crate::process::shim;
use crate::process::spawn::{self, Shim, Stdin};
use crate::process::tree::{self, KillCare};
use crate::process::wait::{Poll, Signals};
use crate::review::moved_meanwhile::Meanwhile;
use crate::session::caller;
use crate::session::create::location;
use crate::session::worktree::environment::{self, Particulars};
use crate::{fault, guard};

/// The lock reason that marks our temporary worktrees. Older versions wrote the same words.
pub const PURPOSE: &str = "git agent merge: a worktree for a moment";
/// How long processes that a test left running may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long the guardian of a test may take to end its processes before it is killed itself.
const GUARD: Duration = Duration::from_secs(15);

/// A remembered test result.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Memory {
    tree: String,
    command: String,
    passed: bool,
    log: String,
}

/// How many lines of a test log are shown, and how many bytes are read for them.
const LAST_LINES: usize = 10;
const LAST_BYTES: u64 = 64 << 10;

/// Returns the last lines of a test log that are not blank; none if it cannot be read.
pub fn last_lines(log: &str) -> Vec<String> {
    let read = || {
        let mut file = File::open(log).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))
            .ok()?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(ToOwned::to_owned).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
}

/// Runs the tests of several commits in one worktree.
pub struct Tester<'a> {
    context: &'a Context<'a>,
    command: String,
    setup: Option<String>,
    again: bool,
    scratch: Option<Scratch<'a>>,
    set_up: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// Whether the tests passed.
    pub colour: TestColour,
    /// Whether the result was remembered, so that nothing ran.
    pub remembered: bool,
    /// The actions that the guard refused, the refs that moved and the verdicts that were given during the test, in
    /// words.
    pub told: Vec<String>,
}

impl<'a> Tester<'a> {
    /// Returns a tester. With `again`, remembered results are ignored.
    pub fn new(context: &'a Context<'a>, command: String, again: bool) -> Self {
        Tester {
            context,
            command,
            setup: context.config.text(&settings::SETUP),
            again,
            scratch: None,
            set_up: false,
        }
    }

    /// Tests a commit that contains the work of a session. The guard treats the tests as code of that session.
    pub fn test(&mut self, commit: ObjectId, of: SessionId) -> Result<TestResult> {
        let tree = self.context.repo.tree_of(commit)?;
        let dir = self.context.store.require_dir("merge/tests")?;
        let (memory, log) = places(&dir, tree, &self.command, self.setup.as_deref());
        if !self.again
            && let Some(known) = recall(&memory, &tree.to_string(), &self.command)
        {
            return Ok(TestResult {
                colour: colour(known.passed, &log),
                remembered: true,
                told: Vec::new(),
            });
        }
        let (ended, told) = self.run(commit, of, &log)?;
        fault::point("merge.tested").context(|| "cannot test".into())?;
        let passed = match ended {
            Ended::With(code) => code == Some(0),
            // A late test is not remembered: it may pass another time or with a longer limit.
            Ended::Late => {
                return Ok(TestResult {
                    colour: TestColour::Late(log.display().to_string()),
                    remembered: false,
                    told,
                });
            }
        };
        let known = Memory {
            tree: tree.to_string(),
            command: self.command.clone(),
            passed,
            log: log.display().to_string(),
        };
        journal::write_durably(&memory, &known)?;
        fault::point("merge.test.remembered").context(|| "cannot test".into())?;
        Ok(TestResult {
            colour: colour(passed, &log),
            remembered: false,
            told,
        })
    }

    /// Removes the worktree.
    pub fn finish(self) -> Result<()> {
        match self.scratch {
            Some(scratch) => scratch.remove(),
            None => Ok(()),
        }
    }

    /// Runs the setup command and the tests. Returns how they ended and the messages about them.
    fn run(&mut self, commit: ObjectId, of: SessionId, log: &Path) -> Result<(Ended, Vec<String>)> {
        match &self.scratch {
            Some(scratch) => scratch.go_to(commit)?,
            None => self.scratch = Some(scratch(self.context, commit)?),
        }
        let Some(scratch) = &self.scratch else {
            return Err(Error::fatal("no worktree to test in"));
        };
        let cannot = || format!("cannot write '{}'", log.display());
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(log)
            .context(cannot)?;
        let fence = Fence::put_up(self.context, &scratch.checkout, of)?;
        if !self.set_up
            && let Some(setup) = &self.setup
        {
            let trouble = match run(self.context, &fence, setup, &file)? {
                Ended::With(Some(0)) => None,
                Ended::With(_) => Some("failed"),
                Ended::Late => Some("did not end in time ('agent.testTimeout')"),
            };
            if let Some(trouble) = trouble {
                return Err(Error::fatal(format!(
                    "the setup command {trouble} in the test worktree"
                ))
                .hint(format!("log: {}", log.display())));
            }
            self.set_up = true;
        }
        let ended = run(self.context, &fence, &self.command, &file)?;
        let told = fence.take_down(self.context)?;
        for words in &told {
            // A log that cannot be written must not make a test fail.
            let _ = writeln!(&file, "git agent: {words}");
        }
        Ok((ended, told))
    }
}

/// The protection around a test: the guard, the session marker and the state of the repository before it.
struct Fence {
    guard: Guard,
    noted: u64,
    /// At level `cell`: its git directory.
    cell: Option<TestCell>,
    /// Whether all processes end with the first one.
    ends_together: bool,
    before: Meanwhile,
    top: PathBuf,
    variables: BTreeMap<OsString, OsString>,
}

impl Fence {
    /// Sets up the protection of a worktree for code of a session.
    fn put_up(context: &Context<'_>, at: &Checkout, of: SessionId) -> Result<Self> {
        let mut variables = variables(context, &at.top)?;
        variables.insert(caller::MARK.into(), caller::mark_of_test(of).into());
        let session = context.store.session(of)?;
        let (level, offline) = match &session {
            Some(session) => {
                let level = level::choose_for_test(context, session, at)?.level;
                (level, level::is_offline(context, session, level)?)
            }
            None => (Level::Refs, false),
        };
        let guard = Guard::prepare(
            context.repo,
            &variables,
            guard::environment::Options {
                program: &own_program(),
                own: Own::of_worktree(),
                git_dir: &at.admin_dir,
                directory: &context.store.require_dir(&format!("guard/{of}"))?,
            },
        )?;
        let mut ends_together = false;
        let cell = match level {
            Level::Cell => {
                let cell = TestCell::open(context, at)?;
                let purpose = Use {
                    sid: of,
                    at,
                    spec: None,
                    cell: Some(cell.dir().to_owned()),
                    sockets: Vec::new(),
                    offline,
                    temporary: cell.temporary().to_owned(),
                    file: cell.room(),
                };
                ends_together = room::prepare(context, &purpose, &mut variables)?.namespaces;
                Some(cell)
            }
            // A session without a guard says nothing about the code of a merge.
            Level::Off | Level::Refs => {
                guard.enter(&mut variables)?;
                None
            }
        };
        Ok(Fence {
            cell,
            ends_together,
            noted: guard::log::read(&guard.log(), 0)?.1,
            guard,
            before: Meanwhile::begin(context)?,
            top: at.top.clone(),
            variables,
        })
    }

    /// Returns the actions seen during the test, in words.
    fn take_down(&self, context: &Context<'_>) -> Result<Vec<String>> {
        let notes = guard::log::read(&self.guard.log(), self.noted)?.0;
        let mut told: Vec<String> = notes.iter().map(guard::log::Note::words).collect();
        let when = "while the tests ran";
        told.extend(self.before.end(context, &self.top, when)?);
        Ok(told)
    }
}

/// Returns the paths of the remembered result and of the log for a tree and its commands.
fn places(dir: &Path, tree: ObjectId, command: &str, setup: Option<&str>) -> (PathBuf, PathBuf) {
    let setup = setup.unwrap_or_default();
    let key = sha256(format!("{tree}\0{command}\0{setup}").as_bytes());
    (
        dir.join(format!("{key}.json")),
        dir.join(format!("{key}.log")),
    )
}

/// Returns the remembered result of the configured tests for a tree. Runs nothing.
pub fn known(context: &Context<'_>, tree: ObjectId) -> Option<TestColour> {
    let command = context.config.text(&settings::TEST)?;
    let setup = context.config.text(&settings::SETUP);
    let (memory, log) = places(&log_dir(context), tree, &command, setup.as_deref());
    let known = recall(&memory, &tree.to_string(), &command)?;
    Some(colour(known.passed, &log))
}

fn colour(passed: bool, log: &Path) -> TestColour {
    if passed {
        TestColour::Green
    } else {
        TestColour::Red(log.display().to_string())
    }
}

fn recall(memory: &Path, tree: &str, command: &str) -> Option<Memory> {
    let known: Memory = serde_json::from_slice(&fs::read(memory).ok()?).ok()?;
    (known.tree == tree && known.command == command).then_some(known)
}

/// Makes a temporary worktree next to those of the sessions.
pub fn scratch<'a>(context: &'a Context<'a>, commit: ObjectId) -> Result<Scratch<'a>> {
    let home = location::worktree_dir(context)?;
    fs::create_dir_all(&home).context(|| format!("cannot make '{}'", home.display()))?;
    let id = SessionId::new(context.env);
    let path = home.join(format!("merge-{}", &id.as_str()[16..]));
    Scratch::add(context.repo, &path, commit, PURPOSE)
}

/// Removes the directory of worktrees if it is empty.
pub fn tidy(context: &Context<'_>) {
    if let Ok(home) = location::worktree_dir(context) {
        // Fails if the directory is not empty, as intended.
        let _ = fs::remove_dir(home);
    }
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It exited with this code, or by a signal.
    With(Option<i32>),
    /// It exceeded its time limit.
    Late,
}

/// Handles the signals that end a merge while a test runs, so that the processes of the test end first.
struct Interrupts {
    signals: Signals,
    as_usual: Arc<AtomicBool>,
}

impl Interrupts {
    fn take_over() -> Result<Self> {
        static AS_USUAL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        let cannot = || "cannot listen for signals".into();
        let ignored = ignored();
        let wanted = [SIGINT, SIGTERM, SIGHUP].map(|signal| (signal, ignored & 1 << (signal - 1)));
        let wanted: Vec<i32> = wanted
            .iter()
            // A signal that our parent ignores, as 'nohup' does, stays ignored.
            .filter(|(_, ignored)| *ignored == 0)
            .map(|(signal, _)| *signal)
            .collect();
        if AS_USUAL.get().is_none() {
            // A handled signal loses its default effect; this flag restores it outside of tests.
            let as_usual = Arc::new(AtomicBool::new(false));
            for signal in &wanted {
                signal_hook::flag::register_conditional_default(*signal, Arc::clone(&as_usual))
                    .context(cannot)?;
            }
            let _ = AS_USUAL.set(as_usual);
        }
        let as_usual = AS_USUAL.get().cloned().unwrap_or_default();
        as_usual.store(false, Ordering::SeqCst);
        Ok(Interrupts {
            signals: Signals::new(&wanted)?,
            as_usual,
        })
    }

    /// Restores the default effect of the signals. Not called after an interruption, because cleanup comes first.
    fn give_back(self) {
        self.as_usual.store(true, Ordering::SeqCst);
    }
}

/// Returns a bit mask of the signals that this process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Runs a shell command in a worktree and waits until it and every process it started have ended.
///
/// A guardian process between us and the command ends them all if we are interrupted or killed.
fn run(context: &Context<'_>, fence: &Fence, command: &str, log: &File) -> Result<Ended> {
    tree::adopt_orphans()?;
    let timeout = context.config.get(&settings::TEST_TIMEOUT)?;
    let command = ["/bin/sh", "-c", command].map(OsString::from);
    let mut command = shim::guarded(&command);
    if fence.cell.is_some() {
        // A namespace of processes has other numbers.
        command[0] = own_program().into();
    }
    let ends_together = fence.ends_together;
    let spec = spawn::Spec {
        command,
        directory: fence.top.clone(),
        environment: fence.variables.clone().into_iter().collect(),
        stdin: Stdin::Null,
        limits: plan_limits(context.env, &Limits::default()),
        name: "merge".to_owned(),
        death_signal: if ends_together {
            Signal::KILL
        } else {
            Signal::TERM
        },
        room: fence.cell.as_ref().map(TestCell::room),
    };
    let mut interrupts = Interrupts::take_over()?;
    let mut spawned = spawn::spawn(context.env, &Shim::own(), spec)?;
    let log = log.try_clone().context(|| "cannot write a log".into())?;
    let log = Arc::new(Mutex::new(log));
    let out = copy(spawned.stdout, Arc::clone(&log));
    let err = copy(spawned.stderr, Arc::clone(&log));
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut poll = Poll::new();
    poll.read(true, &spawned.handle);
    poll.read(false, &interrupts.signals);
    let ready = poll.wait(deadline)?;
    let ended = ready.contains(&true);
    if !ended {
        end(&spawned.handle, ends_together)?;
    }
    let status = spawned
        .child
        .wait()
        .context(|| "cannot wait for the tests".into())?;
    // Processes that a killed guardian left behind hold the pipes open.
    tree::end_all(KillCare::new(GRACE))?;
    let _ = (out.join(), err.join());
    if !ended && !ready.is_empty() {
        let signal = interrupts.signals.take().first().copied();
        return Err(Error::new(
            Kind::Signal(signal.unwrap_or(SIGTERM)),
            "interrupted while testing: nothing was merged",
        ));
    }
    interrupts.give_back();
    if ended {
        return Ok(Ended::With(status.code()));
    }
    let words = context.config.string(&settings::TEST_TIMEOUT.name());
    let words = words.unwrap_or_default();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(
        log,
        "git agent: stopped after {words} ('agent.testTimeout')"
    );
    Ok(Ended::Late)
}

/// Asks the guardian to end a test. In a namespace everything ends with the first process.
fn end(guard: &Handle, ends_together: bool) -> Result<()> {
    if ends_together {
        return guard.signal(Signal::KILL).map(drop);
    }
    guard.signal(Signal::TERM)?;
    if !guard.wait(Some(GUARD))? {
        guard.signal(Signal::KILL)?;
    }
    Ok(())
}

fn copy(mut from: impl Read + Send + 'static, to: Arc<Mutex<File>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 {
                return;
            }
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            // A log that cannot be written must not make a test fail.
            let _ = to.write_all(&buffer[..count]);
        }
    })
}

/// Returns the environment of a test: that of a session, with a new session id.
fn variables(context: &Context<'_>, top: &Path) -> Result<BTreeMap<OsString, OsString>> {
    let sid = SessionId::new(context.env);
    let repo = context.repo.main_work_tree();
    let programs = own_program();
    let inherited = context.config.list(&settings::ENV);
    let port = environment::choose_port(sid, &std::collections::BTreeSet::new())?;
    let mut variables = environment::environment(
        context.env,
        &Particulars {
            sid,
            name: "merge",
            worktree: top,
            repo: repo.as_deref().unwrap_or(context.repo.common_dir()),
            programs: programs.parent().unwrap_or(Path::new("/")),
            port,
            inherited: &inherited,
        },
    );
    guard::environment::ask_nobody(&mut variables);
    Ok(variables)
}

/// Returns the end of a log.
pub fn log_tail(path: &Path, limit: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let start = bytes.len().saturating_sub(limit);
    let text = String::from_utf8_lossy(&bytes[start..]);
    match start {
        0 => text.into_owned(),
        _ => match text.split_once('\n') {
            Some((_, rest)) => format!("…\n{rest}"),
            None => text.into_owned(),
        },
    }
}

/// Returns the directory of the test logs.
pub fn log_dir(context: &Context<'_>) -> PathBuf {
    context.store.dir().join("merge/tests")
}
