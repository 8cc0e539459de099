//! Colours for dark and light terminals with 16, 256 or all colours, or none. Every meaning also has a sign or a word.

use git_agent::env::Env;
use git_agent::model::session::State;
use ratatui::style::{Color, Modifier, Style};

use crate::syntax::Token;

/// How many colours the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// None.
    Mono,
    /// The terminal's own sixteen.
    Sixteen,
    /// The table of 256.
    Table,
    /// All.
    True,
}

impl Depth {
    /// Returns what the environment tells. `wanted` is false if colours are configured away.
    pub fn of(env: &Env, wanted: bool) -> Self {
        let term = env.var("TERM").unwrap_or_default();
        if !wanted || env.var("NO_COLOR").is_some() || matches!(term, "" | "dumb" | "vt100") {
            return Depth::Mono;
        }
        match env.var("COLORTERM") {
            Some("truecolor" | "24bit") => Depth::True,
            _ if term.contains("direct") => Depth::True,
            _ if term.contains("256color") => Depth::Table,
            _ => Depth::Sixteen,
        }
    }
}

/// The styles in use.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    depth: Depth,
    is_light: bool,
    /// The colours of git's own diff, where they are configured.
    added: Option<Style>,
    deleted: Option<Style>,
}

/// A colour for each kind of terminal: all colours, the table, the sixteen.
struct Tone(u8, u8, u8, u8, Color);

impl Theme {
    /// Returns a theme.
    pub fn new(depth: Depth, is_light: bool) -> Self {
        Theme {
            depth,
            is_light,
            added: None,
            deleted: None,
        }
    }

    /// Takes the colours of `color.diff.new` and `color.diff.old`, in git's words.
    #[must_use]
    pub fn with_diff_colors(mut self, new: Option<&str>, old: Option<&str>) -> Self {
        if self.depth != Depth::Mono {
            self.added = new.and_then(git_style);
            self.deleted = old.and_then(git_style);
        }
        self
    }

    /// Returns whether lines can have a background of their own.
    pub fn has_backgrounds(self) -> bool {
        matches!(self.depth, Depth::Table | Depth::True)
    }

    fn pick(self, dark: Tone, light: Tone) -> Option<Color> {
        let Tone(r, g, b, table, sixteen) = if self.is_light { light } else { dark };
        match self.depth {
            Depth::Mono => None,
            Depth::Sixteen => Some(sixteen),
            Depth::Table => Some(Color::Indexed(table)),
            Depth::True => Some(Color::Rgb(r, g, b)),
        }
    }

    fn fg(self, dark: Tone, light: Tone) -> Style {
        self.pick(dark, light)
            .map_or(Style::new(), |color| Style::new().fg(color))
    }

    fn bg(self, dark: Tone, light: Tone) -> Style {
        if !self.has_backgrounds() {
            return Style::new();
        }
        self.pick(dark, light)
            .map_or(Style::new(), |color| Style::new().bg(color))
    }

    /// Less important text.
    pub fn dim(self) -> Style {
        match self.depth {
            Depth::Mono => Style::new().add_modifier(Modifier::DIM),
            _ => self.fg(
                Tone(138, 146, 160, 245, Color::DarkGray),
                Tone(105, 110, 120, 243, Color::DarkGray),
            ),
        }
    }

    /// Lines between parts.
    pub fn frame(self) -> Style {
        match self.depth {
            Depth::Mono => Style::new().add_modifier(Modifier::DIM),
            _ => self.fg(
                Tone(74, 82, 98, 239, Color::DarkGray),
                Tone(190, 196, 206, 250, Color::Gray),
            ),
        }
    }

    /// Where one is.
    pub fn accent(self) -> Style {
        self.fg(
            Tone(122, 170, 250, 111, Color::LightBlue),
            Tone(24, 86, 196, 26, Color::Blue),
        )
    }

    /// Headings.
    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The row or card under the cursor.
    pub fn selected(self) -> Style {
        self.bg(
            Tone(42, 49, 64, 237, Color::Reset),
            Tone(226, 233, 247, 254, Color::Reset),
        )
    }

