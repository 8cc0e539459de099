//! Steering a session: stop it, start it again, answer it.

pub mod archive;
pub mod recover;
pub mod requests;
pub mod state;

use std::time::{Duration, Instant};

use crate::agent::driver::{NOBODY, REFUSALS};
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::model::event::{Body, Choice};
use crate::model::session::{Session, SessionId, State};
use crate::process::identity::{Signal, Stat};
use crate::process::lock::{self, Lock};
use crate::process::tree::{self, Care};
use crate::process::wait::{Change, Poll, Watch};
use crate::session::checks::dead_turns;
use crate::session::supervisor::inbox::{Inbox, Message};
use crate::session::supervisor::launch::{self, RunFile};
use crate::session::supervisor::prompts::{self, Delivery, USER};
use crate::session::{caller, events};
use crate::store::log::writer::SessionWriter;

/// How long a supervisor may take to end its agent and itself before it is made to.
const PATIENCE: Duration = Duration::from_secs(15);

/// The kind of request that may be answered in any words.
const QUESTION: &str = "question";

/// What an agent is told that remembers what it was doing.
pub const GO_ON: &str =
    "The previous turn was interrupted. Go on with the task where you left off.";
/// What it is told when nothing was interrupted.
const MORE: &str = "Go on with the task.";

/// Ends what a session is doing. Returns whether anything was running.
pub fn stop(context: &Context<'_>, sid: SessionId, reason: &str) -> Result<bool> {
    let store = &context.store;
    let lock = launch::run_lock(store, sid);
    if !lock::is_held(&lock)? {
        let left = end_orphans(context, sid)?;
        settle(context, sid, State::Stopped, reason)?;
        return Ok(left);
    }
    let inbox = Inbox::open(store, sid)?;
    let message = Message::Stop {
        reason: reason.to_owned(),
    };
    let id = inbox.put(context.env, &message)?;
    let ended = wait_until_free(context, sid, PATIENCE)?;
    // One that was about to end anyway has not read it, and the next supervisor must not find it.
    inbox.remove(id)?;
    if ended {
        settle(context, sid, State::Stopped, reason)?;
        return Ok(true);
    }
    // It does not even read its messages any more.
    if let Some(RunFile { supervisor, .. }) = launch::running(store, sid)?
        && let Some(handle) = supervisor.open(context.env)?
    {
        handle.signal(Signal::KILL)?;
        handle.wait(Some(PATIENCE))?;
    }
    end_orphans(context, sid)?;
    settle(context, sid, State::Stopped, reason)?;
    Ok(true)
}

/// Waits until a session's supervisor has ended.
pub fn wait_until_free(context: &Context<'_>, sid: SessionId, patience: Duration) -> Result<bool> {
    let lock = launch::run_lock(&context.store, sid);
    let deadline = Instant::now() + patience;
    let mut watch = Watch::new()?;
    watch.add(&context.store.require_dir("run")?, Change::Settled)?;
    loop {
        if !lock::is_held(&lock)? {
            return Ok(true);
        }
        let mut poll = Poll::new();
        poll.read((), &watch);
        if poll.wait(Some(deadline))?.is_empty() {
            return Ok(!lock::is_held(&lock)?);
        }
        watch.take();
    }
}

/// Makes sure that nobody works in a session. A supervisor whose turn is over is given the moment it needs to end; one
/// that stays for the next prompt is asked to go.
pub fn require_idle(context: &Context<'_>, session: &Session) -> Result<()> {
    if is_idle(context, session)? && make_free(context, session.sid)? {
        return Ok(());
    }
    let name = &session.name;
    Err(Error::fatal(format!("session '{name}' is at work"))
        .hint(format!("git agent wait {}", shell_word(name)))
        .hint(format!(
            "or end its turn: git agent stop {}",
            shell_word(name)
        )))
}

/// Returns whether no turn runs in a session; its supervisor may stay for the next prompt.
pub fn is_idle(context: &Context<'_>, session: &Session) -> Result<bool> {
    if !lock::is_held(&launch::run_lock(&context.store, session.sid))? {
        return Ok(true);
    }
    let recorded = context.store.session(session.sid)?;
    Ok(recorded.is_none_or(|recorded| !recorded.status.needs_supervisor()))
}

/// Lets a supervisor end that has nothing to do. Returns whether none is left.
fn make_free(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    if wait_until_free(context, sid, Duration::ZERO)? {
        return Ok(true);
    }
    let inbox = Inbox::open(&context.store, sid)?;
    let id = inbox.put(context.env, &Message::Leave)?;
    let free = wait_until_free(context, sid, PATIENCE);
    // One that was about to end anyway has not read it.
    inbox.remove(id)?;
    free
}

/// Ends what a dead supervisor left running. Returns whether there was anything.
pub fn end_orphans(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let others = launch::supervisors(&context.store);
    let spare = |stat: &Stat| others.contains(&stat.pid);
    let care = Care {
        spare: &spare,
        ..Care::new(Duration::from_secs(1))
    };
    let ended = tree::end_marked(caller::MARK, sid.as_str(), care)?;
    Ok(!ended.asked.is_empty() || !ended.killed.is_empty())
}

