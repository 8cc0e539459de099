//! Agents: the programs that edit code on a prompt, and the drivers that talk to them.
//!
//! | file | owns |
//! |---|---|
//! | `driver` | the interface between a supervisor and a driver |
//! | `catalog` | the known agents, the installed ones, and how to start each |
//! | `acp`, `claude`, `codex`, `command` | one driver each |
//! | `stream` | parsing an agent's output: text, tools, usage, failures |
//! | `conversation_files`, `retell` | an agent's own files of a conversation; a conversation repeated in a prompt |
//! | `mcp_config` | MCP servers as the file that an agent reads |
//! | `leftover_files` | private files of agents in a worktree |

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
