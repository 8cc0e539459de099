//! `git agent new`: a session with a task, a branch and a worktree of its own, running in the background.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};

use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::invoke::text_input;
use git_agent::listing::row::Summary;
use git_agent::model::name;
use git_agent::output::terminal::sanitize;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::session::create::{self, Created, Options, carry, choose_agent};
use git_agent::session::supervisor::launch;

#[derive(Debug, Args)]
pub struct New {
    /// The task in words, or with '--' the session's name
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Read the task from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Name the session (default: made from the task)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Agent, or several for one version each (default: agent.default)
    #[arg(short, long, value_name = "AGENT", value_delimiter = ',', value_parser = name_parser())]
    agent: Vec<String>,
    /// Model, or several for one version each
    #[arg(short, long, value_name = "MODEL", value_delimiter = ',', value_parser = name_parser())]
    model: Vec<String>,
    /// Take agent, model, branch prefix and limits from a role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Make this many versions of the task, as one group
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    versions: Option<u32>,
    /// Put the session in a group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Start from a revision or from another session's work (default: HEAD)
    #[arg(long, value_name = "REV|SESSION")]
    from: Option<String>,
    /// Share the worktree of a session
    #[arg(long = "in", value_name = "SESSION", conflicts_with_all = ["from", "carry"])]
    shares: Option<String>,
    /// Wait for a session and start from its result (can be repeated)
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["from", "carry"])]
    after: Vec<String>,
    /// Let the agent look but change nothing
    #[arg(long)]
    read_only: bool,
    /// Move the uncommitted changes of this checkout into the new worktree
    #[arg(long, conflicts_with = "no_start")]
    carry: bool,
    /// Ask a person before every permission (default: agent.permissions)
    #[arg(long, overrides_with = "no_ask")]
    ask: bool,
    /// Answer permissions by policy
    #[arg(long, overrides_with = "ask")]
    no_ask: bool,
    /// Run the agent without the guard; the transcript says so
    #[arg(long)]
    no_guard: bool,
    /// Only describe it; 'git agent resume' starts it
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// A shell command as the agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the verb.
pub fn run(env: &Env, args: &New) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        start(context, ui, args)
    })
}

fn start(context: &Context<'_>, ui: &Ui, args: &New) -> Result<u8> {
    let versions = plan(context, args)?;
    let mut made = Vec::with_capacity(versions.len());
    for options in &versions {
        let mut created = if args.carry {
            carry::create(context, options)?
        } else {
            create::create(context, options)?
        };
        if !args.no_start {
            launch::launch(context, created.session.sid)?;
        }
        created.starting = None;
        tell(ui, &created)?;
        made.push(created);
    }
    answer(ui, &made, args.no_start)?;
    Ok(0)
}

/// Works out one set of options a version.
fn plan(context: &Context<'_>, args: &New) -> Result<Vec<Options>> {
    let (task, name) = task(context, args)?;
    let mut base = Options {
        task,
        name,
        command: args.command.clone(),
        role: args.role.clone(),
        group: args.group.clone(),
        from: args.from.clone(),
        shares: args.shares.clone(),
        after: args.after.clone(),
        read_only: args.read_only,
        ask: args.ask.then_some(true).or(args.no_ask.then_some(false)),
        no_guard: args.no_guard,
        draft: args.no_start,
        ..Options::default()
    };
    let agents = if args.agent.is_empty() {
        vec![None]
    } else {
        args.agent.iter().map(Some).collect()
    };
    let models = if args.model.is_empty() {
        vec![None]
    } else {
        args.model.iter().map(Some).collect()
    };
    let count = (agents.len() * models.len()).max(args.versions.unwrap_or(1) as usize);
    if count == 1 {
        choose(context, &mut base, agents[0], models[0])?;
        return Ok(vec![base]);
    }
    if args.carry {
        return Err(Error::usage(
            "'--carry' moves changes into one session, not into versions",
        ));
    }
    let stem = base
        .name
        .clone()
        .unwrap_or_else(|| name::from_task(&base.task));
    let group = base.group.get_or_insert_with(|| stem.clone()).clone();
    (0..count)
        .map(|index| {
            let mut options = base.clone();
            options.group = Some(group.clone());
            options.name = Some(format!("{stem}-v{}", index + 1));
            let agent = agents[index % agents.len()];
            let model = models[(index / agents.len()) % models.len()];
            choose(context, &mut options, agent, model)?;
            Ok(options)
        })
        .collect()
}

fn choose(
    context: &Context<'_>,
    options: &mut Options,
    agent: Option<&String>,
    model: Option<&String>,
) -> Result<()> {
    let chosen = choose_agent::choose(
        &context.config,
        context.env,
        &choose_agent::Wish {
            agent: agent.map(String::as_str),
            model: model.map(String::as_str),
            role: options.role.as_deref(),
            command: &options.command,
        },
    )?;
    options.agent = chosen.name;
    options.model = chosen.model;
    Ok(())
}

/// Reads one of several names; after a comma there may be a blank.
fn name_parser() -> impl TypedValueParser<Value = String> {
    NonEmptyStringValueParser::new().try_map(|text| match text.trim() {
        "" => Err("the name is empty"),
        name => Ok(name.to_owned()),
    })
}

/// Returns the task and the name, from wherever they were given.
fn task(context: &Context<'_>, args: &New) -> Result<(String, Option<String>)> {
    if !args.command.is_empty() && args.file.is_none() {
        match (args.task.as_deref(), &args.name) {
            // A command says itself what is to be done.
            (None, name) => return Ok((args.command.join(" "), name.clone())),
            // The words before '--' are the name when they can be one, and the task otherwise.
            (Some(words), None) if words != "-" => {
                let name = git_agent::model::name::check(words).is_ok();
                return Ok((words.to_owned(), name.then(|| words.to_owned())));
            }
            _ => {}
        }
    }
    let text = text_input::read(context, "task", args.task.as_deref(), args.file.as_deref())?;
    Ok((text, args.name.clone()))
}

/// Says what happened on the way.
pub fn tell(ui: &Ui, created: &Created) -> Result<()> {
    for notice in &created.notices {
        ui.warning(sanitize::one_line(notice.as_str()));
    }
    Ok(())
}

/// Prints what was made and what to do next.
pub fn answer(ui: &Ui, made: &[Created], draft: bool) -> Result<()> {
    match ui.format() {
        Format::Json => {
            let row = |Created { session, .. }: &Created| Summary::of_own(session, session.updated);
            return json::write_list(ui, "sessions", made.iter().map(row));
        }
        Format::Porcelain { nul } => {
            for Created { session, .. } in made {
                let fields = [
                    session.sid.as_str(),
                    &session.name,
                    session.branch.as_deref().unwrap_or(""),
                    session.worktree.as_deref().unwrap_or(""),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            return Ok(());
        }
        Format::Human => {}
    }
    for Created { session, .. } in made {
        let mut out = ui.out();
        writeln!(out, "{}", sanitize::one_line(session.name.as_str()))?;
        if let Some(branch) = &session.branch {
            writeln!(out, "  branch    {}", sanitize::one_line(branch.as_str()))?;
        }
        if let Some(path) = &session.worktree {
            writeln!(out, "  worktree  {}", sanitize::one_line(path.as_str()))?;
        }
    }
    let Some(Created { session, .. }) = made.first() else {
        return Ok(());
    };
    let name = shell_word(&session.name);
    if draft {
        ui.hint(format!("git agent resume {name}    start it"));
    } else {
        ui.hint(format!("git agent log -f {name}    watch it work"));
        ui.hint("git agent list    see all sessions".to_owned());
    }
    Ok(())
}
