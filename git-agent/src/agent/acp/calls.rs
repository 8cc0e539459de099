//! Tool calls of the protocol: they come in any number of updates, in any order, each with some of the fields.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::path::Path;

use serde_json::Value;

use crate::agent::driver::Link;
use crate::agent::stream::text::keep_tail;
use crate::agent::stream::tools::relative;
use crate::error::Result;
use crate::model::event::Body;
use crate::model::event_words::{FileChange, ToolKind};

/// The name of a call without one.
const NAMELESS: &str = "tool";
/// Maximum number of bytes kept of a terminal's output.
const MOST_PRINTED: usize = 256 * 1024;

/// Maximum number of bytes kept of the inputs and outputs of open calls. A turn that begins thousands of calls and ends
/// none must not fill the memory.
const MOST_OPEN: usize = 4 << 20;

#[derive(Debug, Default)]
struct Call {
    title: String,
    kind: ToolKind,
    input: Value,
    output: Value,
    content: Vec<Value>,
    paths: Vec<String>,
    /// The output of its terminal, for agents that send it in pieces.
    printed: String,
    status: &'static str,
    /// The recorded form: whether it had a name, its kind, and the fingerprint of its input.
    told: Option<(bool, ToolKind, u64)>,
    done: bool,
    /// Memory used.
    weight: usize,
    /// Whether its input and output were dropped.
    light: bool,
}

/// The calls of a turn.
#[derive(Debug, Default)]
pub struct Calls {
    calls: BTreeMap<String, Call>,
    /// The calls that still use memory, oldest first.
    open: VecDeque<String>,
    /// Memory used by those.
    weight: usize,
}

impl Calls {
    /// Handles a `tool_call` or `tool_call_update`, and records new facts.
    pub fn update(&mut self, update: &Value, worktree: &Path, link: &mut dyn Link) -> Result<()> {
        let Some(id) = update
            .get("toolCallId")
            .map(crate::agent::acp::wire::id_text)
        else {
            return link.event(crate::agent::acp::raw(update));
        };
        let call = self.calls.entry(id.clone()).or_default();
        self.weight -= call.weight;
        call.take(update);
        // A call that is only announced will be completed at once; record one event for both.
        let announced = matches!(call.status, "" | "pending") && call.input.is_null();
        if !announced {
            call.tell(&id, link)?;
        }
        if call.done {
            call.forget();
        } else if matches!(call.status, "completed" | "failed") {
            call.finish(&id, worktree, link)?;
        }
        let held_nothing = call.weight == 0;
        call.weigh();
        self.weight += call.weight;
        if held_nothing && call.weight > 0 {
            self.open.push_back(id);
        }
        self.lighten();
        Ok(())
    }

    /// Drops the contents of the oldest calls until the memory is within the limit; the newest call keeps its contents.
    fn lighten(&mut self) {
        while self.weight > MOST_OPEN && self.open.len() > 1 {
            let oldest = self.open.pop_front();
            if let Some(call) = oldest.and_then(|id| self.calls.get_mut(&id)) {
                self.weight -= call.weight;
                call.forget();
                call.weigh();
                self.weight += call.weight;
            }
        }
    }

    /// Adds facts about a call from a permission request, but does not overwrite known ones, because they may be
    /// abridged.
    pub fn asked(&mut self, call: &Value, link: &mut dyn Link) -> Result<()> {
        let Some(id) = call.get("toolCallId").map(crate::agent::acp::wire::id_text) else {
            return Ok(());
        };
        let known = self.calls.entry(id.clone()).or_default();
        let mut told = call.clone();
        if let Some(fields) = told.as_object_mut() {
            fields.retain(|key, _| match key.as_str() {
                "title" => known.title.is_empty(),
                "kind" => known.is_of_unclear_kind(),
                "rawInput" => known.input.is_null(),
                _ => false,
            });
        }
        known.take(&told);
        known.tell(&id, link)
    }

