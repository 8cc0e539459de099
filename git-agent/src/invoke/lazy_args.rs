//! The arguments of a verb, described only once somebody typed it: describing those of all verbs takes longer than many a
//! verb does.

use std::ops::Deref;

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::invoke::parse::dress;

/// The arguments of one verb among many. What the verb does in a line is said where it is named: the list of verbs shows it
/// without the rest.
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

/// Describes the arguments of a verb. What it does was said already, and arguments that several verbs share have words of
/// their own.
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
