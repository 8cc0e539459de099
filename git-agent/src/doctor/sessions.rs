//! Finds sessions that a crash left half recorded: events that are not in git, states without a supervisor, and
//! leftover processes and worktree records.

use std::fs;
use std::path::Path;

use crate::doctor::{Severity, Visit, lost_file};
use crate::error::{Context as _, Error, Result};
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::{self, Finding as Place, Worktree};
use crate::model::session::{Session, SessionId, State};
use crate::process::{lock, tree};
use crate::session::supervisor::launch;
use crate::session::worktree::hold::while_still;
use crate::session::worktree::{finish_restore, work};
use crate::session::{caller, control};
use crate::store::list::Scope;
use crate::store::log::writer::SessionWriter;
use crate::store::log::{ATTACHMENTS, spool};

pub(super) fn spools(visit: &mut Visit<'_, '_>) -> Result<()> {
    let store = &visit.context.store;
    for sid in store.spooled_sessions()? {
        if lock::is_held(&store.write_lock(sid))? {
            continue;
        }
        let dir = store.spool_dir(sid);
        let tip = match store.log_tip(sid) {
            Ok(tip) => tip,
            // The check of the refs reports it; the spool stays until that is settled.
            Err(_) => continue,
        };
        let seq = tip.as_ref().map_or(0, |tip| tip.session.seq);
        let whole = spool::read_tail(&dir, 0, None, u64::MAX)?;
        let waiting = spool::read_tail(&dir, seq, None, u64::MAX)?.events.len();
        let torn = whole.damaged > 0 || whole.torn > 0;
        if waiting == 0 && !torn && tip.is_some() {
            // Everything is in git; the next writer reuses the file.
            continue;
        }
        let mut what = Vec::new();
        if tip.is_none() {
            what.push("the session has no ref".to_owned());
        }
        if waiting > 0 {
            what.push(format!("{waiting} events are not in git yet"));
        }
        if torn {
            what.push(format!(
                "{} damaged lines, {} bytes of an unfinished one",
                whole.damaged, whole.torn
            ));
        }
        let how = match (waiting > 0, torn) {
            (true, false) => "write the events to git",
            (true, true) => "write the intact events to git, and keep the spool in agents/lost",
            _ => "keep the spool in agents/lost",
        };
        visit.repair(
            ("spools", Severity::Warning),
            dir.join(spool::FILE).display(),
            what.join("; "),
            how,
            |context| {
                context.store.recover(&context.redactor())?;
                let seq = context.store.log_tip(sid)?.map_or(0, |tip| tip.session.seq);
                if !spool::read_tail(&dir, seq, None, u64::MAX)?
                    .events
                    .is_empty()
                {
                    return Err(Error::fatal("some events could not be written to git"));
                }
                if torn || seq == 0 {
                    let place = lost_file(context, &format!("spool-{sid}"))?;
                    fs::rename(dir.join(spool::FILE), place)
                        .context(|| "cannot move it away".into())?;
                    if !dir.join(ATTACHMENTS).exists() {
                        let _ = fs::remove_dir(&dir);
                    }
                }
                Ok(())
            },
        );
    }
    Ok(())
}

pub(super) fn interrupted(visit: &mut Visit<'_, '_>) -> Result<()> {
    let listing = visit.context.store.list(Scope::All)?;
    for bad in &listing.unreadable {
        visit.found(
            "sessions",
            Severity::Warning,
            &bad.name,
            format!("cannot be read: {}", bad.reason),
        );
    }
    for listed in listing.sessions {
        let is_mine = listed.is_mine();
        let mut session = listed.session;
        if !is_mine
            || launch::true_state(&visit.context.store, &session)? != State::Interrupted
            || session.status == State::Interrupted
        {
            continue;
        }
        visit.repair(
            ("sessions", Severity::Warning),
            session.name.clone(),
            format!("recorded as {}, but its supervisor is dead", session.status),
            "record that it was interrupted",
            |context| {
                session.status = State::Interrupted;
                control::recover::notice_dead(context, std::slice::from_ref(&session)).map(|_| ())
            },
        );
    }
    Ok(())
}

