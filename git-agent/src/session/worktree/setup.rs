//! Prepares a turn: its environment, its guard, and the setup command before the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{Input, Link, Program, Turn};
use crate::config::settings;
use crate::context::Context;
use crate::error::Result;
use crate::git::snapshot::capture::Checkout;
use crate::guard;
use crate::guard::cell;
use crate::guard::environment::Guard;
use crate::guard::level::{self, Chosen, Level};
use crate::guard::policy::Own;
use crate::guard::refusals::Refusals;
use crate::guard::room::{self, Use};
use crate::guard::vendor_settings::VendorSettings;
use crate::model::event::Body;
use crate::model::event_words::OutputStream;
use crate::model::session::Session;
use crate::model::session::settings::set;
use crate::process::detach::own_program;
use crate::process::lock::Lock;
use crate::session::checks::turn::{self, Before};
use crate::session::supervisor::turn::Live;
use crate::session::worktree::environment::{self, Particulars};
use crate::store::list::{Listing, Scope};

/// How long to wait for sessions that choose a port at the same moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where agents keep refs of their own. They are left to them: never reviewed, never pushed.
const VENDOR_REFS: [&str; 2] = ["refs/cline/", "refs/kilo/"];

/// Returns the environment of everything that runs for a session, without the guard.
pub fn environment(
    context: &Context<'_>,
    spec: &AgentSpec,
    session: &Session,
) -> Result<BTreeMap<OsString, OsString>> {
    let worktree = session
        .local
        .worktree
        .as_deref()
        .map(Path::new)
        .unwrap_or(Path::new(""));
    let repo = context.repo.main_work_tree();
    let programs = own_program();
    let mut inherited = spec.env_names.clone();
    inherited.extend(context.config.list(&settings::ENV));
    let port = session.local.port;
    let mut environment = environment::environment(
        context.env,
        &Particulars {
            sid: session.sid,
            name: &session.name,
            worktree,
            repo: repo.as_deref().unwrap_or(context.repo.common_dir()),
            programs: programs.parent().unwrap_or(Path::new("/")),
            port: port.unwrap_or_default(),
            inherited: &inherited,
        },
    );
    guard::environment::ask_nobody(&mut environment);
    if spec.hides_git_config {
        add_identity(context, &mut environment);
    }
    Ok(environment)
}

/// Sets the identity of the repository for an agent whose commands do not see the user's configuration. Variables of
/// the user stay. Other agents get none: a variable outranks the settings of every repository that their tests make.
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
        .filter_map(|session| session.local.port)
        .collect()
}

/// Chooses a session's port, if it got none when it was made.
pub fn choose_port(context: &Context<'_>, live: &mut Live<'_>) -> Result<()> {
    if live.writer.session().local.port.is_some() {
        return Ok(());
    }
    let sid = live.writer.session().sid;
    // Other sessions choose at the same time, and see a port once it is in its file.
    let locks = context.store.require_dir("locks")?;
    let _lock = Lock::acquire(context.env, locks.join("ports"), PATIENCE)?;
    let taken = taken_ports(&context.store.list(Scope::Mine)?);
    let port = environment::choose_port(sid, &taken)?;
    live.writer.set_local(|local| local.port = Some(port))
}

/// What holds an agent, or a command of its branch, during a turn.
#[derive(Debug)]
pub struct Held {
    /// The level, and why it is not higher.
    pub chosen: Chosen,
    /// The hooks, at level `refs`.
    pub guard: Option<Guard>,
    /// The file that describes the room, at level `cell`.
    pub room: Option<PathBuf>,
    /// The directories that count towards the limit on disk space.
    pub measured: Vec<PathBuf>,
    /// What the room refuses, once it was seen.
    pub refusals: Option<Refusals>,
    /// The settings of the agent's program before the turn.
    pub settings: VendorSettings,
    /// The worktree that gets a cell.
    cell: Option<Checkout>,
}

impl Held {
    /// Lets the worktree lead to the session's cell, if it gets one. From now on the turn must be ended by one of the checks.
    pub fn enter(&self, context: &Context<'_>, session: &Session, before: &Before) -> Result<()> {
        match (&self.cell, session.branch.as_deref()) {
            (Some(at), Some(branch)) => {
                cell::begin(context, (session.sid, branch), at, before.refs())
            }
            _ => Ok(()),
        }
    }

    /// Returns the events that say what a turn has, where that is news.
    pub fn news(&self, session: &Session) -> Vec<Body> {
        let word = self.chosen.level.as_str();
        // A session whose record says nothing had level `refs`.
        let before = session.settings.guarded.as_deref();
        if before.unwrap_or(Level::Refs.as_str()) == word && self.chosen.why_lower.is_none() {
            return Vec::new();
        }
        if before == Some(word) {
            return Vec::new();
        }
        let mut news = vec![set::guarded(Some(word.to_owned()))];
        let text = match (self.chosen.level, &self.chosen.why_lower) {
            (Level::Off, _) => "this session runs without the guard".to_owned(),
            (level, Some(why)) => format!("guard level '{level}', not 'cell': {why}"),
            (Level::Refs, None) => return news,
            (Level::Cell, None) => "guard level 'cell'".to_owned(),
        };
        news.push(Body::Notice { text });
        news
    }
}

