//! Finds private keys in base64: encoded armour, as clusters and CI store it, and the body of an OpenSSH key without
//! its armour. On one line or wrapped, in either alphabet, or truncated.

/// `-----BEGIN ` in base64, from the first dash that starts a group: a key may stand anywhere in the encoded text.
pub(crate) const ARMOUR: [&str; 3] = ["LS0tLS1CRUdJ", "LS0tQkVHSU4g", "LS0tLUJFR0lO"];
/// The start of an OpenSSH key's body: `openssh-key-v1` and a zero.
pub(crate) const OPENSSH: &str = "b3BlbnNzaC1rZXktdjEA";

/// The length that contains the label of the armour.
const LABEL: usize = 96;
/// Every encoded key is longer; a header alone, as in a manual, is not.
const SHORTEST: usize = 100;
/// The longest encoded key.
const LONGEST: usize = 96 * 1024;
/// Wrapped lines are shorter than this.
const WIDEST: usize = 256;

/// Examines an encoded `-----BEGIN ` and returns the key, if it is a private one.
pub(crate) fn armour(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let rest = &text[start..];
    if !ARMOUR.iter().any(|word| rest.starts_with(word.as_bytes())) {
        return None;
    }
    let (_, end) = body(text, start)?;
    let label = decoded(&text[start..end], LABEL);
    let private = b"PRIVATE KEY";
    let is_private = label.windows(private.len()).any(|part| part == private);
    is_private.then_some((start, end))
}

/// Examines the encoded start of an OpenSSH key and returns its body.
pub(crate) fn openssh(text: &[u8], start: usize) -> Option<(usize, usize)> {
    if text[start..].starts_with(OPENSSH.as_bytes()) {
        body(text, start)
    } else {
        None
    }
}

/// Returns the range of an encoded key that starts here: to the end of its line, or, if lines are wrapped, over all
/// lines as long as the first, and one more.
fn body(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let limit = text.len().min(start + LONGEST);
    let before = text[..start].iter().rev().take(WIDEST);
    let before = before.take_while(|byte| is_code(**byte)).count();
    // The letter of an escaped newline does not belong to the line.
    let before = before - usize::from(text[..start - before].ends_with(b"\\") && before > 0);
    let mut end = start + run(&text[start..limit]);
    let mut count = end - start;
    let width = before + count;
    let mut length = width;
    while length == width && width < WIDEST {
        let Some(next) = next_line(&text[end..limit]) else {
            break;
        };
        let line = &text[end + next..limit];
        length = run(line);
        let padded = text[end - 1] == b'=';
        if padded || length == 0 || length > width || is_prose(&line[length..]) {
            break;
        }
        end += next + length;
        count += length;
    }
    (count >= SHORTEST).then_some((start, end))
}

/// Returns whether words follow on the same line, so that the text before them is a word too.
fn is_prose(rest: &[u8]) -> bool {
    let mut after = rest.iter().skip_while(|byte| matches!(byte, b' ' | b'\t'));
    rest.starts_with(b" ") && after.next().is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns the start of the next line in a text that begins at the end of one: after the newline, real or escaped, and
/// after the marks that a diff, a quotation or a language puts around the lines of a long text.
fn next_line(text: &[u8]) -> Option<usize> {
    // The mark of a diff is not among these: it precedes every line, and lengthens all of them.
    let around = |byte: &u8| b" \t\"'`\\|>,.".contains(byte);
    let after = |byte: &&u8| around(byte) || matches!(byte, b'\r' | b'+');
    let tail = text.iter().take(8).take_while(after).count();
    // An escaped newline begins with a character that may surround a line.
    let tail = match text[..tail].iter().rposition(|byte| *byte == b'\\') {
        Some(at) if text.get(at + 1) == Some(&b'n') => at,
        Some(at) if text[at..].starts_with(b"\\r\\n") => at + 2,
        _ => tail,
    };
    let newline = match &text[tail..] {
        [b'\n', ..] => 1,
        [b'\\', b'n', ..] => 2,
        _ => return None,
    };
    let head = text[tail + newline..].iter().take(64);
    Some(tail + newline + head.take_while(|byte| around(byte)).count())
}

fn run(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_code(**byte)).count()
}

