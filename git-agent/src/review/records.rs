//! The records of reviews: written to this clone's notes, and read from the notes of all writers together.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::model::review::impostor::{self, Posed, Told};
use crate::model::review::standing::{agent, session_of};
use crate::model::review::{Action, Comment, Record, Review, Thread, fold};
use crate::model::session::{Person, SessionId, Ulid, WriterId};
use crate::review::approvers;
use crate::session::caller;
use crate::signature;
use crate::signature::cache;
use crate::store::Store;
use crate::store::notes::{Kind, NotesRef, Problem, Texts};

/// The longest text of a comment, so that its record fits.
pub const LONGEST: usize = 8 << 10;
/// How many characters of an id a person sees.
const SHORT: usize = 8;

/// The reviews of all sessions.
#[derive(Debug, Default)]
pub struct Reviews {
    pub sessions: BTreeMap<SessionId, Review>,
    /// The notes that could not be read.
    pub problems: Vec<Problem>,
}

impl Reviews {
    /// Returns the review of a session, empty if it has none.
    pub fn of(&self, sid: SessionId) -> Review {
        self.sessions.get(&sid).cloned().unwrap_or_default()
    }

    /// Finds the comment that a person means by its id or the end of it. Where several writers have that id, which only
    /// a forger can bring about, `ID@WRITER` names one of them; without that, one's own is meant.
    pub fn find(&self, wanted: &str, me: Option<&WriterId>) -> Result<LoadedReviews<'_>> {
        let wanted = wanted.trim_start_matches('#').to_ascii_lowercase();
        let (id, by) = match wanted.split_once('@') {
            Some((id, by)) => (id, Some(by)),
            None => (wanted.as_str(), None),
        };
        let mut found = Vec::new();
        for (sid, review) in &self.sessions {
            for thread in &review.threads {
                for comment in &thread.comments {
                    let known = comment.id.as_str();
                    if known == id || (id.len() >= 4 && known.ends_with(id)) {
                        found.push(LoadedReviews {
                            sid: *sid,
                            review,
                            thread,
                            comment,
                            shared: false,
                        });
                    }
                }
            }
        }
        let one_id = found
            .windows(2)
            .all(|pair| pair[0].comment.id == pair[1].comment.id);
        let shared = found.len() > 1 && one_id;
        found.iter_mut().for_each(|found| found.shared = shared);
        if let Some(by) = by {
            found.retain(|found| found.comment.writer.to_string() == by);
        }
        if let Some(own) = found
            .iter()
            .position(|found| shared && Some(&found.comment.writer) == me)
        {
            return Ok(found.swap_remove(own));
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(Error::fatal(format!("no comment '{wanted}'")).hint("git agent review list")),
            count => {
                let mut error = Error::fatal(format!("'{wanted}' names {count} comments"));
                for found in found.iter().take(5) {
                    let comment = found.comment;
                    error = error.hint(if shared {
                        format!("{}@{}    by '{}'", id, comment.writer, comment.who.name)
                    } else {
                        comment.id.to_string()
                    });
                }
                Err(error)
            }
        }
    }
}

/// Returns the end of an id, which is random: a person names a comment by it.
pub fn short_id(id: Ulid) -> String {
    let text = id.as_str();
    text[text.len() - SHORT..].to_owned()
}

/// A comment with its thread and session.
#[derive(Debug, Clone, Copy)]
pub struct LoadedReviews<'r> {
    pub sid: SessionId,
    pub review: &'r Review,
    pub thread: &'r Thread,
    pub comment: &'r Comment,
    /// Whether another writer has a comment with the same id.
    pub shared: bool,
}

impl LoadedReviews<'_> {
    /// Returns whose comment it is, for an answer to it, where its id alone does not tell.
    pub fn of(&self) -> Option<WriterId> {
        self.shared.then(|| self.comment.writer.clone())
    }
}

/// Reads the reviews of all sessions: this clone's records and those of teammates.
pub fn load(context: &Context<'_>) -> Result<Reviews> {
    read(context, gather(&context.store)?, &|_| true)
}

/// Returns the text of all records. It can be read before the session is known.
pub fn gather(store: &Store<'_>) -> Result<Texts> {
    store.note_texts(Kind::Review)
}

/// Reads the review of one session. Records about other sessions are not parsed.
pub fn load_one(context: &Context<'_>, sid: SessionId) -> Result<Review> {
    understand(context, gather(&context.store)?, sid)
}

/// Reads the review of one session from gathered texts.
pub fn understand(context: &Context<'_>, gathered: Texts, sid: SessionId) -> Result<Review> {
    // Only a forged record writes a letter of an id as an escape: such a line is parsed to find its session.
    let about = |line: &str| line.contains(sid.as_str()) || line.contains("\\u00");
    let mut reviews = read(context, gathered, &about)?;
    Ok(reviews.sessions.remove(&sid).unwrap_or_default())
}

