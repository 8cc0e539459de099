//! `git agent push`: gives a remote what it lacks of this clone's sessions, transcripts and reviews.

use std::io::Write;

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Result, shell_word};
use git_agent::git::remote::transfer::Audience;
use git_agent::invoke::OutputArgs;
use git_agent::invoke::in_repo;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui, cannot_write, human, json, porcelain};
use git_agent::selection::{self, Selection};
use git_agent::session::caller::{self, Act};
use git_agent::share::outcome::{Cause, Change, What};
use git_agent::share::push::{self, Options};
use git_agent::share::remote::Remote;

#[derive(Debug, Args)]
pub struct Push {
    /// The remote (default: agent.remote, then origin)
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Only these sessions: names, ids, or ends of ids; review notes always go along
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Agree to share with this remote without being asked
    #[arg(short, long)]
    yes: bool,
    /// Only say what would be pushed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Push) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        if !args.dry_run {
            caller::permit(context, Act::Share, [])?;
        }
        let (remote, names) = sort_out(context, args)?;
        let mut remote = Remote::choose(context, remote)?;
        let sessions = match names.as_slice() {
            [] => None,
            names => Some(chosen(context, names)?),
        };
        let agreed = remote.agreed;
        if !args.dry_run {
            agree(context, ui, &mut remote, args.yes)?;
        }
        let options = Options {
            sessions,
            dry_run: args.dry_run,
            ask: !agreed,
            ..Options::default()
        };
        let mut show = |how_far: &str| ui.progress(format!("{}: {how_far}", remote.name));
        let mut audience = Audience::of(ui.shows_progress(), &mut show);
        let changes = push::push(context, &remote, &options, &mut audience)?;
        ui.clear_progress();
        write(ui, &changes)?;
        tell_folded(ui, &changes);
        if changes.is_empty() && ui.format() == Format::Human {
            ui.narrate(format!("'{}' has everything already", remote.name));
        }
        hint_commit(ui, &changes);
        tell_refused(ui, &changes);
        let refused = changes.iter().any(|one| one.what == What::Refused);
        Ok(u8::from(refused))
    })
}

/// Tells the remote from the sessions: the first word may be either.
fn sort_out<'a>(
    context: &Context<'_>,
    args: &'a Push,
) -> Result<(Option<&'a str>, Vec<&'a String>)> {
    let Some(first) = &args.remote else {
        return Ok((None, Vec::new()));
    };
    if Remote::is_meant(context, first) {
        return Ok((Some(first), args.sessions.iter().collect()));
    }
    let names: Vec<&String> = std::iter::once(first).chain(&args.sessions).collect();
    let known = selection::list_for(context, std::slice::from_ref(first))?;
    match git_agent::store::list::candidates(&known, first).is_empty() {
        true => Ok((Some(first), args.sessions.iter().collect())),
        false => Ok((None, names)),
    }
}

fn chosen(
    context: &Context<'_>,
    names: &[&String],
) -> Result<std::collections::BTreeSet<git_agent::model::session::SessionId>> {
    let selection = Selection {
        names: names.iter().map(|name| (*name).clone()).collect(),
        ..Selection::default()
    };
    let own = context.store.own_writers()?;
    let mut sids = std::collections::BTreeSet::new();
    for listed in selection::select(context, &selection)? {
        let name = &listed.session.name;
        // A remote may still have a session of this clone that has no ref here any more.
        if own.contains(&listed.session.writer) && (listed.archived || !listed.is_mine()) {
            return Err(Error::fatal(format!(
                "session '{name}' has no ref of its own any more: it was folded or deleted"
            ))
            .hint("git agent push    shares archives and deletions, too"));
        }
        if let Some(remote) = &listed.remote {
            return Err(Error::fatal(format!(
                "session '{name}' belongs to somebody else (from '{remote}')"
            )));
        }
        sids.insert(listed.session.sid);
    }
    Ok(sids)
}

