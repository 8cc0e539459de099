//! Installs the programs, their manual and the shell completions under a prefix, and removes them again.
//!
//! A list of the installed files and their hashes is kept with them. Other files are never overwritten or removed
//! without `--force`.

pub mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::error::{Context, Error, Result};
use crate::file::{self, Durability};
use crate::git::sha256;
use crate::process::detach::own_program;

pub const PROGRAMS: [&str; 5] = [
    "git-agent",
    "git-agent-board",
    "git-agent-builtin",
    "git-agent-merge",
    "git-agent-review",
];
/// The manual pages, by their path under `share/man`.
pub const PAGES: [(&str, &str); 7] = [
    (
        "man1/git-agent.1",
        include_str!("../../../man/man1/git-agent.1"),
    ),
    (
        "man1/git-agent-board.1",
        include_str!("../../../man/man1/git-agent-board.1"),
    ),
    (
        "man1/git-agent-builtin.1",
        include_str!("../../../man/man1/git-agent-builtin.1"),
    ),
    (
        "man1/git-agent-merge.1",
        include_str!("../../../man/man1/git-agent-merge.1"),
    ),
    (
        "man1/git-agent-review.1",
        include_str!("../../../man/man1/git-agent-review.1"),
    ),
    (
        "man5/gitformat-agent.5",
        include_str!("../../../man/man5/gitformat-agent.5"),
    ),
    (
        "man7/git-agent-guard.7",
        include_str!("../../../man/man7/git-agent-guard.7"),
    ),
    (
        "man7/git-agent-workflows.7",
        include_str!("../../../man/man7/git-agent-workflows.7"),
    ),
];
/// Completion for bash.
pub const BASH: &str = include_str!("completion.bash");
/// Completion for zsh.
pub const ZSH: &str = include_str!("completion.zsh");
/// Completion for fish.
pub const FISH: &str = include_str!("completion.fish");

/// The list of installed files, relative to the prefix.
const LIST: &str = "share/git-agent/installed";

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Written,
    /// Already there with the same content.
    Same,
    Removed,
    /// Left alone, because it was changed after the installation.
    Kept,
}

/// One file and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file's path.
    pub path: PathBuf,
    /// What happened to it.
    pub done: Done,
}

/// A file to install.
struct Item {
    /// Path relative to the prefix.
    place: String,
    bytes: Vec<u8>,
    mode: u32,
}

/// Returns the default prefix: around this program if it is in a `bin` directory, or else the user's own.
pub fn default_prefix(env: &Env) -> Result<PathBuf> {
    let program = own_program();
    let bin = program.parent().filter(|dir| dir.ends_with("bin"));
    if let Some(prefix) = bin.and_then(Path::parent) {
        return Ok(prefix.to_owned());
    }
    match env.var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(Path::new(home).join(".local")),
        None => Err(Error::fatal("HOME is not set").hint("git agent install --prefix DIR")),
    }
}

/// Installs everything. If another program's file is in the way, writes nothing, unless `force` is set.
pub fn install(prefix: &Path, force: bool) -> Result<Vec<File>> {
    let items = items()?;
    let known = read_list(prefix)?;
    let mut files = Vec::new();
    let mut in_the_way = Vec::new();
    for item in &items {
        let path = prefix.join(&item.place);
        let done = match present(&path)? {
            Some(bytes) if bytes == item.bytes => Done::Same,
            Some(bytes) => {
                if known.get(&item.place) != Some(&sha256(&bytes)) {
                    in_the_way.push(path.display().to_string());
                }
                Done::Written
            }
            None => Done::Written,
        };
        files.push(File { path, done });
    }
    if !force && !in_the_way.is_empty() {
        return Err(Error::fatal(format!(
            "these files exist and were not installed by git-agent: {}",
            in_the_way.join(", ")
        ))
        .hint("git agent install --force    replace them")
        .hint("git agent install --prefix DIR    install elsewhere"));
    }
    // Write the list first, so that an interrupted installation can be removed.
    write_list(prefix, known, &items)?;
    for (item, file) in items.iter().zip(&files) {
        if file.done == Done::Written {
            replace(&file.path, &item.bytes, item.mode)?;
        }
    }
    Ok(files)
}

