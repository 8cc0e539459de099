//! Sessions are written and read back through a real repository.

use std::process::Command;

use crate::env::{Env, Terminals};
use crate::git::Repo;
use crate::model::event::{Body, Event};
use crate::model::event_words::Sender;
use crate::model::session::{Person, Session, SessionId, State};
use crate::redact::{KnownSecrets, Redactor};
use crate::store::Store;
use crate::store::list::Scope;
use crate::store::log::writer::SessionWriter;

/// A repository in a temporary directory.
pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) env: Env,
}

impl Fixture {
    pub(super) fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Command::new("git")
            .args(["init", "-q", "-b", "main"])
            .args(options)
            .arg(dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status()
            .expect("git runs");
        assert!(made.success());
        let env = Env::new(
            dir.path().to_owned(),
            std::env::vars_os(),
            Terminals::default(),
        );
        Fixture { dir, env }
    }

    pub(super) fn repo(&self) -> Repo {
        Repo::discover(&self.env).expect("a repository")
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .expect("git runs");
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

pub(super) fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

pub(super) fn session(store: &Store<'_>, name: &str) -> Session {
    let sid = SessionId::new(store.env);
    let author = Person {
        name: "Ada".into(),
        email: "ada@example.com".into(),
    };
    Session::new(sid, store.require_writer().expect("a writer"), name, author)
}

pub(super) fn all_formats() -> Vec<Vec<&'static str>> {
    vec![
        vec![],
        vec!["--object-format=sha256"],
        vec!["--ref-format=reftable"],
        vec!["--ref-format=reftable", "--object-format=sha256"],
    ]
}

#[test]
fn a_session_reads_back_on_every_format() {
    for format in all_formats() {
        let fixture = Fixture::new(&format);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let made = session(&store, "first");
        let sid = made.sid;
        let mut writer = SessionWriter::create(&store, made, redactor()).expect("creates");
        writer
            .append(Body::Prompt {
                text: "do it".into(),
                from: Sender::Unnamed,
            })
            .expect("appends");
        for number in 0..500 {
            let text = format!("line {number} \u{1f9c0}");
            writer.append(Body::Assistant { text }).expect("appends");
        }
        // Events in the spool are visible too.
        let listing = store.list(Scope::Mine).expect("lists");
        assert_eq!(listing.sessions[0].session.seq, 502);
        writer.set_status(State::Queued, "").expect("changes");
        writer.set_status(State::Running, "").expect("changes");
        let closed = writer.close().expect("closes");
        assert_eq!(closed.seq, 504);

        let tip = store.log_tip(sid).expect("reads").expect("is in git");
        assert_eq!(tip.session.status, State::Running);
        let events: Vec<Event> = store
            .transcript(tip.id)
            .expect("reads")
            .collect::<Result<_, _>>()
            .expect("all events");
        assert_eq!(events.len(), 504);
        assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
        let tail = store.transcript_tail(tip.id, 3).expect("reads");
        assert!(tail.len() >= 3 && tail.last() == events.last());
        assert_eq!(
            store.find_session("first").expect("by name").session.sid,
            sid
        );
        let suffix = &sid.as_str()[18..];
        assert_eq!(
            store.find_session(suffix).expect("by suffix").session.sid,
            sid
        );
        assert!(store.find_session("nope").is_err());
        fixture.git(&["fsck", "--strict"]);
        fixture.git(&["gc", "-q", "--prune=now"]);
        let again = store.log_tip(sid).expect("reads").expect("survives gc");
        assert_eq!(again.session, tip.session);
    }
}

#[test]
fn a_state_that_may_not_last_is_seen_at_once_and_goes_to_git_soon() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let made = session(&store, "short");
    let sid = made.sid;
    let mut writer = SessionWriter::create(&store, made, redactor()).expect("creates");
    writer.set_status(State::Queued, "").expect("changes");
    writer.note_status(State::Running, "").expect("changes");
    writer.flush_if_due().expect("looks");
    let in_git = || store.log_tip(sid).expect("reads").expect("exists");
    assert_eq!(in_git().session.status, State::Queued);
    let seen = store.session(sid).expect("reads").expect("exists");
    assert_eq!(seen.status, State::Running);
    let deadline = writer.flush_deadline().expect("something is to be flushed");
    assert!(deadline.0 <= fixture.env.now().0 + 3_000);
    // The next event takes it along.
    writer.set_status(State::Ready, "").expect("changes");
    assert_eq!(in_git().session.status, State::Ready);
    assert_eq!(writer.flush_deadline(), None);
}

#[test]
fn what_a_dead_writer_left_in_the_spool_is_recovered_once() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let made = session(&store, "dies");
    let sid = made.sid;
    let mut writer = SessionWriter::create(&store, made, redactor()).expect("creates");
    for _ in 0..10 {
        writer
            .append(Body::Notice { text: "x".into() })
            .expect("appends");
    }
    drop(writer);
    assert_eq!(
        store
            .log_tip(sid)
            .expect("reads")
            .expect("exists")
            .session
            .seq,
        1
    );
    assert_eq!(store.recover(&redactor()).expect("recovers"), [sid]);
    assert_eq!(
        store
            .log_tip(sid)
            .expect("reads")
            .expect("exists")
            .session
            .seq,
        11
    );
    assert!(store.recover(&redactor()).expect("again").is_empty());
    let writer = SessionWriter::open(&store, sid, redactor()).expect("opens");
    assert_eq!(writer.session().seq, 11);
}

#[test]
fn a_large_output_becomes_an_attachment() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let made = session(&store, "large");
    let sid = made.sid;
    let mut writer = SessionWriter::create(&store, made, redactor()).expect("creates");
    let output = "0123456789abcde\n".repeat(30_000);
    let body = Body::ToolResult {
        call: "c".into(),
        ok: true,
        output: output.clone(),
        attachment: None,
    };
    let event = writer.append(body).expect("appends");
    let Body::ToolResult {
        attachment: Some(name),
        output: short,
        ..
    } = event.body
    else {
        panic!("an attachment")
    };
    assert!(short.len() < 20_000);
    writer
        .append(Body::Assistant {
            text: "y".repeat(2 << 20),
        })
        .expect("a huge text is shortened");
    writer.close().expect("closes");
    let tip = store.log_tip(sid).expect("reads").expect("exists");
    let whole = store
        .attachment(tip.id, &name)
        .expect("reads")
        .expect("is there");
    assert_eq!(whole, output.as_bytes());
    fixture.git(&["fsck", "--strict"]);
}
