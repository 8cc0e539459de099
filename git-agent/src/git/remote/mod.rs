//! Other repositories: their addresses, and fetching and pushing objects. Never by wildcard.
//!
//! The other side's stderr is foreign text: the caller gets it line by line, and it is never printed unchanged.

pub(crate) mod fsck;
pub mod list_refs;
pub mod transfer;

use std::cmp::Reverse;
use std::process::Stdio;

use crate::error::{Error, Result, shell_word};
use crate::git::object::quarantine::Quarantine;
pub use crate::git::phrases::FetchFault;
use crate::git::phrases::{fetch_fault, is_hidden, remote_words};
use crate::git::remote::transfer::{Audience, converse, summary};
use crate::git::{Git, ObjectId, Repo};

/// Larger blobs are streamed to the disk instead of being held in memory.
pub(super) const STREAMED: &str = "1m";
/// A longer user name in an address counts as a token.
const LONGEST_USER: usize = 32;

/// A change of a ref in another repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The full name at the remote.
    pub name: String,
    /// The new value; `None` deletes the ref.
    pub new: Option<ObjectId>,
    /// Permits to rewrite or delete the ref if it still has this value.
    pub over: Option<ObjectId>,
}

/// The result of pushing one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferOutcome {
    /// The full name at the remote.
    pub name: String,
    /// git's flag; `!` is a refusal.
    pub flag: char,
    /// git's summary.
    pub summary: String,
    /// Whether the remote refused it because it hides such refs from pushes.
    pub hidden: bool,
}

#[derive(Debug)]
pub struct Pushed {
    /// Whether everything was accepted.
    pub done: bool,
    /// The result for each ref.
    pub outcomes: Vec<TransferOutcome>,
    /// The error output, as one line.
    pub said: String,
    /// The remote's part of it.
    pub remote_said: Option<String>,
}

#[derive(Debug)]
pub struct FetchFailure {
    pub fault: FetchFault,
    /// The error output, as one line.
    pub said: String,
}

impl Repo {
    /// Returns the names of the configured remotes.
    pub fn remote_names(&self) -> Vec<String> {
        self.config_subsections("remote")
            .into_iter()
            .filter(|name| {
                !name.is_empty() && self.config_string(&format!("remote.{name}.url")).is_some()
            })
            .collect()
    }

    /// Returns all addresses to which git pushes a configured remote.
    pub fn push_urls(&self, remote: &str) -> Result<Vec<String>> {
        if let Some(urls) = self.plain_push_urls(remote) {
            return Ok(urls);
        }
        let answer = self
            .remote_git()
            .args(["remote", "get-url", "--push", "--all", "--", remote])
            .run()?;
        Ok(answer.text().lines().map(str::to_owned).collect())
    }

    /// Returns the address to which git pushes a given address.
    pub fn push_url_of(&self, address: &str) -> Result<String> {
        if self.settings_are_plain() {
            return Ok(address.to_owned());
        }
        let answer = self
            .remote_git()
            .args(["config", "--null", "--get-regexp"])
            .arg(r"^url\..*\.(push)?insteadof$")
            .answer()?;
        let listed = match answer.code {
            Some(0) => String::from_utf8_lossy(&answer.stdout).into_owned(),
            // No such setting.
            Some(1) => String::new(),
            _ => return Err(Error::fatal("cannot read how addresses are rewritten")),
        };
        Ok(rewritten(address, &listed, ".pushinsteadof")
            .or_else(|| rewritten(address, &listed, ".insteadof"))
            .unwrap_or_else(|| address.to_owned()))
    }

    /// Returns whether the settings of a remote are its complete address, without rewrites.
    fn settings_are_plain(&self) -> bool {
        self.config_subsections("url").is_empty() && !self.depends_on_place()
    }

    /// Returns whether some settings apply only to certain remotes or to this worktree: only git knows how it evaluates
    /// them for a remote.
    fn depends_on_place(&self) -> bool {
        let conditions = self.config_subsections("includeIf");
        let own = || self.config_bool("extensions.worktreeConfig");
        if self.is_linked_worktree() {
            !conditions.is_empty() || !matches!(own(), Ok(None | Some(false)))
        } else {
            conditions.iter().any(|one| one.starts_with("hasconfig:"))
        }
    }

    /// Returns whether a remote is pushed to the address it is fetched from.
    pub fn pushes_where_it_fetches(&self, remote: &str) -> bool {
        let bases = self.config_subsections("url");
        let rewrites = |base: &String| {
            let key = format!("url.{base}.pushInsteadOf");
            self.config_string(&key).is_some()
        };
        let values = |key| self.config_strings(&format!("remote.{remote}.{key}"));
        !self.depends_on_place()
            && !bases.iter().any(rewrites)
            && values("pushurl").is_empty()
            && values("url").len() <= 1
    }

