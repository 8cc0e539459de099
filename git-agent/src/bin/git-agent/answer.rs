//! `git agent answer`: the user answers the open questions of sessions, one by one or a given one.

use clap::Args;
use git_agent::agent::driver::NOBODY;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::session::{Session, State};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, json};
use git_agent::selection::{self, Selection};
use git_agent::session::control::answer::{self, Given};
use serde_json::json;

use crate::{answer_view, changed_sessions};

#[derive(Debug, Args)]
pub struct Answer {
    /// The session (default: all that wait, one question after the other)
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// yes, always, no, never, an option's number or name, or free text
    #[arg(value_name = "ANSWER")]
    answer: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Answer) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        match (&args.session, &args.answer) {
            (Some(session), Some(answer)) => give(context, ui, session, answer),
            (Some(session), None) => {
                let listed = selection::select_mine(context, Some(session))?;
                if listed.session.status != State::Waiting {
                    // Says in what state it is.
                    answer::answer(context, &listed.session, "")?;
                }
                walk(context, ui, &[listed.session])
            }
            (None, _) => {
                let selection = Selection {
                    states: vec![State::Waiting],
                    ..Selection::default()
                };
                let waiting = selection::select(context, &selection)?.into_iter();
                let waiting: Vec<Session> = waiting.map(|listed| listed.session).collect();
                walk(context, ui, &waiting)
            }
        }
    })
}

fn give(context: &Context<'_>, ui: &Ui, session: &str, choice: &str) -> Result<u8> {
    let listed = selection::select_mine(context, Some(session))?;
    let given = answer::answer(context, &listed.session, choice)?;
    tell(ui, &listed.session, &given);
    let answer = json!({
        "request": given.request.id,
        "kind": given.request.kind,
        "title": given.request.title,
        "choice": given.choice,
    });
    let made = Some(("answers", vec![answer]));
    changed_sessions::tell_with(context, ui, [listed.session.sid], made)?;
    Ok(0)
}

/// Goes through the open questions: shows each, and asks for its answer on a terminal.
fn walk(context: &Context<'_>, ui: &Ui, sessions: &[Session]) -> Result<u8> {
    let mut open = Vec::new();
    for session in sessions {
        let requests = answer::open(context, session)?.into_iter();
        open.extend(requests.map(|request| (session, request)));
    }
    if ui.format() == Format::Json {
        let rows = open.iter().map(|(session, request)| {
            json!({"session": session.sid.as_str(), "name": session.name, "request": request})
        });
        return json::write_list(ui, "requests", rows).map(|()| 0);
    }
    if open.is_empty() {
        ui.narrate("no session waits for an answer");
        return Ok(0);
    }
    let many = open.len();
    for (index, (session, request)) in open.iter().enumerate() {
        answer_view::question(ui, session, request, (index + 1, many))?;
        if !ui.may_ask() {
            let name = shell_word(&session.name);
            ui.hint(format!("git agent answer {name} <answer>"));
            continue;
        }
        loop {
            let words = match ui.ask_line(&answer_view::prompt(request))? {
                None => return Ok(1),
                Some(words) if words == "q" => return Ok(1),
                Some(words) => words,
            };
            if words.is_empty() {
                break;
            }
            match answer::answer_shown(context, session, request, &words) {
                Ok(given) => {
                    tell(ui, session, &given);
                    break;
                }
                Err(error) if is_open(context, session, &request.id)? => {
                    ui.error(error.message());
                }
                Err(error) => {
                    ui.narrate(error.message());
                    break;
                }
            }
        }
    }
    Ok(0)
}

/// Returns whether a request still waits.
fn is_open(context: &Context<'_>, session: &Session, id: &str) -> Result<bool> {
    let open = answer::open(context, session)?;
    Ok(open.iter().any(|request| request.id == id))
}

fn tell(ui: &Ui, session: &Session, given: &Given) {
    let name = one_line(session.name.as_str());
    ui.narrate(format!("answered '{name}': {}", words(given)));
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
