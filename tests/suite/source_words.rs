//! The laws about words in the source tree: none of a message decides anything, and those of a hint can be pasted.

use crate::source::{Source, has_word, none, sources};

/// Where a text decides all the same, and why nothing else can.
const READS_WORDS: [(&str, &str); 10] = [
    (
        "git-agent/src/listing/calls.rs",
        "the heading of a patch that an agent passes to a tool",
    ),
    (
        "git-agent/src/model/turn_outcome.rs",
        "it makes these words itself",
    ),
    (
        "git-agent/src/git/phrases.rs",
        "words of git for which it has no code",
    ),
    (
        "git-agent/src/agent/stream/failure.rs",
        "words of agents, which have nothing else",
    ),
    (
        "git-agent/src/agent/command.rs",
        "aider tells its edits in no other way",
    ),
    (
        "git-agent/src/git/refs/packed.rs",
        "the first line of a file of git",
    ),
    (
        "git-agent/src/invoke/parse.rs",
        "the help of clap, written anew for people",
    ),
    (
        "git-agent/src/process/detach.rs",
        "answers of our own program over a pipe",
    ),
    (
        "git-agent/src/process/spawn.rs",
        "answers of our own program over a pipe",
    ),
    (
        "git-agent/src/process/shim.rs",
        "cuts a number off that tells people nothing",
    ),
];

