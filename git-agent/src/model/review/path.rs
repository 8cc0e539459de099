//! Paths in records: plain text where they are valid UTF-8, and quoted as git quotes unusual paths otherwise, so that
//! all bytes survive.

/// Returns a path in the form of a record.
pub fn to_text(path: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(path)
        && !text.starts_with('"')
    {
        return text.to_owned();
    }
    quoted(path)
}

/// Returns a path in git's quotes.
pub fn quoted(path: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(*byte));
            }
            b'\n' => quoted.push_str("\\n"),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the path from the form of a record, or from git's output.
pub fn from_text(text: &str) -> Vec<u8> {
    unquote(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Parses a path in git's quotes; returns `None` if the quotes are missing or invalid.
pub fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut path = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            digit @ b'0'..=b'3' => {
                let mut octal = || match rest.next()? {
                    digit @ b'0'..=b'7' => Some(digit - b'0'),
                    _ => None,
                };
                ((digit - b'0') << 6) | (octal()? << 3) | octal()?
            }
            other => other,
        });
    }
    Some(path)
}

/// Serialises fields with a path: `#[serde(with = "crate::model::review::path::as_text")]`.
pub mod as_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a path.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::to_text(path.as_os_str().as_bytes()))
    }

    /// Reads a path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(PathBuf::from(OsString::from_vec(super::from_text(&text))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_paths_are_quoted_and_others_are_not() {
        assert_eq!(to_text(b"src/a b.rs"), "src/a b.rs");
        assert_eq!(to_text("é\n".as_bytes()), "é\n");
        assert_eq!(to_text(b"\"x"), "\"\\\"x\"");
        assert_eq!(to_text(b"\xff\\"), "\"\\377\\\\\"");
        assert_eq!(
            unquote(b"\"a\\tb\\303\\251\"").as_deref(),
            Some("a\tbé".as_bytes())
        );
        assert_eq!(quoted(b"a\nb"), "\"a\\nb\"");
        assert_eq!(unquote(b"plain"), None);
        assert_eq!(unquote(b"\"cut\\"), None);
    }

    proptest! {
        #[test]
        fn every_path_comes_back(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(from_text(&to_text(&path)), path);
        }

        #[test]
        fn unquoting_never_panics(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = unquote(&text);
        }
    }
}
