//! The actions of the board.

use git_agent::listing::row::Summary;
use git_agent::model::session::State;
use git_agent::review::diff_scope::Scope;

use crate::app::board::{Pane, conflicts};
use crate::app::dialog::{Answer, Asking, Dialog, NewForm, Palette, Purpose};
use crate::app::effect::{Effect, Job, Target};
use crate::app::review::Review;
use crate::app::{App, Tone};
use crate::keys::Action;
use crate::text;

impl App {
    /// Carries out an action on the board.
    pub fn board_action(&mut self, action: Action) -> Vec<Effect> {
        let page = isize::from(self.size.1 as i16 / 2).max(1);
        match action {
            Action::Down => self.move_card(1),
            Action::Up => self.move_card(-1),
            Action::Left => self.move_column(-1),
            Action::Right | Action::NextColumn => self.move_column(1),
            Action::First => self.move_card(isize::MIN / 2),
            Action::Last => self.move_card(isize::MAX / 2),
            Action::PageDown if self.board.zoomed => self.scroll_pane(-page),
            Action::PageUp if self.board.zoomed => self.scroll_pane(page),
            Action::PageDown => self.move_card(5),
            Action::PageUp => self.move_card(-5),
            Action::PaneDown => self.scroll_pane(-3),
            Action::PaneUp => self.scroll_pane(3),
            Action::Search => {
                self.write(
                    "filter: words of names, tasks, agents, states",
                    Purpose::Search,
                );
                Vec::new()
            }
            Action::Palette => self.open_palette(),
            Action::Help => {
                self.dialogs.push(Dialog::Help { scroll: 0 });
                Vec::new()
            }
            Action::Back => self.back(),
            Action::Redraw => vec![Effect::Redraw, Effect::Look],
            Action::New => self.open_new(""),
            Action::Versions => self.open_new("3"),
            Action::MergeAll => self.job("planning the merge", Job::Merge(Vec::new())),
            Action::Undo => self.job("undoing", Job::Undo),
            Action::Clean => {
                let lines = vec![(
                    Tone::Plain,
                    "Worktrees and branches of merged sessions go; all other work stays."
                        .to_owned(),
                )];
                self.ask(
                    "remove merged sessions?",
                    lines,
                    "clean",
                    "cleaning",
                    Job::Clean,
                );
                Vec::new()
            }
            Action::Push => vec![Effect::Run(vec!["push".to_owned()], true)],
            Action::Fetch => vec![Effect::Run(vec!["fetch".to_owned()], true)],
            Action::Sort => {
                let (sort, word) = self.board.sort.next();
                self.board.sort = sort;
                self.sort_rows();
                self.say(Tone::Plain, format!("sorted by {word}"));
                Vec::new()
            }
            Action::Closed => {
                self.board.all_closed = !self.board.all_closed;
                self.keep_selection();
                self.follow_selected()
            }
            Action::Pane => {
                let at = Pane::ALL
                    .iter()
                    .position(|(pane, _)| *pane == self.board.pane);
                let next = (at.unwrap_or(0) + 1) % Pane::ALL.len();
                self.show_pane(Pane::ALL[next].0)
            }
            Action::Zoom => {
                self.board.zoomed = !self.board.zoomed;
                Vec::new()
            }
            action => match self.current().cloned() {
                Some(row) => self.card_action(action, &row),
                None => {
                    self.say(Tone::Plain, "no session is selected: n makes one");
                    Vec::new()
                }
            },
        }
    }

    /// Carries out an action on the selected card.
    fn card_action(&mut self, action: Action, row: &Summary) -> Vec<Effect> {
        let name = row.name.clone();
        let shown = text::line(&name);
        let id = row.id.clone();
        let targets = self.targets();
        let all = |targets: &[String]| match targets {
            [_] => format!("'{shown}'"),
            many => format!("{} sessions", many.len()),
        };
        match action {
            Action::Open => match row.state {
                State::Waiting
                | State::Running
                | State::Queued
                | State::Preparing
                | State::Draft => {
                    self.board.zoomed = !self.board.zoomed;
                    Vec::new()
                }
                _ => self.open_review(&id, Scope::Branch),
            },
            Action::Mark => {
                if !self.board.marks.remove(&id) {
                    self.board.marks.insert(id);
                }
                self.move_card(1)
            }
            Action::Copy => {
                self.say(Tone::Plain, format!("copied {shown}"));
                vec![Effect::Copy(name)]
            }
            Action::Send => {
                self.write(format!("to {shown}"), Purpose::Send(id));
                Vec::new()
            }
            Action::Yes => self.answer(row, "yes"),
            Action::No => self.answer(row, "no"),
            Action::Always => {
                if row.state != State::Waiting || self.log.question().is_none() {
                    return self.answer(row, "always");
                }
                let lines = self.question_lines();
                let job = Job::Answer(id, "always".to_owned());
                self.ask("allow this for ever?", lines, "always", "answering", job);
                Vec::new()
            }
            Action::Comment => {
                let purpose = Purpose::Comment(id, Target::Session);
                self.write(format!("comment on {shown}"), purpose);
                Vec::new()
            }
            Action::Approve => self.job("looking at the work", Job::Approve(targets)),
            Action::Merge => self.job("planning the merge", Job::Merge(targets)),
            Action::Resolve => {
                let parent = text::line(row.parent.as_deref().unwrap_or("its parent"));
                let mut lines: Vec<(Tone, String)> = vec![(
                    Tone::Plain,
                    format!(
                        "The agent gets both sides; the result is shown before '{shown}' takes it."
                    ),
                )];
                let paths = conflicts(row).iter();
                lines.extend(
                    paths.map(|path| (Tone::Bad, format!("conflict in {}", text::line(path)))),
                );
                let title =
                    format!("let an agent resolve the conflict of '{shown}' with '{parent}'?");
                self.ask(title, lines, "resolve", "resolving", Job::Resolve(id));
                Vec::new()
            }
            Action::Stop => {
                let title = format!("stop {}?", all(&targets));
                let lines = vec![(
                    Tone::Plain,
                    "Its work is kept, and it can go on later.".to_owned(),
                )];
                self.ask(title, lines, "stop", "stopping", Job::Stop(targets));
                Vec::new()
            }
            Action::Restart => self.job("starting again", Job::Restart(targets)),
            Action::Fork => {
                self.write(
                    format!("fork of {shown}: its first prompt"),
                    Purpose::Fork(id),
                );
                Vec::new()
            }
            Action::Discard => {
                let title = format!("discard {}?", all(&targets));
                let lines = vec![(
                    Tone::Plain,
                    "Worktree and branch go; a snapshot is kept, and restore brings them back."
                        .to_owned(),
                )];
                self.ask(title, lines, "discard", "discarding", Job::Discard(targets));
                Vec::new()
            }
            Action::Update => self.job("updating", Job::Update(targets)),
            Action::Snapshot => self.job("taking a snapshot", Job::Snapshot(id)),
            Action::Rewind => self.job("reading the turns", Job::Turns(id)),
            Action::Attach => vec![Effect::Run(vec!["attach".to_owned(), id], false)],
            Action::Shell => vec![Effect::Run(vec!["shell".to_owned(), id], false)],
            Action::Editor => vec![Effect::Run(vec!["open".to_owned(), id], false)],
            Action::RunProgram => vec![Effect::Run(vec!["run".to_owned(), id], true)],
            Action::Compare => self.begin_comparison(row),
            _ => Vec::new(),
        }
    }

