//! Threads as text: in a diff under their line, or in a list.

use crate::env::Millis;
use crate::listing::review::verdicts::Judgement;
use crate::model::review::{CommentPlace, Thread, Verdict, authorship};
use crate::output::terminal::sanitize::{block, one_line};
use crate::output::terminal::style::{Palette, Slot};
use crate::output::{human, sessions};
use crate::review::anchors::{Placed, Spot};
use crate::review::prompt;
use crate::review::records::short_id;

/// How many characters of one line of a comment are shown.
const LINE_SHOWN: usize = 1000;

/// Returns a line of a comment; one that would fill the screen is cut, and says so.
fn shown(line: &str) -> String {
    let line = line.trim_end();
    let Some((end, _)) = line.char_indices().nth(LINE_SHOWN) else {
        return format!("  {line}");
    };
    let more = line[end..].chars().count();
    format!(
        "  {} … ({more} more characters: git agent review list --json)",
        &line[..end]
    )
}

/// How threads are shown.
#[derive(Debug, Clone, Copy)]
pub struct Look<'p> {
    /// The colours.
    pub palette: &'p Palette,
    /// The moment ages are seen from.
    pub now: Millis,
}

impl Look<'_> {
    /// Returns a thread as a block of lines with a bar before each, `heading` first.
    pub fn block(&self, placed: &Placed<'_>, heading: Option<&str>) -> String {
        let mut lines = Vec::new();
        if let Some(heading) = heading {
            lines.push(
                self.palette
                    .paint(Slot::Place, one_line(heading).to_text())
                    .to_string(),
            );
        }
        if placed.spot == Spot::Outdated {
            lines.extend(self.code(placed.thread));
        }
        for (index, comment) in placed.thread.comments.iter().enumerate() {
            if comment.deleted {
                lines.push(self.palette.paint(Slot::Dim, "(deleted)").to_string());
                continue;
            }
            let mut head = format!(
                "{} {}, {}",
                short_id(comment.id),
                one_line(&authorship::shown(&comment.who.name, comment.claim)),
                human::ago(self.now, comment.ts)
            );
            if let Some(severity) = comment.severity {
                head += &format!(", {}", severity.as_str());
            }
            if comment.edited.is_some() {
                head += ", edited";
            }
            if index == 0 && !placed.thread.is_open() {
                head += ", resolved";
            }
            lines.push(self.palette.paint(Slot::Prompt, head).to_string());
            let body = block(&comment.body).to_text();
            lines.extend(body.trim_end().lines().map(shown));
        }
        self.barred(&lines)
    }

    /// Returns verdicts as such a block, each with its reason.
    pub fn verdicts(&self, judgements: &[Judgement]) -> String {
        let mut lines = Vec::new();
        for judgement in judgements {
            let slot = match judgement.verdict {
                _ if judgement.stale == Some(true) => Slot::Dim,
                Verdict::Approve => Slot::Good,
                Verdict::RequestChanges => Slot::Waiting,
                Verdict::Reject => Slot::Bad,
            };
            let head = self
                .palette
                .paint(slot, sessions::verdict(judgement, self.now));
            lines.push(head.to_string());
            let body = block(&judgement.message).to_text();
            lines.extend(body.trim_end().lines().map(shown));
        }
        self.barred(&lines)
    }

    fn barred(&self, lines: &[String]) -> String {
        let bar = self.palette.paint(Slot::Dim, "│").to_string();
        lines.iter().map(|line| format!("{bar} {line}\n")).collect()
    }

    /// Returns the code that an outdated thread was about.
    fn code(&self, thread: &Thread) -> Vec<String> {
        let Some(CommentPlace::Code(code)) = &thread.at else {
            return Vec::new();
        };
        let shown = |line: &String| {
            let line = one_line(line).to_string();
            self.palette
                .paint(Slot::Dim, format!("  ~ {line}"))
                .to_string()
        };
        code.text.iter().map(shown).collect()
    }

    /// Returns where a thread hangs, for a heading.
    pub fn place(placed: &Placed<'_>) -> String {
        prompt::place(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_end_are_cut() {
        assert_eq!(shown("short  "), "  short");
        let exact = "é".repeat(LINE_SHOWN);
        assert_eq!(shown(&exact), format!("  {exact}"));
        let long = shown(&format!("{exact}xy"));
        assert!(long.ends_with("é … (2 more characters: git agent review list --json)"));
    }
}
