//! Dialogs: a new session, words for an agent or a comment, a question, a list to choose from, commands, and the help.

use std::sync::mpsc::Sender;

use ratatui_textarea::{CursorMove, TextArea, WrapMode};

use crate::app::effect::{Effect, Job, NewSession, Target};
use crate::app::{App, Tone};

/// An open dialog.
#[derive(Debug)]
pub enum Dialog {
    /// A new session.
    New(Box<NewForm>),
    /// Words.
    Write(Box<Writing>),
    /// Yes or no.
    Ask(Asking),
    /// One of several.
    Choose(Choosing),
    /// A command.
    Palette(Palette),
    /// Every key.
    Help {
        /// The first visible line.
        scroll: usize,
    },
}

/// The fields of a new session.
#[derive(Debug)]
pub struct NewForm {
    /// The task.
    pub task: TextArea<'static>,
    /// The other texts, in the order of [`FIELDS`].
    pub texts: [String; 6],
    /// Whether uncommitted changes move.
    pub carry: bool,
    /// Whether every permission is asked for.
    pub ask: bool,
    /// The field with the keyboard: 0 is the task.
    pub field: usize,
    /// Installed agents to choose from.
    pub agents: Vec<String>,
    /// Configured roles.
    pub roles: Vec<String>,
}

/// The labels of the fields after the task.
pub const FIELDS: [&str; 8] = [
    "agent", "model", "versions", "role", "from", "name", "carry", "ask",
];

impl NewForm {
    /// Returns an empty form.
    pub fn new(versions: &str, draft: &str) -> Self {
        NewForm {
            task: area(draft),
            texts: [
                String::new(),
                String::new(),
                versions.to_owned(),
                String::new(),
                String::new(),
                String::new(),
            ],
            carry: false,
            ask: false,
            field: 0,
            agents: Vec::new(),
            roles: Vec::new(),
        }
    }

    /// Returns the session as entered.
    pub fn session(&self) -> NewSession {
        let text = |at: usize| self.texts[at].trim().to_owned();
        NewSession {
            task: self.task.lines().join("\n").trim().to_owned(),
            agent: text(0),
            model: text(1),
            versions: text(2),
            role: text(3),
            from: text(4),
            name: text(5),
            carry: self.carry,
            ask: self.ask,
        }
    }
}

/// What typed words are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A prompt for a session.
    Send(String),
    /// The prompt of a fork.
    Fork(String),
    /// A comment.
    Comment(String, Target),
    /// A reply to a comment of a session.
    Reply(String, String),
    /// The reason for requesting changes.
    RequestChanges,
    /// The reason for rejecting.
    Reject,
    /// A filter for the board, or a search in the diff.
    Search,
}

/// Words that are typed.
#[derive(Debug)]
pub struct Writing {
    /// The heading.
    pub title: String,
    /// What they are for.
    pub purpose: Purpose,
    /// The words.
    pub area: TextArea<'static>,
}

/// Where an answer goes.
#[derive(Debug)]
pub enum Answer {
    /// To a job that waits for it.
    Job(Sender<bool>),
    /// It begins a job with these words.
    Begin(String, Option<Box<Job>>),
    /// It leaves.
    Leave,
}

/// A question with yes and no.
#[derive(Debug)]
pub struct Asking {
    /// The question.
    pub title: String,
    /// What it is about.
    pub lines: Vec<(Tone, String)>,
    /// The word for yes.
    pub yes: String,
    /// Where the answer goes.
    pub answer: Answer,
    /// The first visible line.
    pub scroll: usize,
}

/// What a choice is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChoiceFor {
    /// The turn to go back to.
    Rewind(String, Vec<u64>),
    /// The scope of the review.
    Scope(Vec<git_agent::review::diff_scope::Scope>),
}

/// A list to choose from.
#[derive(Debug)]
pub struct Choosing {
    /// The heading.
    pub title: String,
    /// The lines.
    pub items: Vec<String>,
    /// The chosen one.
    pub cursor: usize,
    /// What it is for.
    pub purpose: ChoiceFor,
}

/// A command that is typed.
#[derive(Debug, Default)]
pub struct Palette {
    /// The words so far.
    pub text: String,
    /// The chosen suggestion.
    pub cursor: usize,
}