/// Puts an environment under the guard of a session, at the level that it gets.
pub fn hold(
    context: &Context<'_>,
    spec: &AgentSpec,
    session: &Session,
    environment: &mut BTreeMap<OsString, OsString>,
    sockets: Vec<PathBuf>,
) -> Result<Held> {
    let at = crate::session::worktree::work::checkout(context, session)?;
    let chosen = level::choose(context, session, at.as_ref())?;
    let mut held = Held {
        chosen,
        guard: None,
        room: None,
        measured: at.iter().map(|at| at.top.clone()).collect(),
        refusals: None,
        settings: VendorSettings::default(),
        cell: None,
    };
    let offline = level::is_offline(context, session, held.chosen.level)?;
    match (held.chosen.level, at) {
        (Level::Off, _) | (_, None) => {}
        (Level::Refs, Some(at)) => held.guard = Some(guard(context, session, &at, environment)?),
        (Level::Cell, Some(at)) => {
            let writes = !is_read_only(session);
            let purpose = Use {
                sid: session.sid,
                at: &at,
                spec: Some(spec),
                cell: writes.then(|| cell::dir(context, session.sid)),
                sockets,
                offline,
                temporary: room::temporary(context, session.sid)?,
                file: room::file_of(context, session.sid)?,
            };
            held.measured.push(purpose.temporary.clone());
            held.measured.extend(purpose.cell.clone());
            let made = room::prepare(context, &purpose, environment)?;
            held.refusals = Some(Refusals::new(made, &at.top));
            held.room = Some(purpose.file);
            held.settings = VendorSettings::read(spec, environment);
            held.cell = Some(at).filter(|_| writes);
        }
    }
    Ok(held)
}

/// Puts an environment under the hooks of level `refs`, for a person who works with the agent, unless the session was made
/// without a guard.
pub fn hold_refs(
    context: &Context<'_>,
    session: &Session,
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Option<Guard>> {
    if level::wanted(context, session)? == Some(Level::Off) {
        return Ok(None);
    }
    let at = crate::session::worktree::work::checkout(context, session)?;
    at.map(|at| guard(context, session, &at, environment))
        .transpose()
}

fn guard(
    context: &Context<'_>,
    session: &Session,
    at: &Checkout,
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Guard> {
    let guard = Guard::prepare(
        context.repo,
        environment,
        guard::environment::Options {
            program: &own_program(),
            own: own_refs(session),
            git_dir: &at.admin_dir,
            directory: &context
                .store
                .require_dir(&format!("guard/{}", session.sid))?,
        },
    )?;
    guard.enter(environment)?;
    Ok(guard)
}

/// Returns the refs that a session may move.
pub(crate) fn own_refs(session: &Session) -> Own {
    match session.branch.as_deref().filter(|_| !is_read_only(session)) {
        Some(branch) => Own::new(
            std::iter::once(format!("refs/heads/{branch}")).chain(VENDOR_REFS.map(str::to_owned)),
        ),
        None => Own::read_only(),
    }
}

/// Returns whether a session may change nothing.
pub fn is_read_only(session: &Session) -> bool {
    session.settings.read_only == Some(true)
}

/// Returns whether every permission goes to a person.
pub fn asks(context: &Context<'_>, session: &Session) -> Result<bool> {
    match session.settings.ask {
        Some(chosen) => Ok(chosen),
        None => Ok(context.config.require(&settings::PERMISSIONS)? == "ask"),
    }
}

/// Runs the setup command in a fresh worktree, under the same guard as the agent: it is code of the
/// branch. Returns the reason in words if it failed.
pub fn run(
    context: &Context<'_>,
    live: &mut Live<'_>,
    at: (&Path, &AgentSpec),
    environment: BTreeMap<OsString, OsString>,
) -> Result<Option<String>> {
    let Some(command) = context.config.text(&settings::SETUP) else {
        return Ok(None);
    };
    guarded(context, live, at, environment, ("setup", &command))
}

/// Runs the test command on a session's work, under the same guard. Returns the reason in words if it failed.
pub fn test(
    context: &Context<'_>,
    live: &mut Live<'_>,
    at: (&Path, &AgentSpec),
    environment: BTreeMap<OsString, OsString>,
    command: &str,
) -> Result<Option<String>> {
    guarded(context, live, at, environment, ("test", command))
}

fn guarded(
    context: &Context<'_>,
    live: &mut Live<'_>,
    (path, spec): (&Path, &AgentSpec),
    mut environment: BTreeMap<OsString, OsString>,
    command: (&str, &str),
) -> Result<Option<String>> {
    let session = live.writer.session().clone();
    let held = hold(context, spec, &session, &mut environment, Vec::new())?;
    let before = turn::before_command(context, &session, held.guard.as_ref())?;
    held.enter(context, &session, &before)?;
    let turn = Turn {
        worktree: path.to_owned(),
        environment,
        room: held.room,
        ..Turn::default()
    };
    let ended = run_command(live, &turn, command)?;
    turn::after_command(context, live, &before)?;
    Ok(ended)
}

fn run_command(
    live: &mut Live<'_>,
    turn: &Turn,
    (what, command): (&str, &str),
) -> Result<Option<String>> {
    live.begin(turn, Duration::ZERO)?;
    let argv = ["/bin/sh", "-c", command].map(OsString::from).to_vec();
    live.start(&Program {
        argv,
        env: Vec::new(),
        stdin: false,
    })?;
    loop {
        match live.next(None)? {
            Input::Stdout { line, .. } => record(live, OutputStream::Stdout, &line)?,
            Input::Stderr { line, .. } => record(live, OutputStream::Stderr, &line)?,
            Input::Exited(exit) => {
                live.sweep()?;
                return Ok(match (exit.code, exit.signal) {
                    (Some(0), _) => None,
                    (Some(code), _) => Some(format!("the {what} command exited with {code}")),
                    _ => Some(format!("the {what} command was ended by a signal")),
                });
            }
            Input::Cancel => {
                live.end()?;
                return Ok(Some(format!("stopped during the {what} command")));
            }
            Input::Answer { .. } | Input::Woken => {}
        }
    }
}

fn record(live: &mut Live<'_>, stream: OutputStream, line: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(line).into_owned();
    live.event(Body::Output { stream, text })
}
