//! Asking a person for text in the editor that git would open. What was typed is never lost: the file stays until it was used.

use std::path::Path;
use std::process::Command;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};

/// What some editors put before a text to say that it is UTF-8. It is no part of the text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens the editor on a text and returns what it was left with, without the lines that begin with `#`.
pub fn ask(context: &Context<'_>, name: &str, text: &str) -> Result<String> {
    let dir = context.store.require_dir("drafts")?;
    let path = dir.join(format!("{name}.{}", std::process::id()));
    let cannot = || format!("cannot write '{}'", path.display());
    std::fs::write(&path, text).context(cannot)?;
    open(context, &path)?;
    let typed = read_text(&path)?;
    let kept: Vec<&str> = typed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let _ = std::fs::remove_file(&path);
    Ok(kept.join("\n").trim().to_owned())
}

/// Reads what an editor wrote to a file, in whatever encoding.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path).context(|| format!("cannot read '{}'", path.display()))?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Reads a text that an editor wrote to a file.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).context(|| format!("cannot read '{}'", path.display()))
}

/// Opens the editor on a file and returns when it was left. The file is the caller's.
pub fn open(context: &Context<'_>, path: &Path) -> Result<()> {
    let editor = context.repo.git().args(["var", "GIT_EDITOR"]).run()?.text();
    let status = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg(&editor)
        .arg(path)
        .status()
        .context(|| format!("cannot start the editor '{editor}'"))?;
    if !status.success() {
        return Err(Error::fatal(format!("the editor '{editor}' failed"))
            .hint(format!("what was typed is kept in '{}'", path.display())));
    }
    Ok(())
}
