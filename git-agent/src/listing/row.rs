//! One row about a session: its record, and its current state in git and on this machine. Every listing and every
//! `--json` of sessions uses it.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
pub use crate::git::diff::counts::Changes;
use crate::git::diff::worktree_counts::Since;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::{self, Worktree};
use crate::git::{ObjectId, RefBackend, Repo};
use crate::listing::waits;
use crate::merge::conflicts;
use crate::model::known::{Comments, Finding};
use crate::model::review::authorship::Authorship;
use crate::model::session::{Exit, Progress, Session, State, Usage};
use crate::review::records;
use crate::session::supervisor::launch;
use crate::session::worktree::base::{self, Branches};
use crate::session::worktree::work;
use crate::signature::cache;
use crate::store::list::Listed;

/// A session in one row.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The session's id.
    pub id: String,
    /// The session's name.
    pub name: String,
    /// Its actual state: a session with a dead supervisor is interrupted.
    pub state: State,
    /// Its task, perhaps shortened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The agent's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The model, if one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The role, if one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The guard level of its last turn; nothing before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// How many times the guard was seen to refuse a path; nothing for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u32>,
    /// The group it was created in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The branch it was created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The session's branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its worktree, for sessions of this clone that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Its author, as `name <email>`.
    pub author: String,
    /// Whether the author is verified or only claimed; absent for sessions of this clone.
    #[serde(rename = "standing", skip_serializing_if = "Option::is_none")]
    pub claim: Option<Authorship>,
    /// Whether this clone writes it.
    pub mine: bool,
    /// When it was created.
    #[serde(serialize_with = "moment")]
    pub created: Millis,
    /// When it last changed.
    #[serde(serialize_with = "moment")]
    pub updated: Millis,
    /// How long its agent has worked, over all turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<u64>,
    pub turns: u32,
    /// Progress of the agent's own plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The size of its changes since it left its parent.
    #[serde(skip_serializing_if = "Finding::is_nothing", serialize_with = "counts")]
    pub changes: Finding<Changes>,
    /// How many files a teammate had not committed at the last push; they are not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unshared: Option<u64>,
    /// Commits that its parent lacks.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub ahead: Finding<u64>,
    /// Commits of its parent that it lacks.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub behind: Finding<u64>,
    /// Paths that conflict with its parent.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub conflicts: Finding<Vec<String>>,
    /// The number of its review comments.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub comments: Finding<Comments>,
    /// The reviewers' verdict.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub verdict: Finding<String>,
    /// Tokens and cost so far.
    #[serde(skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// The pid of its supervisor, while one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How the last turn ended, and why the session is in its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The record that the row was made from.
    #[serde(skip)]
    pub session: Session,
    /// Whether it is in an archive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The remote it was fetched from, for a teammate's session.
    #[serde(skip)]
    pub remote: Option<String>,
    /// The newest commit of its log.
    #[serde(skip)]
    pub tip: Option<ObjectId>,
    /// Why it is queued, in words.
    #[serde(skip)]
    pub waits: Option<String>,
    /// The number of sessions before it in the queue.
    #[serde(skip)]
    pub ahead_in_queue: Option<usize>,
}

fn moment<S: Serializer>(at: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at))
}

/// Returns a time in ISO 8601: `2026-11-16T04:08:45.123Z`.
pub fn timestamp(at: Millis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |at| at.to_string())
}

fn counts<S: Serializer>(changes: &Finding<Changes>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Counts {
        files: u64,
        added: u64,
        deleted: u64,
        uncommitted: u64,
    }
    let counts = changes.known().map(|changes| Counts {
        files: changes.files,
        added: changes.added,
        deleted: changes.deleted,
        uncommitted: changes.uncommitted,
    });
    counts.serialize(serializer)
}

