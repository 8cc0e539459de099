//! The laws of the source tree, checked by reading it.

use std::fs;
use std::path::{Path, PathBuf};

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::workspace;

const TOP_LEVEL: [&str; 11] = [
    ".ci",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "git-agent",
    "git-agent-merge",
    "git-agent-review",
    "man",
    "tests",
];

/// A longer file has two topics.
const MOST_LINES: usize = 600;

/// One file of the tree.
pub struct Source {
    /// Relative to the top of the tree.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn is_product(&self) -> bool {
        self.is_rust()
            && (self.path.starts_with("git-agent/src/")
                || self.path.starts_with("git-agent/board/src/")
                || self.path.starts_with("git-agent/builtin/src/")
                || self.path.starts_with("git-agent-review/src/")
                || self.path.starts_with("git-agent-merge/src/"))
    }

    /// Returns the path within the library, for files of the library.
    pub fn in_library(&self) -> Option<&str> {
        self.path
            .strip_prefix("git-agent/src/")
            .filter(|_| self.is_product())
    }

    /// Returns the lines that are code of the product: no comments, no unit tests.
    pub fn code(&self) -> Vec<(usize, &str)> {
        let own = self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs");
        if own || self.path.contains("/tests/") {
            return Vec::new();
        }
        let mut code = Vec::new();
        let mut lines = self.text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            // Unit tests stand at the end of a file.
            if line == "#[cfg(test)]"
                && lines
                    .peek()
                    .is_some_and(|(_, next)| next.starts_with("mod ") && next.ends_with('{'))
            {
                break;
            }
            if !line.trim_start().starts_with("//") {
                code.push((index + 1, line));
            }
        }
        code
    }
}

pub fn sources() -> Vec<Source> {
    let sandbox = Sandbox::new();
    let listed = sandbox
        .command("git")
        .cwd(workspace())
        .env_remove("GIT_CEILING_DIRECTORIES")
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .run()
        .whatever();
    let mut paths: Vec<String> = if listed.status().success() {
        let text = String::from_utf8(listed.stdout_bytes().to_vec()).expect("file names are plain");
        text.split_terminator('\0').map(str::to_owned).collect()
    } else {
        // An unpacked archive is no repository.
        let mut found = Vec::new();
        walk(workspace(), Path::new(""), &mut found);
        found
    };
    paths.sort();
    paths.dedup();
    let sources: Vec<Source> = paths
        .into_iter()
        .filter_map(|path| {
            let bytes = fs::read(workspace().join(&path)).ok()?;
            Some(Source {
                text: String::from_utf8_lossy(&bytes).into_owned(),
                path,
            })
        })
        .collect();
    assert!(
        sources
            .iter()
            .any(|source| source.path == "tests/suite/source.rs"),
        "the list of files is incomplete"
    );
    sources
}

fn walk(top: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(top.join(dir))
        .expect("the tree is readable")
        .flatten()
    {
        let path: PathBuf = dir.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if path != Path::new("target") && path != Path::new(".git") {
                walk(top, &path, found);
            }
        } else {
            found.push(path.to_str().expect("file names are plain").to_owned());
        }
    }
}

/// Fails with every offence, so that one run shows them all.
#[track_caller]
pub fn none(law: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{law}:\n  {}", offences.join("\n  "));
}

fn offending_code(
    applies: impl Fn(&Source) -> bool,
    offends: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| applies(source)) {
        for (number, line) in source.code() {
            if offends(line) {
                offences.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    offences
}

fn offending_text(
    applies: impl Fn(&Source) -> bool,
    offends: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| applies(source)) {
        for (index, line) in source.text.lines().enumerate() {
            if offends(line) {
                offences.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    offences
}

pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].chars().next_back().is_some_and(part_of_name)
            && !line[at + word.len()..]
                .chars()
                .next()
                .is_some_and(part_of_name)
    })
}

#[test]
fn the_top_level_is_fixed() {
    let mut names: Vec<String> = sources()
        .iter()
        .map(|source| {
            source
                .path
                .split('/')
                .next()
                .expect("a path has a first part")
                .to_owned()
        })
        .collect();
    names.dedup();
    let unknown = names
        .iter()
        .filter(|name| !TOP_LEVEL.contains(&name.as_str()))
        .cloned()
        .collect();
    none("nothing else stands at the top level", unknown);
    let missing = TOP_LEVEL
        .iter()
        .filter(|name| !workspace().join(name).exists())
        .map(|name| (*name).to_owned())
        .collect();
    none("the top level holds all of these", missing);
}

#[test]
fn only_the_git_door_names_git_libraries_or_starts_git() {
    let start = concat!("Command::new(\"", "git");
    none(
        "only git-agent/src/git/ names gix or starts git",
        offending_code(
            |source| source.is_product() && !source.path.starts_with("git-agent/src/git/"),
            |line| has_word(line, "gix") || line.contains(start),
        ),
    );
}

#[test]
fn only_one_file_spells_our_refs() {
    let spelling = concat!("refs/", "agents");
    none(
        "only git-agent/src/store/refname.rs spells these names",
        offending_code(
            |source| source.is_product() && source.path != "git-agent/src/store/refname.rs",
            |line| line.contains(spelling),
        ),
    );
}

