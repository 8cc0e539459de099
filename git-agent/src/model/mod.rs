//! The types of the product: sessions, events, reviews, merges. Pure: no I/O, no clock, no git.
//!
//! | file | owns |
//! |---|---|
//! | `id`, `name` | a session's id and its human name; a clone's identity as a writer |
//! | `session` | the state of a session, and how events change it |
//! | `event`, `event_words` | one line of a transcript, and the words in it |
//! | `turn_claim`, `turn_outcome` | an agent's own report on a turn, and the outcome that we derive |
//! | `review` | comments, threads, verdicts and the standing of a verdict |
//! | `merge` | merge styles, plans and messages |
//! | `plan` | the parts of one task, their dependencies, and the files that plans are read from |
//! | `provenance` | the session and events that a commit comes from |
//! | `known` | a fact that is absent, unknown or known |
//! | `similar` | the known words that a mistyped one may mean |

pub mod event;
pub mod event_words;
pub mod id;
pub mod known;
pub mod merge;
pub mod name;
pub mod plan;
pub mod provenance;
pub mod review;
pub mod session;
pub mod similar;
pub mod turn_claim;
pub mod turn_outcome;
