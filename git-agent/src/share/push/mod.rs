//! Pushes this clone's changed refs to a remote, in atomic batches.
//!
//! After a failure the remote is asked again for its refs; messages are not parsed. If one of this clone's refs has
//! another version there, a copy of this clone wrote it: both versions are joined, and the push is tried again.

mod code;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::context::{Context, secrets};
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::list_refs::Interest;
use crate::git::remote::transfer::Audience;
use crate::git::remote::{Pushed, TransferOutcome, Update};
use crate::model::session::SessionId;
use crate::redact::Redactor;
use crate::session::caller::{self, Act};
use crate::session::control::archive;
use crate::share::fetch::{Copies, copies, lock, own_refs, take_in, tidy};
use crate::share::known_code::Published;
use crate::share::outcome::{Cause, Change, Refusal, What};
use crate::share::outgoing::{CleanCode, Looker, inspect_all};
use crate::share::plan::{self, Item};
use crate::share::push::code::{AT_WORK, bring_code};
use crate::share::remote::{CONSENT, Remote};
use crate::share::{remote_refs, unshared};
use crate::signature;
use crate::store::refname::RefName;
use crate::store::sync::join::Joined;
use crate::store::sync::sign_tip::Sealed;
use crate::store::sync::validate;

/// Refs in one push: hosts were seen to fail with a hundred.
const BATCH: usize = 50;
/// Number of pushed refs that are recorded together, because each time syncs a file.
const AT_ONCE: usize = 10 * BATCH;
/// How often a push that collided with another one is tried again.
const ATTEMPTS: u32 = 8;

/// Options of a push.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only these sessions, and all notes; `None` for everything.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// Only these refs.
    pub refs: Option<BTreeSet<RefName>>,
    /// Only report the refs that would be pushed.
    pub dry_run: bool,
    /// Ask the remote for its refs first, because nothing was shared with this address before.
    pub ask: bool,
}

/// Pushes the refs that a remote lacks. `audience` gets the progress. Refuses a remote without the user's consent.
pub fn push(
    context: &Context<'_>,
    remote: &Remote,
    options: &Options,
    audience: &mut Audience<'_>,
) -> Result<Vec<Change>> {
    if !options.dry_run {
        caller::permit(context, Act::Share, [])?;
    }
    if !options.dry_run && !remote.agreed {
        let error = Error::fatal(format!(
            "you have not agreed to share sessions with '{}'",
            remote.name
        ))
        .hint(format!("git agent push --yes {}", shell_word(&remote.name)));
        return Err(remote.addresses.iter().fold(error, |error, address| {
            error.hint(format!(
                "git config --add {CONSENT} {}",
                shell_word(address)
            ))
        }));
    }
    let _lock = lock(context, &remote.name)?;
    let redactor = context.redactor();
    let code = CleanCode::default();
    let told = secrets::remembered_objects(context);
    let writers = context.store.own_writers()?;
    let mut known = copies(context.repo, &remote.name)?;
    // Copies under this name may come from another address, so a remote to be asked counts as new.
    let published = Published::at(context.repo, &remote.name, &known, options.ask)?;
    let looker = Looker {
        redactor: &redactor,
        writers: &writers,
        published: &published,
        code: &code,
        search: Redactor::secret_in_code,
        told: &told,
    };
    let mut codeless = BTreeMap::new();
    let mut uncommitted = BTreeMap::new();
    let mut unsigned = BTreeSet::new();
    if !options.dry_run {
        audience.hear("preparing");
        if options.refs.is_none() {
            codeless = bring_code(context, options, looker)?;
            uncommitted = unshared::note(context, options.sessions.as_ref(), &writers)?;
            // Archive only now: an archived session cannot get code any more.
            if options.sessions.is_none() {
                archive::fold_old(context)?;
            }
            unsigned = seal(context, &known, options)?;
        }
    }
    let mut items = plan::unpushed(context, &known, options.sessions.as_ref())?;
    let other = options.ask && !known.is_empty();
    if (items.is_empty() || other) && !options.dry_run {
        // It may have been deleted there, or the name may now mean another remote.
        let own = own_refs(context.repo)?.into_keys().collect();
        let answer = remote_refs::ask(context, &remote.name, &own)?;
        take_in(context, &remote.name, &answer.notes, audience)?;
        known = copies(context.repo, &remote.name)?;
        items = plan::unpushed(context, &known, options.sessions.as_ref())?;
        let unseen = plan::unseen(context, &known, options.sessions.as_ref(), &answer.unseen)?;
        items.extend(unseen);
    }
    if let Some(only) = &options.refs {
        items.retain(|item| only.contains(&item.name));
    }
    // Push archives before the deletion of the sessions in them.
    items.sort_by_key(|item| item.new.is_none());
    let mut given = Given {
        context,
        remote,
        looker,
        changes: Vec::new(),
        codeless,
        uncommitted,
        unsigned,
        known,
        there: Vec::new(),
    };
    audience.hear("looking for secrets");
    if options.dry_run {
        inspect_all(context.repo, looker, &mut items);
        for item in given.without_refused(items) {
            given.note(&item, kind(&item));
        }
        return Ok(given.changes);
    }
    // Check one batch while the one before it is being pushed.
    let repo = context.repo.clone();
    let (looked_at, ready) = sync_channel(1);
    let pushed = std::thread::scope(|scope| {
        scope.spawn(move || {
            for batch in items.chunks_mut(BATCH) {
                inspect_all(&repo, looker, batch);
                if looked_at.send(batch.to_vec()).is_err() {
                    return;
                }
            }
        });
        // The receiver is dropped with this closure, so a failed push also ends the checks.
        ready.into_iter().try_for_each(|batch| {
            let good = given.without_refused(batch);
            given.batch(good, audience)
        })
    });
    // Record the refs that were pushed before a failure.
    let written = given.write_down();
    pushed.and(written)?;
    given.tell_held_back()?;
    tidy(context, &remote.name);
    Ok(given.changes)
}

