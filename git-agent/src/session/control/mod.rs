//! Control of sessions: each file owns one thing that a user does to a session, with every check it needs.
//!
//! | file | does |
//! |---|---|
//! | `send` | gives a session a further prompt |
//! | `stop` | ends an agent and everything it started |
//! | `restart` | continues sessions that are not running |
//! | `answer` | answers an agent's request |
//! | `requests` | the requests that wait for an answer |
//! | `idle` | whether a turn runs, and waiting for its end |
//! | `state` | records a state that follows from a command |
//! | `recover` | records crashes in passing |
//! | `archive` | archives sessions that were closed long ago |

pub mod answer;
pub mod archive;
pub mod discard;
pub mod idle;
pub mod recover;
pub mod requests;
pub mod restart;
pub mod send;
pub mod state;
pub mod stop;
