//! Formats columns to fit the terminal: bold headers, right-aligned numbers, `…` for cut text, no trailing spaces.
//!
//! A width is given only for a terminal or a pager. Without one nothing is cut: like git's own listings, `git agent
//! list | grep` gets whole values.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::output::terminal::sanitize;
use crate::output::terminal::style::{Palette, Slot};

/// Spaces between two columns.
const GAP: usize = 2;

/// A column's header and layout.
#[derive(Debug, Clone)]
pub struct Column {
    header: String,
    right: bool,
    min_width: Option<usize>,
    rank: Option<u8>,
    keeps_end: bool,
}

impl Column {
    /// Returns a column that is left-aligned and never cut.
    pub fn new(header: impl Into<String>) -> Self {
        Column {
            header: header.into(),
            right: false,
            min_width: None,
            rank: None,
            keeps_end: false,
        }
    }

    /// Aligns the column to the right, for numbers.
    #[must_use]
    pub fn right(mut self) -> Self {
        self.right = true;
        self
    }

    /// Allows cutting the column to this many cells on a narrow terminal. The widest such column is cut first.
    #[must_use]
    pub fn shrinks_to(mut self, cells: usize) -> Self {
        self.min_width = Some(cells.max(1));
        self
    }

    /// Cuts the column in the middle, for names that differ at the end.
    #[must_use]
    pub fn keeps_end(mut self) -> Self {
        self.keeps_end = true;
        self
    }

    /// Allows leaving the column out if cutting is not enough. The lowest rank goes first, and all columns of a rank
    /// together.
    #[must_use]
    pub fn goes(mut self, rank: u8) -> Self {
        self.rank = Some(rank);
        self
    }
}

/// One value in a table. Any text may go in, because it is escaped here.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    slot: Option<Slot>,
}

impl Cell {
    /// Returns a cell with this text on one line, escaped.
    pub fn new<T: AsRef<[u8]>>(text: T) -> Self {
        Cell {
            text: sanitize::one_line(text.as_ref()).to_string(),
            slot: None,
        }
    }

    /// Sets the colour of the cell.
    #[must_use]
    pub fn in_color(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }
}

impl<T: AsRef<[u8]>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::new(text)
    }
}