fn kind(item: &Item) -> What {
    match (item.new, item.copy, item.over) {
        (None, _, _) if item.folded => What::Folded,
        (None, _, _) => What::Deleted,
        (_, _, Some(_)) => What::Rewritten,
        (_, None, _) => What::New,
        _ => What::Updated,
    }
}

/// Signs the refs before the push, if the user wants signatures. Returns the refs that stay unsigned, because other
/// writers have added to them.
fn seal(context: &Context<'_>, known: &Copies, options: &Options) -> Result<BTreeSet<RefName>> {
    let mut foreign = BTreeSet::new();
    if signature::is_wanted(context)? {
        let is_users = |tip| signature::is_users(context, tip);
        for item in plan::unpushed(context, known, options.sessions.as_ref())? {
            if item.new.is_some()
                && context.store.seal(&item.name, Some(&is_users))? == Sealed::Foreign
            {
                foreign.insert(item.name);
            }
        }
    }
    Ok(foreign)
}

/// A running push.
struct Given<'c, 'a> {
    context: &'c Context<'a>,
    remote: &'c Remote,
    looker: Looker<'c>,
    changes: Vec<Change>,
    codeless: BTreeMap<SessionId, String>,
    /// The number of uncommitted files of each session.
    uncommitted: BTreeMap<SessionId, u64>,
    /// Refs that stay unsigned although signing is on, because other writers have added to them.
    unsigned: BTreeSet<RefName>,
    /// The recorded versions of the remote's refs.
    known: Copies,
    /// Refs that the remote has now and that are not recorded yet.
    there: Vec<Item>,
}