fn is_code(byte: u8) -> bool {
    value(byte).is_some() || byte == b'='
}

fn value(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

/// Decodes the start of a text, across its lines.
fn decoded(text: &[u8], most: usize) -> Vec<u8> {
    let codes: Vec<u32> = text
        .iter()
        .filter_map(|byte| value(*byte))
        .take(most)
        .collect();
    let whole = codes.chunks_exact(4);
    let bytes = whole.flat_map(|four| {
        let word = four.iter().fold(0, |word, code| word << 6 | code);
        word.to_be_bytes()[1..].to_vec()
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::{KnownSecrets, Redactor};
    use proptest::prelude::*;

    fn encode(bytes: &[u8], url_safe: bool) -> String {
        let mut letters: Vec<u8> = (b'A'..=b'Z')
            .chain(b'a'..=b'z')
            .chain(b'0'..=b'9')
            .collect();
        letters.extend(if url_safe { b"-_" } else { b"+/" });
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let mut word = [0; 4];
            word[1..=three.len()].copy_from_slice(three);
            let word = u32::from_be_bytes(word);
            for place in 0..=three.len() {
                let code = word >> (18 - 6 * place) & 63;
                text.push(char::from(letters[code as usize]));
            }
            text.extend(std::iter::repeat_n('=', 3 - three.len()));
        }
        text
    }

    fn wrap(text: &str, width: usize, newline: &str) -> String {
        let lines = text.as_bytes().chunks(width);
        let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
        lines.join(newline)
    }

    fn pem(label: &str, bytes: &[u8]) -> String {
        let body = wrap(&encode(bytes, false), 64, "\n");
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    }

    fn redacted(text: &str) -> String {
        Redactor::new(KnownSecrets::new()).text(text).into_inner()
    }

    fn labels() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_encoded_private_key_is_found_however_it_is_written(
            bytes in prop::collection::vec(any::<u8>(), 64..1200),
            label in labels(),
            before in "[a-z]{0,4}",
            url_safe in any::<bool>(),
            width in prop::sample::select(vec![60, 64, 76, 100_000]),
            newline in prop::sample::select(vec!["\n", "\r\n", "\\n", "\n    ", "\n+"]),
        ) {
            let before = if before.is_empty() { before } else { before + "\n" };
            let encoded = encode((before + &pem(label, &bytes)).as_bytes(), url_safe);
            let text = format!("data:\n{}{}\nafter it\n", newline.trim_start(), wrap(&encoded, width, newline));
            let output = redacted(&text);
            prop_assert!(output.contains("[REDACTED:private-key]"), "{output}");
            prop_assert!(output.starts_with("data:\n") && output.ends_with("\nafter it\n"), "{output}");
            // The text before the first dash, and the end of a last line, reveal nothing of the key.
            let rest = output.replace("[REDACTED:private-key]", "");
            prop_assert!(rest.len() < 48, "{rest}");
            let redactor = Redactor::new(KnownSecrets::new());
            prop_assert!(redactor.secret_in_code(text.as_bytes()).is_some());
        }

        #[test]
        fn what_is_public_stays(
            bytes in prop::collection::vec(any::<u8>(), 64..600),
            label in prop::sample::select(vec!["CERTIFICATE", "PUBLIC KEY", "PGP MESSAGE"]),
            width in prop::sample::select(vec![64, 76, 100_000]),
        ) {
            let encoded = wrap(&encode(pem(label, &bytes).as_bytes(), false), width, "\n");
            prop_assert_eq!(armour(encoded.as_bytes(), 0), None);
        }

        #[test]
        fn the_body_of_an_openssh_key_needs_no_armour(bytes in prop::collection::vec(any::<u8>(), 80..400)) {
            let key = [b"openssh-key-v1\0".as_slice(), &bytes].concat();
            let text = format!("key = {}\n", wrap(&encode(&key, false), 70, "\n"));
            let output = redacted(&text);
            prop_assert!(output.contains("[REDACTED:"), "{}", output);
            prop_assert!(output.len() < 64, "{}", output);
        }
    }

    #[test]
    fn a_header_alone_is_no_key() {
        let text = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo= secrets.yaml";
        assert_eq!(armour(text.as_bytes(), 0), None);
    }
}
