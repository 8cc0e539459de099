//! Whether a value that stands where a secret would stand is one, or a placeholder, a type, a name or code.

use super::entropy::{looks_random, named, reads_as_words, segments};
use super::text::contains_ignoring_case;

/// What the name beside a value promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// A password: short and chosen by a person, perhaps.
    Password,
    /// A phrase of words.
    Phrase,
    /// A secret or an API key.
    Secret,
    /// A token: also a word of compilers and parsers.
    Token,
    /// Some key: mostly not a secret.
    Key,
}

/// How a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Between quotes.
    Quoted,
    /// Bare, right after the separator, as in a `.env` file or a URL.
    Tight,
    /// Bare, after a space, as in code, YAML and prose.
    Loose,
}

/// What people write where a secret goes, once digits and punctuation are taken away.
const STAND_INS: [&str; 76] = [
    "changeme",
    "changethis",
    "changeit",
    "password",
    "passwd",
    "pass",
    "secret",
    "token",
    "apikey",
    "key",
    "test",
    "testing",
    "tests",
    "testpassword",
    "testpass",
    "testtoken",
    "testsecret",
    "testkey",
    "testuser",
    "mypassword",
    "mysecret",
    "mytoken",
    "mykey",
    "myapikey",
    "admin",
    "administrator",
    "root",
    "user",
    "username",
    "guest",
    "demo",
    "example",
    "sample",
    "dummy",
    "fake",
    "mock",
    "foo",
    "bar",
    "foobar",
    "baz",
    "abc",
    "abcdef",
    "abcd",
    "qwerty",
    "letmein",
    "hunter",
    "welcome",
    "postgres",
    "postgresql",
    "mysql",
    "redis",
    "mongo",
    "rabbitmq",
    "minio",
    "minioadmin",
    "docker",
    "default",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "undefined",
    "redacted",
    "hidden",
    "masked",
    "required",
    "optional",
    "string",
    "value",
    "todo",
    "tbd",
    "p@ssw0rd",
    "passw0rd",
    "p@ssword",
    "s3cr3t",
];

/// Pieces that only stand-ins have.
const STAND_IN_PIECES: [&str; 24] = [
    "example",
    "your-",
    "your_",
    "yours",
    "-here",
    "_here",
    "placeholder",
    "replace",
    "changeme",
    "change-me",
    "change_me",
    "insert",
    "dummy",
    "not-a-real",
    "notreal",
    "not_a_",
    "fake",
    "xxxx",
    "****",
    "....",
    "redacted",
    "process.env",
    "os.environ",
    "getenv",
];

/// Returns whether a value only stands in for a secret.
pub(super) fn is_stand_in(value: &[u8]) -> bool {
    let distinct = {
        let mut seen = [false; 256];
        value
            .iter()
            .for_each(|byte| seen[usize::from(*byte)] = true);
        seen.iter().filter(|seen| **seen).count()
    };
    if distinct < 4 || distinct * 8 < value.len().min(64) {
        return true;
    }
    if STAND_IN_PIECES
        .iter()
        .any(|piece| contains_ignoring_case(value, piece))
    {
        return true;
    }
    let starts = |mark: &[u8]| value.starts_with(mark);
    if starts(b"$")
        || starts(b"{")
        || starts(b"<")
        || starts(b"%(")
        || starts(b"%{")
        || starts(b"@{")
        || starts(b"[")
        || value.starts_with(b"%") && value.ends_with(b"%")
        || starts(b"#{")
        || starts(b"!") && reads_as_words(value)
        || value
            .windows(2)
            .any(|pair| pair == b"${" || pair == b"{{" || pair == b"$(")
        || "\u{2026}\u{2022}".chars().any(|c| {
            let mut bytes = [0; 4];
            let mark = c.encode_utf8(&mut bytes).as_bytes();
            value.windows(mark.len()).any(|window| window == mark)
        })
    {
        return true;
    }
    let core: Vec<u8> = value
        .iter()
        .filter(|byte| !b"-_. ".contains(byte))
        .map(u8::to_ascii_lowercase)
        .collect();
    let core = core.trim_ascii();
    let first = core.iter().position(u8::is_ascii_alphabetic).unwrap_or(0);
    let last = core
        .iter()
        .rposition(u8::is_ascii_alphabetic)
        .map_or(core.len(), |at| at + 1);
    let core = &core[first..last];
    value.len() <= core.len() + 8 && STAND_INS.iter().any(|word| word.as_bytes() == core)
        || is_sequence(value)
}

/// Returns whether most characters follow the one before, as in `abcdef123456`.
pub(super) fn is_sequence(value: &[u8]) -> bool {
    let steps = value
        .windows(2)
        .filter(|pair| pair[1] == pair[0].wrapping_add(1) || pair[1] == pair[0])
        .count();
    value.len() >= 8 && steps * 10 >= (value.len() - 1) * 7
}

/// Returns whether a value is a place rather than a thing: a path, a URL, a file name.
fn is_place(value: &[u8]) -> bool {
    value.windows(3).any(|three| three == b"://")
        || value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.starts_with(b"~/")
        || value.get(1..3) == Some(b":\\")
        || value.iter().filter(|byte| **byte == b'/').count() >= 2
            && (reads_as_words(value) || starts_with_directory(value))
        || [
            &b".pem"[..],
            b".key",
            b".txt",
            b".json",
            b".yml",
            b".yaml",
            b".env",
            b".rs",
            b".py",
            b".go",
            b".ts",
            b".js",
        ]
        .iter()
        .any(|end| value.ends_with(end))
}

