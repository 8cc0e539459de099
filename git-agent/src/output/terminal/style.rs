//! Colours by git's rules: `color.agent` over `color.ui`, `always`/`never`/`auto`, and `color.agent.<slot>` in git's
//! colour words.
//!
//! `auto` means: on a terminal that is not dumb, or in a pager unless `color.pager` is false; and never if `NO_COLOR`
//! is set. An explicit `always`, in the configuration or as `--color`, wins over `NO_COLOR`, because it is about git in
//! particular.

use std::fmt;
use std::str::FromStr;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::model::session::State;
pub use crate::output::terminal::color::Color;

/// Looks up the last value of a configuration key; a key without a value is `true`.
pub type Config<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl When {
    /// Parses a configured value: `always`, `never`, `auto`, or a boolean, where true means `auto`.
    pub fn from_config(value: &str) -> Option<Self> {
        let value = value.trim().to_ascii_lowercase();
        match value.as_str() {
            "always" => Some(When::Always),
            "never" => Some(When::Never),
            "auto" => Some(When::Auto),
            _ => parse_bool(&value).map(|yes| if yes { When::Auto } else { When::Never }),
        }
    }

    /// Returns the configured value of the key, or else of `color.ui`, or else `auto`.
    pub fn configured(config: &Config<'_>, key: &str) -> Self {
        [key, "color.ui"]
            .into_iter()
            .find_map(|key| When::from_config(&config(key)?))
            .unwrap_or_default()
    }

    /// Decides for a stream that is or is not a terminal.
    pub fn decide(self, env: &Env, shown_on_terminal: bool) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                shown_on_terminal
                    && env.var("NO_COLOR").is_none()
                    && env.var("TERM").is_some_and(|term| term != "dumb")
            }
        }
    }
}

impl FromStr for When {
    type Err = Error;

    /// Parses the value of `--color=<when>`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "always" => Ok(When::Always),
            "never" => Ok(When::Never),
            "auto" => Ok(When::Auto),
            _ => Err(Error::usage(format!(
                "color must be 'always', 'auto' or 'never', not '{text}'"
            ))),
        }
    }
}

/// Parses a boolean like git's configuration.
pub(crate) fn parse_bool(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "" | "false" | "no" | "off" => Some(false),
        number => number.parse::<i64>().ok().map(|number| number != 0),
    }
}

macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $default:literal;)*) => {
        /// The purpose of a colour. Each can be set as `color.agent.<slot>`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Slot {
            $($(#[$doc])* $name,)*
        }

        impl Slot {
            /// Every slot.
            pub const ALL: &'static [Slot] = &[$(Slot::$name),*];

            /// Returns the last part of the configuration key.
            pub fn key(self) -> &'static str {
                match self { $(Slot::$name => $key),* }
            }

            /// Returns the default colour words.
            pub fn default_words(self) -> &'static str {
                match self { $(Slot::$name => $default),* }
            }
        }
    };
}

// The numbers are colours of the 256-colour palette with enough contrast on black and on white; a test holds that. The
// eight named colours depend on the terminal: its blue is often unreadable on black, its yellow and cyan on white.
slots! {
    /// Headers of tables and sections.
    Header = "header", "bold";
    /// A session's name.
    Name = "name", "bold";
    /// Ids of sessions and commits.
    Id = "id", "130";
    /// Branch names.
    Branch = "branch", "30";
    /// A working session.
    Running = "running", "31";
    /// Something that waits for the user.
    Waiting = "waiting", "bold 166";
    /// Work that can be reviewed.
    Ready = "ready", "133";
    /// Success.
    Good = "good", "28";
    /// Failure.
    Bad = "bad", "196";
    /// Finished, old or less important.
    Dim = "dim", "dim";
    /// Added lines.
    Added = "added", "28";
    /// Deleted lines.
    Deleted = "deleted", "196";
    /// A place in a file.
    Place = "place", "30";
    /// The user's prompts.
    Prompt = "prompt", "bold 31";
    /// Tool calls.
    Tool = "tool", "66";
}

impl Slot {
    /// Returns the slot for a session's state.
    pub fn of_state(state: State) -> Self {
        match state {
            State::Preparing | State::Running => Slot::Running,
            State::Waiting | State::ChangesRequested => Slot::Waiting,
            State::Ready => Slot::Ready,
            State::Approved => Slot::Good,
            State::Failed
            | State::Blocked
            | State::Interrupted
            | State::Stuck
            | State::Rejected => Slot::Bad,
            State::Draft
            | State::Queued
            | State::Merged
            | State::Stopped
            | State::Discarded
            | State::Unknown => Slot::Dim,
        }
    }
}

/// The colours in use: either all slots, or none.
#[derive(Debug, Clone, Default)]
pub struct Palette {
    colors: Option<Vec<Color>>,
}

impl Palette {
    /// Returns a palette without colours.
    pub fn plain() -> Self {
        Palette::default()
    }

