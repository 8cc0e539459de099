//! What an agent of this repository may have been given and must not be written: the one place where it is gathered.

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

/// Variables whose values everybody may read.
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

/// Larger objects are read bit by bit.
const LARGE: u64 = 8 << 20;
/// More of a `.env` file is not read.
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

/// Takes what `agent.env`, `agent.<agent>.env` and `agent-mcp.<server>.env` hand over.
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
        // A value in the team's file stands in the code for everybody to read; only the names count there.
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
    // `*` alone names nothing.
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

/// Returns whether a value names places that are there, one or several as in `PATH`.
fn is_path(value: &str) -> bool {
    let mut places = value.split(':').filter(|place| !place.is_empty());
    value.starts_with('/')
        && places.all(|place| place.starts_with('/') && Path::new(place).exists())
}

fn list_file(repo: &Repo) -> PathBuf {
    repo.common_dir().join("agents").join("env-files")
}

/// Notes which `.env` files worktrees were given, so that they are found again without a search.
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

/// Files and a commit, as they were at some time.
pub type Moment = (ObjectId, Option<ObjectId>);

/// Notes which files and commits between two moments hold a secret that only this process's environment tells: when they
/// are pushed, from another terminal, nobody could tell any more. The secret itself is written nowhere.
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
        match kind == ObjectKind::Blob && size > LARGE {
            true => context.repo.stream_blob(id, &mut look)?,
            false => drop(look(&context.repo.read_object(id, kind, size)?)),
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

/// Returns the objects that were noted.
pub fn remembered_objects(context: &Context<'_>) -> BTreeSet<ObjectId> {
    let list = fs::read_to_string(objects_file(context)).unwrap_or_default();
    let ids = list.lines().filter_map(|id| context.repo.parse_id(id).ok());
    ids.collect()
}

/// Returns what the noted files hold, in the main worktree and in the copies, which may be older.
fn env_files(repo: &Repo) -> Vec<Vec<u8>> {
    let Ok(list) = fs::read(list_file(repo)) else {
        return Vec::new();
    };
    let mut tops: Vec<PathBuf> = repo.main_work_tree().into_iter().collect();
    let linked = fs::read_dir(repo.common_dir().join("worktrees"));
    for admin in linked.into_iter().flatten().flatten() {
        if let Ok(link) = fs::read(admin.path().join("gitdir")) {
            // The path may be relative to the directory it stands in.
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
    // A pipe in its place would never end.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut contents = Vec::new();
    let file = File::open(path).ok()?;
    file.take(ENV_FILE_LIMIT).read_to_end(&mut contents).ok()?;
    Some(contents)
}
