//! Two terminals at once: whatever both do at the same time must end as if one had waited for the other.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{Facts, one_line, prompts, unsound};
use super::world::{Scene, World};
use super::{Dice, Outcome, Plan, Tally, judged, spread};

type Words = &'static [&'static str];

/// Two commands that a user starts at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// What it is called in the table.
    pub name: &'static str,
    scene: Scene,
    sides: [Words; 2],
}

const fn pair(name: &'static str, scene: Scene, one: Words, other: Words) -> Pair {
    Pair {
        name,
        scene,
        sides: [one, other],
    }
}

const COMMIT: Words = &["agent", "commit", "s0", "-m", "by the user"];
const SNAPSHOT: Words = &["agent", "snapshot", "s0"];
const UPDATE: Words = &["agent", "update", "s0"];
const APPROVE: Words = &["agent", "review", "approve", "s0"];
const COMMENT: Words = &["agent", "review", "comment", "s0", "-m", "one"];
const SEND: Words = &["agent", "send", "s0", "do three"];
const CLEAN: Words = &["agent", "clean", "s0"];
const RESTORE: Words = &["agent", "restore", "s0"];
const REWIND: Words = &["agent", "rewind", "--turn", "1", "s0"];
const MERGE: Words = &["agent", "merge", "--yes", "--into", "main", "s0"];
const MERGE_OTHER: Words = &["agent", "merge", "--yes", "--into", "main", "s1"];
const UNDO: Words = &["agent", "merge", "--undo", "--yes"];
const QUEUE: Words = &["agent", "merge", "queue", "run"];
const OWN: Words = &["commit", "-q", "-m", "the user's own", "staged"];
const PUSH: Words = &["agent", "push", "-y", "origin"];
const NEW: Words = &["agent", "new", "n0", "--", "trial-agent", "plain", "n"];
const NEW_OTHER: Words = &["agent", "new", "n1", "--", "trial-agent", "plain", "n"];
const FORK: Words = &["agent", "fork", "s0", "do three", "--name", "f0"];

/// All of them.
pub const PAIRS: &[Pair] = &[
    pair("commit, commit", Scene::Work, COMMIT, COMMIT),
    pair("commit, snapshot", Scene::Work, COMMIT, SNAPSHOT),
    pair("commit, update", Scene::Work, COMMIT, UPDATE),
    pair("commit, rewind", Scene::Work, COMMIT, REWIND),
    pair("commit, clean", Scene::Work, COMMIT, CLEAN),
    pair("comment, comment", Scene::Work, COMMENT, COMMENT),
    pair("comment, approve", Scene::Work, COMMENT, APPROVE),
    pair("send, send", Scene::Work, SEND, SEND),
    pair("clean, send", Scene::Work, CLEAN, SEND),
    pair("clean, restore", Scene::Work, CLEAN, RESTORE),
    pair("clean, rewind", Scene::Work, CLEAN, REWIND),
    pair("clean, fork", Scene::Work, CLEAN, FORK),
    pair("restore, restore", Scene::Cleaned, RESTORE, RESTORE),
    pair("restore, send", Scene::Cleaned, RESTORE, SEND),
    pair(
        "restore, forget",
        Scene::Cleaned,
        RESTORE,
        &["agent", "forget", "s0"],
    ),
    pair("merge, merge", Scene::Approved, MERGE, MERGE),
    pair("merge, merge another", Scene::Approved, MERGE, MERGE_OTHER),
    pair("merge, clean", Scene::Approved, MERGE, CLEAN),
    pair("merge, commit", Scene::Approved, MERGE, COMMIT),
    pair(
        "merge, update another",
        Scene::Approved,
        MERGE,
        &["agent", "update", "s1"],
    ),
    pair("merge, git commit", Scene::Approved, MERGE, OWN),
    pair("undo, undo", Scene::Merged, UNDO, UNDO),
    pair("undo, merge another", Scene::Merged, UNDO, MERGE_OTHER),
    pair("undo, git commit", Scene::Merged, UNDO, OWN),
    pair("queue run, queue run", Scene::Queued, QUEUE, QUEUE),
    pair("queue run, git commit", Scene::Queued, QUEUE, OWN),
    pair("new, new of the same name", Scene::Work, NEW, NEW),
    pair("new, new", Scene::Work, NEW, NEW_OTHER),
    pair("push, push", Scene::Remote, PUSH, PUSH),
    pair("push, comment", Scene::Remote, PUSH, COMMENT),
    pair(
        "push, fetch",
        Scene::Remote,
        PUSH,
        &["agent", "fetch", "origin"],
    ),
];

