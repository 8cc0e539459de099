//! The last check before records leave this machine. They were redacted when they were written, but more secrets may be
//! known now, and a push cannot be taken back.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cores;
use crate::error::{Context as _, Error, Result};
use crate::git::object::Commit;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::model::event::to_ascii_json;
use crate::model::session::WriterId;
use crate::redact::{KNOWN, Redacted, Redactor, rule_between};
use crate::share::known_code::Published;
use crate::share::outcome::{Cause, Refusal};
use crate::share::plan::{Item, not_own};
use crate::store::limits;
use crate::store::refname::RefName;
use crate::store::sync::validate::{self, Part};

/// Larger files of code are searched in parts.
const CODE: u64 = 8 << 20;
/// Minimum number of code objects for each search thread.
const PER_THREAD: usize = 64;

/// Checks everything that a remote is about to get, on all cores. Marks refused items with the reason.
pub(super) fn inspect_all(repo: &Repo, looker: Looker<'_>, items: &mut [Item]) {
    // A push sends the objects themselves, not their local replacements.
    let own = || repo.unreplaced();
    let looked_at = cores::each(items, own, |repo, item| match item.refused {
        None => inspect(repo, looker, item),
        Some(_) => Ok(FoundSecret::default()),
    });
    let mut code: Vec<Vec<ObjectId>> = Vec::with_capacity(items.len());
    for (item, found) in items.iter_mut().zip(looked_at) {
        code.push(match found {
            Ok(found) => {
                item.title = found.title;
                found.code
            }
            Err(error) => {
                item.refused = Some(Refusal::from(&error));
                Vec::new()
            }
        });
    }
    look_ahead(repo, looker, code.iter().flatten().copied());
    for (item, code) in items.iter_mut().zip(&code) {
        let looked_into = code
            .iter()
            .try_for_each(|code| look_into_code(repo, looker, *code));
        if let (Err(error), None) = (looked_into, &item.refused) {
            item.refused = Some(Refusal::from(&error));
        }
    }
}

/// The content of a ref that may be pushed.
#[derive(Debug, Default)]
struct FoundSecret {
    /// The commits of code that it names.
    code: Vec<ObjectId>,
    /// The name of the session, if it is one.
    title: Option<String>,
}

/// Checks one ref, except the code that it names.
fn inspect(repo: &Repo, looker: Looker<'_>, item: &Item) -> Result<FoundSecret> {
    let mut found = FoundSecret::default();
    let Some(new) = item.new else {
        return Ok(found);
    };
    let known: Vec<ObjectId> = item.copy.into_iter().collect();
    let look = Look { repo, looker };
    validate::check_before(repo, &item.name, new, &known, &mut |part| match part {
        Part::Event(line, record) => look.event(line, record),
        Part::State(text) => look.state(text),
        Part::Attachment(bytes) => {
            let clean = looker.redactor.bytes(bytes);
            same(bytes, clean.as_bytes(), "an attachment")
        }
        Part::Archive(commit) => look.message(commit),
        Part::Log(commit, session) => {
            let is_session = matches!(item.name, RefName::Session(_));
            if is_session && !looker.writers.contains(&session.writer) {
                return Err(Error::fatal(not_own(&session.writer)).because(Cause::OtherWriter));
            }
            // The newest commit comes first.
            if is_session && found.title.is_none() {
                found.title = Some(session.name.clone());
            }
            let named = commit.trailers("Agent-Code");
            found
                .code
                .extend(named.filter_map(|code| repo.parse_id(code).ok()));
            look.message(commit)
        }
    })?;
    if let RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) = item.name {
        look.notes(new, item.copy)?;
    }
    Ok(found)
}

/// The inputs of the checks in one push.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looker<'a> {
    pub redactor: &'a Redactor,
    /// The writer ids of this clone.
    pub writers: &'a [WriterId],
    /// The commits that the remote already has.
    pub published: &'a Published,
    /// Code that this push has found clean.
    pub code: &'a CleanCode,
    /// The search for secrets in code.
    pub search: fn(&Redactor, &[u8]) -> Option<&'static str>,
    /// Objects that were found to contain a secret earlier, when the secret was known.
    pub told: &'a BTreeSet<ObjectId>,
}

impl Looker<'_> {
    fn search(&self, code: &[u8]) -> Option<&'static str> {
        (self.search)(self.redactor, code)
    }
}

/// Commits of code without secrets.
#[derive(Debug, Default)]
pub(super) struct CleanCode(Mutex<BTreeSet<ObjectId>>);

impl CleanCode {
    fn known(&self) -> MutexGuard<'_, BTreeSet<ObjectId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Look<'a> {
    repo: &'a Repo,
    looker: Looker<'a>,
}

impl Look<'_> {
    fn message(&self, commit: &Commit) -> Result<()> {
        let message = &commit.message;
        let clean = self.looker.redactor.text(message);
        same(message.as_bytes(), clean.as_bytes(), "a message")
    }

    /// Checks the whole record, including fields that this version does not know.
    fn event(&self, line: &str, record: Value) -> Result<()> {
        let seq = record.get("seq").and_then(Value::as_u64).unwrap_or(0);
        match self.looker.redactor.found_in_event(record) {
            None => Ok(()),
            Some(clean) => Err(found(&format!("event {seq}"), line, &clean)),
        }
    }

    fn state(&self, text: &str) -> Result<()> {
        let state: Value =
            serde_json::from_str(text).context(|| "its state is malformed".into())?;
        if state["more"]["redaction"] == "off" {
            return Err(Error::fatal("it was recorded with redaction off"));
        }
        self.json(text, state, "its state")
    }

