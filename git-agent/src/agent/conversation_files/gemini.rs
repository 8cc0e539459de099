//! Where Gemini CLI keeps the conversations of a worktree, and its trap in the minute in which it made one.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where the minute is noted in which a conversation was last made or loaded.
const MINUTE_FILE: &str = "conversation-minute";
/// The file that says whose a project's directory is.
const MARKER: &str = ".project_root";
/// How many directories of the same name are tried.
const TRIES: usize = 1000;

/// Returns the directory of a worktree's conversations below Gemini's own. It finds the one that it made before by its
/// register or by a mark in it, and gives a new one the worktree's name and a number, where others have that name.
pub fn project(home: &Path, worktree: &Path) -> Option<PathBuf> {
    let register = std::fs::read_to_string(home.join("projects.json")).unwrap_or_default();
    let register: Value = serde_json::from_str(&register).unwrap_or_default();
    let projects = register["projects"].as_object();
    let path = worktree.to_str()?;
    let is_free = |dir: &Path| owner(dir).is_none_or(|owner| owner == path);
    let tmp = home.join("tmp");
    let known = projects.and_then(|projects| projects.get(path)?.as_str());
    let known = known.filter(|name| crate::agent::conversation_files::is_safe(name));
    if let Some(known) = known.map(|name| tmp.join(name)).filter(|dir| is_free(dir)) {
        return Some(known);
    }
    for entry in std::fs::read_dir(&tmp).into_iter().flatten().flatten() {
        if owner(&entry.path()).as_deref() == Some(path) {
            return Some(entry.path());
        }
    }
    let name = slug(&worktree.file_name()?.to_string_lossy());
    let is_taken = |name: &str| {
        let named =
            |projects: &serde_json::Map<String, Value>| projects.values().any(|it| it == name);
        projects.is_some_and(named)
    };
    (0..TRIES)
        .map(|count| match count {
            0 => name.clone(),
            count => format!("{name}-{count}"),
        })
        .filter(|name| !is_taken(name))
        .map(|name| tmp.join(name))
        .find(|dir| is_free(dir))
}

/// Marks a project's directory as a worktree's, so that Gemini looks for conversations there.
pub fn mark(dir: &Path, worktree: &Path) -> std::io::Result<()> {
    let marker = dir.join(MARKER);
    match marker.exists() {
        true => Ok(()),
        false => std::fs::write(marker, worktree.to_string_lossy().as_bytes()),
    }
}

fn owner(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join(MARKER)).ok()?;
    Some(text.trim().to_owned())
}

/// Returns a worktree's name the way Gemini writes it.
fn slug(name: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let plain: String = name.chars().map(plain).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "project".to_owned(),
        false => parts.join("-"),
    }
}

/// Notes the minute in which a conversation was made or loaded. Not to know it only costs a wait.
pub fn note_minute(scratch: &Path, conversation: &str, minute: u64) {
    std::fs::write(
        scratch.join(MINUTE_FILE),
        format!("{conversation} {minute}\n"),
    )
    .ok();
}

/// Returns the minute in which a conversation was made or loaded, if it is known.
pub fn noted_minute(scratch: &Path, conversation: &str) -> Option<u64> {
    let text = std::fs::read_to_string(scratch.join(MINUTE_FILE)).ok()?;
    let (id, minute) = text.trim().split_once(' ')?;
    (id == conversation).then(|| minute.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktrees_of_the_same_name_have_directories_of_their_own() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path();
        let tmp = home.join("tmp");
        let ours = Path::new("/a/repo-worktrees/Fix.it_");
        assert_eq!(project(home, ours), Some(tmp.join("fix-it")));
        // Somebody else's, by its mark; and one that only the register knows of.
        std::fs::create_dir_all(tmp.join("fix-it")).expect("made");
        mark(&tmp.join("fix-it"), Path::new("/b/fix-it")).expect("marked");
        std::fs::write(
            home.join("projects.json"),
            r#"{"projects":{"/c/fix-it":"fix-it-1","/d/x":"../../x","/e/x":"seven"}}"#,
        )
        .expect("written");
        let dir = project(home, ours).expect("a place");
        assert_eq!(dir, tmp.join("fix-it-2"));
        std::fs::create_dir_all(&dir).expect("made");
        mark(&dir, ours).expect("marked");
        assert_eq!(project(home, ours), Some(dir));
        assert_eq!(project(home, Path::new("/e/x")), Some(tmp.join("seven")));
        assert_eq!(project(home, Path::new("/d/x")), Some(tmp.join("x")));
    }

    #[test]
    fn a_minute_is_noted_for_one_conversation() {
        let scratch = tempfile::tempdir().expect("a directory");
        assert_eq!(noted_minute(scratch.path(), "a"), None);
        note_minute(scratch.path(), "a", 7);
        assert_eq!(noted_minute(scratch.path(), "a"), Some(7));
        assert_eq!(noted_minute(scratch.path(), "b"), None);
    }
}
