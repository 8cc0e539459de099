//! What a finished program left behind: status, stdout, stderr; and how to compare them with expected text.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// A finished run whose status nobody has looked at yet.
#[must_use = "assert how the program ended: .success(), .code(n) or .signal(n)"]
#[derive(Debug)]
pub struct Run(pub(crate) Output);

/// A finished run whose status was asserted.
#[derive(Debug, Clone)]
pub struct Output {
    pub(crate) command: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) elapsed: Duration,
    pub(crate) root: PathBuf,
}

impl Run {
    /// Asserts exit code 0.
    #[track_caller]
    pub fn success(self) -> Output {
        self.code(0)
    }

    /// Asserts this exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Output {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.0);
        self.0
    }

    /// Asserts death by this signal, either of the program itself or reported by git as 128 + n.
    #[track_caller]
    pub fn signal(self, signal: i32) -> Output {
        let status = self.0.status;
        assert!(
            status.signal() == Some(signal) || status.code() == Some(128 + signal),
            "expected death by signal {signal}\n{}",
            self.0
        );
        self.0
    }

    /// Asserts any exit code but 0, and no death by a signal.
    #[track_caller]
    pub fn failure(self) -> Output {
        assert!(
            self.0.status.code().is_some_and(|code| code != 0),
            "{}",
            self.0
        );
        self.0
    }

    /// Accepts any end: for runs where the test has planned a fault, or runs to be judged otherwise.
    pub fn whatever(self) -> Output {
        self.0
    }
}

impl Output {
    /// Returns the exit status.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// Returns how long the run took.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the standard output, which must be UTF-8.
    #[track_caller]
    pub fn stdout(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|_| panic!("stdout is not UTF-8\n{self}"))
    }

    /// Returns the standard error, which must be UTF-8.
    #[track_caller]
    pub fn stderr(&self) -> &str {
        std::str::from_utf8(&self.stderr).unwrap_or_else(|_| panic!("stderr is not UTF-8\n{self}"))
    }

    /// Returns the standard output as it came.
    pub fn stdout_bytes(&self) -> &[u8] {
        &self.stdout
    }

    /// Returns the standard error as it came.
    pub fn stderr_bytes(&self) -> &[u8] {
        &self.stderr
    }

    /// Returns the standard output without its last line feed: a single answer.
    #[track_caller]
    pub fn line(&self) -> &str {
        let line = self.stdout().strip_suffix('\n').unwrap_or(self.stdout());
        assert!(!line.contains('\n'), "more than one line\n{self}");
        line
    }

    /// Returns the lines of the standard output.
    #[track_caller]
    pub fn lines(&self) -> Vec<&str> {
        self.stdout().lines().collect()
    }

    /// Returns the NUL-separated fields of the standard output, as `-z` prints them.
    pub fn fields(&self) -> Vec<&[u8]> {
        let body = self.stdout.strip_suffix(b"\0").unwrap_or(&self.stdout);
        if body.is_empty() {
            return Vec::new();
        }
        body.split(|byte| *byte == 0).collect()
    }

    /// Returns the standard output parsed as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{self}"))
    }

    /// Asserts what the normalised standard output is, written as [`text`] takes it.
    #[track_caller]
    pub fn assert_stdout(&self, expected: &str) -> &Self {
        self.compare("stdout", &self.normalize(self.stdout()), expected);
        self
    }

    /// Asserts what the normalised standard error is, written as [`text`] takes it.
    #[track_caller]
    pub fn assert_stderr(&self, expected: &str) -> &Self {
        self.compare("stderr", &self.normalize(self.stderr()), expected);
        self
    }

    /// Asserts that the normalised standard error contains these words.
    #[track_caller]
    pub fn assert_says(&self, words: &str) -> &Self {
        assert!(
            self.normalize(self.stderr()).contains(words),
            "stderr does not say '{words}'\n{self}"
        );
        self
    }

    /// Asserts that nothing was said on standard error.
    #[track_caller]
    pub fn assert_quiet(&self) -> &Self {
        assert!(self.stderr.is_empty(), "stderr is not empty\n{self}");
        self
    }

    #[track_caller]
    fn compare(&self, what: &str, actual: &str, expected: &str) {
        let expected = text(expected);
        if actual == expected {
            return;
        }
        let diff = similar::TextDiff::from_lines(expected.as_str(), actual);
        panic!(
            "{what} differs (- expected, + actual) of {}\n{}",
            self.command,
            diff.unified_diff()
                .context_radius(5)
                .missing_newline_hint(true)
        );
    }

    /// Replaces what changes from run to run: the sandbox's path, object ids, session ids and times. The same id gets
    /// the same number within one text, so that sameness can still be seen.
    pub fn normalize(&self, text: &str) -> String {
        normalize(text, &self.root)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "$ {}\n({} after {:?})",
            self.command, self.status, self.elapsed
        )?;
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            const SHOWN: usize = 20_000;
            let shown = &bytes[..bytes.len().min(SHOWN)];
            writeln!(
                f,
                "--- {name} ({} bytes)\n{}",
                bytes.len(),
                shown.escape_ascii_lines()
            )?;
        }
        Ok(())
    }
}

