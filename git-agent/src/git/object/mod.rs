//! Objects: read only after their size is known, and written so that a crash cannot leave a broken one.
//!
//! git by default syncs no loose object, and a truncated object that one of our refs reaches would break the user's own
//! `git fetch` and `git gc`. So an object is written to a temporary file (with a name that git's own gc removes),
//! synced, and only then renamed; its directory is synced before any ref may point at the object.

pub mod damage;
pub(crate) mod overlay;
pub(crate) mod quarantine;
pub(crate) mod stream;

use std::collections::{BTreeSet, HashSet};
use std::fs::{self};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice};
pub use gix::objs::tree::EntryKind;
use gix::zlib::Compression;
use gix::zlib::stream::deflate;

use crate::error::{Context, Error, Result};
use crate::fault;
use crate::file::{Temporary, sync_dir};
use crate::git::{ObjectId, ObjectKind, Repo};

/// The kind of a regular file's entry.
pub const BLOB: EntryKind = EntryKind::Blob;
/// The kind of a directory's entry.
pub const TREE: EntryKind = EntryKind::Tree;

/// How many files of a batch are open at the same time.
const OPEN_AT_ONCE: usize = 128;

/// How many threads sync at the same time.
const SYNCS_AT_ONCE: usize = 8;

/// This many consecutive syncs cost less than another thread.
const SYNCS_IN_A_ROW: usize = 4;

/// The fields of a commit that we use.
#[derive(Debug, Clone)]
pub struct Commit {
    pub tree: ObjectId,
    /// Its parents, in order.
    pub parents: Vec<ObjectId>,
    /// The author's name and email, as claimed.
    pub author: (String, String),
    /// The committer's time in seconds since 1970.
    pub time: i64,
    pub message: String,
}

