//! `git agent review edit`: the whole diff in the editor, to type comments into; or new words for an own comment.

use std::path::{Path, PathBuf};

use clap::Args;
use git_agent::context::Context;
use git_agent::env::Env;
use git_agent::error::{Error, Result, shell_word};
use git_agent::file::{self, Durability};
use git_agent::git::ObjectId;
use git_agent::invoke::{OutputArgs, editor, in_repo};
use git_agent::model::review::path::unquote;
use git_agent::model::review::{Action, Place, Review};
use git_agent::model::session::Ulid;
use git_agent::output::Ui;
use git_agent::output::human::count;
use git_agent::output::terminal::sanitize::{block, one_line};
use git_agent::process::lock::Lock;
use git_agent::review::anchors::{self, Placed};
use git_agent::review::diff_text::form::{self, Form, Line, Named, Wish, marked};
use git_agent::review::diff_text::outline::Hunk;
use git_agent::review::records::short_id;
use git_agent::review::{git_notes, records};
use git_agent::selection;
use git_agent::session::worktree::work::{self, Keep, Work};
use git_agent::store::list::Listed;

use crate::{answer, draft, send};

#[derive(Debug, Args)]
pub struct Edit {
    /// The session (default: the one of this worktree), or with -m or -F an own comment
    #[arg(value_name = "SESSION|COMMENT")]
    what: Option<String>,
    /// New words for an own comment
    #[arg(short, long, value_name = "TEXT", requires = "what")]
    message: Option<String>,
    /// Read the new words from a file ('-' is standard input)
    #[arg(short = 'F', long, value_name = "FILE", requires = "what")]
    file: Option<PathBuf>,
    /// Begin anew although a draft was left
    #[arg(long, conflicts_with_all = ["message", "file"])]
    fresh: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the verb.
pub fn run(env: &Env, args: &Edit) -> Result<u8> {
    in_repo::run(env, args.output.options(), |context, ui| {
        match (&args.message, &args.file, &args.what) {
            (None, None, what) => {
                let listed = selection::select_one(context, what.as_deref())?;
                whole(context, ui, &listed, args.fresh)?;
            }
            (message, file, what) => {
                let words = draft::read(context, "comment", message.as_deref(), file.as_deref())?;
                let wanted = what.as_deref().unwrap_or_default();
                draft::keeping(context, "comment", &words, || {
                    reword(context, ui, wanted, &words)
                })?;
            }
        }
        git_notes::refresh(context)?;
        Ok(0)
    })
}

/// Gives an own comment new words.
fn reword(context: &Context<'_>, ui: &Ui, wanted: &str, words: &str) -> Result<()> {
    let reviews = records::load(context)?;
    let found = reviews.find(wanted, context.store.writer()?.as_ref())?;
    answer::require_own(context, &found)?;
    if found.comment.deleted {
        return Err(answer::deleted(&found));
    }
    let target = found.comment.id;
    let body = words.to_owned();
    answer::write(context, &found, Action::Edit { target, body })?;
    ui.narrate(format!("edited {}", short_id(target)));
    answer::tell(ui, &[target])
}

/// Lets somebody comment in the whole diff.
fn whole(context: &Context<'_>, ui: &Ui, listed: &Listed, fresh: bool) -> Result<()> {
    // Nobody types what cannot be kept.
    if context.repo.is_read_only() {
        return Err(Error::fatal(
            "this repository cannot be written, so no comment can be kept in it",
        ));
    }
    let dir = context.store.require_dir("drafts")?;
    let sid = listed.session.sid;
    let path = dir.join(format!("review-{sid}"));
    // Two editors on one draft would each write over what was typed into the other.
    let Some(lock) = Lock::try_acquire(context.env, dir.join(format!("edit-{sid}.lock")))? else {
        let name = &listed.session.name;
        return Err(
            Error::fatal(format!("another editor is open on the review of '{name}'"))
                .hint("end that one first, or comment with: git agent review comment"),
        );
    };
    let done = type_in(context, ui, listed, &path, fresh);
    // The lock is gone with this process anyway.
    let _ = lock.remove();
    done
}

fn type_in(
    context: &Context<'_>,
    ui: &Ui,
    listed: &Listed,
    path: &Path,
    fresh: bool,
) -> Result<()> {
    let left = match fresh {
        true => None,
        false => std::fs::read(path).ok(),
    };
    let mut work = work::look(context, listed, Keep::Snapshot)?;
    if let Some(left) = &left {
        ui.narrate(format!("going on with the draft in '{}'", path.display()));
        // The draft is about the work as it was then.
        let now = work.tree;
        take_over(context, &mut work, left);
        if work.tree != now {
            ui.warning(
                "the work has changed since this draft was begun, and the draft shows it as it was",
            );
            ui.hint(format!(
                "begin anew with: git agent review edit --fresh {}",
                shell_word(&listed.session.name)
            ));
        }
    }
    let review = records::load(context)?.of(listed.session.sid);
    let placed: Vec<Placed<'_>> = anchors::place_all(context, &work, &review)?
        .into_iter()
        // A draft may have threads that were closed since.
        .filter(|placed| left.is_some() || placed.thread.is_open())
        .collect();
    let lines = diff_lines(context, &work)?;
    let head = format!(
        "{} {} {} {}",
        one_line(&listed.session.name),
        work.base,
        work.tip,
        work.tree
    );
    let mut form = Form::new(&head, &lines, &placed, escaped);
    // What the page was at first tells later what of a draft was typed.
    let first = path.with_file_name(format!("page-{}", listed.session.sid));
    let forget = || {
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_file(&first);
    };
    match left {
        None => {
            file::replace(&first, &form.text, Durability::Synced)?;
            file::replace(path, &form.text, Durability::Synced)?;
        }
        Some(_) => form.recall(&std::fs::read_to_string(&first).unwrap_or_default()),
    }
    let wishes = ask(context, ui, listed, path, &form).map_err(|error| {
        let untouched = std::fs::read(path).is_ok_and(|typed| typed == form.text.as_bytes());
        if !untouched {
            return error;
        }
        // An editor that failed before anything was typed leaves no draft, and nothing to say of one.
        forget();
        Error::new(error.kind(), error.message())
    })?;
    if wishes.is_empty() {
        forget();
        ui.narrate("nothing was typed");
        return answer::tell(ui, &[]);
    }
    let kept = |error: Error| error.hint(format!("the text is kept in '{}'", path.display()));
    let (done, ids) = write(context, listed, &work, &review, &wishes).map_err(kept)?;
    forget();
    ui.narrate(done);
    answer::tell(ui, &ids)?;
    if let Some(step) = send::next_step(context, listed, &work) {
        ui.hint(step);
    }
    Ok(())
}

/// Opens the editor until what was typed can be understood. A page that is left as it was after a mistake stays a draft.
fn ask(
    context: &Context<'_>,
    ui: &Ui,
    listed: &Listed,
    path: &Path,
    form: &Form,
) -> Result<Vec<Wish>> {
    let mut shown: Option<Vec<u8>> = None;
    loop {
        editor::open(context, path)?;
        let typed = editor::read(path)?;
        let mistake = match form::plain(&typed).and_then(|typed| form.read(typed)) {
            Ok(wishes) => return Ok(wishes),
            Err(mistake) => mistake,
        };
        let again = marked(&typed, &mistake);
        file::replace(path, &again, Durability::Synced)?;
        // Without a person there is nobody who could mend it.
        let nobody = !context.env.terminals.stdin;
        if nobody || shown.as_ref() == Some(&typed) {
            return Err(
                Error::fatal(format!("line {}: {}", mistake.line + 1, mistake.what))
                    .hint(format!("the text is kept in '{}'", path.display()))
                    .hint(format!(
                        "git agent review edit {}",
                        shell_word(&listed.session.name)
                    )),
            );
        }
        ui.warning(format!("line {}: {}", mistake.line + 1, mistake.what));
        shown = Some(again);
    }
}

/// Returns foreign text as an editor may show it.
fn escaped(text: &str) -> String {
    block(text).to_text().into_owned()
}

/// Takes the trees over that a draft was made of, if they are still there.
fn take_over(context: &Context<'_>, work: &mut Work, draft: &[u8]) {
    let repo = context.repo;
    let draft = String::from_utf8_lossy(draft);
    // Something may have been typed, or a mistake marked, above it.
    let head = draft.lines().find(|line| form::is_head(line));
    let head = head.unwrap_or_default();
    let ids: Vec<ObjectId> = head
        .split(' ')
        .filter_map(|word| repo.parse_id(word).ok())
        .collect();
    if let [base, tip, tree] = ids.as_slice()
        && repo.tree_of(*base).is_ok()
        && let Ok(committed) = repo.tree_of(*tip)
        && matches!(repo.object_header(*tree), Ok(Some(_)))
    {
        (work.base, work.tip, work.tree, work.committed) = (*base, *tip, *tree, committed);
    }
}

/// Returns the lines of a session's diff.
fn diff_lines(context: &Context<'_>, work: &Work) -> Result<Vec<Line>> {
    let repo = context.repo;
    let options: Vec<String> = [
        "--color=never",
        "--patch-with-raw",
        "-M",
        "--no-ext-diff",
        "--no-textconv",
        "--submodule=short",
    ]
    .map(str::to_owned)
    .into();
    let mut deltas = Vec::new();
    let mut lines = Vec::new();
    let mut in_patch = false;
    let mut next = 0;
    let mut hunk: Option<Hunk> = None;
    let mut comes_again = false;
    let mut has_lines = true;
    let old = repo.tree_of(work.base)?;
    repo.diff_program(old, (old, work.tree), &options, &[])?
        .lines(&mut |line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if !in_patch {
                in_patch = line.is_empty();
                let plain = |path: &[u8]| unquote(path).unwrap_or_else(|| path.to_vec());
                deltas.extend(repo.raw_line(line, &plain));
                return Ok(true);
            }
            let text = String::from_utf8_lossy(line).into_owned();
            if let Some(current) = &mut hunk {
                match current.step(line) {
                    Some((old, new)) if has_lines => lines.push(Line::Code { old, new, text }),
                    Some(_) => lines.push(Line::Note(text)),
                    None => {}
                }
                if current.is_over() {
                    hunk = None;
                }
            } else if line.starts_with(b"diff --git ") {
                // What becomes another kind of thing, a file a link say, is shown twice: going and coming.
                if std::mem::take(&mut comes_again) {
                    return Ok(true);
                }
                if let Some(delta) = deltas.get(next) {
                    comes_again = delta.status == 'T';
                    has_lines = !delta.is_submodule();
                    lines.push(Line::File {
                        old_path: delta.old_path.clone(),
                        path: delta.path.clone(),
                        gone: delta.status == 'D',
                    });
                    next += 1;
                }
            } else if let Some(found) = line.strip_prefix(b"@@ -").and_then(Hunk::parse) {
                lines.push(Line::Note(text));
                hunk = Some(found).filter(|hunk| !hunk.is_over());
            } else if !line.starts_with(b"index ")
                && !line.starts_with(b"--- ")
                && !line.starts_with(b"+++ ")
                && !line.starts_with(b"\\")
            {
                lines.push(Line::Note(text));
            }
            Ok(true)
        })?;
    Ok(lines)
}

