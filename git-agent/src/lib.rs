//! git-agent: many coding agents at once, each on its own branch in its own worktree, every word kept in git.
//!
//! This page is the architecture: the rooms and their order, the words, two walks through the code, and where to
//! add things.
//!
//! # Rooms
//!
//! Lowest first. A file may import from its own room and from the rooms before it, written in full from `crate::`.
//! `tests/suite/source_rooms.rs` holds this order, the size of rooms and files, and the rule that the programs name
//! neither `git` nor `store` nor `process`.
//!
//! | room | owns |
//! |---|---|
//! | `error`, `fault`, `file`, `cores`, `env` | leaves: failures as values; points where tests make a write fail; files replaced as a whole; work on all cores; clock, variables and randomness as a value |
//! | `model` | the words of the product as types: session, event, review, merge. Pure |
//! | `process` | starting, limiting, reading and ending processes; locks and slots |
//! | `git` | the only door to git: the only room that starts `git` or names a git library. It knows no product words |
//! | `redact` | the only way from foreign text to an object |
//! | `store` | the bytes of every record under `refs/agents/`, written with compare-and-swap |
//! | `config` | the settings `agent.*`: names, defaults, sources, trust |
//! | `context` | the values that every use case needs: surroundings, repository, store, settings, secrets |
//! | `agent` | the agents, and the drivers that speak to them |
//! | `guard` | keeping an agent in its session: a git directory and a room of its own, or hooks and a comparison of refs |
//! | `signature` | signing records, and checking the signatures of teammates |
//! | `session` | creating, running, stopping and removing sessions |
//! | `review` | comments, verdicts, and sending a review back to the agent |
//! | `selection` | which sessions a person means |
//! | `plan` | tasks split into parts: plans from files, roles or an agent, and the sessions that carry them out |
//! | `merge` | sessions on their way into a branch: planned, built in memory, tested, landed, undone |
//! | `share` | pushing refs to a remote, and accepting the refs of teammates after a check |
//! | `listing` | sessions as rows and in detail, and why a line exists |
//! | `doctor`, `demo`, `install` | finding and repairing damage; the demonstration; putting programs and manual in place |
//! | `output` | the only writer to stdout and stderr |
//! | `invoke` | the `main` shared by the programs: arguments, errors, exit codes, completion |
//!
//! The programs (`bin/git-agent`, `git-agent-review`, `git-agent-merge`, `board`) are doors: a verb file parses, calls one
//! function of the library, and shows the result. Each check (who calls, budget, trust, consent, "exactly this was
//! shown") is inside that function, so that every other door has it too.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | session | one conversation with one agent about one task |
//! | record | the shared state of a session, in git; its settings are a part of it |
//! | local | the facts about a session that hold in this clone alone, in a file: worktree, port |
//! | turn | one prompt and everything the agent does until it stops |
//! | event | one line of a transcript |
//! | snapshot | a commit of the whole worktree, untracked files included |
//! | parent | the branch a session was created from and merges into |
//! | review, comment, thread | comments on a session's changes, and their answers |
//! | verdict | a reviewer's decision: approve, request changes, reject |
//! | standing | a verdict against the work as it is now: it stands, or it is stale |
//! | outcome | how a turn, a merge or a wait ended |
//! | writer | this clone's identity as author of records |
//! | cell | the git directory of an agent for the time of a turn |
//! | room | the paths, processes and sockets that an agent can reach |
//! | spool | events on disk that are not in git yet |
//! | supervisor | the background process of one session |
//! | landing | moving a branch to a merged and tested result |
//!
//! # The walk of `git agent new`
//!
//! 1. `bin/git-agent/main.rs` → `invoke::main` → `invoke::parse` → `bin/git-agent/new.rs`.
//! 2. `invoke::in_repo` opens the repository and makes the `context::Context`.
//! 3. `session::create::start` is the door: it checks the caller, creates and launches, and undoes both if one fails.
//!    `session::create` chooses the agent (`choose_agent`), the name, branch and worktree (`location`), writes the
//!    facts of this clone (`store::local`) and then the first log commit, a draft that is queued
//!    (`store::log::writer` → `redact` → `store::log::flush` → `git::object`, `git::refs`), and adds the worktree
//!    (`git::worktree::add`).
//! 4. `session::supervisor::launch` starts `git-agent __supervise`, detached.
//! 5. `session::supervisor` waits for dependencies and a slot (`queue`), prepares the worktree
//!    (`session::worktree::setup`), and runs turn after turn (`attempt`, `turn`).
//! 6. A driver (`agent::acp`, `claude`, `codex` or `command`) starts the agent through `agent::driver::Link` and
//!    turns its output into events; each goes through the redactor into the spool (`store::log::spool`).
//! 7. At the end of the turn `session::checks::turn` compares refs, reflogs and read-only files, a snapshot is taken
//!    (`store::snapshot`), and the spool is flushed into the session's ref. If the supervisor died, the next command
//!    does this (`session::checks::dead_turns`).
//!
//! # The walk of `git agent merge`
//!
//! 1. `git-agent-merge/src/merge.rs` → `merge::run::merge` takes the lock and finishes a merge that died
//!    (`merge::landing::recover`). `merge::pick` and `recover::take_up` are the doors of `--pick`, `--continue` and
//!    `--abort`.
//! 2. `merge::run::plan`: `candidates` (target, sessions, approvals: `review::state`, `coverage`), order
//!    (`model::merge::plan`), and the built result (`batch`, `build` → `git::merge`).
//! 3. The plan is shown and asked about; the same value is carried out.
//! 4. `testing` runs `agent.test` on the merged result; `bisect` finds the session that breaks it.
//! 5. `landing::journal` notes the move, `landing::land` moves branch and worktrees
//!    (`git::merge::move_branch`) and records it in sessions and notes.
//!
//! # Where things are
//!
//! | change | file |
//! |---|---|
//! | a column in `list` | `listing/row.rs` (the value), `output/sessions.rs` (the table) |
//! | a card, a key or a screen of the board | `board/src/view/`, `board/src/keys.rs`, `board/src/app/` |
//! | what the board is told | `listing/live.rs`; the changes that it shows: `review/shown/` |
//! | the files of an agent or a tool in the user's home | `agent/catalog/places.rs` |
//! | the paths that an agent may write or read | `guard/room.rs` |
//! | a command that an agent may give in its session | `session/ask.rs` |
//! | a redaction rule | `redact/detect/rules.rs` |
//! | a retry rule | `session/supervisor/turn/retry.rs` |
//! | a field of a comment | `model/review/mod.rs` (and `man/man5/gitformat-agent.5`) |
//! | an agent with a known protocol | `agent/catalog/builtin.rs` |
//! | a protocol of agents | a folder beside `agent/acp/`, and `agent/catalog/spec.rs` |
//! | a kind of conversation file | `agent/conversation_files/` |
//! | a forge | a room `forge/` beside `share/`; `share/remote.rs` shows how consent is asked |
//! | a merge style or strategy | `model/merge/mod.rs`, then `merge/build.rs` |
//! | a state of a session | `model/session/mod.rs`; the compiler leads on |
//! | a kind of event | `model/event.rs`; the compiler leads to `model/session/fold.rs` and `output/transcript.rs` |
//! | a word in an event (a sender, a kind of tool or error) | `model/event_words.rs` |
//! | a setting | `config/settings.rs`; those of an agent, a role or an MCP server: `config/keys.rs` |
//! | a fact that a session's record keeps | `model/session/settings.rs` |
//! | a fact about a session in this clone: a path, a port | `model/session/local.rs` (the value), `store/local.rs` (the file) |
//! | a verb | `bin/git-agent/<verb>.rs`, its function in the room it is about, `man/man1`, `tests/suite/agent_<verb>.rs` |
//! | a repair | `doctor/` |
//! | a ref or file name of ours | `store/refname.rs` |

pub mod agent;
pub mod config;
pub mod context;
mod cores;
pub mod demo;
pub mod doctor;
pub mod env;
pub mod error;
pub mod fault;
pub mod file;
pub mod git;
pub mod guard;
pub mod install;
pub mod invoke;
pub mod listing;
pub mod merge;
pub mod model;
pub mod output;
pub mod plan;
pub mod process;
pub mod redact;
pub mod review;
pub mod selection;
pub mod session;
pub mod share;
pub mod signature;
pub mod store;
