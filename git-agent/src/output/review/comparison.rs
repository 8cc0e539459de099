//! Versions of the same task side by side, as tables, as diffs and for programs.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::ObjectId;
use crate::listing::review::comparison::{self, Touched, Version, all_paths, kind, touching};
use crate::listing::row::Summary;
use crate::model::known::Finding;
use crate::model::review::path::to_text;
use crate::output::review::emphasis::marked;
use crate::output::review::overview::spoken;
use crate::output::review::weave::{Manner, Weaver};
use crate::output::table::{Cell, Column, Table};
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::{Format, Ui, cannot_write, human, json, porcelain, sessions};

/// One of the sessions, for programs.
#[derive(Debug, Serialize)]
struct Known<'v> {
    #[serde(flatten)]
    summary: &'v Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<&'v str>,
}

/// A file in some of the versions, for programs.
#[derive(Debug, Serialize)]
struct FileRow<'v> {
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

/// Writes the figures and the files of some versions.
pub fn write(ui: &Ui, versions: &[Version]) -> Result<()> {
    let paths = all_paths(versions);
    match ui.format() {
        Format::Json => {
            let mut out = ui.out();
            let mut list = json::List::begin(&mut out, "files", ui.table_width().is_some())?;
            for path in &paths {
                list.item(&row(versions, path))?;
            }
            list.next("sessions")?;
            for version in versions {
                list.item(&Known {
                    summary: &version.summary,
                    tests: version.tests.as_deref(),
                })?;
            }
            list.end()
        }
        Format::Porcelain { nul } => paths.iter().try_for_each(|path| {
            let kind = kind(versions, path).to_owned().into_bytes();
            let names = touching(versions, path).map(|version| version.summary.id.as_str());
            let names = names.collect::<Vec<_>>().join(",").into_bytes();
            let fields = [kind, names, path.clone()];
            porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)
        }),
        Format::Human => {
            figures(ui, versions)?;
            files(ui, versions, &paths)
        }
    }
}

fn name(version: &Version) -> String {
    one_line(&version.summary.name).to_string()
}

fn row<'v>(versions: &'v [Version], path: &[u8]) -> FileRow<'v> {
    FileRow {
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

/// Writes the figures of each version.
fn figures(ui: &Ui, versions: &[Version]) -> Result<()> {
    let mut columns = vec![Column::new("")];
    columns.extend(
        versions
            .iter()
            .map(|version| Column::new(name(version)).shrinks_to(12).keeps_end()),
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
    line("cost", &|version| match version.summary.usage.cost_usd {
        // Versions of a small task differ by less than a cent.
        Some(cost) if cost < 1.0 => format!("${cost:.4}"),
        Some(cost) => format!("${cost:.2}"),
        None => String::new(),
    });
    line("tokens", &|version| {
        let usage = version.summary.usage;
        match (usage.input_tokens, usage.output_tokens) {
            (None, None) => String::new(),
            (input, output) => human::compact(input.unwrap_or(0) + output.unwrap_or(0)),
        }
    });
    line("time", &|version| sessions::elapsed(&version.summary));
    line("turns", &|version| version.summary.turns.to_string());
    line("files", &|version| version.files.len().to_string());
    line("lines", &|version| {
        let (added, deleted) = (lines(|(added, _)| added), lines(|(_, deleted)| deleted));
        format!("+{} −{}", added(version), deleted(version))
    });
    line("commits", &|version| match version.summary.ahead {
        Finding::Known(ahead) => ahead.to_string(),
        _ => String::new(),
    });
    line("tests", &|version| {
        version.tests.clone().unwrap_or_default()
    });
    line(
        "conflicts",
        &|version| match sessions::conflicts(&version.summary) {
            none if none.is_empty() => "none".to_owned(),
            some => some,
        },
    );
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
    ui.table(&table)
}

/// Writes which files each touched, and where they agree.
fn files(ui: &Ui, versions: &[Version], paths: &[Vec<u8>]) -> Result<()> {
    let mut columns = vec![Column::new("FILE").shrinks_to(16), Column::new("")];
    columns.extend(
        versions
            .iter()
            .map(|version| Column::new(name(version)).shrinks_to(12).keeps_end()),
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
                    }) => Cell::new(format!("+{added} −{deleted}")),
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

/// Shows how each version differs from the first, or with `interdiff` how its changes do.
pub fn write_diffs(
    context: &Context<'_>,
    ui: &Ui,
    versions: &[Version],
    interdiff: bool,
    stat: bool,
) -> Result<()> {
    let Some((first, others)) = versions.split_first() else {
        return Ok(());
    };
    for other in others {
        let old = if interdiff {
            moved(context, ui, first, other)?
        } else {
            first.work.tree
        };
        let heading = format!("{} → {}", name(first), name(other));
        writeln!(ui.out(), "{}", ui.palette().paint(Slot::Header, heading))
            .context(cannot_write)?;
        let color = if ui.palette().is_colored() {
            "--color=always"
        } else {
            "--color=never"
        };
        let mut options = vec![color.to_owned(), "-M".to_owned()];
        if stat {
            options.push(format!("--stat={}", ui.width()))
        } else {
            options.push("--patch-with-raw".to_owned())
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
        let program = if ui.palette().is_colored() {
            marked(program)
        } else {
            program
        };
        program.lines(&mut |line| {
            if stat {
                weaver.plain(line)?
            } else {
                weaver.line(line)?
            }
            Ok(true)
        })?;
        weaver.end()?;
    }
    Ok(())
}

/// Returns the files of one version as if it had begun where another did.
fn moved(context: &Context<'_>, ui: &Ui, version: &Version, other: &Version) -> Result<ObjectId> {
    if let Some(tree) = comparison::moved(context, version, other)? {
        return Ok(tree);
    }
    ui.warning(format!(
        "'{}' and '{}' have different bases that do not merge: all differences are shown",
        name(version),
        name(other)
    ));
    Ok(version.work.tree)
}
