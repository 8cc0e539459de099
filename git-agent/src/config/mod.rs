//! The `agent.*` settings: their names, defaults and sources. An option beats the environment beats git config beats
//! the team's `.gitagents` file.
//!
//! The team file travels with the code, so anyone who can commit can write it. Until `git agent trust` has recorded its
//! hash, only settings that run no command and open no path are read from it; the others are ignored and reported. A
//! few settings are personal and never read from it. Invalid values are ignored too, so that the file cannot stop a
//! user's work.

pub mod keys;
mod report;
pub mod settings;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Context, Error, Result};
use crate::file::{self, Durability};
use crate::git::config::ConfigFile;
use crate::git::{Repo, sha256};

pub use report::{Role, SettingRow};

/// The name of the team's file at the top of the worktree.
pub const TEAM_FILE: &str = ".gitagents";
/// The largest team file that is read.
const TEAM_FILE_LIMIT: u64 = 256 << 10;

/// The settings of one repository.
#[derive(Debug)]
pub struct Config<'a> {
    repo: &'a Repo,
    team: Option<Team>,
    /// The reason why the team's file is ignored as a whole.
    unreadable: Option<Error>,
}

/// The team's file with its trust and its ignored keys.
#[derive(Debug)]
pub struct Team {
    /// The path of the file.
    pub path: PathBuf,
    /// The SHA-256 of the content.
    pub hash: String,
    /// Whether `git agent trust` has recorded exactly this content.
    pub trusted: bool,
    /// The keys that are ignored until the file is trusted.
    pub ignored: Vec<String>,
    /// The keys that are ignored in every team file, and the reason.
    pub powerless: Vec<(String, &'static str)>,
    /// The keys with invalid values, and the reason. They are ignored.
    pub broken: Vec<(String, String)>,
    /// The content as it was read.
    pub text: String,
    file: ConfigFile,
}

impl<'a> Config<'a> {
    /// Reads the settings. An unreadable team file is ignored as a whole.
    pub fn load(repo: &'a Repo) -> Self {
        let (team, unreadable) = match load_team(repo) {
            Ok(team) => (team, None),
            Err(error) => (None, Some(error)),
        };
        Config {
            repo,
            team,
            unreadable,
        }
    }

    /// Returns why the team's file is ignored as a whole, if it is.
    pub fn unreadable(&self) -> Option<&Error> {
        self.unreadable.as_ref()
    }

    /// Fails if the team's file cannot be read. Commands about that file call this.
    pub fn require_readable(&self) -> Result<()> {
        match self.unreadable {
            Some(_) => load_team(self.repo).map(drop),
            None => Ok(()),
        }
    }

    /// Returns whether a value of a setting comes only from the team's file.
    pub fn is_of_team(&self, key: &str, value: &str) -> bool {
        !self.repo.config_strings(key).iter().any(|own| own == value)
    }

    /// Returns the team's file, if there is one.
    pub fn team(&self) -> Option<&Team> {
        self.team.as_ref()
    }

    /// Returns the value of a setting from git config, or else from the team's file.
    pub fn string(&self, key: &str) -> Option<String> {
        self.repo.config_string(key).or_else(|| {
            let team = self.team.as_ref().filter(|team| team.allows(key))?;
            team.file.string(key)
        })
    }

    /// Returns all values of a setting that may be set several times; those of git config come last.
    pub fn strings(&self, key: &str) -> Vec<String> {
        let team = self.team.as_ref().filter(|team| team.allows(key));
        let mut values = team.map(|team| team.file.strings(key)).unwrap_or_default();
        values.extend(self.repo.config_strings(key));
        values
    }

    /// Returns the subsections of a section, such as the names of the roles.
    pub fn names(&self, section: &str) -> Vec<String> {
        let mut names = self.repo.config_subsections(section);
        if let Some(team) = &self.team {
            names.extend(team.file.subsections(section));
        }
        names.sort();
        names.dedup();
        names
    }
}

impl Team {
    /// Returns the keys and values that take effect only once the file is trusted.
    pub fn needs_trust(&self) -> Vec<(String, String)> {
        let mut settings = self.file.settings();
        settings.retain(|(key, _)| needs_trust(key));
        settings
    }

    /// Returns the known keys that only the user's own settings decide, and the reason.
    pub fn personal(&self) -> impl Iterator<Item = &(String, &'static str)> {
        let all = self.powerless.iter();
        all.filter(|(key, _)| keys::find(key).is_some())
    }

