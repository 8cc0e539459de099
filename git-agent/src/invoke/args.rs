//! The options of every listing command: machine formats and colour.

use clap::Args;

use crate::output::porcelain::Version;
use crate::output::terminal::style::When;
use crate::output::{Format, Options};

/// Output options. Flatten them into a command's own arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Print JSON: one object with a version
    #[arg(long, conflicts_with_all = ["porcelain", "nul"])]
    json: bool,
    /// Print one record per line for scripts
    #[arg(long, value_name = "version", num_args = 0..=1, require_equals = true, default_missing_value = "v1")]
    porcelain: Option<Version>,
    /// End records with NUL and quote nothing (implies --porcelain)
    #[arg(short = 'z')]
    nul: bool,
    /// Use colors: always, auto or never (default: color.agent, then color.ui)
    #[arg(
        long,
        value_name = "when",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always",
        overrides_with = "no_color"
    )]
    color: Option<When>,
    /// Use no colors
    #[arg(long, overrides_with = "color")]
    no_color: bool,
}

impl OutputArgs {
    /// Returns the requested format.
    pub fn format(&self) -> Format {
        match (self.json, self.nul, self.porcelain) {
            (true, _, _) => Format::Json,
            (_, true, _) => Format::Porcelain { nul: true },
            (_, _, Some(Version::V1)) => Format::Porcelain { nul: false },
            _ => Format::Human,
        }
    }

    /// Returns the words that ask for the format again.
    pub fn words(&self) -> Option<String> {
        let word = match self.format() {
            Format::Human => return None,
            Format::Json => "--json",
            Format::Porcelain { nul: false } => "--porcelain",
            Format::Porcelain { nul: true } => "-z",
        };
        Some(word.to_owned())
    }

    /// Returns the options for a [`Ui`](crate::output::Ui), without pager and not quiet.
    pub fn options(&self) -> Options {
        Options {
            format: self.format(),
            color: if self.no_color {
                Some(When::Never)
            } else {
                self.color
            },
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        output: OutputArgs,
        rest: Vec<String>,
    }

    fn options(arguments: &[&str]) -> Options {
        let cli = Cli::try_parse_from([&["x"], arguments].concat()).expect("valid");
        assert!(cli.rest.iter().all(|word| word == "name"));
        cli.output.options()
    }

    #[test]
    fn formats() {
        assert_eq!(options(&[]).format, Format::Human);
        assert_eq!(options(&["--json"]).format, Format::Json);
        assert_eq!(
            options(&["--porcelain", "name"]).format,
            Format::Porcelain { nul: false }
        );
        assert_eq!(
            options(&["--porcelain=v1", "-z"]).format,
            Format::Porcelain { nul: true }
        );
        assert_eq!(options(&["-z"]).format, Format::Porcelain { nul: true });
        for wrong in [
            &["x", "--porcelain=v9"][..],
            &["x", "--json", "-z"],
            &["x", "--json", "--porcelain"],
        ] {
            assert!(Cli::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn colors_the_last_one_wins() {
        assert_eq!(options(&[]).color, None);
        assert_eq!(options(&["--color", "name"]).color, Some(When::Always));
        assert_eq!(options(&["--color=auto"]).color, Some(When::Auto));
        assert_eq!(options(&["--color", "--no-color"]).color, Some(When::Never));
        assert_eq!(
            options(&["--no-color", "--color=auto"]).color,
            Some(When::Auto)
        );
        assert!(Cli::try_parse_from(["x", "--color=pink"]).is_err());
    }
}
