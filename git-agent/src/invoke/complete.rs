//! Completes a command line for the shell: verbs, options and their values, and the names of sessions.
//!
//! The shell scripts are small: they call `__complete` with the words of the line, the last one being incomplete, and
//! get one candidate per line, followed by a tab and its description. Without any line, the shell offers files as
//! usual.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command as Process;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::config::{Config, keys, settings};
use crate::context::Context;
use crate::env::Env;
use crate::error::Result;
use crate::git::Repo;
use crate::model::session::State;
use crate::output;
use crate::output::terminal::sanitize::one_line;
use crate::review::records;
use crate::session::create::choose_agent;
use crate::store::Store;
use crate::store::list::Scope;

/// The hidden verb.
pub const VERB: &str = "__complete";
/// Programs of ours that complete their own words.
const OUR_PROGRAMS: [(&str, &str); 3] = [
    ("board", "Show sessions as a board, and review there"),
    ("merge", "Bring finished work into a branch"),
    ("review", "Review what agents changed"),
];

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    word: String,
    meaning: String,
}

/// Runs the hidden verb for a program with the words after its name.
pub fn run<A: CommandFactory>(env: &Env, words: &[OsString]) -> Result<u8> {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut root = A::command().disable_help_subcommand(true);
    root.build();
    let takes_programs = root.is_allow_external_subcommands_set();
    if let [verb, rest @ ..] = words.as_slice()
        && !rest.is_empty()
        && takes_programs
        && OUR_PROGRAMS.iter().any(|(name, _)| name == verb)
    {
        return ask_program(verb, rest);
    }
    let mut text = String::new();
    for Candidate { word, meaning } in candidates(&root, &words, &mut |wanted| known(env, wanted)) {
        // A newline or an escape in a name would become another candidate or reach the terminal.
        let shown = one_line(&word).to_string();
        if shown == word {
            text += &format!("{word}\t{}\n", one_line(&meaning));
        }
    }
    output::print(&text, false)?;
    Ok(0)
}

/// Lets another of our programs complete its own words.
fn ask_program(verb: &str, words: &[String]) -> Result<u8> {
    let beside = std::env::current_exe().ok();
    let program = beside
        .as_deref()
        .and_then(Path::parent)
        .map(|directory| directory.join(format!("git-agent-{verb}")));
    // Ignore errors: a message would disturb the user's typing.
    let _ = program.map(|program| Process::new(program).arg(VERB).args(words).status());
    Ok(0)
}

/// The kind of value, by its name in the help.
type Wanted<'a> = &'a str;

/// Returns the candidates for the last word.
fn candidates(
    root: &Command,
    words: &[String],
    known: &mut dyn FnMut(Wanted<'_>) -> Vec<Candidate>,
) -> Vec<Candidate> {
    let Some((typed, before)) = words.split_last() else {
        return Vec::new();
    };
    let mut place = Place {
        command: root,
        position: 0,
        expects: None,
    };
    for word in before {
        if word == "--" && place.expects.is_none() {
            // The rest is the command line of another program.
            return Vec::new();
        }
        place.pass(word);
    }
    let mut found = match (
        place.expects,
        typed
            .strip_prefix("--")
            .and_then(|rest| rest.split_once('=')),
    ) {
        (Some(option), _) => values(option, known),
        (None, Some((name, _))) => place
            .option(&format!("--{name}"))
            .map(|option| values(option, known))
            .unwrap_or_default()
            .into_iter()
            .map(|candidate| Candidate {
                word: format!("--{name}={}", candidate.word),
                ..candidate
            })
            .collect(),
        (None, None) if typed.starts_with('-') => place.options(),
        (None, None) => place.words(known),
    };
    found.retain(|candidate| candidate.word.starts_with(typed.as_str()));
    found.sort();
    found.dedup_by(|one, other| one.word == other.word);
    found
}

/// The position of the next word in the command line.
struct Place<'c> {
    command: &'c Command,
    /// The number of words without a dash so far.
    position: usize,
    /// The option that waits for its value.
    expects: Option<&'c Arg>,
}

impl<'c> Place<'c> {
    /// Moves past a word.
    fn pass(&mut self, word: &str) {
        if self.expects.take().is_some() {
            return;
        }
        if word.len() > 1 && word.starts_with('-') {
            let has_value = word.starts_with("--") && word.contains('=');
            self.expects = self
                .option(word)
                .filter(|option| !has_value && takes_next_word(option));
            return;
        }
        match self
            .command
            .find_subcommand(word)
            .filter(|_| self.position == 0)
        {
            Some(verb) => self.command = verb,
            None => self.position += 1,
        }
    }

