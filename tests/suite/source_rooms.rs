//! The laws of the house: the order of its rooms, who may know whom, and how large a room may get.

use std::collections::BTreeMap;

use crate::source::{Source, has_word, none, sources};

/// The rooms of the library, lowest first. A file may name its own room and those before it.
const ROOMS: [&str; 27] = [
    "error",
    "fault",
    "cores",
    "file",
    "env",
    "model",
    "process",
    "git",
    "redact",
    "store",
    "config",
    "context",
    "agent",
    "guard",
    "signature",
    "session",
    "review",
    "selection",
    "plan",
    "merge",
    "share",
    "listing",
    "doctor",
    "demo",
    "install",
    "output",
    "invoke",
];

/// Rooms that the programs may not name: they would have to repeat the checks of a use case.
const CLOSED_TO_PROGRAMS: [&str; 3] = ["git", "store", "process"];

/// Types whose methods stand in their own room, so that an import shows every dependency on them.
const METHODS: [(&str, &str); 3] = [("Repo", "git/"), ("Store", "store/"), ("Session", "model/")];

/// Words of the glossary: one public type of the library has this name, at most.
const GLOSSARY: [&str; 20] = [
    "Session",
    "Turn",
    "Event",
    "Transcript",
    "Snapshot",
    "Role",
    "Group",
    "Review",
    "Comment",
    "Thread",
    "Verdict",
    "Standing",
    "Claim",
    "Plan",
    "Outcome",
    "Writer",
    "Guard",
    "Row",
    "Entry",
    "Place",
];

/// How many files a folder may have.
const MOST_FILES: usize = 15;

/// Folders that may have more files, and why.
const LARGE_ROOMS: [(&str, &str); 1] = [("git-agent/src/bin/git-agent", "one file for each verb")];

/// Returns the room of a path within the library.
fn room(path: &str) -> &str {
    path.split('/')
        .next()
        .unwrap_or(path)
        .trim_end_matches(".rs")
}

/// Returns the first names after every `root::` in a line of code, those of a group included.
fn first_names<'a>(line: &'a str, root: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices(root) {
        if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &line[at + root.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(
                group
                    .split(['}', ','])
                    .map(|part| part.trim().split("::").next().unwrap_or_default()),
            ),
            None => names.extend(
                rest.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next(),
            ),
        }
    }
    names
}

/// Returns the imports of a library file that go upwards, with their lines.
fn upward_imports(source: &Source) -> Vec<String> {
    let Some(path) = source.in_library().filter(|path| !path.starts_with("bin/")) else {
        return Vec::new();
    };
    if path == "lib.rs" {
        return Vec::new();
    }
    let place = |name: &str| ROOMS.iter().position(|room| *room == name);
    let Some(own) = place(room(path)) else {
        return vec![format!("{path}: the order of rooms does not know this one")];
    };
    let mut found = Vec::new();
    for (number, line) in source.code() {
        let upward = first_names(line, "crate::")
            .into_iter()
            .any(|name| place(name).is_some_and(|other| other > own));
        if upward {
            found.push(format!("{path}:{number}: {}", line.trim()));
        }
    }
    found
}

/// Returns the lines of a program that name a closed room.
fn closed_rooms(source: &Source) -> Vec<String> {
    let program = source.is_product()
        && source
            .in_library()
            .is_none_or(|path| path.starts_with("bin/"));
    if !program {
        return Vec::new();
    }
    let code = source.code().into_iter();
    code.filter(|(_, line)| {
        first_names(line, "git_agent::")
            .iter()
            .any(|name| CLOSED_TO_PROGRAMS.contains(name))
    })
    .map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    .collect()
}

/// Returns the names that product code reaches through `super`, which no import shows.
fn hidden_imports(source: &Source) -> Vec<String> {
    if source.in_library().is_none() {
        return Vec::new();
    }
    let code = source.code().into_iter();
    code.filter(|(_, line)| line.trim_start().starts_with("use super::"))
        .map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
        .collect()
}

