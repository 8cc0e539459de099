//! Finds secrets by value: those in the environment, the settings and the `.env` files that an agent receives.
//!
//! These rules are the strongest: a value needs no shape, and is found in the encodings that programs give it.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::redact::detect::entropy::{named, reads_as_words, segments};
use crate::redact::detect::judge::is_stand_in;
use crate::redact::detect::names;
use crate::redact::scan::Scanner;

/// Values that must never be written, collected before work starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownSecrets {
    values: BTreeSet<Vec<u8>>,
}

/// The shortest value to collect: shorter ones occur by chance.
const SHORTEST: usize = 8;
/// The same for values that the user passes to an agent by name.
const SHORTEST_HANDED: usize = 6;

impl KnownSecrets {
    /// Returns an empty collection.
    pub fn new() -> Self {
        KnownSecrets::default()
    }

    /// Adds the values of variables with secret-sounding names, and the passwords of URLs in any variable.
    pub fn add_environment<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) {
        for (name, value) in variables {
            self.add_variable(
                name.as_ref().as_encoded_bytes(),
                value.as_ref().as_encoded_bytes(),
            );
        }
    }

    /// Adds a variable that the user passes to an agent by name. Its value counts as secret, whatever the name, unless
    /// it is clearly public.
    pub fn add_handed(&mut self, name: &[u8], value: &[u8]) {
        self.add_variable(name, value);
        let value = value.trim_ascii();
        let public = crate::redact::text::contains_ignoring_case(name, "public");
        let plain = !sounds_secret(name) && (public || is_ordinary(value));
        if value.len() >= SHORTEST_HANDED && !is_common(value) && !plain {
            self.insert(value);
        }
    }

    /// Adds the variables of a `.env` file, all of which an agent receives.
    pub fn add_env_file(&mut self, contents: &[u8]) {
        for (name, value) in variables(contents) {
            self.add_handed(&name, &value);
        }
    }

    /// Adds a value that is known to be secret, whatever its name. Ignores a value that is too short or too common.
    pub fn add_value(&mut self, value: &[u8]) {
        let value = value.trim_ascii();
        if value.len() < SHORTEST || is_common(value) {
            return;
        }
        self.insert(value);
    }

    fn insert(&mut self, value: &[u8]) {
        // A multi-line value appears whole or, more often, a line at a time.
        for line in value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            if line.len() >= 16 && line.len() < value.len() && !line.starts_with(b"-----") {
                self.values.insert(line.to_vec());
            }
        }
        self.values.insert(value.to_vec());
    }

    /// Returns the number of known values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether none is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the values that no other rule would find.
    #[must_use]
    pub fn unrecognisable(mut self) -> Self {
        let scanner = Scanner::new(KnownSecrets::new());
        self.values
            .retain(|value| scanner.secret_in_code(value).is_none());
        self
    }

    fn add_variable(&mut self, name: &[u8], value: &[u8]) {
        if sounds_secret(name) {
            self.add_value(value);
        }
        for (at, _) in value
            .windows(3)
            .enumerate()
            .filter(|(_, three)| *three == b"://")
        {
            if let Some((from, to, _)) = crate::redact::detect::url::at(value, at) {
                self.add_value(&value[from..to]);
            }
        }
    }

    /// Returns every form in which the values are searched, longest first within the same start.
    pub(crate) fn forms(&self) -> Vec<Vec<u8>> {
        let mut forms = BTreeSet::new();
        for value in &self.values {
            forms.insert(value.clone());
            if let Ok(text) = std::str::from_utf8(value) {
                let once = json_escaped(text);
                forms.insert(json_escaped(&once).into_bytes());
                forms.insert(once.replace('/', "\\/").into_bytes());
                forms.insert(once.into_bytes());
                let ascii = crate::model::event::to_ascii_json(&text);
                forms.insert(ascii.as_bytes()[1..ascii.len() - 1].to_vec());
            }
            for lower in [false, true] {
                let encoded = percent_encoded(value, lower);
                forms.insert(encoded.replace("%20", "+").into_bytes());
                forms.insert(encoded.into_bytes());
            }
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            forms.insert(hex.to_ascii_uppercase().into_bytes());
            forms.insert(hex.into_bytes());
            for shift in 0..3 {
                let plain = base64_inside(value, shift);
                if plain.len() >= SHORTEST {
                    forms.insert(plain.replace('+', "-").replace('/', "_").into_bytes());
                    forms.insert(plain.into_bytes());
                }
            }
        }
        forms.into_iter().collect()
    }
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a string serialises");
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent_encoded(value: &[u8], lower: bool) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
            encoded.push(char::from(*byte));
        } else if lower {
            encoded.push_str(&format!("%{byte:02x}"));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Returns the part of the base64 text that depends only on the value if `shift` bytes precede it.
fn base64_inside(value: &[u8], shift: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |index: usize| {
        let position = index.checked_sub(shift * 8)?;
        let byte = value.get(position / 8)?;
        Some(u32::from(byte >> (7 - position % 8) & 1))
    };
    let total = (shift + value.len()) * 8;
    (0..total.div_ceil(6))
        .filter_map(|digit| {
            let mut number = 0;
            for index in digit * 6..digit * 6 + 6 {
                number = number << 1 | bit(index)?;
            }
            Some(char::from(DIGITS[usize::try_from(number).unwrap_or(0)]))
        })
        .collect()
}

/// Returns whether a variable's name suggests a secret value.
fn sounds_secret(name: &[u8]) -> bool {
    let has = |word: &str| crate::redact::text::contains_ignoring_case(name, word);
    // A shell's own variables: its current and previous directory.
    if [&b"PWD"[..], b"OLDPWD"].contains(&name)
        || has("public")
        || has("_file")
        || has("_path")
        || has("_url") && !has("webhook")
        || has("socket")
        || has("_sock")
        || has("keymap")
    {
        return false;
    }
    names::promise(name).is_some()
        || has("password")
        || has("passwd")
        || has("_pass")
        || has("secret")
        || has("credential")
        || name.to_ascii_uppercase().ends_with(b"_KEY")
        || name.to_ascii_uppercase().ends_with(b"_PAT")
        || has("_token")
        || has("webhook_url")
        || has("_dsn")
}

/// Returns whether a value is too ordinary to be replaced wherever it occurs.
fn is_common(value: &[u8]) -> bool {
    let path = value.starts_with(b"/") && !value.contains(&b'=') && reads_as_words(value)
        || value.starts_with(b"~/")
        || value.starts_with(b"./")
        || value.get(1..3) == Some(b":\\");
    let number = value
        .iter()
        .all(|byte| byte.is_ascii_digit() || b".-_:".contains(byte))
        && value.len() < 12;
    let word =
        value.len() < 16 && value.iter().all(u8::is_ascii_alphabetic) && reads_as_words(value);
    let names = value.len() < 40
        && value
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || b"-_.,: ".contains(byte))
        && value.iter().any(|byte| b"-_.,: ".contains(byte))
        && reads_as_words(value)
        && value.split(|byte| b"-_.,: ".contains(byte)).count() < 4;
    let url = value.windows(3).any(|three| three == b"://")
        && !value.contains(&b'@')
        && reads_as_words(value);
    // A value that an agent really receives is rarely a placeholder: only one that a person could have typed counts as
    // such.
    let varied = value.len() >= 16 && value.iter().collect::<BTreeSet<_>>().len() >= 8;
    let stand_in = is_stand_in(value) && (!varied || reads_as_words(value));
    path || number || word || names || url || stand_in
}