    /// Returns the option that a word names; the last one for combined letters.
    fn option(&self, word: &str) -> Option<&'c Arg> {
        let arguments = || self.command.get_arguments();
        match word.strip_prefix("--") {
            Some(name) => {
                let name = name.split('=').next().unwrap_or(name);
                arguments().find(|arg| arg.get_long() == Some(name))
            }
            None => {
                let letter = word.chars().next_back();
                arguments().find(|arg| arg.get_short().is_some() && arg.get_short() == letter)
            }
        }
    }

    /// Returns the options to offer.
    fn options(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for arg in self
            .command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
        {
            let meaning = help(arg.get_help());
            if let Some(long) = arg.get_long() {
                let word = format!("--{long}");
                found.push(Candidate {
                    word,
                    meaning: meaning.clone(),
                });
            } else if let Some(short) = arg.get_short() {
                found.push(Candidate {
                    word: format!("-{short}"),
                    meaning,
                });
            }
        }
        found
    }

    /// Returns the words without a dash to offer: verbs, or values for this position.
    fn words(&self, known: &mut dyn FnMut(Wanted<'_>) -> Vec<Candidate>) -> Vec<Candidate> {
        if self.position == 0 && self.command.has_subcommands() {
            let mut found: Vec<Candidate> = self
                .command
                .get_subcommands()
                .filter(|verb| !verb.is_hide_set())
                .map(|verb| Candidate {
                    word: verb.get_name().to_owned(),
                    meaning: help(verb.get_about()),
                })
                .collect();
            if self.command.is_allow_external_subcommands_set() {
                found.extend(OUR_PROGRAMS.map(|(word, meaning)| Candidate {
                    word: word.to_owned(),
                    meaning: meaning.to_owned(),
                }));
            }
            return found;
        }
        let mut places = self
            .command
            .get_positionals()
            .filter(|arg| !arg.is_last_set());
        let last = self
            .command
            .get_positionals()
            .filter(|arg| !arg.is_last_set())
            .last();
        let arg = places
            .nth(self.position)
            .or(last.filter(|arg| takes_many(arg)));
        arg.map(|arg| values(arg, known)).unwrap_or_default()
    }
}

fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
        || arg
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1)
}

