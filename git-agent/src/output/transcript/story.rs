//! One session's events as a story: calls joined with their results and edits, a header for each turn, and nothing
//! said twice.

use std::time::Duration;

use serde_json::Value;

use crate::env::Millis;
use crate::listing::calls::{self, EditedFile};
use crate::listing::urgency;
use crate::model::event::{Body, Event};
use crate::model::session::{State, Usage};
use crate::output::human;
use crate::output::terminal::style::Slot;
use crate::output::transcript::lines::{self, Line};

/// Lines that are shown together, after one time.
#[derive(Debug)]
pub struct Piece {
    /// The time.
    pub at: Millis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Whether the first line is the header of a turn.
    pub begins_turn: bool,
    /// Whether an empty line comes before it.
    pub after_gap: bool,
    /// Time and cost of the turn that ends here.
    pub worth: Option<String>,
}

impl Piece {
    /// Returns the lines of an event.
    pub fn new(event: &Event, lines: Vec<Line>) -> Self {
        Piece {
            at: event.ts,
            lines,
            begins_turn: false,
            after_gap: false,
            worth: None,
        }
    }
}

/// One session, as far as it was told.
#[derive(Debug, Default)]
pub struct Story {
    agent: String,
    worktree: Option<String>,
    used: Usage,
    used_is_told: bool,
    turn: Option<TurnSoFar>,
    /// Calls without a result.
    calls: Vec<OpenCall>,
    /// The last edit that succeeded, until the files that it changed are told.
    edit: Option<DoneEdit>,
    /// Questions without an answer.
    asked: Vec<Event>,
    /// A state on the way to the next turn, which the next event makes obsolete.
    passing: Option<Event>,
    /// Whether the merge was told, so that the state need not repeat it.
    merged: bool,
    /// The last error, so that the state need not repeat it.
    error: String,
}

#[derive(Debug)]
struct TurnSoFar {
    started: Millis,
    before: Usage,
}

#[derive(Debug)]
struct OpenCall {
    at: Event,
    id: String,
    text: String,
    edits: bool,
    files: Vec<EditedFile>,
    /// Whether it was shown without its result.
    shown: bool,
}

#[derive(Debug)]
struct DoneEdit {
    at: Event,
    call: OpenCall,
    /// Whether a changed file was told.
    told: bool,
}

impl Story {
    /// Names the agent, and the worktree to which paths are made relative.
    pub fn introduce(&mut self, agent: String, worktree: Option<String>) {
        self.agent = agent;
        self.worktree = worktree;
    }

    /// Takes in an event. Returns the lines that can be shown now.
    pub fn take(&mut self, event: &Event) -> Vec<Piece> {
        if let Body::Usage { usage } = &event.body {
            self.used.update(usage);
            self.used_is_told = false;
            return Vec::new();
        }
        let mut pieces = Vec::new();
        if !matches!(event.body, Body::Edit { .. }) {
            pieces.extend(self.end_edit());
        }
        self.passing = None;
        let lines = match &event.body {
            Body::Prompt { .. } => {
                pieces.push(self.begin_turn(event));
                return pieces;
            }
            Body::ToolCall {
                call,
                name,
                kind,
                input,
            } => {
                self.open_call(event, call, (name, kind.as_str(), input));
                return pieces;
            }
            Body::ToolResult {
                call, ok, output, ..
            } => self.end_call(event, call, *ok, output),
            Body::Edit { path, change } => vec![self.edited(path, change.as_str())],
            Body::Permission { request, .. } => {
                let same = |open: &Event| asks(open) == Some(request);
                self.asked.retain(|open| !same(open));
                self.asked.push(event.clone());
                return pieces;
            }
            Body::Answer { request, by, .. } => {
                let mut asked: Vec<Event> = Vec::new();
                let same = |open: &mut Event| asks(open) == Some(request);
                asked.extend(self.asked.extract_if(.., same));
                // The user's own settings answered: nothing happened that a reader wants to know.
                if by.as_str() == "policy" {
                    return pieces;
                }
                pieces.extend(asked.iter().map(|open| self.question(open)));
                lines::plain(&event.body)
            }
            Body::Status { to, .. } => {
                pieces.extend(self.status(event, *to));
                return pieces;
            }
            Body::Assistant { text } => {
                lines::block(None, "", &calls::relative(text, self.worktree.as_deref()))
            }
            Body::Merged { .. } => {
                self.merged = true;
                lines::plain(&event.body)
            }
            Body::Error { text, .. } => {
                self.error.clone_from(text);
                lines::plain(&event.body)
            }
            body => lines::plain(body),
        };
        if !lines.is_empty() {
            pieces.push(Piece::new(event, lines));
        }
        pieces
    }

    /// Returns what waits for a later event, for a reader who would wait with it.
    pub fn caught_up(&mut self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = self.end_edit().into_iter().collect();
        for call in self.calls.iter_mut().filter(|call| !call.shown) {
            call.shown = true;
            pieces.push(Piece::new(
                &call.at,
                vec![lines::call(&call.text, "", true)],
            ));
        }
        let asked = std::mem::take(&mut self.asked);
        pieces.extend(asked.iter().map(|open| self.question(open)));
        pieces
    }