    /// Returns the arguments of a known call.
    pub fn input(&self, id: &str) -> Option<&Value> {
        self.calls.get(id).map(|call| &call.input)
    }

    /// Returns the kind of a known call.
    pub fn kind(&self, id: &str) -> Option<&ToolKind> {
        self.calls
            .get(id)
            .map(|call| &call.kind)
            .filter(|kind| !kind.is_unnamed())
    }

    /// Returns whether a call has begun and not ended.
    pub fn are_running(&self) -> bool {
        self.calls.values().any(|call| !call.done)
    }

    /// Records that the remaining calls did not end before the turn.
    pub fn end(&mut self, link: &mut dyn Link) -> Result<()> {
        for (id, call) in std::mem::take(&mut self.calls) {
            if !call.done {
                let mut call = call;
                call.tell(&id, link)?;
                link.event(Body::ToolResult {
                    output: call.output_text(),
                    call: id,
                    ok: false,
                    attachment: None,
                })?;
            }
        }
        Ok(())
    }
}

impl Call {
    fn take(&mut self, update: &Value) {
        let text = |key: &str| update.get(key).and_then(Value::as_str);
        if let Some(title) = text("title").filter(|title| !title.is_empty()) {
            self.title = title.to_owned();
        }
        if let Some(kind) = text("kind") {
            self.kind = kind_word(kind);
        }
        // A late update about an ended call does not reopen it.
        if let Some(status) = text("status").filter(|_| !self.done) {
            self.status = match status {
                "" => "",
                "pending" => "pending",
                "completed" => "completed",
                "failed" => "failed",
                _ => "in_progress",
            };
        }
        let given = |key: &str| update.get(key).filter(|value| !is_empty(value)).cloned();
        self.input = given("rawInput").unwrap_or(std::mem::take(&mut self.input));
        self.output = given("rawOutput").unwrap_or(std::mem::take(&mut self.output));
        if let Some(Value::Array(content)) = update.get("content") {
            self.content.clone_from(content);
        }
        for place in [
            "/_meta/terminal_output_delta/data",
            "/_meta/terminal_output/data",
        ] {
            if let Some(text) = update.pointer(place).and_then(Value::as_str) {
                self.printed.push_str(text);
                keep_tail(&mut self.printed, MOST_PRINTED);
            }
        }
        if self.is_of_unclear_kind()
            && let Some(kind) = self.guessed_kind()
        {
            self.kind = kind;
        }
        if let Some(Value::Array(locations)) = given("locations") {
            self.paths = locations
                .iter()
                .filter_map(|location| location.get("path")?.as_str())
                .map(ToOwned::to_owned)
                .collect();
        }
    }

    fn tell(&mut self, id: &str, link: &mut dyn Link) -> Result<()> {
        let input = match &self.told {
            // The input was dropped.
            Some((_, _, input)) if self.light && self.input.is_null() => *input,
            _ => fingerprint(&self.input),
        };
        let named = !self.title.is_empty();
        // A new title of a known call is not recorded: some agents rename a call with every update.
        if let Some((was_named, kind, known)) = &self.told
            && (*was_named || !named)
            && (kind, *known) == (&self.kind, input)
        {
            return Ok(());
        }
        self.told = Some((named, self.kind.clone(), input));
        link.event(Body::ToolCall {
            call: id.to_owned(),
            name: if named {
                self.title.clone()
            } else {
                NAMELESS.to_owned()
            },
            kind: self.kind.clone(),
            input: self.input.clone(),
        })
    }

    fn is_of_unclear_kind(&self) -> bool {
        matches!(self.kind, ToolKind::Unnamed | ToolKind::Unclear)
    }

    /// Guesses the kind of a call from its input, for agents that do not send it.
    fn guessed_kind(&self) -> Option<ToolKind> {
        const COMMANDS: [&str; 3] = ["command", "commands", "cmd"];
        const TEXTS: [&str; 6] = [
            "content",
            "file_text",
            "new_string",
            "new_str",
            "newText",
            "patch",
        ];
        let has = |key: &&str| self.input.get(*key).is_some();
        if COMMANDS.iter().any(has) {
            return Some(ToolKind::Execute);
        }
        let writes = TEXTS.iter().any(has);
        (writes || self.title.starts_with("apply_patch")).then_some(ToolKind::Edit)
    }

