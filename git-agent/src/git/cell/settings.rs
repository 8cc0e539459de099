//! The configuration of a cell: the repository's own, without the settings that lead elsewhere or hold a secret.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Result;
use crate::git::Repo;
use crate::git::config::{quote_subsection, quote_value};
use crate::git::snapshot::capture::Checkout;

/// Settings that are about the repository's own directory, and those that are made anew.
const LEFT_OUT: [&str; 12] = [
    "core.bare",
    "core.worktree",
    "core.hookspath",
    "core.fsmonitor",
    "core.repositoryformatversion",
    "core.logallrefupdates",
    "core.splitindex",
    "commit.gpgsign",
    "tag.gpgsign",
    "push.gpgsign",
    "gc.auto",
    "maintenance.auto",
];

/// Sections that are about the repository's own directory, name other files, or hold secrets.
const SECTIONS_LEFT_OUT: [&str; 7] = [
    "extensions",
    "include",
    "includeif",
    "submodule",
    "credential",
    "agent",
    "hook",
];

impl Repo {
    /// Returns why a worktree cannot have a cell; nothing if it can.
    pub fn why_no_cell(&self, at: &Checkout) -> Option<&'static str> {
        let promised = self.config_string("extensions.partialClone").is_some()
            || self.common_dir().join("objects/info/promisor").exists();
        if promised {
            return Some("a partial clone fetches objects while it works");
        }
        let is_plain = |path: &Path| path.to_str().is_some_and(|path| !path.contains('\n'));
        if !is_plain(self.common_dir()) || !is_plain(&at.top) {
            return Some("its path has a line break or is not UTF-8");
        }
        if at.admin_dir.join("modules").exists() {
            return Some("its submodules keep their own data in the repository");
        }
        let entries = std::fs::read_dir(&at.admin_dir)
            .into_iter()
            .flatten()
            .flatten();
        let mut names = entries.map(|entry| entry.file_name());
        if names.any(|name| name.as_bytes().starts_with(b"sharedindex.")) {
            return Some("its index is split in two");
        }
        None
    }

    /// Returns the text of a cell's configuration. `hooks` is the directory of hooks that run in it.
    pub(super) fn cell_settings(&self, at: &Checkout, hooks: Option<&OsStr>) -> Result<Vec<u8>> {
        let answer = self
            .git_at(&at.admin_dir, &at.top)
            .with_hooks()
            .args(["config", "--list", "-z", "--show-scope", "--includes"])
            .run()?;
        let mut text = Vec::new();
        let mut fields = answer.stdout.split(|byte| *byte == 0);
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            if !matches!(scope, b"local" | b"worktree") {
                continue;
            }
            let at = setting.iter().position(|byte| *byte == b'\n');
            let (key, value) = match at {
                Some(at) => (&setting[..at], Some(&setting[at + 1..])),
                None => (setting, None),
            };
            if let Some(value) = passed_on(key, value) {
                add(&mut text, key, value.as_deref());
            }
        }
        let sha256 = self.hash_kind() == gix::hash::Kind::Sha256;
        let format = if sha256 { "1" } else { "0" };
        let mut set = |key: &str, value: &[u8]| add(&mut text, key.as_bytes(), Some(value));
        set("core.repositoryformatversion", format.as_bytes());
        if sha256 {
            set("extensions.objectformat", b"sha256");
        }
        set("core.bare", b"false");
        set("core.logallrefupdates", b"true");
        set("core.splitindex", b"false");
        set("commit.gpgsign", b"false");
        set("tag.gpgsign", b"false");
        set("gc.auto", b"0");
        set("maintenance.auto", b"false");
        if let Some(hooks) = hooks {
            set("core.hookspath", hooks.as_bytes());
        }
        Ok(text)
    }
}

/// Returns the value of a setting for a cell; nothing if it has no place there.
fn passed_on(key: &[u8], value: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
    let key = String::from_utf8_lossy(key).to_lowercase();
    let section = key.split('.').next().unwrap_or_default();
    let secret = key.ends_with(".extraheader") || key.ends_with(".cookiefile");
    if secret || SECTIONS_LEFT_OUT.contains(&section) || LEFT_OUT.contains(&key.as_str()) {
        return None;
    }
    Some(value.map(without_password))
}

/// Returns an address without the password in it; any other value as it is.
fn without_password(value: &[u8]) -> Vec<u8> {
    let find = |what: &[u8]| value.windows(what.len()).position(|part| part == what);
    let Some(start) = find(b"://").map(|at| at + 3) else {
        return value.to_owned();
    };
    let end = value[start..].iter().position(|byte| *byte == b'/');
    let end = end.map_or(value.len(), |at| start + at);
    match value[start..end].iter().rposition(|byte| *byte == b'@') {
        Some(at) if value[start..start + at].contains(&b':') => {
            [&value[..start], &value[start + at + 1..]].concat()
        }
        _ => value.to_owned(),
    }
}

/// Adds a setting, in a section of its own.
fn add(text: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    let first = key.iter().position(|byte| *byte == b'.');
    let last = key.iter().rposition(|byte| *byte == b'.');
    let (Some(first), Some(last)) = (first, last) else {
        return;
    };
    text.push(b'[');
    text.extend(&key[..first]);
    if last > first {
        text.push(b' ');
        text.extend(quote_subsection(&key[first + 1..last]));
    }
    text.extend(b"]\n\t");
    text.extend(&key[last + 1..]);
    if let Some(value) = value {
        text.extend(b" = ");
        text.extend(quote_value(value));
    }
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_places_stay_outside() {
        for key in [
            "core.worktree",
            "core.hooksPath",
            "include.path",
            "credential.helper",
            "http.https://x/.extraHeader",
            "hook.a.command",
        ] {
            assert_eq!(passed_on(key.as_bytes(), Some(b"v")), None, "{key}");
        }
        let url = |text: &str| passed_on(b"remote.origin.url", Some(text.as_bytes()));
        let plain = |text: &str| Some(Some(text.as_bytes().to_vec()));
        assert_eq!(url("https://me:secret@h/x"), plain("https://h/x"));
        assert_eq!(url("ssh://git@h/x"), plain("ssh://git@h/x"));
        assert_eq!(url("/a/path@x"), plain("/a/path@x"));
        let mut text = Vec::new();
        add(&mut text, b"branch.a \"b\".remote", Some(b"o#1"));
        add(&mut text, b"core.filemode", None);
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.starts_with("[branch \"a \\\"b\\\"\"]\n\tremote = \"o#1\"\n[core]\n\tfilemode\n"),
            "{text}"
        );
    }
}
