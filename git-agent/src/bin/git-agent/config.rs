//! `git agent config`: the settings in force, the agents on this machine, the roles.

use std::io::Write;

use clap::{Args, Subcommand};
use git_agent::agent::catalog::installed::{Found, survey};
use git_agent::config::keys::{self, Key};
use git_agent::config::{Row, parse_bool};
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::git::config as git_config;
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::review::git_notes;
use git_agent::session::caller::{self, Act};
use git_agent::session::create::choose_agent;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the value of a setting
    Get {
        /// The setting, such as agent.maxParallel
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a setting in git's configuration
    Set {
        /// The setting, such as agent.maxParallel
        #[arg(value_name = "KEY")]
        key: String,
        /// The value
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
        /// For all of the user's repositories
        #[arg(long)]
        global: bool,
    },
    /// Remove a setting from git's configuration
    Unset {
        /// The setting
        #[arg(value_name = "KEY")]
        key: String,
        /// For all of the user's repositories
        #[arg(long)]
        global: bool,
    },
    /// List the agents: where they are, and what is missing
    Agents {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the roles
    Roles {
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the verb.
pub fn run(env: &Env, args: &Config) -> Result<u8> {
    let options = match &args.what {
        Some(What::Agents { output } | What::Roles { output }) => output.options(),
        _ => args.output.options(),
    };
    match &args.what {
        // The user's own configuration needs no repository.
        Some(What::Set {
            key,
            value,
            global: true,
        }) => {
            let ui = Ui::new(env, options, &|_| None)?;
            let key = checked(&ui, key, Some(value))?;
            git_config::set_global(&key, value)?;
            ui.finish()?;
            Ok(0)
        }
        Some(What::Unset { key, global: true }) => {
            require_set(&full_name(key), git_config::unset_global(&full_name(key))?)
        }
        what => in_repo::run(env, options, |context, ui| match what {
            None => list(ui, &context.config.report()),
            Some(What::Get { key }) => get(context, ui, key),
            Some(What::Set { key, value, .. }) => {
                caller::permit(context, Act::Configure, [])?;
                let key = checked(ui, key, Some(value))?;
                context.repo.set_config(&key, value)?;
                if key == git_notes::KEY && parse_bool(value) == Some(true) {
                    git_notes::render(context)?;
                    ui.hint("git log --notes=agents/review");
                }
                Ok(0)
            }
            Some(What::Unset { key, .. }) => {
                caller::permit(context, Act::Configure, [])?;
                let key = full_name(key);
                require_set(&key, context.repo.unset_config(&key)?)
            }
            Some(What::Agents { .. }) => list_agents(context, ui),
            Some(What::Roles { .. }) => list_roles(context, ui),
        }),
    }
}

/// Returns a setting's full name: `maxParallel` is short for `agent.maxParallel`.
fn full_name(name: &str) -> String {
    match name.contains('.') {
        true => name.to_owned(),
        false => format!("agent.{name}"),
    }
}

/// Returns the full name of a setting that may be set to a value. One that is not known is warned of.
fn checked(ui: &Ui, name: &str, value: Option<&str>) -> Result<String> {
    let name = full_name(name);
    let section = name.split('.').next().unwrap_or_default();
    if !["agent", "agent-role", "agent-mcp"].contains(&section) {
        return Err(Error::usage(format!("'{name}' is no setting of git-agent"))
            .hint(format!("git config {} ...", shell_word(&name))));
    }
    match keys::find(&name) {
        Some(key) => complain(key, &name, value)?,
        None => {
            ui.warning(format!("git-agent knows no setting '{name}'"));
            ui.hint("git agent config    list what it knows");
        }
    }
    Ok(name)
}

fn complain(key: &Key, name: &str, value: Option<&str>) -> Result<()> {
    match value.and_then(|value| key.kind.complaint(value)) {
        Some(complaint) => Err(Error::fatal(format!("bad value for '{name}': {complaint}"))
            .hint(format!("{name}: {}", key.meaning))),
        None => Ok(()),
    }
}

fn require_set(key: &str, was_set: bool) -> Result<u8> {
    match was_set {
        true => Ok(0),
        false => Err(Error::negative(format!("'{key}' is not set there"))
            .hint("git agent config    see where it is set")),
    }
}

fn get(context: &Context<'_>, ui: &Ui, name: &str) -> Result<u8> {
    let name = full_name(name);
    match context.config.row(&name).and_then(|row| row.value) {
        Some(value) => {
            writeln!(ui.out(), "{}", one_line(value.as_str()))?;
            Ok(0)
        }
        // As git: no value, no words.
        None if keys::find(&name).is_some() => Ok(1),
        None => Err(
            Error::negative(format!("git-agent knows no setting '{name}'"))
                .hint("git agent config    list what it knows"),
        ),
    }
}

fn list(ui: &Ui, rows: &[Row]) -> Result<u8> {
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
                    Cell::new(row.meaning.unwrap_or("(not known to git-agent)"))
                        .in_color(Slot::Dim),
                ]);
            }
            ui.table(&table)?;
        }
    }
    Ok(0)
}

fn list_agents(context: &Context<'_>, ui: &Ui) -> Result<u8> {
    let found = survey(context.env, &choose_agent::entries(&context.config));
    match ui.format() {
        Format::Json => json::write_list(ui, "agents", &found)?,
        Format::Porcelain { nul } => {
            for one in &found {
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
            ui.table(&agents_table(&found))?;
            ui.hint("any shell command is an agent too: git agent new NAME -- ./my-agent.sh");
        }
    }
    Ok(0)
}

fn agents_table(found: &[Found]) -> Table {
    let columns = [
        Column::new("AGENT"),
        Column::new("VERSION"),
        Column::new("DRIVER"),
        Column::new("PERMISSIONS"),
        Column::new("WHERE, OR WHAT IS MISSING").shrinks_to(20),
    ];
    let mut table = Table::new(columns);
    for one in found {
        let place = one.path.as_deref().map(|path| path.display().to_string());
        let mut words: Vec<String> = place.into_iter().collect();
        words.extend(one.missing.iter().cloned());
        if one.path.is_none() && !one.install.is_empty() {
            words.push(one.install.clone());
        }
        let slot = if one.path.is_some() {
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
            Cell::new(one.driver),
            Cell::new(one.permissions),
            Cell::new(words.join("; ")),
        ]);
    }
    table
}

fn list_roles(context: &Context<'_>, ui: &Ui) -> Result<u8> {
    let config = &context.config;
    let roles: Vec<_> = config
        .names("agent-role")
        .into_iter()
        .map(|name| {
            let settings: Vec<(&str, String)> = keys::OF_ROLE
                .iter()
                .filter_map(|key| {
                    let value = config.string(&format!("agent-role.{name}.{}", key.name))?;
                    Some((key.name, value))
                })
                .collect();
            (name, settings)
        })
        .collect();
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
            for (name, settings) in &roles {
                for (key, value) in settings {
                    let fields = [name.as_str(), key, value];
                    porcelain::write_record(&mut ui.out(), nul, fields)?;
                }
            }
        }
        Format::Human => {
            let columns = [Column::new("ROLE"), Column::new("SETTINGS").shrinks_to(20)];
            let mut table = Table::new(columns);
            for (name, settings) in &roles {
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