impl Commit {
    /// Returns the values of a trailer anywhere in the message (a squash indents them into the body).
    pub fn trailers<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.message.lines().filter_map(move |line| {
            let rest = line.trim_start().strip_prefix(key)?.strip_prefix(':')?;
            Some(rest.trim())
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The file name.
    pub name: Vec<u8>,
    pub kind: EntryKind,
    pub id: ObjectId,
}

/// The author and time of a commit.
#[derive(Debug, Clone)]
pub struct Signature {
    pub name: String,
    /// The email address.
    pub email: String,
    /// The time in seconds since 1970.
    pub seconds: i64,
}

/// Objects to be written: their ids are known, their bytes are still in memory.
#[derive(Debug)]
pub struct Batch {
    hash: gix::hash::Kind,
    objects: Vec<(ObjectId, ObjectKind, Vec<u8>)>,
    known: HashSet<ObjectId>,
}

impl Batch {
    /// Adds a blob.
    pub(crate) fn blob(&mut self, data: Vec<u8>) -> ObjectId {
        self.add(ObjectKind::Blob, data)
    }

    /// Adds a tree; its entries may come in any order.
    pub(crate) fn tree(&mut self, entries: impl IntoIterator<Item = TreeEntry>) -> ObjectId {
        let mut entries: Vec<gix::objs::tree::Entry> = entries
            .into_iter()
            .map(|entry| gix::objs::tree::Entry {
                mode: entry.kind.into(),
                filename: BString::from(entry.name),
                oid: entry.id,
            })
            .collect();
        entries.sort();
        self.encode(&gix::objs::Tree { entries })
    }

    /// Adds a commit.
    pub(crate) fn commit(
        &mut self,
        tree: ObjectId,
        parents: &[ObjectId],
        signature: &Signature,
        message: &str,
    ) -> ObjectId {
        // git refuses identities with these characters, and our data must never make a commit fail.
        let plain = |text: &str| -> BString {
            let kept: String = text
                .chars()
                .filter(|c| !matches!(c, '<' | '>' | '\n' | '\0'))
                .collect();
            if kept.trim().is_empty() {
                "unknown".into()
            } else {
                kept.trim().into()
            }
        };
        let who = gix::actor::Signature {
            name: plain(&signature.name),
            email: plain(&signature.email),
            time: gix::date::Time::new(signature.seconds, 0),
        };
        self.encode(&gix::objs::Commit {
            tree,
            parents: parents.iter().copied().collect(),
            author: who.clone(),
            committer: who,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        })
    }

    fn encode(&mut self, object: &dyn gix::objs::WriteTo) -> ObjectId {
        let mut data = Vec::new();
        object
            .write_to(&mut data)
            .expect("writing to memory succeeds");
        self.add(object.kind(), data)
    }

    fn add(&mut self, kind: ObjectKind, data: Vec<u8>) -> ObjectId {
        let id = gix::objs::compute_hash(self.hash, kind, &data)
            .expect("hashing fails only on crafted collisions");
        if self.known.insert(id) {
            self.objects.push((id, kind, data));
        }
        id
    }

    /// Returns the number of objects to be written.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl Repo {
    /// Returns an empty batch.
    pub fn batch(&self) -> Batch {
        Batch {
            hash: self.hash_kind(),
            objects: Vec::new(),
            known: HashSet::new(),
        }
    }

    /// Removes objects from a batch that the repository already has.
    pub(in crate::git) fn drop_stored(&self, batch: &mut Batch) {
        // Searching for new packs at every miss costs more than writing an object that was just packed.
        let mut known = self.gix().objects.clone();
        known.refresh_never();
        batch.objects.retain(|(id, ..)| {
            // An empty object file counts as missing, as in writing.
            match fs::metadata(self.loose_path(*id)) {
                Ok(meta) => meta.len() == 0,
                // Asks the files, because gix always answers yes for the empty tree.
                Err(_) => !gix::objs::Exists::exists(&known, id),
            }
        });
    }

    pub(in crate::git) fn loose_path(&self, id: ObjectId) -> PathBuf {
        let hex = id.to_string();
        let mut path = self.objects_dir();
        path.push(&hex[..2]);
        path.push(&hex[2..]);
        path
    }

    /// Writes a batch durably. When this returns, every object survives a power cut.
    ///
    /// All files of a group are written and flushed before the first sync is awaited: syncing one after the other would
    /// make each wait for a separate commit of the file system's journal.
    pub fn write_batch(&self, batch: &Batch) -> Result<()> {
        let objects = self.objects_dir();
        let mut touched = BTreeSet::new();
        for group in batch.objects.chunks(OPEN_AT_ONCE) {
            let mut written = Vec::with_capacity(group.len());
            for (id, kind, data) in group {
                let path = self.loose_path(*id);
                // An empty object file is left from a crash: replace it.
                if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
                    continue;
                }
                let temporary = write_temporary(&objects, *kind, data)
                    .context(|| format!("cannot write object {id}"))?;
                written.push((*id, path, temporary));
            }
            sync_together(&written, |(_, _, temporary)| temporary.file.sync_all())
                .and_then(|()| fault::point("object.tmp.synced"))
                .context(|| "cannot write objects".into())?;
            for (id, path, temporary) in written {
                name_object(&objects, temporary, &path, &mut touched)
                    .context(|| format!("cannot write object {id}"))?;
            }
        }
        let touched: Vec<PathBuf> = touched.into_iter().collect();
        sync_together(&touched, |dir| sync_dir(dir)).context(|| "cannot write objects".into())?;
        fault::point("object.dirs.synced").context(|| "cannot write objects".into())?;
        Ok(())
    }

    /// Writes a batch into another object directory, for a process that needs it briefly. Not durable.
    pub(in crate::git) fn write_batch_to(&self, batch: &Batch, objects: &Path) -> Result<()> {
        for (id, kind, data) in &batch.objects {
            let hex = id.to_string();
            let path = objects.join(&hex[..2]).join(&hex[2..]);
            let temporary = write_temporary(objects, *kind, data)
                .and_then(|file| name_object(objects, file, &path, &mut BTreeSet::new()));
            temporary.context(|| format!("cannot write object {id}"))?;
        }
        Ok(())
    }

    /// Returns the kind and size of an object without reading it; `None` if it does not exist.
    pub fn object_header(&self, id: ObjectId) -> Result<Option<(ObjectKind, u64)>> {
        let header = self
            .gix()
            .try_find_header(id)
            .context(|| format!("cannot read object {id}"))?;
        Ok(header.map(|header| (header.kind(), header.size())))
    }

    /// Reads an object of the expected kind and at most `limit` bytes. Never loads a larger one.
    pub fn read_object(&self, id: ObjectId, kind: ObjectKind, limit: u64) -> Result<Vec<u8>> {
        let Some((found, size)) = self.object_header(id)? else {
            return Err(Error::fatal(format!("object {id} is missing")));
        };
        if found != kind {
            return Err(Error::fatal(format!(
                "object {id} is a {found}, not a {kind}"
            )));
        }
        if size > limit {
            return Err(Error::fatal(format!(
                "object {id} has {size} bytes, more than the {limit} allowed"
            )));
        }
        let mut object = self
            .gix()
            .find_object(id)
            .context(|| format!("cannot read object {id}"))?;
        Ok(std::mem::take(&mut object.data))
    }

    /// Reads a commit. Fails above 1 MiB.
    pub fn read_commit(&self, id: ObjectId) -> Result<Commit> {
        let data = self.read_object(id, ObjectKind::Commit, 1 << 20)?;
        let commit = gix::objs::CommitRef::from_bytes(&data, self.hash_kind())
            .map_err(|_| Error::fatal(format!("commit {id} is malformed")))?;
        let author = commit
            .author()
            .map(|who| (who.name.to_string(), who.email.to_string()));
        Ok(Commit {
            tree: commit.tree(),
            parents: commit.parents().collect(),
            author: author.unwrap_or_default(),
            time: commit
                .committer()
                .ok()
                .and_then(|who| who.time().ok())
                .map_or(0, |time| time.seconds),
            message: commit.message.to_str_lossy().into_owned(),
        })
    }

    /// Returns whether a commit has a signature, good or not.
    pub fn is_signed(&self, id: ObjectId) -> Result<bool> {
        let data = self.read_object(id, ObjectKind::Commit, 1 << 20)?;
        let header = data.find("\n\n").map_or(&data[..], |end| &data[..end]);
        Ok(header.find("\ngpgsig").is_some())
    }

    /// Reads a tree. Fails above `limit` bytes.
    pub fn read_tree(&self, id: ObjectId, limit: u64) -> Result<Vec<TreeEntry>> {
        let data = self.read_object(id, ObjectKind::Tree, limit)?;
        gix::objs::TreeRefIter::from_bytes(&data, self.hash_kind())
            .map(|entry| {
                let entry = entry.map_err(|_| Error::fatal(format!("tree {id} is malformed")))?;
                Ok(TreeEntry {
                    name: entry.filename.to_vec(),
                    kind: entry.mode.kind(),
                    id: entry.oid.to_owned(),
                })
            })
            .collect()
    }
}

/// Returns the SHA-256 of bytes in hexadecimal, whatever the repository's own hash function.
pub fn sha256(bytes: &[u8]) -> String {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha256);
    hasher.update(bytes);
    hasher
        .try_finalize()
        .expect("SHA-256 has no known collisions to refuse")
        .to_string()
}