/// Rows under headers.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    show_header: bool,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            show_header: true,
        }
    }

    /// Leaves the headers out.
    #[must_use]
    pub fn without_header(mut self) -> Self {
        self.show_header = false;
        self
    }

    /// Adds a row; missing cells are empty, surplus cells are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize_with(self.columns.len(), Cell::default);
        self.rows.push(cells);
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table, cut to `width` cells if given. Writes nothing if it has no rows.
    pub fn write(
        &self,
        out: &mut dyn Write,
        palette: &Palette,
        width: Option<usize>,
    ) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths = self.widths(width);
        if self.show_header {
            let header: Vec<Cell> = self
                .columns
                .iter()
                .map(|column| Cell::new(&column.header).in_color(Slot::Header))
                .collect();
            self.write_row(out, palette, &widths, &header)?;
        }
        for row in &self.rows {
            self.write_row(out, palette, &widths, row)?;
        }
        Ok(())
    }

    /// Returns the width of each column; 0 for a column that is empty in every row, which is left out.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let widest = self
                    .rows
                    .iter()
                    .map(|row| sanitize::width(&row[index].text));
                match widest.max().unwrap_or(0) {
                    0 => 0,
                    width if self.show_header => {
                        width.max(sanitize::width(&self.columns[index].header))
                    }
                    width => width,
                }
            })
            .collect();
        let Some(limit) = limit else {
            return widths;
        };
        self.leave_out(&mut widths, limit);
        self.cut(&mut widths, limit, |column| column.min_width);
        // Cut every column rather than let the terminal wrap every line.
        self.cut(&mut widths, limit, |_| Some(4));
        self.cut(&mut widths, limit, |_| Some(1));
        widths
    }

    /// Leaves out columns until the rest fits after cutting.
    fn leave_out(&self, widths: &mut [usize], limit: usize) {
        loop {
            let least: Vec<usize> = widths
                .iter()
                .zip(&self.columns)
                .map(|(width, column)| column.min_width.map_or(*width, |min| min.min(*width)))
                .collect();
            if total(&least) <= limit {
                return;
            }
            let shown = |index: &usize| widths[*index] > 0;
            let ranks = (0..widths.len())
                .filter(shown)
                .filter_map(|index| self.columns[index].rank);
            let Some(lowest) = ranks.min() else {
                return;
            };
            for (width, column) in widths.iter_mut().zip(&self.columns) {
                if column.rank == Some(lowest) {
                    *width = 0;
                }
            }
        }
    }

    /// Cuts columns until they fit, but none below its minimum. The widest is cut first, down to the next widest, so
    /// that narrow columns stay whole as long as possible.
    fn cut(&self, widths: &mut [usize], limit: usize, least: fn(&Column) -> Option<usize>) {
        let mut excess = total(widths).saturating_sub(limit);
        while excess > 0 {
            let spare = |index: usize, widths: &[usize]| {
                let min = least(&self.columns[index])?;
                (widths[index] > min).then(|| widths[index] - min)
            };
            let candidates: Vec<usize> = (0..widths.len())
                .filter(|index| spare(*index, widths).is_some())
                .collect();
            let Some(&widest) = candidates.iter().max_by_key(|index| widths[**index]) else {
                break;
            };
            let next = candidates
                .iter()
                .filter(|index| **index != widest)
                .map(|index| widths[*index])
                .max()
                .unwrap_or(0);
            let step = (widths[widest] - next.min(widths[widest]))
                .max(1)
                .min(excess)
                .min(spare(widest, widths).unwrap_or(1));
            widths[widest] -= step;
            excess -= step;
        }
    }

    fn write_row(
        &self,
        out: &mut dyn Write,
        palette: &Palette,
        widths: &[usize],
        cells: &[Cell],
    ) -> io::Result<()> {
        // Spaces are written only before visible text, so that none trail.
        let mut owed = 0;
        let mut first = true;
        for ((column, &width), cell) in self.columns.iter().zip(widths).zip(cells) {
            if width == 0 {
                continue;
            }
            if !first {
                owed += GAP;
            }
            first = false;
            let text = if sanitize::width(&cell.text) <= width {
                cell.text.as_str().into()
            } else if column.keeps_end {
                cut_within(&cell.text, width)
            } else {
                sanitize::one_line(&cell.text).max_width(width).to_text()
            };
            let text = text.trim_end();
            let padding = width.saturating_sub(sanitize::width(text));
            if text.is_empty() {
                owed += width;
                continue;
            }
            if column.right {
                owed += padding;
            }
            write!(out, "{:owed$}", "")?;
            match cell.slot {
                Some(slot) => write!(out, "{}", palette.paint(slot, text))?,
                None => out.write_all(text.as_bytes())?,
            }
            owed = if column.right { 0 } else { padding };
        }
        out.write_all(b"\n")
    }
}

/// Cuts a text in the middle. A text with wide or zero-width characters is cut at its end.
pub(super) fn cut_within(text: &str, width: usize) -> Cow<'_, str> {
    let end = width.saturating_sub(1) / 3;
    if end == 0 || !text.is_ascii() {
        return sanitize::one_line(text).max_width(width).to_text();
    }
    let (start, rest) = text.split_at(width - 1 - end);
    format!("{start}…{}", &rest[rest.len() - end..]).into()
}

