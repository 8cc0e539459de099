//! Why a queued session waits: for other sessions, for its place in the queue, or for a worktree in use.

use crate::context::Context;
use crate::listing::row::Summary;
use crate::model::session::{Session, State};
use crate::process::slots::Slots;
use crate::session::supervisor::dependencies::{self, Look};
use crate::session::supervisor::launch;

/// Adds to each queued row why it waits. A reason that cannot be determined is left out.
pub fn explain(context: &Context<'_>, rows: &mut [&mut Summary]) {
    let is_queued = |row: &&mut &mut Summary| row.mine && row.state == State::Queued;
    let mut queue: Option<Vec<u32>> = None;
    for row in rows.iter_mut().filter(is_queued) {
        if let Some(names) = needed(context, &row.session) {
            row.waits = Some(format!("waits for {names}"));
            continue;
        }
        let queue = queue.get_or_insert_with(|| {
            let slots = Slots::new(context.store.dir().join("slots"), 1);
            slots.pids_in_queue().unwrap_or_default()
        });
        row.ahead_in_queue = queue.iter().position(|pid| Some(*pid) == row.pid);
        row.waits = match row.ahead_in_queue {
            Some(0) => Some("next in the queue".to_owned()),
            Some(ahead) => Some(format!("{ahead} before it")),
            None if row.session.settings.shares.is_some() => {
                Some("waits for its worktree, which another session uses".to_owned())
            }
            None => None,
        };
    }
}

/// Returns the names of the sessions that a session still waits for.
fn needed(context: &Context<'_>, session: &Session) -> Option<String> {
    let Ok(Look::Waiting(sessions, _)) = dependencies::look(context, session) else {
        return None;
    };
    let name = |sid| Some(launch::current(&context.store, sid).ok()??.record.name);
    let names: Vec<String> = sessions.into_iter().filter_map(name).collect();
    match names.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [one, other] => Some(format!("{one} and {other}")),
        [one, rest @ ..] => Some(format!("{one} and {} others", rest.len())),
    }
}
