//! Passes the fault points `prop.one`, `prop.two`, `prop.one` and says so after each: the fault machinery's own subject.

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match pass() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(128)
        }
    }
}

fn pass() -> io::Result<()> {
    for name in ["prop.one", "prop.two", "prop.one"] {
        git_agent::fault::point(name)?;
        writeln!(io::stdout(), "{name}")?;
    }
    Ok(())
}