    fn finish(&mut self, id: &str, worktree: &Path, link: &mut dyn Link) -> Result<()> {
        self.done = true;
        let ok = self.status == "completed";
        link.event(Body::ToolResult {
            call: id.to_owned(),
            ok,
            output: self.output_text(),
            attachment: None,
        })?;
        if ok {
            for (path, change) in self.edits() {
                link.event(Body::Edit {
                    path: relative(&path, worktree),
                    change,
                })?;
            }
        }
        self.forget();
        Ok(())
    }

    /// Drops input and output, because a turn can have thousands of calls.
    fn forget(&mut self) {
        (self.input, self.output) = (Value::Null, Value::Null);
        (self.content, self.printed) = (Vec::new(), String::new());
        self.light = true;
    }

    fn weigh(&mut self) {
        let held = [&self.input, &self.output].into_iter().chain(&self.content);
        self.weight = held.map(weight).sum::<usize>() + self.printed.len();
    }

    fn edits(&self) -> Vec<(String, FileChange)> {
        let mut edits = Vec::new();
        for item in self.content.iter().filter(|item| item["type"] == "diff") {
            let Some(path) = item["path"].as_str() else {
                continue;
            };
            let change = match item.get("oldText").and_then(Value::as_str) {
                None | Some("") => FileChange::Add,
                Some(_) => FileChange::Change,
            };
            if !edits.iter().any(|(known, _)| known == path) {
                edits.push((path.to_owned(), change));
            }
        }
        if edits.is_empty() && self.kind == ToolKind::Edit {
            let paths = self.paths.iter();
            edits.extend(paths.map(|path| (path.clone(), FileChange::Change)));
            edits.dedup();
        }
        edits
    }

    fn output_text(&self) -> String {
        let said: Vec<&str> = self
            .content
            .iter()
            .filter_map(|item| item.get("content")?.get("text")?.as_str())
            .collect();
        if !said.is_empty() {
            return said.join("\n");
        }
        if !self.printed.is_empty() {
            return self.printed.clone();
        }
        match &self.output {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            output => [
                "output",
                "stdout",
                "formatted_output",
                "content",
                "result",
                "fileDiff",
            ]
            .iter()
            .find_map(|key| output.get(*key)?.as_str())
            .map_or_else(|| output.to_string(), ToOwned::to_owned),
        }
    }
}

/// Returns a hash of an input.
fn fingerprint(input: &Value) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    input.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns an estimate of a value's memory.
fn weight(value: &Value) -> usize {
    const EACH: usize = 64;
    if value.is_null() {
        return 0;
    }
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| EACH + key.len() + weight(value))
            .sum(),
        _ => 0,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns our word for the protocol's kind of tool.
