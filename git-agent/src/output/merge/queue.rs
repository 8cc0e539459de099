//! The merge queue as an answer.

use serde_json::{Value, json as object};

use crate::error::Result;
use crate::merge::queue::{QueueOverview, Waiting};
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::{Format, Ui, json, porcelain};

/// Shows the queue and whether it runs.
pub fn show(ui: &Ui, overview: &QueueOverview) -> Result<()> {
    let waiting = &overview.queue.waiting;
    match ui.format() {
        Format::Json => json::write_list(ui, "queue", waiting.iter().map(item)),
        Format::Porcelain { nul } => {
            for one in waiting {
                let fields = [
                    one.name.as_str(),
                    one.sid.as_str(),
                    one.into.as_str(),
                    state(one),
                    one.why.as_str(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            Ok(())
        }
        Format::Human => show_table(ui, overview),
    }
}

fn show_table(ui: &Ui, overview: &QueueOverview) -> Result<()> {
    let queue = &overview.queue;
    let mut table = Table::new([
        Column::new("SESSION").shrinks_to(12).keeps_end(),
        Column::new("INTO").shrinks_to(8),
        Column::new("STATE"),
        Column::new("WHY").shrinks_to(20),
    ]);
    for one in &queue.waiting {
        table.row([
            Cell::new(&one.name),
            Cell::new(&one.into),
            Cell::new(shown_state(one)),
            Cell::new(&one.why),
        ]);
    }
    ui.table(&table)?;
    if queue.waiting.is_empty() {
        ui.narrate("the queue is empty");
    }
    match (queue.paused, overview.runner) {
        (_, Some(pid)) => ui.narrate(format!("the queue is running (pid {pid})")),
        (true, None) => ui.narrate("the queue is paused"),
        (false, None) if !queue.waiting.is_empty() => {
            ui.hint("git agent merge queue run --background");
        }
        _ => {}
    }
    if queue.waiting.iter().any(|one| one.held) {
        ui.hint("git agent merge queue add SESSION    retry a held session");
    }
    if let Some(log) = &overview.log {
        ui.narrate(format!(
            "log: {}",
            one_line(log.display().to_string().as_str())
        ));
    }
    Ok(())
}

fn state(one: &Waiting) -> &'static str {
    if one.held { "held" } else { "waiting" }
}

/// Returns the state for a user. To a user, a session that waits is one that asks something.
fn shown_state(one: &Waiting) -> &'static str {
    if one.held { "held" } else { "queued" }
}

fn item(one: &Waiting) -> Value {
    let mut item = object!({
        "name": one.name,
        "id": one.sid.to_string(),
        "into": one.into,
        "state": state(one),
        "added": one.added,
    });
    if !one.why.is_empty() {
        item["why"] = one.why.as_str().into();
    }
    item
}
