//! Taking a secret out of this clone's own records, here and at every remote that has them.
//!
//! What this cannot reach is said, not hidden: code, snapshots, clones of others, and what a host keeps of rewritten refs.

use std::collections::BTreeSet;

use crate::context::{Context, secrets};
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange};
use crate::git::remote::transfer::Audience;
use crate::model::session::SessionId;
use crate::redact::{KnownSecrets, Redactor};
use crate::review::git_notes;
use crate::session::caller::{self, Act};
use crate::session::create::choose_agent;
use crate::share::fetch::{self, own_refs};
use crate::share::known_code::Published;
use crate::share::outcome::Change;
use crate::share::outgoing::{CleanCode, Looker, look_ahead, look_into_code};
use crate::share::push::{self, Options};
use crate::share::remote::Remote;
use crate::share::{plan, remote_refs};
use crate::store::list::Scope;
use crate::store::refname;
use crate::store::sync::purge::Rewritten;

pub use crate::store::refname::RefName;

/// What was purged.
#[derive(Debug, Default)]
pub struct Purged {
    /// The refs that were written again.
    pub refs: Vec<Rewritten>,
    /// The refs that could not be written again, and why.
    pub kept: Vec<(RefName, String)>,
    /// Old versions that are kept for a while, and were written again.
    pub kept_versions: Vec<String>,
    /// Sessions whose code holds something, which is not touched, and where.
    pub code: Vec<(String, String)>,
    /// The sessions whose commands, which this clone keeps as they were typed, held something.
    pub commands: Vec<SessionId>,
    /// What was done at remotes.
    pub pushed: Vec<(String, Vec<Change>)>,
    /// Remotes that could not be reached, and why.
    pub unreached: Vec<(String, String)>,
    /// What remotes still have of this clone's that holds something.
    pub left: Vec<(String, RefName)>,
}

/// Returns the versions of a ref that remotes have, as far as is known here.
pub(super) fn versions_elsewhere(context: &Context<'_>, name: &RefName) -> Result<Vec<ObjectId>> {
    let refs = context.repo.refs_under(refname::REMOTES)?.refs;
    Ok(refs
        .into_iter()
        .filter(|found| {
            RefName::parse_at_remote(&found.name).is_some_and(|(_, copied)| copied == *name)
        })
        .map(|found| found.id)
        .collect())
}

/// Writes this clone's refs again without these values and without whatever the rules of redaction find today. With
/// `local` the remotes are left alone.
pub fn purge(
    context: &Context<'_>,
    secrets: &[Vec<u8>],
    local: bool,
    audience: &mut Audience<'_>,
) -> Result<Purged> {
    caller::permit(context, Act::Purge, [])?;
    let redactor = redactor(context, secrets)?;
    let mut purged = Purged::default();
    let own = own_refs(context.repo)?;
    let nothing = BTreeSet::new();
    for name in own.keys() {
        audience.hear(&name.to_string());
        let elsewhere = versions_elsewhere(context, name)?;
        match context.store.rewrite(name, &redactor, &nothing, &elsewhere) {
            Ok(Some(rewritten)) => purged.refs.push(rewritten),
            Ok(None) => {}
            Err(error) => purged.kept.push((name.clone(), error.message().to_owned())),
        }
    }
    drop_kept(context, &purged.refs)?;
    for lost in context.store.lost()? {
        match (
            context.store.rewrite_lost(&lost, &redactor),
            refname::lost_own(&lost.name),
        ) {
            (Ok(true), _) => purged.kept_versions.push(lost.name),
            (Err(error), Some(name)) => purged.kept.push((name, error.message().to_owned())),
            _ => {}
        }
    }
    purged.commands = choose_agent::purge_commands(&context.store, &redactor)?;
    choose_agent::purge_texts(&context.store, &redactor)?;
    // What plain git shows of reviews is made of the notes.
    git_notes::refresh(context)?;
    purged.code = code_with(context, &redactor)?;
    if !local {
        push_all(context, &redactor, &mut purged, audience)?;
    }
    Ok(purged)
}

fn redactor(context: &Context<'_>, wanted: &[Vec<u8>]) -> Result<Redactor> {
    let mut known = secrets::known(context);
    for secret in wanted {
        let mut alone = KnownSecrets::new();
        alone.add_value(secret);
        known.add_value(secret);
        if alone.is_empty() {
            return Err(Error::fatal(
                "a value to be purged is too short or too common to be told from other text",
            ));
        }
    }
    Ok(Redactor::new(known))
}

