//! Appends lose nothing, duplicate nothing and read little; readers cope with any content.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::git::object::{EntryKind, Signature, TreeEntry};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::{ObjectId, Repo};
use crate::model::review::{Action, CodePlace, CommentPlace};
use crate::store::notes::tests::{World, record};
use crate::store::notes::tree::NotesTree;
use crate::store::notes::{Kind, Record};
use crate::store::refname::RefName;
use crate::store::{Store, limits};

const WORKER: &str = "GIT_AGENT_TEST_NOTES_WORKER";
const PROCESSES: usize = 8;
const APPENDS: usize = 25;

/// Returns the numbers of all records.
pub(super) fn numbers(store: &Store<'_>) -> Vec<u64> {
    let found = store
        .note_records::<Value>(Kind::Review)
        .expect("records read");
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let number = |record: &Record<Value>| record.value["n"].as_u64().expect("a number");
    let mut numbers: Vec<u64> = found.records.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn tip(world: &World) -> (String, ObjectId) {
    let store = Store::new(&world.env, &world.repo);
    let refs = store.notes_refs(Kind::Review).expect("refs are listed");
    assert_eq!(refs.len(), 1);
    (refs[0].name.clone(), refs[0].tip)
}

fn swap(repo: &Repo, name: String, expected: Expected, new: ObjectId) {
    let new = Some(new);
    let swapped = repo
        .swap_ref(&RefChange {
            name,
            expected,
            new,
        })
        .expect("the ref moves");
    assert_eq!(swapped, Swap::Done);
}

#[test]
fn what_does_not_fit_a_note_goes_beside_it() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    let on = world.id(&[1]);
    // As many as would fill a note if each took only its own text.
    let count = limits::NOTE_WRITE / record(10_000).to_line().as_str().len();
    let (many, few) = (0..count - 3, count - 3..count);
    store
        .append_notes_somewhere(Kind::Review, on, many.map(record).collect())
        .expect("there is room");
    for number in few {
        store
            .append_notes_somewhere(Kind::Review, on, vec![record(number)])
            .expect("there is room");
    }
    assert_eq!(numbers(&store), (0..count as u64).collect::<Vec<_>>());
}

#[test]
fn notes_that_somebody_else_put_there_are_not_known_to_be_own() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    let own = || {
        let texts = store.note_texts(Kind::Review).expect("notes read");
        let found = texts.records(&|source, _| Some(Some(source.own)));
        found.records.iter().all(|record| record.value)
    };
    let append = |number| {
        let records = [(world.id(&[1]), record(number))];
        let appended = store.append_notes(Kind::Review, &records);
        appended.expect("appends").expect("something new")
    };
    append(1);
    let good = append(2);
    assert!(own());
    // The same notes with the same mark, on top of this clone's commit.
    let commit = world.repo.read_commit(good).expect("a commit");
    let who = Signature {
        name: "ada".into(),
        email: "ada@example.org".into(),
        seconds: 1,
    };
    let mut batch = world.repo.batch();
    let forged = batch.commit(commit.tree, &[good], &who, &commit.message);
    world.repo.write_batch(&batch).expect("is written");
    let (name, _) = tip(&world);
    swap(&world.repo, name, Expected::At(good), forged);
    assert!(!own());
    append(3);
    assert!(!own());
    assert_eq!(numbers(&store), [1, 2, 3]);
}

