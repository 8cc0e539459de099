//! `git agent merge --undo`: the last merge did not happen.

use std::io::Write;

use git_agent::context::Context;
use git_agent::error::{Error, Result};
use git_agent::merge::landing::journal::Right;
use git_agent::merge::landing::recover::{self, Found};
use git_agent::merge::landing::undo::{self, Undoable};
use git_agent::output::Ui;
use git_agent::output::terminal::sanitize::one_line;

use crate::view;

/// Undoes the last merge. A revert is only made when somebody agrees.
pub fn run(context: &Context<'_>, ui: &Ui, yes: bool) -> Result<u8> {
    let right = Right::take(context)?;
    let (found, journal) = recover::recover(context, &right)?;
    let undone = journal.filter(|journal| journal.undoes.is_some());
    if let (Found::Finished(names), Some(journal)) = (&found, undone) {
        // Asked for twice is undone once: the merge before that one stays.
        let names = names.join(", ");
        ui.narrate(format!(
            "an interrupted undo of {} is complete now",
            one_line(&names)
        ));
        if let Some(landing) = journal.landing {
            writeln!(ui.out(), "{}", landing.after)?;
        }
        return Ok(0);
    }
    view::recovered(ui, &found);
    let what = undo::last(context, &right)?;
    let words = what.describe();
    if !yes {
        let must_agree = matches!(what, Undoable::Revert(_));
        if must_agree && !ui.may_ask() {
            return Err(Error::fatal(format!(
                "somebody built on the last merge: it can only {words}"
            ))
            .hint("git agent merge --undo --yes"));
        }
        if ui.may_ask() && !ui.confirm(&format!("Really {words}?"))? {
            ui.narrate("nothing was undone");
            return Ok(1);
        }
    }
    let tip = undo::undo(context, &right, &what)?;
    match tip {
        Some(tip) => writeln!(ui.out(), "{tip}")?,
        None => ui.narrate("the changes are gone from the files here"),
    }
    if matches!(what, Undoable::Revert(_)) {
        ui.hint("git remembers that the branches were merged: their work comes back by reverting the revert");
    }
    Ok(0)
}
