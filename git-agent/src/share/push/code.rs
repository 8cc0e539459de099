//! The code of sessions, added to their logs before a push so that it is pushed with them.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::model::event::Body;
use crate::model::session::{Session, SessionId};
use crate::session::control::archive;
use crate::share::outgoing::{Looker, look_ahead, look_into_code};
use crate::share::push::Options;
use crate::store::list::Scope;
use crate::store::log::writer::SessionWriter;

/// Why the code of a session is not pushed yet.
pub(super) const AT_WORK: &str = "it is still at work";

/// Adds the code of the sessions to their logs before the push. Returns why the code of some sessions is not pushed.
pub(super) fn bring_code(
    context: &Context<'_>,
    options: &Options,
    looker: Looker<'_>,
) -> Result<BTreeMap<SessionId, String>> {
    let mut fresh = Vec::new();
    for listed in context.store.list(Scope::Mine)?.sessions {
        let session = listed.session;
        let wanted = options
            .sessions
            .as_ref()
            .is_none_or(|only| only.contains(&session.sid));
        // A session fetched by hand names branches of a teammate.
        let own = looker.writers.contains(&session.writer);
        let Some(tip) = listed.tip.filter(|_| wanted && own) else {
            continue;
        };
        if let Some(code) = archive::unsubmitted(context, &session, tip)? {
            fresh.push((session, tip, code));
        }
    }
    let code = fresh.iter().map(|(_, _, code)| *code);
    look_ahead(context.repo, looker, code);
    let mut codeless = BTreeMap::new();
    for (session, tip, code) in fresh {
        if let Some(reason) = submit(context, &session, (tip, code), looker)? {
            codeless.insert(session.sid, reason);
        }
    }
    Ok(codeless)
}

/// Makes the tip of a session's branch a parent of its log, so that the code is pushed with it. Returns why not, if it
/// cannot.
fn submit(
    context: &Context<'_>,
    session: &Session,
    (tip, code): (ObjectId, ObjectId),
    looker: Looker<'_>,
) -> Result<Option<String>> {
    if let Err(error) = look_into_code(context.repo, looker, code) {
        return Ok(Some(error.message().to_owned()));
    }
    let busy = crate::process::lock::is_held(&context.store.write_lock(session.sid))?;
    if busy || context.store.log_tip(session.sid)?.map(|now| now.id) != Some(tip) {
        return Ok(Some(AT_WORK.to_owned()));
    }
    let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
    writer.append(Body::Submit {
        commit: code.to_string(),
    })?;
    writer.close()?;
    Ok(None)
}
