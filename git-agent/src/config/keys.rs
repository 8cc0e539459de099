//! The table of settings: name, kind of value, meaning, and whether an untrusted team file may set it.
//!
//! The table holds exactly the settings that some code reads.

use crate::config::{parse_duration, parse_number, settings};
use crate::git::history::is_branch_name;

/// The kind of value that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// The start of the branch names of sessions.
    Prefix,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A number; the suffixes `k`, `m` and `g` multiply it.
    Number,
    /// A duration such as `90s`, `15m`, `2h`; 0 means none.
    Span,
    /// An amount of money in US dollars.
    Money,
    /// A command for the shell.
    Command,
    /// A directory.
    Directory,
    /// Names of variables, one per value; may be set several times.
    Variables,
    /// Names, one per value; may be set several times.
    Names,
    /// Files, one per value; may be set several times.
    Files,
}

impl Kind {
    /// Returns the word that lists show for this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Text | Kind::Prefix => "text",
            Kind::Word(_) => "word",
            Kind::Bool => "boolean",
            Kind::Number => "number",
            Kind::Span => "time",
            Kind::Money => "money",
            Kind::Command => "command",
            Kind::Directory => "directory",
            Kind::Variables => "variables",
            Kind::Names => "names",
            Kind::Files => "files",
        }
    }

    /// Returns whether the setting may be set several times, with all values in force.
    pub fn is_list(self) -> bool {
        matches!(self, Kind::Variables | Kind::Names | Kind::Files)
    }

    /// Describes why a value is invalid; returns nothing for a valid one.
    pub fn complaint(self, value: &str) -> Option<String> {
        let wanted = match self {
            Kind::Word(words) if !words.contains(&value) => format!("one of {}", words.join(", ")),
            Kind::Prefix if !is_prefix(value) => "the start of a branch name".to_owned(),
            Kind::Bool if crate::config::parse_bool(value).is_none() => "true or false".to_owned(),
            Kind::Number if parse_number(value).is_none() => {
                "a number (try 100, 64k or 2g)".to_owned()
            }
            Kind::Span if parse_duration(value).is_none() => {
                "a duration (try 90s, 15m or 2h)".to_owned()
            }
            Kind::Money if parse_money(value).is_none() => {
                "an amount of money (try 2.50)".to_owned()
            }
            Kind::Command | Kind::Directory | Kind::Variables | Kind::Names | Kind::Files
                if value.trim().is_empty() =>
            {
                "something that is not empty".to_owned()
            }
            _ => return None,
        };
        Some(format!("'{value}' is not {wanted}"))
    }
}

fn is_prefix(value: &str) -> bool {
    let prefix = value.trim_end_matches('/');
    prefix.is_empty() || is_branch_name(&format!("{prefix}/x"))
}

/// Parses an amount of money.
pub fn parse_money(text: &str) -> Option<f64> {
    let amount: f64 = text.trim_start_matches('$').parse().ok()?;
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The name after `agent.`, `agent.<agent>.` or `agent-role.<role>.`.
    pub name: &'static str,
    /// The default value; empty for none.
    pub default: &'static str,
    /// The kind of value.
    pub kind: Kind,
    /// Whether it is read from an untrusted team file: it runs no command and opens no path.
    pub harmless: bool,
    /// One line of documentation.
    pub meaning: &'static str,
}

pub(crate) const fn key(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    harmless: bool,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        default,
        kind,
        harmless,
        meaning,
    }
}

/// The settings `agent.<agent>.<name>`, which add or change an agent.
pub const OF_AGENT: &[Key] = &[
    key(
        "attach",
        "",
        Kind::Command,
        false,
        "The command that opens the agent's own interface",
    ),
    key(
        "command",
        "",
        Kind::Command,
        false,
        "The command that starts the agent",
    ),
    key(
        "driver",
        "command",
        Kind::Word(&["command", "acp", "claude-stream", "codex-json"]),
        false,
        "The protocol between git-agent and the agent",
    ),
    key(
        "env",
        "",
        Kind::Variables,
        false,
        "Variables it needs, or NAME=value to set one",
    ),
    key("model", "", Kind::Text, false, "The model to use with it"),
    key(
        "provider",
        "",
        Kind::Text,
        false,
        "The provider whose rate limits it shares; by default derived from the model or the name",
    ),
];

/// The settings `agent-mcp.<server>.<name>`, which describe an MCP server.
pub const OF_SERVER: &[Key] = &[
    key(
        "command",
        "",
        Kind::Command,
        false,
        "The command that starts the server",
    ),
    key(
        "env",
        "",
        Kind::Variables,
        false,
        "Variables it needs, or NAME=value to set one",
    ),
];

