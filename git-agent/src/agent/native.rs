//! The agents' own files of conversations: where each keeps one, where it finds one again that came from elsewhere, and
//! what of it cannot travel.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::env::Millis;

/// The agent's environment.
type Environment = BTreeMap<OsString, OsString>;

/// How deep below an agent's directory its conversations may be.
const DEPTH: usize = 4;
/// How many files are looked at in search of one.
const FILES: usize = 200_000;

/// Ways in which agents keep conversations that have been seen to go on elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// `~/.claude/projects/<path>/<id>.jsonl`
    Claude,
    /// `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`
    Codex,
    /// `~/.gemini/tmp/<project>/chats/session-<minute>-<start of id>.jsonl`
    Gemini,
    /// A database: the program's own `export` and `import` carry a conversation.
    Exported,
}

impl Native {
    /// Returns the word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Native::Claude => "claude",
            Native::Codex => "codex",
            Native::Gemini => "gemini",
            Native::Exported => "exported",
        }
    }

    /// Returns the file of a conversation, if the agent keeps it in one and it is there.
    pub fn find(self, environment: &Environment, worktree: &Path, id: &str) -> Option<PathBuf> {
        is_safe(id).then_some(())?;
        let home = self.home(environment)?;
        match self {
            Native::Claude => {
                let projects = home.join("projects");
                let name = format!("{id}.jsonl");
                let usual = projects.join(slug(worktree)).join(&name);
                if usual.is_file() {
                    return Some(usual);
                }
                search(&projects, &|file| file == name)
            }
            Native::Codex => {
                let end = format!("-{id}.jsonl");
                search(&home.join("sessions"), &|file| {
                    file.starts_with("rollout-") && file.ends_with(&end)
                })
            }
            Native::Gemini => {
                let end = format!("-{}.jsonl", id.get(..8)?);
                search(&home.join("tmp"), &|file| {
                    file.starts_with("session-") && file.ends_with(&end)
                })
            }
            Native::Exported => None,
        }
    }

    /// Returns where the agent looks for a conversation in a worktree. Made from the id alone: a record that came from
    /// elsewhere names no path here.
    pub fn place(
        self,
        environment: &Environment,
        worktree: &Path,
        id: &str,
        now: Millis,
    ) -> Option<PathBuf> {
        is_safe(id).then_some(())?;
        let home = self.home(environment)?;
        let made = self.made(id).unwrap_or(now);
        let time = jiff::Timestamp::from_millisecond(i64::try_from(made.0).ok()?).ok()?;
        let time = time.to_zoned(jiff::tz::TimeZone::UTC);
        Some(match self {
            Native::Claude => home
                .join("projects")
                .join(slug(worktree))
                .join(format!("{id}.jsonl")),
            Native::Codex => home
                .join("sessions")
                .join(time.strftime("%Y/%m/%d").to_string())
                .join(format!(
                    "rollout-{}-{id}.jsonl",
                    time.strftime("%Y-%m-%dT%H-%M-%S")
                )),
            Native::Gemini => home
                .join("tmp")
                .join(worktree.file_name()?)
                .join("chats")
                .join(format!(
                    "session-{}-{}.jsonl",
                    time.strftime("%Y-%m-%dT%H-%M"),
                    id.get(..8)?
                )),
            Native::Exported => return None,
        })
    }

    /// Returns when a conversation was made, where its id tells: Codex names files by that moment and remembers the names.
    fn made(self, id: &str) -> Option<Millis> {
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        let timed = self == Native::Codex && digits.len() == 32 && digits.as_bytes()[12] == b'7';
        let millis = timed.then(|| u64::from_str_radix(&digits[..12], 16).ok());
        millis.flatten().map(Millis)
    }

    /// Removes empty doubles of a conversation's file. Gemini leaves one when it loads a conversation, and when it starts the
    /// next time it takes the double for damage and removes the conversation with it.
    pub fn tidy(self, environment: &Environment, id: &str) {
        if self != Native::Gemini || !is_safe(id) {
            return;
        }
        let (Some(home), Some(start)) = (self.home(environment), id.get(..8)) else {
            return;
        };
        let end = format!("-{start}.jsonl");
        let wanted = |file: &str| file.starts_with("session-") && file.ends_with(&end);
        let mut doubles: Vec<(usize, bool, PathBuf)> = files(&home.join("tmp"), &wanted)
            .into_iter()
            .filter_map(|path| {
                let text = std::fs::read_to_string(&path).ok()?;
                let answered = text.contains(r#""type":"gemini""#);
                text.contains(id).then_some((text.len(), answered, path))
            })
            .collect();
        // The longest is the conversation; one that nobody answered in was only opened.
        doubles.sort();
        doubles.pop();
        for (_, _, path) in doubles.iter().filter(|(_, answered, _)| !answered) {
            // One that cannot be removed costs the conversation, which is retold then.
            let _ = std::fs::remove_file(path);
        }
    }

    fn home(self, environment: &Environment) -> Option<PathBuf> {
        let variable = |name: &str| environment.get(OsStr::new(name)).map(PathBuf::from);
        let below = |name: &str| variable("HOME").map(|home| home.join(name));
        match self {
            Native::Claude => variable("CLAUDE_CONFIG_DIR").or_else(|| below(".claude")),
            Native::Codex => variable("CODEX_HOME").or_else(|| below(".codex")),
            Native::Gemini => variable("GEMINI_CLI_HOME")
                .map(|home| home.join(".gemini"))
                .or_else(|| below(".gemini")),
            Native::Exported => None,
        }
    }

    /// Takes out of one record of a conversation what only the provider can read, and only unchanged: redaction would
    /// break its seal, and the provider would refuse the whole. `false` when nothing of the record is left.
    pub fn unseal(self, record: &mut Value) -> bool {
        match self {
            Native::Claude => {
                let blocks = record.pointer_mut("/message/content");
                for block in blocks.and_then(Value::as_array_mut).into_iter().flatten() {
                    let sealed = ["thinking", "redacted_thinking"].map(Value::from);
                    if sealed.contains(&block["type"]) {
                        *block = json!({"type": "text", "text": "(a thought that was left out)"});
                    }
                }
                true
            }
            Native::Codex => record.pointer("/payload/type") != Some(&Value::from("reasoning")),
            Native::Gemini | Native::Exported => {
                forget(record, "thoughtSignature");
                true
            }
        }
    }
}

