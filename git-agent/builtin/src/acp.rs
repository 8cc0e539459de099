//! The Agent Client Protocol on standard input and output: conversations, turns in threads, cancelling.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use git_agent::env::Env;
use git_agent::redact::{KnownSecrets, Redactor};
use serde_json::{Value, json};

use crate::conversation::{self, Conversation, Message};
use crate::provider::failure::{Failure, Origin};
use crate::provider::{Model, choose, http};
use crate::screen::{Screen, answer, refuse};
use crate::system_prompt::system_prompt;
use crate::turn::{Input, Outcome, Permissions, Turn};

/// The longest message of a client.
const LONGEST: u64 = 32 << 20;
/// How long turns may take to end after the client is gone.
const FAREWELL: Duration = Duration::from_secs(2);
/// JSON-RPC's codes.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// The protocol's code for a missing authentication.
const AUTH_REQUIRED: i64 = -32000;
/// The mode in which nothing is changed.
const READ_ONLY: &str = "read-only";

/// What the command line and the environment say.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The wanted model.
    pub model: Option<String>,
    /// Where conversations are kept.
    pub conversations: PathBuf,
    /// Whether everything may be done without asking.
    pub skip_permissions: bool,
}

/// One open conversation.
struct Session {
    cwd: PathBuf,
    shared: Arc<Mutex<Shared>>,
    mode: String,
    model: Option<String>,
    /// The last turn.
    turn: Option<Started>,
}

/// A turn that runs in a thread.
struct Started {
    inbox: Sender<Input>,
    thread: JoinHandle<()>,
    /// Whether the client has its answer. The next prompt may come before the thread has ended.
    answered: Arc<AtomicBool>,
}

/// What the turns of a conversation hand on.
struct Shared {
    conversation: Conversation,
    permissions: Permissions,
    cost: Option<f64>,
    /// The model of the last turn and the wish that it was chosen by.
    model: Option<(Option<String>, Model)>,
    /// The last number that was used.
    number: u64,
}

/// Serves a client until it closes our input.
pub fn serve(env: &Arc<Env>, settings: &Settings) {
    let mut known = KnownSecrets::new();
    known.add_environment(env.vars_os());
    let mut server = Server {
        env: Arc::clone(env),
        settings: settings.clone(),
        redactor: Arc::new(Redactor::new(known)),
        sessions: HashMap::new(),
    };
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match (&mut input).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) => server.handle(&message),
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => refuse(&Value::Null, -32700, "the message is not JSON"),
        }
    }
    server.leave();
}

struct Server {
    env: Arc<Env>,
    settings: Settings,
    redactor: Arc<Redactor>,
    sessions: HashMap<String, Session>,
}

