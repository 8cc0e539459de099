//! Chooses the remote, and knows whether the user agreed to share sessions with its readers.
//!
//! Consent belongs to the address, not to the name, because the address decides who can read the sessions.

use std::path::{Component, Path, PathBuf};

use crate::config::settings;
use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::git::remote::{has_password, without_password};
use crate::selection;
use crate::session::caller::{self, Act};
use crate::session::recent;
use crate::store::list::find_in;

/// The setting that names the remote for sessions.
pub const KEY: &str = "agent.remote";
/// The setting with the addresses that sessions may be pushed to.
pub const CONSENT: &str = "agent.share";

/// The way to share with fewer people.
const FEWER_READERS: &str = "git config agent.remote <name>    for a remote with fewer readers";

/// Shows the addresses of a remote and asks whether their readers may see sessions.
pub type Ask<'a> = &'a mut dyn FnMut(&Remote) -> Result<bool>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The argument for git: the name of a remote, or an address.
    pub name: String,
    /// All addresses that pushes go to, without passwords.
    pub addresses: Vec<String>,
    /// Whether the user agreed to push sessions there.
    pub agreed: bool,
}

impl Remote {
    /// Returns the remote with this name or address; without one, `agent.remote`, then `origin`, then the only remote.
    pub fn choose(context: &Context<'_>, wanted: Option<&str>) -> Result<Self> {
        let (name, known) = choose_name(context, wanted)?;
        if !known {
            require_no_password(&name)?;
        }
        Remote::of(context, name, known)
    }

    /// Returns a remote that was pushed to or fetched from before.
    pub(super) fn recall(context: &Context<'_>, name: &str) -> Result<Self> {
        let (name, known) = choose_name(context, Some(name))?;
        Remote::of(context, name, known)
    }

    fn of(context: &Context<'_>, name: String, known: bool) -> Result<Self> {
        if known {
            let urls = context.repo.push_urls(&name)?;
            let all = urls.iter().map(|url| absolute(context, url));
            let addresses = all.map(|url| without_password(&url)).collect();
            return Ok(Remote::at(context, name, addresses));
        }
        let address = without_password(&context.repo.push_url_of(&name)?);
        Ok(Remote::at(context, name, vec![address]))
    }

    /// Returns the argument for git of the same remote. Finding the push addresses takes a call of git, which a fetch
    /// does not need.
    pub fn choose_name(context: &Context<'_>, wanted: Option<&str>) -> Result<String> {
        let (name, known) = choose_name(context, wanted)?;
        if !known {
            require_no_password(&name)?;
        }
        Ok(name)
    }

    /// The team's file cannot give consent, so only git's configuration is read.
    fn at(context: &Context<'_>, name: String, addresses: Vec<String>) -> Self {
        let known = context.repo.config_strings(CONSENT);
        let agreed = addresses.iter().all(|address| known.contains(address));
        Remote {
            name,
            addresses,
            agreed,
        }
    }

    /// Returns the addresses as one text with a separator.
    pub fn address(&self, between: &str) -> String {
        self.addresses.join(between)
    }

    /// Returns whether a word names a remote or an address rather than a session.
    pub fn is_meant(context: &Context<'_>, word: &str) -> bool {
        context.repo.remote_names().iter().any(|name| name == word)
            || looks_like_address(context, word)
    }

    /// Returns the remote of a push and the names of the sessions, from the words after `push`. A dry run may be made
    /// by an agent too.
    pub fn of_push(
        context: &Context<'_>,
        words: &[String],
        dry_run: bool,
    ) -> Result<(Self, Vec<String>)> {
        if !dry_run {
            caller::permit(context, Act::Share, [])?;
        }
        let (remote, names) = Remote::sort_out(context, words)?;
        Ok((Remote::choose(context, remote.as_deref())?, names))
    }

    /// Tells the remote from the sessions: the first word may be either.
    fn sort_out(context: &Context<'_>, words: &[String]) -> Result<(Option<String>, Vec<String>)> {
        let Some((first, rest)) = words.split_first() else {
            return Ok((None, Vec::new()));
        };
        let is_session = !Remote::is_meant(context, first) && {
            let name = recent::spelled_out(context, first)?;
            let known = selection::list_for(context, std::slice::from_ref(&name))?;
            find_in(&known, &name).is_ok()
        };
        Ok(if is_session {
            (None, words.to_vec())
        } else {
            (Some(first.clone()), rest.to_vec())
        })
    }

    /// Makes sure that the user has agreed to share sessions with this remote, and remembers a new consent. `ask` shows
    /// the addresses and asks; without it the user cannot be asked.
    pub fn require_consent(
        &mut self,
        context: &Context<'_>,
        given: bool,
        ask: Option<Ask<'_>>,
    ) -> Result<()> {
        caller::permit(context, Act::Share, [])?;
        if self.agreed || given {
            return self.agree(context);
        }
        let Some(ask) = ask else {
            return Err(Error::fatal(format!(
                "you have not agreed to share sessions with '{}' ({})",
                self.name,
                self.address(", ")
            ))
            .hint(
                "everyone who can read it will see prompts, answers, tool output, review comments and code",
            )
            .hint(format!("git agent push --yes {}", shell_word(&self.name)))
            .hint(FEWER_READERS));
        };
        if ask(self)? {
            self.agree(context)
        } else {
            Err(Error::negative("nothing was pushed").hint(FEWER_READERS))
        }
    }

