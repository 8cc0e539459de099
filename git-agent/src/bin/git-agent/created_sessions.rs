//! The answer of verbs that create sessions: names, branches, worktrees and the next commands.

use std::io::Write;

use git_agent::context::Context;
use git_agent::error::{Result, shell_word};
use git_agent::listing::row::Summary;
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize;
use git_agent::output::{Format, Ui, json, porcelain};
use git_agent::session::create::Created;
use git_agent::session::create::introduction;

/// Prints the notices of the creation.
pub fn tell(ui: &Ui, created: &Created) {
    for notice in &created.notices {
        ui.warning(sanitize::one_line(notice.as_str()));
    }
}

/// Prints the new sessions and the next commands.
pub fn answer(context: &Context<'_>, ui: &Ui, made: &[Created], draft: bool) -> Result<()> {
    match ui.format() {
        Format::Json => {
            let row = |Created { session, .. }: &Created| Summary::of_own(session, session.updated);
            return json::write_list(ui, "sessions", made.iter().map(row));
        }
        Format::Porcelain { nul } => {
            for Created { session, .. } in made {
                let fields = [
                    session.sid.as_str(),
                    &session.name,
                    session.branch.as_deref().unwrap_or(""),
                    session.local.worktree.as_deref().unwrap_or(""),
                ];
                porcelain::write_record(&mut ui.out(), nul, fields)?;
            }
            return Ok(());
        }
        Format::Human => {}
    }
    for Created { session, .. } in made {
        let mut out = ui.out();
        writeln!(out, "{}", sanitize::one_line(session.name.as_str()))?;
        if let Some(branch) = &session.branch {
            writeln!(out, "  branch    {}", sanitize::one_line(branch.as_str()))?;
        }
        if let Some(path) = &session.local.worktree {
            writeln!(out, "  worktree  {}", sanitize::one_line(path.as_str()))?;
        }
        let agent = introduction::agent(context, session)?;
        writeln!(out, "  agent     {}", sanitize::one_line(&agent))?;
        let permissions = introduction::permissions(context, session)?;
        writeln!(out, "  asks      {}", permissions.as_str())?;
    }
    let Some(Created { session, .. }) = made.first() else {
        return Ok(());
    };
    let name = shell_word(&session.name);
    if draft {
        ui.hint(format!("git agent resume {name}    start it"));
    } else {
        ui.hint(format!("git agent log -f {name}    watch it work"));
        ui.hint("git agent list    see all sessions".to_owned());
    }
    Ok(())
}

/// Says that uncommitted changes of this checkout are not part of the new session.
pub fn tell_left_behind(context: &Context<'_>, ui: &Ui) {
    if ui.format() != Format::Human {
        return;
    }
    let files = introduction::left_behind(context);
    if files > 0 {
        let (files, are) = (
            count(files, "uncommitted file"),
            if files == 1 { "is" } else { "are" },
        );
        ui.narrate(format!(
            "note: {files} here {are} not included; '--carry' moves them into the session"
        ));
    }
}
