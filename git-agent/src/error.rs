//! What can go wrong, as a value: a kind that decides the exit code, one line for a person, the cause, and hints.
//!
//! Wording follows git: lower case, no full stop, what is wrong first, the subject in '…'. What to run next is a hint.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of nearly everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an error means for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The answer to the question is no: exit 1.
    Negative,
    /// The operation could not be done: exit 128, as git's `die`.
    Fatal,
    /// The command line makes no sense: exit 129.
    Usage,
    /// A signal ended the work: exit 128 + n.
    Signal(i32),
    /// A program run on behalf of the user ended with this code, which is passed on.
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

/// An error with everything needed to print it well.
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

    /// Adds what to run next.
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

    /// Returns what this means for the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the line for a person, without the cause.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what to run next, if anything is known.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns whether some cause is a closed pipe: the reader has seen enough, which is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        self.io_kinds()
            .any(|kind| kind == std::io::ErrorKind::BrokenPipe)
    }

    /// Returns whether some cause is an I/O error of this kind.
    pub fn is_io(&self, wanted: std::io::ErrorKind) -> bool {
        self.io_kinds().any(|kind| kind == wanted)
    }

    /// Returns the cause of this type, if there is one: what is to be decided is decided by it, never by a message.
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
        // Only a broken pipe travels without context; everything else should say what was being done.
        Error::fatal("input/output error").because(error)
    }
}

/// Adds what was being done to a failure.
pub trait Context<T> {
    /// Turns the failure into a fatal [`Error`] whose message says what could not be done.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T>
    for std::result::Result<T, E>
{
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::fatal(message()).because(source))
    }
}

/// Returns a text as one word that a shell takes for what it is: for commands in hints.
pub fn shell_word(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    // What a screen may show in another way would be another text when it is typed.
    let is_clear = |c: char| matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric());
    let clear = std::str::from_utf8(bytes).ok();
    let Some(text) = clear.filter(|text| text.chars().all(is_clear)) else {
        // No quote stands in it: a shell that does not know this form would take it for the end.
        let escaped = |&byte: &u8| match byte {
            b'\'' | b'\\' => format!("\\{byte:03o}"),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        return format!("$'{}'", bytes.iter().map(escaped).collect::<String>());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./:@%,".contains(c);
    // zsh takes '=name' for the place of a program.
    match !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Returns a path as one word that a shell takes for what it is.
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
}
