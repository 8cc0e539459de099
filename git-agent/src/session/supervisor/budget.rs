//! The budgets of sessions: of one alone, and of a group together.

use std::time::Duration;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::session::{Session, Usage};
use crate::session::supervisor::limits;
use crate::store::Store;
use crate::store::list::Scope;

/// The hint for an exceeded budget.
pub const RAISE: &str =
    "raise agent.maxCost, agent.maxTokens or the limit of its group to let it continue";

/// A budget. The usage is reported by the vendors: usage that they do not report cannot be limited.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// The most it may cost, in US dollars.
    pub cost: Option<f64>,
    /// The most tokens.
    pub tokens: Option<u64>,
    /// The longest it may work.
    pub time: Option<Duration>,
}

/// The usage so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// US dollars.
    pub cost: f64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Time worked.
    pub time: Duration,
}

impl Budget {
    /// Returns whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Budget::default()
    }

    /// Describes the exceeded limit, if any.
    pub fn complaint(&self, spent: &Spent, whose: &str) -> Option<String> {
        if let Some(limit) = self.cost.filter(|limit| spent.cost > *limit) {
            // A limit below a cent is not told as none.
            let places = if limit < 0.01 { 6 } else { 2 };
            return Some(format!("over the budget of ${limit:.places$}{whose}"));
        }
        if let Some(limit) = self.tokens.filter(|limit| spent.tokens > *limit) {
            return Some(format!("over the budget of {limit} tokens{whose}"));
        }
        let limit = self.time.filter(|limit| spent.time >= *limit)?;
        Some(format!(
            "over the time limit of {} seconds{whose}",
            limit.as_secs()
        ))
    }
}

impl Spent {
    /// Returns the usage that a vendor reports, without the time.
    pub fn of(usage: &Usage) -> Self {
        Spent {
            cost: usage.cost_usd.unwrap_or(0.0),
            tokens: usage
                .input_tokens
                .unwrap_or(0)
                .saturating_add(usage.output_tokens.unwrap_or(0)),
            time: Duration::ZERO,
        }
    }
}

/// Describes the exceeded limit of a session or its group, if any.
pub fn used_up(context: &Context<'_>, session: &Session) -> Result<Option<String>> {
    let bounds = limits::load(context, session)?;
    let own = bounds.budget.complaint(&Spent::of(&session.usage), "");
    if own.is_some() {
        return Ok(own);
    }
    let Some((group, budget)) = bounds.group else {
        return Ok(None);
    };
    let spent = spent_by_group(&context.store, &group)?;
    Ok(budget.complaint(&spent, &format!(" for group '{group}'")))
}

/// Makes sure that a session may be given more to do.
pub fn require(context: &Context<'_>, session: &Session) -> Result<()> {
    let Some(words) = used_up(context, session)? else {
        return Ok(());
    };
    let message = format!("session '{}' cannot continue: it is {words}", session.name);
    Err(Error::fatal(message).hint(RAISE))
}

/// Returns the usage of all sessions of a group, including running ones.
pub fn spent_by_group(store: &Store<'_>, group: &str) -> Result<Spent> {
    let now = store.env.now();
    let mut all = Spent::default();
    for listed in store.list(Scope::Mine)?.sessions {
        let session = &listed.session;
        if session.group.as_deref() != Some(group) {
            continue;
        }
        let spent = Spent::of(&session.usage);
        let running = session
            .turn_started
            .filter(|_| session.status.is_working())
            .map_or(0, |started| now.0.saturating_sub(started.0));
        all.cost += spent.cost;
        all.tokens = all.tokens.saturating_add(spent.tokens);
        all.time += Duration::from_millis(session.worked_ms + running);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_said() {
        let budget = Budget {
            cost: Some(1.0),
            tokens: Some(100),
            time: Some(Duration::from_secs(60)),
        };
        let mut spent = Spent {
            cost: 1.0,
            tokens: 100,
            time: Duration::from_secs(59),
        };
        assert_eq!(budget.complaint(&spent, ""), None, "all of it may be used");
        spent.tokens = 101;
        let words = budget.complaint(&spent, " for group 'g'");
        assert_eq!(
            words.as_deref(),
            Some("over the budget of 100 tokens for group 'g'")
        );
        spent.cost = 1.01;
        let words = budget.complaint(&spent, "");
        assert_eq!(words.as_deref(), Some("over the budget of $1.00"));
        let tiny = Budget {
            cost: Some(0.004),
            ..Budget::default()
        };
        let words = tiny.complaint(&spent, "");
        assert_eq!(words.as_deref(), Some("over the budget of $0.004000"));
        assert!(Budget::default().is_empty());
        assert_eq!(Budget::default().complaint(&spent, ""), None);
    }
}
