//! Tests of ending processes, including those that try to escape. Each test that ends all its descendants runs in its
//! own process.

use super::super::tests::{alone, env, sh, until};
use super::*;
use crate::process::identity::ProcessId;

fn second() -> Duration {
    Duration::from_secs(1)
}

fn none_below() -> bool {
    descendants(std::process::id()).is_empty()
}

/// Waits until a script has written its file.
fn ready(path: &std::path::Path) {
    until("the script is ready", || path.exists());
}

#[test]
fn both_ways_find_the_same() {
    alone("process::tree::tests::both_ways_find_the_same", || {
        let dir = tempfile::tempdir().expect("a directory");
        let flag = dir.path().join("ready");
        let script = format!("sleep 30 & (sleep 31 & :>'{}'; wait)", flag.display());
        let mut child = sh(&script).spawn().expect("sh starts");
        ready(&flag);
        let me = std::process::id();
        let names = |mut stats: Vec<Stat>| {
            stats.sort_by_key(|stat| stat.pid);
            stats.into_iter().map(|stat| stat.pid).collect::<Vec<_>>()
        };
        let walked = names(descendants(me));
        assert_eq!(walked.len(), 4, "sh, sleep, subshell, sleep");
        let scanned = names(below(&snapshot(), &BTreeSet::from([me]), &|_| false));
        assert_eq!(walked, scanned);
        let spared = names(below(&snapshot(), &BTreeSet::from([me]), &|stat| {
            stat.pid == child.id()
        }));
        assert!(spared.is_empty());
        end_all(KillCare::new(second())).expect("ends");
        child
            .wait()
            .expect_err("its status was taken with the rest");
    });
}

#[test]
fn those_that_get_away_are_ended() {
    alone(
        "process::tree::tests::those_that_get_away_are_ended",
        || {
            adopt_orphans().expect("adopts");
            let dir = tempfile::tempdir().expect("a directory");
            let flag = dir.path().join("ready");
            // A session of its own, a double fork, and a launcher that ends before its program.
            let script = format!(
                "setsid sleep 30 & (setsid sh -c 'sleep 31 & sleep 32' &) ; (sleep 33 &) ; sleep 0.1; :>'{}'",
                flag.display()
            );
            let mut child = sh(&script).spawn().expect("sh starts");
            ready(&flag);
            child.wait().expect("ours");
            let started = Instant::now();
            let ended = end_all(KillCare::new(second())).expect("ends");
            assert!(ended.asked.len() >= 4, "{ended:?}");
            assert!(
                ended.killed.is_empty() && ended.left.is_empty(),
                "{ended:?}"
            );
            assert!(started.elapsed() < second(), "no grace was used up");
            assert!(none_below());
        },
    );
}

#[test]
fn the_deaf_the_stopped_and_zombies_are_ended() {
    alone(
        "process::tree::tests::the_deaf_the_stopped_and_zombies_are_ended",
        || {
            adopt_orphans().expect("adopts");
            let dir = tempfile::tempdir().expect("a directory");
            let flag = dir.path().join("ready");
            // `exec` leaves the quick child to a parent that never collects its status: a zombie.
            let script = format!(
                "trap '' TERM; (trap '' TERM; :>'{0}'; exec sleep 30) & \
                 (sleep 31 & kill -STOP $!; wait) & (sleep 0 & exec sleep 32) & sleep 33; sleep 34",
                flag.display()
            );
            let mut child = sh(&script).spawn().expect("sh starts");
            ready(&flag);
            let me = std::process::id();
            until("a stopped one and a zombie", || {
                let stats = descendants(me);
                stats.iter().any(|stat| stat.state == 'T') && stats.iter().any(Stat::is_dead)
            });
            let started = Instant::now();
            let care = KillCare {
                keep: &[child.id()],
                ..KillCare::new(Duration::from_millis(300))
            };
            let ended = end_all(care).expect("ends");
            assert!(started.elapsed() >= Duration::from_millis(300));
            assert!(ended.killed.len() >= 2, "{ended:?}");
            assert!(ended.left.is_empty(), "{ended:?}");
            let status = child.wait().expect("its status was left to us");
            assert!(!status.success());
            assert!(none_below());
        },
    );
}

