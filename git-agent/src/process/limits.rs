//! Chooses the mechanism that limits an agent's memory and CPU on this machine, and measures its memory.
//!
//! Best first: an own cgroup v2 where we may create one, else a systemd scope where the user's manager answers, else
//! resource limits. Those bind each process instead of all together, so the total memory is watched too.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::env::Env;
use crate::error::{Context, Result};
use crate::process::identity::{Handle, Stat};
use crate::process::tree::descendants;

/// How long the user's service manager may take to answer.
const MANAGER: Duration = Duration::from_secs(3);

/// The resources that an agent and all its processes may use. An unset field sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// CPU in percent of one core; 250 is two and a half cores.
    pub cpu_percent: Option<u32>,
    /// CPU time of each single process, in seconds.
    pub cpu_seconds: Option<u64>,
    /// The nice value, from 0 to 19.
    pub nice: Option<i32>,
}

impl Limits {
    fn need_a_mechanism(&self) -> bool {
        self.memory.is_some() || self.cpu_percent.is_some()
    }
}

/// The mechanisms that this machine offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// A cgroup v2 directory in which we may create groups with memory and CPU limits.
    pub cgroup: Option<PathBuf>,
    /// The program `systemd-run`, if the user's manager creates scopes with it.
    pub systemd_run: Option<PathBuf>,
    /// How many cores this process may use.
    pub cores: usize,
}

impl Machine {
    /// Examines the machine. Asks the service manager only if no cgroup is usable.
    pub fn look(env: &Env) -> Self {
        let cgroup = own_cgroup(
            &std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
            &std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        )
        .filter(|directory| is_usable(directory));
        let systemd_run = match cgroup {
            Some(_) => None,
            None => answering_manager(env),
        };
        Machine {
            cgroup,
            systemd_run,
            cores: crate::cores::count(),
        }
    }
}

/// The mechanism that enforces the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mechanism {
    /// None is needed beyond the settings of the program itself.
    None,
    /// A new group in this cgroup v2 directory.
    Cgroup(PathBuf),
    /// A scope created by this `systemd-run`.
    Scope(PathBuf),
    /// Limits of each process, cores and priority; the total memory is watched from outside.
    Process {
        /// The number of cores it is bound to, if that can meet a CPU limit.
        cores: Option<usize>,
    },
}

/// The limits of an agent and their mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitPlan {
    /// The requested limits.
    pub limits: Limits,
    /// The mechanism that enforces them.
    pub mechanism: Mechanism,
}

/// Chooses the mechanism for limits. Examines the machine only if they need one.
pub fn plan_limits(env: &Env, limits: &Limits) -> LimitPlan {
    if limits.need_a_mechanism() {
        LimitPlan::on(limits, &Machine::look(env))
    } else {
        LimitPlan::on(limits, &Machine::default())
    }
}

impl LimitPlan {
    /// Chooses the mechanism for limits on a given machine.
    pub fn on(limits: &Limits, machine: &Machine) -> Self {
        let mechanism = if !limits.need_a_mechanism() {
            Mechanism::None
        } else if let Some(directory) = &machine.cgroup {
            Mechanism::Cgroup(directory.clone())
        } else if let Some(program) = &machine.systemd_run {
            Mechanism::Scope(program.clone())
        } else {
            Mechanism::Process {
                cores: limits.cpu_percent.and_then(|percent| {
                    let cores = usize::try_from(percent).unwrap_or(usize::MAX).div_ceil(100);
                    (cores < machine.cores).then_some(cores.max(1))
                }),
            }
        };
        LimitPlan {
            limits: *limits,
            mechanism,
        }
    }

    /// Returns the same limits with resource limits of each process as the mechanism.
    #[must_use]
    pub fn without_machine(&self) -> Self {
        let cores = crate::cores::count();
        LimitPlan::on(
            &self.limits,
            &Machine {
                cores,
                ..Machine::default()
            },
        )
    }