    /// Returns what waits for a later event, when none comes.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = self.caught_up();
        if let Some(event) = self.passing.take() {
            pieces.push(Piece::new(&event, lines::plain(&event.body)));
        }
        pieces
    }

    /// Begins a turn: its header, and the prompt.
    fn begin_turn(&mut self, event: &Event) -> Piece {
        self.turn = Some(TurnSoFar {
            started: event.ts,
            before: self.used,
        });
        self.error.clear();
        self.merged = false;
        let words = match self.agent.as_str() {
            "" => format!("turn {}", event.turn.max(1)),
            agent => format!("turn {} · {agent}", event.turn.max(1)),
        };
        let mut lines = vec![lines::line(Some(Slot::Header), "", &words)];
        lines.extend(lines::plain(&event.body));
        Piece {
            begins_turn: true,
            ..Piece::new(event, lines)
        }
    }

    fn open_call(&mut self, event: &Event, id: &str, (name, kind, input): (&str, &str, &Value)) {
        let worktree = self.worktree.as_deref();
        let shown = self.calls.iter().any(|open| open.id == id && open.shown);
        self.calls.retain(|open| open.id != id);
        self.calls.push(OpenCall {
            at: event.clone(),
            id: id.to_owned(),
            text: calls::call(name, kind, input, worktree),
            edits: kind == "edit",
            files: match kind {
                "edit" => calls::edited(input, worktree),
                _ => Vec::new(),
            },
            shown,
        });
    }

    /// Returns the line of a call with its result. An edit that succeeded waits for the names of the files.
    fn end_call(&mut self, event: &Event, id: &str, ok: bool, output: &str) -> Vec<Line> {
        let result = calls::result(ok, output, self.worktree.as_deref());
        let Some(at) = self.calls.iter().position(|open| open.id == id) else {
            return if result.is_empty() {
                Vec::new()
            } else {
                vec![lines::call("", &result, ok)]
            };
        };
        let call = self.calls.remove(at);
        if call.edits && ok {
            self.edit = Some(DoneEdit {
                at: event.clone(),
                call,
                told: false,
            });
            return Vec::new();
        }
        let text = match call.files.as_slice() {
            [] => call.text,
            files => {
                let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                format!("✎ {}", names.join(", "))
            }
        };
        vec![lines::call(&text, &result, ok)]
    }

    /// Returns the line of a changed file.
    fn edited(&mut self, path: &str, change: &str) -> Line {
        let counts = self.edit.as_mut().and_then(|edit| {
            edit.told = true;
            let files = edit.call.files.iter();
            let mut same = files.filter(|file| file.path == path || edit.call.files.len() == 1);
            same.next().and_then(|file| file.lines)
        });
        let path = calls::relative(path, self.worktree.as_deref());
        lines::edit(&path, change, counts)
    }

    /// Returns the lines of an edit whose files were not told by events of their own.
    fn end_edit(&mut self) -> Option<Piece> {
        let edit = self.edit.take().filter(|edit| !edit.told)?;
        let lines: Vec<Line> = match edit.call.files.as_slice() {
            [] => vec![lines::call(&edit.call.text, "", true)],
            files => {
                let line = |file: &EditedFile| lines::edit(&file.path, "change", file.lines);
                files.iter().map(line).collect()
            }
        };
        Some(Piece::new(&edit.at, lines))
    }

    /// Returns a question with its options, in paths of the worktree.
    fn question(&self, open: &Event) -> Piece {
        let mut body = open.body.clone();
        if let Body::Permission { title, .. } = &mut body {
            *title = calls::relative(title, self.worktree.as_deref()).into_owned();
        }
        Piece::new(open, lines::plain(&body))
    }

    fn status(&mut self, event: &Event, to: State) -> Vec<Piece> {
        if matches!(
            to,
            State::Queued | State::Preparing | State::Running | State::Waiting
        ) {
            self.passing = Some(event.clone());
            return Vec::new();
        }
        if to == State::Merged && std::mem::take(&mut self.merged) {
            return Vec::new();
        }
        // No result comes for these any more.
        let mut pieces = self.caught_up();
        self.calls.clear();
        let Body::Status { reason, exit, .. } = &event.body else {
            return pieces;
        };
        let said = match exit {
            Some(exit) if reason.is_empty() => exit.reason.as_str(),
            _ => reason,
        };
        let repeats = !said.is_empty() && !self.error.is_empty() && self.error.contains(said);
        let line = if repeats {
            lines::status(to, "", None)
        } else {
            lines::status(to, reason, exit.as_ref())
        };
        let worth = match self.turn.take() {
            Some(turn) => Some(self.worth(&turn, event.ts)),
            // The turn began before the first event that was asked for.
            None => self.worth_so_far(),
        };
        pieces.push(Piece {
            worth,
            ..Piece::new(event, vec![line])
        });
        pieces
    }

    /// Returns the cost of all turns in words, once.
    fn worth_so_far(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.used_is_told, true) {
            return None;
        }
        let used = self.used;
        let mut words: Vec<String> = Vec::new();
        words.extend(lines::tokens(used.input_tokens, used.output_tokens));
        words.extend(used.cost_usd.map(urgency::cost));
        (!words.is_empty()).then(|| format!("so far {}", words.join(" · ")))
    }

    /// Returns time and cost of a turn in words.
    fn worth(&mut self, turn: &TurnSoFar, ended: Millis) -> String {
        self.used_is_told = true;
        let took = Duration::from_millis(ended.0.saturating_sub(turn.started.0));
        let mut words = vec![human::duration(took)];
        let since =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        words.extend(lines::tokens(
            since(self.used.input_tokens, turn.before.input_tokens),
            since(self.used.output_tokens, turn.before.output_tokens),
        ));
        if let Some(cost) = self.used.cost_usd {
            let before = turn.before.cost_usd.unwrap_or(0.0);
            words.push(urgency::cost((cost - before).max(0.0)));
        }
        words.join(" · ")
    }
}

/// Returns the id of a question.
fn asks(event: &Event) -> Option<&String> {
    match &event.body {
        Body::Permission { request, .. } => Some(request),
        _ => None,
    }
}
