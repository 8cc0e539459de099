//! `git agent review compare`: versions of the same task side by side, and what to type to take one.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::git::ObjectId;
use git_agent::git::merge::Merged;
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::listing::row::{self, Summary};
use git_agent::merge::bisect::Colour;
use git_agent::merge::testing;
use git_agent::model::known::Finding;
use git_agent::model::review::path::to_text;
use git_agent::output::review::emphasis::marked;
use git_agent::output::review::weave::{Manner, Weaver};
use git_agent::output::table::{Cell, Column, Table};
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::terminal::style::Slot;
use git_agent::output::{Format, Ui, cannot_write, json, porcelain, sessions};
use git_agent::selection::{self, Selection};
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::{Listed, Scope};
use serde::Serialize;

use crate::overview::spoken;

#[derive(Debug, Args)]
pub struct Compare {
    /// The sessions, at least two, or the name of a group
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// The sessions of a group
    #[arg(long, value_name = "GROUP", conflicts_with = "sessions")]
    group: Option<String>,
    /// Show how each differs from the first
    #[arg(long, group = "how")]
    diff: bool,
    /// Show how the changes of each differ from those of the first, as if all had begun at the same place
    #[arg(long, group = "how")]
    interdiff: bool,
    /// With --diff or --interdiff: only how many lines differ in each file
    #[arg(long, requires = "how")]
    stat: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// One of the sessions.
struct Version {
    summary: Summary,
    work: Work,
    /// Changed files: what each is now, and the lines added and deleted.
    files: BTreeMap<Vec<u8>, Touched>,
    /// What the tests said, if they ran on this.
    tests: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Touched {
    id: Option<ObjectId>,
    mode: u32,
    lines: Option<(u64, u64)>,
}

/// One of the sessions, for machines.
#[derive(Debug, Serialize)]
struct Known<'v> {
    #[serde(flatten)]
    summary: &'v Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<&'v str>,
}

/// A file in some of the versions, for machines.
#[derive(Debug, Serialize)]
struct Row<'v> {
    path: String,
    /// `same`, `different` or `only`.
    kind: &'static str,
    sessions: BTreeMap<&'v str, Lines>,
}

#[derive(Debug, Serialize)]
struct Lines {
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Compare) -> Result<u8> {
    let mut options = args.output.options();
    options.pager = args.diff || args.interdiff;
    in_repo::run(env, options, |context, ui| {
        let versions = versions(context, args)?;
        let paths = all_paths(&versions);
        match ui.format() {
            Format::Json => {
                let mut out = ui.out();
                let mut list = json::List::begin(&mut out, "files", ui.table_width().is_some())?;
                for path in &paths {
                    list.item(&row(&versions, path))?;
                }
                list.next("sessions")?;
                for version in &versions {
                    list.item(&Known {
                        summary: &version.summary,
                        tests: version.tests.as_deref(),
                    })?;
                }
                list.end()?;
            }
            Format::Porcelain { nul } => {
                for path in &paths {
                    let kind = kind(&versions, path).to_owned().into_bytes();
                    let names =
                        touching(&versions, path).map(|version| version.summary.id.as_str());
                    let names = names.collect::<Vec<_>>().join(",").into_bytes();
                    porcelain::write_record(&mut ui.out(), nul, [kind, names, path.clone()])
                        .context(cannot_write)?;
                }
            }
            Format::Human if args.diff || args.interdiff => diffs(context, ui, args, &versions)?,
            Format::Human => {
                figures(ui, &versions)?;
                files(ui, &versions, &paths)?;
                next_steps(ui, &versions);
            }
        }
        Ok(0)
    })
}

