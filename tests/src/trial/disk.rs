//! A disk that fills up during a command, at many levels: the command fails with words, and once there is room again
//! everything is as if nothing had happened.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::round::{Round, Usual, begin, command, usual};
use super::verbs::{VERBS, Verb};
use super::world::World;
use super::{Dice, Outcome, Plan, Tally, judged};

/// The commands that write much.
pub const WRITERS: &[&str] = &[
    "new",
    "new --carry",
    "send",
    "send to a cleaned session",
    "fork",
    "update",
    "update --rebase",
    "commit",
    "snapshot",
    "restore",
    "rewind",
    "recreate",
    "clean",
    "review comment",
    "review approve",
    "merge",
    "merge --undo",
    "merge queue run",
    "merge resolve",
    "push",
    "fetch",
    "purge",
];

const MEBIBYTES: u32 = 96;

/// Runs every command at each level of free room, from none to a little more than it needs; or says why there is no disk.
pub fn disk(plan: &Plan, tell: impl Fn(&str, u64, &Outcome)) -> Result<Tally, String> {
    let mut world = World::on_disk(plan.files, MEBIBYTES)?;
    let mut tally = Tally::default();
    let wanted = |verb: &&Verb| WRITERS.contains(&verb.name) && plan.wants(verb.name);
    for verb in VERBS.iter().filter(wanted) {
        let known = usual(&mut world, verb, &used);
        for level in 0..plan.rounds as u64 {
            if plan.round.is_some_and(|only| only != level) {
                continue;
            }
            let kept = format!("disk-{}-{level}", verb.name.replace(' ', "-"));
            let outcome = judged(&world, &kept, || {
                let dice = Dice::new(plan.seed, verb.name, level);
                #[expect(clippy::cast_precision_loss, reason = "a level is a small number")]
                let part = 1.1 * level as f64 / (plan.rounds.max(2) - 1) as f64;
                fill(
                    &world,
                    verb,
                    known.as_ref().map_err(String::clone)?,
                    part,
                    dice,
                )
            });
            tell(verb.name, level, &outcome);
            tally.count(verb.name, level, outcome);
        }
    }
    Ok(tally)
}

fn used(world: &World) -> u64 {
    rustix::fs::statvfs(world.base())
        .map_or(0, |disk| (disk.f_blocks - disk.f_bfree) * disk.f_frsize)
}

fn free(base: &Path) -> u64 {
    rustix::fs::statvfs(base).map_or(0, |disk| disk.f_bavail * disk.f_frsize)
}

fn fill(world: &World, verb: &Verb, usual: &Usual, part: f64, dice: Dice) -> Result<bool, String> {
    begin(world, verb)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a small disk"
    )]
    let room = (usual.room as f64 * part) as u64;
    let label = format!("{} KiB free", room / 1024);
    let ballast = world.base().join("ballast");
    take(&ballast, free(world.base()).saturating_sub(room)).map_err(|error| error.to_string())?;
    let done = world.tell(command(world, verb).run().whatever());
    world.settled(std::time::Duration::from_secs(8));
    fs::remove_file(&ballast).map_err(|error| error.to_string())?;
    let words = String::from_utf8_lossy(done.stderr_bytes());
    if words.contains("panicked at") {
        return Err(format!("{label}: it panics: {words}"));
    }
    if done.status().code().is_none() || !done.status().success() && words.trim().is_empty() {
        return Err(format!(
            "{label}: it fails without a word ({})",
            done.status()
        ));
    }
    let round = Round {
        world,
        verb,
        usual,
        dice,
    };
    match round.go_on() {
        Ok(()) => Ok(true),
        Err(why) => Err(format!("{label}: {why}")),
    }
}

/// Writes a file of so many bytes.
fn take(path: &Path, mut bytes: u64) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    let block = vec![0; 1 << 16];
    while bytes > 0 {
        let count = block
            .len()
            .min(usize::try_from(bytes).unwrap_or(block.len()));
        file.write_all(&block[..count])?;
        bytes -= count as u64;
    }
    Ok(())
}
