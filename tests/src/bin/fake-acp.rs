//! An agent that speaks the Agent Client Protocol and does exactly what a test tells it, misbehaviour included.
//!
//! Conversations are kept in the directory given by `--store` (or `$FAKE_ACP_STORE`), so that one can be loaded after a
//! restart. A prompt is a script, one step a line; lines that are no step are only words. After the steps it says
//! `Done. turn=N`, where N counts the prompts of the conversation.
//!
//! | step | does |
//! |---|---|
//! | `say TEXT`, `think TEXT`, `stream N MS TEXT` | speaks; thinks aloud; speaks N times, MS milliseconds apart |
//! | `write FILE TEXT`, `bash COMMAND` | really writes a file; really runs a command in a session of its own; both told as tool calls |
//! | `ask TITLE`, `asks TITLE, TITLE` | asks for permission to run TITLE and says what was answered; asks for all of them at once; with `edit FILE` as TITLE to change it, with the change and the option for ever first |
//! | `plan DONE TOTAL`, `usage TOKENS COST` | tells its plan; tells what it used |
//! | `odd` | an update before its call, an unknown update, an unknown notification and an unknown request |
//! | `garbage`, `big N` | prints lines that are no messages; a message of N bytes |
//! | `late TEXT` | speaks after it said that the turn was over |
//! | `sleep MS`, `hang`, `deaf` | waits (a cancel ends it); waits for ever; waits for ever and ignores cancelling |
//! | `error CODE TEXT`, `stop REASON` | refuses the prompt; ends the turn for a reason |
//! | `fails N CODE TEXT` | refuses the prompt the first N times it is heard of by anyone with this store, then goes on |
//! | `crash N`, `abort`, `eof` | exits with a code in the middle; dies by a signal; closes its output and stays |
//!
//! Options: `--no-load`, `--resume` (offers it), `--need-auth VARIABLE`, `--models A,B`, `--modes`, `--config-options` (the same
//! choices in the newer form), `--string-ids`, `--silent METHOD`
//! (never answers it), `--version N` (of the protocol), `--banner TEXT` (printed first).

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use git_agent_tests::asking;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let options = Options::parse(std::env::args().skip(1));
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if let Ok(message) = serde_json::from_str::<Value>(&line)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    if let Some(banner) = &options.banner {
        print(banner);
    }
    Agent {
        options,
        messages,
        waiting: VecDeque::new(),
        authenticated: false,
        cwd: PathBuf::new(),
        asked: 0,
        called: 0,
    }
    .serve()
}

#[derive(Default)]
struct Options {
    store: PathBuf,
    no_load: bool,
    resume: bool,
    need_auth: Option<String>,
    models: Vec<String>,
    modes: bool,
    config_options: bool,
    string_ids: bool,
    silent: Option<String>,
    version: u64,
    banner: Option<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let store = std::env::var_os("FAKE_ACP_STORE").unwrap_or_else(|| ".".into());
        let mut options = Options {
            store: store.into(),
            version: 1,
            ..Options::default()
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("the option has a value");
            match word.as_str() {
                "--store" => options.store = value().into(),
                "--no-load" => options.no_load = true,
                "--resume" => options.resume = true,
                "--need-auth" => options.need_auth = Some(value()),
                "--models" => options.models = value().split(',').map(str::to_owned).collect(),
                "--modes" => options.modes = true,
                "--config-options" => options.config_options = true,
                "--string-ids" => options.string_ids = true,
                "--silent" => options.silent = Some(value()),
                "--version" => options.version = value().parse().expect("a number"),
                "--banner" => options.banner = Some(value()),
                other => panic!("unknown option {other}"),
            }
        }
        options
    }
}

struct Agent {
    options: Options,
    messages: Receiver<Value>,
    /// Messages that came while something else was waited for.
    waiting: VecDeque<Value>,
    authenticated: bool,
    cwd: PathBuf,
    asked: u64,
    called: u64,
}

