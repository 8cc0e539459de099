//! The settings `agent.<name>`, each with its type, default, parser and documentation. A reader names the constant, so
//! that no default is written down twice.

use std::time::Duration;

use crate::config::keys::{Key, Kind, key, parse_money};
use crate::config::{Config, parse_bool, parse_duration, parse_number};
use crate::error::{Error, Result};

/// A setting `agent.<name>` with a value of type `T`.
#[derive(Debug)]
pub struct Setting<T> {
    /// Its row in the table of settings.
    pub key: Key,
    parse: fn(&str) -> Option<T>,
}

impl<T> Setting<T> {
    const fn new(key: Key, parse: fn(&str) -> Option<T>) -> Self {
        Setting { key, parse }
    }

    /// Returns its full name, such as `agent.maxParallel`.
    pub fn name(&self) -> String {
        format!("agent.{}", self.key.name)
    }

    fn of_role(&self, role: &str) -> String {
        format!("agent-role.{role}.{}", self.key.name)
    }

    fn read(&self, name: &str, given: &str) -> Result<T> {
        let text = match self.key.kind {
            Kind::Word(words) => words.iter().find(|word| word.eq_ignore_ascii_case(given)),
            _ => Some(&given),
        };
        text.and_then(|text| (self.parse)(text)).ok_or_else(|| {
            let complaint = self.key.kind.complaint(given).unwrap_or_default();
            Error::fatal(format!("bad value for '{name}': {complaint}"))
        })
    }
}

impl Config<'_> {
    /// Returns the value of a setting, or its default; `None` if it has neither.
    pub fn get<T>(&self, setting: &Setting<T>) -> Result<Option<T>> {
        self.get_for(setting, None, None)
    }

    /// Returns the value of a setting that has a default.
    pub fn require<T>(&self, setting: &Setting<T>) -> Result<T> {
        let value = self.get(setting)?;
        value.ok_or_else(|| Error::fatal(format!("'{}' is not set", setting.name())))
    }

    /// Returns the value of a setting for one session: the chosen one, else that of its role, else the setting itself,
    /// else the default.
    pub fn get_for<T>(
        &self,
        setting: &Setting<T>,
        role: Option<&str>,
        chosen: Option<&str>,
    ) -> Result<Option<T>> {
        let name = setting.name();
        if let Some(text) = chosen {
            return setting.read(&name, text).map(Some);
        }
        let of_role = role.map(|role| setting.of_role(role));
        for name in of_role.into_iter().chain([name]) {
            if let Some(text) = self.string(&name) {
                return setting.read(&name, &text).map(Some);
            }
        }
        Ok((setting.parse)(setting.key.default).filter(|_| !setting.key.default.is_empty()))
    }

    /// Returns the value of a setting that takes any text, or its default.
    pub fn text(&self, setting: &Setting<String>) -> Option<String> {
        let default = || Some(setting.key.default.to_owned()).filter(|text| !text.is_empty());
        self.string(&setting.name()).or_else(default)
    }

    /// Returns every value of a setting that may have several.
    pub fn list(&self, setting: &Setting<String>) -> Vec<String> {
        self.strings(&setting.name())
    }
}

fn parse_text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

macro_rules! settings {
    ($($name:ident: $type:ty = $parse:ident($key:literal, $default:literal, $kind:expr, $harmless:literal, $meaning:literal);)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Setting<$type> =
                Setting::new(key($key, $default, $kind, $harmless, $meaning), $parse);
        )*

        /// Every setting `agent.<name>`, by name.
        pub const ALL: &[Key] = &[$($name.key),*];
    };
}

