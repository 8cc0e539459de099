//! Sends a request and passes its answer on line by line, from a thread of its own: a turn that is cancelled must not
//! wait for a silent server.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use reqwest::blocking::{Client, Response};
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::provider::Model;
use crate::provider::failure::Failure;

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
    /// It failed; `begun` tells whether events came before.
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
    std::thread::spawn(move || {
        let failed = |failure| {
            tell(Answer::Failed { failure });
        };
        match request.send() {
            Err(error) => failed(Failure::new(format!(
                "cannot connect to the model: {}",
                chain(&error)
            ))),
            Ok(answer) if !answer.status().is_success() => failed(refusal(answer)),
            Ok(answer) => match stream(answer, &tell) {
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
        .map_err(|error| Failure::new(format!("cannot connect: {}", chain(&error))))?;
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
            message: "the address redirects elsewhere, and redirects are not followed".to_owned(),
            retry_after: None,
        };
    }
    Failure::from_answer(status, &body, retry_after)
}

/// Reads a stream of server-sent events or of JSON lines. Returns whether it was read to its end.
fn stream(answer: Response, tell: &impl Fn(Answer) -> bool) -> Result<bool, Failure> {
    let mut reader = BufReader::new(answer);
    let mut data = String::new();
    loop {
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
        match text.strip_prefix("data:") {
            Some(part) => {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(part.strip_prefix(' ').unwrap_or(part));
                if data.len() as u64 > LONGEST_LINE {
                    return Err(Failure::new("the model sent an event of over 8 MiB"));
                }
            }
            None if text.starts_with('{') => data = text.to_owned(),
            None => {}
        }
        let is_end = count == 0;
        if (text.is_empty() || text.starts_with('{') || is_end) && !data.is_empty() {
            let event = std::mem::take(&mut data);
            // A line that is not JSON is a keep-alive, a `[DONE]`, or damage that the fold will miss.
            if let Ok(event) = serde_json::from_str(&event)
                && !tell(Answer::Event(event))
            {
                return Ok(false);
            }
        }
        if is_end {
            return Ok(true);
        }
    }
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
