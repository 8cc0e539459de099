//! Reads configuration with git's precedence: `-c`, environment, worktree, repository, user, system, includes.

use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::git::{Git, Repo};

impl Repo {
    /// Returns the last value of a key, if it is set and readable.
    pub fn config_string(&self, key: &str) -> Option<String> {
        self.gix()
            .config_snapshot()
            .string(key)
            .map(|value| value.to_string())
    }

    /// Returns a path with git's expansions.
    pub fn config_path(&self, key: &str) -> Option<std::path::PathBuf> {
        let snapshot = self.gix().config_snapshot();
        snapshot.trusted_path(key).ok()?
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

    /// Returns a boolean; fails with the name of the key if the value is not one.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>> {
        self.gix()
            .config_snapshot()
            .try_boolean(key)
            .context(|| format!("bad boolean config value for '{key}'"))
    }

    /// Returns a number (with `k`, `m`, `g`); fails with the name of the key if the value is not one.
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

    /// Returns all values in the sections of this name, lowest precedence first.
    pub fn config_settings(&self, section: &str) -> Vec<Setting> {
        let snapshot = self.gix().config_snapshot();
        let mut settings = Vec::new();
        for section in snapshot
            .plumbing()
            .sections_by_name(section)
            .into_iter()
            .flatten()
        {
            let scope = scope(section.meta().source);
            for (key, value) in values_of(section) {
                settings.push(Setting { key, value, scope });
            }
        }
        settings
    }

    /// Sets a key in the repository's own configuration, for all its worktrees.
    pub fn set_config(&self, key: &str, value: &str) -> Result<()> {
        let words = ["config", "--local", "--replace-all", key, value];
        self.git_common().args(words).run().map(|_| ())
    }

    /// Adds a value to a multi-valued key in the repository's own configuration.
    pub fn add_config(&self, key: &str, value: &str) -> Result<()> {
        let words = ["config", "--local", "--add", key, value];
        self.git_common().args(words).run().map(|_| ())
    }

    /// Removes all values of a key from the repository's own configuration. Returns whether there was one.
    pub fn unset_config(&self, key: &str) -> Result<bool> {
        let words = ["config", "--local", "--unset-all", key];
        was_set(self.git_common().args(words), key)
    }

    /// Returns git's committer identity, as `(name, email)`.
    pub fn committer(&self) -> Result<(String, String)> {
        let missing = || {
            Error::fatal("committer identity unknown: user.name and user.email are not set")
                .hint("git config --global user.name \"...\"")
                .hint("git config --global user.email \"...\"")
        };
        // gix returns the same together with the time, but for that it reads the machine's time zones.
        let config = self.gix().config_snapshot();
        let first = |keys: &[&str]| {
            keys.iter()
                .find_map(|key| config.string(*key))
                .map(|value| value.to_string())
                .ok_or_else(missing)
        };
        Ok((
            first(&["committer.name", "user.name"])?,
            // gix stores the variable EMAIL under the last key, and GIT_COMMITTER_EMAIL under the first.
            first(&[
                "committer.email",
                "user.email",
                "gitoxide.user.emailFallback",
            ])?,
        ))
    }
}

/// One value of git's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key, written as in the file: `section.subsection.name`.
    pub key: String,
    /// The value; a key without one is `true`.
    pub value: String,
    /// The scope in git's words: `system`, `global`, `local`, `worktree`, or `command` for options and variables.
    pub scope: &'static str,
}

/// Sets a key in the user's own configuration.
pub fn set_global(key: &str, value: &str) -> Result<()> {
    let words = ["config", "--global", "--replace-all", key, value];
    Git::outside().args(words).run().map(|_| ())
}

/// Returns the keys and values of a section of the user's own configuration.
pub fn global_settings(section: &str) -> Result<Vec<(String, String)>> {
    let pattern = format!("^{section}\\.");
    let words = ["config", "--global", "--null", "--get-regexp", &pattern];
    let answer = Git::outside().args(words).answer()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let one = |record: &str| match record.split_once('\n') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        // A key without a value is true.
        None => (record.to_owned(), "true".to_owned()),
    };
    let records = text.split('\0').filter(|record| !record.is_empty());
    Ok(records.map(one).collect())
}

