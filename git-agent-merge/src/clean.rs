//! `git agent merge --clean`: removes the worktrees and branches of sessions that are merged now.

use git_agent::context::Context;
use git_agent::error::Result;
use git_agent::merge::run::MergeRequest;
use git_agent::output::Ui;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::selection::{self, Selection};
use git_agent::session::worktree::clean::{self, Options};

/// Cleans up after the sessions of a request, as far as they are merged.
pub fn run(context: &Context<'_>, ui: &Ui, request: &MergeRequest) -> Result<()> {
    let selection = Selection {
        names: request.names.clone(),
        group: request.group.clone(),
        all: request.names.is_empty() && request.group.is_none(),
        ..Selection::default()
    };
    let chosen = selection::select(context, &selection)?;
    let cleaned = clean::put_away(context, &chosen, Options::default())?;
    for one in cleaned {
        let name = one_line(one.name.as_str());
        let gone: Vec<&str> = [
            one.worktree.as_ref().map(|_| "worktree"),
            one.branch.as_ref().map(|_| "branch"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !gone.is_empty() {
            ui.narrate(format!("removed the {} of {name}", gone.join(" and ")));
        }
        for reason in &one.kept {
            ui.narrate(format!("{name}: kept, {}", one_line(reason.as_str())));
        }
    }
    Ok(())
}
