//! Making writes fail: at every named point of the product, and on disks that really fill up.
//!
//! A matrix first runs an operation undisturbed and notes the points it passes, then runs it again in a fresh world
//! for each point and action. `git-agent/src/fault.rs` is the other half.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output::Output;
use crate::process::Cmd;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to the process itself: what a power cut or the kernel's memory killer look like from inside.
    Kill,
    /// Death by SIGABRT.
    Abort,
    /// An end without any clean-up.
    Exit,
    /// The step reports an input/output error.
    Eio,
    /// The step reports a full disk.
    Enospc,
    /// The step takes this many milliseconds.
    Sleep(u64),
}

impl Action {
    /// The actions after which the operation can't have gone on as if nothing were.
    pub const HARMFUL: [Action; 5] = [
        Action::Kill,
        Action::Abort,
        Action::Exit,
        Action::Eio,
        Action::Enospc,
    ];
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Kill => f.write_str("kill"),
            Action::Abort => f.write_str("abort"),
            Action::Exit => f.write_str("exit"),
            Action::Eio => f.write_str("eio"),
            Action::Enospc => f.write_str("enospc"),
            Action::Sleep(millis) => write!(f, "sleep:{millis}"),
        }
    }
}

/// One fault: a point with the number of its pass, and what happens there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `<point>#<nth>`, or `<point>` for every pass.
    pub place: String,
    /// What happens there.
    pub action: Action,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place, self.action)
    }
}

/// What a run of the product shall meet, and where it notes the points it passes.
#[derive(Debug)]
pub struct Plan {
    fault: Option<Fault>,
    dir: tempfile::TempDir,
}

impl Plan {
    /// Plans nothing but to note the points.
    pub fn watch() -> Self {
        Plan {
            fault: None,
            dir: tempfile::tempdir().expect("a temporary directory can be made"),
        }
    }

    /// Plans one fault.
    pub fn meet(place: impl Into<String>, action: Action) -> Self {
        Plan {
            fault: Some(Fault {
                place: place.into(),
                action,
            }),
            ..Plan::watch()
        }
    }

    /// Lets a program, and everything it starts, follow this plan.
    pub fn apply(&self, command: Cmd) -> Cmd {
        let command = command.env("GIT_AGENT_TEST_FAULT_LOG", self.log());
        match &self.fault {
            Some(fault) => command.env("GIT_AGENT_TEST_FAULT", fault.to_string()),
            None => command,
        }
    }

    /// Returns the planned fault.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Returns the places passed, each once, in order.
    pub fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        for line in self.lines() {
            if !line.contains(':') && !places.contains(&line) {
                places.push(line);
            }
        }
        places
    }

    /// Returns whether the planned fault was met.
    pub fn fired(&self) -> bool {
        let wanted = self.fault.as_ref().map(Fault::to_string);
        self.lines().into_iter().any(|line| Some(line) == wanted)
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("points")
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Above 1: tries every action at every pass of every point.
const ROUNDS: &str = "GIT_AGENT_TEST_ROUNDS";

/// Returns how many times over a long test shall be run: 1 unless `GIT_AGENT_TEST_ROUNDS` says more.
pub fn rounds() -> usize {
    let wanted = std::env::var(ROUNDS).ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(1)
}

/// Returns the places worth a fault: the first and the last pass of each point, and in a long run every pass.
fn worth_trying(places: &[String]) -> Vec<String> {
    let point = |place: &str| place.split('#').next().unwrap_or_default().to_owned();
    let mut chosen = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let is_same = |other: &String| point(other) == point(place);
        let first = !places[..at].iter().any(is_same);
        let last = !places[at + 1..].iter().any(is_same);
        if first || last || rounds() > 1 {
            chosen.push(place.clone());
        }
    }
    chosen
}

/// What a matrix tried.
#[derive(Debug, Default)]
pub struct Report {
    /// The places of an undisturbed run that were tried.
    pub places: Vec<String>,
    /// How many faults were met and survived.
    pub survived: usize,
    /// Faults that were planned and never met: the run took another way than the undisturbed one.
    pub unmet: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} faults survived at {} places",
            self.survived,
            self.places.len()
        )
    }
}

