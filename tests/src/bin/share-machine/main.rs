//! Four clones of one repository work offline and share at random; at the end everybody must see the same, and nothing
//! that anybody wrote may be missing.
//!
//!     share-machine [RUNS] [SEED] [STEPS]
//!
//! Each run makes a shared repository and four clones below a temporary directory. Clones reach it by its path where the
//! seed is even, and through a web server where it is odd. A run does random steps: new sessions,
//! events, comments, replies, edits, deletions, resolutions, folds, deleted sessions, pushes and fetches, two pushes at
//! the same time, and connections that are cut off. Beside it a model of what must hold is kept. The seed of a run that
//! fails is printed.

mod steps;
mod views;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use git_agent::error::{Error, Result};
use git_agent::model::session::{SessionId, Ulid};
use git_agent::redact::{KnownSecrets, Redactor};

use crate::web::Web;

const CLONES: usize = 4;

fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        let word = std::env::args().nth(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (runs, seed, steps) = (number(1, 500), number(2, 1), number(3, 40));
    for run in 0..runs {
        let seed = seed + run;
        match one(seed, steps) {
            Ok(told) => {
                let _ = writeln!(io::stdout(), "seed {seed}: {told}");
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "seed {seed} fails: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let _ = writeln!(io::stdout(), "{runs} runs hold");
    ExitCode::SUCCESS
}

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % sides as u64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        match list.len() {
            0 => None,
            length => list.get(self.roll(length)),
        }
    }
}

/// What must hold at the end.
#[derive(Default)]
struct Model {
    /// Every event ever written, by session.
    events: BTreeMap<SessionId, BTreeSet<String>>,
    owners: BTreeMap<SessionId, usize>,
    closed: BTreeSet<SessionId>,
    forgotten: BTreeSet<SessionId>,
    /// Comments: whose, on which session, and the text they have now; deleted ones have none.
    comments: BTreeMap<Ulid, (usize, SessionId, Option<String>)>,
}

struct World {
    dir: tempfile::TempDir,
    /// What serves the shared repository, where it is not reached by its path.
    web: Option<Web>,
    dice: Dice,
    model: Model,
    steps: BTreeMap<&'static str, usize>,
    written: usize,
}

fn git(dir: &Path, words: &[&str]) -> Result<()> {
    let done = Command::new("git").current_dir(dir).args(words).output();
    match done {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Error::fatal(format!(
            "git {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
        Err(error) => Err(Error::fatal("git does not start").because(error)),
    }
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let root = dir.path();
        git(
            root,
            &["init", "--quiet", "--bare", "-b", "main", "hub.git"],
        )?;
        git(root, &["init", "--quiet", "-b", "main", "seed"])?;
        let seed_dir = root.join("seed");
        let who = ["-c", "user.name=seed", "-c", "user.email=seed@example.com"];
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "begin"];
        git(&seed_dir, &[&who[..], &commit[..]].concat())?;
        git(&seed_dir, &["push", "--quiet", "../hub.git", "main"])?;
        for service in ["upload-pack", "receive-pack"] {
            // Cuts the connection off when told to, once.
            let script = format!(
                "#!/bin/sh\ncut=\"$0.cut\"\nif [ -f \"$cut\" ]; then n=$(cat \"$cut\"); rm -f \"$cut\"; exec 3<&0; pipe=\"$0.$$\"; mkfifo \"$pipe\"; git {service} \"$@\" <&3 >\"$pipe\" & dd bs=1 count=\"$n\" <\"$pipe\" 2>/dev/null; kill $!; rm -f \"$pipe\"; exit 1; fi\nexec git {service} \"$@\"\n"
            );
            let path = root.join(service);
            fs::write(&path, script)?;
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let hub = root.join("hub.git").canonicalize()?;
        git(&hub, &["config", "http.receivepack", "true"])?;
        let web = (seed % 2 == 1).then(|| Web::new(root)).transpose()?;
        let address = match &web {
            None => hub.display().to_string(),
            Some(web) => web.address("hub.git"),
        };
        for at in 0..CLONES {
            let name = format!("c{at}");
            git(root, &["clone", "--quiet", "hub.git", &name])?;
            let clone = root.join(&name);
            let upload = format!("'{}'", root.join("upload-pack").display());
            let receive = format!("'{}'", root.join("receive-pack").display());
            for (key, value) in [
                ("user.name", name.as_str()),
                ("user.email", &format!("{name}@example.com")),
                ("gc.auto", "0"),
                ("remote.origin.uploadpack", &upload),
                ("remote.origin.receivepack", &receive),
            ] {
                git(&clone, &["config", key, value])?;
            }
            git(&clone, &["config", "remote.origin.url", &address])?;
            git(&clone, &["config", "agent.share", &address])?;
        }
        Ok(World {
            dir,
            web,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            model: Model::default(),
            steps: BTreeMap::new(),
            written: 0,
        })
    }

    fn path(&self, clone: usize) -> PathBuf {
        self.dir.path().join(format!("c{clone}"))
    }

    fn text(&mut self, word: &str) -> String {
        self.written += 1;
        format!("{word} {}", self.written)
    }

    fn count(&mut self, step: &'static str) {
        *self.steps.entry(step).or_default() += 1;
    }

    fn step(&mut self) -> Result<()> {
        let clone = self.dice.roll(CLONES);
        match self.dice.roll(20) {
            0..=2 => self.create(clone),
            3..=5 => self.append(clone),
            6..=8 => self.comment(clone),
            9 => self.reply(clone),
            10 => self.edit(clone, false),
            11 => self.edit(clone, true),
            12 => self.resolve(clone),
            13 => self.close(clone),
            14 => self.fold(clone),
            15 => self.forget(clone),
            16 => self.push(clone),
            17 => self.fetch(clone),
            18 => self.race(),
            _ => self.cut(clone),
        }
    }
}

fn one(seed: u64, steps: u64) -> Result<String> {
    let mut world = World::new(seed)?;
    for _ in 0..steps {
        world.step()?;
    }
    world.settle()?;
    let told: Vec<String> = world
        .steps
        .iter()
        .map(|(step, count)| format!("{step} {count}"))
        .collect();
    let way = world.web.as_ref().map_or("by path", |_| "by web");
    Ok(format!("{way}, {}", told.join(", ")))
}
