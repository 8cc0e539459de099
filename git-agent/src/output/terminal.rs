//! What the terminal is like.

use rustix::termios::tcgetwinsize;

use crate::env::Env;

/// Returns how many columns a line has, as git's `term_columns`: `COLUMNS`, else what the terminal says, else 80.
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