pub fn kind_word(kind: &str) -> ToolKind {
    match kind {
        "edit" | "delete" | "move" => ToolKind::Edit,
        "execute" => ToolKind::Execute,
        "read" => ToolKind::Read,
        "search" => ToolKind::Search,
        "fetch" => ToolKind::Fetch,
        _ => ToolKind::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::tests::script::Script;

    fn told(updates: &[Value]) -> Vec<Body> {
        let mut link = Script::default();
        let mut calls = Calls::default();
        for update in updates {
            calls
                .update(update, Path::new("/w"), &mut link)
                .expect("recorded");
        }
        calls.end(&mut link).expect("recorded");
        link.events
    }

    fn summary(events: &[Body]) -> Vec<String> {
        events
            .iter()
            .map(|event| match event {
                Body::ToolCall {
                    name, kind, input, ..
                } => format!("call {name}/{kind} {input}"),
                Body::ToolResult { ok, output, .. } => format!("result {ok} {output}"),
                Body::Edit { path, change } => format!("{change} {path}"),
                other => other.kind().to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_call_is_told_when_seen_when_filled_in_and_when_done() {
        let events = told(&[
            json!({"toolCallId": "1", "title": "write", "kind": "edit", "status": "pending", "rawInput": {}}),
            json!({"toolCallId": "1", "rawInput": {"path": "a"}}),
            json!({"toolCallId": "1", "status": "in_progress", "rawInput": {"path": "a.txt"}}),
            json!({"toolCallId": "1", "status": "completed", "content": [
                {"type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "x"},
                {"type": "content", "content": {"type": "text", "text": "wrote it"}}]}),
            json!({"toolCallId": "1", "title": "a.txt", "status": "completed"}),
        ]);
        assert_eq!(
            summary(&events),
            [
                "call write/edit {\"path\":\"a\"}",
                "call write/edit {\"path\":\"a.txt\"}",
                "result true wrote it",
                "add a.txt",
            ]
        );
    }

    #[test]
    fn an_update_may_come_before_its_call() {
        let events = told(&[
            json!({"toolCallId": 7, "status": "completed", "rawOutput": {"output": "hi", "code": 0}}),
            json!({"toolCallId": 7, "title": "bash", "kind": "execute", "status": "pending"}),
        ]);
        assert_eq!(
            summary(&events),
            [
                "call tool/ null",
                "result true hi",
                "call bash/execute null"
            ]
        );
    }

    #[test]
    fn what_the_turn_left_unfinished_has_failed() {
        let events = told(&[
            json!({"toolCallId": "x", "title": "sleep", "kind": "execute", "content": [
                {"type": "content", "content": {"type": "text", "text": "half"}}]}),
            json!({"toolCallId": "y", "title": "rm", "kind": "delete", "status": "failed", "rawOutput": [1]}),
        ]);
        assert_eq!(
            summary(&events),
            [
                "call rm/edit null",
                "result false [1]",
                "call sleep/execute null",
                "result false half"
            ]
        );
    }

    #[test]
    fn edits_are_known_by_diff_or_by_place() {
        let events = told(&[
            json!({"toolCallId": "1", "title": "e", "kind": "edit", "status": "completed",
                "locations": [{"path": "/w/d/f"}, {"path": "/elsewhere/g"}]}),
            json!({"toolCallId": "2", "title": "e", "kind": "edit", "status": "completed",
                "content": [{"type": "diff", "path": "/w/b", "oldText": "o", "newText": "n"}, {"type": "diff"}, 7]}),
        ]);
        let edits: Vec<String> = summary(&events)
            .into_iter()
            .filter(|line| line.starts_with("change"))
            .collect();
        assert_eq!(edits, ["change d/f", "change /elsewhere/g", "change b"]);
    }

    #[test]
    fn many_open_calls_are_held_within_bounds_and_told_once() {
        let mut link = Script::default();
        let mut calls = Calls::default();
        let call = |id: usize| {
            json!({"toolCallId": id, "title": "t", "kind": "execute", "status": "pending",
                "rawInput": {"command": "x".repeat(1 << 16)}})
        };
        for id in 0..200 {
            calls
                .update(&call(id), Path::new("/w"), &mut link)
                .expect("recorded");
        }
        let held: usize = calls.calls.values().map(|call| call.weight).sum();
        assert!(held <= MOST_OPEN && held == calls.weight, "{held}");
        // It was recorded before, with or without its contents.
        for id in [0, 199] {
            let update = json!({"toolCallId": id, "status": "completed"});
            calls
                .update(&update, Path::new("/w"), &mut link)
                .expect("recorded");
        }
        calls.end(&mut link).expect("recorded");
        let count = |kind: &str| link.kinds().iter().filter(|told| **told == kind).count();
        assert_eq!((count("tool_call"), count("tool_result")), (200, 200));
    }

    #[test]
    fn a_call_without_an_id_is_kept_as_it_came() {
        assert_eq!(summary(&told(&[json!({"title": "x"})])), ["raw"]);
    }
}
