//! The known agents: the built-in ones, and those that the configuration adds or changes.
//!
//! An entry is a subsection of `agent`, such as `[agent "mine"]` with `command = mine --acp` and `driver = acp`. Plain
//! keys of that section (`agent.maxParallel`) are not entries.

use crate::agent::catalog::{builtin, template};
use crate::agent::driver::{AgentSpec, Family};
use crate::error::{Context, Error, Result, shell_word};
use crate::model::similar;

/// One configured agent. Every field is optional: an entry with a built-in agent's name only changes the given fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentEntry {
    /// The subsection's name.
    pub name: String,
    /// `command`: the command line that starts it.
    pub command: Option<String>,
    /// `driver`: its driver.
    pub driver: Option<String>,
    /// `env` (several): a variable to pass on, or `NAME=value` to set.
    pub env: Vec<String>,
    /// `model`: the default model.
    pub model: Option<String>,
    /// `attach`: the command line that opens its own interface.
    pub attach: Option<String>,
    /// `provider`: the provider whose request limits it shares with other agents.
    pub provider: Option<String>,
}

impl AgentEntry {
    /// Reads an entry; `values` returns all values of one of its keys, lowest precedence first.
    pub fn read(name: &str, values: impl Fn(&str) -> Vec<String>) -> Self {
        let last = |key: &str| values(key).pop().filter(|value| !value.is_empty());
        AgentEntry {
            name: name.to_owned(),
            command: last("command"),
            driver: last("driver"),
            env: values("env"),
            model: last("model"),
            attach: last("attach"),
            provider: last("provider"),
        }
    }

    /// Applies the entry to an agent.
    fn apply(&self, spec: &mut AgentSpec) -> Result<()> {
        let key = |key: &str| format!("bad config value for 'agent.{}.{key}'", self.name);
        if let Some(command) = &self.command {
            spec.argv = template::words(command).context(|| key("command"))?;
            // Arguments that these drivers add must reach the program, not the shell that starts it.
            if matches!(spec.family, Family::ClaudeStream | Family::CodexJson) {
                template::pass_on(&mut spec.argv);
            }
        }
        if let Some(attach) = &self.attach {
            spec.attach = template::words(attach).context(|| key("attach"))?;
        }
        for variable in &self.env {
            match variable.split_once('=') {
                Some(("", _)) => return Err(Error::fatal(key("env"))),
                Some((name, value)) => spec.env.push((name.to_owned(), value.to_owned())),
                None => spec.env_names.push(variable.clone()),
            }
        }
        if self.model.is_some() {
            spec.model.clone_from(&self.model);
        }
        if self.provider.is_some() {
            spec.provider.clone_from(&self.provider);
        }
        Ok(())
    }
}

/// Returns the names of all agents, each once: the configured ones, then the built-in ones.
pub fn names(entries: &[AgentEntry]) -> Vec<String> {
    let mut names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    names.extend(
        builtin::all()
            .into_iter()
            .map(|spec| spec.name)
            .filter(|name| !entries.iter().any(|entry| entry.name == *name)),
    );
    names
}

