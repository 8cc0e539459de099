//! The directory of hooks: a copy of this program, two scripts that start it, and a link to one of them for every hook
//! that has something to do.
//!
//! git starts a process for every name that it finds here, and a commit looks for up to ten: so only the guard's own hooks
//! and those that the repository has are there. A transaction has several phases, of which the guard judges one: unless the
//! repository has such a hook of its own, the others end in a script of one line.
//!
//! It is a copy, so that replacing or removing the installed program does not disable the guard of running sessions,
//! and so that changes to files in the repository cannot reach the installed program, as they would through a hard
//! link. Every file is put in place by a rename, so any number of processes may install at once.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Context, Error, Result};
use crate::file::{self, Durability};
use crate::git::config::quote_value;
use crate::git::sha256;
use crate::guard::push::PRE_PUSH;

/// The hook that judges changes of refs.
pub const REFERENCE_TRANSACTION: &str = "reference-transaction";

/// The hooks that the guard needs.
const OWN: [&str; 3] = [REFERENCE_TRANSACTION, PRE_PUSH, "post-checkout"];

/// Every hook of git that can stand in for one that is absent by doing nothing.
///
/// Left out are hooks whose existence changes it: `push-to-checkout` replaces git's own update of a checkout,
/// `proc-receive` takes over a push, and `fsmonitor-watchman` is found by another setting.
pub const NAMES: [&str; 25] = [
    REFERENCE_TRANSACTION,
    "applypatch-msg",
    "commit-msg",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "sendemail-validate",
    "update",
];

/// The copy of the program, inside the directory.
const PROGRAM: &str = "git-agent";
/// The script that the hooks are links to, inside their directory.
const SCRIPT: &str = "start";
const SCRIPT_TEXT: &str = r#"#!/bin/sh
exec "${0%/*}/git-agent" __hook "${0##*/}" "$@"
"#;
/// The script for transactions of a repository without such a hook of its own.
const JUDGE: &str = "judge";
const JUDGE_TEXT: &str = r#"#!/bin/sh
[ "$1" != prepared ] || exec "${0%/*}/git-agent" __hook reference-transaction "$@"
"#;
/// The configuration that brings the hooks in, inside their directory.
const CONFIG: &str = "config";

/// An installed directory of hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// The directory.
    pub dir: PathBuf,
    /// The configuration file that enables it.
    pub config: PathBuf,
}

