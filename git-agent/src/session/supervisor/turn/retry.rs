//! Decides whether and when a turn that failed because of the model is tried again.

use std::time::Duration;

use crate::agent::driver::{Trouble, TroubleKind};
use crate::config::settings;
use crate::context::Context;
use crate::error::Result;

/// How long a provider is left alone that does not say how long: at first, and at most.
const UNSAID: Duration = Duration::from_secs(30);
const UNSAID_MOST: Duration = Duration::from_secs(10 * 60);
/// How long to wait after the model's service failed, at first.
const FAILED: Duration = Duration::from_secs(5);
/// An agent that has tried for so long by itself has tried enough.
const TRIED: Duration = Duration::from_secs(60);

/// The attempts that are left in one turn.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How often a turn may be tried again.
    pub retries: u64,
    /// The longest a provider's limit is waited for.
    pub cool_down: Duration,
    tried: u32,
}

impl Patience {
    /// Returns the patience that the settings say.
    pub fn load(context: &Context<'_>) -> Result<Self> {
        let config = &context.config;
        Ok(Patience {
            retries: config.require(&settings::RETRIES)?,
            cool_down: longest_cool_down(context)?,
            tried: 0,
        })
    }

    /// Returns how often the turn has been tried again.
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// Returns whether the turn may be tried once more, and counts that.
    pub fn once_more(&mut self) -> bool {
        let more = u64::from(self.tried) < self.retries;
        self.tried += u32::from(more);
        more
    }

    /// Returns after how long the turn shall be tried again; `None` when that would not help or has been done enough.
    /// `took` is how long the agent has tried by itself.
    pub fn after(&mut self, trouble: &Trouble, took: Duration) -> Option<Duration> {
        let wait = match trouble.kind {
            TroubleKind::RateLimit => wait_for_limit(trouble, self.tried),
            TroubleKind::Model if took < TRIED => FAILED * 4_u32.pow(self.tried.min(4)),
            _ => return None,
        };
        let bearable = trouble.kind != TroubleKind::RateLimit || wait <= self.cool_down;
        (bearable && self.once_more()).then_some(wait)
    }
}

/// Returns the longest that a provider's limit is waited for.
pub fn longest_cool_down(context: &Context<'_>) -> Result<Duration> {
    context.config.require(&settings::MAX_COOL_DOWN)
}

/// Returns how long a provider wants to be left alone, or is when it does not say.
pub fn wait_for_limit(trouble: &Trouble, tried: u32) -> Duration {
    match trouble.retry_after {
        // A moment more than it says: clocks differ.
        Some(seconds) => Duration::from_secs(seconds.max(1)),
        None => (UNSAID * 2_u32.pow(tried.min(6))).min(UNSAID_MOST),
    }
}

/// Returns a span in words.
pub fn in_words(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..=119 => format!("{} s", seconds.max(1)),
        seconds @ 120..=7199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        Patience {
            retries: 2,
            cool_down: Duration::from_secs(60 * 60),
            tried: 0,
        }
    }

    fn trouble(kind: TroubleKind, text: &str) -> Trouble {
        Trouble::new(kind, text)
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_the_provider_says() {
        let said = trouble(TroubleKind::RateLimit, "429, retry after 7 s");
        let mut patience = patience();
        let wait = Duration::from_secs(7);
        assert_eq!(patience.after(&said, TRIED), Some(wait));
        assert_eq!(patience.after(&said, TRIED), Some(wait));
        assert_eq!(patience.after(&said, TRIED), None, "not for ever");
    }

    #[test]
    fn without_a_word_the_waits_grow() {
        let unsaid = trouble(TroubleKind::RateLimit, "429");
        let mut patience = patience();
        assert_eq!(patience.after(&unsaid, Duration::ZERO), Some(UNSAID));
        assert_eq!(patience.after(&unsaid, Duration::ZERO), Some(UNSAID * 2));
    }

    #[test]
    fn what_cannot_be_borne_or_does_not_help_is_not_tried() {
        let far = trouble(TroubleKind::RateLimit, "limit, try again in 5 hours");
        assert_eq!(patience().after(&far, Duration::ZERO), None);
        let model = trouble(TroubleKind::Model, "500");
        assert_eq!(patience().after(&model, Duration::ZERO), Some(FAILED));
        assert_eq!(patience().after(&model, TRIED), None);
        for kind in [
            TroubleKind::Auth,
            TroubleKind::Context,
            TroubleKind::Crash,
            TroubleKind::NotInstalled,
        ] {
            let trouble = trouble(kind, "x");
            assert_eq!(patience().after(&trouble, Duration::ZERO), None, "{kind:?}");
        }
    }

    #[test]
    fn spans_are_said_in_the_unit_that_fits() {
        for (seconds, words) in [(0, "1 s"), (90, "90 s"), (300, "5 min"), (9000, "3 h")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
