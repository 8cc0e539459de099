//! Whole turns against scripted agents: checks the messages to them, the events and the claims.

mod handshake;
mod requests;
mod turns;

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::agent::acp::*;
use crate::agent::driver::{Family, McpServer};
use crate::agent::tests::script::{Script, Step, exited, stdout};
use crate::model::session::Exit;

fn spec() -> AgentSpec {
    AgentSpec::new("x", Family::Acp, vec!["sh".into(), "--acp".into()])
}

fn turn(number: u32, resume: Option<&str>) -> Turn {
    Turn {
        session: "s".into(),
        prompt: "do it".into(),
        number,
        resume: resume.map(ToOwned::to_owned),
        worktree: "/w".into(),
        scratch: "/nonexistent".into(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        ..Turn::default()
    }
}

/// A script in the notation of the tests: `>` must have been written, `<` is the agent's output.
#[derive(Default)]
struct Play(Script);

impl Play {
    fn wrote(mut self, message: Value) -> Self {
        let mut message = message;
        message["jsonrpc"] = "2.0".into();
        self.0.steps.push_back(Step::Wrote(message.to_string()));
        self
    }

    fn gives(mut self, message: Value) -> Self {
        self.0.push(stdout(message.to_string()));
        self
    }

    fn line(mut self, line: &str) -> Self {
        self.0.push(stdout(line));
        self
    }

    fn input(mut self, input: Input) -> Self {
        self.0.push(input);
        self
    }

    fn update(self, update: Value) -> Self {
        self.gives(
            json!({"method": "session/update", "params": {"sessionId": "c1", "update": update}}),
        )
    }

    fn says(self, text: &str) -> Self {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    }

    /// The handshake, and the answer to it.
    fn hello(self, capabilities: Value) -> Self {
        self.wrote(json!({"id": 1, "method": "initialize", "params": {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "git-agent", "version": env!("CARGO_PKG_VERSION")}}}))
            .gives(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
                "authMethods": [{"id": "key", "name": "API key"}]}}))
    }

    /// A new conversation `c1`, opened by request 2, and the prompt as request 3.
    fn opened(self, settings: Value) -> Self {
        let mut result = settings;
        result["sessionId"] = "c1".into();
        self.hello(json!({"loadSession": true}))
            .wrote(json!({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}))
            .gives(json!({"id": 2, "result": result}))
    }

    fn prompted(self, id: u64) -> Self {
        self.wrote(json!({"id": id, "method": "session/prompt", "params":
            {"sessionId": "c1", "prompt": [{"type": "text", "text": "do it"}]}}))
    }

    fn ends(self, id: u64, reason: &str) -> Self {
        self.gives(json!({"id": id, "result": {"stopReason": reason}}))
    }

    fn run(mut self, driver: &mut Acp, turn: &Turn) -> (TurnClaim, Script) {
        let claim = driver.turn(turn, &mut self.0).expect("a claim");
        let left: Vec<&Step> = self
            .0
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Wrote(_)))
            .collect();
        assert!(left.is_empty(), "never written: {left:?}");
        (claim, self.0)
    }
}

fn ask_permission(id: Value) -> Value {
    json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "c1",
        "toolCall": {"toolCallId": "t1", "title": "rm -r", "kind": "execute"},
        "options": [{"optionId": "once", "name": "Once", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"}]}})
}
