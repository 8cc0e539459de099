//! Versions of the same task side by side: their figures, their changed files, and the commands that merge one.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::ObjectId;
use crate::git::merge::Merged;
use crate::listing::row::{self, Summary};
use crate::merge::bisect::TestColour;
use crate::merge::testing;
use crate::model::known::Finding;
use crate::selection::{self, Selection};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::{Listed, Scope};

/// One of the sessions.
#[derive(Debug)]
pub struct Version {
    /// Its row.
    pub summary: Summary,
    pub work: Work,
    /// Changed files: what each is now, and the lines added and deleted.
    pub files: BTreeMap<Vec<u8>, Touched>,
    /// The result of the tests, if they ran on this.
    pub tests: Option<String>,
}

/// A file that a version changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The object; nothing where the file is gone.
    pub id: Option<ObjectId>,
    pub mode: u32,
    /// The lines added and deleted; nothing for a binary file.
    pub lines: Option<(u64, u64)>,
}

/// Returns the versions to compare: sessions by name, or those of a group.
pub fn versions(
    context: &Context<'_>,
    sessions: &[String],
    group: Option<&str>,
) -> Result<Vec<Version>> {
    let mut selection = Selection {
        names: sessions.to_vec(),
        group: group.map(str::to_owned),
        ..Selection::default()
    };
    if let [name] = sessions
        && is_only_a_group(context, name)?
    {
        selection.group = Some(name.clone());
        selection.names.clear();
    }
    if selection.is_empty() {
        return Err(
            Error::usage("nothing to compare").hint("git agent review compare SESSION SESSION")
        );
    }
    let chosen = selection::select(context, &selection)?;
    if chosen.len() < 2 {
        return Err(Error::usage("name at least two sessions to compare"));
    }
    let rows = row::summarize(context, &chosen);
    let mut versions = Vec::with_capacity(chosen.len());
    for (listed, summary) in chosen.iter().zip(rows) {
        let work = work::look(context, listed, Keep::Nothing)?;
        let deltas = context.repo.deltas(work.base, work.tree)?;
        let counts: BTreeMap<Vec<u8>, _> = context
            .repo
            .numstat(context.repo.tree_of(work.base)?, work.tree)?
            .into_iter()
            .map(|counted| (counted.path, counted.lines))
            .collect();
        let files: BTreeMap<Vec<u8>, Touched> = deltas
            .into_iter()
            .map(|delta| {
                let lines = counts.get(&delta.path).copied().flatten();
                let touched = Touched {
                    id: delta.new_id,
                    mode: delta.new_mode,
                    lines,
                };
                (delta.path, touched)
            })
            .collect();
        // Programs get the same list as users: a renamed file counts once.
        let mut summary = summary;
        if let Finding::Known(changes) = &mut summary.changes {
            let counts = || files.values().filter_map(|touched| touched.lines);
            changes.files = files.len() as u64;
            changes.added = counts().map(|(added, _)| added).sum();
            changes.deleted = counts().map(|(_, deleted)| deleted).sum();
        }
        versions.push(Version {
            tests: tests(context, &summary, &work),
            summary,
            work,
            files,
        });
    }
    Ok(versions)
}

/// Returns the check result of a version: of its files, or of its merge into the parent.
fn tests(context: &Context<'_>, summary: &Summary, work: &Work) -> Option<String> {
    let word = |colour: TestColour| match colour {
        TestColour::Green => "passed",
        TestColour::Red(_) | TestColour::Late(_) => "failed",
    };
    if let Some(colour) = testing::known(context, work.tree) {
        return Some(word(colour).to_owned());
    }
    let parent = summary.parent.as_deref()?;
    let tip = context.repo.branch_tip(parent).ok()??;
    if tip == work.base || !work.is_committed() {
        return None;
    }
    let Ok(Merged::Clean(tree)) = context.repo.merge_commits(tip, work.tip) else {
        return None;
    };
    let colour = testing::known(context, tree)?;
    Some(format!("{} in {parent}", word(colour)))
}

/// Returns the commands that take one, at most two. Only of a group one is picked: that closes the others. The best
/// version is named: one whose tests passed, that does not conflict, and that is approved.
pub fn next_steps(versions: &[Version]) -> Vec<String> {
    let group = versions[0].summary.group.as_deref();
    let together = group.is_some()
        && versions
            .iter()
            .all(|version| version.summary.group.as_deref() == group);
    let approved =
        |version: &Version| version.summary.verdict.known().map(String::as_str) == Some("approve");
    let mine = versions.iter();
    let mine = mine.filter(|version| version.summary.mine && !version.files.is_empty());
    let best = mine.min_by_key(|version| {
        let passed = version
            .tests
            .as_deref()
            .is_some_and(|word| word.starts_with("passed"));
        let conflicts = version.summary.conflicts.known();
        let clean = conflicts.is_none_or(Vec::is_empty);
        (!passed, !clean, !approved(version))
    });
    let Some(best) = best else {
        return Vec::new();
    };
    let name = shell_word(&best.summary.name);
    let merge = match (together, best.summary.parent.as_deref()) {
        (true, _) => format!("git agent merge --pick {name}    and close the others"),
        (false, Some(into)) => format!("git agent merge --into {} {name}", shell_word(into)),
        (false, None) => format!("git agent merge {name}"),
    };
    if approved(best) {
        vec![merge]
    } else {
        vec![format!("git agent review approve {name}"), merge]
    }
}

/// Returns whether a name means a group and no session: versions are called after their group.
fn is_only_a_group(context: &Context<'_>, name: &str) -> Result<bool> {
    let listing = context.store.list(Scope::Mine)?;
    let grouped = |listed: &Listed| listed.session.group.as_deref() == Some(name);
    Ok(listing.sessions.iter().any(grouped)
        && !listing
            .sessions
            .iter()
            .any(|listed| listed.session.name == name))
}

/// Returns the files that any version changed.
pub fn all_paths(versions: &[Version]) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = versions
        .iter()
        .flat_map(|version| version.files.keys().cloned())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the versions that changed a file.
pub fn touching<'v>(versions: &'v [Version], path: &'v [u8]) -> impl Iterator<Item = &'v Version> {
    versions
        .iter()
        .filter(move |version| version.files.contains_key(path))
}

/// Returns how versions agree on a file: `only` one has changed it, all have it the `same`, or `different`.
pub fn kind(versions: &[Version], path: &[u8]) -> &'static str {
    let mut found = touching(versions, path).filter_map(|version| version.files.get(path));
    let Some(first) = found.next() else {
        return "only";
    };
    let rest: Vec<&Touched> = found.collect();
    match rest.as_slice() {
        [] => "only",
        rest if rest
            .iter()
            .all(|other| (other.id, other.mode) == (first.id, first.mode)) =>
        {
            "same"
        }
        _ => "different",
    }
}

/// Returns the files of one version as if it had begun where another did; nothing where those do not fit together.
pub fn moved(
    context: &Context<'_>,
    version: &Version,
    other: &Version,
) -> Result<Option<ObjectId>> {
    let work = &version.work;
    if work.base == other.work.base {
        return Ok(Some(work.tree));
    }
    let whole = context
        .repo
        .commit_tree(work.tree, &[work.base], "a version\n")?;
    Ok(match context.repo.merge_commits(other.work.base, whole)? {
        Merged::Clean(tree) => Some(tree),
        Merged::Conflict(_) => None,
    })
}
