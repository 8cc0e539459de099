//! The findings of a tried remote, in words.

use git_agent::output::human;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::share::probe::Probed;

/// What can be done about many refs: protocols give a push no way to ask for less.
const MANY: [&str; 3] = [
    "closed sessions fold into one ref a month at a push: git agent clean",
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
        (_, true) => say("ok", "it takes refs of sessions".to_owned()),
        (reason, false) => {
            let reason = reason.as_deref().unwrap_or("it gave no reason");
            say(
                "error",
                format!("it refuses refs of sessions: {}", one_line(reason)),
            );
        }
    }
    if probed.accepts {
        match probed.shows {
            true => say("ok", "it shows them to whoever may read it".to_owned()),
            false => say("error", "it hides them: nobody can fetch them".to_owned()),
        }
        match probed.deletes {
            true => say("ok", "it lets them be deleted".to_owned()),
            false => say(
                "warning",
                "it keeps deleted refs: a small ref of this test stays there".to_owned(),
            ),
        }
        if !probed.atomic {
            say(
                "warning",
                "several refs do not go together or not at all".to_owned(),
            );
        }
    }
    if probed.hidden {
        say(
            "note",
            "it hides them from pushes at this address, which therefore cost nothing more"
                .to_owned(),
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
                "every push is told of its {all}, {} of sessions ({size})",
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
