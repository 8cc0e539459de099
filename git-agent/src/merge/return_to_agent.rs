//! Giving a session its work back when the tests fail with it: the log becomes the next prompt of the same conversation.

use std::path::Path;

use crate::context::Context;
use crate::error::Result;
use crate::merge::testing;
use crate::merge::update::{self, How, Outcome};
use crate::model::session::{Session, SessionId};
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts;

/// Who such a prompt comes from, in the words of the transcript.
const FROM: &str = "merge";
/// How much of a log goes into a prompt.
const LOG: usize = 12_000;

/// Sends a session the log of the tests that fail with its work.
pub fn give_back(
    context: &Context<'_>,
    sid: SessionId,
    branch: &str,
    landed: &[&str],
    test: &str,
    log: &str,
) -> Result<()> {
    let updated = context
        .store
        .session(sid)?
        .is_some_and(|session| is_updated(context, &session, branch));
    let log = testing::log_tail(Path::new(log), LOG);
    let text = prompt(branch, landed, updated, test, &log);
    let message = Message::Prompt {
        text,
        from: FROM.to_owned(),
        again: false,
    };
    prompts::send(context, sid, &message).map(|_| ())
}

/// Brings the session up to date, so that it sees what it has to fit to. Where that does not go by itself it is told to.
fn is_updated(context: &Context<'_>, session: &Session, branch: &str) -> bool {
    let updated = update::update(context, session, branch, How::Merge);
    matches!(updated, Ok(Outcome::Updated { .. } | Outcome::Current))
}

fn prompt(branch: &str, landed: &[&str], updated: bool, test: &str, log: &str) -> String {
    let others = match landed {
        [] => String::new(),
        names => format!(
            " The work of others landed there meanwhile: {}.",
            names.join(", ")
        ),
    };
    let bring = match updated {
        true => format!("Your branch has the newest '{branch}' already."),
        false => format!("Bring '{branch}' into your branch first: git merge {branch}"),
    };
    format!(
        "Your work did not land on '{branch}': merged there it makes the tests fail, and without it they pass.{others}\n\
         {bring}\nFind out what does not fit together, and make the tests pass without giving up what either side does.\n\n\
         The tests are: {test}\n\nThe end of their log:\n\n{log}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::prompt;

    #[test]
    fn a_prompt_says_what_failed_and_what_to_do() {
        let text = prompt("main", &["a", "b"], false, "make test", "boom");
        for part in ["'main'", "a, b", "make test", "boom", "git merge main"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
