//! Jobs on sessions.

use git_agent::error::{Error, Result};
use git_agent::output::human;
use git_agent::selection::{self, Selection};
use git_agent::session::control::restart::Restarted;
use git_agent::session::control::send::Delivery;
use git_agent::session::control::{
    answer as answering, restart as restarting, send as sending, stop as stopping,
};
use git_agent::session::create::fork::{self as forking, Changes};
use git_agent::session::create::start::{self as starting, Versions};
use git_agent::session::create::{Options, choose_agent};
use git_agent::session::worktree::clean as cleaning;
use git_agent::session::worktree::restore::{self as restoring, Which};
use git_agent::session::worktree::snapshot as snapshots;

use crate::app::effect::{Message, NewSession};
use crate::effects::Work;
use crate::text;

/// Returns the choice of some sessions.
pub fn these(ids: Vec<String>) -> Selection {
    Selection {
        names: ids,
        ..Selection::default()
    }
}

fn optional(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn several(text: &str) -> Vec<String> {
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

pub fn start(work: &Work<'_, '_>, new: &NewSession) -> Result<Message> {
    let count = match new.versions.as_str() {
        "" => None,
        text => Some(
            text.parse::<u32>()
                .ok()
                .filter(|count| (1..=50).contains(count))
                .ok_or_else(|| {
                    Error::usage(format!("'{text}' is not a number of versions (1 to 50)"))
                })?,
        ),
    };
    let versions = Versions {
        agents: several(&new.agent),
        models: several(&new.model),
        count,
    };
    let options = Options {
        task: new.task.clone(),
        name: optional(&new.name),
        role: optional(&new.role),
        from: optional(&new.from),
        ask: new.ask.then_some(true),
        carry: new.carry,
        ..Options::default()
    };
    let planned = starting::plan(work.context, options, &versions)?;
    let made = starting::start_all(work.context, &planned, &mut |created| {
        work.progress(format!("started {}", created.session.name));
    })?;
    let Some(first) = made.first() else {
        return Ok(work.plain("nothing was started"));
    };
    let session = &first.session;
    let words = match made.len() {
        1 => format!("started '{}' with {}", session.name, session.agent),
        many => format!("started {many} versions"),
    };
    Ok(Message::Started(
        work.number,
        session.sid.to_string(),
        words,
    ))
}

pub fn choices(work: &Work<'_, '_>) -> Result<Message> {
    let config = &work.context.config;
    Ok(Message::Choices {
        agents: choose_agent::installed(config, work.context.env),
        roles: config.names("agent-role"),
    })
}

pub fn send(work: &Work<'_, '_>, id: &str, prompt: String) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(id))?.session;
    let name = &session.name;
    Ok(
        match sending::send(work.context, &session, || Ok(prompt))? {
            Delivery::Queued => {
                work.done(format!("queued for '{name}': it gets it after this turn"))
            }
            Delivery::Started => work.done(format!("sent to '{name}'")),
        },
    )
}

pub fn answer(work: &Work<'_, '_>, id: &str, word: &str) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(id))?.session;
    let given = answering::answer(work.context, &session, word)?;
    let title = text::cut(&text::line(&given.request.title), 60);
    Ok(work.done(format!("answered {word}: {title}")))
}

pub fn stop(work: &Work<'_, '_>, ids: Vec<String>) -> Result<Message> {
    let chosen = selection::select_all_mine(work.context, &these(ids))?;
    let mut stopped = 0;
    let reason = "stopped by the user";
    stopping::stop(
        work.context,
        &chosen,
        reason,
        &mut |session, was_running| {
            stopped += u64::from(was_running);
            work.progress(format!("stopped {}", session.name));
        },
    )?;
    Ok(match stopped {
        0 => work.plain("nothing was running"),
        many => work.done(format!("stopped {}", human::count(many, "session"))),
    })
}

