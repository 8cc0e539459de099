//! Resolves a conflict with an agent: a separate session gets the open conflict and the intents of both sides, and its
//! result is checked before it is accepted.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::diff::paths::Comparer;
use crate::git::snapshot::capture::Checkout;
use crate::git::{ObjectId, ObjectKind};
use crate::merge::bisect::TestColour;
use crate::merge::resolve::check::{self, Side};
use crate::merge::resolve::{Case, hand, intent};
use crate::merge::testing::{self, Tester};
use crate::model::event::Body;
use crate::model::event_words::Sender;
use crate::model::session::{Session, SessionId, State};
use crate::selection;
use crate::session::control;
use crate::session::control::state;
use crate::session::create::{self, choose_agent, location, start};
use crate::session::events::wait::{self, Wish};
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::launch;
use crate::session::supervisor::prompts;
use crate::session::worktree::hold::while_still;
use crate::session::worktree::restore::{self, Which};
use crate::session::worktree::{clean, work};
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// How many tries the agent has.
const ROUNDS: usize = 2;
/// How long each try may take.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long a supervisor may take to end after its turn.
const LETTING_GO: Duration = Duration::from_secs(5);
/// Larger files are not checked.
const LARGEST: u64 = 8 << 20;
/// Bytes of a test log that the agent gets.
const LOG: usize = 8 << 10;
/// Maximum number of complaints in one prompt.
const COMPLAINTS: usize = 20;
/// Options of a resolution.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The agent, instead of the session's own.
    pub agent: Option<String>,
    /// The test command that the result must pass.
    pub test: Option<String>,
}

impl Options {
    /// Returns the options for an agent and a test command, which is the configured one if none is given.
    pub fn new(
        context: &Context<'_>,
        agent: Option<&str>,
        test: Option<&str>,
        no_test: bool,
    ) -> Self {
        let configured = || context.config.text(&settings::TEST);
        let test = test.map(str::to_owned).or_else(configured);
        Options {
            agent: agent.map(str::to_owned),
            test: test.filter(|_| !no_test),
        }
    }
}

/// An accepted resolution, with the changes of both sides.
#[derive(Debug)]
pub struct Resolution {
    /// The merge commit. No ref points at it yet.
    pub commit: ObjectId,
    /// The session that made it.
    pub resolver: Session,
}

/// The session that resolves, with the conflict open in its worktree.
struct Resolver {
    session: Session,
    at: Checkout,
    /// The tree before the agent changed anything.
    opened: ObjectId,
}

/// Whether a resolution may be taken.
pub enum Consent<'c> {
    /// The user has agreed beforehand.
    Given,
    /// The user is shown the diff of the resolution and asked.
    Ask(&'c mut dyn FnMut(&[u8]) -> Result<bool>),
    /// The user cannot be asked.
    Impossible,
}

impl Consent<'_> {
    /// Refuses early where no resolution could be taken.
    pub fn require_possible(&self) -> Result<()> {
        match self {
            Consent::Given | Consent::Ask(_) => Ok(()),
            Consent::Impossible => Err(Error::fatal(
                "cannot confirm the resolution without a terminal",
            )
            .hint("accept it without asking: --yes")),
        }
    }

    fn is_given(&mut self, context: &Context<'_>, commit: ObjectId) -> Result<bool> {
        self.require_possible()?;
        match self {
            Consent::Ask(ask) => ask(&context.repo.resolution_diff(commit)?),
            Consent::Given | Consent::Impossible => Ok(true),
        }
    }
}

/// Lets an agent resolve a conflict, and applies the resolution if the user agrees. Otherwise returns `None`: the
/// session stays as it was, and the agent's files stay in the worktree of the resolver. `tell` receives the progress.
pub fn resolve(
    context: &Context<'_>,
    case: &Case,
    options: &Options,
    consent: &mut Consent<'_>,
    tell: &mut dyn FnMut(String),
) -> Result<Option<Resolution>> {
    consent.require_possible()?;
    let resolution = make(context, case, options, tell)?;
    if !consent.is_given(context, resolution.commit)? {
        let sid = resolution.resolver.sid;
        fail(context, sid, "the resolution was refused")?;
        return Ok(None);
    }
    accept(context, case, &resolution)?;
    Ok(Some(resolution))
}

