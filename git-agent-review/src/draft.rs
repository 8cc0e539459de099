//! Text that somebody typed and that could not be used: kept in a file, so that it is not lost.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use git_agent::error::{Error, Result};
use git_agent::session::context::Context;

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
    let Ok(dir) = context.store.require_dir("drafts") else {
        return error;
    };
    let path = dir.join(format!(
        "{what}-{}.{}",
        context.env.now().0,
        std::process::id()
    ));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{text}"));
    match written {
        Ok(()) => error.hint(format!("the text is kept in '{}'", path.display())),
        // Whoever cannot write a draft sees at least why the text was not used.
        Err(_) => error,
    }
}
