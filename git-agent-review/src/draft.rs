//! Text that a person types for a review.

use std::path::Path;

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::invoke::text_input;
pub use git_agent::review::draft::keeping;

/// Reads text from wherever it was given; what cannot be used is kept, as the only copy of it may be here.
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
