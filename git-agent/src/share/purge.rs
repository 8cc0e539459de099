//! Taking a secret out of this clone's own records, here and at every remote that has them.
//!
//! What this cannot reach is said, not hidden: code, snapshots, clones of others, and what a host keeps of rewritten refs.

use std::collections::BTreeSet;

use super::change::Change;
use super::fetch::own_refs;
use super::push::{self, Options};
use super::remote::Remote;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange};
use crate::git::talk::Audience;
use crate::redact::{KnownSecrets, Redactor};
use crate::session::context::Context;
use crate::session::{SessionId, agents};
use crate::store::refname::{self, RefName};
use crate::store::rewrite::Rewritten;

/// What was purged.
#[derive(Debug, Default)]
pub struct Purged {
    /// The refs that were written again.
    pub refs: Vec<Rewritten>,
    /// The refs that could not be written again, and why.
    pub kept: Vec<(RefName, String)>,
    /// The sessions whose commands, which this clone keeps as they were typed, held something.
    pub commands: Vec<SessionId>,
    /// What was done at remotes.
    pub pushed: Vec<(String, Vec<Change>)>,
    /// Remotes that could not be reached, and why.
    pub unreached: Vec<(String, String)>,
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
    purged.commands = agents::purge_commands(&context.store, &redactor)?;
    if !local {
        push_all(context, &mut purged, audience)?;
    }
    Ok(purged)
}

fn redactor(context: &Context<'_>, secrets: &[Vec<u8>]) -> Result<Redactor> {
    let mut known = KnownSecrets::new();
    for secret in secrets {
        let before = known.len();
        known.add_value(secret);
        if known.len() == before {
            return Err(Error::fatal(
                "a value to be purged is too short or too common to be told from other text",
            ));
        }
    }
    known.add_environment(context.env.vars_os());
    Ok(Redactor::new(known))
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

fn push_all(context: &Context<'_>, purged: &mut Purged, audience: &mut Audience<'_>) -> Result<()> {
    let refs: BTreeSet<RefName> = purged.refs.iter().map(|one| one.name.clone()).collect();
    for name in context.repo.remote_names() {
        let copies = super::fetch::copies(context.repo, &name)?;
        let there: BTreeSet<RefName> = refs
            .iter()
            .filter(|name| copies.contains_key(name))
            .cloned()
            .collect();
        if there.is_empty() {
            continue;
        }
        let remote = Remote::choose(context, Some(&name))?;
        let options = Options {
            refs: Some(there),
            ..Options::default()
        };
        match push::push(context, &remote, &options, audience) {
            Ok(changes) => purged.pushed.push((name, changes)),
            Err(error) => purged.unreached.push((name, error.message().to_owned())),
        }
    }
    Ok(())
}
