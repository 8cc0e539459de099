//! The agent's own conversation file: kept with the session's log and restored where it is missing, so that another
//! machine or a teammate's fork can continue it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::conversation_files::{Native, gemini};
use crate::agent::stream::bounded_json;
use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::git::ObjectId;
use crate::model::event::Body;
use crate::model::session::settings::{KeptConversation, set};
use crate::model::session::{Session, SessionId};
use crate::redact::{Redacted, Redactor};
use crate::session::conversation::places;
use crate::store::limits;
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// Names the conversation that is in the agent's database here.
const HERE_FILE: &str = "conversation-here";
/// A larger file is not even read.
const LARGEST: u64 = 64 << 20;
/// How long a program may take to give a conversation out or take one in.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the output of an agent that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The agent's environment.
type Environment = BTreeMap<OsString, OsString>;

/// Keeps the agent's own file of the session's conversation, redacted, if it has one that can be carried.
pub fn keep(
    context: &Context<'_>,
    spec: &AgentSpec,
    environment: &Environment,
    writer: &mut SessionWriter<'_>,
) -> Result<()> {
    let session = writer.session();
    let wanted = context.config.require(&settings::KEEP_CONVERSATIONS)?;
    let (Some(native), Some(id)) = (spec.native, session.vendor_session.clone()) else {
        return Ok(());
    };
    let worktree = session.local.worktree.clone().unwrap_or_default();
    let worktree = Path::new(&worktree);
    native.tidy(environment, &id);
    if native == Native::Exported {
        let dir = format!("scratch/{}", session.sid);
        note_here(environment, &context.store.require_dir(&dir)?, &id);
    }
    let bytes = match (native, wanted.as_str()) {
        (_, "none") => return Ok(()),
        (Native::Exported, "all") => export(spec, environment, worktree, &id)?,
        (Native::Exported, _) => return Ok(()),
        _ => match native.find(environment, worktree, &id) {
            Some(path) => read(&path)?,
            None => None,
        },
    };
    let Some(bytes) = bytes else { return Ok(()) };
    let bytes = places::hide(&bytes, worktree);
    let kept = redact(&context.redactor(), native, &bytes);
    if kept.as_bytes().len() > limits::ATTACHMENT {
        // An earlier, shorter state of the same conversation is better than none: it stays.
        let text = format!(
            "the agent's conversation file is too large to keep ({} MiB)",
            kept.as_bytes().len() >> 20
        );
        writer.append(Body::Notice { text })?;
        return Ok(());
    }
    let digest = crate::git::sha256(kept.as_bytes());
    let before = session.settings.native.as_ref();
    if before.is_some_and(|before| before.attachment == digest && before.id == id) {
        return Ok(());
    }
    let attachment = writer.keep_attachment(&kept)?;
    writer.append(set::native(Some(KeptConversation {
        kind: native.as_str().to_owned(),
        id: id.to_owned(),
        attachment,
        bytes: kept.as_bytes().len() as u64,
    })))?;
    Ok(())
}

/// Puts a session's conversation back where its agent looks for it, if it is kept and not there. Returns whether it was
/// put there.
pub fn bring_back(
    context: &Context<'_>,
    spec: &AgentSpec,
    environment: &Environment,
    from: &Origin,
    worktree: &Path,
) -> Result<bool> {
    let (Some(native), Some(id)) = (spec.native, from.session.vendor_session.as_deref()) else {
        return Ok(false);
    };
    native.tidy(environment, id);
    let dir = context
        .store
        .require_dir(&format!("scratch/{}", from.session.sid))?;
    // A database cannot be searched from here, and asking the agent takes as long as an import.
    if native.find(environment, worktree, id).is_some() || is_here(environment, &dir, id) {
        return Ok(false);
    }
    let Some(bytes) = kept(context, native, from, worktree)? else {
        return Ok(false);
    };
    if native == Native::Exported {
        let imported = import(spec, environment, worktree, (&dir, &bytes))?;
        if imported {
            note_here(environment, &dir, id);
        }
        return Ok(imported);
    }
    let Some(place) = native.place(environment, worktree, id, context.env.now()) else {
        return Ok(false);
    };
    let put = put(&place, &bytes)?;
    settle(context, native, &place, (worktree, id, &dir))?;
    Ok(put)
}

