//! Shows plans, progress and results of merges.

use std::io::Write;

use crate::error::{Result, shell_word};
use crate::merge::bisect::TestColour;
use crate::merge::landing::approve::Offer;
use crate::merge::landing::journal::Part;
use crate::merge::landing::recover::UnfinishedMerge;
use crate::merge::pick::Picked;
use crate::merge::run::{MergeOutcome, MergePlan, Told};
use crate::merge::testing;
use crate::model::merge::{LeftOut, Strategy, Tested, Why};
use crate::output::review::verdicts;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::{Format, Ui, json, porcelain};
use serde_json::{Value, json as object};

/// Shows a plan.
pub fn plan(ui: &Ui, plan: &MergePlan) -> Result<()> {
    let rows = plan.candidates.iter().map(|candidate| Row {
        name: candidate.session.name.clone(),
        id: candidate.session.sid.to_string(),
        result: "merges",
        commit: String::new(),
        detail: detail(plan, candidate.work.is_committed()),
        reason: None,
    });
    let rows: Vec<Row> = rows.chain(plan.left.iter().map(left_row)).collect();
    if ui.format() != Format::Human {
        return machine(ui, &plan.target.branch, &rows);
    }
    table(ui, &rows)?;
    if rows.is_empty() {
        ui.narrate(format!(
            "nothing to merge into '{}'",
            one_line(plan.target.branch.as_str())
        ));
    }
    broken_tests(ui, &plan.left)?;
    hints(ui, &plan.left);
    Ok(())
}

/// How many files of a session are listed.
const FILES: usize = 12;

/// Shows the work that lacks an approval: its files, its open comments, and whether the result is tested.
pub fn offer(ui: &Ui, offer: &Offer) -> Result<()> {
    for (waiting, files) in offer.waiting.iter().zip(&offer.files) {
        let mut out = ui.out();
        writeln!(out, "{}", verdicts::waiting(waiting))?;
        for (path, lines) in files.iter().take(FILES) {
            let lines = match lines {
                Some((added, deleted)) => format!("+{added} -{deleted}"),
                None => "binary".to_owned(),
            };
            writeln!(out, "  {lines:<12} {}", one_line(path.as_str()))?;
        }
        if files.len() > FILES {
            writeln!(out, "  … {} more files", files.len() - FILES)?;
        }
    }
    match &offer.plan.test {
        Some(test) => ui.narrate(format!(
            "the result is tested before it lands: {}",
            one_line(test.as_str())
        )),
        None => ui.narrate("no tests are configured (agent.test)"),
    }
    Ok(())
}

/// Warns about approvals that prove nothing, and about files that are not merged.
pub fn warnings(ui: &Ui, plan: &MergePlan) {
    claims(ui, plan);
    left_out(ui, plan);
}

/// Warns about sessions whose only approvals come from writers whose identity is not verified.
fn claims(ui: &Ui, plan: &MergePlan) {
    let mut any = false;
    for candidate in &plan.candidates {
        if let Some(who) = &candidate.claimed {
            let (name, who) = (one_line(&candidate.session.name), one_line(who));
            ui.warning(format!(
                "'{name}' is approved only by {who}, which anyone with push access to the remote can forge"
            ));
            any = true;
        }
    }
    if any {
        ui.hint("git config agent.sign true    accept only signed approvals");
    }
}

/// Warns about files in worktrees that are not merged, because the snapshot does not contain them.
fn left_out(ui: &Ui, plan: &MergePlan) {
    for candidate in &plan.candidates {
        let name = one_line(&candidate.session.name);
        let left = candidate.work.left_out.iter();
        for left in left.filter(|left| left.is_too_large()) {
            let left = left.to_string();
            ui.warning(format!("'{name}': {} is not merged", one_line(&left)));
        }
    }
}

fn detail(plan: &MergePlan, committed: bool) -> String {
    let how = match plan.strategy {
        Strategy::Manual => "prepared on a branch",
        _ => plan.style.as_str(),
    };
    if committed {
        how.to_owned()
    } else {
        format!("{how}, uncommitted work is committed")
    }
}

