//! Creates a session: a free name, its record in git, its branch and worktree. Safe in parallel; an error leaves
//! nothing behind.

pub mod carry;
pub mod choose_agent;
pub mod fork;
pub mod introduction;
pub mod location;
pub mod start;
pub mod worktreeinclude;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::refs::{Expected, RefChange};
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::{self, AddOptions, ProvenSafe};
use crate::model::event::Body;
use crate::model::name;
use crate::model::plan::Gate;
use crate::model::session::{Person, Session, SessionId};
use crate::process::lock::Lock;
use crate::session::supervisor::launch::{self, Starting};
use crate::session::worktree::{environment, setup, work};
use crate::session::{caller, recent};
use crate::store::list::{Listed, Listing, Scope, candidates, find_in};
use crate::store::log::writer::SessionWriter;
use crate::store::refname::RefName;

/// How long to wait for processes that choose a name at the same moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest name of a model or a group: a record has room for it.
const LONGEST_WORD: usize = 500;

/// The options of a new session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The task in words: the first prompt.
    pub task: String,
    /// The name; made from the task otherwise.
    pub name: Option<String>,
    pub agent: String,
    /// The command, when the agent is one given on the command line.
    pub command: Vec<String>,
    pub model: Option<String>,
    /// The role preset.
    pub role: Option<String>,
    /// The group it belongs to.
    pub group: Option<String>,
    /// The revision or session it starts from; HEAD otherwise.
    pub from: Option<String>,
    /// The branch it merges into by default, where that is not the one it starts from.
    pub parent: Option<String>,
    /// The session whose worktree it shares.
    pub shares: Option<String>,
    /// The sessions it waits for.
    pub after: Vec<String>,
    /// The session whose conversation it goes on from.
    pub parent_session: Option<SessionId>,
    /// Whether it may change nothing.
    pub read_only: bool,
    /// Whether every permission is asked for.
    pub ask: Option<bool>,
    /// Whether the guard is off.
    pub no_guard: bool,
    /// The guard level that it must have.
    pub guard: Option<String>,
    /// Whether it stays a draft.
    pub draft: bool,
    /// Whether the uncommitted changes of the current checkout move into its worktree.
    pub carry: bool,
    /// Whether a fork may see the conversation of its origin, where that was decided.
    pub conversation: Option<bool>,
    /// The session whose conflict it resolves.
    pub resolves: Option<SessionId>,
    /// The part of a plan that it carries out.
    pub part: Option<PartFacts>,
}

/// What a plan says about one of its parts.
#[derive(Debug, Clone, Default)]
pub struct PartFacts {
    /// The part's name.
    pub name: String,
    /// Its share of the task, for lists: the prompt says more.
    pub task: String,
    /// The gate of its dependencies.
    pub gate: Gate,
    /// How many parts may run at once.
    pub batch_size: Option<u32>,
    /// The directory that it works in.
    pub directory: Option<String>,
    /// The artifacts that it must leave.
    pub produces: Vec<String>,
    /// Limits, by the name of their setting.
    pub limits: BTreeMap<String, String>,
    /// The name of its branch, if the plan gives one.
    pub branch: Option<String>,
}

/// A session that was made.
#[derive(Debug)]
pub struct Created {
    /// Its state.
    pub session: Session,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// Keeps the session from looking dead until its supervisor runs: drop it after that.
    pub starting: Option<Starting>,
}

/// Where a session starts.
struct Start {
    commit: ObjectId,
    /// The revision as the user named it.
    called: String,
    /// The branch it merges into by default.
    parent: Option<String>,
}

/// Makes a session. Its first prompt waits in the record; nothing runs yet.
pub fn create(context: &Context<'_>, options: &Options) -> Result<Created> {
    caller::forbid_making(context)?;
    // Beside many sessions a listing takes longer than all the rest.
    let listing = if names_session(context, options)? {
        context.store.list(Scope::All)?
    } else {
        Listing::default()
    };
    let after = options
        .after
        .iter()
        .map(|wanted| recent::find(context, &listing, wanted).map(|listed| listed.session.sid))
        .collect::<Result<Vec<_>>>()?;
    let host = options
        .shares
        .as_deref()
        .map(|wanted| recent::find(context, &listing, wanted))
        .transpose()?;
    let host = host.map(|listed| listed.session.clone());
    let start = find_start(context, options, &listing, host.as_ref())?;
    let (mut session, starting) = reserve(context, options, &start, host.as_ref(), &after)?;
    let mut notices = Vec::new();
    // A session that waits for others starts from their merged work, so its worktree is made when they are ready.
    if host.is_none() && after.is_empty() && !options.draft {
        match prepare(context, &session, start.commit, Some(&start.called)) {
            Ok(made) => notices = made,
            Err(error) => {
                forget(context, session.sid);
                return Err(error);
            }
        }
    }
    if !notices.is_empty() {
        let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
        for text in &notices {
            writer.append(Body::Notice { text: text.clone() })?;
        }
        writer.flush()?;
        session = writer.session().clone();
    }
    Ok(Created {
        session,
        notices,
        starting,
    })
}

