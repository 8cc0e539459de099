//! Files of agents in the user's home: those that each must write, its settings, and its credentials.
//!
//! From runs of the programs with everything else read-only. Settings are named separately: a hook or a server in them runs
//! in the next session, so an agent may read them and not change them.

use std::path::{Path, PathBuf};

/// The home directories that paths begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homes {
    /// The user's home.
    pub home: PathBuf,
    /// The directories of the desktop standard.
    pub data: PathBuf,
    /// Settings.
    pub config: PathBuf,
    /// Files that can be made again.
    pub cache: PathBuf,
    /// Logs and histories.
    pub state: PathBuf,
}

impl Homes {
    /// Finds them from variables.
    pub fn find(var: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let home = var("HOME").filter(|home| home.is_absolute())?;
        let or = |name: &str, usual: &str| {
            var(name)
                .filter(|path| path.is_absolute())
                .unwrap_or_else(|| home.join(usual))
        };
        Some(Homes {
            data: or("XDG_DATA_HOME", ".local/share"),
            config: or("XDG_CONFIG_HOME", ".config"),
            cache: or("XDG_CACHE_HOME", ".cache"),
            state: or("XDG_STATE_HOME", ".local/state"),
            home,
        })
    }

    /// Returns the path of an entry of a table: `~/`, `data/`, `config/`, `cache/` or `state/`, and a name.
    pub fn path(&self, entry: &str) -> PathBuf {
        let (root, rest) = entry.split_once('/').unwrap_or((entry, ""));
        let root = match root {
            "data" => &self.data,
            "config" => &self.config,
            "cache" => &self.cache,
            "state" => &self.state,
            _ => &self.home,
        };
        root.join(rest)
    }
}

/// The files of one agent.
#[derive(Debug, PartialEq, Eq)]
pub struct Places {
    /// The program.
    pub program: &'static str,
    /// Directories that it must write; a name that ends in `.json` is a file.
    pub writable: &'static [&'static str],
    /// Settings and instructions that the next session reads.
    pub settings: &'static [&'static str],
    /// Its logins, closed to other agents.
    pub credentials: &'static [&'static str],
}

/// The agents whose files are known.
pub const PLACES: [Places; 12] = [
    Places {
        program: "claude",
        writable: &["~/.claude", "~/.claude.json", "cache/claude-cli-nodejs"],
        settings: &[
            "~/.claude/settings.json",
            "~/.claude/settings.local.json",
            "~/.claude/CLAUDE.md",
            "~/.claude/commands",
            "~/.claude/agents",
            "~/.claude/hooks",
            "~/.claude/skills",
            "~/.claude/plugins",
        ],
        credentials: &["~/.claude/.credentials.json"],
    },
    Places {
        program: "codex",
        writable: &["~/.codex"],
        settings: &[
            "~/.codex/config.toml",
            "~/.codex/AGENTS.md",
            "~/.codex/prompts",
            "~/.codex/rules",
        ],
        credentials: &["~/.codex/auth.json"],
    },
    Places {
        program: "gemini",
        writable: &["~/.gemini"],
        settings: &[
            "~/.gemini/settings.json",
            "~/.gemini/GEMINI.md",
            "~/.gemini/commands",
            "~/.gemini/extensions",
        ],
        credentials: &["~/.gemini/oauth_creds.json"],
    },
    Places {
        program: "qwen",
        writable: &["~/.qwen"],
        settings: &[
            "~/.qwen/settings.json",
            "~/.qwen/QWEN.md",
            "~/.qwen/commands",
            "~/.qwen/extensions",
        ],
        credentials: &["~/.qwen/oauth_creds.json"],
    },
    Places {
        program: "kilo",
        writable: &[
            "data/kilo",
            "state/kilo",
            "state/kilo-sandbox-policy",
            "config/kilo",
            "cache/kilo",
        ],
        settings: &[
            "config/kilo/kilo.json",
            "config/kilo/kilo.jsonc",
            "config/kilo/AGENTS.md",
            "config/kilo/plugin",
        ],
        credentials: &["data/kilo/auth.json"],
    },
    Places {
        program: "opencode",
        writable: &[
            "data/opencode",
            "state/opencode",
            "config/opencode",
            "cache/opencode",
        ],
        settings: &[
            "config/opencode/opencode.json",
            "config/opencode/opencode.jsonc",
            "config/opencode/AGENTS.md",
            "config/opencode/plugin",
            "config/opencode/command",
            "config/opencode/agent",
        ],
        credentials: &["data/opencode/auth.json"],
    },
    Places {
        program: "copilot",
        writable: &["~/.copilot", "cache/copilot"],
        settings: &["~/.copilot/mcp-config.json", "~/.copilot/agents"],
        credentials: &[],
    },
    Places {
        program: "goose",
        writable: &["data/goose", "state/goose", "config/goose"],
        settings: &["config/goose/config.yaml", "config/goose/.goosehints"],
        credentials: &["config/goose/secrets.yaml"],
    },
    Places {
        program: "cline",
        writable: &["~/.cline"],
        settings: &[
            "~/.cline/data/settings/cline_mcp_settings.json",
            "~/.cline/rules",
            "~/.cline/hooks",
        ],
        credentials: &["~/.cline/data/secrets.json"],
    },
    Places {
        program: "aider",
        writable: &["~/.aider"],
        settings: &["~/.aider.conf.yml"],
        credentials: &["~/.aider/oauth-keys.env"],
    },
    Places {
        program: "pi",
        writable: &["~/.pi"],
        settings: &["~/.pi/agent/settings.json", "~/.pi/agent/extensions"],
        credentials: &["~/.pi/agent/auth.json"],
    },
    Places {
        program: "cn",
        writable: &["~/.continue"],
        settings: &[
            "~/.continue/config.yaml",
            "~/.continue/config.json",
            "~/.continue/permissions.yaml",
        ],
        credentials: &["~/.continue/auth.json"],
    },
];