/// Reports the progress of a merge.
pub fn told(ui: &Ui, told: &Told<'_>) {
    match told {
        Told::Recovered(found) => recovered(ui, found),
        Told::Testing(names) => {
            let names = match names.as_slice() {
                [] => "the branch itself".to_owned(),
                names => names.join(", "),
            };
            ui.narrate(format!("testing {}", one_line(names.as_str())));
        }
        Told::Tested { colour, remembered } => {
            let (passed, failed) = if *remembered {
                (" (remembered)", " (remembered; '--retest' runs them again)")
            } else {
                ("", "")
            };
            match colour {
                TestColour::Green => ui.narrate(format!("the tests pass{passed}")),
                TestColour::Red(_) => ui.narrate(format!("the tests fail{failed}")),
                TestColour::Late(_) => ui.narrate(
                    "the tests did not end in time ('agent.testTimeout') and were stopped",
                ),
            }
        }
        Told::Meanwhile(words) => ui.warning(one_line(*words).to_string()),
        Told::Again => ui.narrate("the branch moved meanwhile; planning again"),
        Told::Changed => ui.narrate("the plan is out of date; planning again"),
        Told::Landed(branch) => {
            ui.narrate(format!("'{}' moved", one_line(branch)));
        }
    }
}

/// Reports a recovery.
pub fn recovered(ui: &Ui, found: &UnfinishedMerge) {
    let (names, what) = match found {
        UnfinishedMerge::Nothing => return,
        UnfinishedMerge::Finished(names) => {
            (names, "had moved the branch; its records are now complete")
        }
        UnfinishedMerge::TakenBack { names, stays } if stays.is_empty() => {
            (names, "had changed nothing; it was removed")
        }
        UnfinishedMerge::TakenBack { names, .. } => (names, "was rolled back"),
    };
    let names = if names.is_empty() {
        String::new()
    } else {
        format!(" of {}", names.join(", "))
    };
    ui.narrate(format!(
        "an interrupted merge{} {what}",
        one_line(names.as_str())
    ));
    if let UnfinishedMerge::TakenBack { stays, .. } = found {
        for path in stays {
            let path = path.to_string_lossy();
            ui.narrate(format!(
                "'{}' was edited since and stays as it is: check it",
                one_line(path.as_ref())
            ));
        }
    }
}

/// Shows the result of a merge.
pub fn outcome(ui: &Ui, outcome: &MergeOutcome) -> Result<()> {
    let rows = outcome.landed.iter().map(landed_row);
    let rows: Vec<Row> = rows.chain(outcome.left.iter().map(left_row)).collect();
    for trouble in &outcome.troubles {
        ui.warning(one_line(trouble.as_str()));
    }
    if ui.format() != Format::Human {
        return machine(ui, &outcome.branch, &rows);
    }
    let branch = one_line(outcome.branch.as_str());
    table(ui, &rows)?;
    if rows.is_empty() {
        ui.narrate(format!("nothing to merge into '{branch}'"));
    }
    for name in &outcome.returned {
        ui.narrate(format!(
            "'{}' got the test log as its next prompt",
            one_line(name.as_str())
        ));
    }
    if let Some(prepared) = &outcome.prepared {
        let shown = one_line(prepared.as_str());
        ui.narrate(format!(
            "'{branch}' did not move; the result is on '{shown}'"
        ));
        ui.hint(format!(
            "git switch {} && git merge --ff-only {}",
            shell_word(&outcome.branch),
            shell_word(prepared)
        ));
    }
    broken_tests(ui, &outcome.left)?;
    if !outcome.landed.is_empty() && outcome.tested == Tested::None {
        ui.narrate("the result was not tested: 'agent.test' is not set");
    }
    hints(ui, &outcome.left);
    Ok(())
}

/// Prints the commands that follow a merge. Sessions that are cleaned up anyway need no command for it.
pub fn next_steps(ui: &Ui, outcome: &MergeOutcome, cleans: bool) {
    if outcome.landed.is_empty() || ui.format() != Format::Human {
        return;
    }
    if !cleans {
        ui.hint("git agent clean             remove merged sessions");
    }
    ui.hint("git agent merge --undo      undo this merge");
}

/// Shows the closed sessions of a group whose winner was picked.
pub fn picked(ui: &Ui, picked: &Picked) {
    for cleaned in &picked.closed {
        let name = one_line(cleaned.name.as_str());
        let what = match &cleaned.worktree {
            Some(_) => "closed, and its worktree removed".to_owned(),
            None => format!("closed; {}", one_line(cleaned.kept.join(", ").as_str())),
        };
        ui.narrate(format!("{name}: {what}"));
    }
    if !picked.closed.is_empty() {
        ui.hint("git agent restore SESSION    restore one of the others");
    }
}

