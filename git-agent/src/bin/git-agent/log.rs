//! `git agent log`: the transcripts of sessions, past and as they grow.

use clap::{Args, ValueEnum};
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::session_args::Choice;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::Format;
use git_agent::output::moment::Clock;
use git_agent::output::transcript::Writer;
use git_agent::selection::{self, Chosen};
use git_agent::session::events::live;
use git_agent::session::events::timeline::Filter;

use crate::event_format::{Form, Show};

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    choice: Choice,
    /// Follow new events until the sessions end; with '=forever' until interrupted
    #[arg(
        short,
        long,
        value_name = "how-long",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "end"
    )]
    follow: Option<Until>,
    /// Show only the last N events
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// Show only newer events: 10m, 2h, a date, a date and time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only one turn
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Show the records as they are: one JSON object a line
    #[arg(long, conflicts_with_all = ["json", "full"])]
    raw: bool,
    /// Show every kind of event, and outputs whole
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// How long to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// Until the sessions have ended.
    End,
    /// Until interrupted.
    Forever,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Log) -> Result<u8> {
    let mut options = args.output.options();
    let form = match options.format {
        _ if args.raw => Form::Raw,
        Format::Human => Form::Words,
        Format::Json => Form::Json,
        Format::Porcelain { .. } => {
            return Err(
                Error::usage("a transcript has no porcelain form").hint("use --raw or --json")
            );
        }
    };
    options.pager = args.follow.is_none() && !args.raw;
    options.pager_at_end = true;
    in_repo::run(env, options, |context, ui| {
        let Chosen { sessions, all } =
            selection::select_or_open(context, &args.choice.selection())?;
        let clock = Clock::local(env);
        let since = args.since.as_deref();
        let filter = Filter {
            since: since.map(|text| clock.parse(text, env.now())).transpose()?,
            turn: args.turn,
        };
        let mut writer = Writer::new(ui, clock, env.now()).full(args.full);
        let many = all || sessions.len() > 1;
        writer = writer.whole_turns(!many && args.follow.is_none());
        if many {
            writer = writer.with_names(sessions.iter().map(|listed| listed.session.name.as_str()));
        }
        let mut show = Show {
            context,
            ui,
            writer,
            filter,
            form,
            full: args.full,
        };
        match args.follow {
            None if form == Form::Json => show.envelope(&sessions, args.lines)?,
            None => {
                show.backlog(&sessions, args.lines)?;
                show.finish()?;
            }
            Some(until) => {
                let ends = show.backlog(&sessions, args.lines)?;
                let plan = live::FollowPlan {
                    sessions,
                    ends,
                    forever: until == Until::Forever || all,
                    all,
                };
                live::follow(context, plan, &mut show)?;
            }
        }
        Ok(0)
    })
}