#[test]
fn appending_is_idempotent_and_reads_back_with_plain_git() {
    for hash in ["sha1", "sha256"] {
        let world = World::new(hash, "files", "ada", 1_794_000_000_000);
        let store = Store::new(&world.env, &world.repo);
        let on = world.id(&[1]);
        assert_eq!(store.append_notes(Kind::Review, &[]).expect("works"), None);
        let records = [(on, record(2)), (on, record(1)), (on, record(2))];
        let first = store.append_notes(Kind::Review, &records).expect("works");
        let again = store.append_notes(Kind::Review, &records).expect("works");
        assert_eq!(first, again);
        assert_eq!(numbers(&store), [1, 2]);
        let (name, commit) = tip(&world);
        let shown = world.git(&["show", &format!("{name}:{on}")], "");
        let starts: Vec<&str> = shown.lines().map(|line| &line[..14]).collect();
        assert_eq!(starts, ["{\"n\":1,\"own\":\"", "{\"n\":2,\"own\":\""]);
        let logged = world.git(&["log", "--format=%an %ct %s", &commit.to_string()], "");
        assert_eq!(logged, "ada 1794000000 Notes added by git-agent");

        let (notes, problems) = store.notes_on(Kind::Review, on).expect("reads");
        assert_eq!(
            (notes.len(), notes[0].lines.len(), problems.len()),
            (1, 2, 0)
        );
        let elsewhere = world.id(&[2]);
        let (notes, _) = store.notes_on(Kind::Review, elsewhere).expect("reads");
        assert!(notes.is_empty());

        world.git(&["fsck", "--strict"], "");
    }
}

#[test]
fn too_much_is_refused_and_nothing_changes() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    let redactor = crate::redact::Redactor::new(crate::redact::KnownSecrets::default());
    let on = world.id(&[1]);
    let words = "plain words ".repeat(limits::NOTE_LINE / 12);
    let long = redactor.json(serde_json::json!({"body": words}));
    let refused = store.append_notes(Kind::Review, &[(on, long)]);
    assert!(refused.expect_err("too long").message().contains("bytes"));
    let refused = store.append_notes(Kind::Review, &[(on, redactor.json(Value::Null))]);
    assert!(refused.is_err());
    let words = "plain words ".repeat(limits::NOTE_LINE / 24);
    let many: Vec<_> = (0..20)
        .map(|n| {
            (
                on,
                redactor.json(serde_json::json!({"body": words, "n": n})),
            )
        })
        .collect();
    assert!(store.append_notes(Kind::Review, &many).is_err());
    assert!(numbers(&store).is_empty());
}

#[test]
fn a_large_ref_is_changed_by_its_path_alone() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let repo = &world.repo;
    let store = Store::new(&world.env, repo);
    let mut batch = repo.batch();
    let blob = batch.blob(b"{\"n\":7,\"v\":1}\n".to_vec());
    repo.write_batch(&batch).expect("objects are written");
    let mut notes = NotesTree::empty(repo);
    let ids = world.ids(10_000);
    for id in &ids {
        notes.set_blob(*id, blob).expect("a note is set");
    }
    let (tree, mut batch) = notes.build().expect("a tree is built");
    let trees = batch.len();
    let who = Signature {
        name: "x".into(),
        email: "x@example.org".into(),
        seconds: 1,
    };
    let commit = batch.commit(tree, &[], &who, "x\n");
    repo.write_batch(&batch).expect("objects are written");
    let name = Kind::Review.ref_name(store.require_writer().expect("a writer"));
    swap(repo, name.to_string(), Expected::Absent, commit);
    assert!(trees > 256, "{trees}");

    // Removes every tree outside the path, so that a read of one fails.
    let fresh = world.id(&[0xab, 0xcd]);
    for entry in repo.read_tree(tree, limits::NOTES_TREE).expect("reads") {
        if entry.name != b"ab" {
            let hex = entry.id.to_string();
            let path = world.dir.path().join("objects").join(&hex[..2]);
            std::fs::remove_file(path.join(&hex[2..])).expect("a loose object");
        }
    }
    let blob = blob.to_string();
    let path = world.dir.path().join("objects").join(&blob[..2]);
    std::fs::remove_file(path.join(&blob[2..])).expect("a loose object");
    let new = store
        .append_notes(Kind::Review, &[(fresh, record(1))])
        .expect("only the path is read")
        .expect("a commit");
    let (notes, problems) = store.notes_on(Kind::Review, fresh).expect("reads");
    assert_eq!((notes.len(), problems.len()), (1, 0));
    let old = repo.read_tree(tree, limits::NOTES_TREE).expect("reads");
    let new = repo.read_commit(new).expect("reads").tree;
    let new = repo.read_tree(new, limits::NOTES_TREE).expect("reads");
    let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    assert_eq!((old.len(), new.len(), changed), (256, 256, 1));
}

