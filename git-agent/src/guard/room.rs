//! The room of a session: the paths that its agent may write and read, from tables, settings and the session itself.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::agent::catalog::places::{self, CACHES, Homes, PLACES, SECRETS};
use crate::agent::catalog::spec::AgentSpec;
use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::file::{self, Durability};
use crate::git::snapshot::capture::Checkout;
use crate::model::session::SessionId;
use crate::process::sandbox::{Room, machine};
use crate::store::refname;

/// The variables that lead programs to the private directory for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Parts of the repository's directory that every git needs to read.
const OPEN: [&str; 5] = ["objects", "hooks", "lfs", "modules", "info"];
/// Files of the machine that hold secrets of others, for sessions of root.
const SYSTEM: [&str; 8] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/run/secrets",
    "/run/user",
    "/var/lib/docker",
];
/// The most entries of a directory that are searched for other projects.
const MOST_PROJECTS: usize = 2000;

/// What a room is made for.
#[derive(Debug)]
pub struct Use<'a> {
    /// The session whose code runs in it.
    pub sid: SessionId,
    /// The worktree.
    pub at: &'a Checkout,
    /// The agent; nothing for tests.
    pub spec: Option<&'a AgentSpec>,
    /// The cell; without one the worktree may not be written.
    pub cell: Option<PathBuf>,
    /// Sockets that stay in reach.
    pub sockets: Vec<PathBuf>,
    /// Whether it has no network.
    pub offline: bool,
    /// The private directory for temporary files.
    pub temporary: PathBuf,
    /// Where the room is described.
    pub file: PathBuf,
}

/// Returns where the room of a session is described.
pub fn file_of(context: &Context<'_>, sid: SessionId) -> Result<PathBuf> {
    let dir = context.store.require_dir(&format!("guard/{sid}"))?;
    Ok(dir.join("room.json"))
}

