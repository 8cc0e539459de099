//! Reads plan files: version 1, the shapes that other tools' documents show, and the task files of other tools. The
//! format is recognised by the content.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Context, Error, Result};
use crate::model::name;
use crate::model::plan::fragments::Fields;
use crate::model::plan::{Plan, PlanPart, VERSION, foreign};

/// The largest plan file.
pub const LARGEST: u64 = 1 << 20;

/// Reads a plan in any known format.
pub fn read(text: &str) -> Result<Plan> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if trimmed.is_empty() {
        return Err(Error::fatal("the plan is empty"));
    }
    if trimmed.starts_with('{') {
        return match serde_json::from_str::<Value>(trimmed) {
            Ok(value) if foreign::beads::is_one(&value) => foreign::beads::read(trimmed),
            Ok(value) => read_value(value),
            Err(_) if foreign::beads::is_several(trimmed) => foreign::beads::read(trimmed),
            Err(error) => Err(error).context(|| "the plan is not JSON".into()),
        };
    }
    if trimmed.starts_with('[') {
        let value: Value =
            serde_json::from_str(trimmed).context(|| "the plan is not JSON".into())?;
        return read_value(Value::Object(Map::from_iter([(
            "agents".to_owned(),
            value,
        )])));
    }
    if foreign::backlog::is_one(trimmed) {
        return foreign::backlog::read(trimmed);
    }
    if foreign::spec_kit::is_one(trimmed) {
        return foreign::spec_kit::read(trimmed);
    }
    Err(Error::fatal("the format of the plan is unknown")
        .hint("git help git-agent-workflows    formats of plans"))
}

/// Reads a plan from JSON.
pub fn read_value(value: Value) -> Result<Plan> {
    if foreign::task_master::is_one(&value) {
        return foreign::task_master::read(value);
    }
    let mut fields = Fields::new("", value)?;
    let mut plan = Plan {
        version: fields.count("version")?.unwrap_or(VERSION),
        ..Plan::default()
    };
    take_head(&mut fields, &mut plan)?;
    let mut parts = Vec::new();
    if let Some(mut session) = fields.object("session")? {
        take_head(&mut session, &mut plan)?;
        parts.extend(take_parts(&mut session, "agents")?);
        keep(&mut plan.other, "session", session.rest());
    }
    parts.extend(take_parts(&mut fields, "agents")?);
    if parts.is_empty() {
        parts.extend(take_parts(&mut fields, "roles")?);
    }
    plan.parts = parts;
    take_dependencies(&mut fields, &mut plan)?;
    take_resources(&mut fields, &mut plan)?;
    take_merge(&mut fields, &mut plan)?;
    plan.other.extend(fields.rest());
    Ok(plan)
}

/// Keeps the rest of an object, unless it is empty.
fn keep(other: &mut Map<String, Value>, key: &str, rest: Map<String, Value>) {
    if !rest.is_empty() {
        other.insert(key.to_owned(), Value::Object(rest));
    }
}

fn take_head(fields: &mut Fields, plan: &mut Plan) -> Result<()> {
    if let Some(name) = fields.text("name")? {
        plan.name = Some(name);
    }
    if let Some(task) = fields.text("task")? {
        plan.task = task;
    }
    if let Some(into) = fields.text("into")? {
        plan.into = Some(into);
    }
    if let Some(gate) = fields.text("gate")? {
        plan.gate = gate.parse()?;
    }
    if let Some(count) = fields.count("batchSize")? {
        plan.batch_size = Some(u32::try_from(count).unwrap_or(u32::MAX));
    }
    if let Some(budget) = fields.number("budget")? {
        plan.budget = Some(budget);
    }
    if let Some(limits) = fields.object("limits")? {
        for (key, value) in limits.rest() {
            plan.limits.insert(key, word(&value));
        }
    }
    Ok(())
}

/// Takes parts from a list, or from an object whose keys are their names.
fn take_parts(fields: &mut Fields, key: &str) -> Result<Vec<PlanPart>> {
    match fields.value(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(values)) => {
            let mut parts: Vec<PlanPart> = Vec::with_capacity(values.len());
            for (at, value) in values.into_iter().enumerate() {
                let place = format!("{}[{at}]", fields.under(key));
                let mut fields = Fields::new(place, value)?;
                // Only a name that is not in the file may be changed.
                let made = !fields.has("name");
                let mut part = read_part(&mut fields, None)?;
                part.other = fields.rest();
                if made {
                    let taken = |name: &str| parts.iter().any(|known| known.name == name);
                    part.name = name::make_unique(&part.name, taken);
                }
                parts.push(part);
            }
            Ok(parts)
        }
        Some(Value::Object(map)) => {
            let mut parts = Vec::new();
            // Both configure agents; neither is a part of the work.
            let is_part = |name: &String| name != "default" && name != "orchestrator";
            for (name, value) in map.into_iter().filter(|(name, _)| is_part(name)) {
                let place = format!("{}.{name}", fields.under(key));
                let mut fields = Fields::new(place, value)?;
                let mut part = read_part(&mut fields, Some(name))?;
                part.other = fields.rest();
                parts.push(part);
            }
            Ok(parts)
        }
        Some(_) => Err(Error::fatal(format!(
            "'{}' is not a list",
            fields.under(key)
        ))),
    }
}

