//! Remembers the session that was named last and the rows of the last list: `-` and `@3` name them.
//!
//! The memory is a convenience of one clone: a failure to keep it is ignored, and commands that run inside a session
//! leave it alone, so that an agent never changes what the user means.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::file::{self, Durability};
use crate::model::session::SessionId;
use crate::session::caller;
use crate::store::list::{Listed, Listing, find_in};

/// The directory in ours.
const PLACE: &str = "recent";
/// The id of the session named last.
const LAST: &str = "last";
/// The ids of the rows of the last list, one a line.
const ROWS: &str = "rows";

/// Returns the session that a word names: `-` is the session named last, `@3` the third row of the last list, and
/// anything else stays as it is.
pub fn spelled_out(context: &Context<'_>, wanted: &str) -> Result<String> {
    if wanted == "-" {
        return recall(context, LAST).pop().ok_or_else(|| {
            Error::fatal("no session was named before, so '-' means none").hint("git agent list")
        });
    }
    // '@' and '@~1' are revisions.
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = wanted.strip_prefix('@').filter(digits) else {
        return Ok(wanted.to_owned());
    };
    let rows = recall(context, ROWS);
    let at: Option<usize> = number.parse().ok();
    let row = at.and_then(|at| rows.get(at.checked_sub(1)?));
    row.cloned().ok_or_else(|| {
        let many = match rows.len() {
            0 => "no rows".to_owned(),
            1 => "1 row".to_owned(),
            many => format!("{many} rows"),
        };
        Error::fatal(format!(
            "no session '{wanted}': the last list here has {many}"
        ))
        .hint("git agent list")
    })
}

/// Finds the session that the user names in a listing.
pub fn find<'l>(context: &Context<'_>, listing: &'l Listing, wanted: &str) -> Result<&'l Listed> {
    find_in(listing, &spelled_out(context, wanted)?)
}

/// Remembers the session that was named last.
pub fn note(context: &Context<'_>, sid: SessionId) {
    remember(context, LAST, &format!("{sid}\n"));
}

/// Remembers the rows of a list.
pub fn note_rows<'s>(context: &Context<'_>, sids: impl IntoIterator<Item = &'s str>) {
    let lines: String = sids.into_iter().map(|sid| format!("{sid}\n")).collect();
    remember(context, ROWS, &lines);
}

fn path(context: &Context<'_>, name: &str) -> PathBuf {
    context.store.dir().join(PLACE).join(name)
}

fn recall(context: &Context<'_>, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path(context, name)).unwrap_or_default();
    let ids = text
        .lines()
        .filter(|line| line.parse::<SessionId>().is_ok());
    ids.map(str::to_owned).collect()
}

fn remember(context: &Context<'_>, name: &str, text: &str) {
    let path = path(context, name);
    // Without our directory there is no session to name.
    if !context.store.dir().is_dir() || context.repo.is_read_only() {
        return;
    }
    let kept = std::fs::read_to_string(&path);
    if kept.is_ok_and(|kept| kept == text) || caller::foreign(context).is_some() {
        return;
    }
    if context.store.require_dir(PLACE).is_ok() {
        let _ = file::replace(&path, text, Durability::Volatile);
    }
}
