//! One agent as data: how to start it, its requirements, and its differences from others of its family.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::agent::acp::Acp;
use crate::agent::catalog::template;
use crate::agent::claude::Claude;
use crate::agent::codex::Codex;
use crate::agent::command::Command;
use crate::agent::conversation_files::Native;
use crate::agent::driver::{Driver, Trouble, TroubleKind, Turn};
use crate::agent::mcp_config::Settings;
use crate::agent::stream::usage::Figures;
use crate::error::{Error, Result};

/// The families of agents, one for each driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Any program that prints text.
    Command,
    /// The Agent Client Protocol over standard input and output.
    Acp,
    /// The JSON stream of Claude Code, in both directions.
    ClaudeStream,
    /// The JSON events of Codex.
    CodexJson,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 4] = [
        Family::Command,
        Family::Acp,
        Family::ClaudeStream,
        Family::CodexJson,
    ];

    /// Returns the word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Command => "command",
            Family::Acp => "acp",
            Family::ClaudeStream => "claude-stream",
            Family::CodexJson => "codex-json",
        }
    }

    /// Parses the word used in the configuration.
    pub fn parse(text: &str) -> Result<Self> {
        Family::ALL
            .into_iter()
            .find(|family| family.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Family::ALL.iter().map(|family| family.as_str()).collect();
                Error::usage(format!("unknown driver '{text}'"))
                    .hint(format!("known drivers: {}", known.join(", ")))
            })
    }
}

/// How an agent handles permissions if it is not told to skip them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It asks before it changes or runs anything.
    Always,
    /// It asks before some actions only.
    Sometimes,
    Never,
}

impl Asking {
    /// Returns the words for the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Asking::Always => "asks",
            Asking::Sometimes => "asks for some",
            Asking::Never => "never asks",
        }
    }
}

/// The scope of an agent's token figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokens {
    /// One turn; totals are sums.
    #[default]
    Turn,
    /// The last request of a turn only; sums are a lower bound.
    LastRequest,
    /// All turns of the running process.
    Process,
}

/// The name of an agent that is a command given on the command line.
pub const COMMAND: &str = "command";

/// Prefixes of texts in which ACP agents report a failed model before they end the turn as a success.
const ACP_FAILURES: [&str; 6] = [
    "Ran into this error:",
    "Error: Failed to get response from the AI model",
    "Error: Authentication failed with provider",
    "Error: The provider rejected the prompt as too long",
    "exceeded retry limit, last status:",
    "We’re currently experiencing high demand",
];

/// Settings of the lowest precedence: any setting of the user or the machine overrides them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// The variable that names the file.
    pub variable: &'static str,
    /// The default path of the file; an existing file is kept.
    pub usual: &'static str,
    /// The content of the file.
    pub content: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSpec {
    /// The agent's name.
    pub name: String,
    /// Its family, which selects the driver.
    pub family: Family,
    /// The program and its arguments, with placeholders (see [`template::fill`]).
    pub argv: Vec<OsString>,
    /// Variables set for it in every turn.
    pub env: Vec<(String, String)>,
    /// Further variables if every request goes to the user, or if changes are refused.
    pub ask_env: Vec<(String, String)>,
    /// Names of the user's variables that it needs. A `*` at the end matches any rest.
    pub env_names: Vec<String>,
    /// The command that opens its own interface on a conversation, with placeholders; empty if it has none.
    pub attach: Vec<OsString>,
    /// How it handles permissions.
    pub asking: Asking,
    /// The default model.
    pub model: Option<String>,
    /// The scope of its token figures.
    pub tokens: Tokens,
    /// Prefixes of a final text or a printed line that report a failed model as a success.
    pub failure_texts: Vec<String>,
    /// Whether it ends a turn silently if the conversation is too long for the model even after it was shortened. Its
    /// figures are then those of the shortened conversation, without an answer.
    pub overflows_silently: bool,
    /// The authentication methods it offers, each with the variable that enables it.
    pub auth_methods: Vec<(String, String)>,
    /// Whether loading a conversation within the clock minute of its creation destroys it.
    pub loses_young_conversations: bool,
    /// Where it reports its usage.
    pub figures: Figures,
    /// The variable that names its log file. The log is sent to standard error, which is searched for troubles and
    /// otherwise ignored.
    pub murmurs: Option<&'static str>,
    /// Settings that it reads only from a file, for values that the user has not set.
    pub defaults: Option<Defaults>,
    /// The provider whose request limits it shares with other agents, if its model or name does not tell.
    pub provider: Option<String>,
    /// Where it keeps its conversations, if one can be copied to another machine.
    pub native: Option<Native>,
    /// Whether a plain program gets the earlier conversation in its prompt, because it keeps none itself.
    pub retold: bool,
    /// Whether it accepts MCP servers.
    pub takes_servers: bool,
    /// Its settings file for MCP servers, if it accepts them only there.
    pub servers_settings: Option<Settings>,
    /// Whether a fork of a conversation really works in another worktree.
    pub forks: bool,
    /// Whether it hides the user's git configuration from the git commands it runs.
    pub hides_git_config: bool,
    /// How to install it.
    pub install: String,
    /// Other names of its program: some packages install it under a name of their own.
    pub other_programs: Vec<&'static str>,
}

