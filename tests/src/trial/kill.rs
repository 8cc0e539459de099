//! kill -9 of the program, its group, its supervisor or everything at once, at any moment of every command.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::process::Background;
use crate::survivors::Survivor;

use super::round::{Round, begin, command, usual};
use super::verbs::{VERBS, Verb};
use super::world::World;
use super::{Dice, Outcome, Plan, Tally, judged, spread};

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The program itself; what it started goes on.
    Program,
    /// The program and everything in its process group.
    Group,
    /// The supervisors.
    Supervisor,
    /// Every process, as when the machine goes down.
    Everything,
}

const VICTIMS: [Victim; 4] = [
    Victim::Program,
    Victim::Group,
    Victim::Everything,
    Victim::Supervisor,
];

/// Runs rounds of kills.
pub fn kill(plan: &Plan, tell: impl Fn(&str, u64, &Outcome) + Sync) -> Tally {
    let verbs: Vec<&'static Verb> = VERBS.iter().filter(|verb| plan.wants(verb.name)).collect();
    let names: Vec<&str> = verbs.iter().map(|verb| verb.name).collect();
    let one = |world: &mut World, name: &str, round: u64| {
        let verb = verbs.iter().find(|verb| verb.name == name);
        let verb = verb.expect("the name is one of theirs");
        let kept = format!("kill-{}-{round}", name.replace(' ', "-"));
        let known = usual(world, verb, &|_| 0);
        let mut known = match known {
            Ok(known) => known,
            Err(why) => return judged(world, &kept, || Err(why)),
        };
        for _ in 0..4 {
            let (mut struck, dice) = (Ok(known.time), Dice::new(plan.seed, name, round));
            let outcome = judged(world, &kept, || {
                struck = strike(world, verb, &known, dice);
                struck.clone().map(|left| left.is_zero())
            });
            match (&outcome, struck) {
                // The machine was less busy than when the time was measured.
                (Outcome::Missed, Ok(took)) => {
                    known.time = known.time.mul_f64(0.9).min(took);
                    world.usual.insert(verb.name, known.clone());
                }
                _ => return outcome,
            }
        }
        Outcome::Missed
    };
    spread(plan, &names, one, tell)
}

/// Disturbs a command; if it was over before, returns how long it took.
fn strike(
    world: &World,
    verb: &Verb,
    usual: &super::round::Usual,
    mut dice: Dice,
) -> Result<Duration, String> {
    let victims = if verb.supervised {
        &VICTIMS[..]
    } else {
        &VICTIMS[..3]
    };
    let victim = victims[dice.roll(victims.len())];
    let part = dice.part() * 1.05;
    let label = format!("{victim:?} at {:.0} %", part * 100.0);
    begin(world, verb).map_err(|why| format!("{label}: {why}"))?;
    let started = Instant::now();
    let running = command(world, verb).spawn();
    std::thread::sleep(usual.time.mul_f64(part));
    let hit = kill_now(world, &running, victim);
    world.note(format!("killed {victim:?} at {part:.3}: {hit}"));
    let done = world.tell(running.wait().whatever());
    let missed = hit == 0 || !verb.supervised;
    if missed && done.status().success() {
        let took = if verb.supervised && verb.until.is_none() {
            started.elapsed()
        } else {
            done.elapsed()
        };
        world.go();
        world.idle(Duration::from_secs(40))?;
        return Ok(took);
    }
    let round = Round {
        world,
        verb,
        usual,
        dice,
    };
    match round.go_on() {
        Ok(()) => Ok(Duration::ZERO),
        Err(why) => Err(format!("{label}: {why}")),
    }
}

/// Kills the victim, and returns how many processes that were.
fn kill_now(world: &World, running: &Background, victim: Victim) -> usize {
    match victim {
        Victim::Everything => {
            running.signal_group(Signal::KILL);
            let everyone = world.sandbox().survivors();
            everyone.iter().for_each(Survivor::kill);
            world.sandbox().kill_all();
            everyone.len()
        }
        Victim::Group => {
            running.signal_group(Signal::KILL);
            0
        }
        Victim::Program => {
            let struck = below(running.pid());
            let struck = struck.into_iter().filter(|pid| is_program(*pid));
            let struck = struck.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            // It may have ended by itself just now.
            struck
                .filter(|pid| rustix::process::kill_process(*pid, Signal::KILL).is_ok())
                .count()
        }
        Victim::Supervisor => {
            let everyone = world.sandbox().survivors();
            let struck = everyone
                .iter()
                .filter(|one| one.command.contains("__supervise"));
            struck.map(Survivor::kill).count()
        }
    }
}

/// Returns a process and all that it started and that are not orphans yet.
fn below(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    std::iter::once(pid)
        .chain(children.flat_map(below))
        .collect()
}

/// Returns whether a process is the product's, started by the user.
fn is_program(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let program = line.split('\0').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    name.starts_with("git-agent") && !line.contains("__supervise")
}
