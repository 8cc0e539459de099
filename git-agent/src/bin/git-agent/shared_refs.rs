//! The result of a push, ref by ref, as text and JSON.

use std::io::Write;

use git_agent::error::{Context as _, Result, shell_word};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json, porcelain};
use git_agent::share::outcome::{Cause, Change, What};

/// Writes the result for each ref.
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
                    ui.warning(format!(
                        "{label}: its code was not pushed: {}",
                        one_line(why)
                    ));
                }
                if let Some(files) = one.uncommitted {
                    let files = human::count(files, "file");
                    ui.warning(format!(
                        "{label}: uncommitted work in {files} was not shared"
                    ));
                }
                if one.without_signature {
                    let why = "it contains events that this clone did not write";
                    ui.warning(format!("{label}: not signed: {why}"));
                }
            }
            Ok(())
        }
    }
}

/// Prints how to share uncommitted work.
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

/// Prints how many sessions were only moved to archives.
pub fn tell_folded(ui: &Ui, changes: &[Change]) {
    let folded = changes.iter().filter(|one| one.what == What::Folded);
    let count = folded.count();
    if count > 0 && ui.format() == Format::Human {
        let sessions = human::count(count as u64, "closed session");
        ui.narrate(format!("archived: {sessions}"));
    }
}

/// Prints why refs were not pushed, and the next command.
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
        ui.hint("git agent purge    remove secrets from your own records");
    }
    if any(Cause::OtherWriter) {
        ui.hint("git config agent.writer <writer>    if this clone wrote it");
    }
    if any(Cause::Hidden) {
        ui.hint("git config agent.remote <remote>    use the host's address for sessions");
    }
    if !refused.is_empty() && ui.format() == Format::Human {
        let count = human::count(refused.len() as u64, "ref");
        ui.narrate(format!("{count} not pushed"));
    }
}

/// Describes a ref: a session's name, or its content.
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
