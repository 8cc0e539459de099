//! `git agent merge --apply SESSION`: applies a session's changes to the files here.

use std::io::Write;

use git_agent::context::Context;
use git_agent::error::{Error, Result};
use git_agent::merge::{apply, run};
use git_agent::output::merge::report;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::selection;

/// Applies one session's changes.
pub fn run(context: &Context<'_>, ui: &Ui, names: &[String]) -> Result<u8> {
    let [name] = names else {
        return Err(Error::usage("--apply takes exactly one session"));
    };
    let listed = selection::select_mine(context, Some(name))?;
    let right = run::begin(context, &mut |told| report::told(ui, &told))?;
    let changed = apply::apply(context, &right, &listed)?;
    match ui.format() {
        Format::Json => json::write_list(ui, "files", &changed)?,
        Format::Porcelain { nul } => {
            for path in &changed {
                porcelain::write_record(&mut ui.out(), nul, [path])?;
            }
        }
        Format::Human => {
            for path in &changed {
                writeln!(ui.out(), "{}", one_line(path.as_str()))?;
            }
            let many = changed.len();
            let files = if many == 1 { "file" } else { "files" };
            let name = one_line(listed.session.name.as_str());
            ui.narrate(format!(
                "applied '{name}' to {many} {files}; nothing is committed"
            ));
            ui.hint("git agent merge --undo    remove the changes again");
        }
    }
    Ok(0)
}
