//! What is told about tools in the same way for several families: their kind, and the files they touch.

use std::path::Path;

/// Returns our word for what a tool does, by the vendor's name of it.
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

/// Returns a path as seen from the worktree; one outside stays as it is.
pub fn relative(path: &str, worktree: &Path) -> String {
    match Path::new(path).strip_prefix(worktree) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}
