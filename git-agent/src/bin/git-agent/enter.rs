//! `git agent path`, `exec`, `shell`, `open` and `run`: commands in a session's worktree.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result};
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Options, cannot_write};
use git_agent::selection;
use git_agent::session::worktree::enter::{self, EnterCommand};

#[derive(Debug, Args)]
pub struct Path {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, Args)]
pub struct Exec {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Shell {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, Args)]
pub struct Open {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Editor to use (default: agent.editor, then one that is installed, then VISUAL or EDITOR)
    #[arg(long, value_name = "COMMAND")]
    editor: Option<String>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Arguments for the program
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs `path`.
pub fn path(env: &Env, args: &Path) -> Result<u8> {
    in_repo::run(env, Options::default(), |context, ui| {
        let listed = selection::select_mine(context, args.session.as_deref())?;
        let top = enter::require_worktree(context, &listed.session)?;
        let bytes = top.as_os_str().as_encoded_bytes();
        if env.terminals.stdout {
            writeln!(ui.out(), "{}", one_line(bytes))
        } else {
            ui.out().write_all(&[bytes, b"\n"].concat())
        }
        .context(cannot_write)?;
        Ok(0)
    })
}

/// Runs `exec`.
pub fn exec(env: &Env, args: &Exec) -> Result<u8> {
    go(env, args.session.as_deref(), |_, entry| {
        Ok(entry.become_program(&args.command))
    })
}

/// Runs `shell`.
pub fn shell(env: &Env, args: &Shell) -> Result<u8> {
    in_repo::run(env, Options::default(), |context, ui| {
        let listed = selection::select_mine(context, args.session.as_deref())?;
        let entry = enter::enter(context, &listed.session)?;
        if env.terminals.stdin && env.terminals.stderr {
            let name = one_line(&listed.session.name).to_string();
            ui.narrate(format!(
                "a shell in the worktree of '{name}'; 'exit' leaves it"
            ));
        }
        Err(entry.become_shell())
    })
}

/// Runs `open`.
pub fn open(env: &Env, args: &Open) -> Result<u8> {
    go(env, args.session.as_deref(), |context, entry| {
        let editor = match &args.editor {
            Some(editor) => editor.clone(),
            None => enter::editor(context)?,
        };
        Ok(enter::become_editor(entry, &editor))
    })
}

/// Runs `run`.
pub fn run(env: &Env, args: &Run) -> Result<u8> {
    go(env, args.session.as_deref(), |context, entry| {
        let script = enter::run_command(context)?;
        Ok(entry.become_script(&script, &args.arguments))
    })
}

/// Finds the worktree and replaces this process by a program there. Returns only the error.
fn go(
    env: &Env,
    session: Option<&str>,
    become_something: impl FnOnce(&Context<'_>, &EnterCommand) -> Result<Error>,
) -> Result<u8> {
    in_repo::run(env, Options::default(), |context, _| {
        let listed = selection::select_mine(context, session)?;
        let entry = enter::enter(context, &listed.session)?;
        Err(become_something(context, &entry)?)
    })
}
