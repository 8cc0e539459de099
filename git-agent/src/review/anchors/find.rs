//! Finds the places of comments in the current work: by the file's content and the surrounding lines, never by the
//! number of a line alone.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Result;
use crate::git::diff::{Delta, TREE_LIMIT};
use crate::git::object::{EntryKind, TreeEntry};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::model::review::anchor::{Known, Versions, is_made_of, lines};
use crate::model::review::path::from_text;
use crate::model::review::{CodePlace, CommentPlace, Side};
use crate::review::anchors::{FILE_LIMIT, Spot, is_binary, keep, side_tree};
use crate::session::worktree::work::Work;

/// How many new files are searched for lines whose file is gone.
const SEARCHED: usize = 200;

type Text = Rc<Vec<u8>>;
/// New names by old ones.
type Renames = Rc<HashMap<Vec<u8>, Vec<u8>>>;

/// Finds places, and caches the files it reads.
pub(crate) struct Finder<'c> {
    repo: &'c Repo,
    work: &'c Work,
    /// The tree of the side before, once it was asked for.
    old_tree: Option<ObjectId>,
    trees: HashMap<ObjectId, Rc<Vec<TreeEntry>>>,
    texts: HashMap<ObjectId, Option<Text>>,
    versions: HashMap<(ObjectId, ObjectId), Rc<Versions>>,
    entries: HashMap<(ObjectId, Vec<u8>), Option<TreeEntry>>,
    renames: HashMap<(ObjectId, ObjectId), Renames>,
    changed: Option<Rc<Vec<Delta>>>,
}

impl<'c> Finder<'c> {
    pub(crate) fn new(repo: &'c Repo, work: &'c Work) -> Self {
        Finder {
            repo,
            work,
            old_tree: None,
            trees: HashMap::new(),
            texts: HashMap::new(),
            versions: HashMap::new(),
            entries: HashMap::new(),
            renames: HashMap::new(),
            changed: None,
        }
    }

    /// Finds where something hangs now.
    pub(crate) fn spot(&mut self, at: Option<&CommentPlace>) -> Result<Spot> {
        let place = match at {
            None => return Ok(Spot::Session),
            Some(CommentPlace::Event { event, .. }) => return Ok(Spot::Event(*event)),
            Some(CommentPlace::Code(place)) => place,
        };
        let Some(path) = place.path.as_deref().map(from_text) else {
            return Ok(Spot::Session);
        };
        let side = place.side;
        let tree = self.side_tree(side)?;
        let entry = self.entry(tree, &path)?;
        let blob = place
            .blob
            .as_deref()
            .and_then(|hex| self.repo.parse_id(hex).ok());
        let Some(first) = place.line else {
            return self.whole(place, blob, tree, path);
        };
        let last = place.end.unwrap_or(first);
        // A forged record can hold such a range.
        if first == 0 || last < first {
            return Ok(Spot::Outdated);
        }
        if let (Some(entry), Some(blob)) = (&entry, blob)
            && entry.id == blob
        {
            return Ok(Spot::Lines {
                path,
                side,
                first,
                last,
            });
        }
        let mut candidates = Vec::new();
        let mut elsewhere = false;
        let from = path.clone();
        match entry {
            Some(entry) => candidates.push((path, entry)),
            None => {
                if let Some(moved) = self.renamed(place, tree, &path)?
                    && let Some(entry) = self.entry(tree, &moved)?
                {
                    candidates.push((moved, entry));
                } else {
                    candidates = self.new_files(side)?;
                    elsewhere = true;
                }
            }
        }
        let mut found = Vec::new();
        for (path, entry) in candidates {
            if let Some(now) = self.find(place, blob, first, last, &entry)?
                && (!elsewhere || self.comes_from(blob, &entry)?)
            {
                found.push((path, now));
            }
        }
        if found.is_empty()
            && let Some(path) = self.taken_along(side, blob, tree, &from)?
        {
            found.push((path, first));
        }
        Ok(match found.pop() {
            Some((path, now)) if found.is_empty() => Spot::Lines {
                path,
                side,
                first: now,
                last: now + (last - first),
            },
            _ => Spot::Outdated,
        })
    }

