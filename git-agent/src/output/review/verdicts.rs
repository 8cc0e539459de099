//! The output of a verdict: the work before the question, the recorded verdict, and the next commands.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::context::Context;
use crate::error::{Context as _, Result, shell_word};
use crate::listing::urgency;
use crate::model::review::Verdict;
use crate::output::human::count;
use crate::output::terminal::sanitize::one_line;
use crate::output::{Format, Ui, cannot_write, json, porcelain};
use crate::review::verdict::{Decision, Waiting};
use crate::review::{records, send};
use crate::session::worktree::work::Work;
use crate::store::list::Listed;

/// A verdict, for programs.
#[derive(Debug, Serialize)]
struct GivenRow {
    /// The session's id.
    session: String,
    /// The session's name.
    name: String,
    verdict: &'static str,
    /// The commit that was judged.
    commit: String,
    /// All files that were judged, uncommitted ones included.
    tree: String,
    /// The commit it was judged against.
    base: String,
}

impl GivenRow {
    fn of(decision: &Decision, verdict: Verdict) -> Self {
        let Decision { listed, work, .. } = decision;
        GivenRow {
            session: listed.session.sid.to_string(),
            name: listed.session.name.clone(),
            verdict: verdict.as_str(),
            commit: work.tip.to_string(),
            tree: work.tree.to_string(),
            base: work.base.to_string(),
        }
    }
}

/// Writes the verdicts for programs.
pub fn write(ui: &Ui, verdict: Verdict, decisions: &[Decision]) -> Result<()> {
    let rows = decisions
        .iter()
        .map(|decision| GivenRow::of(decision, verdict));
    let rows: Vec<GivenRow> = rows.collect();
    match ui.format() {
        Format::Human => Ok(()),
        Format::Json => json::write_list(ui, "verdicts", &rows),
        Format::Porcelain { nul } => rows.iter().try_for_each(|row| {
            let fields = [&row.session, row.verdict, &row.commit, &row.tree, &row.base];
            porcelain::write_record(&mut ui.out(), nul, fields).context(cannot_write)
        }),
    }
}

/// Returns the work that a session is about to be judged on, in one line.
pub fn waiting(waiting: &Waiting) -> String {
    let tip = waiting.work.tip.to_string();
    let mut line = format!(
        "{} at {}: {}, +{} -{}",
        one_line(&waiting.listed.session.name),
        &tip[..12],
        count(waiting.files, "file"),
        waiting.added,
        waiting.deleted,
    );
    if !waiting.work.is_committed() {
        line += ", not all committed";
    }
    if waiting.open_comments > 0 {
        line += &format!(", {}", count(waiting.open_comments, "open comment"));
    }
    line
}

/// Says that a verdict was given, and on which work.
pub fn narrate(ui: &Ui, verdict: Verdict, decision: &Decision) {
    let work = &decision.work;
    let name = one_line(&decision.listed.session.name).to_string();
    let tip = work.tip.to_string();
    let rest = if work.is_committed() {
        ""
    } else {
        " with its uncommitted work"
    };
    let word = match verdict {
        Verdict::Approve => "approved",
        Verdict::RequestChanges => "requested changes to",
        Verdict::Reject => "rejected",
    };
    ui.narrate(format!("{word} '{name}' at {}{rest}", &tip[..12]));
    if let Some((_, files)) = decision.unseen {
        let files = count(files, "file");
        ui.warning(format!(
            "'{name}' has changed since it was last shown: {files}"
        ));
        let word = shell_word(&decision.listed.session.name);
        ui.hint(format!("git agent review diff {word}"));
    }
}

/// Says that approvals given here let nothing land.
pub fn warn_unheard(ui: &Ui, who: &str, decisions: &[Decision]) {
    let who = one_line(who);
    ui.warning(format!(
        "this verdict is recorded as by '{who}' and does not count: it was given inside a session"
    ));
    let names = decisions
        .iter()
        .map(|decision| shell_word(&decision.listed.session.name));
    let names = names.collect::<Vec<_>>().join(" ");
    ui.hint(format!(
        "approve outside of sessions: git agent review approve {names}"
    ));
}

/// Says that comments on approved work are still open.
fn tell_open(context: &Context<'_>, ui: &Ui, listed: &Listed) {
    let Ok(review) = records::load_one(context, listed.session.sid) else {
        return;
    };
    let open = review.threads.iter().filter(|thread| thread.is_open());
    match open.count() {
        0 => {}
        1 => ui.narrate("note: 1 comment is still open"),
        many => ui.narrate(format!("note: {many} comments are still open")),
    }
}

/// Prints the next commands.
pub fn next_steps(context: &Context<'_>, ui: &Ui, verdict: Verdict, decisions: &[Decision]) {
    let name = |listed: &Listed| shell_word(&listed.session.name);
    let own = || {
        decisions
            .iter()
            .map(|decision| &decision.listed)
            .filter(|listed| listed.is_mine())
    };
    // Only its author lands or cleans up a session, and has to hear of it.
    if verdict != Verdict::RequestChanges && own().count() < decisions.len() {
        ui.hint("git agent push");
    }
    match verdict {
        Verdict::Approve => {
            for Decision { listed, .. } in decisions {
                tell_open(context, ui, listed);
            }
            let mut targets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            // A session without changes has nothing to merge.
            let changed = |work: &Work| work.tip != work.base || !work.is_committed();
            let landing = (decisions.iter())
                .filter(|decision| decision.listed.is_mine() && changed(&decision.work))
                .map(|decision| &decision.listed);
            for listed in landing {
                let into = listed.session.parent.as_deref().unwrap_or("BRANCH");
                let names = targets.entry(into).or_default();
                names.push(listed.session.name.clone());
            }
            for (into, names) in targets {
                ui.hint(urgency::merge_command(into, &names));
            }
        }
        Verdict::RequestChanges => {
            for Decision { listed, work, .. } in decisions {
                let step = send::next_step(context, listed, work);
                ui.hint(step.unwrap_or_else(|| send::comment_on(&listed.session.name)));
            }
        }
        Verdict::Reject if own().next().is_none() => {}
        Verdict::Reject => {
            let names: Vec<String> = own().map(name).collect();
            ui.hint(format!("git agent clean {}", names.join(" ")));
        }
    }
}
