//! What can be said about a repository after a round, in a form that two runs can be compared by.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::sessions::files_below;

use super::world::World;

/// Facts by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts(pub BTreeMap<String, String>);

impl Facts {
    /// Takes everything down.
    pub fn of(world: &World) -> Result<Self, String> {
        let mut facts = Facts::default();
        let mut add = |name: &str, value: String| facts.0.insert(name.to_owned(), value);
        add("main", tree(world, "main"));
        add(
            "main's commits",
            said(world, &["rev-list", "--count", "main"]),
        );
        for (name, value) in users(world) {
            add(name, value);
        }
        let listed = sessions(world)?;
        for session in &listed {
            let Some(name) = session["name"].as_str() else {
                continue;
            };
            if session["mine"] == false {
                add(&format!("{name} of another"), "known".to_owned());
                continue;
            }
            add(&format!("{name} files"), files_of(session));
            let branch = session["branch"].as_str().unwrap_or("none");
            add(&format!("{name} branch"), tree(world, branch));
            // Once the work has landed, a verdict on it says nothing any more.
            let verdict = if session["state"] == "merged" {
                "merged"
            } else {
                session["verdict"].as_str().unwrap_or("none")
            };
            add(&format!("{name} verdict"), verdict.to_owned());
        }
        add("comments", comments(world)?);
        add("secret", secret(world, &listed));
        add("hub", hub(world));
        Ok(facts)
    }

