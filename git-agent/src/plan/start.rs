//! Starts the parts of a plan: everything is chosen and checked first, shown, and only then created.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::refs::{Expected, RefChange};
use crate::model::name;
use crate::model::plan::{Gate, Overlap, Plan, PlanPart};
use crate::model::session::Session;
use crate::plan::{planner, source};
use crate::session::caller;
use crate::session::create::{self, Created, Options, PartFacts, choose_agent};
use crate::session::supervisor::launch;
use crate::store::list::Scope;

/// How a plan is found and carried out.
#[derive(Debug, Clone, Default)]
pub struct Request<'r> {
    /// The task in words.
    pub task: Option<String>,
    /// The file with the plan; `-` is standard input.
    pub plan: Option<&'r Path>,
    /// Whether each role gets a part.
    pub by_role: bool,
    /// Agents for parts that name none, one after the other.
    pub agents: Vec<String>,
    /// The gate, instead of the plan's.
    pub gate: Option<Gate>,
    /// How many parts may run at once, instead of the plan's number.
    pub batch_size: Option<u32>,
    /// The branch that the parts start from and merge into.
    pub into: Option<String>,
    /// A branch of the group's own, which the parts merge into; it lands as one.
    pub integrate: Option<String>,
}

/// A plan that is ready to be carried out.
#[derive(Debug, Serialize)]
pub struct Prepared {
    /// The group that its sessions will form.
    pub group: String,
    /// The plan.
    pub plan: Plan,
    /// The parts in waves, by name.
    pub waves: Vec<Vec<String>>,
    /// Parts that may change the same files at the same time.
    pub overlaps: Vec<Overlap>,
    /// Keys of the plan without a meaning here.
    pub unknown_keys: Vec<String>,
    /// The agent of each part.
    pub agents: BTreeMap<String, String>,
    /// Notices for the user.
    pub notices: Vec<String>,
    #[serde(skip)]
    chosen: Vec<choose_agent::Chosen>,
    #[serde(skip)]
    integrate: Option<String>,
}

/// A part whose session was started.
#[derive(Debug)]
pub struct Started {
    /// The part.
    pub part: String,
    /// Its session.
    pub created: Created,
    /// The pid of its supervisor.
    pub pid: Option<u32>,
}

/// Finds a plan, and checks everything that can be checked before a session exists. `tell` is told what a planner does.
pub fn prepare(
    context: &Context<'_>,
    request: &Request<'_>,
    tell: &mut dyn FnMut(String),
) -> Result<Prepared> {
    caller::forbid_making(context)?;
    let mut plan = find(context, request, tell)?;
    if let Some(task) = &request.task {
        plan.task.clone_from(task);
    }
    if let Some(gate) = request.gate {
        plan.gate = gate;
    }
    plan.batch_size = request.batch_size.or(plan.batch_size);
    if request.into.is_some() {
        plan.into.clone_from(&request.into);
    }
    let mut notices = Vec::new();
    for (at, part) in plan.parts.iter_mut().enumerate() {
        if part.agent.is_none() && !request.agents.is_empty() {
            part.agent = Some(request.agents[at % request.agents.len()].clone());
        }
        if part.task.is_empty() {
            part.task.clone_from(&plan.task);
        }
        if part.task.trim().is_empty() {
            return Err(Error::fatal(format!("part '{}' has no task", part.name))
                .hint("git agent start \"<task>\" --plan FILE"));
        }
    }
    refuse(&plan)?;
    check_limits(&plan)?;
    if plan.gate == Gate::Tested && context.config.text(&settings::TEST).is_none() {
        return Err(
            Error::fatal("the gate is 'tested', but no test command is configured")
                .hint("git config agent.test \"make test\""),
        );
    }
    let mut chosen = Vec::with_capacity(plan.parts.len());
    for part in &plan.parts {
        let role = known_role(context, part);
        if role.is_none()
            && let Some(role) = &part.role
        {
            notices.push(format!(
                "role '{role}' of part '{}' is not configured; its agent is only told of it",
                part.name
            ));
        }
        let wish = choose_agent::AgentChoice {
            agent: part.agent.as_deref(),
            model: part.model.as_deref(),
            role,
            command: &[],
            later: false,
        };
        chosen.push(choose_agent::choose(&context.config, context.env, &wish)?);
    }
    if let Some(into) = &plan.into
        && context.repo.branch_tip(into)?.is_none()
    {
        return Err(Error::fatal(format!("no branch '{into}'")).hint("git branch --list"));
    }
    let waves = plan.waves();
    let waves = waves
        .iter()
        .map(|wave| wave.iter().map(|part| part.name.clone()).collect())
        .collect();
    let agents = plan.parts.iter().zip(&chosen);
    Ok(Prepared {
        group: free_group(context, &plan)?,
        waves,
        overlaps: plan.overlaps(),
        unknown_keys: plan.unknown_keys(),
        agents: agents
            .map(|(part, chosen)| (part.name.clone(), chosen.name.clone()))
            .collect(),
        notices,
        chosen,
        integrate: request.integrate.clone(),
        plan,
    })
}