/// Returns the names of this clone's sessions whose logs bring along code that holds something, and where.
fn code_with(context: &Context<'_>, redactor: &Redactor) -> Result<Vec<(String, String)>> {
    let clean = CleanCode::default();
    // Nothing goes anywhere here: what any remote's branches have is out of reach for a purge.
    let published = context.repo.refs_under("refs/remotes/")?.refs;
    let published = Published::known(published.into_iter().map(|found| found.id).collect());
    let looker = Looker {
        redactor,
        writers: &[],
        published: &published,
        code: &clean,
        search: Redactor::known_in_code,
        told: &BTreeSet::new(),
    };
    let mut carried = Vec::new();
    for listed in context.store.list(Scope::Mine)?.sessions {
        if let Some(tip) = listed.tip
            && let Some(code) = context.store.submitted(tip)?
        {
            carried.push((listed.session.name, code));
        }
    }
    look_ahead(context.repo, looker, carried.iter().map(|(_, code)| *code));
    let mut found = Vec::new();
    for (name, code) in carried {
        if let Err(error) = look_into_code(context.repo, looker, code) {
            found.push((name, error.message().to_owned()));
        }
    }
    Ok(found)
}

/// Lets go of old versions that are kept of the same refs: they hold what was to be purged.
fn drop_kept(context: &Context<'_>, rewritten: &[Rewritten]) -> Result<()> {
    let tails: Vec<String> = rewritten
        .iter()
        .map(|one| refname::lost_tail(&one.name))
        .collect();
    let changes: Vec<RefChange> = context
        .store
        .lost()?
        .into_iter()
        .filter(|lost| tails.iter().any(|tail| lost.name.ends_with(tail)))
        .map(|lost| RefChange {
            name: lost.name,
            expected: Expected::At(lost.id),
            new: None,
        })
        .collect();
    // One that changed meanwhile is let go of when its time is over.
    let _ = context.repo.swap_refs(&changes)?;
    Ok(())
}

fn push_all(
    context: &Context<'_>,
    redactor: &Redactor,
    purged: &mut Purged,
    audience: &mut Audience<'_>,
) -> Result<()> {
    let rewritten: BTreeSet<RefName> = purged.refs.iter().map(|one| one.name.clone()).collect();
    let places = remote_refs::places(context)?;
    for name in places.unknown {
        let held = fetch::copies(context.repo, &name)?;
        let copies = held.iter().filter(|(copied, _)| rewritten.contains(copied));
        let changes: Vec<RefChange> = copies
            .map(|(copied, id)| RefChange {
                name: copied.at_remote(&name),
                expected: Expected::At(*id),
                new: None,
            })
            .collect();
        if !changes.is_empty() {
            // They hold what was to be purged, and nothing will ever bring them up to date.
            let _ = context.repo.swap_refs(&changes)?;
            let reason = "there is no remote of that name any more".to_owned();
            purged.unreached.push((name, reason));
        }
    }
    for remote in places.remotes {
        let pushed = push_to(context, &remote, &rewritten, audience);
        match pushed {
            Ok(None) => {}
            Ok(Some(changes)) => purged.pushed.push((remote.name.clone(), changes)),
            Err(error) => {
                let reason = error.message().to_owned();
                purged.unreached.push((remote.name, reason));
                continue;
            }
        }
        for (name, id) in of_own(context, &remote.name)? {
            // What cannot be read is refused by everybody's fetch, too.
            if context.store.holds(&name, id, redactor).unwrap_or(false) {
                purged.left.push((remote.name.clone(), name));
            }
        }
    }
    Ok(())
}

/// Brings to a remote what was written again, now or earlier, as far as it has the version before.
fn push_to(
    context: &Context<'_>,
    remote: &Remote,
    rewritten: &BTreeSet<RefName>,
    audience: &mut Audience<'_>,
) -> Result<Option<Vec<Change>>> {
    let own = own_refs(context.repo)?;
    let mut names = rewritten.clone();
    for (name, copy) in of_own(context, &remote.name)? {
        let stale = match own.get(&name) {
            Some(id) => *id != copy && context.store.is_replaced(*id, copy)?,
            None => true,
        };
        if stale {
            names.insert(name);
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let mut there = remote_refs::ask_alone(context, &remote.name, &names)?.there;
    if there.is_empty() {
        return Ok(None);
    }
    // A session goes there only with the archive that has it now.
    if there.iter().any(|name| !own.contains_key(name)) {
        let archives = own
            .into_keys()
            .filter(|name| matches!(name, RefName::Archive { .. }));
        there.extend(archives);
    }
    let options = Options {
        refs: Some(there),
        ..Options::default()
    };
    let changes = push::push(context, remote, &options, audience)?;
    Ok((!changes.is_empty()).then_some(changes))
}

/// Returns the copies of a remote's refs that this clone's writers wrote.
fn of_own(context: &Context<'_>, remote: &str) -> Result<Vec<(RefName, ObjectId)>> {
    let writers = context.store.own_writers()?;
    let mut copies: Vec<(RefName, ObjectId)> =
        fetch::copies(context.repo, remote)?.into_iter().collect();
    copies.retain(|(name, id)| plan::is_by(context, &writers, name, *id));
    Ok(copies)
}