pub fn require(name: &str, entries: &[AgentEntry]) -> Result<AgentSpec> {
    let entry = entries.iter().find(|entry| entry.name == name);
    let driver = entry
        .and_then(|entry| entry.driver.as_deref())
        .map(Family::parse)
        .transpose()
        .context(|| format!("bad config value for 'agent.{name}.driver'"))?;
    let built_in = driver
        .and_then(|driver| builtin::spoken_otherwise(name, driver))
        .or_else(|| builtin::all().into_iter().find(|spec| spec.name == name));
    let mut spec = match (built_in, driver, entry) {
        (Some(spec), driver, _) if driver.is_none_or(|driver| driver == spec.family) => spec,
        (built_in, driver, Some(entry)) if entry.command.is_some() => {
            let spec = AgentSpec::new(name, driver.unwrap_or(Family::Command), Vec::new());
            // With another driver, the same program still needs the same variables; nothing else applies.
            match built_in {
                Some(known) => AgentSpec {
                    env: known.env,
                    env_names: known.env_names,
                    attach: known.attach,
                    defaults: known.defaults,
                    provider: known.provider,
                    install: known.install,
                    other_programs: known.other_programs,
                    ..spec
                },
                None => spec,
            }
        }
        (_, _, Some(_)) => {
            return Err(
                Error::fatal(format!("agent '{name}' has no command")).hint(format!(
                    "git config agent.{}.command \"...\"",
                    shell_word(name)
                )),
            );
        }
        (_, _, None) => {
            let known = names(entries);
            let error = Error::fatal(format!("agent '{name}' does not exist"));
            let error = match similar::did_you_mean(&name.to_lowercase(), &known) {
                Some(meant) => error.hint(meant),
                None => error,
            };
            return Err(error
                .hint(format!("agents: {}", known.join(", ")))
                .hint(format!("git config agent.{}.command \"...\" adds it; git config agent.{}.driver acp if it supports ACP", shell_word(name), shell_word(name))));
        }
    };
    if let Some(entry) = entry {
        entry.apply(&mut spec)?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::catalog::spec::Asking;

    fn entry(name: &str, keys: &[(&str, &str)]) -> AgentEntry {
        AgentEntry::read(name, |wanted| {
            keys.iter()
                .filter(|(key, _)| *key == wanted)
                .map(|(_, value)| (*value).to_owned())
                .collect()
        })
    }

    #[test]
    fn an_agent_may_be_spoken_to_in_another_way() {
        let entry = AgentEntry {
            name: "qwen".into(),
            driver: Some("claude-stream".into()),
            ..AgentEntry::default()
        };
        let spec = require("qwen", &[entry]).expect("known");
        assert_eq!(spec.family, Family::ClaudeStream);
        assert!(template::has(&spec.argv, "new_session"));
        assert!(!spec.argv.iter().any(|word| word == "--verbose"));
        assert!(spec.needs_variable("OPENAI_API_KEY"));
        assert_eq!(require("qwen", &[]).expect("known").family, Family::Acp);
    }

    #[test]
    fn built_in_agents_are_complete() {
        for spec in builtin::all() {
            assert!(!spec.argv.is_empty(), "{}", spec.name);
            assert!(!spec.install.is_empty(), "{}", spec.name);
            // An agent that can be told to ask is not listed as "never asks".
            let asks = spec.asking != Asking::Never;
            assert!(asks || spec.ask_env.is_empty(), "{}", spec.name);
            assert_eq!(require(&spec.name, &[]).expect("it exists"), spec);
        }
    }

    #[test]
    fn an_entry_adds_an_agent() {
        let entries = [entry(
            "mine",
            &[
                ("command", "old"),
                ("command", "mine serve --model {model}"),
                ("driver", "acp"),
                ("env", "MINE_KEY"),
                ("env", "MINE_QUIET=1"),
                ("model", "m1"),
                ("attach", "mine ui {session}"),
            ],
        )];
        let spec = require("mine", &entries).expect("it exists");
        assert_eq!(spec.family, Family::Acp);
        assert_eq!(spec.argv, ["mine", "serve", "--model", "{model}"]);
        assert_eq!(spec.env, [("MINE_QUIET".to_owned(), "1".to_owned())]);
        assert!(spec.needs_variable("MINE_KEY"));
        assert_eq!(spec.model.as_deref(), Some("m1"));
        assert_eq!(spec.attach, ["mine", "ui", "{session}"]);
        assert_eq!(names(&entries)[0], "mine");
    }

    #[test]
    fn a_command_in_a_shell_gets_what_its_driver_adds() {
        let argv = |driver: &str| {
            let entries = [entry("mine", &[("command", "A=b x"), ("driver", driver)])];
            require("mine", &entries).expect("it exists").argv
        };
        for driver in ["claude-stream", "codex-json"] {
            assert_eq!(argv(driver), ["sh", "-c", "A=b x \"$@\"", "sh"]);
        }
        for driver in ["acp", "command"] {
            assert_eq!(argv(driver), ["sh", "-c", "A=b x"]);
        }
    }

    #[test]
    fn an_entry_changes_a_built_in_agent() {
        let entries = [entry(
            "goose",
            &[("command", "/opt/goose acp"), ("env", "A=b")],
        )];
        let plain = require("goose", &[]).expect("built in");
        let spec = require("goose", &entries).expect("built in");
        assert_eq!(spec.argv, ["/opt/goose", "acp"]);
        assert_eq!(spec.failure_texts, plain.failure_texts);
        assert_eq!(spec.env.len(), plain.env.len() + 1);
        let entries = [entry("goose", &[("command", "x"), ("driver", "command")])];
        let spec = require("goose", &entries).expect("spoken to in another way");
        assert_eq!((spec.family, &spec.env), (Family::Command, &plain.env));
        assert!(spec.failure_texts.is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert!(require("nope", &[]).is_err());
        for keys in [
            &[("driver", "acp")][..],
            &[("command", "x"), ("driver", "telepathy")],
            &[("command", "x 'y")],
            &[("command", "x {prompt} | y")],
            &[("command", "x"), ("env", "=1")],
        ] {
            assert!(require("bad", &[entry("bad", keys)]).is_err(), "{keys:?}");
        }
    }
}
