//! The variables that every session inherits from the terminal it was started in.

use std::ffi::OsStr;

/// Names and prefixes (ending in `*`) of variables that every session inherits.
pub const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "TZ",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    // Proxies of a company network.
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // Identity and behaviour of git, but neither a repository nor a date.
    "EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_*",
    "GIT_CONFIG_VALUE_*",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_ATTR_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_*",
    "GIT_HTTP_*",
    "GIT_ALLOW_PROTOCOL",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_TEMPLATE_DIR",
    // Lets a test find every process that it started.
    "GIT_AGENT_TEST_*",
];

/// Returns whether every session inherits this variable.
pub fn is_inherited(name: &OsStr) -> bool {
    matches_any(name, INHERITED.iter().copied())
}

/// Returns whether a name equals one of the patterns, or starts with one that ends in `*`.
pub fn matches_any<'a>(name: &OsStr, mut patterns: impl Iterator<Item = &'a str>) -> bool {
    patterns.any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.as_encoded_bytes().starts_with(prefix.as_bytes()),
        None => name == pattern,
    })
}
