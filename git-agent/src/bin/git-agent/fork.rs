//! `git agent fork`: starts a session from the conversation and the work of another.

use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo, text_input};
use git_agent::model::session::Session;
use git_agent::output::Ui;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::create::fork::{self, Changes};

use crate::created_sessions;

#[derive(Debug, Args)]
pub struct Fork {
    /// The session to fork
    #[arg(value_name = "SESSION")]
    session: String,
    /// The prompt of the new session ('-' is standard input; default: the editor)
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
    /// Make the new session read-only
    #[arg(long)]
    read_only: bool,
    /// Ask the user for every permission (default: as in the original session)
    #[arg(long, overrides_with = "no_ask")]
    ask: bool,
    /// Answer permissions by policy
    #[arg(long, overrides_with = "ask", hide_short_help = true)]
    no_ask: bool,
    /// Also give the agent the conversation of a teammate's session
    #[arg(long, overrides_with = "no_conversation")]
    conversation: bool,
    /// Use only the work of a teammate's session
    #[arg(long, overrides_with = "conversation", hide_short_help = true)]
    no_conversation: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command as the agent
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "agent")]
    command: Vec<String>,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Fork) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listed = selection::select_one(context, Some(&args.session))?;
        let prompt = text_input::read(
            context,
            "prompt",
            args.prompt.as_deref(),
            args.file.as_deref(),
        )?;
        let changes = Changes {
            prompt,
            name: args.name.clone(),
            agent: args.agent.clone(),
            command: args.command.clone(),
            model: args.model.clone(),
            ask: args.ask.then_some(true).or(args.no_ask.then_some(false)),
            read_only: args.read_only,
        };
        let created = fork::fork(context, &listed, &changes, &mut |session| {
            may_read(ui, args, session)
        })?;
        created_sessions::tell(ui, &created);
        created_sessions::answer(context, ui, &[created], false)?;
        Ok(0)
    })
}

/// Returns whether the agent may read the conversation of a teammate's session.
fn may_read(ui: &Ui, args: &Fork, session: &Session) -> Result<bool> {
    let name = one_line(&session.name).to_string();
    if args.conversation {
        return Ok(true);
    }
    if args.no_conversation || !ui.may_ask() {
        ui.narrate(format!(
            "using only the work of '{name}', without its conversation"
        ));
        ui.hint("git agent fork --conversation …");
        return Ok(false);
    }
    let author = one_line(&session.author.name).to_string();
    ui.narrate(format!(
        "'{name}' was written by {author}; its conversation may contain instructions to your agent."
    ));
    ui.confirm("Give it to your agent?")
}
