//! The version of git, and whether it is new enough.

use crate::error::{Error, Result};
use crate::git::command::Git;

/// The oldest git with all features we use: `core.fsyncMethod=batch` and the `reference` component of `core.fsync`.
pub const MINIMUM_VERSION: Version = Version {
    major: 2,
    minor: 36,
    patch: 0,
};

/// A version of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl Version {
    /// Reads the answer of `git version`.
    pub fn parse(text: &str) -> Option<Self> {
        // git version 2.47.3
        let mut words = text.split_whitespace();
        let numbers = words
            .next()
            .filter(|word| *word == "git")
            .and(words.nth(1))?;
        let mut parts = numbers
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u32>);
        let mut next = || parts.next().and_then(std::result::Result::ok);
        Some(Version {
            major: next()?,
            minor: next()?,
            patch: next().unwrap_or(0),
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Returns the version of the `git` on PATH.
pub fn version() -> Result<Version> {
    let text = Git::outside().arg("version").run()?.text();
    Version::parse(&text)
        .ok_or_else(|| Error::fatal(format!("cannot parse the version of git: '{text}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let parse = |text| Version::parse(text).expect("a version");
        assert_eq!(
            parse("git version 2.47.3\n"),
            Version {
                major: 2,
                minor: 47,
                patch: 3
            }
        );
        assert_eq!(parse("git version 2.39.5 (Apple Git-154)").patch, 5);
        assert!(parse("git version 2.35.8") < MINIMUM_VERSION);
        assert!(parse("git version 2.36.0-rc1") >= MINIMUM_VERSION);
        assert!(Version::parse("hub version 1").is_none());
    }
}
