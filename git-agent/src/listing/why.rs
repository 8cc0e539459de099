//! Finds the origin of a line or a commit: line → commit → session → prompt, even after a squash or a rebase.
//!
//! A note on the commit or its trailer names the session; a commit without both is recognised by its patch id. The
//! prompt is that of the first turn whose snapshot has the line or the commit.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::context::Context;
use crate::env::Millis;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::git::diff::paths::Comparer;
use crate::git::history::blame::Blamed;
use crate::git::merge::Picked;
use crate::git::{ObjectId, ObjectKind};
use crate::listing::row::timestamp;
use crate::model::event::Body;
use crate::model::event_words::Sender;
use crate::model::provenance::Provenance;
use crate::model::session::{Session, SessionId, State};
use crate::session::events;
use crate::store::list::{Listed, Scope};
use crate::store::notes::Kind;

/// Maximum number of session commits compared with a commit that names no session.
const COMPARED: usize = 2000;
/// Larger files are not searched for a line.
const LARGEST: u64 = 8 << 20;
/// Letters and digits that a line needs to be recognised.
const TELLING: usize = 3;

/// The user's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A line of a file in the working tree.
    Line(PathBuf, u64),
    /// A commit, by any name.
    Commit(String),
}

impl Question {
    /// Parses `FILE:LINE` or the name of a commit.
    pub fn parse(context: &Context<'_>, text: &str) -> Result<Self> {
        let line = text.rsplit_once(':').and_then(|(file, line)| {
            let line = line.parse::<u64>().ok().filter(|line| *line > 0)?;
            Some((file, line))
        });
        if let Some((file, line)) = line
            && context.env.absolute(file).exists()
        {
            return Ok(Question::Line(PathBuf::from(file), line));
        }
        if context.repo.resolve_commit(text).is_ok() {
            return Ok(Question::Commit(text.to_owned()));
        }
        if let Some((file, _)) = line {
            return Err(Error::fatal(format!("no file '{file}' here"))
                .hint("git agent why FILE:LINE, or the name of a commit"));
        }
        if context.env.absolute(text).is_file() {
            return Err(
                Error::fatal(format!("'{text}' is a file, not a commit")).hint(format!(
                    "name a line: git agent why {}",
                    shell_word(format!("{text}:1"))
                )),
            );
        }
        Ok(Question::Commit(text.to_owned()))
    }
}

/// A line of a file.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The file, relative to the top of the working tree.
    pub path: String,
    pub number: u64,
    pub text: String,
}

/// A commit.
#[derive(Debug, Clone, Serialize)]
pub struct Committed {
    /// The commit's id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// The author, as claimed.
    pub author: String,
    /// The time, formatted.
    pub time: String,
    /// The time, for computing its age.
    #[serde(skip)]
    pub at: Millis,
}

/// A prompt.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// The turn, from 1.
    pub turn: u32,
    /// The time, formatted.
    pub time: String,
    /// The time, for computing its age.
    #[serde(skip)]
    pub at: Millis,
    /// The source of the prompt.
    #[serde(skip_serializing_if = "Sender::is_unnamed")]
    pub from: Sender,
    pub text: String,
}

/// The session that a line or commit comes from.
#[derive(Debug, Clone, Serialize)]
pub struct Origin {
    /// The session's id.
    pub id: SessionId,
    /// The session's name; empty if only the id is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The session's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The agent's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How it was found: `note`, `trailer`, `patch` or `worktree`.
    pub by: &'static str,
    /// The prompt that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Asked>,
}

/// The origin of a line or commit.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The line, if the question was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// Its commit; `None` if it is uncommitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<Committed>,
    /// The sessions it comes from; several only if a commit names several. Empty if no session made it.
    pub sessions: Vec<Origin>,
}

pub fn why(context: &Context<'_>, question: &Question) -> Result<Answer> {
    match question {
        Question::Commit(name) => {
            let commit = context.repo.resolve_commit(name)?;
            of_commit(context, commit, None)
        }
        Question::Line(file, number) => of_line(context, file, *number),
    }
}

