//! Runs as a git hook: judges reference transactions, then executes the repository's own hook of the same name.
//!
//! It runs several times per commit, so it does not open the repository; it reads variables and a few small files.

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
use crate::guard::policy::{Own, Policy, RefPlace, Update, Verb, short};
use crate::guard::push::{self, PRE_PUSH};
use crate::guard::{
    COMMON_VARIABLE, DIR_VARIABLE, GLOBAL_VARIABLE, HOOKS_VARIABLE, LOG_VARIABLE, OWN_VARIABLE,
};

/// A call of this program as a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    name: &'static str,
    /// The directory of the called hook, where every hook is this program.
    dir: Option<PathBuf>,
}

impl Hook {
    /// Returns the hook if this program was started under a hook's name.
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

    /// Returns the hook of this name, for the script that starts `program` by it.
    pub fn from_word(program: &OsStr, word: &OsStr) -> Option<Self> {
        let name = hooks::NAMES.into_iter().find(|known| word == *known)?;
        let dir = Path::new(program).parent()?;
        let ours = dir.parent()?.ends_with("agents/hooks");
        let dir = ours.then(|| dir.to_owned());
        Some(Hook { name, dir })
    }

    /// Runs the hook and returns its exit code. If there is nothing to judge, replaces this process by the repository's
    /// own hook and does not return.
    pub fn run(&self, env: &Env, arguments: &[OsString]) -> Result<u8> {
        let here = Surroundings::of_hook(env);
        let judges = self.name == REFERENCE_TRANSACTION
            && arguments.first().is_some_and(|state| state == "prepared");
        let theirs = here.hooks_dir(env, env.var_os(HOOKS_VARIABLE), env.var_os(GLOBAL_VARIABLE));
        let chained = self.chained(&theirs);
        if judges && is_guarded(env, &here) {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .context(|| "cannot read the reference transaction".into())?;
            let updates = judge(env, &here, &input)?;
            self.take_in(&theirs, &updates)?;
            return match chained {
                Some(program) => feed(&program, arguments, &input),
                None => Ok(0),
            };
        }
        if self.name == PRE_PUSH && is_guarded(env, &here) {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .context(|| "cannot read the list of pushed refs".into())?;
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
                // Run the repository's hook first: the checkout has happened, and it must not miss it.
                command(&program, arguments)
                    .status()
                    .context(|| cannot_run(&program))?;
                Err(error)
            }
        }
    }

    /// Returns the repository's own hook, if git would run it.
    fn chained(&self, dir: &Path) -> Option<PathBuf> {
        let path = dir.join(self.name);
        let loops = self
            .dir
            .as_deref()
            .is_some_and(|own| is_same_file(own, dir))
            || dir
                .parent()
                .is_some_and(|parent| parent.ends_with("agents/hooks"));
        (!loops && is_executable(&path)).then_some(path)
    }

    /// Makes git call the hooks that the repository has got since ours were installed. Fails when one of them should have
    /// been asked before this commit.
    fn take_in(&self, theirs: &Path, updates: &[Update]) -> Result<()> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        let mut new = hooks::link(dir, theirs)
            .context(|| format!("cannot add hooks to '{}'", dir.display()))?;
        new.retain(|name| name.starts_with("pre-") || name.ends_with("-msg"));
        if new.is_empty() || !updates.iter().any(|update| update.name == "HEAD") {
            return Ok(());
        }
        Err(Error::negative(format!(
            "git-agent: this repository has new hooks, which did not run: {}",
            new.join(", ")
        ))
        .hint("run the same command again"))
    }
}

/// Returns whether this is the session's repository, and not, for example, a submodule.
fn is_guarded(env: &Env, here: &Surroundings) -> bool {
    match env.var_os(COMMON_VARIABLE) {
        Some(common) => is_same_file(Path::new(common), &here.common_dir),
        // Only that repository includes the hooks, so this is it, and the variables were lost.
        None => true,
    }
}

/// Returns the refs that the session may move.
fn own_refs(env: &Env) -> Result<Own> {
    let Some(own) = env.var_os(OWN_VARIABLE) else {
        return Err(Error::negative(format!(
            "git-agent: the refs that this session may move are unknown: '{OWN_VARIABLE}' is not set"
        ))
        .hint("run git in the environment of the session"));
    };
    Ok(Own::parse(&own.to_string_lossy()))
}

/// Logs a decision of the guard.
fn note(env: &Env, updates: &[Update], note: impl FnOnce(&[Update]) -> Note) {
    if let Some(log) = env.var_os(LOG_VARIABLE).filter(|_| !updates.is_empty()) {
        // The decision does not depend on the log; the comparison of refs still sees the change.
        let _ = note(updates).append(Path::new(log));
    }
}

/// Fails if the session may not push one of these refs. `arguments` are the remote's name and its address.
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

/// Fails when the transaction moves what the session may not move. Returns what it moves.
fn judge(env: &Env, here: &Surroundings, input: &[u8]) -> Result<Vec<Update>> {
    let own = own_refs(env)?;
    let updates: Vec<Update> = String::from_utf8_lossy(input)
        .lines()
        .filter_map(Update::parse)
        .collect();
    let mut policy = Policy {
        own: &own,
        place: RefPlace::Own,
        verb: Verb::Other,
    };
    // Find the calling command only where it matters, because that costs time.
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
            Head::Branch(name) if own.owns(&name) => RefPlace::OnOwnBranch,
            Head::Unknown => RefPlace::OnOwnBranch,
            Head::Branch(_) | Head::Detached => RefPlace::Foreign,
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
            .iter()
            .filter(|update| !strict.allows(update))
            .cloned()
            .collect();
        note(false, &exceptions);
        return Ok(allowed);
    }
    note(true, &refused);
    if refused.iter().any(Update::removes_head)
        && let Head::Branch(name) = here.head()
    {
        here.bring_back_reflog(&name);
    }
    Err(policy.refuse(&refused))
}

/// Returns the message after a checkout has left the session's branch, which no hook could refuse before git 2.46.
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

/// Returns the git command that called this hook, if the system tells.
fn calling_verb() -> Verb {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let Some(parent) = parent else {
        return Verb::Other;
    };
    if let Ok(bytes) = std::fs::read(format!("/proc/{parent}/cmdline")) {
        return verb_of(&bytes);
    }
    // On systems without /proc, arguments with spaces are split; then the strict rules apply.
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

/// Returns the shell that runs a hook without a `#!` line, as git does.
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

/// Replaces this process by another program; returns only if that fails.
fn become_program(program: &Path, arguments: &[OsString]) -> Error {
    let mut error = command(program, arguments).exec();
    if needs_shell(&error) {
        error = shell(program, arguments).exec();
    }
    Error::fatal(cannot_run(program)).because(error)
}

/// Runs a program with the input that was already read.
fn feed(program: &Path, arguments: &[OsString], input: &[u8]) -> Result<u8> {
    let mut child = match command(program, arguments).stdin(Stdio::piped()).spawn() {
        Err(error) if needs_shell(&error) => {
            shell(program, arguments).stdin(Stdio::piped()).spawn()
        }
        other => other,
    }
    .context(|| cannot_run(program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook may ignore its input.
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