    /// Remembers that sessions may be pushed there.
    fn agree(&mut self, context: &Context<'_>) -> Result<()> {
        let known = context.repo.config_strings(CONSENT);
        for address in self.addresses.iter().filter(|one| !known.contains(one)) {
            context.repo.add_config(CONSENT, address)?;
        }
        self.agreed = true;
        Ok(())
    }
}

/// Returns the argument for git, and whether it is the name of a remote rather than an address.
fn choose_name(context: &Context<'_>, wanted: Option<&str>) -> Result<(String, bool)> {
    let name = match wanted {
        Some(name) => name.to_owned(),
        None => default_name(context)?,
    };
    let known = context.repo.remote_names();
    if known.contains(&name) {
        return Ok((name, true));
    }
    if name.starts_with('-') || name.is_empty() || !looks_like_address(context, &name) {
        let error = Error::fatal(format!("remote '{name}' does not exist"));
        return Err(match known.as_slice() {
            [] => error.hint("git remote add origin <address>"),
            known => error.hint(format!("the remotes are: {}", known.join(", "))),
        });
    }
    let here = context.env.cwd.join(&name);
    if !name.contains("://") && here.exists() {
        let here = here.canonicalize().unwrap_or(here);
        return Ok((here.display().to_string(), false));
    }
    Ok((name, false))
}

fn default_name(context: &Context<'_>) -> Result<String> {
    if let Some(name) = context.config.text(&settings::REMOTE) {
        return Ok(name);
    }
    let mut known = context.repo.remote_names();
    if known.iter().any(|name| name == "origin") {
        return Ok("origin".to_owned());
    }
    match (known.pop(), known.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(Error::fatal(
            "there are several remotes, and none is named 'origin'",
        )
        .hint(format!("git config {KEY} <name>"))),
        (None, _) => {
            Err(Error::fatal("no remote is configured").hint("git remote add origin <address>"))
        }
    }
}

/// Returns whether a word can be an address: a URL, `host:path`, or a path.
fn looks_like_address(context: &Context<'_>, word: &str) -> bool {
    !word.starts_with('-')
        && (word.contains("://")
            || (word.contains('/') && context.env.cwd.join(word).exists())
            || word
                .split_once(':')
                .is_some_and(|(host, path)| !host.is_empty() && !path.is_empty()))
}

/// Refuses an address with a password.
fn require_no_password(address: &str) -> Result<()> {
    if !has_password(address) {
        return Ok(());
    }
    Err(Error::fatal(format!(
        "the address '{}' contains a password, which would show up in names of refs",
        without_password(address)
    ))
    .hint("git remote add <name> <address>    give it a name")
    .hint("git config credential.helper <helper>    let git keep the password"))
}

/// Returns an address that does not depend on the current directory.
fn absolute(context: &Context<'_>, url: &str) -> String {
    let agreed = || context.repo.config_strings(CONSENT);
    // An address with consent is kept as it is.
    if !is_relative(url) || agreed().iter().any(|one| one == url) {
        return url.to_owned();
    }
    let top = context.repo.main_work_tree();
    let from = top.as_deref().unwrap_or(context.repo.common_dir());
    real_path(&from.join(url)).display().to_string()
}

/// Returns whether an address is a relative path: for git, a colon before the first slash ends a host name.
fn is_relative(url: &str) -> bool {
    let first = url.split('/').next().unwrap_or_default();
    !first.is_empty() && !first.contains(':')
}

/// Returns a path without links and `..`, even if its end does not exist.
fn real_path(path: &Path) -> PathBuf {
    let there = path
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)));
    let Some((part, mut real)) = there else {
        return path.to_owned();
    };
    for step in path.strip_prefix(part).unwrap_or(path).components() {
        match step {
            Component::ParentDir => {
                real.pop();
            }
            step => real.push(step),
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_still_called_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("it is there");
        std::fs::create_dir(top.join("clone")).expect("writable");
        let hub = top.join("hub.git");
        for way in ["../hub.git", "../gone/../hub.git", "./../clone/../hub.git"] {
            let path = top.join("clone").join(way);
            assert_eq!(real_path(&path), hub, "{way}");
        }
        std::fs::create_dir(&hub).expect("writable");
        assert_eq!(real_path(&top.join("clone/../hub.git")), hub);
    }

    #[test]
    fn a_path_from_somewhere_is_told_from_a_host() {
        for relative in ["./x", "../x", "sub/x.git", "x.git", "sub/a:b"] {
            assert!(is_relative(relative), "{relative}");
        }
        for other in ["/srv/x", "host:x", "host:a/b", "file:///x", "ext::x", ""] {
            assert!(!is_relative(other), "{other}");
        }
    }
}