/// Lets an agent make a resolution.
fn make(
    context: &Context<'_>,
    case: &Case,
    options: &Options,
    tell: &mut dyn FnMut(String),
) -> Result<Resolution> {
    let prompt = intent::prompt(context, case, options.test.as_deref())?;
    let resolver = match earlier(context, case, options)? {
        Some(earlier) => begin_again(context, case, earlier, prompt)?,
        None => begin(context, case, options, prompt)?,
    };
    tell(format!(
        "session '{name}' resolves the conflict; 'git agent log -f {name}' shows its work",
        name = resolver.session.name
    ));
    let resolution = attempt(context, case, &resolver, options, tell);
    if let Err(error) = &resolution {
        // Report the original error even if the record cannot be written.
        let _ = fail(context, resolver.session.sid, error.message());
    }
    resolution
}

/// Waits for the agent and checks its result; sends the complaints back once.
fn attempt(
    context: &Context<'_>,
    case: &Case,
    resolver: &Resolver,
    options: &Options,
    tell: &mut dyn FnMut(String),
) -> Result<Resolution> {
    let (sid, name) = (resolver.session.sid, &resolver.session.name);
    let mut round = 1;
    loop {
        let ended = await_turn(context, &resolver.session)?;
        let tree = context.repo.snapshot_tree(&resolver.at)?;
        let mut complaints = look(context, case, resolver.opened, tree)?;
        let trailers = [format!("Agent-Session: {sid}")];
        let commit = case.commit(context.repo, tree, &trailers)?;
        if complaints.is_empty() {
            complaints = test(context, options, commit, sid, tell)?;
        }
        if complaints.is_empty() {
            return Ok(Resolution {
                commit,
                resolver: ended,
            });
        }
        if round >= ROUNDS {
            return Err(given_up(case, name, &complaints));
        }
        round += 1;
        tell(format!("not accepted: {}", complaints[0]));
        complaints.truncate(COMPLAINTS);
        send(context, sid, intent::again(&complaints))?;
    }
}

fn send(context: &Context<'_>, sid: SessionId, text: String) -> Result<()> {
    let message = Message::Prompt {
        text,
        from: Sender::Merge,
        again: false,
    };
    prompts::send(context, sid, &message)?;
    Ok(())
}

/// Records that a resolution failed, unless its last turn already says so.
fn fail(context: &Context<'_>, sid: SessionId, reason: &str) -> Result<()> {
    let session = context.store.session(sid)?;
    if session.is_some_and(|session| session.status != State::Failed) {
        control::idle::wait_until_free(context, sid, LETTING_GO)?;
        state::set_state(context, sid, State::Failed, reason)?;
    }
    Ok(())
}

/// Takes a resolution over: the session gets it, and the session that made it is over.
fn accept(context: &Context<'_>, case: &Case, resolution: &Resolution) -> Result<()> {
    case.land(context, resolution.commit)?;
    let reason = format!("its resolution is part of '{}'", case.session.name);
    close(context, &resolution.resolver, State::Merged, &reason)
}

fn given_up(case: &Case, resolver: &str, complaints: &[String]) -> Error {
    let name = &case.session.name;
    let mut error = Error::fatal(format!(
        "the agent did not resolve the conflict of '{name}' with '{}': {}",
        case.target, complaints[0]
    ));
    for complaint in complaints.iter().skip(1).take(4) {
        error = error.hint(complaint.clone());
    }
    error
        .hint(format!("git agent log {}", shell_word(resolver)))
        .hint(format!(
            "by hand: git agent merge resolve {}",
            shell_word(name)
        ))
}

/// Returns the name of the agent that resolves.
fn agent_of<'o>(case: &'o Case, options: &'o Options) -> &'o str {
    options.agent.as_deref().unwrap_or(&case.session.agent)
}

/// Returns the session of an earlier try. A session of a different agent is discarded, because agents cannot continue
/// each other's conversations, and so is one that was killed before its first turn: perhaps only half of it is there.
fn earlier(context: &Context<'_>, case: &Case, options: &Options) -> Result<Option<Session>> {
    let listing = selection::list(context, Scope::Mine)?.sessions.into_iter();
    let found = listing.map(|listed| listed.session).find(|session| {
        session.resolves() == Some(case.session.sid) && !session.status.is_closed()
    });
    let Some(session) = found else {
        return Ok(None);
    };
    if launch::is_starting(&context.store, session.sid)? {
        let name = &session.name;
        return Err(Error::fatal(format!("session '{name}' is being created"))
            .hint(format!("git agent wait {}", shell_word(name))));
    }
    control::idle::require_idle(context, &session)?;
    let reason = match session.turns {
        0 => "it was interrupted before its first turn",
        _ if session.agent == agent_of(case, options) => return Ok(Some(session)),
        _ => "another agent resolves the conflict",
    };
    close(context, &session, State::Discarded, reason)?;
    Ok(None)
}