fn find(
    context: &Context<'_>,
    request: &Request<'_>,
    tell: &mut dyn FnMut(String),
) -> Result<Plan> {
    if let Some(path) = request.plan {
        return source::from_file(context, path);
    }
    let Some(task) = request
        .task
        .as_deref()
        .filter(|task| !task.trim().is_empty())
    else {
        return Err(Error::usage("neither a task nor a plan is given")
            .hint("git agent start \"<task>\"")
            .hint("git agent start --plan FILE"));
    };
    if request.by_role {
        return source::by_role(context, task);
    }
    match planner::agent(context) {
        Ok(_) => planner::plan(context, task, tell),
        // Roles are a plan by themselves where no agent can make one.
        Err(_) if !source::roles(context).is_empty() => source::by_role(context, task),
        Err(error) => Err(error),
    }
}

/// Fails with all problems of a plan.
fn refuse(plan: &Plan) -> Result<()> {
    let problems = plan.check();
    let Some((first, rest)) = problems.split_first() else {
        return Ok(());
    };
    let mut error = Error::fatal(format!("the plan cannot be carried out: {first}"));
    for problem in rest.iter().take(10) {
        error = error.hint(problem.to_string());
    }
    Err(error)
}

/// Makes sure that the limits are settings with valid values.
fn check_limits(plan: &Plan) -> Result<()> {
    for (key, value) in &plan.limits {
        let Some(known) = crate::config::keys::find(&format!("agent.{key}")) else {
            return Err(
                Error::fatal(format!("the plan has an unknown limit '{key}'"))
                    .hint("git agent config    list all settings"),
            );
        };
        if let Some(complaint) = known.kind.complaint(value) {
            return Err(Error::fatal(format!(
                "bad value for limit '{key}': {complaint}"
            )));
        }
    }
    Ok(())
}

/// Returns the role of a part if it is configured.
fn known_role<'p>(context: &Context<'_>, part: &'p PlanPart) -> Option<&'p str> {
    let role = part.role.as_deref()?;
    let roles = context.config.names("agent-role");
    roles.iter().any(|known| known == role).then_some(role)
}

/// Returns a name that no group has.
fn free_group(context: &Context<'_>, plan: &Plan) -> Result<String> {
    let stem = match &plan.name {
        Some(name) => name.clone(),
        None => name::from_task(&plan.task),
    };
    let listing = context.store.list(Scope::Mine)?;
    let taken = |name: &str| {
        let mut sessions = listing.sessions.iter().map(|listed| &listed.session);
        sessions.any(|session| session.group.as_deref() == Some(name))
    };
    Ok(name::make_unique(&stem, taken))
}

/// Creates and launches the sessions of a plan. `tell` is told of each as soon as its supervisor runs.
pub fn carry_out(
    context: &Context<'_>,
    prepared: &Prepared,
    tell: &mut dyn FnMut(&Started),
) -> Result<Vec<Started>> {
    let plan = &prepared.plan;
    let parent = match &prepared.integrate {
        Some(branch) => Some(make_branch(context, plan, branch)?),
        None => plan.into.clone(),
    };
    let mut started: Vec<Started> = Vec::with_capacity(plan.parts.len());
    // In waves: a part is made after those that it depends on, whose ids it records.
    for name in prepared.waves.iter().flatten() {
        let found = plan.parts.iter().zip(&prepared.chosen);
        let Some((part, chosen)) = found.into_iter().find(|(part, _)| part.name == *name) else {
            continue;
        };
        let options = options(context, prepared, part, chosen, &parent, &started)?;
        let created = create::start::start(context, &options)
            .map_err(|error| incomplete(error, prepared, &started))?;
        let pid = launch::running(&context.store, created.session.sid)?;
        let one = Started {
            part: part.name.clone(),
            pid: pid.map(|run| run.supervisor.pid),
            created,
        };
        tell(&one);
        started.push(one);
    }
    Ok(started)
}

/// Adds the parts that run already to an error.
fn incomplete(error: Error, prepared: &Prepared, started: &[Started]) -> Error {
    if started.is_empty() {
        return error;
    }
    let group = shell_word(&prepared.group);
    let (done, all) = (started.len(), prepared.plan.parts.len());
    error
        .hint(format!("{done} of {all} parts were started"))
        .hint(format!("git agent stop --group {group}"))
}