/// Runs rounds of two commands at once.
pub fn race(plan: &Plan, tell: impl Fn(&str, u64, &Outcome) + Sync) -> Tally {
    let pairs: Vec<&'static Pair> = PAIRS.iter().filter(|pair| plan.wants(pair.name)).collect();
    let names: Vec<&str> = pairs.iter().map(|pair| pair.name).collect();
    let known = std::sync::Mutex::new(BTreeMap::new());
    let one = |world: &mut World, name: &str, round: u64| {
        let pair = pairs.iter().find(|pair| pair.name == name);
        let pair = pair.expect("the name is one of theirs");
        let kept = format!("race-{}-{round}", name.replace([' ', ','], "-"));
        judged(world, &kept, || {
            let dice = Dice::new(plan.seed, name, round);
            both(world, pair, dice, &known).map(|()| true)
        })
    };
    spread(plan, &names, one, tell)
}

type Known = std::sync::Mutex<BTreeMap<String, (Facts, Duration)>>;

fn both(world: &World, pair: &Pair, mut dice: Dice, known: &Known) -> Result<(), String> {
    let times = [
        serial(world, pair, &[0], known)?.1,
        serial(world, pair, &[1], known)?.1,
    ];
    let first = dice.roll(2);
    let wait = times[first].mul_f64(dice.part() * 0.9);
    world.reset(pair.scene)?;
    let one = world.command(pair.sides[first]).spawn();
    std::thread::sleep(wait);
    let other = world.command(pair.sides[1 - first]).spawn();
    let mut done = [one, other].map(|side| world.tell(side.wait().whatever()));
    if first == 1 {
        done.swap(0, 1);
    }
    let label = format!("{wait:.0?} apart");
    world
        .idle(Duration::from_secs(60))
        .map_err(|why| format!("{label}: {why}"))?;
    let took = [done[0].status().success(), done[1].status().success()];
    let said = format!(
        "{:?} ({} | {})",
        took,
        one_line(&done[0]),
        one_line(&done[1])
    );
    let now = look(world)?;
    // Where a side failed, it may have done so because of the other or as it would have alone.
    let mut orders: Vec<&[usize]> = vec![&[0, 1], &[1, 0]];
    // What is kept because the other changes it just now is no failure of 'clean'.
    let may_keep = |side: usize| !took[side] || pair.sides[side] == CLEAN;
    if may_keep(1) {
        orders.push(&[0]);
    }
    if may_keep(0) {
        orders.push(&[1]);
    }
    if !took[0] && !took[1] {
        orders.push(&[]);
    }
    let checked = unsound(world, dice.roll(4) == 0);
    checked.map_err(|why| format!("{label}: {why}; {said}"))?;
    compare(world, pair, &now, &orders, known).map_err(|why| format!("{label}: {why} {said}"))
}

/// Says how the facts differ from those of every order.
fn compare(
    world: &World,
    pair: &Pair,
    now: &Facts,
    orders: &[&[usize]],
    known: &Known,
) -> Result<(), String> {
    let seen = known.lock().map_err(|error| error.to_string())?.clone();
    let mut wanted = orders
        .iter()
        .filter_map(|order| seen.get(&named(pair, order)));
    if wanted.any(|(facts, _)| now.unlike(facts, &[]).is_none()) {
        return Ok(());
    }
    // To learn what an order does, the world is made anew.
    let kept = world.keep(&format!("race-{}", pair.name.replace([' ', ','], "-")));
    let mut why = String::new();
    for order in orders {
        match now.unlike(&serial(world, pair, order, known)?.0, &[]) {
            None => {
                // Nobody needs to look at it.
                let _ = kept.map(std::fs::remove_dir_all);
                return Ok(());
            }
            Some(unlike) => why = format!("{why} {order:?}: {unlike};"),
        }
    }
    let kept = kept.map_or(String::new(), |path| path.display().to_string());
    Err(format!("as no order of both: {why} [{kept}]"))
}

fn named(pair: &Pair, order: &[usize]) -> String {
    format!("{} {order:?}", pair.name)
}

fn look(world: &World) -> Result<Facts, String> {
    let mut facts = Facts::of(world)?;
    prompts(world, &mut facts)?;
    Ok(facts)
}

/// Returns what comes of the sides one after the other, and how long the last took.
fn serial(
    world: &World,
    pair: &Pair,
    order: &[usize],
    known: &Known,
) -> Result<(Facts, Duration), String> {
    let name = named(pair, order);
    let found = known
        .lock()
        .ok()
        .and_then(|known| known.get(&name).cloned());
    if let Some(found) = found {
        return Ok(found);
    }
    world.reset(pair.scene)?;
    let mut time = Duration::ZERO;
    for side in order {
        time = world.run(pair.sides[*side]).elapsed();
        world.idle(Duration::from_secs(60))?;
    }
    let found = (look(world)?, time);
    if let Ok(mut known) = known.lock() {
        known.insert(name, found.clone());
    }
    Ok(found)
}
