//! Writes the index of a fresh worktree: version 2 entries and the `TREE` extension, nothing else.

use std::io::Write;
use std::path::Path;

use gix::hash;

use crate::error::{Context, Result};
use crate::git::worktree::checkout::plan::{CacheTree, CheckoutPlan, StatData};

/// Writes the index through `index.lock`, as every writer of an index does.
pub(crate) fn write(
    path: &Path,
    hash: hash::Kind,
    plan: &CheckoutPlan,
    stats: &[StatData],
) -> Result<()> {
    let bytes = serialize(hash, plan, stats)?;
    let lock = path.with_file_name("index.lock");
    let describe = || format!("cannot write '{}'", path.display());
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&lock)
        .context(describe)?;
    file.write_all(&bytes)
        .and_then(|()| std::fs::rename(&lock, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&lock);
        })
        .context(describe)
}

fn serialize(hash: hash::Kind, plan: &CheckoutPlan, stats: &[StatData]) -> Result<Vec<u8>> {
    let hash_length = hash.len_in_bytes();
    let fixed = 40 + hash_length + 2;
    let mut out = Vec::with_capacity(plan.entries.len() * (fixed + 64) + hash_length * 64);
    out.extend_from_slice(b"DIRC");
    out.extend_from_slice(&2u32.to_be_bytes());
    let count =
        u32::try_from(plan.entries.len()).context(|| "the tree has too many files".into())?;
    out.extend_from_slice(&count.to_be_bytes());
    for (entry, stat) in plan.entries.iter().zip(stats) {
        let path = plan.path(entry);
        for number in [
            stat.ctime.0,
            stat.ctime.1,
            stat.mtime.0,
            stat.mtime.1,
            stat.dev,
            stat.ino,
            entry.kind.index_mode(),
            stat.uid,
            stat.gid,
            stat.size,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(entry.id.as_bytes());
        // A length that does not fit twelve bits is stored as all ones; the reader then searches for the NUL.
        let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(path);
        let padding = 8 - (fixed + path.len()) % 8;
        out.extend_from_slice(&[0; 8][..padding]);
    }
    let mut tree = Vec::new();
    serialize_tree(&plan.tree, &mut tree);
    out.extend_from_slice(b"TREE");
    let length =
        u32::try_from(tree.len()).context(|| "the tree has too many directories".into())?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&tree);

    let mut hasher = hash::hasher(hash);
    hasher.update(&out);
    let digest = hasher
        .try_finalize()
        .context(|| "cannot hash the index".into())?;
    out.extend_from_slice(digest.as_bytes());
    Ok(out)
}

fn serialize_tree(tree: &CacheTree, out: &mut Vec<u8>) {
    out.extend_from_slice(&tree.name);
    out.push(0);
    out.extend_from_slice(format!("{} {}\n", tree.entries, tree.children.len()).as_bytes());
    out.extend_from_slice(tree.id.as_bytes());
    for child in &tree.children {
        serialize_tree(child, out);
    }
}
