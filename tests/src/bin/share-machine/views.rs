//! What clones show, sharing between them, and whether it is what must hold at the end.

use std::collections::BTreeMap;
use std::path::Path;

use git_agent::context::Context;
use git_agent::env::{Env, Terminals};
use git_agent::error::{Error, Result};
use git_agent::git::Repo;
use git_agent::git::remote::transfer::Audience;
use git_agent::model::event::Body;
use git_agent::model::review::{self, Record, Review};
use git_agent::model::session::{SessionId, State};
use git_agent::share::remote::Remote;
use git_agent::share::{fetch, push};
use git_agent::store::list::{Listed, Scope};
use git_agent::store::notes::Kind;

use crate::{CLONES, World, git};

impl World {
    /// Brings everybody up to date and holds what they see to the model and to each other.
    pub(super) fn settle(&mut self) -> Result<()> {
        for _ in 0..2 {
            for clone in 0..CLONES {
                share(&self.path(clone))?;
            }
            for clone in 0..CLONES {
                take(&self.path(clone), true)?;
            }
        }
        let mut first: Option<View> = None;
        for clone in 0..CLONES {
            let view = inside(&self.path(clone), view)?;
            self.check(clone, &view)?;
            match &first {
                None => first = Some(view),
                Some(first) if *first == view => {}
                Some(first) => {
                    return Err(Error::fatal(format!(
                        "clones 0 and {clone} see different things:\n{first:#?}\n{view:#?}"
                    )));
                }
            }
            git(
                &self.path(clone),
                &["fsck", "--no-dangling", "--no-progress"],
            )?;
        }
        git(
            &self.dir.path().join("hub.git"),
            &["fsck", "--no-dangling", "--no-progress"],
        )
    }

    pub(super) fn check(&self, clone: usize, view: &View) -> Result<()> {
        let model = &self.model;
        for (sid, events) in &model.events {
            let shown = view.sessions.get(sid);
            match (shown, model.forgotten.contains(sid)) {
                (None, true) => {}
                (Some(_), true) => {
                    return Err(Error::fatal(format!("clone {clone} shows deleted {sid}")));
                }
                (None, false) => {
                    return Err(Error::fatal(format!("clone {clone} lacks session {sid}")));
                }
                (Some((_, texts)), false) => {
                    for text in events {
                        let times = texts.iter().filter(|one| *one == text).count();
                        if times != 1 {
                            return Err(Error::fatal(format!(
                                "clone {clone} has '{text}' of {sid} {times} times"
                            )));
                        }
                    }
                }
            }
        }
        for (id, (_, sid, body)) in &model.comments {
            if model.forgotten.contains(sid) {
                continue;
            }
            let comments = view.reviews.get(sid).map(|review| &review.threads);
            let found = comments
                .into_iter()
                .flatten()
                .flat_map(|thread| &thread.comments)
                .find(|comment| comment.id == *id);
            let standing = found.filter(|one| !one.deleted).map(|one| &one.body);
            if standing != body.as_ref() {
                return Err(Error::fatal(format!(
                    "clone {clone}: comment {id} is {standing:?}, not {body:?}"
                )));
            }
        }
        Ok(())
    }
}

/// What a clone shows.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    sessions: BTreeMap<SessionId, (State, Vec<String>)>,
    reviews: BTreeMap<SessionId, Review>,
}

pub(super) fn view(context: &Context<'_>) -> Result<View> {
    let listing = context.store.list(Scope::Archived)?;
    if let Some(bad) = listing.unreadable.first() {
        return Err(Error::fatal(format!("{}: {}", bad.name, bad.reason)));
    }
    let mut sessions = BTreeMap::new();
    for listed in &listing.sessions {
        sessions.insert(
            listed.session.sid,
            (listed.session.status, texts(context, listed)?),
        );
    }
    let mut reviews = reviews(context)?;
    reviews.retain(|sid, _| sessions.contains_key(sid));
    Ok(View { sessions, reviews })
}

pub(super) fn texts(context: &Context<'_>, listed: &Listed) -> Result<Vec<String>> {
    let Some(tip) = listed.tip else {
        return Ok(Vec::new());
    };
    let mut texts = Vec::new();
    for event in context.store.transcript(tip)? {
        if let Body::Notice { text } = event?.body {
            texts.push(text);
        }
    }
    Ok(texts)
}

pub(super) fn reviews(context: &Context<'_>) -> Result<BTreeMap<SessionId, Review>> {
    let records = context.store.note_records::<Record>(Kind::Review)?.records;
    let records = records.into_iter().map(|one| (one.writer, one.value));
    Ok(review::fold(records))
}

pub(super) fn inside<T>(path: &Path, work: impl FnOnce(&Context<'_>) -> Result<T>) -> Result<T> {
    let env = Env::new(path.to_owned(), std::env::vars_os(), Terminals::default());
    let repo = Repo::open(&env, &path.join(".git"))?;
    let context = Context::new(&env, &repo)?;
    work(&context)
}

pub(super) fn share(path: &Path) -> Result<()> {
    inside(path, |context| {
        let remote = Remote::choose(context, None)?;
        let changes = push::push(
            context,
            &remote,
            &push::Options::default(),
            &mut Audience::Silent,
        )?;
        match changes.iter().find(|one| one.reason.is_some()) {
            Some(refused) => Err(Error::fatal(format!("a push was refused: {refused:?}"))),
            None => Ok(()),
        }
    })
}

pub(super) fn take(path: &Path, prune: bool) -> Result<()> {
    inside(path, |context| {
        let remote = Remote::choose_name(context, None)?;
        let options = fetch::Options {
            prune,
            ..fetch::Options::default()
        };
        let fetched = fetch::fetch(context, &remote, &options, &mut Audience::Silent)?;
        match fetched.changes.iter().find(|one| one.reason.is_some()) {
            Some(refused) => Err(Error::fatal(format!("a fetch refused: {refused:?}"))),
            None => Ok(()),
        }
    })
}
