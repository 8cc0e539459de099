//! Prints transcripts for users: a header for each turn, prompts, answers, one line for each tool call with its result,
//! and the state in which a turn ended. With `--full`, every event as it is.

mod lines;
mod story;

use std::collections::BTreeMap;
use std::io::Write;

use crate::env::Millis;
use crate::error::{Context, Result};
use crate::model::event::{Body, Event};
use crate::model::session::Usage;
use crate::output::moment::Clock;
use crate::output::table::cut_within;
use crate::output::terminal::sanitize;
use crate::output::terminal::style::Slot;
use crate::output::transcript::lines::{Line, Shape};
use crate::output::transcript::story::{Piece, Story};
use crate::output::wrap::wrap;
use crate::output::{Ui, cannot_write, human};

/// Lines that are kept back until the turn's time and cost are known, in bytes.
const HELD: usize = 4 << 20;

/// Writes events in order.
#[derive(Debug)]
pub struct Writer<'u> {
    ui: &'u Ui,
    clock: Clock,
    full: bool,
    /// Whether the header of a turn waits for its end, so that it can tell time and cost.
    whole_turns: bool,
    /// Width of the column with the session's name; 0 for a single session.
    names: usize,
    day: String,
    stories: BTreeMap<String, Story>,
    /// The lines of a turn whose header waits, and that header.
    held: Option<(Piece, Vec<u8>)>,
    begun: bool,
}

impl<'u> Writer<'u> {
    /// Returns a writer. It prints the date of events that are not of today.
    pub fn new(ui: &'u Ui, clock: Clock, now: Millis) -> Self {
        Writer {
            ui,
            day: clock.day(now),
            clock,
            full: false,
            whole_turns: false,
            names: 0,
            stories: BTreeMap::new(),
            held: None,
            begun: false,
        }
    }

    /// Shows every kind of event, with the whole output of tools.
    #[must_use]
    pub fn full(mut self, full: bool) -> Self {
        self.full = full;
        self
    }

    /// Tells time and cost of a turn in its header instead of at its end. For one session whose events are all known.
    #[must_use]
    pub fn whole_turns(mut self, whole: bool) -> Self {
        self.whole_turns = whole && !self.full;
        self
    }

