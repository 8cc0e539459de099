//! Repositories made by real git, in every shape git knows.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::output::Run;
use crate::process::Cmd;
use crate::sandbox::Sandbox;

/// File names that are legal and that careless code breaks on.
pub const DIFFICULT_NAMES: [&[u8]; 12] = [
    b"with space",
    b"new\nline",
    b"tab\tstop",
    b"not-utf8-\xff\xe9",
    b"-rf",
    b"quote\"and'quote",
    b"back\\slash",
    b"$(id)`id`;id",
    b"*[glob]?",
    b"colon:and#hash",
    b"escape\x1b[31m",
    "zero\u{200b}width-\u{202e}bidi-é-😀".as_bytes(),
];

/// The hash function of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// 40 digits.
    Sha1,
    /// 64 digits.
    Sha256,
}

/// The way a repository keeps its refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefFormat {
    /// Loose files and `packed-refs`.
    Files,
    /// The binary format of git 2.45 and later.
    Reftable,
}

impl Hash {
    /// Returns git's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "sha1",
            Hash::Sha256 => "sha256",
        }
    }

    /// Returns the id that stands for "no object".
    pub fn zero(self) -> String {
        "0".repeat(match self {
            Hash::Sha1 => 40,
            Hash::Sha256 => 64,
        })
    }
}

impl RefFormat {
    /// Returns git's name for it.
    pub fn name(self) -> &'static str {
        match self {
            RefFormat::Files => "files",
            RefFormat::Reftable => "reftable",
        }
    }

    /// Returns the formats that the git under test knows.
    pub fn available() -> &'static [RefFormat] {
        if crate::toolbox::Git::under_test().has_reftable() {
            &[RefFormat::Files, RefFormat::Reftable]
        } else {
            &[RefFormat::Files]
        }
    }
}

/// A repository being described. What is not said comes from `GIT_DEFAULT_HASH` and `GIT_DEFAULT_REF_FORMAT`.
#[derive(Debug)]
#[must_use = "nothing exists before .create()"]
pub struct Builder<'a> {
    sandbox: &'a Sandbox,
    path: PathBuf,
    hash: Option<Hash>,
    refs: Option<RefFormat>,
    bare: bool,
    unborn: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox, path: PathBuf) -> Self {
        Builder {
            sandbox,
            path,
            hash: None,
            refs: None,
            bare: false,
            unborn: false,
        }
    }

    /// Chooses the hash function.
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = Some(hash);
        self
    }

    /// Chooses how refs are kept. Ask [`RefFormat::available`] first.
    pub fn refs(mut self, refs: RefFormat) -> Self {
        self.refs = Some(refs);
        self
    }

    /// Makes a repository without a worktree.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Leaves the repository without any commit.
    pub fn unborn(mut self) -> Self {
        self.unborn = true;
        self
    }

    /// Creates the repository, with a first commit on `main` unless it is bare or unborn.
    #[track_caller]
    pub fn create(self) -> Repo<'a> {
        let parent = self.path.parent().expect("a repository lies somewhere");
        fs::create_dir_all(parent).expect("the sandbox is writable");
        let mut init =
            self.sandbox
                .command("git")
                .args(["init", "--quiet", "--initial-branch=main"]);
        if let Some(hash) = self.hash {
            init = init.arg(format!("--object-format={}", hash.name()));
        }
        if let Some(refs) = self.refs {
            init = match refs {
                // An older git does not know the option and has nothing else.
                RefFormat::Files if !self.sandbox.git().has_reftable() => init,
                _ => init.arg(format!("--ref-format={}", refs.name())),
            };
        }
        if self.bare {
            init = init.arg("--bare");
        }
        init.arg("--").arg(&self.path).run().success();
        let repo = Repo {
            sandbox: self.sandbox,
            path: self.path,
        };
        repo.check_formats(self.hash, self.refs);
        if !self.bare && !self.unborn {
            repo.write("README.md", "a repository for a test\n");
            repo.commit("begin");
        }
        repo
    }
}

