//! Writes to and reads from the store as a process of its own, so that several can do it at once.
//!
//!     store-hammer create NAME [EVENTS]     makes a session with so many notices and prints its id
//!     store-hammer close SID                gives the session up, so that it may be folded
//!     store-hammer append SID COUNT WORD    appends notices `WORD 0`, `WORD 1` … , each brought into git by itself
//!     store-hammer spool SID COUNT WORD     appends notices to the spool only, and dies
//!     store-hammer note COUNT WORD          appends review notes on HEAD's commit, one by one
//!     store-hammer notes                    prints all review notes on HEAD's commit, one a line
//!     store-hammer events SID               prints the transcript in git, one event a line
//!     store-hammer comment SID TEXT         comments on a session as a whole, and prints the comment's id
//!     store-hammer delete SID COMMENT       takes an own comment back
//!     store-hammer comments SID             prints the comments that stand, one a line
//!     store-hammer unredacted SID           marks a session as recorded without redaction
//!     store-hammer set SID KEY VALUE        sets a field of a session's state
//!     store-hammer fold                     folds every closed session, and prints how many

use std::io::{self, Write};
use std::process::ExitCode;

use git_agent::env::Env;
use git_agent::error::{Context, Error, Result};
use git_agent::git::Repo;
use git_agent::model::event::Body;
use git_agent::model::review::{Action, Record};
use git_agent::model::session::{Person, Session, SessionId, State, Ulid};
use git_agent::redact::{KnownSecrets, Redactor};
use git_agent::store::Store;
use git_agent::store::log::writer::SessionWriter;
use git_agent::store::notes::Kind;
use serde_json::json;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match hammer(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "store-hammer: {error}");
            ExitCode::from(128)
        }
    }
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

fn hammer(words: &[&str]) -> Result<()> {
    let env = Env::from_process()?;
    let repo = Repo::discover(&env)?;
    let store = Store::new(&env, &repo);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let cannot = || "cannot write".to_owned();
    match words {
        ["create", name] => writeln!(out, "{}", create(&store, name, 0)?).context(cannot)?,
        ["create", name, events] => {
            writeln!(out, "{}", create(&store, name, number(events)?)?).context(cannot)?;
        }
        ["set", sid, key, value] => {
            let mut writer = SessionWriter::open(&store, session(sid)?, redactor())?;
            writer.append(Body::Set {
                key: (*key).to_owned(),
                value: json!(value),
            })?;
            writer.close()?;
        }
        ["close", sid] => {
            let mut writer = SessionWriter::open(&store, session(sid)?, redactor())?;
            writer.set_status(State::Discarded, "")?;
            writer.close()?;
        }
        ["append", sid, count, word] => {
            let mut writer = SessionWriter::open(&store, session(sid)?, redactor())?;
            for at in 0..number(count)? {
                notice(&mut writer, format!("{word} {at}"))?;
                writer.flush()?;
            }
            writer.close()?;
        }
        ["spool", sid, count, word] => {
            let mut writer = SessionWriter::open(&store, session(sid)?, redactor())?;
            for at in 0..number(count)? {
                notice(&mut writer, format!("{word} {at}"))?;
            }
            writer.sync()?;
        }
        ["note", count, word] => {
            let on = repo.resolve_commit("HEAD")?;
            for at in 0..number(count)? {
                let record = redactor().json(json!({"v": 1, "id": format!("{word}-{at}")}));
                store.append_notes(Kind::Review, &[(on, record)])?;
            }
        }
        ["notes"] => {
            let on = repo.resolve_commit("HEAD")?;
            for note in store.notes_on(Kind::Review, on)?.0 {
                for line in note.lines {
                    writeln!(out, "{line}").context(cannot)?;
                }
            }
        }
        ["events", sid] => {
            let tip = store
                .log_tip(session(sid)?)?
                .ok_or_else(|| Error::fatal("it is not in git"))?;
            for event in store.transcript(tip.id)? {
                writeln!(out, "{}", event?.to_line()).context(cannot)?;
            }
        }
        ["comment", sid, text] => {
            let action = Action::Comment {
                target: None,
                of: None,
                at: None,
                body: (*text).to_owned(),
                severity: None,
            };
            writeln!(out, "{}", review(&store, session(sid)?, action)?).context(cannot)?;
        }
        ["delete", sid, comment] => {
            let target = comment
                .parse()
                .map_err(|_| Error::usage("no comment's id"))?;
            let action = Action::Del {
                target: Some(target),
            };
            review(&store, session(sid)?, action)?;
        }
        ["comments", sid] => {
            let records = store.note_records::<Record>(Kind::Review)?.records;
            let records = records.into_iter().map(|one| (one.writer, one.value));
            let folded = git_agent::model::review::fold(records);
            let review = folded.get(&session(sid)?).cloned().unwrap_or_default();
            let comments = review.threads.iter().flat_map(|thread| &thread.comments);
            for comment in comments.filter(|comment| !comment.deleted) {
                writeln!(out, "{} {}", comment.who.name, comment.body).context(cannot)?;
            }
        }
        ["unredacted", sid] => {
            let mut writer = SessionWriter::open(&store, session(sid)?, redactor())?;
            writer.append(Body::Set {
                key: "redaction".into(),
                value: "off".into(),
            })?;
            writer.close()?;
        }
        ["fold"] => {
            let folded = store.fold(&redactor(), &|_| true)?;
            writeln!(out, "{}", folded.sessions.len()).context(cannot)?;
        }
        _ => return Err(Error::usage("see the head of its source")),
    }
    out.flush().context(cannot)
}

fn review(store: &Store<'_>, sid: SessionId, action: Action) -> Result<Ulid> {
    let (name, email) = store.repo.committer()?;
    let records = store.note_records::<Record>(Kind::Review)?.records;
    let lc = records.iter().map(|one| one.value.lc).max().unwrap_or(0) + 1;
    let record = Record {
        id: Ulid::new(store.env),
        sid,
        after: Vec::new(),
        lc,
        ts: store.env.now(),
        who: Person { name, email },
        action,
    };
    let on = store.repo.resolve_commit("HEAD")?;
    store.append_notes(Kind::Review, &[(on, redactor().json(record.to_json()))])?;
    Ok(record.id)
}

fn number(word: &str) -> Result<u64> {
    word.parse()
        .map_err(|_| Error::usage(format!("'{word}' is no number")))
}

fn session(word: &str) -> Result<SessionId> {
    word.parse()
        .map_err(|_| Error::usage(format!("'{word}' is not a session id")))
}

fn notice(writer: &mut SessionWriter<'_>, text: String) -> Result<()> {
    writer.append(Body::Notice { text }).map(|_| ())
}

fn create(store: &Store<'_>, name: &str, events: u64) -> Result<SessionId> {
    let sid = SessionId::new(store.env);
    let author = Person {
        name: "Ada".into(),
        email: "ada@example.com".into(),
    };
    let mut made = Session::new(sid, store.require_writer()?, name, author);
    made.task = format!("the task of {name}");
    let mut writer = SessionWriter::create(store, made, redactor())?;
    for at in 0..events {
        notice(&mut writer, format!("event {at} of {name} \u{1f9c0}"))?;
        writer.flush_if_due()?;
    }
    writer.close()?;
    Ok(sid)
}
