//! Interprets the events of `codex exec --json`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::agent::driver::{Link, SETBACK, Trouble, TroubleKind};
use crate::agent::stream::failure::is_reconnecting;
use crate::agent::stream::raw_message;
use crate::agent::stream::tools::relative;
use crate::error::Result;
use crate::model::event::{Body, PlanEntry};
use crate::model::event_words::{FileChange, StepStatus, ToolKind};
use crate::model::session::Usage;

/// How the turn ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent reports success.
    Completed,
    /// The agent reports a failure, in its words.
    Failed(String),
}

/// A turn's stream.
#[derive(Debug)]
pub struct Stream {
    /// How the turn ended, once it did.
    pub ending: Option<Ending>,
    /// The last message.
    pub last_said: String,
    thread: Option<String>,
    resumed: bool,
    /// Items that began and have not ended.
    open: BTreeSet<String>,
    /// Whether the agent reported the end of the turn.
    over: bool,
    /// When the agent began to retry its model, and why.
    setback: Option<(Instant, Trouble)>,
}

impl Stream {
    /// Returns the stream of a turn in a new or a known conversation.
    pub fn new(thread: Option<String>) -> Self {
        Stream {
            resumed: thread.is_some(),
            ending: None,
            last_said: String::new(),
            thread,
            open: BTreeSet::new(),
            over: false,
            setback: None,
        }
    }

    /// Returns when and why the turn fails if the agent's retries do not succeed; without a network it would retry for
    /// ever.
    pub fn gives_up(&self) -> Option<(Instant, &Trouble)> {
        let (since, trouble) = self.setback.as_ref()?;
        let waits = self.open.is_empty() && !self.over;
        waits.then_some((*since + SETBACK, trouble))
    }

    /// Returns whether the agent reported the end of the turn; more may follow after an error.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Handles one event.
    pub fn event(
        &mut self,
        event: &Value,
        worktree: &Path,
        used: Usage,
        link: &mut dyn Link,
    ) -> Result<()> {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind.starts_with("item.") {
            self.setback = None;
        }
        match kind {
            "thread.started" => match event["thread_id"].as_str() {
                Some(id) if self.thread.as_deref() != Some(id) => {
                    self.thread = Some(id.to_owned());
                    link.event(Body::Vendor {
                        session: id.to_owned(),
                    })
                }
                _ => Ok(()),
            },
            "turn.started" => Ok(()),
            "item.started" | "item.updated" => self.item(&event["item"], false, worktree, link),
            "item.completed" => self.item(&event["item"], true, worktree, link),
            "error" => self.error(event["message"].as_str().unwrap_or("error"), link),
            "turn.completed" => {
                (self.ending, self.over) = (Some(Ending::Completed), true);
                let number = |key: &str| event["usage"][key].as_u64();
                let (Some(input), Some(output)) = (number("input_tokens"), number("output_tokens"))
                else {
                    return Ok(());
                };
                // The figures count the whole conversation, also its part before a resume.
                let total = |before: Option<u64>, figure: u64| match (before, self.resumed) {
                    (Some(before), true) => before.max(figure),
                    (before, _) => before.unwrap_or(0).saturating_add(figure),
                };
                link.event(Body::Usage {
                    usage: Usage {
                        input_tokens: Some(total(used.input_tokens, input)),
                        output_tokens: Some(total(used.output_tokens, output)),
                        cost_usd: used.cost_usd,
                    },
                })
            }
            "turn.failed" => {
                let words = event["error"]["message"]
                    .as_str()
                    .unwrap_or("the turn failed");
                (self.ending, self.over) = (Some(Ending::Failed(words.to_owned())), true);
                Ok(())
            }
            _ => link.event(raw_message::raw("codex-json", event)),
        }
    }

    /// Records results for items that the end of the stream left open.
    pub fn end(&mut self, link: &mut dyn Link) -> Result<()> {
        for call in std::mem::take(&mut self.open) {
            link.event(Body::ToolResult {
                call,
                ok: false,
                output: String::new(),
                attachment: None,
            })?;
        }
        Ok(())
    }