impl AgentSpec {
    /// Returns an agent of a family without peculiarities.
    pub fn new(name: impl Into<String>, family: Family, argv: Vec<OsString>) -> Self {
        AgentSpec {
            name: name.into(),
            family,
            argv,
            env: Vec::new(),
            ask_env: Vec::new(),
            env_names: Vec::new(),
            attach: Vec::new(),
            asking: match family {
                Family::Command | Family::CodexJson => Asking::Never,
                Family::Acp => Asking::Sometimes,
                Family::ClaudeStream => Asking::Always,
            },
            model: None,
            tokens: Tokens::default(),
            failure_texts: match family {
                Family::Command | Family::ClaudeStream | Family::CodexJson => Vec::new(),
                Family::Acp => ACP_FAILURES.iter().map(|text| (*text).to_owned()).collect(),
            },
            overflows_silently: false,
            auth_methods: Vec::new(),
            hides_git_config: false,
            loses_young_conversations: false,
            figures: Figures::default(),
            murmurs: None,
            defaults: None,
            provider: None,
            native: None,
            retold: false,
            takes_servers: family != Family::Command,
            servers_settings: None,
            forks: family == Family::CodexJson,
            install: String::new(),
            other_programs: Vec::new(),
        }
    }

    /// Returns the agent for a command given on the command line: one word is a script, several are a program with
    /// arguments.
    pub fn from_words(words: &[OsString]) -> Result<Self> {
        let argv = match words {
            [] => return Err(Error::usage("no command given")),
            [script] => vec!["sh".into(), "-c".into(), script.clone()],
            words => words.to_vec(),
        };
        Ok(AgentSpec::new(COMMAND, Family::Command, argv))
    }

    /// Returns the driver of this agent.
    pub fn driver(&self) -> Box<dyn Driver> {
        match self.family {
            Family::Command => Box::new(Command::new(self.clone())),
            Family::Acp => Box::new(Acp::new(self.clone())),
            Family::ClaudeStream => Box::new(Claude::new(self.clone())),
            Family::CodexJson => Box::new(Codex::new(self.clone())),
        }
    }

