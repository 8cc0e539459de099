//! The agents' own files of conversations: where each agent keeps them, where it finds a copied one, and which parts
//! cannot be copied.

pub mod gemini;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::env::Millis;

/// The agent's environment.
type Environment = BTreeMap<OsString, OsString>;

/// How deep below an agent's directory its conversations may be.
const DEPTH: usize = 4;
/// Maximum number of files searched.
const FILES: usize = 200_000;
/// Number of characters of an exported id that encode its time; messages are ordered by them.
const TIME: usize = 12;

/// Formats of conversations that can be continued on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// `~/.claude/projects/<path>/<id>.jsonl`
    Claude,
    /// `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`
    Codex,
    /// `~/.gemini/tmp/<project>/chats/session-<minute>-<start of id>.jsonl`
    Gemini,
    /// `~/.local/share/git-agent/conversations/<id>.jsonl`, of our own agent
    Own,
    /// A database: the program's own `export` and `import` copy a conversation.
    Exported,
}

impl Native {
    /// Returns the word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Native::Claude => "claude",
            Native::Codex => "codex",
            Native::Gemini => "gemini",
            Native::Own => "builtin",
            Native::Exported => "exported",
        }
    }

    /// Returns the file of a conversation, if the agent keeps it in one and it exists.
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
            Native::Own => Some(home.join(format!("{id}.jsonl"))).filter(|path| path.is_file()),
            Native::Exported => None,
        }
    }

    /// Returns where the agent looks for a conversation in a worktree. It is made from the id alone, so a foreign
    /// record cannot name a path here.
    pub fn place(
        self,
        environment: &Environment,
        worktree: &Path,
        id: &str,
        now: Millis,
    ) -> Option<PathBuf> {
        is_safe(id).then_some(())?;
        let home = self.home(environment)?;
        let made = self.made(id, now);
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
            Native::Gemini => gemini::project(&home, worktree)?
                .join("chats")
                .join(format!(
                    "session-{}-{}.jsonl",
                    time.strftime("%Y-%m-%dT%H-%M"),
                    id.get(..8)?
                )),
            Native::Own => home.join(format!("{id}.jsonl")),
            Native::Exported => return None,
        })
    }

    /// Returns the time in a file's name. Codex ids contain it, and Codex remembers names; Gemini destroys a file named
    /// after the current minute.
    pub fn made(self, id: &str, now: Millis) -> Millis {
        match self {
            Native::Claude | Native::Own | Native::Exported => now,
            Native::Gemini => Millis(now.0.saturating_sub(2 * 60 * 1000)),
            Native::Codex => {
                let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
                let timed = digits.len() == 32 && digits.as_bytes()[12] == b'7';
                let millis = timed.then(|| u64::from_str_radix(&digits[..12], 16).ok());
                millis.flatten().map_or(now, Millis)
            }
        }
    }

    /// Makes the agent look for a file at its new place.
    pub fn settle(self, place: &Path, worktree: &Path) -> std::io::Result<()> {
        let project = place.parent().and_then(Path::parent);
        match (self, project) {
            (Native::Gemini, Some(project)) => gemini::mark(project, worktree),
            _ => Ok(()),
        }
    }

    /// Returns whether a forked session gets a copy of the conversation, because the agent cannot fork or would
    /// continue in the old worktree.
    pub fn is_copied(self) -> bool {
        self != Native::Codex
    }

    /// Returns the id of a copy. A database needs its own kind of ids.
    pub fn copied_id(self, old: &str, new: &str) -> String {
        match self {
            Native::Exported => renamed(old, new),
            _ => new.to_owned(),
        }
    }

    /// Adapts one record of a conversation for a copy in another worktree, where more than text must change.
    pub fn transplant(self, record: &mut Value, worktree: &Path, new: &str) {
        match self {
            Native::Claude | Native::Codex | Native::Own => {}
            Native::Gemini => {
                if let Some(hash) = record.get_mut("projectHash") {
                    *hash = crate::git::sha256(worktree.to_string_lossy().as_bytes()).into();
                }
            }
            // A database cannot contain the same id twice.
            Native::Exported => rename(record, new),
        }
    }

    /// Removes empty duplicates of a conversation's file. Gemini leaves one when it loads a conversation; at its next
    /// start it takes the duplicate for damage and removes the conversation with it.
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
        // The longest is the conversation; one without answers was only opened.
        doubles.sort();
        doubles.pop();
        for (_, _, path) in doubles.iter().filter(|(_, answered, _)| !answered) {
            // If one cannot be removed, the conversation is lost and will be repeated in a prompt.
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
            Native::Own => variable("XDG_DATA_HOME")
                .filter(|dir| !dir.as_os_str().is_empty())
                .or_else(|| below(".local/share"))
                .map(|data| data.join("git-agent/conversations")),
            Native::Exported => None,
        }
    }

    /// Removes the parts of a record that only the provider can read and only unchanged: redaction would break their
    /// signature, and the provider would refuse the whole. Returns `false` if nothing of the record is left.
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
            Native::Own => true,
            Native::Codex => record.pointer("/payload/type") != Some(&Value::from("reasoning")),
            Native::Gemini | Native::Exported => {
                forget(record, "thoughtSignature");
                true
            }
        }
    }
}

