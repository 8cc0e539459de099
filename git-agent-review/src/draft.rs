//! The text of comments and messages, from the command line, a file or the editor.

use std::path::Path;

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::invoke::text_input;
pub use git_agent::review::draft::keeping;

/// Reads a text from its source. A text that cannot be used is kept: it may be the only copy.
pub fn read(
    context: &Context<'_>,
    what: &str,
    words: Option<&str>,
    file: Option<&Path>,
) -> Result<String> {
    let typed = text_input::typed(context, what, words, file)?;
    keeping(context, what, &typed, || {
        text_input::require_usable(what, &typed)
    })?;
    Ok(typed)
}