#[test]
fn a_small_fork_bomb_is_ended() {
    alone("process::tree::tests::a_small_fork_bomb_is_ended", || {
        adopt_orphans().expect("adopts");
        let dir = tempfile::tempdir().expect("a directory");
        let flag = dir.path().join("ready");
        // Each ignores TERM and starts the next, about fifty in all.
        let script = format!(
            "trap '' TERM; bomb() {{ [ $1 -gt 0 ] && {{ (bomb $(($1 - 1))) & sleep 0.01; }}; :>'{}'; sleep 30; }}; \
             bomb 12 & bomb 12 & bomb 12 & bomb 12 & wait",
            flag.display()
        );
        let mut child = sh(&script).spawn().expect("sh starts");
        ready(&flag);
        let care = KillCare {
            keep: &[child.id()],
            ..KillCare::new(Duration::from_millis(50))
        };
        let ended = end_all(care).expect("ends");
        assert!(ended.killed.len() > 4, "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
        child.wait().expect("ours");
        assert!(none_below());
    });
}

#[test]
fn what_is_spared_lives_on() {
    alone("process::tree::tests::what_is_spared_lives_on", || {
        adopt_orphans().expect("adopts");
        let mut spared = sh("sleep 30 & wait").spawn().expect("sh starts");
        let mut other = sh("sleep 30 & wait").spawn().expect("sh starts");
        until("both have children", || {
            descendants(std::process::id()).len() == 4
        });
        let id = ProcessId::of(&env(), spared.id())
            .expect("readable")
            .expect("alive");
        let care = KillCare {
            spare: &|stat| stat.pid == id.pid && stat.start_time == id.start_time,
            keep: &[other.id()],
            ..KillCare::new(second())
        };
        let ended = end_all(care).expect("ends");
        assert_eq!(ended.asked.len(), 2, "{ended:?}");
        other.wait().expect("ours");
        assert!(id.is_alive(&env()));
        assert_eq!(descendants(id.pid).len(), 1);
        let care = KillCare {
            keep: &[spared.id()],
            ..KillCare::new(second())
        };
        end_all(care).expect("ends");
        spared.wait().expect("ours");
    });
}

#[test]
fn orphans_are_found_by_their_marker() {
    let value = format!("marker-{}", std::process::id());
    let mut first = sh("setsid sh -c 'sleep 30 & exec sleep 31' & sleep 0.1")
        .env("GIT_AGENT_TEST_MARK", &value)
        .spawn()
        .expect("sh starts");
    let mut longer = sh("exec sleep 32")
        .env("GIT_AGENT_TEST_MARK", format!("{value}0"))
        .spawn()
        .expect("sh starts");
    first.wait().expect("ours");
    let found = marked("GIT_AGENT_TEST_MARK", &value);
    assert_eq!(found.len(), 2, "{found:?}");
    let ended = end_marked("GIT_AGENT_TEST_MARK", &value, KillCare::new(second())).expect("ends");
    assert_eq!(ended.asked.len(), 2, "{ended:?}");
    assert!(marked("GIT_AGENT_TEST_MARK", &value).is_empty());
    assert!(
        longer.try_wait().expect("ours").is_none(),
        "another's marker"
    );
    longer.kill().expect("ours");
    longer.wait().expect("ours");
}

#[test]
fn this_process_and_its_ancestors_are_safe() {
    let stats = snapshot();
    let safe = protected(&stats);
    let me = std::process::id();
    let parent = stats.get(&me).expect("this process").parent;
    assert!(safe.is_superset(&BTreeSet::from([0, 1, me, parent])));
}
