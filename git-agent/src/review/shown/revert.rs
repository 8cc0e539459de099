//! Reverts a shown file, or one hunk of it, in the worktree of its session. A snapshot of the worktree is taken first, and
//! only the work that is shown is touched: if it has changed meanwhile, nothing is.

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::object::{Batch, EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::review::shown::{FILE_LIMIT, Shown, ShownHunk};
use crate::session::caller::{self, Act};
use crate::session::worktree::hold::while_still;
use crate::session::worktree::work;

/// The largest tree that is read.
const TREE_LIMIT: u64 = 64 << 20;

/// Reverts a file to the state before the shown changes, or one hunk of it.
pub fn revert(
    context: &Context<'_>,
    shown: &Shown,
    file: usize,
    hunk: Option<usize>,
) -> Result<()> {
    let session = &shown.origin()?.listed.session;
    caller::permit(context, Act::Restore, [session])?;
    while_still(context, session, || still(context, shown, file, hunk))
}

fn still(context: &Context<'_>, shown: &Shown, file: usize, hunk: Option<usize>) -> Result<()> {
    let origin = shown.origin()?;
    let (repo, session) = (context.repo, &origin.listed.session);
    let at = work::require_checkout(context, session)?;
    let taken = context
        .store
        .take_snapshot(session.sid, None, "before revert", &at)?;
    let now = repo.read_snapshot(taken.id)?;
    let name = &session.name;
    if now.tree != origin.work.tree || origin.new != origin.work.tree {
        return Err(Error::negative(format!(
            "session '{name}' has changed since it was shown, or only a part of it is shown"
        ))
        .hint(format!("git agent review diff {}", shell_word(name))));
    }
    let changed = &shown.files[file];
    let mut batch = repo.batch();
    let old_path = changed.old_path.as_deref().unwrap_or(&changed.path);
    let before = repo.entry_at(origin.old, old_path)?;
    let mut tree = now.tree;
    match hunk {
        Some(hunk) => {
            let entry = repo.entry_at(now.tree, &changed.path)?.ok_or_else(|| {
                Error::fatal("a deleted file is reverted as a whole, not by hunks")
            })?;
            let text = repo.read_object(entry.id, ObjectKind::Blob, FILE_LIMIT)?;
            let id = batch.blob(without(&text, &changed.hunks[hunk])?);
            tree = replaced(
                repo,
                &mut batch,
                Some(tree),
                &changed.path,
                Some((entry.kind, id)),
            )?;
        }
        None => {
            if changed.old_path.is_some() {
                tree = replaced(repo, &mut batch, Some(tree), &changed.path, None)?;
                repo.write_batch(&batch)?;
            }
            let entry = before.map(|entry| (entry.kind, entry.id));
            tree = replaced(repo, &mut batch, Some(tree), old_path, entry)?;
        }
    }
    repo.write_batch(&batch)?;
    let mut to = now.clone();
    to.tree = tree;
    let is_touched = |path: &[u8]| path == changed.path || path == old_path;
    to.raw.retain(|raw| !is_touched(&raw.path));
    repo.restore(&at, &to, Some(&now))?;
    Ok(())
}

/// Returns a text without the changes of a hunk.
fn without(text: &[u8], hunk: &ShownHunk) -> Result<Vec<u8>> {
    let changed = || Error::negative("the file is not as it is shown");
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let first = hunk.lines.iter().find_map(|line| line.new);
    let count = hunk.lines.iter().filter(|line| line.new.is_some()).count();
    // A hunk that leaves nothing stands for the whole file.
    let start = first.map_or(0, |first| first as usize - 1);
    let own = lines.get(start..start + count).ok_or_else(changed)?;
    let mut out: Vec<u8> = lines[..start].concat();
    let mut new = own.iter();
    for line in &hunk.lines {
        if line.new.is_some() {
            let known = new.next().ok_or_else(changed)?;
            if known.strip_suffix(b"\n").unwrap_or(known) != line.text {
                return Err(changed());
            }
        }
        if line.old.is_some() {
            out.extend_from_slice(&line.text);
            if !line.is_cut {
                out.push(b'\n');
            }
        }
    }
    out.extend(lines[start + count..].concat());
    Ok(out)
}

/// Returns a tree in which one path has another entry, or none. The new trees are added to the batch.
fn replaced(
    repo: &Repo,
    batch: &mut Batch,
    tree: Option<ObjectId>,
    path: &[u8],
    entry: Option<(EntryKind, ObjectId)>,
) -> Result<ObjectId> {
    let mut entries = match tree {
        Some(tree) => repo.read_tree(tree, TREE_LIMIT)?,
        None => Vec::new(),
    };
    let (name, rest) = match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    };
    let known = entries.iter().position(|entry| entry.name == name);
    let known = known.map(|at| entries.remove(at));
    let new = match rest {
        None => entry,
        Some(rest) => {
            let folder = known.filter(|known| known.kind == EntryKind::Tree);
            let below = folder.map(|folder| folder.id);
            let below = replaced(repo, batch, below, rest, entry)?;
            // git has no empty folders.
            (below != repo.empty_tree_id()).then_some((EntryKind::Tree, below))
        }
    };
    entries.extend(new.map(|(kind, id)| TreeEntry {
        name: name.to_vec(),
        kind,
        id,
    }));
    Ok(batch.tree(entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::shown::ShownLine;

    fn line(old: Option<u32>, new: Option<u32>, text: &str, is_cut: bool) -> ShownLine {
        ShownLine {
            old,
            new,
            text: text.into(),
            is_cut,
        }
    }

    #[test]
    fn a_hunk_is_taken_back() {
        let hunk = ShownHunk {
            heading: Vec::new(),
            lines: vec![
                line(Some(2), Some(2), "b", false),
                line(Some(3), None, "old", false),
                line(None, Some(3), "new", false),
                line(None, Some(4), "newer", false),
            ],
        };
        let back = without(b"a\nb\nnew\nnewer\nend", &hunk).expect("it fits");
        assert_eq!(back, b"a\nb\nold\nend");
        assert!(without(b"a\nb\nother\nnewer\n", &hunk).is_err());
        assert!(without(b"a\n", &hunk).is_err());
    }

    #[test]
    fn the_end_of_a_file_stays_as_it_was() {
        let hunk = ShownHunk {
            heading: Vec::new(),
            lines: vec![
                line(Some(1), None, "x", true),
                line(None, Some(1), "x", false),
            ],
        };
        assert_eq!(without(b"x\n", &hunk).expect("it fits"), b"x");
        let emptied = ShownHunk {
            heading: Vec::new(),
            lines: vec![line(Some(1), None, "x", false)],
        };
        assert_eq!(without(b"", &emptied).expect("it fits"), b"x\n");
    }
}
