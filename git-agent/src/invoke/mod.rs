//! The `main` of the three binaries: handles panics, closed pipes, error messages and exit codes.

mod args;
pub mod complete;
pub mod editor;
mod external;
pub mod in_repo;
mod lazy_args;
mod parse;
pub mod session_args;
pub mod text_input;

use std::any::Any;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::output;
use crate::process::lock;
use crate::session::ask;

/// The hidden verb by which a program becomes an agent.
pub use crate::process::shim;
pub use args::OutputArgs;
pub use external::{external, has_program};
pub use lazy_args::Later;
pub use parse::{or_verb, parse, usage};

/// The version of all three binaries.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a program: `run` gets the environment and the arguments without the program's name, and returns the exit code.
///
/// `--version` as the first argument is answered here, before anything else.
pub fn main(name: &str, run: impl FnOnce(&Env, &[OsString]) -> Result<u8>) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let panicked = remember_panics();
    lock::tell_of_waits(|text| output::report(text, ""));
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        if arguments
            .first()
            .is_some_and(|first| first == "--version" || first == "-V")
        {
            return version(name);
        }
        let env = Env::from_process()?;
        if let Some(socket) = ask::socket(&env).filter(|_| is_passed_on(&arguments)) {
            return ask::pass_on(&env, &socket, (name, &arguments), output::pass_on);
        }
        run(&env, &arguments)
    }));
    match result {
        Ok(Ok(code)) => code.into(),
        Ok(Err(error)) => end(&error).into(),
        Err(payload) => {
            let known = panicked.lock().ok().and_then(|mut message| message.take());
            report_panic(&known.unwrap_or_else(|| panic_text(&*payload).to_owned()));
            Kind::Fatal.exit_code().into()
        }
    }
}

/// Prints the version of a program.
pub fn version(name: &str) -> Result<u8> {
    output::print(&format!("{name} version {VERSION}\n"), false)?;
    Ok(0)
}

/// Returns whether a command in a cell goes to the supervisor: all but help, those that begin another program, and the
/// one that reads files of the agent.
fn is_passed_on(arguments: &[OsString]) -> bool {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    let own = ["help", "completion", "review", "merge"];
    let help = |word: &OsString| word == "-h" || word == "--help";
    word(0).is_some_and(|verb| !verb.starts_with("__") && !own.contains(&verb))
        && (word(0), word(1)) != (Some("artifact"), Some("put"))
        && !arguments.iter().any(help)
}

/// Prints an error like git and returns the exit code.
fn end(error: &Error) -> u8 {
    if output::is_reader_gone(error) {
        return 0;
    }
    let prefix = match error.kind() {
        Kind::Negative | Kind::Usage | Kind::Exit(_) => "error: ",
        Kind::Fatal | Kind::Signal(_) => "fatal: ",
    };
    output::report(&error.with_causes(), prefix);
    let env = Env::from_process().ok();
    for hint in error.hints() {
        output::report_hint(env.as_ref(), hint);
    }
    if let Kind::Signal(signal @ (SIGINT | SIGTERM | SIGHUP)) = error.kind() {
        // End by the same signal, so that a shell loop sees it; if that fails, the exit code tells it.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    error.kind().exit_code()
}

/// Keeps the message of a panic in this thread until the screen is restored. Panics of other threads are printed at
/// once, because no code may join them.
fn remember_panics() -> Arc<Mutex<Option<String>>> {
    let kept = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&kept);
    let main_thread = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        let place = info
            .location()
            .map(|place| format!(" ({}:{})", place.file(), place.line()))
            .unwrap_or_default();
        let message = format!("{}{place}", panic_text(info.payload()));
        if std::thread::current().id() != main_thread {
            return report_panic(&message);
        }
        if let Ok(mut slot) = slot.lock() {
            *slot = Some(message);
        }
    }));
    kept
}

fn panic_text(payload: &dyn Any) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

fn report_panic(message: &str) {
    output::report(&format!("internal error: {message}"), "fatal: ");
    output::report(
        &format!("this is a bug in git-agent {VERSION}; please report it with the line above"),
        "hint: ",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_exit_codes() {
        for (kind, code) in [
            (Kind::Negative, 1),
            (Kind::Fatal, 128),
            (Kind::Usage, 129),
            (Kind::Signal(13), 141),
            (Kind::Exit(7), 7),
        ] {
            assert_eq!(end(&Error::new(kind, "")), code);
        }
    }
}
