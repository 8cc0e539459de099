//! `git agent show`: everything about one session.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::detail;
use git_agent::model::event::Event;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, detail as view, json, transcript};

#[derive(Debug, Args)]
pub struct Show {
    /// Session: name, id, or end of an id (default: the one of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Show) -> Result<u8> {
    let mut options = args.output.options();
    if matches!(options.format, Format::Porcelain { .. }) {
        return Err(Error::usage("one session has no porcelain form")
            .hint("use --json, or git agent list --porcelain SESSION"));
    }
    options.pager = true;
    in_repo::run(env, options, |context, ui| {
        let all = ui.format() == Format::Json;
        let shown = |event: &Event| all || transcript::is_worth_showing(&event.body);
        let mut warn = |error: &Error| ui.warning(one_line(error.message()));
        let detail = detail::show(context, args.session.as_deref(), &shown, &mut warn)?;
        match ui.format() {
            Format::Json => json::write_list(ui, "sessions", [&detail])?,
            _ => view::write(env, ui, &detail)?,
        }
        Ok(0)
    })
}
