//! Distinguishes random strings from words with a small model of identifiers, and finds long random tokens.
//!
//! Shannon entropy alone is not enough: a camel-case name of forty letters has as much as a key of twenty. The model is
//! the log-odds of each pair of neighbours in a name chosen by a person against a random string.

use crate::redact::text::{Class, contains_ignoring_case, ends_escape, line_before};

/// Log-odds, in half bits above `N`, of a letter (column) after a letter (row), counted over names in source code.
const PAIRS: [&[u8; 26]; 26] = [
    b"GNPOFINFNCJQNQDOAQPRLKJILF",
    b"QKNJPIFFRKGSKGPJAOOKQHCFND",
    b"QGMJQILQNAPOJISKFNNQMKFEIA",
    b"PKKOTLJHRGBNKJOLFOOLNKHGJC",
    b"NJOQMMLFJDHNNQJMJRQPILJNHE",
    b"PILNPQJERACQLLQKDOPNNCGFJA",
    b"OJJITILOQAGMLPMLGQPKOIGHIB",
    b"SHIMSIFIQAGKMJQIAOMNNEKAKD",
    b"MKPOMNNAFCFOOSQLCMOQDMBJAM",
    b"QJIBTJJBPBNBJHRIBHPLQBBIBF",
    b"OLLNTLJKRADLIMMKDLQOLGJAHE",
    b"QHJNSKGERAKQIHQJBIMNNIFAPB",
    b"SMJJSIGDQAHKNIPQBINLOGCEHA",
    b"PHOQQNRHODLKILOJEJPRMKGEIF",
    b"JKPNHLLFKEKOOSMOARONOMNHEB",
    b"RGKJRJJLOAHPIGPPBRNPNHHFIA",
    b"JLKNNHKFMAALGMILFLMIVFGEAA",
    b"QIMMTJKFQAKKMLQKENONMJIEMB",
    b"MHNISIJORAKLKJNOFKPSOHIFMG",
    b"QHMJSLGOSAFLKIPKCQONMHHINF",
    b"MNNKOMLBNACPORJPAPQQECBIAD",
    b"SIJJULHGRABKLJNKDJLKFCFJCC",
    b"RILLQKGORDEMJPQKDQNLJFGIFB",
    b"PLPOQPILPAEKKJLRHJMRJHHKJA",
    b"NNMKOLJIODGNPQNRFNRPFLKAHJ",
    b"PFIKVHIAPAFIHGPAAAKCJAFALM",
];

/// Log-odds of going from lower, upper or digit (row) to lower, upper or digit, where all three occur.
const KINDS_OF_THREE: [[i32; 3]; 3] = [[2, -7, -6], [-2, 2, -6], [-5, -5, 5]];
/// The same where only letters of one case and digits occur.
const KINDS_OF_TWO: [[i32; 2]; 2] = [[1, -8], [-7, 3]];

fn kind(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    }
}

/// Returns the log-odds in half bits that a person chose these letters and digits: negative means random.
pub(crate) fn named(segment: &[u8]) -> i32 {
    let mixed =
        segment.iter().any(u8::is_ascii_lowercase) && segment.iter().any(u8::is_ascii_uppercase);
    segment
        .windows(2)
        .map(|pair| {
            let (a, b) = (pair[0], pair[1]);
            let kinds = if mixed {
                KINDS_OF_THREE[kind(a)][kind(b)]
            } else {
                KINDS_OF_TWO[usize::from(kind(a) == 2)][usize::from(kind(b) == 2)]
            };
            let letters = if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() {
                let index = |byte: u8| usize::from(byte.to_ascii_lowercase() - b'a');
                i32::from(PAIRS[index(a)][index(b)]) - i32::from(b'N')
            } else {
                0
            };
            kinds + letters
        })
        .sum()
}

/// Returns the runs of letters and digits.
pub(crate) fn segments(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|segment| !segment.is_empty())
}

/// Returns whether the value consists of words, names or numbers.
pub(crate) fn reads_as_words(value: &[u8]) -> bool {
    segments(value)
        .filter(|segment| segment.len() > 2)
        .map(named)
        .sum::<i32>()
        > 0
}

/// Returns whether a run of letters and digits is clearly not a secret: a number, a hash, a word, a name.
fn explained(segment: &[u8]) -> bool {
    let lower = segment.iter().any(u8::is_ascii_lowercase);
    let upper = segment.iter().any(u8::is_ascii_uppercase);
    let digits = segment
        .strip_prefix(b"0x")
        .or(segment.strip_prefix(b"I"))
        .unwrap_or(segment);
    let hex = digits.iter().all(u8::is_ascii_hexdigit)
        && (digits.len() < segment.len() || !(lower && upper));
    hex && segment.len() >= 6 || segment.iter().all(u8::is_ascii_digit) || named(segment) >= 0
}

