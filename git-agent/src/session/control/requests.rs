//! The requests of an agent that wait for an answer, read from the events.

use serde::Serialize;

use crate::model::event::{Body, Choice, Event};
use crate::model::event_words::RequestKind;

/// How far back an open request is looked for.
pub const REQUEST: usize = 500;

/// A question of a session.
#[derive(Debug, Serialize)]
pub struct Request {
    pub id: String,
    /// Its kind.
    pub kind: RequestKind,
    /// In words.
    pub title: String,
    /// The possible answers.
    pub options: Vec<Choice>,
    /// The command or the lines that would change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Returns the requests that wait for an answer, oldest first. An agent that does several things at once may ask about
/// each of them.
pub fn open_requests(events: Vec<Event>) -> Vec<Request> {
    let mut open: Vec<Request> = Vec::new();
    for event in events {
        match event.body {
            Body::Permission {
                request,
                kind,
                title,
                options,
                detail,
            } => {
                open.retain(|open| open.id != request);
                open.push(Request {
                    id: request,
                    kind,
                    title,
                    options: Choice::in_order(options),
                    detail,
                });
            }
            Body::Answer { request, .. } => open.retain(|open| open.id != request),
            Body::Prompt { .. } => open.clear(),
            _ => {}
        }
    }
    open
}
