//! Giving a session its work back when the tests fail with it: the log becomes the next prompt of the same conversation.

use std::path::Path;

use super::testing;
use crate::error::Result;
use crate::session::SessionId;
use crate::session::context::Context;
use crate::session::inbox::Message;
use crate::session::prompts;

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
    let text = prompt(
        branch,
        landed,
        test,
        &testing::log_tail(Path::new(log), LOG),
    );
    let message = Message::Prompt {
        text,
        from: FROM.to_owned(),
    };
    prompts::send(context, sid, &message).map(|_| ())
}

fn prompt(branch: &str, landed: &[&str], test: &str, log: &str) -> String {
    let others = match landed {
        [] => String::new(),
        names => format!(
            " The work of others landed there meanwhile: {}.",
            names.join(", ")
        ),
    };
    format!(
        "Your work did not land on '{branch}': merged there it makes the tests fail, and without it they pass.{others}\n\
         Bring '{branch}' into your branch (git merge {branch}), find out what does not fit together, and make the tests \
         pass without giving up what either side does.\n\n\
         The tests are: {test}\n\nThe end of their log:\n\n{log}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::prompt;

    #[test]
    fn a_prompt_says_what_failed_and_what_to_do() {
        let text = prompt("main", &["a", "b"], "make test", "boom");
        for part in ["'main'", "a, b", "make test", "boom", "git merge main"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