    /// Returns the remote-tracking branches of a remote with their values, by their names there, if the readers of
    /// pushed objects can read them too: another remote may have other readers.
    pub fn branches_of(&self, remote: &str) -> Result<Vec<(String, ObjectId)>> {
        let names = self.remote_names();
        let place = format!("refs/remotes/{remote}/");
        // Refs from another address than the push address prove nothing.
        let certain = names.iter().any(|name| name == remote)
            && self.pushes_where_it_fetches(remote)
            && !names
                .iter()
                .any(|name| name != remote && self.may_fetch_into(name, &place));
        if certain {
            let known = self.refs_under(&place)?.refs.into_iter();
            Ok(known
                .filter_map(|found| Some((found.name.strip_prefix(&place)?.to_owned(), found.id)))
                .collect())
        } else {
            Ok(Vec::new())
        }
    }

    /// Returns whether branches of a remote may be fetched into a prefix that ends in `/`.
    fn may_fetch_into(&self, remote: &str, place: &str) -> bool {
        let refspecs = self.config_strings(&format!("remote.{remote}.fetch"));
        let overlaps = |refspec: &String| {
            let into = refspec.rsplit_once(':').map_or("", |(_, into)| into);
            let into = into.split('*').next().unwrap_or_default();
            !into.is_empty() && (into.starts_with(place) || place.starts_with(into))
        };
        format!("refs/remotes/{remote}/").starts_with(place) || refspecs.iter().any(overlaps)
    }

    /// Returns the same if nothing can rewrite addresses: then it is in the settings.
    fn plain_push_urls(&self, remote: &str) -> Option<Vec<String>> {
        if !self.settings_are_plain() {
            return None;
        }
        let values = |key| self.config_strings(&format!("remote.{remote}.{key}"));
        let urls = match values("pushurl") {
            own if own.is_empty() => values("url"),
            own => own,
        };
        // For newer versions of git an empty one cancels those before it.
        let plain = !urls.is_empty() && urls.iter().all(|url| !url.is_empty());
        plain.then_some(urls)
    }

    /// Returns a call of git in the directory to which addresses of remotes are relative.
    pub(super) fn remote_git(&self) -> Git {
        let top = self.main_work_tree();
        Git::new(self.common_dir(), self.common_dir(), top.as_deref())
    }

    /// Fetches objects and everything they need from a remote, checked by git. Writes no ref.
    pub fn fetch_objects(
        &self,
        remote: &str,
        ids: &[ObjectId],
        audience: &mut Audience<'_>,
    ) -> Result<()> {
        match self.try_fetch(remote, ids, audience)? {
            None => Ok(()),
            Some(failure) => Err(refused("fetch from", remote, &failure.said)),
        }
    }

    /// Does the same. Returns the failure of the fetch, as distinct from other errors.
    pub fn try_fetch(
        &self,
        remote: &str,
        ids: &[ObjectId],
        audience: &mut Audience<'_>,
    ) -> Result<Option<FetchFailure>> {
        let quarantine = Quarantine::new(self)?;
        match self.fetch_into(&quarantine, remote, ids, true, audience)? {
            None => quarantine.release().map(|()| None),
            failure => Ok(failure),
        }
    }

    /// Fetches the same into a quarantine, checked or not. Returns the failure of the fetch.
    pub(super) fn fetch_into(
        &self,
        quarantine: &Quarantine,
        remote: &str,
        ids: &[ObjectId],
        checked: bool,
        audience: &mut Audience<'_>,
    ) -> Result<Option<FetchFailure>> {
        let wanted: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let mut git = self.remote_git();
        if self.remote_names().iter().any(|name| name == remote) {
            git = git.config(&format!("remote.{remote}.followRemoteHEAD"), "never");
        }
        let child = quarantine
            .enter(git)
            .durable()
            .config("fetch.fsckObjects", if checked { "true" } else { "false" })
            .config("core.bigFileThreshold", STREAMED)
            .config("fetch.recurseSubmodules", "false")
            .config("fetch.writeCommitGraph", "false")
            .args([
                "fetch",
                "--stdin",
                audience.wish(),
                "--no-tags",
                // With an address, the user's settings could fetch all tags, or delete the user's own.
                "--no-prune",
                "--no-prune-tags",
                // A partial clone fetches missing blobs on demand, but only through git itself.
                "--no-filter",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--no-recurse-submodules",
                "--refmap=",
                "--",
                remote,
            ])
            .spawn(Stdio::piped(), Stdio::null(), Stdio::piped())?;
        let (code, _, said) = converse(child, wanted.into_bytes(), audience)?;
        Ok(match code {
            Some(0) => None,
            _ => Some(FetchFailure {
                fault: fetch_fault(&said),
                said: summary(&said),
            }),
        })
    }

