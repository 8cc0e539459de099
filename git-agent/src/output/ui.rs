//! The two streams of a command: the answer on stdout, messages on stderr.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::env::{Env, Terminals};
use crate::error::{Context, Error, Result};
use crate::output::sink::Sink;
use crate::output::table::Table;
use crate::output::terminal::pager::{self, Pager};
use crate::output::terminal::sanitize;
use crate::output::terminal::style::{self, Color, Config, Palette, When};
use crate::output::{Format, Options, cannot_write, columns, message, report};

/// Maximum number of hints: more would hide the answer, so callers give the most urgent first.
const HINTS: usize = 2;
/// Minimum time between two repaints of the progress line.
const REPAINT: Duration = Duration::from_millis(50);

/// The two streams of a command, and the settings for their look.
#[derive(Debug)]
pub struct Ui {
    options: Options,
    terminals: Terminals,
    width: usize,
    /// Whether the answer goes to a screen of known width.
    on_screen: bool,
    palette: Palette,
    hint_color: Color,
    may_ask: bool,
    state: Mutex<Streams>,
}

#[derive(Debug)]
struct Streams {
    out: Sink,
    err: Sink,
    /// The answer goes to a pager, and so do messages.
    paging: bool,
    progress: Option<Progress>,
    hints: Vec<String>,
}

#[derive(Debug)]
struct Progress {
    shown: String,
    painted: Instant,
}

impl Ui {
    /// Sets up the streams. `config` looks up git configuration; without a repository it may return nothing.
    pub fn new(env: &Env, options: Options, config: &Config<'_>) -> Result<Self> {
        let width = columns(env);
        let mut out = Sink::stdout(env.terminals.stdout)?;
        let mut paging = false;
        let wants_pager = options.pager && options.format == Format::Human;
        if let Some(mut command) = wants_pager
            .then(|| pager::choose(env, config, options.pager_key))
            .flatten()
        {
            if options.pager_at_end {
                command = pager::at_end(command);
            }
            match Pager::start(env, &command, width) {
                Ok(pager) => {
                    out = Sink::pager(pager);
                    paging = true;
                }
                // If the pager fails, show the answer without it.
                Err(error) => report(error.message(), "warning: "),
            }
        }
        let through_pager = paging || pager::in_use(env);
        let on_screen = env.terminals.stdout || through_pager;
        let colors_in_pager = || {
            let configured = config("color.pager").and_then(|value| style::parse_bool(&value));
            configured.unwrap_or(true)
        };
        let shown = if through_pager {
            colors_in_pager()
        } else {
            on_screen
        };
        let when = options
            .color
            .unwrap_or_else(|| When::configured(config, "color.agent"));
        let palette = if options.format == Format::Human && when.decide(env, shown) {
            Palette::load(config)?
        } else {
            Palette::plain()
        };
        let hint_color =
            if When::configured(config, "color.advice").decide(env, env.terminals.stderr) {
                config("color.advice.hint")
                    .and_then(|words| words.parse().ok())
                    .map_or_else(|| "dim".parse(), Ok)?
            } else {
                Color::default()
            };
        Ok(Ui {
            options,
            terminals: env.terminals,
            width,
            on_screen,
            palette,
            hint_color,
            may_ask: env.terminals.stdin
                && env.terminals.stderr
                && env
                    .var("GIT_TERMINAL_PROMPT")
                    .is_none_or(|value| style::parse_bool(value).unwrap_or(true)),
            state: Mutex::new(Streams {
                out,
                err: Sink::stderr()?,
                paging,
                progress: None,
                hints: Vec::new(),
            }),
        })
    }

    /// Returns a user interface that keeps its output in memory, without terminals or colours.
    #[cfg(test)]
    pub(crate) fn in_memory(options: Options) -> Self {
        Ui {
            options,
            terminals: Terminals::default(),
            width: 80,
            on_screen: false,
            palette: Palette::plain(),
            hint_color: Color::default(),
            may_ask: false,
            state: Mutex::new(Streams {
                out: Sink::memory(),
                err: Sink::memory(),
                paging: false,
                progress: None,
                hints: Vec::new(),
            }),
        }
    }

    /// Returns a user interface in memory whose answer is fitted to a screen.
    #[cfg(test)]
    pub(crate) fn in_memory_screen(width: usize) -> Self {
        Ui {
            width,
            on_screen: true,
            ..Ui::in_memory(Options::default())
        }
    }

