//! The keys of the board: the table in the code and the manual are the same list.

use std::collections::BTreeMap;
use std::fs;

use git_agent_tests::binaries::workspace;

/// An action: its default keys and its words.
type Row = (String, String);

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the actions of the table in the code.
fn in_code() -> BTreeMap<String, Row> {
    let source = read("git-agent/board/src/keys.rs");
    let table = source
        .split_once("\nactions! {\n")
        .and_then(|(_, rest)| rest.split_once("\n}\n"))
        .expect("the code has the table")
        .0;
    let mut rows = BTreeMap::new();
    for line in table.lines().filter(|line| line.contains(" = \"")) {
        let texts: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let [name, keys, words] = texts.as_slice() else {
            panic!("a row has a name, keys and words: {line}");
        };
        let row = ((*keys).to_owned(), (*words).to_owned());
        let other = rows.insert((*name).to_owned(), row);
        assert_eq!(other, None, "{name} stands there twice");
    }
    rows
}

/// Returns the actions of the manual.
fn in_manual() -> BTreeMap<String, Row> {
    let page = read("man/man1/git-agent-board.1").replace("\\-", "-");
    let lines: Vec<&str> = page.lines().collect();
    let mut rows = BTreeMap::new();
    for pair in lines.windows(2) {
        let Some((keys, rest)) = pair[0]
            .strip_prefix(".BR \"")
            .and_then(|line| line.split_once("\" \" (\\fI"))
        else {
            continue;
        };
        let name = rest.trim_end_matches("\\fR)\"");
        let words = pair[1].trim_end_matches('.');
        rows.insert(name.to_owned(), (keys.to_owned(), words.to_owned()));
    }
    rows
}

#[test]
fn the_manual_lists_exactly_the_keys_of_the_code() {
    let (code, manual) = (in_code(), in_manual());
    assert!(code.len() > 50, "the table was not read: {code:?}");
    for (name, row) in &code {
        assert_eq!(manual.get(name), Some(row), "'{name}' in git-agent-board.1");
    }
    for name in manual.keys() {
        assert!(
            code.contains_key(name),
            "git-agent-board.1 has '{name}', the code does not"
        );
    }
}
