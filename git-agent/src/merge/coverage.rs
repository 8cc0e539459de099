//! What approvals cover: whoever approves a session has seen what came after the commit it was judged against, and no more.
//! What a merge would bring beside that must be approved as the work of another session that lands with it or has landed.

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::merge::candidates::{Candidate, Target};
use crate::model::merge::{LeftOut, Why};
use crate::model::session::{Session, SessionId, State};
use crate::selection;
use crate::session::worktree::base::{self, Branches};
use crate::store::list::Scope;

/// A session that is approved as it is.
#[derive(Debug)]
pub struct Approved {
    /// The session and its work.
    pub candidate: Candidate,
    /// What each approval was judged against, as its record says.
    pub against: Vec<String>,
}

/// Returns the sessions of which everything that would land was approved, and the others. One that is covered only
/// together with another session needs that one.
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
    // What a session builds on may come after it.
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
        stays.push(LeftOut {
            why: unseen(&mut known, &one)?,
            sid: one.candidate.session.sid,
            name: one.candidate.session.name,
        });
    }
    Ok((goes, stays))
}

/// Returns the sessions with which one is covered, none of which it needs where an approval covers it alone; `None` when
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

/// Returns why an approval does not let a session land.
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

/// What nobody has to approve for this merge: it is in the target, or came there in another form.
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

    /// Returns the target, where this clone gets it from, and the work of sessions that landed in it: squashed or rebased
    /// it is there by other commits.
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

/// Returns the work of a session that has landed, and the commit by which it did.
fn landed(context: &Context<'_>, session: &Session) -> Option<(ObjectId, ObjectId)> {
    if session.status != State::Merged {
        return None;
    }
    let found = |hex: Option<&str>| base::recorded(context.repo, hex);
    let commit = session.settings.merged.as_deref();
    Some((found(session.code.as_deref())?, found(commit)?))
}
