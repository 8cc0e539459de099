//! Runs external commands: `git agent foo` runs `git-agent-foo`, as git does for `git foo`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::Env;
use crate::error::{Error, Kind};
use crate::output;
use crate::output::terminal::sanitize;

/// Replaces this process by the program `<prefix><verb>` from PATH, or else from the directory of this one. Returns
/// only if it is missing or cannot run.
///
/// `built_in` lists the verbs without a program of their own, for suggestions.
pub fn external(
    env: &Env,
    prefix: &str,
    verb: &OsStr,
    arguments: &[OsString],
    built_in: &dyn Fn() -> Vec<String>,
) -> Error {
    let own_directory = std::env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.to_path_buf()));
    let Some(program) = find(env, prefix, verb, own_directory.as_deref()) else {
        return unknown(env, prefix, verb, own_directory, built_in);
    };
    let error = Command::new(&program).args(arguments).exec();
    Error::fatal(format!("cannot run '{}'", program.display())).because(error)
}

fn find(env: &Env, prefix: &str, verb: &OsStr, own_directory: Option<&Path>) -> Option<PathBuf> {
    // A verb is a word; a slash must not lead out of the searched directories.
    if verb.as_encoded_bytes().contains(&b'/') {
        return None;
    }
    let mut name = OsString::from(prefix);
    name.push(verb);
    which::which_in(&name, env.var_os("PATH"), &env.cwd)
        .or_else(|_| which::which_in(&name, own_directory, &env.cwd))
        .ok()
}

/// Reports an unknown command in git's words, with similar ones. The exit code is 1, as in git.
fn unknown(
    env: &Env,
    prefix: &str,
    verb: &OsStr,
    own_directory: Option<PathBuf>,
    built_in: &dyn Fn() -> Vec<String>,
) -> Error {
    let command = prefix.trim_end_matches('-');
    let spoken = command.replacen('-', " ", 1);
    let verb = verb.to_string_lossy();
    let mut text = format!(
        "{spoken}: '{}' is not a {command} command. See '{spoken} -h'.\n",
        sanitize::one_line(verb.as_bytes())
    );
    let mut known: BTreeSet<String> = built_in().into_iter().collect();
    let path = env.var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(path).chain(own_directory) {
        known.extend(programs(&directory, prefix));
    }
    let similar = similar(&verb, known);
    if let [only] = similar.as_slice() {
        text += &format!(
            "\nThe most similar command is\n\t{}\n",
            sanitize::one_line(only)
        );
    } else if !similar.is_empty() {
        text += "\nThe most similar commands are\n";
        for word in &similar {
            text += &format!("\t{}\n", sanitize::one_line(word));
        }
    }
    match output::print(&text, true) {
        Ok(()) => Error::new(Kind::Negative, ""),
        Err(error) => error,
    }
}

/// Returns the verbs that programs in a directory provide.
fn programs(directory: &Path, prefix: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let verb = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let verb = name.strip_prefix(prefix)?;
        let runs = rustix::fs::access(entry.path(), rustix::fs::Access::EXEC_OK).is_ok();
        // Other build artefacts next to the programs contain a dot.
        (runs && !verb.contains('.')).then(|| verb.to_owned())
    };
    entries.flatten().filter_map(verb).collect()
}

/// Returns the words most similar to the typed one: all that begin with it, and those within a few typing errors.
fn similar(typed: &str, known: BTreeSet<String>) -> Vec<String> {
    let length = typed.chars().count();
    if length > 64 {
        return Vec::new();
    }
    let allowed = (length / 3).max(1);
    let mut scored: Vec<(usize, String)> = known
        .into_iter()
        .filter_map(|word| {
            if word.starts_with(typed) {
                Some((0, word))
            } else {
                Some((distance(typed, &word), word)).filter(|(score, _)| *score <= allowed)
            }
        })
        .collect();
    scored.sort();
    let best = scored.first().map_or(0, |(score, _)| *score);
    scored.retain(|(score, _)| *score == best);
    scored.truncate(5);
    scored.into_iter().map(|(_, word)| word).collect()
}

/// Returns the number of insertions, deletions, changes and swaps of neighbours between two words.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = usize::from(one[i - 1] != other[j - 1]);
                let mut best = (rows[i - 1][j] + 1)
                    .min(rows[i][j - 1] + 1)
                    .min(rows[i - 1][j - 1] + changed);
                let swapped =
                    i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
                if swapped {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::env::Terminals;

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("list", "list", 0),
            ("lsit", "list", 1),
            ("lis", "list", 1),
            ("reveiw", "review", 1),
            ("", "abc", 3),
            ("merge", "review", 4),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn suggestions_are_few_and_near() {
        let known = || {
            ["list", "log", "review", "merge", "message"]
                .map(String::from)
                .into()
        };
        assert_eq!(similar("lsit", known()), ["list"]);
        assert_eq!(similar("me", known()), ["merge", "message"]);
        assert_eq!(similar("rvieww", known()), ["review"]);
        assert!(similar("zzz", known()).is_empty());
    }

    #[test]
    fn path_comes_first_and_paths_are_no_verbs() {
        let make = |directory: &Path, name: &str, mode| {
            std::fs::OpenOptions::new()
                .create(true)
                .write(true)
                .mode(mode)
                .open(directory.join(name))
                .expect("a file in a directory of our own");
        };
        let (path, own) = (
            tempfile::tempdir().expect("tmp"),
            tempfile::tempdir().expect("tmp"),
        );
        make(path.path(), "git-x-one", 0o755);
        make(path.path(), "git-x-plain", 0o644);
        make(own.path(), "git-x-one", 0o755);
        make(own.path(), "git-x-two", 0o755);
        let variables = [("PATH".into(), path.path().into())];
        let env = Env::new("/".into(), variables, Terminals::default());
        let find = |verb: &str| find(&env, "git-x-", verb.as_ref(), Some(own.path()));
        assert_eq!(find("one"), Some(path.path().join("git-x-one")));
        assert_eq!(find("two"), Some(own.path().join("git-x-two")));
        assert_eq!(find("plain"), None);
        assert_eq!(find("../one"), None);
        assert_eq!(programs(path.path(), "git-x-"), ["one"]);
    }
}
