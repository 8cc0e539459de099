//! Asks the user for text in git's editor. The file stays until the text was used, so that nothing typed is lost.

use std::path::Path;
use std::process::Command;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};

/// A UTF-8 mark that some editors write before a text. It does not belong to the text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens the editor on a text and returns the edited text without lines that begin with `#`.
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

/// Reads the file that an editor wrote, in any encoding.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path).context(|| format!("cannot read '{}'", path.display()))?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Reads the file that an editor wrote as text.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).context(|| format!("cannot read '{}'", path.display()))
}

/// Opens the editor on a file and waits for it. The caller owns the file.
pub fn open(context: &Context<'_>, path: &Path) -> Result<()> {
    start(context, None, path)
}

/// Opens the editor on a line of a file, in the way that most editors understand, and waits for it.
pub fn open_at(context: &Context<'_>, path: &Path, line: u32) -> Result<()> {
    start(context, Some(format!("+{line}")), path)
}

fn start(context: &Context<'_>, place: Option<String>, path: &Path) -> Result<()> {
    let editor = context.repo.git().args(["var", "GIT_EDITOR"]).run()?.text();
    let status = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg(&editor)
        .args(place)
        .arg(path)
        .status()
        .context(|| format!("cannot start the editor '{editor}'"))?;
    if !status.success() {
        return Err(Error::fatal(format!("the editor '{editor}' failed"))
            .hint(format!("the text is kept in '{}'", path.display())));
    }
    Ok(())
}
