//! Sessions are archived and resumed in real repositories.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::env::Millis;
use crate::error::Result;
use crate::git::object::{BLOB, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::model::event::{Body, Event};
use crate::model::session::{Session, SessionId, State};
use crate::store::Store;
use crate::store::archive::Rule;
use crate::store::list::Scope;
use crate::store::log::writer::SessionWriter;
use crate::store::log::{EVENTS, STATE, VERSION, spool};
use crate::store::refname::{self, RefName};
use crate::store::tests::{Fixture, all_formats, redactor, session};

/// Writes a session with some events and closes it.
fn closed(store: &Store<'_>, name: &str, events: u32) -> SessionId {
    let made = session(store, name);
    let sid = made.sid;
    let mut writer = SessionWriter::create(store, made, redactor()).expect("creates");
    for number in 0..events {
        let text = format!("{name} {number}");
        writer.append(Body::Notice { text }).expect("appends");
    }
    writer.set_status(State::Discarded, "").expect("closes");
    writer.close().expect("closes");
    sid
}

fn transcript(store: &Store<'_>, sid: SessionId) -> Vec<Event> {
    let tip = store.log_tip(sid).expect("reads").expect("is in git");
    store
        .transcript(tip.id)
        .expect("reads")
        .collect::<Result<_>>()
        .expect("all events")
}

/// Creates many closed sessions with one write of objects and one of refs.
fn many(store: &Store<'_>, count: usize) -> Vec<SessionId> {
    let mut batch = store.repo.batch();
    let mut changes = Vec::new();
    let mut sids = Vec::new();
    for number in 0..count {
        let mut made = session(store, &format!("session-{number}"));
        made.status = State::Merged;
        made.seq = 1;
        let state = serde_json::to_vec(&made.record).expect("encodes");
        let entry = |name: &str, id| TreeEntry {
            name: name.into(),
            kind: BLOB,
            id,
        };
        let entries = [
            entry(VERSION, batch.blob(Vec::new())),
            entry(EVENTS, batch.blob(Vec::new())),
            entry(STATE, batch.blob(state)),
        ];
        let tree = batch.tree(entries);
        let who = Signature {
            name: "Ada".into(),
            email: "ada@example.com".into(),
            seconds: 1_790_000_000,
        };
        let id = batch.commit(tree, &[], &who, "agent-log v1\n");
        changes.push(RefChange {
            name: RefName::Session(made.sid).to_string(),
            expected: Expected::Absent,
            new: Some(id),
        });
        sids.push(made.sid);
    }
    store.repo.write_batch(&batch).expect("writes");
    assert_eq!(store.repo.swap_refs(&changes).expect("creates"), Swap::Done);
    sids
}

#[test]
fn folded_sessions_are_found_read_and_taken_up_again_on_every_format() {
    for format in all_formats() {
        let fixture = Fixture::new(&format);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let old = closed(&store, "old", 30);
        let other = closed(&store, "other", 3);
        let open = session(&store, "open");
        let open_sid = open.sid;
        drop(SessionWriter::create(&store, open, redactor()).expect("creates"));
        let before = transcript(&store, old);

        let folded = store.fold(&redactor(), &|_| true).expect("folds");
        assert_eq!(folded.sessions, [old, other]);
        assert_eq!(folded.archives.len(), 1);
        let refs = repo.refs_under(refname::SESSIONS).expect("lists").refs;
        assert_eq!(refs.len(), 1, "only the open one has a ref");
        assert!(!store.spool_dir(old).join(spool::FILE).exists());
        assert_eq!(
            store.fold(&redactor(), &|_| true).expect("again"),
            Default::default()
        );

        fixture.git(&["fsck", "--strict"]);
        fixture.git(&["gc", "-q", "--prune=now"]);
        fixture.git(&["repack", "-adfq"]);
        assert_eq!(transcript(&store, old), before);
        let listed = |scope| -> Vec<SessionId> {
            let listing = store.list(scope).expect("lists");
            assert!(listing.unreadable.is_empty());
            listing.sessions.iter().map(|l| l.session.sid).collect()
        };
        assert_eq!(listed(Scope::All), [open_sid]);
        assert_eq!(listed(Scope::Archived), [old, other, open_sid]);
        let found = store.find_session("old").expect("finds");
        assert!(found.archived && found.is_mine());
        assert_eq!(found.session.seq, 32);
        assert!(store.find_session("missing").is_err());

        let mut writer = SessionWriter::open(&store, old, redactor()).expect("opens");
        assert_eq!(writer.session().seq, 32);
        writer
            .append(Body::Notice {
                text: "more".into(),
            })
            .expect("appends");
        writer.close().expect("closes");
        assert_eq!(listed(Scope::All), [old, open_sid]);
        assert_eq!(listed(Scope::Archived), [old, other, open_sid]);
        assert_eq!(transcript(&store, old).len(), 33);
        assert_eq!(transcript(&store, old)[..32], before);
        // Archived again, the newer line counts.
        store.fold(&redactor(), &|_| true).expect("folds");
        let found = store.find_session("old").expect("finds");
        assert_eq!((found.session.seq, found.archived), (33, true));
        assert_eq!(transcript(&store, old).len(), 33);
    }
}

#[test]
fn a_thousand_sessions_fold_into_few_commits_and_travel_in_a_clone() {
    for format in [vec![], vec!["--ref-format=reftable"]] {
        let fixture = Fixture::new(&format);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let mut sids = many(&store, 1000);
        sids.sort();
        let folded = store.fold(&redactor(), &|_| true).expect("folds");
        assert_eq!(folded.sessions.len(), 1000);
        assert!(
            repo.refs_under(refname::SESSIONS)
                .expect("lists")
                .refs
                .is_empty()
        );
        let archive = &folded.archives[0];
        let commits = fixture.git(&["rev-list", "--first-parent", "--parents", archive]);
        // Six archive commits, and the log that is the first parent of the oldest.
        assert_eq!(commits.lines().count(), 7);
        assert!(commits.lines().all(|line| line.split(' ').count() <= 201));
        fixture.git(&["gc", "-q", "--prune=now"]);
        fixture.git(&["fsck", "--strict"]);
        let listing = store.list(Scope::Archived).expect("lists");
        let found: Vec<SessionId> = listing.sessions.iter().map(|l| l.session.sid).collect();
        assert_eq!(found, sids);

        let away = tempfile::tempdir().expect("a directory");
        let mirror = away.path().join("mirror");
        let path = mirror.to_str().expect("a plain path");
        fixture.git(&["clone", "-q", "--mirror", ".", path]);
        let there = crate::git::Repo::open(&fixture.env, &mirror).expect("opens");
        let store = Store::new(&fixture.env, &there);
        let listing = store.list(Scope::Archived).expect("lists");
        assert_eq!(listing.sessions.len(), 1000);
        for listed in listing.sessions.iter().step_by(97) {
            let tip = store.log_tip(listed.session.sid).expect("reads");
            assert!(tip.is_some_and(|tip| tip.archived));
        }
    }
}

#[test]
fn folding_while_others_write_loses_nothing() {
    for format in [vec![], vec!["--ref-format=reftable"]] {
        let fixture = Fixture::new(&format);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let sids: Vec<SessionId> = (0..4)
            .map(|number| closed(&store, &format!("s{number}"), 1))
            .collect();
        let done = AtomicBool::new(false);
        let folds = std::thread::scope(|scope| {
            let folder = scope.spawn(|| {
                let repo = fixture.repo();
                let store = Store::new(&fixture.env, &repo);
                let mut folds = 0;
                while !done.load(Ordering::Relaxed) {
                    folds += store
                        .fold(&redactor(), &|_| true)
                        .expect("folds")
                        .sessions
                        .len();
                }
                folds
            });
            let writers: Vec<_> = sids
                .chunks(2)
                .map(|sids| {
                    scope.spawn(|| {
                        let repo = fixture.repo();
                        let store = Store::new(&fixture.env, &repo);
                        for number in 0..20 {
                            let sid = sids[number % sids.len()];
                            let mut writer =
                                SessionWriter::open(&store, sid, redactor()).expect("opens");
                            let text = format!("n{number}");
                            writer.append(Body::Notice { text }).expect("appends");
                            writer.close().expect("closes");
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.join().expect("writes");
            }
            done.store(true, Ordering::Relaxed);
            folder.join().expect("folds")
        });
        assert!(folds > 0, "nothing was folded meanwhile");
        for sid in &sids {
            let events = transcript(&store, *sid);
            assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
            let notices = events
                .iter()
                .filter(
                    |event| matches!(&event.body, Body::Notice { text } if text.starts_with('n')),
                )
                .count();
            assert_eq!(notices, 10);
        }
        let listing = store.list(Scope::Archived).expect("lists");
        assert_eq!(listing.sessions.len(), 4);
        fixture.git(&["fsck", "--strict"]);
    }
}

#[test]
fn only_what_is_wanted_closed_and_whole_is_folded() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let torn = closed(&store, "torn", 1);
    let held = closed(&store, "held", 1);
    let young = closed(&store, "young", 1);
    let kept = |session: &Session| session.sid != young;
    let dir = store
        .require_dir(&format!("spool/{torn}"))
        .expect("a directory");
    std::fs::write(dir.join(crate::store::log::spool::FILE), "0000 torn").expect("writes");
    let writer = SessionWriter::open(&store, held, redactor()).expect("opens");
    assert_eq!(
        store.fold(&redactor(), &kept).expect("folds"),
        Default::default()
    );
    assert!(dir.join(crate::store::log::spool::FILE).exists());
    drop(writer);
    assert_eq!(
        store.fold(&redactor(), &kept).expect("folds").sessions,
        [held]
    );
    // An archive of a newer program is reported and does not disturb others.
    let tree = fixture.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = fixture.git(&["commit-tree", "-m", "x", tree.trim()]);
    let name = format!("{}zoe-1a2b", refname::archives_of(&young.month()));
    fixture.git(&["update-ref", &name, commit.trim()]);
    let listing = store.list(Scope::Archived).expect("lists");
    assert_eq!(listing.sessions.len(), 3);
    assert_eq!(listing.unreadable.len(), 1);
}

#[test]
fn beyond_so_many_the_ones_closed_first_are_folded() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let sids: Vec<SessionId> = (0..5)
        .map(|number| closed(&store, &format!("s{number}"), 1))
        .collect();
    let mut by_age = store.list(Scope::Mine).expect("lists").sessions;
    by_age.sort_by_key(|listed| (listed.session.updated, listed.session.sid));
    let by_age: Vec<SessionId> = by_age.iter().map(|listed| listed.session.sid).collect();
    let kept = sids[1];
    let may = |session: &Session| session.sid != kept;
    let rule = |before, most| Rule {
        may: &may,
        before,
        most,
    };
    let fold = |before, most| {
        let mut folded = store
            .fold_by(&redactor(), &rule(before, most))
            .expect("folds")
            .sessions;
        folded.sort_unstable();
        folded
    };
    assert!(fold(Millis(0), 4).is_empty(), "none is left");
    let mut first: Vec<SessionId> = by_age.iter().copied().filter(|sid| *sid != kept).collect();
    let last = first.split_off(3);
    first.sort_unstable();
    assert_eq!(fold(Millis(0), 1), first);
    assert!(fold(Millis(0), 1).is_empty(), "one may stay");
    assert_eq!(fold(Millis(u64::MAX), 1), last, "unless it is old");
    let left = store.list(Scope::Mine).expect("lists").sessions;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].session.sid, kept);
}

#[test]
fn nobody_hides_a_session_by_giving_one_of_their_own_the_same_id() {
    let fixture = Fixture::new(&[]);
    let repo = fixture.repo();
    let store = Store::new(&fixture.env, &repo);
    let sid = closed(&store, "hers", 1);
    let folded = store.fold(&redactor(), &|_| true).expect("folds");
    let archive = repo.find_ref(&folded.archives[0]).expect("reads");
    let archive = archive.expect("it was written").to_string();
    let line = fixture.git(&["show", &format!("{archive}:sessions.jsonl")]);
    let writer = store.require_writer().expect("there is one").to_string();
    let path = fixture.dir.path().join("line");
    std::fs::write(&path, line.replace(&writer, "aaa-1a2b")).expect("writes");
    let path = path.display().to_string();
    let blob = fixture.git(&["hash-object", "-w", &path]);
    let empty = fixture.git(&["hash-object", "-w", "/dev/null"]);
    let index = ["update-index", "--add", "--cacheinfo"];
    for (id, name) in [(blob, "sessions.jsonl"), (empty, VERSION)] {
        let entry = format!("100644,{},{name}", id.trim());
        fixture.git(&[&index[..], &[entry.as_str()]].concat());
    }
    let tree = fixture.git(&["write-tree"]);
    let tip = format!("{archive}^1");
    let commit = fixture.git(&["commit-tree", "-m", "x", "-p", &tip, tree.trim()]);
    let copies = refname::copies_of("hub");
    let month = sid.month();
    for (remote_writer, id) in [("aaa-1a2b", commit.trim()), (&writer, &archive)] {
        let name = format!("{copies}archive/{month}/{remote_writer}");
        fixture.git(&["update-ref", &name, id]);
    }
    let listed = |store: &Store<'_>| {
        let listing = store.list(Scope::Archived).expect("lists");
        assert!(listing.unreadable.is_empty(), "{:?}", listing.unreadable);
        let mut writers: Vec<String> = listing
            .sessions
            .iter()
            .map(|listed| listed.session.writer.to_string())
            .collect();
        writers.sort();
        writers
    };
    let mut both = vec!["aaa-1a2b".to_owned(), writer.clone()];
    both.sort();
    assert_eq!(listed(&store), both);
    // Nor does it hide another writer's session.
    fixture.git(&["update-ref", "-d", &folded.archives[0]]);
    assert_eq!(listed(&store), both);
}
