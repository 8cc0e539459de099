//! What the prompt tells the model to do next.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::ask::{Ask, Kind, Tool, list};

/// Names that tools for writing a file go by, in the order of preference.
const WRITERS: [&str; 10] = [
    "write",
    "write_file",
    "write_to_file",
    "WriteFile",
    "create_file",
    "create",
    "editor",
    "str_replace_editor",
    "text_editor",
    "apply_patch",
];
/// Names that shells go by.
const SHELLS: [&str; 12] = [
    "bash",
    "shell",
    "exec_command",
    "shell_command",
    "run_shell_command",
    "run_command",
    "run_commands",
    "execute_command",
    "execute",
    "terminal",
    "local_shell",
    "developer__shell",
];
/// Names that a tool's arguments go by.
const PATHS: &[&str] = &[
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "filepath",
    "filename",
    "file",
    "target_file",
];
const TEXTS: &[&str] = &[
    "content",
    "file_text",
    "contents",
    "text",
    "code",
    "newText",
    "new_text",
];
const COMMANDS: &[&str] = &["command", "cmd", "commands", "script"];

/// A call of a tool.
#[derive(Debug)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments, or plain text.
    pub input: Value,
}

/// What the model does now.
#[derive(Debug)]
pub struct Plan {
    /// What it says.
    pub text: String,
    /// What it calls.
    pub call: Option<Call>,
    /// The status to answer with.
    pub status: u16,
    /// Seconds to wait in the middle.
    pub slow: f64,
    /// Tokens to count.
    pub usage: (u64, u64),
    /// Scripted prompts so far.
    pub turn: usize,
    /// Calls of this turn so far.
    pub calls: usize,
    /// How the stream is broken: `cut`, `garbled` or `long`.
    pub broken: String,
}

/// Which requests of a prompt are answered with a status.
enum Refused {
    First(u32),
    After(u32),
}

/// One thing that the prompt says.
#[derive(Debug, PartialEq)]
struct Step<'a> {
    verb: &'a str,
    rest: &'a str,
}

fn steps(prompt: &str) -> Vec<Step<'_>> {
    const VERBS: [&str; 8] = [
        "write", "bash", "call", "say", "http", "slow", "usage", "break",
    ];
    let mut steps = Vec::new();
    let mut left = prompt;
    while let Some((_, after)) = left.split_once("[[") {
        let Some((inside, rest)) = after.split_once("]]") else {
            break;
        };
        let end = inside
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(inside.len());
        let (verb, words) = inside.split_at(end);
        if VERBS.contains(&verb) {
            let words = words.trim_start();
            let rest = match verb {
                "bash" | "say" => words.trim_start_matches(':').trim_start(),
                _ => words,
            };
            steps.push(Step { verb, rest });
        }
        left = rest;
    }
    steps
}