    /// Finds a file as a whole.
    fn whole(
        &mut self,
        place: &CodePlace,
        blob: Option<ObjectId>,
        tree: ObjectId,
        path: Vec<u8>,
    ) -> Result<Spot> {
        let side = place.side;
        let path = match self.taken_along(side, blob, tree, &path)? {
            Some(moved) => Some(moved),
            None if self.entry(tree, &path)?.is_some() => Some(path),
            None => self.renamed(place, tree, &path)?,
        };
        Ok(path.map_or(Spot::Outdated, |path| Spot::File { path, side }))
    }

    /// Returns where a file has gone, exactly as it was, when its old name is gone or is that of something else now.
    fn taken_along(
        &mut self,
        side: Side,
        blob: Option<ObjectId>,
        tree: ObjectId,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let Some(blob) = blob else {
            return Ok(None);
        };
        // A copy is not a move: a file that was only edited keeps its comments.
        if let Some(entry) = self.entry(tree, path)?
            && (entry.id == blob || self.comes_from(Some(blob), &entry)?)
        {
            return Ok(None);
        }
        let mut same = self.new_files(side)?;
        same.retain(|(_, entry)| entry.id == blob);
        Ok(match same.pop() {
            Some((path, _)) if same.is_empty() => Some(path),
            _ => None,
        })
    }

    fn side_tree(&mut self, side: Side) -> Result<ObjectId> {
        match (side, self.old_tree) {
            (Side::New, _) => Ok(self.work.tree),
            (Side::Old, Some(known)) => Ok(known),
            (Side::Old, None) => {
                let tree = side_tree(self.repo, self.work, side)?;
                self.old_tree = Some(tree);
                Ok(tree)
            }
        }
    }

    fn entry(&mut self, tree: ObjectId, path: &[u8]) -> Result<Option<TreeEntry>> {
        let key = (tree, path.to_vec());
        if let Some(known) = self.entries.get(&key) {
            return Ok(known.clone());
        }
        let repo = self.repo;
        let trees = &mut self.trees;
        let found = repo.entry_among(tree, path, &mut |tree| match trees.get(&tree) {
            Some(known) => Ok(Rc::clone(known)),
            None => {
                let read = Rc::new(repo.read_tree(tree, TREE_LIMIT)?);
                trees.insert(tree, Rc::clone(&read));
                Ok(read)
            }
        })?;
        self.entries.insert(key, found.clone());
        Ok(found)
    }

    /// Returns the new name of a file that was renamed since the place was made.
    fn renamed(
        &mut self,
        place: &CodePlace,
        tree: ObjectId,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let before = self.repo.parse_id(&place.commit).ok();
        let Some(before) = before.and_then(|commit| self.repo.tree_of(commit).ok()) else {
            return Ok(None);
        };
        let key = (before, tree);
        if !self.renames.contains_key(&key) {
            let deltas = self.repo.deltas(before, tree)?;
            let renamed = deltas.into_iter().filter(|delta| delta.status == 'R');
            let names = renamed.map(|delta| (delta.old_path, delta.path)).collect();
            self.renames.insert(key, Rc::new(names));
        }
        Ok(self
            .renames
            .get(&key)
            .and_then(|names| names.get(path).cloned()))
    }

