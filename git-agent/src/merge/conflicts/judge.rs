//! Judging pairs: from memory, from the paths that both sides touched, and where that does not decide it, by git.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::memory::Memory;
use super::side::Side;
use super::{Clashing, Lines, Verdict};
use crate::error::Result;
use crate::git::object::Batch;
use crate::git::preview::Preview;
use crate::git::touched::{Comparer, Touched};
use crate::git::{ObjectId, Repo, sha256};
use crate::session::context::Context;

/// How much of the trees is kept in memory while they are compared.
const TREES: usize = 64 << 20;
/// Places told of one file at most.
const PLACES: usize = 100;

/// Judges pairs of sides.
pub struct Judge<'c> {
    context: &'c Context<'c>,
    comparer: Comparer,
    memory: Memory,
    touched: HashMap<(ObjectId, ObjectId), Rc<Touched>>,
    /// What settles how files are merged.
    settings: String,
    /// Where attributes are read from.
    attributes: Option<ObjectId>,
}

impl<'c> Judge<'c> {
    /// Returns a judge that merges with the attributes of a commit.
    pub fn new(context: &'c Context<'c>, attributes: Option<ObjectId>) -> Result<Self> {
        Ok(Judge {
            context,
            comparer: Comparer::new(context.repo, TREES),
            memory: Memory::load(&context.store),
            touched: HashMap::new(),
            settings: settings(context.repo, attributes)?,
            attributes,
        })
    }

    /// Returns what merging the second of each pair into the first would give.
    pub fn judge(&mut self, pairs: &[(&Side, &Side)]) -> Result<Vec<Verdict>> {
        let mut verdicts: Vec<Option<Verdict>> = Vec::with_capacity(pairs.len());
        let mut open = Vec::new();
        for (index, (ours, theirs)) in pairs.iter().enumerate() {
            let known = self
                .memory
                .recall(ours.commit, theirs.commit, &self.settings);
            let verdict = match known {
                Some(known) => Some(known),
                None => {
                    let found = self.decide_by_paths(ours, theirs)?;
                    match &found {
                        Some(found) => self.memory.keep(ours.commit, theirs.commit, "", found),
                        None => open.push(index),
                    }
                    found
                }
            };
            verdicts.push(verdict);
        }
        let asked: Vec<_> = open.iter().map(|index| pairs[*index]).collect();
        for (index, verdict) in open.into_iter().zip(self.ask(&asked)?) {
            let (ours, theirs) = pairs[index];
            self.memory
                .keep(ours.commit, theirs.commit, &self.settings, &verdict);
            verdicts[index] = Some(verdict);
        }
        self.memory.save(&self.context.store);
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict.unwrap_or(Verdict::Clean))
            .collect())
    }

    /// Returns what the paths that both sides touched decide; `None` when git must be asked.
    fn decide_by_paths(&mut self, ours: &Side, theirs: &Side) -> Result<Option<Verdict>> {
        if ours.tree == theirs.tree {
            return Ok(Some(Verdict::Clean));
        }
        let base = match self.comparer.merge_bases(ours.tip, theirs.tip)?.as_slice() {
            [] => return Ok(Some(Verdict::Unrelated)),
            [base] => self.context.repo.tree_of(*base)?,
            // git merges several of them first.
            _ => return Ok(None),
        };
        let (ours, theirs) = (
            self.touched(base, ours.tree)?,
            self.touched(base, theirs.tree)?,
        );
        Ok((!ours.may_meet(&theirs)).then_some(Verdict::Clean))
    }

    fn touched(&mut self, base: ObjectId, side: ObjectId) -> Result<Rc<Touched>> {
        if let Some(known) = self.touched.get(&(base, side)) {
            return Ok(known.clone());
        }
        let touched = Rc::new(self.comparer.touched(base, side)?);
        self.touched.insert((base, side), touched.clone());
        Ok(touched)
    }

    fn ask(&self, pairs: &[(&Side, &Side)]) -> Result<Vec<Verdict>> {
        let repo = self.context.repo;
        let mut missing: BTreeMap<ObjectId, Batch> = BTreeMap::new();
        for side in pairs.iter().flat_map(|(ours, theirs)| [ours, theirs]) {
            if !missing.contains_key(&side.commit)
                && let Some(batch) = side.missing(repo)?
            {
                missing.insert(side.commit, batch);
            }
        }
        let missing: Vec<Batch> = missing.into_values().collect();
        let commits: Vec<_> = pairs
            .iter()
            .map(|(ours, theirs)| (ours.commit, theirs.commit))
            .collect();
        let previews = repo.preview_merges_with(&commits, self.attributes, &missing)?;
        Ok(previews
            .iter()
            .map(|preview| verdict(repo, preview))
            .collect())
    }
}

fn verdict(repo: &Repo, preview: &Preview) -> Verdict {
    if preview.clean {
        return Verdict::Clean;
    }
    let clashing = preview.conflicts.iter().map(|conflict| Clashing {
        path: String::from_utf8_lossy(&conflict.path).into_owned(),
        kinds: conflict.kinds.clone(),
        lines: repo
            .clashes(conflict)
            .iter()
            .take(PLACES)
            .map(|clash| Lines {
                ours: [clash.ours.start, clash.ours.end - 1],
                theirs: [clash.theirs.start, clash.theirs.end - 1],
            })
            .collect(),
    });
    Verdict::Conflict(clashing.collect())
}

/// Returns what stands for everything besides the commits that a merge depends on.
fn settings(repo: &Repo, attributes: Option<ObjectId>) -> Result<String> {
    let tree = attributes.map(|commit| repo.tree_of(commit)).transpose()?;
    let own = std::fs::read(repo.common_dir().join("info/attributes")).unwrap_or_default();
    let text = format!(
        "{tree:?}\n{:?}\n{:?}\n{:?}\n{own:?}",
        repo.config_settings("merge"),
        repo.config_settings("diff"),
        repo.config_string("core.attributesFile"),
    );
    Ok(sha256(text.as_bytes())[..16].to_owned())
}
