//! Brings the objects of a cell into the repository. git checks every one of them on the way: content, name and links.
//!
//! The files are linked or copied to a directory of ours first, without following links: a cell's list of alternates could
//! lead to objects of any repository that this user can read.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{AtFlags, CWD, FileType, OFlags};

use crate::error::{Context, Error, Result};
use crate::git::Repo;
use crate::git::cell::Cell;
use crate::git::object::quarantine::{Quarantine, quoted};

impl Repo {
    /// Brings all objects of a cell that the repository does not have. Returns how many files that were.
    pub fn bring_objects(&self, cell: &Cell) -> Result<usize> {
        self.require_writable()?;
        let cannot = || format!("cannot read the objects of '{}'", cell.dir().display());
        let raw = Quarantine::new(self)?;
        let loose = self.collect_loose(cell, raw.objects()).context(cannot)?;
        let packs = collect_packs(cell, raw.objects()).context(cannot)?;
        if loose.is_empty() && packs == 0 {
            return Ok(0);
        }
        let checked = Quarantine::new(self)?;
        for entry in fs::read_dir(raw.objects().join("pack"))
            .context(cannot)?
            .flatten()
        {
            let file = fs::File::open(entry.path()).context(cannot)?;
            let git = checked.enter(self.git_common()).durable();
            let git = git.args(["index-pack", "--strict", "--stdin"]);
            let child = git.spawn(file.into(), Stdio::null(), Stdio::piped())?;
            end_well(child, "git index-pack")?;
        }
        if !loose.is_empty() {
            self.repack(&loose, raw.objects(), &checked)?;
        }
        checked.release()?;
        Ok(loose.len() + packs)
    }

    /// Passes loose objects through git's checks.
    fn repack(&self, loose: &[String], raw: &Path, checked: &Quarantine) -> Result<()> {
        let names: String = loose.iter().map(|id| format!("{id}\n")).collect();
        let packed = self
            .git_common()
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", {
                let both = [raw, checked.objects()].map(|dir| quoted(dir.as_os_str()));
                both.join(std::ffi::OsStr::new(":"))
            })
            .args(["pack-objects", "--quiet", "--stdout", "--delta-base-offset"])
            .args(["--window=0", "--threads=1"])
            .input(names)
            .run()?;
        let verb: &[&str] = if loose.len() > 100 {
            &["index-pack", "--strict", "--stdin"]
        } else {
            &["unpack-objects", "-q", "--strict"]
        };
        checked
            .enter(self.git_common())
            .durable()
            .args(verb)
            .input(packed.stdout)
            .run()
            .map(drop)
    }

    /// Collects the loose objects that the repository does not have, and returns their ids.
    fn collect_loose(&self, cell: &Cell, to: &Path) -> io::Result<Vec<String>> {
        let (from, main) = (Path::new("objects"), self.objects_dir());
        let mut found = Vec::new();
        for fan in cell.entries(from, FileType::Directory)? {
            if fan.len() != 2 || !fan.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                continue;
            }
            for rest in cell.entries(from.join(&fan), FileType::RegularFile)? {
                let id = format!("{fan}{rest}");
                let known = main.join(&fan).join(&rest).exists();
                if known || self.parse_id(&id).is_err() {
                    continue;
                }
                fs::create_dir_all(to.join(&fan))?;
                let name = Path::new(&fan).join(&rest);
                if take(cell, &from.join(&name), &to.join(&name))? {
                    found.push(id);
                }
            }
        }
        Ok(found)
    }
}

/// Collects the packs.
fn collect_packs(cell: &Cell, to: &Path) -> io::Result<usize> {
    let from = Path::new("objects/pack");
    let mut found = 0;
    for name in cell.entries(from, FileType::RegularFile)? {
        let is_pack = name.starts_with("pack-") && name.ends_with(".pack");
        if is_pack && take(cell, &from.join(&name), &to.join("pack").join(&name))? {
            found += 1;
        }
    }
    Ok(found)
}

/// Takes a regular file of a cell into a directory of ours. `false` if it is something else, or gone.
fn take(cell: &Cell, from: &Path, to: &Path) -> io::Result<bool> {
    let Ok(opened) = cell.open_within(from, OFlags::RDONLY | OFlags::NONBLOCK) else {
        return Ok(false);
    };
    let mut file = fs::File::from(opened);
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    // By the descriptor: the name may lead to another file by now.
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    if rustix::fs::linkat(CWD, descriptor, CWD, to, AtFlags::SYMLINK_FOLLOW).is_err() {
        io::copy(&mut file, &mut fs::File::create(to)?)?;
    }
    Ok(true)
}

fn end_well(child: std::process::Child, name: &str) -> Result<()> {
    let ended = child
        .wait_with_output()
        .context(|| format!("cannot wait for '{name}'"))?;
    if ended.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.lines().last().unwrap_or_default().to_owned();
        Err(Error::fatal(format!("'{name}' refused objects of the agent")).hint(said))
    }
}
