//! Artifacts: files that a session leaves for others, in its log and addressed by their content.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::git::sha256;
use crate::model::plan::is_artifact_name;
use crate::model::session::settings::KeptArtifact;
use crate::model::session::{Session, SessionId};
use crate::process::lock;
use crate::session::caller;
use crate::session::list;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::{dependencies, launch};
use crate::store::list::{Listed, Scope, find_in};
use crate::store::log::writer::SessionWriter;

/// The largest artifact, in bytes.
pub const LARGEST: u64 = 5 << 20;
/// The most artifacts of one session.
const MOST: usize = 32;
/// The most bytes of all artifacts of one session.
const MOST_BYTES: u64 = 50 << 20;
/// How long a supervisor may take to record an artifact.
const PATIENCE: Duration = Duration::from_secs(20);
/// The variable that names the directory with the artifacts of other sessions.
pub const VARIABLE: &str = "GIT_AGENT_ARTIFACTS";

/// An artifact of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// The name of the session.
    pub session: String,
    /// The part of a plan that the session carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The artifact's name.
    pub name: String,
    /// The SHA-256 of the content.
    pub sha256: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The time at which it was put, in milliseconds since 1970.
    pub put: u64,
}

/// An artifact that was put.
#[derive(Debug, Clone, Serialize)]
pub struct Put {
    /// The artifact.
    #[serde(flatten)]
    pub artifact: Artifact,
    /// Whether a secret in it was redacted.
    pub redacted: bool,
}

/// Returns the artifacts that a session must leave and has not left.
pub fn missing(session: &Session) -> Vec<String> {
    let left: Vec<&str> = session.settings.artifacts().map(|(name, _)| name).collect();
    let wanted = session.settings.produces.clone().unwrap_or_default();
    let is_missing = |name: &String| !left.contains(&name.as_str());
    wanted.into_iter().filter(is_missing).collect()
}

/// Leaves an artifact for a session: the one that the command runs in, else the given one.
pub fn put(context: &Context<'_>, session: &Session, name: &str, content: &[u8]) -> Result<Put> {
    if let Some(own) = caller::own(context)?
        && own.sid != session.sid
    {
        let message = format!("this runs in session '{}'", own.name);
        return Err(Error::fatal(message).hint("an agent puts artifacts for its own session only"));
    }
    if !is_artifact_name(name) {
        return Err(
            Error::usage(format!("'{name}' is not the name of an artifact")).hint(
                "use letters, digits and '.', '_', '-', '+', '@'; begin with a letter or digit",
            ),
        );
    }
    if content.len() as u64 > LARGEST {
        return Err(Error::fatal(format!(
            "'{name}' has {} bytes; an artifact may have {LARGEST}",
            content.len()
        )));
    }
    let before: Vec<(String, KeptArtifact)> = session
        .settings
        .artifacts()
        .map(|(name, kept)| (name.to_owned(), kept))
        .collect();
    let others = before.iter().filter(|(known, _)| known != name);
    let (count, bytes) = others.fold((0, 0), |(count, bytes), (_, kept)| {
        (count + 1, bytes + kept.bytes)
    });
    if count >= MOST || bytes + content.len() as u64 > MOST_BYTES {
        return Err(Error::fatal(format!(
            "session '{}' may keep {MOST} artifacts of {} MiB together",
            session.name,
            MOST_BYTES >> 20
        )));
    }
    let redacted = context.redactor().bytes(content);
    let was_redacted = redacted.as_bytes() != content;
    let content = redacted.as_bytes();
    let artifact = Artifact {
        session: session.name.clone(),
        part: session.settings.part.clone(),
        name: name.to_owned(),
        sha256: sha256(content),
        bytes: content.len() as u64,
        put: context.env.now().0,
    };
    hand_over(context, session.sid, name, content)?;
    Ok(Put {
        artifact,
        redacted: was_redacted,
    })
}