fn takes_next_word(option: &Arg) -> bool {
    option.get_action().takes_values() && !option.is_require_equals_set()
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the known values of an option or a position.
fn values(arg: &Arg, known: &mut dyn FnMut(Wanted<'_>) -> Vec<Candidate>) -> Vec<Candidate> {
    let fixed: Vec<Candidate> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| Candidate {
            word: value.get_name().to_owned(),
            meaning: help(value.get_help()),
        })
        .collect();
    if !fixed.is_empty() {
        return fixed;
    }
    let names = arg.get_value_names().unwrap_or_default();
    names
        .iter()
        .flat_map(|name| name.split('|').flat_map(&mut *known).collect::<Vec<_>>())
        .collect()
}

/// Returns the known values of a kind. Errors yield none.
fn known(env: &Env, wanted: Wanted<'_>) -> Vec<Candidate> {
    let plain = |words: Vec<String>| -> Vec<Candidate> {
        words
            .into_iter()
            .map(|word| Candidate {
                word,
                meaning: String::new(),
            })
            .collect()
    };
    match wanted {
        "when" => return plain(["always", "auto", "never"].map(str::to_owned).into()),
        "STATE" => {
            return plain(
                State::ALL
                    .iter()
                    .map(|state| state.as_str().to_owned())
                    .collect(),
            );
        }
        "KEY" => {
            let key = |key: &keys::Key| Candidate {
                word: format!("agent.{}", key.name),
                meaning: key.meaning.to_owned(),
            };
            return settings::ALL.iter().map(key).collect();
        }
        "SESSION" | "GROUP" | "AGENT" | "ROLE" | "REMOTE" | "COMMENT" => {}
        _ => return Vec::new(),
    }
    let Ok(repo) = Repo::discover(env) else {
        return Vec::new();
    };
    match wanted {
        "REMOTE" => plain(repo.remote_names()),
        "COMMENT" => comments(env, &repo),
        "SESSION" | "GROUP" => {
            let Ok(listing) = Store::new(env, &repo).list(Scope::All) else {
                return Vec::new();
            };
            let sessions = listing.sessions.into_iter().map(|listed| listed.session);
            match wanted {
                "GROUP" => plain(
                    sessions
                        .filter_map(|session| session.record.group)
                        .collect(),
                ),
                _ => sessions
                    .map(|session| Candidate {
                        meaning: format!("{}: {}", session.status.as_str(), session.task),
                        word: session.record.name,
                    })
                    .collect(),
            }
        }
        _ => {
            let config = Config::load(&repo);
            match wanted {
                "ROLE" => plain(config.names("agent-role")),
                _ => plain(crate::agent::catalog::registry::names(
                    &choose_agent::entries(&config),
                )),
            }
        }
    }
}

/// Returns the comments of open threads by their whole ids, because a shell cannot match the ends that users type.
fn comments(env: &Env, repo: &Repo) -> Vec<Candidate> {
    let Ok(reviews) = Context::new(env, repo).and_then(|context| records::load(&context)) else {
        return Vec::new();
    };
    let threads = reviews.sessions.values().flat_map(|review| &review.threads);
    threads
        .filter(|thread| thread.is_open())
        .flat_map(|thread| &thread.comments)
        .filter(|comment| !comment.deleted)
        .map(|comment| Candidate {
            word: comment.id.to_string(),
            meaning: format!("{}: {}", comment.who.name, comment.body),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Does things
    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        verb: Verb,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Verb {
        /// Make one
        New {
            /// What to do
            #[arg(value_name = "TASK")]
            task: Option<String>,
            /// Who does it
            #[arg(short, long, value_name = "AGENT")]
            agent: Option<String>,
            /// In color
            #[arg(long, value_name = "when", num_args = 0..=1, require_equals = true)]
            color: Option<String>,
            #[arg(last = true, value_name = "COMMAND")]
            command: Vec<String>,
        },
        /// End some
        Stop {
            #[arg(value_name = "SESSION")]
            names: Vec<String>,
            #[arg(long)]
            all: bool,
        },
        #[command(hide = true)]
        Secret,
        #[command(external_subcommand)]
        #[expect(dead_code, reason = "only its being there counts")]
        Other(Vec<OsString>),
    }

    fn offered(line: &[&str]) -> Vec<String> {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let mut known = |wanted: Wanted<'_>| -> Vec<Candidate> {
            let words: &[&str] = match wanted {
                "AGENT" => &["goose", "kilo"],
                "SESSION" => &["api", "app"],
                "when" => &["always", "never"],
                _ => &[],
            };
            let candidate = |word: &&str| Candidate {
                word: (*word).to_owned(),
                meaning: String::new(),
            };
            words.iter().map(candidate).collect()
        };
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        candidates(&root, &words, &mut known)
            .into_iter()
            .map(|candidate| candidate.word)
            .collect()
    }

    #[test]
    fn verbs_come_first() {
        assert_eq!(offered(&[""]), ["board", "merge", "new", "review", "stop"]);
        assert_eq!(offered(&["st"]), ["stop"]);
        assert!(offered(&[]).is_empty());
        assert!(offered(&["nonsense", ""]).is_empty());
    }

    #[test]
    fn options_and_their_values() {
        assert_eq!(offered(&["stop", "--"]), ["--all", "--help"]);
        assert_eq!(offered(&["new", "--agent", ""]), ["goose", "kilo"]);
        assert_eq!(offered(&["new", "-a", "k"]), ["kilo"]);
        assert_eq!(offered(&["new", "--agent=g"]), ["--agent=goose"]);
        assert_eq!(offered(&["new", "--color=n"]), ["--color=never"]);
        assert_eq!(
            offered(&["new", "--color", "task"]),
            [""; 0],
            "the value needs its '='"
        );
    }

    #[test]
    fn sessions_stand_where_sessions_belong() {
        assert_eq!(offered(&["stop", ""]), ["api", "app"]);
        assert_eq!(offered(&["stop", "--all", "api", "ap"]), ["api", "app"]);
        assert!(
            offered(&["new", "x", "--", "a"]).is_empty(),
            "another's command line"
        );
        assert!(offered(&["new", "--agent", "kilo", "a"]).is_empty());
    }
}