/// Makes sure that a repository, whose own hooks are in `theirs`, has the hooks of this version of `program`, and returns
/// where they are.
pub fn install(common_dir: &Path, program: &Path, theirs: &Path) -> Result<Hooks> {
    let cannot = || format!("cannot install hooks for '{}'", common_dir.display());
    let program = program.canonicalize().context(cannot)?;
    let dir = dir_of(common_dir, &program);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .context(cannot)?;
    for (name, text) in [(SCRIPT, SCRIPT_TEXT), (JUDGE, JUDGE_TEXT)] {
        let script = dir.join(name);
        if !fs::read(&script).is_ok_and(|found| found == text.as_bytes()) || !is_executable(&script)
        {
            file::replace_with_mode(&script, text.as_bytes(), 0o700, Durability::Volatile)?;
        }
    }
    copy_program(&program, &dir.join(PROGRAM)).context(cannot)?;
    link(&dir, theirs).context(cannot)?;
    let config = dir.join(CONFIG);
    let mut text = b"[core]\n\thooksPath = ".to_vec();
    text.extend(quote_value(dir.as_os_str().as_encoded_bytes()));
    // Packing refs looks like moving them all, so git must not start it by itself.
    text.extend(b"\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    // The repository's own settings cannot switch these off (git 2.55).
    for event in OWN {
        text.extend(format!("[hook \"{event}\"]\n\tenabled = true\n").into_bytes());
    }
    if fs::read(&config).ok().as_deref() != Some(&text) {
        file::replace(&config, text, Durability::Volatile)?;
    }
    if !is_executable(&dir.join(REFERENCE_TRANSACTION)) {
        return Err(Error::fatal(format!(
            "git could not run the hooks in '{}'",
            dir.display()
        ))
        .hint("is the file system mounted with noexec?"));
    }
    Ok(Hooks { dir, config })
}

/// Adds the hooks that are missing in our directory, and returns those of them that the repository has in `theirs`.
///
/// None is taken away: another session may have it. A directory that is set as `core.hooksPath` may be filled later, as
/// husky does, so all names are there from the start.
pub(super) fn link(dir: &Path, theirs: &Path) -> io::Result<Vec<&'static str>> {
    // Without execution in there the program is a link out of it, and tells the hook by the name it is started by.
    let runs_scripts = is_executable(&dir.join(SCRIPT));
    // The directory need not exist, and a hook sees another path to it.
    let is_usual = theirs.file_name().is_some_and(|name| name == "hooks")
        && theirs
            .parent()
            .zip(dir.ancestors().nth(3))
            .is_some_and(|(one, other)| is_same_file(one, other));
    let mut added = Vec::new();
    for name in NAMES {
        let path = dir.join(name);
        let has = is_executable(&theirs.join(name));
        let is_theirs = has || !is_usual;
        if !is_theirs && !OWN.contains(&name) {
            continue;
        }
        let target = match (runs_scripts, name) {
            (false, _) => PROGRAM,
            (true, REFERENCE_TRANSACTION) if !is_theirs => JUDGE,
            (true, _) => SCRIPT,
        };
        let found = fs::read_link(&path).unwrap_or_default();
        // Another session may need every phase.
        if found == Path::new(target) || (target == JUDGE && found == Path::new(SCRIPT)) {
            continue;
        }
        placed(&path, |fresh| std::os::unix::fs::symlink(target, fresh))?;
        added.extend(has.then_some(name));
    }
    Ok(added)
}

/// Returns where the hooks of this version of `program` are, whether they are installed or not.
pub fn place(common_dir: &Path, program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    Some(dir_of(common_dir, &program))
}

fn dir_of(common_dir: &Path, program: &Path) -> PathBuf {
    let digest = sha256(program.as_os_str().as_encoded_bytes());
    let key: String = digest.chars().take(12).collect();
    common_dir
        .join("agents")
        .join("hooks")
        .join(format!("{}-{key}", env!("CARGO_PKG_VERSION")))
}

/// Copies `program`, with shared data where the file system supports it.
fn copy_program(program: &Path, copy: &Path) -> io::Result<()> {
    let original = fs::metadata(program)?;
    if is_copy(&original, copy) {
        return Ok(());
    }
    let copied = placed(copy, |fresh| {
        fs::copy(program, fresh)?;
        fs::set_permissions(fresh, fs::Permissions::from_mode(0o700))?;
        // The time tells a copy from that of another version.
        let times = fs::FileTimes::new().set_modified(original.modified()?);
        fs::File::open(fresh)?.set_times(times)
    });
    if copied.is_ok() && is_executable(copy) {
        return Ok(());
    }
    // No space, or the directory does not allow execution.
    placed(copy, |fresh| std::os::unix::fs::symlink(program, fresh))
}

/// Returns whether a file is a copy of the current program. A hard link, as earlier versions made, is not.
fn is_copy(original: &fs::Metadata, copy: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(copy) else {
        return false;
    };
    let time = |meta: &fs::Metadata| (meta.size(), meta.mtime(), meta.mtime_nsec());
    let is_another = (found.dev(), found.ino()) != (original.dev(), original.ino());
    found.is_file() && is_another && time(&found) == time(original) && is_executable(copy)
}