impl Given<'_, '_> {
    /// Reports code that is still held back, for sessions without other changes.
    fn tell_held_back(&mut self) -> Result<()> {
        let told: BTreeSet<String> = self.changes.iter().map(|one| one.name.clone()).collect();
        for (sid, why) in &self.codeless {
            let name = RefName::Session(*sid);
            if why != AT_WORK && !told.contains(&name.to_string()) {
                let session = self.context.store.session(*sid)?;
                self.changes.push(Change {
                    session: session.map(|session| session.record.name),
                    without_code: Some(why.clone()),
                    uncommitted: self.uncommitted.get(sid).copied(),
                    ..Change::new(name, What::Unchanged)
                });
            }
        }
        let told: BTreeSet<String> = self.changes.iter().map(|one| one.name.clone()).collect();
        for (sid, files) in &self.uncommitted {
            let name = RefName::Session(*sid);
            if !told.contains(&name.to_string()) {
                let session = self.context.store.session(*sid)?;
                self.changes.push(Change {
                    session: session.map(|session| session.record.name),
                    uncommitted: Some(*files),
                    ..Change::new(name, What::Unchanged)
                });
            }
        }
        Ok(())
    }

    /// Records refused items and returns the others.
    fn without_refused(&mut self, items: Vec<Item>) -> Vec<Item> {
        let (refused, good): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.refused.is_some());
        for item in refused {
            self.note(&item, What::Refused);
        }
        good
    }

    fn note(&mut self, item: &Item, what: What) {
        let (session, without_code) = match &item.name {
            RefName::Session(sid) => {
                let at = item.new.or(item.copy);
                let named = || at.and_then(|id| self.context.store.state_at(id, *sid).ok());
                let name = item.title.clone().or_else(|| Some(named()?.name));
                (name, self.codeless.get(sid).cloned())
            }
            _ => (None, None),
        };
        self.changes.push(Change {
            session,
            reason: item.refused.as_ref().map(|why| why.text.clone()),
            cause: item.refused.as_ref().and_then(|why| why.cause),
            without_code: without_code.filter(|_| what != What::Refused),
            uncommitted: match &item.name {
                RefName::Session(sid) if what != What::Refused => {
                    self.uncommitted.get(sid).copied()
                }
                _ => None,
            },
            without_signature: self.unsigned.contains(&item.name),
            ..Change::new(&item.name, what)
        });
    }

    fn refuse(&mut self, item: &Item, reason: impl Into<Refusal>) {
        let mut item = item.clone();
        item.refused = Some(reason.into());
        self.note(&item, What::Refused);
    }

    /// Pushes one batch. If a ref has another version at the remote, joins both and tries again.
    fn batch(&mut self, mut items: Vec<Item>, audience: &mut Audience<'_>) -> Result<()> {
        let mut atomic = true;
        for attempt in 0..ATTEMPTS {
            if items.is_empty() {
                return Ok(());
            }
            let updates: Vec<Update> = items
                .iter()
                .map(|item| Update {
                    name: item.name.to_string(),
                    new: item.new,
                    over: item.over.or_else(|| self.grown_from(item)),
                })
                .collect();
            let repo = self.context.repo;
            let pushed = repo.push_refs(&self.remote.name, &updates, atomic, audience)?;
            if pushed.done {
                return self.taken(&items);
            }
            let before = items.len();
            let (left, moved) = self.look_again(items, audience)?;
            let went = left.len() < before;
            items = left;
            if moved || atomic && went {
                std::thread::sleep(self.pause(attempt));
            } else if atomic {
                // The host does not support atomic pushes, or one refused ref made it refuse all: push each ref by
                // itself.
                atomic = false;
            } else {
                items = self.drop_refused(items, &pushed, went)?;
            }
        }
        for item in &items {
            self.refuse(item, "it kept changing at the remote".to_owned());
        }
        Ok(())
    }

    /// Returns the version of a session that must be at the remote for the new one to follow. If it is missing, a copy
    /// of this clone may have deleted it, and git would create it anew.
    fn grown_from(&self, item: &Item) -> Option<ObjectId> {
        let (RefName::Session(_), Some(copy), Some(new)) = (&item.name, item.copy, item.new) else {
            return None;
        };
        let grown = self.context.repo.is_ancestor(copy, new).unwrap_or(false);
        grown.then_some(copy)
    }

    /// Asks the remote for its refs again. Refs that are there already are done; diverged ones are joined.
    fn look_again(
        &mut self,
        mut items: Vec<Item>,
        audience: &mut Audience<'_>,
    ) -> Result<(Vec<Item>, bool)> {
        let repo = self.context.repo;
        let names: Vec<String> = items.iter().map(|item| item.name.to_string()).collect();
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let interest = |name: &str| {
            if wanted.contains(name) {
                Interest::Wanted
            } else {
                Interest::None
            }
        };
        let asking = repo.ask_remote(&self.remote.name)?;
        let there = asking.finish(&interest, items.len())?;
        let there: BTreeMap<&str, ObjectId> = there
            .refs
            .iter()
            .map(|found| (found.name.as_str(), found.id))
            .collect();
        let theirs = |item: &Item| there.get(item.name.to_string().as_str()).copied();
        let lost =
            |item: &Item| item.copy.is_some() && item.new.is_some() && theirs(item).is_none();
        if items.iter().any(lost) {
            items = self.without_deleted(items, audience)?;
        }
        let mut left = Vec::new();
        let mut moved = false;
        for mut item in items {
            let theirs = theirs(&item);
            if theirs == item.new {
                self.taken(std::slice::from_ref(&item))?;
                continue;
            }
            let settled = match (theirs, item.copy.take()) {
                (Some(theirs), copy) => {
                    item.copy = copy;
                    self.settle(&mut item, theirs, audience)
                }
                (None, Some(_)) => {
                    item.over = None;
                    Ok(true)
                }
                (None, None) => Ok(false),
            };
            match settled {
                Ok(false) => left.push(item),
                Ok(true) => {
                    moved = true;
                    // Events may have been added here since the last check.
                    inspect_all(repo, self.looker, std::slice::from_mut(&mut item));
                    left.extend(self.without_refused(vec![item]));
                }
                Err(error) => self.refuse(&item, &error),
            }
        }
        Ok((left, moved))
    }

    /// Adapts an item to the remote's version. Returns whether the push has changed.
    fn settle(
        &mut self,
        item: &mut Item,
        theirs: ObjectId,
        audience: &mut Audience<'_>,
    ) -> Result<bool> {
        let repo = self.context.repo;
        if item.over == Some(theirs) {
            return Ok(false);
        }
        let Some(new) = item.new else {
            return Err(Error::fatal("it changed at the remote meanwhile"));
        };
        let here = repo.object_header(theirs)?.is_some();
        if here && repo.is_ancestor(theirs, new)? {
            return Ok(item.copy.replace(theirs) != Some(theirs));
        }
        if self.context.store.is_replaced(new, theirs)? {
            item.over = Some(theirs);
            return Ok(true);
        }
        if !here {
            repo.fetch_objects(&self.remote.name, &[theirs], audience)?;
        }
        validate::check(repo, &item.name, theirs, &[new]).map_err(|error| {
            Error::fatal(format!(
                "the remote's version is not valid: {}",
                error.message()
            ))
        })?;
        self.require_same_writer(&item.name, theirs)?;
        signature::require_own(self.context, theirs)?;
        let store = &self.context.store;
        let is_users = |tip| signature::is_users(self.context, tip);
        let signs = signature::is_wanted(self.context)?;
        // The check above has shown that the user signed the remote's version. The joined version would have no
        // signature.
        let own_word = signs && store.is_own_word(&item.name, &is_users)?;
        let purged_here = store.is_purged_beyond(new, theirs)?;
        let purged_there = store.is_purged_beyond(theirs, new)?;
        let joined = if purged_here == purged_there {
            store.join(&item.name, theirs, self.looker.redactor)?
        } else {
            // Joining would bring back the secrets that one side has purged.
            store.graft(&item.name, theirs, purged_there, self.looker.redactor)?
        };
        match joined {
            Joined::Busy => Err(Error::fatal(
                "it has another version at the remote and is in use here",
            )),
            Joined::At(id) => {
                let sealed = match (signs, own_word) {
                    (true, true) => store.seal(&item.name, None)?,
                    (true, false) => Sealed::Foreign,
                    (false, _) => Sealed::Later,
                };
                item.new = Some(match sealed {
                    Sealed::At(sealed) => sealed,
                    Sealed::Later => id,
                    Sealed::Foreign => {
                        self.unsigned.insert(item.name.clone());
                        id
                    }
                });
                item.copy = Some(theirs);
                item.over = (purged_here && !purged_there).then_some(theirs);
                Ok(true)
            }
        }
    }

    /// Removes sessions that a copy of this clone deleted, as the remote's current notes say.
    fn without_deleted(
        &mut self,
        items: Vec<Item>,
        audience: &mut Audience<'_>,
    ) -> Result<Vec<Item>> {
        let (context, remote) = (self.context, &self.remote.name);
        let notes = remote_refs::ask(context, remote, &BTreeSet::new())?.notes;
        take_in(context, remote, &notes, audience)?;
        self.known = copies(context.repo, remote)?;
        let (mut given, deletions): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.new.is_some());
        plan::refuse_others(context, &mut given)?;
        let mut left = self.without_refused(given);
        left.extend(deletions);
        Ok(left)
    }

    fn require_same_writer(&self, name: &RefName, theirs: ObjectId) -> Result<()> {
        let RefName::Session(sid) = name else {
            return Ok(());
        };
        let writer = self.context.store.state_at(theirs, *sid)?.writer;
        if writer == self.context.store.require_writer()? {
            return Ok(());
        }
        Err(Error::fatal("another writer changed it at the remote"))
    }

    /// Drops the refs that the remote refuses in a non-atomic push. `went` tells whether others were accepted.
    fn drop_refused(&mut self, items: Vec<Item>, pushed: &Pushed, went: bool) -> Result<Vec<Item>> {
        let refused: BTreeMap<&str, &TransferOutcome> = pushed
            .outcomes
            .iter()
            .filter(|outcome| outcome.flag == '!')
            .map(|outcome| (outcome.name.as_str(), outcome))
            .collect();
        if refused.is_empty() && !went {
            return Err(Error::fatal(format!(
                "cannot push to '{}': {}",
                self.remote.name, pushed.said
            ))
            .hint(format!(
                "git agent doctor --remote {}",
                shell_word(&self.remote.name)
            )));
        }
        let mut left = Vec::new();
        for item in items {
            match refused.get(item.name.to_string().as_str()) {
                Some(outcome) => {
                    let text = match &pushed.remote_said {
                        Some(said) => format!("{}: {said}", outcome.summary),
                        None => outcome.summary.clone(),
                    };
                    let cause = outcome.hidden.then_some(Cause::Hidden);
                    self.refuse(&item, Refusal { text, cause });
                }
                None => left.push(item),
            }
        }
        Ok(left)
    }

    /// Notes the versions that the remote has now. If recording them fails, the next push finds them there.
    fn taken(&mut self, items: &[Item]) -> Result<()> {
        for item in items {
            self.note(item, kind(item));
        }
        self.there.extend_from_slice(items);
        if self.there.len() < AT_ONCE {
            Ok(())
        } else {
            self.write_down()
        }
    }

    /// Records the versions that the remote has now.
    fn write_down(&mut self) -> Result<()> {
        let items = std::mem::take(&mut self.there);
        if items.is_empty() {
            return Ok(());
        }
        for _ in 0..2 {
            let changes: Vec<RefChange> = items
                .iter()
                .map(|item| (item, self.known.get(&item.name).copied()))
                .filter(|(item, before)| *before != item.new)
                .map(|(item, before)| RefChange {
                    name: item.name.at_remote(&self.remote.name),
                    expected: before.map_or(Expected::Absent, Expected::At),
                    new: item.new,
                })
                .collect();
            if self.context.repo.swap_many(&changes)? == Swap::Done {
                break;
            }
            // Another process deletes copies meanwhile. The next fetch corrects a copy that moves again.
            self.known = copies(self.context.repo, &self.remote.name)?;
        }
        for item in items {
            match item.new {
                Some(new) => self.known.insert(item.name, new),
                None => self.known.remove(&item.name),
            };
        }
        Ok(())
    }

    fn pause(&self, attempt: u32) -> Duration {
        let ceiling = 16u64 << attempt.min(6);
        let [random] = self.context.env.random::<1>();
        Duration::from_millis(ceiling / 2 + u64::from(random) % ceiling)
    }
}
