//! Reads text from the user: from arguments, a file, standard input, or the editor.

use std::io::{IsTerminal, Read};
use std::path::Path;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::invoke::editor;

/// Reads text from the given source; `what` names it in messages. Fails if the text is empty or contains a NUL byte.
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

/// Reads text like [`read`], but accepts NUL bytes, for callers that save the text before refusing it.
pub fn typed(
    context: &Context<'_>,
    what: &str,
    words: Option<&str>,
    file: Option<&Path>,
) -> Result<String> {
    let text = match (words, file) {
        (Some(_), Some(_)) => {
            return Err(Error::usage(format!(
                "the {what} is given twice, as an argument and as a file"
            )));
        }
        (Some(words), None) if words != "-" => words.to_owned(),
        (_, Some(path)) if path.as_os_str() != "-" => {
            editor::read_text(&context.env.absolute(path))?
        }
        (None, None) if std::io::stdin().is_terminal() => {
            let note = format!("\n# Type the {what}. Lines that begin with '#' are ignored.\n");
            editor::ask(context, &what.to_uppercase(), &note)?
        }
        _ => {
            let mut text = Vec::new();
            std::io::stdin()
                .read_to_end(&mut text)
                .context(|| format!("cannot read the {what} from standard input"))?;
            // Replace invalid UTF-8 rather than refuse the text.
            String::from_utf8_lossy(&text).into_owned()
        }
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(Error::usage(format!("the {what} is empty")));
    }
    Ok(text)
}

/// Refuses text with a NUL byte.
pub fn require_usable(what: &str, text: &str) -> Result<()> {
    // Arguments and variables of a program cannot contain one.
    if text.contains('\0') {
        Err(Error::usage(format!("the {what} contains a NUL byte")))
    } else {
        Ok(())
    }
}
