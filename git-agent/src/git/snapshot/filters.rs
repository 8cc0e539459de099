//! Files whose bytes on disk differ from those that git stores: line endings, `$Id$`, encodings, filters.
//!
//! git stores the converted content of a file, and a checkout converts it back, not always to the same bytes. So that a
//! restored worktree is identical byte for byte, the bytes of such files are kept too, unless they are the committed
//! content with the line ends of a checkout: git sees no change in those, and a checkout restores them. The bytes of
//! files with a filter program are not kept: a filter keeps content (secrets, gigabytes) out of the repository for a
//! reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use gix::bstr::ByteSlice;
use gix::index::entry::Mode;

use crate::error::{Context, Result};
use crate::git::object::Batch;
use crate::git::snapshot::beneath::Disk;
use crate::git::snapshot::capture::Checkout;
use crate::git::snapshot::index::Item;
use crate::git::{ObjectId, Repo};

/// Larger files are restored as a checkout writes them.
const LARGEST_KEPT: u64 = 8 << 20;

/// The files of machine-wide attributes, depending on how git was built.
const SYSTEM_ATTRIBUTES: [&str; 4] = [
    "/etc/gitattributes",
    "/usr/local/etc/gitattributes",
    "/opt/homebrew/etc/gitattributes",
    "/usr/etc/gitattributes",
];

/// A file's bytes on disk, if they differ from the result of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// The path from the top.
    pub path: Vec<u8>,
    /// A blob of the bytes.
    pub id: ObjectId,
}

impl Repo {
    /// Returns whether git might store any of these files with other bytes or another mode.
    pub(in crate::git) fn may_convert(
        &self,
        at: &Checkout,
        index: &gix::index::State,
        disk: &mut Disk,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<bool> {
        let off = |key| -> Result<bool> { Ok(self.config_bool(key)? == Some(false)) };
        if self.converts_line_ends()
            || off("core.fileMode")?
            || off("core.symlinks")?
            || at.admin_dir.join("config.worktree").exists()
            || self.has_outside_attributes()
        {
            return Ok(true);
        }
        let is_attributes =
            |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
        if index
            .entries()
            .iter()
            .any(|entry| is_attributes(entry.path(index)))
            || paths.iter().any(|path| is_attributes(path))
        {
            return Ok(true);
        }
        // Ignored attribute files count for git, and no list contains them.
        let mut dirs: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
        for path in paths {
            dirs.extend(
                path.iter()
                    .enumerate()
                    .filter(|(_, b)| **b == b'/')
                    .map(|(at, _)| &path[..=at]),
            );
        }
        for dir in dirs {
            let file = [dir, b".gitattributes"].concat();
            if disk.stat(&file).ok().flatten().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn converts_line_ends(&self) -> bool {
        match self.config_string("core.autocrlf") {
            None => false,
            Some(value) => !matches!(
                value.to_ascii_lowercase().as_str(),
                "false" | "no" | "off" | "0"
            ),
        }
    }

    fn has_outside_attributes(&self) -> bool {
        let user = match self.config_string("core.attributesFile") {
            Some(_) => return true,
            None => gix::path::env::xdg_config("attributes", &mut |name| std::env::var_os(name)),
        };
        self.config_string("attr.tree").is_some()
            || self.common_dir().join("info/attributes").exists()
            || user.is_some_and(|path| path.exists())
            || SYSTEM_ATTRIBUTES
                .iter()
                .any(|path| Path::new(path).exists())
    }

    /// Returns the files whose bytes a checkout of the stored content would not restore.
    ///
    /// Returns `None` if a file changed after git had stored it.
    pub(in crate::git) fn raw_files(
        &self,
        at: &Checkout,
        disk: &mut Disk,
        stored: &[Option<&gix::index::File>],
        files: &[&Item],
        batch: &mut Batch,
    ) -> Result<Option<Vec<Raw>>> {
        let files: Vec<&Item> = files
            .iter()
            .copied()
            .filter(|item| matches!(item.mode, Mode::FILE | Mode::FILE_EXECUTABLE))
            .collect();
        if files.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let global = self.converts_line_ends();
        let attributes = self.conversions(at, &files)?;
        let mut raw = Vec::new();
        for item in files {
            let path = item.path.as_slice();
            let conversion = attributes.get(path).copied().unwrap_or_default();
            if conversion.filtered || !(global || conversion.any) {
                continue;
            }
            let entry = stored
                .iter()
                .flatten()
                .find_map(|index| index.entry_by_path(path.as_bstr()));
            let Some(entry) = entry else {
                continue;
            };
            let cannot = || format!("cannot read '{}'", String::from_utf8_lossy(path));
            let Some(mut file) = disk.open_file(path).context(cannot)? else {
                return Ok(None);
            };
            let stat = rustix::fs::fstat(&file).context(cannot)?;
            if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST_KEPT) {
                continue;
            }
            let same = entry.stat.mtime.secs == stat.st_mtime as u32
                && entry.stat.mtime.nsecs == stat.st_mtime_nsec as u32
                && entry.stat.size == stat.st_size as u32;
            if !same && entry.stat.size != 0 {
                return Ok(None);
            }
            let mut data = Vec::new();
            file.read_to_end(&mut data).context(cannot)?;
            let id = gix::objs::compute_hash(self.hash_kind(), gix::objs::Kind::Blob, &data)
                .context(cannot)?;
            if id != item.id {
                batch.blob(data);
            } else if !(conversion.back || self.writes_crlf()) {
                continue;
            }
            raw.push(Raw {
                path: path.to_vec(),
                id,
            });
        }
        Ok(Some(raw))
    }

    /// Returns which of these files git may convert when it stores them.
    pub(in crate::git) fn converts_any(
        &self,
        at: &Checkout,
        files: &[&Item],
    ) -> Result<BTreeSet<Vec<u8>>> {
        if self.converts_line_ends() {
            return Ok(files.iter().map(|item| item.path.clone()).collect());
        }
        let mut conversions = self.conversions(at, files)?;
        conversions.retain(|_, conversion| conversion.any);
        Ok(conversions.into_keys().collect())
    }

    /// Returns the files with committed content whose line ends are the stored ones, although a checkout would write
    /// others.
    pub(in crate::git) fn unconverted<'a>(
        &self,
        files: &'a [Item],
        known: &[&Item],
        index: &gix::index::State,
    ) -> Result<Vec<&'a Item>> {
        let mut found = Vec::new();
        if !self.writes_crlf() {
            return Ok(found);
        }
        let known: BTreeSet<&[u8]> = known.iter().map(|item| item.path.as_slice()).collect();
        for item in files {
            if known.contains(item.path.as_slice()) {
                continue;
            }
            let Some(entry) = index.entry_by_path(item.path.as_bstr()) else {
                continue;
            };
            // Every converted line end makes the file longer than the stored content.
            let size = self.object_header(item.id)?.map(|(_, size)| size);
            if entry.stat.size != 0 && size == Some(u64::from(entry.stat.size)) {
                found.push(item);
            }
        }
        Ok(found)
    }

