//! `git agent review ui`, and `git agent review SESSION` on a terminal: the review screen, which is part of the board.

use std::ffi::OsString;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Error;
use git_agent::invoke;
use git_agent::output::terminal::pager;

use crate::overview::Overview;

#[derive(Debug, Args)]
pub struct Ui {
    /// The session (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

/// Runs the verb. Returns only an error.
pub fn run(env: &Env, args: &Ui) -> Error {
    open(env, args.session.as_deref())
}

/// Returns the session whose review screen is wanted: a person at a terminal named one session, and nothing else.
pub fn wanted(env: &Env, overview: &Overview) -> Option<String> {
    let is_seen = env.terminals.stdin && env.terminals.stdout && !pager::in_use(env);
    let can_paint = env.var("TERM").is_some_and(|term| term != "dumb");
    overview.only_session().filter(|_| is_seen && can_paint)
}

/// Replaces this process by the review screen. Returns only an error.
pub fn open(env: &Env, session: Option<&str>) -> Error {
    let mut words: Vec<OsString> = vec!["--review".into()];
    words.extend(session.map(OsString::from));
    invoke::external(env, "git-agent-", "board".as_ref(), &words, &Vec::new)
}
