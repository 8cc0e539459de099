//! Derives from a name the kind of value beside it: `DB_PASSWORD`, `client-secret`, `apiKey`, `next_token`.

use crate::redact::detect::judge::Promise;
use crate::redact::text::contains_ignoring_case;

/// Words after the significant one that do not change the meaning.
const QUALIFIERS: [&str; 25] = [
    "prod",
    "production",
    "dev",
    "staging",
    "stage",
    "test",
    "live",
    "old",
    "new",
    "value",
    "val",
    "base64",
    "b64",
    "default",
    "raw",
    "plain",
    "plaintext",
    "string",
    "str",
    "primary",
    "secondary",
    "current",
    "hex",
    "override",
    "base",
];

/// Words before `token` that make it a piece of text, a cursor or a parser's token.
const OTHER_TOKENS: [&str; 24] = [
    "next",
    "page",
    "continuation",
    "sync",
    "cancellation",
    "cancel",
    "stop",
    "start",
    "eos",
    "bos",
    "pad",
    "unk",
    "max",
    "min",
    "special",
    "first",
    "last",
    "prev",
    "previous",
    "end",
    "mask",
    "sep",
    "lookahead",
    "per",
];

/// Words before `key` that make it public.
const OTHER_KEYS: [&str; 44] = [
    "public",
    "primary",
    "foreign",
    "sort",
    "partition",
    "cache",
    "unique",
    "index",
    "composite",
    "object",
    "map",
    "dict",
    "row",
    "json",
    "translation",
    "i18n",
    "lookup",
    "registry",
    "host",
    "hash",
    "group",
    "routing",
    "idempotency",
    "publishable",
    "react",
    "env",
    "config",
    "attr",
    "meta",
    "search",
    "query",
    "feature",
    "site",
    "pub",
    "pk",
    "verify",
    "verifying",
    "verification",
    "kv",
    "state",
    "storage_key",
    "sort_by",
    "anon",
    "dedupe",
];

/// Words before `key` that make it a secret.
const SECRET_KEYS: [&str; 30] = [
    "api",
    "secret",
    "access",
    "private",
    "encryption",
    "signing",
    "master",
    "auth",
    "account",
    "shared",
    "app",
    "application",
    "service",
    "license",
    "admin",
    "session",
    "hmac",
    "aes",
    "deploy",
    "storage",
    "subscription",
    "webhook",
    "signature",
    "crypto",
    "cipher",
    "decryption",
    "priv",
    "jwt",
    "rest",
    "server",
];

/// Names of services whose credentials have no shape, and the names in their placeholders.
const SERVICES: [(&str, &str); 46] = [
    ("datadog", "datadog-key"),
    ("dd_api", "datadog-key"),
    ("dd_app", "datadog-key"),
    ("dd-api", "datadog-key"),
    ("cloudflare", "cloudflare-token"),
    ("cf_api", "cloudflare-token"),
    ("fastly", "fastly-token"),
    ("confluent", "confluent-key"),
    ("heroku", "heroku-key"),
    ("vercel", "vercel-token"),
    ("aws_secret", "aws-secret-key"),
    ("awssecret", "aws-secret-key"),
    ("secret_access_key", "aws-secret-key"),
    ("secretaccesskey", "aws-secret-key"),
    ("session_token", "session-token"),
    ("twilio", "twilio-token"),
    ("okta", "okta-token"),
    ("auth0", "auth0-secret"),
    ("algolia", "algolia-key"),
    ("mistral", "mistral-key"),
    ("cohere", "cohere-key"),
    ("together", "together-key"),
    ("deepgram", "deepgram-key"),
    ("deepseek", "deepseek-key"),
    ("azure", "azure-key"),
    ("arm_client", "azure-key"),
    ("codecov", "codecov-token"),
    ("railway", "railway-token"),
    ("upstash", "upstash-token"),
    ("pagerduty", "pagerduty-key"),
    ("zendesk", "zendesk-token"),
    ("intercom", "intercom-token"),
    ("amplitude", "amplitude-key"),
    ("mixpanel", "mixpanel-secret"),
    ("kafka", "kafka-password"),
    ("snowflake", "snowflake-password"),
    ("ldap", "ldap-password"),
    ("smtp", "smtp-password"),
    ("jenkins", "jenkins-token"),
    ("jwt", "jwt-secret"),
    ("webhook", "webhook-secret"),
    ("signing", "signing-key"),
    ("encryption", "encryption-key"),
    ("travis", "travis-token"),
    ("drone", "drone-token"),
    ("etherscan", "etherscan-key"),
];

/// The rules named after the announced kind of value.
pub(crate) const RULES: [&str; 6] = [
    "password",
    "passphrase",
    "secret",
    "api-key",
    "token",
    "key",
];

/// Returns the names of all rules that a name can select.
pub(crate) fn rules() -> impl Iterator<Item = &'static str> {
    RULES
        .into_iter()
        .chain(SERVICES.iter().map(|(_, rule)| *rule))
}

/// Returns the name in the placeholder for a value under this name.
pub(crate) fn rule(name: &[u8], promise: Promise) -> &'static str {
    if let Some((_, rule)) = SERVICES
        .iter()
        .find(|(word, _)| contains_ignoring_case(name, word))
    {
        return rule;
    }
    match promise {
        Promise::Password => "password",
        Promise::Phrase => "passphrase",
        Promise::Secret if contains_ignoring_case(name, "key") => "api-key",
        Promise::Secret => "secret",
        Promise::Token => "token",
        Promise::Key => "key",
    }
}

