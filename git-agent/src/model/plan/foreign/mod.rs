//! The task files of other tools, read as plans. They are only read: a status written back would be wrong soon.

pub mod backlog;
pub mod beads;
pub mod front_matter;
pub mod spec_kit;
pub mod task_master;

use crate::model::name;
use crate::model::plan::PlanPart;

/// Returns whether a task needs no work any more, by the words that these tools use.
fn is_done(status: &str) -> bool {
    const DONE: [&str; 7] = [
        "done",
        "completed",
        "complete",
        "closed",
        "cancelled",
        "canceled",
        "deferred",
    ];
    DONE.contains(&status.trim().to_ascii_lowercase().as_str())
}

/// Returns a valid name made from another tool's id and title.
fn part_name(id: &str, title: &str) -> String {
    let id: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let id = id.trim_matches('-').to_ascii_lowercase();
    let joined = format!("{id}-{}", name::from_task(title));
    let joined = joined.trim_matches('-');
    match name::check(joined) {
        Ok(()) => joined.to_owned(),
        Err(_) => name::from_task(&format!("{id} {title}")),
    }
}

/// A task of another tool, before its dependencies are names of parts.
#[derive(Debug, Default)]
struct Foreign {
    id: String,
    part: PlanPart,
    needs: Vec<String>,
    done: bool,
}

/// Returns the open tasks as parts. A dependency on a task that is done is met; one on an unknown task stays, so that the
/// check of the plan names it.
fn parts(tasks: Vec<Foreign>) -> Vec<PlanPart> {
    let done: Vec<String> = tasks
        .iter()
        .filter(|task| task.done)
        .map(|task| task.id.clone())
        .collect();
    let names: Vec<(String, String)> = tasks
        .iter()
        .map(|task| (task.id.clone(), task.part.name.clone()))
        .collect();
    let named = |id: String| {
        let known = names.iter().find(|(known, _)| *known == id);
        known.map_or(id, |(_, name)| name.clone())
    };
    tasks
        .into_iter()
        .filter(|task| !task.done)
        .map(|task| {
            let needs = task.needs.into_iter().filter(|id| !done.contains(id));
            PlanPart {
                depends_on: needs.map(named).collect(),
                ..task.part
            }
        })
        .collect()
}
