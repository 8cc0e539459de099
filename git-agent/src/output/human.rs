//! Formats values for users: ages, durations, sizes, counts.

use std::fmt;
use std::time::Duration;

use crate::env::Millis;
use crate::output::terminal::style::{Painted, Palette, Slot};

/// Returns the age of `then` at `now`, with git's words and thresholds ("3 minutes ago").
pub fn ago(now: Millis, then: Millis) -> String {
    if then > now {
        return "in the future".into();
    }
    let seconds = (now.0 - then.0) / 1000;
    if seconds < 90 {
        return format!("{} ago", count(seconds, "second"));
    }
    // Each step rounds to the nearest unit.
    let minutes = (seconds + 30) / 60;
    if minutes < 90 {
        return format!("{} ago", count(minutes, "minute"));
    }
    let hours = (minutes + 30) / 60;
    if hours < 36 {
        return format!("{} ago", count(hours, "hour"));
    }
    let days = (hours + 12) / 24;
    if days < 14 {
        return format!("{} ago", count(days, "day"));
    }
    if days < 70 {
        return format!("{} ago", count((days + 3) / 7, "week"));
    }
    if days < 365 {
        return format!("{} ago", count((days + 15) / 30, "month"));
    }
    let months = (days * 12 * 2 + 365) / (365 * 2);
    let (years, months) = (months / 12, months % 12);
    match (days < 1825, months) {
        (true, 1..) => format!("{}, {} ago", count(years, "year"), count(months, "month")),
        (true, 0) => format!("{} ago", count(years, "year")),
        (false, _) => format!("{} ago", count((days + 183) / 365, "year")),
    }
}

/// Returns an age in few words, for a column: `just now`, `40 s ago`, `3 min ago`, `2 h ago`, `yesterday`, `5 days ago`.
pub fn age(now: Millis, then: Millis) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 5 => "just now".to_owned(),
        (0, 0, 0) => format!("{seconds} s ago"),
        (0, 0, _) => format!("{minutes} min ago"),
        (0, _, _) => format!("{hours} h ago"),
        (1, _, _) => "yesterday".to_owned(),
        (2..14, _, _) => format!("{days} days ago"),
        (14..70, _, _) => format!("{} weeks ago", days / 7),
        (70..730, _, _) => format!("{} months ago", days / 30),
        _ => format!("{} years ago", days / 365),
    }
}

/// Returns a duration in its two largest units: `8s`, `3m 05s`, `1h 02m`, `2d 03h`.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

/// Returns a number of bytes, with git's units: `17 bytes`, `1.50 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return count(bytes, "byte");
    }
    let mut unit = 0;
    let mut hundredths = (u128::from(bytes) * 100 + 512) / 1024;
    while hundredths >= 102_400 && unit + 1 < UNITS.len() {
        hundredths = (hundredths + 512) / 1024;
        unit += 1;
    }
    format!(
        "{}.{:02} {}",
        hundredths / 100,
        hundredths % 100,
        UNITS[unit]
    )
}

/// Returns a number with its noun: `1 file`, `2 files`.
pub fn count(number: u64, singular: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {singular}{plural}")
}

/// Returns a large number in few characters: `950`, `12.3k`, `4.0M`.
pub fn compact(number: u64) -> String {
    for (unit, letter) in [(1_000_000_000, 'G'), (1_000_000, 'M'), (1000, 'k')] {
        // 999,950 would round to 1000.0k, so the next unit starts a little earlier.
        if number >= unit - unit / 20_000 && number >= 1000 {
            let tenths = (u128::from(number) * 10 + u128::from(unit) / 2) / u128::from(unit);
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
    }
    number.to_string()
}

/// Returns added and deleted lines as `+12 −3`, coloured; a zero is left out.
pub fn changes(palette: &Palette, added: u64, deleted: u64) -> Changes<'_> {
    Changes {
        added: (added > 0).then(|| palette.paint(Slot::Added, format!("+{added}"))),
        deleted: (deleted > 0).then(|| palette.paint(Slot::Deleted, format!("−{deleted}"))),
    }
}

/// Added and deleted lines, for display.
#[derive(Debug)]
pub struct Changes<'a> {
    added: Option<Painted<'a, String>>,
    deleted: Option<Painted<'a, String>>,
}

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(added) = &self.added {
            added.fmt(f)?;
        }
        if self.added.is_some() && self.deleted.is_some() {
            f.write_str(" ")?;
        }
        if let Some(deleted) = &self.deleted {
            deleted.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ago() {
        let ago = |seconds: u64| {
            ago(
                Millis(10_000_000_000_000),
                Millis(10_000_000_000_000 - seconds * 1000),
            )
        };
        for (seconds, words) in [
            (0, "0 seconds ago"),
            (1, "1 second ago"),
            (89, "89 seconds ago"),
            (90, "2 minutes ago"),
            (89 * 60, "89 minutes ago"),
            (90 * 60, "2 hours ago"),
            (35 * 3600, "35 hours ago"),
            (36 * 3600, "2 days ago"),
            (13 * 86400, "13 days ago"),
            (14 * 86400, "2 weeks ago"),
            (70 * 86400, "2 months ago"),
            (365 * 86400, "1 year ago"),
            (500 * 86400, "1 year, 4 months ago"),
            (2000 * 86400, "5 years ago"),
        ] {
            assert_eq!(ago(seconds), words, "{seconds}");
        }
        assert_eq!(super::ago(Millis(5), Millis(6)), "in the future");
    }

    #[test]
    fn ages_for_a_column() {
        let age = |seconds: u64| {
            age(
                Millis(90_000_000_000),
                Millis(90_000_000_000 - seconds * 1000),
            )
        };
        for (seconds, words) in [
            (0, "just now"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (7200, "2 h ago"),
            (86400, "yesterday"),
            (13 * 86400, "13 days ago"),
            (20 * 86400, "2 weeks ago"),
            (90 * 86400, "3 months ago"),
            (800 * 86400, "2 years ago"),
        ] {
            assert_eq!(age(seconds), words, "{seconds}");
        }
        assert_eq!(super::age(Millis(5), Millis(6)), "just now");
    }

    #[test]
    fn how_long() {
        for (seconds, words) in [
            (0, "0s"),
            (59, "59s"),
            (65, "1m 05s"),
            (3720, "1h 02m"),
            (86400 * 2 + 3 * 3600, "2d 03h"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn how_big_and_how_many() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(size(5 * 1024 * 1024), "5.00 MiB");
        assert_eq!(size(u64::MAX), "16.00 EiB");
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        for (number, words) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (12_340, "12.3k"),
            (999_949, "999.9k"),
            (999_950, "1.0M"),
            (4_000_000, "4.0M"),
        ] {
            assert_eq!(compact(number), words);
        }
    }

    #[test]
    fn change_counts() {
        let plain = Palette::plain();
        assert_eq!(changes(&plain, 12, 3).to_string(), "+12 −3");
        assert_eq!(changes(&plain, 0, 3).to_string(), "−3");
        assert_eq!(changes(&plain, 0, 0).to_string(), "");
        let colored = Palette::load(&|_| None).expect("the defaults are valid");
        assert_eq!(
            changes(&colored, 1, 2).to_string(),
            "\x1b[38;5;28m+1\x1b[m \x1b[38;5;196m−2\x1b[m"
        );
    }
}