    /// Returns a palette with the configured colours. An invalid colour is an error, as in git.
    pub fn load(config: &Config<'_>) -> Result<Self> {
        let mut colors = Vec::with_capacity(Slot::ALL.len());
        for slot in Slot::ALL {
            let key = format!("color.agent.{}", slot.key());
            colors.push(match config(&key) {
                Some(words) => words.parse().map_err(|error: Error| {
                    Error::fatal(format!("bad config value for '{key}'")).because(error)
                })?,
                None => slot.default_words().parse()?,
            });
        }
        Ok(Palette {
            colors: Some(colors),
        })
    }

    /// Returns whether anything is coloured.
    pub fn is_colored(&self) -> bool {
        self.colors.is_some()
    }

    /// Returns the value in the slot's colour. The value is trusted; foreign text must go through `sanitize` first.
    pub fn paint<T: fmt::Display>(&self, slot: Slot, value: T) -> Painted<'_, T> {
        let escape = match &self.colors {
            Some(colors) => colors[slot as usize].escape(),
            None => "",
        };
        Painted { escape, value }
    }
}

/// A value that is displayed in colour.
#[derive(Debug, Clone, Copy)]
pub struct Painted<'a, T> {
    escape: &'a str,
    value: T,
}

impl<T: fmt::Display> fmt::Display for Painted<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.escape.is_empty() {
            return self.value.fmt(f);
        }
        f.write_str(self.escape)?;
        self.value.fmt(f)?;
        f.write_str("\x1b[m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Terminals;

    fn env(variables: &[(&str, &str)]) -> Env {
        let variables = variables.iter().map(|(k, v)| (k.into(), v.into()));
        Env::new("/".into(), variables, Terminals::default())
    }

    #[test]
    fn color_agent_beats_color_ui() {
        let config = |agent: Option<&str>, ui: Option<&str>| {
            let (agent, ui) = (agent.map(str::to_owned), ui.map(str::to_owned));
            When::configured(
                &move |key| match key {
                    "color.agent" => agent.clone(),
                    "color.ui" => ui.clone(),
                    _ => None,
                },
                "color.agent",
            )
        };
        assert_eq!(config(None, None), When::Auto);
        assert_eq!(config(None, Some("false")), When::Never);
        assert_eq!(config(None, Some("true")), When::Auto);
        assert_eq!(config(None, Some("always")), When::Always);
        assert_eq!(config(Some("never"), Some("always")), When::Never);
        assert_eq!(config(Some("1"), Some("never")), When::Auto);
    }

    #[test]
    fn auto_needs_a_terminal_that_can() {
        let xterm = env(&[("TERM", "xterm")]);
        assert!(When::Auto.decide(&xterm, true));
        assert!(!When::Auto.decide(&xterm, false));
        assert!(When::Always.decide(&xterm, false));
        assert!(!When::Never.decide(&xterm, true));
        assert!(!When::Auto.decide(&env(&[("TERM", "dumb")]), true));
        assert!(!When::Auto.decide(&env(&[]), true));
        let no_color = env(&[("TERM", "xterm"), ("NO_COLOR", "1")]);
        assert!(!When::Auto.decide(&no_color, true));
        assert!(When::Always.decide(&no_color, true));
    }

    /// Returns the relative luminance of a colour of the 6×6×6 cube, as the web's accessibility guidelines define it.
    fn luminance(number: usize) -> f64 {
        const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let at = number - 16;
        let parts = [at / 36, at / 6 % 6, at % 6];
        let linear = parts.map(|part| {
            let level = f64::from(LEVELS[part]) / 255.0;
            if level <= 0.03928 {
                level / 12.92
            } else {
                ((level + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn every_color_is_readable_on_black_and_on_white() {
        for slot in Slot::ALL {
            for word in slot.default_words().split(' ') {
                let Ok(number) = word.parse::<usize>() else {
                    let attribute = ["bold", "dim"].contains(&word);
                    assert!(attribute, "{slot:?}: {word} depends on the terminal");
                    continue;
                };
                assert!((16..232).contains(&number), "{slot:?}");
                let own = luminance(number);
                let (on_white, on_black) = (1.05 / (own + 0.05), (own + 0.05) / 0.05);
                let least = on_white.min(on_black);
                assert!(least >= 3.5, "{slot:?}: contrast {least:.1}");
            }
        }
    }

    #[test]
    fn slots_can_be_set() {
        let palette = Palette::load(&|key| (key == "color.agent.bad").then(|| "bold red".into()))
            .expect("valid");
        assert_eq!(
            palette.paint(Slot::Bad, "x").to_string(),
            "\x1b[1;31mx\x1b[m"
        );
        assert_eq!(
            palette.paint(Slot::Good, "x").to_string(),
            "\x1b[38;5;28mx\x1b[m"
        );
        assert_eq!(Palette::plain().paint(Slot::Bad, "x").to_string(), "x");
        assert!(Palette::load(&|_| Some("nonsense".into())).is_err());
    }
}
