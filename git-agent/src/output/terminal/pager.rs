//! Chooses and starts the pager like git.
//!
//! `git agent` runs below git, which handles `--no-pager` (as `GIT_PAGER=cat`), `--paginate` and `pager.agent` itself
//! and then sets `GIT_PAGER_IN_USE`; `git-agent` run directly reads `pager.agent` here. Leaving the pager early is not
//! an error.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::env::Env;
use crate::error::{Context, Error, Result};
use crate::output::sink::mark_reader_gone;
use crate::output::terminal::style::{Config, parse_bool};

/// Characters for which git passes a command to the shell instead of starting it itself.
const SHELL_CHARACTERS: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', ' ', '\t', '\n', '*', '?', '[',
    '#', '~', '=', '%',
];

/// Returns the pager's command line, or `None` if no pager is used. `also` is a setting that counts if `pager.agent` is
/// not set.
pub fn choose(env: &Env, config: &Config<'_>, also: Option<&str>) -> Option<String> {
    if !env.terminals.stdout || in_use(env) {
        return None;
    }
    let own = config("pager.agent").or_else(|| config(also?));
    let own = match own.as_deref().map(parse_bool) {
        Some(Some(false)) => return None,
        Some(Some(true)) | None => None,
        Some(None) => own,
    };
    // A variable with an empty value means no pager.
    let variable = |name| Some(env.var_os(name)?.to_string_lossy().into_owned());
    let command = variable("GIT_PAGER")
        .or(own)
        .or_else(|| config("core.pager"))
        .or_else(|| variable("PAGER"))
        .unwrap_or_else(|| "less".into());
    (!command.is_empty() && command != "cat").then_some(command)
}

/// Returns the command line that begins at the end of the text, if the pager is `less`; otherwise the command line as it
/// is.
pub fn at_end(command: String) -> String {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let is_less = program == "less" || program.ends_with("/less");
    // A shell construct could end in anything.
    let is_plain = !command.contains(['|', '&', ';', '<', '>', '(', '$', '`', '#']);
    if is_less && is_plain {
        format!("{command} -~ +G")
    } else {
        command
    }
}

/// Returns whether git or another parent already shows this output in a pager.
pub fn in_use(env: &Env) -> bool {
    env.var("GIT_PAGER_IN_USE")
        .is_some_and(|value| parse_bool(value).unwrap_or(true))
}

