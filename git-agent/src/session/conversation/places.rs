//! The worktree's path in a conversation. A kept conversation is pushed with its session, so a placeholder stands there for
//! the path of this machine, until the conversation is continued in a worktree.

use std::path::Path;

/// Stands for the worktree in a kept conversation.
const PLACEHOLDER: &str = "/git-agent-worktree";

/// The text that may follow a path: a shorter path would also be found inside longer ones.
const ENDS: [&str; 9] = ["/", "\"", "\\n", " ", "`", "'", ")", ",", "."];

/// Replaces a path wherever a text names it.
pub(crate) fn replace(text: &str, from: &str, to: &str) -> String {
    let mut text = text.to_owned();
    for end in ENDS.iter().filter(|_| !from.is_empty()) {
        text = text.replace(&format!("{from}{end}"), &format!("{to}{end}"));
    }
    text
}

/// Replaces the path of the worktree by the placeholder.
pub(crate) fn hide(bytes: &[u8], worktree: &Path) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    replace(&text, &worktree.to_string_lossy(), PLACEHOLDER).into_bytes()
}

/// Replaces the placeholder by the path of the worktree.
pub(crate) fn show(bytes: &[u8], worktree: &Path) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    replace(&text, PLACEHOLDER, &worktree.to_string_lossy()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_conversation_names_the_worktree_of_its_reader() {
        let text = r#"{"cwd":"/home/ada/wt","text":"in /home/ada/wt/a and /home/ada/wt-2/b"}"#;
        let kept = hide(text.as_bytes(), Path::new("/home/ada/wt"));
        let shown = String::from_utf8(kept.clone()).expect("text");
        assert!(!shown.contains("/home/ada/wt/") && !shown.contains("/home/ada/wt\""));
        assert!(shown.contains("/home/ada/wt-2/b"));
        assert_eq!(show(&kept, Path::new("/home/ada/wt")), text.as_bytes());
        let read = String::from_utf8(show(&kept, Path::new("/srv/bob"))).expect("text");
        assert!(read.contains(r#""cwd":"/srv/bob""#) && read.contains("/srv/bob/a"));
        assert_eq!(replace("a b", "", "x"), "a b");
    }
}
