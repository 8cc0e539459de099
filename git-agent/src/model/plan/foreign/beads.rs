//! Issues of beads, exported as JSON lines.

use serde_json::Value;

use crate::error::{Context, Result};
use crate::model::plan::foreign::{self, Foreign};
use crate::model::plan::fragments::Fields;
use crate::model::plan::{Plan, PlanPart, VERSION};

/// The kinds of dependency that block; the others only annotate.
const BLOCKING: [&str; 4] = ["blocks", "parent-child", "conditional-blocks", "waits-for"];

/// Returns whether this is one issue.
pub fn is_one(value: &Value) -> bool {
    let text = |key: &str| value.get(key).is_some_and(Value::is_string);
    text("id") && text("title") && text("status")
}

/// Returns whether the text has one issue a line.
pub fn is_several(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    serde_json::from_str::<Value>(first).is_ok_and(|value| is_one(&value))
}

/// Reads the open issues.
pub fn read(text: &str) -> Result<Plan> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("line {}", at + 1);
        let value: Value =
            serde_json::from_str(line).context(|| format!("{place} is not an issue of beads"))?;
        found.push(issue(Fields::new(place, value)?)?);
    }
    Ok(Plan {
        version: VERSION,
        task: "the open issues of beads".to_owned(),
        parts: foreign::parts(found),
        ..Plan::default()
    })
}

fn issue(mut issue: Fields) -> Result<Foreign> {
    let id = issue.text("id")?.unwrap_or_default();
    let title = issue.text("title")?.unwrap_or_default();
    let mut task = title.clone();
    for key in ["description", "design", "acceptance_criteria"] {
        if let Some(more) = issue.text(key)?.filter(|more| !more.trim().is_empty()) {
            task = format!("{task}\n\n{}", more.trim());
        }
    }
    let mut needs = Vec::new();
    for dependency in issue.list("dependencies")?.unwrap_or_default() {
        let mut dependency = Fields::new(issue.under("dependencies"), dependency)?;
        let kind = dependency.text("type")?.unwrap_or_default();
        let of = dependency.text("issue_id")?;
        let on = dependency.text("depends_on_id")?;
        if BLOCKING.contains(&kind.as_str()) && of.is_none_or(|of| of == id) {
            needs.extend(on);
        }
    }
    let status = issue.text("status")?.unwrap_or_default();
    Ok(Foreign {
        part: PlanPart {
            name: foreign::part_name(&id, &title),
            task,
            ..PlanPart::default()
        },
        id,
        needs,
        done: foreign::is_done(&status),
    })
}