    /// Returns whether the total memory of all processes must be watched, with [`memory_below`].
    pub fn needs_watch(&self) -> bool {
        matches!(self.mechanism, Mechanism::Process { .. }) && self.limits.memory.is_some()
    }

    /// Returns the nice value of the program. A CPU limit that cannot be enforced at least lowers its priority.
    pub(super) fn nice(&self) -> Option<i32> {
        let unenforced = matches!(self.mechanism, Mechanism::Process { .. })
            && self.limits.cpu_percent.is_some();
        self.limits.nice.or(unenforced.then_some(10))
    }

    /// Returns a sentence about the limits for the transcript; `None` without limits.
    pub fn notice(&self) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        let limits = &self.limits;
        let by = match &self.mechanism {
            Mechanism::None => "",
            Mechanism::Cgroup(_) => " for all its processes together (cgroup v2)",
            Mechanism::Scope(_) => " for all its processes together (systemd scope)",
            Mechanism::Process { .. } => {
                " for each process (RLIMIT_DATA), and watched for all together"
            }
        };
        if let Some(bytes) = limits.memory {
            parts.push(format!("memory {}{by}", human_size(bytes)));
        }
        if let Some(percent) = limits.cpu_percent {
            let mut part = format!("cpu {percent} % of a core");
            match &self.mechanism {
                Mechanism::Process { cores } => {
                    let _ = write!(part, ", approximated by nice {}", self.nice().unwrap_or(0));
                    if let Some(cores) = cores {
                        let _ = write!(
                            part,
                            " and {cores} core{}",
                            if *cores == 1 { "" } else { "s" }
                        );
                    }
                }
                _ => part.push_str(by),
            }
            parts.push(part);
        }
        if let Some(seconds) = limits.cpu_seconds {
            parts.push(format!(
                "cpu time {seconds} s for each process (RLIMIT_CPU)"
            ));
        }
        if let (Some(nice), true) = (limits.nice, limits.cpu_percent.is_none()) {
            parts.push(format!("nice {nice}"));
        }
        (!parts.is_empty()).then(|| format!("limits: {}", parts.join("; ")))
    }
}

/// Returns a size with a unit.
fn human_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
        if bytes >= 10 << shift {
            return format!("{:.1} {unit}", bytes as f64 / f64::from(1u32 << shift));
        }
    }
    format!("{bytes} bytes")
}

/// A cgroup created for one agent, and removed on drop.
#[derive(Debug)]
pub struct Cgroup {
    directory: PathBuf,
}

impl Cgroup {
    /// Creates a group with limits below a directory from [`Machine::cgroup`].
    pub fn make(parent: &Path, name: &str, limits: &Limits) -> Result<Self> {
        let directory = parent.join(name);
        if let Err(error) = std::fs::create_dir(&directory)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(error).context(|| format!("cannot create '{}'", directory.display()));
        }
        let group = Cgroup { directory };
        if let Some(bytes) = limits.memory {
            group.set("memory.max", &bytes.to_string())?;
            // Swap beyond the limit would only slow the machine down. Not every kernel accounts for it.
            let _ = group.set("memory.swap.max", "0");
        }
        if let Some(percent) = limits.cpu_percent {
            // Microseconds of CPU in each tenth of a second.
            let quota = u64::from(percent.max(1)) * 1_000;
            group.set("cpu.max", &format!("{quota} 100000"))?;
        }
        Ok(group)
    }

    /// Returns the file to which a process writes its pid to join.
    pub fn procs(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.directory.join(file);
        std::fs::write(&path, value).context(|| format!("cannot write '{}'", path.display()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel refuses while a process runs in it. The name is the agent's own, so the next start reuses the
        // group.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// Returns this process's cgroup v2 directory, from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_cgroup(membership: &str, mounts: &str) -> Option<PathBuf> {
    let own = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // With another root, paths would need a translation, as in some containers.
        (filesystem.starts_with("cgroup2 ") && root == "/").then_some(point)
    })?;
    Some(Path::new(mount).join(own))
}