fn read_part(fields: &mut Fields, known: Option<String>) -> Result<PlanPart> {
    let role = fields.text("role")?;
    let own = fields.text("name")?.or(known.clone());
    let task = fields.text("task")?;
    let description = fields.text("description")?;
    let mut depends_on = fields.texts("dependsOn")?;
    depends_on.extend(fields.texts("depends_on")?);
    let worktree = fields.text("worktree")?;
    let name = match (own, &role, &task, &worktree) {
        (Some(name), ..) => name,
        (None, Some(role), ..) => role.clone(),
        (None, None, Some(task), _) => name::from_task(task),
        (None, None, None, Some(worktree)) => worktree.replace('/', "-"),
        _ => String::new(),
    };
    Ok(PlanPart {
        role: role.or(known),
        task: task.or(description).unwrap_or_default(),
        depends_on,
        directory: fields.text("directory")?,
        skills: fields.texts("skills")?,
        agent: fields.text("agent")?,
        model: fields.text("model")?,
        worktree,
        files: fields.texts("files")?,
        produces: fields.texts("produces")?,
        consumes: fields.texts("consumes")?,
        name,
        other: Map::new(),
    })
}

/// Takes the map of dependencies. Its names become parts where there are none.
fn take_dependencies(fields: &mut Fields, plan: &mut Plan) -> Result<()> {
    let Some(mut map) = fields.object("dependencies")? else {
        return Ok(());
    };
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in map.names() {
        let needed = map.texts(&name)?;
        edges.insert(name, needed);
    }
    if plan.parts.is_empty() {
        let mut all: Vec<&String> = edges.values().flatten().chain(edges.keys()).collect();
        // Those without a dependency first, as a reader expects.
        all.sort_by_key(|name| edges.get(*name).map_or(0, Vec::len));
        for name in all {
            if plan.parts.iter().all(|part| part.name != *name) {
                plan.parts.push(PlanPart {
                    name: name.clone(),
                    role: Some(name.clone()),
                    ..PlanPart::default()
                });
            }
        }
    }
    for (name, needed) in edges {
        let named = |part: &&mut PlanPart| part.name == name;
        let Some(part) = plan.parts.iter_mut().find(named) else {
            return Err(Error::fatal(format!(
                "'dependencies' names '{name}', which is not in the plan"
            )));
        };
        for one in needed {
            if !part.depends_on.contains(&one) {
                part.depends_on.push(one);
            }
        }
    }
    Ok(())
}

/// Takes limits as other tools write them.
fn take_resources(fields: &mut Fields, plan: &mut Plan) -> Result<()> {
    let Some(mut resources) = fields.object("resources")? else {
        return Ok(());
    };
    if let Some(cores) = resources.number("maxCpuPerAgent")? {
        let percent = format!("{:.0}", cores * 100.0);
        plan.limits.insert("maxCpu".to_owned(), percent);
    }
    if let Some(memory) = resources.value("maxMemoryPerAgent") {
        let memory = word(&memory).to_ascii_lowercase();
        let memory = memory.trim_end_matches('b').trim_end_matches('i').trim();
        plan.limits
            .insert("maxMemory".to_owned(), memory.to_owned());
    }
    if let Some(count) = resources.count("maxConcurrentAgents")? {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        plan.batch_size.get_or_insert(count);
    }
    keep(&mut plan.other, "resources", resources.rest());
    Ok(())
}

/// Takes what a merge requires: the rest of that object decides nothing at the start.
fn take_merge(fields: &mut Fields, plan: &mut Plan) -> Result<()> {
    let Some(mut merge) = fields.object("merge")? else {
        return Ok(());
    };
    if let Some(Value::Bool(true)) = merge.value("requireTests")
        && plan.gate == crate::model::plan::Gate::Ready
    {
        plan.gate = crate::model::plan::Gate::Tested;
    }
    keep(&mut plan.other, "merge", merge.rest());
    Ok(())
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