pub(super) fn orphans(visit: &mut Visit<'_, '_>) -> Result<()> {
    let store = &visit.context.store;
    // Only a killed supervisor leaves its file. Asking for every session would read all processes each time.
    let Ok(entries) = fs::read_dir(store.dir().join("run")) else {
        return Ok(());
    };
    let sids: Vec<SessionId> = entries
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".json")?
                .parse()
                .ok()
        })
        .collect();
    for sid in sids {
        if launch::running(store, sid)?.is_some() || lock::is_held(&launch::run_lock(store, sid))? {
            continue;
        }
        let supervisors = launch::supervisors(&visit.context.store);
        let left: Vec<String> = tree::marked(caller::MARK, sid.as_str())
            .into_iter()
            .filter(|stat| !supervisors.contains(&stat.pid))
            .map(|stat| format!("{} ({})", stat.pid, stat.name))
            .collect();
        if left.is_empty() {
            continue;
        }
        visit.repair(
            ("processes", Severity::Warning),
            sid,
            format!(
                "a dead supervisor left processes running: {}",
                left.join(", ")
            ),
            "end them",
            |context| control::stop::end_orphans(context, sid).map(|_| ()),
        );
    }
    Ok(())
}

pub(super) fn worktrees(visit: &mut Visit<'_, '_>) -> Result<()> {
    let sessions = visit.context.store.list(Scope::Mine)?.sessions;
    let ours = |path: &std::path::Path| {
        sessions.iter().find(|listed| {
            let worktree = listed.session.local.worktree.as_deref();
            worktree.is_some_and(|known| std::path::Path::new(known) == path)
        })
    };
    for found in worktree::list(visit.context.repo)? {
        if found.is_main() || found.locked.is_some() {
            continue;
        }
        let Some(listed) = ours(&found.path) else {
            continue;
        };
        let name = &listed.session.name;
        match worktree::inspect(&found) {
            Place::Missing => missing(visit, name, &found),
            Place::Foreign => foreign(visit, name, &found),
            Place::InPlace => {}
        }
    }
    for listed in &sessions {
        moved(visit, &listed.session)?;
        unfinished(visit, &listed.session)?;
    }
    Ok(())
}

/// Finds worktrees that were never finished and restores that were interrupted by a crash.
fn unfinished(visit: &mut Visit<'_, '_>, session: &Session) -> Result<()> {
    let Some(path) = session.local.worktree.as_deref() else {
        return Ok(());
    };
    if finish_restore::is_left(visit.context, session)? {
        let what = format!("the worktree of session '{}' is incomplete", session.name);
        let how = "remove it; its branch and its snapshots stay";
        visit.repair(("worktrees", Severity::Error), path, what, how, |context| {
            while_still(context, session, || finish_restore::sweep(context, session)).map(drop)
        });
    }
    let repo = visit.context.repo;
    lost_record(visit, session, Path::new(path))?;
    let Some(admin_dir) = worktree::admin_dir_of(repo, Path::new(path))? else {
        return Ok(());
    };
    let at = Checkout {
        admin_dir,
        top: path.into(),
    };
    damaged_index(visit, session, &at);
    if repo.is_half(&at) {
        let name = &session.name;
        let (what, how) = match repo.malformed_mark(&at) {
            Some(mark) => (
                format!(
                    "the files of session '{name}' may be half restored: '{}' is malformed",
                    mark.display()
                ),
                "bring back the newest snapshot; the current files are kept in a ref for 30 days",
            ),
            None => (
                format!("the files of session '{name}' are half restored"),
                "finish that; the half is kept in a ref for 30 days",
            ),
        };
        visit.repair(("worktrees", Severity::Error), path, what, how, |context| {
            finish_restore::finish(context, session, &at).map(drop)
        });
    }
    Ok(())
}

