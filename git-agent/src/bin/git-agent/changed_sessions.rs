//! The JSON answer of verbs that change sessions: the sessions after the change.

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::listing::row::Summary;
use git_agent::model::session::SessionId;
use git_agent::output::{Format, Ui, json};
use git_agent::session::list;
use serde_json::Value;

/// Writes the sessions, if JSON is wanted. Returns whether it is.
pub fn tell(
    context: &Context<'_>,
    ui: &Ui,
    sessions: impl IntoIterator<Item = SessionId>,
) -> Result<bool> {
    tell_with(context, ui, sessions, None)
}

/// Writes the sessions and a further list of created items, if JSON is wanted. Returns whether it is.
pub fn tell_with(
    context: &Context<'_>,
    ui: &Ui,
    sessions: impl IntoIterator<Item = SessionId>,
    made: Option<(&str, Vec<Value>)>,
) -> Result<bool> {
    if !matches!(ui.format(), Format::Json) {
        return Ok(false);
    }
    let mut out = ui.out();
    let mut rows = json::List::begin(&mut out, "sessions", ui.table_width().is_some())?;
    for sid in sessions {
        if let Some(session) = list::current(context, sid)? {
            rows.item(&Summary::of_own(&session, context.env.now()))?;
        }
    }
    if let Some((key, items)) = made {
        rows.next(key)?;
        for item in &items {
            rows.item(item)?;
        }
    }
    rows.end()?;
    Ok(true)
}
