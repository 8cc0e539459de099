//! Classifies failures from an agent's output: a status, an error code, or only words.
//!
//! This is the only place where an agent's words decide something. A status or a code takes precedence, but most
//! programs only print a sentence for the user and exit.

use crate::agent::driver::{Trouble, TroubleKind};
use crate::model::session::Exit;

/// Maximum length of a trouble's text; the transcript has the whole output.
const LONGEST: usize = 2_000;

/// Words for each kind, tried in this order: a message about an exceeded context often also says "limit", and one about
/// a limit often contains a number that looks like a server error.
const WORDS: [(TroubleKind, &[&str]); 4] = [
    (
        TroubleKind::Context,
        &[
            "context length",
            "context window",
            "context_length",
            "maximum context",
            "prompt is too long",
            "prompt as too long",
            "context exceeds model limit",
            "contextoverflowerror",
            "input is too long",
            "too many tokens",
            "exceeds the maximum number of tokens",
        ],
    ),
    (
        TroubleKind::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "quota exceeded",
            "exceeded your current quota",
            "resource_exhausted",
            "usage limit",
            "overloaded",
        ],
    ),
    (
        TroubleKind::Auth,
        &[
            "unauthorized",
            "unauthenticated",
            "authentication",
            "authenticationerror",
            "invalid api key",
            "invalid x-api-key",
            "incorrect api key",
            "api key not",
            "no api key",
            "missing api key",
            "api_key",
            "permission_denied",
            "not logged in",
            "please log in",
            "please run /login",
            "login required",
            "auth required",
            "credentials",
        ],
    ),
    (
        TroubleKind::Model,
        &[
            "internal server error",
            "internalservererror",
            "server error",
            "server_error",
            "service unavailable",
            "bad gateway",
            "gateway timeout",
            "connection refused",
            "connection error",
            "connect error",
            "cannot connect to",
            "could not connect to",
            "unable to connect",
            "stream disconnected",
            "fetch failed",
            "econnrefused",
            "econnreset",
        ],
    ),
];

impl TroubleKind {
    /// Returns the kind for an HTTP status.
    pub fn from_status(status: u64) -> Option<Self> {
        match status {
            401 | 403 => Some(TroubleKind::Auth),
            // 529 means "overloaded": waiting helps, as with a limit.
            429 | 529 => Some(TroubleKind::RateLimit),
            413 => Some(TroubleKind::Context),
            500..=599 => Some(TroubleKind::Model),
            _ => None,
        }
    }

    /// Returns the kind for a text.
    pub fn from_words(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let by_words = WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|word| text.contains(word)))
            .map(|(kind, _)| *kind);
        match by_words {
            Some(TroubleKind::Context) => by_words,
            _ => status_in(&text)
                .and_then(TroubleKind::from_status)
                .or(by_words),
        }
    }
}

impl Trouble {
    /// Returns a trouble of a known kind.
    pub fn new(kind: TroubleKind, text: impl Into<String>) -> Self {
        let text = text.into();
        let text = text.trim();
        Trouble {
            kind,
            retry_after: retry_after(text),
            text: crate::model::session::fold::shorten(text, LONGEST),
        }
    }

    /// Returns the trouble for a text, with the given kind if the text is not understood.
    pub fn from_words(text: impl Into<String>, otherwise: TroubleKind) -> Self {
        let text = text.into();
        Trouble::missing_variable(&text).unwrap_or_else(|| {
            Trouble::new(TroubleKind::from_words(&text).unwrap_or(otherwise), text)
        })
    }

    /// Returns the trouble of a text that complains about a variable. Another attempt would not have it either.
    fn missing_variable(text: &str) -> Option<Self> {
        let name = unset_variable(text)?;
        Some(Trouble::new(
            TroubleKind::Other,
            format!(
                "the variable {name} is not set in its environment \
                 (git config --add agent.env {name} passes it on)"
            ),
        ))
    }

