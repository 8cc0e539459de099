//! Chooses a provider and a model: the wanted one, else the first that can be reached, and says why.

use git_agent::agent::catalog::reachable::ADVICE;
use git_agent::env::Env;
use serde_json::{Value, json};

use crate::provider::failure::{Failure, Origin};
use crate::provider::{Dialect, Model, http};

/// Tokens that fit into a model that does not say it.
const USUAL_CONTEXT: u64 = 128_000;
/// The same for Anthropic's models.
const ANTHROPIC_CONTEXT: u64 = 200_000;
/// The largest context that is asked of Ollama: memory grows with it.
const OLLAMA_CONTEXT: u64 = 65_536;
/// What Ollama's models have if they do not say it.
const OLLAMA_LEAST: u64 = 8_192;

/// Variables with the keys of providers.
const KEYS: [(&str, &str); 4] = [
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
];

/// A place where models can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The name in `provider/model`.
    pub name: &'static str,
    /// How to speak to it.
    pub dialect: Dialect,
    /// Its address.
    pub base: String,
    /// Its key.
    pub key: Option<String>,
    /// Why it can be used.
    pub reason: String,
    /// Whether the environment names it. Another program may listen where a server of models usually does.
    pub named: bool,
}

/// Returns the providers that the environment names, best first, and then the servers that may run on this machine.
pub fn providers(env: &Env) -> Vec<Provider> {
    let var = |name: &str| env.var(name).filter(|value| !value.is_empty());
    let url = |name: &str| var(name).map(|base| base.trim_end_matches('/').to_owned());
    let mut found = Vec::new();
    let mut add =
        |name, dialect, base: String, key: Option<String>, (reason, named): (String, bool)| {
            found.push(Provider {
                name,
                dialect,
                base,
                key,
                reason,
                named,
            });
        };
    let set = |name: &str| (format!("{name} is set"), true);
    let anthropic = url("ANTHROPIC_BASE_URL");
    let token = var("ANTHROPIC_AUTH_TOKEN")
        .map(|token| ("ANTHROPIC_AUTH_TOKEN", format!("Bearer {token}")));
    let key = var("ANTHROPIC_API_KEY").map(|key| ("ANTHROPIC_API_KEY", key.to_owned()));
    if let Some((name, key)) = key.or(token) {
        let base = anthropic.unwrap_or_else(|| "https://api.anthropic.com".to_owned());
        add("anthropic", Dialect::Anthropic, base, Some(key), set(name));
    }
    match (url("OPENAI_BASE_URL"), var("OPENAI_API_KEY")) {
        (None, None) => {}
        (base, key) => {
            let name = if key.is_some() {
                "OPENAI_API_KEY"
            } else {
                "OPENAI_BASE_URL"
            };
            let base = base.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
            add(
                "openai",
                Dialect::OpenAi,
                base,
                key.map(str::to_owned),
                set(name),
            );
        }
    }
    if let Some(key) = var("OPENROUTER_API_KEY") {
        let base =
            url("OPENROUTER_BASE_URL").unwrap_or_else(|| "https://openrouter.ai/api/v1".to_owned());
        add(
            "openrouter",
            Dialect::OpenAi,
            base,
            Some(key.to_owned()),
            set("OPENROUTER_API_KEY"),
        );
    }
    let gemini = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
    if let Some((name, key)) = gemini.iter().find_map(|name| Some((*name, var(name)?))) {
        let base = url("GEMINI_OPENAI_BASE_URL").unwrap_or_else(|| {
            "https://generativelanguage.googleapis.com/v1beta/openai".to_owned()
        });
        add(
            "gemini",
            Dialect::OpenAi,
            base,
            Some(key.to_owned()),
            set(name),
        );
    }
    let (ollama, reason) = match var("OLLAMA_HOST") {
        Some(host) => (ollama_address(host), set("OLLAMA_HOST")),
        None => (
            "http://127.0.0.1:11434".to_owned(),
            answers("Ollama", 11434),
        ),
    };
    add("ollama", Dialect::Ollama, ollama, None, reason);
    for (name, label, port) in [
        ("lmstudio", "LM Studio", 1234),
        ("llamacpp", "llama.cpp", 8080),
    ] {
        let base = format!("http://127.0.0.1:{port}/v1");
        add(name, Dialect::OpenAi, base, None, answers(label, port));
    }
    found
}

fn answers(label: &str, port: u16) -> (String, bool) {
    (format!("{label} answers on 127.0.0.1:{port}"), false)
}

