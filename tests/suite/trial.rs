//! Short forms of `hostile-trial`: kills, a full disk and two terminals, at random moments that a seed decides.

use git_agent_tests::trial::{Outcome, Plan, Tally, disk, kill, race};

fn plan(rounds: usize, names: &[&str]) -> Plan {
    Plan {
        rounds,
        only: names.iter().map(|name| (*name).to_owned()).collect(),
        files: 60,
        ..Plan::default()
    }
}

fn tell(_: &str, _: u64, _: &Outcome) {}

#[track_caller]
fn assert_held(tally: &Tally) {
    let broken = tally.broken();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(tally.tries() > 0, "nothing was disturbed");
}

#[test]
fn a_killed_command_is_finished_by_the_next() {
    let verbs = ["restore", "rewind", "clean", "send to a cleaned session"];
    assert_held(&kill::kill(&plan(12, &verbs), tell));
}

#[test]
fn a_full_disk_costs_nobody_their_work() {
    match disk::disk(&plan(6, &["commit"]), tell) {
        Ok(tally) => assert_held(&tally),
        // Elsewhere the fault points let writes fail for want of room.
        Err(why) => {
            let note = format!("{why}; the fault points stand for it\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
        }
    }
}

#[test]
fn two_terminals_end_as_one_after_the_other() {
    let pairs = ["commit, update", "comment, comment", "merge, git commit"];
    assert_held(&race::race(&plan(12, &pairs), tell));
}
