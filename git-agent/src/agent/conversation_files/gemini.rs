//! Finds Gemini CLI's conversation files of a worktree, and avoids its bug in the minute of their creation.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The file with the minute in which a conversation was last made or loaded.
const MINUTE_FILE: &str = "conversation-minute";
/// The file that names the owner of a project directory.
const MARKER: &str = ".project_root";
/// How many directories of the same name are tried.
const TRIES: usize = 1000;

/// Returns the directory of a worktree's conversations below Gemini's own. Gemini finds its directory by a register or
/// by a mark in it, and names a new one after the worktree, with a number if the name is taken.
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

/// Marks a project directory as that of a worktree, so that Gemini looks for conversations there.
pub fn mark(dir: &Path, worktree: &Path) -> std::io::Result<()> {
    let marker = dir.join(MARKER);
    if marker.exists() {
        Ok(())
    } else {
        std::fs::write(marker, worktree.to_string_lossy().as_bytes())
    }
}

fn owner(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join(MARKER)).ok()?;
    Some(text.trim().to_owned())
}

/// Returns a worktree's name in Gemini's form.
fn slug(name: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let plain: String = name.chars().map(plain).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        "project".to_owned()
    } else {
        parts.join("-")
    }
}

/// Records the minute in which a conversation was made or loaded. If it is unknown, we only wait.
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
        // One of another worktree, by its mark; and one that only the register has.
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
