//! All settings in force, each with its value, its source and its meaning.

use serde::Serialize;

use crate::config::keys::{self, Key};
use crate::config::{Config, TEAM_FILE, settings};

/// One setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingRow {
    /// The full name, such as `agent.maxParallel`.
    pub key: String,
    /// The value or the default; absent if there is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The source of the value: a scope in git's words, the team's file, or `default`.
    pub source: String,
    /// The kind of value; absent for an unknown setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// One line of documentation; absent for an unknown setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
}

/// A role: its name, and its settings by their short names.
pub type Role = (String, Vec<(&'static str, String)>);

impl Config<'_> {
    /// Returns the roles.
    pub fn roles(&self) -> Vec<Role> {
        let settings = |name: &str| {
            let value = |key: &Key| {
                let value = self.string(&format!("agent-role.{name}.{}", key.name))?;
                Some((key.name, value))
            };
            keys::OF_ROLE.iter().filter_map(value).collect()
        };
        let names = self.names("agent-role").into_iter();
        names.map(|name| (name.clone(), settings(&name))).collect()
    }

    /// Returns every known setting, and every other key under `agent` and `agent-role`.
    pub fn report(&self) -> Vec<SettingRow> {
        let mut rows: Vec<SettingRow> = settings::ALL
            .iter()
            .map(|key| row(format!("agent.{}", key.name), Some(key)))
            .collect();
        let mut set = |key: &str, value: &str, source: &str| {
            let known = keys::find(key);
            let place = rows.iter().position(|row| same_key(&row.key, key));
            let place = place.unwrap_or_else(|| {
                rows.push(row(spelling(key, known), known));
                rows.len() - 1
            });
            let several = known.is_some_and(|key| key.kind.is_list());
            let row = &mut rows[place];
            let before = row
                .value
                .take()
                .filter(|_| several && row.source != "default");
            row.value = Some(match before {
                Some(before) => format!("{before} {value}"),
                None => value.to_owned(),
            });
            row.source = source.to_owned();
        };
        if let Some(team) = &self.team {
            for (key, value) in team.file.settings() {
                if is_ours(&key) && team.allows(&key) {
                    set(&key, &value, TEAM_FILE);
                }
            }
        }
        for section in ["agent", "agent-role", "agent-mcp"] {
            for setting in self.repo.config_settings(section) {
                set(&setting.key, &setting.value, setting.scope);
            }
        }
        rows
    }

    /// Returns one setting in force, by its full name.
    pub fn row(&self, name: &str) -> Option<SettingRow> {
        self.report()
            .into_iter()
            .find(|row| same_key(&row.key, name))
    }
}

fn row(name: String, key: Option<&'static Key>) -> SettingRow {
    let default = key.map_or("", |key| key.default);
    SettingRow {
        key: name,
        value: Some(default.to_owned()).filter(|default| !default.is_empty()),
        source: "default".to_owned(),
        kind: key.map(|key| key.kind.as_str()),
        meaning: key.map(|key| key.meaning),
    }
}

fn is_ours(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    ["agent", "agent-role", "agent-mcp"]
        .iter()
        .any(|ours| section.eq_ignore_ascii_case(ours))
}

/// Returns whether git treats two names as equal: it ignores case in the section and in the last word.
fn same_key(one: &str, other: &str) -> bool {
    let parts = |key: &str| -> Option<(String, String, String)> {
        let (section, rest) = key.split_once('.')?;
        let (middle, last) = rest.rsplit_once('.').unwrap_or(("", rest));
        Some((
            section.to_ascii_lowercase(),
            middle.to_owned(),
            last.to_ascii_lowercase(),
        ))
    };
    parts(one).is_some_and(|one| parts(other) == Some(one))
}

/// Returns a name with its last word spelled as in the table.
fn spelling(name: &str, key: Option<&Key>) -> String {
    match (name.rsplit_once('.'), key) {
        (Some((before, _)), Some(key)) => format!("{before}.{}", key.name),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_as_in_git() {
        assert!(same_key("agent.maxParallel", "Agent.MAXPARALLEL"));
        assert!(same_key("agent.A.command", "agent.A.Command"));
        assert!(!same_key("agent.A.command", "agent.a.command"));
        assert!(!same_key("agent.a.env", "agent.env"));
        assert_eq!(
            spelling("agent.maxparallel", keys::find("agent.maxparallel")),
            "agent.maxParallel"
        );
    }
}