/// One line of a plan or a result.
struct Row {
    name: String,
    id: String,
    result: &'static str,
    commit: String,
    detail: String,
    reason: Option<&'static str>,
}

fn landed_row(part: &Part) -> Row {
    Row {
        name: part.name.clone(),
        id: part.sid.to_string(),
        result: "merged",
        commit: part.commit.clone(),
        detail: String::new(),
        reason: None,
    }
}

fn left_row(left: &LeftOut) -> Row {
    Row {
        name: left.name.clone(),
        id: left.sid.to_string(),
        result: "left out",
        commit: String::new(),
        detail: left.why.to_string(),
        reason: Some(left.why.as_str()),
    }
}

fn table(ui: &Ui, rows: &[Row]) -> Result<()> {
    let mut table = Table::new([
        Column::new("SESSION").keeps_end(),
        Column::new("RESULT"),
        Column::new("DETAIL").shrinks_to(20),
    ]);
    let unapproved = |row: &&Row| row.reason == Some(Why::NotApproved.as_str());
    let folded = match rows.iter().filter(unapproved).count() {
        1 => 0,
        many => many,
    };
    for row in rows {
        if folded > 0 && unapproved(&row) {
            continue;
        }
        let slot = match row.reason {
            Some(_) => Slot::Waiting,
            None => Slot::Good,
        };
        let detail = if row.commit.is_empty() {
            // The name of a test log is long; its last lines follow below.
            let short = row.detail.split("; log: ").next();
            short.unwrap_or_default().to_owned()
        } else {
            row.commit.chars().take(10).collect()
        };
        table.row([
            Cell::new(&row.name),
            Cell::new(row.result).in_color(slot),
            Cell::new(&detail),
        ]);
    }
    ui.table(&table)?;
    if folded > 0 {
        let more = if folded == rows.len() { "" } else { " more" };
        let line = format!("{folded}{more} sessions are not approved");
        writeln!(ui.out(), "{}", ui.palette().paint(Slot::Dim, line))?;
    }
    Ok(())
}

/// Shows the last lines of the log of each session that breaks the tests.
fn broken_tests(ui: &Ui, left: &[LeftOut]) -> Result<()> {
    for one in left {
        let (Why::Tests(log) | Why::Late(log)) = &one.why else {
            continue;
        };
        let lines = testing::last_lines(log);
        if lines.is_empty() {
            continue;
        }
        let name = one_line(&one.name);
        writeln!(ui.out(), "\nthe end of the test log of '{name}':")?;
        for line in lines {
            let line = one_line(&line).to_string();
            writeln!(ui.out(), "    {}", ui.palette().paint(Slot::Dim, line))?;
        }
    }
    Ok(())
}

fn machine(ui: &Ui, branch: &str, rows: &[Row]) -> Result<()> {
    if let Format::Porcelain { nul } = ui.format() {
        for row in rows {
            let result = row.reason.unwrap_or(row.result);
            let fields = [
                row.name.as_str(),
                &row.id,
                result,
                branch,
                &row.commit,
                &row.detail,
            ];
            porcelain::write_record(&mut ui.out(), nul, fields)?;
        }
        return Ok(());
    }
    let items: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut item = object!({
                "name": row.name,
                "id": row.id,
                "into": branch,
                "result": row.result.replace(' ', "-"),
            });
            for (key, value) in [
                ("commit", row.commit.as_str()),
                ("reason", row.reason.unwrap_or_default()),
                ("detail", row.detail.as_str()),
            ] {
                if !value.is_empty() {
                    item[key] = value.into();
                }
            }
            item
        })
        .collect();
    json::write_list(ui, "merges", &items)
}

/// Prints the hints for the sessions that are left out, the most urgent first.
fn hints(ui: &Ui, left: &[LeftOut]) {
    let rank = |why: &Why| match why {
        Why::Tests(_) | Why::Late(_) => 0,
        Why::Conflict(_) => 1,
        Why::NotApproved => 3,
        _ => 2,
    };
    let mut left: Vec<&LeftOut> = left.iter().collect();
    left.sort_by_key(|one| rank(&one.why));
    let unapproved = |one: &&&LeftOut| one.why == Why::NotApproved;
    let many = left.iter().filter(unapproved).count() > 1;
    for one in &left {
        match one.why.hint(&one.name) {
            Some(_) if many && one.why == Why::NotApproved => ui.hint("git agent review"),
            Some(hint) => ui.hint(hint),
            None => {}
        }
    }
}
