//! This program as a hook: judges reference transactions, then becomes the repository's own hook of the same name.
//!
//! It runs several times a commit, so it opens no repository: what it needs is in variables and a few small files.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::env::Env;
use crate::error::{Context, Error, Result, shell_word};
use crate::git::hooks::{Head, Surroundings};
use crate::guard::hooks::{self, REFERENCE_TRANSACTION, is_executable, is_same_file};
use crate::guard::log::Note;
use crate::guard::policy::{Own, Place, Policy, Update, Verb, short};
use crate::guard::push::{self, PRE_PUSH};
use crate::guard::{
    COMMON_VARIABLE, DIR_VARIABLE, GLOBAL_VARIABLE, HOOKS_VARIABLE, LOG_VARIABLE, OWN_VARIABLE,
};

/// A call of this program as a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    name: &'static str,
    /// The directory it was called from, where every hook is this program.
    dir: Option<PathBuf>,
}

impl Hook {
    /// Tells from the name this program was started by whether git called it as a hook.
    pub fn from_program_name(program: &OsStr) -> Option<Self> {
        let path = Path::new(program);
        let name = path.file_name()?;
        let name = hooks::NAMES.into_iter().find(|known| name == *known)?;
        let dir = path.parent()?;
        let ours = dir.parent()?.ends_with("agents/hooks");
        ours.then(|| Hook {
            name,
            dir: Some(dir.to_owned()),
        })
    }

    /// Returns the hook of this name, for a script that wants it by word.
    pub fn from_word(word: &OsStr) -> Option<Self> {
        let name = hooks::NAMES.into_iter().find(|known| word == *known)?;
        Some(Hook { name, dir: None })
    }

    /// Runs the hook to its end and returns its exit code. Where nothing is left to judge it becomes the repository's own
    /// hook and does not return.
    pub fn run(&self, env: &Env, arguments: &[OsString]) -> Result<u8> {
        let here = Surroundings::of_hook(env);
        let judges = self.name == REFERENCE_TRANSACTION
            && arguments.first().is_some_and(|state| state == "prepared");
        let chained = self.chained(env, &here);
        if judges && is_guarded(env, &here) {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .context(|| "cannot read the reference transaction".into())?;
            judge(env, &here, &input)?;
            return match chained {
                Some(program) => feed(&program, arguments, &input),
                None => Ok(0),
            };
        }
        if self.name == PRE_PUSH && is_guarded(env, &here) {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .context(|| "cannot read what is pushed".into())?;
            judge_push(env, arguments, &input)?;
            return match chained {
                Some(program) => feed(&program, arguments, &input),
                None => Ok(0),
            };
        }
        let off = match self.name {
            "post-checkout" if is_guarded(env, &here) => off_branch(env, &here),
            _ => None,
        };
        match (chained, off) {
            (None, None) => Ok(0),
            (Some(program), None) => Err(become_program(&program, arguments)),
            (None, Some(error)) => Err(error),
            (Some(program), Some(error)) => {
                // The repository's hook comes first: it must not miss a checkout that has happened.
                command(&program, arguments)
                    .status()
                    .context(|| cannot_run(&program))?;
                Err(error)
            }
        }
    }

    /// Returns the repository's own hook, if git would run it.
    fn chained(&self, env: &Env, here: &Surroundings) -> Option<PathBuf> {
        let dir = here.hooks_dir(env, env.var_os(HOOKS_VARIABLE), env.var_os(GLOBAL_VARIABLE));
        let path = dir.join(self.name);
        let loops = self
            .dir
            .as_deref()
            .is_some_and(|own| is_same_file(own, &dir))
            || dir
                .parent()
                .is_some_and(|parent| parent.ends_with("agents/hooks"));
        (!loops && is_executable(&path)).then_some(path)
    }
}

/// Returns whether this is the session's repository: a submodule in it is not.
fn is_guarded(env: &Env, here: &Surroundings) -> bool {
    match env.var_os(COMMON_VARIABLE) {
        Some(common) => is_same_file(Path::new(common), &here.common_dir),
        // The hooks are only brought in for that repository, so this is it, with its variables lost on the way.
        None => true,
    }
}

