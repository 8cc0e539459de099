//! Models without tool calls: commands in fenced blocks, and answers that only look like calls.

use crate::tools;

/// Returns the command in the first fenced block for a shell.
pub fn command(text: &str) -> Option<String> {
    let mut lines = text.lines();
    loop {
        let opening = lines
            .find_map(|line| line.trim_start().strip_prefix("```"))?
            .trim();
        let is_shell = ["sh", "bash", "shell", "console", "zsh"].contains(&opening);
        let mut block = Vec::new();
        for line in lines.by_ref() {
            if line.trim() == "```" {
                break;
            }
            block.push(line);
        }
        let command = block.join("\n");
        if is_shell && !command.trim().is_empty() {
            return Some(command);
        }
    }
}

/// Returns whether a text is a call of a tool that the model wrote out instead of making it.
pub fn looks_like_call(text: &str) -> bool {
    let tagged = ["<tool_call>", "<function=", "<|tool_call", "[TOOL_CALLS]"];
    if tagged.iter().any(|tag| text.contains(tag)) {
        return true;
    }
    let quoted = |word: &str| text.contains(&format!("\"{word}\""));
    let named = tools::ALL.iter().any(|tool| quoted(tool.name));
    named
        && quoted("name")
        && ["arguments", "parameters", "input"]
            .iter()
            .any(|word| quoted(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        command(text)
    }

    #[test]
    fn a_command_is_found_in_its_block() {
        assert_eq!(
            found("I look.\n```sh\nls\npwd\n```\n").as_deref(),
            Some("ls\npwd")
        );
        assert_eq!(found("```bash\nls\n").as_deref(), Some("ls"));
        assert_eq!(found("```python\nx\n```\n"), None);
        assert_eq!(found("no block"), None);
        assert_eq!(found("```sh\n```"), None);
    }

    #[test]
    fn written_out_calls_are_seen() {
        assert!(looks_like_call(
            r#"{"name": "shell", "arguments": {"command": "ls"}}"#
        ));
        assert!(looks_like_call("<tool_call>{}"));
        assert!(!looks_like_call("The shell has a \"name\"."));
    }
}
