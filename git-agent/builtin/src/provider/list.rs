//! The models that can be reached now.

use git_agent::env::Env;
use serde_json::{Value, json};

use crate::provider::choose::{Provider, plain, providers};
use crate::provider::failure::Failure;
use crate::provider::{Dialect, Model, http};

/// Returns a provider's list of models, as it gives them.
pub fn listed(model: &Model) -> Result<Vec<Value>, Failure> {
    let (path, key) = match model.dialect {
        Dialect::Anthropic => ("/v1/models?limit=100", "data"),
        Dialect::OpenAi => ("/models", "data"),
        Dialect::Ollama => ("/api/tags", "models"),
    };
    let mut answer = http::get(model, path)?;
    match answer[key].take() {
        Value::Array(list) => Ok(list),
        _ => Err(Failure::new("the list of models has an unknown form")),
    }
}

/// Returns the names of a provider's models.
pub fn names(model: &Model) -> Result<Vec<String>, Failure> {
    let name = |entry: &Value| {
        let name = entry["id"].as_str().or_else(|| entry["name"].as_str())?;
        Some(name.trim_start_matches("models/").to_owned())
    };
    Ok(listed(model)?.iter().filter_map(name).collect())
}

/// Asks all providers at once. Returns one entry per provider that is configured or answers.
pub fn reachable(env: &Env) -> Vec<Value> {
    let providers = providers(env);
    std::thread::scope(|scope| {
        let asked: Vec<_> = providers
            .iter()
            .map(|provider| (provider, scope.spawn(|| names(&plain(provider, "")))))
            .collect();
        asked
            .into_iter()
            .filter_map(|(provider, thread)| entry(provider, thread.join().ok()?))
            .collect()
    })
}

fn entry(provider: &Provider, names: Result<Vec<String>, Failure>) -> Option<Value> {
    let mut entry =
        json!({"provider": provider.name, "address": provider.base, "reason": provider.reason});
    match names {
        Ok(names) => entry["models"] = names.into(),
        // A server on this machine that is not running is not an error.
        Err(_) if !provider.named => return None,
        Err(failure) => entry["error"] = failure.words(provider.name).into(),
    }
    Some(entry)
}
