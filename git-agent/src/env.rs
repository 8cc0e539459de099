//! The surroundings of a command as one value: working directory, variables, clock, randomness and terminals.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Context, Result};

/// Variables that tell git where a repository is. A command that we start in another worktree must not inherit them.
pub const GIT_LOCATION_VARIABLES: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_SHALLOW_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
];

/// A point in time, in milliseconds since 1970.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Returns whole seconds since 1970.
    pub fn seconds(self) -> i64 {
        i64::try_from(self.0 / 1000).unwrap_or(i64::MAX)
    }
}

/// The surroundings that a command may read.
#[derive(Debug)]
pub struct Env {
    /// The directory the command was started in.
    pub cwd: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    /// Whether standard input, output and error are terminals.
    pub terminals: Terminals,
    /// A fixed time for tests, instead of the clock.
    clock: Option<u64>,
    random_drawn: AtomicU64,
}

/// Which standard streams are terminals.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminals {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

impl Env {
    /// Reads the surroundings of this process.
    pub fn from_process() -> Result<Self> {
        let terminals = Terminals {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
        };
        let cwd = std::env::current_dir().context(|| "cannot read the current directory".into())?;
        Ok(Env::new(cwd, std::env::vars_os(), terminals))
    }

    /// Builds surroundings from parts, for tests.
    pub fn new(
        cwd: PathBuf,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        terminals: Terminals,
    ) -> Self {
        let mut env = Env {
            cwd,
            variables: variables.into_iter().collect(),
            terminals,
            clock: None,
            random_drawn: AtomicU64::new(0),
        };
        env.clock = env
            .var("GIT_AGENT_TEST_CLOCK")
            .and_then(|text| text.parse().ok());
        env
    }

    /// Returns a variable, even if it is empty.
    pub fn var_os(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns a variable if it is valid UTF-8 and not empty.
    pub fn var(&self, name: impl AsRef<OsStr>) -> Option<&str> {
        self.var_os(name)
            .and_then(OsStr::to_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns all variables.
    pub fn vars_os(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns all variables except those that tell git where its repository is.
    pub fn vars_outside_git(&self) -> Vec<(OsString, OsString)> {
        self.vars_os()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                !GIT_LOCATION_VARIABLES.contains(&name.as_ref())
            })
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns a path relative to the working directory as an absolute one.
    pub fn absolute(&self, path: impl AsRef<Path>) -> PathBuf {
        self.cwd.join(path)
    }

    /// Returns the current time, or `GIT_AGENT_TEST_CLOCK` (milliseconds) if it is set.
    pub fn now(&self) -> Millis {
        if let Some(fixed) = self.clock {
            return Millis(fixed);
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns random bytes. `GIT_AGENT_TEST_SEED` (a number) makes them repeatable within a process.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(seed) = self
            .var("GIT_AGENT_TEST_SEED")
            .and_then(|text| text.parse::<u64>().ok())
        {
            for byte in &mut bytes {
                let drawn = self.random_drawn.fetch_add(1, Ordering::Relaxed);
                // splitmix64
                let mut z = seed.wrapping_add(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                *byte = (z ^ (z >> 31)).to_le_bytes()[0];
            }
            return bytes;
        }
        let mut filled = 0;
        while filled < N {
            match rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("cannot read random bytes: {error}"),
            }
        }
        bytes
    }
}