    /// Returns the files that this side has and the other has not: where lines may have gone whose file is gone.
    fn new_files(&mut self, side: Side) -> Result<Vec<(Vec<u8>, TreeEntry)>> {
        if side == Side::Old {
            return Ok(Vec::new());
        }
        let changed = match &self.changed {
            Some(changed) => Rc::clone(changed),
            None => {
                let changed = Rc::new(self.repo.deltas(self.work.base, self.work.tree)?);
                self.changed = Some(Rc::clone(&changed));
                changed
            }
        };
        let mut files = Vec::new();
        for delta in changed
            .iter()
            .filter(|delta| matches!(delta.status, 'A' | 'R'))
        {
            if files.len() >= SEARCHED {
                return Ok(Vec::new());
            }
            if let Some(entry) = self.entry(self.work.tree, &delta.path)? {
                files.push((delta.path.clone(), entry));
            }
        }
        Ok(files)
    }

    /// Returns whether a new file was made of the one that was commented on.
    fn comes_from(&mut self, blob: Option<ObjectId>, entry: &TreeEntry) -> Result<bool> {
        let before = match blob {
            Some(blob) => self.text(blob)?,
            None => None,
        };
        Ok(match (before, self.text(entry.id)?) {
            (Some(before), Some(now)) => is_made_of(&lines(&before), &lines(&now)),
            _ => false,
        })
    }

    /// Returns the first of the lines in a file as it is now.
    fn find(
        &mut self,
        place: &CodePlace,
        blob: Option<ObjectId>,
        first: u32,
        last: u32,
        entry: &TreeEntry,
    ) -> Result<Option<u32>> {
        if matches!(entry.kind, EntryKind::Tree | EntryKind::Commit) {
            return Ok(None);
        }
        let Some(now) = self.text(entry.id)? else {
            return Ok(None);
        };
        let count = (last - first) as usize + 1;
        let number = |at: usize| u32::try_from(at + 1).ok();
        let before = match blob {
            Some(blob) => self.text(blob)?.map(|text| (blob, text)),
            None => None,
        };
        let Some((blob, before)) = before else {
            return Ok(excerpt(place, count, &now).and_then(number));
        };
        let start = first as usize - 1;
        // The lines of the record must match the blob, or one of them cannot be trusted.
        let said = place.text.first();
        let is = lines(&before).get(start).map(|line| keep(line));
        if said.is_some()
            && is.is_some()
            && !matches!((said, &is), (Some(quoted), Some(is)) if quoted == is || quoted.contains("[REDACTED:"))
        {
            return Ok(None);
        }
        let key = (blob, entry.id);
        let versions = match self.versions.get(&key) {
            Some(known) => Rc::clone(known),
            None => {
                let made = Rc::new(Versions::new(Known::Whole, &lines(&before), &lines(&now)));
                self.versions.insert(key, Rc::clone(&made));
                made
            }
        };
        Ok(versions.find(start, count).and_then(number))
    }

    /// Reads a text file; `None` when it is not here, too large, or no text.
    fn text(&mut self, id: ObjectId) -> Result<Option<Text>> {
        if let Some(known) = self.texts.get(&id) {
            return Ok(known.clone());
        }
        let text = match self.repo.object_header(id)? {
            Some((ObjectKind::Blob, size)) if size <= FILE_LIMIT => {
                let text = self.repo.read_object(id, ObjectKind::Blob, FILE_LIMIT)?;
                (!is_binary(&text)).then(|| Rc::new(text))
            }
            _ => None,
        };
        self.texts.insert(id, text.clone());
        Ok(text)
    }
}

/// Finds lines of which only the record tells: the file they were in is not here.
fn excerpt(place: &CodePlace, count: usize, now: &[u8]) -> Option<usize> {
    // The same lines in the same surroundings were there twice: which of them is meant, only the file could tell.
    if place.text.len() != count || place.repeated {
        return None;
    }
    let all = [&place.before[..], &place.text[..], &place.after[..]].concat();
    let before: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    let now: Vec<String> = lines(now).into_iter().map(keep).collect();
    let now: Vec<&[u8]> = now.iter().map(String::as_bytes).collect();
    Versions::new(Known::Excerpt, &before, &now).find(place.before.len(), count)
}