/// Returns what the session may move.
fn own_refs(env: &Env) -> Result<Own> {
    let Some(own) = env.var_os(OWN_VARIABLE) else {
        return Err(Error::negative(format!(
            "git-agent: cannot tell which refs this session may move: '{OWN_VARIABLE}' is not set"
        ))
        .hint("start git with the environment the session was given"));
    };
    Ok(Own::parse(&own.to_string_lossy()))
}

/// Writes down what the guard decided, where something is to be said of it.
fn note(env: &Env, updates: &[Update], note: impl FnOnce(&[Update]) -> Note) {
    if let Some(log) = env.var_os(LOG_VARIABLE).filter(|_| !updates.is_empty()) {
        // Without the log the answer is the same; the comparison of refs still sees what happened.
        let _ = note(updates).append(Path::new(log));
    }
}

/// Fails when a push takes along what the session may not push. `arguments` are the remote's name and its address.
fn judge_push(env: &Env, arguments: &[OsString], input: &[u8]) -> Result<()> {
    let own = own_refs(env)?;
    let (allowed, refused): (Vec<Update>, Vec<Update>) =
        push::parse(&String::from_utf8_lossy(input))
            .into_iter()
            .partition(|update| push::allows(&own, update));
    let to = arguments.iter().map(|word| word.to_string_lossy());
    let mut to: Vec<_> = to.take(2).collect();
    to.dedup();
    let to = to.join(" at ");
    let noted = |updates: &[Update], refused| {
        note(env, updates, |updates| {
            Note::new(env.now(), refused, updates).pushed(to)
        });
    };
    if refused.is_empty() {
        noted(&allowed, false);
        return Ok(());
    }
    noted(&refused, true);
    Err(push::refuse(&own, &refused))
}

/// Fails when the transaction moves what the session may not move.
fn judge(env: &Env, here: &Surroundings, input: &[u8]) -> Result<()> {
    let own = own_refs(env)?;
    let updates: Vec<Update> = String::from_utf8_lossy(input)
        .lines()
        .filter_map(Update::parse)
        .collect();
    let mut policy = Policy {
        own: &own,
        place: Place::Own,
        verb: Verb::Other,
    };
    // Only asked where it matters: the answer costs another look at the system.
    let matters = |update: &Update| update.name == "HEAD" || update.name.starts_with("refs/tags/");
    if updates
        .iter()
        .any(|update| matters(update) && !policy.allows(update))
    {
        policy.verb = calling_verb();
    }
    if !env
        .var_os(DIR_VARIABLE)
        .is_some_and(|own| is_same_file(Path::new(own), &here.git_dir))
    {
        policy.place = match here.head() {
            Head::Branch(name) if own.owns(&name) => Place::OnOwnBranch,
            Head::Unknown => Place::OnOwnBranch,
            Head::Branch(_) | Head::Detached => Place::Foreign,
        };
    }
    let (allowed, refused): (Vec<Update>, Vec<Update>) = updates
        .into_iter()
        .partition(|update| policy.allows(update));
    let note = |refused, updates: &[Update]| {
        note(env, updates, |updates| {
            Note::new(env.now(), refused, updates)
        });
    };
    if refused.is_empty() {
        let strict = Policy {
            verb: Verb::Other,
            ..policy
        };
        let exceptions: Vec<Update> = allowed
            .into_iter()
            .filter(|update| !strict.allows(update))
            .collect();
        note(false, &exceptions);
        return Ok(());
    }
    note(true, &refused);
    if refused.iter().any(Update::removes_head)
        && let Head::Branch(name) = here.head()
    {
        here.bring_back_reflog(&name);
    }
    Err(policy.refuse(&refused))
}

/// Returns what to say when a checkout has left the session's branch. Before git 2.46 no hook could refuse that.
fn off_branch(env: &Env, here: &Surroundings) -> Option<Error> {
    let own = Own::parse(&env.var_os(OWN_VARIABLE)?.to_string_lossy());
    let is_own_worktree = is_same_file(Path::new(env.var_os(DIR_VARIABLE)?), &here.git_dir);
    let Head::Branch(name) = here.head() else {
        return None;
    };
    if !is_own_worktree || own.owns(&name) || own.is_read_only() {
        return None;
    }
    let branch = own.first().map_or("<branch>", short);
    let now = short(&name);
    Some(
        Error::negative(format!(
            "git-agent: this worktree is now on '{now}', which this session may not move"
        ))
        .hint(format!("go back: git switch {}", shell_word(branch))),
    )
}

