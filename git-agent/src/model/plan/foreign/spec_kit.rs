//! `specs/<feature>/tasks.md` of Spec Kit. Its phases are the parts: the tasks of a phase share one worktree, because
//! most of them build on each other, and a phase builds on those before it.

use crate::error::{Error, Result};
use crate::model::name;
use crate::model::plan::{Plan, PlanPart, VERSION};

/// Returns whether the text has a task in the form `- [ ] T001 …`.
pub fn is_one(text: &str) -> bool {
    text.lines().any(|line| task(line).is_some())
}

/// A line with a task.
struct Task<'t> {
    done: bool,
    text: &'t str,
}

fn task(line: &str) -> Option<Task<'_>> {
    let rest = line.trim_start().strip_prefix("- [")?;
    let (mark, rest) = rest.split_once(']')?;
    let text = rest.trim_start();
    let digits = text.strip_prefix('T')?;
    let number = digits.chars().take_while(char::is_ascii_digit).count();
    let is_id = number > 0 && !digits[number..].starts_with(|c: char| c.is_alphanumeric());
    is_id.then_some(Task {
        done: mark.trim().eq_ignore_ascii_case("x"),
        text: text.trim_end(),
    })
}

/// Reads the phases that have open tasks.
pub fn read(text: &str) -> Result<Plan> {
    let mut title = None;
    let mut parts: Vec<PlanPart> = Vec::new();
    let mut heading = "tasks".to_owned();
    let mut fresh = true;
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("## ") {
            heading = words.trim().to_owned();
            fresh = true;
        } else if let Some(words) = line.strip_prefix("# ") {
            title.get_or_insert_with(|| words.trim().to_owned());
        }
        let Some(task) = task(line).filter(|task| !task.done) else {
            continue;
        };
        if std::mem::take(&mut fresh) {
            let taken = |name: &str| parts.iter().any(|part| part.name == name);
            let name = name::make_unique(&name::from_task(&heading), taken);
            let before = parts.last().map(|part| part.name.clone());
            parts.push(PlanPart {
                name,
                task: heading.clone(),
                depends_on: before.into_iter().collect(),
                ..PlanPart::default()
            });
        }
        if let Some(part) = parts.last_mut() {
            part.task = format!("{}\n- {}", part.task, task.text);
        }
    }
    if parts.is_empty() {
        return Err(Error::fatal("no task of the file is open"));
    }
    Ok(Plan {
        version: VERSION,
        task: title.unwrap_or_else(|| "the open tasks of Spec Kit".to_owned()),
        parts,
        ..Plan::default()
    })
}
