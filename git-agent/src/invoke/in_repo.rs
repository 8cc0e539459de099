//! The common start of every verb: opens the repository, its settings and the output.

use crate::config::{TEAM_FILE, Team};
use crate::context::Context;
use crate::env::Env;
use crate::error::Result;
use crate::git::Repo;
use crate::output::{Options, Ui};
use crate::session::caller;
use crate::session::checks::dead_turns;

/// Opens the repository and runs a verb in it. Warns once about ignored settings of the team's file.
pub fn run(
    env: &Env,
    options: Options,
    verb: impl FnOnce(&Context<'_>, &Ui) -> Result<u8>,
) -> Result<u8> {
    run_without_warnings(env, options, |context, ui| {
        warn(context, ui);
        settle_dead_turns(context, ui);
        verb(context, ui)
    })
}

/// Opens the repository and runs a verb in it.
pub fn run_without_warnings(
    env: &Env,
    options: Options,
    verb: impl FnOnce(&Context<'_>, &Ui) -> Result<u8>,
) -> Result<u8> {
    let repo = Repo::discover(env)?;
    let context = Context::new(env, &repo)?;
    let ui = Ui::new(env, options, &|key| repo.config_string(key))?;
    let code = verb(&context, &ui)?;
    ui.finish()?;
    Ok(code)
}

/// Returns whether the current directory is in a repository that can be opened.
pub fn is_in_repo(env: &Env) -> bool {
    Repo::discover(env).is_ok()
}

/// Says which settings are ignored, and why.
fn warn(context: &Context<'_>, ui: &Ui) {
    if let Some(team) = context
        .config
        .team()
        .filter(|team| !team.ignored.is_empty())
    {
        ui.warning(format!(
            "'{TEAM_FILE}' is not trusted yet; ignored: {}",
            team.ignored.join(", ")
        ));
        ui.hint("read the file, then: git agent trust");
    }
    if let Some(error) = context.config.unreadable() {
        ui.warning(format!("{error}; it is ignored"));
    }
    let team = context.config.team();
    for (key, complaint) in team.into_iter().flat_map(|team| &team.broken) {
        ui.warning(format!("{key} is ignored in '{TEAM_FILE}': {complaint}"));
    }
    for (key, why) in team.into_iter().flat_map(Team::personal) {
        ui.warning(format!("{key} is ignored in '{TEAM_FILE}': {why}"));
    }
    if context.store.is_closed() {
        ui.warning(
            "this repository belongs to another user: its sessions are shown as last recorded",
        );
    }
}

/// Looks at the ends of turns whose supervisor died.
fn settle_dead_turns(context: &Context<'_>, ui: &Ui) {
    // Not from inside a session: its processes are ended with it.
    if caller::foreign(context).is_some() {
        return;
    }
    for error in dead_turns::settle_all(context) {
        ui.warning(format!(
            "cannot look at the end of a turn whose supervisor died: {error}"
        ));
    }
}
