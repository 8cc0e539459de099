//! A plan: the parts of one task, each for an agent of its own, and the order that their dependencies give.
//!
//! A plan may come from a file, from another tool or from a model. Nothing is created before [`Plan::check`] finds no
//! problem: names become branches and directories, and a part starts only after the parts that it depends on.

pub mod foreign;
pub mod fragments;
pub mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::name;

/// The version of plan files.
pub const VERSION: u64 = 1;
/// The most parts of a plan.
pub const MOST_PARTS: usize = 16;
/// The longest task of a part, in bytes.
const LONGEST_TASK: usize = 64 << 10;
/// The most entries of a list in a part.
const MOST_ENTRIES: usize = 100;
/// The longest path or word in a part, in bytes.
const LONGEST_WORD: usize = 500;

/// The state that a dependency must reach before the part that needs it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Its turn ended well.
    #[default]
    Ready,
    /// Its turn ended well, and `agent.test` passed on its work.
    Tested,
    /// A reviewer approved it.
    Approved,
    /// It was merged into its target.
    Merged,
}

impl Gate {
    /// Every gate, the weakest first.
    pub const ALL: [Gate; 4] = [Gate::Ready, Gate::Tested, Gate::Approved, Gate::Merged];

    /// Returns the word for people and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Gate::Ready => "ready",
            Gate::Tested => "tested",
            Gate::Approved => "approved",
            Gate::Merged => "merged",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Gate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut all = Gate::ALL.into_iter();
        all.find(|gate| gate.as_str() == text).ok_or_else(|| {
            Error::usage(format!("unknown gate '{text}'")).hint("ready, tested, approved or merged")
        })
    }
}

/// A plan for one task.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version of the format.
    pub version: u64,
    /// The name of the group that its sessions form; made from the task if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The branch that the parts start from and merge into; the current one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The gate of every dependency.
    pub gate: Gate,
    /// How many parts may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// The most that all parts together may cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// Limits of every part, by the name of their setting.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The parts.
    #[serde(rename = "agents")]
    pub parts: Vec<PlanPart>,
    /// Keys without a meaning here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A part of a plan: one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanPart {
    /// The name by which other parts refer to it.
    pub name: String,
    /// The role that gives agent, model and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Its share of the task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The parts that must pass the gate before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The directory that it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Skills that its agent is told to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name of its branch; its directory has the same name with `-` for `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The files that it is expected to change, as paths or patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The artifacts that it must leave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub produces: Vec<String>,
    /// The artifacts of other parts that it reads, as `NAME` or `PART/NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumes: Vec<String>,
    /// Keys without a meaning here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A part of a plan that cannot be carried out, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Two parts that may change the same files at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// One part.
    pub one: String,
    /// The other part.
    pub other: String,
    /// The path or pattern that both may change.
    pub path: String,
}

