//! `git agent install`: programs, manual and completion under a prefix.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Result, shell_path};
use git_agent::install::{self, Done, File, settings};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Options, Ui};
use git_agent::review::git_notes;

#[derive(Debug, Args)]
pub struct Install {
    /// The prefix (default: the parent of this program's directory if that is a 'bin', else ~/.local)
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Remove the installed files
    #[arg(long)]
    uninstall: bool,
    /// Replace or remove files even if the user or another program made or changed them
    #[arg(short, long)]
    force: bool,
    /// Also show reviews in 'git log --notes=agents/review', in all repositories
    #[arg(long)]
    display_notes: bool,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Install) -> Result<u8> {
    let ui = Ui::new(env, Options::default(), &|_| None)?;
    let prefix = match &args.prefix {
        Some(prefix) => env.absolute(prefix),
        None => install::default_prefix(env)?,
    };
    let files = if args.uninstall {
        install::uninstall(&prefix, args.force)?
    } else {
        install::install(&prefix, args.force)?
    };
    for File { path, done } in &files {
        let verb = match done {
            Done::Written => "installed",
            Done::Same => "unchanged",
            Done::Removed => "removed",
            Done::Kept => "kept, because it was changed:",
        };
        let path = path.to_string_lossy();
        writeln!(ui.out(), "{verb} {}", one_line(path.as_bytes()))?;
    }
    if args.display_notes {
        show_notes(env, &ui, !args.uninstall)?;
    }
    if !args.uninstall {
        advise(env, &ui, &prefix);
        let command = if args.display_notes {
            "git log --notes=agents/review    read reviews beside the commits"
        } else {
            "git agent install --display-notes    show reviews in 'git log' too"
        };
        ui.hint(command);
    }
    ui.finish()?;
    Ok(0)
}

/// Sets for all repositories whether reviews are rendered for plain git, and does so at once in this one.
fn show_notes(env: &Env, ui: &Ui, shown: bool) -> Result<()> {
    if !settings::show_notes(env, shown)? {
        return Ok(());
    }
    let verb = if shown { "set" } else { "unset" };
    writeln!(
        ui.out(),
        "{verb} {} in the global configuration",
        git_notes::KEY
    )?;
    Ok(())
}

/// Prints the steps that are left until git and the shell find the installed files.
fn advise(env: &Env, ui: &Ui, prefix: &Path) {
    let bin = prefix.join("bin");
    let on_path =
        std::env::split_paths(env.var_os("PATH").unwrap_or_default()).any(|dir| dir == bin);
    if on_path {
        ui.hint("git help agent    read the manual");
    } else {
        ui.warning(format!(
            "'{}' is not on PATH, so git will not find it",
            bin.display()
        ));
        ui.hint(format!(
            "add this to your shell's profile: export PATH={}:\"$PATH\"",
            shell_path(&bin)
        ));
    }
    let functions = prefix.join("share/zsh/site-functions");
    if env.var("SHELL").is_some_and(|shell| shell.ends_with("zsh")) {
        ui.hint(format!(
            "for zsh, before compinit in .zshrc: fpath=({} $fpath)",
            shell_path(&functions)
        ));
    }
}