/// Returns whether the options may name another session.
fn names_session(context: &Context<'_>, options: &Options) -> Result<bool> {
    let from = match &options.from {
        Some(from) => context.repo.branch_tip(from)?.is_none(),
        None => false,
    };
    Ok(from || options.shares.is_some() || !options.after.is_empty())
}

fn find_start(
    context: &Context<'_>,
    options: &Options,
    listing: &Listing,
    host: Option<&Session>,
) -> Result<Start> {
    let repo = context.repo;
    let of_session = |session: &Session, called: &str| -> Result<Start> {
        let commit = work::branch_or_code(repo, session)?.ok_or_else(|| {
            Error::fatal(format!(
                "session '{}' has no commit to start from",
                session.name
            ))
        })?;
        Ok(Start {
            commit,
            called: called.to_owned(),
            parent: session.branch.clone(),
        })
    };
    if let Some(host) = host {
        return of_session(host, &host.name);
    }
    if let Some(from) = &options.from {
        if let Some(listed) = named_session(context, listing, from)? {
            let start = of_session(&listed.session, from)?;
            // One's own session may have more than it has committed.
            let commit = if listed.is_mine() {
                work::as_commit(context, &listed.session)?
            } else {
                start.commit
            };
            return Ok(Start { commit, ..start });
        }
        let commit = repo.resolve_commit(from)?;
        let parent = options
            .parent
            .clone()
            .or(repo.branch_tip(from)?.map(|_| from.clone()));
        let parent = parent.or(repo.head()?.branch);
        return Ok(Start {
            commit,
            called: from.clone(),
            parent,
        });
    }
    let head = repo.head()?;
    let commit = head.commit.ok_or_else(|| {
        let error = Error::fatal("this branch has no commit to start from");
        match repo.work_tree() {
            Some(_) => error.hint("git commit --allow-empty -m \"first commit\""),
            None => error.hint("push a first commit to it"),
        }
    })?;
    Ok(Start {
        commit,
        called: "HEAD".to_owned(),
        parent: head.branch,
    })
}

/// Returns the session that a start is taken from. The whole name of a session comes before a revision, and the
/// beginning of one after it.
fn named_session<'l>(
    context: &Context<'_>,
    listing: &'l Listing,
    from: &str,
) -> Result<Option<&'l Listed>> {
    if context.repo.branch_tip(from)?.is_some() {
        return Ok(None);
    }
    let wanted = recent::spelled_out(context, from)?;
    if let [one] = candidates(listing, &wanted).as_slice() {
        return Ok(Some(one));
    }
    if context.repo.resolve_commit(from).is_ok() {
        return Ok(None);
    }
    find_in(listing, &wanted).map(Some).map_err(|_| {
        Error::fatal(format!("'{from}' is neither a revision nor a session"))
            .hint("git branch -a")
            .hint("git agent list --all")
    })
}

