//! The room of a program: the files it may write and read, the processes it may see, the sockets it may reach.
//!
//! Three layers of the kernel hold it, none needs root or an installed program. Landlock decides which files may be
//! opened, and keeps signals and abstract sockets inside; it is the layer that a room cannot do without. Namespaces make
//! everything else read-only (Landlock does not cover chmod), hide sockets, and end all processes with the first one.
//! A seccomp filter refuses system calls that neither sees. All of it is entered in the new process, just before the exec.
//!
//! | file | owns |
//! |---|---|
//! | `landlock` | the rules for files and signals |
//! | `filter` | the seccomp filter |
//! | `namespaces` | mounts and the processes between the supervisor and the program |
//! | `machine` | which of these this machine has, and why not |
//! | `kernel` | system calls that no safe library offers |

mod filter;
mod kernel;
mod landlock;
pub mod machine;
mod namespaces;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};

/// What a program may do. Paths that do not exist are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Room {
    /// Files and whole directories that may be written.
    pub writable: Vec<PathBuf>,
    /// Parts of those that stay as they are, where namespaces can hold that.
    pub fixed: Vec<PathBuf>,
    /// Files and directories that may not even be read.
    pub closed: Vec<PathBuf>,
    /// Parts of closed directories that may be read.
    pub readable: Vec<PathBuf>,
    /// The private directory for temporary files.
    pub temporary: Option<PathBuf>,
    /// Paths that must stay where they are: without one of them below `/tmp`, the private directory is shown there.
    pub needed: Vec<PathBuf>,
    /// Sockets that stay in reach.
    pub sockets: Vec<PathBuf>,
    /// Whether it has no network. With namespaces a private loopback remains.
    #[serde(default)]
    pub offline: bool,
    /// Whether to use namespaces.
    pub namespaces: bool,
}

impl Room {
    /// Reads a room from the file in which the supervisor left it.
    pub(super) fn load(file: &Path) -> Result<Self> {
        let cannot = || format!("cannot read '{}'", file.display());
        let bytes = std::fs::read(file).context(cannot)?;
        serde_json::from_slice(&bytes).context(cannot)
    }

    /// Enters the room. With namespaces this returns in a new process; the one that called stays outside, waits for the
    /// program, and ends as it ended. `between` runs in each process that is not the program.
    pub(super) fn enter(&self, between: impl Fn()) -> Result<()> {
        rustix::thread::set_no_new_privs(true)
            .context(|| "cannot give up the right to gain privileges".into())?;
        if self.namespaces {
            namespaces::enter(self, between)?;
        }
        landlock::restrict(self)?;
        let version = machine::landlock_version();
        filter::install(filter::Sockets {
            unix: self.namespaces || version >= landlock::SOCKETS,
            network: self.namespaces || !self.offline,
        })
    }
}

/// Returns whether a path is another one or below it.
fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Returns the real paths of those that exist.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    let found = paths.iter().filter_map(|path| path.canonicalize().ok());
    found.collect()
}