    /// Returns the program that starts it.
    pub fn program(&self) -> &OsStr {
        self.argv
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Finds its program in `path` (the value of `PATH`); a relative one is resolved from `cwd`.
    pub fn find(&self, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
        let others = self.other_programs.iter().map(OsStr::new);
        std::iter::once(self.program())
            .chain(others)
            .find_map(|name| which::which_in(name, path, cwd).ok())
    }

    /// Uses the name under which its program is installed, if that is one of the others.
    pub fn use_installed_name(&mut self, path: Option<&OsStr>, cwd: &Path) {
        if which::which_in(self.program(), path, cwd).is_ok() {
            return;
        }
        let is_there = |name: &&&str| which::which_in(name, path, cwd).is_ok();
        let Some(other) = self.other_programs.iter().find(is_there) else {
            return;
        };
        let own = self.program().to_owned();
        for argv in [&mut self.argv, &mut self.attach] {
            if let Some(first) = argv.first_mut().filter(|first| **first == own) {
                *first = OsString::from(other);
            }
        }
    }

    /// Returns whether this agent needs a variable of the user.
    pub fn needs_variable(&self, name: &str) -> bool {
        self.env_names
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => known == name,
            })
    }

    /// Returns the model of a turn: the chosen one, or the configured one.
    pub fn model_of<'a>(&'a self, turn: &'a Turn) -> Option<&'a str> {
        turn.model.as_deref().or(self.model.as_deref())
    }

    /// Returns the provider whose request limits a session with this model shares. A command given on the command line
    /// has none.
    pub fn provider(&self, model: Option<&str>) -> Option<String> {
        let by_model = || {
            let (provider, _) = model.or(self.model.as_deref())?.split_once('/')?;
            (!provider.is_empty()).then_some(provider)
        };
        let name = self.provider.as_deref().or_else(by_model);
        let name = name.or_else(|| (self.name != COMMAND).then_some(self.name.as_str()))?;
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        Some(name.chars().map(plain).collect())
    }

    /// Returns the variables to set for a turn.
    pub(crate) fn variables(&self, turn: &Turn) -> Vec<(OsString, OsString)> {
        // Only an agent that asks can be refused something.
        let asks = turn.ask || turn.read_only;
        let ask = if asks { &self.ask_env[..] } else { &[] };
        let pair = |(name, value): &(String, String)| (name.into(), value.into());
        let mut variables: Vec<_> = self.env.iter().chain(ask).map(pair).collect();
        variables.extend(self.write_defaults(turn));
        // If the user wants that log in a file, leave it there.
        let free = |name: &&str| !turn.environment.contains_key(OsStr::new(name));
        let murmurs = self.murmurs.filter(free);
        variables.extend(murmurs.map(|name| (name.into(), "/dev/stderr".into())));
        variables
    }

    /// Writes the settings that the agent reads only from a file. The agent also works if this fails.
    fn write_defaults(&self, turn: &Turn) -> Option<(OsString, OsString)> {
        let defaults = self.defaults.as_ref()?;
        let variable = OsString::from(defaults.variable);
        if turn.environment.contains_key(&variable) || Path::new(defaults.usual).exists() {
            return None;
        }
        let file = turn.scratch.join("defaults.json");
        std::fs::write(&file, defaults.content).ok()?;
        Some((variable, file.into()))
    }

    /// Returns the command that opens the agent's own interface on the turn's conversation.
    pub(crate) fn attach_argv(&self, turn: &Turn) -> Option<Vec<OsString>> {
        let values = [
            ("session", turn.resume.as_deref().map(OsStr::new)),
            ("model", self.model_of(turn).map(OsStr::new)),
            ("scratch", Some(turn.scratch.as_os_str())),
        ];
        (!self.attach.is_empty()).then(|| template::fill(&self.attach, &values))
    }

    /// Returns the trouble of a missing program, if it is missing.
    pub(crate) fn missing(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        cwd: &Path,
    ) -> Option<Trouble> {
        let path = environment.get(OsStr::new("PATH")).map(OsString::as_os_str);
        if self.find(path, cwd).is_some() {
            return None;
        }
        let program = Path::new(self.program());
        let is_there = program.components().count() > 1 && cwd.join(program).exists();
        let mut text = if is_there {
            format!("'{}' is not an executable program", program.display())
        } else {
            format!("'{}' is not installed", program.display())
        };
        if !self.install.is_empty() {
            text.push_str(&format!(": {}", self.install));
        }
        Some(Trouble::new(TroubleKind::NotInstalled, text))
    }

    /// Returns the trouble in a text that reports one as a success.
    pub(crate) fn failure_in(&self, text: &str) -> Option<Trouble> {
        // An agent that retried several times says so first, in the same text.
        let text = text
            .rsplit("etrying...")
            .next()
            .unwrap_or(text)
            .trim_start();
        self.failure_texts
            .iter()
            .any(|start| text.starts_with(start.as_str()))
            .then(|| Trouble::from_words(text, TroubleKind::Model))
    }
}