/// Makes a room, describes it in its file, and returns it. Sets the variables that lead to it.
pub fn prepare(
    context: &Context<'_>,
    purpose: &Use<'_>,
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Room> {
    for name in TEMPORARY {
        environment.insert(name.into(), purpose.temporary.clone().into());
    }
    let room = arrange(context, purpose, environment)?;
    let bytes = serde_json::to_vec(&room).context(|| "cannot describe the room".into())?;
    file::replace(&purpose.file, bytes, Durability::Volatile)?;
    Ok(room)
}

fn arrange(
    context: &Context<'_>,
    purpose: &Use<'_>,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Room> {
    let var = |name: &str| environment.get(OsStr::new(name)).map(PathBuf::from);
    let homes = Homes::find(var);
    let common = context.repo.common_dir();
    let store = context.store.dir();
    let sid = purpose.sid;
    let mut room = Room {
        namespaces: machine::abilities().no_namespaces.is_none(),
        sockets: purpose.sockets.clone(),
        offline: purpose.offline,
        temporary: Some(purpose.temporary.clone()),
        ..Room::default()
    };
    let scratch = store.join(format!("scratch/{sid}"));
    room.needed = vec![common.to_owned(), purpose.at.top.clone()];
    room.needed.extend(context.repo.main_work_tree());
    if let Some(own) = &purpose.cell {
        room.writable.extend([purpose.at.top.clone(), own.clone()]);
        room.fixed.push(purpose.at.top.join(".git"));
    }
    room.closed = SYSTEM.iter().map(PathBuf::from).collect();
    if purpose.cell.is_some() {
        room.closed.push(common.to_owned());
        room.readable.extend(OPEN.map(|name| common.join(name)));
    } else {
        // Without a cell, git reads the repository itself.
        room.closed.push(store.to_owned());
        room.closed
            .extend(refname::ROOTS.map(|name| common.join(name)));
    }
    room.readable.push(scratch);
    room.readable.push(store.join(format!("guard/{sid}/hooks")));
    if let Some(homes) = &homes {
        room.needed.push(homes.home.clone());
        add_homes(&mut room, homes, purpose.spec, environment)?;
    }
    add_projects(&mut room, context, homes.as_ref());
    let listed = |setting| -> Vec<PathBuf> {
        let named = context.config.list(setting).into_iter();
        named
            .map(|name| expand(&name, homes.as_ref(), &purpose.at.top))
            .collect()
    };
    room.writable.extend(listed(&settings::WRITABLE));
    room.readable.extend(listed(&settings::READABLE));
    room.closed.extend(listed(&settings::SECRET));
    Ok(room)
}

/// Adds the agent's own files, the caches of tools, and the files that no agent needs.
fn add_homes(
    room: &mut Room,
    homes: &Homes,
    spec: Option<&AgentSpec>,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<()> {
    let own = spec.and_then(|spec| places::of(&spec.name, spec.argv.first().map(Path::new)));
    for entry in own.iter().flat_map(|own| own.writable) {
        let path = homes.path(entry);
        make(&path, entry)?;
        room.writable.push(path);
    }
    let settings = own.iter().flat_map(|own| own.settings);
    room.fixed.extend(settings.map(|entry| homes.path(entry)));
    let path = environment.get(OsStr::new("PATH"));
    for (tool, entries) in CACHES {
        if which::which_in(tool, path, "/").is_err() {
            continue;
        }
        for entry in entries {
            let path = homes.path(entry);
            // A directory of a tool that was never used here is made if its parent is there.
            if path.exists()
                || path.parent().is_some_and(Path::is_dir) && make(&path, entry).is_ok()
            {
                room.writable.push(path);
            }
        }
    }
    room.closed
        .extend(SECRETS.iter().map(|entry| homes.path(entry)));
    for others in PLACES.iter().filter(|others| Some(*others) != own) {
        room.closed
            .extend(others.credentials.iter().map(|entry| homes.path(entry)));
    }
    Ok(())
}

/// Closes the `.env` files of other projects: those beside this one, and those in the user's home.
fn add_projects(room: &mut Room, context: &Context<'_>, homes: Option<&Homes>) {
    let main = context.repo.main_work_tree();
    let beside = main.as_deref().and_then(Path::parent).map(Path::to_owned);
    let own = |path: &Path| room.needed.iter().any(|needed| needed.starts_with(path));
    let mut found = Vec::new();
    for directory in beside
        .into_iter()
        .chain(homes.map(|homes| homes.home.clone()))
    {
        let projects = fs::read_dir(&directory).into_iter().flatten().flatten();
        for project in projects.take(MOST_PROJECTS).map(|entry| entry.path()) {
            if own(&project) {
                continue;
            }
            for name in [".env", ".env.local", ".env.production", ".envrc"] {
                let file = project.join(name);
                if file.is_file() {
                    found.push(file);
                }
            }
        }
    }
    room.closed.extend(found);
}

/// Returns the path of a setting: `~/` is the home, and a relative one begins at the worktree.
fn expand(text: &str, homes: Option<&Homes>, top: &Path) -> PathBuf {
    match (text.strip_prefix("~/"), homes) {
        (Some(rest), Some(homes)) => homes.home.join(rest),
        _ => top.join(text),
    }
}

/// Makes a file or a directory of the user's, if it is absent: only paths that exist can be allowed.
fn make(path: &Path, entry: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let cannot = || format!("cannot create '{}'", path.display());
    let is_file = entry.ends_with(".json")
        || entry.contains("/.package-cache")
        || entry.ends_with(".global-cache");
    let directory = if is_file {
        path.parent().unwrap_or(path)
    } else {
        path
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .context(cannot)?;
    if entry.ends_with(".json") {
        file::create_once(path, b"{}\n")?;
    } else if is_file && !entry.ends_with(".global-cache") {
        file::create_once(path, b"")?;
    }
    Ok(())
}

/// Returns the session's private directory for temporary files.
pub fn temporary(context: &Context<'_>, sid: SessionId) -> Result<PathBuf> {
    let note = context
        .store
        .require_dir(&format!("guard/{sid}"))?
        .join("temporary");
    if let Ok(known) = fs::read_to_string(&note) {
        let known = PathBuf::from(known);
        if is_private(&known) {
            return Ok(known);
        }
    }
    let path = make_temporary(context)?;
    let text = path
        .to_str()
        .ok_or_else(|| Error::fatal(format!("'{}' is not UTF-8", path.display())))?;
    file::replace(&note, text, Durability::Volatile)?;
    Ok(path)
}

/// Makes a private directory for temporary files. The name is random, and the directory this user's alone: others can
/// write in its parent.
pub(super) fn make_temporary(context: &Context<'_>) -> Result<PathBuf> {
    let base = context.env.var("TMPDIR").unwrap_or("/tmp");
    let nonce: String = context
        .env
        .random::<6>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = Path::new(base).join(format!("git-agent-{nonce}"));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .context(|| format!("cannot create '{}'", path.display()))?;
    Ok(path)
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::getuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == own && meta.mode() & 0o077 == 0)
}

/// Removes the private directory of a session that is not at work.
pub fn let_go(context: &Context<'_>, sid: SessionId) {
    let note = context.store.dir().join(format!("guard/{sid}/temporary"));
    if let Ok(known) = fs::read_to_string(&note)
        && is_private(Path::new(&known))
    {
        let _ = fs::remove_dir_all(&known);
        let _ = fs::remove_file(&note);
    }
}
