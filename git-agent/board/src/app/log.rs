//! The transcript of the selected session as entries of text, each with its time, its mark and its meaning.

use std::sync::Arc;

use git_agent::env::Millis;
use git_agent::model::event::{Body, Event};
use git_agent::model::event_words::StepStatus;
use git_agent::model::session::State;
use git_agent::review::shown::Shown;
use serde_json::Value;

use crate::app::question::{self, Question};
use crate::text;

/// Older entries are dropped beyond this.
const MOST: usize = 6000;
/// Lines of a tool's output that are kept.
const OUTPUT_LINES: usize = 4;

/// What an entry means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The user's words.
    Prompt,
    /// The agent's words.
    Said,
    /// Something less important.
    Aside,
    /// A tool.
    Tool,
    /// A question for a person.
    Question,
    /// Success.
    Good,
    /// Failure.
    Bad,
}

/// One entry.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When.
    pub at: Millis,
    /// The sign before it.
    pub mark: &'static str,
    /// What it means.
    pub meaning: Meaning,
    /// The safe text; it may have several lines.
    pub text: String,
    /// The tool call it is about, whose result is added.
    call: Option<String>,
}

/// The transcript of one session.
#[derive(Debug, Default)]
pub struct Log {
    /// The session's id.
    pub id: String,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// Whether the first events have come.
    pub is_ready: bool,
    /// The open questions, oldest first, each with what it is about.
    questions: Vec<Question>,
    /// Questions that were answered here, until the agent has the answer.
    given: Vec<String>,
    /// The changes for the pane.
    pub shown: Option<Arc<Shown>>,
    peeked: bool,
    /// Whether the changes are being read, so that they are not read twice at once.
    asking: bool,
    calls: Vec<(String, String, Value)>,
    last: Option<Body>,
}

impl Log {
    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Log::default();
    }

    /// Begins with another session.
    pub fn begin(&mut self, id: &str) {
        *self = Log {
            id: id.to_owned(),
            ..Log::default()
        };
    }

    /// Returns the question that an answer is for: the oldest one that has none.
    pub fn question(&self) -> Option<&Question> {
        self.questions
            .iter()
            .find(|open| !self.given.contains(&open.request))
    }

    /// Notes that the question was answered, so that the next answer is for the next one.
    pub fn answer_question(&mut self) {
        let request = self.question().map(|open| open.request.clone());
        self.given.extend(request);
    }

    /// Forgets answers that did not arrive.
    pub fn forget_answers(&mut self) {
        self.given.clear();
    }

    /// Returns whether the changes were asked for.
    pub fn is_peeked(&self) -> bool {
        self.peeked
    }

    /// Takes the changes for the pane.
    pub fn peek(&mut self, shown: Option<Arc<Shown>>) {
        self.peeked = true;
        self.asking = false;
        self.shown = shown;
    }

    /// Returns whether the changes have to be read, and notes that they are.
    pub fn begin_peek(&mut self) -> bool {
        let begins = !self.peeked && !self.asking;
        self.asking |= begins;
        begins
    }

    /// Makes the changes be read again.
    pub fn forget_peek(&mut self) {
        self.peeked = false;
    }

    /// Takes events.
    pub fn take(&mut self, events: Vec<Event>, is_first: bool) {
        if is_first {
            self.entries.clear();
            self.calls.clear();
            self.last = None;
            self.questions.clear();
            self.given.clear();
        }
        self.is_ready = true;
        for event in events {
            self.add(event);
        }
        let surplus = self.entries.len().saturating_sub(MOST);
        self.entries.drain(..surplus);
    }

    fn add(&mut self, event: Event) {
        if let Some(last) = &mut self.last
            && last.take_more(&event.body)
        {
            if let (
                Body::Assistant { text } | Body::Reasoning { text } | Body::Output { text, .. },
                Some(entry),
            ) = (&*last, self.entries.last_mut())
            {
                entry.text = safe(text);
            }
            return;
        }
        self.track(&event.body);
        if let Body::ToolResult {
            call, ok, output, ..
        } = &event.body
        {
            self.result(call, *ok, output);
        } else if let Some(entry) = entry(&event) {
            self.entries.push(entry);
        }
        self.last = Some(event.body);
    }

    /// Keeps track of the open question and of the tool calls that it may be about.
    fn track(&mut self, body: &Body) {
        match body {
            Body::ToolCall {
                call, name, input, ..
            } => {
                self.calls.retain(|(known, ..)| known != call);
                self.calls.push((call.clone(), name.clone(), input.clone()));
                if self.calls.len() > 50 {
                    self.calls.remove(0);
                }
            }
            Body::Permission {
                request,
                kind,
                title,
                options,
                detail,
            } => {
                let detail = question::detail(&self.calls, request, title, detail);
                self.questions.retain(|open| open.request != *request);
                self.given.retain(|given| given != request);
                self.questions.push(Question {
                    request: request.clone(),
                    kind: kind.clone(),
                    title: text::line(title),
                    options: options.clone(),
                    detail,
                });
            }
            Body::Answer { request, .. } => {
                self.questions.retain(|open| open.request != *request);
            }
            Body::Prompt { .. } => self.questions.clear(),
            Body::Status { to, .. } if !to.is_working() => self.questions.clear(),
            _ => {}
        }
    }

    /// Adds the result of a tool to its call.
    fn result(&mut self, call: &str, ok: bool, output: &str) {
        let output = output.trim();
        let mut lines: Vec<String> = output.lines().take(OUTPUT_LINES).map(text::line).collect();
        let left = output.lines().count().saturating_sub(lines.len());
        if left > 0 {
            lines.push(format!("… {left} more lines"));
        }
        let of_call = |entry: &&mut Entry| entry.call.as_deref() == Some(call);
        let Some(entry) = self.entries.iter_mut().rev().take(50).find(of_call) else {
            return;
        };
        if !ok {
            entry.meaning = Meaning::Bad;
            entry.mark = "✗";
        }
        for line in lines {
            entry.text += "\n  ";
            entry.text += &line;
        }
    }
}