/// Chooses name, branch and path under a lock, and writes the session's record to git.
fn reserve(
    context: &Context<'_>,
    options: &Options,
    start: &Start,
    host: Option<&Session>,
    after: &[SessionId],
) -> Result<(Session, Option<Starting>)> {
    let store = &context.store;
    let locks = store.require_dir("locks")?;
    let _lock = Lock::acquire(context.env, locks.join("create"), PATIENCE)?;
    // Listed again under the lock: another process may have taken the name since.
    let listing = store.list(Scope::Mine)?;
    let dir = location::worktree_dir(context)?;
    let taken = |candidate: &str| -> bool {
        let named = listing
            .sessions
            .iter()
            .any(|listed| listed.session.name == candidate && !listed.session.status.is_closed());
        let branch = location::branch(context, options.role.as_deref(), candidate).ok();
        let branched =
            branch.is_some_and(|branch| !matches!(context.repo.branch_tip(&branch), Ok(None)));
        named || (host.is_none() && (branched || exists(&dir.join(candidate))))
    };
    let chosen =
        match &options.name {
            Some(chosen) => {
                name::check(chosen)?;
                if listing.sessions.iter().any(|listed| {
                    listed.session.name == *chosen && !listed.session.status.is_closed()
                }) {
                    return Err(
                        Error::fatal(format!("a session named '{chosen}' already exists"))
                            .hint(format!("git agent show {}", shell_word(chosen))),
                    );
                }
                chosen.clone()
            }
            None => name::make_unique(&name::from_task(&options.task), taken),
        };
    let (branch, path) = match host {
        Some(host) => (host.branch.clone(), host.local.worktree.clone()),
        None => {
            let given = options.part.as_ref().and_then(|part| part.branch.clone());
            let (branch, folder) = match given {
                Some(branch) => {
                    let branch = location::free_branch(context, &branch)?;
                    (branch.clone(), branch.replace('/', "-"))
                }
                None => (
                    location::branch(context, options.role.as_deref(), &chosen)?,
                    location::folder(context, options.role.as_deref(), &chosen),
                ),
            };
            let path = location::worktree_path(context, &folder)?;
            refuse_taken(context, &branch, Path::new(&path))?;
            (Some(branch), Some(path))
        }
    };

    // The record is redacted; a place that changed on the way would be another place.
    let redactor = context.redactor();
    for part in [branch.as_deref(), path.as_deref()].into_iter().flatten() {
        if redactor.text(part).as_str() != part {
            return Err(Error::fatal(format!("'{part}' looks like a secret"))
                .hint("choose another name: git agent new --name NAME …")
                .hint("or another place: git config agent.worktreeDir <path>"));
        }
    }
    for (what, word) in [("model", &options.model), ("group", &options.group)] {
        if word.as_ref().is_some_and(|word| word.len() > LONGEST_WORD) {
            let message = format!("the name of the {what} is longer than {LONGEST_WORD} bytes");
            return Err(Error::usage(message));
        }
    }
    let (author, email) = context.repo.committer()?;
    let sid = SessionId::new(context.env);
    let author = Person {
        name: author,
        email,
    };
    let mut session = Session::new(sid, store.require_writer()?, chosen, author);
    session.task.clone_from(&options.task);
    if let Some(part) = &options.part {
        session.task.clone_from(&part.task);
        keep_part(&mut session, part);
    }
    session.agent.clone_from(&options.agent);
    session.model.clone_from(&options.model);
    session.role.clone_from(&options.role);
    session.group.clone_from(&options.group);
    session.parent.clone_from(&start.parent);
    session.base = Some(start.commit.to_string());
    session.branch = branch;
    session.local.worktree = path;
    session.parent_session = options.parent_session;
    // The other sessions are listed now. Without a port here, the session chooses one at its start, and reports an error.
    session.local.port = environment::choose_port(sid, &setup::taken_ports(&listing)).ok();
    let settings = &mut session.settings;
    if !options.command.is_empty() {
        settings.command = Some(options.command.clone());
    }
    if !after.is_empty() {
        settings.after = Some(after.to_vec());
    }
    if let Some(host) = host {
        // One lock for all, also where the host is a guest itself.
        settings.shares = host.host().parse().ok();
    }
    settings.read_only = options.read_only.then_some(true);
    settings.ask = options.ask;
    settings.no_guard = options.no_guard.then_some(true);
    settings.guard.clone_from(&options.guard);
    settings.conversation = options.conversation;
    settings.resolves = options.resolves;
    // A session whose agent cannot run is not created.
    crate::session::supervisor::limits::load(context, &session)?;
    setup::asks(context, &session)?;
    let (starting, writer) = if options.draft {
        (None, SessionWriter::create(store, session, redactor)?)
    } else {
        let starting = Starting::announce(store, sid)?;
        let writer = SessionWriter::create_queued(store, session, redactor)?;
        (Some(starting), writer)
    };
    // The whole first prompt, and the command as typed: the record keeps the redacted form of both.
    crate::session::supervisor::prompts::keep_first(context, sid, &options.task)?;
    crate::session::create::choose_agent::keep_command(store, sid, &options.command)?;
    Ok((writer.session().clone(), starting))
}

/// Records what a plan says about a session.
fn keep_part(session: &mut Session, part: &PartFacts) {
    let settings = &mut session.settings;
    for (key, value) in &part.limits {
        settings.set(key, &value.as_str().into());
    }
    settings.part = Some(part.name.clone());
    settings.gate = Some(part.gate);
    settings.batch_size = part.batch_size;
    settings.directory.clone_from(&part.directory);
    settings.produces = Some(part.produces.clone()).filter(|names| !names.is_empty());
}