/// Records the state of a session that nobody supervises, if it is not over already.
pub fn settle(context: &Context<'_>, sid: SessionId, to: State, reason: &str) -> Result<()> {
    launch::without_supervisor(context, sid, || {
        let mut writer = SessionWriter::open(&context.store, sid, context.redactor())?;
        dead_turns::settle_or_tell(context, &mut writer)?;
        if writer.session().status.needs_supervisor() || writer.session().status == State::Draft {
            writer.set_status(to, reason)?;
        }
        writer.close()
    })?;
    Ok(())
}

/// Records that sessions whose supervisor died were interrupted, and ends what it left running. Returns their names.
pub fn notice_dead(context: &Context<'_>, sessions: &[Session]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for session in sessions
        .iter()
        .filter(|session| session.status == State::Interrupted)
    {
        let recorded = context.store.session(session.sid)?;
        if recorded.is_some_and(|recorded| recorded.status.needs_supervisor()) {
            end_orphans(context, session.sid)?;
            settle(
                context,
                session.sid,
                State::Interrupted,
                "the supervisor died",
            )?;
            names.push(session.name.clone());
        }
    }
    Ok(names)
}

/// Goes on with a session: with the given words, or where it was interrupted.
pub fn restart(context: &Context<'_>, session: &Session, words: Option<&str>) -> Result<Delivery> {
    if launch::running(&context.store, session.sid)?.is_some() {
        stop(context, session.sid, "restarted")?;
    }
    let waiting = has_prompt_left(context, session.sid)?;
    let last = last_turn(context, session.sid)?;
    let text = match words {
        Some(words) => Some(words.to_owned()),
        // A prompt that was never begun is simply begun, if none before it was cut short.
        None if waiting && !last.cut => None,
        None => Some(continuation(session, last)),
    };
    match text {
        Some(text) => {
            let message = Message::Prompt {
                text,
                from: USER.to_owned(),
                again: words.is_none(),
            };
            match words {
                Some(_) => prompts::send(context, session.sid, &message),
                None => prompts::send_first(context, session.sid, &message),
            }
        }
        None => {
            launch::launch(context, session.sid)?;
            Ok(Delivery::Started)
        }
    }
}

/// Returns whether a prompt waits whose turn never began.
fn has_prompt_left(context: &Context<'_>, sid: SessionId) -> Result<bool> {
    let recorded = context.store.session(sid)?;
    Ok(!prompts::left(context, sid, recorded.as_ref())?.is_empty())
}

/// The turn that was begun last.
#[derive(Debug, Default)]
struct LastTurn {
    prompt: Option<String>,
    /// Whether it did not come to its end.
    cut: bool,
}

fn last_turn(context: &Context<'_>, sid: SessionId) -> Result<LastTurn> {
    let mut last = LastTurn::default();
    let tip = context.store.log_tip(sid)?.map(|tip| tip.id);
    events::for_each(context, sid, tip, &mut |event| {
        match event.body {
            Body::Prompt { text, .. } => {
                last.prompt = Some(text);
                last.cut = true;
            }
            Body::Status {
                to: State::Ready | State::Failed,
                ..
            } => last.cut = false,
            _ => {}
        }
        Ok(true)
    })?;
    Ok(last)
}

/// Returns what to say to go on: an agent that remembers is told to continue, another gets its last prompt again.
fn continuation(session: &Session, last: LastTurn) -> String {
    match (&session.vendor_session, last.cut) {
        (Some(_), true) => GO_ON.to_owned(),
        (Some(_), false) => MORE.to_owned(),
        (None, _) => last.prompt.unwrap_or_else(|| session.task.clone()),
    }
}

/// An answer that was left for a session.
#[derive(Debug)]
pub struct Given {
    /// What it answers.
    pub request: requests::Request,
    /// The id of the option that was chosen, or free text.
    pub choice: String,
}

/// Answers what a session asks.
pub fn answer(context: &Context<'_>, session: &Session, choice: &str) -> Result<Given> {
    if session.status != State::Waiting {
        let message = format!(
            "session '{}' is {}: it asks nothing",
            session.name, session.status
        );
        return Err(
            Error::fatal(message).hint(format!("git agent log {}", shell_word(&session.name)))
        );
    }
    let inbox = Inbox::open(&context.store, session.sid)?;
    // Of several who answer the same at once, one does.
    let lock = inbox.dir().join("answer.lock");
    let lock = Lock::acquire(context.env, lock, PATIENCE)?;
    let given = give(context, session, choice, &inbox);
    lock.remove()?;
    given
}