/// Plans the answer. `count` tells how often a prompt has been asked, this time included.
pub fn plan(ask: &Ask, count: impl FnOnce(&str) -> u32) -> Plan {
    let users = || {
        ask.items
            .iter()
            .enumerate()
            .filter(|(_, (kind, _))| *kind == Kind::User)
    };
    let scripted: Vec<usize> = users()
        .filter(|(_, (_, text))| !steps(text).is_empty())
        .map(|(index, _)| index)
        .collect();
    let last = scripted
        .last()
        .copied()
        .or_else(|| users().next_back().map(|(index, _)| index));
    let prompt = last
        .map(|index| ask.items[index].1.as_str())
        .unwrap_or_default();
    let after = last.map_or(&[][..], |index| &ask.items[index + 1..]);
    let mut plan = Plan {
        text: String::new(),
        call: None,
        status: 200,
        slow: 0.0,
        usage: (1000, 20),
        turn: scripted.len().max(1),
        calls: after.iter().filter(|(kind, _)| *kind == Kind::Call).count(),
        broken: String::new(),
    };
    let (mut todo, mut say, mut refused): (_, _, Option<Refused>) = (Vec::new(), None, None);
    for step in steps(prompt) {
        match step.verb {
            "write" | "bash" | "call" => todo.push(step),
            "say" => say = Some(step.rest),
            "break" => plan.broken = step.rest.trim().to_owned(),
            "slow" => plan.slow = step.rest.trim().parse().unwrap_or(0.0),
            "usage" => {
                let mut numbers = step
                    .rest
                    .split_whitespace()
                    .filter_map(|word| word.parse().ok());
                plan.usage = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            }
            _ => {
                let (code, times) = step.rest.split_once(' ').unwrap_or((step.rest, ""));
                plan.status = code.parse().unwrap_or(500);
                let number = |word: &str| times.trim().strip_prefix(word)?.trim().parse().ok();
                let first = number("x").map(Refused::First);
                refused = first.or_else(|| number("after").map(Refused::After));
            }
        }
    }
    let fine = match refused {
        None => false,
        Some(Refused::First(times)) => count(prompt) > times,
        Some(Refused::After(times)) => count(prompt) <= times,
    };
    if fine {
        plan.status = 200;
    }
    if let Some(schema) = &ask.json {
        plan.text = instance(schema, "").to_string();
    } else if ask.tools.is_empty() {
        plan.text = without_tools(ask, &todo, &plan, say);
    } else if let Some(step) = todo.get(plan.calls) {
        plan.call = call(ask, step);
        plan.text = match plan.call {
            Some(_) => format!("Step {}: {}.", plan.calls + 1, step.verb),
            None => "There is no tool for that.".to_owned(),
        };
    } else {
        let done = format!("Done. turn={} calls={}", plan.turn, plan.calls);
        let turn = plan.turn.to_string();
        plan.text = say.map_or(done, |say| say.replace("{turn}", &turn));
        let ends = ["attempt_completion", "submit_and_exit", "task_complete"];
        let ended = |name: &str| {
            let quoted = format!("\"{name}\"");
            after
                .iter()
                .any(|(kind, text)| *kind == Kind::Call && text.contains(&quoted))
        };
        if let Some(tool) = pick(ask, &ends).filter(|tool| !ended(&tool.name)) {
            let wanted = [(&["result", "summary", "message"][..], json!(plan.text))];
            plan.call = Some(Call {
                name: tool.name.clone(),
                input: arguments(&tool.schema, &wanted),
            });
        }
    }
    plan
}

/// Titles and summaries; and edits, for clients that take them as text.
fn without_tools(ask: &Ask, todo: &[Step<'_>], plan: &Plan, say: Option<&str>) -> String {
    let edits_as_text =
        ask.system.contains("SEARCH/REPLACE") || ask.system.contains("<<<<<<< SEARCH");
    let done = format!("Done. turn={} calls=0", plan.turn);
    match todo.iter().find(|step| step.verb == "write") {
        Some(step) if edits_as_text => {
            let (path, text) = step.rest.split_once(':').unwrap_or((step.rest, ""));
            let (path, text) = (path.trim(), text.trim());
            format!(
                "{done}\n\n{path}\n```\n<<<<<<< SEARCH\n=======\n{text}\n>>>>>>> REPLACE\n```\n"
            )
        }
        _ if edits_as_text => {
            let turn = plan.turn.to_string();
            say.map_or(done, |say| say.replace("{turn}", &turn))
        }
        _ => say.unwrap_or("Scripted title").to_owned(),
    }
}

fn pick<'a>(ask: &'a Ask, names: &[&str]) -> Option<&'a Tool> {
    names.iter().find_map(|name| {
        ask.tools.iter().find(|tool| {
            let own = tool.name.rsplit("__").next().unwrap_or_default();
            tool.name.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(name)
        })
    })
}

