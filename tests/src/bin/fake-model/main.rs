//! A model server on loopback for real agents: it does what the prompt tells it, so any number of them can use one at once.
//!
//!     fake-model [--port N] [--port-file FILE] [--log FILE]
//!
//! It speaks the chat completions and responses of OpenAI, the messages of Anthropic, the contents of Gemini and the chat of
//! Ollama, streamed and whole. What stands in double brackets in the user's prompt is the script of the turn:
//!
//! | words | does |
//! |---|---|
//! | `[[write FILE: TEXT]]`, `[[bash: COMMAND]]` | has the agent write a file, run a command; one request each, in this order |
//! | `[[call TOOL JSON]]` | calls a tool with these arguments, which may be broken |
//! | `[[say: TEXT]]` | ends the turn with this text, `{turn}` filled in; otherwise with `Done. turn=N calls=M` |
//! | `[[http CODE]]`, `[[http CODE xN]]`, `[[http CODE after N]]` | answers with a status: always, or the first N requests of this prompt, or all others |
//! | `[[slow SECONDS]]` | waits in the middle of the stream |
//! | `[[break cut]]`, `[[break garbled]]`, `[[break long]]` | breaks the stream off in the middle, puts a line into it that is not JSON, or one of 50 MB |
//! | `[[usage IN OUT]]` | counts so many tokens a request, 1000 and 20 otherwise |
//!
//! `turn=N` counts the scripted prompts that the model was shown: `turn=2` proves that a conversation went on. The key
//! `bad-key` is refused.

mod ask;
mod reply;
mod script;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

use ask::{Ask, Form};
use reply::Frame;

/// What all connections share.
#[derive(Default)]
struct Shared {
    /// How often each prompt was asked.
    asked: HashMap<String, u32>,
    log: Option<File>,
}

static SHARED: OnceLock<Mutex<Shared>> = OnceLock::new();

fn shared<T>(with: impl FnOnce(&mut Shared) -> T) -> T {
    let lock = SHARED.get_or_init(Mutex::default);
    with(&mut lock.lock().expect("nobody panics here"))
}

fn log(entry: &Value) {
    shared(|shared| {
        if let Some(file) = &mut shared.log {
            writeln!(file, "{entry}").ok();
        }
    });
}