/// Opens the current conflict in the session of an earlier try. A snapshot keeps the files of that try.
fn begin_again(
    context: &Context<'_>,
    case: &Case,
    session: Session,
    prompt: String,
) -> Result<Resolver> {
    let at = match work::checkout(context, &session)? {
        Some(at) => at,
        None => restore::restore_for_command(context, &session, &Which::Last)?,
    };
    let opened = while_still(context, &session, || {
        let store = &context.store;
        store.take_snapshot(session.sid, None, "before another try", &at)?;
        let branch = session.branch.as_deref().unwrap_or(&session.name);
        hand::start_over(context, &at, branch, case.place.tip)?;
        let mut writer = SessionWriter::open(store, session.sid, context.redactor())?;
        writer.append(Body::Set {
            key: "base".to_owned(),
            value: case.place.tip.to_string().into(),
        })?;
        writer.close()?;
        // The prompt of a try that was killed before its turn began: the agent would be asked twice.
        prompts::withdraw(context, session.sid, &Sender::Merge)?;
        open_conflict(context, case, &at)
    })?;
    send(context, session.sid, prompt)?;
    Ok(Resolver {
        session,
        at,
        opened,
    })
}

/// Creates the session that resolves. Its worktree starts at the conflicting session's commit.
fn begin(
    context: &Context<'_>,
    case: &Case,
    options: &Options,
    prompt: String,
) -> Result<Resolver> {
    let new = new_options(context, case, options, prompt)?;
    let (created, (at, opened)) = start::start_after(context, &new, |session| {
        let at = require_checkout(context, session)?;
        let opened = open_conflict(context, case, &at)?;
        Ok((at, opened))
    })?;
    Ok(Resolver {
        session: created.session,
        at,
        opened,
    })
}

fn new_options(
    context: &Context<'_>,
    case: &Case,
    options: &Options,
    prompt: String,
) -> Result<create::Options> {
    let session = &case.session;
    let mut new = create::Options {
        task: prompt,
        name: Some(free_name(context, &session.name)?),
        from: Some(case.place.tip.to_string()),
        parent: session.branch.clone(),
        parent_session: Some(session.sid),
        resolves: Some(session.sid),
        agent: agent_of(case, options).to_owned(),
        ..create::Options::default()
    };
    match &options.agent {
        Some(agent) => {
            choose_agent::require(&context.config, agent)?;
        }
        None => {
            new.model.clone_from(&session.model);
            if session.agent == choose_agent::COMMAND {
                new.command = choose_agent::command_of(&context.store, session).unwrap_or_default();
            }
        }
    }
    Ok(new)
}

/// Returns an unused name for the session that resolves.
fn free_name(context: &Context<'_>, name: &str) -> Result<String> {
    let dir = location::worktree_dir(context)?;
    for number in 1..100 {
        let candidate = match number {
            1 => format!("resolve-{name}"),
            number => format!("resolve-{name}-{number}"),
        };
        let branch = location::branch(context, None, &candidate)?;
        let free = context.repo.branch_tip(&branch)?.is_none()
            && std::fs::symlink_metadata(dir.join(&candidate)).is_err();
        let listing = context.store.list(Scope::Mine)?;
        let known = |listed: &Listed| {
            listed.session.name == candidate && !listed.session.status.is_closed()
        };
        if free && !listing.sessions.iter().any(known) {
            return Ok(candidate);
        }
    }
    Err(Error::fatal(format!(
        "too many sessions resolve conflicts of '{name}'"
    )))
}

/// Opens the conflict in the resolver's worktree. Returns the tree of the files with conflict markers.
fn open_conflict(context: &Context<'_>, case: &Case, at: &Checkout) -> Result<ObjectId> {
    if hand::start_merge(context, at, case.theirs, &case.target)? {
        Err(Error::fatal("the conflict no longer exists"))
    } else {
        context.repo.snapshot_tree(at)
    }
}

