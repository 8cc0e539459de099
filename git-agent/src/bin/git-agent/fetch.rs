//! `git agent fetch`: fetches the refs that teammates share, and checks them before use.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::share::fetch::{self, Month, Options};
use git_agent::share::outcome::What;
use git_agent::share::remote::Remote;
use git_agent::share::{Audience, without_password};

use crate::fetched_refs;

#[derive(Debug, Args)]
pub struct Fetch {
    /// The remote (default: agent.remote, then origin)
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Remove copies of refs that the remote no longer has, or of removed remotes; they are kept for 30 days
    #[arg(short, long)]
    prune: bool,
    /// Only sessions of a month, and all notes
    #[arg(long, value_name = "YYYY-MM")]
    month: Option<String>,
    /// Only a session, by its id or the end of it, and all notes (can be repeated)
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Fetch) -> Result<u8> {
    let month = args
        .month
        .as_deref()
        .map(|text| {
            Month::parse(text).ok_or_else(|| {
                Error::usage(format!("'{text}' is not a month")).hint("use YYYY-MM, as in 2026-11")
            })
        })
        .transpose()?;
    if let Some(short) = args.session.iter().find(|id| id.len() < 4) {
        return Err(Error::usage(format!(
            "'{short}' is too short to identify a session"
        )));
    }
    in_repo::run(env, args.output.options(), |context, ui| {
        let remote = Remote::choose_name(context, args.remote.as_deref())?;
        let options = Options {
            prune: args.prune,
            month,
            sessions: args.session.clone(),
        };
        let mut show = |how_far: &str| ui.progress(format!("{remote}: {how_far}"));
        let mut audience = Audience::of(ui.shows_progress(), &mut show);
        let fetched = fetch::fetch(context, &remote, &options, &mut audience)?;
        ui.clear_progress();
        fetched_refs::write(ui, &fetched)?;
        fetched_refs::tell(ui, &without_password(&remote), &fetched);
        let refused = fetched.changes.iter().any(|one| one.what == What::Refused);
        Ok(u8::from(refused))
    })
}