/// Removes a key wherever it stands.
fn forget(value: &mut Value, key: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, key)),
        Value::Object(fields) => {
            fields.remove(key);
            fields.values_mut().for_each(|field| forget(field, key));
        }
        _ => {}
    }
}

/// Returns whether an id can be part of a file's name.
fn is_safe(id: &str) -> bool {
    (1..=80).contains(&id.len())
        && !id.starts_with('-')
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Returns a path as a file name, the way Claude Code writes it.
fn slug(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

/// Finds a file by its name; the newest, where there are several.
fn search(top: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    files(top, wanted).pop()
}

/// Finds files by their names, oldest first.
fn files(top: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    let mut todo = vec![(top.to_owned(), DEPTH)];
    let mut seen = 0;
    while let Some((dir, depth)) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > FILES {
                break;
            }
            // Links are not followed.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && depth > 0 {
                todo.push((entry.path(), depth - 1));
            } else if meta.is_file() && entry.file_name().to_str().is_some_and(wanted) {
                found.push((
                    meta.modified().unwrap_or(std::time::UNIX_EPOCH),
                    entry.path(),
                ));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_that_was_put_somewhere_is_found_there() {
        let home = tempfile::tempdir().expect("a directory");
        let environment: Environment = [("HOME".into(), home.path().into())].into();
        let worktree = Path::new("/src/a repo-worktrees/fix.it");
        let id = "0199f3b2-aaaa-4bbb-8ccc-0123456789ab";
        for native in [Native::Claude, Native::Codex, Native::Gemini] {
            assert_eq!(native.find(&environment, worktree, id), None, "{native:?}");
            let place = native
                .place(&environment, worktree, id, Millis(1_794_000_000_000))
                .expect("a place");
            assert!(place.starts_with(home.path()), "{}", place.display());
            std::fs::create_dir_all(place.parent().expect("a directory")).expect("made");
            std::fs::write(&place, "{}\n").expect("written");
            assert_eq!(native.find(&environment, worktree, id), Some(place));
        }
        let slugged = home
            .path()
            .join(".claude/projects/-src-a-repo-worktrees-fix-it");
        assert!(slugged.is_dir());
    }

    #[test]
    fn an_empty_double_is_removed_and_nothing_else_is() {
        let home = tempfile::tempdir().expect("a directory");
        let environment: Environment = [("HOME".into(), home.path().into())].into();
        let id = "85ab2a4c-aaaa-4bbb-8ccc-0123456789ab";
        let chats = home.path().join(".gemini/tmp/w/chats");
        std::fs::create_dir_all(&chats).expect("made");
        let write = |name: &str, text: &str| {
            std::fs::write(chats.join(name), text).expect("written");
        };
        write(
            "session-2026-01-01T00-01-85ab2a4c.jsonl",
            &format!("{{\"sessionId\":\"{id}\"}}\n"),
        );
        Native::Gemini.tidy(&environment, id);
        assert_eq!(
            std::fs::read_dir(&chats).expect("there").count(),
            1,
            "the only one stays"
        );
        write(
            "session-2026-01-01T00-00-85ab2a4c.jsonl",
            &format!("{{\"sessionId\":\"{id}\"}}\n{{\"type\":\"user\"}}\n"),
        );
        write(
            "session-2026-01-01T00-02-85ab2a4c.jsonl",
            "{\"sessionId\":\"another\"}\n",
        );
        Native::Gemini.tidy(&environment, id);
        let mut left: Vec<String> = std::fs::read_dir(&chats)
            .expect("there")
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "session-2026-01-01T00-00-85ab2a4c.jsonl",
                "session-2026-01-01T00-02-85ab2a4c.jsonl"
            ]
        );
    }

    #[test]
    fn an_id_that_is_a_path_leads_nowhere() {
        let environment: Environment = [("HOME".into(), "/h".into())].into();
        for id in ["../../x", "", "a/b", "-x", "a b", &"x".repeat(99)] {
            for native in [Native::Claude, Native::Codex, Native::Gemini] {
                let place = native.place(&environment, Path::new("/w"), id, Millis(0));
                assert_eq!(place, None, "{id}");
            }
        }
    }

    #[test]
    fn what_is_sealed_is_left_out() {
        let mut record = json!({"message": {"content": [
            {"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "t"}]}});
        assert!(Native::Claude.unseal(&mut record));
        assert_eq!(record["message"]["content"][0]["type"], "text");
        assert_eq!(record["message"]["content"][1]["text"], "t");
        let mut record = json!({"type": "response_item", "payload": {"type": "reasoning"}});
        assert!(!Native::Codex.unseal(&mut record));
        let mut record = json!({"parts": [{"thoughtSignature": "s", "text": "t"}]});
        assert!(Native::Gemini.unseal(&mut record));
        assert_eq!(record, json!({"parts": [{"text": "t"}]}));
    }
}