    /// Returns how these differ from the expected ones, names that start with one of `loose` left out.
    pub fn unlike(&self, expected: &Facts, loose: &[&str]) -> Option<String> {
        let names = self.0.keys().chain(expected.0.keys());
        let mut told: Vec<String> = Vec::new();
        for name in names {
            if loose.iter().any(|word| name.contains(word)) {
                continue;
            }
            let (now, then) = (self.0.get(name), expected.0.get(name));
            if now != then {
                let none = "none".to_owned();
                let (now, then) = (now.unwrap_or(&none), then.unwrap_or(&none));
                told.push(format!("{name}: {now}, expected {then}"));
            }
        }
        told.sort();
        told.dedup();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn said(world: &World, words: &[&str]) -> String {
    let done = world.command(words).run().whatever();
    if done.status().success() {
        String::from_utf8_lossy(done.stdout_bytes())
            .trim()
            .to_owned()
    } else {
        "none".to_owned()
    }
}

/// Returns the tree of a revision.
pub fn tree(world: &World, revision: &str) -> String {
    let revision = format!("{revision}^{{tree}}");
    said(world, &["rev-parse", "--verify", "-q", &revision])
}

/// Returns everything that is the user's own.
pub fn users(world: &World) -> BTreeMap<&'static str, String> {
    let file = |name: &str| fs::read_to_string(world.repo().path().join(name)).unwrap_or_default();
    BTreeMap::from([
        (
            "user's status",
            said(world, &["status", "--porcelain", "-uall"]),
        ),
        (
            "user's stash",
            said(world, &["stash", "list", "--format=%H"]),
        ),
        ("user's staged", said(world, &["show", ":staged"])),
        ("user's file", file("dirty")),
        ("user's new file", file("untracked")),
    ])
}

/// Returns all sessions as `git agent list` tells them.
pub fn sessions(world: &World) -> Result<Vec<Value>, String> {
    let done = world.command(&["agent", "list", "--all", "--json"]).run();
    let done = world.tell(done.whatever());
    let told: Value = serde_json::from_slice(done.stdout_bytes())
        .map_err(|error| format!("list says nothing that can be read ({error}): {done}"))?;
    Ok(told["sessions"].as_array().cloned().unwrap_or_default())
}

/// Returns how many files a session's worktree has, and a sum of all names and contents.
pub fn files_of(session: &Value) -> String {
    let place = session["worktree"].as_str().map(PathBuf::from);
    match place.filter(|place| place.is_dir()) {
        None => "none".to_owned(),
        Some(place) => sum(&place),
    }
}

fn sum(dir: &Path) -> String {
    let mut paths = files_below(dir);
    paths.sort();
    let mut hasher = DefaultHasher::new();
    let mut count = 0;
    for path in paths {
        let name = path.strip_prefix(dir).unwrap_or(&path).to_owned();
        if name == Path::new(".git") {
            continue;
        }
        count += 1;
        (name, fs::read(&path).unwrap_or_default()).hash(&mut hasher);
    }
    format!("{count} files {:08x}", hasher.finish() >> 32)
}

fn comments(world: &World) -> Result<String, String> {
    let done = world
        .command(&["agent", "review", "list", "--all", "--json"])
        .run();
    let done = done.whatever();
    let told: Value = serde_json::from_slice(done.stdout_bytes())
        .map_err(|error| format!("review list can't be read ({error}): {done}"))?;
    let count = told["comments"].as_array().map_or(0, Vec::len);
    Ok(count.to_string())
}

fn secret(world: &World, listed: &[Value]) -> String {
    let tells = |session: &&Value| {
        let name = session["name"].as_str().unwrap_or_default();
        said(world, &["agent", "log", "--raw", name]).contains("hunter-elephant-42")
    };
    let count = listed
        .iter()
        .filter(|one| one["mine"] != false)
        .filter(tells);
    (count.count() > 0).to_string()
}

fn hub(world: &World) -> String {
    let hub = world.base().join("hub.git");
    match hub.to_str().filter(|_| hub.is_dir()) {
        None => "none".to_owned(),
        Some(hub) => {
            let refs = said(world, &["-C", hub, "for-each-ref", "--format=%(refname)"]);
            format!("{} refs", refs.lines().count())
        }
    }
}

/// Returns how many prompts each session was given.
pub fn prompts(world: &World, facts: &mut Facts) -> Result<(), String> {
    for session in sessions(world)? {
        let Some(name) = session["name"]
            .as_str()
            .filter(|_| session["mine"] != false)
        else {
            continue;
        };
        let log = said(world, &["agent", "log", "--raw", name]);
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let count = events.filter(|event| event["type"] == "prompt").count();
        facts.0.insert(format!("{name} prompts"), count.to_string());
    }
    Ok(())
}

/// Says what is wrong with the repository itself, whatever was done in it.
///
/// `before` is the user's own work as it was.
pub fn unsound(world: &World, gc: bool) -> Result<(), String> {
    world.idle(Duration::from_secs(40))?;
    let git_dir = world.repo().path().join(".git");
    let agents = git_dir.join("agents");
    let locks: Vec<String> = files_below(&git_dir)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "lock"))
        .filter(|path| !path.starts_with(&agents))
        .map(|path| {
            path.strip_prefix(&git_dir)
                .unwrap_or(&path)
                .display()
                .to_string()
        })
        .collect();
    if !locks.is_empty() {
        return Err(format!("stale locks: {}", locks.join(", ")));
    }
    let journal = agents.join("merge/now.json");
    if journal.exists() {
        return Err("a journal was left: merge/now.json".to_owned());
    }
    let mut wanted: Vec<&[&str]> = vec![&["fsck", "--strict", "--no-dangling", "--no-progress"]];
    if gc {
        wanted.push(&["gc", "--quiet", "--prune=now"]);
        wanted.push(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    }
    wanted.push(&["commit", "-q", "--allow-empty", "-m", "the user goes on"]);
    for words in wanted {
        let done = world.run(words);
        if !done.status().success() {
            return Err(format!("git {} fails: {}", words[0], one_line(&done)));
        }
    }
    for session in sessions(world)? {
        let Some(place) = session["worktree"].as_str() else {
            continue;
        };
        // One whose agent gave up in the middle of a merge has conflicts in it.
        if session["mine"] != false && !place.contains("resolve-") && Path::new(place).is_dir() {
            let done = world.run(&[
                "-C",
                place,
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "by hand",
            ]);
            if !done.status().success() {
                return Err(format!("git commit in {place} fails: {}", one_line(&done)));
            }
        }
    }
    Ok(())
}

/// Returns the first words of an error.
pub fn one_line(done: &crate::output::Output) -> String {
    let text = String::from_utf8_lossy(done.stderr_bytes()).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("hint:"))
        .collect();
    lines.join(" / ").chars().take(300).collect()
}