/// Returns whether a token is long and random enough to be a key, whatever surrounds it.
pub(crate) fn looks_random(token: &[u8], shortest: usize) -> bool {
    let lower = token.iter().any(u8::is_ascii_lowercase);
    let upper = token.iter().any(u8::is_ascii_uppercase);
    let digit = token.iter().any(u8::is_ascii_digit);
    if !digit || !(lower || upper) {
        return false;
    }
    // With two kinds of characters a token is often a serial number or an id.
    let shortest = if lower && upper {
        shortest
    } else {
        shortest + 8
    };
    let mut random = 0;
    let mut odds = 0;
    for segment in segments(token) {
        if segment.len() < 3 {
            random += segment.len();
        } else if !explained(segment) {
            random += segment.len();
            odds += named(segment);
        }
    }
    random >= shortest
        && random * 10 >= token.len() * 7
        && odds * 2 <= -i32::try_from(random).unwrap_or(i32::MAX)
}

/// The shortest run that the entropy rule examines.
const SHORTEST: usize = 24;
/// The longest one: a longer run is data (an image, a certificate, a source map), not a key.
const LONGEST: usize = 120;

/// Calls `found` for every token that looks like a key by itself, in one pass.
pub(crate) fn scan(text: &[u8], mut found: impl FnMut(usize, usize, &'static str)) {
    let table = Class::Encoded.table();
    let mut at = 0;
    while at + SHORTEST <= text.len() {
        // Searching from the far end of the window crosses ordinary prose in a few steps.
        let window = &text[at..at + SHORTEST];
        if let Some(gap) = window.iter().rposition(|byte| !table[usize::from(*byte)]) {
            at += gap + 1;
            continue;
        }
        let mut end = at + SHORTEST;
        while end < text.len() && table[usize::from(text[end])] {
            end += 1;
        }
        if let Some((end, rule)) = discord(text, at, end) {
            found(at, end, rule);
        } else if end - at <= LONGEST {
            let run = at + escape_tail(text, at);
            let (skip, length) = trim(&text[run..end]);
            let (start, stop) = (run + skip, run + skip + length);
            if looks_random(&text[start..stop], SHORTEST)
                && !allowed(text, run, end, &text[start..stop])
            {
                let padding = text[stop..]
                    .iter()
                    .take(2)
                    .take_while(|byte| **byte == b'=');
                let padding = padding.count();
                found(start, stop + padding, "high-entropy");
            }
        }
        at = end;
    }
}

/// Returns how many bytes at the start of a run belong to an escape before it: the `n` of `\\n`, the `3D` of `%3D`.
fn escape_tail(text: &[u8], at: usize) -> usize {
    if at == 0 || !b"\\%[;".contains(&text[at - 1]) {
        return 0;
    }
    (1..=6)
        .take_while(|length| at + length <= text.len())
        .find(|length| {
            ends_escape(&text[..at + length])
                && !(text[at - 1] == b'\\' && *length == 1 && text[at] == b'u')
        })
        .unwrap_or(0)
}

/// Returns the offset and length of a token without surrounding punctuation.
fn trim(token: &[u8]) -> (usize, usize) {
    let skip = token.iter().take_while(|b| b"-/+".contains(b)).count();
    let rest = &token[skip..];
    let tail = rest.iter().rev().take_while(|b| b"-/".contains(b)).count();
    (skip, rest.len() - tail)
}

/// Finds a Discord bot token, which has no prefix: an encoded number, a time and a signature.
fn discord(text: &[u8], start: usize, end: usize) -> Option<(usize, &'static str)> {
    if !matches!(text[start], b'M' | b'N' | b'O') || !(24..=30).contains(&(end - start)) {
        return None;
    }
    let rest = text.get(end..)?.strip_prefix(b".")?;
    let time = Class::Dashed.run(rest, 8);
    let signature = rest.get(time..)?.strip_prefix(b".")?;
    let length = Class::Dashed.run(signature, 64);
    (time == 6 && (27..=40).contains(&length))
        .then(|| (end + 1 + time + 1 + length, "discord-token"))
}

/// Words that, earlier on the line, mark a value as public: a hash, an id, a piece of data.
const PUBLIC_WORDS: [&str; 28] = [
    "integrity",
    "checksum",
    "digest",
    "etag",
    "fingerprint",
    "hash",
    "sha1",
    "sha256",
    "sha384",
    "sha512",
    "md5",
    "nonce",
    "base64,",
    "message-id",
    "public key",
    "publickey",
    "public_key",
    "request-id",
    "request_id",
    "trace",
    "ssh-",
    "signature",
    "x-amz-id",
    "websocket",
    "boundary",
    "challenge",
    "did:key",
    "publishable",
];

/// Prefixes that vendors give to object ids.
const ID_PREFIXES: [&str; 8] = [
    "toolu_",
    "srvtoolu_",
    "chatcmpl-",
    "call_",
    "msg_",
    "req_",
    "pk_live_",
    "pk_test_",
];

/// Extensions of built files, whose names contain a hash of their content.
const ASSETS: [&str; 14] = [
    ".js", ".mjs", ".cjs", ".css", ".map", ".png", ".jpg", ".svg", ".woff", ".wasm", ".html",
    ".json", ".webp", ".ico",
];

/// Returns whether a random-looking run is known not to be a secret. `token` is the run without punctuation.
fn allowed(text: &[u8], start: usize, end: usize, token: &[u8]) -> bool {
    let after = &text[end..];
    if after.first() == Some(&b'@') || ASSETS.iter().any(|ext| after.starts_with(ext.as_bytes())) {
        return true;
    }
    if ID_PREFIXES
        .iter()
        .any(|id| token.starts_with(id.as_bytes()))
        || is_object_id(token)
    {
        return true;
    }
    if is_bech32(token) || is_base58(token) || crate::redact::detect::judge::is_sequence(token) {
        return true;
    }
    // The first bytes of images, documents and archives.
    const MAGIC: [&str; 9] = [
        "R0lGOD",
        "iVBORw0KGgo",
        "/9j/",
        "PHN2Zy",
        "UklGR",
        "d09GM",
        "JVBERi",
        "UEsDB",
        "H4sIA",
    ];
    if MAGIC
        .iter()
        .any(|magic| text[start..].starts_with(magic.as_bytes()))
    {
        return true;
    }
    // Public keys, mangled symbols and references into the store of a package manager.
    if token.starts_with(b"AAAA") || token.starts_with(b"_Z") || token.starts_with(b"_R") {
        return true;
    }
    let line = line_before(text, start, 160);
    if line.ends_with(b"$s") || line.ends_with(b"/nix/store/") || token.starts_with(b"nix/store/") {
        return true;
    }
    if PUBLIC_WORDS
        .iter()
        .any(|word| contains_ignoring_case(&line[line.len().saturating_sub(48)..], word))
        || PUBLIC_WORDS[..12].iter().any(|word| {
            token.len() > word.len() && token[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        })
        || line.ends_with(b"h1:")
    {
        return true;
    }
    let chunk = line
        .rsplit(|byte| byte.is_ascii_whitespace() || b"\"'`<>".contains(byte))
        .next()
        .unwrap_or(line);
    if chunk.windows(3).any(|three| three == b"://") {
        return true;
    }
    // A whole line of the width at which encoders wrap is part of something longer.
    let alone = line.iter().all(u8::is_ascii_whitespace)
        && after
            .iter()
            .find(|b| **b != b'=')
            .is_none_or(|b| b"\r\n\\".contains(b));
    alone && matches!(end - start, 60 | 61 | 64 | 70 | 72 | 75 | 76)
}

/// Returns whether a token is a public key or an address with a prefix, as in `age1…`.
fn is_bech32(token: &[u8]) -> bool {
    let kind = token
        .iter()
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    (2..=6).contains(&kind)
        && token.get(kind) == Some(&b'1')
        && token.len() > kind + 38
        && token[kind + 1..]
            .iter()
            .all(|byte| b"qpzry9x8gf2tvdw0s3jn54khce6mua7l".contains(byte))
}

/// Returns whether a token is the address of an account or of content.
fn is_base58(token: &[u8]) -> bool {
    let plain = token
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() && !b"0OIl".contains(byte));
    plain
        && (token.len() == 46 && token.starts_with(b"Qm")
            || (33..=34).contains(&token.len()) && matches!(token[0], b'1' | b'3'))
}

/// Returns whether a token is a short word, `_`, and up to 28 characters, as in vendors' object ids.
fn is_object_id(token: &[u8]) -> bool {
    let Some(bar) = token.iter().position(|byte| *byte == b'_') else {
        return false;
    };
    let (word, id) = (&token[..bar], &token[bar + 1..]);
    (2..=12).contains(&word.len())
        && word.iter().all(u8::is_ascii_lowercase)
        && (word.len() < 4 || named(word) >= 0)
        && id.len() <= 28
        && id.iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_random_and_keys_are() {
        for name in [
            "getServerSideTranslationsWithFallbackLocale",
            "target/debug/deps/libserde_json-8f3a2b1c9d0e1f2a",
            "com/example/internal/RequestHandlerFactoryBean2Impl",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            assert!(!looks_random(name.as_bytes(), 24), "{name}");
        }
        for key in [
            "q7Rk2LmZx9Tb4WcYv8Np3Hs6Dj",
            "Zk3+vT9/xQ2mLb7Rw0PfYc5Hn8Jd1Gs4AuEo6Xi",
        ] {
            assert!(looks_random(key.as_bytes(), 24), "{key}");
        }
    }
}
