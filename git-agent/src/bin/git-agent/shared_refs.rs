//! What became of refs that were pushed or fetched, in words and records.

use std::io::Write;

use git_agent::error::{Context as _, Result, shell_word};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json, porcelain};
use git_agent::share::outcome::{Cause, Change, What};

/// Writes what became of each ref.
pub fn write(ui: &Ui, changes: &[Change]) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "refs", changes),
        Format::Porcelain { nul } => {
            for one in changes {
                let fields = [
                    one.what.as_str(),
                    &one.name,
                    one.session.as_deref().unwrap_or_default(),
                    one.reason.as_deref().unwrap_or_default(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
            Ok(())
        }
        Format::Human => {
            let shown = |one: &&Change| !matches!(one.what, What::Refused | What::Folded);
            for one in changes.iter().filter(shown) {
                let label = label(&one.name, one.session.as_deref());
                writeln!(ui.out(), "{:<9} {label}", one.what.as_str()).context(cannot_write)?;
                if let Some(why) = &one.without_code {
                    ui.warning(format!("{label}: its code stays here: {}", one_line(why)));
                }
                if let Some(files) = one.uncommitted {
                    let files = human::count(files, "file");
                    ui.warning(format!(
                        "{label}: uncommitted work in {files} was not shared"
                    ));
                }
                if one.without_signature {
                    let why = "it holds what was not written here";
                    ui.warning(format!("{label}: not signed: {why}"));
                }
            }
            Ok(())
        }
    }
}

/// Says how uncommitted work is shared.
pub fn hint_commit(ui: &Ui, changes: &[Change]) {
    let left = changes.iter().filter(|one| one.uncommitted.is_some());
    let names: Vec<&str> = left.filter_map(|one| one.session.as_deref()).collect();
    if names.is_empty() || ui.format() != Format::Human {
        return;
    }
    for name in names {
        ui.hint(format!("git agent commit {}", shell_word(name)));
    }
    ui.hint("git agent push");
}

/// Says how many sessions are in archives now: nothing became of them but that.
pub fn tell_folded(ui: &Ui, changes: &[Change]) {
    let folded = changes.iter().filter(|one| one.what == What::Folded);
    let count = folded.count();
    if count > 0 && ui.format() == Format::Human {
        let sessions = human::count(count as u64, "closed session");
        ui.narrate(format!("folded into archives: {sessions}"));
    }
}

/// Says why something did not go, and what can be done.
pub fn tell_refused(ui: &Ui, changes: &[Change]) {
    let refused: Vec<&Change> = changes
        .iter()
        .filter(|one| one.what == What::Refused)
        .collect();
    for one in &refused {
        let reason = one.reason.as_deref().unwrap_or("it was refused");
        ui.error(format!(
            "{}: {}",
            label(&one.name, one.session.as_deref()),
            one_line(reason)
        ));
    }
    let any = |cause| refused.iter().any(|one| one.cause == Some(cause));
    if any(Cause::Secret) {
        ui.hint("git agent purge    takes secrets out of one's own records");
    }
    if any(Cause::OtherWriter) {
        ui.hint("git config agent.writer <writer>    if this clone wrote it after all");
    }
    if any(Cause::Hidden) {
        ui.hint(
            "git config agent.remote <remote>    for the address of that host that is for sessions",
        );
    }
    if !refused.is_empty() && ui.format() == Format::Human {
        let count = human::count(refused.len() as u64, "ref");
        ui.narrate(format!("{count} did not go"));
    }
}

/// Returns a ref in words: a session's name, or what it holds.
pub fn label(name: &str, session: Option<&str>) -> String {
    let part = |at: usize| name.split('/').nth(at).unwrap_or_default();
    match (session, part(2)) {
        (Some(session), _) => one_line(session).to_string(),
        (None, "sessions") => format!("session {}", one_line(part(4))),
        (None, "archive") => format!("archive {} of {}", one_line(part(3)), one_line(part(4))),
        (None, "notes") => format!("{} notes of {}", one_line(part(3)), one_line(part(4))),
        _ => one_line(name).to_string(),
    }
}
