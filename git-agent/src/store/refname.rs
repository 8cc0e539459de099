//! All ref names of the store, in both directions. No other file spells them.
//!
//! `refs/agents/` has other tenants: editors keep checkpoints of whole worktrees there, including secrets. Only names
//! that [`RefName::parse`] accepts are ours; no other ref is ever listed, pushed, fetched, packed or deleted.

use std::fmt;

use crate::model::session::{SessionId, WriterId};

/// The prefix of session logs.
pub const SESSIONS: &str = "refs/agents/sessions/";
/// The prefix of review notes, one ref per writer.
pub const REVIEW_NOTES: &str = "refs/agents/notes/review/";
/// The prefix of provenance notes, one ref per writer.
pub const PROVENANCE_NOTES: &str = "refs/agents/notes/provenance/";
/// The prefix of archives.
pub const ARCHIVES: &str = "refs/agents/archive/";
/// The prefix of validated copies of teammates' refs.
pub const REMOTES: &str = "refs/agents-remote/";
/// The prefix of fetched refs that are not checked yet.
pub const INCOMING: &str = "refs/agents-in/";
/// The prefix of worktree snapshots. Local: never pushed.
pub const SNAPSHOTS: &str = "refs/agents-local/snapshots/";
/// The prefix of rewritten or deleted refs that are kept for a while. Local: never pushed.
pub const LOST: &str = "refs/agents-local/lost/";
/// The prefix of the work that the user last saw. Local: never pushed.
pub const LOOKED_AT: &str = "refs/agents-local/looked-at/";
/// The prefix of values from the user's reflogs that an agent could drop. Local: never pushed.
pub const REFLOGS: &str = "refs/agents-local/reflogs/";
/// The rendered notes that plain `git log` can show.
pub const DISPLAY_NOTES: &str = "refs/notes/agents/review";

/// All our refs are below these prefixes, but not all refs below them are ours.
pub const ROOTS: [&str; 4] = ["refs/agents/", REMOTES, INCOMING, "refs/agents-local/"];

/// A shared ref of ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefName {
    /// A session's log, with the month of the session id.
    Session(SessionId),
    /// A writer's comments and verdicts.
    ReviewNotes(WriterId),
    /// A writer's links from commits to sessions.
    ProvenanceNotes(WriterId),
    /// A writer's archived sessions of one month.
    Archive {
        /// The month, as `YYYY-MM`.
        month: Month,
        /// The owner of the archive.
        writer: WriterId,
    },
}

/// A month in ref names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(String);

impl Month {
    /// Parses `YYYY-MM`.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let valid = year.len() == 4
            && month.len() == 2
            && digits(year)
            && digits(month)
            && ("01"..="12").contains(&month);
        valid.then(|| Month(text.to_owned()))
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RefName {
    /// Parses a full ref name; returns `None` unless it is exactly one of ours.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix(SESSIONS) {
            let (month, sid) = rest.split_once('/')?;
            let sid: SessionId = sid.parse().ok()?;
            return sid.is_of(month).then_some(RefName::Session(sid));
        }
        if let Some(writer) = name.strip_prefix(REVIEW_NOTES) {
            return writer.parse().ok().map(RefName::ReviewNotes);
        }
        if let Some(writer) = name.strip_prefix(PROVENANCE_NOTES) {
            return writer.parse().ok().map(RefName::ProvenanceNotes);
        }
        let (month, writer) = name.strip_prefix(ARCHIVES)?.split_once('/')?;
        Some(RefName::Archive {
            month: Month::parse(month)?,
            writer: writer.parse().ok()?,
        })
    }

    /// Returns the name of the validated copy of this ref from a remote.
    pub fn at_remote(&self, remote: &str) -> String {
        format!("{REMOTES}{}/{}", encode_remote(remote), self.tail())
    }

    /// Parses the name of a copy of a remote's ref, as `(remote, name)`.
    pub fn parse_at_remote(name: &str) -> Option<(String, Self)> {
        let (remote, tail) = name.strip_prefix(REMOTES)?.split_once('/')?;
        Some((
            decode_remote(remote)?,
            RefName::parse(&format!("refs/agents/{tail}"))?,
        ))
    }

    /// Returns the month in the name of a session or an archive.
    pub fn month(&self) -> Option<String> {
        match self {
            RefName::Session(sid) => Some(sid.month()),
            RefName::Archive { month, .. } => Some(month.as_str().to_owned()),
            RefName::ReviewNotes(_) | RefName::ProvenanceNotes(_) => None,
        }
    }

    /// Returns the writer in the name of notes or of an archive.
    pub fn writer(&self) -> Option<&WriterId> {
        match self {
            RefName::Session(_) => None,
            RefName::ReviewNotes(writer)
            | RefName::ProvenanceNotes(writer)
            | RefName::Archive { writer, .. } => Some(writer),
        }
    }

    /// Returns the part after the shared prefix.
    fn tail(&self) -> String {
        self.to_string()["refs/agents/".len()..].to_owned()
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefName::Session(sid) => write!(f, "{SESSIONS}{}/{sid}", sid.month()),
            RefName::ReviewNotes(writer) => write!(f, "{REVIEW_NOTES}{writer}"),
            RefName::ProvenanceNotes(writer) => write!(f, "{PROVENANCE_NOTES}{writer}"),
            RefName::Archive { month, writer } => write!(f, "{ARCHIVES}{}/{writer}", month.0),
        }
    }
}

