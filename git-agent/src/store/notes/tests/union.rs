//! Two clones that join the same notes get identical bytes and commits, in either order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::git::ObjectId;
use crate::git::object::{Batch, Signature};
use crate::store::notes::merge;
use crate::store::notes::record_set::Lines;
use crate::store::notes::tests::World;
use crate::store::notes::tree::{self, NotesTree};

/// Records of the test: an object and a line each.
type Set = Vec<(u8, String)>;

fn sets() -> impl Strategy<Value = Set> {
    let line = (0..40u32, "[ -~]{0,6}").prop_map(|(n, text)| {
        crate::model::event::to_ascii_json(&serde_json::json!({"n": n, "t": text}))
    });
    // Few objects, so that both sides annotate the same ones.
    proptest::collection::vec((0..24u8, line), 0..9)
}

/// Writes a version of a notes ref: the parent's records and these.
fn version(world: &World, parent: Option<ObjectId>, set: &Set, seconds: i64) -> (ObjectId, Batch) {
    let repo = &world.repo;
    let mut notes = match parent {
        Some(parent) => {
            let commit = repo.read_commit(parent).expect("the parent reads");
            NotesTree::open(repo, commit.tree).expect("its tree opens")
        }
        None => NotesTree::empty(repo),
    };
    let mut wanted: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for (on, line) in set {
        let text = wanted.entry(*on).or_default();
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    for (on, text) in wanted {
        let on = world.id(&[on.wrapping_mul(9), on]);
        let mut lines = notes.lines(&on).expect("lines read");
        lines.union(Lines::parse(&text));
        notes.set_lines(on, lines).expect("lines are set");
    }
    let (tree, mut batch) = notes.build().expect("a tree is built");
    let signature = Signature {
        name: "x".into(),
        email: "x@example.org".into(),
        seconds,
    };
    let parents: Vec<ObjectId> = parent.into_iter().collect();
    let commit = batch.commit(tree, &parents, &signature, "x\n");
    (commit, batch)
}

fn joined(world: &World, one: ObjectId, other: ObjectId) -> ObjectId {
    let (commit, batch) = merge::union(&world.repo, one, other).expect("versions join");
    world.repo.write_batch(&batch).expect("objects are written");
    commit
}

fn bytes(world: &World, commit: ObjectId) -> BTreeMap<ObjectId, Vec<u8>> {
    let tree = world.repo.read_commit(commit).expect("a commit").tree;
    let mut found = BTreeMap::new();
    tree::walk(&world.repo, tree, &mut |on, blob| {
        let lines = tree::read_lines(&world.repo, blob)?;
        assert!(found.insert(on, lines.to_blob()).is_none());
        Ok(())
    })
    .expect("walks");
    found
}

fn either_order_gives_the_same(hash: &str, cases: u32) {
    let ada = World::new(hash, "files", "ada", 1_794_000_000_000);
    let bob = ada.borrower("bob", 1_799_000_000_000);
    let write = |(commit, batch): (ObjectId, Batch)| {
        ada.repo.write_batch(&batch).expect("objects are written");
        commit
    };
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let input = (
        proptest::option::of(sets()),
        sets(),
        sets(),
        0..1000i64,
        0..1000i64,
    );
    runner
        .run(&input, |(base, one, other, early, late)| {
            let base = base.map(|set| write(version(&ada, None, &set, 0)));
            let one = write(version(&ada, base, &one, early));
            let other = write(version(&ada, base, &other, late));
            let at_ada = joined(&ada, one, other);
            let at_bob = joined(&bob, other, one);
            prop_assert_eq!(at_ada, at_bob);
            prop_assert_eq!(bytes(&ada, at_ada), bytes(&bob, at_bob));
            // Joining a contained version again changes nothing.
            prop_assert_eq!(joined(&ada, at_ada, other), at_ada);
            prop_assert_eq!(joined(&ada, one, at_ada), at_ada);
            Ok(())
        })
        .expect("both sides agree");
}

#[test]
fn either_order_gives_the_same_commit_with_sha1() {
    either_order_gives_the_same("sha1", 1_000);
}

#[test]
fn either_order_gives_the_same_commit_with_sha256() {
    either_order_gives_the_same("sha256", 1_000);
}

#[test]
fn joining_three_versions_does_not_depend_on_how_they_pair() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(100));
    runner
        .run(&(sets(), sets(), sets()), |(one, two, three)| {
            let [one, two, three] = [one, two, three].map(|set| {
                let (commit, batch) = version(&world, None, &set, 7);
                world.repo.write_batch(&batch).expect("objects are written");
                commit
            });
            let tree = |commit| world.repo.read_commit(commit).expect("a commit").tree;
            let left = joined(&world, joined(&world, one, two), three);
            let right = joined(&world, one, joined(&world, two, three));
            prop_assert_eq!(tree(left), tree(right));
            prop_assert_eq!(joined(&world, one, one), one);
            Ok(())
        })
        .expect("all pairings agree");
}