/// Removes a key at any depth.
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

/// Gives every exported object a new id.
fn rename(value: &mut Value, new: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, new)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, new)),
        Value::String(text) => {
            let kind = text.split_once('_');
            let named = |kind: &str| ["ses", "msg", "prt"].contains(&kind);
            if kind.is_some_and(|(kind, rest)| named(kind) && rest.len() > TIME && is_safe(text)) {
                *text = renamed(text, new);
            }
        }
        _ => {}
    }
}

/// Returns a new id for the same object, with the same time.
fn renamed(old: &str, new: &str) -> String {
    let (kind, rest) = old.split_once('_').unwrap_or(("ses", old));
    let hash = crate::git::sha256(format!("{old}/{new}").as_bytes());
    let time = rest.get(..TIME).unwrap_or_default();
    format!("{kind}_{time}{}", &hash[..26 - TIME])
}

/// Returns whether an id can be part of a file name.
fn is_safe(id: &str) -> bool {
    (1..=80).contains(&id.len())
        && !id.starts_with('-')
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Returns a path as a file name, in Claude Code's form.
fn slug(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

/// Finds a file by its name; the newest, if there are several.
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
            // Do not follow links.
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
        for native in [Native::Claude, Native::Codex, Native::Gemini, Native::Own] {
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
    fn what_was_exported_is_renamed_in_the_same_order() {
        let mut record = json!({"info": {"id": "ses_0123456789abAAAAAAAAAAAAAA"}, "messages": [
            {"id": "msg_fe0000000001AAAAAAAAAAAAAA", "sessionID": "ses_0123456789abAAAAAAAAAAAAAA"},
            {"id": "msg_fe0000000002AAAAAAAAAAAAAA", "text": "neither ses_ nor msg_ is an id here"}]});
        let old = record.clone();
        Native::Exported.transplant(&mut record, Path::new("/w"), "new");
        let new = Native::Exported.copied_id("ses_0123456789abAAAAAAAAAAAAAA", "new");
        assert_eq!(record["info"]["id"], new.as_str());
        assert_eq!(record["messages"][0]["sessionID"], new.as_str());
        assert_eq!(record["messages"][1]["text"], old["messages"][1]["text"]);
        let id = |at: usize| record["messages"][at]["id"].as_str().expect("an id");
        assert!(id(0) < id(1) && id(0).len() == 30, "{} {}", id(0), id(1));
        assert!(id(0).starts_with("msg_fe0000000001") && id(0) != old["messages"][0]["id"]);
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