/// Returns the cells of all columns with their gaps.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0).count();
    widths.iter().sum::<usize>() + shown.saturating_sub(1) * GAP
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([
            Column::new("NAME").shrinks_to(6),
            Column::new("STATE"),
            Column::new("+").right(),
            Column::new("GROUP"),
            Column::new("TASK").shrinks_to(10),
        ]);
        table.row([
            "wipe".into(),
            "running".into(),
            "5".into(),
            Cell::default(),
            "add a wipe command to the tool".into(),
        ]);
        table.row(["日本語名前".into(), "ready".into(), "1234".into()]);
        table
    }

    fn shown(table: &Table, width: Option<usize>) -> String {
        let mut out = Vec::new();
        table
            .write(&mut out, &Palette::plain(), width)
            .expect("memory takes everything");
        String::from_utf8(out).expect("tables are text")
    }

    #[test]
    fn columns_line_up_and_empty_ones_go() {
        assert_eq!(
            shown(&sample(), None),
            "NAME        STATE       +  TASK\n\
             wipe        running     5  add a wipe command to the tool\n\
             日本語名前  ready    1234\n"
        );
    }

    #[test]
    fn the_widest_gives_first() {
        assert_eq!(
            shown(&sample(), Some(45)),
            "NAME        STATE       +  TASK\n\
             wipe        running     5  add a wipe comman…\n\
             日本語名前  ready    1234\n"
        );
        let narrow = shown(&sample(), Some(33));
        assert!(
            narrow.contains("add a wip…") && narrow.contains("日本…"),
            "{narrow}"
        );
    }

    #[test]
    fn what_matters_least_goes_when_cutting_is_not_enough() {
        let mut table = Table::new([
            Column::new("NAME").shrinks_to(4),
            Column::new("FILES").right().goes(2),
            Column::new("COMMITS").right().goes(1),
            Column::new("VERDICT"),
        ]);
        table.row(["wipe-it".into(), "3".into(), "1".into(), "ready".into()]);
        let cases = [
            (
                29,
                "NAME  FILES  COMMITS  VERDICT\nwip…      3        1  ready\n",
            ),
            (28, "NAME     FILES  VERDICT\nwipe-it      3  ready\n"),
            (19, "NAME     VERDICT\nwipe-it  ready\n"),
            (8, "NA…  VE…\nwi…  re…\n"),
        ];
        for (width, expected) in cases {
            assert_eq!(shown(&table, Some(width)), expected, "{width}");
        }
    }

    #[test]
    fn names_that_differ_at_their_end_stay_apart() {
        let mut table = Table::new([Column::new("NAME").shrinks_to(4).keeps_end()]);
        for name in [
            "add-a-wipe-command",
            "add-a-wipe-command-2",
            "日本語日本語日本語",
        ] {
            table.row([name.into()]);
        }
        let expected = "NAME\nadd-a-w…and\nadd-a-w…d-2\n日本語日本…\n";
        assert_eq!(shown(&table, Some(11)), expected);
        assert_eq!(shown(&table, Some(3)), "NA…\nad…\nad…\n日…\n");
    }

    #[test]
    fn headers_are_bold_and_escapes_are_not_counted() {
        let palette = Palette::load(&|_| None).expect("the defaults are valid");
        let mut table = Table::new([Column::new("A"), Column::new("B")]);
        table.row([Cell::new("x\x1b[2Jy").in_color(Slot::Good), "z".into()]);
        let mut out = Vec::new();
        table
            .write(&mut out, &palette, None)
            .expect("memory takes everything");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "\x1b[1mA\x1b[m          \x1b[1mB\x1b[m\n\x1b[38;5;28mx\\x1b[2Jy\x1b[m  z\n"
        );
    }

    #[test]
    fn no_rows_no_table() {
        assert_eq!(shown(&Table::new([Column::new("A")]), None), "");
    }

    proptest! {
        #[test]
        fn fits_and_trails_no_spaces(rows in proptest::collection::vec(proptest::collection::vec(".{0,30}", 4), 1..6), width in 10usize..90) {
            let mut table = Table::new([
                Column::new("A").shrinks_to(4).keeps_end(), Column::new("BB").shrinks_to(4).right(),
                Column::new("C").shrinks_to(4), Column::new("D").shrinks_to(4),
            ]);
            for row in &rows {
                table.row(row.iter().map(Cell::new));
            }
            for line in shown(&table, Some(width)).lines() {
                prop_assert!(sanitize::width(line) <= width, "{line:?}");
                prop_assert!(!line.ends_with(' '), "{line:?}");
            }
        }
    }
}
