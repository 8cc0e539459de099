//! Finds the commits at a remote that git would refuse, all at once: a fetch of all only shows that one is among them,
//! and a fetch for each takes too long if there are many.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStringExt;

use gix::objs::{CommitRefIter, TreeRefIter};

use crate::error::{Context, Error, Result};
use crate::git::object::quarantine::Quarantine;
use crate::git::phrases::fsck_fault;
use crate::git::remote::transfer::Audience;
use crate::git::{Git, ObjectId, ObjectKind, Repo};

/// The most new objects that are examined.
const MOST: usize = 1_000_000;
/// The largest tree or commit that is read; git refuses none for its size.
const LARGEST: u64 = 32 << 20;

impl Repo {
    /// Returns the commits at a remote in which, or in whose objects, git finds faults, with git's message. Fetches
    /// everything into a quarantine, and throws it away.
    pub fn faulty(
        &self,
        remote: &str,
        ids: &[ObjectId],
        audience: &mut Audience<'_>,
    ) -> Result<BTreeMap<ObjectId, String>> {
        let quarantine = Quarantine::new(self)?;
        if self
            .fetch_into(&quarantine, remote, ids, false, audience)?
            .is_some()
        {
            // Objects that did not arrive cannot be examined.
            return Ok(BTreeMap::new());
        }
        let mut faults = self.faults_in(&quarantine)?;
        if !faults.is_empty() {
            self.spread(&quarantine, ids, &mut faults)?;
        }
        let found = |id: &ObjectId| Some((*id, faults.get(id)?.clone()));
        Ok(ids.iter().filter_map(found).collect())
    }

    /// Returns the objects in a quarantine in which git finds faults. Examines only these.
    fn faults_in(&self, quarantine: &Quarantine) -> Result<HashMap<ObjectId, String>> {
        let alone = quarantine.objects().join("alone");
        let cannot = || format!("cannot create '{}'", alone.display());
        fs::create_dir_all(alone.join("refs")).context(cannot)?;
        fs::write(alone.join("HEAD"), "ref: refs/heads/none\n").context(cannot)?;
        let format = format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {}\n",
            self.hash_kind()
        );
        fs::write(alone.join("config"), format).context(cannot)?;
        let answer = Git::new(&alone, &alone, None)
            .env("GIT_OBJECT_DIRECTORY", quarantine.objects())
            .config("core.bigFileThreshold", crate::git::remote::STREAMED)
            .args(["fsck", "--full", "--strict", "--no-dangling"])
            .args(["--no-reflogs", "--no-progress"])
            .answer()?;
        let said = String::from_utf8_lossy(&answer.stderr);
        let fault = |line: &str| {
            let (id, what) = fsck_fault(line)?;
            Some((self.parse_id(id).ok()?, format!("object {id}: {what}")))
        };
        Ok(said.lines().filter_map(fault).collect())
    }

    /// Adds all objects that refer to a faulty one.
    fn spread(
        &self,
        quarantine: &Quarantine,
        ids: &[ObjectId],
        faults: &mut HashMap<ObjectId, String>,
    ) -> Result<()> {
        let tips: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let new = quarantine
            .enter(self.git_common())
            .args(["rev-list", "--objects", "--no-object-names"])
            .args(["--filter=blob:none", "--stdin", "--not", "--all"])
            .input(tips)
            .run()?;
        let new = String::from_utf8_lossy(&new.stdout);
        if new.lines().count() > MOST {
            return Err(Error::fatal("too many new objects to examine"));
        }
        let both = self.with_objects_in(quarantine)?;
        // The references in reverse: only those lead from the faults to the tips.
        let mut needed_by: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
        for line in new.lines() {
            let id = self.parse_id(line)?;
            for needed in both.needs(id)? {
                needed_by.entry(needed).or_default().push(id);
            }
        }
        let mut next: Vec<ObjectId> = faults.keys().copied().collect();
        while let Some(id) = next.pop() {
            let what = faults.get(&id).cloned().unwrap_or_default();
            for above in needed_by.remove(&id).unwrap_or_default() {
                if let Entry::Vacant(unknown) = faults.entry(above) {
                    unknown.insert(what.clone());
                    next.push(above);
                }
            }
        }
        Ok(())
    }

    /// Returns this repository with the additional objects of a quarantine.
    fn with_objects_in(&self, quarantine: &Quarantine) -> Result<Repo> {
        let cannot = || "cannot open fetched objects".to_owned();
        let mut main = self.objects_dir().into_os_string().into_vec();
        main.push(b'\n');
        fs::write(quarantine.objects().join("info/alternates"), main).context(cannot)?;
        let mut both = self.clone();
        let hash = both.gix.object_hash();
        let options = gix::odb::store::init::Options::default();
        let found = gix::odb::at_opts(quarantine.objects(), hash, [], options).context(cannot)?;
        both.gix.objects = gix::odb::memory::Proxy::from(found);
        Ok(both)
    }

    /// Returns the objects that a commit or a tree refers to; none if it is unreadable.
    fn needs(&self, id: ObjectId) -> Result<Vec<ObjectId>> {
        let Some((kind, size)) = self.object_header(id)? else {
            return Ok(Vec::new());
        };
        let known = matches!(kind, ObjectKind::Commit | ObjectKind::Tree);
        if !known || size > LARGEST {
            return Ok(Vec::new());
        }
        let data = self.read_object(id, kind, LARGEST)?;
        let hash = self.hash_kind();
        Ok(match kind {
            ObjectKind::Tree => TreeRefIter::from_bytes(&data, hash)
                .map_while(|entry| entry.ok())
                .filter(|entry| !entry.mode.is_commit())
                .map(|entry| entry.oid.to_owned())
                .collect(),
            _ => {
                let tree = CommitRefIter::from_bytes(&data, hash).tree_id().ok();
                let parents = CommitRefIter::from_bytes(&data, hash).parent_ids();
                tree.into_iter().chain(parents).collect()
            }
        })
    }
}
