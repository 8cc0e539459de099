//! A group of sessions as one thing: when it started, what it cost, its parts with the reason why each waits, and what
//! happened last.

use serde::Serialize;

use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
use crate::listing::row::{self, Summary, timestamp};
use crate::model::event::Event;
use crate::session::control::recover;
use crate::session::events::timeline;
use crate::session::list as sessions;
use crate::session::supervisor::dependencies;
use crate::store::list::{Listed, Scope, find_in};

/// How many events are shown.
const EVENTS: usize = 10;

/// A group of sessions.
#[derive(Debug, Serialize)]
pub struct GroupView {
    /// The group's name.
    pub name: String,
    /// When its first session was created.
    #[serde(serialize_with = "moment")]
    pub started: Millis,
    /// Seconds since then, or until its last session came to rest.
    pub elapsed_seconds: u64,
    /// What its sessions cost together, in US dollars; absent if no vendor told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Its sessions, in the order of their creation.
    pub sessions: Vec<GroupRow>,
    /// The last events of all sessions, oldest first.
    #[serde(skip)]
    pub activity: Vec<(String, Event)>,
}

/// A session of a group.
#[derive(Debug, Serialize)]
pub struct GroupRow {
    /// Its row.
    #[serde(flatten)]
    pub summary: Summary,
    /// The part of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Why it waits, is blocked or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

fn moment<S: serde::Serializer>(at: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at))
}

/// Returns the group of this name; `None` if a session has the name, or no group has it. `shown` tells which events are
/// worth being among the last.
pub fn find(
    context: &Context<'_>,
    name: &str,
    shown: &dyn Fn(&Event) -> bool,
) -> Result<Option<GroupView>> {
    let listing = sessions::list(context, Scope::Mine)?;
    if find_in(&listing, name).is_ok() {
        return Ok(None);
    }
    recover::heal(context, &listing);
    let in_group = |listed: &&Listed| listed.session.group.as_deref() == Some(name);
    let mut members: Vec<Listed> = listing.sessions.iter().filter(in_group).cloned().collect();
    members.sort_by_key(|listed| listed.session.sid);
    let Some(first) = members.first() else {
        return Ok(None);
    };
    let started = first.session.created;
    let rows = row::summarize(context, &members);
    let mut sessions = Vec::with_capacity(rows.len());
    for (summary, listed) in rows.into_iter().zip(&members) {
        let reason = summary.exit.as_ref().map(|exit| exit.reason.clone());
        let reason = reason.filter(|reason| !reason.is_empty());
        sessions.push(GroupRow {
            part: listed.session.settings.part.clone(),
            why: dependencies::explain(context, &listed.session)?.or(reason),
            summary,
        });
    }
    let working = sessions
        .iter()
        .any(|row| row.summary.state.needs_supervisor());
    let last = members.iter().map(|listed| listed.session.updated).max();
    let end = if working {
        context.env.now()
    } else {
        last.unwrap_or(started)
    };
    let costs: Vec<f64> = members
        .iter()
        .filter_map(|listed| listed.session.usage.cost_usd)
        .collect();
    let mut activity = Vec::new();
    let wanted = timeline::Last {
        count: EVENTS,
        in_words: true,
        wanted: shown,
    };
    timeline::tell_last(context, &members, &wanted, &mut |at, event| {
        let session = &members[at].session;
        let part = session.settings.part.as_ref().unwrap_or(&session.name);
        activity.push((part.clone(), event));
        Ok(())
    })?;
    Ok(Some(GroupView {
        name: name.to_owned(),
        started,
        elapsed_seconds: end.0.saturating_sub(started.0) / 1000,
        cost_usd: (!costs.is_empty()).then(|| costs.iter().sum()),
        sessions,
        activity,
    }))
}
