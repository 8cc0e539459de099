//! `git agent why`: line → commit → session → prompt.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::why::{self, Answer, Origin, Question};
use git_agent::output::moment::Clock;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, cannot_write, human, json};

#[derive(Debug, Args)]
pub struct Why {
    /// A line of a file, or a commit
    #[arg(value_name = "FILE:LINE|COMMIT")]
    what: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb. Exit code 1 means that no session is known.
pub fn run(env: &Env, args: &Why) -> Result<u8> {
    let mut options = args.output.options();
    if matches!(options.format, Format::Porcelain { .. }) {
        return Err(Error::usage("'why' has no porcelain format").hint("use --json"));
    }
    options.pager = true;
    in_repo::run(env, options, |context, ui| {
        let question = Question::parse(context, &args.what)?;
        let answer = why::why(context, &question).map_err(|error| match &question {
            Question::Commit(name) if name.contains(':') => error.hint("name a line as FILE:LINE"),
            _ => error,
        })?;
        match ui.format() {
            Format::Json => json::write_list(ui, "why", [&answer])?,
            _ => write(context, ui, &answer)?,
        }
        Ok(u8::from(answer.sessions.is_empty()))
    })
}

fn write(context: &Context<'_>, ui: &Ui, answer: &Answer) -> Result<()> {
    let now = context.env.now();
    let label = |text: &str| {
        ui.palette()
            .paint(Slot::Dim, format!("{text:<8}"))
            .to_string()
    };
    let line = |name: &str, text: String| {
        writeln!(ui.out(), "{} {text}", label(name)).context(cannot_write)
    };
    if let Some(found) = &answer.line {
        let place = format!("{}:{}", found.path, found.number);
        line("line", one_line(&place).to_string())?;
        line("", one_line(found.text.trim()).to_string())?;
    }
    match &answer.commit {
        Some(commit) => {
            let id = ui
                .palette()
                .paint(Slot::Id, &commit.id[..commit.id.len().min(12)]);
            line("commit", format!("{id} {}", one_line(&commit.subject)))?;
            let when = human::ago(now, commit.at);
            line("", format!("{}, {when}", one_line(&commit.author)))?;
        }
        None => line("commit", "not committed yet".to_owned())?,
    }
    if answer.sessions.is_empty() {
        ui.narrate("no known session made this");
    }
    for origin in &answer.sessions {
        tell(context, ui, origin, &line)?;
    }
    Ok(())
}

fn tell(
    context: &Context<'_>,
    ui: &Ui,
    origin: &Origin,
    line: &dyn Fn(&str, String) -> Result<()>,
) -> Result<()> {
    let name = match origin.name.as_str() {
        "" => "(its log is not in this clone)",
        name => name,
    };
    let name = ui.palette().paint(Slot::Name, one_line(name).to_text());
    let agent = match &origin.model {
        Some(model) => format!("{}/{model}", origin.agent),
        None => origin.agent.clone(),
    };
    let agent = match agent.as_str() {
        "" => String::new(),
        agent => format!(" by {}", one_line(agent)),
    };
    line("session", format!("{name}{agent} {}", origin.id))?;
    let Some(prompt) = &origin.prompt else {
        return Ok(());
    };
    let clock = Clock::local(context.env);
    let when = format!("{} {}", clock.day(prompt.at), clock.time(prompt.at));
    let from = match prompt.from.as_str() {
        "" => String::new(),
        from => format!(" by {}", one_line(from)),
    };
    line("prompt", format!("turn {}, {when}{from}", prompt.turn))?;
    let text = block(prompt.text.trim_end()).to_text();
    for words in text.lines() {
        line("", words.trim_end().to_owned())?;
    }
    Ok(())
}