    fn json(&self, text: &str, value: Value, what: &str) -> Result<()> {
        match self.looker.redactor.found_in(value) {
            None => Ok(()),
            Some(clean) => Err(found(what, text, &clean)),
        }
    }

    /// Checks all notes written since the remote's version, including deleted ones.
    fn notes(&self, tip: ObjectId, copy: Option<ObjectId>) -> Result<()> {
        let mut seen: BTreeSet<ObjectId> = copy.into_iter().collect();
        let mut next = vec![tip];
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            let commit = self.repo.read_commit(id)?;
            self.message(&commit)?;
            let before = match commit.parents.first() {
                Some(parent) => Some(self.repo.read_commit(*parent)?.tree),
                None => None,
            };
            self.notes_tree(commit.tree, before)?;
            next.extend(commit.parents);
        }
        Ok(())
    }

    fn notes_tree(&self, tree: ObjectId, before: Option<ObjectId>) -> Result<()> {
        if Some(tree) == before {
            return Ok(());
        }
        let old = match before {
            Some(tree) => self.repo.read_tree(tree, limits::NOTES_TREE)?,
            None => Vec::new(),
        };
        for entry in self.repo.read_tree(tree, limits::NOTES_TREE)? {
            if old.contains(&entry) {
                continue;
            }
            if entry.kind == crate::git::object::TREE {
                let same = old.iter().find(|one| one.name == entry.name);
                self.notes_tree(entry.id, same.map(|one| one.id))?;
                continue;
            }
            let note = self.blob(entry.id, limits::NOTE)?;
            let note = std::str::from_utf8(&note).context(|| "a note is malformed".into())?;
            for line in note.lines().filter(|line| !line.is_empty()) {
                let record = serde_json::from_str(line).context(|| "a note is malformed".into())?;
                self.json(line, record, "a note")?;
            }
        }
        Ok(())
    }

    fn blob(&self, id: ObjectId, limit: u64) -> Result<Vec<u8>> {
        self.repo.read_object(id, ObjectKind::Blob, limit)
    }
}

/// Refuses code that certainly contains a secret. Checks everything that a push may publish: the session's own commits,
/// and earlier ones that the remote lacks.
pub(super) fn look_into_code(repo: &Repo, looker: Looker<'_>, code: ObjectId) -> Result<()> {
    if !looker.code.known().contains(&code) {
        search(repo, looker, &[code])?;
        looker.code.known().insert(code);
    }
    Ok(())
}

/// Searches the code of several sessions together: this takes one call of git and reads common objects once.
/// [`look_into_code`] finds the session with the secret.
pub(super) fn look_ahead(
    repo: &Repo,
    looker: Looker<'_>,
    code: impl IntoIterator<Item = ObjectId>,
) {
    let mut fresh: BTreeSet<ObjectId> = code.into_iter().collect();
    fresh.retain(|code| !looker.code.known().contains(code));
    let fresh: Vec<ObjectId> = fresh.into_iter().collect();
    if !fresh.is_empty() && search(repo, looker, &fresh).is_ok() {
        looker.code.known().extend(fresh);
    }
}

/// Searches all objects that the commits reach and the remote lacks, on all cores.
fn search(repo: &Repo, looker: Looker<'_>, code: &[ObjectId]) -> Result<()> {
    let there = looker.published.for_code(repo, code);
    let objects = repo.unpublished_objects(code, &there)?;
    let own = || repo.unreplaced();
    cores::parts(&objects, PER_THREAD, own, |repo, part| {
        search_part(&repo, looker, part)
    })
    .into_iter()
    .collect()
}

fn search_part(repo: &Repo, looker: Looker<'_>, objects: &[(ObjectId, String)]) -> Result<()> {
    for (id, path) in objects {
        // Like a push, git may get an object that is missing here from a promisor remote.
        let (kind, size) = repo
            .object_header(*id)?
            .unwrap_or((ObjectKind::Blob, u64::MAX));
        // A tree is searched for the names of its files.
        let found = match kind {
            ObjectKind::Tag => None,
            _ if looker.told.contains(id) => Some(KNOWN),
            ObjectKind::Blob if size > CODE => search_in_parts(repo, looker, *id)?,
            _ => {
                let bytes = repo.read_object(*id, kind, size)?;
                looker.search(&bytes)
            }
        };
        if let Some(rule) = found {
            let place = match kind {
                ObjectKind::Blob => format!("file '{path}' of its code"),
                ObjectKind::Tree => format!("the name of a file in '{path}/' of its code"),
                _ => format!("the message of commit {id}"),
            };
            return Err(secret(&place, rule));
        }
    }
    Ok(())
}

/// Searches a file in parts through git, which gets it if it is missing here. Only one part is in memory.
fn search_in_parts(repo: &Repo, looker: Looker<'_>, id: ObjectId) -> Result<Option<&'static str>> {
    let mut found = None;
    repo.stream_blob(id, &mut |part| {
        found = looker.search(part);
        found.is_none()
    })?;
    Ok(found)
}

/// Returns the error for a secret in a JSON text, given the redacted value.
fn found(what: &str, before: &str, after: &Redacted<Value>) -> Error {
    // Use the same format, so that the first difference is the secret.
    let before = serde_json::from_str(before).unwrap_or(Value::Null);
    let (before, after) = (to_ascii_json(&before), after.to_line());
    secret(what, &rule_between(before.as_bytes(), after.as_bytes()))
}

fn same(before: &[u8], after: &[u8], what: &str) -> Result<()> {
    if before == after {
        Ok(())
    } else {
        Err(secret(what, &rule_between(before, after)))
    }
}

fn secret(what: &str, rule: &str) -> Error {
    Error::fatal(format!("{what} seems to contain a secret ({rule})")).because(Cause::Secret)
}
