//! Around a turn: the setup command before the first one, a look at the worktree before and after each.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{Input, Link, Program, Turn};
use crate::context::{Context, secrets};
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::git::refs::move_log::Position;
use crate::git::snapshot::Snapshot;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::scan::{LeftOut, Reason};
use crate::guard;
use crate::guard::environment::Guard;
use crate::guard::policy::Own;
use crate::guard::watch::{Evidence, Refs, Restored, Subject};
use crate::model::event::Body;
use crate::model::session::Session;
use crate::process::detach::own_program;
use crate::process::lock::Lock;
use crate::session::checks::read_only::{self, Broken};
use crate::session::checks::{forged_refs, reflogs};
use crate::session::supervisor::turn::Live;
use crate::session::worktree::environment::{self, Particulars};
use crate::store::list::{Listing, Scope};
use crate::store::refname::is_ours;

/// How long to wait for others who choose a port at the same moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where agents keep refs of their own. They are left to them: never reviewed, never pushed.
const VENDOR_REFS: [&str; 2] = ["refs/cline/", "refs/kilo/"];

/// What a session and the repository looked like before a turn.
#[derive(Debug)]
pub struct Before {
    /// The files and the tip, when they could be told.
    state: Option<(ObjectId, Option<ObjectId>)>,
    /// For a session that may only read: the snapshot that the worktree is to be like afterwards.
    unread: Option<ObjectId>,
    /// Every ref.
    refs: Refs,
    /// Where the list of refs ended that programs of ours moved.
    moves: Position,
    /// Where the guard's log ended.
    refused: u64,
}

/// Where is noted what the files and the tip were before what a session was last asked for.
const BEFORE: &str = "before";

impl Before {
    /// Counts changes from where the last prompt was given that was not only to go on. `false` when that is not known.
    pub fn go_back(&mut self, session: &Session) -> bool {
        let noted = session.more.get(BEFORE).and_then(|noted| noted.as_str());
        let Some((tree, head)) = noted.and_then(|noted| noted.split_once(' ')) else {
            return false;
        };
        let Ok(tree) = tree.parse() else { return false };
        self.state = Some((tree, head.parse().ok()));
        true
    }

    /// Returns what notes it.
    pub fn as_event(&self) -> Body {
        let noted = self.state.map(|(tree, head)| {
            let head = head.map_or_else(|| "-".to_owned(), |head| head.to_string());
            format!("{tree} {head}")
        });
        Body::Set {
            key: BEFORE.to_owned(),
            value: noted.into(),
        }
    }
}

/// Returns the environment of everything that runs for a session, without the guard.
pub fn environment(
    context: &Context<'_>,
    spec: &AgentSpec,
    session: &Session,
) -> Result<BTreeMap<OsString, OsString>> {
    let worktree = session
        .worktree
        .as_deref()
        .map(Path::new)
        .unwrap_or(Path::new(""));
    let repo = context.repo.main_work_tree();
    let programs = own_program();
    let mut inherited = spec.env_names.clone();
    inherited.extend(context.config.strings("agent.env"));
    let port = session.more.get("port").and_then(serde_json::Value::as_u64);
    let mut environment = environment::environment(
        context.env,
        &Particulars {
            sid: session.sid,
            name: &session.name,
            worktree,
            repo: repo.as_deref().unwrap_or(context.repo.common_dir()),
            programs: programs.parent().unwrap_or(Path::new("/")),
            port: port
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or_default(),
            inherited: &inherited,
        },
    );
    guard::environment::ask_nobody(&mut environment);
    if spec.hides_git_config {
        add_identity(context, &mut environment);
    }
    Ok(environment)
}

/// Says who commits, as the repository has it, to an agent whose commands see no configuration of the user. What the user set
/// stays. Others are told nothing: a variable outranks the settings of every repository that their tests make.
fn add_identity(context: &Context<'_>, environment: &mut BTreeMap<OsString, OsString>) {
    for (role, part) in [
        ("author", "name"),
        ("author", "email"),
        ("committer", "name"),
        ("committer", "email"),
    ] {
        let setting = |section: &str| context.repo.config_string(&format!("{section}.{part}"));
        if let Some(value) = setting(role).or_else(|| setting("user")) {
            let name = format!("GIT_{role}_{part}").to_ascii_uppercase();
            environment.entry(name.into()).or_insert(value.into());
        }
    }
}

/// Returns the ports of the sessions that are not closed.
pub fn taken_ports(listing: &Listing) -> BTreeSet<u16> {
    let open = listing.sessions.iter().map(|listed| &listed.session);
    open.filter(|session| !session.status.is_closed())
        .filter_map(|session| session.more.get("port")?.as_u64())
        .filter_map(|port| u16::try_from(port).ok())
        .collect()
}

