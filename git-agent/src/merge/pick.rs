//! Picks the winner of a group: the winner is merged; the other sessions are closed and cleaned, and each can be
//! restored.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::session::{Session, State};
use crate::selection;
use crate::session::control;
use crate::session::worktree::clean::{self, Cleaned, Options};
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

/// Returns the open sessions of the winner's group, without the winner.
pub fn others(context: &Context<'_>, winner: &Session) -> Result<Vec<Listed>> {
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
pub fn close(context: &Context<'_>, winner: &Session, others: &[Listed]) -> Result<Vec<Cleaned>> {
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
