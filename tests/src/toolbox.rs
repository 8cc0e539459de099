//! Which git is under test, and the few other programs that tests and git's own scripts may find on PATH.
//!
//! Programs are reached through directories of symbolic links, so that nothing else installed on the machine (an agent,
//! another git) can be found by accident.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binaries::{exclusively, shared_dir};

const CHOICE: &str = "GIT_AGENT_TEST_GIT";

/// Found on PATH besides git. A name that the machine lacks is left out.
const TOOLS: &[&str] = &[
    "awk",
    "basename",
    "bash",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "echo",
    "ed",
    "egrep",
    "env",
    "expr",
    "false",
    "fgrep",
    "find",
    "git-receive-pack",
    "git-upload-archive",
    "git-upload-pack",
    "grep",
    "gzip",
    "head",
    "hostname",
    "id",
    "kill",
    "less",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nice",
    "nohup",
    "od",
    "perl",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "script",
    "sed",
    "seq",
    "setsid",
    "sh",
    "sleep",
    "sort",
    "stat",
    "stty",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "tty",
    "uname",
    "uniq",
    "wc",
    "xargs",
];

/// One git installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// The program.
    pub path: PathBuf,
    /// The version as three numbers.
    pub version: (u32, u32, u32),
}

impl Git {
    /// Returns the git under test: the one `GIT_AGENT_TEST_GIT` names (a program or its directory), else PATH's first.
    pub fn under_test() -> &'static Git {
        static CHOSEN: OnceLock<Git> = OnceLock::new();
        CHOSEN.get_or_init(|| match std::env::var_os(CHOICE) {
            Some(choice) => {
                let mut path = PathBuf::from(choice);
                if path.is_dir() {
                    path.push("git");
                }
                Git::at(&path).unwrap_or_else(|| panic!("{CHOICE}: {} is no git", path.display()))
            }
            None => Git::all().first().expect("git is on PATH").clone(),
        })
    }

    /// Returns every git on PATH, in its order, each version once.
    pub fn all() -> &'static [Git] {
        static ALL: OnceLock<Vec<Git>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut all: Vec<Git> = Vec::new();
            for path in on_path("git") {
                if let Some(git) = Git::at(&path)
                    && all.iter().all(|seen| seen.version != git.version)
                {
                    all.push(git);
                }
            }
            all
        })
    }

    fn at(path: &Path) -> Option<Git> {
        let output = Command::new(path).arg("--version").output().ok()?;
        let line = String::from_utf8(output.stdout).ok()?;
        let mut numbers = line
            .strip_prefix("git version ")?
            .split(|c: char| !c.is_ascii_digit())
            .map(|number| number.parse().unwrap_or(0));
        Some(Git {
            path: path.to_owned(),
            version: (
                numbers.next()?,
                numbers.next()?,
                numbers.next().unwrap_or(0),
            ),
        })
    }

    /// Returns whether this git can keep refs in reftable.
    pub fn has_reftable(&self) -> bool {
        self.version >= (2, 45, 0)
    }

    /// Returns the directory of links to this git and to the other tools.
    pub fn toolbox(&self) -> PathBuf {
        let mut links: BTreeMap<&str, PathBuf> = TOOLS
            .iter()
            .filter_map(|name| Some((*name, self.beside(name).or_else(|| on_path(name).next())?)))
            .collect();
        links.insert("git", self.path.clone());
        let mut hasher = DefaultHasher::new();
        links.hash(&mut hasher);
        let dir = shared_dir().join(format!("tools-{:016x}", hasher.finish()));
        exclusively(|| {
            if !dir.is_dir() {
                let fresh = shared_dir().join(format!("unfinished-{}", std::process::id()));
                fs::create_dir_all(&fresh).expect("the target directory is writable");
                for (name, target) in &links {
                    std::os::unix::fs::symlink(target, fresh.join(name))
                        .expect("a link can be made");
                }
                fs::rename(&fresh, &dir).expect("the finished directory takes its name");
            }
        });
        dir
    }

    fn beside(&self, name: &str) -> Option<PathBuf> {
        let path = self.path.parent()?.join(name);
        (name.starts_with("git-") && path.is_file()).then_some(path)
    }
}

impl fmt::Display for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.version;
        write!(f, "git {major}.{minor}.{patch}")
    }
}

/// Returns the links' directory for the git under test.
pub fn toolbox() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| Git::under_test().toolbox())
}

/// Returns the programs of this name on the runner's PATH, first match first.
pub fn on_path(name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let name = name.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(move |dir| dir.join(&name))
        .filter(|candidate| {
            fs::metadata(candidate).is_ok_and(|metadata| {
                metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
}
