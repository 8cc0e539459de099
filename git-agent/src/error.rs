//! The error type of the crate: a kind that decides the exit code, one line for the user, the cause, and hints.
//!
//! Messages follow git: lower case, no full stop, the subject first in '…'. The next step is a hint.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of a function that fails with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an error, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The answer to the question is no: exit 1.
    Negative,
    /// The operation failed: exit 128, as git's `die` does.
    Fatal,
    /// The command line is wrong: exit 129.
    Usage,
    /// A signal ended the work: exit 128 + n.
    Signal(i32),
    /// A program that ran for the user ended with this code, which becomes ours.
    Exit(u8),
}

impl Kind {
    /// Returns the process exit code for this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Negative => 1,
            Kind::Fatal => 128,
            Kind::Usage => 129,
            Kind::Signal(n) => 128u8.saturating_add(u8::try_from(n).unwrap_or(0)),
            Kind::Exit(code) => code,
        }
    }
}

/// An error with its message, cause and hints.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Returns an error of the given kind; an empty message prints nothing.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error {
            kind,
            message: message.into(),
            hints: Vec::new(),
            source: None,
        }
    }

    /// Returns an error that ends the command with 128.
    pub fn fatal(message: impl Into<String>) -> Self {
        Error::new(Kind::Fatal, message)
    }

    /// Returns an error about the command line, exit 129.
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(Kind::Usage, message)
    }

    /// Returns a negative answer, exit 1.
    pub fn negative(message: impl Into<String>) -> Self {
        Error::new(Kind::Negative, message)
    }

    /// Adds the next step as a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Records the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind, which decides the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the line for the user, without the cause.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message with its causes, each once: `cannot open 'x': Permission denied`.
    pub fn with_causes(&self) -> String {
        let mut text = self.message.clone();
        if text.is_empty() {
            return text;
        }
        for cause in self.causes().skip(1) {
            let mut words = cause.to_string();
            let code = cause
                .downcast_ref::<std::io::Error>()
                .and_then(std::io::Error::raw_os_error);
            if let Some(code) = code {
                let suffix = format!(" (os error {code})");
                words.truncate(words.strip_suffix(&suffix).map_or(words.len(), str::len));
            }
            // Many libraries repeat their cause in their own message.
            if !words.is_empty() && !text.contains(&words) {
                text += ": ";
                text += &words;
            }
        }
        text
    }

    /// Returns the next steps, if any are known.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns whether some cause is a closed pipe: the reader has seen enough, which is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        self.io_kinds()
            .any(|kind| kind == std::io::ErrorKind::BrokenPipe)
    }

    /// Returns whether some cause is an I/O error of this kind.
    pub fn is_io(&self, wanted: std::io::ErrorKind) -> bool {
        self.io_kinds().any(|kind| kind == wanted)
    }

    /// Returns the cause of this type, if there is one. Callers decide by it, never by the message.
    pub fn cause<T: std::error::Error + 'static>(&self) -> Option<&T> {
        self.causes().find_map(|cause| cause.downcast_ref())
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> + '_ {
        let first: &(dyn std::error::Error + 'static) = self;
        std::iter::successors(Some(first), |cause| cause.source())
    }

    fn io_kinds(&self) -> impl Iterator<Item = std::io::ErrorKind> + '_ {
        self.causes()
            .filter_map(|cause| cause.downcast_ref().map(std::io::Error::kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        // Only a broken pipe arrives without context; every other caller should say which operation failed.
        Error::fatal("input/output error").because(error)
    }
}

/// Names the operation that failed.
pub trait Context<T> {
    /// Turns the failure into a fatal [`Error`] whose message names the failed operation.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T>
    for std::result::Result<T, E>
{
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::fatal(message()).because(source))
    }
}

/// Quotes a text as one word of a shell, for commands in hints.
pub fn shell_word(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    // A terminal may show other characters differently, and the user would type a different text.
    let is_clear = |c: char| matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric());
    let clear = std::str::from_utf8(bytes).ok();
    let Some(text) = clear.filter(|text| text.chars().all(is_clear)) else {
        // Quotes are escaped too: a shell without this form would end the word at one.
        let escaped = |&byte: &u8| match byte {
            b'\'' | b'\\' => format!("\\{byte:03o}"),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        return format!("$'{}'", bytes.iter().map(escaped).collect::<String>());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./:@%,".contains(c);
    // zsh replaces '=name' with the path of a program.
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Quotes a path as one word of a shell.
pub fn shell_path(path: &Path) -> String {
    shell_word(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        for (text, word) in [
            ("origin", "origin"),
            ("git@host:a/b.git", "git@host:a/b.git"),
            ("my hub", "'my hub'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("=ls", "'=ls'"),
            ("a';touch x;'", "'a'\\'';touch x;'\\'''"),
            ("für $(x)", "'für $(x)'"),
            ("a\\b", "'a\\b'"),
            ("it's\n\\n", "$'it\\047s\\012\\134n'"),
            ("\u{202e}x\x1b", "$'\\342\\200\\256x\\033'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
        assert_eq!(shell_path(Path::new("/a b")), "'/a b'");
        assert_eq!(shell_word(b"a\xff'"), "$'a\\377\\047'");
    }

    #[test]
    fn causes_follow_the_message_once() {
        let missing = || std::io::Error::from_raw_os_error(2);
        let error = Error::fatal("cannot open 'x'").because(missing());
        assert_eq!(
            error.with_causes(),
            "cannot open 'x': No such file or directory"
        );
        let outer: Result<()> = Err(error).context(|| "cannot list".into());
        let outer = outer.expect_err("it failed");
        assert_eq!(
            outer.with_causes(),
            "cannot list: cannot open 'x': No such file or directory"
        );
        let twice =
            Error::fatal("cannot list: nothing there").because(Error::fatal("nothing there"));
        assert_eq!(twice.with_causes(), "cannot list: nothing there");
        assert_eq!(
            Error::new(Kind::Exit(3), "")
                .because(missing())
                .with_causes(),
            ""
        );
    }
}