/// Makes the branch that the parts merge into.
fn make_branch(context: &Context<'_>, plan: &Plan, branch: &str) -> Result<String> {
    let repo = context.repo;
    if !repo.is_valid_branch(branch) {
        return Err(Error::fatal(format!(
            "'{branch}' is not a valid branch name"
        )));
    }
    if repo.branch_tip(branch)?.is_none() {
        let start = match &plan.into {
            Some(into) => repo.branch_tip(into)?,
            None => repo.head()?.commit,
        };
        let change = RefChange {
            name: format!("refs/heads/{branch}"),
            expected: Expected::Absent,
            new: start,
        };
        // Another command may have made it meanwhile: that one is as good.
        let _ = repo.swap_refs(&[change])?;
    }
    Ok(branch.to_owned())
}

fn options(
    context: &Context<'_>,
    prepared: &Prepared,
    part: &PlanPart,
    chosen: &choose_agent::Chosen,
    parent: &Option<String>,
    started: &[Started],
) -> Result<Options> {
    let plan = &prepared.plan;
    let sid_of = |name: &String| {
        let one = started.iter().find(|one| one.part == *name);
        one.map(|one| one.created.session.sid.to_string())
    };
    let mut limits = plan.limits.clone();
    if let Some(budget) = plan.budget {
        let key = settings::MAX_GROUP_COST.key.name;
        limits.insert(key.to_owned(), budget.to_string());
    }
    Ok(Options {
        task: prompt(prepared, part),
        name: Some(session_name(context, &prepared.group, part)?),
        agent: chosen.name.clone(),
        model: chosen.model.clone(),
        role: known_role(context, part).map(str::to_owned),
        group: Some(prepared.group.clone()),
        from: parent.clone(),
        after: part.depends_on.iter().filter_map(sid_of).collect(),
        part: Some(PartFacts {
            name: part.name.clone(),
            task: part.task.clone(),
            gate: plan.gate,
            batch_size: plan.batch_size,
            directory: part.directory.clone(),
            produces: part.produces.clone(),
            limits,
            branch: part.worktree.clone(),
        }),
        ..Options::default()
    })
}

/// Returns the name of a part's session: the part's own if it is free.
fn session_name(context: &Context<'_>, group: &str, part: &PlanPart) -> Result<String> {
    let listing = context.store.list(Scope::Mine)?;
    let open = |session: &Session, name: &str| session.name == name && !session.status.is_closed();
    let directory = create::location::worktree_dir(context)?;
    let taken = |name: &str| {
        let branch = create::location::branch(context, part.role.as_deref(), name).ok();
        let branched =
            branch.is_some_and(|branch| !matches!(context.repo.branch_tip(&branch), Ok(None)));
        let mut sessions = listing.sessions.iter().map(|listed| &listed.session);
        branched || sessions.any(|session| open(session, name)) || directory.join(name).exists()
    };
    if !taken(&part.name) {
        return Ok(part.name.clone());
    }
    let long = format!("{group}-{}", part.name);
    let stem = match name::check(&long) {
        Ok(()) => long,
        Err(_) => part.name.clone(),
    };
    Ok(name::make_unique(&stem, taken))
}

/// Returns the first prompt of a part: its share, and what it must know of the others.
fn prompt(prepared: &Prepared, part: &PlanPart) -> String {
    let plan = &prepared.plan;
    let mut text = part.task.trim().to_owned();
    let mut say = |line: String| {
        let _ = write!(text, "\n{line}");
    };
    say("\n---".to_owned());
    say(format!(
        "This is part '{}' of the plan '{}'.",
        part.name, prepared.group
    ));
    if !plan.task.is_empty() && plan.task != part.task {
        say(format!("The whole task: {}", plan.task.trim()));
    }
    if let Some(role) = &part.role {
        say(format!("Your role: {role}."));
    }
    if let Some(directory) = &part.directory {
        say(format!("Work in the directory '{directory}' only."));
    }
    if !part.files.is_empty() {
        say(format!(
            "Files you are expected to change: {}.",
            part.files.join(", ")
        ));
    }
    if !part.skills.is_empty() {
        say(format!(
            "Use these skills if you have them: {}.",
            part.skills.join(", ")
        ));
    }
    if !part.depends_on.is_empty() {
        let names = part.depends_on.join(", ");
        say(format!(
            "The work of {names} is finished and in your branch."
        ));
    }
    let others: Vec<&str> = plan
        .parts
        .iter()
        .filter(|other| other.name != part.name)
        .map(|other| other.name.as_str())
        .collect();
    if !others.is_empty() {
        say(format!(
            "Other parts, which other agents do: {}.",
            others.join(", ")
        ));
        say(
            "Ask one with: git agent message PART \"text\". Answers come as your next prompt."
                .to_owned(),
        );
    }
    if !part.consumes.is_empty() {
        let names = part.consumes.join(", ");
        say(format!(
            "Files of other parts are in the directory $GIT_AGENT_ARTIFACTS, read-only: {names}."
        ));
    }
    for name in &part.produces {
        say(format!(
            "Others need the file '{name}' from you: git agent artifact put {name} FILE"
        ));
    }
    text
}
