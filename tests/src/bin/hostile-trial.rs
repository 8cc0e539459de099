//! Tries the product under bad conditions and counts what held.
//!
//!     hostile-trial kill [--rounds N]           kill -9 at random moments of every command that changes something
//!     hostile-trial disk [--levels N]           a disk that fills up, N levels for each command that writes
//!     hostile-trial race [--rounds N]           two terminals at once
//!     hostile-trial load --queued N [--parallel P]   N sessions wait for P places
//!     hostile-trial load --at-once N            N sessions start at once, beside N plain worktrees
//!
//! Options: `--seed S`, `--verb NAME` (or a pair's name; can be repeated), `--round R` (only that one, of each name),
//! `--files N` (uncommitted files of a session), `--jobs J`, `--minutes M` (no round of kills or races
//! begins later), `--quiet`. Prints a table and exits 1 if something did not
//! hold; the directory of a round that broke is kept and named.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use git_agent_tests::trial::{Outcome, Plan, Tally, disk, kill, load, race};

struct Asked {
    plan: Plan,
    quiet: bool,
    queued: Option<usize>,
    at_once: Option<usize>,
    parallel: usize,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let done = asked(words).and_then(|asked| run(&what, &asked));
    match done {
        Ok(tally) if tally.broken().is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            let _ = writeln!(io::stderr(), "hostile-trial: {why}");
            ExitCode::from(129)
        }
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        plan: Plan::default(),
        quiet: false,
        queued: None,
        at_once: None,
        parallel: 4,
    };
    while let Some(word) = words.next() {
        if word == "--quiet" {
            asked.quiet = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || {
            value
                .parse()
                .map_err(|_| format!("'{value}' is not a number"))
        };
        match word.as_str() {
            "--rounds" | "--levels" => asked.plan.rounds = number()?,
            "--files" => asked.plan.files = number()?,
            "--jobs" => asked.plan.jobs = number()?,
            "--seed" => asked.plan.seed = number()? as u64,
            "--round" => asked.plan.round = Some(number()? as u64),
            "--minutes" => asked.plan.time = Some(Duration::from_secs(number()? as u64 * 60)),
            "--verb" => asked.plan.only.push(value),
            "--queued" => asked.queued = Some(number()?),
            "--at-once" => asked.at_once = Some(number()?),
            "--parallel" => asked.parallel = number()?,
            _ => return Err(format!("'{word}' is not an option")),
        }
    }
    Ok(asked)
}

fn run(what: &str, asked: &Asked) -> Result<Tally, String> {
    let plan = &asked.plan;
    let tell = |name: &str, round: u64, outcome: &Outcome| {
        if !asked.quiet || matches!(outcome, Outcome::Broke(..)) {
            let _ = writeln!(io::stderr(), "{name}, round {round}: {outcome:?}");
        }
    };
    let (title, tally) = match what {
        "kill" => ("kill -9", kill::kill(plan, tell)),
        "disk" => ("full disk", disk::disk(plan, tell)?),
        "race" => ("two terminals", race::race(plan, tell)),
        "load" => ("load", loads(asked)),
        _ => return Err("one of kill, disk, race and load is wanted".to_owned()),
    };
    let _ = write!(io::stdout(), "{}", tally.table(title, plan.seed));
    Ok(tally)
}

fn loads(asked: &Asked) -> Tally {
    let mut all = Tally::default();
    let queued = asked
        .queued
        .map(|count| load::queued(count, asked.parallel));
    let at_once = asked.at_once.map(load::at_once);
    for load in queued.into_iter().chain(at_once) {
        let _ = writeln!(io::stdout(), "{}", load.figures);
        all.join(load.tally);
    }
    all
}
