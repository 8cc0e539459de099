//! Finds passwords and tokens in the user part and in the query of a URL.

use crate::redact::detect::entropy::looks_random;
use crate::redact::detect::judge::is_stand_in;
use crate::redact::text::Class;

/// Schemes whose passwords have their own rule.
const SCHEMES: [(&str, &str); 12] = [
    ("postgres", "postgres-url"),
    ("postgresql", "postgres-url"),
    ("mysql", "mysql-url"),
    ("mariadb", "mysql-url"),
    ("mongodb", "mongodb-url"),
    ("redis", "redis-url"),
    ("rediss", "redis-url"),
    ("amqp", "amqp-url"),
    ("amqps", "amqp-url"),
    ("clickhouse", "clickhouse-url"),
    ("sqlserver", "mssql-url"),
    ("mssql", "mssql-url"),
];

/// The names of the rules above and of the general one.
pub(crate) const RULES: [&str; 9] = [
    "postgres-url",
    "mysql-url",
    "mongodb-url",
    "redis-url",
    "amqp-url",
    "clickhouse-url",
    "mssql-url",
    "sentry-dsn",
    "url-password",
];

/// Examines a `://` and returns the secret in the user part, with its rule.
pub(crate) fn at(text: &[u8], at: usize) -> Option<(usize, usize, &'static str)> {
    let start = at + 3;
    let window = &text[start..text.len().min(start + 400)];
    let stop = window
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || b"/\"'`<>?#,;|\\".contains(byte))
        .unwrap_or(window.len());
    let mut sign = window[..stop].iter().rposition(|byte| *byte == b'@');
    if sign.is_none() && stop < window.len() && b"/?#".contains(&window[stop]) {
        // A password that should have been percent-encoded; accepted only if everything else fits.
        let colon = window[..stop].iter().position(|byte| *byte == b':');
        let port =
            colon.is_some_and(|colon| window[colon + 1..stop].iter().all(u8::is_ascii_digit));
        if colon.is_some() && !port {
            let end = window
                .iter()
                .position(|byte| byte.is_ascii_whitespace() || b"\"'`<>\\".contains(byte))
                .unwrap_or(window.len());
            sign = window[..end].iter().rposition(|byte| *byte == b'@');
        }
    }
    let user = &window[..sign?];
    let host = &window[sign? + 1..];
    let (secret, offset) = match user.iter().position(|byte| *byte == b':') {
        Some(colon) => (&user[colon + 1..], colon + 1),
        None if looks_random(user, 16) => (user, 0),
        None if user.len() == 32 && user.iter().all(u8::is_ascii_hexdigit) => (user, 0),
        None => return None,
    };
    let name = user.get(..offset.saturating_sub(1)).unwrap_or_default();
    if secret.is_empty() || secret == name || stands_in(secret) {
        return token_as_user(name, start);
    }
    let sentry = user.len() >= 32
        && user[..32].iter().all(u8::is_ascii_hexdigit)
        && host
            .iter()
            .take(60)
            .collect::<Vec<_>>()
            .windows(6)
            .any(|six| six.iter().map(|b| **b).eq(*b"sentry"));
    let rule = if sentry { "sentry-dsn" } else { rule(text, at) };
    Some((start + offset, start + offset + secret.len(), rule))
}

/// In `https://<token>:x-oauth-basic@…` the user is the secret.
fn token_as_user(name: &[u8], start: usize) -> Option<(usize, usize, &'static str)> {
    looks_random(name, 20).then_some((start, start + name.len(), "url-password"))
}

fn stands_in(secret: &[u8]) -> bool {
    const USUAL: [&[u8]; 14] = [
        b"pass",
        b"password",
        b"passwd",
        b"pwd",
        b"secret",
        b"token",
        b"x-oauth-basic",
        b"x",
        b"pw",
        b"p",
        b"x-access-token",
        b"oauth2",
        b"port",
        b"s3cr3t",
    ];
    USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(secret))
        || secret.len() >= 3 && is_stand_in(secret)
        || secret.len() < 3
        || secret.iter().any(|byte| b"<>{}()[]$".contains(byte)) && secret.ends_with(b"}")
        || secret.starts_with(b"{")
        || secret.starts_with(b"$")
        || secret.starts_with(b"[")
        || secret.starts_with(b"%s")
        || secret.starts_with(b"*")
}

fn rule(text: &[u8], at: usize) -> &'static str {
    let head = &text[at.saturating_sub(24)..at];
    let letters = head
        .iter()
        .rev()
        .take_while(|byte| Class::Alnum.table()[usize::from(**byte)] || **byte == b'+')
        .count();
    let scheme = &head[head.len() - letters..];
    let scheme = scheme.split(|byte| *byte == b'+').next().unwrap_or(scheme);
    SCHEMES
        .iter()
        .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(scheme))
        .map_or("url-password", |(_, rule)| rule)
}