fn main() -> io::Result<()> {
    let (mut port, mut port_file) = (0, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().expect("every option has a value");
        match word.as_str() {
            "--port" => port = value.parse().expect("a port"),
            "--port-file" => port_file = Some(value),
            "--log" => {
                let file = OpenOptions::new().create(true).append(true).open(value)?;
                shared(|shared| shared.log = Some(file));
            }
            other => panic!("unknown option '{other}'"),
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    if let Some(file) = port_file {
        // Whoever waits for the file must not find it empty.
        std::fs::write(format!("{file}.tmp"), port.to_string())?;
        std::fs::rename(format!("{file}.tmp"), file)?;
    }
    writeln!(io::stderr(), "http://127.0.0.1:{port}").ok();
    for connection in listener.incoming() {
        let connection = connection?;
        std::thread::spawn(move || {
            // A client that hangs up is part of the tests.
            let _ = serve(&connection);
        });
    }
    Ok(())
}

/// One request as it came.
struct Request {
    method: String,
    path: String,
    key: String,
    body: Vec<u8>,
}

fn read_request(reader: &mut impl BufRead, out: &mut impl Write) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
    if header("expect") == "100-continue" {
        out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if header("transfer-encoding").contains("chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).unwrap_or(0);
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else {
        let length = header("content-length").parse().unwrap_or(0);
        reader.by_ref().take(length).read_to_end(&mut body)?;
    }
    let key = [
        header("x-api-key"),
        header("x-goog-api-key"),
        header("authorization").trim_start_matches("Bearer "),
    ];
    let key = key
        .into_iter()
        .find(|key| !key.is_empty())
        .unwrap_or_default();
    Ok(Some(Request {
        method,
        key: key.to_owned(),
        path: path.split('?').next().unwrap_or_default().to_owned(),
        body,
    }))
}

fn serve(connection: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut out = connection;
    let Some(request) = read_request(&mut reader, &mut out)? else {
        return Ok(());
    };
    if request.path.ends_with("/api/show") {
        let shown = json!({"model_info": {"fake.context_length": 32_768}, "capabilities": ["completion", "tools"]});
        return send(&mut out, 200, &shown);
    }
    if request.method != "POST" {
        log(&json!({"get": request.path}));
        if request.path.ends_with("/api/tags") {
            let models = json!({"models": [{"name": "fake-model", "size": 1}]});
            return send(&mut out, 200, &models);
        }
        return if request.path.trim_end_matches('/').ends_with("/models") {
            send(&mut out, 200, &models())
        } else {
            send(
                &mut out,
                404,
                &json!({"error": {"message": "no such place"}}),
            )
        };
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if request.path.ends_with("/count_tokens") || request.path.ends_with(":countTokens") {
        return send(
            &mut out,
            200,
            &json!({"input_tokens": 1000, "totalTokens": 1000}),
        );
    }
    let Some(ask) = Ask::read(&request.path, &body) else {
        log(&json!({"unknown": request.path}));
        return send(
            &mut out,
            404,
            &json!({"error": {"message": "no such place"}}),
        );
    };
    let plan = script::plan(&ask, |prompt| {
        shared(|shared| {
            let count = shared.asked.entry(prompt.to_owned()).or_default();
            *count += 1;
            *count
        })
    });
    let status = if request.key == "bad-key" {
        401
    } else {
        plan.status
    };
    let tools: Vec<&str> = ask.tools.iter().map(|tool| tool.name.as_str()).collect();
    log(
        &json!({"path": request.path, "turn": plan.turn, "calls": plan.calls, "status": status, "text": plan.text,
        "call": plan.call.as_ref().map(|call| json!([call.name, call.input])), "tools": tools}),
    );
    if status != 200 {
        return send(&mut out, status, &refusal(ask.form, status));
    }
    let pause = Duration::from_secs_f64(plan.slow);
    if !ask.stream {
        std::thread::sleep(pause);
        return send(&mut out, 200, &reply::whole(&ask, &plan));
    }
    out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n")?;
    for frame in reply::streamed(&ask, &plan) {
        match frame {
            Frame::Pause => {
                out.flush()?;
                std::thread::sleep(pause);
                match plan.broken.as_str() {
                    "cut" => return Ok(()),
                    "garbled" => out.write_all(b"data: {\"choices\": [\n\n\xff\xfe\n\n")?,
                    "long" => {
                        out.write_all(b"data: {\"x\":\"")?;
                        (0..50).try_for_each(|_| out.write_all(&[b'x'; 1 << 20]))?;
                        out.write_all(b"\"}\n\n")?;
                    }
                    _ => {}
                }
            }
            Frame::Event(_, data) if ask.form == Form::Ollama => {
                writeln!(out, "{data}")?;
                out.flush()?;
            }
            Frame::Event(name, data) => {
                if let Some(name) = name {
                    writeln!(out, "event: {name}")?;
                }
                write!(out, "data: {data}\n\n")?;
                out.flush()?;
            }
        }
    }
    Ok(())
}

fn refusal(form: Form, status: u16) -> Value {
    let (kind, word) = match status {
        401 => ("authentication_error", "UNAUTHENTICATED"),
        429 => ("rate_limit_error", "RESOURCE_EXHAUSTED"),
        413 => ("context_length_exceeded", "INVALID_ARGUMENT"),
        _ => ("api_error", "INTERNAL"),
    };
    let message = match status {
        413 => "scripted HTTP 413: prompt is too long for the context window".to_owned(),
        _ => format!("scripted HTTP {status}"),
    };
    let error = match form {
        Form::Gemini => json!({"code": status, "message": message, "status": word}),
        _ => json!({"type": kind, "code": kind, "message": message}),
    };
    json!({"type": "error", "error": error})
}

fn models() -> Value {
    let names = ["fake-model", "claude-sonnet-4-5", "gpt-5", "gemini-2.5-pro"];
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "type": "model", "owned_by": "fake", "created": 1_700_000_000,
            "display_name": name, "created_at": "2025-01-01T00:00:00Z"}))
        .collect();
    let named: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({"name": format!("models/{name}"), "displayName": name,
            "supportedGenerationMethods": ["generateContent"]})
        })
        .collect();
    json!({"object": "list", "has_more": false, "data": data, "models": named})
}

fn send(out: &mut impl Write, status: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let wait = if status == 429 {
        "Retry-After: 1\r\n"
    } else {
        ""
    };
    write!(
        out,
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{wait}Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    out.flush()
}
