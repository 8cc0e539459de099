//! One world per test: a directory, an environment that owes nothing to the machine, and a clock that git obeys.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::binaries::binaries;
use crate::faults::SmallDisk;
use crate::process::Cmd;
use crate::repo::Builder;
use crate::survivors::{self, MARKER};
use crate::toolbox::{Git, toolbox};

/// Keeps sandboxes on disk, to be looked at.
const KEEP: &str = "GIT_AGENT_TEST_KEEP";
const FIRST_SECOND: u64 = 1_700_000_000;
const STEP: u64 = 60;
const GRACE: Duration = Duration::from_secs(5);

/// Configuration that outranks every file: no surprises from defaults that change or start processes.
const CONFIG: [(&str, &str); 7] = [
    ("user.useConfigOnly", "true"),
    ("rerere.enabled", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("protocol.file.allow", "always"),
    ("advice.detachedHead", "false"),
];

/// The world of one test. When it ends, no process of it may be left alive.
#[derive(Debug)]
pub struct Sandbox {
    dir: Option<tempfile::TempDir>,
    root: PathBuf,
    marker: String,
    seconds: AtomicU64,
    grace: Duration,
    disks: Mutex<Vec<SmallDisk>>,
}

impl Sandbox {
    /// Creates an empty world.
    #[expect(
        clippy::new_without_default,
        reason = "a default that makes directories would surprise"
    )]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // The blank in the name finds missing quotes.
        let dir = tempfile::Builder::new()
            .prefix("git agent ")
            .tempdir()
            .expect("a temporary directory can be made");
        // Programs that ask the kernel where they are see no symbolic links.
        let root = dir.path().canonicalize().expect("the new directory exists");
        let sandbox = Sandbox {
            marker: format!(
                "{}-{}",
                std::process::id(),
                COUNT.fetch_add(1, Ordering::Relaxed)
            ),
            dir: Some(dir),
            root,
            seconds: AtomicU64::new(FIRST_SECOND),
            grace: GRACE,
            disks: Mutex::default(),
        };
        for name in [
            "home", "config", "cache", "data", "state", "run", "tmp", "template", "bin", "work",
        ] {
            let path = sandbox.root.join(name);
            fs::create_dir(&path).expect("the sandbox is writable");
            if name == "run" {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
                    .expect("modes can be set");
            }
        }
        sandbox
    }

    /// Lets processes live on for this long after the test before it fails.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns the top of the world.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the home directory.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the directory that repositories are made in.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Returns the file that git reads as the user's configuration. It does not exist unless a test writes it.
    pub fn global_config(&self) -> PathBuf {
        self.root.join("gitconfig")
    }

    /// Returns the git that everything here runs through.
    pub fn git(&self) -> &'static Git {
        Git::under_test()
    }

    /// Moves git's clock on by a minute.
    pub fn tick(&self) {
        self.seconds.fetch_add(STEP, Ordering::Relaxed);
    }

    /// Returns git's clock, in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// Starts describing a repository under [`Sandbox::work`].
    pub fn repo(&self, name: impl AsRef<OsStr>) -> Builder<'_> {
        Builder::new(self, self.work().join(name.as_ref()))
    }

    /// Starts describing a repository at any place.
    pub fn repo_at(&self, path: impl Into<PathBuf>) -> Builder<'_> {
        Builder::new(self, path.into())
    }

    /// Returns a program about to be started in this world.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Cmd {
        Cmd::new(
            program.as_ref(),
            self.environment(),
            &self.work(),
            &self.root,
        )
    }

    /// Returns a shell about to run a script in this world.
    pub fn sh(&self, script: impl AsRef<OsStr>) -> Cmd {
        self.command("sh").arg("-c").arg(script)
    }

    /// Writes an executable file of this name on PATH, after the product's own directory.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.root.join("bin").join(name);
        write_program(&path, script);
        path
    }

    /// Returns a directory on a file system of its own with only this many MiB of room, or why there can't be one.
    pub fn small_disk(&self, mebibytes: u32) -> Result<PathBuf, String> {
        let mut disks = self.disks.lock().expect("no test panics in here");
        let path = self.root.join(format!("disk-{}", disks.len()));
        disks.push(SmallDisk::mount(&path, mebibytes)?);
        Ok(path)
    }

    /// Returns the processes of this world that still live after the grace.
    pub fn survivors(&self) -> Vec<survivors::Survivor> {
        survivors::survivors(&self.marker, &self.root)
    }

    /// Kills every process of this world: for tests that leave some behind on purpose.
    pub fn kill_all(&self) {
        survivors::kill_all(&self.marker, &self.root);
    }

    /// Returns all variables that programs see here. Nothing comes from the machine but the matrix of git's formats.
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut env = BTreeMap::new();
        let mut set =
            |name: &str, value: &OsStr| env.insert(OsString::from(name), value.to_owned());
        let binaries = binaries();
        let bin = self.root.join("bin");
        let path = std::env::join_paths([&*binaries.product, &*bin, &*binaries.props, toolbox()])
            .expect("no directory has a colon in its name");
        set("PATH", &path);
        set(
            "GIT_CONFIG_SYSTEM",
            self.root.join("no-such-file").as_os_str(),
        );
        set("GIT_CONFIG_GLOBAL", self.global_config().as_os_str());
        set("GIT_CEILING_DIRECTORIES", self.root.as_os_str());
        for (name, dir) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
            ("TMPDIR", "tmp"),
            ("GIT_TEMPLATE_DIR", "template"),
        ] {
            set(name, self.root.join(dir).as_os_str());
        }
        let date = format!("{} +0000", self.now());
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "A U Thor"),
            ("GIT_AUTHOR_EMAIL", "author@example.com"),
            ("GIT_AUTHOR_DATE", date.as_str()),
            ("GIT_COMMITTER_NAME", "C O Mitter"),
            ("GIT_COMMITTER_EMAIL", "committer@example.com"),
            ("GIT_COMMITTER_DATE", date.as_str()),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ALLOW_PROTOCOL", "file"),
            ("GIT_EDITOR", ":"),
            ("GIT_MERGE_AUTOEDIT", "no"),
            ("PAGER", "cat"),
            ("SHELL", "/bin/sh"),
            ("USER", "tester"),
            ("LC_ALL", "C"),
            ("LANG", "C"),
            ("TZ", "UTC"),
            ("COLUMNS", "80"),
            ("TERM", "dumb"),
            ("GIT_TEST_FSYNC", "0"),
            (MARKER, self.marker.as_str()),
        ] {
            set(name, OsStr::new(value));
        }
        // Most tests watch what agents do from outside of their room. Those of level `cell` ask for it.
        let guard = std::env::var_os("GIT_AGENT_TEST_GUARD");
        set(
            "GIT_AGENT_TEST_GUARD",
            &guard.unwrap_or_else(|| "refs".into()),
        );
        set("GIT_CONFIG_COUNT", OsStr::new(&CONFIG.len().to_string()));
        for (index, (key, value)) in CONFIG.into_iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{index}"), OsStr::new(key));
            set(&format!("GIT_CONFIG_VALUE_{index}"), OsStr::new(value));
        }
        for name in ["GIT_DEFAULT_HASH", "GIT_DEFAULT_REF_FORMAT"] {
            if let Some(value) = std::env::var_os(name) {
                set(name, &value);
            }
        }
        env
    }
}

