//! Runs a command under guard, as a supervisor runs an agent: `guarded [option…] command…` in a session's worktree.
//!
//! `--own REF` (again for more) says what may be moved, by full name or prefix; without it nothing may. `--watch` prints
//! what changed besides, a line each: subject, before, after, evidence. `--restore` also puts it back and prints how that
//! ended. `--open` has the library open the repository under guard instead of running a command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use git_agent::env::{Env, Terminals};
use git_agent::error::{Error, Result};
use git_agent::git::Repo;
use git_agent::git::refs::Target;
use git_agent::guard::environment::{Options, ask_nobody};
use git_agent::guard::watch::{Refs, Scope, Subject};
use git_agent::guard::{Guard, Own};
use git_agent::model::session::{SessionId, Ulid};
use git_agent::session::worktree::environment::{Particulars, environment};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let _ = writeln!(
                io::stderr(),
                "guarded: {error}: {}",
                cause.unwrap_or_default()
            );
            ExitCode::from(125)
        }
    }
}

fn run() -> Result<u8> {
    let mut own: Vec<String> = Vec::new();
    let (mut watch, mut restore, mut open) = (false, false, false);
    let mut words = std::env::args_os().skip(1).peekable();
    while let Some(word) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"--")) {
        match word.to_str() {
            Some("--own") => own.extend(words.next().and_then(|name| name.into_string().ok())),
            Some("--watch") => watch = true,
            Some("--restore") => (watch, restore) = (true, true),
            Some("--open") => open = true,
            _ => return Err(Error::usage("unknown option")),
        }
    }
    let env = Env::from_process()?;
    let repo = Repo::discover(&env)?;
    let sid: SessionId = Ulid::new(&env);
    let program = program(&env)?;
    let worktree = repo.require_work_tree()?;
    let mut variables = environment(
        &env,
        &Particulars {
            sid,
            name: "guarded",
            worktree,
            repo: repo.common_dir(),
            programs: program.parent().unwrap_or(worktree),
            port: 20_000,
            inherited: &[],
        },
    );
    ask_nobody(&mut variables);
    let guard = Guard::prepare(
        &repo,
        &variables,
        Options {
            program: &program,
            own: Own::new(own),
            git_dir: repo.git_dir(),
            directory: &repo.common_dir().join("agents").join("guarded"),
        },
    )?;
    guard.enter(&mut variables)?;
    if open {
        let inside = Env::new(env.cwd.clone(), variables, Terminals::default());
        let hooks = Repo::discover(&inside)?.config_string("core.hooksPath");
        let _ = writeln!(io::stdout(), "{}", hooks.unwrap_or_default());
        return Ok(0);
    }
    let before = Refs::take(&repo)?;
    let code = start(words.collect(), &variables)?;
    if watch {
        let scope = Scope {
            own: guard.own(),
            worktree,
            git_dir: repo.git_dir(),
            is_known: &|name| name == "refs/heads/somebody-known",
        };
        let after = Refs::take(&repo)?;
        for change in before.compare(&repo, &after, &scope)? {
            let subject = match &change.subject {
                Subject::Ref(name) => name.clone(),
                Subject::Head(top) => format!("HEAD of {}", top.display()),
            };
            let mut line = format!(
                "{subject}: {} -> {} ({:?})",
                shown(&change.before),
                shown(&change.after),
                change.evidence
            );
            if restore {
                line += &format!(" {:?}", change.restore(&env, &repo, &scope)?);
            }
            let _ = writeln!(io::stdout(), "{line}");
        }
    }
    Ok(code)
}

fn program(env: &Env) -> Result<PathBuf> {
    std::env::split_paths(env.var_os("PATH").unwrap_or_default())
        .map(|dir| dir.join("git-agent"))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::fatal("git-agent is not on PATH"))
}

fn start(words: Vec<OsString>, variables: &BTreeMap<OsString, OsString>) -> Result<u8> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Error::usage("no command"))?;
    let status = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(variables)
        .status()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(255))
}

fn shown(value: &Option<Target>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Target::Object(id)) => id.to_string(),
        Some(Target::Symbolic(name)) => format!("ref:{name}"),
    }
}