fn read(
    context: &Context<'_>,
    gathered: Texts,
    wanted: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Reviews> {
    let store = &context.store;
    let writers = store.own_writers().ok();
    let own = writers.as_deref().unwrap_or_default();
    let wrote = store.wrote_record();
    let read = gathered.records(&|source, line| {
        wanted(line).then(|| {
            let record = Record::from_line(line).ok()?;
            let own = source.own || !own.contains(source.writer) || wrote(line);
            Some(Told { record, own })
        })
    });
    let told = read.records.into_iter();
    let told = told.map(|told| (told.writer, told.value)).collect();
    let (records, posed) = impostor::sift(told, store.shared_writer().as_ref());
    let mut sessions = fold(records);
    mark(store, writers.as_deref(), &mut sessions, &posed)?;
    let signed = signature::is_wanted(context)?;
    for review in sessions.values_mut() {
        review.wants_signatures = signed;
    }
    approvers::mark(context, &mut sessions)?;
    Ok(Reviews {
        sessions,
        problems: read.problems,
    })
}

/// Marks the records of others as claimed or verified. A signature covers all notes of a writer, and verifies only the
/// names that are the signer's own.
fn mark(
    store: &Store<'_>,
    writers: Option<&[WriterId]>,
    sessions: &mut BTreeMap<SessionId, Review>,
    posed: &Posed,
) -> Result<()> {
    let mut speakers: BTreeSet<WriterId> = BTreeSet::new();
    for review in sessions.values() {
        let comments = review.threads.iter().flat_map(|thread| &thread.comments);
        speakers.extend(comments.map(|comment| comment.writer.clone()));
        speakers.extend(review.verdicts.keys().map(|(writer, _)| writer.clone()));
    }
    let notes = store.notes_refs(Kind::Review)?;
    let poses = |writer: &WriterId| posed.iter().any(|(one, _)| one == writer);
    let own = writers.unwrap_or_default();
    match writers {
        Some(own) => speakers.retain(|writer| !own.contains(writer) || poses(writer)),
        // Without known writers, all notes of this clone count as its own.
        None => speakers.retain(|writer| {
            let own = |notes: &&NotesRef| notes.writer == *writer && notes.remote.is_none();
            !notes.iter().any(|notes| own(&notes))
        }),
    }
    if speakers.is_empty() {
        return Ok(());
    }
    let notes: Vec<NotesRef> = (notes.into_iter())
        .filter(|notes| speakers.contains(&notes.writer))
        .collect();
    let tips: Vec<ObjectId> = notes.iter().map(|notes| notes.tip).collect();
    let mut signed: BTreeMap<WriterId, Option<String>> = BTreeMap::new();
    for (notes, signer) in notes.into_iter().zip(cache::signers(store, &tips)) {
        // The notes of one writer on several remotes are read together, so all of them must be signed.
        let known = signed.entry(notes.writer).or_insert_with(|| signer.clone());
        if *known != signer {
            *known = None;
        }
    }
    let claim = |writer: &WriterId, id: Ulid, who: &Person| {
        let signer = signed.get(writer).and_then(Option::as_deref);
        let poses = || posed.contains(&(writer.clone(), id));
        let theirs = speakers.contains(writer) && (!own.contains(writer) || poses());
        theirs.then(|| cache::claim(signer, &who.email))
    };
    for review in sessions.values_mut() {
        let comments = review.threads.iter_mut();
        for comment in comments.flat_map(|thread| &mut thread.comments) {
            comment.claim = claim(&comment.writer, comment.id, &comment.who);
        }
        for ((writer, _), given) in &mut review.verdicts {
            given.claim = claim(writer, given.id, &given.who);
        }
    }
    Ok(())
}

/// Returns who speaks: the person git knows, or inside a session its agent, whatever it made of its environment.
pub fn author(context: &Context<'_>) -> Result<Person> {
    if let Some(session) = caller::session(context)? {
        return Ok(agent(&session.agent, &session.name, session.sid));
    }
    if let Some(sid) = caller::foreign(context) {
        return Ok(agent("agent", "of another repository", sid));
    }
    let (name, email) = context.repo.committer()?;
    Ok(Person { name, email })
}

/// Returns whether a comment is the speaker's own: of this clone, and not of an agent when a person speaks or the other
/// way round.
pub fn is_own(comment: &Comment, writer: Option<&WriterId>, speaker: &Person) -> bool {
    Some(&comment.writer) == writer && session_of(&comment.who) == session_of(speaker)
}

/// Writes records about a session, all at once, and returns their ids. `on` is the object they are about.
pub fn write(
    context: &Context<'_>,
    sid: SessionId,
    on: ObjectId,
    who: &Person,
    actions: Vec<Action>,
) -> Result<Vec<Ulid>> {
    let review = load(context)?.of(sid);
    let redactor = context.redactor();
    let mut ids = Vec::with_capacity(actions.len());
    let mut records = Vec::with_capacity(actions.len());
    for (index, action) in actions.into_iter().enumerate() {
        check_length(&action)?;
        let record = Record {
            id: Ulid::new(context.env),
            sid,
            after: Vec::new(),
            lc: review.lc + 1 + index as u64,
            ts: context.env.now(),
            who: who.clone(),
            action,
        };
        ids.push(record.id);
        records.push(redactor.json(record.to_json()));
    }
    context
        .store
        .append_notes_somewhere(Kind::Review, on, records)?;
    Ok(ids)
}

fn check_length(action: &Action) -> Result<()> {
    let body = match action {
        Action::Comment { body, .. } | Action::Edit { body, .. } => body,
        Action::Verdict { body, .. } => return too_long(body),
        _ => return Ok(()),
    };
    if body.trim().is_empty() {
        return Err(Error::usage("the comment is empty"));
    }
    too_long(body)
}

fn too_long(body: &str) -> Result<()> {
    if body.len() > LONGEST {
        return Err(Error::fatal(format!(
            "the text has {} bytes, more than the {LONGEST} allowed",
            body.len()
        )));
    }
    Ok(())
}

/// Returns the object that a thread's records are kept on, so that they stay together.
pub fn home(context: &Context<'_>, thread: &Thread) -> ObjectId {
    use crate::model::review::CommentPlace;
    let commit = match &thread.at {
        Some(CommentPlace::Code(place)) => context.repo.parse_id(&place.commit).ok(),
        _ => None,
    };
    commit.unwrap_or_else(|| {
        let opened = thread.comments.first();
        let id = opened.map_or("", |comment| comment.id.as_str());
        context
            .repo
            .batch()
            .blob(format!("thread {id}").into_bytes())
    })
}
