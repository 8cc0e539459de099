//! Shows a resolved conflict to the user before it is accepted.

use std::io::Write;

use crate::error::{Context, Result};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::{Ui, cannot_write};

/// Writes a diff, coloured and escaped.
pub fn show(ui: &Ui, diff: &[u8]) -> Result<()> {
    let mut out = ui.out();
    for line in diff.split(|byte| *byte == b'\n') {
        let slot = match line {
            [b'@', b'@', ..] => Some(Slot::Branch),
            [b'+', ..] => Some(Slot::Added),
            [b'-', ..] => Some(Slot::Deleted),
            [b'd', b'i', b'f', b'f', ..] => Some(Slot::Header),
            _ => None,
        };
        let text = one_line(line).to_text();
        match slot {
            Some(slot) => writeln!(out, "{}", ui.palette().paint(slot, text)),
            None => writeln!(out, "{text}"),
        }
        .context(cannot_write)?;
    }
    Ok(())
}
