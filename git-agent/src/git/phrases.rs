//! The few words of git that decide something, because git gives no other sign: the same exit code stands for all of these,
//! and no option has them written for programs. Calls run with `LC_ALL=C`, so that the words are git's own.
//!
//! A line is looked at from its end or its beginning, never anywhere in it: paths, addresses and what the other side says
//! stand in lines, too. Each phrase is held to real git by a test that is named beside it.

/// What kept a fetch from bringing everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchFault {
    /// Nothing can be written here.
    NoRoom,
    /// The other side stopped in the middle.
    Cut,
    /// Something else, as a rule an object that git finds faults in.
    Other,
}

/// The words of the system for what is the matter with this disk. They end a line.
///
/// `share_edges::a_fetch_without_room_refuses_no_session`
const NO_ROOM: [&str; 4] = [
    ": No space left on device",
    ": Disk quota exceeded",
    ": Quota exceeded",
    ": Read-only file system",
];
/// How lines begin that git prints when a connection ends too early.
///
/// `share::a_remote_that_gives_only_a_part_is_not_one_with_a_broken_session`
const CUT: [&str; 4] = [
    "early EOF",
    "fetch-pack: unexpected disconnect",
    "the remote end hung up",
    "RPC failed",
];
/// The same at the end of a line that begins with a number.
const CUT_BODY: &str = "bytes of body are still expected";
/// What `git receive-pack` gives as the reason for refusing a ref that it hides.
///
/// `share_many::a_host_of_ones_own_can_hide_sessions_where_code_is_pushed`
const HIDDEN: [&str; 2] = [
    "(deny updating a hidden ref)",
    "(deny deleting a hidden ref)",
];
/// How git begins the lines that the other side wrote.
const REMOTE: &str = "remote:";

/// Returns what a fetch failed of, from the lines it printed.
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

/// Returns whether a push was refused a ref because the other side hides it, from git's account of that ref.
pub(super) fn is_hidden(summary: &str) -> bool {
    HIDDEN.iter().any(|words| summary.ends_with(words))
}

/// Returns what the other side wrote, as one line.
pub(super) fn remote_words(lines: &[String]) -> Option<String> {
    let words: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix(REMOTE))
        .map(str::trim)
        .filter(|words| !words.is_empty())
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Returns the object that a line of `git fsck` finds a fault in, and the fault: `error in tree 0123…: hasDotdot: contains
/// '..'`. The names of faults are documented, and the line around them has been the same since git 2.2.
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

/// Returns the commit that a line of `git fsck --unreachable` names: `unreachable commit 0123…`, as its manual has it.
///
/// `doctor::a_ref_that_holds_nonsense_or_nothing_goes_aside`
pub(super) fn unreachable_commit(line: &str) -> Option<&str> {
    line.strip_prefix("unreachable commit ")
}

/// Returns what git complained about, for a message: as one line, without the words that say how bad it is and without
/// advice, which is for another command line than the user's.
pub(super) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(|line| plain(line).trim());
    let kept: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !is_advice(line))
        .collect();
    kept.join("; ")
}

/// Returns a line without the word that says how bad it is.
pub(super) fn plain(line: &str) -> &str {
    ["fatal: ", "error: ", "warning: "]
        .iter()
        .fold(line, |line, word| line.trim_start_matches(word))
}

/// Returns whether a plain line tells nothing that went wrong: advice, or how far git is.
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