    fn error(&mut self, words: &str, link: &mut dyn Link) -> Result<()> {
        if is_reconnecting(words) {
            let trouble = Trouble::from_words(words, TroubleKind::Model);
            link.setback(&trouble)?;
            let since = self.setback.as_ref().map(|(since, _)| *since);
            self.setback = Some((since.unwrap_or_else(Instant::now), trouble));
            return link.event(Body::Notice {
                text: words.to_owned(),
            });
        }
        // Usually the failed turn repeats these words as its reason; if not, they are the only report.
        self.ending = Some(Ending::Failed(words.to_owned()));
        Ok(())
    }

    fn item(
        &mut self,
        item: &Value,
        done: bool,
        worktree: &Path,
        link: &mut dyn Link,
    ) -> Result<()> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        match text("type") {
            "agent_message" if done => {
                self.last_said = text("text").to_owned();
                link.event(Body::Assistant {
                    text: text("text").to_owned(),
                })
            }
            "reasoning" if done => link.event(Body::Reasoning {
                text: text("text").to_owned(),
            }),
            "agent_message" | "reasoning" => Ok(()),
            "todo_list" if item["items"].is_array() => link.event(Body::Plan {
                entries: item["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(plan_entry)
                    .collect(),
            }),
            "command_execution" => {
                let ok = item["exit_code"].as_i64() == Some(0);
                let input = json!({"command": text("command")});
                self.call(item, (text("command"), ToolKind::Execute, input), link)?;
                self.result(item, done, ok, text("aggregated_output"), link)
            }
            "file_change" => {
                let ok = text("status") == "completed";
                let input = json!({"changes": item["changes"]});
                self.call(item, ("file_change", ToolKind::Edit, input), link)?;
                self.result(item, done, ok, "", link)?;
                let changes = item["changes"].as_array().filter(|_| done && ok);
                for change in changes.into_iter().flatten() {
                    let word = match change["kind"].as_str() {
                        Some("add") => FileChange::Add,
                        Some("delete") => FileChange::Delete,
                        _ => FileChange::Change,
                    };
                    if let Some(path) = change["path"].as_str() {
                        link.event(Body::Edit {
                            path: relative(path, worktree),
                            change: word,
                        })?;
                    }
                }
                Ok(())
            }
            "mcp_tool_call" => {
                let name = format!("{}.{}", text("server"), text("tool"));
                self.call(
                    item,
                    (&name, ToolKind::Unclear, item["arguments"].clone()),
                    link,
                )?;
                let ok = text("status") == "completed";
                let output = match &item["error"]["message"] {
                    Value::String(words) => words.clone(),
                    _ if item["result"].is_null() => String::new(),
                    _ => item["result"].to_string(),
                };
                self.result(item, done, ok, &output, link)
            }
            "web_search" => {
                let input = json!({"query": text("query")});
                self.call(item, ("web_search", ToolKind::Fetch, input), link)?;
                self.result(item, done, true, "", link)
            }
            "error" => link.event(Body::Notice {
                text: text("message").to_owned(),
            }),
            _ => link.event(raw_message::raw("codex-json", item)),
        }
    }

    /// Records a call when it first appears.
    fn call(
        &mut self,
        item: &Value,
        (name, kind, input): (&str, ToolKind, Value),
        link: &mut dyn Link,
    ) -> Result<()> {
        let id = item["id"].as_str().unwrap_or_default();
        if !self.open.insert(id.to_owned()) {
            return Ok(());
        }
        link.event(Body::ToolCall {
            call: id.to_owned(),
            name: name.to_owned(),
            kind,
            input,
        })
    }

    fn result(
        &mut self,
        item: &Value,
        done: bool,
        ok: bool,
        output: &str,
        link: &mut dyn Link,
    ) -> Result<()> {
        if !done {
            return Ok(());
        }
        let id = item["id"].as_str().unwrap_or_default();
        self.open.remove(id);
        link.event(Body::ToolResult {
            call: id.to_owned(),
            ok,
            output: output.to_owned(),
            attachment: None,
        })
    }
}

fn plan_entry(item: &Value) -> Option<PlanEntry> {
    let done = item["completed"].as_bool().unwrap_or(false);
    Some(PlanEntry {
        text: item["text"].as_str()?.to_owned(),
        status: if done {
            StepStatus::Completed
        } else {
            StepStatus::Pending
        },
    })
}