/// The verbs of the palette, with their words. `%` stands for the current session.
pub const VERBS: &[(&str, &str)] = &[
    ("new", "start a session"),
    ("list", "list the sessions"),
    ("show %", "show a session in detail"),
    ("log %", "show the transcript"),
    ("log --full %", "show the transcript with every detail"),
    ("wait %", "wait until a session is done"),
    ("send %", "send a prompt"),
    ("answer %", "answer a question"),
    ("attach %", "attach to the agent's own interface"),
    ("stop %", "stop the agent"),
    ("restart %", "go on after an interruption"),
    ("resume %", "go on, unless it runs"),
    ("fork %", "start a session from this one"),
    ("discard %", "discard a session"),
    ("update %", "update from the parent branch"),
    ("update --auto %", "update; an agent resolves conflicts"),
    ("run %", "run the program of the worktree"),
    ("exec % --", "run a command in the worktree"),
    ("shell %", "open a shell in the worktree"),
    ("open %", "open the worktree in the editor"),
    ("path %", "print the path of the worktree"),
    ("snapshot %", "take a snapshot"),
    ("snapshot --list %", "list the snapshots"),
    ("restore %", "bring the worktree back"),
    ("rewind % --turn", "go back to a turn"),
    ("recreate %", "make the worktree anew"),
    ("clean", "remove merged sessions"),
    ("push", "push sessions to the remote"),
    ("fetch", "fetch sessions of teammates"),
    ("forget %", "remove the record of a session"),
    ("purge", "remove secrets from records"),
    ("why", "why a line exists"),
    ("commit %", "commit the work of a session"),
    ("review", "sessions that wait for a reviewer"),
    ("review diff %", "show the changes"),
    ("review comment %", "comment"),
    ("review edit %", "comment in the whole diff in the editor"),
    ("review list %", "list the comments"),
    ("review send %", "send the comments to the agent"),
    ("review approve %", "approve"),
    ("review request-changes %", "request changes"),
    ("review reject %", "reject"),
    ("review ai %", "let an agent review"),
    ("review compare", "compare versions"),
    ("merge %", "merge a session"),
    ("merge", "merge every approved session"),
    ("merge --apply %", "apply the changes to the files here"),
    ("merge --pick %", "merge this version, close the others"),
    ("merge --undo", "undo the last merge"),
    ("merge --continue", "continue an interrupted merge"),
    ("merge --abort", "roll back an interrupted merge"),
    ("merge conflicts", "predict conflicts"),
    ("merge resolve %", "resolve a conflict by hand"),
    ("merge resolve --auto %", "let an agent resolve a conflict"),
    ("merge queue", "the queue of merges"),
    ("config", "show the settings"),
    ("trust", "trust the team's settings"),
    ("doctor", "find and repair damage"),
];

impl Palette {
    /// Returns the commands that fit the typed words.
    pub fn matches(&self) -> Vec<(&'static str, &'static str)> {
        let typed = self.text.to_lowercase();
        let words: Vec<&str> = typed.split_whitespace().collect();
        let fits = |(verb, about): &&(&'static str, &'static str)| {
            words
                .iter()
                .all(|word| verb.contains(word) || about.contains(word))
        };
        let mut found: Vec<(&str, &str)> = VERBS.iter().filter(fits).copied().collect();
        found.sort_by_key(|(verb, _)| !verb.starts_with(typed.trim()));
        found
    }
}

/// Returns a text area with some text, the cursor at its end.
pub fn area(text: &str) -> TextArea<'static> {
    let lines = if text.is_empty() {
        Vec::new()
    } else {
        text.lines().map(str::to_owned).collect()
    };
    let mut area = TextArea::new(lines);
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(ratatui::style::Style::new());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

impl App {
    /// Opens a dialog for words. Words for the same purpose that were typed before come back.
    pub fn write(&mut self, title: impl Into<String>, purpose: Purpose) {
        let key = format!("{purpose:?}");
        let at = self.drafts.iter().position(|(known, _)| *known == key);
        let draft = at.map(|at| self.drafts.remove(at).1).unwrap_or_default();
        self.dialogs.push(Dialog::Write(Box::new(Writing {
            title: title.into(),
            purpose,
            area: area(&draft),
        })));
    }

    /// Keeps words that were not sent.
    pub fn keep_draft(&mut self, key: String, text: &str) {
        if !text.trim().is_empty() {
            self.drafts.push((key, text.to_owned()));
        }
    }

    /// Asks before a job begins.
    pub fn ask(
        &mut self,
        title: impl Into<String>,
        lines: Vec<(Tone, String)>,
        yes: &str,
        words: impl Into<String>,
        job: Job,
    ) {
        self.dialogs.push(Dialog::Ask(Asking {
            title: title.into(),
            lines,
            yes: yes.to_owned(),
            answer: Answer::Begin(words.into(), Some(Box::new(job))),
            scroll: 0,
        }));
    }

    /// Begins a job with a number.
    pub fn job(&mut self, words: impl Into<String>, job: Job) -> Vec<Effect> {
        vec![self.begin(words, |number| Effect::Job(number, job))]
    }
}
