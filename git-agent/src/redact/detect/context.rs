//! Finds secrets by the name beside them: `name = value` and similar forms in shells, JSON, YAML, TOML, XML, code and
//! options.

use crate::redact::detect::entropy::reads_as_words;
use crate::redact::detect::judge::{Promise, Style, is_in_fours, is_secret, is_worded_password};
use crate::redact::detect::names;

/// Words that mark a name as interesting; longer names contain them.
pub(crate) const WORDS: [&str; 13] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "credential",
    "creds",
    "auth",
    "jwt",
    "mnemonic",
    "phrase",
    "_pat",
    "sessid",
];

/// A secret beside a name, and the end of the name.
pub(crate) struct Beside {
    /// The end of the name; hits before it belong to the same name.
    pub(crate) name_end: usize,
    /// Start, end and rule of the secret.
    pub(crate) secret: Option<(usize, usize, &'static str)>,
}

const NAME: usize = 64;
const VALUE: usize = 2048;

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

/// Examines an occurrence of one of the words.
pub(crate) fn at(text: &[u8], hit: usize, hit_end: usize) -> Beside {
    let right = text[hit_end..]
        .iter()
        .take(NAME)
        .take_while(|byte| in_name(**byte))
        .count();
    let name_end = hit_end + right;
    let none = Beside {
        name_end,
        secret: None,
    };
    // Most hits are words in prose or code, which the byte after the name shows at once.
    let Some(value) = Separator::after(text, name_end) else {
        return none;
    };
    let left = text[..hit]
        .iter()
        .rev()
        .take(NAME)
        .take_while(|byte| in_name(**byte))
        .count();
    let mut start = hit - left;
    if start < hit && start > 0 && text[start - 1] == b'\\' && b"nrtb".contains(&text[start]) {
        start += 1;
    }
    let option = text[start..].starts_with(b"-");
    let mut name = &text[start..name_end];
    if name.eq_ignore_ascii_case(b"key") && start > 0 && text[start - 1] == b' ' {
        // "API key: …": the word before specifies the key.
        let word = text[..start - 1]
            .iter()
            .rev()
            .take(12)
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        name = &text[start - 1 - word..name_end];
    }
    // In `https://x-access-token:…@host` the name is a user, which the rule for URLs handles. `did:key:` names a public
    // key.
    if text[..start].ends_with(b"://") || text[..start].ends_with(b"did:") {
        return none;
    }
    let Some(promise) = names::promise(name) else {
        return none;
    };
    let line_start = start == 0
        || matches!(text[start - 1], b'\n')
        || text[..start].ends_with(b"\\n")
        || text[..start].ends_with(b"export ");
    // `pass` before a bracket or a quote is mostly a verb.
    let verb = value.kind == Kind::Argument || value.kind == Kind::Space && !option;
    let noun = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "key",
        "auth",
    ]
    .iter()
    .any(|noun| crate::redact::text::contains_ignoring_case(name, noun));
    if verb && !noun {
        return none;
    }
    // `setx API_TOKEN value`, `ENV API_TOKEN value`: only variables have such names.
    let variable = name.len() >= 6
        && name
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
        && name.contains(&b'_');
    // `DB_PASSWORD=` and `--password=`: in a shell only a value can follow.
    let shell = promise == Promise::Password
        && value.kind == Kind::Assign
        && !value.spaced
        && text.get(name_end) == Some(&b'=')
        && (option
            || name
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_'));
    let found = value
        .find(text, promise, option || variable, line_start)
        .or_else(|| shell.then(|| value.worded(text, line_start)).flatten());
    Beside {
        name_end,
        secret: found.map(|(from, to)| (from, to, names::rule(name, promise))),
    }
}

/// The separator between a name and its value.
struct Separator {
    kind: Kind,
    end: usize,
    spaced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `=`, `:`, `:=`, `=>`.
    Assign,
    /// `(` or, after a quoted name, `,`: a quoted value must follow.
    Argument,
    /// The `>` of an XML tag.
    Tag,
    /// Only spaces.
    Space,
}

fn spaces(text: &[u8], at: usize, limit: usize) -> usize {
    text[at..]
        .iter()
        .take(limit)
        .take_while(|byte| b" \t".contains(byte))
        .count()
}

/// Returns the length of the text between a name and its value in `name="X" value="…"` and `name: X, value: …`.
fn value_key(text: &[u8], at: usize) -> Option<usize> {
    let window = &text[at..text.len().min(at + 64)];
    let set = |from: usize, set: &[u8]| {
        window[from..]
            .iter()
            .take_while(|byte| set.contains(byte))
            .count()
    };
    let mut from = set(0, b", \t\r\n");
    while window[from..].starts_with(b"\\n") {
        from += 2;
        from += set(from, b" ");
    }
    from += set(from, b"\\\"'");
    let word = window.get(from..from + 5)?;
    if from == 0 || !word.eq_ignore_ascii_case(b"value") {
        return None;
    }
    from += 5;
    from += set(from, b"\\\"'");
    from += set(from, b" ");
    window.get(from).filter(|byte| b"=:".contains(byte))?;
    Some(from + 1)
}

impl Separator {
    fn after(text: &[u8], name_end: usize) -> Option<Separator> {
        let mut at = name_end;
        let slashes = text[at..]
            .iter()
            .take(4)
            .take_while(|byte| **byte == b'\\')
            .count();
        let quoted = text
            .get(at + slashes)
            .is_some_and(|byte| b"\"'`".contains(byte));
        if quoted {
            at += slashes + 1;
        }
        if text.get(at).is_some_and(|byte| b"])".contains(byte))
            && text.get(at + 1).is_some_and(|byte| b" =:".contains(byte))
        {
            at += 1;
        }
        if text.get(at) == Some(&b'?') && text.get(at + 1) == Some(&b':') {
            at += 1;
        }
        let space = spaces(text, at, 40);
        at += space;
        let rest = &text[at..];
        let (kind, length) = match rest {
            [b':', b':', ..] => return None,
            [b':', b'=', ..] | [b'=', b'>', ..] => (Kind::Assign, 2),
            [b'=', b'=', b'=', ..] => (Kind::Assign, 3),
            [b'=', b'=', ..] | [b'!', b'=', ..] => (Kind::Assign, 2),
            [b'=' | b':', ..] => (Kind::Assign, 1),
            [b'%', b'3', b'D' | b'd', ..] => (Kind::Assign, 3),
            [b'(', ..] if !quoted => (Kind::Argument, 1),
            [b',', ..] if quoted && value_key(text, at - space).is_none() => (Kind::Argument, 1),
            [b'>', ..] if space == 0 => (Kind::Tag, 1),
            _ => match value_key(text, at - space) {
                Some(length) => (Kind::Assign, length - space),
                None if space > 0 && !quoted => (Kind::Space, 0),
                None => return None,
            },
        };
        at += length;
        let after = if kind == Kind::Tag {
            0
        } else {
            spaces(text, at, 24)
        };
        Some(Separator {
            kind,
            end: at + after,
            spaced: space + after > 0,
        })
    }

