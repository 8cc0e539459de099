//! Runs the repository's own hooks around a merge, as `git merge` does, in a temporary worktree.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::fault;
use crate::git::snapshot::capture::Checkout;
use crate::git::worktree::temporary::Scratch;
use crate::git::{ObjectId, Repo};
use crate::merge::build::{Builder, Chain};
use crate::merge::testing;
use crate::model::merge::{Attempt, Style, Why};

/// Returns the hooks that a merge style runs before its commit, in order.
fn wanted(style: Style) -> &'static [&'static str] {
    match style {
        Style::NoFf => &["pre-merge-commit", "prepare-commit-msg", "commit-msg"],
        Style::Squash => &["pre-commit", "prepare-commit-msg", "commit-msg"],
        // git runs no commit hooks for these either.
        Style::Rebase | Style::FfOnly => &[],
    }
}

/// Runs the hooks for every commit of a chain, and makes the commits again whose message they changed. If a hook
/// refuses, names the candidate.
pub fn seal(
    context: &Context<'_>,
    builder: &Builder<'_>,
    chain: Chain,
    style: Style,
) -> Result<Attempt<Chain, (usize, Why)>> {
    let hooks: Vec<&str> = wanted(style)
        .iter()
        .copied()
        .filter(|name| is_there(context.repo, name))
        .collect();
    if hooks.is_empty() || chain.links.is_empty() {
        return Ok(Attempt::Made(chain));
    }
    let scratch = testing::scratch(context, chain.base)?;
    let squashing = style == Style::Squash;
    let sealed = seal_in(context.repo, builder, chain, (&hooks, squashing), &scratch);
    scratch.remove()?;
    sealed
}

fn seal_in(
    repo: &Repo,
    builder: &Builder<'_>,
    mut chain: Chain,
    hooks: (&[&str], bool),
    scratch: &Scratch<'_>,
) -> Result<Attempt<Chain, (usize, Why)>> {
    let mut onto = chain.base;
    for link in &mut chain.links {
        let tree = repo.tree_of(link.commit)?;
        let message = repo.read_commit(link.commit)?.message;
        scratch.go_to(onto)?;
        let at = &scratch.checkout;
        repo.git_at(&at.admin_dir, &at.top)
            .args(["read-tree", "-m", "-u"])
            .args([onto.to_string(), tree.to_string()])
            .run()?;
        let said = match run_all(repo, at, hooks, link.work, &message)? {
            Attempt::Made(said) => said,
            Attempt::Refused(why) => return Ok(Attempt::Refused((link.index, Why::Hook(why)))),
        };
        if said != message || onto != link.onto {
            link.commit = builder.commit(tree, onto, link.work, &said)?;
            link.made = vec![link.commit];
            link.onto = onto;
        }
        onto = link.commit;
        fault::point("merge.sealed").context(|| "cannot run hooks".into())?;
    }
    Ok(Attempt::Made(chain))
}

/// Runs hooks in a worktree with the merged files. Returns the message they leave, or the output of the hook that
/// refused.
fn run_all(
    repo: &Repo,
    at: &Checkout,
    (hooks, squashing): (&[&str], bool),
    work: ObjectId,
    message: &str,
) -> Result<Attempt<String, String>> {
    let file = at.admin_dir.join("MERGE_MSG");
    let cannot = || format!("cannot write '{}'", file.display());
    fs::write(&file, message).context(cannot)?;
    let head = at.admin_dir.join("MERGE_HEAD");
    if !squashing {
        fs::write(&head, format!("{work}\n")).context(cannot)?;
    }
    let mut refused = None;
    for hook in hooks {
        let mut git = repo
            .git_at(&at.admin_dir, &at.top)
            .with_hooks()
            .env("GIT_INDEX_FILE", at.admin_dir.join("index"))
            .env("GIT_EDITOR", ":")
            .args(["hook", "run", "--ignore-missing", hook]);
        git = match *hook {
            "prepare-commit-msg" if squashing => git.arg("--").arg(&file).arg("squash"),
            "prepare-commit-msg" => git.arg("--").arg(&file).arg("merge"),
            "commit-msg" => git.arg("--").arg(&file),
            _ => git,
        };
        let answer = git.answer()?;
        if answer.code != Some(0) {
            let mut text = String::from_utf8_lossy(&answer.stderr).into_owned();
            text.push_str(&String::from_utf8_lossy(&answer.stdout));
            let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            refused = Some(format!("{hook}: {}", last.unwrap_or("no message")));
            break;
        }
    }
    let said = fs::read(&file).context(|| format!("cannot read '{}'", file.display()))?;
    let _ = fs::remove_file(&head);
    let _ = fs::remove_file(&file);
    match refused {
        Some(said) => Ok(Attempt::Refused(said)),
        None => Ok(Attempt::Made(String::from_utf8_lossy(&said).into_owned())),
    }
}

/// Runs `post-merge` in every checkout of the target, as `git merge` does. Its exit code is ignored.
pub fn after(repo: &Repo, checkouts: &[Checkout], style: Style) {
    if !is_there(repo, "post-merge") {
        return;
    }
    let squashed = if style == Style::Squash { "1" } else { "0" };
    for at in checkouts {
        let _ = repo
            .git_at(&at.admin_dir, &at.top)
            .with_hooks()
            .args([
                "hook",
                "run",
                "--ignore-missing",
                "post-merge",
                "--",
                squashed,
            ])
            .answer();
    }
}

/// Returns whether git might run a hook for this event. Hooks can also come from the configuration (git 2.54), which
/// only git evaluates, so any `hook.*` section counts.
fn is_there(repo: &Repo, name: &str) -> bool {
    if !repo.config_subsections("hook").is_empty() {
        return true;
    }
    let path = hooks_dir(repo).join(name);
    fs::metadata(&path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn hooks_dir(repo: &Repo) -> PathBuf {
    let Some(path) = repo.config_path("core.hooksPath") else {
        return repo.common_dir().join("hooks");
    };
    match repo.main_work_tree() {
        Some(top) => top.join(path),
        None => Path::new(repo.common_dir()).join(path),
    }
}
