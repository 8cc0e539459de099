//! Trust in the team's file: only the user, not an agent, lets it choose the commands that run.

use crate::config::{self, TEAM_FILE, Team};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::session::caller;

/// The answer of a user who was asked for trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// The file was trusted already.
    Already,
    /// It is trusted now, until it changes.
    Now,
    /// The user did not agree.
    No,
}

/// Returns the team's file.
pub fn team_file<'c>(context: &'c Context<'_>) -> Result<&'c Team> {
    context.config.require_readable()?;
    context.config.team().ok_or_else(|| {
        Error::negative(format!(
            "the repository has no file '{TEAM_FILE}' at its top"
        ))
    })
}

/// Trusts the team's file as `show` showed it, if `confirm` agrees.
pub fn trust(
    context: &Context<'_>,
    show: &mut dyn FnMut(&Team) -> Result<()>,
    confirm: &mut dyn FnMut() -> Result<bool>,
) -> Result<Trusted> {
    require_person(context)?;
    let team = team_file(context)?;
    show(team)?;
    if team.trusted {
        return Ok(Trusted::Already);
    }
    if !confirm()? {
        return Ok(Trusted::No);
    }
    // The hash of the file as it was shown, not of the one that may stand there by now.
    config::trust(context.repo, Some(&team.hash))?;
    Ok(Trusted::Now)
}

/// Revokes the trust in the team's file.
pub fn revoke(context: &Context<'_>) -> Result<()> {
    require_person(context)?;
    config::trust(context.repo, None)
}

/// Refuses every command that was started in a session, whatever its environment says.
fn require_person(context: &Context<'_>) -> Result<()> {
    if context.env.var(caller::MARK).is_none() && caller::session(context)?.is_none() {
        return Ok(());
    }
    Err(
        Error::fatal("only the user can change the trust in the team's file")
            .hint("this is the environment of a session: run the command in your own terminal"),
    )
}
