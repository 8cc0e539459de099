//! Finds private keys in armour: whole, truncated at either end, escaped in a JSON string, behind diff marks or line
//! numbers.

use crate::redact::text::contains_ignoring_case;

/// The name in the placeholder.
pub(crate) const RULE: &str = "private-key";

/// The longest private key.
const LONGEST: usize = 64 * 1024;

/// Returns the label of an armour line, and the end of its closing dashes.
fn label<'a>(text: &'a [u8], at: usize, mark: &[u8]) -> Option<(&'a [u8], usize)> {
    let rest = text.get(at..)?;
    if !rest.get(..mark.len())?.eq_ignore_ascii_case(mark) {
        return None;
    }
    let rest = &rest[mark.len()..];
    let length = rest.iter().take(60).position(|byte| *byte == b'-')?;
    let label = &rest[..length];
    let dashes = rest[length..]
        .iter()
        .take(5)
        .take_while(|byte| **byte == b'-')
        .count();
    (dashes >= 4 && contains_ignoring_case(label, "private key"))
        .then_some((label, at + mark.len() + length + dashes))
}

/// Examines a `-----BEGIN ` and returns the block.
pub(crate) fn begin(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let (_, body) = label(text, at, b"-----BEGIN ")?;
    let window = &text[body..text.len().min(body + LONGEST)];
    let next = window.windows(5).position(|five| five == b"-----");
    if let Some(next) = next
        && let Some((_, end)) = label(text, body + next, b"-----END ")
    {
        return has_key(&window[..next]).then_some((at, end));
    }
    // Truncated: the block includes all lines that look like those of a key.
    let window = &window[..next.unwrap_or(window.len())];
    let mut end = 0;
    for line in lines(window) {
        let blank = line
            .iter()
            .all(|byte| byte.is_ascii_whitespace() || b"+-|>\\nr\"',".contains(byte));
        let header =
            contains_ignoring_case(line, "proc-type") || contains_ignoring_case(line, "dek-info");
        let key = has_key_of(line, 12);
        if key || header {
            end = offset(window, line) + line.len();
        } else if !blank {
            break;
        }
    }
    // The end of the string around a truncated key does not belong to it.
    let block = &window[..end];
    let close = block
        .iter()
        .rev()
        .take_while(|byte| b"\"'`,;)}] \r".contains(byte))
        .count();
    has_key(block).then_some((at, body + end - close))
}

/// Examines a `-----END ` without a start and returns the lines of the key above it.
pub(crate) fn end(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let (_, stop) = label(text, at, b"-----END ")?;
    let from = at.saturating_sub(8 * 1024);
    let window = &text[from..at];
    let mut start = window.len();
    let mut rest = window;
    // From the last line upwards, so that a mark with nothing above it costs nothing.
    while !rest.is_empty() {
        let line = last_line(rest);
        let from = rest.len() - line.len();
        let blank = line
            .iter()
            .all(|byte| byte.is_ascii_whitespace() || b"+-|>\\nr".contains(byte));
        let spaces = line
            .iter()
            .filter(|byte| byte.is_ascii_whitespace())
            .count();
        if line.windows(5).any(|five| five == b"-----") {
            break;
        }
        if has_key_of(line, 4) && spaces <= line.len() / 4 {
            start = from;
        } else if !blank {
            break;
        }
        rest = &rest[..from.saturating_sub(1)];
    }
    has_key(&window[start..]).then_some((from + start, stop))
}

/// Examines the `Private-Lines:` of a PuTTY key and returns the lines.
pub(crate) fn putty(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let window = &text[at..text.len().min(at + 16 * 1024)];
    let mut all = lines(window);
    let head = all.next()?;
    let start = head.len();
    let mut end = start;
    for line in all {
        if line.len() < 8
            || !has_key_of(line, line.trim_ascii().len().min(12))
            || line.contains(&b':')
        {
            break;
        }
        end = offset(window, line) + line.len();
    }
    has_key(&window[start..end]).then_some((at + start, at + end))
}

/// Splits at newlines, real and escaped.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest?;
        let cut = current
            .iter()
            .enumerate()
            .find_map(|(index, byte)| match byte {
                b'\n' => Some((index, 1)),
                b'\\' if current.get(index + 1) == Some(&b'n') => Some((index, 2)),
                _ => None,
            });
        let (line, next) = match cut {
            Some((index, skip)) => (&current[..index], Some(&current[index + skip..])),
            None => (current, None),
        };
        rest = next;
        Some(line)
    })
}

/// Returns the text after the last newline, real or escaped; the newline's last byte precedes it.
fn last_line(text: &[u8]) -> &[u8] {
    let newline = (0..text.len())
        .rev()
        .find(|at| text[*at] == b'\n' || text[*at] == b'n' && *at > 0 && text[at - 1] == b'\\');
    newline.map_or(text, |at| &text[at + 1..])
}

/// Returns the offset of a line within its text.
fn offset(text: &[u8], line: &[u8]) -> usize {
    (line.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

fn has_key(body: &[u8]) -> bool {
    has_key_of(body, 24)
}

/// Returns whether the text contains an unbroken run of encoded bytes: mixed, not a word.
fn has_key_of(body: &[u8], length: usize) -> bool {
    body.split(|byte| !(byte.is_ascii_alphanumeric() || b"+/=".contains(byte)))
        .any(|run| {
            run.len() >= length.max(1)
                && (run.len() < 16
                    || run
                        .iter()
                        .any(|byte| byte.is_ascii_digit() || b"+/=".contains(byte))
                        && run.iter().any(u8::is_ascii_uppercase)
                    || run.iter().any(u8::is_ascii_uppercase)
                        && !crate::redact::detect::entropy::reads_as_words(run))
        })
}
