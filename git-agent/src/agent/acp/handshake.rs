//! Opens a conversation in a started process: handshake, new or loaded session, model and mode.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::agent::acp::dialogue::{Dialogue, Halt};
use crate::agent::acp::wire;
use crate::agent::catalog::template;
use crate::agent::conversation_files::gemini;
use crate::agent::driver::{LONGEST_ID, Program, Trouble, TroubleKind};
use crate::agent::mcp_config;
use crate::model::event::Body;

/// How long an agent may be silent before it answers. Some need 20 s of CPU time to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// Names of modes in which agents change nothing.
const READ_ONLY_MODES: [&str; 2] = ["read-only", "plan"];
/// The placeholder for a file with MCP servers, in the command of an agent that accepts them only there.
const SERVERS: &str = "mcp_file";

/// How a conversation was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// A new conversation.
    New,
    /// The wanted conversation, or a fork of it.
    TakenUp,
    /// A new conversation, because the wanted one could not be loaded. A notice says so; the prompt must repeat the
    /// history.
    Forgotten,
}

impl Dialogue<'_> {
    /// Opens the turn's conversation, and starts the process if it is not running.
    pub(super) fn open(&mut self, clock: fn() -> SystemTime) -> Result<Opened, Halt> {
        if !self.link.is_running() {
            self.start()?;
        }
        let opened = match &self.turn.resume {
            Some(wanted) if wanted == self.conversation() => Opened::TakenUp,
            Some(wanted) => {
                let taken = if self.turn.fork {
                    self.branch_off(wanted, clock)?
                } else {
                    self.take_up(wanted, clock)?
                };
                match taken {
                    None => Opened::TakenUp,
                    Some(why) => {
                        self.link.event(Body::Notice {
                            text: format!(
                                "the agent could not load its conversation {wanted} ({why}): a new one begins, \
                                 and its prompt contains the earlier one"
                            ),
                        })?;
                        self.begin(clock)?;
                        Opened::Forgotten
                    }
                }
            }
            None => {
                self.begin(clock)?;
                Opened::New
            }
        };
        self.choose_model()?;
        self.choose_mode()?;
        Ok(opened)
    }

    fn start(&mut self) -> Result<(), Halt> {
        self.peer.forget();
        self.peer.used_before = self.turn.used;
        let model = self.spec.model_of(self.turn).map(std::ffi::OsStr::new);
        let servers = if self.takes_servers_by_file() {
            mcp_config::write(self.turn)?
        } else {
            None
        };
        let values = [
            ("model", model),
            ("scratch", Some(self.turn.scratch.as_os_str())),
            (SERVERS, servers.as_deref().map(Path::as_os_str)),
        ];
        let mut env = self.spec.variables(self.turn);
        if let Some(settings) = &self.spec.servers_settings {
            env.extend(mcp_config::write_settings(self.turn, settings)?);
        }
        self.link.start(&Program {
            argv: template::fill(&self.spec.argv, &values),
            env,
            stdin: true,
        })?;
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false},
                "terminal": false,
            },
            "clientInfo": {"name": "git-agent", "version": env!("CARGO_PKG_VERSION")},
        });
        let mut hello = self.call("initialize", &params, Some(PATIENCE))?;
        if let Some(version) = hello.get("protocolVersion").and_then(Value::as_u64)
            && version != 1
        {
            let text = format!("the agent uses version {version} of the protocol, not 1");
            return Err(Halt::Trouble(Trouble::new(TroubleKind::Protocol, text)));
        }
        let mut told = |key: &str| hello.get_mut(key).map(Value::take).unwrap_or_default();
        self.peer.capabilities = told("agentCapabilities");
        if let Value::Array(methods) = told("authMethods") {
            self.peer.auth_methods = methods;
        }
        Ok(())
    }

    /// Begins a new conversation.
    fn begin(&mut self, clock: fn() -> SystemTime) -> Result<(), Halt> {
        let made = self.call_authenticated("session/new", &self.place())?;
        self.enter(made, clock)
    }

    /// Enters a conversation that the agent has just made.
    fn enter(&mut self, made: Value, clock: fn() -> SystemTime) -> Result<(), Halt> {
        let Some(id) = made.get("sessionId").map(wire::id_text) else {
            let text = "the agent did not name its new conversation";
            return Err(Halt::Trouble(Trouble::new(TroubleKind::Protocol, text)));
        };
        if id.len() > LONGEST_ID {
            let text = format!(
                "the id of the agent's new conversation is too long ({} bytes)",
                id.len()
            );
            return Err(Halt::Trouble(Trouble::new(TroubleKind::Protocol, text)));
        }
        self.note_minute(&id, clock);
        self.peer.cost_before = self.turn.used.cost_usd.unwrap_or(0.0);
        self.peer.conversation = Some((id.clone(), made));
        self.link.event(Body::Vendor { session: id })?;
        Ok(())
    }

    /// Returns whether the agent announced a capability.
    fn offers(&self, pointer: &str) -> bool {
        self.peer
            .capabilities
            .pointer(pointer)
            .is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
    }

    /// Forks an earlier conversation. Returns the reason if that is not possible.
    fn branch_off(
        &mut self,
        wanted: &str,
        clock: fn() -> SystemTime,
    ) -> Result<Option<String>, Halt> {
        if !self.offers("/sessionCapabilities/fork") {
            return Ok(Some("it cannot fork conversations".to_owned()));
        }
        let mut params = self.place();
        params["sessionId"] = wanted.into();
        self.replaying = true;
        let answer = self.call_authenticated("session/fork", &params);
        if answer.is_ok() {
            self.settle()?;
        }
        self.replaying = false;
        match answer {
            Ok(made) => self.enter(made, clock).map(|()| None),
            Err(Halt::Fault(fault)) if fault.trouble().kind != TroubleKind::Auth => {
                Ok(Some(fault.text()))
            }
            Err(halt) => Err(halt),
        }
    }

    /// Loads an earlier conversation. Returns the reason if that is not possible.
    fn take_up(&mut self, wanted: &str, clock: fn() -> SystemTime) -> Result<Option<String>, Halt> {
        let can_resume = self.offers("/sessionCapabilities/resume");
        let can_load = self.offers("/loadSession");
        let mut params = self.place();
        params["sessionId"] = wanted.into();
        let mut why = "it cannot load conversations".to_owned();
        for (possible, method) in [(can_resume, "session/resume"), (can_load, "session/load")] {
            if !possible {
                continue;
            }
            if method == "session/load" && self.spec.loses_young_conversations {
                self.let_the_minute_pass(wanted, clock)?;
            }
            self.replaying = true;
            let answer = self.call_authenticated(method, &params);
            if answer.is_ok() {
                self.settle()?;
            }
            self.replaying = false;
            match answer {
                Ok(settings) => {
                    self.note_minute(wanted, clock);
                    self.peer.cost_before = 0.0;
                    self.peer.conversation = Some((wanted.to_owned(), settings));
                    return Ok(None);
                }
                Err(Halt::Fault(fault)) if fault.trouble().kind != TroubleKind::Auth => {
                    why = fault.text();
                }
                Err(halt) => return Err(halt),
            }
        }
        Ok(Some(why))
    }

    /// Returns whether the agent gets MCP servers at its start, and not with a conversation.
    fn takes_servers_by_file(&self) -> bool {
        template::has(&self.spec.argv, SERVERS)
    }

    /// Returns the worktree and the offered MCP servers.
    fn place(&self) -> Value {
        let by_file = self.takes_servers_by_file() || self.spec.servers_settings.is_some();
        let servers: Vec<Value> = self
            .turn
            .mcp_servers
            .iter()
            .filter(|_| !by_file)
            .map(|server| {
                let env: Vec<Value> = server
                    .env
                    .iter()
                    .map(|(name, value)| json!({"name": name, "value": value}))
                    .collect();
                json!({
                    "name": server.name,
                    "command": server.command.to_string_lossy(),
                    "args": server.args,
                    "env": env,
                })
            })
            .collect();
        json!({"cwd": self.turn.worktree.to_string_lossy(), "mcpServers": servers})
    }

    /// Sends a request. If the agent demands it, authenticates first with a method that a configured variable enables.
    fn call_authenticated(&mut self, method: &str, params: &Value) -> Result<Value, Halt> {
        let fault = match self.call(method, params, Some(PATIENCE)) {
            Err(Halt::Fault(fault)) if fault.code == wire::AUTH_REQUIRED => fault,
            answer => return answer,
        };
        let way = self.spec.auth_methods.iter().find(|(way, variable)| {
            let offered = |method: &Value| method.get("id").is_some_and(|id| id == way.as_str());
            self.peer.auth_methods.iter().any(offered)
                && self
                    .turn
                    .environment
                    .contains_key(std::ffi::OsStr::new(variable))
        });
        let Some((way, _)) = way else {
            return Err(Halt::Fault(fault));
        };
        self.call("authenticate", &json!({"methodId": way}), Some(PATIENCE))?;
        self.call(method, params, Some(PATIENCE))
    }

    /// Selects the model, if the agent offers a choice.
    fn choose_model(&mut self) -> Result<(), Halt> {
        let Some(wanted) = self.spec.model_of(self.turn).map(ToOwned::to_owned) else {
            return Ok(());
        };
        let by_argument = template::has(&self.spec.argv, "model");
        let Some(menu) = self.menu("model") else {
            if !by_argument {
                self.link.event(Body::Notice {
                    text: format!(
                        "the agent does not let us choose a model; '{wanted}' is not used"
                    ),
                })?;
            }
            return Ok(());
        };
        match menu.find(&wanted) {
            Some(value) if value == menu.current => Ok(()),
            Some(value) => self.set(&menu, &value),
            None if by_argument => Ok(()),
            None => {
                let text = format!(
                    "the agent does not offer model '{wanted}'; it offers {}",
                    menu.listed()
                );
                Err(Halt::Trouble(Trouble::new(TroubleKind::Other, text)))
            }
        }
    }

    /// Selects a read-only mode, if the turn is read-only and the agent has one.
    fn choose_mode(&mut self) -> Result<(), Halt> {
        if !self.turn.read_only {
            return Ok(());
        }
        let Some(menu) = self.menu("mode") else {
            return Ok(());
        };
        let mode = READ_ONLY_MODES.iter().find_map(|mode| menu.exact(mode));
        match mode {
            Some(mode) if mode != menu.current => self.set(&menu, &mode),
            _ => Ok(()),
        }
    }

    fn set(&mut self, menu: &Menu, value: &str) -> Result<(), Halt> {
        let id = self.conversation();
        let (method, params) = match &menu.option {
            Some(option) => (
                "session/set_config_option",
                json!({"sessionId": id, "configId": option, "value": value}),
            ),
            None if menu.about == "model" => (
                "session/set_model",
                json!({"sessionId": id, "modelId": value}),
            ),
            None => (
                "session/set_mode",
                json!({"sessionId": id, "modeId": value}),
            ),
        };
        self.call(method, &params, Some(PATIENCE))?;
        Ok(())
    }

    /// Returns the choice of models or modes in the open conversation.
    fn menu(&self, about: &'static str) -> Option<Menu> {
        let (_, settings) = self.peer.conversation.as_ref()?;
        Menu::from_options(settings, about).or_else(|| Menu::from_list(settings, about))
    }

    /// Waits until the clock minute of a conversation's creation is over, unless it is known to be over.
    fn let_the_minute_pass(
        &mut self,
        conversation: &str,
        clock: fn() -> SystemTime,
    ) -> Result<(), Halt> {
        let now = clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        let known = gemini::noted_minute(&self.turn.scratch, conversation);
        if known.is_some_and(|minute| minute < now.as_secs() / 60) {
            return Ok(());
        }
        let left = Duration::from_secs(61 - now.as_secs() % 60);
        self.link.event(Body::Notice {
            text: format!(
                "waiting {} s before loading the conversation: this agent destroys one that is loaded in the \
                 minute of its creation",
                left.as_secs()
            ),
        })?;
        let until = Instant::now() + left;
        while Instant::now() < until {
            self.wait(Some(until))?;
        }
        Ok(())
    }

    /// Records the minute in which a conversation was made or loaded. If it is unknown, we only wait.
    fn note_minute(&self, conversation: &str, clock: fn() -> SystemTime) {
        if self.spec.loses_young_conversations {
            let minute = clock()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs()
                / 60;
            gemini::note_minute(&self.turn.scratch, conversation, minute);
        }
    }
}