fn require_checkout(context: &Context<'_>, session: &Session) -> Result<Checkout> {
    work::checkout(context, session)?
        .ok_or_else(|| Error::fatal(format!("the worktree of '{}' is gone", session.name)))
}

/// Waits for the end of a turn.
fn await_turn(context: &Context<'_>, resolver: &Session) -> Result<Session> {
    let name = &resolver.name;
    let wish = Wish {
        states: vec![State::Ready],
        any: false,
        fail_fast: false,
        deadline: Instant::now().checked_add(PATIENCE),
    };
    match wait::wait(context, &[resolver.sid], &wish, &|_| {})? {
        wait::WaitOutcome::Reached(mut there) => there
            .pop()
            .ok_or_else(|| Error::fatal(format!("session '{name}' is gone"))),
        wait::WaitOutcome::Ended(there) => {
            let session = there.first();
            let state = session.map_or(State::Unknown, |session| session.status);
            let reason = session
                .and_then(|session| session.exit.as_ref())
                .map_or("", |exit| exit.reason.as_str());
            Err(Error::fatal(format!(
                "session '{name}', which was to resolve the conflict, is {state}: {reason}"
            ))
            .hint(format!("git agent log {}", shell_word(name))))
        }
        wait::WaitOutcome::TimedOut(_) => {
            let late = format!("session '{name}' did not resolve the conflict in time");
            control::stop::end(context, resolver.sid, &late)?;
            Err(Error::fatal(late).hint(format!("git agent log {}", shell_word(name))))
        }
    }
}

/// Returns the problems of a result: conflict markers, and changes of one side that are missing.
fn look(
    context: &Context<'_>,
    case: &Case,
    opened: ObjectId,
    result: ObjectId,
) -> Result<Vec<String>> {
    let repo = context.repo;
    let base = repo.merge_base(case.place.tip, case.theirs)?;
    let base = base.map(|base| repo.tree_of(base)).transpose()?;
    let trees = [
        base,
        Some(repo.tree_of(case.place.tip)?),
        Some(repo.tree_of(case.theirs)?),
        Some(result),
    ];
    // Files that git merged by itself and the agent left alone need no check.
    let comparer = Comparer::new(repo, 16 << 20);
    let mut paths: BTreeSet<Vec<u8>> = comparer
        .touched(opened, result)?
        .changes()
        .iter()
        .map(|change| change.path.clone())
        .collect();
    paths.extend(case.conflicts.iter().map(|conflict| conflict.path.clone()));
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| !path.is_empty()) {
        let mut versions = Vec::with_capacity(trees.len());
        for tree in trees {
            let id = match tree {
                Some(tree) => comparer.file_at(tree, path)?,
                None => None,
            };
            let text = id.map(|id| repo.read_object(id, ObjectKind::Blob, LARGEST));
            versions.push(text.transpose()?);
        }
        let of = |index: usize| versions[index].as_deref();
        let sides = [
            Side {
                name: &case.session.name,
                file: of(1),
            },
            Side {
                name: &case.target,
                file: of(2),
            },
        ];
        let shown = String::from_utf8_lossy(path);
        found.extend(check::complaints(&shown, of(0), sides, of(3)));
    }
    Ok(found)
}

/// Tests a result. If the tests fail, returns the complaint for the agent.
fn test(
    context: &Context<'_>,
    options: &Options,
    commit: ObjectId,
    of: SessionId,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<String>> {
    let Some(command) = &options.test else {
        return Ok(Vec::new());
    };
    let mut tester = Tester::new(context, command.clone(), false);
    let verdict = tester.test(commit, of);
    tester.finish()?;
    let verdict = verdict?;
    verdict.told.into_iter().for_each(tell);
    Ok(match verdict.colour {
        TestColour::Green => Vec::new(),
        TestColour::Red(log) | TestColour::Late(log) => {
            let tail = testing::log_tail(Path::new(&log), LOG);
            vec![format!("the tests fail ({command}):\n{tail}")]
        }
    })
}

/// Closes the session that resolved and removes its worktree; it can be restored.
fn close(context: &Context<'_>, resolver: &Session, state: State, reason: &str) -> Result<()> {
    let mut writer = SessionWriter::open(&context.store, resolver.sid, context.redactor())?;
    writer.set_status(state, reason)?;
    let listed = Listed::own(writer.close()?);
    let options = clean::Options {
        named: true,
        ..clean::Options::default()
    };
    clean::put_away(context, &[listed], options)?;
    Ok(())
}