/// Returns the address in `OLLAMA_HOST`, which may be a host, a port or both.
fn ollama_address(host: &str) -> String {
    let host = host.trim_end_matches('/');
    if host.contains("://") {
        return host.to_owned();
    }
    let host = host
        .strip_prefix("0.0.0.0")
        .map_or(host.to_owned(), |rest| format!("127.0.0.1{rest}"));
    match host.rsplit_once(':') {
        Some(("", port)) => format!("http://127.0.0.1:{port}"),
        Some((_, port)) if port.chars().all(|c| c.is_ascii_digit()) => format!("http://{host}"),
        _ => format!("http://{host}:11434"),
    }
}

/// Chooses a model. Returns it with the reason.
pub fn choose(env: &Env, wanted: Option<&str>) -> Result<(Model, String), Failure> {
    let providers = providers(env);
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        let (provider, name) = of_name(&providers, wanted)?;
        let model = described(provider, name, None)?;
        return Ok((model, format!("'{wanted}' was chosen")));
    }
    let mut reasons = Vec::new();
    for provider in &providers {
        match default_of(provider) {
            Ok((name, list)) => {
                let reason = provider.reason.clone();
                return Ok((described(provider, &name, Some(list))?, reason));
            }
            // A key that is refused must be told, a server that is not running must not.
            Err(failure) if provider.named => reasons.push((provider.name, failure)),
            Err(_) => {}
        }
    }
    if let [(_, failure)] = &reasons[..] {
        return Err(failure.clone());
    }
    let words = reasons.iter().map(|(name, failure)| failure.words(name));
    let words: Vec<String> = words.collect();
    let why = if words.is_empty() {
        ADVICE.to_owned()
    } else {
        words.join("; ")
    };
    Err(Failure {
        origin: Origin::NoProvider,
        ..Failure::new(format!("no model can be reached: {why}"))
    })
}

/// Finds the provider of a model's name, which may begin with the provider's.
fn of_name<'a, 'b>(
    providers: &'a [Provider],
    wanted: &'b str,
) -> Result<(&'a Provider, &'b str), Failure> {
    let named = |name: &str| providers.iter().find(|provider| provider.name == name);
    if let Some((prefix, rest)) = wanted.split_once('/')
        && let Some(provider) = named(prefix)
    {
        return Ok((provider, rest));
    }
    let by_shape = [
        ("claude", "anthropic"),
        ("gpt-", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "gemini"),
    ];
    let shape = by_shape
        .iter()
        .find(|(start, _)| wanted.starts_with(start))
        .map(|(_, name)| *name);
    let shaped = shape.and_then(named);
    let keyed = || providers.iter().find(|provider| provider.key.is_some());
    let explicit = || named("openai");
    let local = || {
        providers
            .iter()
            .find(|provider| provider.dialect == Dialect::Ollama)
    };
    // A name of Ollama has a tag.
    let tagged = wanted.contains(':').then(local).flatten();
    let chosen = shaped.or(tagged).or_else(explicit).or_else(keyed);
    let owner = wanted.split_once('/').map(|(name, _)| name).or(shape);
    let key = KEYS.iter().find(|(name, _)| Some(*name) == owner);
    if let (None, Some((_, variable))) = (chosen, key) {
        return Err(Failure {
            origin: Origin::NoProvider,
            ..Failure::new(format!("model '{wanted}' needs a key: set {variable}"))
        });
    }
    chosen
        .or_else(local)
        .map(|provider| (provider, wanted))
        .ok_or_else(|| Failure::new(format!("no provider is known for model '{wanted}'")))
}

/// Returns a model without asking for anything.
pub fn plain(provider: &Provider, name: &str) -> Model {
    Model {
        provider: provider.name.to_owned(),
        dialect: provider.dialect,
        base: provider.base.clone(),
        key: provider.key.clone(),
        name: name.to_owned(),
        context: match provider.dialect {
            Dialect::Anthropic => ANTHROPIC_CONTEXT,
            Dialect::OpenAi | Dialect::Ollama => USUAL_CONTEXT,
        },
        tools: true,
    }
}

