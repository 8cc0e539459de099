//! `git agent message`: words for another session, which its agent gets at the end of its turn.

use std::io::Write;

use clap::Args;
use git_agent::config::parse_duration;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::selection;
use git_agent::session::exchange::messages::{self, Draft, Received};

#[derive(Debug, Args)]
pub struct Message {
    /// The session that gets the message; 'list' lists the messages of a session
    #[arg(value_name = "TO|list")]
    to: String,
    /// The text ('-' is standard input), or with 'list' the session
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// The message that this one answers
    #[arg(long, value_name = "ID")]
    re: Option<String>,
    /// Wait this long for an answer, and print it
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Message) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        match args.to.as_str() {
            "list" => list(context, ui, args.text.as_deref()),
            _ => send(context, ui, args),
        }
    })
}

fn list(context: &Context<'_>, ui: &Ui, session: Option<&str>) -> Result<u8> {
    let listed = selection::select_one(context, session)?;
    let all = messages::list(context, &listed)?;
    match ui.format() {
        Format::Json => json::write_list(ui, "messages", &all)?,
        Format::Porcelain { nul } => {
            for one in &all {
                let re = one.re.as_deref().unwrap_or_default();
                let fields = [one.id.as_str(), &one.from, &one.to, re, &one.text];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
        }
        Format::Human => all.iter().try_for_each(|one| show(ui, one))?,
    }
    Ok(0)
}

fn show(ui: &Ui, one: &Received) -> Result<()> {
    let (from, to) = (one_line(&one.from), one_line(&one.to));
    let re = one
        .re
        .as_ref()
        .map_or_else(String::new, |re| format!(", in answer to {re}"));
    let waits = if one.waiting { ", waits" } else { "" };
    writeln!(ui.out(), "{} from {from} to {to}{re}{waits}", one.id)?;
    for line in block(&one.text).to_text().lines() {
        writeln!(ui.out(), "  {line}")?;
    }
    Ok(())
}

fn send(context: &Context<'_>, ui: &Ui, args: &Message) -> Result<u8> {
    let text = match args.text.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut std::io::stdin().lock(), &mut text)?;
            text
        }
        Some(text) => text.to_owned(),
        None => {
            return Err(Error::usage("no text given").hint("git agent message SESSION \"text\""));
        }
    };
    let re = args.re.as_deref().map(str::parse).transpose()?;
    let wait = match args.wait.as_deref() {
        None => None,
        Some(text) => Some(parse_duration(text).ok_or_else(|| {
            Error::usage(format!("'{text}' is not a duration")).hint("try 90s, 15m or 2h")
        })?),
    };
    let draft = Draft {
        to: &args.to,
        text: &text,
        re,
        wait,
    };
    let sent = messages::send(context, &draft)?;
    if sent.cut {
        ui.warning("the message was too long; its end was cut off");
    }
    match ui.format() {
        Format::Json => json::write_list(ui, "messages", [&sent])?,
        _ => match &sent.answer {
            Some(answer) => show(ui, answer)?,
            None => writeln!(ui.out(), "{}", sent.id)?,
        },
    }
    if sent.timed_out {
        ui.narrate(format!("no answer from '{}' yet", one_line(&sent.to)));
        return Ok(124);
    }
    Ok(0)
}
