//! The messages of merge commits: subject and body from the task, and trailers that name the session.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::model::session::Session;
use crate::model::session::fold::shorten;

/// The trailer that names a commit's session.
pub const SESSION: &str = "Agent-Session";
/// The longest subject, in characters.
const SUBJECT: usize = 72;

/// One commit of a squash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Squashed {
    /// The author, as `name <email>`.
    pub author: String,
    /// The whole commit message.
    pub message: String,
}

/// How much of a session's task its commit messages contain. A task may be confidential, and a plain `git push`
/// publishes commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskText {
    /// The first line.
    #[default]
    FirstLine,
    /// The whole task.
    Full,
    /// Nothing; only the session's name.
    None,
}

impl TaskText {
    /// The words of `agent.mergeMessage`.
    pub const WORDS: [&'static str; 3] = ["first-line", "full", "none"];
}

impl FromStr for TaskText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "first-line" => Ok(TaskText::FirstLine),
            "full" => Ok(TaskText::Full),
            "none" => Ok(TaskText::None),
            _ => Err(Error::usage(format!(
                "'{text}' is not one of {}",
                TaskText::WORDS.join(", ")
            ))),
        }
    }
}

/// Returns the first line of a session's task, or else its name.
pub fn subject(session: &Session, text: TaskText) -> String {
    let line = session
        .task
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && text != TaskText::None);
    shorten(line.unwrap_or(&session.name), SUBJECT)
}

/// Returns the message of the commit that holds a session's uncommitted work.
pub fn of_work(session: &Session, text: TaskText) -> String {
    let body = body(session, text);
    close(subject(session, text), &body, &[trailer(session)])
}

/// Returns the message of a merge commit.
pub fn of_merge(session: &Session, text: TaskText) -> String {
    of_logged_merge(session, text, &[], 0)
}

/// Returns the message of a merge commit that lists up to `limit` of the merged commits, as git does with `merge.log`.
pub fn of_logged_merge(
    session: &Session,
    text: TaskText,
    commits: &[Squashed],
    limit: usize,
) -> String {
    let task = subject(session, text);
    let named = format!("Merge session '{}'", session.name);
    let (title, mut text) = if task == session.name {
        (named, body(session, text))
    } else {
        let title = shorten(&format!("{named}: {task}"), SUBJECT);
        let text = match text {
            TaskText::Full => session.task.trim().to_owned(),
            _ => String::new(),
        };
        (title, text)
    };
    if title.ends_with(&format!(": {text}")) {
        text.clear();
    }
    if limit > 0 && !commits.is_empty() {
        let branch = session.branch.as_deref().unwrap_or(&session.name);
        let count = if commits.len() > limit {
            format!(" ({} commits)", commits.len())
        } else {
            String::new()
        };
        text.push_str(&format!("\n\n* {branch}:{count}"));
        let newest_first = commits.iter().rev();
        for commit in newest_first.take(limit) {
            let title = commit.message.lines().next().unwrap_or_default();
            text.push_str(&format!("\n  {title}"));
        }
        if commits.len() > limit {
            text.push_str("\n  ...");
        }
    }
    close(title, &text, &[trailer(session)])
}

/// Returns the message of a squashed commit. `user` is the committer, as `name <email>`, who does not become a
/// co-author.
pub fn of_squash(session: &Session, told: TaskText, commits: &[Squashed], user: &str) -> String {
    let mut text = body(session, told);
    let titles: Vec<String> = commits
        .iter()
        .filter_map(|commit| commit.message.lines().next())
        .filter(|title| !title.trim().is_empty())
        .map(|title| format!("* {title}"))
        .collect();
    if commits.len() > 1 {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&titles.join("\n"));
    }
    let mut seen = BTreeSet::new();
    let mut trailers = Vec::new();
    let mut add = |line: String| {
        if seen.insert(line.to_lowercase()) {
            trailers.push(line);
        }
    };
    for commit in commits {
        for line in trailers_of(&commit.message) {
            add(line.to_owned());
        }
    }
    for commit in commits {
        if !commit.author.eq_ignore_ascii_case(user) {
            add(format!("Co-authored-by: {}", commit.author));
        }
    }
    add(trailer(session));
    close(subject(session, told), &text, &trailers)
}

/// Returns a message with the session's trailer, added unless it is already there.
pub fn with_trailer(message: &str, session: &Session) -> String {
    let line = trailer(session);
    if message.lines().any(|known| known.trim() == line) {
        return message.to_owned();
    }
    let trimmed = message.trim_end();
    let gap = if trailers_of(message).is_empty() {
        "\n\n"
    } else {
        "\n"
    };
    format!("{trimmed}{gap}{line}\n")
}

fn trailer(session: &Session) -> String {
    format!("{SESSION}: {}", session.sid)
}

/// Returns the task if the message shall contain all of it and the subject does not.
fn body(session: &Session, text: TaskText) -> String {
    let task = session.task.trim();
    if text == TaskText::Full && task != subject(session, text) {
        task.to_owned()
    } else {
        String::new()
    }
}

fn close(subject: String, body: &str, trailers: &[String]) -> String {
    let mut text = subject.clone();
    let body = body.trim();
    if !body.is_empty() && body != subject {
        text.push_str("\n\n");
        text.push_str(body);
    }
    text.push_str("\n\n");
    text.push_str(&trailers.join("\n"));
    text.push('\n');
    text
}