/// Returns the methods of a type that stand outside its room.
fn foreign_methods(source: &Source) -> Vec<String> {
    let Some(path) = source.in_library() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (number, line) in source.code() {
        for (name, home) in METHODS {
            let heading = line.starts_with("impl") && !line.contains(" for ");
            if heading && has_word(line, name) && !path.starts_with(home) {
                found.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    found
}

/// Returns the name of the public type that a line of code defines.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let name = ["struct ", "enum ", "trait ", "type "]
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
}

#[test]
fn rooms_know_only_those_below_them() {
    let offences = sources().iter().flat_map(upward_imports).collect();
    none("a room names only itself and the rooms below it", offences);
    let sample = |path: &str, text: &str| Source {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    for bad in ["use crate::merge::run;", "use crate::{error, merge};"] {
        let source = sample("git-agent/src/session/list.rs", bad);
        assert!(!upward_imports(&source).is_empty(), "{bad}");
    }
    let new = sample("git-agent/src/attic/mod.rs", "");
    assert!(!upward_imports(&new).is_empty());
}

#[test]
fn imports_are_written_in_full() {
    none(
        "product code imports from 'crate', so that the order of rooms can be seen",
        sources().iter().flat_map(hidden_imports).collect(),
    );
}

#[test]
fn methods_stand_in_the_room_of_their_type() {
    none(
        "methods of Repo, Store and Session stand in git/, store/ and model/",
        sources().iter().flat_map(foreign_methods).collect(),
    );
    let source = Source {
        path: "git-agent/src/session/list.rs".to_owned(),
        text: "impl Session {\n".to_owned(),
    };
    assert!(!foreign_methods(&source).is_empty());
}

#[test]
fn programs_name_only_use_cases() {
    none(
        "a program names use cases, 'output' and 'invoke', not 'git', 'store' or 'process'",
        sources().iter().flat_map(closed_rooms).collect(),
    );
    for bad in [
        "use git_agent::store::list::Scope;",
        "use git_agent::{git, output};",
    ] {
        let source = Source {
            path: "git-agent-merge/src/x.rs".to_owned(),
            text: bad.to_owned(),
        };
        assert!(!closed_rooms(&source).is_empty(), "{bad}");
    }
}

#[test]
fn the_model_only_computes() {
    let worldly = [
        "std::fs",
        "std::process",
        "std::net",
        "std::env",
        "std::thread",
        "SystemTime::now",
    ];
    let mut offences = Vec::new();
    for source in &sources() {
        let Some(path) = source
            .in_library()
            .filter(|path| path.starts_with("model/"))
        else {
            continue;
        };
        for (number, line) in source.code() {
            if worldly.iter().any(|name| line.contains(name)) {
                offences.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none("model/ reads no file, clock or variable", offences);
}

#[test]
fn no_room_is_crowded() {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        let folder = source
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        *files.entry(folder.to_owned()).or_default() += 1;
    }
    let allowed = |folder: &str| LARGE_ROOMS.iter().any(|(large, _)| *large == folder);
    let crowded = files
        .iter()
        .filter(|(folder, count)| **count > MOST_FILES && !allowed(folder))
        .map(|(folder, count)| format!("{folder}: {count} files"))
        .collect();
    none("a folder has at most 15 files", crowded);
    let idle = LARGE_ROOMS
        .iter()
        .filter(|(folder, _)| files.get(*folder).is_none_or(|count| *count <= MOST_FILES))
        .map(|(folder, why)| format!("{folder}: {why}"))
        .collect();
    none("an exception is needed", idle);
}

#[test]
fn a_word_of_the_glossary_has_one_meaning() {
    let mut types: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let all = sources();
    for source in &all {
        let Some(path) = source.in_library().filter(|path| !path.starts_with("bin/")) else {
            continue;
        };
        for (number, line) in source.code() {
            if let Some(name) = public_type(line).filter(|name| GLOSSARY.contains(name)) {
                types
                    .entry(name)
                    .or_default()
                    .push(format!("{path}:{number}"));
            }
        }
    }
    let doubled = types
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    none("one public type for a word of the glossary", doubled);
}
