//! The only writer to stdout and stderr.
//!
//! stdout gets the answer, stderr all messages. [`Ui`] owns both: the answer goes through [`Ui::out`] (buffered,
//! perhaps into a pager), messages through [`Ui::narrate`] and its siblings, which escape their text. Code that writes
//! to `out` wraps foreign text in [`sanitize`] or uses a [`table`], [`json`] or [`porcelain`] writer, which do so
//! themselves.

pub mod detail;
pub mod group;
pub mod human;
pub mod json;
pub mod merge;
pub mod moment;
pub mod porcelain;
pub mod review;
pub mod sessions;
mod sink;
pub mod table;
pub mod terminal;
pub mod transcript;
mod ui;
pub mod wrap;

use crate::output::terminal::sanitize;
use std::io::{self, Write};

use crate::env::Env;
use crate::error::{Context, Result};
use crate::output::sink::Sink;
use crate::output::terminal::style::When;
pub use sink::is_reader_gone;
pub use terminal::{closed_pipe, columns};
pub use ui::{Out, Ui};

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For a user.
    #[default]
    Human,
    /// `--json`: one object with a version.
    Json,
    /// `--porcelain`: one record per line, with tabs between fields.
    Porcelain {
        /// `-z`: records end with NUL and nothing is quoted.
        nul: bool,
    },
}

/// The user's options for the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The format of the answer.
    pub format: Format,
    /// The value of `--color`.
    pub color: Option<When>,
    /// `--quiet`: no narration and no progress; warnings stay.
    pub quiet: bool,
    /// Whether a long answer may use a pager. Only for the human format, and only where git would start one.
    pub pager: bool,
    /// Another setting that names the pager, if `pager.agent` does not: `pager.diff` for a diff.
    pub pager_key: Option<&'static str>,
    /// Whether the pager begins at the end, because the newest lines are there.
    pub pager_at_end: bool,
}

/// Returns the error context for a failed write of the answer.
pub fn cannot_write() -> String {
    "cannot write the output".into()
}

/// Returns a message with its prefix, escaped; further lines are indented so that none looks like a message of its own.
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

/// Writes a message to stderr without a [`Ui`]. A failure is ignored, because it cannot be reported.
pub fn report(text: &str, prefix: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(message(prefix, text).as_bytes());
}

/// Writes the hint of an error to stderr, dim on a terminal with colours.
pub fn report_hint(env: Option<&Env>, text: &str) {
    let dim = env.is_some_and(|env| When::Auto.decide(env, env.terminals.stderr));
    for line in text.lines() {
        let line = message("hint: ", line);
        let line = if dim {
            format!("\x1b[2m{}\x1b[m\n", line.trim_end())
        } else {
            line
        };
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Passes on the output of another command of ours as it is: that command made it safe.
pub fn pass_on(bytes: &[u8], to_stderr: bool) -> Result<()> {
    let written = if to_stderr {
        io::stderr().lock().write_all(bytes)
    } else {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    written.context(cannot_write)
}

/// Writes our own text to stdout or stderr unescaped, for help and versions.
pub fn print(text: &str, to_stderr: bool) -> Result<()> {
    if to_stderr {
        // A failed write to stderr must not change the exit code.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    let mut sink = Sink::stdout(false)?;
    sink.write_all(text.as_bytes()).context(cannot_write)?;
    sink.finish()
}
