//! Makes a cell: HEAD, index, configuration, refs, and the way to the repository's objects.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::error::{Context, Result};
use crate::git::Repo;
use crate::git::cell::leave::{carried, empty};
use crate::git::cell::{Cell, LARGEST, SMALL, if_there, read_plain};
use crate::git::refs::Target;
use crate::git::snapshot::capture::Checkout;

/// The refs and hooks of a new cell.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The branch or commit that the worktree is on.
    pub head: &'a Target,
    /// The refs that can be seen in it, sorted by name.
    pub refs: &'a [(String, Target)],
    /// The directory of hooks that run in it.
    pub hooks: Option<&'a OsStr>,
    /// The branch whose history of moves comes along.
    pub branch: Option<&'a str>,
}

impl Repo {
    /// Fills a cell for a worktree. Stashes and unfinished operations of an earlier time stay in it. The worktree leads
    /// there only after [`Cell::open`].
    pub fn make_cell(&self, cell: &Cell, at: &Checkout, contents: &Contents<'_>) -> Result<()> {
        let settings = self.cell_settings(at, contents.hooks)?;
        self.fill_cell(cell, at, contents, &settings)
            .context(|| format!("cannot make '{}'", cell.dir().display()))
    }

    fn fill_cell(
        &self,
        cell: &Cell,
        at: &Checkout,
        contents: &Contents<'_>,
        settings: &[u8],
    ) -> io::Result<()> {
        let dir = cell.dir();
        make_dirs(dir)?;
        empty(cell)?;
        for name in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "info",
            "logs/refs/heads",
        ] {
            make_dirs(&dir.join(name))?;
        }
        let objects = self.objects_dir();
        let alternates = [objects.as_os_str().as_bytes(), b"\n"].concat();
        fs::write(dir.join("objects/info/alternates"), alternates)?;
        fs::write(dir.join("config"), settings)?;
        let head = match contents.head {
            Target::Symbolic(name) => format!("ref: {name}\n"),
            Target::Object(id) => format!("{id}\n"),
        };
        fs::write(dir.join("HEAD"), head)?;
        let mut packed = String::from("# pack-refs with: sorted \n");
        for (name, target) in contents.refs {
            if let Target::Object(id) = target {
                packed.push_str(&format!("{id} {name}\n"));
            }
        }
        fs::write(dir.join("packed-refs"), packed)?;
        let common = self.common_dir();
        let mut copies = vec![
            (common.join("info/exclude"), "info/exclude".into()),
            (common.join("info/attributes"), "info/attributes".into()),
            (
                at.admin_dir.join("info/sparse-checkout"),
                "info/sparse-checkout".into(),
            ),
            (common.join("shallow"), "shallow".into()),
            (at.admin_dir.join("logs/HEAD"), "logs/HEAD".to_owned()),
        ];
        if let Some(branch) = contents.branch {
            let log = format!("logs/refs/heads/{branch}");
            copies.push((common.join(&log), log));
        }
        for name in carried() {
            copies.push((at.admin_dir.join(name), (*name).to_owned()));
        }
        for (from, to) in copies {
            copy(&from, &dir.join(to), SMALL)?;
        }
        copy(&at.admin_dir.join("index"), &dir.join("index"), LARGEST)
    }
}

/// Copies a file if it is there and not larger than allowed.
fn copy(from: &Path, to: &Path, most: u64) -> io::Result<()> {
    match if_there(read_plain(from, most)) {
        Ok(Some(bytes)) => {
            if let Some(parent) = to.parent() {
                make_dirs(parent)?;
            }
            fs::write(to, bytes)
        }
        Ok(None) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_dirs(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}
