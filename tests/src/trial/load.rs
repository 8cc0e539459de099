//! Many sessions: waiting for a turn, and all at once.

use std::time::{Duration, Instant};

use super::facts::{files_of, one_line, sessions, unsound};
use super::world::{Scene, World};
use super::{Tally, judged};

const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// What a load was like.
#[derive(Debug)]
pub struct Load {
    /// What held.
    pub tally: Tally,
    /// Figures for a person.
    pub figures: String,
}

/// Lets sessions queue behind `parallel` that hold, then lets all go on. All must be ready at the end.
pub fn queued(count: usize, parallel: usize) -> Load {
    let what = format!("{count} queued, {parallel} run");
    run(&what, |world| {
        limit(world, parallel)?;
        let started = Instant::now();
        for at in 0..count {
            let name = format!("q{at}");
            let done = world.run(&["agent", "new", &name, "--", "trial-agent", "hold", "q"]);
            if !done.status().success() {
                return Err(format!("new {name} fails: {}", one_line(&done)));
            }
        }
        let queued = started.elapsed();
        world.go();
        let ready = all_ready(world, count)?;
        Ok(format!(
            "{ready}, queued in {queued:.1?}, done after {:.1?}",
            started.elapsed()
        ))
    })
}

/// Starts sessions all at once, and compares the time with as many plain worktrees.
pub fn at_once(count: usize) -> Load {
    let what = format!("{count} at once");
    run(&what, |world| {
        limit(world, count)?;
        let base = world.base().join("plain");
        let started = Instant::now();
        for at in 0..count {
            let place = base.join(at.to_string());
            let place = place.to_str().ok_or("a path that is no text")?;
            let branch = format!("plain-{at}");
            world.run(&["worktree", "add", "-q", "-b", &branch, place]);
        }
        let plain = started.elapsed();
        world.go();
        let started = Instant::now();
        let all: Vec<_> = (0..count)
            .map(|at| {
                let name = format!("q{at}");
                let words = ["agent", "new", &name, "--", "trial-agent", "plain", "q"];
                world.command(&words).time_limit(PATIENCE).spawn()
            })
            .collect();
        for new in all {
            let done = world.tell(new.wait().whatever());
            if !done.status().success() {
                return Err(format!("new fails: {}", one_line(&done)));
            }
        }
        let ready = all_ready(world, count)?;
        let took = started.elapsed();
        Ok(format!(
            "{ready} in {took:.1?}, {count} × git worktree add in {plain:.1?}, ratio {:.2}",
            took.as_secs_f64() / plain.as_secs_f64()
        ))
    })
}

fn run(what: &str, load: impl FnOnce(&World) -> Result<String, String>) -> Load {
    let world = World::new(10);
    let mut figures = String::new();
    let outcome = judged(&world, &what.replace([' ', ','], "-"), || {
        world.reset(Scene::Alone)?;
        figures = load(&world)?;
        unsound(&world, true).map(|()| true)
    });
    let mut tally = Tally::default();
    tally.count(what, 0, outcome);
    Load { tally, figures }
}

fn limit(world: &World, parallel: usize) -> Result<(), String> {
    let parallel = parallel.to_string();
    let done = world.run(&["config", "agent.maxParallel", &parallel]);
    if done.status().success() {
        Ok(())
    } else {
        Err(one_line(&done))
    }
}

/// Waits for the end of all, and says how they ended.
fn all_ready(world: &World, count: usize) -> Result<String, String> {
    world.idle(PATIENCE)?;
    let listed = sessions(world)?;
    let is = |state: &str| listed.iter().filter(|one| one["state"] == state).count();
    let files: std::collections::BTreeSet<String> = listed.iter().map(files_of).collect();
    let (ready, failed) = (is("ready"), is("failed"));
    if ready == count && files.len() == 1 {
        Ok(format!("{ready} of {count} ready"))
    } else {
        let why = listed.iter().find(|one| one["state"] != "ready");
        let why = why.map_or(String::new(), |one| one["exit"].to_string());
        Err(format!(
            "{ready} of {count} ready, {failed} failed, {} listed, {} kinds of files; {why}",
            listed.len(),
            files.len()
        ))
    }
}