/// Writes down what somebody wants, all at once. Returns what that was in words, and the comments that are new or closed.
fn write(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    review: &Review,
    wishes: &[Wish],
) -> Result<(String, Vec<Ulid>)> {
    let who = records::author(context)?;
    // Whose comment is meant is told only where its id does not: older versions know nothing of it.
    let told = |named: &Named| {
        let review = review.threads.iter().flat_map(|thread| &thread.comments);
        let same = review.filter(|comment| comment.id == named.id).count();
        named.of.clone().filter(|_| same > 1)
    };
    let mut actions = Vec::new();
    let (mut comments, mut replies, mut resolved) = (0, 0, 0);
    for wish in wishes {
        actions.push(match wish {
            Wish::Comment(at, body) => {
                comments += 1;
                let at = match at {
                    Some(at) => Some(Place::Code(anchors::point(
                        context,
                        &listed.session,
                        work,
                        at,
                    )?)),
                    None => None,
                };
                Action::Comment {
                    target: None,
                    of: None,
                    at,
                    body: body.clone(),
                    severity: None,
                }
            }
            Wish::Reply(target, body) => {
                replies += 1;
                Action::Comment {
                    target: Some(target.id),
                    of: told(target),
                    at: None,
                    body: body.clone(),
                    severity: None,
                }
            }
            Wish::Resolve(target) => {
                resolved += 1;
                Action::Resolve { target: *target }
            }
        });
    }
    let mut ids = records::write(context, listed.session.sid, work.tip, &who, actions)?;
    for (id, wish) in ids.iter_mut().zip(wishes) {
        if let Wish::Resolve(target) = wish {
            *id = *target;
        }
    }
    let done = format!(
        "{}, {}, {resolved} resolved",
        count(comments, "comment"),
        match replies {
            1 => "1 reply".to_owned(),
            many => format!("{many} replies"),
        }
    );
    Ok((done, ids))
}
