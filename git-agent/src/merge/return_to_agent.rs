//! Sends a session the log of the tests that its work broke, as the next prompt of its conversation.

use std::path::Path;

use crate::context::Context;
use crate::error::Result;
use crate::merge::testing;
use crate::merge::update::{self, How, UpdateOutcome};
use crate::model::event_words::Sender;
use crate::model::session::{Session, SessionId};
use crate::session::supervisor::inbox::Message;
use crate::session::supervisor::prompts;

/// Bytes of the log that go into the prompt.
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
        from: Sender::Merge,
        again: false,
    };
    prompts::send(context, sid, &message).map(|_| ())
}

/// Updates the session from the branch first, so that its agent sees the work it must fit. If that fails, the prompt
/// asks the agent to do it.
fn is_updated(context: &Context<'_>, session: &Session, branch: &str) -> bool {
    let updated = update::update(context, session, branch, How::Merge);
    matches!(
        updated,
        Ok(UpdateOutcome::Updated { .. } | UpdateOutcome::Current)
    )
}

fn prompt(branch: &str, landed: &[&str], updated: bool, test: &str, log: &str) -> String {
    let others = match landed {
        [] => String::new(),
        names => format!(
            " Other sessions were merged into it meanwhile: {}.",
            names.join(", ")
        ),
    };
    let bring = if updated {
        format!("Your branch already contains the newest '{branch}'.")
    } else {
        format!("First merge '{branch}' into your branch: git merge {branch}")
    };
    format!(
        "Your work was not merged into '{branch}': the tests fail with it and pass without it.{others}\n\
         {bring}\nFind the incompatible changes and make the tests pass. Keep the behaviour of both sides.\n\n\
         Test command: {test}\n\nThe end of its log:\n\n{log}\n"
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
