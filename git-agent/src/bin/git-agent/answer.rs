//! `git agent answer`: the user answers the open question of a session.

use clap::Args;
use git_agent::agent::driver::NOBODY;
use git_agent::env::Env;
use git_agent::error::Result;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection;
use git_agent::session::control::answer::{self, Given};
use serde_json::json;

use crate::changed_sessions;

#[derive(Debug, Args)]
pub struct Answer {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// yes, no, always, never, an option's number or name, or free text
    #[arg(value_name = "ANSWER")]
    answer: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Answer) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listed = selection::select_mine(context, Some(&args.session))?;
        let given = answer::answer(context, &listed.session, &args.answer)?;
        let name = one_line(listed.session.name.as_str());
        ui.narrate(format!("answered '{name}': {}", words(&given)));
        let answer = json!({
            "request": given.request.id,
            "kind": given.request.kind,
            "title": given.request.title,
            "choice": given.choice,
        });
        let made = Some(("answers", vec![answer]));
        changed_sessions::tell_with(context, ui, [listed.session.sid], made)?;
        Ok(0)
    })
}

/// Describes the question and its answer.
fn words(given: &Given) -> String {
    let title = one_line(given.request.title.as_str());
    let mut options = given.request.options.iter();
    let option = options.find(|option| option.id == given.choice);
    let kind = option.map_or(given.choice.as_str(), |option| option.kind.as_str());
    match kind {
        "allow_once" | "allow" => format!("allowed \"{title}\""),
        "allow_always" => format!("always allowed \"{title}\""),
        NOBODY | "reject" => format!("refused \"{title}\""),
        "reject_always" => format!("always refused \"{title}\""),
        _ => {
            let said = option.map_or(given.choice.as_str(), |option| option.label.as_str());
            format!("\"{}\" to \"{title}\"", one_line(said))
        }
    }
}