/// Makes the agent find a conversation that was put somewhere, and go on with it at once.
pub(crate) fn settle(
    context: &Context<'_>,
    native: Native,
    place: &Path,
    (worktree, id, scratch): (&Path, &str, &Path),
) -> Result<()> {
    native
        .settle(place, worktree)
        .context(|| format!("cannot mark '{}'", place.display()))?;
    if native == Native::Gemini {
        gemini::note_minute(scratch, id, native.made(id, context.env.now()).0 / 60_000);
    }
    Ok(())
}

/// Returns the kept conversation of a session, to be continued in a worktree.
pub(crate) fn kept(
    context: &Context<'_>,
    native: Native,
    from: &Origin,
    worktree: &Path,
) -> Result<Option<Vec<u8>>> {
    let id = from.session.vendor_session.as_deref();
    let record = from.session.settings.native.as_ref();
    let fits = |record: &&KeptConversation| {
        record.kind == native.as_str() && Some(record.id.as_str()) == id
    };
    let (Some(record), Some(tip)) = (record.filter(fits), from.tip) else {
        return Ok(None);
    };
    let bytes = context.store.attachment(tip, &record.attachment)?;
    Ok(bytes.map(|bytes| places::show(&bytes, worktree)))
}

/// Puts a file where there is none.
pub(crate) fn put(place: &Path, bytes: &[u8]) -> Result<bool> {
    let cannot = || format!("cannot write '{}'", place.display());
    let dir = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).context(cannot)?;
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(place)
        .and_then(|mut file| file.write_all(bytes));
    match written {
        // Another process was faster, and its file is as good.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        result => result.context(cannot).map(|()| true),
    }
}

/// A session whose conversation is gone on with.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Its record.
    pub session: Session,
    /// Its log.
    pub tip: Option<ObjectId>,
    /// Whether it is this clone's own.
    pub mine: bool,
}

impl From<Listed> for Origin {
    fn from(listed: Listed) -> Self {
        Origin {
            mine: listed.is_mine(),
            session: listed.session,
            tip: listed.tip,
        }
    }
}

/// Returns a session by its id, this clone's or a teammate's.
pub fn origin(context: &Context<'_>, sid: SessionId) -> Result<Option<Origin>> {
    if let Some(tip) = context.store.log_tip(sid)? {
        return Ok(Some(Origin {
            session: tip.session,
            tip: Some(tip.id),
            mine: true,
        }));
    }
    let listing = context.store.list(Scope::Archived)?;
    let found = listing
        .sessions
        .into_iter()
        .find(|listed| listed.session.sid == sid);
    Ok(found.map(Origin::from))
}

pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let cannot = || format!("cannot read '{}'", path.display());
    let file = fs::File::open(path).context(cannot)?;
    if file.metadata().context(cannot)?.len() > LARGEST {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).context(cannot)?;
    Ok(Some(bytes))
}

/// Redacts a conversation record by record, so that the agent can still read it.
fn redact(redactor: &Redactor, native: Native, bytes: &[u8]) -> Redacted<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    // An exported conversation is one value over many lines.
    if let Some(mut whole) = bounded_json::parse_whole(&text) {
        native.unseal(&mut whole);
        let line = redactor.json(whole).to_line();
        return Redacted::concat([&line, &Redacted::trusted("\n")]).into_bytes();
    }
    let newline = Redacted::trusted("\n");
    let mut lines = Vec::new();
    for line in text.lines() {
        match bounded_json::parse_whole(line) {
            Some(mut record) => {
                if native.unseal(&mut record) {
                    lines.push(redactor.json(record).to_line());
                }
            }
            None => lines.push(redactor.text(line)),
        }
    }
    Redacted::concat(lines.iter().flat_map(|line| [line, &newline])).into_bytes()
}

