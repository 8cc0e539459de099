//! What the screen wants done, and what comes back. Each effect is carried out by one function of the library.

use std::sync::mpsc::Sender;

use git_agent::listing::live::News;
use git_agent::model::review::{Side, Verdict};
use git_agent::review::diff_scope::Scope;
use git_agent::review::shown::Shown;

use crate::app::Tone;
use crate::syntax::Tokens;

/// A new session, as the dialog describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The task.
    pub task: String,
    /// The name; made from the task if empty.
    pub name: String,
    /// The agents, with commas between them; the default one if empty.
    pub agent: String,
    /// The models.
    pub model: String,
    /// The number of versions.
    pub versions: String,
    /// The role.
    pub role: String,
    /// The revision or session to start from.
    pub from: String,
    /// Whether uncommitted changes of the checkout move into the worktree.
    pub carry: bool,
    /// Whether every permission is asked for.
    pub ask: bool,
}

/// A place for a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The session as a whole.
    Session,
    /// A file.
    File(Vec<u8>, Side),
    /// Lines of a file.
    Lines(Vec<u8>, Side, u32, u32),
}

/// Something to do outside of the screen's own state.
#[derive(Debug)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Give the terminal back to the shell.
    Suspend,
    /// Paint everything anew.
    Redraw,
    /// Follow the events of a session.
    Follow(Option<String>),
    /// Look at every session again.
    Look,
    /// Ring the bell.
    Ring,
    /// Copy text to the clipboard.
    Copy(String),
    /// Run a command of git agent in the terminal; the screen gives way. Wait for a key afterwards, or not.
    Run(Vec<String>, bool),
    /// Run a command of git agent in the terminal and wait for a key.
    Edit {
        /// The text to begin with.
        text: String,
    },
    /// Open a file of a session's worktree at a line in the editor.
    EditLine(String, Vec<u8>, u32),
    /// A job for a thread of its own, with its number.
    Job(u64, Job),
}

/// A job for a thread of its own.
#[derive(Debug)]
pub enum Job {
    /// Start a session.
    Start(Box<NewSession>),
    /// Read the names of agents and roles for the dialog.
    Choices,
    /// Send a prompt.
    Send(String, String),
    /// Answer a question.
    Answer(String, String),
    /// Stop sessions.
    Stop(Vec<String>),
    /// Start sessions again.
    Restart(Vec<String>),
    /// Start a session from another.
    Fork(String, String),
    /// Discard sessions.
    Discard(Vec<String>),
    /// Remove merged sessions.
    Clean,
    /// Update sessions from their parents.
    Update(Vec<String>),
    /// Take a snapshot.
    Snapshot(String),
    /// List the turns to go back to.
    Turns(String),
    /// Go back to a turn.
    Rewind(String, u64),
    /// Read a session's changes.
    Load(String, Scope),
    /// Read them for the pane of the board.
    Peek(String),
    /// See whether a session's changes are still as shown.
    Check(std::sync::Arc<Shown>),
    /// Remember that changes were seen.
    Seen(std::sync::Arc<Shown>),
    /// Read all lines of a file.
    Lines(std::sync::Arc<Shown>, usize),
    /// Find the colours of a hunk.
    Colors(std::sync::Arc<Shown>, usize, usize),
    /// Comment.
    Comment(String, Target, String),
    /// Reply to a comment.
    Reply(String, String),
    /// Resolve or reopen a thread.
    Close(String, bool),
    /// Send the review to the agent.
    SendReview(String),
    /// Give a verdict on exactly the shown work.
    Verdict(std::sync::Arc<Shown>, Verdict, String),
    /// Approve from the board: show the size, ask, approve exactly that.
    Approve(Vec<String>),
    /// Merge: shows the plan, asks.
    Merge(Vec<String>),
    /// Merge one version and close the others.
    Pick(String),
    /// Resolve the conflict of a session by its agent.
    Resolve(String),
    /// Undo the last merge.
    Undo,
    /// Revert a file, or one hunk of it, in the worktree.
    Revert(std::sync::Arc<Shown>, usize, Option<usize>),
    /// Compare versions.
    Compare(Vec<String>),
}

/// A question of a job, which goes on with the answer.
#[derive(Debug)]
pub struct Ask {
    /// The question.
    pub title: String,
    /// What it is about.
    pub lines: Vec<(Tone, String)>,
    /// The word for yes.
    pub yes: String,
    /// Where the answer goes.
    pub answer: Sender<bool>,
}

/// What another thread reports.
#[derive(Debug)]
pub enum Message {
    /// News of the sessions.
    News(News),
    /// A job ended with words.
    Done(u64, Tone, String),
    /// A job ended without words.
    Quiet(u64),
    /// A job says how far it is.
    Progress(u64, String),
    /// A job asks.
    Ask(Ask),
    /// A session was started.
    Started(u64, String, String),
    /// Agents and roles for the dialog.
    Choices {
        /// Installed agents.
        agents: Vec<String>,
        /// Configured roles.
        roles: Vec<String>,
    },
    /// The changes of a session.
    Loaded(u64, Box<Shown>),
    /// The changes of a session for the pane.
    Peeked(String, Option<Box<Shown>>),
    /// The shown changes are not those of the worktree any more.
    Outdated(String),
    /// The comments on a shown session changed.
    Commented(String),
    /// All lines of a file.
    Lines(String, usize, Vec<Vec<u8>>),
    /// The colours of a hunk: session, file, hunk.
    Colors(String, usize, usize, Vec<Tokens>),
    /// Turns to go back to: number, words.
    Turns(u64, String, Vec<(u64, String)>),
    /// The review of a session changed.
    ReviewChanged(u64, String, Tone, String),
    /// Versions side by side.
    Compared(u64, Vec<Shown>),
    /// A line that some code printed while the screen was on.
    Printed(String),
    /// The editor returned a text.
    Edited(String),
}