#[test]
fn all_writers_are_read_and_bad_notes_are_said() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let repo = &world.repo;
    let store = Store::new(&world.env, repo);
    let on = world.id(&[1]);
    store
        .append_notes(Kind::Review, &[(on, record(1))])
        .expect("works");
    let (name, mine) = tip(&world);
    let own = RefName::parse(&name).expect("a name of ours");
    let mut batch = repo.batch();
    let huge = batch.blob(vec![b'x'; usize::try_from(limits::NOTE).expect("fits") + 1]);
    let mixed = batch.blob(b"{\"n\":2}\nnot json\n\x1b[31m\n\n{\"n\":3}".to_vec());
    let entry = |id: ObjectId, blob| TreeEntry {
        name: id.to_string().into_bytes(),
        kind: EntryKind::Blob,
        id: blob,
    };
    let missing = world.id(&[0xdd]);
    let tree = batch.tree([
        entry(on, mixed),
        entry(world.id(&[2]), huge),
        entry(world.id(&[3]), missing),
    ]);
    let who = Signature {
        name: "x".into(),
        email: "x@example.org".into(),
        seconds: 1,
    };
    let theirs = batch.commit(tree, &[], &who, "x\n");
    repo.write_batch(&batch).expect("objects are written");
    let bob: RefName = Kind::Review.ref_name("bob-1a2b".parse().expect("a writer"));
    let eve: RefName = Kind::Review.ref_name("eve-1a2b".parse().expect("a writer"));
    for (name, id) in [
        (bob.at_remote("origin"), theirs),
        (bob.at_remote("mirror"), theirs),
        (own.at_remote("origin"), mine),
        (eve.at_remote("origin"), mixed),
    ] {
        swap(repo, name, Expected::Absent, id);
    }
    let found = store
        .note_records::<Value>(Kind::Review)
        .expect("records read");
    let seen: BTreeSet<(String, u64)> = found
        .records
        .iter()
        .map(|record| {
            (
                record.writer.to_string(),
                record.value["n"].as_u64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(seen.len(), found.records.len());
    let of_bob: Vec<u64> = seen
        .iter()
        .filter(|(writer, _)| writer == "bob-1a2b")
        .map(|(_, n)| *n)
        .collect();
    assert_eq!((seen.len(), of_bob), (3, vec![2, 3]));
    let said: Vec<&str> = found
        .problems
        .iter()
        .map(|problem| problem.what.as_str())
        .collect();
    for word in [
        "not plain ASCII",
        "not a review record",
        "bytes",
        "missing",
        "not a commit",
    ] {
        assert!(
            said.iter().any(|what| what.contains(word)),
            "{word}: {said:?}"
        );
    }
    assert_eq!(said.len(), 5);
}

#[test]
fn a_copied_clone_comes_together_again() {
    let ada = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let store = Store::new(&ada.env, &ada.repo);
    let append = |n: usize| {
        let on = ada.id(&[n as u8]);
        store
            .append_notes(Kind::Review, &[(on, record(n))])
            .expect("works")
            .expect("a commit")
    };
    let base = append(1);
    let (name, _) = tip(&ada);
    let own = RefName::parse(&name).expect("a name of ours");
    let one = append(2);
    swap(&ada.repo, name.clone(), Expected::At(one), base);
    let two = append(3);
    let joined = store
        .join_notes(&own, one)
        .expect("joins")
        .expect("a commit");
    assert_eq!(numbers(&store), [1, 2, 3]);
    assert_eq!(store.join_notes(&own, one).expect("joins"), Some(joined));
    swap(&ada.repo, name.clone(), Expected::At(joined), one);
    assert_eq!(store.join_notes(&own, two).expect("joins"), Some(joined));
    swap(&ada.repo, name, Expected::At(joined), base);
    assert_eq!(store.join_notes(&own, one).expect("joins"), Some(one));
}

/// Does the work of one process, if started as one.
#[test]
fn worker() {
    let Some(task) = std::env::var_os(WORKER) else {
        return;
    };
    let task = task.into_string().expect("readable");
    let mut parts = task.splitn(3, ':');
    let mut next = || parts.next().expect("first, count and directory");
    let first: usize = next().parse().expect("a number");
    let count: usize = next().parse().expect("a number");
    let dir = next();
    let env = World::env(dir.as_ref(), 1_794_000_000_000);
    let repo = Repo::open(&env, dir.as_ref()).expect("the repository opens");
    let store = Store::new(&env, &repo);
    for n in first..first + count {
        // Half of the records are on one object, the other half on separate ones.
        let leading = if n % 2 == 0 { 0 } else { n };
        let mut bytes = vec![leading as u8; repo.hash_kind().len_in_bytes()];
        bytes[1] = 1;
        let on = ObjectId::from_bytes_or_panic(&bytes);
        store
            .append_notes(Kind::Review, &[(on, record(n))])
            .expect("the append works");
    }
}

/// Returns a process that appends `count` records, starting with number `first`.
pub(super) fn process(world: &World, first: usize, count: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "store::notes::tests::write::worker", "--quiet"])
        .env(
            WORKER,
            format!("{first}:{count}:{}", world.dir.path().display()),
        )
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    command
}

