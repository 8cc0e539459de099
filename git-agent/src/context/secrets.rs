//! Collects the secrets that an agent of this repository may have received and that must never be written.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::context::inherited_variables::{is_inherited, matches_any};
use crate::error::{Context as _, Result};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::redact::{KnownSecrets, Redactor};

/// Variables whose values are public.
const PUBLIC: [&str; 12] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TZ",
    "EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// Larger objects are streamed.
const LARGE: u64 = 8 << 20;
/// The longest part of a `.env` file that is read.
const ENV_FILE_LIMIT: u64 = 256 << 10;

/// Returns the secrets of this process's environment, of the settings that hand variables to agents, and of the `.env`
/// files that were copied into worktrees.
pub fn known(context: &Context<'_>) -> KnownSecrets {
    let mut known = KnownSecrets::new();
    known.add_environment(context.env.vars_os());
    add_settings(context, &mut known);
    for file in env_files(context.repo) {
        known.add_env_file(&file);
    }
    known
}

/// Adds the values that `agent.env`, `agent.<agent>.env` and `agent-mcp.<server>.env` pass to agents.
fn add_settings(context: &Context<'_>, known: &mut KnownSecrets) {
    let config = &context.config;
    let mut keys = vec!["agent.env".to_owned()];
    for section in ["agent", "agent-mcp"] {
        let names = config.names(section);
        keys.extend(names.iter().map(|name| format!("{section}.{name}.env")));
    }
    let public: BTreeSet<&str> = PUBLIC
        .iter()
        .filter_map(|name| context.env.var(name))
        .collect();
    let mut handed: Vec<String> = Vec::new();
    for key in keys {
        // Values in the team's file are public, because they are committed. Only the names count there.
        for value in context.repo.config_strings(&key) {
            if let Some((name, value)) = value.split_once('=')
                && !public.contains(value)
                && !is_path(value)
            {
                known.add_handed(name.as_bytes(), value.as_bytes());
            }
        }
        handed.extend(config.strings(&key));
    }
    // A lone `*` names no variable.
    handed.retain(|name| !name.contains('=') && name != "*");
    for (name, value) in context.env.vars_os() {
        let text = value.to_string_lossy();
        if matches_any(name, handed.iter().map(String::as_str))
            && !is_inherited(name)
            && !public.contains(text.as_ref())
            && !is_path(&text)
        {
            known.add_handed(name.as_encoded_bytes(), value.as_encoded_bytes());
        }
    }
}

/// Returns whether a value is a list of existing paths, as in `PATH`.
fn is_path(value: &str) -> bool {
    let mut places = value.split(':').filter(|place| !place.is_empty());
    value.starts_with('/')
        && places.all(|place| place.starts_with('/') && Path::new(place).exists())
}

fn list_file(repo: &Repo) -> PathBuf {
    repo.common_dir().join("agents").join("env-files")
}

/// Records which `.env` files were copied into worktrees, so that no search is needed later.
pub fn remember(repo: &Repo, paths: &[impl AsRef<[u8]>]) -> Result<()> {
    let file = list_file(repo);
    let cannot = || format!("cannot write '{}'", file.display());
    let before = fs::read(&file).unwrap_or_default();
    let noted: BTreeSet<&[u8]> = before.split(|byte| *byte == b'\n').collect();
    let mut more = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        if !noted.contains(path) && !path.contains(&b'\n') {
            more.extend_from_slice(path);
            more.push(b'\n');
        }
    }
    if more.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(&file)).context(cannot)?;
    let opened = OpenOptions::new().append(true).create(true).open(&file);
    opened
        .and_then(|mut list| list.write_all(&more))
        .context(cannot)
}

fn objects_file(context: &Context<'_>) -> PathBuf {
    context.store.dir().join("secret-objects")
}

/// The tree and the commit of a session at some time.
pub type Moment = (ObjectId, Option<ObjectId>);

/// Records the blobs, trees and commits between two moments that contain a secret known only from this process's
/// environment. A later push from another terminal could not detect them. The secret itself is not written.
pub fn remember_objects(context: &Context<'_>, before: Moment, now: Moment) -> Result<()> {
    if before == now {
        return Ok(());
    }
    let mut known = KnownSecrets::new();
    known.add_environment(context.env.vars_os());
    add_settings(context, &mut known);
    let known = known.unrecognisable();
    if known.is_empty() {
        return Ok(());
    }
    let redactor = Redactor::new(known);
    let ids = |(tree, commit): Moment| std::iter::once(tree).chain(commit).collect::<Vec<_>>();
    let mut found = String::new();
    for (id, _) in (context.repo).unpublished_objects(&ids(now), &ids(before))? {
        let header = context.repo.object_header(id)?;
        let Some((kind, size)) = header.filter(|(kind, _)| *kind != ObjectKind::Tag) else {
            continue;
        };
        let mut holds = false;
        let mut look = |part: &[u8]| {
            holds |= redactor.known_in_code(part).is_some();
            !holds
        };
        if kind == ObjectKind::Blob && size > LARGE {
            context.repo.stream_blob(id, &mut look)?;
        } else {
            look(&context.repo.read_object(id, kind, size)?);
        }
        if holds {
            found += &format!("{id}\n");
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let file = objects_file(context);
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(&file);
    opened
        .and_then(|mut list| {
            list.write_all(found.as_bytes())?;
            list.sync_all()
        })
        .context(|| format!("cannot write '{}'", file.display()))
}

/// Returns the recorded objects.
pub fn remembered_objects(context: &Context<'_>) -> BTreeSet<ObjectId> {
    let list = fs::read_to_string(objects_file(context)).unwrap_or_default();
    let ids = list.lines().filter_map(|id| context.repo.parse_id(id).ok());
    ids.collect()
}

/// Returns the contents of the recorded files in the main worktree and in all other worktrees, whose copies may be
/// older.
fn env_files(repo: &Repo) -> Vec<Vec<u8>> {
    let Ok(list) = fs::read(list_file(repo)) else {
        return Vec::new();
    };
    let mut tops: Vec<PathBuf> = repo.main_work_tree().into_iter().collect();
    let linked = fs::read_dir(repo.common_dir().join("worktrees"));
    for admin in linked.into_iter().flatten().flatten() {
        if let Ok(link) = fs::read(admin.path().join("gitdir")) {
            // git may store the path relative to this directory.
            let link = admin.path().join(OsStr::from_bytes(link.trim_ascii_end()));
            tops.extend(link.parent().map(Path::to_owned));
        }
    }
    let paths = list
        .split(|byte| *byte == b'\n')
        .filter(|path| !path.is_empty());
    let mut contents = BTreeSet::new();
    for path in paths {
        for top in &tops {
            contents.extend(read(&top.join(OsStr::from_bytes(path))));
        }
    }
    contents.into_iter().collect()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    // Reading a pipe here would block forever.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut contents = Vec::new();
    let file = File::open(path).ok()?;
    file.take(ENV_FILE_LIMIT).read_to_end(&mut contents).ok()?;
    Some(contents)
}
