//! Turns git's colour words into escape sequences.

use std::str::FromStr;

use crate::error::{Error, Result};

/// One colour with its attributes, as the escape sequence that turns it on; empty if it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Color(String);

impl Color {
    /// Returns the escape sequence that turns the colour on.
    pub fn escape(&self) -> &str {
        &self.0
    }
}

impl FromStr for Color {
    type Err = Error;

    /// Parses git's colour words: up to two colours (foreground, background), attributes, `reset`.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::fatal(format!("invalid color value '{text}'"));
        let (mut reset, mut attributes, mut colors) = (false, 0u64, Vec::new());
        for word in text.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            if word == "reset" {
                reset = true;
            } else if let Some(color) = color_code(&word, 30 + 10 * colors.len()) {
                if colors.len() == 2 {
                    return Err(bad());
                }
                colors.push(color);
            } else {
                attributes |= 1 << attribute(&word).ok_or_else(bad)?;
            }
        }
        let mut codes: Vec<String> = Vec::new();
        if reset {
            codes.push(String::new());
        }
        codes.extend(
            (1..64)
                .filter(|n| attributes >> n & 1 == 1)
                .map(|n| n.to_string()),
        );
        codes.extend(colors.into_iter().filter(|code| !code.is_empty()));
        Ok(Color(if codes.is_empty() {
            String::new()
        } else {
            format!("\x1b[{}m", codes.join(";"))
        }))
    }
}

const COLOR_NAMES: [&str; 8] = [
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
];

/// Returns the code for a colour word, counted from 30 (foreground) or 40 (background); empty for `normal`.
fn color_code(word: &str, base: usize) -> Option<String> {
    let named = |name: &str| COLOR_NAMES.iter().position(|known| *known == name);
    if word == "normal" || word == "-1" {
        return Some(String::new());
    }
    if word == "default" {
        return Some((base + 9).to_string());
    }
    if let Some(n) = named(word) {
        return Some((base + n).to_string());
    }
    if let Some(n) = word.strip_prefix("bright").and_then(named) {
        return Some((base + 60 + n).to_string());
    }
    if let Some(hex) = word.strip_prefix('#') {
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let step = match hex.len() {
            6 => 2,
            3 => 1,
            _ => return None,
        };
        let mut parts = Vec::new();
        for start in (0..hex.len()).step_by(step) {
            let value = u8::from_str_radix(&hex[start..start + step], 16).ok()?;
            parts.push(if step == 1 { value * 17 } else { value });
        }
        return Some(format!(
            "{};2;{};{};{}",
            base + 8,
            parts[0],
            parts[1],
            parts[2]
        ));
    }
    let n: u8 = word.parse().ok()?;
    Some(match n {
        0..=7 => (base + usize::from(n)).to_string(),
        8..=15 => (base + 60 + usize::from(n) - 8).to_string(),
        _ => format!("{};5;{n}", base + 8),
    })
}

/// Returns the code of an attribute word; `no` or `no-` before it turns it off.
fn attribute(word: &str) -> Option<u32> {
    let (off, name) = match word.strip_prefix("no") {
        Some(rest) => (true, rest.strip_prefix('-').unwrap_or(rest)),
        None => (false, word),
    };
    let (on_code, off_code) = match name {
        "bold" => (1, 22),
        "dim" => (2, 22),
        "italic" => (3, 23),
        "ul" => (4, 24),
        "blink" => (5, 25),
        "reverse" => (7, 27),
        "strike" => (9, 29),
        _ => return None,
    };
    Some(if off { off_code } else { on_code })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &str) -> String {
        let color: Color = words.parse().expect("these are colour words");
        color.escape().replace('\x1b', "^")
    }

    #[test]
    fn colour_words_as_git_reads_them() {
        // Each pair shows the output of `git config --get-color`.
        for (words, expected) in [
            ("", ""),
            ("normal", ""),
            ("red", "^[31m"),
            ("bold red", "^[1;31m"),
            ("red bold ul", "^[1;4;31m"),
            ("RED Blue", "^[31;44m"),
            ("normal blue", "^[44m"),
            ("brightred brightblue", "^[91;104m"),
            ("default default", "^[39;49m"),
            ("7 8", "^[37;100m"),
            ("15 16", "^[97;48;5;16m"),
            ("255 nobold no-ul", "^[22;24;38;5;255m"),
            ("#ff0010", "^[38;2;255;0;16m"),
            ("#f01 #010203", "^[38;2;255;0;17;48;2;1;2;3m"),
            ("reset", "^[m"),
            ("reset bold red", "^[;1;31m"),
            ("-1 red", "^[41m"),
        ] {
            assert_eq!(code(words), expected, "{words}");
        }
        for bad in [
            "pink",
            "256",
            "red blue green",
            "#ff",
            "#gggggg",
            "bright",
            "no",
            "-2",
        ] {
            assert!(bad.parse::<Color>().is_err(), "{bad}");
        }
    }
}
