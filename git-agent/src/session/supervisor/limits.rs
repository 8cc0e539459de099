//! The limits of a session, from its role and the settings.

use std::time::Duration;

use crate::config::keys::parse_money;
use crate::config::{parse_duration, parse_number};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::session::Session;
use crate::process::limits::{LimitPlan, Limits, plan_limits};
use crate::session::supervisor::budget::Budget;

/// An agent that says nothing for so long counts as stuck, unless configured otherwise.
const STUCK: Duration = Duration::from_secs(10 * 60);
/// A request that nobody answers for so long is refused, unless configured otherwise.
const ANSWER: Duration = Duration::from_secs(60 * 60);

/// What bounds a turn.
#[derive(Debug, Clone)]
pub struct TurnBounds {
    /// How long a turn may take.
    pub timeout: Option<Duration>,
    /// How long an agent may be silent before it counts as stuck.
    pub stuck_after: Option<Duration>,
    /// What is done with one that is.
    pub when_stuck: WhenStuck,
    /// How long a request may stay unanswered.
    pub answer_within: Option<Duration>,
    /// What the whole session may use.
    pub budget: Budget,
    /// The session's group, and what that may use together.
    pub group: Option<(String, Budget)>,
    /// What the processes may use.
    pub limits: LimitPlan,
}

/// What is done with an agent that is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenStuck {
    /// It is said, and that is all.
    #[default]
    Wait,
    /// It is ended and started again on the same conversation.
    Restart,
    /// It is ended.
    Stop,
}

/// Gathers what bounds a session's turns.
pub fn load(context: &Context<'_>, session: &Session) -> Result<TurnBounds> {
    let setting = |key: &str| -> Option<String> {
        let of_role = session
            .role
            .as_deref()
            .and_then(|role| context.config.string(&format!("agent-role.{role}.{key}")));
        let chosen = session.settings.limit(key).map(str::to_owned);
        chosen
            .or(of_role)
            .or_else(|| context.config.string(&format!("agent.{key}")))
    };
    let bad = |key: &str, text: &str| {
        Error::fatal(format!("bad config value '{text}' for 'agent.{key}'"))
    };
    let number = |key: &str| -> Result<Option<u64>> {
        setting(key)
            .map(|text| parse_number(&text).ok_or_else(|| bad(key, &text)))
            .transpose()
    };
    let duration = |key: &str| -> Result<Option<Duration>> {
        setting(key)
            .map(|text| parse_duration(&text).ok_or_else(|| bad(key, &text)))
            .transpose()
    };
    let money = |key: &str| -> Result<Option<f64>> {
        setting(key)
            .map(|text| parse_money(&text).ok_or_else(|| bad(key, &text)))
            .transpose()
    };
    let limits = Limits {
        memory: number("maxMemory")?,
        cpu_percent: number("maxCpu")?.map(|percent| u32::try_from(percent).unwrap_or(u32::MAX)),
        ..Limits::default()
    };
    // 0 switches a clock off, as it does in git.
    let on = |limit: Duration| (!limit.is_zero()).then_some(limit);
    let when_stuck = match setting("whenStuck").as_deref() {
        None | Some("wait") => WhenStuck::Wait,
        Some("restart") => WhenStuck::Restart,
        Some("stop") => WhenStuck::Stop,
        Some(other) => return Err(bad("whenStuck", other)),
    };
    let of_group = Budget {
        cost: money("maxGroupCost")?,
        tokens: number("maxGroupTokens")?,
        time: duration("groupTimeout")?.and_then(on),
    };
    Ok(TurnBounds {
        timeout: duration("timeout")?.and_then(on),
        stuck_after: on(duration("stuckAfter")?.unwrap_or(STUCK)),
        when_stuck,
        answer_within: on(duration("answerTimeout")?.unwrap_or(ANSWER)),
        budget: Budget {
            cost: money("maxCost")?,
            tokens: number("maxTokens")?,
            time: None,
        },
        group: session
            .group
            .clone()
            .filter(|_| !of_group.is_empty())
            .map(|group| (group, of_group)),
        limits: plan_limits(context.env, &limits),
    })
}
