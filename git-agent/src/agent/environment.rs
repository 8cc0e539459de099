//! Which of the user's variables an agent gets: those every program needs, and those it needs itself. Nothing else.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::AgentSpec;

/// Variables every program may need. One that ends in `*` stands for all that begin so.
pub const COMMON: [&str; 30] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "XDG_*",
    "EDITOR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
];

/// Ends of names whose values are secrets.
const SECRET_ENDS: [&str; 8] = [
    "_KEY",
    "_TOKEN",
    "_SECRET",
    "_PASSWORD",
    "_PASSWD",
    "_CREDENTIALS",
    "_AUTH",
    "_APIKEY",
];
/// A shorter value is no secret, and taking it out of every text would only spoil the text.
const SHORTEST_SECRET: usize = 8;

/// Returns the variables of the user that an agent gets.
pub fn allowed<'a>(
    spec: &AgentSpec,
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> BTreeMap<OsString, OsString> {
    let common = |name: &str| {
        COMMON.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *known == name,
        })
    };
    variables
        .into_iter()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| common(name) || spec.needs_variable(name))
        })
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the values that must never be recorded.
pub fn secrets<'a>(
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> impl Iterator<Item = &'a OsStr> {
    variables
        .into_iter()
        .filter(|(name, value)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            value.len() >= SHORTEST_SECRET
                && SECRET_ENDS
                    .iter()
                    .any(|end| name.ends_with(end) || name == end[1..])
        })
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Family;

    fn pairs<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
        pairs
            .iter()
            .map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)))
    }

    #[test]
    fn only_what_is_needed_is_passed_on() {
        let mut spec = AgentSpec::new("x", Family::Acp, vec!["x".into()]);
        spec.env_names = vec!["X_KEY".into()];
        let all = [
            ("PATH", "p"),
            ("LC_ALL", "C"),
            ("X_KEY", "k"),
            ("OTHER_KEY", "o"),
            ("GIT_DIR", "g"),
            ("SSH_AUTH_SOCK", "s"),
        ];
        let names: Vec<OsString> = allowed(&spec, pairs(&all)).into_keys().collect();
        assert_eq!(names, ["LC_ALL", "PATH", "X_KEY"]);
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        let all = [
            ("A_API_KEY", "sk-12345678"),
            ("a_token", "tok-12345"),
            ("PASSWORD", "hunter2hunter2"),
            ("B_KEY", "short"),
            ("KEYBOARD", "long-enough-value"),
        ];
        let found: Vec<&OsStr> = secrets(pairs(&all)).collect();
        assert_eq!(found, ["sk-12345678", "tok-12345", "hunter2hunter2"]);
    }
}