    /// A choice in a list: it must be seen without colours too.
    pub fn chosen(self) -> Style {
        if self.has_backgrounds() {
            self.selected().add_modifier(Modifier::BOLD)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// Success.
    pub fn good(self) -> Style {
        self.fg(
            Tone(134, 204, 128, 114, Color::Green),
            Tone(28, 120, 48, 28, Color::Green),
        )
    }

    /// Failure.
    pub fn bad(self) -> Style {
        self.fg(
            Tone(244, 121, 126, 210, Color::LightRed),
            Tone(184, 28, 40, 124, Color::Red),
        )
    }

    /// What waits for a person.
    pub fn waiting(self) -> Style {
        self.fg(
            Tone(238, 194, 98, 221, Color::Yellow),
            Tone(150, 96, 0, 94, Color::Yellow),
        )
        .add_modifier(Modifier::BOLD)
    }

    /// What works.
    pub fn running(self) -> Style {
        self.fg(
            Tone(104, 194, 222, 80, Color::Cyan),
            Tone(0, 108, 140, 30, Color::Cyan),
        )
    }

    /// The user's own words.
    pub fn prompt(self) -> Style {
        self.accent().add_modifier(Modifier::BOLD)
    }

    /// Tools of agents.
    pub fn tool(self) -> Style {
        self.fg(
            Tone(196, 160, 240, 183, Color::Magenta),
            Tone(120, 56, 168, 91, Color::Magenta),
        )
    }

    /// Names of keys.
    pub fn key(self) -> Style {
        match self.depth {
            Depth::Mono => Style::new().add_modifier(Modifier::BOLD),
            _ => self.accent(),
        }
    }

    /// The sign and number of an added line.
    pub fn added(self) -> Style {
        self.added.unwrap_or_else(|| self.good())
    }

    /// The sign and number of a deleted line.
    pub fn deleted(self) -> Style {
        self.deleted.unwrap_or_else(|| self.bad())
    }

    /// The background of an added line, or its colour where there are no backgrounds.
    pub fn added_line(self) -> Style {
        if self.has_backgrounds() {
            self.bg(
                Tone(20, 44, 31, 22, Color::Reset),
                Tone(223, 245, 228, 194, Color::Reset),
            )
        } else {
            self.added()
        }
    }

    /// The background of a deleted line, or its colour where there are no backgrounds.
    pub fn deleted_line(self) -> Style {
        if self.has_backgrounds() {
            self.bg(
                Tone(56, 26, 31, 52, Color::Reset),
                Tone(253, 229, 230, 224, Color::Reset),
            )
        } else {
            self.deleted()
        }
    }

    /// Changed words of an added line.
    pub fn added_words(self) -> Style {
        if self.has_backgrounds() {
            self.bg(
                Tone(36, 92, 58, 28, Color::Reset),
                Tone(165, 226, 177, 157, Color::Reset),
            )
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED)
        }
    }

    /// Changed words of a deleted line.
    pub fn deleted_words(self) -> Style {
        if self.has_backgrounds() {
            self.bg(
                Tone(118, 44, 52, 88, Color::Reset),
                Tone(248, 182, 186, 217, Color::Reset),
            )
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED)
        }
    }

    /// A match of a search.
    pub fn found(self) -> Style {
        match self.depth {
            Depth::Mono => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new().fg(Color::Black).bg(Color::Yellow),
        }
    }

    /// Source code.
    pub fn code(self, token: Token) -> Style {
        match token {
            Token::Plain => Style::new(),
            Token::Comment => self.dim().add_modifier(Modifier::ITALIC),
            Token::Text => self.fg(
                Tone(166, 210, 148, 150, Color::Green),
                Tone(36, 116, 58, 29, Color::Green),
            ),
            Token::Keyword => self.fg(
                Tone(200, 154, 238, 177, Color::Magenta),
                Tone(126, 48, 168, 91, Color::Magenta),
            ),
            Token::Function => self.fg(
                Tone(132, 176, 255, 111, Color::Cyan),
                Tone(20, 80, 184, 25, Color::Cyan),
            ),
            Token::Type => self.fg(
                Tone(240, 202, 122, 222, Color::Yellow),
                Tone(140, 88, 0, 94, Color::Yellow),
            ),
            Token::Number => self.fg(
                Tone(242, 154, 118, 216, Color::LightRed),
                Tone(172, 72, 20, 130, Color::Red),
            ),
        }
    }

    /// The colour of a state.
    pub fn state(self, state: State) -> Style {
        match state {
            State::Queued | State::Preparing | State::Running => self.running(),
            State::Waiting | State::ChangesRequested => self.waiting(),
            State::Ready | State::Approved => self.good(),
            State::Failed
            | State::Interrupted
            | State::Stuck
            | State::Blocked
            | State::Rejected => self.bad(),
            State::Draft | State::Merged | State::Stopped | State::Discarded | State::Unknown => {
                self.dim()
            }
        }
    }
}

/// Returns git's colour words as a style; nothing for words that git would refuse.
fn git_style(words: &str) -> Option<Style> {
    let color: git_agent::output::terminal::style::Color = words.parse().ok()?;
    let codes = color
        .escape()
        .trim_start_matches("\x1b[")
        .trim_end_matches('m');
    let mut codes = codes.split(';').filter_map(|code| code.parse::<u8>().ok());
    let mut style = Style::new();
    while let Some(code) = codes.next() {
        style = match code {
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            30..=37 => style.fg(Color::Indexed(code - 30)),
            40..=47 => style.bg(Color::Indexed(code - 40)),
            90..=97 => style.fg(Color::Indexed(code - 82)),
            100..=107 => style.bg(Color::Indexed(code - 92)),
            38 | 48 => {
                let color = match codes.next()? {
                    5 => Color::Indexed(codes.next()?),
                    _ => Color::Rgb(codes.next()?, codes.next()?, codes.next()?),
                };
                if code == 38 {
                    style.fg(color)
                } else {
                    style.bg(color)
                }
            }
            _ => style,
        };
    }
    Some(style)
}

/// Returns the sign of a state, so that colours are not needed to tell states apart.
pub fn sign(state: State) -> &'static str {
    match state {
        State::Draft => "·",
        State::Queued => "◌",
        State::Preparing => "◔",
        State::Running => "▸",
        State::Waiting => "?",
        State::Ready => "●",
        State::Approved => "✓",
        State::Merged => "✔",
        State::Failed => "✗",
        State::Stopped => "■",
        State::Interrupted => "↯",
        State::Stuck => "!",
        State::Blocked => "⊝",
        State::ChangesRequested => "↺",
        State::Rejected => "⊘",
        State::Discarded => "∅",
        State::Unknown => "¿",
    }
}
