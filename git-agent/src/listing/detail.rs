//! Everything about one session: its row, whole task, open question, snapshots and last events.

use serde::Serialize;
use serde_json::Value;

use crate::config::settings;
use crate::context::Context;
use crate::env::Millis;
use crate::error::{Error, Result, shell_word};
use crate::listing::review::verdicts::{self, Judgement};
use crate::listing::row::{self, Summary, timestamp};
use crate::model::event::{Body, Event};
use crate::model::event_words::ErrorKind;
use crate::model::known::Finding;
use crate::model::session::settings::BasedOn;
use crate::model::session::{Session, SessionId, State};
use crate::selection;
use crate::session::control::recover;
use crate::session::control::requests::{REQUEST, Request, open_requests};
use crate::session::create::choose_agent;
use crate::session::events;
use crate::session::events::timeline;
use crate::session::supervisor::{dependencies, prompts};
use crate::session::worktree::work;
use crate::signature::{self, SignatureStatus};
use crate::store::list::Listed;

/// Number of last events shown.
const EVENTS: usize = 10;

/// Everything about one session.
#[derive(Debug, Serialize)]
pub struct Detail {
    /// Its row, with the whole task.
    #[serde(flatten)]
    pub summary: Summary,
    /// The commit it was created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The session whose conversation or work it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<SessionId>,
    /// The vendor's own id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    /// The port reserved for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u64>,
    /// Variables that its agent gets besides those that every session gets; only for sessions of this clone.
    #[serde(skip)]
    pub variables: Option<Vec<String>>,
    /// The part of a plan that it carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Why it has not started: the sessions that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The commit that it was cut from, with the work of other sessions in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub based_on: Option<BasedOn>,
    /// Its open question, while it waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Prompts whose turn has not begun, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting_prompts: Vec<String>,
    /// The verdict of each reviewer, with the message.
    #[serde(skip_serializing_if = "Finding::is_nothing")]
    pub verdicts: Finding<Vec<Judgement>>,
    /// The judgement of the signature on its newest record; absent if unsigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignatureStatus>,
    /// Its snapshots, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Taken>,
    /// Its last events.
    #[serde(serialize_with = "as_json")]
    pub events: Vec<Event>,
}

/// A snapshot.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// The snapshot's commit.
    pub commit: String,
    /// The time, formatted.
    pub time: String,
    /// The time, for computing its age.
    #[serde(skip)]
    pub at: Millis,
    /// The turn that ended with it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Why it was taken.
    pub reason: String,
}

fn as_json<S: serde::Serializer>(events: &[Event], serializer: S) -> Result<S::Ok, S::Error> {
    let values: Vec<Value> = events.iter().map(Event::to_json).collect();
    values.serialize(serializer)
}

/// Shows one session: the named one, or the one of this worktree. A restore that was interrupted is ended first, and a
/// crash recorded. `shown` tells which events are worth being among the last; `warn` is told why the worktree is not as
/// it should be.
pub fn show(
    context: &Context<'_>,
    name: Option<&str>,
    shown: &dyn Fn(&Event) -> bool,
    warn: &mut dyn FnMut(&Error),
) -> Result<Detail> {
    let mut listed = selection::select_one(context, name)?;
    if let Err(error) = work::place(context, &listed) {
        warn(&error);
    }
    if listed.is_mine() && recover::notice(context, &listed.session)? {
        listed = selection::select_one(context, Some(listed.session.sid.as_str()))?;
    }
    gather(context, &listed, shown)
}

/// Gathers everything about a session. `shown` tells which events are worth being among the last.
fn gather(
    context: &Context<'_>,
    listed: &Listed,
    shown: &dyn Fn(&Event) -> bool,
) -> Result<Detail> {
    let session = &listed.session;
    let mut summary = Summary::of_record(listed, context.env.now());
    row::look(context, &mut [&mut summary]);
    if let Some(task) = first_prompt(context, listed)? {
        summary.task = task;
    }
    let mut last: Vec<Event> = Vec::new();
    let one = std::slice::from_ref(listed);
    let wanted = timeline::Last {
        count: EVENTS,
        in_words: true,
        wanted: shown,
    };
    timeline::tell_last(context, one, &wanted, &mut |_, event| {
        last.push(event);
        Ok(())
    })?;
    Ok(Detail {
        base: session.base.clone(),
        parent_session: session.parent_session,
        vendor_session: session.vendor_session.clone(),
        port: session.local.port.map(u64::from),
        variables: listed.is_mine().then(|| variables(context, session)),
        part: session.settings.part.clone(),
        waits: if listed.is_mine() {
            dependencies::explain(context, session)?
        } else {
            None
        },
        based_on: session.settings.based_on.clone(),
        request: match session.status {
            State::Waiting => open_request(context, listed)?,
            _ => None,
        },
        // The first prompt is the task, so it is left out.
        waiting_prompts: if summary.mine && session.turns > 0 {
            prompts::left(context, session.sid, Some(session))?
        } else {
            Vec::new()
        },
        verdicts: verdicts::of(context, listed),
        signature: signature(context, listed, summary.mine),
        snapshots: snapshots(context, listed),
        events: last,
        summary,
    })
}

/// Judges the signature of the newest record; `None` for this clone's own unsigned ones.
fn signature(context: &Context<'_>, listed: &Listed, mine: bool) -> Option<SignatureStatus> {
    let tip = listed.tip?;
    let claimed = &listed.session.author.email;
    let standing = signature::standing(context, tip, claimed).unwrap_or(SignatureStatus::Unchecked);
    Some(standing).filter(|found| !mine || *found != SignatureStatus::None)
}

fn first_prompt(context: &Context<'_>, listed: &Listed) -> Result<Option<String>> {
    for event in events::all(context, listed)? {
        if let Body::Prompt { text, .. } = event?.body {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn open_request(context: &Context<'_>, listed: &Listed) -> Result<Option<Request>> {
    let events = events::tail_of(context, listed, REQUEST)?;
    Ok(open_requests(events).into_iter().next())
}

/// Returns the snapshots. An unreadable chain must not hide the rest, so it counts as empty.
fn snapshots(context: &Context<'_>, listed: &Listed) -> Vec<Taken> {
    if !listed.is_mine() {
        return Vec::new();
    }
    let chain = context.store.snapshots(listed.session.sid);
    chain
        .unwrap_or_default()
        .into_iter()
        .map(|kept| {
            let at = Millis(u64::try_from(kept.snapshot.time).unwrap_or(0) * 1000);
            Taken {
                commit: kept.snapshot.id.to_string(),
                time: timestamp(at),
                at,
                turn: kept.turn,
                reason: kept.reason,
            }
        })
        .collect()
}

/// Returns the variables that a session's agent gets besides those that every session gets, by name.
fn variables(context: &Context<'_>, session: &Session) -> Vec<String> {
    let mut names = context.config.list(&settings::ENV);
    let spec = choose_agent::of_session(&context.config, &context.store, session);
    names.extend(spec.map(|spec| spec.env_names).unwrap_or_default());
    names
}

/// Returns the next step after a failure that only the user can put right: a login.
pub fn after_failure(context: &Context<'_>, session: &Session) -> Option<String> {
    let last = events::tail(context, session.sid, REQUEST).ok()?;
    let error = last.iter().rev().find_map(|event| match &event.body {
        Body::Error { kind, .. } => Some(kind),
        _ => None,
    });
    let login = session.status == State::Failed && error == Some(&ErrorKind::Auth);
    login.then(|| {
        let (agent, name) = (shell_word(&session.agent), shell_word(&session.name));
        format!("run '{agent}' and log in, then: git agent restart {name}")
    })
}
