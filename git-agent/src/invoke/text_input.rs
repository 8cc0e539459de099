//! Text that a person gives: as words, in a file, on standard input, or in the editor.

use std::io::{IsTerminal, Read};
use std::path::Path;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::invoke::editor;

/// Reads text from wherever it was given; `what` names it in messages. Text that is empty, or that no program could be
/// given, is an error.
pub fn read(
    context: &Context<'_>,
    what: &str,
    words: Option<&str>,
    file: Option<&Path>,
) -> Result<String> {
    let text = typed(context, what, words, file)?;
    require_usable(what, &text)?;
    Ok(text)
}

/// Reads text as [`read`] does, but takes also what no program could be given: for whoever keeps it before refusing it.
pub fn typed(
    context: &Context<'_>,
    what: &str,
    words: Option<&str>,
    file: Option<&Path>,
) -> Result<String> {
    let text = match (words, file) {
        (Some(_), Some(_)) => {
            return Err(Error::usage(format!(
                "the {what} is given twice, as words and as a file"
            )));
        }
        (Some(words), None) if words != "-" => words.to_owned(),
        (_, Some(path)) if path.as_os_str() != "-" => {
            editor::read_text(&context.env.absolute(path))?
        }
        (None, None) if std::io::stdin().is_terminal() => {
            let note = format!("\n# Type the {what}. Lines that begin with '#' are left out.\n");
            editor::ask(context, &what.to_uppercase(), &note)?
        }
        _ => {
            let mut text = Vec::new();
            std::io::stdin()
                .read_to_end(&mut text)
                .context(|| format!("cannot read the {what} from standard input"))?;
            // Nobody types it a second time for a byte that is no letter.
            String::from_utf8_lossy(&text).into_owned()
        }
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(Error::usage(format!("the {what} is empty")));
    }
    Ok(text)
}

/// Refuses text that no program could be given.
pub fn require_usable(what: &str, text: &str) -> Result<()> {
    // No argument and no variable of a program can hold one.
    match text.contains('\0') {
        true => Err(Error::usage(format!("the {what} holds a NUL byte"))),
        false => Ok(()),
    }
}
