//! Where a plan comes from: a file, standard input, a directory of tasks, or the configured roles.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::model::plan::foreign::backlog::NEXT_FILE;
use crate::model::plan::read::{self, LARGEST};
use crate::model::plan::{Plan, PlanPart, VERSION};

/// The role that plans and is not a part of a plan.
pub const ORCHESTRATOR: &str = "orchestrator";

/// Reads a plan from a file, from standard input (`-`), or from a directory of task files.
pub fn from_file(context: &Context<'_>, path: &Path) -> Result<Plan> {
    let cannot = || format!("cannot read the plan '{}'", path.display());
    let text = if path == Path::new("-") {
        bounded(std::io::stdin().lock()).context(cannot)?
    } else {
        let path = context.env.absolute(path);
        if path.is_dir() {
            tasks_of(&path).context(cannot)?
        } else {
            bounded(fs::File::open(&path).context(cannot)?).context(cannot)?
        }
    };
    if text.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(Error::fatal(format!(
            "{}: it is larger than {most} MiB",
            cannot()
        )));
    }
    let mut plan = read::read(&text)?;
    fill_from_roles(context, &mut plan);
    Ok(plan)
}

fn bounded(input: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    input.take(LARGEST + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the Markdown files of a directory as one text.
fn tasks_of(directory: &Path) -> std::io::Result<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "md") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut text = String::new();
    for path in paths {
        if !text.is_empty() {
            text.push(NEXT_FILE);
        }
        text += &bounded(fs::File::open(path)?)?;
        if text.len() as u64 > LARGEST {
            break;
        }
    }
    Ok(text)
}

/// Returns the roles that can be parts of a plan.
pub fn roles(context: &Context<'_>) -> Vec<String> {
    let mut names = context.config.names("agent-role");
    names.retain(|name| name != ORCHESTRATOR);
    names
}

/// Returns a setting of a role.
pub(crate) fn of_role(context: &Context<'_>, role: &str, key: &str) -> Option<String> {
    context.config.string(&format!("agent-role.{role}.{key}"))
}

/// Makes a plan with one part for each role.
pub fn by_role(context: &Context<'_>, task: &str) -> Result<Plan> {
    let names = roles(context);
    if names.is_empty() {
        return Err(Error::fatal("no roles are configured")
            .hint("git config agent-role.api.description \"API endpoints\"")
            .hint("git agent config import    take the roles of another tool"));
    }
    let parts = names.iter().map(|role| PlanPart {
        name: role.clone(),
        role: Some(role.clone()),
        depends_on: context
            .config
            .strings(&format!("agent-role.{role}.dependsOn"))
            .into_iter()
            .filter(|needed| names.contains(needed))
            .collect(),
        ..PlanPart::default()
    });
    let mut plan = Plan {
        version: VERSION,
        task: task.to_owned(),
        parts: parts.collect(),
        ..Plan::default()
    };
    fill_from_roles(context, &mut plan);
    Ok(plan)
}

/// Fills what a part leaves to its role: its share of the task and its directory.
fn fill_from_roles(context: &Context<'_>, plan: &mut Plan) {
    for part in &mut plan.parts {
        let Some(role) = part.role.clone() else {
            continue;
        };
        if part.task.is_empty()
            && let Some(words) =
                of_role(context, &role, "task").or_else(|| of_role(context, &role, "description"))
        {
            part.task = words;
        }
        if part.directory.is_none() {
            part.directory = of_role(context, &role, "directory");
        }
    }
}
