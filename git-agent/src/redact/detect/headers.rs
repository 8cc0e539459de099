//! Finds credentials in HTTP headers and on the command lines of well-known programs.

use crate::redact::detect::judge::{Promise, Style, is_secret, is_stand_in};
use crate::redact::text::{Class, line_before};

/// The names in the placeholders.
pub(crate) const RULES: [&str; 5] = [
    "bearer-token",
    "basic-auth",
    "cookie",
    "authorization",
    "cli-password",
];

type Secret = (usize, usize, &'static str);

/// Examines the text after `Bearer `.
pub(crate) fn bearer(text: &[u8], end: usize) -> Option<Secret> {
    let length = Class::Any.run(&text[end..], 8192);
    let token = &text[end..end + length];
    let digit = token.iter().any(u8::is_ascii_digit);
    (length >= 16
        && digit
        && !is_stand_in(token)
        && !crate::redact::detect::entropy::reads_as_words(token)
        || length >= 16 && token.iter().all(u8::is_ascii_hexdigit) && digit)
        .then_some((end, end + length, "bearer-token"))
}

/// Examines the text after `Basic `: only text that decodes to `user:password` is a credential.
pub(crate) fn basic(text: &[u8], end: usize) -> Option<Secret> {
    let length = Class::Base64.run(&text[end..], 1024);
    let decoded = decode(&text[end..end + length])?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let printable = decoded.iter().all(|byte| (0x20..0x7f).contains(byte));
    (length >= 8 && printable && decoded.len() > colon + 1 && !is_usual(&decoded[colon + 1..]))
        .then_some((end, end + length, "basic-auth"))
}

fn is_usual(password: &[u8]) -> bool {
    password.len() < 3 || is_stand_in(password)
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.iter().take_while(|byte| **byte != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Examines an `Authorization` header with another scheme.
pub(crate) fn authorization(text: &[u8], end: usize) -> Option<Secret> {
    let mut at = end;
    let skip = |at: &mut usize, set: &[u8], limit: usize| {
        let count = text[*at..]
            .iter()
            .take(limit)
            .take_while(|byte| set.contains(byte))
            .count();
        *at += count;
        count
    };
    skip(&mut at, b"\\\"'` ]", 6);
    if skip(&mut at, b":=,", 2) == 0 {
        return None;
    }
    skip(&mut at, b"\\\"'`+ ", 8);
    let word = text[at..]
        .iter()
        .take(24)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
        .count();
    if text.get(at + word) == Some(&b' ') && word > 0 {
        if text[at..at + word].eq_ignore_ascii_case(b"basic") {
            return basic(text, at + word + 1);
        }
        at += word + 1;
    }
    let length = Class::Any.run(&text[at..], 8192);
    let token = &text[at..at + length];
    (length >= 12 && is_secret(token, Promise::Token, Style::Quoted)).then_some((
        at,
        at + length,
        "authorization",
    ))
}

/// Examines a `Cookie:` or `Set-Cookie:` header, calls `found` for every secret value, and returns its end.
pub(crate) fn cookie(text: &[u8], end: usize, mut found: impl FnMut(Secret)) -> usize {
    let window = &text[end..text.len().min(end + 4096)];
    let stop = window
        .iter()
        .position(|byte| b"\r\n\"'`\\".contains(byte))
        .unwrap_or(window.len());
    let mut at = 0;
    for pair in window[..stop].split(|byte| *byte == b';') {
        let start = at;
        at += pair.len() + 1;
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let name = pair[..equals].trim_ascii();
        let value = &pair[equals + 1..];
        let plain = !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte));
        let secret = value.len() >= 12
            && !value.contains(&b' ')
            && !is_stand_in(value)
            && value.iter().any(u8::is_ascii_digit)
            && value.iter().any(u8::is_ascii_alphabetic)
            && !crate::redact::detect::entropy::reads_as_words(value);
        let meta = [&b"expires"[..], b"path", b"domain", b"max-age"]
            .iter()
            .any(|meta| name.eq_ignore_ascii_case(meta));
        if plain && secret && !meta {
            found((end + start + equals + 1, end + start + pair.len(), "cookie"));
        }
    }
    end + stop
}

/// Programs that take a password as a short option: the option, and the separator between user and password, if any.
pub(crate) const PROGRAMS: [(&str, &[u8], Option<u8>); 14] = [
    ("curl", b"-u", Some(b':')),
    ("curl", b"--user", Some(b':')),
    ("curl", b"--proxy-user", Some(b':')),
    ("http ", b"-a", Some(b':')),
    ("sshpass", b"-p", None),
    ("mysql", b"-p", None),
    ("mysqldump", b"-p", None),
    ("redis-cli", b"-a", None),
    ("docker login", b"-p", None),
    ("mongosh", b"-p", None),
    ("openssl", b"pass:", None),
    ("smbclient", b"-U", Some(b'%')),
    ("ldapsearch", b"-w", None),
    ("lftp", b"-u", Some(b',')),
];

/// Examines a program's name and returns the end of its command line, and the password among its options.
pub(crate) fn program(text: &[u8], at: usize, index: usize) -> (usize, Option<Secret>) {
    let (name, ..) = PROGRAMS[index];
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    if at > 0 && word(&text[at - 1]) && !crate::redact::text::ends_escape(&text[..at]) {
        return (at + 1, None);
    }
    let start = at + name.len();
    let window = &text[start..text.len().min(start + 400)];
    let stop = window
        .iter()
        .enumerate()
        .position(|(index, byte)| {
            *byte == b'\n' && (index == 0 || window[index - 1] != b'\\') || b"|;".contains(byte)
        })
        .unwrap_or(window.len());
    let secret = option(&window[..stop], index)
        .filter(|_| !line_before(text, at, 3).ends_with(b"# "))
        .map(|(from, to)| (start + from, start + to, "cli-password"));
    (start + stop, secret)
}

/// Returns the range of the password among a program's options.
fn option(line: &[u8], index: usize) -> Option<(usize, usize)> {
    let (name, option, separator) = PROGRAMS[index];
    let mut from = line
        .windows(option.len())
        .enumerate()
        .find(|(index, piece)| *piece == option && *index > 0 && line[index - 1] == b' ')
        .map(|(index, _)| index + option.len())?;
    let only_glued = option == b"-p" && name.starts_with("mysql");
    if line.get(from).is_some_and(|byte| b" =".contains(byte)) {
        if only_glued {
            return None;
        }
        from += 1;
    } else if !only_glued && option != b"pass:" {
        return None;
    }
    let quote = line.get(from).copied().filter(|byte| b"\"'".contains(byte));
    from += usize::from(quote.is_some());
    let closes = |byte: &u8| match quote {
        Some(quote) => *byte == quote,
        None => byte.is_ascii_whitespace() || b"\"'`\\".contains(byte),
    };
    let length = line[from..]
        .iter()
        .position(closes)
        .unwrap_or(line.len() - from);
    let mut value = &line[from..from + length];
    if let Some(separator) = separator {
        let colon = value.iter().position(|byte| *byte == separator)?;
        from += colon + 1;
        value = &value[colon + 1..];
    }
    let bare = value.len() >= 4
        && !value.starts_with(b"-")
        && !value.contains(&b'/')
        && !is_stand_in(value)
        && !crate::redact::is_placeholder(value);
    let odd = value.len() >= 16
        || value.iter().any(|byte| {
            byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte.is_ascii_punctuation()
        });
    (bare && odd).then_some((from, from + value.len()))
}

/// Examines an `echo` and returns the text that it pipes into a program that reads a password.
pub(crate) fn piped(text: &[u8], at: usize) -> Option<Secret> {
    const READERS: [&str; 5] = [
        "--password-stdin",
        "--with-token",
        "sudo -S",
        "chpasswd",
        "-pass stdin",
    ];
    if !crate::redact::text::starts_token(text, at) {
        return None;
    }
    let window = &text[at..text.len().min(at + 300)];
    let line = window.split(|byte| *byte == b'\n').next()?;
    let pipe = line.iter().position(|byte| *byte == b'|')?;
    let reads = READERS.iter().any(|reader| {
        line[pipe..]
            .windows(reader.len())
            .any(|piece| piece == reader.as_bytes())
    });
    let options = b"echo ".len() + usize::from(line[5..].starts_with(b"-n ")) * 3;
    let said = line.get(options..pipe)?.trim_ascii_end();
    let said = said.strip_suffix(b"\\").unwrap_or(said);
    let open = said
        .iter()
        .take_while(|byte| b"\"'\\".contains(byte))
        .count();
    let close = said
        .iter()
        .rev()
        .take_while(|byte| b"\"'\\".contains(byte))
        .count();
    let value = said.get(open..said.len().checked_sub(close)?)?;
    let secret = reads
        && value.len() >= 6
        && !value.contains(&b' ')
        && !is_stand_in(value)
        && !crate::redact::is_placeholder(value);
    secret.then_some((
        at + options + open,
        at + options + open + value.len(),
        "cli-password",
    ))
}