/// A worktree whose files are there and whose record is gone.
fn lost_record(visit: &mut Visit<'_, '_>, session: &Session, path: &Path) -> Result<()> {
    let guest = session.settings.shares.is_some();
    let Some(branch) = session.branch.as_deref().filter(|_| !guest) else {
        return Ok(());
    };
    let Some(record) = worktree::lost_record(visit.context.repo, path)? else {
        return Ok(());
    };
    let what = format!(
        "git's record of the worktree of session '{}' is gone: '{}'",
        session.name,
        record.display()
    );
    let how = "make the record again; the files stay as they are";
    let finding = ("worktrees", Severity::Error);
    visit.repair(finding, path.display(), what, how, |context| {
        while_still(context, session, || {
            worktree::register_again(context.repo, path, &record, branch)
        })
    });
    Ok(())
}

/// A worktree whose index cannot be read.
fn damaged_index(visit: &mut Visit<'_, '_>, session: &Session, at: &Checkout) {
    let guest = session.settings.shares.is_some();
    let index = at.admin_dir.join("index");
    let Some(damage) = visit.context.repo.index_damage(&index).filter(|_| !guest) else {
        return;
    };
    let what = format!(
        "the index of the worktree of session '{}' is damaged: {damage}",
        session.name
    );
    let how = "make it again from HEAD and keep the damaged one in agents/lost; the files stay as they are";
    let finding = ("worktrees", Severity::Error);
    visit.repair(finding, index.display(), what, how, |context| {
        while_still(context, session, || {
            let kept = lost_file(context, &format!("index-{}", session.sid))?;
            fs::rename(&index, kept).context(|| "cannot put it aside".into())?;
            worktree::rebuild_index(context.repo, at)
        })
    });
}

fn missing(visit: &mut Visit<'_, '_>, name: &str, found: &Worktree) {
    let near: Vec<_> = found.path.parent().map(Into::into).into_iter().collect();
    let shown = found.path.display();
    if let Some(place) = worktree::search_moved(found, &near) {
        let place = place.display();
        visit.found(
            "worktrees",
            Severity::Warning,
            shown,
            format!(
                "the worktree of session '{name}' was moved by hand: git worktree repair '{place}'"
            ),
        );
        return;
    }
    visit.repair(
        ("worktrees", Severity::Warning),
        shown,
        format!("the worktree of session '{name}' is gone, but git still lists it"),
        "remove it from git's list; its branch and its snapshots stay",
        |context| {
            let admin = found.admin_dir.clone();
            worktree::prune_missing(context.repo, |other| other.admin_dir == admin).map(|_| ())
        },
    );
}

/// Reports a worktree whose `.git` does not lead to this repository.
fn foreign(visit: &mut Visit<'_, '_>, name: &str, found: &Worktree) {
    let shown = found.path.display();
    if worktree::is_stale(found) {
        visit.repair(
            ("worktrees", Severity::Error),
            shown,
            format!(
                "the worktree of session '{name}' points to a repository that does not exist: was this one moved?"
            ),
            "point it to this repository: git worktree repair",
            |context| {
                worktree::repair(context.repo, &found.path)?;
                match worktree::inspect(found) {
                    Place::InPlace => Ok(()),
                    _ => Err(Error::fatal("git could not repair it")),
                }
            },
        );
        return;
    }
    visit.found(
        "worktrees",
        Severity::Error,
        shown,
        format!(
            "the worktree of session '{name}' does not belong to this repository; check its '.git' file"
        ),
    );
}

/// Reports a worktree that was moved since the session recorded its path.
fn moved(visit: &mut Visit<'_, '_>, session: &Session) -> Result<()> {
    let Some(known) = work::moved(visit.context, session)? else {
        return Ok(());
    };
    let place = known.path.display();
    visit.repair(
        ("worktrees", Severity::Warning),
        &place,
        format!(
            "the worktree of session '{}' was moved here from '{}'",
            session.name,
            session.local.worktree.as_deref().unwrap_or_default()
        ),
        "record the new path; an agent that finds its conversations by directory may lose them",
        |context| {
            let mut writer = SessionWriter::open(&context.store, session.sid, context.redactor())?;
            work::record_move(&mut writer, &known)?;
            writer.close().map(|_| ())
        },
    );
    Ok(())
}