/// Returns the files of an agent, by its name or that of its program.
pub fn of(name: &str, program: Option<&Path>) -> Option<&'static Places> {
    let program = program.and_then(Path::file_name);
    PLACES
        .iter()
        .find(|places| places.program == name || program.is_some_and(|it| it == places.program))
}

/// Caches of tools: the tool's program, and the directories that it must write.
pub const CACHES: [(&str, &[&str]); 22] = [
    ("npm", &["~/.npm", "cache/node", "cache/node-gyp"]),
    ("pnpm", &["data/pnpm", "cache/pnpm", "state/pnpm"]),
    ("yarn", &["cache/yarn", "~/.yarn"]),
    ("bun", &["~/.bun/install"]),
    ("deno", &["cache/deno"]),
    (
        "npx",
        &[
            "cache/ms-playwright",
            "cache/ms-playwright-go",
            "cache/Cypress",
            "cache/puppeteer",
        ],
    ),
    ("pip", &["cache/pip"]),
    ("uv", &["cache/uv", "data/uv"]),
    ("poetry", &["cache/pypoetry"]),
    ("python3", &["cache/pre-commit", "cache/matplotlib"]),
    (
        "cargo",
        &[
            "~/.cargo/registry",
            "~/.cargo/git",
            "~/.cargo/.package-cache",
            "~/.cargo/.package-cache-mutate",
            "~/.cargo/.global-cache",
        ],
    ),
    ("sccache", &["cache/sccache"]),
    ("ccache", &["cache/ccache", "~/.ccache"]),
    ("go", &["~/go/pkg", "cache/go-build", "config/go"]),
    ("gradle", &["~/.gradle"]),
    ("java", &["~/.gradle", "~/.m2/repository", "~/.m2/wrapper"]),
    ("mvn", &["~/.m2/repository"]),
    ("dotnet", &["~/.nuget/packages", "data/NuGet"]),
    ("composer", &["cache/composer"]),
    ("gem", &["~/.gem", "~/.bundle/cache"]),
    ("bazel", &["cache/bazel", "cache/bazelisk"]),
    ("zig", &["cache/zig"]),
];

/// Files of the user that no agent needs: keys, logins, mail, browsers, and the histories of shells.
pub const SECRETS: [&str; 62] = [
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.kube",
    "~/.docker",
    "~/.oci",
    "~/.netrc",
    "~/.git-credentials",
    "~/.pypirc",
    "~/.vault-token",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.s3cfg",
    "~/.boto",
    "~/.fly",
    "~/.password-store",
    "~/.age",
    "~/.1password",
    "~/.terraform.d",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.gem/credentials",
    "~/.config/gcloud",
    "~/.mozilla",
    "~/.thunderbird",
    "~/.bash_history",
    "~/.zsh_history",
    "~/.python_history",
    "~/.node_repl_history",
    "~/.psql_history",
    "~/.mysql_history",
    "~/.lesshst",
    "~/.viminfo",
    "config/gcloud",
    "config/gh",
    "config/glab-cli",
    "config/hub",
    "config/git/credentials",
    "config/op",
    "config/rclone",
    "config/doctl",
    "config/hcloud",
    "config/sops",
    "config/age",
    "config/containers/auth.json",
    "config/google-chrome",
    "config/chromium",
    "config/BraveSoftware",
    "config/microsoft-edge",
    "config/vivaldi",
    "config/opera",
    "config/Bitwarden",
    "config/Signal",
    "config/Slack",
    "config/keepassxc",
    "data/keyrings",
    "data/kwalletd",
    "data/fish/fish_history",
    "cache/mozilla",
    "cache/google-chrome",
    "state/bash",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_where_the_user_has_them() {
        let homes = Homes::find(|name| match name {
            "HOME" => Some("/home/me".into()),
            "XDG_CACHE_HOME" => Some("/fast/cache".into()),
            "XDG_DATA_HOME" => Some("relative".into()),
            _ => None,
        });
        let homes = homes.expect("a home");
        for (entry, path) in [
            ("~/.claude", "/home/me/.claude"),
            ("cache/uv", "/fast/cache/uv"),
            ("data/kilo", "/home/me/.local/share/kilo"),
            ("config/gh", "/home/me/.config/gh"),
        ] {
            assert_eq!(homes.path(entry), Path::new(path));
        }
        assert_eq!(Homes::find(|_| None), None);
        let by_program = of("mine", Some(Path::new("/opt/bin/codex")));
        assert_eq!(by_program.expect("known").program, "codex");
        assert_eq!(of("mine", None), None);
    }

    #[test]
    fn settings_and_logins_are_in_what_an_agent_writes() {
        for places in &PLACES {
            for entry in places.settings.iter().chain(places.credentials) {
                let within = places.writable.iter().any(|dir| entry.starts_with(dir));
                assert!(within, "{}: {entry}", places.program);
            }
        }
    }
}
