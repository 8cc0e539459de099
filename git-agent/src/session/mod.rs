//! Sessions: everything that creates, runs, stops and removes one.
//!
//! | room | owns |
//! |---|---|
//! | `create` | a new session: agent, name, branch, worktree, fork |
//! | `supervisor` | the background process of a session: queue, turns, inbox, limits |
//! | `worktree` | a session's worktree: its work, environment, setup, clean, restore |
//! | `conversation` | an agent's own conversation: kept, copied, attached to |
//! | `events` | reading and following a session's events |
//! | `control` | stop, restart, answer, and recovery after a crash |
//! | `checks` | the state compared around a turn: refs, reflogs, read-only files |
//! | `ask` | commands that an agent in a cell asks its supervisor to run |
//! | `caller` | the session that a command was started in, and the acts refused there |
//! | `trust` | the user's trust in the team's file |
//! | `list` | all sessions, each in its real state |
//! | `recent` | the session named last and the rows of the last list: `-` and `@3` |

pub mod ask;
pub mod caller;
pub mod checks;
pub mod control;
pub mod conversation;
pub mod create;
pub mod events;
pub mod exchange;
pub mod list;
pub mod recent;
pub mod supervisor;
pub mod task_text;
pub mod trust;
pub mod worktree;
