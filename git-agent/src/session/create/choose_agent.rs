//! The agent of a session: chosen by option, role or configuration, and found again when the session continues.

use std::ffi::OsString;

use crate::agent::catalog::registry::{self, AgentEntry};
use crate::agent::catalog::spec::AgentSpec;
use crate::config::Config;
use crate::config::settings;
use crate::env::Env;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::model::session::{Session, SessionId};
use crate::redact::Redactor;
use crate::store::Store;

pub use crate::agent::catalog::spec::COMMAND;

/// The user's choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentChoice<'a> {
    /// The agent's name.
    pub agent: Option<&'a str>,
    pub model: Option<&'a str>,
    /// The role preset.
    pub role: Option<&'a str>,
    /// The command, when one was given.
    pub command: &'a [String],
}

/// The choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The agent's name.
    pub name: String,
    /// The model, when one was chosen.
    pub model: Option<String>,
}

/// Chooses agent and model. An agent that is not there is an error now, not later in the background.
pub fn choose(config: &Config<'_>, env: &Env, wish: &AgentChoice<'_>) -> Result<Chosen> {
    let of_role = |key: &str| -> Option<String> {
        wish.role
            .and_then(|role| config.string(&format!("agent-role.{role}.{key}")))
    };
    if let Some(role) = wish.role
        && !config.names("agent-role").iter().any(|known| known == role)
    {
        return Err(Error::fatal(format!("no role '{role}'")).hint(format!(
            "git config {} <agent>",
            shell_word(format!("agent-role.{role}.agent"))
        )));
    }
    let model = wish.model.map(str::to_owned).or_else(|| of_role("model"));
    let model = model.or_else(|| config.text(&settings::MODEL));
    if !wish.command.is_empty() {
        if let Some(agent) = wish.agent {
            return Err(Error::usage(format!(
                "give an agent ('{agent}') or a command, not both"
            )));
        }
        return Ok(Chosen {
            name: COMMAND.to_owned(),
            model,
        });
    }
    let name = wish.agent.map(str::to_owned).or_else(|| of_role("agent"));
    // A default that only the team's file gives, and that is not known here, is none.
    let default = config
        .string("agent.default")
        .filter(|name| !config.is_of_team("agent.default", name) || require(config, name).is_ok());
    let name = match name.or(default) {
        Some(name) => name,
        None => first_found(config, env).ok_or_else(|| {
            Error::fatal("no agent is chosen and none is installed")
                .hint("any shell command is an agent: put it last, as in '-- ./my-agent.sh'")
                .hint("or choose one: git config agent.default <agent>")
        })?,
    };
    if name == COMMAND {
        return Err(no_command());
    }
    require(config, &name)?;
    Ok(Chosen { name, model })
}

/// Returns the agent of a session.
pub fn of_session(config: &Config<'_>, store: &Store<'_>, session: &Session) -> Result<AgentSpec> {
    if session.agent != COMMAND {
        return require(config, &session.agent);
    }
    let words = command_of(store, session).unwrap_or_default();
    of_words(words, &session.name)
}

/// Returns the agent that the command of a session is.
fn of_words(words: Vec<String>, name: &str) -> Result<AgentSpec> {
    if words.iter().any(|word| word.contains("[REDACTED:")) {
        return Err(Error::fatal(format!(
            "the command of '{name}' contained a secret and was not kept"
        ))
        .hint("start a new session with the command"));
    }
    AgentSpec::from_words(&words.into_iter().map(OsString::from).collect::<Vec<_>>())
}

/// Makes sure that a session with this agent, or this command, can go on from the session with a name.
pub fn check(config: &Config<'_>, agent: &str, command: &[String], name: &str) -> Result<()> {
    if agent != COMMAND {
        require(config, agent).map(|_| ())
    } else if command.is_empty() {
        Err(no_command())
    } else {
        of_words(command.to_vec(), name).map(|_| ())
    }
}

fn no_command() -> Error {
    Error::usage(format!("agent '{COMMAND}' needs a command"))
        .hint("put the command last, as in '-- ./my-agent.sh'")
}

/// Keeps a command as it was typed, for this clone and this user only: the record has it redacted.
pub fn keep_command(store: &Store<'_>, sid: SessionId, command: &[String]) -> Result<()> {
    if command.is_empty() {
        return Ok(());
    }
    let path = store
        .require_dir(&format!("scratch/{sid}"))?
        .join("command.json");
    let bytes = serde_json::to_vec(command).context(|| "cannot encode the command".into())?;
    std::fs::write(&path, bytes).context(|| format!("cannot write '{}'", path.display()))
}

/// Returns a session's command: as typed if this clone has it, as recorded otherwise.
pub fn command_of(store: &Store<'_>, session: &Session) -> Option<Vec<String>> {
    kept_command(store, session.sid).or_else(|| session.settings.command.clone())
}

fn kept_command(store: &Store<'_>, sid: SessionId) -> Option<Vec<String>> {
    let path = store
        .dir()
        .join("scratch")
        .join(sid.as_str())
        .join("command.json");
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Takes secrets out of the commands that are kept as they were typed. Returns whose commands changed: they cannot be
/// started again.
pub fn purge_commands(store: &Store<'_>, redactor: &Redactor) -> Result<Vec<SessionId>> {
    let mut changed = Vec::new();
    let Ok(entries) = std::fs::read_dir(store.dir().join("scratch")) else {
        return Ok(changed);
    };
    for entry in entries.flatten() {
        let Some(sid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Some(words) = kept_command(store, sid) else {
            continue;
        };
        let clean = redactor.json(words.clone().into()).into_inner();
        if clean != serde_json::Value::from(words) {
            let words: Vec<String> =
                serde_json::from_value(clean).context(|| "cannot purge a command".into())?;
            keep_command(store, sid, &words)?;
            changed.push(sid);
        }
    }
    changed.sort_unstable();
    Ok(changed)
}

/// Takes secrets out of the prompts and histories that agents were given as files.
pub fn purge_texts(store: &Store<'_>, redactor: &Redactor) -> Result<()> {
    let entries = std::fs::read_dir(store.dir().join("scratch"));
    for place in entries.into_iter().flatten().flatten() {
        let files = std::fs::read_dir(place.path());
        for file in files.into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            let is_prompt = name.starts_with("prompt-") && name.ends_with(".txt");
            if !is_prompt && name != "history.txt" {
                continue;
            }
            let cannot = || format!("cannot purge '{}'", file.path().display());
            let text = std::fs::read(file.path()).context(cannot)?;
            let clean = redactor.bytes(&text).into_inner();
            if clean != text {
                std::fs::write(file.path(), clean).context(cannot)?;
            }
        }
    }
    Ok(())
}

/// Returns an agent by name, built in or configured.
pub fn require(config: &Config<'_>, name: &str) -> Result<AgentSpec> {
    registry::require(name, &entries(config))
}

/// Returns the agents that the configuration adds or changes.
pub fn entries(config: &Config<'_>) -> Vec<AgentEntry> {
    config
        .names("agent")
        .iter()
        .map(|name| AgentEntry::read(name, |key| config.strings(&format!("agent.{name}.{key}"))))
        .collect()
}

/// Returns the first agent that is installed.
fn first_found(config: &Config<'_>, env: &Env) -> Option<String> {
    let entries = entries(config);
    registry::names(&entries).into_iter().find(|name| {
        registry::require(name, &entries)
            .is_ok_and(|spec| spec.find(env.var_os("PATH"), &env.cwd).is_some())
    })
}