#[test]
fn only_output_writes_to_the_standard_streams() {
    // Clippy denies these everywhere; this catches an `allow` in the product.
    let macros = ["println!", "print!", "eprintln!", "eprint!", "dbg!"];
    none(
        "everything is written through a writer",
        offending_code(Source::is_product, |line| {
            macros
                .iter()
                .any(|name| has_word(line, name.trim_end_matches('!')) && line.contains(name))
        }),
    );
    let streams = [
        concat!("std::io::", "stdout"),
        concat!("std::io::", "stderr"),
        concat!("io::", "stdout("),
        concat!("io::", "stderr("),
    ];
    none(
        "only git-agent/src/output/ opens the standard streams",
        offending_code(
            |source| {
                source.is_product()
                    && !source.path.starts_with("git-agent/src/output/")
                    && source.path != "git-agent/src/env.rs"
            },
            |line| streams.iter().any(|stream| line.contains(stream)),
        ),
    );
}

#[test]
fn nothing_is_unwrapped() {
    let call = concat!(".unwrap", "()");
    none(
        "expect() says why it must hold",
        offending_text(Source::is_rust, |line| line.contains(call)),
    );
}

/// Returns whether a line begins an arm of a `match` on a truth value, for which `if` is the word.
fn matches_bool(line: &str) -> bool {
    let line = line.trim_start();
    ["true", "false"].iter().any(|word| {
        let rest = line.strip_prefix(word).unwrap_or_default();
        rest.starts_with(" =>") || rest.starts_with(" if ")
    })
}

/// Returns whether a line names a result within a result: an enum says what the inner one means.
fn nests_results(line: &str) -> bool {
    let plain = line.replace("std::result::", "").replace("io::", "");
    plain.contains("Result<Result<")
}

#[test]
fn truth_values_are_not_matched_and_results_are_not_nested() {
    assert!(matches_bool("    true => 1,") && matches_bool("false if late => {"));
    assert!(!matches_bool("(true, _) => 1,") && !matches_bool("trueish => 1"));
    assert!(nests_results(
        "-> Result<std::result::Result<(), String>> {"
    ));
    assert!(nests_results("-> io::Result<Result<()>> {") && !nests_results("Result<Option<u8>>"));
    let is_other = |source: &Source| source.is_rust() && source.path != "tests/suite/source.rs";
    none(
        "'if' for a truth value, an enum for an answer within a result",
        offending_text(is_other, |line| matches_bool(line) || nests_results(line)),
    );
}

#[test]
fn every_file_says_what_it_owns() {
    let silent = sources()
        .iter()
        .filter(|source| source.is_rust() && !source.text.starts_with("//! "))
        .map(|source| source.path.clone())
        .collect();
    none("a source file opens with `//! ` and what it owns", silent);
}

#[test]
fn no_file_is_too_long() {
    let long = sources()
        .iter()
        .filter(|source| source.is_rust())
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > MOST_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    none("a source file has at most 600 lines", long);
}

#[test]
fn nothing_is_left_to_be_done() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
    ];
    none(
        "what is not done is not there",
        offending_text(
            |source| {
                source.is_rust()
                    || source.path.starts_with("man/")
                    || source.path.starts_with(".ci/")
                    || source.path.ends_with(".toml")
            },
            |line| marks.iter().any(|mark| has_word(line, mark)),
        ),
    );
}

#[test]
fn nothing_depends_on_one_machine() {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    none(
        "no path of one machine",
        offending_text(
            |source| source.path != "Cargo.lock",
            |line| {
                paths.iter().any(|path| {
                    line.match_indices(path).any(|(at, _)| {
                        // Only where a path begins: `tests/work/x` is somebody else's.
                        !line[..at]
                            .ends_with(|c: char| c.is_alphanumeric() || "_-.}>~)".contains(c))
                    })
                })
            },
        ),
    );
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    none(
        "every dependency comes from the public index",
        offending_text(
            |source| source.path == "Cargo.lock",
            |line| line.starts_with("source = ") && line != public,
        ),
    );
    let settings = [
        "[source",
        "[registries",
        "[registry",
        "replace-with",
        "registry =",
        "registry-index",
        "[patch",
    ];
    none(
        "no other place to fetch dependencies from",
        offending_text(
            |source| source.path.ends_with(".toml"),
            |line| {
                settings.iter().any(|setting| {
                    line.trim_start().starts_with(setting)
                        || line.contains(&format!("{setting} \""))
                })
            },
        ),
    );
}

#[test]
fn siblings_do_not_know_each_other() {
    none(
        "a command depends on the library, never on another command",
        offending_code(Source::is_product, |line| {
            has_word(line, concat!("git_agent_", "review"))
                || has_word(line, concat!("git_agent_", "merge"))
        }),
    );
}

#[test]
fn there_is_one_build() {
    none(
        "no feature flags",
        offending_code(Source::is_product, |line| {
            line.contains(concat!("cfg(", "feature"))
        }),
    );
}