/// Returns a model, with its context and its abilities if the provider tells them. Its list of models may be known.
fn described(provider: &Provider, name: &str, list: Option<Vec<Value>>) -> Result<Model, Failure> {
    let mut model = plain(provider, name);
    match provider.dialect {
        Dialect::Ollama => {}
        Dialect::Anthropic => return Ok(model),
        Dialect::OpenAi => {
            // A request without answer is not worth a wait: most lists do not tell it.
            let tells = provider.name != "gemini" && !provider.base.contains("api.openai.com");
            let ask = || tells.then(|| super::list::listed(&model).ok()).flatten();
            let list = list.or_else(ask).unwrap_or_default();
            if let Some(context) = context_in(&list, name) {
                model.context = context;
            }
            return Ok(model);
        }
    }
    let shown =
        http::ask(&model, "/api/show", &json!({"model": name})).map_err(|failure| match failure
            .status
        {
            404 => missing(&model, failure),
            _ => failure,
        })?;
    let info = shown["model_info"].as_object();
    let length = info
        .into_iter()
        .flatten()
        .find(|(key, _)| key.ends_with(".context_length"))
        .and_then(|(_, value)| value.as_u64());
    model.context = length.unwrap_or(OLLAMA_LEAST).min(OLLAMA_CONTEXT);
    let abilities = shown["capabilities"].as_array();
    model.tools = abilities.is_none_or(|list| list.iter().any(|word| word == "tools"));
    Ok(model)
}

/// Returns the failure for a model that does not exist, with the nearest names. Without a list of models, or with the
/// model in it, something else does not exist.
pub fn missing(model: &Model, failure: Failure) -> Failure {
    let mut names = match super::list::names(model) {
        Ok(names) if !names.contains(&model.name) => names,
        _ => return failure,
    };
    names.sort_by_key(|name| distance(name, &model.name));
    names.truncate(3);
    let similar = if names.is_empty() {
        String::new()
    } else {
        format!("; similar: {}", names.join(", "))
    };
    Failure {
        status: 404,
        ..Failure::new(format!("there is no model '{}'{similar}", model.name))
    }
}

