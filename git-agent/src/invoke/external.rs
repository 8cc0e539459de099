//! Runs external commands: `git agent foo` runs `git-agent-foo`, as git does for `git foo`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::Env;
use crate::error::{Error, Kind};
use crate::model::similar;
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
    let own_directory = own_directory();
    let Some(program) = find(env, prefix, verb, own_directory.as_deref()) else {
        return unknown(env, prefix, verb, own_directory, built_in);
    };
    let error = Command::new(&program).args(arguments).exec();
    Error::fatal(format!("cannot run '{}'", program.display())).because(error)
}

/// Returns whether there is a program `<prefix><verb>`.
pub fn has_program(env: &Env, prefix: &str, verb: &OsStr) -> bool {
    find(env, prefix, verb, own_directory().as_deref()).is_some()
}

fn own_directory() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.to_path_buf())
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
    let similar = similar::similar(&verb, &known);
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;
    use crate::env::Terminals;

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