/// Makes a file under a temporary name, then renames it.
fn placed(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(
        ".{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let fresh = PathBuf::from(name);
    let done = make(&fresh).and_then(|()| fs::rename(&fresh, path));
    // Also after success: a rename onto a hard link of the same file leaves both.
    let _ = fs::remove_file(&fresh);
    done
}

pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.dev() == other.dev() && one.ino() == other.ino(),
        _ => false,
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && !path.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, name).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        path
    }

    #[test]
    fn installed_once_and_repaired() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = program(dir.path(), "own program");
        let theirs = dir.path().join("set by hooksPath");
        let hooks = install(dir.path(), &own, &theirs).expect("installed");
        assert_eq!(install(dir.path(), &own, &theirs).expect("again"), hooks);
        let copy = hooks.dir.join(PROGRAM);
        let serves = |name: &str, text: &str| {
            let path = hooks.dir.join(name);
            assert!(!is_same_file(&path, &own), "{name} is the program itself");
            assert_eq!(fs::read(&path).expect("a script"), SCRIPT_TEXT.as_bytes());
            assert!(is_executable(&path), "{name}");
            assert!(!is_same_file(&copy, &own), "the copy is the program");
            assert_eq!(fs::read(&copy).expect("a program"), text.as_bytes());
            assert!(is_executable(&copy));
        };
        for name in NAMES {
            serves(name, "own program");
        }
        // Changes to the copy do not affect the program.
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o000)).expect("changed");
        assert!(is_executable(&own));
        install(dir.path(), &own, &theirs).expect("repaired");
        // A hard link of an earlier version is replaced.
        fs::remove_file(&copy).expect("removed");
        fs::hard_link(&own, &copy).expect("linked");
        install(dir.path(), &own, &theirs).expect("replaced");
        serves("pre-commit", "own program");
        // A new version under the old name, a missing link, a damaged configuration.
        fs::remove_file(&own).expect("removed");
        assert!(
            is_executable(&hooks.dir.join("pre-commit")),
            "the old program still serves"
        );
        fs::write(&own, "a newer program").expect("a file");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::remove_file(hooks.dir.join("pre-commit")).expect("removed");
        fs::write(&hooks.config, "").expect("spoilt");
        assert_eq!(install(dir.path(), &own, &theirs).expect("repaired"), hooks);
        serves("pre-commit", "a newer program");
        assert!(
            fs::read_to_string(&hooks.config).is_ok_and(|text| text.contains("hooksPath")),
            "the configuration is back"
        );
        let left = fs::read_dir(&hooks.dir).expect("readable").count();
        assert_eq!(left, NAMES.len() + 4, "no file on its way is left");
    }

    #[test]
    fn the_scripts_know_the_names_of_the_program() {
        assert!(SCRIPT_TEXT.contains(PROGRAM) && JUDGE_TEXT.contains(PROGRAM));
        assert!(JUDGE_TEXT.contains(REFERENCE_TRANSACTION));
    }

    #[test]
    fn many_install_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = program(dir.path(), "program");
        let theirs = dir.path().join("hooks");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| install(dir.path(), &own, &theirs).expect("installed"));
            }
        });
        let hooks = install(dir.path(), &own, &theirs).expect("installed");
        let count = || fs::read_dir(&hooks.dir).expect("readable").count();
        assert_eq!(count(), OWN.len() + 4);
        let another_path = hooks.dir.join("../../../hooks");
        assert!(link(&hooks.dir, &another_path).expect("linked").is_empty());
        assert_eq!(count(), OWN.len() + 4);
        let target = || fs::read_link(hooks.dir.join(REFERENCE_TRANSACTION)).expect("a link");
        assert_eq!(target(), Path::new(JUDGE));
        // Hooks that the repository gets.
        fs::create_dir(&theirs).expect("a directory");
        program(&theirs, "pre-commit");
        fs::write(theirs.join("commit-msg"), "not executable").expect("a file");
        assert_eq!(link(&hooks.dir, &theirs).expect("linked"), ["pre-commit"]);
        assert!(link(&hooks.dir, &theirs).expect("linked").is_empty());
        assert_eq!(count(), OWN.len() + 5);
        let own = program(&theirs, REFERENCE_TRANSACTION);
        link(&hooks.dir, &theirs).expect("linked");
        assert_eq!(target(), Path::new(SCRIPT));
        fs::remove_file(own).expect("removed");
        link(&hooks.dir, &theirs).expect("linked");
        assert_eq!(target(), Path::new(SCRIPT), "another session may need it");
    }
}