/// Has an artifact recorded: by the session's supervisor, or here if none runs.
fn hand_over(context: &Context<'_>, sid: SessionId, name: &str, content: &[u8]) -> Result<()> {
    let inbox = Inbox::open(&context.store, sid)?;
    if lock::is_held(&launch::run_lock(&context.store, sid))? {
        let digest = sha256(content);
        let path = inbox.dir().join(format!("{digest}.artifact"));
        crate::file::replace(&path, content, crate::file::Durability::Synced)?;
        let message = Message::Artifact {
            name: name.to_owned(),
            digest,
        };
        let id = inbox.put(context.env, &message)?;
        let until = Instant::now() + PATIENCE;
        while inbox.holds(id) && Instant::now() < until {
            if !lock::is_held(&launch::run_lock(&context.store, sid))? {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if !inbox.holds(id) {
            return Ok(());
        }
        if lock::is_held(&launch::run_lock(&context.store, sid))? {
            // It is on disk, and the supervisor takes it at the end of the turn.
            return Ok(());
        }
    }
    let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
    record_waiting(&mut writer, &inbox)?;
    record(&mut writer, name, content)?;
    writer.close()?;
    Ok(())
}

/// Records the artifacts that wait in an inbox.
pub(crate) fn record_waiting(writer: &mut SessionWriter<'_>, inbox: &Inbox) -> Result<()> {
    for (id, message) in inbox.list()? {
        let Message::Artifact { name, digest } = message else {
            continue;
        };
        let path = inbox.dir().join(format!("{digest}.artifact"));
        if let Ok(content) = fs::read(&path) {
            record(writer, &name, &content)?;
        }
        inbox.remove(id)?;
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn record(writer: &mut SessionWriter<'_>, name: &str, content: &[u8]) -> Result<()> {
    let content = writer.redactor().bytes(content);
    let attachment = writer.keep_attachment(&content)?;
    let kept = KeptArtifact {
        attachment,
        bytes: content.as_bytes().len() as u64,
        put: writer.store().env.now(),
    };
    writer.append(kept.recorded_as(name))?;
    writer.flush()
}

/// Lists artifacts: of one session, else of all.
pub fn list(context: &Context<'_>, wanted: Option<&str>) -> Result<Vec<Artifact>> {
    let listing = list::list(context, Scope::All)?;
    let sessions: Vec<&Listed> = match wanted {
        Some(wanted) => vec![find_in(&listing, wanted)?],
        None => listing.sessions.iter().collect(),
    };
    let mut found = Vec::new();
    for listed in sessions {
        found.extend(of_session(&current(context, listed)?));
    }
    Ok(found)
}

/// Returns a session with what its supervisor has not brought to git yet.
fn current(context: &Context<'_>, listed: &Listed) -> Result<Session> {
    let fresh = if listed.is_mine() {
        context.store.session(listed.session.sid)?
    } else {
        None
    };
    Ok(fresh.unwrap_or_else(|| listed.session.clone()))
}

fn of_session(session: &Session) -> Vec<Artifact> {
    let all = session.settings.artifacts();
    all.map(|(name, kept)| Artifact {
        session: session.name.clone(),
        part: session.settings.part.clone(),
        name: name.to_owned(),
        sha256: kept.attachment,
        bytes: kept.bytes,
        put: kept.put.0,
    })
    .collect()
}

/// Returns an artifact and its content. `wanted` is `NAME` or `SESSION/NAME`; a name that several sessions have needs
/// the session.
pub fn get(context: &Context<'_>, wanted: &str) -> Result<(Artifact, Vec<u8>)> {
    let listing = list::list(context, Scope::All)?;
    let (of, name) = match wanted.rsplit_once('/') {
        Some((of, name)) => (Some(of), name),
        None => (None, wanted),
    };
    let mut found: Vec<(&Listed, Artifact)> = Vec::new();
    for listed in &listing.sessions {
        let session = current(context, listed)?;
        let is_meant = of.is_none_or(|of| {
            session.name == of
                || session.settings.part.as_deref() == Some(of)
                || session.sid.as_str().ends_with(of)
        });
        let all = of_session(&session).into_iter();
        if is_meant {
            found.extend(all.filter(|it| it.name == name).map(|it| (listed, it)));
        }
    }
    // Among parts of the same name the newest plan is meant; without a session there must be only one.
    let same = |(_, one): &(&Listed, Artifact)| one.sha256.clone();
    let differ = found
        .iter()
        .map(same)
        .collect::<std::collections::BTreeSet<_>>();
    let Some((listed, artifact)) = found.pop() else {
        return Err(Error::fatal(format!("no artifact '{wanted}'")).hint("git agent artifact list"));
    };
    if of.is_none() && differ.len() > 1 {
        let full = shell_word(format!("{}/{name}", artifact.session));
        return Err(
            Error::fatal(format!("several sessions have an artifact '{name}'"))
                .hint(format!("git agent artifact get {full}")),
        );
    }
    let content = context.store.attached(listed, &artifact.sha256)?;
    let content = content.ok_or_else(|| {
        Error::fatal(format!("the content of artifact '{wanted}' is not here"))
            .hint("git agent fetch")
    })?;
    if sha256(&content) != artifact.sha256 {
        return Err(Error::fatal(format!("artifact '{wanted}' is damaged")));
    }
    Ok((artifact, content))
}

/// Makes the directory with the artifacts of the sessions that this one depends on, or shares a group with. Returns it
/// with the versions that it holds.
pub(crate) fn provide(
    context: &Context<'_>,
    session: &Session,
) -> Result<(PathBuf, Vec<(String, String)>)> {
    let root = context
        .store
        .require_dir(&format!("scratch/{}", session.sid))?;
    let directory = root.join("artifacts");
    remove(&directory)?;
    let make = |path: &Path| {
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .context(|| format!("cannot create '{}'", path.display()))
    };
    make(&directory)?;
    let mut versions = Vec::new();
    if session.group.is_none() && dependencies::waits_for(session).is_empty() {
        return Ok((directory, versions));
    }
    let needed = dependencies::waits_for(session);
    for listed in context.store.list(Scope::Mine)?.sessions {
        let other = current(context, &listed)?;
        let grouped = other.group.is_some() && other.group == session.group;
        if other.sid == session.sid || !(grouped || needed.contains(&other.sid)) {
            continue;
        }
        let name = other.settings.part.as_ref().unwrap_or(&other.name);
        for artifact in of_session(&other) {
            let Some(content) = context.store.attached(&listed, &artifact.sha256)? else {
                continue;
            };
            let folder = directory.join(name);
            make(&folder)?;
            let path = folder.join(&artifact.name);
            fs::write(&path, content)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o400)))
                .context(|| format!("cannot write '{}'", path.display()))?;
            versions.push((format!("{name}/{}", artifact.name), artifact.sha256));
        }
        let folder = directory.join(name);
        if folder.is_dir() {
            let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o500));
        }
    }
    let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o500));
    Ok((directory, versions))
}

/// Removes a directory of an earlier turn, whose folders are read-only.
fn remove(directory: &Path) -> Result<()> {
    let writable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    if fs::symlink_metadata(directory).is_err() {
        return Ok(());
    }
    let _ = writable(directory);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = writable(&entry.path());
        }
    }
    fs::remove_dir_all(directory).context(|| format!("cannot remove '{}'", directory.display()))
}
