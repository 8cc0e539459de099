//! The part of a task that goes into commit messages, by `agent.mergeMessage`.

use crate::config::settings;
use crate::context::Context;
use crate::error::Result;
use crate::model::merge::message::TaskText;

/// Returns how much of their tasks commits tell, as configured.
pub fn task_text(context: &Context<'_>) -> Result<TaskText> {
    context.config.require(&settings::MERGE_MESSAGE)?.parse()
}
