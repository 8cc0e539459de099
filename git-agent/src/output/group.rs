//! Prints a group: a header, one row for each part, and the last events of all of them.

use std::io::Write;
use std::time::Duration;

use crate::env::Env;
use crate::error::{Context as _, Result};
use crate::listing::group::{GroupRow, GroupView};
use crate::model::event::Body;
use crate::model::session::State;
use crate::output::moment::Clock;
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::transcript::Writer;
use crate::output::{Ui, cannot_write, human, sessions};

/// Writes a group for a person.
pub fn write(env: &Env, ui: &Ui, group: &GroupView) -> Result<()> {
    let clock = Clock::local(env);
    let mut lines = vec![
        ("Group", one_line(&group.name).to_string()),
        ("Started", clock.full(group.started)),
        (
            "Elapsed",
            human::duration(Duration::from_secs(group.elapsed_seconds)),
        ),
    ];
    if let Some(cost) = group.cost_usd {
        lines.push(("Cost", format!("${cost:.2}")));
    }
    let done = group.sessions.iter().filter(|row| is_done(row)).count();
    lines.push(("Done", format!("{done} of {}", group.sessions.len())));
    for (label, text) in lines {
        let label = ui.palette().paint(Slot::Dim, format!("{label:<8}"));
        writeln!(ui.out(), "{label} {text}").context(cannot_write)?;
    }
    writeln!(ui.out()).context(cannot_write)?;
    ui.table(&table(&group.sessions))?;
    if group.activity.is_empty() {
        return Ok(());
    }
    writeln!(ui.out(), "\nRecent activity:").context(cannot_write)?;
    let names: Vec<&str> = group
        .activity
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let mut writer = Writer::new(ui, clock, env.now()).with_names(names.iter().copied());
    for (name, event) in &group.activity {
        let mut event = event.clone();
        if let Body::Prompt { text, .. } = &mut event.body {
            // The rest of a prompt is the same for every part.
            *text = text.lines().next().unwrap_or_default().to_owned();
        }
        writer.event(name, &event)?;
    }
    writer.finish()
}

fn is_done(row: &GroupRow) -> bool {
    matches!(
        row.summary.state,
        State::Ready | State::Approved | State::Merged
    )
}

fn table(rows: &[GroupRow]) -> Table {
    let mut table = Table::new([
        Column::new("PART").shrinks_to(8),
        Column::new("ROLE").shrinks_to(6).goes(3),
        Column::new("STATE"),
        Column::new("DONE").right().goes(2),
        Column::new("TIME").right().goes(4),
        Column::new("CHANGES").shrinks_to(7).goes(5),
        Column::new("TASK").shrinks_to(10).goes(6),
        Column::new("WHY").shrinks_to(12).goes(9),
    ]);
    for row in rows {
        let summary = &row.summary;
        let name = row.part.as_ref().unwrap_or(&summary.name);
        let task = summary.task.lines().next().unwrap_or_default();
        table.row([
            Cell::new(name),
            Cell::new(summary.role.clone().unwrap_or_default()),
            Cell::new(summary.state.as_str()).in_color(Slot::of_state(summary.state)),
            Cell::new(sessions::progress(summary)),
            Cell::new(sessions::elapsed(summary)),
            Cell::new(sessions::changes(summary)),
            Cell::new(task),
            Cell::new(row.why.clone().unwrap_or_default()),
        ]);
    }
    table
}
