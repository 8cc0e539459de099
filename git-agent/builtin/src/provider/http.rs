//! Sends a request and passes its answer on line by line, from a thread of its own: a turn that is cancelled must not
//! wait for a silent server.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::provider::failure::Failure;
use crate::provider::{Dialect, Model};

/// The longest line of a stream. A longer one is not a message.
const LONGEST_LINE: u64 = 8 << 20;
/// The longest body of a refusal or a list that is read.
const LONGEST_BODY: u64 = 1 << 20;
/// How long a server may be silent. A local model may have to be loaded first.
const SILENCE: Duration = Duration::from_secs(600);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a list of models may take.
const QUICK: Duration = Duration::from_secs(5);

/// One step of an answer.
#[derive(Debug)]
pub enum Answer {
    /// One event of the stream.
    Event(Value),
    /// The stream ended.
    End,
    /// It failed.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// Returns a client for a server. It follows no redirects: a key goes to the configured host only.
pub fn client(base: &str) -> Result<Client, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("git-agent-builtin/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(CONNECT)
        .timeout(SILENCE);
    if is_local(base) {
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| Failure::new(format!("cannot make a client: {}", chain(&error))))
}

/// Returns whether an address is on this machine.
pub fn is_local(base: &str) -> bool {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

/// Sends a request in a thread. `tell` gets the answer step by step and returns whether more is wanted.
pub fn post(
    client: &Client,
    model: &Model,
    (url, body): (String, Value),
    tell: impl Fn(Answer) -> bool + Send + 'static,
) {
    let mut request = client.post(url).header("content-type", "application/json");
    for (name, value) in model.headers() {
        request = request.header(name, value);
    }
    let request = request.body(body.to_string());
    let is_lines = model.dialect == Dialect::Ollama;
    std::thread::spawn(move || {
        let failed = |failure| {
            tell(Answer::Failed { failure });
        };
        match request.send() {
            Err(error) => failed(Failure::connection(format!(
                "cannot connect to the model: {}",
                chain(&error)
            ))),
            Ok(answer) if !answer.status().is_success() => failed(refusal(answer)),
            Ok(answer) => match stream(BufReader::new(answer), is_lines, &tell) {
                Ok(true) => {
                    tell(Answer::End);
                }
                Ok(false) => {}
                Err(failure) => failed(failure),
            },
        }
    });
}

/// Fetches a small JSON document.
pub fn get(model: &Model, path: &str) -> Result<Value, Failure> {
    fetch(model, |client| client.get(format!("{}{path}", model.base)))
}

/// Asks a small question.
pub fn ask(model: &Model, path: &str, body: &Value) -> Result<Value, Failure> {
    let body = body.to_string();
    fetch(model, |client| {
        client
            .post(format!("{}{path}", model.base))
            .header("content-type", "application/json")
            .body(body)
    })
}

fn fetch(
    model: &Model,
    request: impl FnOnce(&Client) -> reqwest::blocking::RequestBuilder,
) -> Result<Value, Failure> {
    let mut request = request(&client(&model.base)?).timeout(QUICK);
    for (name, value) in model.headers() {
        request = request.header(name, value);
    }
    let answer = request
        .send()
        .map_err(|error| Failure::connection(format!("cannot connect: {}", chain(&error))))?;
    if !answer.status().is_success() {
        return Err(refusal(answer));
    }
    let mut body = Vec::new();
    answer
        .take(8 * LONGEST_BODY)
        .read_to_end(&mut body)
        .map_err(|error| Failure::new(format!("the answer broke off: {error}")))?;
    serde_json::from_slice(&body).map_err(|_| Failure::new("the answer is not JSON"))
}

fn refusal(answer: Response) -> Failure {
    let status = answer.status().as_u16();
    let header = |name: &str| {
        answer
            .headers()
            .get(name)?
            .to_str()
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let retry_after = header("retry-after");
    let mut body = Vec::new();
    // Without its words a refusal still has its status.
    let _ = answer.take(LONGEST_BODY).read_to_end(&mut body);
    if (300..400).contains(&status) {
        return Failure {
            status,
            ..Failure::new("the address redirects elsewhere, and redirects are not followed")
        };
    }
    Failure::from_answer(status, &body, retry_after)
}

/// Reads a stream of JSON lines or of server-sent events. Returns whether it was read to its end.
fn stream(
    mut reader: impl BufRead,
    is_lines: bool,
    tell: &impl Fn(Answer) -> bool,
) -> Result<bool, Failure> {
    let mut data = String::new();
    for number in 1_u64.. {
        let mut line = Vec::new();
        let count = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| {
                Failure::new(format!("connection error: the answer broke off: {error}"))
            })?;
        if count as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            return Err(Failure::new("the model sent a line of over 8 MiB"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if is_lines {
            text.clone_into(&mut data);
        } else if let Some(part) = text.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(part.strip_prefix(' ').unwrap_or(part));
            if data.len() as u64 > LONGEST_LINE {
                return Err(Failure::new("the model sent an event of over 8 MiB"));
            }
        }
        if (is_lines || text.is_empty()) && !data.trim().is_empty() && data != "[DONE]" {
            match serde_json::from_str(&data) {
                Ok(event) => {
                    if !tell(Answer::Event(event)) {
                        return Ok(false);
                    }
                }
                // The stream was cut, and the fold is not complete.
                Err(_) if !line.ends_with(b"\n") => {}
                // The damaged part could be a part of a file.
                Err(_) => {
                    let what = format!("line {number}: not JSON");
                    let text = format!("could not read the model's answer ({what})");
                    return Err(Failure::new(text));
                }
            }
        }
        if text.is_empty() {
            data.clear();
        }
        if count == 0 {
            break;
        }
    }
    Ok(true)
}

/// Returns an error with its causes: the first only names the address.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn read(text: &str, is_lines: bool) -> (String, Result<bool, Failure>) {
        let told = RefCell::new(String::new());
        let tell = |answer| {
            if let Answer::Event(event) = answer {
                told.borrow_mut().push_str(&event.to_string());
            }
            true
        };
        let result = stream(text.as_bytes(), is_lines, &tell);
        (told.into_inner(), result)
    }

    #[test]
    fn events_are_read_in_both_forms() {
        let events = ": ping\nevent: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:\n\ndata:[2]\n\ndata: [DONE]\n\n";
        assert_eq!(read(events, false), ("{\"a\":1}[2]".into(), Ok(true)));
        assert_eq!(
            read("{}\n\n[1]\n{\"a\":1}", true),
            ("{}[1]{\"a\":1}".into(), Ok(true))
        );
        assert_eq!(read("", false), (String::new(), Ok(true)));
        assert_eq!(read("{}\n{\"a", true), ("{}".into(), Ok(true)));
        assert_eq!(read("data: {\"a", false), (String::new(), Ok(true)));
    }

    #[test]
    fn damage_is_not_passed_over() {
        for (text, is_lines) in [("data: {}\n\ndata: {\"a\n\n", false), ("{}\n{\"a\n", true)] {
            let (told, result) = read(text, is_lines);
            let failure = result.expect_err("damaged");
            assert_eq!(told, "{}");
            assert!(failure.message.contains("not JSON"), "{failure:?}");
            assert!(!failure.is_passing());
        }
        let (_, result) = read(&format!("data: {}", "x".repeat(9 << 20)), false);
        assert!(result.is_err());
    }

    #[test]
    fn addresses_on_this_machine_are_known() {
        for (base, local) in [
            ("http://127.0.0.1:1/v1", true),
            ("http://localhost", true),
            ("http://[::1]:8080/", true),
            ("https://api.example.com/127.0.0.1", false),
        ] {
            assert_eq!(is_local(base), local, "{base}");
        }
    }
}