/// How a turn ends.
enum End {
    Reason(&'static str),
    Other(String),
    Error(i64, String),
    Exit(u8),
}

impl Agent {
    fn serve(mut self) -> ExitCode {
        loop {
            let message = match self.waiting.pop_front() {
                Some(message) => message,
                None => match self.messages.recv() {
                    Ok(message) => message,
                    Err(_) => return ExitCode::SUCCESS,
                },
            };
            let (Some(method), id) = (message["method"].as_str(), &message["id"]) else {
                continue;
            };
            if id.is_null() || self.options.silent.as_deref() == Some(method) {
                continue;
            }
            let params = &message["params"];
            match method {
                "initialize" => self.answer(id, self.hello()),
                "authenticate" => {
                    self.authenticated = true;
                    self.answer(id, json!({}));
                }
                "session/new" | "session/load" | "session/resume" => self.open(method, id, params),
                "session/set_model" | "session/set_mode" | "session/set_config_option" => {
                    self.answer(id, json!({}))
                }
                "session/prompt" => match self.turn(id, params) {
                    Some(code) => return ExitCode::from(code),
                    None => continue,
                },
                _ => self.refuse(id, -32601, "Method not found"),
            }
        }
    }

    fn hello(&self) -> Value {
        let mut capabilities =
            json!({"loadSession": !self.options.no_load, "promptCapabilities": {}});
        if self.options.resume {
            capabilities["sessionCapabilities"] = json!({"resume": {}});
        }
        json!({
            "protocolVersion": self.options.version,
            "agentCapabilities": capabilities,
            "authMethods": [{"id": "key", "name": "API key"}],
            "agentInfo": {"name": "fake-acp", "version": "1"},
        })
    }

    fn open(&mut self, method: &str, id: &Value, params: &Value) {
        fs::create_dir_all(&self.options.store).expect("the store can be made");
        if let Some(variable) = &self.options.need_auth
            && !(self.authenticated && std::env::var_os(variable).is_some())
        {
            return self.refuse(id, -32000, "Authentication required");
        }
        self.cwd = params["cwd"].as_str().expect("a directory").into();
        assert!(self.cwd.is_absolute() && params["mcpServers"].is_array());
        let opened = self.options.store.join("opened.json");
        fs::write(opened, params.to_string()).expect("the store is writable");
        let mut result = json!({});
        if !self.options.models.is_empty() {
            let models: Vec<Value> = self
                .options
                .models
                .iter()
                .map(|model| json!({"modelId": model, "name": model}))
                .collect();
            result["models"] =
                json!({"currentModelId": self.options.models[0], "availableModels": models});
        }
        if self.options.modes {
            result["modes"] = json!({"currentModeId": "code", "availableModes": [
                {"id": "code", "name": "Code"}, {"id": "plan", "name": "Plan"}]});
        }
        if self.options.config_options {
            result["configOptions"] = json!([{"id": "model", "name": "Model", "category": "model", "type": "select",
                "currentValue": "one", "options": [{"value": "one", "name": "One"}, {"value": "two", "name": "Two"}]}]);
        }
        if method == "session/new" {
            let session = self.create();
            result["sessionId"] = session.into();
            return self.answer(id, result);
        }
        let session = params["sessionId"].as_str().expect("a conversation");
        let Some(prompts) = self.load(session) else {
            return self.refuse(id, -32002, "Resource not found");
        };
        if method == "session/load" {
            for (index, prompt) in prompts.iter().enumerate() {
                self.update(session, chunk("user_message_chunk", prompt));
                let said = format!("Done. turn={}", index + 1);
                self.update(session, chunk("agent_message_chunk", &said));
            }
        }
        self.answer(id, result);
    }

    fn create(&self) -> String {
        for number in 0.. {
            let session = format!("fake-{}-{number}", std::process::id());
            let file = self.file(&session);
            if fs::File::create_new(file).is_ok() {
                return session;
            }
        }
        unreachable!("some number is free")
    }

    fn file(&self, session: &str) -> PathBuf {
        self.options.store.join(format!("{session}.jsonl"))
    }

