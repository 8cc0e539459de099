//! Comments typed into the whole diff in an editor: makes the form, keeps it as a draft until it can be used, and
//! writes the typed comments.

use std::path::Path;

use crate::context::Context;
use crate::error::{Error, Result, shell_word};
use crate::file::{self, Durability};
use crate::git::ObjectId;
use crate::model::review::path::unquote;
use crate::model::review::{Action, CommentPlace, Review};
use crate::model::session::Ulid;
use crate::process::lock::Lock;
use crate::review::anchors::{self, Placed};
use crate::review::diff_text::form::{self, Escape, Form, Line, Mistake, Named, Wish, marked};
use crate::review::diff_text::outline::Hunk;
use crate::review::{git_notes, records};
use crate::session::worktree::work::{self, Keep, Work};
use crate::store::list::Listed;

/// The user who fills in a form, and the messages to them.
pub trait Editor {
    /// Hears that an older draft is opened again, and whether the work has changed since.
    fn resumes(&mut self, draft: &Path, outdated: bool);

    /// Lets the user edit a file, and returns its new content.
    fn edit(&mut self, draft: &Path) -> Result<Vec<u8>>;

    /// Hears of a mistake that is marked in the draft, which is edited again.
    fn mistaken(&mut self, mistake: &Mistake);
}

/// The comments that were typed into a form.
#[derive(Debug)]
pub struct Edited {
    /// How many comments are new.
    pub comments: u64,
    /// How many replies are new.
    pub replies: u64,
    /// How many threads were closed.
    pub resolved: u64,
    /// The comments that are new or closed.
    pub ids: Vec<Ulid>,
    /// The work that they are about.
    pub work: Work,
}

/// Lets a person comment in the whole diff of a session. Returns nothing where nothing was typed. A form that cannot be
/// used stays a draft; `fresh` begins anew although one was left.
pub fn edit(
    context: &Context<'_>,
    listed: &Listed,
    fresh: bool,
    escape: Escape,
    editor: &mut dyn Editor,
) -> Result<Option<Edited>> {
    // No one types a text that cannot be kept.
    if context.repo.is_read_only() {
        return Err(Error::fatal(
            "cannot write to this repository, so it cannot keep comments",
        ));
    }
    let dir = context.store.require_dir("drafts")?;
    let sid = listed.session.sid;
    let path = dir.join(format!("review-{sid}"));
    // Two editors on one draft would each overwrite the text of the other.
    let Some(lock) = Lock::try_acquire(context.env, dir.join(format!("edit-{sid}.lock")))? else {
        let name = &listed.session.name;
        return Err(
            Error::fatal(format!("another editor is open on the review of '{name}'"))
                .hint("close it first, or comment with: git agent review comment"),
        );
    };
    let done = fill_in(context, listed, &path, fresh, escape, editor);
    // The lock is gone with this process anyway.
    let _ = lock.remove();
    let done = done?;
    git_notes::refresh(context)?;
    Ok(done)
}