/// Removes all values of a key from the user's own configuration. Returns whether there was one.
pub fn unset_global(key: &str) -> Result<bool> {
    let words = ["config", "--global", "--unset-all", key];
    was_set(Git::outside().args(words), key)
}

fn was_set(git: Git, key: &str) -> Result<bool> {
    let answer = git.answer()?;
    match answer.code {
        Some(0) => Ok(true),
        // git's exit code for a missing key.
        Some(5) => Ok(false),
        _ => {
            let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
            Err(Error::fatal(format!("cannot unset '{key}'")).because(said))
        }
    }
}

fn scope(source: gix::config::Source) -> &'static str {
    use gix::config::Source;
    match source {
        Source::GitInstallation | Source::System => "system",
        Source::Git | Source::User => "global",
        Source::Local => "local",
        Source::Worktree => "worktree",
        Source::Env | Source::Cli | Source::Api | Source::EnvOverride => "command",
    }
}

/// Returns the keys of a section with all their values.
fn values_of(section: gix::config::file::SectionRef<'_>) -> Vec<(String, String)> {
    let header = section.header();
    let mut names: Vec<String> = Vec::new();
    for name in section.body().value_names() {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            names.push(name);
        }
    }
    let mut values = Vec::new();
    for name in names {
        let key = match header.subsection_name() {
            Some(subsection) => format!("{}.{subsection}.{name}", header.name()),
            None => format!("{}.{name}", header.name()),
        };
        let found = section.body().values(&name);
        if found.is_empty() {
            values.push((key, "true".to_owned()));
            continue;
        }
        for value in found {
            values.push((key.clone(), value.to_string()));
        }
    }
    values
}

/// A file in git-config syntax outside git's own configuration. Includes are not followed.
#[derive(Debug)]
pub struct ConfigFile(gix::config::File);

impl ConfigFile {
    /// Parses the text of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context(|| "not UTF-8".into())?;
        let file: gix::config::File = text
            .to_owned()
            .parse()
            .context(|| "invalid syntax".into())?;
        Ok(ConfigFile(file))
    }

    /// Returns the last value of a key.
    pub fn string(&self, key: &str) -> Option<String> {
        self.0.string(key).map(|value| value.to_string())
    }

    /// Returns every value of a key.
    pub fn strings(&self, key: &str) -> Vec<String> {
        let values = self.0.strings(key).unwrap_or_default();
        values.iter().map(|value| value.to_string()).collect()
    }

    /// Returns the names of the subsections of a section.
    pub fn subsections(&self, section: &str) -> Vec<String> {
        self.0
            .sections_by_name(section)
            .into_iter()
            .flatten()
            .filter_map(|section| section.header().subsection_name().map(ToString::to_string))
            .collect()
    }

    /// Returns all keys with all their values.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.0.sections().flat_map(values_of).collect()
    }

    /// Returns all keys, as `section.subsection.name`.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for section in self.0.sections() {
            let header = section.header();
            for name in section.body().value_names() {
                keys.push(match header.subsection_name() {
                    Some(subsection) => format!("{}.{subsection}.{name}", header.name()),
                    None => format!("{}.{name}", header.name()),
                });
            }
        }
        keys.dedup();
        keys
    }
}

/// Parses `GIT_CONFIG_PARAMETERS`, in which `git -c key=value agent …` passes its `-c` options to a subcommand.
///
/// Accepts both of git's forms, `'key=value'` and `'key'='value'`. Skips unreadable parts, because git itself wrote and
/// checked them.
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

/// Returns one setting in the form of `GIT_CONFIG_PARAMETERS`.
///
/// It is one variable for all settings, unlike `GIT_CONFIG_KEY_<n>`: tools that hide secrets drop variables named
/// `*KEY*`, and git refuses to start if a counted one is missing.
pub fn parameter(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, word) in [key, value].into_iter().enumerate() {
        if index > 0 {
            text.push(b'=');
        }
        text.push(b'\'');
        for byte in word {
            match byte {
                b'\'' | b'!' => text.extend([b'\'', b'\\', *byte, b'\'']),
                other => text.push(*other),
            }
        }
        text.push(b'\'');
    }
    text
}

