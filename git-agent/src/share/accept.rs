//! Accepts fetched refs: checks that the content of each fits its name, then names the good ones in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::cores;
use crate::error::{Error, Result};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::transfer::Audience;
use crate::git::{ObjectId, Repo};
use crate::model::review::authorship;
use crate::model::session::{Record, SessionId, WriterId};
use crate::share::fetch::{Copies, own_refs};
use crate::share::outcome::{Change, What};
use crate::share::quarantine::Quarantine;
use crate::signature::{self, SignatureStatus};
use crate::store::archive;
use crate::store::refname::RefName;
use crate::store::sync::validate;

/// A ref whose version at the remote differs from its copy here.
pub(super) struct Wanted {
    name: RefName,
    id: ObjectId,
    /// Its copy here.
    copy: Option<ObjectId>,
    /// This clone's own ref of that name.
    own: Option<ObjectId>,
    /// The writers of the session in archives here.
    folded_by: Vec<WriterId>,
    /// Why it is refused.
    refused: Option<String>,
    session: Option<Record>,
    standing: Option<SignatureStatus>,
}

impl Wanted {
    pub(super) fn new(name: &RefName, id: ObjectId, copy: Option<ObjectId>) -> Self {
        Wanted {
            name: name.clone(),
            id,
            copy,
            own: None,
            folded_by: Vec::new(),
            refused: None,
            session: None,
            standing: None,
        }
    }

    fn change(&self, what: What) -> Change {
        let author = self
            .session
            .as_ref()
            .map(|session| authorship::person(&session.author));
        Change {
            session: self.session.as_ref().map(|session| session.name.clone()),
            author,
            signature: self
                .standing
                .clone()
                .filter(|one| *one != SignatureStatus::None),
            reason: self.refused.clone(),
            ..Change::new(&self.name, what)
        }
    }
}

/// Fetches the wanted refs, checks them and names the good ones. Releases the quarantine.
pub(super) fn take(
    quarantine: Quarantine,
    context: &Context<'_>,
    remote: &str,
    copies: &Copies,
    mut wanted: Vec<Wanted>,
    gone: (&[(RefName, ObjectId)], bool),
    audience: &mut Audience<'_>,
) -> Result<Vec<Change>> {
    let own = own_refs(context.repo)?;
    for one in &mut wanted {
        one.own = own.get(&one.name).copied();
    }
    note_folded(context.repo, &own, copies, &mut wanted);
    let all = wanted.iter().map(|one| one.id).collect();
    let missing = wanted.iter().filter(|one| one.own != Some(one.id));
    let missing = missing.map(|one| one.id).collect();
    let (filled, refused) = quarantine.fill(context, remote, &all, &missing, audience)?;
    for one in &mut wanted {
        one.refused = refused.get(&one.id).cloned();
    }
    audience.hear("checking");
    check_all(context.repo, &mut wanted);
    refuse_rewound(context.repo, &mut wanted)?;
    signature::judge_all(context, &mut wanted_tips(&mut wanted))?;
    let promoted = promote(context, remote, copies, &wanted, gone);
    filled.let_go(context);
    promoted
}

fn wanted_tips(wanted: &mut [Wanted]) -> Vec<signature::Tip<'_>> {
    wanted
        .iter_mut()
        .filter(|wanted| wanted.refused.is_none())
        .map(|wanted| signature::Tip {
            id: wanted.id,
            claimed: wanted
                .session
                .as_ref()
                .map(|session| session.author.email.clone()),
            refused: &mut wanted.refused,
            standing: &mut wanted.standing,
        })
        .collect()
}

/// Records the writers of sessions that have no ref because they were archived, in this clone's own archives or else in
/// those of the same remote.
fn note_folded(
    repo: &Repo,
    own: &BTreeMap<RefName, ObjectId>,
    copies: &Copies,
    wanted: &mut [Wanted],
) {
    let is_new = |one: &&mut Wanted| one.copy.is_none() && one.own.is_none();
    let mut sessions: BTreeMap<SessionId, &mut Wanted> = wanted
        .iter_mut()
        .filter(is_new)
        .filter_map(|one| match one.name {
            RefName::Session(sid) => Some((sid, one)),
            _ => None,
        })
        .collect();
    let months: BTreeSet<String> = sessions.keys().map(|sid| sid.month()).collect();
    for archives in [own, copies] {
        for (name, id) in archives {
            let RefName::Archive { month, .. } = name else {
                continue;
            };
            if !months.contains(month.as_str()) {
                continue;
            }
            // Ignore an unreadable archive.
            let _ = archive::read_archive(repo, *id, month, &mut |archived| {
                if let Some(one) = sessions.get_mut(&archived.session.sid) {
                    one.folded_by.push(archived.session.writer);
                }
                true
            });
        }
        sessions.retain(|_, one| one.folded_by.is_empty());
    }
}

/// Checks all fetched refs on all cores.
fn check_all(repo: &Repo, wanted: &mut [Wanted]) {
    let own = || repo.clone();
    let checked = cores::each(wanted, own, |repo, one| match one.refused {
        None => check_one(repo, one),
        Some(_) => Ok(None),
    });
    for (one, found) in wanted.iter_mut().zip(checked) {
        match found {
            Ok(session) => one.session = session,
            Err(error) => one.refused = Some(error.message().to_owned()),
        }
    }
}

