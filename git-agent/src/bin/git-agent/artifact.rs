//! `git agent artifact`: files that sessions leave for each other.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::file::{self, Durability};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::human::size;
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::selection;
use git_agent::session::exchange::artifacts::{self, Artifact as Left};
use git_agent::session::{ask, caller};

use crate::artifact_input;

#[derive(Debug, Args)]
pub struct Artifact {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Leave files for other sessions; one file may get another name
    Put {
        /// The name and a file, or files that keep their names ('-' is standard input)
        #[arg(value_name = "[NAME] FILE", required = true)]
        files: Vec<String>,
        /// The session that leaves them (default: the one of this worktree)
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the content of an artifact
    Get {
        /// The artifact: NAME, or SESSION/NAME
        #[arg(value_name = "ARTIFACT")]
        artifact: String,
        /// Write it to a file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the artifacts of all sessions, or of one
    List {
        /// The session
        #[arg(value_name = "SESSION")]
        session: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show where an artifact comes from
    Show {
        /// The artifact: NAME, or SESSION/NAME
        #[arg(value_name = "ARTIFACT")]
        artifact: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the verb.
pub fn run(env: &Env, args: &Artifact) -> Result<u8> {
    let options = match &args.what {
        What::Put { output, .. } | What::List { output, .. } | What::Show { output, .. } => {
            output.options()
        }
        What::Get { .. } => OutputArgs::default().options(),
    };
    if let (
        What::Put {
            files,
            session,
            output,
        },
        Some(socket),
    ) = (&args.what, ask::socket(env))
    {
        return put_from_cell(env, &socket, files, (session.as_deref(), output));
    }
    in_repo::run(env, options, |context, ui| match &args.what {
        What::Put { files, session, .. } => put(context, ui, files, session.as_deref()),
        What::Get { artifact, output } => {
            let (_, content) = artifacts::get(context, artifact)?;
            match output {
                Some(path) => {
                    file::replace(&context.env.absolute(path), content, Durability::Synced)?;
                }
                None => ui.out().write_all(&content)?,
            }
            Ok(0)
        }
        What::List { session, .. } => {
            write(ui, &artifacts::list(context, session.as_deref())?).map(|()| 0)
        }
        What::Show { artifact, .. } => {
            write(ui, &[artifacts::get(context, artifact)?.0]).map(|()| 0)
        }
    })
}

/// Reads the files of an agent in a cell, and passes their content to the supervisor.
fn put_from_cell(
    env: &Env,
    socket: &Path,
    files: &[String],
    (session, output): (Option<&str>, &OutputArgs),
) -> Result<u8> {
    for (name, file) in artifact_input::pairs(files) {
        let content = artifact_input::read(env, file)?;
        let mut words: Vec<String> = ["artifact", "put", &name, "-"].map(str::to_owned).to_vec();
        words.extend(session.map(|name| format!("--session={name}")));
        words.extend(output.words());
        let input = Box::new(Cursor::new(content));
        let code = ask::pass_on_with(
            env,
            socket,
            ("git-agent", words),
            Some(input),
            git_agent::output::pass_on,
        )?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

fn put(context: &Context<'_>, ui: &Ui, files: &[String], session: Option<&str>) -> Result<u8> {
    let own = caller::own(context)?;
    let session = match (session, own) {
        (Some(name), _) => selection::select_mine(context, Some(name))?.session,
        (None, Some(own)) => own,
        (None, None) => selection::select_mine(context, None)?.session,
    };
    let mut all = Vec::new();
    for (name, file) in artifact_input::pairs(files) {
        let content = artifact_input::read(context.env, file)?;
        let put = artifacts::put(context, &session, &name, &content)?;
        if put.redacted {
            ui.warning(format!("a secret in '{}' was redacted", one_line(&name)));
        }
        all.push(put.artifact);
    }
    write(ui, &all).map(|()| 0)
}

fn write(ui: &Ui, all: &[Left]) -> Result<()> {
    match ui.format() {
        Format::Json => return json::write_list(ui, "artifacts", all),
        Format::Porcelain { nul } => {
            for one in all {
                let bytes = one.bytes.to_string();
                let fields = [one.session.as_str(), &one.name, &one.sha256, &bytes];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            return Ok(());
        }
        Format::Human => {}
    }
    let columns = ["SESSION", "NAME", "SIZE", "SHA256"].map(Column::new);
    let mut table = Table::new(columns);
    for one in all {
        table.row([
            Cell::new(&one.session),
            Cell::new(&one.name),
            Cell::new(size(one.bytes)),
            Cell::new(one.sha256.get(..12).unwrap_or_default()),
        ]);
    }
    ui.table(&table)
}
