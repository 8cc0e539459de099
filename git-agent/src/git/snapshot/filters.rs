//! Files whose bytes on disk differ from those that git stores: line endings, `$Id$`, encodings, filters.
//!
//! git stores the converted content of a file, and a checkout converts it back, not always to the same bytes. So that a
//! restored worktree is identical byte for byte, the bytes of such files are kept too, unless they are the committed
//! content and a checkout writes the same bytes. git sees no change in a file that differs from its checkout only in
//! line ends, so its length decides. The bytes of files with a filter program are not kept: a filter keeps content
//! (secrets, gigabytes) out of the repository for a reason.

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
use crate::git::snapshot::line_ends::Ends;
use crate::git::{ObjectId, ObjectKind, Repo};

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

    /// Returns the files with committed content whose bytes differ from those that a checkout writes, by their length.
    pub(in crate::git) fn unconverted<'a>(
        &self,
        (at, disk): (&Checkout, &mut Disk),
        (files, known): (&'a [Item], &[&Item]),
        stored: &[Option<&gix::index::File>],
        outward: bool,
    ) -> Result<Vec<&'a Item>> {
        let known: BTreeSet<&[u8]> = known.iter().map(|item| item.path.as_slice()).collect();
        let mut doubtful = Vec::new();
        for item in files {
            let path = item.path.as_slice();
            let is_file = matches!(item.mode, Mode::FILE | Mode::FILE_EXECUTABLE);
            if !is_file || known.contains(path) {
                continue;
            }
            let mut indexes = stored.iter().flatten();
            let Some(entry) = indexes.find_map(|index| index.entry_by_path(path.as_bstr())) else {
                continue;
            };
            let here = match entry.stat.size {
                // git says that also where it does not know.
                0 => disk
                    .stat(path)
                    .ok()
                    .flatten()
                    .map_or(0, |stat| stat.st_size as u64),
                size => u64::from(size),
            };
            if here != 0 && (outward || self.size_of(item.id)? != Some(here)) {
                doubtful.push((item, here));
            }
        }
        let items: Vec<&Item> = doubtful.iter().map(|(item, _)| *item).collect();
        if items.is_empty() {
            return Ok(items);
        }
        let attributes = self.conversions(at, &items)?;
        let mut found = Vec::new();
        for (item, here) in doubtful {
            let conversion = attributes.get(&item.path).copied().unwrap_or_default();
            let ends = self.ends(conversion);
            let there = match ends {
                _ if conversion.filtered => continue,
                Ends::Stored => self.size_of(item.id)?,
                _ if here > LARGEST_KEPT => continue,
                ends => {
                    let stored = self.read_object(item.id, ObjectKind::Blob, LARGEST_KEPT)?;
                    Some(ends.length(&stored))
                }
            };
            if there != Some(here) {
                found.push(item);
            }
        }
        Ok(found)
    }

    fn size_of(&self, id: ObjectId) -> Result<Option<u64>> {
        Ok(self.object_header(id)?.map(|(_, size)| size))
    }

    /// Returns the line ends that a checkout gives a file with these attributes.
    fn ends(&self, conversion: Conversion) -> Ends {
        let by_config = self.writes_crlf();
        match (conversion.text, conversion.ends) {
            (Text::Binary, _) | (_, Some(Eol::Lf)) => Ends::Stored,
            (Text::Auto, Some(Eol::Crlf)) => Ends::CrlfIfText,
            (_, Some(Eol::Crlf)) => Ends::Crlf,
            (Text::Yes, None) if by_config => Ends::Crlf,
            (Text::Auto, None) if by_config => Ends::CrlfIfText,
            (Text::Unspecified, None) if self.converts_line_ends() && by_config => Ends::CrlfIfText,
            _ => Ends::Stored,
        }
    }

    /// Returns whether a checkout may write CRLF where LF is stored, by the settings or by an attribute of these files.
    pub(in crate::git) fn may_write_crlf(
        &self,
        index: &gix::index::State,
        disk: &mut Disk,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<bool> {
        if self.writes_crlf() || self.has_outside_attributes() {
            return Ok(true);
        }
        let tracked = index
            .entries()
            .iter()
            .map(|entry| entry.path(index).to_vec());
        let attributes = tracked
            .chain(paths.iter().cloned())
            .filter(|path| is_attributes(path));
        for path in attributes {
            let cannot = || format!("cannot read '{}'", String::from_utf8_lossy(&path));
            let Some(mut file) = disk.open_file(&path).context(cannot)? else {
                continue;
            };
            let mut text = Vec::new();
            file.read_to_end(&mut text).context(cannot)?;
            if text.find(b"crlf").is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a checkout may write other line ends than are stored.
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
            if value == b"unspecified" {
                continue;
            }
            let conversion = conversions.entry(path.to_vec()).or_default();
            match (name, value) {
                (b"text", b"unset") => conversion.text = Text::Binary,
                (b"text", b"auto") => conversion.text = Text::Auto,
                (b"text", _) => conversion.text = Text::Yes,
                (b"eol", b"crlf") => conversion.ends = Some(Eol::Crlf),
                (b"eol", b"lf") => conversion.ends = Some(Eol::Lf),
                _ => {}
            }
            if value == b"unset" {
                continue;
            }
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

fn is_attributes(path: &[u8]) -> bool {
    path == b".gitattributes" || path.ends_with(b"/.gitattributes")
}

/// Whether a file is text, by its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Text {
    #[default]
    Unspecified,
    Yes,
    Auto,
    Binary,
}

/// The line ends of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eol {
    Lf,
    Crlf,
}

/// How the attributes of one file convert its bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Conversion {
    /// git may convert it when storing.
    any: bool,
    /// git may convert it on checkout although it did not when storing.
    back: bool,
    /// A filter program converts it.
    filtered: bool,
    text: Text,
    ends: Option<Eol>,
}