impl Plan {
    /// Returns every reason why the plan cannot be carried out.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut say = |text: String| problems.push(Problem(text));
        if self.version != VERSION {
            say(format!(
                "version {} is not supported: this program reads version {VERSION}",
                self.version
            ));
        }
        if let Some(name) = &self.name
            && name::check(name).is_err()
        {
            say(format!("'{}' is not a valid name of a plan", short(name)));
        }
        if self.parts.is_empty() {
            say("the plan has no parts".to_owned());
        }
        if self.parts.len() > MOST_PARTS {
            say(format!(
                "the plan has {} parts; {MOST_PARTS} is the most",
                self.parts.len()
            ));
            // One line says it; the rest would be noise.
            return problems;
        }
        if self.batch_size == Some(0) {
            say("'batchSize' must be at least 1".to_owned());
        }
        if self
            .budget
            .is_some_and(|budget| budget.is_nan() || budget <= 0.0)
        {
            say("'budget' must be more than 0".to_owned());
        }
        let mut names = BTreeSet::new();
        for part in &self.parts {
            if !names.insert(part.name.as_str()) {
                say(format!("two parts are named '{}'", short(&part.name)));
            }
        }
        for part in &self.parts {
            problems.extend(part.check().into_iter().map(Problem));
            for needed in &part.depends_on {
                let name = short(&part.name);
                if *needed == part.name {
                    problems.push(Problem(format!("part '{name}' depends on itself")));
                } else if !names.contains(needed.as_str()) {
                    let needed = short(needed);
                    problems.push(Problem(format!(
                        "part '{name}' depends on '{needed}', which is not in the plan"
                    )));
                }
            }
        }
        if let Some(cycle) = self.cycle() {
            problems.push(Problem(format!(
                "the dependencies form a cycle: {}",
                cycle.join(" -> ")
            )));
        }
        problems
    }

    /// Returns a cycle of dependencies as the names on its way, the first one again at the end.
    pub fn cycle(&self) -> Option<Vec<String>> {
        let needs: BTreeMap<&str, &PlanPart> = self
            .parts
            .iter()
            .map(|part| (part.name.as_str(), part))
            .collect();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for part in &self.parts {
            let mut way: Vec<&str> = Vec::new();
            if let Some(cycle) = find_cycle(&needs, part.name.as_str(), &mut way, &mut done) {
                return Some(cycle.into_iter().map(str::to_owned).collect());
            }
        }
        None
    }

    /// Returns the parts in waves: each wave depends only on those before it. Parts of a cycle are in none.
    pub fn waves(&self) -> Vec<Vec<&PlanPart>> {
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        let mut waves = Vec::new();
        loop {
            let free = |part: &&PlanPart| {
                !placed.contains(part.name.as_str())
                    && (part.depends_on.iter()).all(|needed| placed.contains(needed.as_str()))
            };
            let wave: Vec<&PlanPart> = self.parts.iter().filter(free).collect();
            if wave.is_empty() {
                return waves;
            }
            placed.extend(wave.iter().map(|part| part.name.as_str()));
            waves.push(wave);
        }
    }

    /// Returns the names of all parts that a part needs, directly or through others.
    pub fn needs(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![name];
        while let Some(next) = open.pop() {
            let part = self.parts.iter().find(|part| part.name == next);
            for needed in part.into_iter().flat_map(|part| &part.depends_on) {
                if found.insert(needed.as_str()) {
                    open.push(needed);
                }
            }
        }
        found
    }

    /// Returns the pairs of parts that may run at the same time and name the same files.
    pub fn overlaps(&self) -> Vec<Overlap> {
        let mut found = Vec::new();
        for (at, one) in self.parts.iter().enumerate() {
            for other in &self.parts[at + 1..] {
                let ordered = self.needs(&one.name).contains(other.name.as_str())
                    || self.needs(&other.name).contains(one.name.as_str());
                if ordered {
                    continue;
                }
                let pairs = one
                    .claims()
                    .flat_map(|mine| other.claims().map(move |theirs| (mine, theirs)));
                let mut shared = pairs.filter(|(mine, theirs)| may_meet(mine, theirs));
                if let Some((mine, theirs)) = shared.next() {
                    let path = if mine.len() >= theirs.len() {
                        mine
                    } else {
                        theirs
                    };
                    found.push(Overlap {
                        one: one.name.clone(),
                        other: other.name.clone(),
                        path: path.to_owned(),
                    });
                }
            }
        }
        found
    }

    /// Returns the keys without a meaning here, with their place.
    pub fn unknown_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.other.keys().cloned().collect();
        for part in &self.parts {
            let of_part = part.other.keys();
            keys.extend(of_part.map(|key| format!("agents.{}.{key}", part.name)));
        }
        keys
    }
}

impl PlanPart {
    /// Returns the paths that it is expected to change.
    fn claims(&self) -> impl Iterator<Item = &str> + Clone {
        let directory = self.directory.iter().filter(|_| self.files.is_empty());
        self.files.iter().chain(directory).map(String::as_str)
    }

