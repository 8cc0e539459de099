//! Agents: the programs that edit code when prompted, and the drivers that speak to them.
//!
//! | file | owns |
//! |---|---|
//! | `driver` | the interface between a supervisor and a driver |
//! | `catalog` | which agents exist, which are installed, how each is started |
//! | `acp`, `claude`, `codex`, `command` | one driver each |
//! | `stream` | reading an agent's output: text, tools, usage, failures |
//! | `conversation_files`, `retell` | an agent's own files of a conversation; a conversation told again as a prompt |
//! | `mcp_config` | MCP servers as the file an agent wants |
//! | `leftover_files` | files that agents leave in a worktree for themselves |

pub mod acp;
pub mod catalog;
pub mod claude;
pub mod codex;
pub mod command;
pub mod conversation_files;
pub mod driver;
pub mod leftover_files;
pub mod mcp_config;
mod retell;
pub mod stream;
#[cfg(test)]
mod tests;
