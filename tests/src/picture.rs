//! Draws what a terminal shows as an SVG: text with its colours, cell by cell.

use std::fmt::Write;

/// The size of a cell in the picture.
const CELL: (usize, usize) = (8, 17);
/// The sixteen colours of the terminal, as most terminals have them.
const SIXTEEN: [&str; 16] = [
    "#1d1f21", "#c5504b", "#6fae5f", "#c9a04a", "#5f87c9", "#a06fb8", "#4fa3ad", "#c5c8c6",
    "#6b7078", "#e06c6a", "#8ccf7e", "#e5c07b", "#7aaafa", "#c49cf0", "#68c2de", "#ffffff",
];

/// How a run of cells looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Look {
    front: Option<String>,
    back: Option<String>,
    bold: bool,
    italic: bool,
    dim: bool,
}

fn table(number: u8) -> String {
    match number {
        0..16 => SIXTEEN[usize::from(number)].to_owned(),
        16..232 => {
            let number = number - 16;
            let level = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            format!(
                "#{:02x}{:02x}{:02x}",
                level(number / 36),
                level(number / 6 % 6),
                level(number % 6)
            )
        }
        number => {
            let level = 8 + 10 * (number - 232);
            format!("#{level:02x}{level:02x}{level:02x}")
        }
    }
}

impl Look {
    /// Takes the numbers of a control sequence.
    fn take(&mut self, numbers: &[u8]) {
        let mut rest = numbers.iter().copied();
        while let Some(number) = rest.next() {
            match number {
                0 => *self = Look::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                30..=37 => self.front = Some(table(number - 30)),
                90..=97 => self.front = Some(table(number - 82)),
                40..=47 => self.back = Some(table(number - 40)),
                100..=107 => self.back = Some(table(number - 92)),
                39 => self.front = None,
                49 => self.back = None,
                38 | 48 => {
                    let color = match rest.next() {
                        Some(5) => rest.next().map(table),
                        _ => match (rest.next(), rest.next(), rest.next()) {
                            (Some(red), Some(green), Some(blue)) => {
                                Some(format!("#{red:02x}{green:02x}{blue:02x}"))
                            }
                            _ => None,
                        },
                    };
                    match number {
                        38 => self.front = color,
                        _ => self.back = color,
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the runs of a line: their text and look.
fn runs(line: &str, look: &mut Look) -> Vec<(String, Look)> {
    let mut runs: Vec<(String, Look)> = Vec::new();
    let mut pieces = line.split("\x1b[");
    let mut add = |text: &str, look: &Look| {
        if !text.is_empty() {
            runs.push((text.to_owned(), look.clone()));
        }
    };
    add(pieces.next().unwrap_or_default(), look);
    for piece in pieces {
        let Some((numbers, text)) = piece.split_once('m') else {
            continue;
        };
        let numbers: Vec<u8> = numbers
            .split([';', ':'])
            .map(|number| number.parse().unwrap_or(0))
            .collect();
        look.take(&numbers);
        add(text, look);
    }
    runs
}

/// Returns the text without control sequences.
pub fn plain(screen: &str) -> String {
    let mut look = Look::default();
    let lines = screen.lines().map(|line| {
        let runs = runs(line, &mut look);
        runs.into_iter().map(|(text, _)| text).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Draws a screen of so many columns, which was captured with its control sequences.
pub fn svg(screen: &str, columns: usize) -> String {
    let lines: Vec<&str> = screen.trim_end().lines().collect();
    let (wide, high) = (columns * CELL.0 + 24, lines.len() * CELL.1 + 24);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\">\n\
         <rect width=\"{wide}\" height=\"{high}\" rx=\"8\" fill=\"#181a21\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\" xml:space=\"preserve\">\n"
    );
    let mut look = Look::default();
    for (row, line) in lines.iter().enumerate() {
        let y = 12 + row * CELL.1;
        let mut column = 0;
        for (text, look) in runs(line, &mut look) {
            let cells = unicode_cells(&text);
            let x = 12 + column * CELL.0;
            let width = cells * CELL.0;
            column += cells;
            if let Some(back) = &look.back {
                let high = CELL.1;
                let _ = writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{high}\" fill=\"{back}\"/>"
                );
            }
            if text.trim().is_empty() {
                continue;
            }
            let front = look.front.as_deref().unwrap_or("#d6dae2");
            let weight = if look.bold {
                " font-weight=\"bold\""
            } else {
                ""
            };
            let style = if look.italic {
                " font-style=\"italic\""
            } else {
                ""
            };
            let opacity = if look.dim { " opacity=\"0.6\"" } else { "" };
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
            let base = y + 13;
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{base}\" textLength=\"{width}\" fill=\"{front}\"{weight}{style}{opacity}>{escaped}</text>"
            );
        }
    }
    out + "</g>\n</svg>\n"
}

/// Returns how many cells a text takes: wide characters take two.
fn unicode_cells(text: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..='\u{1faff}');
    text.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}
