//! Typed text that could not be used: kept in a file, so that it is not lost.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result};

/// Runs something with a text; when that fails, the text is kept and the error says where.
pub fn keeping<T>(
    context: &Context<'_>,
    what: &str,
    text: &str,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    run().map_err(|error| match text.trim() {
        "" => error,
        text => keep(context, what, text, error),
    })
}

fn keep(context: &Context<'_>, what: &str, text: &str, error: Error) -> Error {
    let env = context.env;
    let name = format!("{what}-{}.{}", env.now().0, std::process::id());
    let elsewhere = env.var_os("TMPDIR").filter(|dir| !dir.is_empty());
    let elsewhere = PathBuf::from(elsewhere.unwrap_or(OsStr::new("/tmp")));
    // The directory that stands in for a repository that cannot be written goes away in the end.
    let lasts = !context.repo.is_read_only();
    let own = lasts.then(|| context.store.require_dir("drafts").ok());
    let places = [own.flatten(), Some(elsewhere)];
    let mut paths = places.into_iter().flatten().map(|dir| dir.join(&name));
    match paths.find(|path| write(path, text).is_ok()) {
        Some(path) => error.hint(format!("the text is kept in '{}'", path.display())),
        // Without a draft the error at least says why the text was not used.
        None => error,
    }
}

/// Writes a text to a file that is not there yet, or leaves none.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}").inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}
