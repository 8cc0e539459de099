//! A conversation: its messages, and the file that keeps them.
//!
//! The file has one JSON record per line and only grows, so a killed process loses at most the line it was writing.
//! Secrets are redacted in the file, never in the running conversation.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use git_agent::redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A larger file is refused: it would not fit any model.
const LARGEST: u64 = 64 << 20;
/// The version of the file's format.
const VERSION: u32 = 1;

/// One message, in the terms that all providers share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// A prompt, or a remark of this program.
    User {
        /// The words.
        text: String,
    },
    /// An answer of the model.
    Assistant {
        /// The words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        /// The tools it calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
    },
    /// The results of all calls of one answer.
    Tool {
        /// In the order of the calls.
        results: Vec<ToolResult>,
    },
}

impl Message {
    /// Returns a prompt.
    pub fn user(text: impl Into<String>) -> Self {
        Message::User { text: text.into() }
    }

    /// Returns the number of characters that the model has to read.
    pub fn size(&self) -> usize {
        match self {
            Message::User { text } => text.len(),
            Message::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| call.input.to_string().len() + 40);
                text.len() + calls.sum::<usize>()
            }
            Message::Tool { results } => results.iter().map(|result| result.text.len() + 40).sum(),
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments. A text is a call whose arguments were not valid JSON.
    pub input: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The output, cut to a bounded length.
    pub text: String,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    /// The first line. The system prompt is kept so that a continued conversation sends the same bytes.
    Begin { version: u32, system: String },
    /// One message more.
    Say(Message),
    /// The model that answers from now on.
    Model(String),
    /// The messages before this index are replaced by a note.
    LeaveOut { before: usize, note: String },
    /// The model calls tools in fenced blocks from now on.
    Fenced,
}

/// A conversation and its file.
#[derive(Debug)]
pub struct Conversation {
    /// The system prompt.
    pub system: String,
    /// Whether the model calls tools in fenced blocks instead of tool calls.
    pub fenced: bool,
    /// The model that answered last.
    pub model: Option<String>,
    messages: Vec<Message>,
    file: File,
}

impl Conversation {
    /// Begins a conversation with a file that does not exist.
    pub fn begin(path: &Path, system: String, redactor: &Redactor) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(dir)?;
        }
        let file = options().create_new(true).open(path)?;
        let mut conversation = Conversation {
            system: system.clone(),
            fenced: false,
            model: None,
            messages: Vec::new(),
            file,
        };
        let begin = Record::Begin {
            version: VERSION,
            system,
        };
        conversation.write(&begin, redactor)?;
        Ok(conversation)
    }

    /// Continues a conversation. A last line that was cut off is dropped, and calls that got no result get one.
    pub fn load(path: &Path, redactor: &Redactor) -> io::Result<Self> {
        let mut text = Vec::new();
        let reading = File::open(path)?;
        if reading.metadata()?.len() > LARGEST {
            return Err(io::Error::other("the conversation is too large"));
        }
        reading.take(LARGEST).read_to_end(&mut text)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let file = options().open(path)?;
        if whole < text.len() {
            file.set_len(whole as u64)?;
        }
        let mut records = text[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice::<Record>);
        let Some(Ok(Record::Begin { version, system })) = records.next() else {
            return Err(io::Error::other("the file is not a conversation"));
        };
        if version != VERSION {
            return Err(io::Error::other("a newer version wrote the conversation"));
        }
        let mut conversation = Conversation {
            system,
            fenced: false,
            model: None,
            messages: Vec::new(),
            file,
        };
        // A line that was damaged is worth less than the rest of the conversation.
        for record in records.flatten() {
            conversation.apply(record);
        }
        conversation.finish_calls(redactor)?;
        Ok(conversation)
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds a message.
    pub fn say(&mut self, message: Message, redactor: &Redactor) -> io::Result<()> {
        self.record(Record::Say(message), redactor)
    }

    /// Notes which model answers from now on.
    pub fn use_model(&mut self, name: &str, redactor: &Redactor) -> io::Result<()> {
        self.record(Record::Model(name.to_owned()), redactor)
    }

    /// Replaces the messages before an index by a note.
    pub fn leave_out(
        &mut self,
        before: usize,
        note: String,
        redactor: &Redactor,
    ) -> io::Result<()> {
        self.record(Record::LeaveOut { before, note }, redactor)
    }

    /// Notes that the model does not use tool calls.
    pub fn use_fences(&mut self, redactor: &Redactor) -> io::Result<()> {
        self.record(Record::Fenced, redactor)
    }

    /// Makes sure that the file survives a crash of the machine.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn record(&mut self, record: Record, redactor: &Redactor) -> io::Result<()> {
        self.write(&record, redactor)?;
        self.apply(record);
        Ok(())
    }

    fn write(&mut self, record: &Record, redactor: &Redactor) -> io::Result<()> {
        let value = serde_json::to_value(record)?;
        let mut line = redactor.json(value).into_inner().to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes())
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Begin { .. } => {}
            Record::Say(message) => self.messages.push(message),
            Record::Model(name) => self.model = Some(name),
            Record::LeaveOut { before, note } => {
                let before = before.min(self.messages.len());
                self.messages.splice(..before, [Message::user(note)]);
            }
            Record::Fenced => self.fenced = true,
        }
    }

    /// Answers the calls of an answer during which the process ended: providers refuse a call without a result.
    fn finish_calls(&mut self, redactor: &Redactor) -> io::Result<()> {
        let Some(Message::Assistant { calls, .. }) = self.messages.last() else {
            return Ok(());
        };
        if calls.is_empty() {
            return Ok(());
        }
        let results = calls
            .iter()
            .map(|call| ToolResult {
                id: call.id.clone(),
                text: "interrupted: it is not known how far this call came".to_owned(),
                failed: true,
            })
            .collect();
        self.say(Message::Tool { results }, redactor)
    }
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.append(true).mode(0o600);
    options
}