trait EscapeLines {
    fn escape_ascii_lines(&self) -> String;
}

impl EscapeLines for [u8] {
    /// Readable text in which nothing can act on the terminal of whoever reads a failed test.
    fn escape_ascii_lines(&self) -> String {
        let mut shown = String::new();
        for chunk in self.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '\n' || !c.is_control() {
                    shown.push(c);
                } else {
                    let _ = write!(shown, "{}", c.escape_default());
                }
            }
            let _ = write!(shown, "{}", chunk.invalid().escape_ascii());
        }
        shown
    }
}

/// Returns expected text as written in a test: without the first line feed, the common indentation, and the last
/// line's blanks.
pub fn text(written: &str) -> String {
    let body = written.strip_prefix('\n').unwrap_or(written);
    let body = match body.rsplit_once('\n') {
        Some((before, last)) if last.trim().is_empty() => format!("{before}\n"),
        _ => body.to_owned(),
    };
    let indent = body
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    body.split_inclusive('\n')
        .map(|line| line.get(indent..).unwrap_or("\n"))
        .collect()
}

/// Replaces what changes from run to run; see [`Output::normalize`].
pub fn normalize(text: &str, root: &Path) -> String {
    let text = match root.to_str() {
        Some(root) => text.replace(root, "<sandbox>"),
        None => text.to_owned(),
    };
    let mut known = BTreeMap::new();
    let mut normal = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len())
            .max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        if let Some((length, name)) = time(rest) {
            normal.push_str(name);
            rest = &rest[length..];
            continue;
        }
        match identity(word) {
            Some(kind) => {
                let count = known.keys().filter(|(seen, _)| *seen == kind).count();
                let number = *known.entry((kind, word)).or_insert(count + 1);
                let _ = write!(normal, "<{kind}-{number}>");
            }
            None => normal.push_str(word),
        }
        rest = after;
    }
    normal
}

fn identity(word: &str) -> Option<&'static str> {
    let bytes = word.as_bytes();
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let base32 = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z');
    match bytes.len() {
        40 | 64 if bytes.iter().all(hex) => Some("oid"),
        26 if matches!(bytes[0], b'0'..=b'7') && bytes.iter().all(base32) => Some("sid"),
        _ => None,
    }
}

/// Recognises `2024-05-06T07:08:09…` and `2024-05-06 07:08:09…` at the start of a text, with fraction and zone.
fn time(text: &str) -> Option<(usize, &'static str)> {
    let shape = |pattern: &str, text: &str| {
        text.len() >= pattern.len()
            && pattern
                .bytes()
                .zip(text.bytes())
                .all(|(wanted, found)| match wanted {
                    b'd' => found.is_ascii_digit(),
                    b'_' => matches!(found, b'T' | b' '),
                    other => found == other,
                })
    };
    const MOMENT: &str = "dddd-dd-dd_dd:dd:dd";
    if !shape(MOMENT, text) {
        return None;
    }
    let mut length = MOMENT.len();
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + fraction.len()
            - fraction
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
    }
    for zone in ["Z", "+dd:dd", "-dd:dd", " +dddd", " -dddd"] {
        if shape(zone, &text[length..]) {
            length += zone.len();
            break;
        }
    }
    Some((length, "<time>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_loses_its_indentation() {
        assert_eq!(
            text(
                "
                one
                  two

                three
                "
            ),
            "one\n  two\n\nthree\n"
        );
        assert_eq!(text("plain"), "plain");
        assert_eq!(text(""), "");
    }

    #[test]
    fn ids_keep_their_sameness() {
        let oid = "0123456789abcdef0123456789abcdef01234567";
        let other = oid.replace('0', "f");
        let sid = "01j9z3k4m5n6p7q8r9s0t1v2w3";
        assert_eq!(
            normalize(
                &format!("{oid} {sid} {other}:{oid}, é 1{oid}"),
                Path::new("/nowhere")
            ),
            format!("<oid-1> <sid-1> <oid-2>:<oid-1>, é 1{oid}")
        );
    }

    #[test]
    fn times_and_paths_are_named() {
        assert_eq!(
            normalize(
                "/a b/x at 2024-05-06T07:08:09.123Z or 2024-05-06 07:08:09 +0200!",
                Path::new("/a b")
            ),
            "<sandbox>/x at <time> or <time>!"
        );
    }
}