/// Removes the installed files. Files that were changed since stay, unless `force` is set.
pub fn uninstall(prefix: &Path, force: bool) -> Result<Vec<File>> {
    let known = read_list(prefix)?;
    if known.is_empty() {
        return Err(Error::negative(format!(
            "git-agent is not installed in '{}'",
            prefix.display()
        ))
        .hint("git agent install --uninstall --prefix DIR"));
    }
    let mut files = Vec::new();
    for (place, hash) in known {
        let path = prefix.join(&place);
        let Some(bytes) = present(&path)? else {
            continue;
        };
        let done = if force || sha256(&bytes) == hash {
            Done::Removed
        } else {
            Done::Kept
        };
        if done == Done::Removed {
            fs::remove_file(&path).context(|| format!("cannot remove '{}'", path.display()))?;
        }
        files.push(File { path, done });
    }
    let list = prefix.join(LIST);
    fs::remove_file(&list).context(|| format!("cannot remove '{}'", list.display()))?;
    // Directories with other files are not empty and stay.
    let _ = list.parent().map(fs::remove_dir);
    Ok(files)
}

fn items() -> Result<Vec<Item>> {
    let program = own_program();
    let beside = program.parent().unwrap_or(Path::new("/"));
    let mut items = Vec::new();
    for name in PROGRAMS {
        let path = beside.join(name);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::fatal(format!(
                    "program '{name}' is missing in '{}'",
                    beside.display()
                ))
                .hint("cargo build --release    build all three programs"));
            }
            read => read.context(|| format!("cannot read '{}'", path.display()))?,
        };
        items.push(Item {
            place: format!("bin/{name}"),
            bytes,
            mode: 0o755,
        });
    }
    let mut text = |place: String, text: &str| {
        items.push(Item {
            place,
            bytes: text.as_bytes().to_vec(),
            mode: 0o644,
        });
    };
    for (place, page) in PAGES {
        text(format!("share/man/{place}"), page);
    }
    text(
        "share/bash-completion/completions/git-agent".to_owned(),
        BASH,
    );
    text("share/zsh/site-functions/_git-agent".to_owned(), ZSH);
    text("share/fish/vendor_conf.d/git-agent.fish".to_owned(), FISH);
    Ok(items)
}

/// Returns the content of a file. Anything but a regular file never counts as ours.
fn present(path: &Path) -> Result<Option<Vec<u8>>> {
    let cannot = || format!("cannot read '{}'", path.display());
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(cannot),
        Ok(meta) if meta.is_dir() => {
            Err(Error::fatal(format!("'{}' is a directory", path.display())))
        }
        Ok(meta) if meta.is_symlink() => Ok(Some(b"a link".to_vec())),
        Ok(_) => fs::read(path).map(Some).context(cannot),
    }
}

/// Replaces a file atomically, so that running programs keep their old file.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let cannot = || format!("cannot write '{}'", path.display());
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).context(cannot)?;
    file::replace_with_mode(path, bytes, mode, Durability::Volatile)
}

fn read_list(prefix: &Path) -> Result<BTreeMap<String, String>> {
    let path = prefix.join(LIST);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(parse_entry).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).context(|| format!("cannot read '{}'", path.display())),
    }
}

/// Parses one line of the list. Ignores paths outside the prefix.
fn parse_entry(line: &str) -> Option<(String, String)> {
    let (hash, place) = line.split_once("  ")?;
    let inside = place.starts_with("bin/") || place.starts_with("share/");
    (inside && !place.split('/').any(|part| part == ".."))
        .then(|| (place.to_owned(), hash.to_owned()))
}

fn write_list(prefix: &Path, mut known: BTreeMap<String, String>, items: &[Item]) -> Result<()> {
    for item in items {
        known.insert(item.place.clone(), sha256(&item.bytes));
    }
    let mut text = String::new();
    for (place, hash) in &known {
        text += &format!("{hash}  {place}\n");
    }
    replace(&prefix.join(LIST), text.as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_nothing_outside() {
        assert!(parse_entry("abc  bin/git-agent").is_some());
        for line in [
            "abc  ../bin/x",
            "abc  /etc/passwd",
            "abc  bin/../../x",
            "abc",
            "",
        ] {
            assert!(parse_entry(line).is_none(), "{line}");
        }
    }
}
