//! Answering the requests of agents.

use std::time::Duration;

use crate::agent::driver::{NOBODY, REFUSALS};
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::event::Choice;
use crate::model::event_words::RequestKind;
use crate::model::session::{Session, State};
use crate::process::lock::Lock;
use crate::session::caller::{self, Act};
use crate::session::control::requests;
use crate::session::events;
use crate::session::supervisor::inbox::{Inbox, Message};

/// How long to wait for another command that answers at the same time.
const PATIENCE: Duration = Duration::from_secs(15);

/// An answer that was left for a session.
#[derive(Debug)]
pub struct Given {
    /// The answered request.
    pub request: requests::Request,
    /// The id of the option that was chosen, or free text.
    pub choice: String,
}

/// Answers the oldest open request of a session, for the user.
pub fn answer(context: &Context<'_>, session: &Session, choice: &str) -> Result<Given> {
    answer_one(context, session, None, choice)
}

/// Answers the request that the user was shown; fails if it is not open any more.
pub fn answer_shown(
    context: &Context<'_>,
    session: &Session,
    request: &requests::Request,
    choice: &str,
) -> Result<Given> {
    answer_one(context, session, Some(&request.id), choice)
}

/// Returns the open requests of a session that have no answer yet, oldest first.
pub fn open(context: &Context<'_>, session: &Session) -> Result<Vec<requests::Request>> {
    if session.status != State::Waiting {
        return Ok(Vec::new());
    }
    let inbox = Inbox::open(&context.store, session.sid)?;
    unanswered(context, session, &inbox)
}

fn answer_one(
    context: &Context<'_>,
    session: &Session,
    shown: Option<&str>,
    choice: &str,
) -> Result<Given> {
    caller::permit(context, Act::Answer, [])?;
    if session.status != State::Waiting {
        let message = format!(
            "session '{}' is {}: it has no open question",
            session.name, session.status
        );
        return Err(
            Error::fatal(message).hint(format!("git agent log {}", shell_word(&session.name)))
        );
    }
    let inbox = Inbox::open(&context.store, session.sid)?;
    // Only one of several answers at the same time counts.
    let lock = inbox.dir().join("answer.lock");
    let lock = Lock::acquire(context.env, lock, PATIENCE)?;
    let given = give(context, session, (shown, choice), &inbox);
    lock.remove()?;
    given
}

/// Leaves an answer to the oldest request that has none.
fn give(
    context: &Context<'_>,
    session: &Session,
    (shown, choice): (Option<&str>, &str),
    inbox: &Inbox,
) -> Result<Given> {
    let open = unanswered(context, session, inbox)?;
    let is_meant = |request: &requests::Request| shown.is_none_or(|shown| request.id == shown);
    let Some(request) = open.into_iter().find(is_meant) else {
        let name = &session.name;
        return Err(Error::fatal(match shown {
            None => format!("session '{name}' has no open question"),
            Some(_) => format!("session '{name}' does not ask this any more"),
        }));
    };
    let Some(choice) = choose(&request, choice) else {
        let message = format!(
            "'{choice}' does not answer the question of session '{}'",
            session.name
        );
        let options = request.options.iter().enumerate();
        return Err(options.fold(Error::fatal(message), |error, (at, option)| {
            error.hint(format!("{}    {}", at + 1, option.label))
        }));
    };
    let message = Message::Answer {
        choice: choice.clone(),
        request: request.id.clone(),
    };
    inbox.put(context.env, &message)?;
    Ok(Given { request, choice })
}

/// Returns the open requests of a session without an answer.
fn unanswered(
    context: &Context<'_>,
    session: &Session,
    inbox: &Inbox,
) -> Result<Vec<requests::Request>> {
    let given = inbox.list()?;
    let is_given = |wanted: &str| {
        given.iter().any(
            |(_, message)| matches!(message, Message::Answer { request, .. } if request == wanted),
        )
    };
    let mut open = requests::open_requests(events::tail(context, session.sid, requests::REQUEST)?);
    open.retain(|request| !is_given(&request.id));
    Ok(open)
}