/// Refuses older versions of other writers' refs: writers only add to them, and a rollback by a third party could
/// remove an objection. A rollback of this clone's own refs is accepted, to learn what the remote has lost.
fn refuse_rewound(repo: &Repo, wanted: &mut [Wanted]) -> Result<()> {
    for one in wanted {
        if one.refused.is_none()
            && one.own.is_none()
            && let Some(copy) = one.copy
            && repo.is_ancestor(one.id, copy)?
        {
            one.refused = Some("it is older than the version here".to_owned());
        }
    }
    Ok(())
}

/// Checks one ref. Returns its session, if it is one.
fn check_one(repo: &Repo, wanted: &Wanted) -> Result<Option<Record>> {
    let known: Vec<ObjectId> = wanted.copy.into_iter().chain(wanted.own).collect();
    validate::check(repo, &wanted.name, wanted.id, &known)?;
    let RefName::Session(sid) = &wanted.name else {
        return Ok(None);
    };
    let session = crate::store::log::read_state(repo, wanted.id, *sid)?;
    let writer_at = |id| {
        let state = crate::store::log::read_state(repo, id, *sid);
        state.ok().map(|before| before.writer)
    };
    let before = wanted.own.and_then(writer_at);
    let before = before.or_else(|| wanted.copy.and_then(writer_at));
    let known = before.map_or(wanted.folded_by.clone(), |writer| vec![writer]);
    if !known.is_empty() && !known.contains(&session.writer) {
        return Err(Error::fatal("its writer has changed"));
    }
    Ok(Some(session))
}

/// Names the good refs and keeps replaced or deleted versions, in one transaction.
fn promote(
    context: &Context<'_>,
    remote: &str,
    copies: &Copies,
    wanted: &[Wanted],
    (gone, prune): (&[(RefName, ObjectId)], bool),
) -> Result<Vec<Change>> {
    let repo = context.repo;
    let mut transaction = Vec::new();
    let mut changes = Vec::new();
    let keep = |name: &str, id: ObjectId, transaction: &mut Vec<RefChange>| {
        let kept = context.store.lost_name(name);
        transaction.push(RefChange {
            name: kept.clone(),
            expected: Expected::Absent,
            new: Some(id),
        });
        kept
    };
    for one in wanted {
        if one.refused.is_some() {
            changes.push(one.change(What::Refused));
            continue;
        }
        let name = one.name.at_remote(remote);
        let mut change = one.change(What::New);
        if let Some(copy) = one.copy {
            change.what = What::Updated;
            if !repo.is_ancestor(copy, one.id)? {
                change.what = What::Rewritten;
                change.kept = Some(keep(&name, copy, &mut transaction));
            }
        }
        transaction.push(RefChange {
            name,
            expected: one.copy.map_or(Expected::Absent, Expected::At),
            new: Some(one.id),
        });
        changes.push(change);
    }
    let folded = folded_tips(repo, copies, wanted, gone)?;
    for (ref_name, id) in gone {
        let name = ref_name.at_remote(remote);
        let in_archive = match ref_name {
            RefName::Session(sid) => folded.get(sid),
            _ => None,
        };
        let mut change = Change::new(ref_name, What::Gone);
        // The archive has all of it, so deleting the ref loses nothing.
        if in_archive.is_some_and(|tip| repo.is_ancestor(*id, *tip).unwrap_or(false)) {
            change.what = What::Folded;
        } else if prune {
            change.what = What::Deleted;
            change.kept = Some(keep(&name, *id, &mut transaction));
        }
        if change.what != What::Gone {
            transaction.push(RefChange {
                name,
                expected: Expected::At(*id),
                new: None,
            });
        }
        changes.push(change);
    }
    match repo.swap_many(&transaction)? {
        Swap::Done => Ok(changes),
        Swap::Stale => Err(Error::fatal(format!(
            "copies of refs of '{}' changed during the fetch",
            remote
        ))
        .hint("git agent fetch")),
    }
}

/// Returns the tips of the sessions in a remote's archives, new ones included, for the sessions whose refs are gone.
fn folded_tips(
    repo: &Repo,
    copies: &Copies,
    wanted: &[Wanted],
    gone: &[(RefName, ObjectId)],
) -> Result<BTreeMap<SessionId, ObjectId>> {
    let mut tips = BTreeMap::new();
    let months: BTreeSet<String> = gone.iter().filter_map(|(name, _)| name.month()).collect();
    if months.is_empty() {
        return Ok(tips);
    }
    let came = wanted
        .iter()
        .filter(|one| one.refused.is_none())
        .map(|one| (one.name.clone(), one.id));
    let known = copies.iter().map(|(name, id)| (name.clone(), *id));
    for (name, id) in came.chain(known) {
        let RefName::Archive { month, .. } = &name else {
            continue;
        };
        if months.contains(month.as_str()) {
            // Ignore an unreadable archive; the deleted version is then kept.
            let _ = archive::read_archive(repo, id, month, &mut |archived| {
                tips.entry(archived.session.sid).or_insert(archived.tip);
                true
            });
        }
    }
    Ok(tips)
}