/// Returns how many letters two names do not share at their beginning and their end.
fn distance(a: &str, b: &str) -> usize {
    let start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - start;
    let end = a
        .bytes()
        .rev()
        .zip(b.bytes().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    a.len().max(b.len()) - start - end
}

/// Returns the model that a provider is used with if none is wanted, and the provider's list.
fn default_of(provider: &Provider) -> Result<(String, Vec<Value>), Failure> {
    let list = super::list::listed(&plain(provider, ""))?;
    let name = preferred(provider, &list)
        .ok_or_else(|| Failure::new(format!("{} has no model", provider.name)))?;
    Ok((name, list))
}

/// Returns the context of a model in a provider's list: OpenRouter, vLLM, llama.cpp and some others tell it.
fn context_in(list: &[Value], name: &str) -> Option<u64> {
    let entry = list.iter().find(|entry| entry["id"] == name)?;
    [
        "/context_length",
        "/max_model_len",
        "/context_window",
        "/max_context_length",
        "/meta/n_ctx",
    ]
    .iter()
    .find_map(|place| entry.pointer(place)?.as_u64())
    .filter(|context| *context > 0)
}

/// Chooses from a provider's list.
fn preferred(provider: &Provider, list: &[Value]) -> Option<String> {
    let id = |entry: &Value| {
        let name = entry["id"].as_str().or_else(|| entry["name"].as_str())?;
        Some(name.trim_start_matches("models/").to_owned())
    };
    let newest = |fits: &dyn Fn(&str) -> bool| {
        let mut names: Vec<(u64, String)> = list
            .iter()
            .filter_map(|entry| Some((entry["created"].as_u64().unwrap_or(0), id(entry)?)))
            .filter(|(_, name)| fits(name))
            .collect();
        // Of models of the same age the plain one has the shortest name; versions count up.
        names.sort_by(|a, b| {
            let by_name = a.1.len().cmp(&b.1.len()).then(b.1.cmp(&a.1));
            b.0.cmp(&a.0).then(by_name)
        });
        names.into_iter().map(|(_, name)| name).next()
    };
    // Models for other work than text.
    let other = [
        "audio",
        "image",
        "realtime",
        "transcribe",
        "tts",
        "embed",
        "search",
        "vision",
        "moderation",
    ];
    let textual = |name: &str| !other.iter().any(|word| name.contains(word));
    let chosen = match provider.name {
        // The list is ordered, newest first.
        "anthropic" => list
            .iter()
            .filter_map(id)
            .find(|name| name.contains("sonnet")),
        "openai" => newest(&|name| {
            // Small ones, and those that need another interface than chat completions.
            let others = ["mini", "nano", "codex", "-pro", "instruct"];
            let plain = !others.iter().any(|word| name.contains(word));
            name.starts_with("gpt-") && textual(name) && plain
        }),
        "openrouter" => newest(&|name| name.starts_with("anthropic/") && name.contains("sonnet")),
        "gemini" => newest(&|name| name.contains("pro") && textual(name)),
        "ollama" => list
            .iter()
            .max_by_key(|entry| entry["size"].as_u64().unwrap_or(0))
            .and_then(id),
        _ => None,
    };
    chosen.or_else(|| list.iter().filter_map(id).find(|name| textual(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(name: &'static str) -> Provider {
        Provider {
            name,
            dialect: Dialect::OpenAi,
            base: "http://127.0.0.1:9".into(),
            key: None,
            reason: String::new(),
            named: true,
        }
    }

    #[test]
    fn a_name_leads_to_its_provider() {
        let all = [
            provider("anthropic"),
            provider("openai"),
            provider("ollama"),
        ];
        for (wanted, name, model) in [
            ("anthropic/claude-x", "anthropic", "claude-x"),
            ("claude-x", "anthropic", "claude-x"),
            ("openai/vendor/model", "openai", "vendor/model"),
            ("gpt-6", "openai", "gpt-6"),
            ("some/model", "openai", "some/model"),
        ] {
            let (provider, rest) = of_name(&all, wanted).expect("a provider");
            assert_eq!((provider.name, rest), (name, model), "{wanted}");
        }
        assert!(of_name(&[], "x").is_err());
        let local = Provider {
            dialect: Dialect::Ollama,
            ..provider("ollama")
        };
        let local = [local];
        assert_eq!(of_name(&local, "qwen3").expect("a provider").1, "qwen3");
        for wanted in ["anthropic/claude-x", "claude-x"] {
            let failure = of_name(&local, wanted).expect_err("no key");
            assert!(failure.message.contains("ANTHROPIC_API_KEY"), "{failure:?}");
        }
    }

    #[test]
    fn the_default_is_a_model_for_text() {
        let list = [
            json!({"id": "gpt-6-audio", "created": 9}),
            json!({"id": "gpt-6-mini", "created": 8}),
            json!({"id": "gpt-6-2026", "created": 7}),
            json!({"id": "gpt-6", "created": 7}),
            json!({"id": "gpt-5", "created": 1}),
        ];
        assert_eq!(
            preferred(&provider("openai"), &list).as_deref(),
            Some("gpt-6")
        );
        let list = [
            json!({"id": "claude-opus"}),
            json!({"id": "claude-sonnet-9"}),
        ];
        assert_eq!(
            preferred(&provider("anthropic"), &list).as_deref(),
            Some("claude-sonnet-9")
        );
        let list = [
            json!({"name": "small", "size": 1}),
            json!({"name": "large", "size": 2}),
        ];
        assert_eq!(
            preferred(&provider("ollama"), &list).as_deref(),
            Some("large")
        );
        assert_eq!(
            preferred(&provider("lmstudio"), &[json!({"id": "any"})]).as_deref(),
            Some("any")
        );
        assert_eq!(preferred(&provider("openai"), &[]), None);
        let list = ["gemini-1.5-pro", "gemini-2.5-pro", "gemini-2.5-pro-tts"]
            .map(|id| json!({"id": format!("models/{id}")}));
        assert_eq!(
            preferred(&provider("gemini"), &list).as_deref(),
            Some("gemini-2.5-pro")
        );
    }

    #[test]
    fn the_context_is_the_providers_figure() {
        let list = [
            json!({"id": "a", "max_model_len": 4096}),
            json!({"id": "b", "meta": {"n_ctx": 8192}}),
            json!({"id": "c"}),
        ];
        let context = |name| context_in(&list, name);
        assert_eq!(
            [context("a"), context("b"), context("c"), context("d")],
            [Some(4096), Some(8192), None, None]
        );
    }

    #[test]
    fn ollamas_host_may_be_said_in_many_ways() {
        for (host, base) in [
            ("box", "http://box:11434"),
            ("box:99", "http://box:99"),
            (":99", "http://127.0.0.1:99"),
            ("0.0.0.0:99", "http://127.0.0.1:99"),
            ("https://box/", "https://box"),
        ] {
            assert_eq!(ollama_address(host), base, "{host}");
        }
    }

    #[test]
    fn near_names_are_near() {
        assert!(
            distance("claude-sonnet-4-5", "claude-sonet-4-5")
                < distance("gpt-5", "claude-sonet-4-5")
        );
        assert_eq!(distance("a", "a"), 0);
        assert_eq!(distance("aa", "a"), 1);
    }
}
