//! Prepares a turn: its environment, its guard, and the setup command before the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::driver::{Input, Link, Program, Turn};
use crate::config::settings;
use crate::context::Context;
use crate::error::Result;
use crate::guard;
use crate::guard::environment::Guard;
use crate::guard::policy::Own;
use crate::model::event::Body;
use crate::model::event_words::OutputStream;
use crate::model::session::Session;
use crate::process::detach::own_program;
use crate::process::lock::Lock;
use crate::session::checks::turn;
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

/// Puts the agent's environment under guard, unless the session was made without.
pub fn guard(
    context: &Context<'_>,
    session: &Session,
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Option<Guard>> {
    if session.settings.no_guard == Some(true) {
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
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
) -> Result<Option<String>> {
    let Some(command) = context.config.text(&settings::SETUP) else {
        return Ok(None);
    };
    guarded(context, live, path, environment, ("setup", &command))
}

/// Runs the test command on a session's work, under the same guard. Returns the reason in words if it failed.
pub fn test(
    context: &Context<'_>,
    live: &mut Live<'_>,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
    command: &str,
) -> Result<Option<String>> {
    guarded(context, live, path, environment, ("test", command))
}

fn guarded(
    context: &Context<'_>,
    live: &mut Live<'_>,
    path: &Path,
    mut environment: BTreeMap<OsString, OsString>,
    command: (&str, &str),
) -> Result<Option<String>> {
    let session = live.writer.session().clone();
    let guard = guard(context, &session, &mut environment)?;
    let before = turn::before_command(context, &session, guard.as_ref())?;
    let ended = run_command(live, path, environment, command)?;
    turn::after_command(context, live, &before)?;
    Ok(ended)
}

fn run_command(
    live: &mut Live<'_>,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
    (what, command): (&str, &str),
) -> Result<Option<String>> {
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
