//! Formats times in the user's time zone, and parses times that a user types.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::config::parse_duration;
use crate::env::{Env, Millis};
use crate::error::{Error, Result};

/// The directory of time zone files.
const ZONES: &str = "/usr/share/zoneinfo";

/// A clock that shows the user's local time.
#[derive(Debug, Clone)]
pub struct Clock {
    zone: TimeZone,
}

impl Clock {
    /// Returns the clock of this machine: `TZ`, or else the system's zone, or else UTC.
    pub fn local(env: &Env) -> Self {
        let system = || zone_file("/etc/localtime".as_ref());
        let zone = match env.var("TZ").map(|name| name.trim_start_matches(':')) {
            None => system(),
            Some(name) if name.starts_with('/') => zone_file(name.as_ref()),
            Some(name) if name.contains("..") => None,
            Some(name) => zone_file(&std::path::Path::new(ZONES).join(name))
                .or_else(|| TimeZone::posix(name).ok()),
        };
        Clock {
            zone: zone.unwrap_or(TimeZone::UTC),
        }
    }

    fn zoned(&self, at: Millis) -> Option<Zoned> {
        let millis = i64::try_from(at.0).ok()?;
        Some(
            Timestamp::from_millisecond(millis)
                .ok()?
                .to_zoned(self.zone.clone()),
        )
    }

    /// Returns the time of day: `04:08:45`.
    pub fn time(&self, at: Millis) -> String {
        self.zoned(at).map_or_else(
            || "--:--:--".into(),
            |at| at.strftime("%H:%M:%S").to_string(),
        )
    }

    /// Returns the day: `2026-11-16`.
    pub fn day(&self, at: Millis) -> String {
        self.zoned(at).map_or_else(
            || "----------".into(),
            |at| at.strftime("%Y-%m-%d").to_string(),
        )
    }

    /// Returns day and time with the zone, as git's ISO format: `2026-11-16 04:08:45 +0000`.
    pub fn full(&self, at: Millis) -> String {
        self.zoned(at).map_or_else(String::new, |at| {
            at.strftime("%Y-%m-%d %H:%M:%S %z").to_string()
        })
    }

    /// Parses a time: an age (`10m`, `2h`), a date, a date and time, or an RFC 3339 time.
    pub fn parse(&self, text: &str, now: Millis) -> Result<Millis> {
        let text = text.trim();
        let span = text.strip_suffix(" ago").unwrap_or(text);
        if let Some(span) = parse_duration(span) {
            let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            return Ok(Millis(now.0.saturating_sub(millis)));
        }
        let local = |at: DateTime| at.to_zoned(self.zone.clone()).ok().map(|at| at.timestamp());
        let at = text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| local(text.parse::<DateTime>().ok()?))
            .or_else(|| local(text.parse::<Date>().ok()?.at(0, 0, 0, 0)));
        at.and_then(|at| u64::try_from(at.as_millisecond()).ok())
            .map(Millis)
            .ok_or_else(|| {
                Error::usage(format!("'{text}' is not a time"))
                    .hint("try 10m, 2h, 3d, 2026-11-16 or 2026-11-16T04:08:45")
            })
    }
}

fn zone_file(path: &std::path::Path) -> Option<TimeZone> {
    TimeZone::tzif("local", &std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Terminals;

    fn clock(zone: &str) -> Clock {
        let variables = [("TZ".into(), zone.into())];
        Clock::local(&Env::new("/".into(), variables, Terminals::default()))
    }

    #[test]
    fn local_time_is_shown() {
        let at = Millis(1_794_000_000_123);
        let utc = clock("UTC");
        assert_eq!(utc.full(at), "2026-11-06 21:20:00 +0000");
        assert_eq!(utc.time(at), "21:20:00");
        let far = clock("XYZ-5:30");
        assert_eq!(far.full(at), "2026-11-07 02:50:00 +0530");
        assert_eq!(far.day(at), "2026-11-07");
        assert_eq!(clock("../../etc/passwd").full(at), utc.full(at));
        assert_eq!(utc.day(Millis(u64::MAX)), "----------");
    }

    #[test]
    fn moments_are_understood() {
        let now = Millis(1_794_000_000_000);
        let utc = clock("UTC");
        let parse = |text: &str| utc.parse(text, now).expect("a moment").0;
        assert_eq!(parse("10m"), now.0 - 600_000);
        assert_eq!(parse("2h ago"), now.0 - 7_200_000);
        assert_eq!(parse("2026-11-06"), now.0 - (21 * 3600 + 20 * 60) * 1000);
        assert_eq!(parse("2026-11-06 21:20:00"), now.0);
        assert_eq!(parse("2026-11-06T21:20:00Z"), now.0);
        assert_eq!(parse("2026-11-06T22:20:00+01:00"), now.0);
        let east = clock("XYZ-1").parse("2026-11-06T22:20:00", now);
        assert_eq!(east.expect("a moment"), now);
        for wrong in ["", "yesterday-ish", "2026-13-01", "-5m"] {
            assert!(utc.parse(wrong, now).is_err(), "{wrong}");
        }
    }
}
