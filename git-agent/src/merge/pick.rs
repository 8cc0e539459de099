//! Picks the winner of a group: the winner is merged; the other sessions are closed and cleaned, and each can be
//! restored.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::merge::run::{self, Agree, MergeOutcome, MergeRequest, Tell};
use crate::model::session::{Session, State};
use crate::selection;
use crate::session::control;
use crate::session::worktree::clean::{self, Cleaned, Options};
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// The result of picking a winner.
#[derive(Debug)]
pub struct Picked {
    /// Whether the winner was merged. If not, no session was closed.
    pub merged: bool,
    /// The other sessions of the group.
    pub closed: Vec<Cleaned>,
}

/// Merges the one session of a request and closes the others of its group. `show` gets the result of the merge before
/// the others are closed, and `None` if the user declines.
pub fn pick(
    context: &Context<'_>,
    request: &MergeRequest,
    tell: &mut Tell<'_>,
    agree: &mut Agree<'_>,
    show: &mut dyn FnMut(Option<&MergeOutcome>) -> Result<()>,
) -> Result<Picked> {
    let [name] = request.names.as_slice() else {
        return Err(Error::usage("--pick takes exactly one session"));
    };
    let winner = selection::select_mine(context, Some(name))?.session;
    let others = others(context, &winner)?;
    let outcome = run::merge(context, request, tell, agree)?;
    show(outcome.as_ref())?;
    let merged = outcome.is_some_and(|outcome| outcome.is_complete(request));
    let closed = if merged {
        close(context, &winner, &others)?
    } else {
        Vec::new()
    };
    Ok(Picked { merged, closed })
}

/// Returns the open sessions of the winner's group, without the winner.
fn others(context: &Context<'_>, winner: &Session) -> Result<Vec<Listed>> {
    let Some(group) = winner.group.as_deref() else {
        return Err(Error::fatal(format!(
            "session '{}' does not belong to a group",
            winner.name
        ))
        .hint(format!("git agent merge {}", shell_word(&winner.name))));
    };
    let mut found = selection::list(context, Scope::Mine)?.sessions;
    found.retain(|listed| {
        let session = &listed.session;
        session.group.as_deref() == Some(group)
            && session.sid != winner.sid
            && !session.status.is_closed()
    });
    Ok(found)
}

/// Closes and cleans the sessions that were not picked.
fn close(context: &Context<'_>, winner: &Session, others: &[Listed]) -> Result<Vec<Cleaned>> {
    for listed in others {
        let session = &listed.session;
        control::stop::end(context, session.sid, "another version was picked")?;
        let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
        writer.set_status(
            State::Discarded,
            &format!("'{}' was picked instead", winner.name),
        )?;
        writer.close()?;
    }
    let options = Options {
        named: true,
        ..Options::default()
    };
    clean::put_away(context, others, options)
}