fn versions(context: &Context<'_>, args: &Compare) -> Result<Vec<Version>> {
    let mut selection = Selection {
        names: args.sessions.clone(),
        group: args.group.clone(),
        ..Selection::default()
    };
    if let [name] = args.sessions.as_slice()
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
        return Err(Error::usage("it takes two sessions to compare"));
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
        // Machines are told what people see below, where a renamed file is one.
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

/// Returns what the tests said of a version: of its files as they are, or of what it becomes in the branch it came from.
fn tests(context: &Context<'_>, summary: &Summary, work: &Work) -> Option<String> {
    let word = |colour: Colour| match colour {
        Colour::Green => "passed",
        Colour::Red(_) | Colour::Late(_) => "failed",
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
    Some(format!("{} in {}", word(colour), one_line(parent)))
}

/// Says what to type to take one. Only of a group one is picked: that closes the others.
fn next_steps(ui: &Ui, versions: &[Version]) {
    let group = versions[0].summary.group.as_deref();
    let together = group.is_some()
        && versions
            .iter()
            .all(|version| version.summary.group.as_deref() == group);
    for version in versions.iter().filter(|version| version.summary.mine) {
        let name = shell_word(&version.summary.name);
        if version.summary.verdict.known().map(String::as_str) != Some("approve") {
            ui.hint(format!("git agent review approve {name}"));
        }
        match (together, version.summary.parent.as_deref()) {
            (true, _) => ui.hint(format!("git agent merge --pick {name}")),
            (false, Some(into)) => {
                ui.hint(format!(
                    "git agent merge --into {} {name}",
                    shell_word(into)
                ));
            }
            (false, None) => ui.hint(format!("git agent merge {name}")),
        }
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

fn name(version: &Version) -> String {
    one_line(&version.summary.name).to_string()
}

fn all_paths(versions: &[Version]) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = versions
        .iter()
        .flat_map(|version| version.files.keys().cloned())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn touching<'v>(versions: &'v [Version], path: &'v [u8]) -> impl Iterator<Item = &'v Version> {
    versions
        .iter()
        .filter(move |version| version.files.contains_key(path))
}

fn kind(versions: &[Version], path: &[u8]) -> &'static str {
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

fn row<'v>(versions: &'v [Version], path: &[u8]) -> Row<'v> {
    Row {
        path: to_text(path),
        kind: kind(versions, path),
        sessions: versions
            .iter()
            .filter_map(|version| {
                let lines = version.files.get(path)?.lines;
                let lines = Lines {
                    added: lines.map(|(added, _)| added),
                    deleted: lines.map(|(_, deleted)| deleted),
                };
                Some((version.summary.id.as_str(), lines))
            })
            .collect(),
    }
}

/// Writes what can be said in a word about each.
fn figures(ui: &Ui, versions: &[Version]) -> Result<()> {
    let mut columns = vec![Column::new("")];
    columns.extend(
        versions
            .iter()
            .map(|version| Column::new(name(version)).shrinks_to(8).keeps_end()),
    );
    let mut table = Table::new(columns);
    let mut line = |label: &str, value: &dyn Fn(&Version) -> String| {
        let mut cells = vec![Cell::new(label).in_color(Slot::Dim)];
        let values: Vec<String> = versions.iter().map(value).collect();
        if values.iter().all(String::is_empty) {
            return;
        }
        cells.extend(values.into_iter().map(Cell::new));
        table.row(cells);
    };
    // Counted from the files below, where a renamed one is one file.
    let lines = |part: fn((u64, u64)) -> u64| {
        move |version: &Version| {
            let counts = version.files.values().filter_map(|touched| touched.lines);
            counts.map(part).sum::<u64>().to_string()
        }
    };
    line("state", &|version| {
        version.summary.state.as_str().to_owned()
    });
    line("agent", &|version| sessions::agent(&version.summary));
    line("files", &|version| version.files.len().to_string());
    line("added", &lines(|(added, _)| added));
    line("deleted", &lines(|(_, deleted)| deleted));
    line("commits", &|version| match version.summary.ahead {
        Finding::Known(ahead) => ahead.to_string(),
        _ => String::new(),
    });
    line(
        "uncommitted",
        &|version| match version.summary.changes.known() {
            Some(changes) if changes.uncommitted > 0 => changes.uncommitted.to_string(),
            _ => String::new(),
        },
    );
    line("tests", &|version| {
        version.tests.clone().unwrap_or_default()
    });
    line(
        "comments",
        &|version| match version.summary.comments.known() {
            Some(comments) => format!("{} open", comments.open),
            None => String::new(),
        },
    );
    line("verdict", &|version| {
        let known = version.summary.verdict.known().map(String::as_str);
        known.map(spoken).unwrap_or_default().to_owned()
    });
    line("turns", &|version| version.summary.turns.to_string());
    line("time", &|version| sessions::elapsed(&version.summary));
    line("tokens", &|version| {
        let usage = version.summary.usage;
        match (usage.input_tokens, usage.output_tokens) {
            (None, None) => String::new(),
            (input, output) => (input.unwrap_or(0) + output.unwrap_or(0)).to_string(),
        }
    });
    line("cost", &|version| match version.summary.usage.cost_usd {
        // Versions of a small task differ by less than a cent.
        Some(cost) if cost < 1.0 => format!("${cost:.4}"),
        Some(cost) => format!("${cost:.2}"),
        None => String::new(),
    });
    ui.table(&table)
}

/// Writes which files each touched, and where they agree.
fn files(ui: &Ui, versions: &[Version], paths: &[Vec<u8>]) -> Result<()> {
    let mut columns = vec![Column::new("FILE").shrinks_to(16), Column::new("")];
    columns.extend(
        versions
            .iter()
            .map(|version| Column::new(name(version)).shrinks_to(8).keeps_end()),
    );
    let mut table = Table::new(columns);
    for path in paths {
        let kind = kind(versions, path);
        let slot = if kind == "same" {
            Slot::Dim
        } else {
            Slot::Waiting
        };
        let mut cells = vec![Cell::new(path), Cell::new(kind).in_color(slot)];
        cells.extend(
            versions
                .iter()
                .map(|version| match version.files.get(path) {
                    None => Cell::default(),
                    Some(Touched {
                        lines: Some((added, deleted)),
                        ..
                    }) => Cell::new(format!("+{added} -{deleted}")),
                    Some(_) => Cell::new("binary"),
                }),
        );
        table.row(cells);
    }
    if !table.is_empty() {
        writeln!(ui.out()).context(cannot_write)?;
    }
    ui.table(&table)
}

/// Shows how each differs from the first.
fn diffs(context: &Context<'_>, ui: &Ui, args: &Compare, versions: &[Version]) -> Result<()> {
    let Some((first, others)) = versions.split_first() else {
        return Ok(());
    };
    for other in others {
        let old = match args.interdiff {
            false => first.work.tree,
            true => moved(context, ui, first, other)?,
        };
        let heading = format!("{} → {}", name(first), name(other));
        writeln!(ui.out(), "{}", ui.palette().paint(Slot::Header, heading))
            .context(cannot_write)?;
        let color = match ui.palette().is_colored() {
            true => "--color=always",
            false => "--color=never",
        };
        let mut options = vec![color.to_owned(), "-M".to_owned()];
        match args.stat {
            true => options.push(format!("--stat={}", ui.width())),
            false => options.push("--patch-with-raw".to_owned()),
        }
        let manner = Manner {
            on_screen: ui.table_width().is_some(),
            colored: ui.palette().is_colored(),
            emphasis: ui.palette().is_colored(),
            words: false,
        };
        let new = other.work.tree;
        let attributes = context.repo.tree_of(first.work.base)?;
        let mut weaver = Weaver::new(context, ui, &[], manner);
        let program = (context.repo).diff_program(attributes, (old, new), &options, &[])?;
        let program = match ui.palette().is_colored() {
            true => marked(program),
            false => program,
        };
        program.lines(&mut |line| {
            match args.stat {
                true => weaver.plain(line)?,
                false => weaver.line(line)?,
            }
            Ok(true)
        })?;
        weaver.end()?;
    }
    Ok(())
}

/// Returns the files of one version as if it had begun where another did.
fn moved(context: &Context<'_>, ui: &Ui, version: &Version, other: &Version) -> Result<ObjectId> {
    let work = &version.work;
    if work.base == other.work.base {
        return Ok(work.tree);
    }
    let whole = context
        .repo
        .commit_tree(work.tree, &[work.base], "a version\n")?;
    match context.repo.merge_commits(other.work.base, whole)? {
        Merged::Clean(tree) => Ok(tree),
        Merged::Conflict(_) => {
            ui.warning(format!(
                "'{}' and '{}' began at different places that do not fit together: all differences are shown",
                name(version),
                name(other)
            ));
            Ok(work.tree)
        }
    }
}