    /// Returns the stdout and stderr of an [`Ui::in_memory`].
    #[cfg(test)]
    pub(crate) fn written(&self) -> (String, String) {
        let streams = self.streams();
        (streams.out.kept(), streams.err.kept())
    }

    /// Returns the format of the answer.
    pub fn format(&self) -> Format {
        self.options.format
    }

    /// Returns the colours of the answer.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// Returns the width of the terminal like git: `COLUMNS`, or else the terminal's own width, or else 80.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the width that a table must fit; `None` if the answer goes to a file or a program, which gets whole
    /// values.
    pub fn table_width(&self) -> Option<usize> {
        self.on_screen.then_some(self.width)
    }

    /// Returns a writer for the answer. Several may be used at once; each write is atomic.
    pub fn out(&self) -> Out<'_> {
        Out { ui: self }
    }

    /// Writes a table to the answer, fitted and coloured.
    pub fn table(&self, table: &Table) -> Result<()> {
        table
            .write(&mut self.out(), &self.palette, self.table_width())
            .context(cannot_write)
    }

    /// Prints a message about the progress of the work, unless `--quiet`.
    pub fn narrate(&self, text: impl Display) {
        if !self.options.quiet {
            self.say("", &text.to_string());
        }
    }

    /// Prints a warning.
    pub fn warning(&self, text: impl Display) {
        self.say("warning: ", &text.to_string());
    }

    /// Prints an error from which the command continues.
    pub fn error(&self, text: impl Display) {
        self.say("error: ", &text.to_string());
    }

    /// Prints a hint for the next step, unless `--quiet`. Only the first few are shown, each once.
    pub fn hint(&self, text: impl Display) {
        if self.options.quiet {
            return;
        }
        let text = text.to_string();
        {
            let hints = &mut self.streams().hints;
            if hints.len() >= HINTS || hints.contains(&text) {
                return;
            }
            hints.push(text.clone());
        }
        let escape = self.hint_color.escape();
        let end = if escape.is_empty() { "" } else { "\x1b[m" };
        let mut lines = String::new();
        for line in text.lines() {
            lines += &format!("{escape}hint: {}{end}\n", sanitize::block(line));
        }
        self.put(&lines);
    }

    fn say(&self, prefix: &str, text: &str) {
        self.put(&message(prefix, text));
    }

    /// Writes a message to the pager or stderr. A failed write to stderr must not end the command.
    fn put(&self, lines: &str) {
        let mut streams = self.streams();
        streams.clear_progress();
        let target = if streams.paging && self.terminals.stderr {
            &mut streams.out
        } else {
            if self.terminals.stdout {
                let _ = streams.out.flush();
            }
            &mut streams.err
        };
        let _ = target.write_all(lines.as_bytes());
    }

    /// Returns whether progress would be visible.
    pub fn shows_progress(&self) -> bool {
        !self.options.quiet && self.terminals.stderr
    }

    /// Shows the progress on one line that is repainted; only on a terminal.
    pub fn progress(&self, text: impl Display) {
        if !self.shows_progress() {
            return;
        }
        let mut streams = self.streams();
        if streams.paging {
            return;
        }
        let now = Instant::now();
        let fresh = |shown: &Progress| now.duration_since(shown.painted) < REPAINT;
        if streams.progress.as_ref().is_some_and(fresh) {
            return;
        }
        let text = text.to_string();
        let text = sanitize::one_line(&text)
            .max_width(self.width.saturating_sub(1))
            .to_string();
        let old = streams
            .progress
            .take()
            .map_or(0, |old| sanitize::width(&old.shown));
        let padding = old.saturating_sub(sanitize::width(&text));
        let _ = write!(streams.err, "\r{text}{:padding$}", "");
        streams.progress = Some(Progress {
            shown: text,
            painted: now,
        });
    }

    /// Removes the progress line.
    pub fn clear_progress(&self) {
        self.streams().clear_progress();
    }

    /// Asks a yes-or-no question; anything but yes is no. Fails without a terminal.
    pub fn confirm(&self, question: &str) -> Result<bool> {
        let shown = sanitize::one_line(question);
        if !self.may_ask {
            return Err(
                Error::fatal(format!("cannot ask '{shown}' without a terminal"))
                    .hint("answer yes in advance: --yes"),
            );
        }
        {
            let mut streams = self.streams();
            streams.clear_progress();
            streams.out.flush().context(cannot_write)?;
            write!(streams.err, "{shown} [y/N] ").context(cannot_write)?;
        }
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .context(|| "cannot read the answer".into())?;
        if !answer.ends_with('\n') {
            let _ = self.streams().err.write_all(b"\n");
        }
        Ok(matches!(
            answer.trim().to_ascii_lowercase().as_str(),
            "y" | "yes"
        ))
    }

    /// Asks for a line of text; `None` at the end of the input. Fails without a terminal.
    pub fn ask_line(&self, question: &str) -> Result<Option<String>> {
        let shown = sanitize::one_line(question);
        if !self.may_ask {
            return Err(Error::fatal(format!(
                "cannot ask '{shown}' without a terminal"
            )));
        }
        {
            let mut streams = self.streams();
            streams.clear_progress();
            streams.out.flush().context(cannot_write)?;
            write!(streams.err, "{shown} ").context(cannot_write)?;
        }
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        match read.context(|| "cannot read the answer".into())? {
            0 => Ok(None),
            _ => Ok(Some(answer.trim().to_owned())),
        }
    }

    /// Returns whether [`Ui::confirm`] can ask the user.
    pub fn may_ask(&self) -> bool {
        self.may_ask
    }

    /// Flushes the buffers and waits for the pager. Fails if the answer could not be written completely.
    pub fn finish(self) -> Result<()> {
        let mut streams = self
            .state
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        streams.clear_progress();
        streams.out.finish()
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Streams {
    fn clear_progress(&mut self) {
        if let Some(progress) = self.progress.take() {
            let width = sanitize::width(&progress.shown);
            let _ = write!(self.err, "\r{:width$}\r", "");
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.clear_progress();
    }
}

/// A writer for the answer.
#[derive(Debug, Clone, Copy)]
pub struct Out<'a> {
    ui: &'a Ui,
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut streams = self.ui.streams();
        if self.ui.terminals.stdout {
            streams.clear_progress();
        }
        streams.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.ui.streams().out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table;

    #[test]
    fn answer_and_narration_are_apart() {
        let ui = Ui::in_memory(Options::default());
        writeln!(ui.out(), "answer").expect("memory takes everything");
        ui.narrate("making 'x\x1b[2J'");
        ui.warning("two\nlines\r\nfatal: no");
        ui.hint("run 'git agent list'\nor not");
        ui.progress("never on a pipe");
        let (out, err) = ui.written();
        assert_eq!(out, "answer\n");
        assert_eq!(
            err,
            "making 'x\\x1b[2J'\nwarning: two\n         lines\n         fatal: no\n\
             hint: run 'git agent list'\nhint: or not\n"
        );
    }

    #[test]
    fn two_hints_are_enough() {
        let ui = Ui::in_memory(Options::default());
        for hint in ["a", "a", "b", "c"] {
            ui.hint(hint);
        }
        assert_eq!(ui.written().1, "hint: a\nhint: b\n");
    }

    #[test]
    fn quiet_keeps_warnings() {
        let ui = Ui::in_memory(Options {
            quiet: true,
            ..Options::default()
        });
        ui.narrate("a");
        ui.hint("b");
        ui.warning("c");
        ui.error("d");
        assert_eq!(ui.written().1, "warning: c\nerror: d\n");
    }

    #[test]
    fn nobody_to_ask_is_an_error() {
        let ui = Ui::in_memory(Options::default());
        let error = ui
            .confirm("remove it?")
            .expect_err("stdin is not a terminal");
        assert_eq!(
            error.message(),
            "cannot ask 'remove it?' without a terminal"
        );
        assert_eq!(error.hints().len(), 1);
    }

    #[test]
    fn tables_are_whole_where_nobody_looks() {
        let ui = Ui::in_memory(Options::default());
        let mut table = table::Table::new([table::Column::new("A").shrinks_to(3)]);
        table.row(["x".repeat(200).into()]);
        ui.table(&table).expect("memory takes everything");
        assert_eq!(ui.written().0, format!("A\n{}\n", "x".repeat(200)));
    }
}
