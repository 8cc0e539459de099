//! A full-screen view that is repainted until the user leaves it, on the terminal's alternate screen with single keys.
//! The terminal is always restored.

use std::io::Write;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::env::Env;
use crate::error::{Context, Result};
use crate::output::{Ui, cannot_write};

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The terminal while this program paints it.
#[derive(Debug)]
pub struct Screen<'u> {
    ui: &'u Ui,
    /// The keyboard settings to restore; `None` if stdin is not a terminal.
    keyboard: Option<Termios>,
}

impl<'u> Screen<'u> {
    /// Takes over the terminal; `None` if the answer does not go to one.
    pub fn enter(env: &Env, ui: &'u Ui) -> Result<Option<Self>> {
        if !env.terminals.stdout || env.var("TERM").is_none_or(|term| term == "dumb") {
            return Ok(None);
        }
        let mut screen = Screen { ui, keyboard: None };
        if env.terminals.stdin {
            screen.keyboard = Some(
                tcgetattr(rustix::stdio::stdin()).context(|| "cannot read the keyboard".into())?,
            );
        }
        screen.take()?;
        Ok(Some(screen))
    }

    /// Takes over the terminal again after the program was suspended and resumed.
    pub fn take(&mut self) -> Result<()> {
        if let Some(before) = &self.keyboard {
            let mut keys = before.clone();
            // Interrupts stay signals, so that the parent process sees them too.
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            keys.special_codes[SpecialCodeIndex::VMIN] = 0;
            keys.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &keys)
                .context(|| "cannot read the keyboard".into())?;
        }
        self.write(ENTER)
    }

    /// Returns columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(rustix::stdio::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Paints lines over the previous ones; lines that do not fit are dropped.
    pub fn paint(&self, text: &str) -> Result<()> {
        let (_, rows) = self.size();
        let mut painted = String::from("\x1b[H");
        for (index, line) in text.lines().take(rows).enumerate() {
            if index > 0 {
                painted += "\r\n";
            }
            painted += line;
            painted += "\x1b[K";
        }
        painted += "\x1b[J";
        self.write(&painted)
    }

    /// Rings the terminal's bell.
    pub fn ring(&self) -> Result<()> {
        self.write("\x07")
    }

    /// Returns the keyboard to wait for.
    pub fn keyboard(&self) -> Option<BorrowedFd<'static>> {
        self.keyboard.as_ref().map(|_| rustix::stdio::stdin())
    }

    /// Returns the pressed keys; `None` if the keyboard is gone.
    pub fn keys(&self) -> Option<Vec<u8>> {
        let mut keys = [0; 64];
        match rustix::io::read(rustix::stdio::stdin(), &mut keys) {
            Ok(0) => None,
            Ok(count) => Some(keys[..count].to_vec()),
            Err(Errno::AGAIN | Errno::INTR) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut out = self.ui.out();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .context(cannot_write)
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // If the terminal does not accept output any more, nothing can be done.
        let _ = self.write(LEAVE);
        if let Some(before) = &self.keyboard {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}