fn of_line(context: &Context<'_>, file: &Path, number: u64) -> Result<Answer> {
    let repo = context.repo;
    let top = repo.require_work_tree()?;
    let absolute = context.env.absolute(file);
    // The file itself may be a link, so only its directory is resolved.
    let parent = absolute.parent().map(std::fs::canonicalize);
    let absolute = match (parent, absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    };
    let path = absolute
        .strip_prefix(top)
        .map_err(|_| Error::fatal(format!("'{}' is outside this work tree", file.display())))?;
    let blamed = if is_committed(context, path)? {
        repo.blame_line(path, number, None)?
    } else {
        new_line(&absolute, path, number)?
    };
    let line = Line {
        path: path.to_string_lossy().into_owned(),
        number,
        text: blamed.text.clone(),
    };
    // A brace or a blank line is in every version of a file, so it cannot tell the turn.
    let telling = blamed.text.chars().filter(|c| c.is_alphanumeric()).count() >= TELLING;
    let wanted = telling.then(|| Wanted {
        path: blamed.path.clone(),
        text: blamed.text,
    });
    let mut answer = match blamed.commit {
        Some(commit) => of_commit(context, commit, wanted.as_ref())?,
        None => Answer {
            line: None,
            commit: None,
            sessions: of_worktree(context, wanted.as_ref())?,
        },
    };
    answer.line = Some(line);
    Ok(answer)
}

/// Returns whether HEAD has a file at a path.
fn is_committed(context: &Context<'_>, path: &Path) -> Result<bool> {
    let repo = context.repo;
    let Some(head) = repo.head()?.commit else {
        return Ok(false);
    };
    let comparer = Comparer::new(repo, 1 << 20);
    let found = comparer.file_at(repo.tree_of(head)?, path.as_os_str().as_bytes())?;
    Ok(found.is_some())
}

/// Returns a line of an uncommitted file.
fn new_line(file: &Path, path: &Path, number: u64) -> Result<Blamed> {
    let shown = path.display();
    let text = std::fs::read(file).context(|| format!("cannot read '{shown}'"))?;
    let wanted = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = text
        .strip_suffix(b"\n")
        .unwrap_or(&text)
        .split(|byte| *byte == b'\n')
        .nth(wanted)
        .ok_or_else(|| Error::fatal(format!("'{shown}' has no line {number}")))?;
    Ok(Blamed {
        commit: None,
        path: path.as_os_str().as_bytes().to_vec(),
        text: String::from_utf8_lossy(line).into_owned(),
    })
}

/// A line to find in a session's snapshots.
struct Wanted {
    path: Vec<u8>,
    text: String,
}

fn of_commit(context: &Context<'_>, commit: ObjectId, line: Option<&Wanted>) -> Result<Answer> {
    let read = context.repo.read_commit(commit)?;
    let at = Millis(u64::try_from(read.time).unwrap_or(0) * 1000);
    let (name, email) = &read.author;
    let mut found: Vec<(SessionId, &'static str, Option<u64>)> = Vec::new();
    let mut add = |sid: SessionId, by: &'static str, until: Option<u64>| {
        if !found.iter().any(|(known, ..)| *known == sid) {
            found.push((sid, by, until));
        }
    };
    for record in notes_on(context, commit)? {
        add(record.sid, "note", Some(record.to_seq));
    }
    for sid in read.trailers("Agent-Session") {
        if let Ok(sid) = sid.parse() {
            add(sid, "trailer", None);
        }
    }
    let listing = context.store.list(Scope::Archived)?;
    if found.is_empty() {
        for sid in by_patch(context, commit, &read.parents, &listing.sessions)? {
            found.push((sid, "patch", None));
        }
    }
    let mut sessions = Vec::new();
    for (sid, by, until) in found {
        let listed = listing
            .sessions
            .iter()
            .find(|listed| listed.session.sid == sid);
        let moment = Moment {
            commit: Some(commit),
            line,
            until,
            at: Some(author_time(context, commit).unwrap_or(at)),
        };
        sessions.push(origin(context, sid, listed, by, &moment)?);
    }
    // A line comes from one session: if a squashed commit names several, choose those in which it is found.
    if line.is_some() && sessions.len() > 1 {
        let told: Vec<Origin> = sessions
            .iter()
            .filter(|origin| origin.prompt.is_some())
            .cloned()
            .collect();
        if !told.is_empty() {
            sessions = told;
        }
    }
    Ok(Answer {
        line: None,
        commit: Some(Committed {
            id: commit.to_string(),
            subject: read.message.lines().next().unwrap_or_default().to_owned(),
            author: format!("{name} <{email}>"),
            time: timestamp(at),
            at,
        }),
        sessions,
    })
}

