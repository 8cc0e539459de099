//! The few phrases of git that decide something, because git gives no other sign: the exit code is the same for all of
//! them, and no option prints them for programs. Calls run with `LC_ALL=C`, so that the phrases are untranslated.
//!
//! Phrases are matched at the start or the end of a line, never inside it, because lines also contain paths, addresses
//! and text of the other side. The test named beside each phrase checks it against real git.

/// The cause of an incomplete fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchFault {
    /// The local disk cannot be written.
    NoRoom,
    /// The other side stopped early.
    Cut,
    /// Another cause, normally an object that git refuses.
    Other,
}

/// The system's messages about this disk, at the end of a line.
///
/// `share_edges::a_fetch_without_room_refuses_no_session`
const NO_ROOM: [&str; 4] = [
    ": No space left on device",
    ": Disk quota exceeded",
    ": Quota exceeded",
    ": Read-only file system",
];
/// The start of git's lines about a connection that ended early.
///
/// `share::a_remote_that_gives_only_a_part_is_not_one_with_a_broken_session`
const CUT: [&str; 4] = [
    "early EOF",
    "fetch-pack: unexpected disconnect",
    "the remote end hung up",
    "RPC failed",
];
/// The same, at the end of a line that begins with a number.
const CUT_BODY: &str = "bytes of body are still expected";
/// The reason of `git receive-pack` for refusing a hidden ref.
///
/// `share_many::a_host_of_ones_own_can_hide_sessions_where_code_is_pushed`
const HIDDEN: [&str; 2] = [
    "(deny updating a hidden ref)",
    "(deny deleting a hidden ref)",
];
/// The prefix of lines from the other side.
const REMOTE: &str = "remote:";

/// Returns the cause of a failed fetch, from its output.
pub(super) fn fetch_fault(lines: &[String]) -> FetchFault {
    let own = || {
        lines
            .iter()
            .map(|line| line.as_str())
            .filter(|line| !line.starts_with(REMOTE))
    };
    let is_cut = |line: &str| {
        let line = plain(line);
        CUT.iter().any(|words| line.starts_with(words)) || line.ends_with(CUT_BODY)
    };
    if own().any(|line| NO_ROOM.iter().any(|words| line.ends_with(words))) {
        FetchFault::NoRoom
    } else if own().any(is_cut) {
        FetchFault::Cut
    } else {
        FetchFault::Other
    }
}

/// Returns whether a push of a ref was refused because the other side hides it, from git's summary of that ref.
pub(super) fn is_hidden(summary: &str) -> bool {
    HIDDEN.iter().any(|words| summary.ends_with(words))
}

/// Returns the text of the other side, as one line.
pub(super) fn remote_words(lines: &[String]) -> Option<String> {
    let words: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix(REMOTE))
        .map(str::trim)
        .filter(|words| !words.is_empty())
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Returns the object and the fault from a line of `git fsck`: `error in tree 0123…: hasDotdot: contains '..'`. The
/// names of faults are documented, and the form of the line has not changed since git 2.2.
///
/// `share_hostile::crafted_objects_are_refused_one_by_one`
pub(super) fn fsck_fault(line: &str) -> Option<(&str, &str)> {
    let rest = line
        .strip_prefix("error in ")
        .or_else(|| line.strip_prefix("warning in "))?;
    let (object, fault) = rest.split_once(": ")?;
    let (_, id) = object.split_once(' ')?;
    Some((id, fault))
}

/// Returns the commit from a line of `git fsck --unreachable`: `unreachable commit 0123…`, as documented.
///
/// `doctor::a_ref_that_holds_nonsense_or_nothing_goes_aside`
pub(super) fn unreachable_commit(line: &str) -> Option<&str> {
    line.strip_prefix("unreachable commit ")
}

/// Returns git's error message as one line, without severity prefixes and without advice, which refers to another
/// command line than the user's.
pub(super) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(|line| plain(line).trim());
    let kept: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !is_advice(line))
        .collect();
    kept.join("; ")
}

/// Returns a line without its severity prefix.
pub(super) fn plain(line: &str) -> &str {
    ["fatal: ", "error: ", "warning: "]
        .iter()
        .fold(line, |line, word| line.trim_start_matches(word))
}

/// Returns whether a line without prefix is not about an error: advice or progress.
pub(super) fn is_noise(line: &str) -> bool {
    line.is_empty()
        || is_advice(line)
        || line.starts_with("Total ")
        || line.contains("% (")
        || line.ends_with(", done.")
}

fn is_advice(line: &str) -> bool {
    line.starts_with("hint:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(lines: &[&str]) -> FetchFault {
        fetch_fault(
            &lines
                .iter()
                .map(|line| (*line).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn a_fetch_fails_of_what_git_says_itself() {
        assert_eq!(
            fault(&["fatal: write error: No space left on device"]),
            FetchFault::NoRoom
        );
        assert_eq!(
            fault(&[
                "fatal: early EOF",
                "fatal: fetch-pack: invalid index-pack output"
            ]),
            FetchFault::Cut
        );
        assert_eq!(
            fault(&["error: 12 bytes of body are still expected"]),
            FetchFault::Cut
        );
        for other in [
            "remote: write error: No space left on device",
            "remote: fatal: early EOF",
            "fatal: '/srv/early EOF/x' does not appear to be a git repository",
            "error: object 01: hasDotdot: in 'No space left on device/x'",
        ] {
            assert_eq!(fault(&[other]), FetchFault::Other, "{other}");
        }
    }

    #[test]
    fn a_refused_ref_is_hidden_only_where_that_is_the_whole_reason() {
        assert!(is_hidden("[remote rejected] (deny updating a hidden ref)"));
        assert!(!is_hidden("[remote rejected] (no hidden ref may go)"));
    }

    #[test]
    fn faults_of_objects_are_read_and_nothing_else() {
        assert_eq!(
            fsck_fault("error in tree 01ab: hasDotdot: contains '..'"),
            Some(("01ab", "hasDotdot: contains '..'"))
        );
        assert_eq!(fsck_fault("missing blob 01ab"), None);
        assert_eq!(fsck_fault("a file in tree 01ab: x"), None);
    }
}
