//! The agent of a session: chosen by option, role or configuration, and found again when the session continues.

use std::ffi::OsString;
use std::path::Path;

use crate::agent::catalog::builtin::OWN;
use crate::agent::catalog::reachable;
use crate::agent::catalog::registry::{self, AgentEntry};
use crate::agent::catalog::spec::AgentSpec;
use crate::config::Config;
use crate::config::settings;
use crate::env::Env;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::model::session::{Session, SessionId};
use crate::model::similar;
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
    /// Whether the session starts later: its agent may be installed until then.
    pub later: bool,
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
        let roles = config.names("agent-role");
        let error = Error::fatal(format!("no role '{role}'"));
        let error = match (similar::did_you_mean(role, &roles), roles.is_empty()) {
            (Some(meant), _) => error.hint(meant),
            (None, false) => error.hint("git agent config roles"),
            (None, true) => error,
        };
        let key = shell_word(format!("agent-role.{role}.agent"));
        return Err(error.hint(format!("git config {key} <agent>")));
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
            let mut known = registry::names(&entries(config));
            known.retain(|name| name != OWN);
            Error::fatal(format!(
                "no coding agent found on PATH (looked for {})",
                known.join(", ")
            ))
            .hint("git agent config agents    how to install one")
            .hint(format!("or use the built-in agent: {}", reachable::ADVICE))
            .hint("any shell command is an agent: put it last, as in '-- ./my-agent.sh'")
        })?,
    };
    if name == COMMAND {
        return Err(no_command());
    }
    let spec = require(config, &name)?;
    if !wish.later {
        require_installed(config, env, &spec)?;
    }
    Ok(Chosen { name, model })
}

/// Makes sure that an agent's program is on this machine, and otherwise says which ones are.
fn require_installed(config: &Config<'_>, env: &Env, spec: &AgentSpec) -> Result<()> {
    let program = Path::new(spec.program());
    // A path is looked up in the worktree, which does not exist yet; a PATH of the agent's own is searched at its start.
    let is_path = program.components().count() > 1 && program.is_relative();
    let own_path = spec.env.iter().any(|(name, _)| name == "PATH");
    if is_path || own_path || spec.find(env.var_os("PATH"), &env.cwd).is_some() {
        return Ok(());
    }
    let name = &spec.name;
    let error = if program == Path::new(name) {
        Error::fatal(format!("'{name}' is not installed"))
    } else {
        Error::fatal(format!(
            "agent '{name}' is not installed: no program '{}'",
            program.display()
        ))
    };
    let error = match spec.install.as_str() {
        "" => error.hint(format!(
            "git config {}    its command",
            shell_word(format!("agent.{name}.command"))
        )),
        install => error.hint(install),
    };
    let there = installed(config, env);
    Err(if there.is_empty() {
        error.hint("git agent config agents    how to install others")
    } else {
        error.hint(format!("installed here: {}", there.join(", ")))
    })
}

/// Returns the agents whose programs are on this machine. The built-in one needs a model besides.
pub fn installed(config: &Config<'_>, env: &Env) -> Vec<String> {
    let entries = entries(config);
    let is_there = |name: &String| {
        registry::require(name, &entries)
            .is_ok_and(|spec| spec.find(env.var_os("PATH"), &env.cwd).is_some())
            && (name != OWN || reachable::model(env).is_some())
    };
    let names = registry::names(&entries).into_iter();
    names.filter(is_there).collect()
}

/// Returns the agent of a session.
pub fn of_session(config: &Config<'_>, store: &Store<'_>, session: &Session) -> Result<AgentSpec> {
    if session.agent != COMMAND {
        let mut spec = require(config, &session.agent)?;
        spec.use_installed_name(store.env.var_os("PATH"), &store.env.cwd);
        return Ok(spec);
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
pub fn check(
    config: &Config<'_>,
    env: &Env,
    agent: &str,
    command: &[String],
    name: &str,
) -> Result<()> {
    if agent != COMMAND {
        require_installed(config, env, &require(config, agent)?)
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

/// Returns the agents that the user's own configuration adds or changes, for use outside a repository.
pub fn own_entries() -> Result<Vec<AgentEntry>> {
    let settings = crate::git::config::global_settings("agent")?;
    let mut names: Vec<&str> = Vec::new();
    for (key, _) in &settings {
        let mut parts = key.splitn(2, '.').skip(1);
        let subsection = parts.next().and_then(|rest| rest.rsplit_once('.'));
        if let Some((name, _)) = subsection.filter(|(name, _)| !names.contains(name)) {
            names.push(name);
        }
    }
    let read = |name: &&str| {
        AgentEntry::read(name, |key| {
            let full = format!("agent.{name}.{key}");
            let same = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(&full);
            let values = settings.iter().filter(same);
            values.map(|(_, value)| value.clone()).collect()
        })
    };
    Ok(names.iter().map(read).collect())
}

/// Returns the first agent that is installed.
fn first_found(config: &Config<'_>, env: &Env) -> Option<String> {
    installed(config, env).into_iter().next()
}
