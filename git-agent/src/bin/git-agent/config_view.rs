//! The answers of `git agent config`: settings, agents and roles as tables and records.

use git_agent::agent::catalog::installed::InstalledAgent;
use git_agent::config::{Role, SettingRow};
use git_agent::error::Result;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, json, porcelain};

/// Writes the settings in force.
pub fn settings(ui: &Ui, rows: &[SettingRow]) -> Result<u8> {
    match ui.format() {
        Format::Json => json::write_list(ui, "settings", rows)?,
        Format::Porcelain { nul } => {
            for row in rows {
                let value = row.value.as_deref().unwrap_or_default();
                let fields = [&row.key, row.source.as_str(), value];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
        }
        Format::Human => {
            let columns = [
                Column::new("KEY"),
                Column::new("VALUE").shrinks_to(12),
                Column::new("FROM"),
                Column::new("MEANING").shrinks_to(20),
            ];
            let mut table = Table::new(columns);
            for row in rows {
                let is_default = row.source == "default";
                let slot = if is_default { Slot::Dim } else { Slot::Name };
                table.row([
                    Cell::new(&row.key),
                    Cell::new(row.value.as_deref().unwrap_or("-")).in_color(slot),
                    Cell::new(&row.source),
                    Cell::new(row.meaning.unwrap_or("(unknown setting)")).in_color(Slot::Dim),
                ]);
            }
            ui.table(&table)?;
        }
    }
    Ok(0)
}

/// Writes the agents on this machine.
pub fn agents(ui: &Ui, found: &[InstalledAgent]) -> Result<u8> {
    match ui.format() {
        Format::Json => json::write_list(ui, "agents", found)?,
        Format::Porcelain { nul } => {
            for one in found {
                let path = one.path.as_deref().map(|path| path.to_string_lossy());
                let fields = [
                    one.name.as_str(),
                    one.driver,
                    one.version.as_deref().unwrap_or_default(),
                    path.as_deref().unwrap_or_default(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
        }
        Format::Human => {
            ui.table(&agents_table(found))?;
            if found.iter().any(InstalledAgent::can_start) {
                ui.hint("git agent new \"<task>\"")
            } else {
                ui.narrate("no coding agent was found on PATH")
            }
            ui.hint("any shell command is an agent too: git agent new NAME -- ./my-agent.sh");
        }
    }
    Ok(0)
}

/// Returns the table of agents: those that are installed first, with their paths; of the others, how to install them.
fn agents_table(found: &[InstalledAgent]) -> Table {
    let columns = [
        Column::new("AGENT"),
        Column::new("VERSION").shrinks_to(7),
        Column::new("DRIVER").goes(1),
        Column::new("PERMISSIONS").goes(2),
        Column::new("PATH, OR HOW TO INSTALL IT").shrinks_to(20),
    ];
    let mut table = Table::new(columns);
    let mut found: Vec<&InstalledAgent> = found.iter().collect();
    found.sort_by_key(|one| (one.path.is_none(), !one.can_start()));
    for one in found {
        let slot = if one.can_start() {
            Slot::Good
        } else {
            Slot::Dim
        };
        let version = match (&one.version, &one.path) {
            (Some(version), _) => version.as_str(),
            (None, Some(_)) => "unknown",
            (None, None) => "-",
        };
        table.row([
            Cell::new(&one.name).in_color(slot),
            Cell::new(version),
            Cell::new(one.driver).in_color(Slot::Dim),
            Cell::new(one.permissions).in_color(Slot::Dim),
            Cell::new(place(one)),
        ]);
    }
    table
}

/// Returns where an agent is and what it lacks, or the command that installs it.
fn place(one: &InstalledAgent) -> String {
    let Some(path) = &one.path else {
        return match one.install.as_str() {
            "" => one.missing.join("; "),
            install => install.to_owned(),
        };
    };
    let path = path.display().to_string();
    let words = std::iter::once(path).chain(one.reason.clone());
    let words = words.chain(one.missing.iter().cloned());
    words.collect::<Vec<_>>().join("; ")
}

/// Writes the roles.
pub fn roles(ui: &Ui, roles: &[Role]) -> Result<u8> {
    match ui.format() {
        Format::Json => {
            let items = roles.iter().map(|(name, settings)| {
                let mut role = serde_json::Map::new();
                role.insert("name".to_owned(), name.as_str().into());
                for (key, value) in settings {
                    role.insert((*key).to_owned(), value.as_str().into());
                }
                role
            });
            json::write_list(ui, "roles", items)?;
        }
        Format::Porcelain { nul } => {
            for (name, settings) in roles {
                for (key, value) in settings {
                    let fields = [name.as_str(), key, value];
                    porcelain::write_record(&mut ui.out(), nul, fields)?;
                }
            }
        }
        Format::Human => {
            let columns = [Column::new("ROLE"), Column::new("SETTINGS").shrinks_to(20)];
            let mut table = Table::new(columns);
            for (name, settings) in roles {
                let words: Vec<String> = settings
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                table.row([
                    Cell::new(name).in_color(Slot::Name),
                    Cell::new(words.join(", ")),
                ]);
            }
            ui.table(&table)?;
            if roles.is_empty() {
                ui.narrate("no roles");
                ui.hint("git agent config set agent-role.reviewer.agent <agent>    make one");
            }
        }
    }
    Ok(0)
}