    /// Returns whether a checkout may write other line ends than the stored ones.
    fn writes_crlf(&self) -> bool {
        let is = |key, value: &str| {
            self.config_string(key)
                .is_some_and(|set| set.eq_ignore_ascii_case(value))
        };
        is("core.eol", "crlf") || (self.converts_line_ends() && !is("core.autocrlf", "input"))
    }

    /// Asks git for the converting attributes.
    fn conversions(&self, at: &Checkout, files: &[&Item]) -> Result<BTreeMap<Vec<u8>, Conversion>> {
        let mut input = Vec::new();
        for item in files {
            input.extend_from_slice(&item.path);
            input.push(0);
        }
        let answer = self
            .git_in(at)
            .args(["check-attr", "-z", "--stdin"])
            .args([
                "text",
                "crlf",
                "eol",
                "ident",
                "filter",
                "working-tree-encoding",
            ])
            .input(input)
            .run()?;
        let mut conversions: BTreeMap<Vec<u8>, Conversion> = BTreeMap::new();
        let fields: Vec<&[u8]> = answer.stdout.split(|byte| *byte == 0).collect();
        for triple in fields.chunks_exact(3) {
            let (path, name, value) = (triple[0], triple[1], triple[2]);
            if matches!(value, b"unspecified" | b"unset") {
                continue;
            }
            let conversion = conversions.entry(path.to_vec()).or_default();
            match name {
                b"filter" => conversion.filtered = true,
                b"ident" | b"working-tree-encoding" => conversion.back = true,
                b"eol" if value == b"crlf" => conversion.back = true,
                _ => {}
            }
            conversion.any = true;
        }
        Ok(conversions)
    }
}

/// The effect of a file's attributes on its bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Conversion {
    /// git may convert it when storing.
    any: bool,
    /// git may convert it on checkout although it did not when storing.
    back: bool,
    /// A filter program converts it.
    filtered: bool,
}
