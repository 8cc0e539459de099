//! `git agent merge --undo`: undoes the last merge.

use std::io::Write;

use git_agent::context::Context;
use git_agent::error::{Error, Result};
use git_agent::merge::landing::journal::MergeLock;
use git_agent::merge::landing::recover::{self, UnfinishedMerge};
use git_agent::merge::landing::undo::{self, Undoable};
use git_agent::output::Ui;
use git_agent::output::merge::report;
use git_agent::output::terminal::sanitize::one_line;

/// Undoes the last merge. A revert needs the user's consent.
pub fn run(context: &Context<'_>, ui: &Ui, yes: bool) -> Result<u8> {
    let right = MergeLock::take(context)?;
    let (found, journal) = recover::recover(context, &right)?;
    let undone = journal.filter(|journal| journal.undoes.is_some());
    if let (UnfinishedMerge::Finished(names), Some(journal)) = (&found, undone) {
        // A second request after an interrupted undo must not undo the merge before it.
        let names = names.join(", ");
        ui.narrate(format!(
            "completed the interrupted undo of {}",
            one_line(&names)
        ));
        if let Some(landing) = journal.landing {
            writeln!(ui.out(), "{}", landing.after)?;
        }
        return Ok(0);
    }
    report::recovered(ui, &found);
    let what = undo::last(context, &right)?;
    let words = what.describe();
    if !yes {
        let must_agree = matches!(what, Undoable::Revert(_));
        if must_agree && !ui.may_ask() {
            return Err(Error::fatal(format!(
                "the last merge has commits on top of it: undoing it would {words}"
            ))
            .hint("git agent merge --undo --yes    revert it with a new commit"));
        }
        if ui.may_ask() && !ui.confirm(&format!("Really {words}?"))? {
            ui.narrate("nothing was undone");
            return Ok(1);
        }
    }
    let tip = undo::undo(context, &right, &what)?;
    ui.narrate(format!("undone: {}", one_line(&words)));
    // Scripts read the new tip; people have the sentence.
    if let Some(tip) = tip.filter(|_| ui.table_width().is_none()) {
        writeln!(ui.out(), "{tip}")?;
    }
    if matches!(what, Undoable::Revert(_)) {
        ui.hint(
            "git still counts the branches as merged: to merge their work again, revert the revert",
        );
    }
    Ok(0)
}
