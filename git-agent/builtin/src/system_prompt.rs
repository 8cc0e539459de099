//! The system prompt: the rules, the place, and the project's own instructions.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest part of the project's instructions that is used.
const LONGEST: u64 = 32 << 10;

/// Returns the system prompt of a conversation in a directory.
pub fn system_prompt(cwd: &Path) -> String {
    let mut prompt = include_str!("system.md").trim_end().to_owned();
    prompt.push_str(&format!("\n\nWorking directory: {}\n", cwd.display()));
    if let Some(text) = instructions(cwd) {
        prompt.push_str("\nThe project's instructions (AGENTS.md):\n\n");
        prompt.push_str(text.trim_end());
        prompt.push('\n');
    }
    prompt
}

fn instructions(cwd: &Path) -> Option<String> {
    let file = File::open(cwd.join("AGENTS.md")).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

/// The rules for a model that cannot call tools.
pub const FENCED: &str = "\nYou have no tools to call. To run a command, answer with exactly one fenced block and \
nothing after it:\n\n```sh\nthe command\n```\n\nIts output comes back in the next message. Write files with \
`cat >FILE <<'EOF'`. When the task is done, answer without a block.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_instructions_are_part_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let plain = system_prompt(dir.path());
        assert!(!plain.contains("AGENTS.md"));
        std::fs::write(dir.path().join("AGENTS.md"), "Use tabs.\n").expect("written");
        let prompt = system_prompt(dir.path());
        assert!(prompt.starts_with(&plain) && prompt.ends_with("Use tabs.\n"));
    }
}