/// Tries every action at the places that an operation passes: at the first and the last pass of each point, and with
/// `GIT_AGENT_TEST_ROUNDS` above 1 at every pass.
///
/// `prepare` makes a fresh world, `operate` does the work in it under a plan, `check` asserts that nothing is lost and
/// that work goes on. `check` is also run after the undisturbed run.
#[track_caller]
pub fn matrix<W>(
    actions: &[Action],
    prepare: impl Fn() -> W,
    operate: impl Fn(&W, &Plan) -> Output,
    check: impl Fn(&W, Option<&Fault>, &Output),
) -> Report {
    try_each(1, actions, prepare, operate, check)
}

/// Like [`matrix`], for what takes long: unless the run is a long one, the actions take turns, each only at one place of
/// `every`.
#[track_caller]
pub fn sample<W>(
    every: usize,
    actions: &[Action],
    prepare: impl Fn() -> W,
    operate: impl Fn(&W, &Plan) -> Output,
    check: impl Fn(&W, Option<&Fault>, &Output),
) -> Report {
    try_each(every, actions, prepare, operate, check)
}

#[track_caller]
fn try_each<W>(
    every: usize,
    actions: &[Action],
    prepare: impl Fn() -> W,
    operate: impl Fn(&W, &Plan) -> Output,
    check: impl Fn(&W, Option<&Fault>, &Output),
) -> Report {
    let watch = Plan::watch();
    let world = prepare();
    let output = operate(&world, &watch);
    assert!(
        output.status().success(),
        "the undisturbed run fails\n{output}"
    );
    check(&world, None, &output);
    drop(world);
    let mut report = Report {
        places: worth_trying(&watch.places()),
        ..Report::default()
    };
    assert!(
        !report.places.is_empty(),
        "the operation passes no fault point\n{output}"
    );
    for (at, place) in report.places.iter().enumerate() {
        for (turn, action) in actions.iter().enumerate() {
            if rounds() == 1 && at % every != turn % every {
                continue;
            }
            let plan = Plan::meet(place, *action);
            let _trying = Trying(&plan);
            let world = prepare();
            let output = operate(&world, &plan);
            check(&world, plan.fault(), &output);
            if plan.fired() {
                report.survived += 1;
            } else {
                report.unmet.push(format!("{place}:{action}"));
            }
        }
    }
    report
}

/// Names the fault under way when the test fails.
struct Trying<'a>(&'a Plan);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(fault) = self.0.fault()
        {
            let _ = writeln!(std::io::stderr(), "this happened after {fault}");
        }
    }
}

/// A file system of its own with little room, unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this many MiB at a path that does not exist yet, or says why that can't be.
    ///
    /// Memory is tried first, then a file behind a loop device; both need the right to mount.
    pub fn mount(path: &Path, mebibytes: u32) -> Result<Self, String> {
        fs::create_dir(path).map_err(|error| error.to_string())?;
        let size = format!("size={mebibytes}m,mode=0700");
        let on_memory = run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path));
        let Err(why_not_memory) = on_memory else {
            return Ok(SmallDisk {
                path: path.to_owned(),
            });
        };
        match mount_file(path, mebibytes) {
            Ok(()) => Ok(SmallDisk {
                path: path.to_owned(),
            }),
            Err(why_not_file) => Err(format!(
                "no small disk: neither memory ({why_not_memory}) nor a file ({why_not_file}) can be mounted"
            )),
        }
    }
}

fn mount_file(path: &Path, mebibytes: u32) -> Result<(), String> {
    let image = path.with_extension("image");
    let file = fs::File::create(&image).map_err(|error| error.to_string())?;
    file.set_len(u64::from(mebibytes) << 20)
        .map_err(|error| error.to_string())?;
    run(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-m", "0"])
        .arg(&image))?;
    run(Command::new("mount")
        .args(["-o", "loop"])
        .arg(&image)
        .arg(path))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if run(Command::new("umount").arg(&self.path)).is_err() {
            // A process that was just killed may hold it for another moment.
            let _ = run(Command::new("umount").arg("-l").arg(&self.path));
        }
    }
}
