//! Facts about tools that are the same for several families: their kind, and their files.

use std::path::Path;

/// Returns our word for a tool's kind, by the vendor's name of the tool.
pub fn kind_of_tool(name: &str) -> &'static str {
    match name {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "write_file" | "edit" | "replace"
        | "notebook_edit" | "apply_patch" | "file_change" => "edit",
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "PowerShell" | "run_shell_command"
        | "command_execution" => "execute",
        "Read" | "NotebookRead" | "read_file" | "read_many_files" => "read",
        "Grep" | "Glob" | "LS" | "grep_search" | "glob" | "list_directory" | "ToolSearch" => {
            "search"
        }
        "WebFetch" | "WebSearch" | "web_fetch" | "web_search" => "fetch",
        _ => "other",
    }
}

/// Returns a path relative to the worktree; a path outside stays absolute.
pub fn relative(path: &str, worktree: &Path) -> String {
    match Path::new(path).strip_prefix(worktree) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}
