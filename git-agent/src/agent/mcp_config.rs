//! Writes files with MCP servers, for agents that read them from a file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::agent::driver::Turn;
use crate::error::{Context, Result};

/// An agent's settings file with MCP servers, named by a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub variable: &'static str,
    /// The default path of the file, below the user's home.
    pub usual: &'static str,
}

/// Writes the offered servers of a turn and returns the file; `None` if there are none.
pub fn write(turn: &Turn) -> Result<Option<PathBuf>> {
    if turn.mcp_servers.is_empty() {
        return Ok(None);
    }
    write_file(turn, json!({"mcpServers": offered(turn)})).map(Some)
}

/// Writes a copy of the user's settings with the offered servers of a turn, and returns the variable that names it;
/// `None` if there are none, so that the user's own file is used.
pub fn write_settings(turn: &Turn, settings: &Settings) -> Result<Option<(OsString, OsString)>> {
    if turn.mcp_servers.is_empty() {
        return Ok(None);
    }
    let variable = |name: &str| turn.environment.get(OsStr::new(name)).map(PathBuf::from);
    let own = variable(settings.variable)
        .or_else(|| variable("HOME").map(|home| home.join(settings.usual)));
    let own = own.and_then(|file| std::fs::read(file).ok());
    let own = own.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let mut own = own.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if !own["mcpServers"].is_object() {
        own["mcpServers"] = json!({});
    }
    if let Some(servers) = own["mcpServers"].as_object_mut() {
        servers.extend(offered(turn));
    }
    let file = write_file(turn, own)?;
    Ok(Some((settings.variable.into(), file.into())))
}

fn offered(turn: &Turn) -> Map<String, Value> {
    turn.mcp_servers
        .iter()
        .map(|server| {
            let env: BTreeMap<&str, &str> = server
                .env
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let entry = json!({
                "command": server.command.to_string_lossy(),
                "args": server.args,
                "env": env,
            });
            (server.name.clone(), entry)
        })
        .collect()
}

fn write_file(turn: &Turn, content: Value) -> Result<PathBuf> {
    let file = turn.scratch.join("mcp.json");
    std::fs::write(&file, content.to_string())
        .context(|| format!("cannot write '{}'", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::driver::McpServer;

    #[test]
    fn the_users_own_settings_are_kept_beside_what_is_offered() {
        let home = tempfile::tempdir().expect("a directory");
        let settings = Settings {
            variable: "X_SETTINGS",
            usual: "x.json",
        };
        let mut turn = Turn {
            scratch: home.path().into(),
            environment: [("HOME".into(), home.path().into())].into(),
            ..Turn::default()
        };
        let written = |turn: &Turn| write_settings(turn, &settings).expect("written");
        assert_eq!(written(&turn), None);
        turn.mcp_servers.push(McpServer {
            name: "ours".into(),
            command: "/bin/ours".into(),
            args: vec!["-x".into()],
            env: vec![("A".into(), "b".into())],
        });
        for own in ["", "[]", "no", r#"{"mcpServers":7}"#] {
            std::fs::write(home.path().join("x.json"), own).expect("written");
            assert!(written(&turn).is_some());
        }
        let own = r#"{"more":1,"mcpServers":{"theirs":{"url":"http://127.0.0.1"}}}"#;
        std::fs::write(home.path().join("x.json"), own).expect("written");
        let (variable, file) = written(&turn).expect("something is offered");
        assert_eq!(variable, "X_SETTINGS");
        let read = std::fs::read(file).expect("a file");
        let read: Value = serde_json::from_slice(&read).expect("JSON");
        assert_eq!(read["more"], 1);
        assert_eq!(read["mcpServers"]["theirs"]["url"], "http://127.0.0.1");
        assert_eq!(read["mcpServers"]["ours"]["command"], "/bin/ours");
    }
}
