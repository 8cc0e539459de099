//! Writing settings into git's configuration, here or for all of the user's repositories.

use crate::config::keys::{self, Key};
use crate::config::parse_bool;
use crate::context::Context;
use crate::env::Env;
use crate::error::{Error, Result, shell_word};
use crate::git::{Repo, config};
use crate::model::similar;
use crate::review::git_notes;
use crate::session::caller::{self, Act};

/// The sections of git's configuration that hold our settings.
const SECTIONS: [&str; 3] = ["agent", "agent-role", "agent-mcp"];

/// Sets a setting of this repository; one that we do not know only by `force`. Returns whether reviews are shown in
/// `git log` now because of it.
pub fn set(context: &Context<'_>, name: &str, value: &str, force: bool) -> Result<bool> {
    caller::permit(context, Act::Configure, [])?;
    let name = checked(name, value, force)?;
    context.repo.set_config(&name, value)?;
    let shows_notes = name == git_notes::KEY && parse_bool(value) == Some(true);
    if shows_notes {
        git_notes::render(context)?;
    }
    Ok(shows_notes)
}

/// Sets a setting for all of the user's repositories. This needs no repository.
pub fn set_global(name: &str, value: &str, force: bool) -> Result<()> {
    config::set_global(&checked(name, value, force)?, value)
}

/// Removes a setting of this repository.
pub fn unset(context: &Context<'_>, name: &str) -> Result<()> {
    caller::permit(context, Act::Configure, [])?;
    let name = full_name(name);
    require_set(&name, context.repo.unset_config(&name)?)
}

/// Removes a setting of all of the user's repositories.
pub fn unset_global(name: &str) -> Result<()> {
    let name = full_name(name);
    require_set(&name, config::unset_global(&name)?)
}

/// Sets for all repositories whether reviews are rendered for plain git, and does so at once in this one. Returns whether
/// anything changed.
pub fn show_notes(env: &Env, shown: bool) -> Result<bool> {
    if !shown {
        return config::unset_global(git_notes::KEY);
    }
    config::set_global(git_notes::KEY, "true")?;
    if let Ok(repo) = Repo::discover(env) {
        git_notes::render(&Context::new(env, &repo)?)?;
    }
    Ok(true)
}

/// Returns a setting's full name: `maxParallel` is short for `agent.maxParallel`.
pub fn full_name(name: &str) -> String {
    if name.contains('.') {
        name.to_owned()
    } else {
        format!("agent.{name}")
    }
}

/// Returns the full name of a setting that may be set to a value.
fn checked(name: &str, value: &str, force: bool) -> Result<String> {
    let name = full_name(name);
    let section = name.split('.').next().unwrap_or_default();
    if !SECTIONS.contains(&section) {
        return Err(
            Error::usage(format!("'{name}' is not a setting of git-agent"))
                .hint(format!("git config {} ...", shell_word(&name))),
        );
    }
    match keys::find(&name) {
        Some(key) => refuse_bad(key, &name, value)?,
        None if force => {}
        None => {
            let word = shell_word(&name);
            return Err(unknown(&name).hint(format!(
                "git agent config set --force {word} ...    set it anyway"
            )));
        }
    }
    Ok(name)
}

/// Returns the error about a setting that we do not know, with similar ones.
pub fn unknown(name: &str) -> Error {
    let error = Error::negative(format!("unknown setting '{name}'"));
    match similar::did_you_mean(&name.to_lowercase(), &keys::names_like(name)) {
        Some(meant) => error.hint(meant),
        None => error.hint("git agent config    list all settings"),
    }
}

fn refuse_bad(key: &Key, name: &str, value: &str) -> Result<()> {
    match key.kind.complaint(value) {
        Some(complaint) => Err(Error::fatal(format!("bad value for '{name}': {complaint}"))
            .hint(format!("{name}: {}", key.meaning))),
        None => Ok(()),
    }
}

fn require_set(name: &str, was_set: bool) -> Result<()> {
    if was_set {
        Ok(())
    } else {
        Err(Error::negative(format!("'{name}' is not set there"))
            .hint("git agent config    see where it is set"))
    }
}