/// Writes an executable file.
pub fn write_program(path: &Path, script: &str) {
    // A file that is open for writing can't be started, and another thread of this process that starts a program right
    // now would inherit the open file for a moment. So somebody else writes it.
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat >"$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    writer
        .stdin
        .take()
        .expect("standard input is a pipe")
        .write_all(script.as_bytes())
        .expect("the shell reads");
    assert!(
        writer.wait().expect("the shell ends").success(),
        "cannot write {}",
        path.display()
    );
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let left = survivors::survivors_after(self.grace, &self.marker, &self.root);
        if !left.is_empty() {
            self.kill_all();
        }
        if let Ok(mut disks) = self.disks.lock() {
            disks.clear();
        }
        if let Some(dir) = self.dir.take() {
            if std::env::var_os(KEEP).is_some() {
                let kept = dir.keep();
                // The test's own captured output is the place to say where to look.
                let _ = writeln!(std::io::stderr(), "sandbox kept: {}", kept.display());
            } else if dir.close().is_err() {
                make_removable(&self.root);
                let _ = fs::remove_dir_all(&self.root);
            }
        }
        if !left.is_empty() && !std::thread::panicking() {
            panic!("processes outlived the test: {left:#?}");
        }
    }
}

/// Gives back the write permission that a test may have taken from a directory.
fn make_removable(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            if entry
                .metadata()
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o700 != 0o700)
            {
                let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            }
            make_removable(&path);
        }
    }
}