/// Returns which command of git called this hook, as far as the system tells.
fn calling_verb() -> Verb {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let Some(parent) = parent else {
        return Verb::Other;
    };
    if let Ok(bytes) = std::fs::read(format!("/proc/{parent}/cmdline")) {
        return verb_of(&bytes);
    }
    // Systems without /proc. Words with blanks in them come apart, and then the strict rules hold.
    let listed = Command::new("ps")
        .args(["-o", "args=", "-p", &parent.to_string()])
        .output();
    match listed {
        Ok(listed) => {
            let words = String::from_utf8_lossy(&listed.stdout);
            let words: Vec<&str> = words.split_whitespace().collect();
            verb_of(words.join("\0").as_bytes())
        }
        Err(_) => Verb::Other,
    }
}

fn verb_of(command_line: &[u8]) -> Verb {
    let mut words = command_line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    if program.ends_with(b"git-fetch") {
        return Verb::Fetch;
    }
    while let Some(word) = words.next() {
        match word {
            b"-c" | b"-C" | b"--git-dir" | b"--work-tree" | b"--namespace" | b"--config-env" => {
                words.next();
            }
            b"fetch" => return Verb::Fetch,
            b"branch" => return Verb::Branch,
            option if option.starts_with(b"-") => {}
            _ => break,
        }
    }
    Verb::Other
}

fn command(program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Returns the shell that runs a hook without a first line that names one, as git would.
fn shell(program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg(program).args(arguments);
    command
}

fn needs_shell(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

fn cannot_run(program: &Path) -> String {
    format!("cannot run hook '{}'", program.display())
}

/// Becomes another program; returns only when that fails.
fn become_program(program: &Path, arguments: &[OsString]) -> Error {
    let mut error = command(program, arguments).exec();
    if needs_shell(&error) {
        error = shell(program, arguments).exec();
    }
    Error::fatal(cannot_run(program)).because(error)
}

/// Runs a program on the input that was read already.
fn feed(program: &Path, arguments: &[OsString], input: &[u8]) -> Result<u8> {
    let mut child = match command(program, arguments).stdin(Stdio::piped()).spawn() {
        Err(error) if needs_shell(&error) => {
            shell(program, arguments).stdin(Stdio::piped()).spawn()
        }
        other => other,
    }
    .context(|| cannot_run(program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook need not read what it is given.
        let _ = stdin.write_all(input);
    }
    let status = child.wait().context(|| cannot_run(program))?;
    Ok(exit_code(status))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_by_its_name() {
        let found = |name: &str| Hook::from_program_name(OsStr::new(name)).map(|hook| hook.name);
        assert_eq!(
            found("/a b/.git/agents/hooks/0.1.0-abc/pre-commit"),
            Some("pre-commit")
        );
        for other in [
            "git-agent",
            "/usr/bin/git-agent",
            "pre-commit",
            "/r/.git/hooks/pre-commit",
            "/r/.git/agents/hooks/0.1.0-abc/git-agent",
            "",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn a_command_is_told_by_its_words() {
        for (line, verb) in [
            ("git\0fetch\0origin\0", Verb::Fetch),
            (
                "/usr/lib/git-core/git\0fetch\0--update-head-ok\0",
                Verb::Fetch,
            ),
            ("git\0-c\0a=b\0-C\0dir\0--no-pager\0fetch\0", Verb::Fetch),
            ("/usr/lib/git-core/git-fetch\0", Verb::Fetch),
            ("git\0branch\0-m\0a\0", Verb::Branch),
            ("git\0tag\0fetch\0", Verb::Other),
            ("git\0-C\0fetch\0tag\0v1\0", Verb::Other),
            ("git\0", Verb::Other),
            ("", Verb::Other),
        ] {
            assert_eq!(verb_of(line.as_bytes()), verb, "{line:?}");
        }
    }
}