/// Returns the program that runs a command line: a plain word directly, anything else in the shell.
fn program(command: &str) -> Command {
    if !command.contains(SHELL_CHARACTERS) {
        return Command::new(command);
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}

/// A running pager.
#[derive(Debug)]
pub struct Pager {
    command: String,
    shared: Arc<Mutex<Shared>>,
}

/// The state shared by the pager's owner and the signal watcher.
#[derive(Debug)]
struct Shared {
    input: Option<ChildStdin>,
    child: Option<Child>,
}

impl Shared {
    /// Closes the pager's input and waits until the user leaves it.
    fn wait(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        drop(self.input.take());
        self.child.take().map(|mut child| child.wait()).transpose()
    }
}

impl Pager {
    /// Starts a pager for a terminal that is `columns` wide.
    pub fn start(env: &Env, command: &str, columns: usize) -> Result<Self> {
        let mut pager = program(command);
        pager.stdin(Stdio::piped()).env("GIT_PAGER_IN_USE", "true");
        // `F` quits if one screen is enough, `R` shows colours, `X` keeps the text on the screen.
        for (name, value) in [
            ("LESS", "FRX"),
            ("LV", "-c"),
            ("COLUMNS", &columns.to_string()),
        ] {
            if env.var_os(name).is_none() {
                pager.env(name, value);
            }
        }
        let cannot = |error: io::Error| {
            Error::fatal(format!("unable to execute pager '{command}'")).because(error)
        };
        let mut child = pager.spawn().map_err(cannot)?;
        // The pager owns the terminal: an interrupt is meant for it, and if we ended first, the pager and the shell
        // would read the same keyboard. Install the handler only now, because it cannot be removed, and without a pager
        // an interrupt must end this program.
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
            .map_err(cannot)?;
        let shared = Arc::new(Mutex::new(Shared {
            input: child.stdin.take(),
            child: Some(child),
        }));
        let watched = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("pager-signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    // If waiting fails, ending is all that is left.
                    let _ = lock(&watched).wait();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            })
            .map_err(cannot)?;
        Ok(Pager {
            command: command.to_owned(),
            shared,
        })
    }

    /// Ends the output and waits until the user leaves the pager.
    pub fn finish(self) -> Result<()> {
        self.wait()
            .context(|| format!("cannot end pager '{}'", self.command))
    }

    /// Waits for the pager. A pager that never ran is an error, because nothing was shown.
    fn wait(&self) -> io::Result<()> {
        let status = lock(&self.shared).wait()?;
        // The shell's exit codes for a program that was not found or could not run.
        match status.and_then(|status| status.code()) {
            Some(126 | 127) => Err(io::Error::other(format!(
                "unable to execute pager '{}'",
                self.command
            ))),
            _ => Ok(()),
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // Reached only after an error, which must not be printed while the pager runs.
        let _ = lock(&self.shared).wait();
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut lock(&self.shared).input {
            Some(input) => input.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.wait()?;
                Err(mark_reader_gone(error))
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Terminals;

    fn chosen(variables: &[(&str, &str)], config: &[(&str, &str)], stdout: bool) -> Option<String> {
        let terminals = Terminals {
            stdout,
            ..Terminals::default()
        };
        let variables = variables.iter().map(|(k, v)| (k.into(), v.into()));
        let env = Env::new("/".into(), variables, terminals);
        let config = |key: &str| {
            let found = config.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| (*value).to_owned())
        };
        choose(&env, &config, Some("pager.diff"))
    }

    #[test]
    fn the_order_is_gits() {
        let all = [("GIT_PAGER", "a"), ("PAGER", "c")];
        assert_eq!(
            chosen(&all, &[("core.pager", "b")], true).as_deref(),
            Some("a")
        );
        assert_eq!(
            chosen(&all[1..], &[("core.pager", "b")], true).as_deref(),
            Some("b")
        );
        assert_eq!(chosen(&all[1..], &[], true).as_deref(), Some("c"));
        assert_eq!(chosen(&[], &[], true).as_deref(), Some("less"));
    }

    #[test]
    fn own_key_is_a_switch_or_a_command() {
        let core = ("core.pager", "b");
        assert_eq!(chosen(&[], &[("pager.agent", "false"), core], true), None);
        assert_eq!(
            chosen(&[], &[("pager.agent", "true"), core], true).as_deref(),
            Some("b")
        );
        assert_eq!(
            chosen(&[], &[("pager.agent", "most"), core], true).as_deref(),
            Some("most")
        );
        assert_eq!(
            chosen(&[("GIT_PAGER", "cat")], &[("pager.agent", "most")], true),
            None
        );
        let diff = ("pager.diff", "delta");
        assert_eq!(chosen(&[], &[diff, core], true).as_deref(), Some("delta"));
        let both = [diff, ("pager.agent", "most")];
        assert_eq!(chosen(&[], &both, true).as_deref(), Some("most"));
    }

    #[test]
    fn no_pager_where_none_belongs() {
        assert_eq!(chosen(&[], &[], false), None);
        assert_eq!(chosen(&[("GIT_PAGER_IN_USE", "true")], &[], true), None);
        assert_eq!(
            chosen(&[("GIT_PAGER", "")], &[("core.pager", "b")], true),
            None
        );
        assert_eq!(chosen(&[("PAGER", "cat")], &[], true), None);
        assert_eq!(chosen(&[], &[("core.pager", "")], true), None);
    }

    #[test]
    fn less_begins_at_the_end() {
        for (command, begun) in [
            ("less", "less -~ +G"),
            ("/usr/bin/less -R", "/usr/bin/less -R -~ +G"),
            ("most", "most"),
            ("less | tee log", "less | tee log"),
            ("lesser", "lesser"),
        ] {
            assert_eq!(at_end(command.to_owned()), begun);
        }
    }

    #[test]
    fn only_plain_words_run_without_a_shell() {
        assert_eq!(program("less").get_program(), "less");
        assert_eq!(program("less -R").get_program(), "sh");
        assert_eq!(program("FOO=1").get_program(), "sh");
    }
}
