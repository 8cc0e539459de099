//! Predicts conflicts: each session against its target branch, and each two sessions against each other, uncommitted
//! changes included.
//!
//! Two sessions conflict only at paths that both changed themselves. A change that a session only inherited from its
//! branch counts as a conflict with that branch.

mod judge;
mod memory;
mod side;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::cores;
use crate::error::{Error, Result};
use crate::git::{ObjectId, Repo};
use crate::merge::conflicts::judge::Judge;
use crate::model::known::Finding;
use crate::model::session::{Session, SessionId, State};
use crate::session::worktree::work;
use crate::store::list::Listed;
pub use side::{Look, Side};

/// Conflicting line ranges of both sides, first and last, from 1. If the last is below the first, the range is empty:
/// that side deleted the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// Lines of the first side.
    pub ours: [usize; 2],
    /// Lines of the second side.
    pub theirs: [usize; 2],
}

/// A conflicting path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clashing {
    /// The path; empty if the conflict has no single path.
    pub path: String,
    /// git's names for the kinds of conflict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kinds: Vec<String>,
    /// The conflicting lines, for a content conflict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lines: Vec<Lines>,
}

/// Result of a predicted merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairResult {
    /// The two merge cleanly.
    Clean,
    /// They conflict at these paths.
    Conflict(Vec<Clashing>),
    /// They share no history.
    Unrelated,
}

impl PairResult {
    /// Returns the word for the output.
    pub fn as_str(&self) -> &'static str {
        match self {
            PairResult::Clean => "clean",
            PairResult::Conflict(_) => "conflict",
            PairResult::Unrelated => "unrelated",
        }
    }

    /// Returns the conflicting paths.
    pub fn clashing(&self) -> &[Clashing] {
        match self {
            PairResult::Conflict(clashing) => clashing,
            _ => &[],
        }
    }
}

#[derive(Debug, Clone)]
pub struct Pair {
    /// The first side: a branch or a session.
    pub ours: Side,
    /// The second side: a session.
    pub theirs: Side,
    /// The result of merging the second side into the first.
    pub verdict: PairResult,
}

/// Options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The branch to compare with, instead of each session's parent.
    pub into: Option<String>,
    /// Compare only pairs with one of these sessions, if any are given.
    pub only: Vec<SessionId>,
    /// Where to look for uncommitted work.
    pub look: Look,
}

/// The results of all compared pairs.
#[derive(Debug, Default)]
pub struct Matrix {
    /// The sessions that have work, oldest first.
    pub sessions: Vec<Side>,
    /// Sessions against branches.
    pub against: Vec<Pair>,
    /// Sessions against each other.
    pub between: Vec<Pair>,
    /// Sessions that could not be compared, each with the reason.
    pub left_out: Vec<(String, String)>,
}

impl Matrix {
    /// Returns all pairs, those with branches first.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.against.iter().chain(&self.between)
    }

    /// Returns the number of a session's pairs that conflict.
    pub fn conflicts_of(&self, sid: SessionId) -> usize {
        let of = |pair: &&Pair| pair.ours.session == Some(sid) || pair.theirs.session == Some(sid);
        let bad = |pair: &&Pair| pair.verdict != PairResult::Clean;
        self.pairs().filter(of).filter(bad).count()
    }

    /// Returns whether every pair merges cleanly.
    pub fn is_clean(&self) -> bool {
        self.pairs().all(|pair| pair.verdict == PairResult::Clean)
    }
}

/// Returns whether a session may have work of its own that can conflict.
pub fn has_work(session: &Session) -> bool {
    let unmade = matches!(
        session.status,
        State::Draft | State::Queued | State::Preparing
    );
    let nothing_yet = unmade && session.turns == 0;
    !session.status.is_closed() && !nothing_yet && session.resolves().is_none()
}

/// Compares sessions with their target branches and with each other.
pub fn matrix(context: &Context<'_>, listed: &[Listed], options: &Options) -> Result<Matrix> {
    let repo = context.repo;
    let mut matrix = Matrix::default();
    let sessions: Vec<&Session> = listed
        .iter()
        .map(|listed| &listed.session)
        .filter(|session| has_work(session))
        .collect();
    let mut targets = Vec::new();
    for (session, side) in sessions.iter().zip(sides(context, &sessions, options.look)) {
        let side = match side {
            Ok(Some(side)) => side,
            Ok(None) => continue,
            Err(error) => {
                let left_out = (session.name.clone(), error.message().to_owned());
                matrix.left_out.push(left_out);
                continue;
            }
        };
        targets.push(options.into.clone().or_else(|| session.parent.clone()));
        matrix.sessions.push(side);
    }
    let branches = Branches::load(repo, options.into.as_deref(), &targets)?;
    let mut judge = Judge::new(context, branches.first())?;
    for (side, target) in matrix.sessions.iter_mut().zip(&targets) {
        if let Some(branch) = target.as_deref().and_then(|name| branches.get(name)) {
            side.base = judge.only_merge_base(branch, side)?;
        }
    }
    let wanted = |sid: Option<SessionId>| {
        options.only.is_empty() || sid.is_some_and(|sid| options.only.contains(&sid))
    };
    let mut pairs: Vec<(&Side, &Side)> = Vec::new();
    for (side, target) in matrix.sessions.iter().zip(&targets) {
        if let Some(branch) = target.as_deref().and_then(|name| branches.get(name))
            && wanted(side.session)
        {
            pairs.push((branch, side));
        }
    }
    let against = pairs.len();
    for (index, one) in matrix.sessions.iter().enumerate() {
        for other in &matrix.sessions[index + 1..] {
            // Sessions that share a worktree have the same work.
            if (wanted(one.session) || wanted(other.session)) && one.commit != other.commit {
                pairs.push((one, other));
            }
        }
    }
    let verdicts = judge.judge(&pairs)?;
    let mut judged: Vec<Pair> = pairs
        .into_iter()
        .zip(verdicts)
        .map(|((ours, theirs), verdict)| Pair {
            ours: ours.clone(),
            theirs: theirs.clone(),
            verdict,
        })
        .collect();
    matrix.between = judged.split_off(against);
    matrix.against = judged;
    Ok(matrix)
}