fn starts_with_directory(value: &[u8]) -> bool {
    let word = value
        .iter()
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    word >= 4 && value[word] == b'/' && named(&value[..word]) > 0
}

/// Returns whether a bare value is code: a call, a type, a member, a reference, a format.
fn is_code(value: &[u8]) -> bool {
    if value.iter().any(|byte| b"([{<>".contains(byte))
        || value
            .windows(2)
            .any(|pair| matches!(pair, b"::" | b"->" | b"=>" | b"==" | b"!=" | b"&&" | b"||"))
    {
        return true;
    }
    let body = value
        .strip_prefix(b"&")
        .or_else(|| value.strip_prefix(b"*"))
        .or_else(|| value.strip_prefix(b"@"))
        .unwrap_or(value);
    let body = body
        .strip_suffix(b"?")
        .or_else(|| body.strip_suffix(b"!"))
        .unwrap_or(body);
    // A name, or names joined with dots, that reads as such.
    !body.first().is_none_or(u8::is_ascii_digit)
        && body
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte))
        && reads_as_words(body)
}

/// Returns whether a value is a secret, given what its name promises and how it was written.
pub(super) fn is_secret(value: &[u8], promise: Promise, style: Style) -> bool {
    if promise == Promise::Phrase {
        return is_phrase(value) || is_secret(value, Promise::Password, style);
    }
    if value.len() < 6
        || value
            .iter()
            .any(|byte| byte.is_ascii_whitespace() || *byte < 0x20)
    {
        return false;
    }
    if is_stand_in(value) || is_place(value) {
        return false;
    }
    if style != Style::Quoted && is_code(value) {
        // `PASSWORD=correcthorse42` in a shell's file is no name, although it reads as one.
        let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
        let plain = value.iter().all(u8::is_ascii_alphanumeric);
        return promise == Promise::Password
            && style == Style::Tight
            && plain
            && digits >= 2
            && value.len() >= 8;
    }
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let mark = value
        .iter()
        .any(|byte| byte.is_ascii_punctuation() && !b"-_.:/,".contains(byte));
    let mixed =
        value.iter().any(u8::is_ascii_lowercase) && value.iter().any(u8::is_ascii_uppercase);
    let words = reads_as_words(value);
    match promise {
        Promise::Password | Promise::Phrase => {
            let chosen =
                digit && letter && (mark || mixed || value.len() >= 8 && !joined_words(value))
                    || mark && mixed;
            chosen && !(style == Style::Loose && !digit && words)
                || !words && letter && value.len() >= 8
                || digit && !letter && value.len() >= 8 && !is_date(value) && !is_sequence(value)
        }
        Promise::Secret => {
            digit
                && letter
                && value.len() >= 8
                && (!words || mark || value.len() >= 16 && !joined_words(value))
                || !words && letter && value.len() >= 12
        }
        // Patterns are named so too.
        Promise::Token if value.iter().any(|byte| b"[](){}^*\\".contains(byte)) => false,
        Promise::Token => {
            digit
                && letter
                && (value.len() >= 10 && !words || value.len() >= 20 && !joined_words(value))
                || !words && letter && mixed && value.len() >= 16
        }
        Promise::Key => looks_random(value, 20),
    }
}

/// Returns whether text starts with a password as one provider spells them: four times four letters.
pub(super) fn is_in_fours(text: &[u8]) -> bool {
    let groups: Vec<u8> = text
        .iter()
        .take(19)
        .copied()
        .filter(|byte| *byte != b' ')
        .collect();
    let spaced = [4, 9, 14].iter().all(|at| text.get(*at) == Some(&b' '));
    spaced
        && groups.len() == 16
        && groups.iter().all(u8::is_ascii_lowercase)
        && !text.get(19).is_some_and(u8::is_ascii_alphanumeric)
        && named(&groups) < 0
}

/// Returns whether a value is words and numbers joined with `-`, `_`, `.` or `:`, as names of things are.
fn joined_words(value: &[u8]) -> bool {
    value.iter().any(|byte| b"-_.:/".contains(byte))
        && segments(value)
            .all(|part| part.iter().all(u8::is_ascii_digit) || part.len() <= 4 || named(part) >= 0)
        && reads_as_words(value)
}

fn is_date(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| byte.is_ascii_digit() || b"-:.TZ+/ ".contains(byte))
        && value.iter().any(|byte| b"-:./".contains(byte))
}

/// Returns whether a value is four or more short words: a passphrase, the words that bring a wallet back.
fn is_phrase(value: &[u8]) -> bool {
    const PROSE: [&str; 24] = [
        "the", "your", "a", "an", "is", "are", "to", "for", "of", "must", "be", "enter", "please",
        "not", "with", "and", "or", "in", "this", "that", "should", "when", "from", "has",
    ];
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let words: Vec<&str> = text.split([' ', '-']).collect();
    (4..=24).contains(&words.len())
        && words.iter().all(|word| {
            (2..=10).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase())
        })
        && !words.iter().any(|word| PROSE.contains(word))
}
