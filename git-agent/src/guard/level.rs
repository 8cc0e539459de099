//! The levels of the guard: which one a session wants, which one this machine can hold, and why.

use std::fmt;

use serde::Serialize;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::snapshot::capture::Checkout;
use crate::model::session::Session;
use crate::process::sandbox::machine;

/// How far an agent is kept from everything that is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not at all.
    Off,
    /// Hooks refuse to move refs of others, and a comparison after each turn finds what they did not see.
    Refs,
    /// The agent has a git directory of its own, and the kernel keeps it in its room.
    Cell,
}

impl Level {
    /// Returns the word of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Refs => "refs",
            Level::Cell => "cell",
        }
    }

    /// Returns the level of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Level::Off, Level::Refs, Level::Cell]
            .into_iter()
            .find(|level| level.as_str() == word)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The level of a session's turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The level that is held.
    pub level: Level,
    /// Why it is not higher, unless a lower one was asked for.
    pub why_lower: Option<String>,
}

/// Returns the level that was asked for: for the session, by its role, or by the settings.
pub fn wanted(context: &Context<'_>, session: &Session) -> Result<Option<Level>> {
    if session.settings.no_guard == Some(true) {
        return Ok(Some(Level::Off));
    }
    let chosen = session.settings.guard.as_deref();
    let role = session.role.as_deref();
    let word = context.config.get_for(&settings::GUARD, role, chosen)?;
    Ok(word.as_deref().and_then(Level::parse))
}

/// The variable with which tests choose another default.
const TEST_DEFAULT: &str = "GIT_AGENT_TEST_GUARD";

/// A level, and whether this machine holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    pub level: &'static str,
    pub held: bool,
    /// The parts of the kernel that hold it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// Why it is not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it leaves open on this machine, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Returns which levels this machine holds, what level `cell` leaves open on it, and why it is not held.
pub fn of_machine() -> Vec<Offer> {
    let offer = |level: Level| Offer {
        level: level.as_str(),
        held: true,
        by: Vec::new(),
        why: None,
        gaps: Vec::new(),
    };
    let abilities = machine::abilities();
    let mut cell = offer(Level::Cell);
    cell.why = abilities.why_no_room();
    cell.held = cell.why.is_none();
    if cell.held {
        cell.by.push(format!("Landlock {}", abilities.landlock));
        let namespaces = abilities.no_namespaces.is_none();
        cell.by
            .extend(namespaces.then(|| "user namespaces".to_owned()));
        cell.gaps = abilities.gaps();
    }
    vec![offer(Level::Off), offer(Level::Refs), cell]
}

/// Describes the levels of this machine, one line each.
pub fn in_words(offers: &[Offer]) -> Vec<String> {
    let held: Vec<&str> = offers
        .iter()
        .filter(|offer| offer.held)
        .map(|offer| offer.level)
        .collect();
    let by: Vec<&str> = offers
        .iter()
        .flat_map(|offer| offer.by.iter().map(String::as_str))
        .collect();
    let mut line = format!("guard levels: {}", held.join(", "));
    if !by.is_empty() {
        line.push_str(&format!(" ({})", by.join(", ")));
    }
    let mut lines = vec![line];
    for offer in offers {
        let level = offer.level;
        let why = offer.why.iter().map(|why| format!("not held: {why}"));
        let all = why.chain(offer.gaps.iter().cloned());
        lines.extend(all.map(|words| format!("guard level '{level}': {words}")));
    }
    lines
}

/// Returns whether a session has no network. Only level `cell` can take it away.
pub fn is_offline(context: &Context<'_>, session: &Session, level: Level) -> Result<bool> {
    let role = session.role.as_deref();
    let word = context.config.get_for(&settings::NETWORK, role, None)?;
    let offline = word.as_deref() == Some("off");
    if offline && level < Level::Cell {
        return Err(Error::fatal(format!(
            "agent.network is 'off', which guard level '{level}' cannot hold for session '{}'",
            session.name
        ))
        .hint("git agent doctor"));
    }
    Ok(offline)
}

/// Returns the level that a session gets. One that was asked for is held, or this fails.
pub fn choose(context: &Context<'_>, session: &Session, at: Option<&Checkout>) -> Result<Chosen> {
    let why_not = || why_no_cell(context, session, at);
    choose_unless(context, session, why_not)
}

/// Returns the level of a test of a session's work, in a worktree of its own.
pub fn choose_for_test(context: &Context<'_>, session: &Session, at: &Checkout) -> Result<Chosen> {
    let repo = context.repo;
    let why_not = || {
        let room = machine::abilities().why_no_room();
        room.or_else(|| repo.why_no_cell(at).map(str::to_owned))
    };
    choose_unless(context, session, why_not)
}

fn choose_unless(
    context: &Context<'_>,
    session: &Session,
    why_not: impl Fn() -> Option<String>,
) -> Result<Chosen> {
    let wanted = wanted(context, session)?;
    let default = context.env.var(TEST_DEFAULT).and_then(Level::parse);
    if let Some(level) = default.filter(|level| wanted.is_none() && *level < Level::Cell) {
        return Ok(Chosen {
            level,
            why_lower: None,
        });
    }
    if let Some(level) = wanted.filter(|level| *level < Level::Cell) {
        return Ok(Chosen {
            level,
            why_lower: None,
        });
    }
    match (why_not(), wanted) {
        (None, _) => Ok(Chosen {
            level: Level::Cell,
            why_lower: None,
        }),
        (Some(why), None) => Ok(Chosen {
            level: Level::Refs,
            why_lower: Some(why),
        }),
        (Some(why), Some(_)) => Err(Error::fatal(format!(
            "guard level 'cell' cannot be held for session '{}': {why}",
            session.name
        ))
        .hint(format!(
            "git agent new --guard refs --name {} ...",
            shell_word(&session.name)
        ))
        .hint("git agent doctor")),
    }
}

/// Returns why a session cannot have level `cell`.
fn why_no_cell(context: &Context<'_>, session: &Session, at: Option<&Checkout>) -> Option<String> {
    let abilities = machine::abilities();
    if let Some(why) = abilities.why_no_room() {
        return Some(why);
    }
    let writes = session.settings.read_only != Some(true);
    if writes && session.branch.is_none() {
        return Some("it has no branch of its own".to_owned());
    }
    if writes && session.settings.shares.is_some() {
        return Some("it works in the worktree of another session".to_owned());
    }
    let at = at.filter(|_| writes)?;
    context.repo.why_no_cell(at).map(str::to_owned)
}
