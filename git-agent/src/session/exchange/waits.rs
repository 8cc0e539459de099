//! The waits of sessions for answers: a file for each wait, so that a circle is refused before it begins.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::file::{self, Durability};
use crate::model::session::SessionId;
use crate::process::lock::{self, Lock};
use crate::session::supervisor::launch;

/// How long other commands may take to register a wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// A wait that is registered until dropped.
#[derive(Debug)]
#[must_use]
pub struct Waiting(PathBuf);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Registers that one session waits for another. Fails if that would close a circle, and names it.
pub fn register(context: &Context<'_>, waiter: SessionId, awaited: SessionId) -> Result<Waiting> {
    let directory = context.store.require_dir("waits")?;
    let _order = Lock::acquire(context.env, directory.join("order.lock"), PATIENCE)?;
    let name = |sid: SessionId| -> Result<String> {
        let known = context.store.session(sid)?;
        Ok(known.map_or_else(|| sid.to_string(), |session| session.record.name))
    };
    let mut way = vec![name(waiter)?];
    let mut next = Some(awaited);
    while let Some(sid) = next {
        way.push(name(sid)?);
        if sid == waiter {
            let message = format!("this wait would close a circle: {}", way.join(" -> "));
            return Err(Error::fatal(message).hint("send the message without --wait"));
        }
        let path = directory.join(sid.as_str());
        let waits_for = fs::read_to_string(&path).ok();
        // One whose supervisor died waits no more.
        let lives = lock::is_held(&launch::run_lock(&context.store, sid))?;
        next = waits_for
            .filter(|_| lives)
            .and_then(|text| text.trim().parse().ok());
        if way.len() > 1000 {
            break;
        }
    }
    let path = directory.join(waiter.as_str());
    file::replace(
        &path,
        awaited.to_string().into_bytes(),
        Durability::Volatile,
    )
    .context(|| "cannot register the wait".into())?;
    Ok(Waiting(path))
}
