//! The answer of `git agent update`: the result for each session.

use git_agent::error::{Result, shell_word};
use git_agent::merge::update::UpdateOutcome;
use git_agent::model::session::Session;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, human, json, porcelain};
use serde::Serialize;

/// The result for one session.
#[derive(Debug, Serialize)]
pub struct Row {
    id: String,
    name: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// The paths in conflict.
    pub conflicts: Vec<String>,
}

/// Returns the row of a session.
pub fn row(session: &Session, outcome: UpdateOutcome) -> Row {
    let mut row = Row {
        id: session.sid.to_string(),
        name: session.name.clone(),
        result: "current",
        before: None,
        after: None,
        commits: None,
        conflicts: Vec::new(),
    };
    match outcome {
        UpdateOutcome::Current => {}
        UpdateOutcome::Updated {
            before,
            after,
            commits,
        } => {
            row.result = "updated";
            row.before = Some(before.to_string());
            row.after = Some(after.to_string());
            row.commits = Some(commits);
        }
        UpdateOutcome::Conflict(paths) => {
            row.result = "conflict";
            row.conflicts = paths;
        }
        UpdateOutcome::Uncommitted(paths) => {
            row.result = "uncommitted-conflict";
            row.conflicts = paths;
        }
    }
    row
}

/// Writes the rows in the form that was asked for.
pub fn write(ui: &Ui, rows: &[Row]) -> Result<()> {
    match ui.format() {
        Format::Json => return json::write_list(ui, "updates", rows),
        Format::Porcelain { nul } => {
            for row in rows {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let commits = row.commits.map(|commits| commits.to_string());
                let fields = [
                    row.id.clone(),
                    row.result.to_owned(),
                    row.name.clone(),
                    text(&row.before),
                    text(&row.after),
                    commits.unwrap_or_default(),
                    row.conflicts.join(" "),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            return Ok(());
        }
        Format::Human => {}
    }
    for row in rows {
        let name = one_line(&row.name).to_string();
        match row.result {
            "updated" => {
                let commits = human::count(row.commits.unwrap_or(0), "commit");
                ui.narrate(format!("{name}: updated with {commits}"));
            }
            "current" => ui.narrate(format!("{name}: up to date")),
            result => {
                let paths = row.conflicts.join(", ");
                match result {
                    "conflict" => ui.error(format!("{name}: conflict in {paths}")),
                    _ => ui.error(format!("{name}: uncommitted work conflicts in {paths}")),
                }
                ui.hint(format!(
                    "let an agent resolve it: git agent update --auto {}",
                    shell_word(&row.name)
                ));
                ui.hint(format!(
                    "or by hand: git agent merge resolve {}",
                    shell_word(&row.name)
                ));
            }
        }
    }
    Ok(())
}