/// A setting of the agent with its choices.
struct Menu {
    about: &'static str,
    /// The id of the config option, if it is one.
    option: Option<Value>,
    current: String,
    /// Values with their names.
    choices: Vec<(String, String)>,
}

impl Menu {
    /// Reads the newer form: config options, by category or by id.
    fn from_options(settings: &Value, about: &'static str) -> Option<Self> {
        let options = settings.get("configOptions")?.as_array()?;
        let by = |key: &'static str| {
            options
                .iter()
                .find(move |option| option.get(key).is_some_and(|value| value == about))
        };
        let option = by("category").or_else(|| by("id"))?;
        let mut choices = Vec::new();
        for choice in option.get("options")?.as_array()? {
            match choice.get("options").and_then(Value::as_array) {
                Some(grouped) => choices.extend(grouped.iter().filter_map(|it| named(it, "value"))),
                None => choices.extend(named(choice, "value")),
            }
        }
        Some(Menu {
            about,
            option: Some(option.get("id")?.clone()),
            current: text(option, "currentValue"),
            choices,
        })
    }

    /// Reads the older form: `models` or `modes`.
    fn from_list(settings: &Value, about: &'static str) -> Option<Self> {
        let (list, all, id, current) = match about {
            "model" => ("models", "availableModels", "modelId", "currentModelId"),
            _ => ("modes", "availableModes", "id", "currentModeId"),
        };
        let list = settings.get(list)?;
        let choices = list.get(all)?.as_array()?;
        Some(Menu {
            about,
            option: None,
            current: text(list, current),
            choices: choices.iter().filter_map(|it| named(it, id)).collect(),
        })
    }

    fn exact(&self, wanted: &str) -> Option<String> {
        let (value, _) = self.choices.iter().find(|(value, _)| value == wanted)?;
        Some(value.clone())
    }

    /// Finds a choice by value, by name, or by a part that only one of them has.
    fn find(&self, wanted: &str) -> Option<String> {
        let lower = wanted.to_lowercase();
        let by_name = || {
            let same = |(_, name): &&(String, String)| name.to_lowercase() == lower;
            Some(self.choices.iter().find(same)?.0.clone())
        };
        let by_part = || {
            let part = |(value, _): &&(String, String)| value.to_lowercase().contains(&lower);
            let mut found = self.choices.iter().filter(part);
            match (found.next(), found.next()) {
                (Some((value, _)), None) => Some(value.clone()),
                _ => None,
            }
        };
        self.exact(wanted).or_else(by_name).or_else(by_part)
    }

    fn listed(&self) -> String {
        const MOST: usize = 12;
        let mut values: Vec<&str> = self
            .choices
            .iter()
            .map(|(value, _)| value.as_str())
            .collect();
        let more = values.len().saturating_sub(MOST);
        values.truncate(MOST);
        match (values.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => values.join(", "),
            (false, more) => format!("{} and {more} more", values.join(", ")),
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn named(choice: &Value, id: &str) -> Option<(String, String)> {
    let value = choice.get(id)?.as_str()?.to_owned();
    Some((value, text(choice, "name")))
}
