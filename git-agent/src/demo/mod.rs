//! `git agent demo`: two agents on one small program at the same time, played in a repository that is thrown away.
//!
//! Every command is shown before it runs and is one that a person could type. What it must have achieved is looked at
//! afterwards: a demonstration that only looks right is worse than none.

mod stage;

use crate::demo::stage::Stage;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::store::refname::SESSIONS;

/// The program that the agents work on.
const APP: &str = include_str!("todo.sh");
/// The agent.
const AGENT: &str = include_str!("shell-agent.sh");

/// One thing to show.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// Words of the narrator.
    Words(&'a str),
    /// A command about to be run.
    Command(&'a str),
    /// What it printed.
    Output(&'a str),
}

/// Where everything is shown.
pub type Show<'a> = dyn FnMut(Shown<'_>) -> Result<()> + 'a;

/// Plays the demonstration. Unless `keep`, nothing of it is left, however it ends.
pub fn play(env: &Env, keep: bool, show: &mut Show<'_>) -> Result<()> {
    let mut stage = Stage::set(env, keep, show)?;
    let root = stage.root().display().to_string();
    stage.say(&format!(
        "A repository of its own in '{root}'. Nothing outside is touched."
    ))?;
    begin(&mut stage)?;
    work(&mut stage)?;
    look(&mut stage)?;
    join(&mut stage)?;
    clean(&mut stage)?;
    if keep {
        stage.say(&format!("It is kept: cd '{}'", stage.repo().display()))?;
    }
    stage.strike()
}

/// A small program with a gitignored state.
fn begin(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.write("bin/shell-agent", AGENT, true)?;
    stage.write("work/todo/todo", APP, true)?;
    stage.write("work/todo/.gitignore", ".todo\n", false)?;
    stage.say(
        "A todo list as a shell script. What is to be done stays in a file that git ignores.",
    )?;
    stage.run("git init --quiet --initial-branch=main && git add . && git commit --quiet -m 'a todo list'")?;
    stage.run("./todo add buy milk && ./todo list && ./todo help")?;
    Ok(())
}

/// Two sessions at the same time, both changing the same line.
fn work(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say(
        "Two agents, each on a branch in a worktree of its own. Both will change the usage line.",
    )?;
    stage.run(
        "git agent new --name wipe 'add a command that empties the list' -- shell-agent wipe",
    )?;
    stage.run("git agent new --name remaining 'add a command that counts what is left' -- shell-agent remaining")?;
    let worktrees = stage.run("git worktree list")?;
    expect(worktrees.lines().count() == 3, "three worktrees")?;
    stage.run("git agent list")?;
    stage.say("They work in the background; this terminal is free. One can wait for them, or watch: git agent log -f")?;
    stage.run("git agent wait --timeout 60s wipe remaining")?;
    let list = stage.run("git agent list")?;
    expect(
        list.matches("ready").count() >= 2,
        "two sessions that are ready",
    )
}

/// What they said, changed and left.
fn look(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("Every word and every step was recorded, as git objects.")?;
    stage.run("git agent log remaining")?;
    stage.run("git diff main agent/wipe")?;
    stage.say("Each has its own copy of the program running on its own state.")?;
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

/// Both in `main`, with the conflict resolved so that both changes stay.
fn join(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("Only what somebody approved goes in, exactly as it was then. Both changed the same line, so one will have to wait.")?;
    stage.run("git agent review approve wipe remaining")?;
    stage.run("git agent merge --into main --dry-run")?;
    stage.run("git agent merge --into main")?;
    stage.say(
        "An agent resolves the conflict, told what both sides wanted. It is believed only if both are still there.",
    )?;
    stage.run("git agent merge resolve --auto --yes remaining")?;
    stage.run("git diff main agent/remaining")?;
    stage
        .say("What was resolved is looked at again, and the result is tested before main moves.")?;
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

/// Nothing left but `main`.
fn clean(stage: &mut Stage<'_, '_>) -> Result<()> {
    stage.say("All of it is in main, so the worktrees and branches can go. What is removed can be restored.")?;
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
        "this is a bug in git-agent; git agent demo --keep leaves everything to be looked at",
    ))
}
