//! `git agent doctor`: says what is wrong with our part of the repository, and repairs it when asked to.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::doctor;
use git_agent::env::Env;
use git_agent::error::{Context as _, Result};
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json};
use git_agent::session::caller::{self, Act};
use git_agent::share::probe::{self, Probed};
use git_agent::share::remote::Remote;

#[derive(Debug, Args)]
pub struct Doctor {
    /// Repair what can be repaired; what is taken away is kept in the repository's agents/lost
    #[arg(long)]
    fix: bool,
    /// Try out a remote instead: does it take our refs, show them, how many has it, what does a push cost
    #[arg(long, value_name = "REMOTE", conflicts_with = "fix")]
    remote: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Doctor) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if args.fix || args.remote.is_some() {
            caller::permit(context, Act::Repair, [])?;
        }
        if let Some(remote) = &args.remote {
            return try_out(context, ui, remote);
        }
        let report = doctor::examine(context, args.fix)?;
        let left = report.findings.iter().filter(|one| one.remains()).count();
        let code = u8::from(left > 0);
        if ui.format() == Format::Json {
            return json::write_list(ui, "findings", &report.findings).map(|()| code);
        }
        for one in &report.findings {
            let mut out = ui.out();
            let severity = if one.fixed {
                "fixed"
            } else {
                one.severity.as_str()
            };
            writeln!(
                out,
                "{severity}: {}: {}",
                one_line(one.place.as_str()),
                one_line(one.what.as_str())
            )?;
            if let (Some(repair), false) = (&one.repair, one.fixed) {
                writeln!(out, "    --fix: {}", one_line(repair.as_str()))?;
            }
            if let Some(trouble) = &one.trouble {
                writeln!(out, "    not repaired: {}", one_line(trouble.as_str()))?;
            }
        }
        if left == 0 {
            ui.narrate(format!(
                "no problems left (git {}, refs in {})",
                report.git, report.backend
            ));
        } else if !args.fix && report.findings.iter().any(|one| one.repair.is_some()) {
            ui.hint("git agent doctor --fix");
        }
        Ok(code)
    })
}

/// Tries out a remote and says what was found.
fn try_out(context: &Context<'_>, ui: &Ui, remote: &str) -> Result<u8> {
    let remote = Remote::choose(context, Some(remote))?;
    let probed = probe::probe(context, &remote)?;
    let code = u8::from(!probed.accepts || !probed.shows);
    if ui.format() == Format::Json {
        return json::write_list(ui, "remotes", [&probed]).map(|()| code);
    }
    for line in findings(&probed) {
        writeln!(ui.out(), "{line}").context(cannot_write)?;
    }
    Ok(code)
}

/// What can be done about many refs: protocols give a push no way to ask for less.
const MANY: [&str; 3] = [
    "closed sessions fold into one ref a month at a push: git agent clean",
    "git config agent.remote <remote>    for a repository of sessions alone",
    "a host can hide them: see 'A host with many sessions' in git-agent(1)",
];

fn findings(probed: &Probed) -> Vec<String> {
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
            "nobody has agreed to share sessions with it yet".to_owned(),
        );
    }
    lines
}
