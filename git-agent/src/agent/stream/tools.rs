//! Facts about tools that are the same for several families: their kind, and their files.

use std::path::Path;

use crate::model::event_words::ToolKind;

/// Returns our word for a tool's kind, by the vendor's name of the tool.
pub fn kind_of_tool(name: &str) -> ToolKind {
    match name {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "write_file" | "edit" | "replace"
        | "notebook_edit" | "apply_patch" | "file_change" => ToolKind::Edit,
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "PowerShell" | "run_shell_command"
        | "command_execution" => ToolKind::Execute,
        "Read" | "NotebookRead" | "read_file" | "read_many_files" => ToolKind::Read,
        "Grep" | "Glob" | "LS" | "grep_search" | "glob" | "list_directory" | "ToolSearch" => {
            ToolKind::Search
        }
        "WebFetch" | "WebSearch" | "web_fetch" | "web_search" => ToolKind::Fetch,
        _ => ToolKind::Unclear,
    }
}

/// Returns a path relative to the worktree; a path outside stays absolute.
pub fn relative(path: &str, worktree: &Path) -> String {
    match Path::new(path).strip_prefix(worktree) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}