/// A repository, or one of its worktrees.
#[derive(Debug, Clone)]
pub struct Repo<'a> {
    sandbox: &'a Sandbox,
    path: PathBuf,
}

impl<'a> Repo<'a> {
    /// Returns what lies at a path, such as a worktree that the product made.
    pub fn open(sandbox: &'a Sandbox, path: impl Into<PathBuf>) -> Self {
        Repo {
            sandbox,
            path: path.into(),
        }
    }

    /// Returns the world this lies in.
    pub fn sandbox(&self) -> &'a Sandbox {
        self.sandbox
    }

    /// Returns the top of the worktree, or the bare repository.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a program about to be started here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Cmd {
        self.sandbox.command(program).cwd(&self.path)
    }

    /// Runs git here.
    #[track_caller]
    pub fn git(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        self.command("git").args(args).run()
    }

    /// Runs `git agent …` here.
    #[track_caller]
    pub fn agent(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        self.agent_cmd(args).run()
    }

    /// Returns `git agent …` about to be started here.
    pub fn agent_cmd(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Cmd {
        self.command("git").arg("agent").args(args)
    }

    /// Writes a file, and the directories it needs.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().expect("a file lies somewhere"))
            .expect("the worktree is writable");
        fs::write(path, bytes).expect("the worktree is writable");
    }

    /// Returns a file's content.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path.join(path);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes one file for each of [`DIFFICULT_NAMES`].
    pub fn write_difficult_names(&self) {
        for name in DIFFICULT_NAMES {
            self.write(OsStr::from_bytes(name), name);
        }
    }

    /// Commits everything in the worktree a minute later than before, and returns the commit's id.
    #[track_caller]
    pub fn commit(&self, message: &str) -> String {
        self.sandbox.tick();
        self.git(["add", "--all"]).success();
        self.git(["commit", "--quiet", "--allow-empty", "--message", message])
            .success();
        self.id("HEAD")
    }

    /// Returns the object id of a revision.
    #[track_caller]
    pub fn id(&self, revision: &str) -> String {
        self.git(["rev-parse", "--verify", "--end-of-options", revision])
            .success()
            .line()
            .to_owned()
    }

    /// Returns all refs whose names start with a prefix (empty for all) and their object ids.
    #[track_caller]
    pub fn refs(&self, prefix: &str) -> BTreeMap<String, String> {
        let mut args = vec!["for-each-ref", "--format=%(refname) %(objectname)"];
        if !prefix.is_empty() {
            args.push(prefix);
        }
        self.git(args)
            .success()
            .lines()
            .into_iter()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, id)| (name.to_owned(), id.to_owned()))
            .collect()
    }

    /// Adds a linked worktree on a new branch beside this one.
    #[track_caller]
    pub fn worktree(&self, name: impl AsRef<OsStr>, branch: &str) -> Repo<'a> {
        let path = self.beside(name.as_ref());
        self.command("git")
            .args(["worktree", "add", "--quiet", "-b", branch])
            .arg(&path)
            .run()
            .success();
        Repo::open(self.sandbox, path)
    }

    /// Clones this repository beside itself; options such as `--bare` or `--depth=1` are passed on.
    #[track_caller]
    pub fn clone_to(&self, name: impl AsRef<OsStr>, options: &[&str]) -> Repo<'a> {
        let path = self.beside(name.as_ref());
        let mut url = OsString::from("file://");
        url.push(&self.path);
        self.command("git")
            .args(["clone", "--quiet"])
            .args(options)
            .arg("--")
            .arg(url)
            .arg(&path)
            .run()
            .success();
        Repo::open(self.sandbox, path)
    }

    fn beside(&self, name: &OsStr) -> PathBuf {
        self.path
            .parent()
            .expect("a repository lies somewhere")
            .join(name)
    }

    /// Returns the hash function.
    #[track_caller]
    pub fn hash(&self) -> Hash {
        match self
            .git(["rev-parse", "--show-object-format"])
            .success()
            .line()
        {
            "sha1" => Hash::Sha1,
            "sha256" => Hash::Sha256,
            other => panic!("git speaks of an object format '{other}'"),
        }
    }

    /// Returns how refs are kept.
    #[track_caller]
    pub fn ref_format(&self) -> RefFormat {
        if !self.sandbox.git().has_reftable() {
            return RefFormat::Files;
        }
        match self
            .git(["rev-parse", "--show-ref-format"])
            .success()
            .line()
        {
            "files" => RefFormat::Files,
            "reftable" => RefFormat::Reftable,
            other => panic!("git speaks of a ref format '{other}'"),
        }
    }

    /// Returns the directory that all worktrees share.
    #[track_caller]
    pub fn common_dir(&self) -> PathBuf {
        let shown = self
            .git(["rev-parse", "--path-format=absolute", "--git-common-dir"])
            .success();
        let bytes = shown.stdout_bytes();
        PathBuf::from(OsStr::from_bytes(
            bytes.strip_suffix(b"\n").unwrap_or(bytes),
        ))
    }

    /// Returns every object, reachable or not, as one text.
    #[track_caller]
    pub fn everything(&self) -> Vec<u8> {
        let all = ["cat-file", "--batch-all-objects", "--batch"];
        self.git(all).success().stdout_bytes().to_vec()
    }

    /// Asserts that git finds nothing missing and nothing broken.
    ///
    /// `git fsck` lists the objects before it reads the refs: what a session writes in between looks missing to it. What
    /// is really missing is missing at the next look, too.
    #[track_caller]
    pub fn assert_whole(&self) {
        let look = || self.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
        for _ in 0..3 {
            if look().whatever().status().success() {
                return;
            }
        }
        look().success();
    }

    /// Asserts that the repository is whole and that everything its user does still works: status, commit, fetch,
    /// gc and fsck.
    #[track_caller]
    pub fn assert_user_can_work(&self) {
        let bare = self
            .git(["rev-parse", "--is-bare-repository"])
            .success()
            .line()
            == "true";
        self.assert_whole();
        if !bare {
            self.git(["status", "--porcelain"]).success();
            self.sandbox.tick();
            self.git([
                "commit",
                "--quiet",
                "--allow-empty",
                "--message",
                "the user goes on",
            ])
            .success();
        }
        // Walks everything reachable, as serving a fetch does.
        let mut url = OsString::from("file://");
        url.push(&self.path);
        let scratch = tempfile::tempdir_in(self.sandbox.root()).expect("the sandbox is writable");
        self.sandbox
            .command("git")
            .args(["clone", "--quiet", "--mirror", "--"])
            .arg(url)
            .arg(scratch.path().join("mirror"))
            .run()
            .success();
        self.git(["gc", "--quiet", "--prune=now"]).success();
        self.assert_whole();
    }

    #[track_caller]
    fn check_formats(&self, hash: Option<Hash>, refs: Option<RefFormat>) {
        // An old git ignores the variables of the matrix: then the test would pass without having tested anything.
        let wanted_hash = hash
            .map(|hash| hash.name().to_owned())
            .or_else(|| asked_of_git("GIT_DEFAULT_HASH"));
        if let Some(wanted) = wanted_hash {
            assert_eq!(
                self.hash().name(),
                wanted,
                "git made a repository of another object format"
            );
        }
        let wanted_refs = refs
            .map(|refs| refs.name().to_owned())
            .or_else(|| asked_of_git("GIT_DEFAULT_REF_FORMAT"));
        if let Some(wanted) = wanted_refs {
            assert_eq!(
                self.ref_format().name(),
                wanted,
                "{} made a repository of another ref format",
                self.sandbox.git()
            );
        }
    }
}

fn asked_of_git(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty())
}