/// Gives a conversation to the agent's program.
pub(crate) fn import(
    spec: &AgentSpec,
    environment: &Environment,
    worktree: &Path,
    (dir, bytes): (&Path, &[u8]),
) -> Result<bool> {
    let file = dir.join("conversation.json");
    fs::write(&file, bytes).context(|| format!("cannot write '{}'", file.display()))?;
    let words = ["import".into(), OsString::from(&file)];
    let ended = run(spec, environment, worktree, &words)?;
    // It is as large as the conversation, and of no more use.
    let _ = fs::remove_file(&file);
    Ok(ended.is_some())
}

/// Notes that a conversation is in the agent's database on this machine.
pub(crate) fn note_here(environment: &Environment, scratch: &Path, id: &str) {
    // Not to know it only costs a start of the agent's program.
    let _ = fs::write(scratch.join(HERE_FILE), here(environment, id));
}

fn is_here(environment: &Environment, scratch: &Path, id: &str) -> bool {
    fs::read(scratch.join(HERE_FILE)).is_ok_and(|noted| noted == here(environment, id))
}

/// Returns the content of the note: the conversation's id and the home directory.
fn here(environment: &Environment, id: &str) -> Vec<u8> {
    let home = environment.get(OsStr::new("HOME"));
    let home = home.map_or(&b""[..], |home| home.as_bytes());
    [id.as_bytes(), b"\n", home].concat()
}

pub(crate) fn export(
    spec: &AgentSpec,
    environment: &Environment,
    worktree: &Path,
    id: &str,
) -> Result<Option<Vec<u8>>> {
    run(spec, environment, worktree, &["export".into(), id.into()])
}

/// Runs the agent's program and returns its output, if it succeeded.
fn run(
    spec: &AgentSpec,
    environment: &Environment,
    worktree: &Path,
    words: &[OsString],
) -> Result<Option<Vec<u8>>> {
    let mut child = Command::new(spec.program())
        .args(words)
        .env_clear()
        .envs(environment)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(worktree)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context(|| format!("cannot start '{}'", spec.program().to_string_lossy()))?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pipe) = child.stdout.take() else {
        return Err(Error::fatal("the agent's output cannot be read"));
    };
    let (all, read) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(LARGEST).read_to_end(&mut bytes);
        let _ = all.send(read.ok().map(|_| bytes));
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let ended = child
            .try_wait()
            .context(|| "cannot wait for the agent".into())?;
        match ended {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                break child
                    .wait()
                    .context(|| "cannot wait for the agent".into())?;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // A process that it left running may hold its output open. The group's number is not reused while one of them
    // lives.
    let bytes = read.recv_timeout(LAST_WORDS).unwrap_or_else(|_| {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        None
    });
    Ok(bytes.filter(|_| status.success()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::redact::KnownSecrets;

    #[test]
    fn what_is_kept_is_redacted_and_still_one_record_a_line() {
        let mut known = KnownSecrets::new();
        known.add_environment([("API_TOKEN", "hunter2-hunter2-hunter2")]);
        let redactor = Redactor::new(known);
        let text = concat!(
            r#"{"uuid":"9e3d1c52-0000-4000-8000-00000000abcd","message":{"content":[{"type":"thinking","thinking":"x","signature":"s"}]}}"#,
            "\n",
            r#"{"parentUuid":"9e3d1c52-0000-4000-8000-00000000abcd","message":{"content":"use hunter2-hunter2-hunter2"}}"#,
            "\nno record\n",
        );
        let kept = redact(&redactor, Native::Claude, text.as_bytes());
        let kept = String::from_utf8_lossy(kept.as_bytes()).into_owned();
        assert!(
            !kept.contains("hunter2") && !kept.contains("thinking"),
            "{kept}"
        );
        let lines: Vec<&str> = kept.lines().collect();
        assert_eq!(lines.len(), 3);
        let second: Value = serde_json::from_str(lines[1]).expect("still a record");
        assert_eq!(second["parentUuid"], "9e3d1c52-0000-4000-8000-00000000abcd");
    }
}
