//! Installs the directory of hooks: a copy of this program, and a link to it for every hook of git.
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

/// Every hook of git that may exist without changing what git does.
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

/// Name of the program's copy in the directory, which the hooks link to.
const PROGRAM: &str = "git-agent";
/// Name of the configuration file that enables the hooks.
const CONFIG: &str = "config";

/// An installed directory of hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// The directory.
    pub dir: PathBuf,
    /// The configuration file that enables it.
    pub config: PathBuf,
}

/// Installs the hooks of this version of `program` in a repository, if they are missing, and returns them.
pub fn install(common_dir: &Path, program: &Path) -> Result<Hooks> {
    let cannot = || format!("cannot install hooks for '{}'", common_dir.display());
    let program = program.canonicalize().context(cannot)?;
    let dir = dir_of(common_dir, &program);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .context(cannot)?;
    copy_program(&program, &dir.join(PROGRAM)).context(cannot)?;
    for name in NAMES {
        let path = dir.join(name);
        if fs::read_link(&path).is_ok_and(|target| target == Path::new(PROGRAM)) {
            continue;
        }
        placed(&path, |fresh| std::os::unix::fs::symlink(PROGRAM, fresh)).context(cannot)?;
    }
    let config = dir.join(CONFIG);
    let mut text = b"[core]\n\thooksPath = ".to_vec();
    text.extend(quote_value(dir.as_os_str().as_encoded_bytes()));
    // Packing refs looks like moving them all, so git must not start it by itself.
    text.extend(b"\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    // The repository's own settings must not disable these (git 2.55).
    for event in [REFERENCE_TRANSACTION, PRE_PUSH, "post-checkout"] {
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

/// Returns the directory for the hooks of this version of `program`, installed or not.
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
        let hooks = install(dir.path(), &own).expect("installed");
        assert_eq!(install(dir.path(), &own).expect("again"), hooks);
        let serves = |name: &str, text: &str| {
            let path = hooks.dir.join(name);
            assert!(!is_same_file(&path, &own), "{name} is the program itself");
            assert_eq!(fs::read(&path).expect("a program"), text.as_bytes());
            assert!(is_executable(&path), "{name}");
        };
        for name in NAMES {
            serves(name, "own program");
        }
        // Changes to the copy do not affect the program.
        let copy = hooks.dir.join(PROGRAM);
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o000)).expect("changed");
        assert!(is_executable(&own));
        install(dir.path(), &own).expect("repaired");
        // A hard link of an earlier version is replaced.
        fs::remove_file(&copy).expect("removed");
        fs::hard_link(&own, &copy).expect("linked");
        install(dir.path(), &own).expect("replaced");
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
        assert_eq!(install(dir.path(), &own).expect("repaired"), hooks);
        serves("pre-commit", "a newer program");
        assert!(
            fs::read_to_string(&hooks.config).is_ok_and(|text| text.contains("hooksPath")),
            "the configuration is back"
        );
        let left = fs::read_dir(&hooks.dir).expect("readable").count();
        assert_eq!(left, NAMES.len() + 2, "no file on its way is left");
    }

    #[test]
    fn many_install_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = program(dir.path(), "program");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| install(dir.path(), &own).expect("installed"));
            }
        });
        let hooks = install(dir.path(), &own).expect("installed");
        assert_eq!(
            fs::read_dir(&hooks.dir).expect("readable").count(),
            NAMES.len() + 2
        );
    }
}