    /// Returns the trouble in a line that an agent prints while it retries by itself.
    pub fn in_passing(line: &str) -> Option<Self> {
        const AGAIN: [&str; 5] = ["retry", "attempt", "reconnect", "backoff", "try again"];
        let lower = line.to_ascii_lowercase();
        let again = AGAIN.iter().any(|word| lower.contains(word));
        let kind = TroubleKind::from_words(&lower).filter(|_| again)?;
        let passing = matches!(
            kind,
            TroubleKind::RateLimit | TroubleKind::Model | TroubleKind::Auth
        );
        passing.then(|| Trouble::new(kind, line))
    }

    /// Returns the trouble of a process that ended unexpectedly, with its last output.
    pub fn from_exit(exit: &Exit, printed: &str) -> Self {
        if !exit.reason.is_empty() {
            return Trouble::new(TroubleKind::Protocol, exit.reason.as_str());
        }
        let how = match (exit.code, exit.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(code), None) => format!("exit code {code}"),
            (None, None) => "the agent ended".to_owned(),
        };
        let printed = printed.trim();
        if printed.is_empty() {
            return Trouble::new(TroubleKind::Crash, how);
        }
        if exit.signal.is_none()
            && let Some(trouble) = Trouble::missing_variable(printed)
        {
            return trouble;
        }
        // Only the last lines explain the end; earlier ones may be about errors that were overcome.
        let kind = match exit.signal {
            Some(_) => TroubleKind::Crash,
            // A help text mentions all kinds of words.
            None if is_help(printed) => TroubleKind::Crash,
            None => TroubleKind::from_words(printed).unwrap_or(TroubleKind::Crash),
        };
        Trouble::new(kind, format!("{how}: {printed}"))
    }
}

/// Returns the name of the environment variable that a text says is missing.
fn unset_variable(text: &str) -> Option<&str> {
    const BEFORE: [&str; 3] = [
        "missing environment variable",
        "missing required environment variable",
        "environment variable",
    ];
    const AFTER: [&str; 6] = [
        "is not set",
        "not set",
        "is missing",
        "not found",
        "is required",
        "must be set",
    ];
    let lower = text.to_ascii_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for words in BEFORE {
        let Some(at) = lower.find(words) else {
            continue;
        };
        let rest = &text[at + words.len()..];
        let rest = rest.trim_start_matches([' ', ':', '`', '\'', '"']);
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let shouted = name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase());
        let after = rest[name.len()..].trim_start_matches(['`', '\'', '"', ' ']);
        let complains =
            words.starts_with("missing") || AFTER.iter().any(|words| after.starts_with(words));
        if shouted && complains && !name.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(name);
        }
    }
    None
}

/// Returns whether a text says that the conversation does not exist: the first two are from Claude Code, the last is
/// from Codex.
pub fn is_forgotten(words: &str) -> bool {
    const WORDS: [&str; 3] = [
        "no conversation found",
        "no saved session found",
        "no rollout found",
    ];
    let words = words.to_ascii_lowercase();
    WORDS.iter().any(|known| words.contains(known))
}

/// Returns whether a text says that the id of a new conversation is in use, as Claude Code does.
pub fn is_taken(words: &str) -> bool {
    words.contains("is already in use")
}

/// Returns whether an error of Codex only reports a retry.
pub fn is_reconnecting(words: &str) -> bool {
    words.starts_with("Reconnecting")
}

/// Returns whether a program printed its usage: several lines that begin with an option, or a typical word.
fn is_help(printed: &str) -> bool {
    const WORDS: [&str; 4] = [
        "usage:",
        "unknown argument",
        "unknown option",
        "unexpected argument",
    ];
    let options = printed
        .lines()
        .filter(|line| line.starts_with([' ', '\t']) && line.trim_start().starts_with('-'));
    let said = printed.to_ascii_lowercase();
    options.count() > 3 || WORDS.iter().any(|word| said.contains(word))
}

