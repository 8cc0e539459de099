//! Models over HTTP: one request with all messages, one streamed answer.
//!
//! | file | owns |
//! |---|---|
//! | `http` | sending a request, and its answer line by line |
//! | `anthropic`, `openai`, `ollama` | the three dialects: request bodies, and folding a stream into a reply |
//! | `failure` | what can go wrong, in words, and what a retry helps against |
//! | `choose` | which provider and model to use, and why |
//! | `list` | the models that can be reached now |

pub mod anthropic;
pub mod choose;
pub mod failure;
pub mod http;
pub mod list;
pub mod ollama;
pub mod openai;

use serde_json::Value;

use crate::conversation::{Call, Message};
use crate::provider::failure::Failure;
use crate::tools::Tool;

/// The most that a model may say in one answer.
pub const MAX_OUTPUT: u64 = 16_000;

/// The ways to speak to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's chat completions, which most others copy.
    OpenAi,
    /// Ollama's own API: only there the size of the context can be set.
    Ollama,
}

/// A model at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider's name, as in `provider/model`.
    pub provider: String,
    /// How to speak to it.
    pub dialect: Dialect,
    /// The address that the paths of requests are added to.
    pub base: String,
    /// The key, if it needs one.
    pub key: Option<String>,
    /// The model's name.
    pub name: String,
    /// How many tokens fit into a request and its answer.
    pub context: u64,
    /// Whether it calls tools; otherwise it answers with fenced blocks.
    pub tools: bool,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The conversation so far.
    pub messages: &'a [Message],
    /// The tools that may be called; empty for a model without tools.
    pub tools: &'a [Tool],
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The words.
    pub text: String,
    /// The calls.
    pub calls: Vec<Call>,
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// The price, only if the provider says it.
    pub cost: Option<f64>,
    /// Why it ended.
    pub stop: Stop,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// It is complete.
    #[default]
    End,
    /// It was too long.
    Length,
    /// The provider refused to go on.
    Refused,
}

/// A piece of an answer, as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Words for the user.
    Text(String),
    /// Thoughts of the model.
    Thought(String),
}

/// Folds the events of one stream into a reply.
pub trait Fold {
    /// Takes one event. Returns the pieces to show.
    fn event(&mut self, event: &Value) -> Result<Vec<Delta>, Failure>;
    /// Returns whether the stream said that it is complete.
    fn is_complete(&self) -> bool;
    /// Returns the reply.
    fn reply(self: Box<Self>) -> Reply;
}

impl Model {
    /// Returns the address and the body of a request.
    pub fn request(&self, request: &Request<'_>) -> (String, Value) {
        match self.dialect {
            Dialect::Anthropic => (
                format!("{}/v1/messages", self.base),
                anthropic::body(self, request),
            ),
            Dialect::OpenAi => (
                format!("{}/chat/completions", self.base),
                openai::body(self, request),
            ),
            Dialect::Ollama => (
                format!("{}/api/chat", self.base),
                ollama::body(self, request),
            ),
        }
    }

    /// Returns the headers of every request.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self.dialect == Dialect::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        match (&self.key, self.dialect) {
            (None, _) => {}
            // Keys of Anthropic begin like this; another value is a token of a gateway.
            (Some(key), Dialect::Anthropic) if !key.starts_with("Bearer ") => {
                headers.push(("x-api-key", key.clone()));
            }
            (Some(key), _) => {
                let token = key.strip_prefix("Bearer ").unwrap_or(key);
                headers.push(("authorization", format!("Bearer {token}")));
            }
        }
        headers
    }

    /// Returns the folder for the answer.
    pub fn fold(&self) -> Box<dyn Fold> {
        match self.dialect {
            Dialect::Anthropic => Box::new(anthropic::Folder::default()),
            Dialect::OpenAi => Box::new(openai::Folder::default()),
            Dialect::Ollama => Box::new(ollama::Folder::default()),
        }
    }

    /// Returns `provider/model`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }
}

/// Parses the arguments of a call; a text that is not JSON stays a text.
pub(crate) fn arguments(text: &str) -> Value {
    match text.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