fn safe(text: &str) -> String {
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| text::code(line.as_bytes()))
        .collect();
    lines.join("\n")
}

fn entry(event: &Event) -> Option<Entry> {
    let (mark, meaning, words) = match &event.body {
        Body::Prompt { text, from } => {
            let from = match from.as_str() {
                "" | "user" => String::new(),
                from => format!("[{}] ", text::line(from)),
            };
            ("›", Meaning::Prompt, format!("{from}{}", safe(text)))
        }
        Body::Assistant { text } => ("", Meaning::Said, safe(text)),
        Body::Reasoning { text } => ("~", Meaning::Aside, safe(text)),
        Body::ToolCall { name, input, .. } => ("*", Meaning::Tool, tool(name, input)),
        Body::Edit { path, change } => (
            "✎",
            Meaning::Tool,
            format!("{} {}", text::line(change.as_str()), text::line(path)),
        ),
        Body::Plan { entries } => {
            let done = entries
                .iter()
                .filter(|step| step.status == StepStatus::Completed)
                .count();
            let mut words = format!("plan {done}/{}", entries.len());
            for step in entries {
                let sign = match step.status {
                    StepStatus::Completed => "[x]",
                    StepStatus::InProgress => "[>]",
                    _ => "[ ]",
                };
                words += &format!("\n  {sign} {}", text::line(&step.text));
            }
            ("=", Meaning::Aside, words)
        }
        Body::Permission { title, .. } => ("?", Meaning::Question, text::line(title)),
        Body::Answer { choice, by, .. } => {
            let words = format!("{} [{}]", text::line(choice), text::line(by.as_str()));
            ("›", Meaning::Prompt, words)
        }
        Body::Status { to, reason, .. } => return status(event, *to, reason),
        Body::Output { text, .. } => ("", Meaning::Said, safe(text)),
        Body::Error { kind, text } => {
            let words = match kind.as_str() {
                "" | "other" => safe(text),
                kind => format!("{}: {}", text::line(kind), safe(text)),
            };
            ("✗", Meaning::Bad, words)
        }
        Body::Notice { text } => ("–", Meaning::Aside, safe(text)),
        Body::Submit { .. } => ("–", Meaning::Good, "offered for review".to_owned()),
        Body::Merged { into, .. } => (
            "✔",
            Meaning::Good,
            format!("merged into {}", text::line(into)),
        ),
        _ => return None,
    };
    let call = match &event.body {
        Body::ToolCall { call, .. } => Some(call.clone()),
        _ => None,
    };
    Some(Entry {
        at: event.ts,
        mark,
        meaning,
        text: words,
        call,
    })
}

/// Returns the entry of a state that says something which the words around it do not.
fn status(event: &Event, to: State, reason: &str) -> Option<Entry> {
    let meaning = match to {
        State::Queued | State::Preparing | State::Running | State::Waiting | State::Merged => {
            return None;
        }
        State::Ready | State::Approved => Meaning::Good,
        State::Failed | State::Interrupted | State::Stuck | State::Rejected => Meaning::Bad,
        _ => Meaning::Aside,
    };
    let words = match reason {
        reason if reason.is_empty() || reason == to.as_str() => to.to_string(),
        reason => format!("{to}: {}", text::line(reason)),
    };
    Some(Entry {
        at: event.ts,
        mark: "–",
        meaning,
        text: words,
        call: None,
    })
}

/// Returns a tool call in one line.
fn tool(name: &str, input: &Value) -> String {
    let name = text::line(name);
    let argument = text::line(question::argument(input));
    match argument.as_str() {
        "" => name,
        argument if name.contains(argument) => name,
        argument => format!("{name}  {argument}"),
    }
}
