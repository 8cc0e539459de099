//! `git agent review edit`: comments typed into the whole diff in the editor, or a new text for one comment.

use std::path::{Path, PathBuf};

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Result, shell_word};
use git_agent::invoke::{OutputArgs, editor, in_repo};
use git_agent::output::Ui;
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize::block;
use git_agent::review::diff_text::form::Mistake;
use git_agent::review::edit::{self, Editor};
use git_agent::review::records::short_id;
use git_agent::review::{comment, send};
use git_agent::selection;

use crate::{draft, reply};

#[derive(Debug, Args)]
pub struct Edit {
    /// The session (default: the one of this worktree); with -m or -F one of your comments
    #[arg(value_name = "SESSION|COMMENT")]
    what: Option<String>,
    /// The new text of the comment
    #[arg(short, long, value_name = "TEXT", requires = "what")]
    message: Option<String>,
    /// Read the new text from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE", requires = "what")]
    file: Option<PathBuf>,
    /// Ignore a draft that was left, and begin a new one
    #[arg(long, conflicts_with_all = ["message", "file"])]
    fresh: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Edit) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        match (&args.message, &args.file, &args.what) {
            (None, None, what) => whole(context, ui, what.as_deref(), args.fresh)?,
            (message, file, what) => {
                let words = draft::read(context, "comment", message.as_deref(), file.as_deref())?;
                let id = comment::reword(context, what.as_deref().unwrap_or_default(), &words)?;
                ui.narrate(format!("edited {}", short_id(id)));
                reply::tell(ui, &[id])?;
            }
        }
        Ok(0)
    })
}

/// Lets the user comment in the whole diff.
fn whole(context: &Context<'_>, ui: &Ui, name: Option<&str>, fresh: bool) -> Result<()> {
    let listed = selection::select_one(context, name)?;
    let mut editor = UserEditor {
        context,
        ui,
        name: &listed.session.name,
    };
    let escaped = |text: &str| block(text).to_text().into_owned();
    let Some(edited) = edit::edit(context, &listed, fresh, escaped, &mut editor)? else {
        ui.narrate("nothing to add");
        return reply::tell(ui, &[]);
    };
    let replies = match edited.replies {
        1 => "1 reply".to_owned(),
        many => format!("{many} replies"),
    };
    ui.narrate(format!(
        "{}, {replies}, {} resolved",
        count(edited.comments, "comment"),
        edited.resolved
    ));
    reply::tell(ui, &edited.ids)?;
    if let Some(step) = send::next_step(context, &listed, &edited.work) {
        ui.hint(step);
    }
    Ok(())
}

/// The editor that git would start.
struct UserEditor<'a> {
    context: &'a Context<'a>,
    ui: &'a Ui,
    /// The session's name.
    name: &'a str,
}

impl Editor for UserEditor<'_> {
    fn resumes(&mut self, draft: &Path, outdated: bool) {
        let ui = self.ui;
        ui.narrate(format!("continuing the draft in '{}'", draft.display()));
        if outdated {
            ui.warning(
                "the work has changed since this draft began; the draft shows the earlier work",
            );
            ui.hint(format!(
                "begin a new draft: git agent review edit --fresh {}",
                shell_word(self.name)
            ));
        }
    }

    fn edit(&mut self, draft: &Path) -> Result<Vec<u8>> {
        editor::open(self.context, draft)?;
        editor::read(draft)
    }

    fn mistaken(&mut self, mistake: &Mistake) {
        let line = mistake.line + 1;
        self.ui.warning(format!("line {line}: {}", mistake.what));
    }
}