    /// Adds a column with the session's name, wide enough for these names.
    #[must_use]
    pub fn with_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let widths = names
            .into_iter()
            .map(|name| sanitize::width(&sanitize::one_line(name).to_text()));
        self.names = widths.max().unwrap_or(0);
        if self.ui.table_width().is_some() {
            self.names = self.names.min(24);
        }
        self
    }

    /// Names the agent of a session, and its worktree, to which paths are made relative.
    pub fn introduce(&mut self, name: &str, agent: String, worktree: Option<String>) {
        let story = self.stories.entry(name.to_owned()).or_default();
        story.introduce(agent, worktree);
    }

    /// Returns whether an event is shown, or adds to a later one.
    pub fn shows(&self, event: &Event) -> bool {
        self.full || is_worth_showing(&event.body) || matches!(event.body, Body::Usage { .. })
    }

    /// Writes an event of a session.
    pub fn event(&mut self, name: &str, event: &Event) -> Result<()> {
        if !self.shows(event) {
            return Ok(());
        }
        let story = self.stories.entry(name.to_owned()).or_default();
        let pieces = if self.full {
            vec![Piece::new(event, lines::full(&event.body))]
        } else {
            story.take(event)
        };
        pieces
            .into_iter()
            .try_for_each(|piece| self.piece(name, piece))
    }

    /// Writes what waits for a later event, because none may come for long.
    pub fn caught_up(&mut self) -> Result<()> {
        self.let_go(Story::caught_up)
    }

    /// Writes what waits for a later event, because none comes.
    pub fn finish(&mut self) -> Result<()> {
        self.let_go(Story::finish)?;
        self.release(None)
    }

    fn let_go(&mut self, rest: fn(&mut Story) -> Vec<Piece>) -> Result<()> {
        let mut pieces: Vec<(String, Piece)> = Vec::new();
        for (name, story) in &mut self.stories {
            pieces.extend(rest(story).into_iter().map(|piece| (name.clone(), piece)));
        }
        pieces
            .into_iter()
            .try_for_each(|(name, piece)| self.piece(&name, piece))
    }

    /// Writes a piece, or keeps it back until the header of its turn is known.
    fn piece(&mut self, name: &str, mut piece: Piece) -> Result<()> {
        piece.after_gap = piece.begins_turn && self.begun;
        self.begun |= !piece.lines.is_empty();
        if self.whole_turns && piece.begins_turn {
            self.release(None)?;
            self.held = Some((piece, Vec::new()));
            return Ok(());
        }
        let worth = piece.worth.clone();
        let mut bytes = Vec::new();
        self.write(
            name,
            &piece,
            worth.is_some() && self.held.is_none(),
            &mut bytes,
        )?;
        let Some((_, held)) = &mut self.held else {
            return self.ui.out().write_all(&bytes).context(cannot_write);
        };
        held.extend(bytes);
        if held.len() > HELD || worth.is_some() {
            self.release(worth.as_deref().map(|worth| (name, worth)))
        } else {
            Ok(())
        }
    }

    /// Writes the lines that were kept back, with time and cost of the turn if they are known.
    fn release(&mut self, ended: Option<(&str, &str)>) -> Result<()> {
        let Some((mut header, rest)) = self.held.take() else {
            return Ok(());
        };
        if let Some((_, worth)) = ended
            && let Some(first) = header.lines.first_mut()
        {
            first.text = format!("{} · {worth}", first.text);
        }
        let mut bytes = Vec::new();
        let name = ended.map_or("", |(name, _)| name);
        self.write(name, &header, false, &mut bytes)?;
        bytes.extend(rest);
        self.ui.out().write_all(&bytes).context(cannot_write)
    }

    /// Formats a piece: the time and the session's name before its first line.
    fn write(
        &mut self,
        name: &str,
        piece: &Piece,
        with_worth: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if piece.lines.is_empty() {
            return Ok(());
        }
        let palette = self.ui.palette();
        if piece.after_gap {
            writeln!(out).context(cannot_write)?;
        }
        let day = self.clock.day(piece.at);
        if day != self.day {
            writeln!(out, "{}", palette.paint(Slot::Dim, format!("-- {day} --")))
                .context(cannot_write)?;
            self.day = day;
        }
        let time = self.clock.time(piece.at);
        let name = self.column(name);
        let before = time.len() + 1 + sanitize::width(&name);
        let room = self
            .ui
            .table_width()
            .map(|width| width.saturating_sub(before));
        let mut first = true;
        for line in &piece.lines {
            let mut line = line.clone();
            if let (true, Some(worth)) = (with_worth && first, &piece.worth) {
                line.text = format!("{} · {worth}", line.text);
            }
            for shown in self.fit(&line, room) {
                let begun = if std::mem::take(&mut first) {
                    let (time, name) = (
                        palette.paint(Slot::Dim, &time),
                        palette.paint(Slot::Dim, &name),
                    );
                    write!(out, "{time} {name}")
                } else if shown.is_empty() {
                    Ok(())
                } else {
                    write!(out, "{:before$}", "")
                };
                begun
                    .and_then(|()| writeln!(out, "{shown}"))
                    .context(cannot_write)?;
            }
        }
        Ok(())
    }

    /// Returns the session's name as a column. Names of one group differ at the end, so the middle is cut; a program
    /// gets the whole name.
    fn column(&self, name: &str) -> String {
        let width = self.names;
        if width == 0 {
            return String::new();
        }
        let clean = sanitize::one_line(name).to_text();
        let cut = match self.ui.table_width() {
            Some(_) if sanitize::width(&clean) > width => cut_within(&clean, width),
            _ => clean.as_ref().into(),
        };
        let padding = width.saturating_sub(sanitize::width(&cut));
        format!("{cut}{:padding$} ", "")
    }

    /// Returns a line as coloured lines that fit the screen: text is wrapped, a tool call is cut.
    fn fit(&self, line: &Line, room: Option<usize>) -> Vec<String> {
        let palette = self.ui.palette();
        let paint = |slot: Option<Slot>, text: &str| match slot {
            _ if text.is_empty() => String::new(),
            Some(slot) => palette.paint(slot, text).to_string(),
            None => text.to_owned(),
        };
        match &line.shape {
            Shape::Text { mark } => {
                let inner = room.map(|room| room.saturating_sub(sanitize::width(mark)));
                let lines = wrap(&line.text, inner);
                let again = match mark.as_str() {
                    "> " | "~ " => mark.clone(),
                    mark => " ".repeat(sanitize::width(mark)),
                };
                let marked = lines.iter().enumerate().map(|(index, text)| match index {
                    0 => format!("{mark}{text}"),
                    _ => format!("{again}{text}"),
                });
                marked
                    .map(|text| paint(line.slot, text.trim_end()))
                    .collect()
            }
            Shape::Call { result, slot } => {
                let arrow = if result.is_empty() { "" } else { " → " };
                let (mut text, mut told) = (line.text.clone(), result.clone());
                if let Some(room) = room {
                    let both = room.saturating_sub(sanitize::width(arrow));
                    // A long result leaves two thirds to the call.
                    let least = sanitize::width(&told).min((both / 3).max(10));
                    let call = sanitize::width(&text).min(both.saturating_sub(least));
                    text = sanitize::one_line(&text).max_width(call).to_string();
                    let left = both.saturating_sub(sanitize::width(&text));
                    told = sanitize::one_line(&told).max_width(left).to_string();
                }
                let told = format!("{arrow}{told}");
                vec![paint(line.slot, &text) + &paint(Some(*slot), told.trim_end())]
            }
            Shape::Edit { lines } => {
                let (added, deleted) = lines.unwrap_or_default();
                let counts = human::changes(palette, added, deleted);
                // Each count has a sign, and a gap before it.
                let cells = |count: u64| match count {
                    0 => 0,
                    count => count.to_string().len() + 2,
                };
                let wide = cells(added) + cells(deleted);
                let text = match room {
                    Some(room) => sanitize::one_line(&line.text)
                        .max_width(room.saturating_sub(wide))
                        .to_string(),
                    None => line.text.clone(),
                };
                let gap = if wide > 0 { " " } else { "" };
                vec![format!("{}{gap}{counts}", paint(line.slot, &text))]
            }
        }
    }
}

/// Returns whether an event is shown without `--full`.
pub fn is_worth_showing(body: &Body) -> bool {
    !matches!(
        body,
        Body::Set { .. }
            | Body::Vendor { .. }
            | Body::Usage { .. }
            | Body::Snapshot { .. }
            | Body::Raw { .. }
    )
}

/// Returns tokens and cost in a few words.
pub fn used(usage: &Usage) -> String {
    let mut words = Vec::new();
    if let Some(tokens) = usage.input_tokens {
        words.push(format!("{} tokens in", human::compact(tokens)));
    }
    if let Some(tokens) = usage.output_tokens {
        words.push(format!("{} tokens out", human::compact(tokens)));
    }
    if let Some(cost) = usage.cost_usd {
        words.push(format!("${cost:.2}"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests;
