//! The changed files of a diff, for programs.

use std::ffi::OsString;

use serde::Serialize;

use crate::context::Context;
use crate::error::{Context as _, Error, Result};
use crate::model::review::Side;
use crate::model::review::path::to_text;
use crate::output::{Format, Ui, cannot_write, json, porcelain};
use crate::review::anchors::{Placed, Spot};
use crate::review::diff_scope::Compared;

/// A changed file.
#[derive(Debug, Serialize)]
struct ChangedFile {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_path: Option<String>,
    status: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    binary: bool,
    comments: usize,
}

/// Writes the files that differ, with how many threads hang on each.
pub fn write(
    context: &Context<'_>,
    ui: &Ui,
    paths: &[OsString],
    compared: &Compared,
    placed: &[Placed<'_>],
) -> Result<()> {
    let (old, new) = (compared.old, compared.new);
    let deltas = context.repo.deltas_in(old, new, paths)?;
    let counts = context.repo.numstat_in(old, new, paths)?;
    if deltas.len() != counts.len() {
        return Err(Error::fatal("git lists and counts different files"));
    }
    let rows = deltas
        .iter()
        .zip(&counts)
        .map(|(delta, counted)| ChangedFile {
            path: to_text(&delta.path),
            old_path: (delta.old_path != delta.path).then(|| to_text(&delta.old_path)),
            status: delta.status,
            added: counted.lines.map(|(added, _)| added),
            deleted: counted.lines.map(|(_, deleted)| deleted),
            binary: counted.lines.is_none(),
            comments: placed
                .iter()
                .filter(|placed| match &placed.spot {
                    Spot::File { path, side } | Spot::Lines { path, side, .. } => {
                        *path == delta.path || (*side == Side::Old && *path == delta.old_path)
                    }
                    _ => false,
                })
                .count(),
        });
    let Format::Porcelain { nul } = ui.format() else {
        return json::write_list(ui, "files", rows);
    };
    for (row, delta) in rows.zip(&deltas) {
        let number = |number: Option<u64>| match number {
            Some(number) => number.to_string().into_bytes(),
            None => b"-".to_vec(),
        };
        let fields = [
            row.status.to_string().into_bytes(),
            number(row.added),
            number(row.deleted),
            row.comments.to_string().into_bytes(),
            delta.path.clone(),
        ];
        porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
    }
    Ok(())
}
