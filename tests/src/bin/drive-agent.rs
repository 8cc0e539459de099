//! Drives an agent without a session around it, and prints what a session would record, one JSON line an event.
//!
//!     drive-agent --agent NAME [options] PROMPT…
//!
//! Every prompt is one turn. Options: `--command WORDS` (the agent's own is replaced), `--driver FAMILY`, `--env NAME[=VALUE]` (several),
//! `--auth METHOD=VARIABLE`, `--mcp NAME=COMMAND`, `--model M`, `--ask`, `--read-only`, `--answer CHOICE` (given to every request), `--cancel-after MS`, `--resume ID`,
//! `--restart` (ends the process between turns), `--worktree DIR`, `--scratch DIR`, `--session ID`, `--record FILE`.
//!
//! The last line of each turn is the claim.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use git_agent::agent::catalog::registry::{self, AgentEntry};
use git_agent::agent::driver::{Input, Link, McpServer, Turn, TurnClaim};
use git_agent::model::event::Body;
use git_agent::model::event_words::ErrorKind;
use git_agent::model::session::Usage;
use git_agent_tests::link::ProcessLink;
use serde_json::json;

/// What every program may need; the rest is what the agent says it needs.
const COMMON: [&str; 6] = ["HOME", "PATH", "LANG", "TERM", "TMPDIR", "TZ"];

#[derive(Default)]
struct Options {
    entry: AgentEntry,
    auth: Vec<(String, String)>,
    servers: Vec<McpServer>,
    model: Option<String>,
    ask: bool,
    read_only: bool,
    answer: Option<String>,
    cancel_after: Option<u64>,
    resume: Option<String>,
    restart: bool,
    worktree: PathBuf,
    scratch: PathBuf,
    session: String,
    record: Option<PathBuf>,
    prompts: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        worktree: std::env::current_dir().expect("there is a directory"),
        scratch: std::env::temp_dir(),
        session: format!("drive-{}", std::process::id()),
        ..Options::default()
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value");
        match word.as_str() {
            "--agent" => options.entry.name = value(),
            "--command" => options.entry.command = Some(value()),
            "--driver" => options.entry.driver = Some(value()),
            "--env" => options.entry.env.push(value()),
            "--auth" => options.auth.push(pair(&value())),
            "--mcp" => {
                let (name, command) = pair(&value());
                options.servers.push(McpServer {
                    name,
                    command: command.into(),
                    args: vec!["--stdio".to_owned()],
                    env: vec![("A".to_owned(), "b".to_owned())],
                });
            }
            "--model" => options.model = Some(value()),
            "--ask" => options.ask = true,
            "--read-only" => options.read_only = true,
            "--answer" => options.answer = Some(value()),
            "--cancel-after" => options.cancel_after = value().parse().ok(),
            "--resume" => options.resume = Some(value()),
            "--restart" => options.restart = true,
            "--worktree" => options.worktree = value().into(),
            "--scratch" => options.scratch = value().into(),
            "--session" => options.session = value(),
            "--record" => options.record = Some(value().into()),
            _ => options.prompts.push(word),
        }
    }
    options
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').expect("a pair");
    (name.to_owned(), value.to_owned())
}

fn main() -> ExitCode {
    let options = options();
    let mut spec =
        match registry::require(&options.entry.name, std::slice::from_ref(&options.entry)) {
            Ok(spec) => spec,
            Err(error) => {
                writeln!(io::stderr(), "{error}").ok();
                return ExitCode::from(129);
            }
        };
    spec.auth_methods.extend(options.auth.iter().cloned());
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| COMMON.contains(&name) || spec.needs_variable(name))
        })
        .collect();
    let mut link = ProcessLink::new(&options.worktree, environment.clone());
    link.recording = options.record.as_ref().map(|path| {
        let mut file = File::create(path).expect("the recording can be made");
        writeln!(file, "# {}", header(&options)).expect("the recording is writable");
        file
    });
    let (answers, answer) = (link.sender(), options.answer.clone());
    link.on_event = Some(Box::new(move |body| {
        print(&serde_json::to_value(body).expect("plain data"));
        if let (Body::Permission { request, .. }, Some(choice)) = (body, &answer) {
            let (request, choice) = (request.clone(), choice.clone());
            answers.send(Input::Answer { request, choice }).ok();
        }
    }));
    let mut driver = spec.driver();
    let mut all_well = true;
    let (mut resume, mut used) = (options.resume.clone(), Usage::default());
    for (index, prompt) in options.prompts.iter().enumerate() {
        let turn = Turn {
            session: options.session.clone(),
            prompt: prompt.clone(),
            number: u32::try_from(index + 1).expect("few prompts"),
            resume: resume.clone(),
            worktree: options.worktree.clone(),
            scratch: options.scratch.clone(),
            model: options.model.clone(),
            ask: options.ask,
            read_only: options.read_only,
            mcp_servers: options.servers.clone(),
            environment: environment.clone(),
            used,
            ..Turn::default()
        };
        if let (Some(after), 0) = (options.cancel_after, index) {
            let sender = link.sender();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(after));
                sender.send(Input::Cancel).ok();
            });
        }
        let claim = match driver.turn(&turn, &mut link) {
            Ok(claim) => claim,
            Err(error) => {
                writeln!(io::stderr(), "{error}").ok();
                return ExitCode::from(128);
            }
        };
        print_claim(&claim);
        all_well &= claim.ok;
        for event in &link.events {
            match event {
                Body::Vendor { session } => resume = Some(session.clone()),
                Body::Usage { usage } => used = *usage,
                _ => {}
            }
        }
        if options.restart && link.is_running() {
            link.end().expect("it can be ended");
        }
    }
    driver.close(&mut link).expect("it can be closed");
    if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns what a replay must know.
fn header(options: &Options) -> serde_json::Value {
    json!({
        "agent": options.entry.name,
        "command": options.entry.command,
        "driver": options.entry.driver,
        "session": options.session,
        "model": options.model,
        "ask": options.ask,
        "read_only": options.read_only,
        "resume": options.resume,
        "restart": options.restart,
        "prompts": options.prompts,
        "auth": options.auth,
        "mcp": options
            .servers
            .iter()
            .map(|server| (&server.name, &server.command))
            .collect::<Vec<_>>(),
    })
}

fn print_claim(claim: &TurnClaim) {
    let trouble = claim
        .trouble
        .as_ref()
        .map(|trouble| json!({"kind": ErrorKind::from(trouble.kind), "text": trouble.text, "retry_after": trouble.retry_after}));
    print(&json!({"claim": {
        "ok": claim.ok,
        "cancelled": claim.cancelled,
        "trouble": trouble,
        "final_text": claim.final_text,
        "exit": claim.exit,
    }}));
}

fn print(value: &serde_json::Value) {
    writeln!(io::stdout(), "{value}").ok();
}