impl Summary {
    /// Returns the row from the record alone.
    pub fn of_record(listed: &Listed, now: Millis) -> Self {
        let session = listed.session.clone();
        let author = match (session.author.name.as_str(), session.author.email.as_str()) {
            (name, "") => name.to_owned(),
            (name, email) => format!("{name} <{email}>"),
        };
        let mut summary = Summary {
            id: session.sid.to_string(),
            name: session.name.clone(),
            state: session.status,
            task: session.task.clone(),
            agent: session.agent.clone(),
            model: session.model.clone(),
            role: session.role.clone(),
            guard: guard(&session),
            refused: session.settings.refused,
            group: session.group.clone(),
            parent: session.parent.clone(),
            branch: session.branch.clone(),
            worktree: session.local.worktree.clone(),
            author,
            claim: None,
            mine: listed.is_mine(),
            created: session.created,
            updated: session.updated,
            elapsed_seconds: None,
            turns: session.turns,
            progress: session.progress,
            changes: Finding::Nothing,
            unshared: session.unshared().filter(|_| !listed.is_mine()),
            ahead: Finding::Nothing,
            behind: Finding::Nothing,
            conflicts: Finding::Nothing,
            comments: Finding::Nothing,
            verdict: Finding::Nothing,
            usage: session.usage,
            pid: None,
            exit: session.exit.clone(),
            archived: listed.archived,
            remote: listed.remote.clone(),
            tip: listed.tip,
            waits: None,
            ahead_in_queue: None,
            session,
        };
        summary.touch(now);
        summary
    }

    /// Returns the row of one of this clone's sessions from its record alone.
    pub fn of_own(session: &Session, now: Millis) -> Self {
        Summary::of_record(&Listed::own(session.clone()), now)
    }

    /// Updates the fields that depend on the current time.
    pub fn touch(&mut self, now: Millis) {
        let session = &self.session;
        let current = session.turn_started.map_or(0, |started| {
            // After its supervisor died, no agent works; the time runs until that was noticed.
            let end = if session.status.is_working() || session.status == State::Interrupted {
                now
            } else {
                session.updated
            };
            end.0.saturating_sub(started.0)
        });
        self.elapsed_seconds = (session.turns > 0).then_some((session.worked_ms + current) / 1000);
    }

    /// Copies fields that an earlier row of the same session has already determined.
    pub fn adopt(&mut self, before: &Summary) {
        self.state = before.state;
        self.changes = before.changes;
        self.ahead = before.ahead;
        self.behind = before.behind;
        self.conflicts.clone_from(&before.conflicts);
        self.pid = before.pid;
        self.comments = before.comments;
        self.verdict.clone_from(&before.verdict);
        self.claim = before.claim;
        self.waits.clone_from(&before.waits);
        self.ahead_in_queue = before.ahead_in_queue;
        if !before.mine {
            self.disown();
        }
    }

    /// Makes it the row of a teammate's session.
    fn disown(&mut self) {
        self.mine = false;
        self.worktree = None;
    }
}

/// Returns a row for each session. Fields that cannot be determined stay unknown; nothing makes it fail.
pub fn summarize(context: &Context<'_>, sessions: &[Listed]) -> Vec<Summary> {
    let now = context.env.now();
    let mut rows: Vec<Summary> = sessions
        .iter()
        .map(|listed| Summary::of_record(listed, now))
        .collect();
    look(context, &mut rows.iter_mut().collect::<Vec<_>>());
    rows
}

/// Adds whether the names of other authors are verified.
fn judge_authors(context: &Context<'_>, rows: &mut [&mut Summary]) {
    let mut theirs: Vec<&mut &mut Summary> = rows.iter_mut().filter(|row| !row.mine).collect();
    let tips: Vec<ObjectId> = theirs.iter().filter_map(|row| row.tip).collect();
    let mut signed = cache::signers(&context.store, &tips).into_iter();
    for row in &mut theirs {
        let signer = row.tip.and_then(|_| signed.next().flatten());
        let email = &row.session.author.email;
        row.claim = Some(cache::claim(signer.as_deref(), email));
    }
}

