//! Trials: the product under kill -9, on full disks, with two terminals and under load, and a count of what held.
//!
//! A trial runs rounds. A round begins with a repository that is copied back from a template, disturbs one command, does
//! next what a person would do, and compares what git and the files say with an undisturbed run. Which command, victim,
//! moment and next step a round has is decided by its seed, its command's name and its number, so it can be run again.

pub mod disk;
pub mod facts;
pub mod kill;
pub mod load;
pub mod race;
pub mod round;
pub mod verbs;
pub mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Numbers that a seed, a name and a number of a round decide.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Returns the dice of one round.
    pub fn new(seed: u64, name: &str, round: u64) -> Self {
        let mut dice = Dice(seed);
        for number in name.bytes().map(u64::from).chain([round]) {
            dice.0 = dice.next() ^ number;
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % sides.max(1) as u64).unwrap_or(0)
    }

    /// Returns a number from 0 up to 1.
    pub fn part(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }
}

/// What a trial was asked for.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many rounds in all, or for a disk how many levels for each command.
    pub rounds: usize,
    /// Where chance begins.
    pub seed: u64,
    /// Only commands or pairs with these names; all if there is none.
    pub only: Vec<String>,
    /// Only this round of each command.
    pub round: Option<u64>,
    /// How many files a session leaves uncommitted.
    pub files: usize,
    /// How many rounds run at the same time.
    pub jobs: usize,
    /// When to begin no further round.
    pub time: Option<Duration>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            rounds: 30,
            seed: 1,
            only: Vec::new(),
            round: None,
            files: 300,
            jobs: 1,
            time: None,
        }
    }
}

impl Plan {
    /// Returns whether a command or pair takes part.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == name)
    }

    /// Returns the rounds of these names in turn: name and number of the round among those of its name.
    fn turns<'a>(&self, names: &[&'a str]) -> Vec<(&'a str, u64)> {
        if let Some(round) = self.round {
            return names.iter().map(|name| (*name, round)).collect();
        }
        let each = names.len().max(1);
        (0..self.rounds)
            .map(|at| (names[at % each], (at / each) as u64))
            .collect()
    }
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it must be.
    Held,
    /// Nothing was disturbed: the command was over before.
    Missed,
    /// This is wrong, and where the directory was kept.
    Broke(String, Option<PathBuf>),
}

#[derive(Debug, Default, Clone)]
struct Count {
    held: usize,
    missed: usize,
    broke: Vec<String>,
}

/// What a trial found, by command.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    rows: BTreeMap<String, Count>,
}

impl Tally {
    /// Counts a round.
    pub fn count(&mut self, what: &str, round: u64, outcome: Outcome) {
        let row = self.rows.entry(what.to_owned()).or_default();
        match outcome {
            Outcome::Held => row.held += 1,
            Outcome::Missed => row.missed += 1,
            Outcome::Broke(why, kept) => {
                let kept = kept.map_or(String::new(), |path| format!(" [{}]", path.display()));
                row.broke.push(format!("round {round}: {why}{kept}"));
            }
        }
    }

    /// Adds what another trial found.
    pub fn join(&mut self, other: Tally) {
        for (what, count) in other.rows {
            let row = self.rows.entry(what).or_default();
            row.held += count.held;
            row.missed += count.missed;
            row.broke.extend(count.broke);
        }
    }

    /// Returns what did not hold, one line each.
    pub fn broken(&self) -> Vec<String> {
        let lines = |(what, count): (&String, &Count)| {
            let what = what.clone();
            let line = move |why: &String| format!("{what}, {why}");
            count.broke.iter().map(line).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(lines).collect()
    }

    /// Returns how many rounds were disturbed.
    pub fn tries(&self) -> usize {
        let each = |count: &Count| count.held + count.broke.len();
        self.rows.values().map(each).sum()
    }

    /// Returns the table: a row for each command and one for all.
    pub fn table(&self, title: &str, seed: u64) -> String {
        let mut told = String::from("| what | tries | held | did not |\n|---|---|---|---|\n");
        let mut all = Count::default();
        for (what, count) in &self.rows {
            all.held += count.held;
            all.missed += count.missed;
            let tries = count.held + count.broke.len();
            let broke = count.broke.iter().take(3).cloned().collect::<Vec<_>>();
            let why = broke.join("; ").replace('|', "\\|").replace('\n', " / ");
            let (held, not) = (count.held, count.broke.len());
            let _ = writeln!(told, "| {what} | {tries} | {held} | {not} {why} |");
            all.broke.extend(count.broke.iter().cloned());
        }
        let (held, not, missed) = (all.held, all.broke.len(), all.missed);
        let tries = held + not;
        let _ = writeln!(
            told,
            "| **{title}, seed {seed}** | {tries} | {held} | {not} ({missed} more were over before they were struck) |"
        );
        told
    }
}

/// Runs a round; a panic of the harness in it is a round that broke.
fn judged(world: &world::World, name: &str, run: impl FnOnce() -> Result<bool, String>) -> Outcome {
    let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(words.unwrap_or_else(|| "the round panicked".to_owned()))
    });
    match ended {
        Ok(true) => Outcome::Held,
        Ok(false) => Outcome::Missed,
        Err(why) => {
            world.sandbox().kill_all();
            Outcome::Broke(why, world.keep(name))
        }
    }
}

/// Runs rounds on as many worlds as the plan has jobs.
fn spread<'a>(
    plan: &Plan,
    names: &[&'a str],
    one: impl Fn(&mut world::World, &'a str, u64) -> Outcome + Sync,
    tell: impl Fn(&str, u64, &Outcome) + Sync,
) -> Tally {
    let turns = plan.turns(names);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let started = Instant::now();
    let over = || plan.time.is_some_and(|time| started.elapsed() > time);
    let work = || {
        let mut world = world::World::new(plan.files);
        let mut tally = Tally::default();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some((name, round)) = turns.get(at).filter(|_| !over()) else {
                return tally;
            };
            let outcome = one(&mut world, name, *round);
            tell(name, *round, &outcome);
            tally.count(name, *round, outcome);
        }
    };
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(tally) => all.join(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all
}
