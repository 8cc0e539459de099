//! `git agent merge resolve`: resolves conflicts of a session with its target branch, by hand or by an agent.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::in_repo;
use git_agent::merge::resolve::auto::{self, Consent};
use git_agent::merge::resolve::{self, ByAgent, hand};
use git_agent::merge::update;
use git_agent::model::session::Session;
use git_agent::output::merge::resolution;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Options, Ui};
use git_agent::selection;

#[derive(Debug, Args)]
pub struct Resolve {
    /// The session (default: the session of this worktree)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The branch (default: the session's parent)
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Let an agent resolve the conflict, with the intents of both sides
    #[arg(long, conflicts_with_all = ["continue_", "abort"])]
    auto: bool,
    /// The agent that resolves (default: the session's own)
    #[arg(long, value_name = "AGENT", requires = "auto")]
    agent: Option<String>,
    /// The test command that the result must pass (default: agent.test)
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "auto",
        overrides_with = "no_test"
    )]
    test: Option<String>,
    /// Do not run tests
    #[arg(long, requires = "auto", overrides_with = "test")]
    no_test: bool,
    /// Accept the agent's resolution without asking
    #[arg(short, long, requires = "auto")]
    yes: bool,
    /// Commit the files resolved by hand to the session's branch
    #[arg(long = "continue", conflicts_with = "abort")]
    continue_: bool,
    /// Abandon the resolution by hand
    #[arg(long)]
    abort: bool,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Resolve) -> Result<u8> {
    in_repo::run(env, Options::default(), |context, ui| {
        let session = selection::select_mine(context, args.session.as_deref())?.session;
        let name = one_line(&session.name).to_string();
        if args.continue_ {
            let commit = hand::proceed(context, &session)?;
            writeln!(ui.out(), "{commit}")?;
            ui.narrate(format!("'{name}' now has the resolution"));
            return Ok(0);
        }
        if args.abort {
            hand::abort(context, &session)?;
            ui.narrate(format!("'{name}' is unchanged"));
            return Ok(0);
        }
        let target = match &args.into {
            Some(into) => into.as_str(),
            None => update::parent_of(&session)?,
        };
        let done = if args.auto {
            by_agent(context, ui, args, &session, target)?
        } else {
            by_hand(context, ui, &session, target)?
        };
        Ok(done.unwrap_or_else(|| {
            ui.narrate(format!(
                "'{name}' has no conflict with '{}'",
                one_line(target)
            ));
            0
        }))
    })
}

/// Opens the conflict. `None` when there is none.
fn by_hand(context: &Context<'_>, ui: &Ui, session: &Session, target: &str) -> Result<Option<u8>> {
    let Some(open) = hand::begin(context, session, target)? else {
        return Ok(None);
    };
    writeln!(
        ui.out(),
        "{}",
        one_line(open.path.as_os_str().as_encoded_bytes())
    )?;
    for path in &open.conflicts {
        ui.narrate(format!("conflict in {path}"));
    }
    let name = shell_word(&session.name);
    ui.narrate("edit these files in that worktree, then 'git add' them");
    ui.hint(format!("git agent merge resolve --continue {name}"));
    ui.hint(format!(
        "git agent merge resolve --abort {name}    abandon it"
    ));
    Ok(Some(0))
}

/// Lets an agent resolve the conflict. `None` when there is none.
fn by_agent(
    context: &Context<'_>,
    ui: &Ui,
    args: &Resolve,
    session: &Session,
    target: &str,
) -> Result<Option<u8>> {
    let (agent, test) = (args.agent.as_deref(), args.test.as_deref());
    let options = auto::Options::new(context, agent, test, args.no_test);
    let mut ask = |diff: &[u8]| {
        resolution::show(ui, diff)?;
        ui.confirm("Accept this resolution?")
    };
    let consent = if args.yes {
        Consent::Given
    } else if ui.may_ask() {
        Consent::Ask(&mut ask)
    } else {
        Consent::Impossible
    };
    let mut tell = |text| ui.narrate(text);
    let commit = match resolve::by_agent(context, session, target, &options, consent, &mut tell)? {
        ByAgent::NoConflict => return Ok(None),
        ByAgent::Refused => {
            ui.narrate("not accepted; the session is unchanged");
            return Ok(Some(1));
        }
        ByAgent::Taken(commit) => commit,
    };
    writeln!(ui.out(), "{commit}")?;
    let name = one_line(&session.name).to_string();
    ui.narrate(format!("'{name}' now has the resolution"));
    ui.hint(format!(
        "git agent review diff {}",
        shell_word(&session.name)
    ));
    Ok(Some(0))
}