/// Returns the file of a conversation, if the id can be part of a file name.
pub fn file_of(dir: &Path, id: &str) -> Option<PathBuf> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let safe = (1..=80).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(plain);
    safe.then(|| dir.join(format!("{id}.jsonl")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use git_agent::redact::KnownSecrets;
    use serde_json::json;

    fn redactor() -> Redactor {
        Redactor::new(KnownSecrets::new())
    }

    fn call(id: &str) -> Message {
        Message::Assistant {
            text: String::new(),
            calls: vec![Call {
                id: id.to_owned(),
                name: "shell".to_owned(),
                input: json!({"command": "true"}),
            }],
        }
    }

    #[test]
    fn a_conversation_is_the_same_after_it_was_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = file_of(dir.path(), "0a-1").expect("a safe id");
        let redactor = redactor();
        let mut told = Conversation::begin(&path, "be brief".into(), &redactor).expect("begun");
        told.say(Message::user("first"), &redactor).expect("said");
        told.use_model("a/b", &redactor).expect("noted");
        told.say(call("c1"), &redactor).expect("said");
        let results = vec![ToolResult {
            id: "c1".into(),
            text: "ok".into(),
            failed: false,
        }];
        told.say(Message::Tool { results }, &redactor)
            .expect("said");
        told.leave_out(1, "(left out)".into(), &redactor)
            .expect("left out");
        told.use_fences(&redactor).expect("noted");
        let read = Conversation::load(&path, &redactor).expect("read");
        assert_eq!(read.messages(), told.messages());
        assert_eq!((read.system.as_str(), read.fenced), ("be brief", true));
        assert_eq!(read.messages()[0], Message::user("(left out)"));
        assert_eq!(read.model.as_deref(), Some("a/b"));
    }

    #[test]
    fn a_killed_process_leaves_a_conversation_that_goes_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = file_of(dir.path(), "x").expect("a safe id");
        let redactor = redactor();
        let mut told = Conversation::begin(&path, String::new(), &redactor).expect("begun");
        told.say(Message::user("first"), &redactor).expect("said");
        told.say(call("c1"), &redactor).expect("said");
        let mut file = File::options().append(true).open(&path).expect("opened");
        file.write_all(b"{\"say\":{\"role\":\"us").expect("written");
        let mut read = Conversation::load(&path, &redactor).expect("read");
        assert_eq!(read.messages().len(), 3);
        assert!(matches!(&read.messages()[2], Message::Tool { results } if results[0].failed));
        read.say(Message::user("again"), &redactor).expect("said");
        let read = Conversation::load(&path, &redactor).expect("read again");
        assert_eq!(read.messages().last(), Some(&Message::user("again")));
    }

    #[test]
    fn secrets_stay_out_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = file_of(dir.path(), "x").expect("a safe id");
        let redactor = redactor();
        let mut told = Conversation::begin(&path, String::new(), &redactor).expect("begun");
        let secret = format!("ghp_{}", "a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6");
        told.say(Message::user(secret.clone()), &redactor)
            .expect("said");
        assert_eq!(told.messages()[0], Message::user(secret.clone()));
        let kept = std::fs::read_to_string(&path).expect("read");
        assert!(!kept.contains(&secret), "{kept}");
    }

    #[test]
    fn odd_files_and_ids_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for id in ["", "../x", "a/b", "-x", "a.b"] {
            assert_eq!(file_of(dir.path(), id), None, "{id}");
        }
        let path = dir.path().join("x.jsonl");
        for text in ["", "{}\n", "{\"begin\":{\"version\":9,\"system\":\"\"}}\n"] {
            std::fs::write(&path, text).expect("written");
            assert!(Conversation::load(&path, &redactor()).is_err(), "{text}");
        }
    }
}