/// Returns the kind of value that a name announces, if any.
pub(crate) fn promise(name: &[u8]) -> Option<Promise> {
    let mut list = [&b""[..]; 12];
    let mut count = 0;
    for word in words(name) {
        if count == list.len() {
            list.rotate_left(1);
            count -= 1;
        }
        list[count] = word;
        count += 1;
    }
    let mut words = &list[..count];
    while let [head @ .., last] = words {
        let number = last.iter().all(u8::is_ascii_digit)
            || last.len() <= 3
                && last[0] == b'v'
                && last[1..].iter().all(u8::is_ascii_digit)
                && last.len() > 1;
        if head.is_empty() || !(number || is_one_of(last, &QUALIFIERS)) {
            break;
        }
        words = head;
    }
    let (last, head) = words.split_last()?;
    if head
        .iter()
        .any(|word| is_one_of(word, &["public", "publishable", "pub"]))
    {
        return None;
    }
    let before = head.last().copied().unwrap_or_default();
    let ends = |end: &str| {
        last.len() >= end.len()
            && last[last.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    if is_one_of(last, &["mnemonic"])
        || is_one_of(last, &["phrase"])
            && is_one_of(before, &["seed", "recovery", "backup", "pass"])
        || ends("passphrase")
    {
        return Some(Promise::Phrase);
    }
    if ends("password")
        || ends("passwd")
        || ends("pwd")
        || is_one_of(
            last,
            &[
                "pass",
                "passcode",
                "dbpass",
                "userpass",
                "pgpass",
                "rootpass",
                "smtppass",
                "sshpass",
                "mysqlpass",
                "passw",
                "pw",
                "passwort",
            ],
        )
    {
        return Some(Promise::Password);
    }
    if ends("secret")
        || is_one_of(last, &["secrets"])
        || ends("apikey")
        || ends("secretkey")
        || ends("accesskey")
        || ends("accountkey")
        || ends("privatekey")
        || ends("authkey")
        || ends("encryptionkey")
        || ends("signingkey")
        || ends("masterkey")
    {
        return Some(Promise::Secret);
    }
    if ends("token") {
        let other = is_one_of(before, &OTHER_TOKENS)
            || head
                .first()
                .is_some_and(|first| is_one_of(first, &["max", "num", "next"]));
        return (!other).then_some(Promise::Token);
    }
    if is_one_of(
        last,
        &[
            "jwt",
            "bearer",
            "credential",
            "credentials",
            "creds",
            "auth",
            "authtoken",
            "sessionid",
            "sessid",
            "phpsessid",
            "jsessionid",
        ],
    ) {
        return Some(Promise::Token);
    }
    if is_one_of(last, &["pat"]) && !head.is_empty() {
        return Some(Promise::Token);
    }
    if is_one_of(last, &["key", "keys"]) {
        if is_one_of(before, &OTHER_KEYS) {
            return None;
        }
        if is_one_of(before, &SECRET_KEYS)
            || head
                .first()
                .is_some_and(|first| is_one_of(first, &["secret", "private"]))
        {
            return Some(Promise::Secret);
        }
        return Some(Promise::Key);
    }
    None
}

fn is_one_of(word: &[u8], list: &[&str]) -> bool {
    list.iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// Splits a name at `_`, `-`, `.` and where capitals begin a word.
fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric())
        .flat_map(|part| {
            let mut rest = part;
            std::iter::from_fn(move || {
                if rest.is_empty() {
                    return None;
                }
                let cut = (1..rest.len())
                    .find(|at| {
                        rest[*at].is_ascii_uppercase()
                            && (rest[at - 1].is_ascii_lowercase()
                                || rest[at - 1].is_ascii_digit()
                                    && rest.iter().any(u8::is_ascii_lowercase)
                                || rest[at - 1].is_ascii_uppercase()
                                    && rest.get(at + 1).is_some_and(u8::is_ascii_lowercase))
                    })
                    .unwrap_or(rest.len());
                let word = &rest[..cut];
                rest = &rest[cut..];
                Some(word)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_what_people_mean() {
        for (name, expected) in [
            ("DB_PASSWORD", Some(Promise::Password)),
            ("dbPassword", Some(Promise::Password)),
            ("PGPASSWORD", Some(Promise::Password)),
            ("spring.datasource.password", Some(Promise::Password)),
            ("client-secret", Some(Promise::Secret)),
            ("clientSecret", Some(Promise::Secret)),
            ("STRIPE_API_KEY", Some(Promise::Secret)),
            ("APIKey", Some(Promise::Secret)),
            ("X-Auth-Token", Some(Promise::Token)),
            ("GH_PAT", Some(Promise::Token)),
            ("OPENAI_KEY_2", Some(Promise::Key)),
            ("max_tokens", None),
            ("nextPageToken", None),
            ("public_key", None),
            ("secretName", None),
            ("password_file", None),
            ("compass", None),
            ("monkey", None),
        ] {
            assert_eq!(promise(name.as_bytes()), expected, "{name}");
        }
    }
}
