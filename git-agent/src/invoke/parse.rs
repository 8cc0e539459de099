//! Parses the command line with clap and answers like git: exit code 129 for usage errors and `-h`, 0 for `--help`.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{Command, Parser};

use crate::error::{Error, Kind, Result, shell_word};
use crate::model::similar;
use crate::output;
use crate::output::terminal::sanitize;

/// Help in git's layout, with the usage first.
const TEMPLATE: &str = "usage: {usage}\n\n{about-with-newline}\n{all-args}{after-help}";

/// Parses the arguments (without the program's name). Prints help and usage errors and returns them as an error that
/// only carries the exit code.
pub fn parse<A: Parser>(arguments: &[OsString]) -> Result<A> {
    read(arguments).map_err(|stop| match output::print(&stop.text, stop.to_stderr) {
        Ok(()) => Error::new(Kind::Exit(stop.code), ""),
        Err(error) => error,
    })
}

/// Prints the help of `-h` and returns its exit code, for a call without arguments that needs some.
pub fn usage<A: Parser>() -> Result<u8> {
    output::print(&dress(A::command()).render_help().to_string(), false)?;
    Ok(Kind::Usage.exit_code())
}

/// Explains a name that is neither a session nor a command, if a command is similar to it.
pub fn or_verb<A: Parser>(names: &[String], error: Error) -> Error {
    let Some((first, rest)) = names.split_first() else {
        return error;
    };
    if error.message() != format!("no session '{first}'") {
        return error;
    }
    let command = A::command();
    let verbs: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let similar = similar::similar(first, &verbs);
    let Some(verb) = similar.first() else {
        return error;
    };
    let program = command.get_bin_name().unwrap_or_default();
    let words = std::iter::once(verb.clone()).chain(rest.iter().map(shell_word));
    let words: Vec<String> = words.collect();
    Error::fatal(format!(
        "'{first}' is neither a session nor a command of '{program}'"
    ))
    .hint(format!("{program} {}", words.join(" ")))
}

/// The reason not to run.
#[derive(Debug, PartialEq)]
struct Stop {
    text: String,
    to_stderr: bool,
    code: u8,
}

fn read<A: Parser>(arguments: &[OsString]) -> Result<A, Stop> {
    let mut command = dress(A::command()).no_binary_name(true);
    command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| {
            A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
        })
        .map_err(|error| stop(&error, arguments))
}

/// Gives a command and its subcommands our layout.
pub(super) fn dress(command: Command) -> Command {
    command
        .help_template(TEMPLATE)
        .disable_help_subcommand(true)
        .max_term_width(100)
        .mut_subcommands(dress)
}

fn stop(error: &clap::Error, arguments: &[OsString]) -> Stop {
    let text = error.render().to_string();
    let code = match error.kind() {
        ErrorKind::DisplayVersion => 0,
        ErrorKind::DisplayHelp if asks_long_help(arguments) => 0,
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Kind::Usage.exit_code()
        }
        _ => {
            return Stop {
                text: complaint(&text),
                to_stderr: true,
                code: Kind::Usage.exit_code(),
            };
        }
    };
    Stop {
        text,
        to_stderr: false,
        code,
    }
}

/// Returns whether the user typed `--help` rather than `-h`; clap reports both the same way.
fn asks_long_help(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != OsStr::new("--"))
        .any(|argument| argument == "--help")
}

/// Rewrites clap's message in git's words. It quotes the user's input, so all of it is escaped.
fn complaint(text: &str) -> String {
    // In such a command, '--' begins another part than a value, such as the command of an agent.
    let is_begun = |line: &str| line.starts_with("Usage: ") && line.contains("-- <");
    let begun = text.lines().any(is_begun);
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = sanitize::block(line.trim_end()).to_string();
        let line = match line.trim_start() {
            "" => continue,
            rest if rest.starts_with("For more information") => continue,
            rest if begun && rest.starts_with("tip: to pass ") => continue,
            rest => match (rest.strip_prefix("tip: "), line.strip_prefix("Usage: ")) {
                (Some(tip), _) => format!("hint: {tip}"),
                (_, Some(usage)) => format!("usage: {usage}"),
                _ => line,
            },
        };
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does something
    #[derive(Debug, Parser)]
    #[command(name = "git-x", bin_name = "git x", arg_required_else_help = true)]
    struct Cli {
        /// Say more
        #[arg(short, long)]
        verbose: bool,
        #[command(subcommand)]
        verb: Option<Verb>,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Verb {
        /// Make one
        New {
            /// Its name
            #[arg(long)]
            name: Option<String>,
        },
        /// Show one
        Show { what: Option<String> },
        /// Run one
        Run {
            what: Option<String>,
            #[arg(last = true)]
            command: Vec<String>,
        },
    }

    fn stopped(arguments: &[&str]) -> Stop {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        read::<Cli>(&arguments).expect_err("there is nothing to run")
    }

    #[test]
    fn short_help_is_usage_and_long_help_is_not() {
        let short = stopped(&["-h"]);
        assert_eq!((short.code, short.to_stderr), (129, false));
        assert!(
            short
                .text
                .starts_with("usage: git x [OPTIONS] [COMMAND]\n\nDoes something\n"),
            "{}",
            short.text
        );
        assert_eq!(stopped(&["-vh"]).code, 129);
        assert_eq!(stopped(&["--help"]).code, 0);
        let verb = stopped(&["new", "-h"]);
        assert_eq!(verb.code, 129);
        assert!(verb.text.starts_with("usage: git x new "), "{}", verb.text);
        assert_eq!(
            stopped(&[]).text,
            short.text,
            "a bare call says what -h says"
        );
        assert_eq!(stopped(&[]).code, 129);
    }

    #[test]
    fn mistakes_go_to_stderr_with_the_usage() {
        let unknown = stopped(&["--verbos\x1b[2J"]);
        assert_eq!((unknown.code, unknown.to_stderr), (129, true));
        assert!(unknown.text.starts_with("error: "), "{}", unknown.text);
        assert!(unknown.text.contains("\\x1b[2J"), "{}", unknown.text);
        assert!(unknown.text.contains("\nusage: git x "), "{}", unknown.text);
        assert!(!unknown.text.contains("For more"), "{}", unknown.text);
        let near = stopped(&["new", "--nam=x"]);
        assert!(
            near.text
                .contains("\nhint: a similar argument exists: '--name'\n"),
            "{}",
            near.text
        );
        let value = "hint: to pass '-q' as a value, use '-- -q'";
        assert!(stopped(&["show", "-q"]).text.contains(value));
        let begun = stopped(&["run", "-q"]).text;
        assert!(
            begun.contains("'-q'") && !begun.contains("hint:"),
            "{begun}"
        );
        assert!(!stopped(&["nw"]).text.is_empty());
    }

    #[test]
    fn what_is_right_is_read() {
        let cli: Cli = read(&["-v".into(), "new".into(), "--name=a".into()]).expect("valid");
        assert!(cli.verbose);
        assert!(matches!(cli.verb, Some(Verb::New { name: Some(name) }) if name == "a"));
    }
}
