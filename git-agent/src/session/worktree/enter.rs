//! Runs the user's shell, editor or command in a session's worktree, with the agent's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agent::catalog::spec::AgentSpec;
use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_path, shell_word};
use crate::git::worktree::{self, Finding, Worktree};
use crate::model::session::Session;
use crate::session::caller::{self, Act};
use crate::session::create::choose_agent;
use crate::session::worktree::presence::Presence;
use crate::session::worktree::{setup, work};

/// Variables for the user at a terminal, which an agent does not get.
const PERSONAL: [&str; 14] = [
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_MERGE_AUTOEDIT",
    "GIT_PAGER",
    "GIT_TERMINAL_PROMPT",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "COLUMNS",
    "LINES",
];

/// Editors with windows of their own that open a directory, in the order in which they are looked for.
pub const EDITORS: [&str; 7] = [
    "code", "codium", "cursor", "windsurf", "zed", "subl", "idea",
];

/// A way into a worktree.
#[derive(Debug)]
pub struct EnterCommand {
    /// The top of the worktree.
    pub top: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    presence: Presence,
}

/// Returns a session's worktree, once it is certain that git would find the right repository in it.
///
/// An agent can write its worktree's `.git` file. One that names another repository makes git, and whatever asks git for
/// a prompt, read that repository's configuration, which can run commands.
pub fn require_worktree(context: &Context<'_>, session: &Session) -> Result<PathBuf> {
    certain(context, session).map(|found| found.path)
}

fn certain(context: &Context<'_>, session: &Session) -> Result<Worktree> {
    let missing = || work::no_worktree(context, session);
    let path = session.local.worktree.as_deref().map(Path::new);
    let path = path.ok_or_else(missing)?;
    let known = worktree::list(context.repo)?;
    let at_its_place = known
        .into_iter()
        .find(|worktree| !worktree.is_main() && worktree.path == path);
    let found = match at_its_place {
        Some(found) => found,
        None => work::moved(context, session)?.ok_or_else(missing)?,
    };
    match worktree::inspect(&found) {
        Finding::Missing => return Err(missing()),
        Finding::InPlace if worktree::shares_repository(context.repo, &found) => {}
        Finding::InPlace | Finding::Foreign => {
            let shown = path.display();
            return Err(Error::fatal(format!(
                "the '.git' file in '{shown}' does not lead to this repository: the repository was moved, or the agent changed it"
            ))
            .hint(format!(
                "read it before you use git there: cat {}",
                shell_path(&path.join(".git"))
            ))
            .hint(format!(
                "then repair it: git worktree repair {}",
                shell_path(path)
            )));
        }
    }
    Ok(found)
}

/// Returns the way into a session's worktree, if the caller may run something there.
pub fn enter(context: &Context<'_>, session: &Session) -> Result<EnterCommand> {
    caller::permit(context, Act::Enter, [session])?;
    let place = certain(context, session)?;
    let presence = Presence::enter(context, &place.admin_dir)?.ok_or_else(|| {
        let name = &session.name;
        Error::fatal(format!("the worktree of session '{name}' is being removed"))
            .hint(format!("git agent restore {}", shell_word(name)))
    })?;
    // Looked at again: it may have gone before we were in it.
    let top = require_worktree(context, session)?;
    // The user may enter even if the agent is not installed any more.
    let spec = choose_agent::of_session(&context.config, &context.store, session)
        .or_else(|_| AgentSpec::from_words(&["true".into()]))?;
    let mut environment = setup::environment(context, &spec, session)?;
    let env = context.env;
    if env.terminals.stdin {
        for name in PERSONAL {
            match env.var_os(name) {
                Some(value) => environment.insert(name.into(), value.to_owned()),
                None => environment.remove(OsStr::new(name)),
            };
        }
    }
    Ok(EnterCommand {
        top,
        environment,
        presence,
    })
}

impl EnterCommand {
    /// Becomes a program in the worktree, with the session's environment. Returns only when that fails.
    pub fn become_program(&self, words: &[OsString]) -> Error {
        let Some((program, rest)) = words.split_first() else {
            return Error::usage("no command given");
        };
        let mut command = Command::new(program);
        command.args(rest);
        self.exec(command, program)
    }

    /// Becomes a shell command with further words, which the command sees as its arguments.
    pub fn become_script(&self, script: &str, words: &[OsString]) -> Error {
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{script} \"$@\""))
            .arg("sh")
            .args(words);
        self.exec(command, OsStr::new(script))
    }

    /// Becomes the person's own shell.
    pub fn become_shell(&self) -> Error {
        let shell = self.environment.get(OsStr::new("SHELL"));
        let shell = shell.cloned().unwrap_or_else(|| "/bin/sh".into());
        self.become_program(&[shell])
    }

    fn exec(&self, mut command: Command, shown: &OsStr) -> Error {
        if let Err(error) = self.presence.pass_on() {
            return cannot_start(shown, error);
        }
        let error = command
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.top)
            .exec();
        cannot_start(shown, error)
    }
}

fn cannot_start(shown: &OsStr, error: std::io::Error) -> Error {
    let message = format!("cannot start '{}'", shown.to_string_lossy());
    // As in a shell: 127 for a missing program, 126 for one that cannot run.
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    Error::new(crate::error::Kind::Exit(code), message).because(error)
}

/// Returns the command line of the editor to open a worktree with: the configured one, one with windows of its own if
/// there is a screen, else the person's usual one.
pub fn editor(context: &Context<'_>) -> Result<String> {
    if let Some(command) = context.config.text(&settings::EDITOR) {
        return Ok(command);
    }
    let env = context.env;
    if env.var("DISPLAY").is_some() || env.var("WAYLAND_DISPLAY").is_some() {
        let found = EDITORS
            .into_iter()
            .find(|name| which::which_in(name, env.var_os("PATH"), &env.cwd).is_ok());
        if let Some(name) = found {
            return Ok(name.to_owned());
        }
    }
    let usual = env.var("VISUAL").or_else(|| env.var("EDITOR"));
    usual
        .map(str::to_owned)
        .ok_or_else(|| Error::fatal("no editor found").hint("git config agent.editor <command>"))
}

/// Returns the command that runs the project.
pub fn run_command(context: &Context<'_>) -> Result<String> {
    context.config.string("agent.run").ok_or_else(|| {
        Error::fatal("agent.run is not set: cannot run this project")
            .hint("git config agent.run \"<command>\"")
    })
}

/// Becomes an editor on a worktree, with the person's own environment. Returns only when that fails.
pub fn become_editor(entry: &EnterCommand, editor: &str) -> Error {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg("sh")
        .arg(&entry.top)
        .current_dir(&entry.top);
    // Windows need more of the person's surroundings than a session has; where git works is the worktree's business.
    for name in crate::env::GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    for name in [
        "WORKTREE_PATH",
        "REPO_PATH",
        "PORT",
        "COMPOSE_PROJECT_NAME",
        caller::MARK,
    ] {
        if let Some(value) = entry.environment.get(OsStr::new(name)) {
            command.env(name, value);
        }
    }
    cannot_start(OsStr::new(editor), command.exec())
}