/// Adds the fields that come from git and this machine.
pub fn look(context: &Context<'_>, rows: &mut [&mut Summary]) {
    judge_authors(context, rows);
    let facts = Facts::gather(context, rows);
    let mut scans = Vec::new();
    let mut pairs = Vec::new();
    for (index, row) in rows.iter_mut().enumerate() {
        let open = row.mine && !row.state.is_closed();
        // A supervisor that is just ending is not shown.
        if open && row.state.needs_supervisor() {
            row.pid = launch::running(&context.store, row.session.sid)
                .ok()
                .flatten()
                .map(|run| run.supervisor.pid);
        }
        match facts.place(row) {
            WorktreePlace::Nowhere => {}
            WorktreePlace::Lost => row.changes = Finding::Unknown,
            WorktreePlace::Commits { base, head } => pairs.push((index, (base, head))),
            WorktreePlace::Worktree(since) => scans.push((index, since)),
        }
        if open && let Some((parent, head)) = facts.both_tips(&row.session) {
            (row.ahead, row.behind) = match context.repo.ahead_behind(head, parent) {
                Ok((ahead, behind)) => (Finding::Known(ahead), Finding::Known(behind)),
                Err(_) => (Finding::Unknown, Finding::Unknown),
            };
        }
    }
    waits::explain(context, rows);
    let open: Vec<usize> = (0..rows.len())
        .filter(|index| rows[*index].mine && !rows[*index].state.is_closed())
        .collect();
    let sessions: Vec<&Session> = open.iter().map(|index| &rows[*index].session).collect();
    let (indexes, scans): (Vec<usize>, Vec<Since>) = scans.into_iter().unzip();
    // Read commits and notes here while other threads read the files.
    let (changes, conflicts, reviews) = std::thread::scope(|scope| {
        let repo = context.repo.clone();
        let scanning = scope.spawn(move || repo.changes_in_all(&scans));
        let conflicts = conflicts::with_parents(context, &sessions);
        let reviews = records::load(context);
        let changes = scanning
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (changes, conflicts, reviews)
    });
    for (index, found) in open.into_iter().zip(conflicts) {
        rows[index].conflicts = found;
    }
    for (index, found) in indexes.into_iter().zip(changes) {
        rows[index].changes = found.map_or(Finding::Unknown, Finding::Known);
    }
    let commits: Vec<_> = pairs.iter().map(|(_, pair)| *pair).collect();
    let counted = context.repo.changes_between(&commits);
    for (at, (index, _)) in pairs.iter().enumerate() {
        rows[*index].changes = match &counted {
            Ok(counted) => counted[at].map_or(Finding::Unknown, Finding::Known),
            Err(_) => Finding::Unknown,
        };
    }
    crate::listing::review::columns::annotate(context, rows, reviews);
}

/// Where the work of a session is.
enum WorktreePlace {
    /// It has made none, or the work is not in this clone.
    Nowhere,
    /// It should be here but is missing.
    Lost,
    /// Only in commits.
    Commits {
        base: ObjectId,
        head: ObjectId,
    },
    Worktree(Since),
}

/// Facts that are read once for all sessions.
struct Facts<'a> {
    repo: &'a Repo,
    worktrees: HashMap<String, Worktree>,
    /// All branches, if looking up a single one would start a process.
    branches: Option<HashMap<String, ObjectId>>,
    /// The branches that mark where the work of other sessions begins.
    known: Branches<'a>,
}