/// Returns, for each session, the paths that conflict with its target branch, as far as they are known. A session
/// without work has no result; an error leaves the result unknown.
pub fn with_parents(context: &Context<'_>, sessions: &[&Session]) -> Vec<Finding<Vec<String>>> {
    let mut found: Vec<Finding<Vec<String>>> = Vec::with_capacity(sessions.len());
    let mut pairs: Vec<(usize, Side, Side)> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, session) in sessions.iter().enumerate() {
        found.push(Finding::Nothing);
        if !has_work(session) {
            continue;
        }
        match pair_with_parent(context, session, &mut known) {
            Ok(Some((branch, side))) => pairs.push((index, branch, side)),
            Ok(None) => {}
            Err(_) => found[index] = Finding::Unknown,
        }
    }
    if pairs.is_empty() {
        return found;
    }
    let attributes = pairs.first().map(|(_, branch, _)| branch.tip);
    let asked: Vec<_> = pairs
        .iter()
        .map(|(_, branch, side)| (branch, side))
        .collect();
    let verdicts = Judge::new(context, attributes).and_then(|mut judge| judge.judge(&asked));
    for (at, (index, ..)) in pairs.iter().enumerate() {
        found[*index] = match &verdicts {
            Err(_) => Finding::Unknown,
            Ok(verdicts) => match &verdicts[at] {
                PairResult::Clean => Finding::Nothing,
                PairResult::Unrelated => Finding::Unknown,
                PairResult::Conflict(clashing) => {
                    Finding::Known(clashing.iter().map(|one| one.path.clone()).collect())
                }
            },
        };
    }
    found
}

fn pair_with_parent(
    context: &Context<'_>,
    session: &Session,
    known: &mut BTreeMap<String, Option<Side>>,
) -> Result<Option<(Side, Side)>> {
    let Some(parent) = session.parent.as_deref() else {
        return Ok(None);
    };
    let branch = match known.get(parent) {
        Some(branch) => branch.clone(),
        None => {
            let branch = Side::of_branch(context.repo, parent)?;
            known.insert(parent.to_owned(), branch.clone());
            branch
        }
    };
    let Some(branch) = branch else {
        return Ok(None);
    };
    let side = Side::of_session(context, session, Look::Recorded)?;
    Ok(side.map(|side| (branch, side)))
}

/// The target branches of the sessions, each read once.
struct Branches(Vec<Side>);

impl Branches {
    fn load(repo: &Repo, into: Option<&str>, targets: &[Option<String>]) -> Result<Self> {
        let mut branches: Vec<Side> = Vec::new();
        if let Some(into) = into {
            let missing = || {
                Error::fatal(format!("branch '{into}' does not exist")).hint("git branch --list")
            };
            branches.push(Side::of_branch(repo, into)?.ok_or_else(missing)?);
        }
        for name in targets.iter().flatten() {
            if !branches.iter().any(|side| side.name == *name) {
                branches.extend(Side::of_branch(repo, name)?);
            }
        }
        Ok(Branches(branches))
    }

    fn get(&self, name: &str) -> Option<&Side> {
        self.0.iter().find(|side| side.name == name)
    }

    /// Returns the commit that attributes are read from.
    fn first(&self) -> Option<ObjectId> {
        self.0.first().map(|side| side.tip)
    }
}

/// Returns the work of each session. Worktrees are read on all cores, because most of the time goes to the file system.
fn sides(context: &Context<'_>, sessions: &[&Session], look: Look) -> Vec<Result<Option<Side>>> {
    if look == Look::Recorded {
        return sessions
            .iter()
            .map(|session| Side::of_session(context, session, look))
            .collect();
    }
    let places: Vec<_> = sessions
        .iter()
        .map(|session| (*session, work::checkout(context, session)))
        .collect();
    let own = || context.repo.clone();
    let looked = cores::each(&places, own, |repo, (session, place)| {
        let at = place.as_ref().ok()?.as_ref()?;
        Some(Side::of_worktree(repo, session, at))
    });
    // A session without a worktree is taken from its record.
    looked
        .into_iter()
        .zip(sessions)
        .map(|(side, session)| {
            side.unwrap_or_else(|| Side::of_session(context, session, Look::Recorded))
        })
        .collect()
}