    /// Returns whether a key may be read from this file.
    fn allows(&self, key: &str) -> bool {
        let broken = |(name, _): &(String, String)| name.eq_ignore_ascii_case(key);
        (is_harmless(key) || self.trusted && needs_trust(key)) && !self.broken.iter().any(broken)
    }
}

fn needs_trust(key: &str) -> bool {
    !is_harmless(key) && keys::no_say(key).is_none()
}

fn is_harmless(key: &str) -> bool {
    keys::find(key).is_some_and(|key| key.harmless)
}

fn load_team(repo: &Repo) -> Result<Option<Team>> {
    let Some(top) = repo.main_work_tree() else {
        return Ok(None);
    };
    let path = top.join(TEAM_FILE);
    let cannot = || format!("cannot read '{}'", path.display());
    // Never through a link: only the committed content counts, not the target of a link.
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context(cannot),
        Ok(meta) if !meta.is_file() => {
            return Err(
                Error::fatal(format!("'{}' is not a regular file", path.display()))
                    .hint("replace the link with the file itself"),
            );
        }
        Ok(meta) if meta.len() > TEAM_FILE_LIMIT => {
            return Err(Error::fatal(format!(
                "'{}' is larger than {} KiB",
                path.display(),
                TEAM_FILE_LIMIT >> 10
            )));
        }
        Ok(_) => {}
    }
    let bytes = std::fs::read(&path).context(cannot)?;
    let file = ConfigFile::parse(&bytes).map_err(|error| {
        Error::fatal(format!("bad config file '{}'", path.display())).because(error)
    })?;
    let hash = sha256(&bytes);
    let trusted = trusted_hashes(repo)?.contains(&hash);
    let ignored = if trusted {
        Vec::new()
    } else {
        file.keys()
            .into_iter()
            .filter(|key| needs_trust(key))
            .collect()
    };
    let powerless = file
        .keys()
        .into_iter()
        .filter_map(|key| keys::no_say(&key).map(|why| (key, why)))
        .collect();
    let complaint = |(key, value): (String, String)| {
        let complaint = keys::find(&key)?.kind.complaint(&value)?;
        Some((key, complaint))
    };
    let broken = file.settings().into_iter().filter_map(complaint).collect();
    Ok(Some(Team {
        path,
        hash,
        trusted,
        ignored,
        powerless,
        broken,
        text: String::from_utf8_lossy(&bytes).into_owned(),
        file,
    }))
}

fn trust_file(repo: &Repo) -> PathBuf {
    repo.common_dir().join("agents").join("trust")
}

fn trusted_hashes(repo: &Repo) -> Result<Vec<String>> {
    let path = trust_file(repo);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(|line| line.trim().to_owned()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context(|| format!("cannot read '{}'", path.display())),
    }
}

/// Records that exactly this content of the team file is trusted, instead of any earlier content.
pub fn trust(repo: &Repo, hash: Option<&str>) -> Result<()> {
    let path = trust_file(repo);
    let cannot = || format!("cannot write '{}'", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(&path)).context(cannot)?;
    let text = hash.map(|hash| format!("{hash}\n")).unwrap_or_default();
    file::replace(&path, text, Durability::Synced)
}

/// Parses a boolean; a key without a value is true.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "" | "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Parses a number with git's suffixes.
pub fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1u64),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// The longest duration, which can be added to any time without overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Parses a duration: a number with `ms`, `s`, `m`, `h` or `d`, or seconds without a unit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let seconds = match text[split..].trim() {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return None,
    };
    let span = Duration::try_from_secs_f64(seconds).ok()?;
    (span <= LONGEST).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_time_spans() {
        assert_eq!(parse_duration("9999999999999999999"), None);
        assert!(parse_duration("36500d").is_some());
        assert_eq!(parse_number("2k"), Some(2048));
        assert_eq!(parse_number("-1"), None);
        assert_eq!(parse_number("99999999999g"), None);
        assert_eq!(parse_duration("15m"), Some(Duration::from_secs(900)));
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("2 weeks"), None);
        assert_eq!(parse_duration(""), None);
    }

    #[test]
    fn only_what_runs_nothing_is_harmless() {
        for key in [
            "agent.default",
            "agent.maxParallel",
            "agent-role.api.model",
            "agent-role.a.b.model",
        ] {
            assert!(is_harmless(key), "{key}");
        }
        for key in [
            "agent.setup",
            "agent.test",
            "agent.notify",
            "agent.mine.command",
            "agent-role.api.env",
            "core.pager",
        ] {
            assert!(!is_harmless(key), "{key}");
        }
    }
}
