//! The settings of an agent's own program around a turn: hooks and servers in them would run in the next session.
//!
//! Namespaces make those that exist read-only. One that appears during a turn, or that changes where there are no
//! namespaces, is put aside afterwards and told.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::agent::catalog::places::{self, Homes};
use crate::agent::catalog::spec::AgentSpec;
use crate::file::{self, Durability};

/// The largest file of settings that is compared.
const LARGEST: u64 = 1 << 20;
/// The end of the name of a file that an agent made.
const ASIDE: &str = "from-agent";

/// The settings of an agent's program at one moment; a directory counts as empty text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorSettings(Vec<(PathBuf, Option<Vec<u8>>)>);

impl VendorSettings {
    /// Reads them.
    pub fn read(spec: &AgentSpec, environment: &BTreeMap<OsString, OsString>) -> Self {
        let homes = Homes::find(|name| environment.get(OsStr::new(name)).map(PathBuf::from));
        let own = places::of(&spec.name, spec.argv.first().map(Path::new));
        let (Some(homes), Some(own)) = (homes, own) else {
            return VendorSettings::default();
        };
        let paths = own.settings.iter().map(|entry| homes.path(entry));
        VendorSettings(paths.map(|path| (path.clone(), text(&path))).collect())
    }

    /// Puts aside those that appeared, and puts back those that changed. Returns words for each.
    pub fn put_back(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (path, before) in &self.0 {
            let now = text(path);
            if now == *before || now.is_none() {
                continue;
            }
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".");
            name.push(ASIDE);
            let aside = path.with_file_name(name);
            let done = fs::rename(path, &aside).is_ok()
                && before
                    .as_ref()
                    .is_none_or(|text| file::replace(path, text, Durability::Synced).is_ok());
            let how = if done {
                "it is now"
            } else {
                "it could not be put aside to"
            };
            told.push(format!(
                "the agent wrote '{}', which its next session would obey: {how} '{}'",
                path.display(),
                aside.display()
            ));
        }
        told
    }
}

fn text(path: &Path) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    if meta.is_file() && meta.len() <= LARGEST {
        fs::read(path).ok()
    } else {
        Some(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_settings_are_put_aside() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("old"), "1").expect("written");
        let names = ["old", "new", "same"];
        let before = names.map(|name| (path(name), text(&path(name)))).to_vec();
        let before = VendorSettings(before);
        assert!(before.put_back().is_empty());
        fs::write(path("old"), "2").expect("written");
        fs::write(path("new"), "3").expect("written");
        assert_eq!(before.put_back().len(), 2);
        assert_eq!(fs::read(path("old")).expect("there"), b"1");
        assert_eq!(fs::read(path("old.from-agent")).expect("there"), b"2");
        assert!(!path("new").exists() && path("new.from-agent").exists());
    }
}