/// Returns whether a ref is one of ours, shared or local.
pub fn is_ours(name: &str) -> bool {
    [REMOTES, INCOMING, SNAPSHOTS, LOOKED_AT, REFLOGS, LOST]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || name == DISPLAY_NOTES
        || RefName::parse(name).is_some()
}

/// Returns whether only our programs move a ref, one at a time. Fetched refs that are not checked yet are moved by git.
pub fn is_written_by_us(name: &str) -> bool {
    is_ours(name) && !name.starts_with(INCOMING) && name != DISPLAY_NOTES
}

/// The prefixes of the shared refs.
pub const SHARED: [&str; 4] = [SESSIONS, REVIEW_NOTES, PROVENANCE_NOTES, ARCHIVES];

/// Returns whether a name has the prefix of shared refs, whether or not it is ours.
pub fn is_shared_place(name: &str) -> bool {
    SHARED.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the prefix of the copies of one remote's refs.
pub fn copies_of(remote: &str) -> String {
    format!("{REMOTES}{}/", encode_remote(remote))
}

/// Returns the prefix of refs that were fetched from one remote and are not checked yet.
pub fn incoming_of(remote: &str) -> String {
    format!("{INCOMING}{}/", encode_remote(remote))
}

/// Returns the ref that holds the result of one fetch during the checks.
pub fn incoming(remote: &str, nonce: &str) -> String {
    format!("{}{nonce}/fetched", incoming_of(remote))
}

/// Returns the prefix of this clone's archives of one month.
pub fn archives_of(month: &str) -> String {
    format!("{ARCHIVES}{month}/")
}

/// Returns the ref of a session's worktree snapshots.
pub fn snapshots(sid: SessionId) -> String {
    format!("{SNAPSHOTS}{sid}")
}

/// Returns the ref of a session's work that the user last saw.
pub fn looked_at(sid: SessionId) -> String {
    format!("{LOOKED_AT}{sid}")
}

/// Returns the ref that keeps values of the user's reflogs during a turn of a session.
pub fn reflogs(sid: SessionId) -> String {
    format!("{REFLOGS}{sid}")
}

/// Returns the ref that keeps a lost value: the time of the loss, then the old name.
///
/// The old name has `,` for `/`, so that it is one part, cannot nest, and is readable.
pub fn lost(seconds: i64, nonce: &str, old_name: &str) -> String {
    let flat: String = old_name
        .trim_start_matches("refs/")
        .chars()
        .map(|c| match c {
            '/' => ',',
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
            _ => '_',
        })
        .take(120)
        .collect();
    format!("{LOST}{seconds}-{nonce}-{flat}")
}

/// Returns the end of the names that keep old versions of a shared ref and of its copies.
pub fn lost_tail(name: &RefName) -> String {
    name.tail().replace('/', ",")
}

/// Returns the shared ref of this clone that a `lost` ref is an old version of.
pub fn lost_own(name: &str) -> Option<RefName> {
    let (_, flat) = name.strip_prefix(LOST)?.split_once('-')?;
    let (_, flat) = flat.split_once('-')?;
    RefName::parse(&format!("refs/{}", flat.replace(',', "/")))
}

/// Returns the time at which a `lost` ref was created, in seconds.
pub fn lost_since(name: &str) -> Option<i64> {
    name.strip_prefix(LOST)?.split_once('-')?.0.parse().ok()
}

/// Turns a remote's name into one ref part: plain names unchanged, others in hexadecimal.
fn encode_remote(remote: &str) -> String {
    let plain = !remote.is_empty()
        && !remote.starts_with(['.', '-'])
        && !remote.starts_with("x--")
        && !remote.ends_with('.')
        && !remote.ends_with(".lock")
        && !remote.contains("..")
        && remote
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if plain {
        return remote.to_owned();
    }
    remote.bytes().fold(String::from("x--"), |mut name, byte| {
        name.push_str(&format!("{byte:02x}"));
        name
    })
}

fn decode_remote(part: &str) -> Option<String> {
    let remote = match part.strip_prefix("x--") {
        None => part.to_owned(),
        Some(hex) => {
            let bytes = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
                .collect::<Option<Vec<u8>>>()?;
            String::from_utf8(bytes).ok()?
        }
    };
    // Each remote has one encoding: another one of the same bytes is not ours.
    (encode_remote(&remote) == part).then_some(remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use proptest::prelude::*;

    fn sid() -> SessionId {
        SessionId::from_parts(Millis(1_794_000_000_000), [9; 10])
    }

    #[test]
    fn names_read_back() {
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        let month = Month::parse("2026-11").expect("a month");
        for name in [
            RefName::Session(sid()),
            RefName::ReviewNotes(writer.clone()),
            RefName::ProvenanceNotes(writer.clone()),
            RefName::Archive { month, writer },
        ] {
            assert_eq!(RefName::parse(&name.to_string()), Some(name.clone()));
            for remote in ["origin", "my/remote", "x--1", "a..b", "é", "-rf"] {
                let copy = name.at_remote(remote);
                let read = RefName::parse_at_remote(&copy);
                assert_eq!(read, Some((remote.to_owned(), name.clone())), "{copy}");
            }
        }
    }

    #[test]
    fn other_tenants_are_not_ours() {
        let month_off = SESSIONS.to_owned() + "2020-01/" + sid().as_str();
        for name in [
            "refs/agents/abc/checkpoints/turn/0",
            "refs/agents/sessions/x/y/z",
            "refs/agents/sessions/2026-11/ABC",
            "refs/agents/notes/review/A-1",
            "refs/agents/notes/other/ada-1a2b",
            "refs/agents/archive/2026-13/ada-1a2b",
            "refs/agents/",
            "refs/heads/main",
            &month_off,
        ] {
            assert_eq!(RefName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_kept_tells_what_it_was() {
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        for own in [RefName::Session(sid()), RefName::ReviewNotes(writer)] {
            let kept = lost(1_794_000_000, "0a1b2c", &own.to_string());
            assert_eq!(lost_own(&kept), Some(own.clone()));
            let copy = lost(1_794_000_000, "0a1b2c", &own.at_remote("origin"));
            assert_eq!(lost_own(&copy), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_parses_prints_the_same(name in "refs/agents/[a-z]{1,8}/[ -~]{0,40}|\\PC{0,60}") {
            if let Some(parsed) = RefName::parse(&name) {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }

        #[test]
        fn a_remote_is_always_one_valid_part(remote in "\\PC{1,20}") {
            let part = encode_remote(&remote);
            prop_assert!(!part.contains('/'));
            prop_assert_eq!(decode_remote(&part), Some(remote));
        }
    }
}
