//! The limits of a session, from its role and the settings.

use std::time::Duration;

use crate::config::settings::{self, Setting};
use crate::context::Context;
use crate::error::Result;
use crate::model::session::Session;
use crate::process::limits::{LimitPlan, Limits, plan_limits};
use crate::session::supervisor::budget::Budget;

/// The limits of a turn.
#[derive(Debug, Clone)]
pub struct TurnBounds {
    /// How long a turn may take.
    pub timeout: Option<Duration>,
    /// How long an agent may be silent before it counts as stuck.
    pub stuck_after: Option<Duration>,
    /// The action for a stuck agent.
    pub when_stuck: WhenStuck,
    /// How long a request may stay unanswered.
    pub answer_within: Option<Duration>,
    /// The budget of the whole session.
    pub budget: Budget,
    /// The session's group and its common budget.
    pub group: Option<(String, Budget)>,
    /// The limits of the processes.
    pub limits: LimitPlan,
    /// How many processes it may have.
    pub processes: Option<u64>,
    /// How many bytes its files may have.
    pub disk: Option<u64>,
}

/// The action for a stuck agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenStuck {
    /// Only report it.
    #[default]
    Wait,
    /// It is ended and started again on the same conversation.
    Restart,
    /// It is ended.
    Stop,
}

/// A session, for reading the limits that apply to it.
struct Own<'a> {
    context: &'a Context<'a>,
    session: &'a Session,
}

impl Own<'_> {
    /// Returns a limit: chosen for the session, else by its role, else by the settings.
    fn limit<T>(&self, setting: &Setting<T>) -> Result<Option<T>> {
        let chosen = self.session.settings.limit(setting.key.name);
        let role = self.session.role.as_deref();
        self.context.config.get_for(setting, role, chosen)
    }
}

/// Returns the limits of a session's turns.
pub fn load(context: &Context<'_>, session: &Session) -> Result<TurnBounds> {
    let own = Own { context, session };
    let cpu = own.limit(&settings::MAX_CPU)?;
    let limits = Limits {
        memory: own.limit(&settings::MAX_MEMORY)?,
        cpu_percent: cpu.map(|percent| u32::try_from(percent).unwrap_or(u32::MAX)),
        ..Limits::default()
    };
    // 0 switches a clock off, as it does in git.
    let on = |limit: Duration| (!limit.is_zero()).then_some(limit);
    let when_stuck = match own.limit(&settings::WHEN_STUCK)?.as_deref() {
        Some("restart") => WhenStuck::Restart,
        Some("stop") => WhenStuck::Stop,
        _ => WhenStuck::Wait,
    };
    let of_group = Budget {
        cost: own.limit(&settings::MAX_GROUP_COST)?,
        tokens: own.limit(&settings::MAX_GROUP_TOKENS)?,
        time: own.limit(&settings::GROUP_TIMEOUT)?.and_then(on),
    };
    Ok(TurnBounds {
        timeout: own.limit(&settings::TIMEOUT)?.and_then(on),
        stuck_after: own.limit(&settings::STUCK_AFTER)?.and_then(on),
        when_stuck,
        answer_within: own.limit(&settings::ANSWER_TIMEOUT)?.and_then(on),
        budget: Budget {
            cost: own.limit(&settings::MAX_COST)?,
            tokens: own.limit(&settings::MAX_TOKENS)?,
            time: None,
        },
        group: session
            .group
            .clone()
            .filter(|_| !of_group.is_empty())
            .map(|group| (group, of_group)),
        limits: plan_limits(context.env, &limits),
        processes: own.limit(&settings::MAX_PROCESSES)?,
        disk: own.limit(&settings::MAX_DISK)?,
    })
}
