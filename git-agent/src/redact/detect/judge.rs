//! Decides whether a value in the place of a secret is one, or a placeholder, a type, a name or code.

use crate::redact::detect::entropy::{looks_random, named, reads_as_words, segments};
use crate::redact::text::contains_ignoring_case;

/// The kind of value that a name announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A password, perhaps short and chosen by a person.
    Password,
    /// A phrase of words.
    Phrase,
    /// A secret or an API key.
    Secret,
    /// A token, which is also a word of compilers and parsers.
    Token,
    /// Some key, mostly not a secret.
    Key,
}

/// The notation of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Between quotes.
    Quoted,
    /// Bare, right after the separator, as in a `.env` file or a URL.
    Tight,
    /// Bare, after a space, as in code, YAML and prose.
    Loose,
}

/// Placeholders that people write for a secret, without digits and punctuation.
const STAND_INS: [&str; 75] = [
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

/// Parts that occur only in placeholders.
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

/// Returns whether a value is a placeholder for a secret.
pub(crate) fn is_stand_in(value: &[u8]) -> bool {
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
    // A word with a number and a mark is a typical password where a rule demands both.
    let decorated = {
        let around = value.iter().filter(|byte| !byte.is_ascii_alphabetic());
        let marks = around.clone().filter(|byte| b"!?#*+".contains(byte));
        around.clone().any(u8::is_ascii_digit) && marks.count() > 0
    };
    value.len() <= core.len() + 8
        && !decorated
        && STAND_INS.iter().any(|word| word.as_bytes() == core)
        || value.eq_ignore_ascii_case(b"hunter2")
        || is_sequence(value)
}

/// Returns whether most characters follow their predecessor, as in `abcdef123456`.
pub(crate) fn is_sequence(value: &[u8]) -> bool {
    let steps = value
        .windows(2)
        .filter(|pair| pair[1] == pair[0].wrapping_add(1) || pair[1] == pair[0])
        .count();
    value.len() >= 8 && steps * 10 >= (value.len() - 1) * 7
}

/// Returns whether a value is a location: a path, a URL, a file name.
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
    // A name, or names joined with dots, made of words.
    !body.first().is_none_or(u8::is_ascii_digit)
        && body
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte))
        && reads_as_words(body)
}

/// Returns whether a value is a secret, given the kind that its name announces and its notation.
pub(crate) fn is_secret(value: &[u8], promise: Promise, style: Style) -> bool {
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
        return is_word_with_number(value, promise, style);
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
        // Patterns have such names too.
        Promise::Token if value.iter().any(|byte| b"[](){}^*\\".contains(byte)) => false,
        Promise::Token => {
            digit
                && letter
                && (value.len() >= 10 && !words || value.len() >= 20 && !joined_words(value))
                || !words && letter && mixed && value.len() >= 16
                || style != Style::Loose && is_word_with_number(value, promise, Style::Tight)
        }
        Promise::Key => looks_random(value, 20),
    }
}

/// Returns whether a value that could be a name in code is a word with a number, as in `correcthorse42` or
/// `Summer2024!`.
///
/// The looser the notation, the stricter the test: types and variables end in numbers too.
fn is_word_with_number(value: &[u8], promise: Promise, style: Style) -> bool {
    // Widths and versions at the end of names.
    const WIDTHS: [&[u8]; 8] = [b"16", b"32", b"64", b"128", b"255", b"256", b"384", b"512"];
    let end = value
        .iter()
        .rposition(|byte| !b"!?.".contains(byte))
        .map_or(0, |at| at + 1);
    let (body, marks) = value.split_at(end);
    if value.len() < 8 || !body.iter().all(u8::is_ascii_alphanumeric) {
        return false;
    }
    let exclaimed = marks.contains(&b'!');
    let digits = body.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = body.len() - digits;
    let tail = body.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let tail = &body[body.len() - tail.count()..];
    let mixed = body.iter().any(u8::is_ascii_lowercase) && body.iter().any(u8::is_ascii_uppercase);
    let number = letters >= 3 && tail.len() >= 4;
    match (promise, style) {
        (Promise::Password | Promise::Phrase, Style::Tight) => {
            digits >= 2 || exclaimed && digits >= 1
        }
        (Promise::Password | Promise::Phrase, _) => {
            number
                || exclaimed && digits >= 2
                || mixed && tail.len() >= 2 && !WIDTHS.contains(&tail)
        }
        (Promise::Secret, Style::Tight) => number || exclaimed && digits >= 2,
        (Promise::Token, Style::Tight) => exclaimed && digits >= 2,
        _ => false,
    }
}

/// Returns whether a value is a password although it consists of words, for places where only a value can follow, as
/// after `DB_PASSWORD=` in a shell.
pub(crate) fn is_worded_password(value: &[u8]) -> bool {
    /// Words in settings about passwords.
    const SAID: [&str; 10] = [
        "disabled",
        "enabled",
        "encrypted",
        "generated",
        "plaintext",
        "interactive",
        "unchanged",
        "somevalue",
        "whatever",
        "anything",
    ];
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let words = value
        .iter()
        .skip(1)
        .all(|byte| byte.is_ascii_lowercase() || b"-_!?.".contains(byte));
    value.len() >= 8
        && value.first().is_some_and(u8::is_ascii_alphanumeric)
        && value.iter().any(u8::is_ascii_lowercase)
        && value
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_!?.@#%^*+=~".contains(byte))
        && (digits >= 2 || words && !value.contains(&b'.'))
        && !["passw", "secret", "token"]
            .iter()
            .any(|word| contains_ignoring_case(value, word))
        && !SAID
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        && !is_stand_in(value)
        && !is_place(value)
}

/// Returns whether text starts with a password in one provider's form: four groups of four letters.
pub(crate) fn is_in_fours(text: &[u8]) -> bool {
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

/// Returns whether a value is words and numbers joined with `-`, `_`, `.` or `:`, as in names.
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

/// Returns whether a value is four or more short words: a passphrase, or the recovery phrase of a wallet.
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