/// Returns whether a value consists of words, numbers and names such as `gpt-4o`, `en_US.UTF-8` or `db:5432`.
fn is_ordinary(value: &[u8]) -> bool {
    let word = |segment: &[u8]| {
        let digits = |byte: &&u8| byte.is_ascii_digit();
        let from = segment.iter().take_while(digits).count();
        let after = segment[from..].iter().rev().take_while(digits).count();
        let letters = &segment[from..segment.len() - after];
        segment.len() <= 3 || letters.len() < 3 && from + after < 12 || named(letters) >= 0
    };
    reads_as_words(value) || segments(value).all(word)
}

/// Parses the assignments of a `.env` file.
fn variables(contents: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents);
    while !rest.is_empty() {
        let stop = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        let line = rest[..stop].trim_ascii();
        let line = line
            .strip_prefix(b"export ")
            .unwrap_or(line)
            .trim_ascii_start();
        let next = &rest[(stop + 1).min(rest.len())..];
        let equals = line
            .iter()
            .position(|byte| *byte == b'=')
            .or_else(|| line.iter().position(|byte| *byte == b':'));
        let Some(equals) = equals.filter(|_| !line.starts_with(b"#")) else {
            rest = next;
            continue;
        };
        let name = line[..equals].trim_ascii().to_vec();
        // The start of the value in `rest`, so that a quoted one may span lines.
        let start = (line.as_ptr() as usize - rest.as_ptr() as usize) + equals + 1;
        let skip = rest[start..]
            .iter()
            .take_while(|byte| b" \t".contains(byte))
            .count();
        let value = &rest[start + skip..];
        match value.first() {
            Some(quote @ (b'"' | b'\'' | b'`')) => match closing(value, *quote) {
                Some(end) => {
                    let inside = &value[1..end];
                    if *quote == b'"' {
                        found.push((name.clone(), unescape(inside)));
                    }
                    found.push((name, inside.to_vec()));
                    rest = &value[end + 1..];
                    let tail = rest
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .map_or(rest.len(), |at| at + 1);
                    rest = &rest[tail..];
                }
                None => {
                    found.push((name, line[equals + 1..].trim_ascii().to_vec()));
                    rest = next;
                }
            },
            _ => {
                let bare = line[equals + 1..].trim_ascii();
                let comment = bare
                    .windows(2)
                    .position(|pair| pair == b" #" || pair == b"\t#");
                found.push((
                    name,
                    bare[..comment.unwrap_or(bare.len())].trim_ascii().to_vec(),
                ));
                rest = next;
            }
        }
    }
    found
}