    fn check(&self) -> Vec<String> {
        let name = short(&self.name);
        let mut problems = Vec::new();
        if name::check(&self.name).is_err() {
            problems.push(format!("'{name}' is not a valid name of a part"));
        }
        if self.task.len() > LONGEST_TASK {
            problems.push(format!(
                "the task of part '{name}' is longer than {} KiB",
                LONGEST_TASK >> 10
            ));
        }
        let words = [("role", &self.role), ("agent", &self.agent)];
        for (key, word) in words.into_iter().chain([("model", &self.model)]) {
            if word.as_ref().is_some_and(|word| !is_word(word)) {
                problems.push(format!("the {key} of part '{name}' is not a name"));
            }
        }
        if let Some(worktree) = &self.worktree
            && !worktree.split('/').all(|part| name::check(part).is_ok())
        {
            let worktree = short(worktree);
            problems.push(format!(
                "the worktree '{worktree}' of part '{name}' is not the name of a branch"
            ));
        }
        let paths = self.directory.iter().chain(&self.files);
        for path in paths.filter(|path| !is_inside(path)) {
            let path = short(path);
            problems.push(format!(
                "'{path}' of part '{name}' is not a path inside the repository"
            ));
        }
        for artifact in &self.produces {
            if !is_artifact_name(artifact) {
                let artifact = short(artifact);
                problems.push(format!(
                    "'{artifact}', which part '{name}' produces, is not the name of an artifact"
                ));
            }
        }
        for artifact in &self.consumes {
            let (of, last) = artifact.split_once('/').unwrap_or((&self.name, artifact));
            if !is_artifact_name(last) || name::check(of).is_err() {
                let artifact = short(artifact);
                problems.push(format!(
                    "'{artifact}', which part '{name}' consumes, is not the name of an artifact"
                ));
            }
        }
        if self.skills.iter().any(|skill| !is_word(skill)) {
            problems.push(format!("a skill of part '{name}' is not a name"));
        }
        let lists = [&self.depends_on, &self.skills, &self.files];
        let lists = lists.into_iter().chain([&self.produces, &self.consumes]);
        if lists.into_iter().any(|list| list.len() > MOST_ENTRIES) {
            problems.push(format!(
                "a list of part '{name}' has more than {MOST_ENTRIES} entries"
            ));
        }
        problems
    }
}

/// Returns whether a text can be the name of an artifact: one path component of plain characters.
pub fn is_artifact_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(&byte);
    !text.is_empty()
        && text.len() <= 100
        && text.bytes().all(plain)
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
}

/// Returns whether a path stays inside the repository, and out of git's own directory.
pub fn is_inside(path: &str) -> bool {
    let clean = !path.is_empty()
        && path.len() <= LONGEST_WORD
        && !path.starts_with(['/', '~', '-', ':'])
        && !path.contains(['\\', '\0'])
        && !path.chars().any(char::is_control);
    let step = |part: &str| part != ".." && !part.eq_ignore_ascii_case(".git");
    clean && path.split('/').all(step)
}

fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._-/:@+ ".contains(c);
    !text.is_empty()
        && text.len() <= LONGEST_WORD
        && !text.starts_with('-')
        && !text.contains("..")
        && !text.starts_with(['/', '~'])
        && text.chars().all(plain)
}

/// Returns a text for a message: foreign, so shortened and on one line.
fn short(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    crate::model::session::fold::shorten(&line, 60)
}

/// Returns whether two paths or patterns may name the same file: the parts before their first wildcard agree.
fn may_meet(one: &str, other: &str) -> bool {
    let fixed = |path: &str| -> (Vec<String>, bool) {
        let mut steps = Vec::new();
        for step in path
            .split('/')
            .filter(|step| !step.is_empty() && *step != ".")
        {
            if step.contains(['*', '?', '[', '{']) {
                return (steps, true);
            }
            steps.push(step.to_owned());
        }
        (steps, false)
    };
    let (one, _) = fixed(one);
    let (other, _) = fixed(other);
    one.iter().zip(&other).all(|(one, other)| one == other)
}

fn find_cycle<'p>(
    needs: &BTreeMap<&'p str, &'p PlanPart>,
    name: &'p str,
    way: &mut Vec<&'p str>,
    done: &mut BTreeSet<&'p str>,
) -> Option<Vec<&'p str>> {
    if let Some(at) = way.iter().position(|step| *step == name) {
        let mut cycle = way[at..].to_vec();
        cycle.push(name);
        // A part that depends on itself has a message of its own.
        return (cycle.len() > 2).then_some(cycle);
    }
    if done.contains(name) {
        return None;
    }
    way.push(name);
    for needed in needs
        .get(name)
        .into_iter()
        .flat_map(|part| &part.depends_on)
    {
        if let Some((known, _)) = needs.get_key_value(needed.as_str())
            && let Some(cycle) = find_cycle(needs, known, way, done)
        {
            return Some(cycle);
        }
    }
    way.pop();
    done.insert(name);
    None
}

#[cfg(test)]
mod tests;