/// Syncs several files at the same time: all wait for the disk together.
fn sync_together<T: Sync>(
    things: &[T],
    sync: impl Fn(&T) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let share = things.len().div_ceil(SYNCS_AT_ONCE).max(SYNCS_IN_A_ROW);
    if things.len() <= share {
        return things.iter().try_for_each(sync);
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = things
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().try_for_each(&sync)))
            .collect();
        // Waits for every thread, even after one failed.
        let results: Vec<io::Result<()>> = parts
            .into_iter()
            .map(|part| {
                part.join()
                    .unwrap_or_else(|_| Err(io::Error::other("a sync panicked")))
            })
            .collect();
        results.into_iter().collect()
    })
}

/// Writes an object to a temporary file, and starts flushing it to the disk.
fn write_temporary(objects: &Path, kind: ObjectKind, data: &[u8]) -> io::Result<Temporary> {
    let temporary = Temporary::create(objects, "tmp_obj_", 0o444)?;
    fault::point("object.tmp.created")?;
    let mut deflate = deflate::Write::new(&temporary.file, Compression::BEST_SPEED);
    deflate.write_all(&gix::objs::encode::loose_header(kind, data.len() as u64))?;
    deflate.write_all(data)?;
    deflate.flush()?;
    fault::point("object.tmp.written")?;
    // Only advice: without effect, the following sync does all the work.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(&temporary.file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(temporary)
}

/// Renames a synced object to its final name.
fn name_object(
    objects: &Path,
    temporary: Temporary,
    path: &Path,
    touched: &mut BTreeSet<PathBuf>,
) -> io::Result<()> {
    let dir = path.parent().unwrap_or(objects);
    match fs::create_dir(dir) {
        Ok(()) => {
            touched.insert(objects.to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    temporary.persist(path)?;
    fault::point("object.named")?;
    touched.insert(dir.to_owned());
    Ok(())
}
