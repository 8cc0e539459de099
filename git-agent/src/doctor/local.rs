//! Checks the facts of this clone about its sessions: each session has a file, and each file has a session.

use crate::doctor::{Severity, Visit};
use crate::error::Result;
use crate::model::session::{Session, SessionId};
use crate::process::lock;
use crate::session::worktree::work;
use crate::store::list::{Listed, Scope};
use crate::store::log::writer::SessionWriter;

pub(super) fn lost(visit: &mut Visit<'_, '_>) -> Result<()> {
    let store = &visit.context.store;
    let listing = store.list(Scope::Archived)?;
    let mine: Vec<&Listed> = listing.sessions.iter().filter(|l| l.is_mine()).collect();
    let is_known = |sid: &SessionId| {
        let unreadable = |name: &str| name.ends_with(sid.as_str());
        mine.iter().any(|listed| listed.session.sid == *sid)
            || listing.unreadable.iter().any(|bad| unreadable(&bad.name))
    };
    for listed in &mine {
        missing(visit, listed)?;
    }
    for sid in store.local_sessions() {
        // Written before the session's record: one that is just being made is not left over.
        if is_known(&sid) || lock::is_held(&store.write_lock(sid))? || store.session(sid)?.is_some()
        {
            continue;
        }
        visit.repair(
            ("local", Severity::Note),
            store.local_file(sid).display(),
            "no session has this file".to_owned(),
            "remove it",
            |context| {
                context.store.remove_local(sid);
                Ok(())
            },
        );
    }
    Ok(())
}

fn missing(visit: &mut Visit<'_, '_>, listed: &Listed) -> Result<()> {
    let (store, session) = (&visit.context.store, &listed.session);
    let (Some(tip), false) = (listed.tip, listed.archived) else {
        return Ok(());
    };
    // A session of an earlier version has these facts in its record until it is written again.
    let recorded = Session::from(store.state_at(tip, session.sid)?).local;
    if store.local(session.sid).is_some() || !recorded.is_empty() {
        return Ok(());
    }
    visit.repair(
        ("local", Severity::Note),
        store.local_file(session.sid).display(),
        format!(
            "the file with the worktree of session '{}' is missing or damaged",
            session.name
        ),
        "write it again from git's list of worktrees",
        |context| {
            let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
            work::choose_place(context, &mut writer)?;
            writer.set_local(|_| {})?;
            writer.close().map(|_| ())
        },
    );
    Ok(())
}
