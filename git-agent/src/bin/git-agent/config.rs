//! `git agent config`: the settings in force, the agents on this machine, the roles.

use std::ffi::OsString;
use std::io::Write;

use clap::{Args, Subcommand};
use git_agent::agent::catalog::installed::survey;
use git_agent::config::keys;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::install::settings;
use git_agent::invoke::{self, OutputArgs, in_repo};
use git_agent::output::Ui;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::session::create::choose_agent;

use crate::config_view as view;

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
        /// Set a setting that git-agent does not know
        #[arg(long)]
        force: bool,
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
    /// List the agents: their paths, and the programs that are missing
    Agents {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the models that the built-in agent can reach now
    Models {
        /// Print JSON
        #[arg(long)]
        json: bool,
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
            force,
        }) => settings::set_global(key, value, *force).map(|()| 0),
        Some(What::Unset { key, global: true }) => settings::unset_global(key).map(|()| 0),
        // A newcomer asks this before there is a repository.
        Some(What::Agents { .. }) if !in_repo::is_in_repo(env) => {
            let ui = Ui::new(env, options, &|_| None)?;
            view::agents(&ui, &survey(env, &choose_agent::own_entries()?))?;
            ui.finish()?;
            Ok(0)
        }
        // Only the built-in agent speaks HTTP.
        Some(What::Models { json }) => {
            let words: &[&str] = if *json {
                &["models", "--json"]
            } else {
                &["models"]
            };
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            Err(invoke::external(
                env,
                "git-agent-",
                "builtin".as_ref(),
                &words,
                &Vec::new,
            ))
        }
        what => in_repo::run(env, options, |context, ui| match what {
            None => view::settings(ui, &context.config.report()),
            Some(What::Get { key }) => get(context, ui, key),
            Some(What::Set {
                key, value, force, ..
            }) => {
                if settings::set(context, key, value, *force)? {
                    ui.hint("git log --notes=agents/review");
                }
                Ok(0)
            }
            Some(What::Unset { key, .. }) => settings::unset(context, key).map(|()| 0),
            Some(What::Agents { .. }) => {
                let entries = choose_agent::entries(&context.config);
                view::agents(ui, &survey(env, &entries))
            }
            // The built-in agent answered it above.
            Some(What::Models { .. }) => Ok(0),
            Some(What::Roles { .. }) => view::roles(ui, &context.config.roles()),
        }),
    }
}

fn get(context: &Context<'_>, ui: &Ui, name: &str) -> Result<u8> {
    let name = settings::full_name(name);
    match context.config.row(&name).and_then(|row| row.value) {
        Some(value) => {
            writeln!(ui.out(), "{}", one_line(value.as_str()))?;
            Ok(0)
        }
        // Like git, an unset value prints nothing.
        None if keys::find(&name).is_some() => Ok(1),
        None => Err(settings::unknown(&name)),
    }
}