fn call(ask: &Ask, step: &Step<'_>) -> Option<Call> {
    let named = |tool: &Tool, input: Value| {
        Some(Call {
            name: tool.name.clone(),
            input,
        })
    };
    if step.verb == "call" {
        let (name, input) = step.rest.split_once(' ').unwrap_or((step.rest, "{}"));
        return Some(Call {
            name: name.to_owned(),
            input: serde_json::from_str(input).unwrap_or_else(|_| input.into()),
        });
    }
    // A client whose one tool runs a program that calls the real ones.
    let programs = ask
        .tools
        .iter()
        .find(|tool| tool.name == "exec" && tool.free);
    if step.verb == "bash" {
        if let Some(tool) = programs {
            let command = json!(step.rest);
            let program =
                format!("const r = await tools.exec_command({{cmd: {command}}}); text(r.output);");
            return named(tool, program.into());
        }
        return run(ask, step.rest);
    }
    let (path, text) = step.rest.split_once(':').unwrap_or((step.rest, ""));
    let (path, text) = (path.trim(), text.trim_start());
    let patch = format!(
        "*** Begin Patch\n*** Add File: {path}\n+{}\n*** End Patch",
        text.replace('\n', "\n+")
    );
    if let Some(tool) = programs {
        let program = format!("text(await tools.apply_patch({}));", json!(patch));
        return named(tool, program.into());
    }
    // A tool that replaces text makes a file where there is nothing to replace.
    let replaces = |tool: &&Tool| tool.schema["properties"]["old"].is_object();
    if let Some(tool) = pick(ask, &["edit"]).filter(replaces) {
        return named(
            tool,
            json!({"path": path, "old": "", "new": format!("{text}\n")}),
        );
    }
    let Some(tool) = pick(ask, &WRITERS) else {
        return run(ask, &format!("printf '%s\\n' '{text}' > '{path}'"));
    };
    if tool.free {
        return named(tool, format!("{patch}\n").into());
    }
    let whole = match (path.starts_with('/'), place(ask)) {
        (false, Some(place)) => format!("{place}/{path}"),
        _ => path.to_owned(),
    };
    let wanted = [
        (PATHS, json!(whole)),
        (TEXTS, json!(format!("{text}\n"))),
        (&["input", "patch"][..], json!(patch)),
        (&["command", "mode"][..], json!("create")),
        (
            &["description", "explanation"][..],
            json!("a scripted step"),
        ),
    ];
    named(tool, arguments(&tool.schema, &wanted))
}

fn run(ask: &Ask, command: &str) -> Option<Call> {
    let tool = pick(ask, &SHELLS)?;
    if tool.free {
        return Some(Call {
            name: tool.name.clone(),
            input: command.into(),
        });
    }
    let wanted = [
        (COMMANDS, json!(command)),
        (
            &["description", "explanation"][..],
            json!("a scripted step"),
        ),
        (&["timeout"][..], json!(60_000)),
    ];
    let mut input = arguments(&tool.schema, &wanted);
    for key in ["command", "cmd"] {
        // One that takes the words of a program gets a shell's.
        if input[key].is_array() {
            input[key] = json!(["bash", "-lc", command]);
        }
    }
    Some(Call {
        name: tool.name.clone(),
        input,
    })
}

/// Returns the worktree: the first place the client names that is one.
fn place(ask: &Ask) -> Option<String> {
    let said = ask
        .items
        .iter()
        .filter(|(kind, _)| *kind == Kind::User)
        .map(|(_, text)| text);
    let ends = |c: char| c.is_whitespace() || "`'\"<>,;:)\\".contains(c);
    std::iter::once(&ask.system).chain(said).find_map(|text| {
        text.split(ends)
            .map(|word| word.trim_end_matches(['/', '.']))
            .filter(|word| word.starts_with('/') && word.matches('/').count() > 1)
            .find(|word| Path::new(word).join(".git").exists())
            .map(str::to_owned)
    })
}

/// Returns arguments for a tool: what is wanted, and something for whatever else it must have.
fn arguments(schema: &Value, wanted: &[(&[&str], Value)]) -> Value {
    let mut given = Map::new();
    for (names, value) in wanted {
        let found = names
            .iter()
            .find(|name| schema["properties"].get(**name).is_some());
        if let Some(name) = found {
            let kinds = schema["properties"][*name]["type"]
                .to_string()
                .to_lowercase();
            let value = if kinds.contains("array") {
                json!([value])
            } else {
                value.clone()
            };
            given.insert((*name).to_owned(), value);
        }
    }
    for name in list(&schema["required"]).filter_map(Value::as_str) {
        if !given.contains_key(name) {
            given.insert(name.to_owned(), instance(&schema["properties"][name], name));
        }
    }
    Value::Object(given)
}

/// Returns the least that fits a schema.
fn instance(schema: &Value, name: &str) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = list(&schema["enum"]).next() {
        return first.clone();
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(first) = list(&schema[choice]).next() {
            return instance(first, name);
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind.unwrap_or("string").to_ascii_lowercase().as_str() {
        "object" => arguments(schema, &[]),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        _ => json!(format!("some {name}").trim_end()),
    }
}
