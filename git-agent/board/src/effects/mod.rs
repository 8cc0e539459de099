//! Carries out effects. Each job runs in a thread of its own, so that the screen never waits, and calls one function of the
//! library, which makes every check.

mod merging;
mod reviewing;
mod sessions;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::in_repo;
use git_agent::listing::live::Bell;
use git_agent::output::Options;
use git_agent::review::shown::Shown;

use crate::app::Tone;
use crate::app::effect::{Ask, Job, Message};
use crate::syntax::{self, Sides};
use crate::text;

/// The way back to the screen.
#[derive(Debug, Clone)]
pub struct Outbox {
    sender: Sender<Message>,
    bell: Bell,
}

impl Outbox {
    /// Returns a way back that rings a bell.
    pub fn new(sender: Sender<Message>, bell: Bell) -> Self {
        Outbox { sender, bell }
    }

    /// Reports something. A screen that has gone hears nothing.
    pub fn send(&self, message: Message) {
        let _ = self.sender.send(message);
        self.bell.ring();
    }

    /// Asks the user, and waits for the answer. A screen that has gone says no.
    pub fn ask(&self, title: impl Into<String>, lines: Vec<(Tone, String)>, yes: &str) -> bool {
        let (answer, wait) = channel();
        self.send(Message::Ask(Ask {
            title: title.into(),
            lines,
            yes: yes.to_owned(),
            answer,
        }));
        wait.recv().unwrap_or(false)
    }
}

/// What a job works with.
struct Work<'c, 'a> {
    context: &'c Context<'a>,
    out: &'c Outbox,
    number: u64,
}

impl Work<'_, '_> {
    fn progress(&self, words: impl Into<String>) {
        self.out.send(Message::Progress(self.number, words.into()));
    }

    fn done(&self, words: impl Into<String>) -> Message {
        Message::Done(self.number, Tone::Good, words.into())
    }

    fn plain(&self, words: impl Into<String>) -> Message {
        Message::Done(self.number, Tone::Plain, words.into())
    }

    fn bad(&self, words: impl Into<String>) -> Message {
        Message::Done(self.number, Tone::Bad, words.into())
    }
}

/// Returns an error in one line, with its first hint.
pub fn words(error: &Error) -> String {
    let message = error.with_causes();
    match error.hints().first() {
        Some(hint) => format!("{message} ({hint})"),
        None => message,
    }
}

/// Begins a job.
pub fn begin(env: &Arc<Env>, out: &Outbox, number: u64, job: Job) {
    let (env, out) = (Arc::clone(env), out.clone());
    let report = out.clone();
    let thread = std::thread::Builder::new().name("job".to_owned());
    let spawned = thread.spawn(move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| run(&env, &out, number, job)));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => out.send(Message::Done(number, Tone::Bad, words(&error))),
            Err(_) => {
                let words = "an internal error: this is a bug in git-agent".to_owned();
                out.send(Message::Done(number, Tone::Bad, words));
            }
        }
    });
    if let Err(error) = spawned {
        let words = format!("cannot start a thread: {error}");
        report.send(Message::Done(number, Tone::Bad, words));
    }
}

fn run(env: &Env, out: &Outbox, number: u64, job: Job) -> Result<()> {
    // Colours need no repository.
    let job = match job {
        Job::Colors(shown, file, hunk) => {
            out.send(colors(&shown, file, hunk));
            return Ok(());
        }
        job => job,
    };
    in_repo::run_without_warnings(env, Options::default(), |context, _| {
        let work = Work {
            context,
            out,
            number,
        };
        out.send(carry_out(&work, job)?);
        Ok(0)
    })
    .map(drop)
}

fn carry_out(work: &Work<'_, '_>, job: Job) -> Result<Message> {
    match job {
        Job::Start(session) => sessions::start(work, &session),
        Job::Choices => sessions::choices(work),
        Job::Send(id, prompt) => sessions::send(work, &id, prompt),
        Job::Answer(id, answer) => sessions::answer(work, &id, &answer),
        Job::Stop(ids) => sessions::stop(work, ids),
        Job::Restart(ids) => sessions::restart(work, ids),
        Job::Fork(id, prompt) => sessions::fork(work, &id, prompt),
        Job::Discard(ids) => sessions::discard(work, ids),
        Job::Clean => sessions::clean(work),
        Job::Update(ids) => merging::update(work, ids),
        Job::Snapshot(id) => sessions::snapshot(work, &id),
        Job::Turns(id) => sessions::turns(work, id),
        Job::Rewind(id, turn) => sessions::rewind(work, &id, turn),
        Job::Load(id, scope) => reviewing::load(work, &id, scope),
        Job::Peek(id) => reviewing::peek(work, id),
        Job::Check(shown) => reviewing::check(work, &shown),
        Job::Seen(shown) => reviewing::seen(work, &shown),
        Job::Lines(shown, file) => reviewing::lines(work, &shown, file),
        Job::Colors(shown, file, hunk) => Ok(colors(&shown, file, hunk)),
        Job::Comment(id, target, body) => reviewing::comment(work, &id, &target, &body),
        Job::Reply(comment, body) => reviewing::reply(work, &comment, &body),
        Job::Close(comment, resolved) => reviewing::close(work, comment, resolved),
        Job::SendReview(id) => reviewing::send(work, &id),
        Job::Verdict(shown, verdict, why) => reviewing::judge(work, &shown, verdict, &why),
        Job::Approve(ids) => reviewing::approve(work, &ids),
        Job::Merge(ids) => merging::merge(work, ids),
        Job::Pick(id) => merging::pick(work, id),
        Job::Resolve(id) => merging::resolve(work, &id),
        Job::Undo => merging::undo(work),
        Job::Revert(shown, file, hunk) => reviewing::revert(work, &shown, file, hunk),
        Job::Compare(ids) => reviewing::compare(work, &ids),
    }
}

/// Finds the colours of a hunk.
fn colors(shown: &Shown, file: usize, hunk: usize) -> Message {
    let changed = &shown.files[file];
    let lines = changed.hunks[hunk].lines.iter().take(syntax::MOST_LINES);
    let lines: Vec<(Sides, String)> = lines
        .map(|line| {
            let sides = match (line.old, line.new) {
                (Some(_), None) => Sides::Old,
                (None, Some(_)) => Sides::New,
                _ => Sides::Both,
            };
            (sides, text::code(&line.text))
        })
        .collect();
    let path = String::from_utf8_lossy(&changed.path);
    Message::Colors(shown.id.clone(), file, hunk, syntax::hunk(&path, &lines))
}
