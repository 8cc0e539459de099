//! Whether the built-in agent can reach a model, without asking one: a key is set, or a server of this machine accepts
//! connections. The agent itself finds out the rest when it starts.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::env::Env;

/// Variables each of which is enough.
const VARIABLES: [&str; 8] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_HOST",
];
/// Servers of models that run on this machine, and their usual ports.
const SERVERS: [(&str, u16); 2] = [("Ollama", 11434), ("LM Studio", 1234)];
/// A server on this machine accepts at once or not at all.
const PATIENCE: Duration = Duration::from_millis(200);

/// Advice for a user without any model.
pub const ADVICE: &str =
    "set ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY or GEMINI_API_KEY, or start Ollama";

/// Returns why a model can be reached, or nothing.
pub fn model(env: &Env) -> Option<String> {
    let set = |name: &&&str| env.var(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = VARIABLES.iter().find(set) {
        return Some(format!("{name} is set"));
    }
    SERVERS
        .iter()
        .find(|(_, port)| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            TcpStream::connect_timeout(&address, PATIENCE).is_ok()
        })
        .map(|(name, port)| format!("{name} answers on 127.0.0.1:{port}"))
}
