//! `git agent list --watch`: redraws the list when a session changes, and rings when one needs the user.

use std::io::Write;
use std::time::{Duration, Instant};

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::listing::urgency;
use git_agent::listing::watch::{Board, Refreshed};
use git_agent::output::terminal::screen::Screen;
use git_agent::output::terminal::style::Slot;
use git_agent::output::terminal::wait::{Waiter, Wake};
use git_agent::output::{Format, Ui, sessions};
use git_agent::selection::Selection;

use crate::list;

/// How often the times on the screen advance while an agent works, and otherwise.
const TICK: Duration = Duration::from_secs(1);
const SLOW_TICK: Duration = Duration::from_secs(60);

struct View<'c, 'a> {
    context: &'c Context<'a>,
    ui: &'c Ui,
    board: Board<'c, 'a>,
    /// The last written text, if the output is not a screen.
    written: String,
}

/// Shows sessions until the user leaves.
pub fn watch(context: &Context<'_>, ui: &Ui, selection: Selection) -> Result<u8> {
    let mut view = View {
        context,
        ui,
        board: Board::new(context, selection)?,
        written: String::new(),
    };
    let mut waiter = Waiter::new()?;
    let mut screen = match ui.format() {
        Format::Human => Screen::enter(context.env, ui)?,
        _ => None,
    };
    loop {
        let refreshed = view.board.refresh()?;
        match &screen {
            Some(screen) => {
                if refreshed == (Refreshed::Rows { called: true }) {
                    screen.ring()?;
                }
                screen.paint(&view.paint(screen.size())?)?;
            }
            None => view.write()?,
        }
        let pause = if view.board.is_working() {
            TICK
        } else {
            SLOW_TICK
        };
        let tick = screen.is_some().then(|| Instant::now() + pause);
        let deadline = [view.board.deadline(), tick].into_iter().flatten().min();
        match waiter.wait(&view.board, screen.as_mut(), deadline)? {
            Wake::Change => view.board.changed(),
            Wake::Leave => return Ok(0),
            Wake::Paint => {}
        }
    }
}

impl View<'_, '_> {
    /// Returns the part of the table that fits the screen, and below it the counts and the key to leave.
    fn paint(&mut self, (columns, lines): (usize, usize)) -> Result<String> {
        let mut rows = self.board.rows_now().to_vec();
        urgency::sort(&mut rows);
        let table = sessions::table(&rows, self.context.env.now(), Some(columns));
        let mut bytes = Vec::new();
        table.write(&mut bytes, self.ui.palette(), Some(columns))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let room = lines.saturating_sub(2).max(1);
        let total = text.lines().count();
        let mut shown: Vec<&str> = text.lines().take(room).collect();
        let more = match total.saturating_sub(room) {
            0 => String::new(),
            left => format!(" - {left} more"),
        };
        let below = format!("{}{more} - q to leave", urgency::counts(&rows));
        let below: String = below.chars().take(columns).collect();
        shown.push("");
        let mut text = shown.join("\n");
        text += &format!("\n{}", self.ui.palette().paint(Slot::Dim, below));
        Ok(text)
    }

    /// Writes the list to an output that is not a screen, only when it changed.
    fn write(&mut self) -> Result<()> {
        let rows = self.board.rows();
        let state = rows
            .iter()
            .map(|row| sessions::record(row).join("\t"))
            .collect::<Vec<_>>()
            .join("\n");
        if state == self.written {
            return Ok(());
        }
        if !self.written.is_empty() && self.ui.format() == Format::Human {
            self.ui.out().write_all(b"\n")?;
        }
        self.written = state;
        list::write(self.context, self.ui, rows)?;
        self.ui.out().flush()?;
        Ok(())
    }
}