impl Server {
    fn handle(&mut self, message: &Value) {
        let params = &message["params"];
        let id = message.get("id").filter(|id| !id.is_null());
        match (message["method"].as_str(), id) {
            (Some("session/cancel"), None) => self.cancel(params),
            (Some(_), None) => {}
            (Some("session/prompt"), Some(id)) => {
                if let Err(why) = self.prompt(id, params) {
                    refuse(id, INVALID_PARAMS, &why);
                }
            }
            (Some(method), Some(id)) => match self.request(method, params) {
                Ok(Some(result)) => answer(id, &result),
                Ok(None) => refuse(id, METHOD_NOT_FOUND, &format!("'{method}' is not offered")),
                Err(why) => refuse(id, INVALID_PARAMS, &why),
            },
            (None, Some(id)) => self.answered(id, &message["result"]),
            (None, None) => {}
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Option<Value>, String> {
        Ok(Some(match method {
            "initialize" => json!({
                "protocolVersion": 1,
                "agentInfo": {"name": "git-agent-builtin", "title": "git-agent's built-in agent",
                    "version": env!("CARGO_PKG_VERSION")},
                "agentCapabilities": {
                    "loadSession": true,
                    "promptCapabilities": {"embeddedContext": true, "image": false, "audio": false},
                    "sessionCapabilities": {"resume": {}},
                },
                "authMethods": [],
            }),
            "authenticate" => json!({}),
            "session/new" => self.begin(params)?,
            "session/load" => self.load(params, true)?,
            "session/resume" => self.load(params, false)?,
            "session/set_mode" => {
                let mode = params["modeId"].as_str().unwrap_or_default().to_owned();
                self.session(params)?.mode = mode;
                json!({})
            }
            "session/set_model" => {
                let model = params["modelId"].as_str().map(str::to_owned);
                self.session(params)?.model = model;
                json!({})
            }
            _ => return Ok(None),
        }))
    }

    fn session(&mut self, params: &Value) -> Result<&mut Session, String> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let missing = || format!("no conversation '{id}' is open");
        self.sessions.get_mut(id).ok_or_else(missing)
    }

    fn begin(&mut self, params: &Value) -> Result<Value, String> {
        let cwd = directory(params)?;
        let cannot =
            |error: &dyn std::fmt::Display| format!("cannot begin a conversation: {error}");
        let id = uuid(self.env.random());
        let path = conversation::file_of(&self.settings.conversations, &id)
            .ok_or("the new id is not a file name")?;
        let conversation = Conversation::begin(&path, system_prompt(&cwd), &self.redactor)
            .map_err(|error| cannot(&error))?;
        self.open(&id, cwd, conversation);
        Ok(json!({"sessionId": id, "modes": modes()}))
    }

    fn load(&mut self, params: &Value, replay: bool) -> Result<Value, String> {
        let cwd = directory(params)?;
        let id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let path = conversation::file_of(&self.settings.conversations, &id)
            .ok_or("the id of the conversation is not valid")?;
        let conversation = Conversation::load(&path, &self.redactor)
            .map_err(|error| format!("no conversation found for '{id}': {error}"))?;
        if replay {
            show_again(
                &Screen {
                    session: id.clone(),
                },
                conversation.messages(),
            );
        }
        self.open(&id, cwd, conversation);
        Ok(json!({"modes": modes()}))
    }

    fn open(&mut self, id: &str, cwd: PathBuf, conversation: Conversation) {
        let shared = Shared {
            conversation,
            permissions: Permissions::default(),
            cost: None,
            model: None,
            number: 0,
        };
        let session = Session {
            cwd,
            shared: Arc::new(Mutex::new(shared)),
            mode: "default".to_owned(),
            model: self.settings.model.clone(),
            turn: None,
        };
        self.sessions.insert(id.to_owned(), session);
    }

    /// Starts a turn in a thread, which answers the request when it ends.
    fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), String> {
        let (env, redactor) = (Arc::clone(&self.env), Arc::clone(&self.redactor));
        let skip = self.settings.skip_permissions;
        let screen = Screen {
            session: params["sessionId"].as_str().unwrap_or_default().to_owned(),
        };
        let text = prompt_text(&params["prompt"]);
        let session = self.session(params)?;
        let runs =
            |turn: &Started| !turn.answered.load(Ordering::Acquire) && !turn.thread.is_finished();
        if session.turn.as_ref().is_some_and(runs) {
            return Err("a turn is running already".to_owned());
        }
        let (sender, inbox) = channel();
        let (shared, cwd) = (Arc::clone(&session.shared), session.cwd.clone());
        let (wanted, read_only) = (session.model.clone(), session.mode == READ_ONLY);
        let (own, id) = (sender.clone(), id.clone());
        let answered = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&answered);
        let thread = std::thread::spawn(move || {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.permissions.skip = skip;
            shared.permissions.read_only = read_only;
            // The answer, or an error's code and words.
            let run = || -> Result<Value, (i64, String)> {
                let shared = &mut *shared;
                let named = |failure: Failure, name: &str| (code(&failure), failure.words(name));
                let unnamed = |failure| named(failure, "builtin");
                let model =
                    choose_model(shared, &env, wanted, &screen, &redactor).map_err(unnamed)?;
                let client = http::client(&model.base).map_err(unnamed)?;
                let mut turn = Turn {
                    client: &client,
                    model: &model,
                    conversation: &mut shared.conversation,
                    redactor: &redactor,
                    screen: &screen,
                    cwd: &cwd,
                    permissions: &mut shared.permissions,
                    inbox: &inbox,
                    sender: own,
                    number: shared.number,
                    used: (0, 0),
                    filled: 0,
                    cost: &mut shared.cost,
                    last_call: (String::new(), 0),
                };
                let outcome = turn.run(&text);
                let ((input, output), number) = (turn.used, turn.number);
                shared.number = number;
                let outcome = outcome.map_err(|failure| named(failure, &model.full_name()))?;
                let usage = json!({"inputTokens": input, "outputTokens": output,
                    "totalTokens": input + output});
                Ok(json!({"stopReason": word(outcome), "usage": usage}))
            };
            let ended = run();
            tells.store(true, Ordering::Release);
            match ended {
                Ok(result) => answer(&id, &result),
                Err((code, words)) => refuse(&id, code, &words),
            }
        });
        session.turn = Some(Started {
            inbox: sender,
            thread,
            answered,
        });
        Ok(())
    }

    fn cancel(&mut self, params: &Value) {
        if let Ok(session) = self.session(params)
            && let Some(turn) = &session.turn
        {
            let _ = turn.inbox.send(Input::Cancel);
        }
    }

    /// Passes an answer on to the turns: the id tells whose it is.
    fn answered(&self, id: &Value, result: &Value) {
        let Some(id) = id.as_str() else { return };
        for session in self.sessions.values() {
            if let Some(turn) = &session.turn {
                let answer = Input::Permission(id.to_owned(), result.clone());
                let _ = turn.inbox.send(answer);
            }
        }
    }

    /// Cancels what still runs, so that no command outlives the client.
    fn leave(self) {
        let deadline = Instant::now() + FAREWELL;
        let turns: Vec<_> = self
            .sessions
            .into_values()
            .filter_map(|session| session.turn)
            .collect();
        for turn in &turns {
            let _ = turn.inbox.send(Input::Cancel);
        }
        for turn in turns {
            while !turn.thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Chooses the model of a turn, once for each wish, and says which and why if it is another than before.
fn choose_model(
    shared: &mut Shared,
    env: &Env,
    wanted: Option<String>,
    screen: &Screen,
    redactor: &Redactor,
) -> Result<Model, Failure> {
    if let Some((wish, model)) = &shared.model
        && *wish == wanted
    {
        return Ok(model.clone());
    }
    let (model, reason) = choose::choose(env, wanted.as_deref())?;
    let (name, context) = (model.full_name(), model.context);
    let tools = if model.tools {
        ""
    } else {
        ", no tool calls: commands in fenced blocks"
    };
    if shared.conversation.model.as_ref() != Some(&name) {
        shared.number += 1;
        let said = format!("(Model {name}: {reason}; context of {context} tokens{tools}.)\n");
        screen.thought(shared.number, &said);
        let noted = shared.conversation.use_model(&name, redactor);
        noted.map_err(|error| Failure::new(format!("cannot keep the conversation: {error}")))?;
    }
    shared.model = Some((wanted, model.clone()));
    Ok(model)
}

fn directory(params: &Value) -> Result<PathBuf, String> {
    let cwd = PathBuf::from(params["cwd"].as_str().unwrap_or_default());
    if cwd.is_absolute() && cwd.is_dir() {
        Ok(cwd)
    } else {
        Err(format!("'{}' is not a directory", cwd.display()))
    }
}

fn modes() -> Value {
    json!({"currentModeId": "default", "availableModes": [
        {"id": "default", "name": "Default", "description": "Changes files and runs commands"},
        {"id": READ_ONLY, "name": "Read only", "description": "Changes no files"},
    ]})
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::End => "end_turn",
        Outcome::Cancelled => "cancelled",
        Outcome::Length => "max_tokens",
        Outcome::Steps => "max_turn_requests",
        Outcome::Refused => "refusal",
    }
}

/// Returns the code of a failure: the HTTP status, which tells the client most.
fn code(failure: &Failure) -> i64 {
    match (failure.status, failure.origin) {
        (0, Origin::NoProvider) => AUTH_REQUIRED,
        (0, _) => INTERNAL_ERROR,
        (status, _) => i64::from(status),
    }
}

/// Returns the text of a prompt's blocks.
fn prompt_text(blocks: &Value) -> String {
    let block = |block: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => text(&block["text"]),
            "resource" => {
                let resource = &block["resource"];
                format!("{}:\n{}", text(&resource["uri"]), text(&resource["text"]))
            }
            "resource_link" => text(&block["uri"]),
            kind => format!("(a block of kind '{kind}' that this agent cannot read)"),
        }
    };
    let texts: Vec<String> = blocks.as_array().into_iter().flatten().map(block).collect();
    texts.join("\n\n")
}

/// Shows an earlier conversation to a client that loads it.
fn show_again(screen: &Screen, messages: &[Message]) {
    for (number, message) in (0..).zip(messages) {
        match message {
            Message::User { text } => screen.prompt(text),
            Message::Assistant { text, .. } if !text.is_empty() => screen.text(number, text),
            Message::Assistant { .. } | Message::Tool { .. } => {}
        }
    }
}

/// Returns random bytes as a UUID.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_read_in_all_their_forms() {
        let blocks = json!([
            {"type": "text", "text": "look at"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "content"}},
            {"type": "image", "data": "..."},
        ]);
        let text = prompt_text(&blocks);
        assert!(
            text.starts_with("look at\n\nfile:///a:\ncontent\n\n(a block of kind 'image'"),
            "{text}"
        );
        assert_eq!(prompt_text(&Value::Null), "");
    }

    #[test]
    fn ids_are_uuids() {
        let id = uuid([0xff; 16]);
        assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(conversation::file_of(std::path::Path::new("/x"), &id).is_some());
    }
}
