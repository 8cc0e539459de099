//! Writes to the store and says after each step what is safe from then on, so that a test can hold the store to it.
//!
//!     write-store session NAME COUNT    makes a session, appends events, flushes, appends more and closes
//!     write-store append SID TEXT       adds one event to a session
//!     write-store note TEXT…            adds a review note on HEAD for each text
//!
//! `session <sid>` comes first; `synced <seq> <text>` and `noted <text>` follow what is durable. A step that fails is told
//! on stderr and the next one tried, as a long-lived writer would: the exit code says whether there was any.

use std::io::{self, Write};
use std::process::ExitCode;

use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::git::Repo;
use git_agent::model::event::Body;
use git_agent::model::session::{Person, Session, SessionId};
use git_agent::redact::{KnownSecrets, Redactor};
use git_agent::store::Store;
use git_agent::store::log::writer::SessionWriter;
use git_agent::store::notes::Kind;
use serde_json::json;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match write(&words) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            tell(&error);
            ExitCode::from(128)
        }
    }
}

fn tell(error: &Error) {
    let _ = writeln!(io::stderr(), "write-store: {error}");
}

fn say(line: &str) {
    // A test that does not listen any more has failed already.
    let _ = writeln!(io::stdout(), "{line}");
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

/// Does what the words ask, and returns how many steps failed.
fn write(words: &[&str]) -> Result<usize> {
    let env = Env::from_process()?;
    let repo = Repo::discover(&env)?;
    let store = Store::new(&env, &repo);
    match words {
        ["session", name, count] => session(&store, name, count),
        ["append", sid, text] => {
            let sid = sid.parse().map_err(|_| Error::usage("no session id"))?;
            let mut writer = SessionWriter::open(&store, sid, redactor())?;
            let failed = notice(&mut writer, text);
            writer.close()?;
            Ok(failed)
        }
        ["note", texts @ ..] => {
            let on = repo.resolve_commit("HEAD")?;
            let mut failed = 0;
            for text in texts {
                let record = redactor().json(json!({"v": 1, "id": text}));
                match store.append_notes(Kind::Review, &[(on, record)]) {
                    Ok(_) => say(&format!("noted {text}")),
                    Err(error) => {
                        tell(&error);
                        failed += 1;
                    }
                }
            }
            Ok(failed)
        }
        _ => Err(Error::usage("see the head of its source")),
    }
}

fn session(store: &Store<'_>, name: &str, count: &str) -> Result<usize> {
    let count: usize = count.parse().map_err(|_| Error::usage("no number"))?;
    let sid = SessionId::new(store.env);
    say(&format!("session {sid}"));
    let author = Person {
        name: "Ada".into(),
        email: "ada@example.com".into(),
    };
    let made = Session::new(sid, store.require_writer()?, name, author);
    let mut writer = SessionWriter::create(store, made, redactor())?;
    say("synced 1 created");
    let mut failed = 0;
    for at in 0..count {
        failed += notice(&mut writer, &format!("event-{at}"));
        if at == count / 2
            && let Err(error) = writer.flush()
        {
            tell(&error);
            failed += 1;
        }
    }
    writer.close()?;
    Ok(failed)
}

fn notice(writer: &mut SessionWriter<'_>, text: &str) -> usize {
    let body = Body::Notice {
        text: text.to_owned(),
    };
    let synced = writer.append(body).and_then(|event| {
        writer.sync()?;
        Ok(event)
    });
    match synced {
        Ok(event) => {
            say(&format!("synced {} {text}", event.seq));
            0
        }
        Err(error) => {
            tell(&error);
            1
        }
    }
}
