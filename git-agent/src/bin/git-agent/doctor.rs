//! `git agent doctor`: finds problems in git-agent's part of the repository, and repairs them on request.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::doctor;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result};
use git_agent::guard::level;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, json};
use git_agent::share::probe;
use git_agent::share::remote::Remote;

use crate::remote_findings;

#[derive(Debug, Args)]
pub struct Doctor {
    /// Repair the problems; removed files are kept in the repository's agents/lost
    #[arg(long)]
    fix: bool,
    /// Test a remote instead: does it accept session refs and show them, how many it has, the cost of a push
    #[arg(long, value_name = "REMOTE", conflicts_with = "fix")]
    remote: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Doctor) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if let Some(remote) = &args.remote {
            return try_out(context, ui, remote);
        }
        let report = doctor::examine(context, args.fix)?;
        let left = report.findings.iter().filter(|one| one.remains()).count();
        let code = u8::from(left > 0);
        if ui.format() == Format::Json {
            let mut out = ui.out();
            let mut list = json::List::begin(&mut out, "findings", ui.table_width().is_some())?;
            for one in &report.findings {
                list.item(one)?;
            }
            list.next("guard")?;
            for one in &report.guard {
                list.item(one)?;
            }
            return list.end().map(|()| code);
        }
        for one in &report.findings {
            let mut out = ui.out();
            let severity = if one.fixed {
                "fixed"
            } else {
                one.severity.as_str()
            };
            writeln!(
                out,
                "{severity}: {}: {}",
                one_line(one.place.as_str()),
                one_line(one.what.as_str())
            )?;
            if let (Some(repair), false) = (&one.repair, one.fixed) {
                writeln!(out, "    --fix: {}", one_line(repair.as_str()))?;
            }
            if let Some(trouble) = &one.trouble {
                writeln!(out, "    not repaired: {}", one_line(trouble.as_str()))?;
            }
        }
        for line in level::in_words(&report.guard) {
            ui.narrate(line);
        }
        if left == 0 {
            let what = if report.findings.is_empty() {
                "found"
            } else {
                "left"
            };
            ui.narrate(format!(
                "no problems {what} (git {}, refs in {})",
                report.git, report.backend
            ));
        } else if !args.fix && report.findings.iter().any(|one| one.repair.is_some()) {
            ui.hint("git agent doctor --fix");
        }
        Ok(code)
    })
}

/// Tests a remote and prints the findings.
fn try_out(context: &Context<'_>, ui: &Ui, remote: &str) -> Result<u8> {
    let remote = Remote::choose(context, Some(remote))?;
    let probed = probe::probe(context, &remote)?;
    let code = u8::from(!probed.accepts || !probed.shows);
    if ui.format() == Format::Json {
        return json::write_list(ui, "remotes", [&probed]).map(|()| code);
    }
    for line in remote_findings::lines(&probed) {
        writeln!(ui.out(), "{line}").context(cannot_write)?;
    }
    Ok(code)
}
