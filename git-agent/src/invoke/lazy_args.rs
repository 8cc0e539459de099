//! Describes the arguments of a verb only when it is typed. Describing those of all verbs takes 1 ms at every start, and a
//! second fetch by path takes 5.9 ms in all (`bench-share`).

use std::ops::Deref;

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::invoke::parse::dress;

/// The arguments of one verb among many. Its summary is given where the verb is named, so that the list of verbs needs
/// nothing else.
#[derive(Debug)]
pub struct Later<T>(T);

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Later<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| described(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| described(command, T::augment_args_for_update))
    }
}

/// Describes the arguments of a verb. Keeps the verb's summary, because shared arguments have descriptions of their
/// own.
fn described(verb: Command, describe: fn(Command) -> Command) -> Command {
    let about = verb.get_about().cloned().unwrap_or_default();
    describe(verb).about(about).mut_subcommands(dress)
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Later)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Later)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}
