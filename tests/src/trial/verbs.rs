//! Every command that changes something, what it begins with, and what a person does after it was disturbed.

use super::world::Scene;

/// What is done again after a command was disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// The same command.
    Same,
    /// The same command, unless there is a session of this name already.
    Unless(&'static str),
}

/// A command of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Verb {
    /// What it is called in the table.
    pub name: &'static str,
    /// What it begins with.
    pub scene: Scene,
    /// What is done in each round before it is disturbed: these need living processes, so no template holds them.
    pub setup: &'static [&'static [&'static str]],
    /// The session that must be in this state before it is disturbed.
    pub until: Option<(&'static str, &'static str)>,
    /// The words after `git`.
    pub words: &'static [&'static str],
    /// What standard input gives.
    pub stdin: &'static str,
    /// Whether it starts or talks to a supervisor, which can be a victim then.
    pub supervised: bool,
    /// What is done again.
    pub again: Again,
    /// What a session that was interrupted is told, if it is to go on.
    pub prompt: Option<&'static str>,
    /// Facts that need not be equal: their names contain one of these.
    pub loose: &'static [&'static str],
    /// Whether the next step may be to approve and land `s0`: no agent works in it that could be half done.
    pub land: bool,
    /// Whether it takes the user's changes along: they are here or there, whole.
    pub carries: bool,
}

const PLAIN: Verb = Verb {
    name: "",
    scene: Scene::Work,
    setup: &[],
    until: None,
    words: &[],
    stdin: "",
    supervised: false,
    again: Again::Same,
    prompt: None,
    loose: &[],
    land: false,
    carries: false,
};

const HOLD: &[&[&str]] = &[&["agent", "new", "h0", "--", "trial-agent", "hold", "h"]];
const ASK: &[&[&str]] = &[&[
    "agent",
    "new",
    "--name",
    "a0",
    "--agent",
    "fake",
    "--ask",
    "ask rm everything\nwrite out.txt x",
]];

/// All of them.
pub const VERBS: &[Verb] = &[
    Verb {
        name: "new",
        words: &["agent", "new", "n0", "--", "trial-agent", "plain", "n"],
        supervised: true,
        again: Again::Unless("n0"),
        prompt: Some("do one"),
        ..PLAIN
    },
    Verb {
        name: "new --carry",
        scene: Scene::Alone,
        words: &[
            "agent",
            "new",
            "n0",
            "--carry",
            "--",
            "trial-agent",
            "plain",
            "n",
        ],
        supervised: true,
        again: Again::Unless("n0"),
        prompt: Some("do one"),
        carries: true,
        ..PLAIN
    },
    Verb {
        name: "send",
        words: &["agent", "send", "s0", "do three"],
        supervised: true,
        prompt: Some("do three"),
        ..PLAIN
    },
    Verb {
        name: "send to a cleaned session",
        scene: Scene::Cleaned,
        words: &["agent", "send", "s0", "do three"],
        supervised: true,
        prompt: Some("do three"),
        ..PLAIN
    },
    Verb {
        name: "answer",
        setup: ASK,
        until: Some(("a0", "waiting")),
        words: &["agent", "answer", "a0", "no"],
        supervised: true,
        prompt: Some("write out.txt x"),
        ..PLAIN
    },
    Verb {
        name: "stop",
        setup: HOLD,
        until: Some(("h0", "running")),
        words: &["agent", "stop", "h0"],
        supervised: true,
        loose: &["h0 files"],
        ..PLAIN
    },
    Verb {
        name: "restart",
        setup: HOLD,
        until: Some(("h0", "running")),
        words: &["agent", "restart", "h0", "-m", "do one"],
        supervised: true,
        prompt: Some("do one"),
        ..PLAIN
    },
    Verb {
        name: "resume",
        setup: &[&[
            "agent",
            "new",
            "n0",
            "--no-start",
            "--",
            "trial-agent",
            "plain",
            "n",
        ]],
        words: &["agent", "resume", "n0"],
        supervised: true,
        prompt: Some("do one"),
        ..PLAIN
    },
    Verb {
        name: "fork",
        words: &["agent", "fork", "s0", "do three", "--name", "f0"],
        supervised: true,
        again: Again::Unless("f0"),
        prompt: Some("do three"),
        ..PLAIN
    },
    Verb {
        name: "update",
        words: &["agent", "update", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "update --rebase",
        words: &["agent", "update", "--rebase", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "commit",
        words: &["agent", "commit", "s0", "-m", "by the user"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "snapshot",
        words: &["agent", "snapshot", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "restore",
        scene: Scene::Cleaned,
        words: &["agent", "restore", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "rewind",
        words: &["agent", "rewind", "--turn", "1", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "recreate",
        words: &["agent", "recreate", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "clean",
        words: &["agent", "clean", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "review comment",
        words: &["agent", "review", "comment", "s0", "-m", "hm"],
        loose: &["comments"],
        ..PLAIN
    },
    Verb {
        name: "review approve",
        words: &["agent", "review", "approve", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "review send",
        scene: Scene::Commented,
        words: &["agent", "review", "send", "s0"],
        supervised: true,
        prompt: Some("do three"),
        ..PLAIN
    },
    Verb {
        name: "merge",
        scene: Scene::Approved,
        words: &["agent", "merge", "--yes", "--into", "main", "s0"],
        land: true,
        ..PLAIN
    },
    Verb {
        name: "merge --undo",
        scene: Scene::Merged,
        words: &["agent", "merge", "--undo", "--yes"],
        ..PLAIN
    },
    Verb {
        name: "merge queue run",
        scene: Scene::Queued,
        words: &["agent", "merge", "queue", "run"],
        ..PLAIN
    },
    Verb {
        name: "merge resolve",
        scene: Scene::Conflict,
        words: &[
            "agent",
            "merge",
            "resolve",
            "--auto",
            "--yes",
            "s0",
            "--no-test",
        ],
        supervised: true,
        loose: &["resolve-"],
        ..PLAIN
    },
    Verb {
        name: "push",
        scene: Scene::Remote,
        words: &["agent", "push", "-y", "origin"],
        ..PLAIN
    },
    Verb {
        name: "fetch",
        scene: Scene::Remote,
        words: &["agent", "fetch", "origin"],
        ..PLAIN
    },
    Verb {
        name: "forget",
        scene: Scene::Cleaned,
        words: &["agent", "forget", "s0"],
        ..PLAIN
    },
    Verb {
        name: "purge",
        words: &["agent", "purge", "--local", "--value-file", "-"],
        stdin: "hunter-elephant-42\n",
        ..PLAIN
    },
];
