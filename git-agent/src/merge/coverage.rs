//! Decides which work the approvals of a session cover.
//!
//! A reviewer has seen only the changes since the commit that the review was compared with. Any other commit that the
//! merge would bring in must be approved as the work of another session that is merged in the same run or was merged
//! before.

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::merge::candidates::{self, Candidate, Target};
use crate::model::merge::plan::Needed;
use crate::model::merge::{LeftOut, Why};
use crate::model::session::{Session, SessionId, State};
use crate::selection;
use crate::session::worktree::base::{self, Branches};
use crate::store::list::Scope;

/// An approved session that has not changed since.
#[derive(Debug)]
pub struct Approved {
    /// The session and its work.
    pub candidate: Candidate,
    /// The commit that each approval was compared with, from its record.
    pub against: Vec<String>,
}

/// Splits the sessions into those whose every commit is approved and the rest. A session that is covered only together
/// with another one needs that one.
pub fn sift(
    context: &Context<'_>,
    target: &Target,
    approved: Vec<Approved>,
) -> Result<(Vec<Candidate>, Vec<LeftOut>)> {
    let mut known = Known {
        context,
        target,
        tips: None,
    };
    let mut goes: Vec<Candidate> = Vec::new();
    let mut waiting = approved;
    // A session may come before the one that it builds on, so repeat until nothing changes.
    loop {
        let many = goes.len();
        let mut rest = Vec::new();
        for mut one in waiting {
            match covered(&mut known, &one, &goes)? {
                Some(with) => {
                    one.candidate.needs.extend(with);
                    goes.push(one.candidate);
                }
                None => rest.push(one),
            }
        }
        waiting = rest;
        if goes.len() == many {
            break;
        }
    }
    let mut stays = Vec::new();
    for one in waiting {
        let why = match missing(context, target, &one.candidate, &goes) {
            Some(name) => Why::Needs(name),
            None => unseen(&mut known, &one)?,
        };
        stays.push(LeftOut {
            why,
            sid: one.candidate.session.sid,
            name: one.candidate.session.record.name,
        });
    }
    Ok((goes, stays))
}

/// Returns the sessions that one session needs to be covered: empty if one of its own approvals covers it, `None` if
/// nothing covers it.
fn covered(
    known: &mut Known<'_>,
    one: &Approved,
    goes: &[Candidate],
) -> Result<Option<Vec<SessionId>>> {
    let repo = known.context.repo;
    let bases = || {
        let found = |hex: &String| base::recorded(repo, Some(hex.as_str()));
        one.against.iter().filter_map(found)
    };
    for base in bases() {
        if known.holds(base)? {
            return Ok(Some(Vec::new()));
        }
    }
    for base in bases() {
        let mut with: Vec<&Candidate> = goes.iter().collect();
        if !known.holds_with(base, &with)? {
            continue;
        }
        for candidate in goes {
            let fewer: Vec<&Candidate> = (with.iter().copied())
                .filter(|other| other.session.sid != candidate.session.sid)
                .collect();
            if known.holds_with(base, &fewer)? {
                with = fewer;
            }
        }
        return Ok(Some(with.iter().map(|other| other.session.sid).collect()));
    }
    Ok(None)
}

/// Returns the name of a session that one builds on and that neither goes in nor is merged already.
fn missing(
    context: &Context<'_>,
    target: &Target,
    candidate: &Candidate,
    goes: &[Candidate],
) -> Option<String> {
    let stays = |sid: &&SessionId| goes.iter().all(|other| other.session.sid != **sid);
    let name = |sid: &SessionId| match candidates::needed(context, target, *sid) {
        Needed::Missing(name) => Some(name),
        Needed::Landed => None,
    };
    candidate.needs.iter().filter(stays).find_map(name)
}

/// Returns why the approvals do not cover a session.
fn unseen(known: &mut Known<'_>, one: &Approved) -> Result<Why> {
    let repo = known.context.repo;
    let against = one.against.first().map_or("", String::as_str);
    let commits = match base::recorded(repo, Some(against)) {
        Some(base) => repo.count_beyond(base, known.tips()?)?,
        None => 0,
    };
    Ok(Why::Unseen {
        into: known.target.branch.clone(),
        from: against.chars().take(10).collect(),
        commits,
    })
}

/// Commits that need no approval for this merge, because the target has them, perhaps squashed or rebased.
struct Known<'a> {
    context: &'a Context<'a>,
    target: &'a Target,
    tips: Option<Vec<ObjectId>>,
}

impl Known<'_> {
    fn holds(&mut self, commit: ObjectId) -> Result<bool> {
        if self.context.repo.is_ancestor(commit, self.target.tip)? {
            return Ok(true);
        }
        self.holds_with(commit, &[])
    }

    fn holds_with(&mut self, commit: ObjectId, with: &[&Candidate]) -> Result<bool> {
        let repo = self.context.repo;
        let mut tips = self.tips()?.to_vec();
        tips.extend(with.iter().map(|candidate| candidate.work.tip));
        repo.reaches_any(&tips, commit)
    }

    fn tips(&mut self) -> Result<&[ObjectId]> {
        if self.tips.is_none() {
            self.tips = Some(self.find()?);
        }
        Ok(self.tips.as_deref().unwrap_or_default())
    }

    /// Returns the tips that need no approval: the target, its upstream, and the work of sessions that were squashed or
    /// rebased into the target.
    fn find(&self) -> Result<Vec<ObjectId>> {
        let repo = self.context.repo;
        let mut tips = Branches::of(repo).tips_of(Some(&self.target.branch))?;
        tips.push(self.target.tip);
        for listed in selection::list(self.context, Scope::Mine)?.sessions {
            if let Some((work, landed)) = landed(self.context, &listed.session)
                && repo.is_ancestor(landed, self.target.tip)?
            {
                tips.push(work);
            }
        }
        Ok(tips)
    }
}

/// Returns the work of a merged session and the commit that brought it into the target.
fn landed(context: &Context<'_>, session: &Session) -> Option<(ObjectId, ObjectId)> {
    if session.status != State::Merged {
        return None;
    }
    let found = |hex: Option<&str>| base::recorded(context.repo, hex);
    let commit = session.settings.merged.as_deref();
    Some((found(session.code.as_deref())?, found(commit)?))
}
