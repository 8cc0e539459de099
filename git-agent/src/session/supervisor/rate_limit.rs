//! Rate limits of providers: a session that meets one records its end, and every session of that provider waits until then.

use std::path::PathBuf;
use std::time::Duration;

use crate::env::Millis;
use crate::error::Result;
use crate::file::{self, Durability};
use crate::model::session::SessionId;
use crate::store::Store;

/// Sessions that go on at the same moment would meet the limit together again: they are spread over so long.
const SPREAD: u64 = 2_000;

/// Notes that a provider wants to be left alone for a while. Returns until when; an earlier, longer wish stands.
pub fn note(store: &Store<'_>, provider: &str, wait: Duration) -> Result<Millis> {
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let until = Millis(store.env.now().0.saturating_add(wait));
    if let Some(known) = until_when(store, provider)
        && known >= until
    {
        return Ok(known);
    }
    let path = file(store, provider)?;
    file::replace(&path, format!("{}\n", until.0), Durability::Volatile)?;
    Ok(until)
}

/// Returns until when a provider wants to be left alone, if it does now.
pub fn until_when(store: &Store<'_>, provider: &str) -> Option<Millis> {
    let text = std::fs::read_to_string(file(store, provider).ok()?).ok()?;
    let until = Millis(text.trim().parse().ok()?);
    (until > store.env.now()).then_some(until)
}

/// Returns when one of the sessions that wait goes on.
pub fn turn_of(sid: SessionId, until: Millis) -> Millis {
    let spread = sid
        .as_str()
        .bytes()
        .fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    Millis(until.0.saturating_add(spread % SPREAD))
}

fn file(store: &Store<'_>, provider: &str) -> Result<PathBuf> {
    Ok(store.require_dir("cooldown")?.join(provider))
}