/// Finds an HTTP status in a text: a separate number from 400 to 599 near a typical word.
fn status_in(text: &str) -> Option<u64> {
    const NEAR: [&str; 8] = [
        "status", "http", "error", "code", "api", "failed", "response", "request",
    ];
    if !NEAR.iter().any(|word| text.contains(word)) {
        return None;
    }
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .map(|word| word.trim_matches('.'))
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|number| (400..600).contains(number))
}

/// Finds the number of seconds to wait for the provider: from a number, a duration in words, or a date.
fn retry_after(text: &str) -> Option<u64> {
    const WORDS: [&str; 6] = [
        "retry-after",
        "retry after",
        "retry_after",
        "try again in",
        "try again at",
        "retry in",
    ];
    let lower = text.to_ascii_lowercase();
    let at = WORDS
        .iter()
        .find_map(|words| Some(lower.find(words)? + words.len()))?;
    until(&text[at..]).or_else(|| span(&lower[at..]))
}

/// Parses a time in the format of headers and logs. Returns the number of seconds until then.
fn until(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([' ', ':', '=', '"', '\'']);
    let first = text.split(['\n', '"', '\'']).next().unwrap_or_default();
    let header = first
        .find("GMT")
        .and_then(|end| jiff::fmt::rfc2822::parse(&first[..end + 3]).ok())
        .map(|zoned| zoned.timestamp());
    let word = first.split_whitespace().next().unwrap_or_default();
    let moment = header.or_else(|| word.trim_end_matches(['.', ',', ';', ')']).parse().ok())?;
    let left = moment.as_second() - jiff::Timestamp::now().as_second();
    // For a time in the past, the wait is over.
    Some(u64::try_from(left).unwrap_or(0))
}

