//! One round: a command is disturbed, a person goes on, and everything must be as if nothing had happened.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::output::Output;
use crate::process::Cmd;

use super::Dice;
use super::facts::{Facts, files_of, one_line, sessions, tree, unsound, users};
use super::verbs::{Again, Verb};
use super::world::World;

const PATIENCE: Duration = Duration::from_secs(40);
const LAND: [&[&str]; 2] = [
    &["agent", "review", "approve", "s0"],
    &[
        "agent",
        "merge",
        "--yes",
        "--no-test",
        "--into",
        "main",
        "s0",
    ],
];

/// What an undisturbed run of a command does.
#[derive(Debug, Clone)]
pub struct Usual {
    before: Facts,
    after: Facts,
    /// From the start to the end of the command and of everything it started.
    pub time: Duration,
    /// How many bytes of a disk it needed, where that was measured.
    pub room: u64,
    /// The trees that the user's branch may have when `s0` is landed next.
    landed: BTreeSet<String>,
}

/// Returns the command of a verb, about to be started.
pub fn command(world: &World, verb: &Verb) -> Cmd {
    world.command(verb.words).stdin(verb.stdin)
}

/// Puts the world into the state that a verb begins with.
pub fn begin(world: &World, verb: &Verb) -> Result<(), String> {
    world.reset(verb.scene)?;
    for words in verb.setup {
        let done = world.run(words);
        if !done.status().success() {
            return Err(format!("the scene can't be made: {done}"));
        }
    }
    if let Some((name, state)) = verb.until {
        let deadline = Instant::now() + PATIENCE;
        while !is_in(&sessions(world)?, name, &[state]) {
            if Instant::now() > deadline {
                return Err(format!("{name} never became {state}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

fn is_in(listed: &[Value], name: &str, states: &[&str]) -> bool {
    let found = listed.iter().find(|session| session["name"] == name);
    found.is_some_and(|session| states.iter().any(|state| session["state"] == *state))
}

/// Runs a verb undisturbed, once for each world, and returns what it does.
pub fn usual(
    world: &mut World,
    verb: &'static Verb,
    measure: &dyn Fn(&World) -> u64,
) -> Result<Usual, String> {
    if let Some(known) = world.usual.get(verb.name) {
        return Ok(known.clone());
    }
    begin(world, verb)?;
    let before = Facts::of(world)?;
    let used = measure(world);
    let started = Instant::now();
    let mut running = command(world, verb).spawn();
    let mut most = used;
    while running.is_running() {
        most = most.max(measure(world));
        std::thread::sleep(Duration::from_millis(1));
    }
    let done = world.tell(running.wait().whatever());
    if !done.status().success() {
        return Err(format!("the undisturbed run fails: {done}"));
    }
    if verb.supervised && verb.until.is_none() {
        while !world.sandbox().survivors().is_empty() && started.elapsed() < PATIENCE {
            most = most.max(measure(world));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let time = started.elapsed();
    settle(world, verb)?;
    let after = Facts::of(world)?;
    let mut landed = BTreeSet::new();
    if verb.land {
        landed.insert(tree(world, "main"));
        land(world);
        landed.insert(tree(world, "main"));
        begin(world, verb)?;
        landed.insert(tree(world, "main"));
        land(world);
        landed.insert(tree(world, "main"));
    }
    let usual = Usual {
        before,
        after,
        time,
        room: most - used,
        landed,
    };
    world.usual.insert(verb.name, usual.clone());
    Ok(usual)
}

/// Approves and lands `s0`; either may be refused.
fn land(world: &World) -> Vec<Output> {
    LAND.iter().map(|words| world.run(words)).collect()
}

/// Lets agents that hold go on, and sessions that were interrupted go on with their prompt.
fn settle(world: &World, verb: &Verb) -> Result<(), String> {
    world.go();
    world.idle(PATIENCE)?;
    let Some(prompt) = verb.prompt else {
        return Ok(());
    };
    for _ in 0..2 {
        let stuck = ["interrupted", "failed", "stopped", "queued", "new"];
        let listed = sessions(world)?;
        let names = listed.iter().filter_map(|session| session["name"].as_str());
        let names: Vec<&str> = names.filter(|name| is_in(&listed, name, &stuck)).collect();
        if names.is_empty() {
            break;
        }
        for name in names {
            world.run(&["agent", "restart", name, "-m", prompt]);
        }
        world.idle(PATIENCE)?;
    }
    Ok(())
}

/// What a round knows when its command was disturbed.
#[derive(Debug)]
pub struct Round<'a> {
    /// Where it happens.
    pub world: &'a World,
    /// What is disturbed.
    pub verb: &'a Verb,
    /// What it does undisturbed.
    pub usual: &'a Usual,
    /// What decides what a person does next.
    pub dice: Dice,
}

impl Round<'_> {
    /// Goes on as a person would, and says what is wrong then.
    pub fn go_on(mut self) -> Result<(), String> {
        let held = self.world.settled(Duration::from_secs(8));
        for one in held {
            self.world.note(format!("still runs: {}", one.command));
        }
        if self.dice.roll(2) == 0 {
            let listed = self.world.run(&["agent", "list"]);
            if !listed.status().success() {
                return Err(format!("list fails: {}", one_line(&listed)));
            }
        }
        if self.dice.roll(2) == 0 {
            self.world.run(&["agent", "doctor"]);
        }
        let lands = self.verb.land && self.dice.roll(3) == 0;
        if lands {
            self.land_next()?
        } else {
            self.again()?
        }
        self.brought_back()?;
        let gc = self.dice.roll(4) == 0;
        unsound(self.world, gc)
    }

    fn land_next(&self) -> Result<(), String> {
        let done = land(self.world);
        let main = tree(self.world, "main");
        if !self.usual.landed.contains(&main) {
            let count = self.world.run(&["ls-tree", "-r", "--name-only", "main"]);
            let count = count
                .stdout_bytes()
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            return Err(format!("half was landed: main has {count} files"));
        }
        let refused = done.iter().any(|one| !one.status().success());
        self.users_work()?;
        if refused {
            // What stopped it may be what was left half: then the command itself finishes it.
            self.again()
        } else {
            Ok(())
        }
    }

    fn users_work(&self) -> Result<(), String> {
        for (name, value) in users(self.world) {
            let known = [&self.usual.before, &self.usual.after].map(|facts| facts.0.get(name));
            if !known.contains(&Some(&value)) {
                let was = known[0].cloned().unwrap_or_default();
                return Err(format!("{name} is '{value}', was '{was}'"));
            }
        }
        Ok(())
    }

    /// Does the command again, and lets the doctor help if that is not enough.
    fn again(&self) -> Result<(), String> {
        let mut wrong = String::new();
        for attempt in 0..2 {
            let there = match self.verb.again {
                Again::Same => false,
                Again::Unless(name) => {
                    let listed = sessions(self.world)?;
                    listed.iter().any(|session| session["name"] == name)
                }
            };
            let mut said = String::new();
            if !there {
                let done = self
                    .world
                    .tell(command(self.world, self.verb).run().whatever());
                said = one_line(&done);
            }
            settle(self.world, self.verb)?;
            let now = Facts::of(self.world)?;
            let unlike = self.unlike(&now);
            match unlike {
                None => return Ok(()),
                Some(why) => wrong = format!("{why}; again: {said}"),
            }
            if attempt == 0 {
                self.world.run(&["agent", "doctor", "--fix"]);
            }
        }
        Err(wrong)
    }

    /// Returns how the facts differ from those that must hold after the command was done again.
    fn unlike(&self, now: &Facts) -> Option<String> {
        let (before, after) = (&self.usual.before, &self.usual.after);
        let same = |one: &Facts, other: &Facts, name: &str| one.0.get(name) == other.0.get(name);
        if self.verb.land && same(before, after, "main") && !same(now, before, "main") {
            // It was landed before: then only the user's own work can be compared.
            return self.users_work().err();
        }
        if self.verb.carries && same(now, before, "user's status") {
            let loose = ["n0 files", "user's"];
            return now
                .unlike(after, &loose)
                .or_else(|| self.users_work().err());
        }
        now.unlike(after, self.verb.loose)
    }

    /// Brings back the worktree of `s0` where it has none, and compares the files with those it had.
    fn brought_back(&self) -> Result<(), String> {
        let listed = sessions(self.world)?;
        let s0 = listed.iter().find(|session| session["name"] == "s0");
        let Some(s0) = s0.filter(|session| files_of(session) == "none") else {
            return Ok(());
        };
        if s0["state"] == "merged" {
            return Ok(());
        }
        let done = self.world.run(&["agent", "restore", "s0"]);
        if !done.status().success() {
            return Err(format!("restore fails afterwards: {}", one_line(&done)));
        }
        let listed = sessions(self.world)?;
        let now = listed.iter().find(|session| session["name"] == "s0");
        let now = now.map_or("none".to_owned(), files_of);
        let known = [&self.usual.before, &self.usual.after].map(|facts| facts.0.get("s0 files"));
        let whole = known.contains(&Some(&now))
            || known
                .iter()
                .all(|one| one.is_none_or(|files| files == "none"));
        if whole {
            Ok(())
        } else {
            Err(format!("restored {now}, had {known:?}"))
        }
    }
}
