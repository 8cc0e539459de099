//! The directory of the demo, with its own home and configuration, and the commands that run in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::demo::{Show, Shown};
use crate::env::Env;
use crate::error::{Context, Error, Kind, Result};
use crate::process::detach::own_program;

/// The committer, and fixed values for defaults that start processes or differ between versions.
const CONFIG: &str = "[user]\n\tname = Demo\n\temail = demo@example.com\n[gc]\n\tauto = 0\n\
                      [maintenance]\n\tauto = false\n[merge]\n\tconflictStyle = merge\n";
/// Variables of the user that the demo inherits; a `*` at the end matches any rest.
const INHERITED: [&str; 9] = [
    "TERM",
    "LANG",
    "LC_*",
    "TZ",
    "COLUMNS",
    "GIT_EXEC_PATH",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_AGENT_TEST_*",
];

/// The directory of the demo, and the function that shows its output.
pub(super) struct Stage<'s, 'f> {
    root: PathBuf,
    keep: bool,
    variables: Vec<(OsString, OsString)>,
    show: &'s mut Show<'f>,
    /// The signal that interrupted the demo, or 0.
    signal: Arc<AtomicUsize>,
    listeners: Vec<signal_hook::SigId>,
    struck: bool,
}

impl<'s, 'f> Stage<'s, 'f> {
    /// Makes the directory.
    pub(super) fn set(env: &Env, keep: bool, show: &'s mut Show<'f>) -> Result<Self> {
        let root = make_directory(env)?;
        let mut stage = Stage {
            variables: Vec::new(),
            root,
            keep,
            show,
            signal: Arc::default(),
            listeners: Vec::new(),
            struck: false,
        };
        stage.variables = variables(env, &stage.root)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let flag = Arc::clone(&stage.signal);
            let number = usize::try_from(signal).unwrap_or_default();
            let id = signal_hook::flag::register_usize(signal, flag, number)
                .context(|| "cannot listen for signals".into())?;
            stage.listeners.push(id);
        }
        for name in ["home", "tmp", "bin", "work/todo"] {
            let path = stage.root.join(name);
            fs::create_dir_all(&path).context(|| format!("cannot make '{}'", path.display()))?;
        }
        stage.write("home/.gitconfig", CONFIG, false)?;
        Ok(stage)
    }

    /// Returns the top directory of the demo.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the repository that commands run in.
    pub(super) fn repo(&self) -> PathBuf {
        self.root.join("work/todo")
    }

    pub(super) fn write(&self, name: &str, text: &str, executable: bool) -> Result<()> {
        let path = self.root.join(name);
        let cannot = || format!("cannot write '{}'", path.display());
        fs::write(&path, text).context(cannot)?;
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context(cannot)
    }

    /// Shows text of the narrator.
    pub(super) fn say(&mut self, words: &str) -> Result<()> {
        (self.show)(Shown::Words(words))
    }

    /// Shows a command, runs it, and shows and returns its output. Fails if the command fails.
    pub(super) fn run(&mut self, command: &str) -> Result<String> {
        (self.show)(Shown::Command(command))?;
        let output = self.shell(command)?;
        // Print stdout first, then stderr.
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed += &String::from_utf8_lossy(&output.stderr);
        (self.show)(Shown::Output(&printed))?;
        let signal = self.signal.load(Ordering::Relaxed);
        if let Some(signal) = i32::try_from(signal).ok().filter(|signal| *signal != 0) {
            return Err(Error::new(Kind::Signal(signal), "the demo was interrupted"));
        }
        if !output.status.success() {
            return Err(Error::fatal(format!("'{command}' failed in the demo")));
        }
        Ok(printed)
    }

    /// Runs a command and waits for it.
    fn shell(&self, command: &str) -> Result<Output> {
        Command::new("/bin/sh")
            .arg("-c")
            .arg(command)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.repo())
            .stdin(Stdio::null())
            .output()
            .context(|| "cannot start '/bin/sh'".into())
    }

    /// Removes everything, unless it is to be kept.
    pub(super) fn strike(mut self) -> Result<()> {
        self.struck = true;
        if self.keep {
            return Ok(());
        }
        fs::remove_dir_all(&self.root)
            .context(|| format!("cannot remove '{}'", self.root.display()))
    }
}

impl Drop for Stage<'_, '_> {
    fn drop(&mut self) {
        if !self.struck {
            // The demo ended early, so agents may still be working.
            let _ = self.shell("git agent stop --all");
            if !self.keep {
                let _ = fs::remove_dir_all(&self.root);
            }
        }
        for listener in self.listeners.drain(..) {
            signal_hook::low_level::unregister(listener);
        }
    }
}

/// Makes a directory that only this user can enter.
fn make_directory(env: &Env) -> Result<PathBuf> {
    let parent = env.var_os("TMPDIR").filter(|dir| !dir.is_empty());
    let parent = env.absolute(parent.unwrap_or(OsStr::new("/tmp")));
    let random: String = env
        .random::<6>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = parent.join(format!("git-agent-demo-{random}"));
    let cannot = || format!("cannot make '{}'", path.display());
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .context(cannot)?;
    // Resolve symbolic links, because programs that ask the kernel for their directory get the resolved path.
    path.canonicalize().context(cannot)
}

/// Returns the environment of the commands, without the user's home and configuration.
fn variables(env: &Env, root: &Path) -> Result<Vec<(OsString, OsString)>> {
    let inherited = |name: &OsStr| {
        INHERITED.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.as_encoded_bytes().starts_with(start.as_bytes()),
            None => name == *known,
        })
    };
    let mut variables: Vec<(OsString, OsString)> = env
        .vars_os()
        .filter(|(name, _)| inherited(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    // Prefer the programs next to this one over installed ones.
    let mut path = vec![root.join("bin")];
    path.extend(own_program().parent().map(Path::to_owned));
    path.extend(std::env::split_paths(
        env.var_os("PATH").unwrap_or_default(),
    ));
    let path = std::env::join_paths(path)
        .context(|| "the programs are in a directory with ':' in its name".into())?;
    variables.push(("PATH".into(), path));
    let home = root.join("home");
    for (name, value) in [
        ("HOME", home.clone()),
        ("XDG_CONFIG_HOME", home.join(".config")),
        ("XDG_CACHE_HOME", home.join(".cache")),
        ("XDG_DATA_HOME", home.join(".local/share")),
        ("XDG_STATE_HOME", home.join(".local/state")),
        ("GIT_CONFIG_GLOBAL", home.join(".gitconfig")),
        ("GIT_CEILING_DIRECTORIES", root.to_owned()),
        ("TMPDIR", root.join("tmp")),
    ] {
        variables.push((name.into(), value.into()));
    }
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "true"),
        ("GIT_PAGER", "cat"),
        ("USER", "demo"),
        ("SHELL", "/bin/sh"),
    ] {
        variables.push((name.into(), value.into()));
    }
    Ok(variables)
}
