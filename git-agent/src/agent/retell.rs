//! Puts the conversation so far before a prompt, for agents that cannot resume it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::agent::driver::{Link, Turn};
use crate::error::Result;
use crate::model::event::Body;

/// Maximum number of bytes of the conversation's end before a prompt. The prompt also names the file with all of it.
const MOST: u64 = 64 * 1024;

/// Returns the first prompt of a conversation. If there was an earlier one, puts it before the prompt and records that.
pub fn opening(turn: &Turn, link: &mut dyn Link) -> Result<String> {
    let text = with_history(&turn.prompt, turn.history.as_deref());
    if text != turn.prompt {
        link.event(Body::Notice {
            text: "a new conversation begins; its prompt contains the earlier one".to_owned(),
        })?;
    }
    Ok(text)
}

/// Returns the prompt with the end of the earlier conversation before it.
pub fn with_history(prompt: &str, history: Option<&Path>) -> String {
    let Some((path, text)) = history.and_then(|path| Some((path, read_end(path)?))) else {
        return prompt.to_owned();
    };
    format!(
        "An earlier conversation worked on this task. Here is its transcript, oldest first \
         (the file {path} has all of it):\n\n\
         ----- earlier conversation -----\n{text}\n----- end of the earlier conversation -----\n\n{prompt}",
        path = path.display()
    )
}

fn read_end(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = match text.find('\n') {
        Some(newline) if length > MOST => &text[newline + 1..],
        _ => &text,
    };
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_conversation_is_put_before() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut text = "early\n".repeat(30_000);
        text.push_str("late\n");
        std::fs::write(file.path(), text).expect("written");
        let prompt = with_history("go on", Some(file.path()));
        assert!(prompt.len() < 70_000);
        assert!(prompt.contains("\nlate\n") && prompt.ends_with("\n\ngo on"));
    }

    #[test]
    fn without_a_conversation_the_prompt_stays_as_it_is() {
        let empty = tempfile::NamedTempFile::new().expect("a file");
        for history in [None, Some(Path::new("/nonexistent")), Some(empty.path())] {
            assert_eq!(with_history("p", history), "p");
        }
    }
}
