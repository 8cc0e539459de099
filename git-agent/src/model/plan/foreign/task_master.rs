//! `.taskmaster/tasks/tasks.json`: tasks under tags, or under `tasks` alone in older files.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::plan::foreign::{self, Foreign};
use crate::model::plan::fragments::Fields;
use crate::model::plan::{Plan, PlanPart, VERSION};

/// Returns whether this is such a file.
pub fn is_one(value: &Value) -> bool {
    let is_task = |value: &Value| value.get("id").is_some() && value.get("title").is_some();
    let has_tasks = |value: &Value| {
        let tasks = value.get("tasks").and_then(Value::as_array);
        tasks.is_some_and(|tasks| tasks.iter().all(is_task) && !tasks.is_empty())
    };
    let tagged = |value: &Value| {
        let tags = value.as_object();
        tags.is_some_and(|tags| !tags.is_empty() && tags.values().any(has_tasks))
    };
    has_tasks(value) || (value.get("agents").is_none() && tagged(value))
}

/// Reads the open tasks of the first tag that has any; `master` goes first.
pub fn read(value: Value) -> Result<Plan> {
    let mut fields = Fields::new("", value)?;
    if let Some(tasks) = fields.list("tasks")? {
        return plan(None, tasks);
    }
    let mut tags = fields.names();
    tags.sort_by_key(|tag| tag != "master");
    for tag in tags {
        let Some(mut inside) = fields.object(&tag)? else {
            continue;
        };
        let tasks = inside.list("tasks")?.unwrap_or_default();
        let plan = plan(Some(tag), tasks)?;
        if !plan.parts.is_empty() {
            return Ok(plan);
        }
    }
    Err(Error::fatal("no task of the file is open"))
}

fn plan(tag: Option<String>, tasks: Vec<Value>) -> Result<Plan> {
    let mut found = Vec::new();
    for (at, task) in tasks.into_iter().enumerate() {
        let mut task = Fields::new(format!("tasks[{at}]"), task)?;
        let id = task.texts("id")?.concat();
        let title = task.text("title")?.unwrap_or_default();
        let mut text = title.clone();
        for key in ["description", "details", "testStrategy"] {
            if let Some(more) = task.text(key)?.filter(|more| !more.trim().is_empty()) {
                text = format!("{text}\n\n{}", more.trim());
            }
        }
        for sub in task.list("subtasks")?.unwrap_or_default() {
            if let Some(title) = sub.get("title").and_then(Value::as_str) {
                text = format!("{text}\n- {title}");
            }
        }
        let status = task.text("status")?.unwrap_or_default();
        let needs = task.texts("dependencies")?;
        found.push(Foreign {
            part: PlanPart {
                name: foreign::part_name(&id, &title),
                task: text,
                skills: task.texts("skills")?,
                ..PlanPart::default()
            },
            id,
            needs,
            done: foreign::is_done(&status),
        });
    }
    Ok(Plan {
        version: VERSION,
        name: tag.filter(|tag| crate::model::name::check(tag).is_ok()),
        task: "the open tasks of task-master".to_owned(),
        parts: foreign::parts(found),
        ..Plan::default()
    })
}
