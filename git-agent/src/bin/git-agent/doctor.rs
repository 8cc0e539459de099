//! `git agent doctor`: says what is wrong with our part of the repository, and repairs it when asked to.

use std::io::Write;

use clap::Args;
use git_agent::doctor;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::OutputArgs;
use git_agent::output::sanitize::one_line;
use git_agent::output::{Format, json};

use crate::site;

/// Find what a crash left behind, and repair it
#[derive(Debug, Args)]
pub struct Doctor {
    /// Repair what can be repaired; what is taken away is kept in the repository's agents/lost
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Doctor) -> Result<u8> {
    site::run(env, args.output.options(), |context, ui| {
        let report = doctor::examine(context, args.fix)?;
        let left = report.findings.iter().filter(|one| one.remains()).count();
        let code = u8::from(left > 0);
        if ui.format() == Format::Json {
            return json::write_list(ui, "findings", &report.findings).map(|()| code);
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
        if left == 0 {
            ui.narrate(format!(
                "no problems left (git {}, refs in {})",
                report.git, report.backend
            ));
        } else if !args.fix && report.findings.iter().any(|one| one.repair.is_some()) {
            ui.hint("git agent doctor --fix");
        }
        Ok(code)
    })
}