/// Returns whether groups with limits can be created here: the controllers are enabled, and we may write.
fn is_usable(directory: &Path) -> bool {
    let passed_on = std::fs::read_to_string(directory.join("cgroup.subtree_control"));
    let writable =
        |name: &str| rustix::fs::access(directory.join(name), rustix::fs::Access::WRITE_OK).is_ok();
    passed_on.is_ok_and(|passed_on| {
        ["memory", "cpu"]
            .iter()
            .all(|wanted| passed_on.split_whitespace().any(|one| one == *wanted))
    }) && writable("")
        && writable("cgroup.procs")
}

/// Returns `systemd-run` if it is installed and the user's manager creates a scope with it.
fn answering_manager(env: &Env) -> Option<PathBuf> {
    // Without its address, the manager cannot be asked.
    env.var("DBUS_SESSION_BUS_ADDRESS")
        .or(env.var("XDG_RUNTIME_DIR"))?;
    let program = std::env::split_paths(env.var_os("PATH")?)
        .map(|directory| directory.join("systemd-run"))
        .find(|program| {
            program.is_absolute()
                && program.is_file()
                && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
        })?;
    let mut child = Command::new(&program)
        .args(["--user", "--scope", "--quiet", "--collect", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let ended = Stat::of(child.id())
        .and_then(|stat| Handle::open(stat.pid, stat.start_time).ok()?)
        .is_some_and(|handle| handle.wait(Some(MANAGER)).unwrap_or(false));
    if !ended {
        let _ = child.kill();
    }
    child
        .wait()
        .is_ok_and(|status| status.success())
        .then_some(program)
}

/// The memory of a set of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    pub bytes: u64,
    pub processes: usize,
}

/// Returns the memory of all processes below one. Shared pages count in proportion where the kernel reports that, else
/// fully.
pub fn memory_below(pid: u32) -> MemoryUse {
    let mut used = MemoryUse::default();
    for stat in descendants(pid) {
        if let Some(bytes) = memory_of(stat.pid) {
            used.bytes += bytes;
            used.processes += 1;
        }
    }
    used
}

fn memory_of(pid: u32) -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    if let Some(rollup) = read("smaps_rollup") {
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        return Some(kib << 10);
    }
    let pages: u64 = read("statm")?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::process::tests::{env_with, sh, until};

    fn limits() -> Limits {
        Limits {
            memory: Some(2 << 30),
            cpu_percent: Some(150),
            ..Limits::default()
        }
    }

    #[test]
    fn the_best_mechanism_is_chosen_and_said() {
        let mut machine = Machine {
            cgroup: Some("/cg".into()),
            systemd_run: Some("/bin/systemd-run".into()),
            cores: 8,
        };
        let plan = LimitPlan::on(&limits(), &machine);
        assert_eq!(plan.mechanism, Mechanism::Cgroup("/cg".into()));
        assert!(!plan.needs_watch());
        assert_eq!(
            plan.notice().expect("limited"),
            "limits: memory 2 GiB for all its processes together (cgroup v2); \
             cpu 150 % of a core for all its processes together (cgroup v2)"
        );
        machine.cgroup = None;
        let plan = LimitPlan::on(&limits(), &machine);
        assert_eq!(plan.mechanism, Mechanism::Scope("/bin/systemd-run".into()));
        machine.systemd_run = None;
        let plan = LimitPlan::on(&limits(), &machine);
        assert_eq!(plan.mechanism, Mechanism::Process { cores: Some(2) });
        assert!(plan.needs_watch());
        assert_eq!(
            plan.notice().expect("limited"),
            "limits: memory 2 GiB for each process (RLIMIT_DATA), and watched for all together; \
             cpu 150 % of a core, approximated by nice 10 and 2 cores"
        );
    }

    #[test]
    fn nothing_asked_is_nothing_done() {
        let env = env_with(&[]);
        let plan = plan_limits(&env, &Limits::default());
        assert_eq!((&plan.mechanism, plan.notice()), (&Mechanism::None, None));
        let own = Limits {
            cpu_seconds: Some(60),
            nice: Some(5),
            ..Limits::default()
        };
        let plan = plan_limits(&env, &own);
        assert_eq!(plan.mechanism, Mechanism::None);
        assert_eq!(
            plan.notice().expect("limited"),
            "limits: cpu time 60 s for each process (RLIMIT_CPU); nice 5"
        );
        assert_eq!(plan.nice(), Some(5));
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [
            (512 << 20, "512 MiB"),
            (3 << 29, "1536 MiB"),
            (1_000_000_000, "953.7 MiB"),
            (12, "12 bytes"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }

    #[test]
    fn the_own_cgroup_is_found_in_both_layouts() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let hybrid = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            own_cgroup("0::/user.slice/a.scope\n", unified),
            Some("/sys/fs/cgroup/user.slice/a.scope".into())
        );
        assert_eq!(
            own_cgroup("4:memory:/x\n0::/\n", hybrid),
            Some("/sys/fs/cgroup/unified/".into())
        );
        assert_eq!(own_cgroup("4:memory:/x\n", hybrid), None);
        assert_eq!(own_cgroup("0::/a\n", "nonsense\n"), None);
    }

    #[test]
    fn a_group_is_made_and_limited() {
        // A cgroup is a directory with files, so a plain directory shows what would be written.
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!is_usable(dir.path()));
        std::fs::write(
            dir.path().join("cgroup.subtree_control"),
            "cpu memory pids\n",
        )
        .expect("writes");
        std::fs::write(dir.path().join("cgroup.procs"), "").expect("writes");
        assert!(is_usable(dir.path()));
        std::fs::write(dir.path().join("cgroup.subtree_control"), "cpuset memory\n")
            .expect("writes");
        assert!(!is_usable(dir.path()));
        let group = Cgroup::make(dir.path(), "git-agent-x", &limits()).expect("makes");
        let text = |file: &str| {
            std::fs::read_to_string(dir.path().join("git-agent-x").join(file)).expect("written")
        };
        assert_eq!(text("memory.max"), "2147483648");
        assert_eq!(text("cpu.max"), "150000 100000");
        assert!(group.procs().ends_with("git-agent-x/cgroup.procs"));
    }

    #[test]
    fn a_manager_must_answer() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("systemd-run");
        let path = dir.path().to_str().expect("plain");
        let env = env_with(&[("PATH", path), ("XDG_RUNTIME_DIR", path)]);
        assert_eq!(answering_manager(&env), None);
        let answer = |script: &str| {
            std::fs::write(&program, script).expect("writes");
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
                .expect("ours");
            answering_manager(&env)
        };
        assert_eq!(answer("#!/bin/sh\nexit 1\n"), None);
        assert_eq!(answer("#!/bin/sh\nexit 0\n"), Some(program.clone()));
        assert_eq!(answering_manager(&env_with(&[("PATH", path)])), None);
    }

    #[test]
    fn memory_of_a_tree_is_summed() {
        // dash keeps a megabyte-sized variable in memory.
        let mut child = sh("x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 30 & wait")
            .spawn()
            .expect("sh starts");
        until(
            "the sleeping child",
            || matches!(&descendants(child.id())[..], [one] if one.name == "sleep"),
        );
        assert!(memory_of(child.id()).expect("alive") > 8_000_000);
        let below = memory_below(child.id());
        assert_eq!(below.processes, 1);
        assert!(below.bytes > 0 && below.bytes < 8_000_000, "{below:?}");
        for stat in descendants(child.id()) {
            let handle = Handle::open(stat.pid, stat.start_time).expect("opens");
            handle
                .expect("alive")
                .signal(crate::process::identity::Signal::KILL)
                .expect("ours");
        }
        child.wait().expect("ours");
    }
}