/// Chooses a session's port, if it got none when it was made.
pub fn choose_port(context: &Context<'_>, live: &mut Live<'_>) -> Result<()> {
    if live.writer.session().more.contains_key("port") {
        return Ok(());
    }
    let sid = live.writer.session().sid;
    // Others choose at the same time; what is appended is seen by whoever lists the sessions.
    let locks = context.store.require_dir("locks")?;
    let _lock = Lock::acquire(context.env, locks.join("ports"), PATIENCE)?;
    let taken = taken_ports(&context.store.list(Scope::Mine)?);
    let port = environment::choose_port(sid, &taken)?;
    live.writer.append(Body::Set {
        key: "port".to_owned(),
        value: port.into(),
    })?;
    Ok(())
}

/// Puts the agent's environment under guard, unless the session was made without.
pub fn guard(
    context: &Context<'_>,
    session: &Session,
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Option<Guard>> {
    if session
        .more
        .get("no_guard")
        .is_some_and(|value| value == true)
    {
        return Ok(None);
    }
    let Some(checkout) = crate::session::worktree::work::checkout(context, session)? else {
        return Ok(None);
    };
    let guard = Guard::prepare(
        context.repo,
        environment,
        guard::environment::Options {
            program: &own_program(),
            own: own_refs(session),
            git_dir: &checkout.admin_dir,
            directory: &context
                .store
                .require_dir(&format!("guard/{}", session.sid))?,
        },
    )?;
    guard.enter(environment)?;
    Ok(Some(guard))
}

fn own_refs(session: &Session) -> Own {
    match session.branch.as_deref().filter(|_| !is_read_only(session)) {
        Some(branch) => Own::new(
            std::iter::once(format!("refs/heads/{branch}")).chain(VENDOR_REFS.map(str::to_owned)),
        ),
        None => Own::read_only(),
    }
}

/// Returns whether a session may change nothing.
pub fn is_read_only(session: &Session) -> bool {
    session
        .more
        .get("read_only")
        .is_some_and(|value| value == true)
}

/// Returns whether every permission goes to a person.
pub fn asks(context: &Context<'_>, session: &Session) -> Result<bool> {
    let chosen = session.more.get("ask").and_then(serde_json::Value::as_bool);
    let setting = context.config.string("agent.permissions");
    match (chosen, setting.as_deref().unwrap_or("auto")) {
        (Some(chosen), _) => Ok(chosen),
        (None, word) if word.eq_ignore_ascii_case("ask") => Ok(true),
        (None, word) if word.eq_ignore_ascii_case("auto") => Ok(false),
        // Whoever wrote something else wanted to be asked, or did not: nobody knows.
        (None, word) => Err(Error::fatal(format!(
            "bad config value '{word}' for 'agent.permissions'"
        ))
        .hint("git config agent.permissions ask")),
    }
}

/// Runs the setup command in a fresh worktree, under the same guard as the agent: it is code of the branch. The inner error says in words why it failed.
pub fn run(
    context: &Context<'_>,
    live: &mut Live<'_>,
    path: &Path,
    mut environment: BTreeMap<OsString, OsString>,
) -> Result<Result<(), String>> {
    let Some(command) = context.config.string("agent.setup") else {
        return Ok(Ok(()));
    };
    let session = live.writer.session().clone();
    let guard = guard(context, &session, &mut environment)?;
    let before = before_command(context, &session, guard.as_ref())?;
    let ended = run_command(live, path, environment, &command)?;
    after_command(context, live, &before, guard.as_ref())?;
    if let Some(checkout) = crate::session::worktree::work::checkout(context, &session)? {
        look_at_refs(context, live, &session, &checkout, &before)?;
    }
    Ok(ended)
}

fn run_command(
    live: &mut Live<'_>,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
    command: &str,
) -> Result<Result<(), String>> {
    let turn = Turn {
        worktree: path.to_owned(),
        environment,
        ..Turn::default()
    };
    live.begin(&turn, Duration::ZERO)?;
    let argv = ["/bin/sh", "-c", command].map(OsString::from).to_vec();
    live.start(&Program {
        argv,
        env: Vec::new(),
        stdin: false,
    })?;
    loop {
        match live.next(None)? {
            Input::Stdout { line, .. } => record(live, "stdout", &line)?,
            Input::Stderr { line, .. } => record(live, "stderr", &line)?,
            Input::Exited(exit) => {
                live.sweep()?;
                return Ok(match (exit.code, exit.signal) {
                    (Some(0), _) => Ok(()),
                    (Some(code), _) => Err(format!("the setup command exited with {code}")),
                    _ => Err("the setup command was ended by a signal".to_owned()),
                });
            }
            Input::Cancel => {
                live.end()?;
                return Ok(Err("stopped during setup".to_owned()));
            }
            Input::Answer { .. } | Input::Woken => {}
        }
    }
}

fn record(live: &mut Live<'_>, stream: &str, line: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(line).into_owned();
    live.event(Body::Output {
        stream: stream.to_owned(),
        text,
    })
}

/// Why the snapshot was taken with which a turn begins.
pub const BEFORE_TURN: &str = "before the turn";

/// Looks at a session's worktree before a turn.
pub fn before_turn(
    context: &Context<'_>,
    session: &Session,
    guard: Option<&Guard>,
) -> Result<Before> {
    let (mut state, mut unread) = (None, None);
    if let Some(checkout) = crate::session::worktree::work::checkout(context, session)? {
        let taken = context
            .store
            .take_snapshot(session.sid, None, BEFORE_TURN, &checkout)?;
        let kept = context.repo.read_snapshot(taken.id)?;
        state = Some((kept.tree, kept.head));
        if is_read_only(session) {
            unread = Some(read_only::before(context, session, taken.id)?);
        }
    }
    Ok(Before {
        state,
        unread,
        ..before_command(context, session, guard)?
    })
}

/// Looks at the refs and the guard's log before something runs.
fn before_command(
    context: &Context<'_>,
    session: &Session,
    guard: Option<&Guard>,
) -> Result<Before> {
    reflogs::keep(context, session, &own_refs(session))?;
    let refused = match guard {
        Some(guard) => guard::log::read(&guard.log(), 0)?.1,
        None => 0,
    };
    Ok(Before {
        state: None,
        unread: None,
        // First: what moves in between is in the list then, and in the refs.
        moves: context.repo.moves_so_far(),
        refs: Refs::take(context.repo)?,
        refused,
    })
}

/// Records what the guard refused and let pass since, and puts back stashes and reflogs.
fn after_command(
    context: &Context<'_>,
    live: &mut Live<'_>,
    before: &Before,
    guard: Option<&Guard>,
) -> Result<()> {
    if let Some(guard) = guard {
        for note in guard::log::read(&guard.log(), before.refused)?.0 {
            live.event(Body::Error {
                kind: "guard".to_owned(),
                text: note.words(),
            })?;
        }
    }
    for told in reflogs::settle(context, live.writer.session().sid) {
        live.event(told)?;
    }
    Ok(())
}

/// What a turn left.
#[derive(Debug, Default)]
pub struct After {
    /// Whether anything in the worktree or on the branch changed; `None` when that could not be told.
    pub changed: Option<bool>,
    /// What a session changed that may only read, in words. It was put back where that could be done.
    pub broken: Option<String>,
}

/// Keeps what a turn left in the worktree.
pub fn after_turn(
    context: &Context<'_>,
    live: &mut Live<'_>,
    before: &Before,
    guard: Option<&Guard>,
) -> Result<After> {
    let session = live.writer.session().clone();
    after_command(context, live, before, guard)?;
    let Some(checkout) = crate::session::worktree::work::checkout(context, &session)? else {
        live.event(Body::Notice {
            text: "the worktree is gone".to_owned(),
        })?;
        return Ok(After::default());
    };
    look_at_refs(context, live, &session, &checkout, before)?;
    if context.config.bool("agent.autoCommit", false)?
        && !is_read_only(&session)
        && let Err(error) = crate::session::worktree::commit::commit_all(context, &session, None)
    {
        // The snapshot keeps what could not be committed.
        let text = format!("cannot commit the work of the turn: {}", error.message());
        let kind = "other".to_owned();
        live.event(Body::Error { kind, text })?;
    }
    let look = || snapshot(context, &session, &checkout, before);
    // What may only be read is put back first: that is not left half done.
    let looked = match before.unread {
        None => live.unless_stopped(look),
        Some(_) => look(),
    };
    let (kept, left_out, broken) = match looked {
        Ok(found) => found,
        Err(error) => {
            let text = format!("cannot snapshot the worktree: {}", error.message());
            live.event(Body::Error {
                kind: "other".to_owned(),
                text,
            })?;
            return Ok(After::default());
        }
    };
    if let Some(broken) = &broken {
        live.event(Body::Error {
            kind: "guard".to_owned(),
            text: broken.text.clone(),
        })?;
    }
    live.event(Body::Snapshot {
        commit: kept.id.to_string(),
        tree: kept.tree.to_string(),
        head: kept.head.map(|head| head.to_string()),
    })?;
    for left in &left_out {
        if left.reason == Reason::Large {
            let text = format!("not in the snapshot: {left}");
            live.event(Body::Notice { text })?;
        }
    }
    let now = (kept.tree, kept.head);
    if let Some(state) = before.state
        && let Err(error) = secrets::remember_objects(context, state, now)
    {
        let text = format!("cannot search the work for secrets: {}", error.message());
        let kind = "other".to_owned();
        live.event(Body::Error { kind, text })?;
    }
    Ok(After {
        changed: before.state.map(|state| state != now),
        broken: broken.map(|broken| broken.reason),
    })
}

/// Takes the snapshot that a turn ends with. What one wrote that may only read is in a snapshot before that, and no more in
/// the worktree.
fn snapshot(
    context: &Context<'_>,
    session: &Session,
    checkout: &Checkout,
    before: &Before,
) -> Result<(Snapshot, Vec<LeftOut>, Option<Broken>)> {
    let turn = u64::from(session.turns);
    let take = |turn: Option<u64>, reason: &str| {
        let store = &context.store;
        let taken = store.take_snapshot(session.sid, turn, reason, checkout)?;
        let kept = context.repo.read_snapshot(taken.id)?;
        Ok::<_, Error>((kept, taken.left_out))
    };
    let Some(unread) = before.unread else {
        let (kept, left_out) = take(Some(turn), &format!("after turn {turn}"))?;
        return Ok((kept, left_out, None));
    };
    let (kept, left_out) = take(
        None,
        &format!("written by turn {turn}, which may only read"),
    )?;
    let Some(broken) = read_only::put_back(context, session, checkout, (unread, &kept))? else {
        return Ok((kept, left_out, None));
    };
    let (kept, left_out) = take(Some(turn), &format!("after turn {turn}"))?;
    Ok((kept, left_out, Some(broken)))
}

fn branches_of_others(context: &Context<'_>, session: &Session) -> Result<Vec<String>> {
    let listing = context.store.list(Scope::Mine)?;
    let others = listing.sessions.iter().map(|listed| &listed.session);
    Ok(others
        .filter(|other| other.sid != session.sid)
        .filter_map(|other| Some(format!("refs/heads/{}", other.branch.as_deref()?)))
        .collect())
}

/// Reports refs that moved during a turn although nobody known moved them, and puts back those that the session moved.
fn look_at_refs(
    context: &Context<'_>,
    live: &mut Live<'_>,
    session: &Session,
    checkout: &Checkout,
    before: &Before,
) -> Result<()> {
    // Listed only when something moved that is not plainly ours: a turn must not cost more beside more sessions.
    let (others, failed) = (OnceCell::new(), Cell::new(None));
    let list = || {
        branches_of_others(context, session).unwrap_or_else(|error| {
            failed.set(Some(error));
            Vec::new()
        })
    };
    let is_known =
        |name: &str| is_ours(name) || others.get_or_init(list).iter().any(|other| other == name);
    let own = own_refs(session);
    let scope = guard::watch::Scope {
        own: &own,
        worktree: &checkout.top,
        git_dir: &checkout.admin_dir,
        is_known: &is_known,
    };
    let after = Refs::take(context.repo)?;
    let changes = before.refs.compare(context.repo, &after, &scope)?;
    let moves = context.repo.moves_since(before.moves)?;
    for told in forged_refs::look(context, session, (&before.refs, &after), &moves)? {
        live.event(told)?;
    }
    if let Some(error) = failed.take() {
        return Err(error);
    }
    for change in changes {
        let what = match &change.subject {
            Subject::Ref(name) => format!("'{name}'"),
            Subject::Head(top) => format!("HEAD of '{}'", top.display()),
        };
        let how = match (&change.before, &change.after) {
            (None, _) => "appeared",
            (_, None) => "vanished",
            _ => "moved",
        };
        let mut text = format!("{what} {how} during the turn");
        // Only what can be shown to be the session's doing is put back: a person may have done the rest.
        if change.evidence != Evidence::None {
            text.push_str(match change.restore(context.env, context.repo, &scope)? {
                Restored::Done(_) => "; it was put back",
                Restored::Stale => "; it has changed again since",
                Restored::Kept(_) => "; it was left as it is",
            });
        }
        live.event(Body::Error {
            kind: "guard".to_owned(),
            text,
        })?;
    }
    Ok(())
}
