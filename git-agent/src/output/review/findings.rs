//! Findings of a review by an agent.

use std::io::Write;

use serde::Serialize;

use crate::error::{Context as _, Error, Result, shell_word};
use crate::model::review::Severity;
use crate::model::review::findings::Finding;
use crate::output::human::count;
use crate::output::review::report::{self, ReportFormat};
use crate::output::terminal::sanitize::{block, one_line};
use crate::output::terminal::style::Slot;
use crate::output::{Format, Ui, cannot_write, json, porcelain};
use crate::review::ai::Answered;

/// A finding, for programs.
#[derive(Debug, Serialize)]
struct FindingRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u32>,
    severity: &'static str,
    message: String,
}

/// Writes findings by an agent: as a report for another tool, or as the output is asked for.
pub fn write(ui: &Ui, format: Option<ReportFormat>, agent: &str, found: &[Finding]) -> Result<()> {
    if let Some(format) = format {
        let text = report::render(format, agent, found);
        return ui.out().write_all(text.as_bytes()).context(cannot_write);
    }
    let row = |finding: &Finding| FindingRow {
        file: finding.file.clone(),
        line: finding.line,
        end: finding.end,
        severity: finding.severity.as_str(),
        message: finding.message.clone(),
    };
    match ui.format() {
        Format::Json => json::write_list(ui, "findings", found.iter().map(row))?,
        Format::Porcelain { nul } => {
            for finding in found {
                let number = |number: Option<u32>| {
                    number.map(|number| number.to_string()).unwrap_or_default()
                };
                let fields = [
                    finding.severity.as_str().to_owned(),
                    number(finding.line),
                    number(finding.end),
                    finding.file.clone().unwrap_or_default(),
                    finding.message.clone(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
        }
        Format::Human => {
            for finding in found {
                let place = match (&finding.file, finding.line) {
                    (Some(file), Some(line)) => format!("{file}:{line}: "),
                    (Some(file), None) => format!("{file}: "),
                    _ => String::new(),
                };
                let slot = match finding.severity {
                    Severity::Blocker | Severity::Major => Slot::Bad,
                    _ => Slot::Waiting,
                };
                let severity = ui.palette().paint(slot, finding.severity.as_str());
                let message = block(&finding.message).to_text().replace('\n', "\n    ");
                writeln!(ui.out(), "{}{severity}: {message}", one_line(&place))
                    .context(cannot_write)?;
            }
            ui.narrate(count(found.len() as u64, "finding"));
        }
    }
    Ok(())
}

/// Shows an answer that holds no findings that can be read. A report does not hold it.
pub fn unreadable(ui: &Ui, answered: &Answered, report: bool) -> Result<Error> {
    let text = block(&answered.text).to_text();
    if report {
        text.lines().for_each(|line| ui.narrate(line))
    } else {
        writeln!(ui.out(), "{}", text.trim_end()).context(cannot_write)?
    }
    Ok(
        Error::fatal("cannot read findings in the agent's answer, shown above").hint(format!(
            "git agent log {}",
            shell_word(&answered.session.name)
        )),
    )
}