    /// Finds the value and judges it.
    fn find(
        &self,
        text: &[u8],
        promise: Promise,
        option: bool,
        line_start: bool,
    ) -> Option<(usize, usize)> {
        let mut at = self.end;
        if self.kind == Kind::Space {
            return self.after_space(text, promise, option);
        }
        if self.kind == Kind::Assign {
            at = skip_type(text, at);
            at = skip_wrapper(text, at)?;
        }
        // `@"…"`, `b"…"`, `r"…"`, `f"…"`.
        if text.get(at).is_some_and(|byte| b"@bruf".contains(byte))
            && text.get(at + 1).is_some_and(|byte| b"\"'".contains(byte))
        {
            at += 1;
        }
        if let Some((from, to)) = quoted(text, at) {
            let value = &text[from..to];
            if promise == Promise::Password && is_in_fours(value) {
                return Some((from, to));
            }
            // In a list of names, the next name is not a value.
            let listed = self.kind == Kind::Argument
                && promise != Promise::Password
                && reads_as_words(value);
            return if listed {
                None
            } else {
                judged(text, from, to, promise, Style::Quoted)
            };
        }
        if promise == Promise::Password && self.kind == Kind::Assign && is_in_fours(&text[at..]) {
            return Some((at, at + 19));
        }
        match self.kind {
            Kind::Argument | Kind::Space => None,
            Kind::Tag => {
                let length = text[at..]
                    .iter()
                    .take(VALUE)
                    .position(|byte| *byte == b'<')?;
                text[at + length..].starts_with(b"</").then_some(())?;
                judged(text, at, at + length, promise, Style::Quoted)
            }
            Kind::Assign => {
                let style = if self.spaced {
                    Style::Loose
                } else {
                    Style::Tight
                };
                let to = bare(text, at, line_start)?;
                judged(text, at, to, promise, style)
            }
        }
    }

    /// Finds a value that consists of words, where only a value can follow.
    fn worded(&self, text: &[u8], line_start: bool) -> Option<(usize, usize)> {
        let (from, to) = match quoted(text, self.end) {
            Some(inside) => inside,
            None => (self.end, bare(text, self.end, line_start)?),
        };
        let value = &text[from..to];
        (!crate::redact::is_placeholder(value) && is_worded_password(value)).then_some((from, to))
    }

