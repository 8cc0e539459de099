//! The properties of the terminal.

pub(crate) mod color;
pub mod pager;
pub mod raw;
pub mod sanitize;
pub mod screen;
pub mod style;
pub mod wait;

use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use rustix::termios::tcgetwinsize;

use crate::env::Env;

/// Returns the number of columns, like git's `term_columns`: `COLUMNS`, or else the terminal's own width, or else 80.
pub fn columns(env: &Env) -> usize {
    let named = env
        .var("COLUMNS")
        .and_then(|text| text.parse::<usize>().ok())
        .filter(|columns| *columns > 0);
    let of_terminal = || {
        let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    named.or_else(of_terminal).unwrap_or(80)
}

/// Returns standard output if it is a pipe: polling it for input tells when its reader has gone.
pub fn closed_pipe() -> Option<BorrowedFd<'static>> {
    let out = rustix::stdio::stdout();
    let stat = rustix::fs::fstat(out).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::Fifo).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Terminals;

    #[test]
    fn the_variable_wins() {
        let env = |value: &str| {
            let variables = [("COLUMNS".into(), value.into())];
            Env::new("/".into(), variables, Terminals::default())
        };
        assert_eq!(columns(&env("123")), 123);
        assert!(columns(&env("nonsense")) > 0);
        assert!(columns(&env("0")) > 0);
    }
}
