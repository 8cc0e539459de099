//! Reading configuration with git's precedence: `-c`, environment, worktree, repository, user, system, includes.

use super::Repo;
use crate::error::{Context, Error, Result};

impl Repo {
    /// Returns the last value of a key, if set and readable.
    pub fn config_string(&self, key: &str) -> Option<String> {
        self.gix()
            .config_snapshot()
            .string(key)
            .map(|value| value.to_string())
    }

    /// Returns every value of a key, lowest precedence first.
    pub fn config_strings(&self, key: &str) -> Vec<String> {
        self.gix()
            .config_snapshot()
            .plumbing()
            .strings(key)
            .unwrap_or_default()
            .iter()
            .map(|value| value.to_string())
            .collect()
    }

    /// Returns a boolean; a value that is no boolean is an error that names the key.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>> {
        self.gix()
            .config_snapshot()
            .try_boolean(key)
            .context(|| format!("bad boolean config value for '{key}'"))
    }

    /// Returns a number (`k`, `m`, `g` understood); a value that is no number is an error that names the key.
    pub fn config_number(&self, key: &str) -> Result<Option<i64>> {
        self.gix()
            .config_snapshot()
            .try_integer(key)
            .context(|| format!("bad numeric config value for '{key}'"))
    }

    /// Returns the names of the subsections of a section, such as the `api` of `[agent-role "api"]`.
    pub fn config_subsections(&self, section: &str) -> Vec<String> {
        let snapshot = self.gix().config_snapshot();
        let mut names: Vec<String> = snapshot
            .plumbing()
            .sections_by_name(section)
            .into_iter()
            .flatten()
            .filter_map(|section| section.header().subsection_name().map(ToString::to_string))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the identity git would use as committer, as `(name, email)`.
    pub fn committer(&self) -> Result<(String, String)> {
        let missing = || {
            Error::fatal(
                "git does not know who is committing: user.name and user.email are not set",
            )
            .hint("git config --global user.name \"...\"")
            .hint("git config --global user.email \"...\"")
        };
        let signature = self
            .gix()
            .committer()
            .ok_or_else(missing)?
            .map_err(|_| missing())?;
        Ok((signature.name.to_string(), signature.email.to_string()))
    }
}

/// Parses `GIT_CONFIG_PARAMETERS`, by which `git -c key=value agent …` tells a subcommand its `-c` options.
///
/// Both of git's forms are read: `'key=value'` and `'key'='value'`. What cannot be read is left out, as it came from
/// git itself and git has checked it.
pub(super) fn parse_parameters(text: &[u8]) -> Vec<gix::bstr::BString> {
    let mut overrides = Vec::new();
    let mut rest = text;
    loop {
        while let Some((b' ', after)) = rest.split_first() {
            rest = after;
        }
        let Some((key, after)) = unquote(rest) else {
            return overrides;
        };
        rest = after;
        let mut entry = key;
        if let Some((b'=', after)) = rest.split_first() {
            entry.push(b'=');
            rest = after;
            if let Some((value, after)) = unquote(rest) {
                entry.extend_from_slice(&value);
                rest = after;
            }
        }
        overrides.push(entry.into());
    }
}

/// Reads one shell-quoted word, in which git writes `'` as `'\''` and `!` as `'\!'`.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"'")?;
    let mut word = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\'')?;
        word.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest {
            [b'\\', escaped, b'\'', after @ ..] => {
                word.push(*escaped);
                rest = after;
            }
            _ => return Some((word, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_parameters;

    #[test]
    fn reads_both_forms_of_parameters() {
        let parsed = parse_parameters(b"'a.b=c d' 'e.f'='it'\\''s' 'g.h' 'i.j'='wow'\\!''");
        let words: Vec<String> = parsed.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["a.b=c d", "e.f=it's", "g.h", "i.j=wow!"]);
        assert!(parse_parameters(b"").is_empty());
        assert!(parse_parameters(b"'unclosed").is_empty());
    }
}
