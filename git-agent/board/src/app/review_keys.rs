//! The actions of the review screen.

use git_agent::model::review::Verdict;
use git_agent::output::human;
use git_agent::review::diff_scope::Scope;

use crate::app::dialog::{ChoiceFor, Choosing, Dialog, Purpose};
use crate::app::diff::{Row, STEP};
use crate::app::effect::{Effect, Job, Target};
use crate::app::{App, Tone};
use crate::keys::Action;
use crate::text;

impl App {
    /// Carries out an action in the review screen.
    pub fn review_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Back => return self.leave_review(),
            Action::Help => {
                self.dialogs.push(Dialog::Help { scroll: 0 });
                return Vec::new();
            }
            Action::Palette => return self.open_palette(),
            Action::Redraw => return vec![Effect::Redraw, Effect::Look],
            Action::NextSession => return self.other_session(1),
            Action::PreviousSession => return self.other_session(-1),
            _ => {}
        }
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        let half = isize::try_from(review.height / 2).unwrap_or(1).max(1);
        match action {
            Action::Down => review.move_by(1),
            Action::Up => review.move_by(-1),
            Action::PageDown => review.move_by(half),
            Action::PageUp => review.move_by(-half),
            Action::First => review.move_by(isize::MIN / 2),
            Action::Last => review.move_by(isize::MAX / 2),
            Action::Left => review.left = review.left.saturating_sub(8),
            Action::Right => review.left = (review.left + 8).min(2000),
            Action::NextHunk => {
                review.seek(true, |review, at| review.begins_change(at));
            }
            Action::PreviousHunk => {
                review.seek(false, |review, at| review.begins_change(at));
            }
            Action::NextFile => {
                review.seek(true, |review, at| matches!(review.rows[at], Row::File(_)));
            }
            Action::PreviousFile => {
                review.seek(false, |review, at| matches!(review.rows[at], Row::File(_)));
            }
            Action::NextComment => {
                review.seek(true, |review, at| {
                    matches!(review.rows[at], Row::Thread(_, 0))
                });
            }
            Action::PreviousComment => {
                review.seek(false, |review, at| {
                    matches!(review.rows[at], Row::Thread(_, 0))
                });
            }
            Action::Range => {
                review.range = match review.range {
                    Some(_) => None,
                    None => Some(review.cursor),
                };
            }
            Action::SideBySide => {
                let place = review.cursor_place();
                review.side_by_side = Some(!review.layout.side_by_side);
                review.build();
                if let Some(place) = place {
                    review.go_to(&place);
                }
                review.follow_cursor();
            }
            Action::Tree => {
                let shown = review
                    .tree
                    .unwrap_or(self.size.0 >= crate::app::review::WITH_TREE);
                review.tree = Some(!shown);
            }
            Action::Seen => self.toggle_seen(),
            Action::Open => return self.open_row(),
            Action::Search => self.write("search", Purpose::Search),
            Action::NextMatch => self.find_next(true),
            Action::PreviousMatch => self.find_next(false),
            Action::Copy => {
                if let Some((words, _)) = review.target() {
                    self.say(Tone::Plain, format!("copied {words}"));
                    return vec![Effect::Copy(words)];
                }
            }
            action => return self.review_change(action),
        }
        Vec::new()
    }

    /// Carries out an action that changes something.
    fn review_change(&mut self, action: Action) -> Vec<Effect> {
        let Some(review) = &self.review else {
            return Vec::new();
        };
        let id = review.id.clone();
        let Some(shown) = review.shown.clone() else {
            return Vec::new();
        };
        let name = text::line(&shown.name);
        match action {
            Action::Reload => {
                let scope = review.scope;
                return self.job("reading the changes", Job::Load(id, scope));
            }
            Action::Write => match review.target() {
                Some((words, target)) => {
                    self.write(format!("comment on {words}"), Purpose::Comment(id, target));
                }
                None => self.write(
                    format!("comment on {name}"),
                    Purpose::Comment(id, Target::Session),
                ),
            },
            Action::WriteFile => {
                if let Some(file) = review.file_at_cursor() {
                    let path = shown.files[file].path.clone();
                    let words = text::line(&path);
                    let target = Target::File(path, git_agent::model::review::Side::New);
                    self.write(format!("comment on {words}"), Purpose::Comment(id, target));
                }
            }
            Action::Reply | Action::Close => {
                let thread = review
                    .thread_at_cursor()
                    .and_then(|at| shown.threads.get(at));
                let Some((comment, is_open)) = thread
                    .and_then(|thread| Some((thread.id()?.to_string(), thread.thread.is_open())))
                else {
                    self.say(Tone::Plain, "no comment here: m goes to the next one");
                    return Vec::new();
                };
                match action {
                    Action::Reply => self.write("reply", Purpose::Reply(id, comment)),
                    _ => return self.job("closing", Job::Close(comment, is_open)),
                }
            }
            Action::SendReview => return self.job("sending the review", Job::SendReview(id)),
            Action::ApproveShown => return self.approve_shown(),
            Action::RequestChanges => self.write("what must change?", Purpose::RequestChanges),
            Action::Reject => self.write("why is it rejected? (may be empty)", Purpose::Reject),
            Action::Land => return self.job("planning the merge", Job::Merge(vec![id])),
            Action::Scope => self.choose_scope(),
            Action::EditLine => {
                if let Some((path, _, line)) = review.cursor_place() {
                    return vec![Effect::EditLine(id, path, line.unwrap_or(1))];
                }
            }
            Action::RevertHunk => match review.hunk_at_cursor() {
                Some((file, hunk)) => {
                    let path = text::line(&shown.files[file].path);
                    let job = Job::Revert(shown, file, Some(hunk));
                    let lines = vec![(
                        Tone::Plain,
                        "A snapshot of the worktree is taken first.".to_owned(),
                    )];
                    self.ask(
                        format!("revert this hunk of '{path}'?"),
                        lines,
                        "revert",
                        "reverting",
                        job,
                    );
                }
                None => self.say(Tone::Plain, "no hunk here: ] goes to the next one"),
            },
            Action::RevertFile => {
                if let Some(file) = review.file_at_cursor() {
                    let path = text::line(&shown.files[file].path);
                    let job = Job::Revert(shown, file, None);
                    let lines = vec![(
                        Tone::Plain,
                        "A snapshot of the worktree is taken first.".to_owned(),
                    )];
                    self.ask(
                        format!("revert all changes of '{path}'?"),
                        lines,
                        "revert",
                        "reverting",
                        job,
                    );
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Approves exactly the shown work; asks first if it has changed since the screen was opened, or is only a part.
    fn approve_shown(&mut self) -> Vec<Effect> {
        let Some(review) = &self.review else {
            return Vec::new();
        };
        let Some(shown) = review.shown.clone() else {
            return Vec::new();
        };
        let name = text::line(&shown.name);
        let (added, deleted) = shown.counts();
        let mut lines = Vec::new();
        if review.has_changed {
            lines.push((
                Tone::Bad,
                "The work has changed since this screen was opened.".to_owned(),
            ));
        }
        if review.scope != Scope::Branch {
            lines.push((
                Tone::Bad,
                "Only a part of the changes is shown; all are approved.".to_owned(),
            ));
        }
        let open = review.open_comments().0;
        if open > 0 {
            lines.push((Tone::Bad, human::count(open as u64, "open comment")));
        }
        let job = Job::Verdict(shown.clone(), Verdict::Approve, String::new());
        if lines.is_empty() {
            return self.job("approving", job);
        }
        let many = shown.files.len();
        lines.push((Tone::Plain, format!("{many} files, +{added} −{deleted}")));
        self.ask(
            format!("approve '{name}' exactly as it is shown?"),
            lines,
            "approve",
            "approving",
            job,
        );
        Vec::new()
    }

    fn toggle_seen(&mut self) {
        let Some(review) = &mut self.review else {
            return;
        };
        let (Some(file), Some(shown)) = (review.file_at_cursor(), review.shown.clone()) else {
            return;
        };
        let path = shown.files[file].path.clone();
        let is_seen = !review.seen.remove(&path);
        if is_seen {
            review.seen.insert(path.clone());
            review.layout.folded.insert(file);
        } else {
            review.layout.folded.remove(&file);
        }
        review.build();
        let at = review.rows.iter().position(|row| *row == Row::File(file));
        review.cursor = at.unwrap_or(0);
        if is_seen {
            review.seek(true, |review, at| matches!(review.rows[at], Row::File(_)));
        }
        review.follow_cursor();
    }

    /// Opens or closes the row under the cursor.
    fn open_row(&mut self) -> Vec<Effect> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        let Some(row) = review.rows.get(review.cursor).copied() else {
            return Vec::new();
        };
        match row {
            Row::File(file) | Row::Folded(file) => {
                if !review.layout.folded.remove(&file) {
                    review.layout.folded.insert(file);
                }
                review.build();
                let at = review.rows.iter().position(|row| *row == Row::File(file));
                review.cursor = at.unwrap_or(0);
                review.follow_cursor();
                Vec::new()
            }
            Row::Gap(file, hunk, _) => {
                if review.lines.contains_key(&file) {
                    open_gap(review, file, hunk);
                    return Vec::new();
                }
                review.pending = Some((file, hunk));
                match review.shown.clone() {
                    Some(shown) => vec![Effect::Job(0, Job::Lines(shown, file))],
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// Takes the lines of a file, and opens the context that waits for them.
    pub fn take_lines(&mut self, id: &str, file: usize, lines: Vec<Vec<u8>>) {
        let Some(review) = self.review.as_mut().filter(|review| review.id == id) else {
            return;
        };
        let many = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        review.layout.lengths.insert(file, many);
        let lines = lines.iter().map(|line| text::code(line)).collect();
        review.lines.insert(file, lines);
        if let Some((file, hunk)) = review.pending.take() {
            open_gap(review, file, hunk);
        }
    }

    /// Moves to the next or previous match of the search.
    pub fn find_next(&mut self, forward: bool) {
        let Some(review) = &mut self.review else {
            return;
        };
        let words = review.search.to_lowercase();
        if words.is_empty() {
            return;
        }
        let found = review.seek(forward, |review, at| {
            review.row_text(at).to_lowercase().contains(&words)
        });
        if !found {
            self.say(Tone::Plain, "no further match");
        }
    }

    fn choose_scope(&mut self) {
        let Some(review) = &self.review else {
            return;
        };
        let turns = review.shown.as_ref().map_or(0, |shown| shown.turns);
        let mut scopes = vec![Scope::Branch, Scope::SinceReview, Scope::Uncommitted];
        let mut items = vec![
            "all changes".to_owned(),
            "since my last review".to_owned(),
            "not committed".to_owned(),
        ];
        for turn in (1..=u64::from(turns)).rev().take(20) {
            scopes.push(Scope::Turn(turn));
            items.push(format!("turn {turn}"));
        }
        let cursor = scopes
            .iter()
            .position(|scope| *scope == review.scope)
            .unwrap_or(0);
        self.dialogs.push(Dialog::Choose(Choosing {
            title: "show".to_owned(),
            items,
            cursor,
            purpose: ChoiceFor::Scope(scopes),
        }));
    }

    /// Shows another part of the work.
    pub fn open_scope(&mut self, scope: Scope) -> Vec<Effect> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        review.scope = scope;
        let id = review.id.clone();
        self.job("reading the changes", Job::Load(id, scope))
    }

    /// Leaves the review screen; what it showed counts as seen.
    pub fn leave_review(&mut self) -> Vec<Effect> {
        if let Some(review) = &mut self.review
            && (review.range.take().is_some() || !std::mem::take(&mut review.search).is_empty())
        {
            return Vec::new();
        }
        let Some(review) = self.review.take() else {
            return Vec::new();
        };
        let mut effects = Vec::new();
        if let Some(shown) = review.shown {
            effects.push(Effect::Job(0, Job::Seen(shown)));
        }
        if self.only_review {
            effects.push(Effect::Quit);
            return effects;
        }
        self.log.forget_peek();
        effects.extend(self.select(Some(review.id)));
        effects.extend(self.follow_selected());
        effects
    }

    /// Opens the review of the next session that has something to review.
    fn other_session(&mut self, by: isize) -> Vec<Effect> {
        let columns = self.columns();
        let ids: Vec<String> = columns[2]
            .iter()
            .chain(&columns[1])
            .map(|row| row.id.clone())
            .collect();
        let current = self.review.as_ref().map(|review| review.id.clone());
        let at = ids.iter().position(|id| Some(id) == current.as_ref());
        let (Some(at), false) = (at, ids.is_empty()) else {
            return Vec::new();
        };
        let next = (at + ids.len()).saturating_add_signed(by) % ids.len();
        let id = ids[next].clone();
        self.board.selected = Some(id.clone());
        let mut effects = self.follow_selected();
        effects.extend(self.open_review(&id, Scope::Branch));
        effects
    }
}

/// Opens some lines of a gap.
fn open_gap(review: &mut crate::app::review::Review, file: usize, hunk: usize) {
    let entry = review.layout.opened.entry((file, hunk)).or_insert((0, 0));
    let hunks = review
        .shown
        .as_ref()
        .map_or(0, |shown| shown.files[file].hunks.len());
    if hunk < hunks {
        entry.0 += STEP;
    }
    if hunk > 0 {
        entry.1 += STEP;
    }
    let place = review.cursor;
    review.build();
    review.cursor = place.min(review.rows.len().saturating_sub(1));
    review.follow_cursor();
}
