//! Caches the signers of fetched commits: checking one signature starts two programs, which takes 20 ms of processor
//! time, and listings show many.

use std::collections::HashMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::file::{self, Durability};
use crate::git::ObjectId;
use crate::git::remote::Signed;
use crate::model::review::authorship::Authorship;
use crate::signature::names;
use crate::store::Store;

/// Settings that decide who owns a key.
const SETTINGS: [&str; 4] = [
    "gpg.format",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.minTrustLevel",
];
/// Settings that name such files.
const FILES: [&str; 2] = ["gpg.ssh.allowedSignersFile", "gpg.ssh.revocationFile"];
/// Up to this number, unsigned commits are read again rather than cached.
const FEW: usize = 256;
/// Maximum number of cached answers.
const MANY: usize = 50_000;
/// Lifetime of the cache, because a keyring may change as well.
const HOURS: i64 = 12;

/// The cache file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// Fingerprint of the settings and files that the answers depend on.
    under: String,
    /// The signer of each checked commit; `None` if it has no known signer.
    signers: HashMap<String, Option<String>>,
}

/// Returns the signer of each commit, according to the user's own keys; `None` if it is unsigned or cannot be checked.
pub fn signers(store: &Store<'_>, commits: &[ObjectId]) -> Vec<Option<String>> {
    if commits.is_empty() {
        return Vec::new();
    }
    let path = store.dir().join("cache").join("signers");
    let under = under(store);
    let known = fs::read(&path).ok();
    let mut known = known
        .and_then(|text| serde_json::from_slice::<Known>(&text).ok())
        .filter(|known| known.under == under)
        .unwrap_or_default();
    let mut fresh = Vec::new();
    let mut unsigned = 0;
    for id in commits {
        if known.signers.contains_key(&id.to_string()) {
            continue;
        }
        match store.repo.is_signed(*id) {
            Ok(true) => fresh.push(*id),
            _ => {
                known.signers.insert(id.to_string(), None);
                unsigned += 1;
            }
        }
    }
    let found = store.repo.signatures(&fresh).unwrap_or_default();
    let checked = !found.is_empty();
    for (id, signed) in fresh.iter().zip(found) {
        let signer = match signed {
            Signed::By(signer) => Some(signer),
            _ => None,
        };
        known.signers.insert(id.to_string(), signer);
    }
    let answer = commits
        .iter()
        .map(|id| known.signers.get(&id.to_string()).cloned().flatten())
        .collect();
    if checked || unsigned > FEW {
        known.under = under;
        keep(store, known, commits);
    }
    answer
}

/// Returns whether a signer confirms this address, or it is only claimed.
pub fn claim(signer: Option<&str>, email: &str) -> Authorship {
    match signer {
        Some(signer) if names(signer, email) => Authorship::Verified,
        _ => Authorship::Claimed,
    }
}

/// Writes the cache. A failure is ignored.
fn keep(store: &Store<'_>, mut known: Known, commits: &[ObjectId]) {
    if known.signers.len() > MANY {
        let wanted: std::collections::HashSet<String> =
            commits.iter().map(ToString::to_string).collect();
        known.signers.retain(|id, _| wanted.contains(id));
    }
    let (Ok(dir), Ok(text)) = (store.require_dir("cache"), serde_json::to_vec(&known)) else {
        return;
    };
    let _ = file::replace(&dir.join("signers"), text, Durability::Volatile);
}

/// Returns a fingerprint of everything that the answers depend on.
fn under(store: &Store<'_>) -> String {
    let repo = store.repo;
    let hours = store.env.now().seconds() / 3600 / HOURS;
    let mut text = format!("{hours}\n").into_bytes();
    for key in SETTINGS {
        text.extend(repo.config_string(key).unwrap_or_default().bytes());
        text.push(0);
    }
    for key in FILES {
        let path = repo.config_path(key);
        let path = path.map(|path| match repo.main_work_tree() {
            Some(top) => top.join(path),
            None => repo.common_dir().join(path),
        });
        text.extend(format!("{path:?}").bytes());
        text.extend(
            path.and_then(|path| fs::read(path).ok())
                .unwrap_or_default(),
        );
        text.push(0);
    }
    crate::git::sha256(&text)
}