    fn begin_comparison(&mut self, row: &Summary) -> Vec<Effect> {
        let mut ids: Vec<String> = self.targets();
        if ids.len() < 2
            && let Some(group) = &row.group
        {
            let same = |other: &&Summary| other.group.as_ref() == Some(group);
            ids = self
                .rows
                .iter()
                .filter(same)
                .map(|row| row.id.clone())
                .collect();
        }
        if ids.len() < 2 {
            self.say(
                Tone::Plain,
                "mark two to four sessions with Space, then compare them",
            );
            return Vec::new();
        }
        ids.truncate(4);
        self.job("comparing", Job::Compare(ids))
    }

    fn answer(&mut self, row: &Summary, word: &str) -> Vec<Effect> {
        if row.state != State::Waiting {
            let name = text::line(&row.name);
            self.say(Tone::Plain, format!("'{name}' has no open question"));
            return Vec::new();
        }
        if self.log.id != row.id || self.log.question().is_none() {
            self.say(Tone::Plain, "the question is being read");
            return Vec::new();
        }
        self.log.answer_question();
        self.job("answering", Job::Answer(row.id.clone(), word.to_owned()))
    }

    /// Returns the open question as lines.
    pub fn question_lines(&self) -> Vec<(Tone, String)> {
        let Some(question) = self.log.question() else {
            return Vec::new();
        };
        let mut lines = vec![(Tone::Plain, question.title.clone())];
        lines.extend(question.detail.iter().cloned());
        lines
    }

    fn back(&mut self) -> Vec<Effect> {
        if self.board.zoomed {
            self.board.zoomed = false;
        } else if !self.board.filter.is_empty() {
            self.board.filter.clear();
            self.keep_selection();
            return self.follow_selected();
        } else if !self.board.marks.is_empty() {
            self.board.marks.clear();
        } else if self.busy.is_empty() {
            return vec![Effect::Quit];
        } else {
            let busy = self
                .busy
                .iter()
                .map(|(_, words)| (Tone::Plain, words.clone()));
            self.dialogs.push(Dialog::Ask(Asking {
                title: "something is still going on: leave all the same?".to_owned(),
                lines: busy.collect(),
                yes: "leave".to_owned(),
                answer: Answer::Leave,
                scroll: 0,
            }));
        }
        Vec::new()
    }

    /// Shows log, diff or comments in the pane.
    pub fn show_pane(&mut self, pane: Pane) -> Vec<Effect> {
        self.board.pane = pane;
        self.board.scroll = 0;
        self.follow_selected()
    }

    /// Scrolls the pane; up is positive.
    pub fn scroll_pane(&mut self, by: isize) -> Vec<Effect> {
        let by = match self.board.pane {
            Pane::Log => by,
            _ => -by,
        };
        self.board.scroll = self.board.scroll.saturating_add_signed(by);
        Vec::new()
    }

    /// Opens the dialog for a new session.
    pub fn open_new(&mut self, versions: &str) -> Vec<Effect> {
        let at = self.drafts.iter().position(|(key, _)| key == "New");
        let draft = at.map(|at| self.drafts.remove(at).1).unwrap_or_default();
        let form = NewForm::new(versions, &draft);
        self.dialogs.push(Dialog::New(Box::new(form)));
        vec![Effect::Job(0, Job::Choices)]
    }

    /// Opens the palette.
    pub fn open_palette(&mut self) -> Vec<Effect> {
        self.dialogs.push(Dialog::Palette(Palette::default()));
        Vec::new()
    }

    /// Opens the review screen of a session.
    pub fn open_review(&mut self, id: &str, scope: Scope) -> Vec<Effect> {
        let kept = self.review.take();
        let mut review = Review::new(id.to_owned(), scope);
        if let Some(kept) = kept {
            review.side_by_side = kept.side_by_side;
            review.tree = kept.tree;
            if kept.id == review.id {
                review.seen = kept.seen;
            }
        }
        review.now = self.now;
        self.review = Some(review);
        self.job("reading the changes", Job::Load(id.to_owned(), scope))
    }
}