fn many_processes(refs: &str) {
    let world = World::new("sha1", refs, "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    let children: Vec<_> = (0..PROCESSES)
        .map(|number| {
            process(&world, number * APPENDS, APPENDS)
                .spawn()
                .expect("a process starts")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    let all: Vec<u64> = (0..(PROCESSES * APPENDS) as u64).collect();
    assert_eq!(numbers(&store), all);
    let (name, _) = tip(&world);
    let commits = world.git(&["rev-list", "--count", &name], "");
    assert_eq!(commits, (PROCESSES * APPENDS).to_string());
    world.git(&["fsck", "--strict"], "");
    world.git(&["gc", "--prune=now", "--quiet"], "");
    assert_eq!(numbers(&store), all);
}

#[test]
fn many_processes_lose_and_double_nothing_on_files() {
    many_processes("files");
}

#[test]
fn many_processes_lose_and_double_nothing_on_reftable() {
    many_processes("reftable");
}

#[test]
fn a_review_keeps_its_ids_and_loses_its_secrets() {
    let world = World::new("sha256", "files", "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    let redactor = crate::redact::Redactor::new(crate::redact::KnownSecrets::default());
    let on = world.ids(1)[0];
    let id =
        crate::model::session::Ulid::from_parts(crate::env::Millis(1_794_000_000_000), [0x9d; 10]);
    let place = CodePlace {
        commit: on.to_string(),
        path: Some("src/main.rs".into()),
        line: Some(3),
        blob: Some(on.to_string()),
        hunk_sha: Some(on.to_string()),
        text: vec!["let x = 1;".into()],
        ..CodePlace::default()
    };
    let comment = |body: &str| crate::model::review::Record {
        id,
        sid: id,
        after: vec![id],
        lc: 1,
        ts: crate::env::Millis(5),
        who: crate::model::session::Person {
            name: "Ada".into(),
            email: "ada@example.org".into(),
        },
        action: Action::Comment {
            target: None,
            of: None,
            at: Some(CommentPlace::Code(place.clone())),
            body: body.into(),
            severity: None,
        },
    };
    let plain = comment("why not two?");
    let leaky = comment(&format!(
        "use ghp_{}",
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF2hJ4"
    ));
    let records = [&plain, &leaky].map(|record| (on, redactor.json(record.to_json())));
    store
        .append_notes(Kind::Review, &records)
        .expect("records are kept");
    let found = store
        .note_records::<crate::model::review::Record>(Kind::Review)
        .expect("records read");
    assert_eq!((found.records.len(), found.problems.len()), (2, 0));
    let read: Vec<_> = found
        .records
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert!(read.contains(&plain));
    assert!(!read.contains(&leaky));
}