pub fn restart(work: &Work<'_, '_>, ids: Vec<String>) -> Result<Message> {
    let chosen = selection::select_all_mine(work.context, &these(ids))?;
    let options = restarting::Options {
        words: None,
        leave_running: true,
    };
    let (mut started, mut said) = (0, None);
    restarting::restart(work.context, &chosen, options, &mut |session, what| {
        let name = &session.name;
        match what {
            Restarted::Started => started += 1,
            Restarted::RunsAlready => said = Some(format!("'{name}' is already running")),
            Restarted::NoBudget(words) => {
                said = Some(format!("'{name}' cannot continue: it is {words}"))
            }
        }
    })?;
    Ok(match (started, said) {
        (_, Some(words)) => work.bad(words),
        (many, None) => work.done(format!("started {}", human::count(many, "session"))),
    })
}

pub fn fork(work: &Work<'_, '_>, id: &str, prompt: String) -> Result<Message> {
    let listed = selection::select_one(work.context, Some(id))?;
    let changes = Changes {
        prompt,
        ..Changes::default()
    };
    let made = forking::fork(work.context, &listed, &changes, &mut |session| {
        let name = text::line(&session.name);
        let lines = vec![(
            crate::app::Tone::Plain,
            "It holds words that were not checked here.".to_owned(),
        )];
        Ok(work.out.ask(
            format!("give the agent the conversation of '{name}' too?"),
            lines,
            "give it",
        ))
    })?;
    let name = &made.session.name;
    let words = format!("started '{name}'");
    Ok(Message::Started(
        work.number,
        made.session.sid.to_string(),
        words,
    ))
}

pub fn discard(work: &Work<'_, '_>, ids: Vec<String>) -> Result<Message> {
    let chosen = selection::select_all_mine(work.context, &these(ids))?;
    stopping::stop(
        work.context,
        &chosen,
        "discarded by the user",
        &mut |_, _| {},
    )?;
    let options = cleaning::Options {
        named: true,
        ..cleaning::Options::default()
    };
    let (cleaned, _) = cleaning::clean(work.context, &chosen, options)?;
    let kept = cleaned.iter().find_map(|one| {
        let why = one.kept.first().filter(|_| one.worktree.is_none())?;
        Some(format!("'{}' is kept: {why}", one.name))
    });
    Ok(match kept {
        Some(words) => work.bad(words),
        None => work.done(format!(
            "discarded {}; restore brings it back",
            human::count(chosen.len() as u64, "session")
        )),
    })
}

pub fn clean(work: &Work<'_, '_>) -> Result<Message> {
    let all = Selection {
        all: true,
        ..Selection::default()
    };
    let chosen = selection::select(work.context, &all)?;
    let (cleaned, _) = cleaning::clean(work.context, &chosen, cleaning::Options::default())?;
    let gone = cleaned.iter().filter(|one| one.worktree.is_some()).count() as u64;
    Ok(match gone {
        0 => work.plain("nothing to clean up"),
        many => work.done(format!("removed {}", human::count(many, "worktree"))),
    })
}

pub fn snapshot(work: &Work<'_, '_>, id: &str) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(id))?.session;
    let taken = snapshots::take(work.context, &session, "taken by hand")?;
    Ok(if taken.is_new {
        work.done(format!("took a snapshot of '{}'", session.name))
    } else {
        work.plain("the last snapshot is the same")
    })
}

pub fn turns(work: &Work<'_, '_>, id: String) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(&id))?.session;
    let now = work.context.env.now();
    let mut turns: Vec<(u64, String)> = Vec::new();
    for kept in snapshots::list(work.context, &session)? {
        let Some(turn) = kept.turn else {
            continue;
        };
        if turns.iter().any(|(known, _)| *known == turn) {
            continue;
        }
        let at = git_agent::env::Millis(u64::try_from(kept.snapshot.time).unwrap_or(0) * 1000);
        turns.push((turn, format!("turn {turn}, {}", human::ago(now, at))));
    }
    Ok(Message::Turns(work.number, id, turns))
}

pub fn rewind(work: &Work<'_, '_>, id: &str, turn: u64) -> Result<Message> {
    let session = selection::select_mine(work.context, Some(id))?.session;
    restoring::rewind(work.context, &session, &Which::Turn(turn))?;
    Ok(work.done(format!(
        "'{}' is as it was after turn {turn}; a snapshot keeps the files of before",
        session.name
    )))
}
