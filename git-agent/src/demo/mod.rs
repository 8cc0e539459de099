//! `git agent demo`: two agents change one small program at the same time, in a temporary repository.
//!
//! Every command is shown before it runs, and a user could type it. The demo checks each result, because a demo that
//! only looks right would be worse than none.

mod stage;

use crate::demo::stage::Stage;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::store::refname::SESSIONS;

/// The program that the agents work on.
const APP: &str = include_str!("todo.sh");
/// The agent of the demo.
const AGENT: &str = include_str!("shell-agent.sh");

/// One thing to show.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// Text of the narrator.
    Words(&'a str),
    /// A command before it runs.
    Command(&'a str),
    /// The output of a command.
    Output(&'a str),
}

/// Shows one thing to the user.
pub type Show<'a> = dyn FnMut(Shown<'_>) -> Result<()> + 'a;

/// Plays the demo. Removes everything at the end, even after an error, unless `keep` is set.
pub fn play(env: &Env, keep: bool, show: &mut Show<'_>) -> Result<()> {
    let mut stage = Stage::set(env, keep, show)?;
    let root = stage.root().display().to_string();
    stage.say(&format!(
        "A temporary repository in '{root}'. Nothing else is changed."
    ))?;
    begin(&mut stage)?;
    work(&mut stage)?;
    look(&mut stage)?;
    join(&mut stage)?;
    clean(&mut stage)?;
    if keep {
        stage.say(&format!(
            "The repository is kept: cd '{}'",
            stage.repo().display()
        ))?;
    }
    stage.strike()
}

/// Makes a small program whose data file is ignored by git.
fn begin(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.write("bin/shell-agent", AGENT, true)?;
    stage.write("work/todo/todo", APP, true)?;
    stage.write("work/todo/.gitignore", ".todo\n", false)?;
    stage.say(
        "The program is a todo list, written in shell. git ignores the file with the entries.",
    )?;
    stage.run("git init --quiet --initial-branch=main && git add . && git commit --quiet -m 'a todo list'")?;
    stage.run("./todo add buy milk && ./todo list && ./todo help")?;
    Ok(())
}

/// Runs two sessions at the same time; both change the same line.
fn work(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say(
        "Start two agents, each on its own branch in its own worktree. Both will change the usage line.",
    )?;
    stage.run(
        "git agent new --name wipe 'add a command that empties the list' -- shell-agent wipe",
    )?;
    stage.run("git agent new --name remaining 'add a command that counts the entries' -- shell-agent remaining")?;
    let worktrees = stage.run("git worktree list")?;
    expect(worktrees.lines().count() == 3, "three worktrees")?;
    stage.run("git agent list")?;
    stage
        .say("They work in the background. Wait for them, or watch them with: git agent log -f")?;
    stage.run("git agent wait --timeout 60s wipe remaining")?;
    let list = stage.run("git agent list")?;
    expect(
        list.matches("ready").count() >= 2,
        "two sessions that are ready",
    )
}

/// Shows the log, the changes and the state of the sessions.
fn look(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("The whole conversation is recorded in git objects.")?;
    stage.run("git agent log remaining")?;
    stage.run("git diff main agent/wipe")?;
    stage.say("Each worktree has its own copy of the program with its own data.")?;
    let states = stage.run("grep . .todo ../todo-worktrees/*/.todo")?;
    for one in [
        ".todo:buy milk",
        "wipe/.todo:show wipe",
        "remaining/.todo:show remaining",
    ] {
        expect(states.contains(one), "a state for each worktree")?;
    }
    Ok(())
}

/// Merges both into `main`, with a resolution that keeps both changes.
fn join(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("Only approved work is merged, exactly as it was approved. Both changed the same line, so the second one conflicts.")?;
    stage.run("git agent review approve wipe remaining")?;
    stage.run("git agent merge --into main --dry-run")?;
    stage.run("git agent merge --into main")?;
    stage.say(
        "An agent resolves the conflict; it gets the tasks of both sides. The result is accepted only if it keeps both changes.",
    )?;
    stage.run("git agent merge resolve --auto --yes remaining")?;
    stage.run("git diff main agent/remaining")?;
    stage.say("Review the resolution again. The result is tested before main moves.")?;
    stage.run("git agent review approve remaining")?;
    stage.run("git agent merge --test './todo help | grep wipe.*remaining' remaining")?;
    stage.run("git log --oneline --graph")?;
    let usage = stage.run("./todo help")?;
    expect(
        usage.contains("wipe | remaining)"),
        "a program with both commands",
    )?;
    let counted = stage.run("./todo remaining && ./todo wipe && ./todo remaining")?;
    expect(
        counted.contains("1 left") && counted.contains("0 left"),
        "commands that work",
    )
}

/// Removes everything but `main`.
fn clean(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("Everything is in main, so the worktrees and branches can be removed. They can be restored later.")?;
    stage.run("git agent clean")?;
    let worktrees = stage.run("git worktree list")?;
    expect(worktrees.lines().count() == 1, "only the main worktree")?;
    let branches = stage.run("git branch && git stash list && git status --short")?;
    expect(
        branches.trim() == "* main",
        "only main, no stash and no change",
    )?;
    let beside = stage.run("ls ..")?;
    expect(beside.trim() == "todo", "no folder but the repository")?;
    stage.say("The conversations stay in the repository:")?;
    stage.run(&format!(
        "git for-each-ref --format='%(refname) %(subject)' {SESSIONS}"
    ))?;
    Ok(())
}

fn expect(holds: bool, what: &str) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::fatal(format!("the demo expected {what}")).hint(
        "this is a bug in git-agent; keep the repository for inspection: git agent demo --keep",
    ))
}
