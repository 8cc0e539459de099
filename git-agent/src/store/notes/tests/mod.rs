//! Repositories and surroundings for the tests of notes.

mod faults;
mod layout;
mod union;
mod write;

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::env::{Env, Terminals};
use crate::git::{Git, ObjectId, Repo};
use crate::redact::{KnownSecrets, Redacted, Redactor};

/// A bare repository, removed on drop.
#[derive(Debug)]
struct World {
    /// Variables and clock.
    pub env: Env,
    /// The opened repository.
    pub repo: Repo,
    /// Its temporary directory.
    pub dir: TempDir,
}

impl World {
    /// Creates a repository with this hash function and ref storage, for a user of this name.
    pub fn new(hash: &str, refs: &str, name: &str, clock: u64) -> Self {
        // In memory if possible: the tests make thousands of synced writes, and do not test the disk.
        let memory = Path::new("/dev/shm");
        let dir = tempfile::Builder::new()
            .prefix("notes-")
            .tempdir_in(memory)
            .or_else(|_| tempfile::tempdir())
            .expect("a temporary directory");
        let init = Git::outside()
            .args(["init", "--quiet", "--bare"])
            .arg(format!("--object-format={hash}"))
            .arg(dir.path());
        // Older versions of git lack the option.
        let init = if refs == "files" {
            init
        } else {
            init.arg(format!("--ref-format={refs}"))
        };
        init.run().expect("git init works");
        let settings =
            format!("[user]\n\tname = {name}\n\temail = {name}@example.org\n[gc]\n\tauto = 0\n");
        let config = dir.path().join("config");
        let mut text = std::fs::read_to_string(&config).expect("a config");
        text.push_str(&settings);
        std::fs::write(&config, text).expect("a config");
        let env = World::env(dir.path(), clock);
        let repo = Repo::open(&env, dir.path()).expect("the repository opens");
        World { env, repo, dir }
    }

    /// Returns surroundings with a fixed clock.
    pub fn env(dir: &Path, clock: u64) -> Env {
        let clock = (
            OsString::from("GIT_AGENT_TEST_CLOCK"),
            OsString::from(clock.to_string()),
        );
        Env::new(dir.to_owned(), [clock], Terminals::default())
    }

    /// Creates a repository that borrows this one's objects.
    pub fn borrower(&self, name: &str, clock: u64) -> Self {
        let hash = self.repo.hash_kind().to_string();
        let other = World::new(&hash, "files", name, clock);
        let alternates = other.dir.path().join("objects/info/alternates");
        let objects = self.dir.path().join("objects");
        std::fs::write(&alternates, format!("{}\n", objects.display())).expect("a file");
        let repo = Repo::open(&other.env, other.dir.path()).expect("the repository opens");
        World { repo, ..other }
    }

    /// Returns an id of this repository's hash function that starts with these bytes.
    pub fn id(&self, leading: &[u8]) -> ObjectId {
        let mut bytes = leading.to_vec();
        bytes.resize(self.repo.hash_kind().len_in_bytes(), 0x5a);
        ObjectId::from_bytes_or_panic(&bytes)
    }

    /// Returns that many ids, always the same ones.
    pub fn ids(&self, count: usize) -> Vec<ObjectId> {
        let seed = [(OsString::from("GIT_AGENT_TEST_SEED"), OsString::from("7"))];
        let chance = Env::new(self.env.cwd.clone(), seed, Terminals::default());
        let bytes = self.repo.hash_kind().len_in_bytes();
        (0..count)
            .map(|_| self.id(&chance.random::<32>()[..bytes]))
            .collect()
    }

    /// Runs git here and returns its output.
    pub fn git(&self, words: &[&str], input: &str) -> String {
        self.repo
            .git_common()
            .args(words)
            .input(input.as_bytes().to_vec())
            .run()
            .expect("git works")
            .text()
    }
}

/// Returns a record that holds only its number.
fn record(n: usize) -> Redacted<Value> {
    Redactor::new(KnownSecrets::default()).json(json!({"v": 1, "n": n}))
}