/// Returns the position of the closing quote of a value.
fn closing(value: &[u8], quote: u8) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in value.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote == b'"' => escaped = true,
            byte if *byte == quote => return Some(index),
            _ => {}
        }
    }
    None
}

fn unescape(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'r') => plain.push(b'\r'),
            Some(other) => plain.push(*other),
            None => plain.push(b'\\'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_shell_is_is_no_secret() {
        let mut known = KnownSecrets::new();
        known.add_environment([("PWD", "/tmp/e2e/x7/app"), ("OLDPWD", "/tmp/e2e/q9zz81")]);
        assert!(known.is_empty());
    }

    fn names(file: &str) -> Vec<(String, String)> {
        variables(file.as_bytes())
            .into_iter()
            .map(|(name, value)| {
                (
                    String::from_utf8_lossy(&name).into_owned(),
                    String::from_utf8_lossy(&value).into_owned(),
                )
            })
            .collect()
    }

    #[test]
    fn reads_env_files() {
        let file = "# A=1\nexport A_TOKEN=plain # note\nB_SECRET='sq #1'\nC_KEY=\"two\nlines\"\n\nD_PASSWORD = \"a\\\"b\"\nE_PASS=\"open\nF_X=1";
        let read = names(file);
        let value = |name: &str| {
            read.iter()
                .filter(|(n, _)| n == name)
                .map(|(_, v)| v.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(value("A_TOKEN"), ["plain"]);
        assert_eq!(value("B_SECRET"), ["sq #1"]);
        assert_eq!(value("C_KEY"), ["two\nlines", "two\nlines"]);
        assert_eq!(value("D_PASSWORD"), ["a\"b", "a\\\"b"]);
        assert_eq!(value("F_X"), ["1"]);
    }

    #[test]
    fn takes_secrets_and_leaves_the_rest() {
        let mut known = KnownSecrets::new();
        known.add_environment([
            ("HOME", "/home/ada"),
            ("API_KEY", "true"),
            ("SSH_KEY_PATH", "/home/ada/.ssh/id_ed25519"),
            ("TOKEN", "changeme"),
            ("MY_TOKEN", "development"),
            ("EDITOR", "Xq7Zk2Lm9Tb4"),
            ("GPG_TTY_KEY", "/dev/pts/0"),
        ]);
        assert!(known.is_empty(), "{known:?}");
        known.add_environment([
            ("SOME_TOKEN", "Xq7Zk2Lm9Tb4"),
            ("DATABASE_URL", "postgres://me:kQ3vR8wZ1pLx@db/x"),
        ]);
        assert_eq!(known.len(), 2);
    }

    #[test]
    fn what_is_handed_over_is_secret_unless_it_is_plainly_not() {
        let mut known = KnownSecrets::new();
        for value in [
            "true",
            "8080",
            "db:5432",
            "v18.17.0",
            "gpt-4o-mini-2024-07-18",
            "claude-sonnet-4-20250514",
            "production",
            "en_US.UTF-8",
            "xterm-256color",
            "us-east-1",
            "Europe/Berlin",
            "info,hyper=warn",
            "--max-old-space-size=4096",
            "x86_64-unknown-linux-gnu",
            "Ada Lovelace",
            "ada@example.com",
            "https://api.example.com/v1",
            "postgres://localhost:5432/shop_dev2",
            "0.0.0.0:8080",
            "{\"edit\":\"ask\"}",
            "/usr/local/share/shop",
            "Zq8v",
        ] {
            known.add_handed(b"SITE_LOGIN", value.as_bytes());
            assert!(known.is_empty(), "{value}");
        }
        known.add_handed(b"NEXT_PUBLIC_ID", b"Zq8vLw2pXr5t");
        assert!(known.is_empty());
        known.add_handed(b"SITE_LOGIN", b"Zq8vLw2pXr5t");
        known.add_handed(b"PIN_CODE", b"k9Q2x7");
        known.add_handed(b"DB_PASSWORD", b"hunter22");
        known.add_env_file(b"REDIS_PASSWORD='vT4nK8wQ'\nAPP_NAME=shop\n");
        assert_eq!(known.len(), 4, "{known:?}");
    }

    #[test]
    fn a_key_that_only_sounds_made_up_is_a_key() {
        let mut known = KnownSecrets::new();
        known.add_environment([
            ("A_KEY", "your-api-key-goes-here"),
            ("B_KEY", "xxxxxxxxxxxxxxxxxxxxxxxx"),
        ]);
        assert!(known.is_empty(), "{known:?}");
        known.add_environment([("C_KEY", "dummy-8fK2qLx09ZtVw31mPbRs")]);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn base64_is_known_at_every_offset() {
        let value = b"correct-horse-9-battery";
        for (shift, head) in ["", "a", "ab"].iter().enumerate() {
            let whole = base64_inside(&[head.as_bytes(), value].concat(), 0);
            assert!(whole.contains(&base64_inside(value, shift)), "{shift}");
        }
    }
}
