//! How much of a task goes into commit messages, by `agent.mergeMessage`.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::merge::message::TaskText;

/// Returns how much of their tasks commits tell, as configured.
pub fn task_text(context: &Context<'_>) -> Result<TaskText> {
    match context.config.string("agent.mergeMessage") {
        Some(word) => word.parse().map_err(|error: Error| {
            Error::fatal(format!(
                "bad value for 'agent.mergeMessage': {}",
                error.message()
            ))
        }),
        None => Ok(TaskText::default()),
    }
}