fn refuse_taken(context: &Context<'_>, branch: &str, path: &Path) -> Result<()> {
    if context.repo.branch_tip(branch)?.is_some() {
        return Err(
            Error::fatal(format!("a branch named '{branch}' already exists"))
                .hint("choose another name: git agent new --name NAME …"),
        );
    }
    let used = path.is_dir() && std::fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_none());
    if exists(path) && !used {
        return Err(Error::fatal(format!("'{}' already exists", path.display()))
            .hint("choose another name: git agent new --name NAME …"));
    }
    Ok(())
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Makes the branch and the worktree of a session, and copies what `.worktreeinclude` names into it.
pub fn prepare(
    context: &Context<'_>,
    session: &Session,
    start: ObjectId,
    called: Option<&str>,
) -> Result<Vec<String>> {
    let missing = || Error::fatal(format!("session '{}' has no worktree path", session.name));
    let path = session.local.worktree.as_deref().ok_or_else(missing)?;
    let branch = session.branch.as_deref().ok_or_else(missing)?;
    let interrupt = AtomicBool::new(false);
    let added = worktree::add(
        context.repo,
        &AddOptions {
            path: Path::new(path),
            branch,
            start,
            start_name: called,
            name_hint: Some(&session.name),
            no_checkout: false,
            interrupt: &interrupt,
        },
    )?;
    let mut notices = crate::session::create::worktreeinclude::copy(
        context,
        &Checkout {
            admin_dir: added.admin_dir,
            top: added.path,
        },
    );
    if let Some(hook) = added.hook.filter(|hook| hook.code != Some(0)) {
        let code = hook
            .code
            .map_or("a signal".to_owned(), |code| format!("exit {code}"));
        notices.push(format!("the post-checkout hook failed ({code})"));
    }
    Ok(notices)
}

/// Takes up a worktree whose maker died before it was whole. Returns the commit it starts from if it is whole now;
/// otherwise it can be prepared anew.
pub fn finish(context: &Context<'_>, session: &Session) -> Result<Option<ObjectId>> {
    let (Some(path), Some(branch)) = (&session.local.worktree, &session.branch) else {
        return Ok(None);
    };
    // A worktree of another session is that one's to finish.
    if session.settings.shares.is_some() || launch::is_starting(&context.store, session.sid)? {
        return Ok(None);
    }
    let start = session.base.as_deref();
    let start = start.and_then(|hex| context.repo.parse_id(hex).ok());
    worktree::finish(context.repo, Path::new(path), branch, start)
}

/// Takes back a session that was made and never ran: its worktree, its branch and its record.
pub fn undo(context: &Context<'_>, session: &Session) -> Result<()> {
    // A guest works in the worktree of another session, which keeps it.
    if session.settings.shares.is_some() {
        forget(context, session.sid);
        return Ok(());
    }
    let start = session
        .base
        .as_deref()
        .and_then(|hex| context.repo.parse_id(hex).ok());
    let path = session.local.worktree.as_deref().map(Path::new);
    let all = worktree::list(context.repo)?;
    if let Some(known) = all
        .into_iter()
        .find(|known| Some(known.path.as_path()) == path)
    {
        worktree::remove(
            context.repo,
            &known.id.unwrap_or_default(),
            ProvenSafe::at(start),
        )?;
    }
    if let (Some(branch), Some(start)) = (&session.branch, start) {
        let name = format!("refs/heads/{branch}");
        let change = RefChange {
            name,
            expected: Expected::At(start),
            new: None,
        };
        // A branch that moved meanwhile is in use, and stays.
        let _ = context.repo.swap_refs(&[change])?;
    }
    forget(context, session.sid);
    Ok(())
}

/// Removes the record of a session that never came to be.
fn forget(context: &Context<'_>, sid: SessionId) {
    let name = RefName::Session(sid).to_string();
    if let Ok(Some(tip)) = context.repo.find_ref(&name) {
        let change = RefChange {
            name,
            expected: Expected::At(tip),
            new: None,
        };
        let _ = context.repo.swap_refs(&[change]);
    }
    let _ = std::fs::remove_dir_all(context.store.spool_dir(sid));
    for place in ["inbox", "scratch"] {
        let _ = std::fs::remove_dir_all(context.store.dir().join(place).join(sid.as_str()));
    }
    context.store.remove_local(sid);
    let _ = std::fs::remove_file(context.store.write_lock(sid));
}