/// The settings `agent-role.<role>.<name>`.
pub const OF_ROLE: &[Key] = &[
    key("agent", "", Kind::Text, true, "The agent of the role"),
    key(
        "answerTimeout",
        "",
        Kind::Span,
        true,
        "As agent.answerTimeout",
    ),
    key(
        "branchPrefix",
        "",
        Kind::Prefix,
        true,
        "As agent.branchPrefix",
    ),
    key(
        "dependsOn",
        "",
        Kind::Names,
        true,
        "Roles whose parts of a plan must be done before this one starts, by name",
    ),
    key(
        "description",
        "",
        Kind::Text,
        true,
        "The purpose of the role, in one line",
    ),
    key(
        "directory",
        "",
        Kind::Text,
        true,
        "The directory that the role works in, relative to the repository",
    ),
    key(
        "guard",
        "",
        Kind::Word(&["off", "refs", "cell"]),
        false,
        "As agent.guard; a session of the role does not start without it",
    ),
    key("maxCost", "", Kind::Money, true, "As agent.maxCost"),
    key("maxCpu", "", Kind::Number, true, "As agent.maxCpu"),
    key("maxDisk", "", Kind::Number, true, "As agent.maxDisk"),
    key("maxMemory", "", Kind::Number, true, "As agent.maxMemory"),
    key(
        "maxProcesses",
        "",
        Kind::Number,
        true,
        "As agent.maxProcesses",
    ),
    key("maxTokens", "", Kind::Number, true, "As agent.maxTokens"),
    key(
        "mcp",
        "",
        Kind::Names,
        true,
        "MCP servers offered to the role, besides those of agent.mcp",
    ),
    key("model", "", Kind::Text, true, "The model of the role"),
    key(
        "network",
        "",
        Kind::Word(&["on", "off"]),
        false,
        "As agent.network",
    ),
    key(
        "skills",
        "",
        Kind::Files,
        false,
        "Files with instructions for the role's agent, relative to the repository",
    ),
    key("stuckAfter", "", Kind::Span, true, "As agent.stuckAfter"),
    key(
        "task",
        "",
        Kind::Text,
        true,
        "The share of the role in a plan that names no task for it",
    ),
    key("timeout", "", Kind::Span, true, "As agent.timeout"),
    key(
        "whenStuck",
        "",
        Kind::Word(&["wait", "restart", "stop"]),
        true,
        "As agent.whenStuck",
    ),
    key(
        "worktreePrefix",
        "",
        Kind::Prefix,
        true,
        "The start of the folder names of its worktrees",
    ),
];

/// The settings that are ignored in every team file, trusted or not, and the reason.
const PERSONAL: &[(&str, &str)] = &[
    (
        "agent.approvers",
        "only a person decides whose approval counts",
    ),
    (
        "agent.maxSnapshot",
        "the limit depends on the disk of each machine",
    ),
    ("agent.share", "only a person decides who may read sessions"),
    ("agent.writer", "every clone writes under a name of its own"),
];

/// Returns why a setting is ignored in every team file, if it is.
pub fn no_say(name: &str) -> Option<&'static str> {
    let personal = PERSONAL
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name));
    match (personal, find(name)) {
        (Some((_, why)), _) => Some(why),
        (None, Some(_)) => None,
        (None, None) => Some("not a setting of git-agent"),
    }
}

/// Returns the setting with a full name such as `agent.maxParallel` or `agent-role.api.model`. The comparison ignores
/// case where git does.
pub fn find(name: &str) -> Option<&'static Key> {
    let (_, table, last) = beside(name)?;
    table.iter().find(|key| key.name.eq_ignore_ascii_case(last))
}

/// Returns the full names of the settings that have their place where this one would have it.
pub fn names_like(name: &str) -> Vec<String> {
    let Some((prefix, table, _)) = beside(name) else {
        return Vec::new();
    };
    let names = table.iter().map(|key| format!("{prefix}.{}", key.name));
    names.collect()
}

/// Returns the part of a name before its last word, the settings that may follow it, and the last word.
fn beside(name: &str) -> Option<(&str, &'static [Key], &str)> {
    let (section, rest) = name.split_once('.')?;
    let (prefix, last) = name.rsplit_once('.')?;
    let table = match (section.to_ascii_lowercase().as_str(), rest.contains('.')) {
        ("agent", false) => settings::ALL,
        ("agent", true) => OF_AGENT,
        ("agent-role", true) => OF_ROLE,
        ("agent-mcp", true) => OF_SERVER,
        _ => return None,
    };
    Some((prefix, table, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_git_finds_them() {
        assert_eq!(
            find("agent.maxparallel").map(|key| key.name),
            Some("maxParallel")
        );
        assert_eq!(
            find("Agent.mine.command").map(|key| key.name),
            Some("command")
        );
        assert_eq!(
            find("agent-role.a.b.MODEL").map(|key| key.name),
            Some("model")
        );
        for unknown in [
            "agent",
            "agent.x",
            "agent.x.maxParallel",
            "agent-role.model",
            "core.pager",
        ] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn what_is_personal_is_a_setting_and_no_team_decides_it() {
        for (key, why) in PERSONAL {
            assert!(find(key).is_some_and(|key| !key.harmless), "{key}");
            assert_eq!(no_say(&key.to_uppercase()), Some(*why));
        }
        assert_eq!(no_say("agent.setup"), None);
        assert!(no_say("core.pager").is_some());
    }

    #[test]
    fn tables_are_in_order_and_defaults_are_valid() {
        for table in [settings::ALL, OF_AGENT, OF_ROLE, OF_SERVER] {
            assert!(table.is_sorted_by(|a, b| a.name < b.name));
            for key in table {
                assert!(
                    !key.meaning.is_empty() && !key.meaning.ends_with('.'),
                    "{}",
                    key.name
                );
                let complaint = Some(key.default)
                    .filter(|default| !default.is_empty())
                    .and_then(|default| key.kind.complaint(default));
                assert_eq!(complaint, None, "{}", key.name);
                let runs = matches!(
                    key.kind,
                    Kind::Command | Kind::Directory | Kind::Variables | Kind::Files
                );
                assert!(!(runs && key.harmless), "{} is not harmless", key.name);
            }
        }
    }

    #[test]
    fn values_are_looked_at() {
        for (kind, good, bad) in [
            (Kind::Bool, "yes", "perhaps"),
            (Kind::Number, "2g", "-1"),
            (Kind::Span, "15m", "soon"),
            (Kind::Money, "$2.50", "much"),
            (Kind::Word(&["auto", "ask"]), "ask", "never"),
            (Kind::Command, "make", " "),
        ] {
            assert_eq!(kind.complaint(good), None, "{kind:?}");
            assert!(kind.complaint(bad).is_some(), "{kind:?}");
        }
    }
}