/// Removes these settings, in the form of [`parameter`], from `GIT_CONFIG_PARAMETERS`, and keeps everything else.
pub fn without_parameters(text: &[u8], unwanted: &[Vec<u8>]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some((key, after)) = unquote(rest) {
        let after = match after.strip_prefix(b"=") {
            Some(value) => unquote(value).map_or(value, |(_, after)| after),
            None => after,
        };
        if !unwanted.contains(&key) {
            if !kept.is_empty() {
                kept.push(b' ');
            }
            kept.extend(&rest[..rest.len() - after.len()]);
        }
        rest = after.trim_ascii_start();
    }
    kept.extend(rest);
    kept
}

/// Returns a value in the form of a configuration file.
pub fn quote_value(value: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in value {
        match byte {
            b'\n' => text.extend(b"\\n"),
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            other => text.push(*other),
        }
    }
    text.push(b'"');
    text
}

/// Returns a subsection's name in the form of a configuration file. It must not contain a newline.
pub fn quote_subsection(name: &[u8]) -> Vec<u8> {
    debug_assert!(!name.contains(&b'\n'), "git does not accept such a name");
    quote_value(name)
}

/// Returns the conditions that include a file for exactly one repository with all its worktrees, as subsections of
/// `includeIf`.
pub fn conditions_for(common_dir: &Path) -> [Vec<u8>; 2] {
    let mut exact = b"gitdir:".to_vec();
    for byte in common_dir.as_os_str().as_encoded_bytes() {
        match byte {
            b'*' | b'?' | b'[' | b']' | b'\\' => exact.extend([b'\\', *byte]),
            // git allows neither a newline in a name nor a second `=` in `key=value`, so the pattern has wildcards
            // there.
            b'\n' | b'=' => exact.push(b'?'),
            other => exact.push(*other),
        }
    }
    let mut below = exact.clone();
    below.push(b'/');
    [exact, below]
}

/// Parses one shell-quoted word, in which git writes `'` as `'\''` and `!` as `'\!'`.
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
    use super::{conditions_for, parameter, parse_parameters, quote_value, without_parameters};
    use std::path::Path;

    #[test]
    fn reads_both_forms_of_parameters() {
        let parsed = parse_parameters(b"'a.b=c d' 'e.f'='it'\\''s' 'g.h' 'i.j'='wow'\\!''");
        let words: Vec<String> = parsed.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["a.b=c d", "e.f=it's", "g.h", "i.j=wow!"]);
        assert!(parse_parameters(b"").is_empty());
        assert!(parse_parameters(b"'unclosed").is_empty());
    }
    #[test]
    fn what_is_written_reads_back() {
        let mut text = parameter(b"a.b", b"it's a 'wow!'");
        text.push(b' ');
        text.extend(parameter(b"c.d", b""));
        let words: Vec<String> = parse_parameters(&text)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(words, ["a.b=it's a 'wow!'", "c.d="]);
        text.extend(b" 'old.form=x y'");
        let rest = without_parameters(&text, &[b"a.b".to_vec()]);
        assert_eq!(rest, b"'c.d'='' 'old.form=x y'");
        assert_eq!(without_parameters(&text, &[]), text);
        let quoted = quote_value(b" a\"b\\c\nd#");
        let mut file = b"[x]\n\ty = ".to_vec();
        file.extend(quoted);
        let parsed = gix::config::File::from_bytes_no_includes(
            &file,
            gix::config::file::Metadata::api(),
            Default::default(),
        )
        .expect("a configuration file");
        let value = parsed.string("x.y").expect("a value");
        assert_eq!(value.to_string(), " a\"b\\c\nd#");
    }

    #[test]
    fn conditions_name_one_repository() {
        let [exact, below] = conditions_for(Path::new("/a b/[x]*=\n/.git"));
        assert_eq!(exact, b"gitdir:/a b/\\[x\\]\\*??/.git");
        assert_eq!(below, b"gitdir:/a b/\\[x\\]\\*??/.git/");
    }
}
