//! `git agent board`: the board and the review screen in the terminal.

mod app;
mod args;
mod effects;
mod keys;
mod run;
mod screen;
mod syntax;
mod text;
mod view;

use std::process::ExitCode;
use std::sync::Arc;

use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::invoke::{self, complete, in_repo};
use git_agent::output::Options;
use git_agent::output::moment::Clock;
use git_agent::output::terminal::pager;
use git_agent::output::terminal::style::When;
use git_agent::selection::{self, Selection};

use app::App;
use args::Cli;
use keys::Keys;
use run::Start;
use view::theme::{Depth, Theme};

fn main() -> ExitCode {
    invoke::main("git-agent-board", |env, arguments| {
        if let [verb, words @ ..] = arguments
            && verb == complete::VERB
        {
            return complete::run::<Cli>(env, words);
        }
        let cli: Cli = invoke::parse(arguments)?;
        require_terminal(env, &cli)?;
        show(&cli)
    })
}

/// Refuses to paint where it could not be seen.
fn require_terminal(env: &Env, cli: &Cli) -> Result<()> {
    let instead = match (cli.review, &cli.session) {
        (true, Some(name)) => format!("git agent review diff {}", shell_word(name)),
        (true, None) => "git agent review".to_owned(),
        _ => "git agent list".to_owned(),
    };
    let why = if pager::in_use(env) {
        "the board does not work in a pager"
    } else if !env.terminals.stdin || !env.terminals.stdout {
        "the board needs a terminal"
    } else if env.var("TERM").is_none_or(|term| term == "dumb") {
        "the board needs a terminal that can move its cursor"
    } else {
        return Ok(());
    };
    Err(Error::fatal(why).hint(instead))
}

fn show(cli: &Cli) -> Result<u8> {
    // The threads of the board outlive every borrow of the caller's.
    let env = Arc::new(Env::from_process()?);
    let mut begun = None;
    in_repo::run(&env, Options::default(), |context, _| {
        let config = |key: &str| context.config.string(key);
        let (keys, bad) = Keys::load(&config);
        let session = match &cli.session {
            Some(name) => Some(
                selection::select_one(context, Some(name))?
                    .session
                    .sid
                    .to_string(),
            ),
            None if cli.review => Some(
                selection::select_one(context, None)?
                    .session
                    .sid
                    .to_string(),
            ),
            None => None,
        };
        let is_light = match config("agent.board.background").as_deref() {
            Some("light") => Some(true),
            Some("dark") => Some(false),
            _ => None,
        };
        let colors = When::configured(&|key| context.git_config(key), "color.agent");
        let mut app = App::new(
            keys,
            context.repository_name(),
            env.now(),
            Clock::local(&env),
        );
        if let Some(words) = bad.first() {
            app.say(app::Tone::Bad, words.clone());
        }
        let depth = Depth::of(&env, colors != When::Never);
        let start = Start {
            selection: Selection {
                group: cli.group.clone(),
                ..Selection::default()
            },
            session,
            review: cli.review,
            is_light,
        };
        let diff = |slot: &str| context.git_config(&format!("color.diff.{slot}"));
        begun = Some((app, start, depth, (diff("new"), diff("old"))));
        Ok(0)
    })?;
    let (app, start, depth, (new, old)) = begun.ok_or_else(|| Error::fatal("cannot begin"))?;
    run::run(&env, app, start, |is_light| {
        Theme::new(depth, is_light).with_diff_colors(new.as_deref(), old.as_deref())
    })
}
