//! The findings of a remote's test as text.

use git_agent::output::human;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::share::probe::Probed;

/// Advice for a remote with many refs: a push cannot ask the host to list fewer.
const MANY: [&str; 3] = [
    "a push archives closed sessions, one ref per month: git agent clean",
    "git config agent.remote <remote>    for a repository of sessions alone",
    "a host can hide them: see 'A host with many sessions' in git-agent(1)",
];

/// Returns the findings, one a line.
pub fn lines(probed: &Probed) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {}",
        one_line(&probed.remote),
        one_line(&probed.address)
    )];
    let mut say = |word: &str, text: String| lines.push(format!("{word}: {text}"));
    match (&probed.reason, probed.accepts) {
        (_, true) => say("ok", "it accepts session refs".to_owned()),
        (reason, false) => {
            let reason = reason.as_deref().unwrap_or("it gave no reason");
            say(
                "error",
                format!("it refuses session refs: {}", one_line(reason)),
            );
        }
    }
    if probed.accepts {
        if probed.shows {
            say("ok", "it shows them to its readers".to_owned())
        } else {
            say(
                "error",
                "it hides them: teammates cannot fetch them".to_owned(),
            )
        }
        if probed.deletes {
            say("ok", "it allows their deletion".to_owned())
        } else {
            say(
                "warning",
                "it keeps deleted refs: a small ref of this test stays there".to_owned(),
            )
        }
        if !probed.atomic {
            say(
                "warning",
                "it does not support atomic pushes of several refs".to_owned(),
            );
        }
    }
    if probed.hidden {
        say(
            "note",
            "it hides them from pushes to this address, so they do not slow a push".to_owned(),
        );
        say(
            "hint",
            "git config agent.remote <remote>    for the address that is for sessions".to_owned(),
        );
    } else {
        let size = human::size(probed.bytes);
        let all = human::count(probed.advertised as u64, "ref");
        say(
            if probed.many { "warning" } else { "note" },
            format!(
                "every push lists its {all}, {} of sessions ({size})",
                probed.refs
            ),
        );
    }
    if probed.many {
        for hint in MANY {
            say("hint", hint.to_owned());
        }
    }
    if probed.foreign > 0 {
        let others = human::count(probed.foreign as u64, "ref");
        say(
            "note",
            format!("{others} beside them belong to other programs"),
        );
    }
    say(
        "note",
        format!(
            "listing took {} ms, a push of one small ref {} ms",
            probed.list_ms, probed.push_ms
        ),
    );
    if !probed.allowed {
        say(
            "note",
            "you have not agreed to share sessions with it yet".to_owned(),
        );
    }
    lines
}
