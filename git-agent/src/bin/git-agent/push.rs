//! `git agent push`: pushes this clone's sessions, transcripts and reviews to a remote.

use clap::Args;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui};
use git_agent::share::outcome::What;
use git_agent::share::push::{self, Options};
use git_agent::share::remote::{Ask, Remote};
use git_agent::share::{Audience, plan};

use crate::shared_refs;

#[derive(Debug, Args)]
pub struct Push {
    /// The remote (default: agent.remote, then origin)
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Only these sessions: names or their beginnings, ids, @3 of the last list, '-' the last; review notes are always pushed
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Agree to share with this remote without being asked
    #[arg(short, long)]
    yes: bool,
    /// Only list the refs that would be pushed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Push) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let words: Vec<String> = args.remote.iter().chain(&args.sessions).cloned().collect();
        let (mut remote, names) = Remote::of_push(context, &words, args.dry_run)?;
        let sessions = match names.as_slice() {
            [] => None,
            names => Some(plan::sessions_named(context, names)?),
        };
        let agreed = remote.agreed;
        if !args.dry_run {
            let mut ask = |remote: &Remote| ask(ui, remote);
            let ask = ui.may_ask().then_some(&mut ask as Ask<'_>);
            remote.require_consent(context, args.yes, ask)?;
        }
        let options = Options {
            sessions,
            dry_run: args.dry_run,
            ask: !agreed,
            ..Options::default()
        };
        let mut show = |how_far: &str| ui.progress(format!("{}: {how_far}", remote.name));
        let mut audience = Audience::of(ui.shows_progress(), &mut show);
        let changes = push::push(context, &remote, &options, &mut audience)?;
        ui.clear_progress();
        shared_refs::write(ui, &changes)?;
        shared_refs::tell_folded(ui, &changes);
        if changes.is_empty() && ui.format() == Format::Human {
            ui.narrate(format!("'{}' is up to date", remote.name));
        }
        shared_refs::hint_commit(ui, &changes);
        shared_refs::tell_refused(ui, &changes);
        let refused = changes.iter().any(|one| one.what == What::Refused);
        Ok(u8::from(refused))
    })
}

/// Asks whether the readers of a remote may see sessions.
fn ask(ui: &Ui, remote: &Remote) -> Result<bool> {
    let shown = remote.addresses.iter().map(|one| one_line(one).to_string());
    let shown: Vec<String> = shown.collect();
    ui.narrate(format!(
        "Everything you push can be read by everyone who can read\n    \
         {}\n\
         That is prompts, answers, tool output, review comments, and the code on the\n\
         branches of sessions.",
        shown.join("\n    ")
    ));
    ui.confirm(&format!("Share sessions with '{}'?", remote.name))
}
