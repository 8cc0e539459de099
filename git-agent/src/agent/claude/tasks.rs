//! The agent's plan, from its tool calls: a whole list, or tasks that are created and changed one by one.

use serde_json::Value;

use crate::model::event::{Body, PlanEntry};
use crate::model::event_words::StepStatus;

/// The tasks of a turn.
#[derive(Debug, Default)]
pub struct Tasks {
    tasks: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    /// The vendor's id, once it is known.
    id: Option<String>,
    call: String,
    text: String,
    status: StepStatus,
}

impl Tasks {
    /// Handles a tool call. Returns the plan if it changed.
    pub fn called(&mut self, call: &str, name: &str, input: &Value) -> Option<Body> {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        match name {
            "TodoWrite" | "todo_write" => {
                let todos = input.get("todos")?.as_array()?;
                let entry = |todo: &Value| {
                    Some(PlanEntry {
                        text: todo.get("content")?.as_str()?.to_owned(),
                        status: todo
                            .get("status")
                            .and_then(Value::as_str)
                            .unwrap_or("pending")
                            .into(),
                    })
                };
                return Some(Body::Plan {
                    entries: todos.iter().filter_map(entry).collect(),
                });
            }
            "TaskCreate" => self.tasks.push(Task {
                id: None,
                call: call.to_owned(),
                text: text("subject").or(text("description"))?.to_owned(),
                status: StepStatus::Pending,
            }),
            "TaskUpdate" => {
                let id = input.get("taskId").map(|id| match id {
                    Value::String(id) => id.clone(),
                    other => other.to_string(),
                })?;
                let index = self
                    .tasks
                    .iter()
                    .position(|task| task.id.as_deref() == Some(id.as_str()))?;
                if text("status") == Some("deleted") {
                    self.tasks.remove(index);
                } else {
                    let task = &mut self.tasks[index];
                    if let Some(status) = text("status") {
                        task.status = status.into();
                    }
                    task.text = text("subject").unwrap_or(&task.text).to_owned();
                }
            }
            _ => return None,
        }
        Some(self.plan())
    }

    /// Handles a tool's result, which may contain the id of a new task. Returns the plan if it changed.
    pub fn returned(&mut self, call: &str, output: &str, result: &Value) -> Option<Body> {
        let task = self
            .tasks
            .iter_mut()
            .find(|task| task.call == call && task.id.is_none())?;
        let told = match &result["task"]["id"] {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        };
        // The text is "Task #7 created".
        let said = || {
            let rest = output.split_once('#')?.1;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (!digits.is_empty()).then_some(digits)
        };
        task.id = told.or_else(said);
        None
    }

    fn plan(&self) -> Body {
        Body::Plan {
            entries: self
                .tasks
                .iter()
                .map(|task| PlanEntry {
                    text: task.text.clone(),
                    status: task.status.clone(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(body: Option<Body>) -> Vec<String> {
        match body {
            Some(Body::Plan { entries }) => entries
                .into_iter()
                .map(|entry| format!("{} {}", entry.text, entry.status))
                .collect(),
            other => panic!("no plan: {other:?}"),
        }
    }

    #[test]
    fn a_list_is_taken_whole() {
        let todos = json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b"}, {"no": "text"}]});
        let plan = Tasks::default().called("1", "TodoWrite", &todos);
        assert_eq!(entries(plan), ["a completed", "b pending"]);
    }

    #[test]
    fn tasks_are_followed_by_their_ids() {
        let mut tasks = Tasks::default();
        tasks.called("c1", "TaskCreate", &json!({"subject": "a"}));
        tasks.returned("c1", "Task #1 created successfully: a", &Value::Null);
        tasks.called("c2", "TaskCreate", &json!({"subject": "b"}));
        tasks.returned("c2", "", &json!({"task": {"id": "7"}}));
        let plan = tasks.called(
            "c3",
            "TaskUpdate",
            &json!({"taskId": "1", "status": "completed"}),
        );
        assert_eq!(entries(plan), ["a completed", "b pending"]);
        let plan = tasks.called(
            "c4",
            "TaskUpdate",
            &json!({"taskId": 7, "status": "deleted"}),
        );
        assert_eq!(entries(plan), ["a completed"]);
        assert!(
            tasks
                .called("c5", "TaskUpdate", &json!({"taskId": 99}))
                .is_none()
        );
        assert!(tasks.called("c6", "Bash", &json!({})).is_none());
    }
}