/// Leaves an answer to the oldest request that has none.
fn give(context: &Context<'_>, session: &Session, choice: &str, inbox: &Inbox) -> Result<Given> {
    let given = inbox.list()?;
    let is_given = |wanted: &str| {
        given.iter().any(
            |(_, message)| matches!(message, Message::Answer { request, .. } if request == wanted),
        )
    };
    let open = requests::open_requests(events::tail(context, session.sid, requests::REQUEST)?);
    let asked = !open.is_empty();
    let Some(request) = open.into_iter().find(|request| !is_given(&request.id)) else {
        let name = &session.name;
        return Err(Error::fatal(match asked {
            true => format!("what session '{name}' asks is answered already"),
            false => format!("cannot find what session '{name}' asks"),
        }));
    };
    let Some(choice) = choose(&request, choice) else {
        let message = format!(
            "'{choice}' answers nothing that session '{}' asks",
            session.name
        );
        let options = request.options.iter().enumerate();
        return Err(options.fold(Error::fatal(message), |error, (at, option)| {
            error.hint(format!("{}    {}", at + 1, option.label))
        }));
    };
    let message = Message::Answer {
        choice: choice.clone(),
        request: request.id.clone(),
    };
    inbox.put(context.env, &message)?;
    Ok(Given { request, choice })
}

/// Understands an answer: an option's id, its number, its label's beginning, yes or no; to a question, or where there are
/// no options, it is free text otherwise. A permission can be refused also where no option says so.
fn choose(request: &requests::Request, answer: &str) -> Option<String> {
    let options = &request.options;
    let wanted = answer.trim().to_lowercase();
    let refuses = request.kind != QUESTION && REFUSALS.contains(&wanted.as_str());
    let by_kind = |kind: &str| options.iter().find(|option| option.kind.starts_with(kind));
    let found = options
        .iter()
        .find(|option| option.id == answer)
        .or_else(|| match wanted.as_str() {
            "y" | "yes" | "allow" | "ok" => by_kind("allow_once").or_else(|| by_kind("allow")),
            "always" => by_kind("allow_always"),
            "n" | "no" | "reject" | "deny" => by_kind("reject_once").or_else(|| by_kind("reject")),
            "never" => by_kind("reject_always").or_else(|| by_kind("reject")),
            _ => None,
        })
        .or_else(|| {
            let number = wanted.parse::<usize>().ok()?.checked_sub(1)?;
            options.get(number)
        })
        .or_else(|| {
            options.iter().find(|option| match refuses {
                // "Notify me" is no "no".
                true => is_refusal(option),
                false => !wanted.is_empty() && option.label.to_lowercase().starts_with(&wanted),
            })
        });
    let refused = || refuses.then(|| NOBODY.to_owned());
    let is_free = request.kind == QUESTION || options.is_empty();
    let free = || (is_free && !wanted.is_empty()).then(|| answer.to_owned());
    let found = found.map(|option| option.id.clone());
    found.or_else(refused).or_else(free)
}

/// Returns whether an option that does not say its kind refuses, by its first word.
fn is_refusal(option: &Choice) -> bool {
    let label = option.label.to_lowercase();
    let first = label.split(|c: char| !c.is_alphanumeric()).next();
    !option.kind.starts_with("allow") && first.is_some_and(|word| REFUSALS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::{Choice, NOBODY, QUESTION, choose, requests};

    #[test]
    fn answers_are_understood() {
        let option = |id: &str, label: &str, kind: &str| Choice {
            id: id.into(),
            label: label.into(),
            kind: kind.into(),
        };
        let options = vec![
            option("once", "Allow once", "allow_once"),
            option("ever", "Always allow", "allow_always"),
            option("no", "Reject", "reject_once"),
        ];
        let request = |kind: &str, options: &[Choice]| requests::Request {
            id: "1".into(),
            kind: kind.into(),
            title: "may it?".into(),
            options: options.to_vec(),
        };
        for (said, meant) in [
            ("once", "once"),
            ("yes", "once"),
            ("always", "ever"),
            ("n", "no"),
            ("3", "no"),
            ("rej", "no"),
        ] {
            let chosen = choose(&request("permission", &options), said);
            assert_eq!(chosen.as_deref(), Some(meant), "{said}");
        }
        for said in ["use the other file", "9", "0", "", "maybe"] {
            assert_eq!(
                choose(&request("permission", &options), said),
                None,
                "{said}"
            );
        }
        let free = choose(&request(QUESTION, &options), "use the other file");
        assert_eq!(free.as_deref(), Some("use the other file"));
        let free = choose(&request("permission", &[]), "9");
        assert_eq!(free.as_deref(), Some("9"));
        let never = choose(&request("permission", &options), "never");
        assert_eq!(never.as_deref(), Some("no"));
        let only = [option("go", "Notify me and go", "allow_once")];
        for said in ["no", "N", "never", "deny"] {
            for options in [&[][..], &only] {
                let refused = choose(&request("permission", options), said);
                assert_eq!(refused.as_deref(), Some(NOBODY), "{said}");
            }
        }
        let plain = [option("a", "Yes", ""), option("b", "No, stop", "")];
        let chosen = choose(&request("permission", &plain), "no");
        assert_eq!(chosen.as_deref(), Some("b"));
        assert_eq!(choose(&request(QUESTION, &[]), "no").as_deref(), Some("no"));
    }
}