fn fill_in(
    context: &Context<'_>,
    listed: &Listed,
    path: &Path,
    fresh: bool,
    escape: Escape,
    editor: &mut dyn Editor,
) -> Result<Option<Edited>> {
    let left = if fresh {
        None
    } else {
        std::fs::read(path).ok()
    };
    let mut work = work::look(context, listed, Keep::Snapshot)?;
    if let Some(left) = &left {
        // The draft is about the work as it was then.
        let now = work.tree;
        take_over(context, &mut work, left);
        editor.resumes(path, work.tree != now);
    }
    let review = records::load(context)?.of(listed.session.sid);
    let placed: Vec<Placed<'_>> = anchors::place_all(context, &work, &review)?
        .into_iter()
        // A draft may have threads that were closed since.
        .filter(|placed| left.is_some() || placed.thread.is_open())
        .collect();
    let lines = diff_lines(context, &work)?;
    let name = escape(&listed.session.name);
    let head = format!("{name} {} {} {}", work.base, work.tip, work.tree);
    let mut form = Form::new(&head, &lines, &placed, escape);
    // The original form is kept to find the typed lines of a draft later.
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
    let wishes = ask(context, listed, path, &form, editor).map_err(|error| {
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
        return Ok(None);
    }
    let kept = |error: Error| error.hint(format!("the text is kept in '{}'", path.display()));
    let edited = write(context, listed, work, &review, &wishes).map_err(kept)?;
    forget();
    Ok(Some(edited))
}

/// Lets a person edit until the typed text can be understood. A form that is left as it was after a mistake stays a
/// draft.
fn ask(
    context: &Context<'_>,
    listed: &Listed,
    path: &Path,
    form: &Form,
    editor: &mut dyn Editor,
) -> Result<Vec<Wish>> {
    let mut shown: Option<Vec<u8>> = None;
    loop {
        let typed = editor.edit(path)?;
        let mistake = match form::plain(&typed).and_then(|typed| form.read(typed)) {
            Ok(wishes) => return Ok(wishes),
            Err(mistake) => mistake,
        };
        let again = marked(&typed, &mistake);
        file::replace(path, &again, Durability::Synced)?;
        // Only a person can mend it.
        if !context.env.terminals.stdin || shown.as_ref() == Some(&typed) {
            return Err(
                Error::fatal(format!("line {}: {}", mistake.line + 1, mistake.what))
                    .hint(format!("the text is kept in '{}'", path.display()))
                    .hint(format!(
                        "git agent review edit {}",
                        shell_word(&listed.session.name)
                    )),
            );
        }
        editor.mistaken(&mistake);
        shown = Some(again);
    }
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
                // A change of kind, such as a file that becomes a link, is shown as a deletion and an addition.
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

/// Writes the typed comments down, all at once.
fn write(
    context: &Context<'_>,
    listed: &Listed,
    work: Work,
    review: &Review,
    wishes: &[Wish],
) -> Result<Edited> {
    let who = records::author(context)?;
    let actions = wishes
        .iter()
        .map(|wish| action(context, listed, &work, review, wish))
        .collect::<Result<Vec<_>>>()?;
    let mut ids = records::write(context, listed.session.sid, work.tip, &who, actions)?;
    for (id, wish) in ids.iter_mut().zip(wishes) {
        if let Wish::Resolve(target) = wish {
            *id = *target;
        }
    }
    let count = |is: fn(&Wish) -> bool| wishes.iter().filter(|wish| is(wish)).count() as u64;
    Ok(Edited {
        comments: count(|wish| matches!(wish, Wish::Comment(..))),
        replies: count(|wish| matches!(wish, Wish::Reply(..))),
        resolved: count(|wish| matches!(wish, Wish::Resolve(_))),
        ids,
        work,
    })
}

/// Returns the record of a typed wish.
fn action(
    context: &Context<'_>,
    listed: &Listed,
    work: &Work,
    review: &Review,
    wish: &Wish,
) -> Result<Action> {
    // Whose comment is meant is told only where its id does not: older versions know nothing of it.
    let told = |named: &Named| {
        let review = review.threads.iter().flat_map(|thread| &thread.comments);
        let same = review.filter(|comment| comment.id == named.id).count();
        named.of.clone().filter(|_| same > 1)
    };
    let comment = |target, of, at, body: &String| Action::Comment {
        target,
        of,
        at,
        body: body.clone(),
        severity: None,
    };
    Ok(match wish {
        Wish::Comment(Some(at), body) => {
            let at = anchors::point(context, &listed.session, work, at)?;
            comment(None, None, Some(CommentPlace::Code(at)), body)
        }
        Wish::Comment(None, body) => comment(None, None, None, body),
        Wish::Reply(target, body) => comment(Some(target.id), told(target), None, body),
        Wish::Resolve(target) => Action::Resolve { target: *target },
    })
}