/// Returns an id for a vendor's conversation as a UUID: the same for the same session, turn and attempt.
pub fn conversation_id(turn: &Turn, attempt: u8) -> String {
    let text = format!("{}/{}/{attempt}", turn.session, turn.number);
    // FNV-1a over the text, twice from different starts. The session's own random id makes it unique.
    let hash = |mut hash: u64| {
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash ^ (hash >> 29)
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0x0fff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_a_uuid_and_differ() {
        let mut turn = Turn {
            session: "01jd0000000000000000000000".into(),
            number: 1,
            ..Turn::default()
        };
        let first = conversation_id(&turn, 0);
        assert_eq!(first, conversation_id(&turn, 0));
        assert_ne!(first, conversation_id(&turn, 1));
        turn.number = 2;
        assert_ne!(first, conversation_id(&turn, 0));
        let parts: Vec<usize> = first.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(first[14..].starts_with('4'), "{first}");
        assert!("89ab".contains(&first[19..20]), "{first}");
    }

    #[test]
    fn what_reads_only_is_asked_about_what_it_does() {
        let spec = crate::agent::catalog::registry::require("goose", &[]).expect("built in");
        let mode = |turn: &Turn| {
            let variables = spec.variables(turn);
            let found = variables.iter().rfind(|(name, _)| name == "GOOSE_MODE");
            found.map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let mut turn = Turn::default();
        assert_eq!(mode(&turn), None);
        turn.read_only = true;
        assert_eq!(mode(&turn).as_deref(), Some("approve"));
    }

    #[test]
    fn a_refused_request_is_no_answer() {
        let spec = crate::agent::catalog::registry::require("copilot", &[]).expect("built in");
        let kind = |text: &str| spec.failure_in(text).map(|trouble| trouble.kind);
        assert_eq!(
            kind("Error: 400 scripted HTTP 400"),
            Some(TroubleKind::Model)
        );
        assert_eq!(
            kind(
                "Info: The conversation exceeded the model's context limit. Compacting history and \
                 retrying...Error: The provider rejected the prompt as too long, but automatic recovery \
                 could not reduce it. Reduce context before retrying."
            ),
            Some(TroubleKind::Context)
        );
        assert_eq!(
            kind("Error: Model 'x' not found on provider at http://127.0.0.1:9/v1 (HTTP 404)."),
            Some(TroubleKind::Model)
        );
        let unreachable = "Info: Response was interrupted due to a server error. Retrying...Error: Could not connect to \
                           local model provider at http://127.0.0.1:9/v1.\n  Check that the service is running";
        assert_eq!(kind(unreachable), Some(TroubleKind::Model));
        assert_eq!(kind("The server answers Error: 400 for"), None);
        let spec = crate::agent::catalog::registry::require("goose", &[]).expect("built in");
        let kind = |text: &str| spec.failure_in(text).map(|trouble| trouble.kind);
        let unreachable =
            "Network error: Could not connect to 127.0.0.1:9 — check your network connection";
        assert_eq!(kind(unreachable), Some(TroubleKind::Model));
        assert_eq!(kind("I saw a Network error: it is gone"), None);
    }

    #[test]
    fn sessions_share_the_limits_of_their_provider() {
        let mut spec = AgentSpec::new("goose", Family::Acp, vec!["x".into()]);
        assert_eq!(spec.provider(None).as_deref(), Some("goose"));
        assert_eq!(spec.provider(Some("Open AI/x")).as_deref(), Some("open-ai"));
        assert_eq!(spec.provider(Some("/x")).as_deref(), Some("goose"));
        spec.provider = Some("anthropic".into());
        assert_eq!(spec.provider(Some("a/b")).as_deref(), Some("anthropic"));
        let words = AgentSpec::from_words(&["true".into()]).expect("a command");
        assert_eq!(words.provider(None), None);
    }

    #[test]
    fn variables_are_named_whole_or_by_their_beginning() {
        let mut spec = AgentSpec::new("x", Family::Acp, vec!["x".into()]);
        spec.env_names = vec!["KEY".into(), "AWS_*".into()];
        assert!(spec.needs_variable("KEY") && spec.needs_variable("AWS_REGION"));
        assert!(!spec.needs_variable("KEYS") && !spec.needs_variable("AW"));
    }

    #[test]
    fn one_word_is_a_script_and_several_are_not() {
        let spec = AgentSpec::from_words(&["echo hi".into()]).expect("a command");
        assert_eq!(spec.argv, ["sh", "-c", "echo hi"]);
        let spec = AgentSpec::from_words(&["echo".into(), "$x".into()]).expect("a command");
        assert_eq!(spec.argv, ["echo", "$x"]);
        assert!(AgentSpec::from_words(&[]).is_err());
    }
}