    /// `--password value`, `PASSWORD 'value'`, `login me password value`, `password is value`.
    fn after_space(&self, text: &[u8], promise: Promise, option: bool) -> Option<(usize, usize)> {
        let mut at = self.end;
        if !option {
            let words: [&[u8]; 3] = [b"is ", b"is: ", b"to "];
            let told = words.iter().find(|word| text[at..].starts_with(word));
            at += told.map_or(0, |word| word.len());
            if let Some((from, to)) = quoted(text, at).filter(|_| promise == Promise::Password) {
                return judged(text, from, to, promise, Style::Quoted);
            }
            let netrc = crate::redact::text::line_before(text, self.end, 120)
                .windows(6)
                .any(|six| six == b"login ");
            if told.is_none() && !netrc {
                return None;
            }
        }
        if let Some((from, to)) = quoted(text, at) {
            return judged(text, from, to, promise, Style::Quoted);
        }
        let to = bare(text, at, false)?;
        (text.get(at) != Some(&b'-')).then_some(())?;
        judged(text, at, to, promise, Style::Loose)
    }
}

/// Skips `str = ` in `token: str = "…"`.
fn skip_type(text: &[u8], at: usize) -> usize {
    let window = &text[at..text.len().min(at + 48)];
    let stop = window
        .iter()
        .position(|byte| b"\"'`\n,;".contains(byte))
        .unwrap_or(window.len());
    match window[..stop].windows(3).position(|three| three == b" = ") {
        Some(equals)
            if window
                .first()
                .is_some_and(|byte| byte.is_ascii_alphabetic() || b"&*".contains(byte)) =>
        {
            at + equals + 3
        }
        _ => at,
    }
}

/// Skips `SecretStr(` and the like before a quoted value. A call that fetches the value is not a value.
fn skip_wrapper(text: &[u8], at: usize) -> Option<usize> {
    const FETCHES: [&str; 16] = [
        "env", "get", "var", "prompt", "input", "read", "load", "find", "query", "select",
        "require", "expect", "match", "lookup", "fetch", "file",
    ];
    let window = &text[at..text.len().min(at + 48)];
    let name = window
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_:.!& ".contains(byte))
        .count();
    if name == 0
        || window.get(name) != Some(&b'(')
        || !window
            .get(name + 1)
            .is_some_and(|byte| b"\"'`".contains(byte))
    {
        return Some(at);
    }
    let fetches = FETCHES
        .iter()
        .any(|word| crate::redact::text::contains_ignoring_case(&window[..name], word));
    (!fetches).then_some(at + name + 1)
}

/// Returns the content of the quotes that open at `at`, plain or escaped.
fn quoted(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let slashes = text[at..]
        .iter()
        .take(8)
        .take_while(|byte| **byte == b'\\')
        .count();
    let quote = *text
        .get(at + slashes)
        .filter(|byte| b"\"'`".contains(byte))?;
    let from = at + slashes + 1;
    let window = &text[from..text.len().min(from + VALUE)];
    let mut seen = 0;
    for (index, byte) in window.iter().enumerate() {
        match *byte {
            b'\\' => seen += 1,
            b'\n' => return None,
            byte if byte == quote && seen <= slashes => return Some((from, from + index - seen)),
            _ => seen = 0,
        }
    }
    // Truncated: the quote never closes.
    (window.len() < VALUE && slashes == 0).then_some((from, from + window.len()))
}

/// Returns the end of a bare value, if it has one.
fn bare(text: &[u8], at: usize, whole_line: bool) -> Option<usize> {
    let window = &text[at..text.len().min(at + VALUE)];
    let stops = |index: usize| match window[index] {
        b'&' => {
            let rest = &window[index + 1..];
            let name = rest
                .iter()
                .take(40)
                .take_while(|byte| in_name(**byte))
                .count();
            name > 0 && rest.get(name) == Some(&b'=') || rest.starts_with(b"&")
        }
        b'\\' => window
            .get(index + 1)
            .is_some_and(|next| b"nrt\"'\\".contains(next)),
        b',' | b')' | b']' | b'}' | b';' | b'|' | b'<' => {
            !whole_line
                || window
                    .get(index + 1)
                    .is_none_or(|next| b" \t\r\n".contains(next))
        }
        byte => byte.is_ascii_whitespace() || b"\"'`".contains(&byte) || byte < 0x20,
    };
    let plain = crate::redact::text::Class::Any.table();
    match (0..window.len()).find(|index| !plain[usize::from(window[*index])] && stops(*index)) {
        Some(length) => Some(at + length),
        // A text without an end is data.
        None => (window.len() < VALUE).then_some(at + window.len()),
    }
}

/// Strips the scheme from a value and judges the rest.
fn judged(
    text: &[u8],
    from: usize,
    to: usize,
    promise: Promise,
    style: Style,
) -> Option<(usize, usize)> {
    let value = &text[from..to];
    let schemes: [&[u8]; 5] = [b"bearer ", b"basic ", b"token ", b"bot ", b"apikey "];
    let scheme = schemes.iter().find(|scheme| {
        value.len() > scheme.len() && value[..scheme.len()].eq_ignore_ascii_case(scheme)
    });
    let from = from + scheme.map_or(0, |scheme| scheme.len());
    let mut to = to;
    if style == Style::Loose {
        // The full stop of a sentence.
        while to > from && b".,:".contains(&text[to - 1]) {
            to -= 1;
        }
    }
    (!crate::redact::is_placeholder(&text[from..to]) && is_secret(&text[from..to], promise, style))
        .then_some((from, to))
}
