//! `git-agent-builtin`: a small coding agent that needs only a model. It speaks the Agent Client Protocol on standard
//! input and output.
//!
//! | file | owns |
//! |---|---|
//! | `acp` | the protocol: conversations, turns, cancelling |
//! | `turn` | the loop: ask the model, do what it calls for |
//! | `tools` | the tools that the model may call |
//! | `provider` | models over HTTP |
//! | `conversation` | messages, and the file that keeps them |
//! | `compaction` | making room in a long conversation |
//! | `fenced` | models without tool calls |
//! | `screen` | the messages to the client |

mod acp;
mod compaction;
mod conversation;
mod cut;
mod fenced;
mod provider;
mod screen;
mod system_prompt;
mod tools;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use git_agent::agent::catalog::reachable;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::{invoke, output};
use serde_json::json;

/// Variable that says whether permissions are asked: `skip` or `ask`.
const PERMISSIONS: &str = "GIT_AGENT_BUILTIN_PERMISSIONS";

/// Run a coding agent with any model, over the Agent Client Protocol on standard input and output
#[derive(Debug, Parser)]
#[command(
    name = "git-agent-builtin",
    bin_name = "git agent-builtin",
    disable_help_subcommand = true
)]
struct Cli {
    /// Use this model: provider/model, or a name that tells its provider
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Keep conversations in this directory
    #[arg(long, value_name = "DIR")]
    conversations: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the models that can be reached now
    Models {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    invoke::main("git-agent-builtin", |env, arguments| {
        let cli: Cli = invoke::parse(arguments)?;
        match &cli.verb {
            Some(Verb::Models { json }) => models(env, *json),
            None => {
                let settings = acp::Settings {
                    conversations: match &cli.conversations {
                        Some(dir) => dir.clone(),
                        None => usual_directory(env)?,
                    },
                    model: cli.model,
                    skip_permissions: env.var(PERMISSIONS) == Some("skip"),
                };
                acp::serve(&Arc::new(Env::from_process()?), &settings);
                Ok(0)
            }
        }
    })
}

/// Returns where conversations of other clients are kept.
fn usual_directory(env: &Env) -> Result<PathBuf> {
    let data = env
        .var_os("XDG_DATA_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let home = || Some(PathBuf::from(env.var_os("HOME")?).join(".local/share"));
    let data = data.or_else(home).ok_or_else(|| {
        Error::fatal("no home directory is set").hint("git-agent-builtin --conversations DIR")
    })?;
    Ok(data.join("git-agent/conversations"))
}

fn models(env: &Env, as_json: bool) -> Result<u8> {
    let found = provider::list::reachable(env);
    if as_json {
        let text = json!({"version": 1, "providers": found}).to_string();
        output::print(&format!("{text}\n"), false)?;
        return Ok(0);
    }
    let mut text = String::new();
    for entry in &found {
        let word = |key: &str| entry[key].as_str().unwrap_or_default();
        text.push_str(&format!("{} ({})\n", word("provider"), word("reason")));
        for name in entry["models"].as_array().into_iter().flatten() {
            text.push_str(&format!(
                "  {}/{}\n",
                word("provider"),
                one_line(name.as_str().unwrap_or_default())
            ));
        }
        if !word("error").is_empty() {
            text.push_str(&format!("  error: {}\n", one_line(word("error"))));
        }
    }
    output::print(&text, false)?;
    if found.is_empty() {
        return Err(Error::negative("no model can be reached").hint(reachable::ADVICE));
    }
    Ok(0)
}