/// Returns the trailers of a message: the last paragraph, if all of it is `Key: value`.
fn trailers_of(message: &str) -> Vec<&str> {
    let last = message.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let is_only = last.len() == message.trim_end().len();
    let is_trailer = |line: &&str| -> bool {
        line.split_once(": ").is_some_and(|(key, value)| {
            !value.trim().is_empty()
                && !key.is_empty()
                && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
    };
    let lines: Vec<&str> = last.lines().collect();
    if !is_only && lines.iter().all(is_trailer) {
        lines
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::session::{Person, SessionId, WriterId};

    fn session(task: &str) -> Session {
        let sid = SessionId::from_parts(Millis(1), [1; 10]);
        let writer: WriterId = "ada-1a2b".parse().expect("a writer");
        let mut session = Session::new(sid, writer, "wipe", Person::default());
        session.task = task.to_owned();
        session
    }

    #[test]
    fn a_merge_names_session_task_and_trailer() {
        let session = session("add a wipe command");
        let message = of_merge(&session, TaskText::FirstLine);
        assert_eq!(
            message,
            format!(
                "Merge session 'wipe': add a wipe command\n\nAgent-Session: {}\n",
                session.sid
            )
        );
    }

    #[test]
    fn a_merge_names_what_it_brings_when_asked_to() {
        let session = session("add a wipe command");
        let commit = |title: &str| Squashed {
            author: String::new(),
            message: format!("{title}\n\nwhy\n"),
        };
        let commits = [commit("one"), commit("two"), commit("three")];
        let all = of_logged_merge(&session, TaskText::FirstLine, &commits, 20);
        assert!(
            all.starts_with(
                "Merge session 'wipe': add a wipe command\n\n* wipe:\n  three\n  two\n  one\n\nAgent"
            ),
            "{all}"
        );
        let some = of_logged_merge(&session, TaskText::FirstLine, &commits, 2);
        assert!(
            some.contains("\n\n* wipe: (3 commits)\n  three\n  two\n  ...\n\nAgent"),
            "{some}"
        );
        assert_eq!(
            of_logged_merge(&session, TaskText::FirstLine, &commits, 0),
            of_merge(&session, TaskText::FirstLine)
        );
    }

    #[test]
    fn only_the_first_line_of_a_task_is_told_unless_all_is_wanted() {
        let session = session("add a wipe command\n\nthe password is in the vault");
        let commits = [Squashed {
            author: "Ada <a@x>".into(),
            message: "one\n".into(),
        }];
        let all = |text| {
            [
                of_work(&session, text),
                of_merge(&session, text),
                of_logged_merge(&session, text, &commits, 1),
                of_squash(&session, text, &commits, "Ada <a@x>"),
            ]
        };
        for message in all(TaskText::FirstLine) {
            assert!(message.contains("add a wipe command\n"), "{message}");
            assert!(!message.contains("vault"), "{message}");
        }
        for message in all(TaskText::Full) {
            assert!(
                message.contains("the password is in the vault"),
                "{message}"
            );
        }
        for message in all(TaskText::None) {
            assert!(message.contains("wipe"), "{message}");
            assert!(!message.contains("command"), "{message}");
            assert!(message.contains("Agent-Session: "), "{message}");
        }
    }

    #[test]
    fn a_long_task_is_kept_whole_below_its_short_title() {
        let task = format!("{}\n\nand more", "word ".repeat(40));
        let session = session(&task);
        let message = of_work(&session, TaskText::Full);
        assert!(
            message
                .lines()
                .next()
                .is_some_and(|line| line.chars().count() <= 72)
        );
        assert!(message.contains("and more"), "{message}");
        assert!(message.ends_with(&format!("\n\nAgent-Session: {}\n", session.sid)));
    }

    #[test]
    fn a_squash_keeps_authors_and_trailers_once() {
        let session = session("do it");
        let commits = [
            Squashed {
                author: "Robot <r@x>".into(),
                message: "one\n\nwhy\n\nSigned-off-by: R <r@x>\n".into(),
            },
            Squashed {
                author: "Ada <a@x>".into(),
                message: "two\n\nSigned-off-by: R <r@x>\n".into(),
            },
        ];
        let message = of_squash(&session, TaskText::FirstLine, &commits, "Ada <a@x>");
        assert_eq!(
            message,
            format!(
                "do it\n\n* one\n* two\n\nSigned-off-by: R <r@x>\nCo-authored-by: Robot <r@x>\n\
                 Agent-Session: {}\n",
                session.sid
            )
        );
    }

    #[test]
    fn a_trailer_is_added_once_and_joins_others() {
        let session = session("x");
        let once = with_trailer("title\n", &session);
        assert_eq!(once, format!("title\n\nAgent-Session: {}\n", session.sid));
        assert_eq!(with_trailer(&once, &session), once);
        let joined = with_trailer("title\n\nSigned-off-by: A <a>\n", &session);
        assert!(joined.contains("A <a>\nAgent-Session:"), "{joined}");
        let title = with_trailer("fix: this\n", &session);
        assert!(title.starts_with("fix: this\n\nAgent-Session"), "{title}");
    }
}
