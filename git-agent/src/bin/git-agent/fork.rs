//! `git agent fork`: a new session seeded with an existing conversation and its work.

use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::OutputArgs;
use git_agent::session::fork::{self, Changes};
use git_agent::session::{launch, select};

use crate::{new, site, text};

/// Start a new session from an existing conversation and its work
#[derive(Debug, Args)]
pub struct Fork {
    /// The session to fork
    #[arg(value_name = "SESSION")]
    session: String,
    /// What the new session shall do ('-' is standard input; default: the editor)
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Name the new session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Use another agent
    #[arg(short, long, value_name = "AGENT")]
    agent: Option<String>,
    /// Use another model
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Fork) -> Result<u8> {
    site::run(env, args.output.options(), |context, ui| {
        let session = select::select_one(context, Some(&args.session))?.session;
        let prompt = text::read(
            context,
            "prompt",
            args.prompt.as_deref(),
            args.file.as_deref(),
        )?;
        let changes = Changes {
            prompt,
            name: args.name.clone(),
            agent: args.agent.clone(),
            model: args.model.clone(),
        };
        let created = fork::fork(context, &session, &changes)?;
        launch::launch(context, created.session.sid)?;
        new::tell(ui, &created)?;
        new::answer(ui, &[created], false)?;
        Ok(0)
    })
}