/// Asks once per address whether its readers may see sessions, and remembers a yes.
fn agree(context: &Context<'_>, ui: &Ui, remote: &mut Remote, yes: bool) -> Result<()> {
    if remote.agreed || yes {
        return remote.agree(context);
    }
    if !ui.may_ask() {
        return Err(Error::fatal(format!(
            "nobody has agreed to share sessions with '{}' ({})",
            remote.name,
            remote.address(", ")
        ))
        .hint(
            "everyone who can read it will see prompts, answers, tool output, review comments and code",
        )
        .hint(format!(
            "git agent push --yes {}",
            shell_word(&remote.name)
        ))
        .hint("git config agent.remote <name>    for a remote with fewer readers"));
    }
    let shown = remote.addresses.iter().map(|one| one_line(one).to_string());
    let shown: Vec<String> = shown.collect();
    ui.narrate(format!(
        "What is pushed can be read by everyone who can read\n    \
         {}\n\
         That is prompts, answers, tool output, review comments, and the code on the\n\
         branches of sessions.",
        shown.join("\n    ")
    ));
    match ui.confirm(&format!("Share sessions with '{}'?", remote.name))? {
        true => remote.agree(context),
        false => Err(Error::negative("nothing was pushed")
            .hint("git config agent.remote <name>    for a remote with fewer readers")),
    }
}

/// Writes what became of each ref.
pub fn write(ui: &Ui, changes: &[Change]) -> Result<()> {
    match ui.format() {
        Format::Json => json::write_list(ui, "refs", changes),
        Format::Porcelain { nul } => {
            for one in changes {
                let fields = [
                    one.what.as_str(),
                    &one.name,
                    one.session.as_deref().unwrap_or_default(),
                    one.reason.as_deref().unwrap_or_default(),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)?;
            }
            Ok(())
        }
        Format::Human => {
            let shown = |one: &&Change| !matches!(one.what, What::Refused | What::Folded);
            for one in changes.iter().filter(shown) {
                let label = label(&one.name, one.session.as_deref());
                writeln!(ui.out(), "{:<9} {label}", one.what.as_str()).context(cannot_write)?;
                if let Some(why) = &one.without_code {
                    ui.warning(format!("{label}: its code stays here: {}", one_line(why)));
                }
                if let Some(files) = one.uncommitted {
                    let files = human::count(files, "file");
                    ui.warning(format!(
                        "{label}: uncommitted work in {files} was not shared"
                    ));
                }
                if one.without_signature {
                    let why = "it holds what was not written here";
                    ui.warning(format!("{label}: not signed: {why}"));
                }
            }
            Ok(())
        }
    }
}

/// Says how uncommitted work is shared.
fn hint_commit(ui: &Ui, changes: &[Change]) {
    let left = changes.iter().filter(|one| one.uncommitted.is_some());
    let names: Vec<&str> = left.filter_map(|one| one.session.as_deref()).collect();
    if names.is_empty() || ui.format() != Format::Human {
        return;
    }
    for name in names {
        ui.hint(format!("git agent commit {}", shell_word(name)));
    }
    ui.hint("git agent push");
}

/// Says how many sessions are in archives now: nothing became of them but that.
pub fn tell_folded(ui: &Ui, changes: &[Change]) {
    let folded = changes.iter().filter(|one| one.what == What::Folded);
    let count = folded.count();
    if count > 0 && ui.format() == Format::Human {
        let sessions = human::count(count as u64, "closed session");
        ui.narrate(format!("folded into archives: {sessions}"));
    }
}

/// Says why something did not go, and what can be done.
fn tell_refused(ui: &Ui, changes: &[Change]) {
    let refused: Vec<&Change> = changes
        .iter()
        .filter(|one| one.what == What::Refused)
        .collect();
    for one in &refused {
        let reason = one.reason.as_deref().unwrap_or("it was refused");
        ui.error(format!(
            "{}: {}",
            label(&one.name, one.session.as_deref()),
            one_line(reason)
        ));
    }
    let any = |cause| refused.iter().any(|one| one.cause == Some(cause));
    if any(Cause::Secret) {
        ui.hint("git agent purge    takes secrets out of one's own records");
    }
    if any(Cause::OtherWriter) {
        ui.hint("git config agent.writer <writer>    if this clone wrote it after all");
    }
    if any(Cause::Hidden) {
        ui.hint(
            "git config agent.remote <remote>    for the address of that host that is for sessions",
        );
    }
    if !refused.is_empty() && ui.format() == Format::Human {
        let count = human::count(refused.len() as u64, "ref");
        ui.narrate(format!("{count} did not go"));
    }
}

/// Returns a ref in words: a session's name, or what it holds.
pub fn label(name: &str, session: Option<&str>) -> String {
    let part = |at: usize| name.split('/').nth(at).unwrap_or_default();
    match (session, part(2)) {
        (Some(session), _) => one_line(session).to_string(),
        (None, "sessions") => format!("session {}", one_line(part(4))),
        (None, "archive") => format!("archive {} of {}", one_line(part(3)), one_line(part(4))),
        (None, "notes") => format!("{} notes of {}", one_line(part(3)), one_line(part(4))),
        _ => one_line(name).to_string(),
    }
}