impl<'a> Facts<'a> {
    fn gather(context: &Context<'a>, rows: &[&mut Summary]) -> Self {
        let repo = context.repo;
        let open = rows.iter().any(|row| row.mine && !row.state.is_closed());
        let listed = if open {
            worktree::list(repo).unwrap_or_default()
        } else {
            Vec::new()
        };
        let worktrees = listed
            .into_iter()
            .filter(|worktree| !worktree.is_main())
            .filter_map(|worktree| Some((worktree.path.to_str()?.to_owned(), worktree)))
            .collect();
        let branches = (repo.ref_backend() == RefBackend::Reftable)
            .then(|| repo.refs_under("refs/heads/").ok())
            .flatten()
            .map(|list| {
                let short = |name: String| name["refs/heads/".len()..].to_owned();
                list.refs
                    .into_iter()
                    .map(|found| (short(found.name), found.id))
                    .collect()
            });
        Facts {
            repo,
            worktrees,
            branches,
            known: Branches::of(repo),
        }
    }

    fn branch(&self, name: &str) -> Option<ObjectId> {
        match &self.branches {
            Some(branches) => branches.get(name).copied(),
            None => self.repo.branch_tip(name).ok().flatten(),
        }
    }

    fn worktree(&self, session: &Session) -> Option<&Worktree> {
        self.worktrees
            .get(session.local.worktree.as_deref()?)
            .filter(|worktree| !worktree.is_initializing() && worktree.path.is_dir())
    }

    /// Returns a commit named in a record, if it exists here.
    fn recorded(&self, hex: Option<&str>) -> Option<ObjectId> {
        base::recorded(self.repo, hex)
    }

    fn head(&self, session: &Session) -> Option<ObjectId> {
        self.worktree(session)
            .and_then(|worktree| worktree.head)
            .or_else(|| self.branch(session.branch.as_deref()?))
            .or_else(|| self.recorded(session.code.as_deref()))
    }

    fn both_tips(&self, session: &Session) -> Option<(ObjectId, ObjectId)> {
        let parent = self.branch(session.parent.as_deref()?)?;
        Some((parent, self.head(session)?))
    }

    /// Returns the commit where a session's own work begins: where it left its parent, or the recorded one.
    fn base(&self, session: &Session, closed: bool) -> Option<ObjectId> {
        let recorded = || self.recorded(session.base.as_deref());
        if closed {
            // Merged work is part of the parent; only the record still tells where it began.
            return recorded();
        }
        let (parent, head) = match self.both_tips(session) {
            Some(tips) => tips,
            None => return recorded(),
        };
        match self.repo.merge_base(parent, head) {
            Ok(Some(base)) => work::past_dependencies(self.repo, session, Some(base))
                .ok()
                .flatten(),
            _ => recorded(),
        }
    }

    fn place(&self, row: &Summary) -> WorktreePlace {
        let session = &row.session;
        let closed = row.state.is_closed();
        if !row.mine {
            let Some(head) = self.recorded(session.code.as_deref()) else {
                return WorktreePlace::Nowhere;
            };
            return match self.known.base(session, head) {
                Ok(Some(base)) => WorktreePlace::Commits { base, head },
                _ => WorktreePlace::Lost,
            };
        }
        let unmade = matches!(
            row.state,
            State::Draft | State::Queued | State::Preparing | State::Blocked
        );
        if unmade && row.turns == 0 {
            return WorktreePlace::Nowhere;
        }
        let Some(base) = self.base(session, closed) else {
            return match session.base {
                Some(_) => WorktreePlace::Lost,
                None => WorktreePlace::Nowhere,
            };
        };
        let head = self.head(session);
        match self.worktree(session).filter(|_| !closed) {
            Some(worktree) => WorktreePlace::Worktree(Since {
                at: Checkout {
                    admin_dir: worktree.admin_dir.clone(),
                    top: worktree.path.clone(),
                },
                base,
                head,
            }),
            None => head.map_or(WorktreePlace::Lost, |head| WorktreePlace::Commits {
                base,
                head,
            }),
        }
    }
}
/// Returns the guard level of a session's last turn. One whose record says nothing had level `refs`.
fn guard(session: &Session) -> Option<String> {
    let usual = match session.settings.no_guard {
        Some(true) => "off",
        _ => "refs",
    };
    let guarded = session.settings.guarded.as_deref().unwrap_or(usual);
    (session.turns > 0).then(|| guarded.to_owned())
}
