//! A plan and its started parts, as `git agent start` shows them.

use std::io::Write;

use git_agent::error::Result;
use git_agent::listing::row::Summary;
use git_agent::output::human::count;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::plan::start::{Prepared, Started};

/// Returns a number of parts in words.
pub fn parts(number: usize) -> String {
    count(number as u64, "part")
}

/// Shows a plan: its parts in waves, what may overlap, and what it may cost.
pub fn plan(ui: &Ui, prepared: &Prepared) -> Result<()> {
    match ui.format() {
        Format::Json => return json::write_list(ui, "plans", [prepared]),
        Format::Porcelain { nul } => {
            for (wave, names) in prepared.waves.iter().enumerate() {
                for name in names {
                    let wave = (wave + 1).to_string();
                    porcelain::write_record(&mut ui.out(), nul, [wave.as_str(), name])?;
                }
            }
            return Ok(());
        }
        Format::Human => {}
    }
    let plan = &prepared.plan;
    let mut out = ui.out();
    if !plan.task.is_empty() {
        writeln!(out, "Task: {}", one_line(&plan.task))?;
    }
    let waves = count(prepared.waves.len() as u64, "wave");
    writeln!(
        out,
        "Plan '{}': {} in {waves}, gate '{}'",
        one_line(&prepared.group),
        parts(plan.parts.len()),
        plan.gate
    )?;
    let mut table = Table::new([
        Column::new("WAVE").right(),
        Column::new("PART").shrinks_to(8),
        Column::new("ROLE").shrinks_to(6).goes(3),
        Column::new("AGENT").shrinks_to(6).goes(2),
        Column::new("NEEDS").shrinks_to(8).goes(4),
        Column::new("TASK").shrinks_to(10).goes(9),
    ]);
    for (wave, names) in prepared.waves.iter().enumerate() {
        for name in names {
            let Some(part) = plan.parts.iter().find(|part| part.name == *name) else {
                continue;
            };
            let agent = prepared.agents.get(name).cloned().unwrap_or_default();
            table.row([
                Cell::new((wave + 1).to_string()),
                Cell::new(name),
                Cell::new(part.role.clone().unwrap_or_default()),
                Cell::new(agent),
                Cell::new(part.depends_on.join(", ")),
                Cell::new(part.task.lines().next().unwrap_or_default()),
            ]);
        }
    }
    ui.table(&table)?;
    for overlap in &prepared.overlaps {
        let (one, other) = (one_line(&overlap.one), one_line(&overlap.other));
        let path = one_line(&overlap.path);
        ui.warning(format!("'{one}' and '{other}' may both change {path}"));
    }
    for notice in &prepared.notices {
        ui.warning(one_line(notice));
    }
    if !prepared.unknown_keys.is_empty() {
        let keys = prepared.unknown_keys.join(", ");
        ui.warning(format!("keys without a meaning here: {}", one_line(&keys)));
    }
    let cost = match plan.budget {
        Some(budget) => format!("at most ${budget:.2} together"),
        None => "no common limit (budget, agent.maxGroupCost)".to_owned(),
    };
    writeln!(ui.out(), "Cost: {cost}")?;
    Ok(())
}

/// Shows a part whose session runs.
pub fn started(ui: &Ui, started: &Started) -> Result<()> {
    for notice in &started.created.notices {
        ui.warning(one_line(notice.as_str()));
    }
    let session = &started.created.session;
    let pid = started
        .pid
        .map_or_else(String::new, |pid| format!("  pid {pid}"));
    let branch = session.branch.as_deref().unwrap_or_default();
    writeln!(
        ui.out(),
        "{}  {}{pid}",
        one_line(&session.name),
        one_line(branch)
    )?;
    Ok(())
}

/// Writes the started sessions for programs.
pub fn sessions(ui: &Ui, started: &[Started]) -> Result<()> {
    if let Format::Porcelain { nul } = ui.format() {
        for one in started {
            let session = &one.created.session;
            let fields = [
                session.sid.as_str(),
                &session.name,
                session.branch.as_deref().unwrap_or(""),
                session.local.worktree.as_deref().unwrap_or(""),
            ];
            porcelain::write_record(&mut ui.out(), nul, fields)?;
        }
        return Ok(());
    }
    let row = |one: &Started| {
        let session = &one.created.session;
        Summary {
            pid: one.pid,
            ..Summary::of_own(session, session.updated)
        }
    };
    json::write_list(ui, "sessions", started.iter().map(row))
}
