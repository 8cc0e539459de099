//! Finds the usage of a conversation if an agent does not report it in its stream: in its printed text, or in a file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::stream::bounded_json;

/// Maximum number of bytes read from an agent's file.
const LARGEST: u64 = 4 << 20;

/// Where an agent reports its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Figures {
    /// In its stream, or nowhere.
    #[default]
    Stream,
    /// In the text it prints, in aider's format.
    Words,
    /// In `~/.cline/data/sessions/<id>/<id>.json`.
    Cline,
}

/// The usage of a conversation, from its file.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Noted {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Dollars; 0 if the agent does not know the price.
    pub cost: f64,
}

impl Figures {
    /// Returns the usage in the agent's file of a conversation; `None` if there is none yet.
    pub fn noted(self, environment: &BTreeMap<OsString, OsString>, id: &str) -> Option<Noted> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if self != Figures::Cline || id.is_empty() || !id.chars().all(plain) {
            return None;
        }
        let file = cline_sessions(environment)?
            .join(id)
            .join(format!("{id}.json"));
        let mut text = Vec::new();
        std::fs::File::open(file)
            .and_then(|file| file.take(LARGEST).read_to_end(&mut text))
            .ok()?;
        let value = bounded_json::parse_whole(&String::from_utf8_lossy(&text))?;
        let usage = value.pointer("/metadata/usage")?;
        Some(Noted {
            input: usage.get("inputTokens")?.as_u64()?,
            output: usage.get("outputTokens")?.as_u64()?,
            cost: usage
                .get("totalCost")
                .and_then(Value::as_f64)
                .unwrap_or_default(),
        })
    }
}

fn cline_sessions(environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let var = |name: &str| {
        let value = environment.get(OsStr::new(name))?;
        (!value.is_empty()).then(|| Path::new(value))
    };
    var("CLINE_SESSION_DATA_DIR")
        .map(Path::to_owned)
        .or_else(|| Some(var("CLINE_DATA_DIR")?.join("sessions")))
        .or_else(|| Some(var("CLINE_DIR")?.join("data/sessions")))
        .or_else(|| Some(var("HOME")?.join(".cline/data/sessions")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cline_writes_down_what_a_conversation_used() {
        let home = tempfile::tempdir().expect("a directory");
        let environment = [("HOME".into(), home.path().into())].into();
        let noted = |id| Figures::Cline.noted(&environment, id);
        assert_eq!(noted("1_a_cli"), None);
        let dir = home.path().join(".cline/data/sessions/1_a_cli");
        std::fs::create_dir_all(&dir).expect("a directory");
        let write = |text: &str| std::fs::write(dir.join("1_a_cli.json"), text).expect("written");
        write(r#"{"metadata":{"usage":{"inputTokens":4500,"outputTokens":90,"totalCost":0}}}"#);
        let expected = Noted {
            input: 4500,
            output: 90,
            cost: 0.0,
        };
        assert_eq!(noted("1_a_cli"), Some(expected));
        assert_eq!(Figures::Stream.noted(&environment, "1_a_cli"), None);
        for odd in ["", "../1_a_cli", "1_a_cli/", "x"] {
            assert_eq!(noted(odd), None, "{odd}");
        }
        for broken in ["", "{", r#"{"metadata":{"usage":{"inputTokens":"x"}}}"#] {
            write(broken);
            assert_eq!(noted("1_a_cli"), None, "{broken}");
        }
    }
}
