//! The agents known without configuration: how to start each, its requirements, and the habits to turn off.
//!
//! Command lines, switches and peculiarities come from runs of the programs, not only from their documentation.

use crate::agent::catalog::spec::{AgentSpec, Asking, Defaults, Family, Tokens};
use crate::agent::conversation_files::Native;
use crate::agent::mcp_config::Settings;
use crate::agent::stream::usage::Figures;

/// The name of the agent that is part of this product.
pub const OWN: &str = "builtin";

/// Keys and addresses of model providers, for agents that support many of them.
const PROVIDERS: [&str; 20] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "CEREBRAS_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "AWS_*",
    "AZURE_*",
    "OLLAMA_*",
];

/// Returns all built-in agents, in the order of the listing.
pub fn all() -> Vec<AgentSpec> {
    vec![
        claude(),
        codex(),
        kilo(),
        opencode(),
        gemini(),
        qwen(),
        goose(),
        copilot(),
        cline(),
        aider(),
        pi(),
        cn(),
        own(),
    ]
}

/// Returns a built-in agent for another driver than its usual one, if it supports that.
pub fn spoken_otherwise(name: &str, family: Family) -> Option<AgentSpec> {
    (name == "qwen" && family == Family::ClaudeStream).then(qwen_stream)
}

fn spec(name: &str, family: Family, words: &str, install: &str) -> AgentSpec {
    let argv = words.split(' ').map(Into::into).collect();
    AgentSpec {
        install: install.to_owned(),
        ..AgentSpec::new(name, family, argv)
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn names(own: &[&str], providers: bool) -> Vec<String> {
    let providers = if providers { &PROVIDERS[..] } else { &[] };
    own.iter()
        .chain(providers)
        .map(|name| (*name).to_owned())
        .collect()
}

fn words(words: &str) -> Vec<std::ffi::OsString> {
    words.split(' ').map(Into::into).collect()
}

/// The last in the order: a vendor's agent that is installed was chosen by the user.
fn own() -> AgentSpec {
    AgentSpec {
        env: pairs(&[("GIT_AGENT_BUILTIN_PERMISSIONS", "skip")]),
        ask_env: pairs(&[("GIT_AGENT_BUILTIN_PERMISSIONS", "ask")]),
        env_names: names(
            &[
                "ANTHROPIC_AUTH_TOKEN",
                "OPENROUTER_BASE_URL",
                "GEMINI_OPENAI_BASE_URL",
            ],
            true,
        ),
        asking: Asking::Always,
        native: Some(Native::Own),
        forks: true,
        takes_servers: false,
        ..spec(
            OWN,
            Family::Acp,
            "git-agent-builtin --model {model}",
            "it comes with git-agent: git agent install",
        )
    }
}

fn claude() -> AgentSpec {
    AgentSpec {
        env: pairs(&[
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            // By default it retries for minutes, and other sessions do not learn of the limit meanwhile.
            ("CLAUDE_CODE_MAX_RETRIES", "4"),
        ]),
        env_names: names(
            &[
                "ANTHROPIC_*",
                "CLAUDE_*",
                "IS_SANDBOX",
                "AWS_*",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "CLOUD_ML_REGION",
            ],
            false,
        ),
        attach: words("claude --resume {session} --model {model}"),
        provider: Some("anthropic".to_owned()),
        native: Some(Native::Claude),
        forks: true,
        ..spec(
            "claude",
            Family::ClaudeStream,
            "claude",
            "npm install -g @anthropic-ai/claude-code",
        )
    }
}

fn codex() -> AgentSpec {
    AgentSpec {
        env_names: names(&["CODEX_*", "OPENAI_*", "AZURE_OPENAI_API_KEY"], false),
        attach: words("codex resume {session} --model {model}"),
        provider: Some("openai".to_owned()),
        native: Some(Native::Codex),
        ..spec(
            "codex",
            Family::CodexJson,
            "codex",
            "npm install -g @openai/codex",
        )
    }
}

fn kilo() -> AgentSpec {
    AgentSpec {
        env: pairs(&[
            ("KILO_DISABLE_AUTOUPDATE", "1"),
            ("KILO_TELEMETRY_LEVEL", "off"),
            ("KILO_DISABLE_SESSION_INGEST", "1"),
            ("KILO_DISABLE_SHARE", "1"),
        ]),
        ask_env: pairs(&[("KILO_PERMISSION", r#"{"edit":"ask","bash":"ask"}"#)]),
        env_names: names(&["KILO_*"], true),
        attach: words("kilo --session {session}"),
        native: Some(Native::Exported),
        forks: true,
        tokens: Tokens::LastRequest,
        ..spec(
            "kilo",
            Family::Acp,
            "kilo acp",
            "npm install -g @kilocode/cli",
        )
    }
}

fn opencode() -> AgentSpec {
    AgentSpec {
        env: pairs(&[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_SHARE", "1"),
        ]),
        ask_env: pairs(&[("OPENCODE_PERMISSION", r#"{"edit":"ask","bash":"ask"}"#)]),
        env_names: names(&["OPENCODE_*"], true),
        attach: words("opencode --session {session}"),
        tokens: Tokens::LastRequest,
        ..spec(
            "opencode",
            Family::Acp,
            "opencode acp",
            "npm install -g opencode-ai",
        )
    }
}

fn gemini() -> AgentSpec {
    AgentSpec {
        env: pairs(&[
            ("GEMINI_TELEMETRY_ENABLED", "false"),
            // Without it the program starts itself again, and the first process only waits.
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ]),
        env_names: names(&["GEMINI_*", "GOOGLE_*"], false),
        attach: words("gemini --resume {session}"),
        provider: Some("google".to_owned()),
        native: Some(Native::Gemini),
        forks: true,
        auth_methods: pairs(&[("gemini-api-key", "GEMINI_API_KEY")]),
        defaults: Some(Defaults {
            variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
            usual: "/etc/gemini-cli/system-defaults.json",
            // By default it retries silently ten times, for minutes, first to choose a model and then again.
            content: r#"{"general":{"maxAttempts":2,"disableAutoUpdate":true,"disableUpdateNag":true},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false}}"#,
        }),
        loses_young_conversations: true,
        hides_git_config: true,
        murmurs: Some("GEMINI_DEBUG_LOG_FILE"),
        ..spec(
            "gemini",
            Family::Acp,
            "gemini --acp --skip-trust -m {model}",
            "npm install -g @google/gemini-cli",
        )
    }
}

fn qwen() -> AgentSpec {
    AgentSpec {
        env_names: names(&["OPENAI_*", "QWEN_*", "DASHSCOPE_*"], false),
        attach: words("qwen --resume {session}"),
        auth_methods: pairs(&[("openai", "OPENAI_API_KEY")]),
        defaults: Some(Defaults {
            variable: "QWEN_CODE_SYSTEM_DEFAULTS_PATH",
            usual: "/etc/qwen-code/system-defaults.json",
            // By default it waits silently at a limit for one, two, five minutes and so on, more than half an hour in
            // all.
            content: r#"{"general":{"enableAutoUpdate":false,"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"model":{"generationConfig":{"maxRetries":3,"retryInitialDelayMs":3000,"retryMaxDelayMs":15000}}}"#,
        }),
        ..spec(
            "qwen",
            Family::Acp,
            "qwen --acp -m {model}",
            "npm install -g @qwen-code/qwen-code",
        )
    }
}

/// Qwen Code supports the stream of Claude Code, with other options. On that stream it refuses actions instead of
/// asking.
fn qwen_stream() -> AgentSpec {
    AgentSpec {
        argv: words(
            "qwen --output-format stream-json --input-format stream-json --include-partial-messages \
             --session-id {new_session} --resume {session} --model {model} --approval-mode {approval} \
             --append-system-prompt {instructions} --mcp-config {mcp_file}",
        ),
        family: Family::ClaudeStream,
        asking: Asking::Never,
        failure_texts: Vec::new(),
        ..qwen()
    }
}

fn goose() -> AgentSpec {
    let acp = spec(
        "goose",
        Family::Acp,
        "goose acp --with-builtin developer",
        "see https://goose-docs.ai, or npm install -g @aaif/goose-binary-linux-x64",
    );
    // It also reports these errors as its own message in a successful turn.
    let failed = ["Network error: ", "The model returned an empty response."].map(str::to_owned);
    let failure_texts = [&acp.failure_texts[..], &failed].concat();
    AgentSpec {
        env: pairs(&[("GOOSE_TELEMETRY_ENABLED", "false")]),
        ask_env: pairs(&[("GOOSE_MODE", "approve")]),
        env_names: names(&["GOOSE_*", "OPENAI_HOST", "OPENAI_BASE_PATH"], true),
        attach: words("goose session --resume --session-id {session}"),
        asking: Asking::Always,
        tokens: Tokens::LastRequest,
        failure_texts,
        overflows_silently: true,
        other_programs: vec!["goose-binary-linux-x64"],
        ..acp
    }
}

fn copilot() -> AgentSpec {
    let acp = spec(
        "copilot",
        Family::Acp,
        // It refuses MCP servers of a conversation, unless they are remote.
        "copilot --acp --model {model} --additional-mcp-config @{mcp_file}",
        "npm install -g @github/copilot",
    );
    // It reports a request that the provider refused as its own message.
    let refused = [400, 402, 403, 404, 413, 422].map(|status| format!("Error: {status} "));
    let unknown = ["Error: Model '", "Error: Could not connect to "].map(str::to_owned);
    let failure_texts = [&acp.failure_texts[..], &refused, &unknown].concat();
    AgentSpec {
        env: pairs(&[("COPILOT_AUTO_UPDATE", "false")]),
        env_names: names(&["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"], false),
        attach: words("copilot --resume={session}"),
        provider: Some("github".to_owned()),
        asking: Asking::Always,
        tokens: Tokens::Process,
        failure_texts,
        ..acp
    }
}

fn cline() -> AgentSpec {
    AgentSpec {
        // Otherwise every run leaves a background process behind.
        env: pairs(&[("CLINE_SESSION_BACKEND_MODE", "local")]),
        env_names: names(&["CLINE_*"], true),
        attach: words("cline --id {session}"),
        asking: Asking::Always,
        // It ignores MCP servers of a conversation, and reads only its own settings.
        servers_settings: Some(Settings {
            variable: "CLINE_MCP_SETTINGS_PATH",
            usual: ".cline/data/settings/cline_mcp_settings.json",
        }),
        figures: Figures::Cline,
        ..spec("cline", Family::Acp, "cline --acp", "npm install -g cline")
    }
}

fn aider() -> AgentSpec {
    AgentSpec {
        env: pairs(&[("AIDER_ANALYTICS_DISABLE", "true")]),
        env_names: names(&["AIDER_*", "OPENAI_API_BASE"], true),
        attach: words(
            "aider --model {model} --chat-history-file {scratch}/aider.md --restore-chat-history",
        ),
        failure_texts: vec!["litellm.".to_owned()],
        figures: Figures::Words,
        ..spec(
            "aider",
            Family::Command,
            "aider --model {model} --yes-always --no-pretty --no-stream --no-check-update --no-show-release-notes \
             --no-analytics --no-show-model-warnings --no-gitignore --no-auto-commits --no-dirty-commits \
             --chat-history-file {scratch}/aider.md --input-history-file {scratch}/aider.in --restore-chat-history \
             --message-file {prompt_file}",
            "pip install aider-chat",
        )
    }
}

fn pi() -> AgentSpec {
    AgentSpec {
        env: pairs(&[("PI_TELEMETRY", "0"), ("PI_SKIP_VERSION_CHECK", "1")]),
        env_names: names(&["PI_*"], true),
        attach: words("pi --model {model} --session {scratch}/pi.jsonl"),
        ..spec(
            "pi",
            Family::Command,
            // It does not support `--`: after a line feed, no text counts as an option or a file.
            "pi --model {model} --session {scratch}/pi.jsonl -p \n{prompt}",
            "npm install -g @mariozechner/pi-coding-agent",
        )
    }
}

fn cn() -> AgentSpec {
    AgentSpec {
        env: pairs(&[
            ("CONTINUE_TELEMETRY_ENABLED", "0"),
            ("CONTINUE_CLI_ENABLE_TELEMETRY", "0"),
        ]),
        env_names: names(&["CONTINUE_*"], true),
        retold: true,
        ..spec(
            "cn",
            Family::Command,
            "cn --auto -p -- {prompt}",
            "npm install -g @continuedev/cli",
        )
    }
}
