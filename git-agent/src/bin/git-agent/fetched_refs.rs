//! The result of a fetch, ref by ref, as text and JSON.

use std::io::Write;

use git_agent::error::{Context as _, Result, shell_word};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json, porcelain};
use git_agent::share::fetch::Fetched;
use git_agent::share::outcome::{Change, What};

use crate::shared_refs;

/// Writes the result for each ref.
pub fn write(ui: &Ui, fetched: &Fetched) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "refs", &fetched.changes),
        Format::Porcelain { nul } => {
            for one in &fetched.changes {
                let fields = [
                    one.what.as_str(),
                    &one.name,
                    one.session.as_deref().unwrap_or_default(),
                    one.author.as_deref().unwrap_or_default(),
                    one.reason.as_deref().unwrap_or_default(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
            Ok(())
        }
        Format::Human => {
            let shown =
                |one: &&Change| !matches!(one.what, What::Refused | What::Gone | What::Folded);
            for one in fetched.changes.iter().filter(shown) {
                let mut line = shared_refs::label(&one.name, one.session.as_deref());
                if let Some(author) = &one.author {
                    let standing = one.signature.as_ref();
                    let words = standing.map_or("claimed".to_owned(), |one| one.words());
                    line += &format!(" by {} ({})", one_line(author), one_line(&words));
                }
                writeln!(ui.out(), "{:<9} {line}", one.what.as_str()).context(cannot_write)?;
            }
            Ok(())
        }
    }
}

/// Prints warnings about refused, replaced and removed refs.
pub fn tell(ui: &Ui, remote: &str, fetched: &Fetched) {
    for one in &fetched.changes {
        let label = shared_refs::label(&one.name, one.session.as_deref());
        if let (What::Refused, Some(reason)) = (one.what, &one.reason) {
            ui.error(format!("refused {label}: {}", one_line(reason)));
        }
        if let Some(kept) = &one.kept {
            let what = one.what.as_str();
            ui.warning(format!(
                "{label} was {what} at '{}'; the old version is kept for 30 days as {kept}",
                remote
            ));
        }
    }
    let (count, names) = &fetched.foreign;
    if *count > 0 {
        let shown: Vec<String> = names
            .iter()
            .take(3)
            .map(|name| one_line(name).to_string())
            .collect();
        ui.narrate(format!(
            "ignored: {} with unknown names ({}{})",
            human::count(*count as u64, "ref"),
            shown.join(", "),
            if *count > shown.len() { ", …" } else { "" }
        ));
    }
    for (name, count) in &fetched.orphaned {
        let copies = match count {
            1 => "1 copy".to_owned(),
            many => format!("{many} copies"),
        };
        ui.narrate(format!(
            "removed {copies} of '{}', which is not a remote any more; kept for 30 days",
            one_line(name)
        ));
    }
    shared_refs::tell_folded(ui, &fetched.changes);
    let gone = fetched.changes.iter().filter(|one| one.what == What::Gone);
    let gone = gone.count();
    if gone > 0 {
        ui.narrate(format!(
            "'{}' no longer has {} that this clone has copies of",
            remote,
            human::count(gone as u64, "ref")
        ));
        ui.hint(format!("git agent fetch --prune {}", shell_word(remote)));
    }
    if fetched.changes.is_empty() && ui.format() == Format::Human {
        ui.narrate(format!("nothing new at '{}'", remote));
    }
}