/// Returns the author time of a commit, which a rebase keeps.
fn author_time(context: &Context<'_>, commit: ObjectId) -> Option<Millis> {
    let answer = context
        .repo
        .git_common()
        .args(["log", "-1", "--no-show-signature", "--format=%at"])
        .arg(commit.to_string())
        .run()
        .ok()?;
    Some(Millis(answer.text().trim().parse::<u64>().ok()? * 1000))
}

fn notes_on(context: &Context<'_>, commit: ObjectId) -> Result<Vec<Provenance>> {
    let (notes, _) = context.store.notes_on(Kind::Provenance, commit)?;
    Ok(notes
        .iter()
        .flat_map(|note| &note.lines)
        .filter_map(|line| serde_json::from_str::<Provenance>(line).ok())
        .filter(Provenance::is_understood)
        .collect())
}

/// Returns the sessions that made the same change, in one of their commits or in all of them together.
fn by_patch(
    context: &Context<'_>,
    commit: ObjectId,
    parents: &[ObjectId],
    sessions: &[Listed],
) -> Result<Vec<SessionId>> {
    let repo = context.repo;
    if parents.len() > 1 {
        return Ok(Vec::new());
    }
    let own = repo.patch_ids(&[commit])?;
    let Some((_, own)) = own.first() else {
        return Ok(Vec::new());
    };
    let mut found = BTreeSet::new();
    let records = context.store.note_records::<Provenance>(Kind::Provenance)?;
    for record in records.records {
        if record.value.is_understood() && record.value.patch_id.as_deref() == Some(own) {
            found.insert(record.value.sid);
        }
    }
    if !found.is_empty() {
        return Ok(found.into_iter().collect());
    }
    let mut room = COMPARED;
    for listed in sessions.iter().rev() {
        let session = &listed.session;
        let Some((base, tip)) = range(context, session) else {
            continue;
        };
        if repo.patch_id_between(base, tip)?.as_deref() == Some(own) {
            found.insert(session.sid);
            continue;
        }
        let single = own_commits(&repo.commits_between(base, tip)?, tip, room);
        room -= single.len();
        if repo.patch_ids(&single)?.iter().any(|(_, id)| id == own) {
            found.insert(session.sid);
        }
        if room == 0 {
            break;
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the commits made on a branch itself, without those that were merged into it.
fn own_commits(commits: &[Picked], tip: ObjectId, most: usize) -> Vec<ObjectId> {
    let known: HashMap<ObjectId, &Picked> =
        commits.iter().map(|commit| (commit.id, commit)).collect();
    let mut own = Vec::new();
    let mut next = Some(tip);
    while let Some(commit) = next.and_then(|id| known.get(&id)) {
        if commit.parents.len() < 2 && own.len() < most {
            own.push(commit.id);
        }
        next = commit.parents.first().copied();
    }
    own
}

/// Returns the first and last commit of a session, if they exist here.
fn range(context: &Context<'_>, session: &Session) -> Option<(ObjectId, ObjectId)> {
    let repo = context.repo;
    let known = |hex: Option<&str>| {
        let id = repo.parse_id(hex?).ok()?;
        repo.tree_of(id).ok().map(|_| id)
    };
    let branch = session.branch.as_deref();
    let tip = branch
        .and_then(|branch| repo.branch_tip(branch).ok().flatten())
        .or_else(|| known(session.code.as_deref()))?;
    let base = known(session.base.as_deref())?;
    (base != tip).then_some((base, tip))
}

/// Returns the session whose worktree contains an uncommitted line.
fn of_worktree(context: &Context<'_>, line: Option<&Wanted>) -> Result<Vec<Origin>> {
    let top = context.repo.require_work_tree()?;
    let listing = context.store.list(Scope::Mine)?;
    let here = |listed: &&Listed| {
        listed.session.local.worktree.as_deref().map(Path::new) == Some(top)
            && context.repo.is_linked_worktree()
    };
    let Some(listed) = listing.sessions.iter().rev().find(here) else {
        return Ok(Vec::new());
    };
    let moment = Moment {
        commit: None,
        line,
        until: None,
        at: None,
    };
    let sid = listed.session.sid;
    Ok(vec![origin(
        context,
        sid,
        Some(listed),
        "worktree",
        &moment,
    )?])
}

/// Facts that identify the turn in which something was made.
struct Moment<'a> {
    commit: Option<ObjectId>,
    line: Option<&'a Wanted>,
    /// The last event before it.
    until: Option<u64>,
    at: Option<Millis>,
}

fn origin(
    context: &Context<'_>,
    sid: SessionId,
    listed: Option<&Listed>,
    by: &'static str,
    moment: &Moment<'_>,
) -> Result<Origin> {
    let Some(listed) = listed else {
        return Ok(Origin {
            id: sid,
            name: String::new(),
            state: None,
            agent: String::new(),
            model: None,
            by,
            prompt: None,
        });
    };
    let session = &listed.session;
    Ok(Origin {
        id: sid,
        name: session.name.clone(),
        state: Some(session.status),
        agent: session.agent.clone(),
        model: session.model.clone(),
        by,
        prompt: prompt(context, listed, moment)?,
    })
}

/// Returns the prompt of the turn in which something was made: the first turn whose snapshot has it, or else the last
/// prompt before it.
fn prompt(context: &Context<'_>, listed: &Listed, moment: &Moment<'_>) -> Result<Option<Asked>> {
    let comparer = Comparer::new(context.repo, 4 << 20);
    let mut asked: Option<Asked> = None;
    let (mut by_time, mut last) = (None, None);
    for event in events::all(context, listed)? {
        let event = event?;
        if moment.until.is_some_and(|until| event.seq > until) && last.is_some() {
            break;
        }
        match event.body {
            Body::Prompt { text, from } => {
                let prompt = Asked {
                    turn: event.turn,
                    time: timestamp(event.ts),
                    at: event.ts,
                    from,
                    text,
                };
                if moment.at.is_none_or(|at| event.ts.0 / 1000 <= at.0 / 1000) {
                    by_time = Some(prompt.clone());
                }
                last = Some(prompt.clone());
                asked = Some(prompt);
            }
            Body::Snapshot { tree, head, .. }
                if asked.is_some()
                    && was_there(context, &comparer, moment, &tree, head.as_deref()) =>
            {
                return Ok(asked);
            }
            _ => {}
        }
    }
    Ok(by_time.or(last))
}

/// Returns whether a snapshot already contains it.
fn was_there(
    context: &Context<'_>,
    comparer: &Comparer,
    moment: &Moment<'_>,
    tree: &str,
    head: Option<&str>,
) -> bool {
    let repo = context.repo;
    if let Some(line) = moment.line {
        let Ok(tree) = repo.parse_id(tree) else {
            return false;
        };
        let Ok(Some(blob)) = comparer.file_at(tree, &line.path) else {
            return false;
        };
        let Ok(text) = repo.read_object(blob, ObjectKind::Blob, LARGEST) else {
            return false;
        };
        return text
            .split(|byte| *byte == b'\n')
            .any(|found| found.trim_ascii() == line.text.as_bytes().trim_ascii());
    }
    let head = head.and_then(|head| repo.parse_id(head).ok());
    match (moment.commit, head) {
        (Some(commit), Some(head)) => repo.is_ancestor(commit, head).unwrap_or(false),
        _ => false,
    }
}