    fn load(&self, session: &str) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.file(session)).ok()?;
        let prompts = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("our own line"));
        Some(prompts.collect())
    }

    /// Runs one turn; returns a code when the process must end.
    fn turn(&mut self, id: &Value, params: &Value) -> Option<u8> {
        let session = params["sessionId"]
            .as_str()
            .expect("a conversation")
            .to_owned();
        let prompt = params["prompt"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(self.file(&session))
            .expect("the conversation exists");
        writeln!(file, "{}", json!(prompt)).expect("the store is writable");
        let mut end = End::Reason("end_turn");
        let mut late = Vec::new();
        for line in prompt.lines() {
            let (step, rest) = line
                .trim_start()
                .split_once(' ')
                .unwrap_or((line.trim(), ""));
            if step == "late" {
                late.push(rest.to_owned());
                continue;
            }
            if let Some(early) = self.step(&session, step, rest) {
                end = early;
                break;
            }
        }
        match end {
            End::Exit(code) => return Some(code),
            End::Error(code, text) => self.refuse(id, code, &text),
            End::Other(reason) => self.answer(id, json!({"stopReason": reason})),
            End::Reason(reason) => {
                if reason == "end_turn" {
                    let turns = self.load(&session).map_or(0, |prompts| prompts.len());
                    self.say(&session, &format!("Done. turn={turns}"));
                }
                let usage = json!({"inputTokens": 100, "outputTokens": 7, "totalTokens": 107});
                self.answer(id, json!({"stopReason": reason, "usage": usage}));
            }
        }
        for text in late {
            self.say(&session, &text);
        }
        None
    }

    fn step(&mut self, session: &str, step: &str, rest: &str) -> Option<End> {
        match step {
            "say" => self.say(session, rest),
            "think" => self.update(session, chunk("agent_thought_chunk", rest)),
            "stream" => {
                let mut words = rest.splitn(3, ' ');
                let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
                let (count, pause) = (number().unwrap_or(1), number().unwrap_or(0));
                let text = words.next().unwrap_or("word ").to_owned();
                for _ in 0..count {
                    self.say(session, &text);
                    if self.cancelled(Duration::from_millis(pause)) {
                        return Some(End::Reason("cancelled"));
                    }
                }
            }
            "write" => {
                let (file, text) = rest.split_once(' ').unwrap_or((rest, ""));
                return self.write(session, file, text);
            }
            "bash" => return self.bash(session, rest),
            "ask" => return self.ask(session, &[rest]),
            "asks" => return self.ask(session, &rest.split(", ").collect::<Vec<_>>()),
            "plan" => {
                let (done, total) = rest.split_once(' ').unwrap_or((rest, rest));
                let done: usize = done.parse().unwrap_or(0);
                let entries: Vec<Value> = (0..total.parse().unwrap_or(0))
                    .map(|index| {
                        let status = if index < done { "completed" } else { "pending" };
                        json!({"content": format!("step {index}"), "priority": "medium", "status": status})
                    })
                    .collect();
                self.update(
                    session,
                    json!({"sessionUpdate": "plan", "entries": entries}),
                );
            }
            "usage" => {
                let (used, cost) = rest.split_once(' ').unwrap_or((rest, "0"));
                let (used, cost): (u64, f64) =
                    (used.parse().unwrap_or(0), cost.parse().unwrap_or(0.0));
                self.update(
                    session,
                    json!({"sessionUpdate": "usage_update", "used": used, "size": 100_000,
                        "cost": {"amount": cost, "currency": "USD"}}),
                );
            }
            "odd" => self.odd(session),
            "garbage" => {
                print("not JSON at all \u{1b}[31m");
                print("{\"jsonrpc\":\"2.0\",\"method\":\"session/upd");
                print("[1,2,3]");
                print("");
            }
            "big" => self.say(session, &"x".repeat(rest.parse().unwrap_or(1))),
            "sleep" => {
                let time = Duration::from_millis(rest.parse().unwrap_or(0));
                if self.cancelled(time) {
                    return Some(End::Reason("cancelled"));
                }
            }
            "hang" => {
                while !self.cancelled(Duration::from_secs(3600)) {}
                return Some(End::Reason("cancelled"));
            }
            "deaf" => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            "error" => {
                let (code, text) = rest.split_once(' ').unwrap_or((rest, "failed"));
                return Some(End::Error(code.parse().unwrap_or(-32603), text.to_owned()));
            }
            "fails" => {
                let mut words = rest.splitn(3, ' ');
                let times: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
                let code = words
                    .next()
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(-32603);
                let text = words.next().unwrap_or("failed").to_owned();
                let count = self.options.store.join("fails");
                let before = fs::read(&count).map_or(0, |bytes| bytes.len());
                if before < times {
                    fs::write(&count, vec![b'x'; before + 1]).expect("the store is writable");
                    return Some(End::Error(code, text));
                }
            }
            "stop" => return Some(End::Other(rest.to_owned())),
            "crash" => return Some(End::Exit(rest.parse().unwrap_or(1))),
            "abort" => std::process::abort(),
            "eof" => {
                // Whoever reads our output sees its end, and we are still here.
                rustix::stdio::dup2_stdout(fs::File::open("/dev/null").expect("it exists"))
                    .expect("the output can be replaced");
                loop {
                    std::thread::sleep(Duration::from_secs(3600));
                }
            }
            _ => {}
        }
        None
    }

    fn write(&mut self, session: &str, file: &str, text: &str) -> Option<End> {
        let path = self.cwd.join(file);
        let old = fs::read_to_string(&path).ok();
        let call = self.call(
            session,
            "write",
            "edit",
            json!({"path": path, "content": text}),
        );
        let result = fs::write(&path, format!("{text}\n"));
        let status = if result.is_ok() {
            "completed"
        } else {
            "failed"
        };
        let diff =
            json!({"type": "diff", "path": path, "oldText": old, "newText": format!("{text}\n")});
        self.update(
            session,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": [diff]}),
        );
        None
    }

    fn bash(&mut self, session: &str, command: &str) -> Option<End> {
        let call = self.call(session, command, "execute", json!({"command": command}));
        let mut child = Command::new("sh");
        child
            .args(["-c", command])
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        // As real agents do: their tools are out of reach of a signal to the group.
        child.process_group(0);
        let mut child = child.spawn().expect("sh can be started");
        while child.try_wait().expect("it is our child").is_none() {
            if self.cancelled(Duration::from_millis(10)) {
                child.kill().ok();
                child.wait().ok();
                return Some(End::Reason("cancelled"));
            }
        }
        let output = child.wait_with_output().expect("it has ended");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = if output.status.success() {
            "completed"
        } else {
            "failed"
        };
        self.update(
            session,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": text}}],
                "rawOutput": {"exitCode": output.status.code()}}),
        );
        None
    }

    fn ask(&mut self, session: &str, titles: &[&str]) -> Option<End> {
        let mut open = Vec::new();
        for title in titles {
            let call = self.call(session, title, "execute", json!({"command": title}));
            let id = self.next_id();
            send(&asking::permission(&id, session, &call, title));
            open.push((id, call));
        }
        while !open.is_empty() {
            let Ok(message) = self.messages.recv() else {
                return Some(End::Exit(0));
            };
            if let Some(at) = open.iter().position(|(id, _)| message["id"] == *id) {
                let (_, call) = open.remove(at);
                let outcome = &message["result"]["outcome"];
                let chosen = outcome["optionId"].as_str().unwrap_or("nothing").to_owned();
                let status = if chosen == "no" || chosen == "nothing" {
                    "failed"
                } else {
                    "completed"
                };
                self.update(
                    session,
                    json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}),
                );
                if outcome["outcome"] == "cancelled" {
                    return Some(End::Reason("cancelled"));
                }
                self.say(session, &format!("answer={chosen} "));
                continue;
            }
            if message["method"] == "session/cancel" {
                return Some(End::Reason("cancelled"));
            }
            self.waiting.push_back(message);
        }
        None
    }

    fn odd(&mut self, session: &str) {
        self.update(
            session,
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "early", "status": "completed", "rawOutput": "early result"}),
        );
        self.update(
            session,
            json!({"sessionUpdate": "tool_call", "toolCallId": "early", "title": "early call", "kind": "search"}),
        );
        self.update(
            session,
            json!({"sessionUpdate": "from_the_future", "payload": [1, {"a": null}]}),
        );
        send(&json!({"jsonrpc": "2.0", "method": "_fake/hello", "params": {"who": "me"}}));
        send(
            &json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "fake/unknown", "params": {}}),
        );
    }

    fn call(&mut self, session: &str, title: &str, kind: &str, input: Value) -> String {
        self.called += 1;
        let call = format!("call-{}", self.called);
        self.update(
            session,
            json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": title, "kind": kind,
                "status": "pending", "rawInput": input}),
        );
        call
    }

    /// Waits; returns whether the turn was cancelled meanwhile.
    fn cancelled(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self
                .messages
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(message) if message["method"] == "session/cancel" => return true,
                Ok(message) => self.waiting.push_back(message),
                Err(RecvTimeoutError::Timeout) => return false,
                // Nobody is left to work for.
                Err(RecvTimeoutError::Disconnected) => std::process::exit(0),
            }
        }
    }

    fn next_id(&mut self) -> Value {
        self.asked += 1;
        if self.options.string_ids {
            json!(format!("ask-{}", self.asked))
        } else {
            json!(self.asked)
        }
    }

    fn say(&self, session: &str, text: &str) {
        self.update(session, chunk("agent_message_chunk", text));
    }

    fn update(&self, session: &str, update: Value) {
        send(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}),
        );
    }

    fn answer(&self, id: &Value, result: Value) {
        send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn send(message: &Value) {
    print(&message.to_string());
}

fn print(line: &str) {
    let mut out = io::stdout().lock();
    // A reader that has gone is noticed as the end of our input.
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