/// Understands an answer: an option's id, its number, its label's beginning, yes or no; to a question, or where there are
/// no options, it is free text otherwise. A permission can be refused also where no option says so.
fn choose(request: &requests::Request, answer: &str) -> Option<String> {
    let options = &request.options;
    let wanted = answer.trim().to_lowercase();
    let refuses = request.kind != RequestKind::Question && REFUSALS.contains(&wanted.as_str());
    let by_kind = |kind: &str| {
        options
            .iter()
            .find(|option| option.kind.as_str().starts_with(kind))
    };
    let found = options
        .iter()
        .find(|option| option.id == answer)
        .or_else(|| match wanted.as_str() {
            "y" | "yes" | "allow" | "ok" => by_kind("allow_once").or_else(|| by_kind("allow")),
            "a" | "always" => by_kind("allow_always"),
            "n" | "no" | "reject" | "deny" => by_kind("reject_once").or_else(|| by_kind("reject")),
            "never" => by_kind("reject_always").or_else(|| by_kind("reject")),
            _ => None,
        })
        .or_else(|| {
            let number = wanted.parse::<usize>().ok()?.checked_sub(1)?;
            options.get(number)
        })
        .or_else(|| {
            options.iter().find(|option| {
                if refuses {
                    // "Notify me" does not mean "no".
                    is_refusal(option)
                } else {
                    !wanted.is_empty() && option.label.to_lowercase().starts_with(&wanted)
                }
            })
        });
    let refused = || refuses.then(|| NOBODY.to_owned());
    let is_free = request.kind == RequestKind::Question || options.is_empty();
    let free = || (is_free && !wanted.is_empty()).then(|| answer.to_owned());
    let found = found.map(|option| option.id.clone());
    found.or_else(refused).or_else(free)
}

/// Returns whether an option that does not say its kind refuses, by its first word.
fn is_refusal(option: &Choice) -> bool {
    let label = option.label.to_lowercase();
    let first = label.split(|c: char| !c.is_alphanumeric()).next();
    !option.kind.allows() && first.is_some_and(|word| REFUSALS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::{Choice, NOBODY, choose, requests};

    #[test]
    fn answers_are_understood() {
        let option = |id: &str, label: &str, kind: &str| Choice {
            id: id.into(),
            label: label.into(),
            kind: kind.into(),
        };
        let options = vec![
            option("once", "Allow once", "allow_once"),
            option("ever", "Always allow", "allow_always"),
            option("no", "Reject", "reject_once"),
        ];
        let request = |kind: &str, options: &[Choice]| requests::Request {
            id: "1".into(),
            kind: kind.into(),
            title: "may it?".into(),
            options: options.to_vec(),
            detail: String::new(),
        };
        for (said, meant) in [
            ("once", "once"),
            ("yes", "once"),
            ("always", "ever"),
            ("n", "no"),
            ("3", "no"),
            ("rej", "no"),
        ] {
            let chosen = choose(&request("permission", &options), said);
            assert_eq!(chosen.as_deref(), Some(meant), "{said}");
        }
        for said in ["use the other file", "9", "0", "", "maybe"] {
            assert_eq!(
                choose(&request("permission", &options), said),
                None,
                "{said}"
            );
        }
        let free = choose(&request("question", &options), "use the other file");
        assert_eq!(free.as_deref(), Some("use the other file"));
        let free = choose(&request("permission", &[]), "9");
        assert_eq!(free.as_deref(), Some("9"));
        let never = choose(&request("permission", &options), "never");
        assert_eq!(never.as_deref(), Some("no"));
        let only = [option("go", "Notify me and go", "allow_once")];
        for said in ["no", "N", "never", "deny"] {
            for options in [&[][..], &only] {
                let refused = choose(&request("permission", options), said);
                assert_eq!(refused.as_deref(), Some(NOBODY), "{said}");
            }
        }
        let plain = [option("a", "Yes", ""), option("b", "No, stop", "")];
        let chosen = choose(&request("permission", &plain), "no");
        assert_eq!(chosen.as_deref(), Some("b"));
        assert_eq!(
            choose(&request("question", &[]), "no").as_deref(),
            Some("no")
        );
    }
}
