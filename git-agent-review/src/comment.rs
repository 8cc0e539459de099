//! `git agent review comment`: a remark on lines, a file, a turn, or the session as a whole.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::review::{CommentPlace, Severity, Side};
use git_agent::model::session::fold::shorten;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui};
use git_agent::review::comment::{self, CommentTarget, Written};
use git_agent::review::prompt::path_shown;
use git_agent::review::records::short_id;
use git_agent::review::send;
use git_agent::selection;

use crate::{draft, reply};

/// How many characters of a line are shown.
const SHOWN: usize = 60;

#[derive(Debug, Args)]
pub struct Comment {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,
    /// FILE, FILE:LINE or FILE:FIRST-LAST (default: the session as a whole)
    #[arg(value_name = "FILE:LINE")]
    at: Option<OsString>,
    /// The text ('-' is standard input; default: the editor)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Read the text from a file
    #[arg(short = 'F', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Count lines in the file before the change
    #[arg(long, requires = "at")]
    old: bool,
    /// Comment on a turn of the conversation
    #[arg(long, value_name = "N", conflicts_with_all = ["at", "old"])]
    turn: Option<u32>,
    /// The severity: note, minor, major or blocker
    #[arg(long, value_name = "SEVERITY")]
    severity: Option<Severity>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Comment {
    /// Returns the target of the comment.
    fn target(&self) -> CommentTarget<'_> {
        let side = if self.old { Side::Old } else { Side::New };
        match (self.turn, &self.at) {
            (Some(turn), _) => CommentTarget::Turn(turn),
            (None, Some(at)) => CommentTarget::Code(at, side),
            (None, None) => CommentTarget::Session,
        }
    }
}

/// Runs the verb.
pub fn run(env: &Env, args: &Comment) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listed = selection::select_one(context, Some(&args.session));
        // The target is checked before the editor opens.
        if args.message.is_none() && args.file.is_none() {
            let listed = listed.as_ref().map_err(again)?;
            comment::require_target(context, listed, args.target())?;
        }
        let (message, file) = (args.message.as_deref(), args.file.as_deref());
        let body = draft::read(context, "comment", message, file)?;
        let listed = draft::keeping(context, "comment", &body, || listed)?;
        let written = comment::add(context, &listed, args.target(), &body, args.severity)?;
        let name = one_line(&listed.session.name).to_string();
        let about = about(ui, &written);
        let short = short_id(written.id);
        ui.narrate(format!("comment {short} on '{name}'{about}"));
        if ui.format() == Format::Human
            && let Some(step) = send::next_step(context, &listed, &written.work)
        {
            ui.hint(step);
        }
        reply::tell(ui, &[written.id])?;
        Ok(0)
    })
}

/// Returns the line that a comment is about, so that a wrong number is noticed. Numbers come from the last look: if the line
/// was another one then, that is said.
fn about(ui: &Ui, written: &Written) -> String {
    let Some(CommentPlace::Code(code)) = &written.at else {
        return String::new();
    };
    let (Some(line), Some(path), Some(text)) = (code.line, &code.path, code.text.first()) else {
        let path = code
            .path
            .as_deref()
            .map(|path| format!(", {}", one_line(&path_shown(path))));
        return path.unwrap_or_default();
    };
    let path = path_shown(path);
    let place = match code.end {
        Some(end) => format!("{}:{line}-{end}", one_line(&path)),
        None => format!("{}:{line}", one_line(&path)),
    };
    let is = shorten(text.trim(), SHOWN);
    if let Some(before) = &written.line_before {
        let was = shorten(before.trim(), SHOWN);
        ui.warning(format!(
            "{place} was '{}' in the last diff you saw",
            one_line(&was)
        ));
    }
    let before = match code.side {
        Side::Old => " (before the change)",
        Side::New => "",
    };
    format!(", {place}{before}: {}", one_line(&is))
}

fn again(error: &Error) -> Error {
    let copy = Error::new(error.kind(), error.message());
    error
        .hints()
        .iter()
        .fold(copy, |copy, hint| copy.hint(hint))
}
