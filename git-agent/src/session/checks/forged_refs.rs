//! Records that no command of git-agent wrote: found after a turn, reported, and never counted as an approval.
//!
//! An agent can read the key with which this clone marks its records, so a mark proves nothing against it. But every
//! command of git-agent logs the refs it moves: a ref of ours that moved during a turn without an entry was moved by
//! hand. An agent that also forges the log is not found; only a guard that keeps it from these files stops that.

use crate::context::Context;
use crate::error::{Result, shell_word};
use crate::git::ObjectId;
use crate::git::refs::move_log::Move;
use crate::git::refs::{Expected, RefChange, Target};
use crate::guard::watch::Refs;
use crate::model::event::Body;
use crate::model::event_words::ErrorKind;
use crate::model::review::{Action, Record, Verdict};
use crate::model::session::{Session, SessionId};
use crate::session::supervisor::launch;
use crate::store::log::writer::SessionWriter;
use crate::store::refname::{self, RefName};

/// How many steps back a ref is followed.
const MOST_STEPS: usize = 10_000;

/// Compares the refs of ours before and after a turn with the moves that programs of ours wrote down meanwhile. Takes
/// forged approvals out, and returns events for the transcript, in words that say `when`.
pub fn look(
    context: &Context<'_>,
    session: &Session,
    (before, after): (&Refs, &Refs),
    (moves, when): (&[Move], &str),
) -> Result<Vec<Body>> {
    let mut told = Vec::new();
    for (name, was, is) in before.differing(after, refname::is_written_by_us) {
        let moves: Vec<&Move> = moves.iter().filter(|step| step.name == name).collect();
        let Some(found) = unexplained(id(was), is.map(|is| id(Some(is))), &moves) else {
            continue;
        };
        let how = match (was, is) {
            (None, _) => "appeared",
            (_, None) => "vanished",
            _ => "moved",
        };
        let mut text = format!("'{name}' {how} {when}, and no command of git-agent did that");
        if let Some(forged) = found {
            let kept = context.store.keep_lost(name, forged)?;
            text.push_str(&format!("; its new value is kept under '{kept}'"));
            told.extend(take_out(context, session, name, (id(was), forged), &moves)?);
        }
        told.push(guarded(text));
    }
    Ok(told)
}

fn id(target: Option<&Target>) -> Option<ObjectId> {
    match target {
        Some(Target::Object(id)) => Some(*id),
        _ => None,
    }
}

/// Follows a ref back from its value now to its value before. `None` if our own moves explain all of it; otherwise the
/// value that none of them set, if it has one.
fn unexplained(
    was: Option<ObjectId>,
    is: Option<Option<ObjectId>>,
    moves: &[&Move],
) -> Option<Option<ObjectId>> {
    let mut value = is.flatten();
    if matches!(is, Some(None)) {
        // Ours are never symbolic.
        return Some(None);
    }
    let mut left = moves;
    for _ in 0..MOST_STEPS {
        if value == was {
            return None;
        }
        // Later moves come later in the list, also where a value comes back.
        let Some(at) = left.iter().rposition(|step| step.new == value) else {
            return Some(value);
        };
        value = left[at].old;
        left = &left[..at];
    }
    Some(value)
}

/// Takes the approvals out of notes that came with a forged version of them. A copy of a remote's notes gets its old
/// value.
fn take_out(
    context: &Context<'_>,
    session: &Session,
    name: &str,
    (was, forged): (Option<ObjectId>, ObjectId),
    moves: &[&Move],
) -> Result<Vec<Body>> {
    if let Some((_, RefName::ReviewNotes(_))) = RefName::parse_at_remote(name) {
        let change = RefChange {
            name: name.to_owned(),
            expected: Expected::At(forged),
            new: was,
        };
        let _ = context.repo.swap_refs(&[change])?;
        return Ok(Vec::new());
    }
    let Some(notes @ RefName::ReviewNotes(_)) = RefName::parse(name) else {
        return Ok(Vec::new());
    };
    // The newest version below it that is known to be ours.
    let is_ours = |id: ObjectId| Some(id) == was || moves.iter().any(|step| step.new == Some(id));
    let mut base = None;
    let mut next = Some(forged);
    for _ in 0..MOST_STEPS {
        let Some(id) = next else { break };
        let parents = context.repo.read_commit(id)?.parents;
        next = parents.first().copied();
        base = next.filter(|id| is_ours(*id));
        if base.is_some() {
            break;
        }
    }
    let approves = |line: &[u8]| approval(line).is_some();
    let lines = context
        .store
        .take_out_notes(&notes, (base.or(was), forged), &approves)?;
    let mut told = Vec::new();
    for record in lines.iter().filter_map(|line| approval(line)) {
        let judged = context.store.session(record.sid)?;
        let judged = judged.map_or_else(|| record.sid.to_string(), |judged| judged.record.name);
        let text = format!(
            "an approval of '{judged}' in the name of '{}' appeared during a turn of '{}', and no command of git-agent wrote \
             it: it was taken out and does not count; if it was meant: git agent review approve {}",
            record.who.name,
            session.name,
            shell_word(&judged)
        );
        if record.sid != session.sid {
            tell(context, record.sid, &text)?;
        }
        told.push(guarded(text));
    }
    Ok(told)
}

fn approval(line: &[u8]) -> Option<Record> {
    let record = Record::from_line(std::str::from_utf8(line).ok()?).ok()?;
    let approves = matches!(
        record.action,
        Action::Verdict {
            verdict: Verdict::Approve,
            ..
        }
    );
    approves.then_some(record)
}

/// Tells the session that was judged as well, unless its own supervisor writes there now.
fn tell(context: &Context<'_>, sid: SessionId, text: &str) -> Result<()> {
    if context.store.session(sid)?.is_none() {
        return Ok(());
    }
    launch::without_supervisor(context, sid, || {
        let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
        writer.append(guarded(text.to_owned()))?;
        writer.close()
    })?;
    Ok(())
}

fn guarded(text: String) -> Body {
    Body::Error {
        kind: ErrorKind::Guard,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(digit: char) -> Option<ObjectId> {
        String::from(digit).repeat(40).parse().ok()
    }

    fn step(old: Option<ObjectId>, new: Option<ObjectId>) -> Move {
        Move {
            name: "refs/x".to_owned(),
            old,
            new,
            pid: None,
        }
    }

    #[test]
    fn a_ref_is_followed_back_to_what_no_command_made_of_it() {
        let [a, b, c, d] = ['a', 'b', 'c', 'd'].map(value);
        let all = [step(None, a), step(a, b), step(c, d)];
        let look = |was, is, moves: &[Move]| {
            let moves: Vec<&Move> = moves.iter().collect();
            unexplained(
                was,
                Some(is).filter(|is: &Option<ObjectId>| is.is_some()),
                &moves,
            )
        };
        assert_eq!(look(None, b, &all), None);
        assert_eq!(look(a, b, &all), None);
        assert_eq!(look(b, c, &all), Some(c), "put there by hand");
        assert_eq!(look(b, d, &all), Some(c), "a command of ours came after it");
        assert_eq!(look(a, None, &all), Some(None), "removed by hand");
        assert_eq!(look(a, None, &[step(a, None)]), None);
        assert_eq!(
            look(b, a, &[step(a, b), step(b, a)]),
            None,
            "there and back"
        );
        assert_eq!(look(b, a, &all[1..]), Some(a), "brought back by hand");
    }
}
