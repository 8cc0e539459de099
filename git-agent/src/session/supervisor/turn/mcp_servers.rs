//! MCP servers that are offered to agents: those of `agent.mcp`, and those of the session's role.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::agent::catalog::template;
use crate::agent::driver::McpServer;
use crate::config::settings;
use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::model::session::Session;
use crate::process::detach::own_program;

/// Returns the servers of a session, each once. One that is named and not described is an error, not a silent absence,
/// unless only the team's file names it.
pub fn offered(
    context: &Context<'_>,
    session: &Session,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Vec<McpServer>> {
    let config = &context.config;
    let of_role = session
        .role
        .iter()
        .map(|role| format!("agent-role.{role}.mcp"));
    let keys = ["agent.mcp".to_owned()].into_iter().chain(of_role);
    let names = keys.flat_map(|key| {
        let values = config.strings(&key).into_iter();
        values.map(move |name| (config.is_of_team(&key, &name), name))
    });
    let mut servers: Vec<McpServer> = Vec::new();
    for (named_by_team, name) in names {
        if servers.iter().any(|known| known.name == name) {
            continue;
        }
        let key = |key: &str| format!("agent-mcp.{name}.{key}");
        let Some(command) = config.string(&key("command")) else {
            // Its command may be in a team file that is not trusted yet, which is reported where settings are read.
            if named_by_team {
                continue;
            }
            return Err(Error::fatal(format!("MCP server '{name}' has no command"))
                .hint(format!("git config {} \"...\"", shell_word(key("command")))));
        };
        let words = template::words(&command)
            .context(|| format!("bad config value for '{}'", key("command")))?;
        let mut words = words.into_iter();
        let program = words
            .next()
            .ok_or_else(|| Error::fatal(format!("'{}' is empty", key("command"))))?;
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        servers.push(McpServer {
            command: find(&program, environment),
            args: words.map(|word| text(&word)).collect(),
            env: variables(&config.strings(&key("env")), environment),
            name,
        });
    }
    Ok(servers)
}

/// Returns our own server, through which an agent reaches other sessions. It acts as the session whose process tree it is
/// in; its variables only let it run.
pub fn own(
    context: &Context<'_>,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Option<McpServer>> {
    if !context.config.require(&settings::MCP_SELF)? {
        return Ok(None);
    }
    const PASSED: [&str; 6] = [
        "PATH",
        "HOME",
        "XDG_CONFIG_HOME",
        "GIT_AGENT_SESSION",
        "GIT_AGENT_SOCKET",
        "GIT_AGENT_TOKEN",
    ];
    Ok(Some(McpServer {
        name: "git-agent".to_owned(),
        command: own_program(),
        args: vec!["mcp".to_owned()],
        env: variables(&PASSED.map(str::to_owned), environment),
    }))
}

/// Returns where a program is: some agents take only whole paths.
fn find(program: &OsStr, environment: &BTreeMap<OsString, OsString>) -> PathBuf {
    let path = environment.get(OsStr::new("PATH"));
    let found = which::which_in(program, path, "/");
    found.unwrap_or_else(|_| PathBuf::from(program))
}

/// Returns the variables of a server: `NAME=value` as it stands, `NAME` with the value it has here.
fn variables(
    wanted: &[String],
    environment: &BTreeMap<OsString, OsString>,
) -> Vec<(String, String)> {
    let here = |name: &str| {
        let value = environment.get(OsStr::new(name))?;
        Some((name.to_owned(), value.to_str()?.to_owned()))
    };
    wanted
        .iter()
        .filter_map(|variable| match variable.split_once('=') {
            Some((name, value)) => Some((name.to_owned(), value.to_owned())),
            None => here(variable),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_given_or_passed_on() {
        let environment: BTreeMap<OsString, OsString> = [("TOKEN".into(), "t".into())].into();
        let wanted = ["A=b=c", "TOKEN", "MISSING"].map(str::to_owned);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            variables(&wanted, &environment),
            [pair("A", "b=c"), pair("TOKEN", "t")]
        );
    }

    #[test]
    fn a_program_is_found_or_left_as_it_is() {
        let environment: BTreeMap<OsString, OsString> =
            [("PATH".into(), "/bin:/usr/bin".into())].into();
        assert!(find(OsStr::new("sh"), &environment).is_absolute());
        assert_eq!(
            find(OsStr::new("no-such-x"), &environment),
            PathBuf::from("no-such-x")
        );
    }
}
