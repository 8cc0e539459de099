//! Removes a secret from this clone's own records, here and at every remote that has them.
//!
//! The report names what a purge cannot reach: code, snapshots, clones of teammates, and old objects that a host keeps.

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

/// Result of a purge.
#[derive(Debug, Default)]
pub struct Purged {
    pub refs: Vec<Rewritten>,
    /// The refs that could not be rewritten, and why.
    pub kept: Vec<(RefName, String)>,
    /// Old versions in the trash that were rewritten.
    pub kept_versions: Vec<String>,
    /// Sessions whose code contains a secret, and where. Code is not rewritten.
    pub code: Vec<(String, String)>,
    /// The sessions whose command line, which this clone keeps as typed, contained a secret.
    pub commands: Vec<SessionId>,
    /// The changes at remotes.
    pub pushed: Vec<(String, Vec<Change>)>,
    /// Remotes that could not be reached, and why.
    pub unreached: Vec<(String, String)>,
    /// Refs of this clone at remotes that still contain a secret.
    pub left: Vec<(String, RefName)>,
}

/// Returns the known versions of a ref at remotes.
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

/// Rewrites this clone's refs without these values and without everything that today's redaction rules match. With
/// `local`, remotes are left alone.
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
    // The git notes that show reviews are made from the review notes.
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
                "a value to purge is too short or too common to be found reliably",
            ));
        }
    }
    Ok(Redactor::new(known))
}

/// Returns the names of this clone's sessions whose logs carry code with a secret, and where.
fn code_with(context: &Context<'_>, redactor: &Redactor) -> Result<Vec<(String, String)>> {
    let clean = CleanCode::default();
    // A purge cannot change the branches of any remote, so their commits need no search.
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
            carried.push((listed.session.record.name, code));
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

/// Deletes the old versions of the rewritten refs from the trash, because they contain the secret.
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
    // One that changed meanwhile stays until it expires.
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
            // The copies contain the secret, and no fetch will ever update them.
            let _ = context.repo.swap_refs(&changes)?;
            let reason = "the remote was removed or renamed".to_owned();
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
            // Every clone's fetch refuses an unreadable ref.
            if context.store.holds(&name, id, redactor).unwrap_or(false) {
                purged.left.push((remote.name.clone(), name));
            }
        }
    }
    Ok(())
}

/// Pushes the refs that were rewritten now or earlier, if the remote has an old version of them.
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
    // Push an archived session only together with its archive.
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
