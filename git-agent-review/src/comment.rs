//! `git agent review comment`: a remark on lines, a file, a turn, or the session as a whole.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result};
use git_agent::invoke::{OutputArgs, in_repo};
use git_agent::model::event::Body;
use git_agent::model::review::path::unquote;
use git_agent::model::review::{Action, Place, Severity, Side};
use git_agent::model::session::Ulid;
use git_agent::model::session::fold::shorten;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::output::{Format, Ui};
use git_agent::review::send::path_shown;
use git_agent::review::{anchors, git_notes, records};
use git_agent::selection;
use git_agent::session::events;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::Listed;

use crate::{answer, draft, send};

/// How much of a line is told.
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
    /// Count lines in the file as it was before the change
    #[arg(long, requires = "at")]
    old: bool,
    /// Comment on what was said in a turn of the conversation
    #[arg(long, value_name = "N", conflicts_with_all = ["at", "old"])]
    turn: Option<u32>,
    /// How much it matters: note, minor, major or blocker
    #[arg(long, value_name = "SEVERITY")]
    severity: Option<Severity>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Comment) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        let listed = selection::select_one(context, Some(&args.session));
        // Before somebody types: there is no use in asking for a text about nothing.
        if args.message.is_none() && args.file.is_none() {
            let listed = listed.as_ref().map_err(again)?;
            place(context, listed, args)?;
        }
        let body = draft::read(
            context,
            "comment",
            args.message.as_deref(),
            args.file.as_deref(),
        )?;
        let (id, listed, work, about) = draft::keeping(context, "comment", &body, || {
            let listed = listed?;
            let (work, at) = place(context, &listed, args)?;
            let about = about(context, ui, &listed, at.as_ref());
            let action = Action::Comment {
                target: None,
                of: None,
                at,
                body: body.clone(),
                severity: args.severity,
            };
            let who = records::author(context)?;
            let sid = listed.session.sid;
            let ids = records::write(context, sid, work.tip, &who, vec![action])?;
            Ok((ids[0], listed, work, about))
        })?;
        git_notes::refresh(context)?;
        let name = one_line(&listed.session.name).to_string();
        let short = records::short_id(id);
        ui.narrate(format!("comment {short} on '{name}'{about}"));
        if ui.format() == Format::Human
            && let Some(step) = send::next_step(context, &listed, &work)
        {
            ui.hint(step);
        }
        answer::tell(ui, &[id])?;
        Ok(0)
    })
}

/// Returns the line that a comment is about, so that a wrong number is noticed. Numbers come from what somebody saw last:
/// if the line was another one then, that is said.
fn about(context: &Context<'_>, ui: &Ui, listed: &Listed, at: Option<&Place>) -> String {
    let Some(Place::Code(code)) = at else {
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
    if code.side == Side::New
        && let Some(was) = anchors::line_last_seen(context, listed.session.sid, code)
        && was != *text
    {
        let was = shorten(was.trim(), SHOWN);
        ui.warning(format!(
            "{place} was '{}' when it was last shown",
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

/// Works out what the comment is about.
fn place(context: &Context<'_>, listed: &Listed, args: &Comment) -> Result<(Work, Option<Place>)> {
    let work = work::look(context, listed, Keep::Snapshot)?;
    if let Some(turn) = args.turn {
        let event = prompt_of(context, listed, turn)?;
        let turn = Some(turn);
        return Ok((work, Some(Place::Event { event, turn })));
    }
    let Some(text) = &args.at else {
        return Ok((work, None));
    };
    let side = if args.old { Side::Old } else { Side::New };
    let tree = anchors::side_tree(context.repo, &work, side)?;
    let exists = |path: &[u8]| matches!(context.repo.entry_at(tree, path), Ok(Some(_)));
    let typed = typed_path(context, text, &exists);
    let pointed = anchors::parse(&typed, side, &exists)?;
    let code = anchors::point(context, &listed.session, &work, &pointed)?;
    Ok((work, Some(Place::Code(code))))
}

/// Returns what was typed as seen from the top of the repository: from there, or from the current directory.
fn typed_path(context: &Context<'_>, text: &OsString, exists: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let typed = text.as_bytes();
    let file = |text: &[u8]| -> Vec<u8> {
        anchors::parse(text, Side::New, exists).map_or_else(|_| text.to_vec(), |at| at.path)
    };
    if exists(&file(typed)) {
        return typed.to_vec();
    }
    if let Some(plain) = unquoted(typed)
        && exists(&file(&plain))
    {
        return plain;
    }
    let below = context
        .repo
        .work_tree()
        .and_then(|top| context.env.cwd.strip_prefix(top).ok())
        .filter(|below| *below != Path::new(""));
    if let Some(below) = below {
        let joined = without_dots(&below.join(Path::new(text)));
        if exists(&file(&joined)) {
            return joined;
        }
    }
    typed.strip_prefix(b"./").unwrap_or(typed).to_vec()
}

/// Reads a file's name as git and we write odd ones, with what follows it.
fn unquoted(typed: &[u8]) -> Option<Vec<u8>> {
    let end = typed.iter().rposition(|byte| *byte == b'"')? + 1;
    let mut plain = unquote(&typed[..end])?;
    plain.extend_from_slice(&typed[end..]);
    Some(plain)
}

/// Returns a path without steps back to where it came from.
fn without_dots(path: &Path) -> Vec<u8> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            part => plain.push(part),
        }
    }
    plain.into_os_string().into_vec()
}

/// Returns the event that began a turn.
fn prompt_of(context: &Context<'_>, listed: &Listed, turn: u32) -> Result<Ulid> {
    for event in events::all(context, listed)? {
        let event = event?;
        if event.turn == turn && matches!(event.body, Body::Prompt { .. }) {
            return Ok(event.id);
        }
    }
    let (name, turns) = (&listed.session.name, listed.session.turns);
    Err(Error::fatal(format!(
        "session '{name}' has no turn {turn}: it has had {turns}"
    )))
}