// The name, the default, the kind of value, whether an untrusted team file may set it, and its meaning.
settings! {
    ANSWER_TIMEOUT: Duration = parse_duration(
        "answerTimeout", "1h", Kind::Span, true,
        "How long a permission request waits for the user before it is refused"
    );
    APPROVERS: String = parse_text(
        "approvers", "", Kind::Names, false,
        "Sessions, roles or agents whose approval counts like a person's"
    );
    AUTO_COMMIT: bool = parse_bool(
        "autoCommit", "false", Kind::Bool, false,
        "Whether every turn's work is committed on the session's branch"
    );
    BRANCH_PREFIX: String = parse_text(
        "branchPrefix", "agent", Kind::Prefix, true,
        "The start of the branch names of sessions"
    );
    DEFAULT: String = parse_text(
        "default", "", Kind::Text, true,
        "The agent to use; by default the first one that is installed"
    );
    DISPLAY_NOTES: bool = parse_bool(
        "displayNotes", "false", Kind::Bool, false,
        "Whether reviews are rendered for 'git log --notes=agents/review'"
    );
    EDITOR: String = parse_text("editor", "", Kind::Command, false, "Opens a directory, for 'git agent open'");
    ENV: String = parse_text(
        "env", "", Kind::Variables, false,
        "Further variables that sessions inherit; a '*' at the end matches any suffix"
    );
    GROUP_TIMEOUT: Duration = parse_duration(
        "groupTimeout", "", Kind::Span, true,
        "How long the sessions of a group may work in total"
    );
    GUARD: String = parse_text(
        "guard", "", Kind::Word(&["off", "refs", "cell"]), false,
        "How agents are kept in their session; by default 'cell' where this machine can hold it, else 'refs'"
    );
    KEEP_CONVERSATIONS: String = parse_text(
        "keepConversations", "files", Kind::Word(&["none", "files", "all"]), true,
        "Whether agents' own conversation files are kept with the log; all runs their export too"
    );
    LINGER: Duration = parse_duration(
        "linger", "0", Kind::Span, true,
        "How long an agent that starts slowly is kept after a turn"
    );
    MAX_COOL_DOWN: Duration = parse_duration(
        "maxCoolDown", "1h", Kind::Span, true,
        "The longest that sessions wait for a provider's rate limit"
    );
    MAX_COST: f64 = parse_money("maxCost", "", Kind::Money, true, "The most that a session may cost, in US dollars");
    MAX_CPU: u64 = parse_number(
        "maxCpu", "", Kind::Number, true,
        "Processor time a session may use, in percent of one core"
    );
    MAX_DISK: u64 = parse_number(
        "maxDisk", "", Kind::Number, true,
        "Disk space that the worktree and the temporary files of a session may use, in bytes (10g)"
    );
    MAX_GROUP_COST: f64 = parse_money(
        "maxGroupCost", "", Kind::Money, true,
        "The most that the sessions of a group may cost together, in US dollars"
    );
    MAX_GROUP_TOKENS: u64 = parse_number(
        "maxGroupTokens", "", Kind::Number, true,
        "How many tokens the sessions of a group may use together"
    );
    MAX_MEMORY: u64 = parse_number("maxMemory", "", Kind::Number, true, "Memory a session may use, in bytes (2g)");
    MAX_MESSAGES: u64 = parse_number(
        "maxMessages", "20", Kind::Number, true,
        "How many messages a session may send to others before the user is asked"
    );
    MAX_PARALLEL: u64 = parse_number(
        "maxParallel", "4", Kind::Number, true,
        "How many sessions run at the same time; the others wait"
    );
    MAX_PROCESSES: u64 = parse_number(
        "maxProcesses", "", Kind::Number, true,
        "How many processes a session may have at the same time"
    );
    MAX_SNAPSHOT: u64 = parse_number(
        "maxSnapshot", "1g", Kind::Number, false,
        "The largest untracked file that snapshots keep, in bytes; 0 keeps all"
    );
    MAX_TOKENS: u64 = parse_number("maxTokens", "", Kind::Number, true, "How many tokens a session may use");
    MCP: String = parse_text(
        "mcp", "", Kind::Names, true,
        "MCP servers offered to every agent, by name; each is an agent-mcp section"
    );
    MCP_SELF: bool = parse_bool(
        "mcpSelf", "true", Kind::Bool, true,
        "Whether agents are offered git-agent's own MCP server: messages, artifacts, sessions, progress"
    );
    MERGE_MESSAGE: String = parse_text(
        "mergeMessage", "first-line", Kind::Word(&["first-line", "full", "none"]), false,
        "How much of a session's task its commit messages contain"
    );
    MERGE_STRATEGY: String = parse_text(
        "mergeStrategy", "orchestrator-review", Kind::Word(&["orchestrator-review", "auto", "manual"]), false,
        "The condition for a merge: an approval, passing tests, or a person who runs the merge"
    );
    MERGE_STYLE: String = parse_text(
        "mergeStyle", "no-ff", Kind::Word(&["no-ff", "squash", "rebase", "ff-only"]), true,
        "How 'git agent merge' merges"
    );
    MODEL: String = parse_text("model", "", Kind::Text, true, "The model to use");
    NETWORK: String = parse_text(
        "network", "on", Kind::Word(&["on", "off"]), false,
        "Whether agents have a network; 'off' needs guard level 'cell'"
    );
    NOTIFY: String = parse_text("notify", "", Kind::Command, false, "Run when a session waits, is ready or has failed");
    PERMISSIONS: String = parse_text(
        "permissions", "auto", Kind::Word(&["auto", "ask"]), true,
        "Who answers permissions: the policy, or a person each time"
    );
    READABLE: String = parse_text(
        "readable", "", Kind::Files, false,
        "Paths that agents may read although they are closed to them"
    );
    REMOTE: String = parse_text(
        "remote", "", Kind::Text, false,
        "The remote that sessions are pushed to and fetched from; by default origin"
    );
    RETENTION: u64 = parse_number(
        "retention", "14", Kind::Number, false,
        "Days after which a closed session moves to the archive of its month, or earlier if 20 sessions were closed after it; 0 means never"
    );
    RETRIES: u64 = parse_number(
        "retries", "2", Kind::Number, true,
        "How often a turn is tried again when the model fails, is rate limited or hangs"
    );
    RUN: String = parse_text("run", "", Kind::Command, false, "Runs the project, for 'git agent run'");
    SECRET: String = parse_text(
        "secret", "", Kind::Files, false,
        "Paths that agents may not read, besides keys, logins and browsers"
    );
    SETUP: String = parse_text("setup", "", Kind::Command, false, "Run in every new worktree before the agent");
    SHARE: String = parse_text(
        "share", "", Kind::Text, false,
        "Addresses that sessions may be pushed to; may be set several times"
    );
    SIGN: bool = parse_bool(
        "sign", "false", Kind::Bool, false,
        "Whether shared records are signed, with the key and program that git signs with"
    );
    STUCK_AFTER: Duration = parse_duration(
        "stuckAfter", "10m", Kind::Span, true,
        "How long an agent may be silent before it counts as stuck"
    );
    TEST: String = parse_text("test", "", Kind::Command, false, "Tests a merged result before a branch moves to it");
    TEST_TIMEOUT: Duration = parse_duration(
        "testTimeout", "", Kind::Span, true,
        "How long the tests of a merged result may take"
    );
    TIMEOUT: Duration = parse_duration("timeout", "", Kind::Span, true, "How long a turn may take");
    UPDATE_STYLE: String = parse_text(
        "updateStyle", "merge", Kind::Word(&["merge", "rebase"]), true,
        "How 'git agent update' brings sessions up to date"
    );
    WHEN_STUCK: String = parse_text(
        "whenStuck", "wait", Kind::Word(&["wait", "restart", "stop"]), true,
        "The action when an agent is stuck, besides the notice"
    );
    WORKTREE_DIR: String = parse_text(
        "worktreeDir", "../{repo}-worktrees", Kind::Directory, false,
        "The directory of the worktrees, relative to the repository"
    );
    WRITABLE: String = parse_text(
        "writable", "", Kind::Files, false,
        "Paths that agents may write, besides their worktree and caches"
    );
    WRITER: String = parse_text(
        "writer", "", Kind::Text, false,
        "This clone's name as author of records, for machines that are rebuilt often"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_parses() {
        assert_eq!((MAX_PARALLEL.parse)(MAX_PARALLEL.key.default), Some(4));
        for key in ALL.iter().filter(|key| !key.default.is_empty()) {
            assert_eq!(key.kind.complaint(key.default), None, "{}", key.name);
        }
    }

    #[test]
    fn a_bad_value_names_the_setting_and_the_kind_of_value() {
        let error = RETRIES
            .read("agent.retries", "many")
            .expect_err("not a number");
        assert_eq!(
            error.message(),
            "bad value for 'agent.retries': 'many' is not a number (try 100, 64k or 2g)"
        );
    }
}
