//! MCP servers in a file, for agents that are told of them so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Turn;
use crate::error::{Context, Result};

/// Writes the servers that a turn offers, and returns where; `None` when it offers none.
pub fn write(turn: &Turn) -> Result<Option<PathBuf>> {
    if turn.mcp_servers.is_empty() {
        return Ok(None);
    }
    let servers: Map<String, Value> = turn
        .mcp_servers
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
        .collect();
    let file = turn.scratch.join("mcp.json");
    std::fs::write(&file, json!({"mcpServers": servers}).to_string())
        .context(|| format!("cannot write '{}'", file.display()))?;
    Ok(Some(file))
}
