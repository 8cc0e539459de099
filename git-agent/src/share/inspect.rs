//! A last look at what is about to leave this machine. Records were redacted when they were made; since then more may be
//! known, and what cannot be taken back deserves a second look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::plan::Item;
use crate::cores;
use crate::error::{Context as _, Error, Result};
use crate::git::object::Commit;
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::redact::{Redacted, Redactor, rule_between};
use crate::session::Session;
use crate::store::check::{self, Part};
use crate::store::limits;
use crate::store::refname::RefName;
use crate::transcript::to_ascii_json;

/// Files of code larger than this are not looked into.
const CODE: u64 = 1 << 20;
/// Fewer objects of code than this are searched by one thread.
const PER_THREAD: usize = 64;

/// A commit of code, and the one that its session began at.
pub(super) type Ends = (ObjectId, Option<ObjectId>);

/// Returns the ends of a session's code.
pub(super) fn ends(repo: &Repo, session: &Session, code: ObjectId) -> Ends {
    let base = session.base.as_deref();
    (code, base.and_then(|base| repo.parse_id(base).ok()))
}

/// Looks at what a remote is about to get, on all cores. What may not go is marked with the reason.
pub(super) fn inspect_all(repo: &Repo, looker: Looker<'_>, items: &mut [Item]) {
    let mut code: Vec<Vec<Ends>> = vec![Vec::new(); items.len()];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        for (items, code) in items.chunks_mut(share).zip(code.chunks_mut(share)) {
            let repo = repo.clone();
            scope.spawn(move || {
                let open = |(item, _): &(&mut Item, _)| item.refused.is_none();
                for (item, code) in items.iter_mut().zip(code).filter(open) {
                    if let Err(error) = inspect(&repo, looker, item, code) {
                        item.refused = Some(error.message().to_owned());
                    }
                }
            });
        }
    });
    look_ahead(repo, looker, code.iter().flatten().copied());
    for (item, code) in items.iter_mut().zip(&code) {
        let looked_into = code
            .iter()
            .try_for_each(|ends| look_into_code(repo, looker, *ends));
        if let (Err(error), None) = (looked_into, &item.refused) {
            item.refused = Some(error.message().to_owned());
        }
    }
}

/// Looks at one ref, apart from the code that it names.
fn inspect(repo: &Repo, looker: Looker<'_>, item: &mut Item, code: &mut Vec<Ends>) -> Result<()> {
    let Some(new) = item.new else {
        return Ok(());
    };
    let known: Vec<ObjectId> = item.copy.into_iter().collect();
    let look = Look { repo, looker };
    let mut title = None;
    check::check_before(repo, &item.name, new, &known, &mut |part| match part {
        Part::Event(line, record) => look.event(line, record),
        Part::State(text) => look.state(text),
        Part::Attachment(bytes) => {
            let clean = looker.redactor.bytes(bytes);
            same(bytes, clean.as_bytes(), "an attachment")
        }
        Part::Archive(commit) => look.message(commit),
        Part::Log(commit, session) => {
            // The newest commit comes first.
            title.get_or_insert_with(|| session.name.clone());
            let named = commit.trailers("Agent-Code");
            let named = named.filter_map(|code| repo.parse_id(code).ok());
            code.extend(named.map(|code| ends(repo, session, code)));
            look.message(commit)
        }
    })?;
    if let RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) = item.name {
        look.notes(new, item.copy)?;
    }
    item.title = title.filter(|_| matches!(item.name, RefName::Session(_)));
    Ok(())
}

/// With what one push looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looker<'a> {
    pub redactor: &'a Redactor,
    /// Code that this very push found to be clean.
    pub code: &'a CleanCode,
}

/// Ends of code without secrets between them.
#[derive(Debug, Default)]
pub(super) struct CleanCode(Mutex<BTreeSet<Ends>>);

impl CleanCode {
    fn known(&self) -> MutexGuard<'_, BTreeSet<Ends>> {
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

    /// Looks at a record whole: also at what this version would not read from it.
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

    /// Looks at everything that was noted since the remote's version, and taken back again.
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

/// Refuses code that holds what certainly is a secret. Only what a session added since it began is looked at.
pub(super) fn look_into_code(repo: &Repo, looker: Looker<'_>, (code, base): Ends) -> Result<()> {
    if !looker.code.known().contains(&(code, base)) {
        search(repo, looker, base, &[code])?;
        looker.code.known().insert((code, base));
    }
    Ok(())
}

/// Looks into the code of several sessions together: sessions that began at the same commit take one question to git, and
/// what they have in common is read once. Which of them a secret is in is for [`look_into_code`] to say.
pub(super) fn look_ahead(repo: &Repo, looker: Looker<'_>, code: impl IntoIterator<Item = Ends>) {
    let mut begun: BTreeMap<Option<ObjectId>, BTreeSet<ObjectId>> = BTreeMap::new();
    for (code, base) in code {
        if !looker.code.known().contains(&(code, base)) {
            begun.entry(base).or_default().insert(code);
        }
    }
    for (base, code) in begun {
        let code: Vec<ObjectId> = code.into_iter().collect();
        if search(repo, looker, base, &code).is_ok() {
            let clean = code.into_iter().map(|code| (code, base));
            looker.code.known().extend(clean);
        }
    }
}

/// Searches everything that commits reach and a base does not, on all cores.
fn search(
    repo: &Repo,
    looker: Looker<'_>,
    base: Option<ObjectId>,
    code: &[ObjectId],
) -> Result<()> {
    let objects = repo.objects_between(base, code)?;
    let own = || repo.clone();
    cores::parts(&objects, PER_THREAD, own, |repo, part| {
        search_part(&repo, looker, part)
    })
    .into_iter()
    .collect()
}

fn search_part(repo: &Repo, looker: Looker<'_>, objects: &[(ObjectId, String)]) -> Result<()> {
    for (id, path) in objects {
        let Some((kind, size)) = repo.object_header(*id)? else {
            continue;
        };
        let looked_at = matches!(kind, ObjectKind::Blob | ObjectKind::Commit);
        if !looked_at || size > CODE {
            continue;
        }
        let bytes = repo.read_object(*id, kind, CODE)?;
        if let Some(rule) = looker.redactor.certain_secret(&bytes) {
            let place = match kind {
                ObjectKind::Blob => format!("file '{path}' of its code"),
                _ => format!("the message of commit {id}"),
            };
            return Err(secret(&place, &rule));
        }
    }
    Ok(())
}

/// Says what was found in a text of JSON that this became of.
fn found(what: &str, before: &str, after: &Redacted<Value>) -> Error {
    // In the same form, so that the first difference is what was found.
    let before = serde_json::from_str(before).unwrap_or(Value::Null);
    let (before, after) = (to_ascii_json(&before), after.to_line());
    secret(what, &rule_between(before.as_bytes(), after.as_bytes()))
}

fn same(before: &[u8], after: &[u8], what: &str) -> Result<()> {
    match before == after {
        true => Ok(()),
        false => Err(secret(what, &rule_between(before, after))),
    }
}

fn secret(what: &str, rule: &str) -> Error {
    Error::fatal(format!("{what} holds what looks like a secret ({rule})"))
}
