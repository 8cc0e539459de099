//! `git agent mcp`: the tools of git-agent for an agent that takes MCP servers, on standard input and output.

use std::io::{BufRead, Read, Write};

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::mcp;
use git_agent::output::json;

/// The server has no options.
#[derive(Debug, Args)]
pub struct Mcp {}

/// Runs the verb until standard input ends.
pub fn run(env: &Env, _: &Mcp) -> Result<u8> {
    in_repo::run(env, OutputArgs::default().options(), |context, ui| {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(mcp::LONGEST).read_until(b'\n', &mut line);
            if read.context(|| "cannot read a request".into())? == 0 {
                return Ok(0);
            }
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            if let Some(answer) = mcp::answer(context, line.trim()) {
                let mut out = ui.out();
                json::write_line(&mut out, &answer)?;
                out.flush().context(|| "cannot answer a request".into())?;
            }
        }
    })
}
