//! Refs that moved and verdicts that were given while foreign code ran: a review by an agent, a test, a setup command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::context::Context;
use crate::error::Result;
use crate::guard::policy::Own;
use crate::guard::watch::{Refs, Scope, Subject};
use crate::model::review::Verdict;
use crate::model::review::standing::is_unnamed;
use crate::model::session::{SessionId, Ulid};
use crate::review::records;
use crate::session::supervisor::launch;
use crate::store::list;
use crate::store::refname::is_ours;

/// How the repository was before the code ran.
#[derive(Debug)]
pub struct Meanwhile {
    refs: Refs,
    verdicts: BTreeSet<Ulid>,
    busy: BTreeSet<String>,
}

impl Meanwhile {
    /// Looks at the repository before.
    pub fn begin(context: &Context<'_>) -> Result<Self> {
        let reviews = records::load(context)?;
        let given = reviews.sessions.values();
        Ok(Meanwhile {
            refs: Refs::take(context.repo)?,
            verdicts: given
                .flat_map(|review| review.verdicts.values())
                .map(|given| given.id)
                .collect(),
            busy: busy(context)?,
        })
    }

    /// Describes the refs that moved and the verdicts given since; `when` says since when. Running sessions may move their
    /// own branches, and the process in the worktree at `home` may move its HEAD.
    pub fn end(&self, context: &Context<'_>, home: &Path, when: &str) -> Result<Vec<String>> {
        let busy = busy(context)?;
        let is_known =
            |name: &str| is_ours(name) || busy.contains(name) || self.busy.contains(name);
        let scope = Scope {
            own: &Own::of_worktree(),
            worktree: home,
            git_dir: Path::new(""),
            is_known: &is_known,
        };
        let after = Refs::take(context.repo)?;
        let changes = self.refs.compare(context.repo, &after, &scope)?;
        let mut told: Vec<String> = changes
            .iter()
            // The HEAD of a worktree that was created or removed with its session is not a move.
            .filter(|change| matches!(change.subject, Subject::Ref(_)) || change.after.is_some())
            .map(|change| format!("{change} {when}"))
            .collect();
        told.extend(self.decided(context, when)?);
        Ok(told)
    }

    /// Returns the verdicts that were given since.
    fn decided(&self, context: &Context<'_>, when: &str) -> Result<Vec<String>> {
        let names = names(context)?;
        let mut told = Vec::new();
        for (sid, review) in records::load(context)?.sessions {
            let fresh = |id: &Ulid| !self.verdicts.contains(id);
            for given in (review.verdicts.values()).filter(|given| fresh(&given.id)) {
                let did = match given.verdict {
                    Verdict::Approve => "approved",
                    Verdict::RequestChanges => "requested changes to",
                    Verdict::Reject => "rejected",
                };
                let name = names.get(&sid).map_or(sid.as_str(), String::as_str);
                let end = if is_unnamed(&review, given) {
                    "; it does not count: it was given inside a session"
                } else {
                    ""
                };
                told.push(format!("'{}' {did} '{name}' {when}{end}", given.who.name));
            }
        }
        Ok(told)
    }
}

/// Returns the branches of sessions whose agents may be at work.
fn busy(context: &Context<'_>) -> Result<BTreeSet<String>> {
    let mut branches = BTreeSet::new();
    for listed in context.store.list(list::Scope::Mine)?.sessions {
        let session = listed.session;
        let Some(branch) = &session.branch else {
            continue;
        };
        let at_work = session.status.needs_supervisor()
            || launch::running(&context.store, session.sid)?.is_some();
        if at_work {
            branches.insert(format!("refs/heads/{branch}"));
        }
    }
    Ok(branches)
}

fn names(context: &Context<'_>) -> Result<BTreeMap<SessionId, String>> {
    let all = context.store.list(list::Scope::Mine)?.sessions;
    let names = all
        .into_iter()
        .map(|listed| (listed.session.sid, listed.session.record.name));
    Ok(names.collect())
}