/// Parses a duration, such as `17`, `1.5s`, `2h15m` or `4 days 3 hours and 6 minutes`, into seconds.
fn span(text: &str) -> Option<u64> {
    // Without a unit, a number above a day means something else.
    const DAY: f64 = 86_400.0;
    let line = text.lines().next().unwrap_or_default();
    let mut rest = line.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut total: Option<f64> = None;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..end].trim_end_matches('.').parse().ok()?;
        let after = rest[end..].trim_start();
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            unit if unit.starts_with("milli") => 0.001,
            unit if unit.starts_with('m') => 60.0,
            unit if unit.starts_with('h') => 3600.0,
            unit if unit.starts_with('d') => DAY,
            unit if unit.starts_with('w') => 7.0 * DAY,
            unit if unit.starts_with('s') => 1.0,
            _ if total.is_none() && number <= DAY => 1.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * seconds);
        if !unit.starts_with(['m', 'h', 'd', 'w']) {
            break;
        }
        rest = after.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    // A year is longer than any wait, and still fits the clock.
    total
        .filter(|seconds| *seconds <= 365.0 * DAY)
        .map(|seconds| seconds.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_variable_is_named_and_not_tried_again() {
        for text in [
            "Missing environment variable: `FAKE_KEY`.",
            "error: environment variable FAKE_KEY is not set",
            "Error: Missing required environment variable 'FAKE_KEY'",
            "stream error: environment variable \"FAKE_KEY\" not found; retrying",
        ] {
            let trouble = Trouble::from_words(text, TroubleKind::Model);
            assert_eq!(trouble.kind, TroubleKind::Other, "{text}");
            let setting = "git config --add agent.env FAKE_KEY";
            assert!(trouble.text.contains(setting), "{}", trouble.text);
        }
        for text in [
            "set the environment variable FAKE_KEY to change this",
            "500 internal server error",
            "missing environment",
        ] {
            assert_eq!(unset_variable(text), None, "{text}");
        }
    }

    #[test]
    fn words_are_told_apart() {
        use TroubleKind::*;
        for (text, kind) in [
            ("unexpected status 401 Unauthorized: bad key", Some(Auth)),
            (
                "API Error: 500 {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}",
                Some(Model),
            ),
            ("Request failed with status code 429", Some(RateLimit)),
            ("litellm.RateLimitError: slow down", Some(RateLimit)),
            (
                "error 400: This model's maximum context length is 8192 tokens",
                Some(Context),
            ),
            ("Prompt is too long", Some(Context)),
            (
                "Internal error: Session too large to compact - context exceeds model limit even after stripping media",
                Some(Context),
            ),
            ("Invalid API key · Please run /login", Some(Auth)),
            ("Authentication required", Some(Auth)),
            ("error: no such file 'a500.txt'", None),
            ("all 500 tests pass", None),
            ("", None),
        ] {
            assert_eq!(TroubleKind::from_words(text), kind, "{text}");
        }
    }

    #[test]
    fn the_wait_is_found() {
        for (text, seconds) in [
            ("rate limited; retry-after: 17", Some(17)),
            ("Please try again in 1.5s.", Some(2)),
            ("try again in 3 minutes", Some(180)),
            ("retry in 250ms", Some(1)),
            ("retry after a while", None),
            ("429", None),
            ("retry after 99999999999", None),
            ("retry after 99999999999 days", None),
            ("Try again in 4 days 3 hours 6 minutes.", Some(356_760)),
            ("try again in 2h15m", Some(8100)),
            ("retry in 1 minute, 30 seconds (2 of 3)", Some(90)),
            ("Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("retry after 2015-10-21T07:28:00Z.", Some(0)),
        ] {
            assert_eq!(
                Trouble::new(TroubleKind::RateLimit, text).retry_after,
                seconds,
                "{text}"
            );
        }
    }

    #[test]
    fn a_date_is_as_far_away_as_it_is() {
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
        let header = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&soon)
            .expect("a date");
        for text in [
            format!("429 Too Many Requests\nRetry-After: {header}\nServer: x"),
            format!("limit reached, try again at {soon}."),
            format!(r#"{{"status":429,"headers":{{"retry-after":"{header}"}}}}"#),
        ] {
            let wait = Trouble::new(TroubleKind::RateLimit, &text).retry_after;
            assert!(
                wait.is_some_and(|wait| (3590..=3600).contains(&wait)),
                "{text}: {wait:?}"
            );
        }
    }

    #[test]
    fn an_agent_that_tries_again_says_why() {
        let line = "Attempt 3 failed with status 429. Retrying with backoff... ApiError";
        let trouble = Trouble::in_passing(line).expect("a limit");
        assert_eq!(trouble.kind, TroubleKind::RateLimit);
        for line in [
            "Attempt 3 of the test failed",
            "HTTP 500 in a log",
            "loading credentials",
        ] {
            assert_eq!(Trouble::in_passing(line), None, "{line}");
        }
    }

    #[test]
    fn an_end_is_explained_by_its_last_words() {
        let exit = |code, signal| Exit {
            code,
            signal,
            reason: String::new(),
        };
        let kind = |exit, printed| Trouble::from_exit(&exit, printed).kind;
        assert_eq!(kind(exit(Some(1), None), ""), TroubleKind::Crash);
        assert_eq!(
            kind(exit(Some(1), None), "fatal: not logged in"),
            TroubleKind::Auth
        );
        assert_eq!(
            kind(exit(None, Some(9)), "not logged in"),
            TroubleKind::Crash
        );
        let ended = Exit {
            reason: "the agent closed its output".into(),
            ..Exit::default()
        };
        let trouble = Trouble::from_exit(&ended, "not logged in");
        assert_eq!(trouble.kind, TroubleKind::Protocol);
        assert_eq!(trouble.text, ended.reason);
        let help = "      --auth-type  Authentication type  [string]\n  -h, --help  Show help\n\nUnknown arguments: verbose";
        assert_eq!(kind(exit(Some(1), None), help), TroubleKind::Crash);
    }
}