    /// Changes refs in another repository; with `atomic`, all or none.
    pub fn push_refs(
        &self,
        remote: &str,
        updates: &[Update],
        atomic: bool,
        audience: &mut Audience<'_>,
    ) -> Result<Pushed> {
        let mut git = self
            .remote_git()
            .config("push.followTags", "false")
            .config("push.recurseSubmodules", "no")
            .config("push.autoSetupRemote", "false");
        if self.remote_names().iter().any(|name| name == remote) {
            git = git.config(&format!("remote.{remote}.mirror"), "false");
        }
        git = git.args(["push", "--porcelain", audience.wish(), "--no-verify"]);
        if atomic {
            git = git.arg("--atomic");
        }
        for update in updates {
            if let Some(old) = update.over {
                git = git.arg(format!("--force-with-lease={}:{old}", update.name));
            }
        }
        git = git.arg("--").arg(remote);
        for update in updates {
            let new = update.new.map(|id| id.to_string()).unwrap_or_default();
            git = git.arg(format!("{new}:{}", update.name));
        }
        let child = git.spawn(Stdio::null(), Stdio::piped(), Stdio::piped())?;
        let (code, stdout, said) = converse(child, Vec::new(), audience)?;
        Ok(Pushed {
            done: code == Some(0),
            outcomes: outcomes(&stdout),
            said: summary(&said),
            remote_said: remote_words(&said),
        })
    }

    /// Returns the signature status of commits, in order.
    pub fn signatures(&self, commits: &[ObjectId]) -> Result<Vec<Signed>> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let answer = self
            .remote_git()
            .config("log.showSignature", "false")
            .args(["log", "--no-walk=unsorted", "--stdin", "-z"])
            .arg("--format=%H%x01%G?%x01%GS%x01%GF")
            .input(input)
            .run()?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut found = std::collections::HashMap::new();
        for record in text.split('\0').filter(|record| !record.is_empty()) {
            let mut fields = record.split('\u{1}');
            let mut next = || fields.next().unwrap_or_default().to_owned();
            let (id, letter, signer, key) = (next(), next(), next(), next());
            found.insert(id, Signed::from_git(&letter, signer, key));
        }
        Ok(commits
            .iter()
            .map(|id| found.remove(&id.to_string()).unwrap_or(Signed::No))
            .collect())
    }

    /// Creates a commit signed with the user's own key and program, durably.
    pub fn signed_commit(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        who: &crate::git::object::Signature,
        message: &str,
    ) -> Result<ObjectId> {
        let date = format!("@{} +0000", who.seconds);
        let mut git = self
            .remote_git()
            .durable()
            .args(["commit-tree", "--gpg-sign"])
            .arg(tree.to_string());
        for parent in parents {
            git = git.arg("-p").arg(parent.to_string());
        }
        for role in ["AUTHOR", "COMMITTER"] {
            git = git
                .env(format!("GIT_{role}_NAME"), &who.name)
                .env(format!("GIT_{role}_EMAIL"), &who.email)
                .env(format!("GIT_{role}_DATE"), &date);
        }
        let answer = git.args(["-F", "-"]).input(message).run()?;
        self.parse_id(&answer.text())
    }
}

/// The signature status of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// Not signed.
    No,
    /// Good, and its key belongs to this person according to the user's settings.
    By(String),
    /// Good, but the key is unknown here.
    Stranger(String),
    /// Does not match the commit.
    Bad,
    /// It cannot be checked here.
    Unknown,
}

impl Signed {
    fn from_git(letter: &str, signer: String, key: String) -> Self {
        match letter {
            "G" => Signed::By(signer),
            "U" => Signed::Stranger(key),
            "B" => Signed::Bad,
            "N" | "" => Signed::No,
            // Expired or revoked keys, and missing programs.
            _ => Signed::Unknown,
        }
    }
}

/// Returns whether an address contains a password, or a token in place of a user name.
pub fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    host.rsplit_once('@').is_some_and(|(user, _)| {
        let password = user.split_once(':').map_or("", |(_, password)| password);
        !password.is_empty() || user.len() > LONGEST_USER
    })
}

