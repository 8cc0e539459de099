//! The only writer to stdout and stderr.
//!
//! stdout carries the answer, stderr everything said about it. [`Ui`] owns both: the answer goes through [`Ui::out`] (buffered, perhaps
//! into a pager), narration through [`Ui::narrate`] and its neighbours, which escape what they are given. Whoever writes to `out`
//! wraps foreign text in [`sanitize`] or uses a [`table`], [`json`] or [`porcelain`] writer, which do it themselves.

pub mod conflicts;
pub mod detail;
pub mod human;
pub mod json;
pub mod moment;
pub mod porcelain;
pub mod resolution;
pub mod sessions;
mod sink;
pub mod table;
pub mod terminal;
pub mod transcript;
mod ui;

use crate::output::terminal::sanitize;
use std::io::{self, Write};

use crate::error::{Context, Result};
use crate::output::sink::Sink;
use crate::output::terminal::style::When;
pub use sink::is_reader_gone;
pub use terminal::{closed_pipe, columns};
pub use ui::{Out, Ui};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For a person.
    #[default]
    Human,
    /// `--json`: one object with a version.
    Json,
    /// `--porcelain`: a record a line, fields between tabs.
    Porcelain {
        /// `-z`: records end with NUL and nothing is quoted.
        nul: bool,
    },
}

/// What the user asked of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How the answer is written.
    pub format: Format,
    /// What `--color` said.
    pub color: Option<When>,
    /// `--quiet`: no narration and no progress; warnings stay.
    pub quiet: bool,
    /// Whether a long answer is worth a pager. Only for people, and only where git would start one.
    pub pager: bool,
}

/// Returns the context for a failed write of the answer.
pub fn cannot_write() -> String {
    "cannot write the output".into()
}

/// Returns a message with its prefix, escaped; further lines are indented so that none can pose as a message of its own.
fn message(prefix: &str, text: &str) -> String {
    let mut lines = String::new();
    for (index, line) in text.lines().enumerate() {
        if index > 0 && !prefix.is_empty() {
            lines += &" ".repeat(prefix.len());
        } else {
            lines += prefix;
        }
        lines += sanitize::block(line).to_text().trim_end();
        lines.push('\n');
    }
    lines
}

/// Writes a message to stderr when no [`Ui`] exists: before one is made, or after it is gone. Failure has nowhere to go.
pub fn report(text: &str, prefix: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(message(prefix, text).as_bytes());
}

/// Writes text of our own to stdout or stderr as it is, for help and versions.
pub fn print(text: &str, to_stderr: bool) -> Result<()> {
    if to_stderr {
        // As with any message: a stderr that takes nothing must not change how the command ends.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    let mut sink = Sink::stdout(false)?;
    sink.write_all(text.as_bytes()).context(cannot_write)?;
    sink.finish()
}