/// Returns the places where a program decides by what a message says: a test of a text that has the name of a message, or
/// a test for several words of prose.
fn decisions_by_words(source: &Source) -> Vec<String> {
    const TESTS: [&str; 6] = [
        ".contains(",
        ".starts_with(",
        ".ends_with(",
        ".strip_prefix(",
        ".split_once(",
        ".find(",
    ];
    const MESSAGES: [&str; 8] = [
        "said",
        "stderr",
        "message()",
        "error.to_string()",
        "reason",
        "summary",
        "complaint",
        "trouble.text",
    ];
    // A call may stand on several lines.
    let mut text = String::new();
    let mut starts = Vec::new();
    for (number, line) in source.code() {
        starts.push((text.len(), number, line));
        text.push_str(line.trim());
    }
    let mut found = Vec::new();
    for (at, call) in TESTS.iter().flat_map(|call| text.match_indices(call)) {
        let receiver = &text[..at];
        let is_message = MESSAGES.iter().any(|name| {
            let before = receiver.strip_suffix(name);
            let whole = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            before.is_some_and(whole)
        });
        let argument = text[at + call.len()..].trim_start_matches('b');
        let literal = argument
            .strip_prefix('"')
            .and_then(|rest| rest.split('"').next());
        let prose = literal.is_some_and(|literal| {
            let words = literal.as_bytes().windows(3);
            words.clone().any(|three| {
                three[0].is_ascii_alphabetic() && three[1] == b' ' && three[2].is_ascii_alphabetic()
            })
        });
        // A number or a letter is no message.
        let is_text = !argument.starts_with(['&', '\'', '|']);
        if is_message && is_text || prose {
            let line = starts.iter().rev().find(|(start, ..)| *start <= at);
            let (_, number, line) = line.expect("the first line starts at 0");
            found.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    found
}

/// Returns the files that are modules of a test only.
fn files_of_unit_tests(sources: &[Source]) -> Vec<String> {
    let mut files = Vec::new();
    for source in sources.iter().filter(|source| source.is_product()) {
        let dir = source.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut lines = source.text.lines();
        while let Some(line) = lines.next() {
            if line == "#[cfg(test)]"
                && let Some(module) = lines.next().and_then(|next| next.strip_prefix("mod "))
            {
                files.push(format!("{dir}/{}.rs", module.trim_end_matches(';')));
            }
        }
    }
    files
}

#[test]
fn no_message_decides_anything() {
    let known = |path: &str| READS_WORDS.iter().any(|(known, _)| path == *known);
    let sources = sources();
    let tests = files_of_unit_tests(&sources);
    let product = sources
        .iter()
        .filter(|source| source.is_product() && !tests.contains(&source.path));
    let offences = product
        .filter(|source| !known(&source.path))
        .flat_map(decisions_by_words)
        .collect();
    none(
        "errors are told apart by types and exit codes, not by their words",
        offences,
    );
    let idle = READS_WORDS.iter().filter(|(path, _)| {
        let source = sources.iter().find(|source| source.path == *path);
        source.is_none_or(|source| decisions_by_words(source).is_empty())
    });
    none(
        "an exception is needed",
        idle.map(|(path, why)| format!("{path}: {why}")).collect(),
    );
    // The law itself holds what it should.
    let tells = |code: &str| {
        let source = Source {
            path: "git-agent/src/x.rs".to_owned(),
            text: code.to_owned(),
        };
        !decisions_by_words(&source).is_empty()
    };
    for bad in [
        "if said.contains(words) {}",
        "if error.message().ends_with(\"gone\") {}",
        "let x = error\n    .to_string()\n    .starts_with(\"x\");",
        "text.find(\"not found\")",
    ] {
        assert!(tells(bad), "{bad}");
    }
    for good in ["names.contains(&name)", "line.strip_prefix(\"ref:\")"] {
        assert!(!tells(good), "{good}");
    }
}

/// Values that need no quotes in a command: ids, and constants.
const NO_WORDS: [&str; 3] = ["sid", "before", "work.tree"];

/// Returns the commands in hints that name something as it is instead of as a shell reads it.
fn bare_words_in_hints(source: &Source) -> Vec<String> {
    let text: String = source
        .code()
        .iter()
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    let mut found = Vec::new();
    for (at, call) in text.match_indices("hint(format!(") {
        let rest = text[at + call.len()..].trim_start();
        let Some((literal, arguments)) = rest.strip_prefix('"').and_then(literal_and_arguments)
        else {
            continue;
        };
        if !literal.contains("git ") || literal.starts_with("in '") {
            continue;
        }
        let captured = literal.split('{').skip(1);
        let captured = captured.filter_map(|part| Some(part.split_once('}')?.0.to_owned()));
        let values = captured.filter(|name| !name.is_empty()).chain(
            arguments
                .into_iter()
                .filter(|value| !value.contains("shell_")),
        );
        for value in values {
            let value = value.trim_start_matches('&');
            let constant = value.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            let id = NO_WORDS
                .iter()
                .any(|id| value == *id || value.ends_with(".sid"));
            let first = value.split(['.', '(']).next().unwrap_or_default();
            if !constant && !id && !is_quoted_before(&text[..at], first) {
                let number = text[..at].lines().count();
                found.push(format!(
                    "{} (about line {number}): {literal}: {value}",
                    source.path
                ));
            }
        }
    }
    found
}

/// Splits what follows an opening quote into the literal and what stands beside it in a call.
fn literal_and_arguments(rest: &str) -> Option<(&str, Vec<String>)> {
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    let mut arguments = vec![String::new()];
    let mut depth = 0;
    for c in rest[end + 1..].chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut()?.push(c);
    }
    let arguments = arguments.iter().map(|one| one.trim().to_owned());
    Some((
        &rest[..end],
        arguments.filter(|one| !one.is_empty()).collect(),
    ))
}

/// Returns whether a variable of this name was made of quoted words not far above.
fn is_quoted_before(above: &str, name: &str) -> bool {
    let mut near = above.len().saturating_sub(4000);
    while !above.is_char_boundary(near) {
        near += 1;
    }
    above[near..].split("let ").skip(1).any(|statement| {
        let (pattern, _) = statement.split_once('=').unwrap_or_default();
        let value = statement.split(';').next().unwrap_or_default();
        has_word(pattern, name) && value.contains("shell_")
    })
}

#[test]
fn hints_name_things_as_a_shell_reads_them() {
    let sources = sources();
    none(
        "a name or a path in a hint goes through shell_word or shell_path",
        sources
            .iter()
            .filter(|source| source.is_product())
            .flat_map(bare_words_in_hints)
            .collect(),
    );
    let tells = |code: &str| {
        let source = Source {
            path: "git-agent/src/x.rs".to_owned(),
            text: code.to_owned(),
        };
        !bare_words_in_hints(&source).is_empty()
    };
    for bad in [
        "error.hint(format!(\"git agent log {name}\"))",
        "ui.hint(format!(\n    \"git -C {} switch\",\n    top.display()\n));",
    ] {
        assert!(tells(bad), "{bad}");
    }
    for good in [
        "error.hint(format!(\"git agent log {}\", shell_word(name)))",
        "let name = shell_word(&session.name);\nui.hint(format!(\"git agent log {name}\"));",
        "ui.hint(format!(\"git agent forget {sid}\"));",
    ] {
        assert!(!tells(good), "{good}");
    }
}

/// Words that name nobody in particular: the text names the role instead.
const VAGUE: [&str; 5] = ["whom", "whoever", "somebody", "nobody", "anybody"];

/// Words after "is no" that make no dialect of it.
const AFTER_NO: [&str; 5] = ["longer", "more", "different", "fewer", "less"];

/// The one line that may: a task of the tour, which the README's reader types.
const TOUR: &str = "Greets whoever runs it.";

/// Returns the phrase in a line that a reader of plain English would stumble over.
fn stumbling_block(line: &str) -> Option<String> {
    // Names of constants and of values in a message are not prose.
    let words: Vec<&str> = line
        .split(|c: char| !(c.is_alphanumeric() || "_'{}.:;,".contains(c)))
        .filter(|word| !word.is_empty())
        .collect();
    let plain = |word: &str| {
        let word = word.trim_end_matches(['.', ':', ';', ',']);
        let constant = word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
        (!constant).then(|| word.to_lowercase())
    };
    let vague = |word: &&&str| plain(word).is_some_and(|word| VAGUE.contains(&word.as_str()));
    if let Some(word) = words.iter().find(vague) {
        return Some((*word).to_owned());
    }
    for (at, pair) in words.windows(2).enumerate() {
        let before = at.checked_sub(1).and_then(|before| plain(words[before]));
        let after = words.get(at + 2).and_then(|after| plain(after));
        let denies = matches!(pair, ["is" | "are" | "was" | "were", "no"]);
        if denies
            && before.as_deref() != Some("there")
            && let Some(after) = after.filter(|after| !AFTER_NO.contains(&after.as_str()))
        {
            return Some(format!("{} no {after}", pair[0]));
        }
        if matches!(
            pair,
            [
                "what" | "What",
                "is" | "was" | "were" | "are" | "has" | "had"
            ]
        ) {
            return Some(pair.join(" "));
        }
    }
    None
}

#[test]
fn the_prose_is_plain() {
    let mut offences = Vec::new();
    for source in &sources() {
        let prose = source.path.starts_with("man/") || source.path.ends_with("README.md");
        if !prose && !source.is_product() {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            if let Some(phrase) = stumbling_block(line).filter(|_| !line.contains(TOUR)) {
                offences.push(format!("{}:{}: {phrase}", source.path, index + 1));
            }
        }
    }
    none(
        "a subject, a verb and a noun: see the guide to plain English",
        offences,
    );
    for bad in [
        "'x' is no directory",
        "/// What is kept beside the index.",
        "whoever may push",
    ] {
        assert!(stumbling_block(bad).is_some(), "{bad}");
    }
    for good in [
        "it is no longer there",
        "there is no remote",
        "ask_nobody()",
    ] {
        assert_eq!(stumbling_block(good), None, "{good}");
    }
}