/// Returns an address without its secrets, to show and store.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        None => url.to_owned(),
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            let token = user.len() > LONGEST_USER || scheme.starts_with("http");
            let user = if token { "" } else { user };
            let at = if user.is_empty() { "" } else { "@" };
            format!("{scheme}://{user}{at}{host}{}", &rest[end..])
        }
    }
}

fn refused(what: &str, remote: &str, said: &str) -> Error {
    Error::fatal(format!(
        "cannot {what} '{}': {said}",
        without_password(remote)
    ))
}

/// Returns the error for a remote whose refs cannot be listed, the first sign of a wrong address.
pub(super) fn not_listed(remote: &str, said: &str) -> Error {
    let error = refused("list", remote, said);
    // A user who gave an address knows it.
    if remote.contains(['/', ':']) {
        error
    } else {
        error.hint(format!(
            "git remote get-url --all -- {}",
            shell_word(remote)
        ))
    }
}

/// Returns an address after rewriting by the settings whose names end with `key`: the longest match wins, and of
/// equally long ones the first base.
fn rewritten(address: &str, listed: &str, key: &str) -> Option<String> {
    let settings = listed.split('\0').filter_map(|one| one.split_once('\n'));
    let settings: Vec<(&str, &str)> = settings
        .filter_map(|(name, value)| {
            let base = name.strip_prefix("url.")?.strip_suffix(key)?;
            Some((base, value))
        })
        .collect();
    let place = |base: &str| settings.iter().position(|(one, _)| *one == base);
    settings
        .iter()
        .filter(|(_, value)| address.starts_with(value))
        .min_by_key(|(base, value)| (Reverse(value.len()), place(base)))
        .map(|(base, value)| format!("{base}{}", &address[value.len()..]))
}

fn outcomes(stdout: &[u8]) -> Vec<TransferOutcome> {
    lines_of_porcelain(stdout)
        .filter_map(|line| {
            let mut fields = line.splitn(3, '\t');
            let flag = fields.next()?;
            let (_, name) = fields.next()?.rsplit_once(':')?;
            let summary = fields.next()?;
            Some(TransferOutcome {
                name: name.to_owned(),
                flag: flag.chars().next().unwrap_or(' '),
                summary: summary.to_owned(),
                hidden: is_hidden(summary),
            })
        })
        .collect()
}

fn lines_of_porcelain(stdout: &[u8]) -> impl Iterator<Item = String> + '_ {
    stdout
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_told_ref_by_ref() {
        let told = outcomes(
            b"To ../bare\n*\t1234:refs/x/a\t[new reference]\n!\t:refs/x/b\t[rejected] (stale info)\nDone\n",
        );
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].name.as_str(), told[0].flag), ("refs/x/a", '*'));
        assert_eq!((told[1].name.as_str(), told[1].flag), ("refs/x/b", '!'));
        assert_eq!(told[1].summary, "[rejected] (stale info)");
    }

    #[test]
    fn an_address_is_rewritten_as_git_does_it() {
        let listed = "url.b/.insteadof\nx:\0url.a/.insteadof\nx:\0url.a/.insteadof\nx:y\0\
                      url.c.c/.pushinsteadof\nx:y/\0url.b/.insteadof\nx:y\0";
        let fetched = |address| rewritten(address, listed, ".insteadof");
        assert_eq!(fetched("x:z").as_deref(), Some("b/z"));
        assert_eq!(fetched("x:y/z").as_deref(), Some("b//z"));
        assert_eq!(fetched("y:z"), None);
        let pushed = |address| rewritten(address, listed, ".pushinsteadof");
        assert_eq!(pushed("x:y/z").as_deref(), Some("c.c/z"));
        assert_eq!(pushed("x:z"), None);
    }

    #[test]
    fn passwords_and_tokens_are_neither_shown_nor_kept() {
        for (given, kept) in [
            ("https://a:b@h.example/x", "https://h.example/x"),
            ("https://token@h.example/x", "https://h.example/x"),
            ("ssh://git@h.example:22/x", "ssh://git@h.example:22/x"),
            ("git@h.example:x", "git@h.example:x"),
            ("/srv/x", "/srv/x"),
            ("https://h.example/a@b", "https://h.example/a@b"),
        ] {
            assert_eq!(without_password(given), kept);
            assert!(!has_password(kept), "{kept}");
        }
        let token = "x".repeat(40);
        for given in [
            "http://a:b@h.example",
            &format!("https://{token}@h.example/x"),
        ] {
            assert!(has_password(given), "{given}");
        }
        for given in ["https://a@h.example/x", "ssh://a:@h.example/b:c@d"] {
            assert!(!has_password(given), "{given}");
        }
    }
}
