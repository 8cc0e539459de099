//! An append that fails at any step breaks nothing, and succeeds when it is repeated.

use crate::store::Store;
use crate::store::notes::tests::World;
use crate::store::notes::tests::write::{numbers, process};

/// Fails at every point that an append passes, in every way, and checks the result.
fn every_fault(refs: &str) -> usize {
    let dry = World::new("sha1", refs, "ada", 1_794_000_000_000);
    let append = |world: &World, n| process(world, n, 1).status().expect("it runs").success();
    assert!(append(&dry, 0));
    let log = dry.dir.path().join("points");
    let mut logged = process(&dry, 1, 1);
    logged.env("GIT_AGENT_TEST_FAULT_LOG", &log);
    assert!(logged.status().expect("it runs").success());
    let points = std::fs::read_to_string(&log).expect("points are logged");
    assert!(points.lines().any(|point| point.starts_with("notes.")));

    let world = World::new("sha1", refs, "ada", 1_794_000_000_000);
    let store = Store::new(&world.env, &world.repo);
    assert!(append(&world, 0));
    let mut done = 1;
    let mut tried = 0;
    for point in points.lines() {
        for action in ["kill", "eio"] {
            let what = format!("{point}:{action}");
            let mut faulty = process(&world, done, 1);
            faulty.env("GIT_AGENT_TEST_FAULT", &what);
            assert!(!faulty.status().expect("it runs").success(), "{what}");
            // The user's own git still works, and the next append succeeds.
            world.git(&["fsck", "--strict"], "");
            world.git(&["for-each-ref"], "");
            assert!(append(&world, done), "{what}");
            done += 1;
            let all: Vec<u64> = (0..done as u64).collect();
            assert_eq!(numbers(&store), all, "{what}");
            tried += 1;
        }
    }
    world.git(&["gc", "--prune=now", "--quiet"], "");
    assert_eq!(numbers(&store).len(), done);
    tried
}

#[test]
fn every_fault_of_an_append_is_survived_on_files() {
    assert!(every_fault("files") >= 30);
}

#[test]
fn every_fault_of_an_append_is_survived_on_reftable() {
    assert!(every_fault("reftable") >= 30);
}
