//! What other threads report.

use std::sync::Arc;

use git_agent::listing::live::News;

use crate::app::board::Pane;
use crate::app::compare::Compare;
use crate::app::dialog::{Answer, Asking, ChoiceFor, Choosing, Dialog};
use crate::app::effect::{Ask, Effect, Job, Message};
use crate::app::{App, Tone};
use crate::text;

/// The number of the job that checks whether the work is still as shown: at most one at a time.
const CHECK: u64 = u64::MAX;

impl App {
    /// Takes a report.
    pub fn news(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::News(news) => self.sessions(news),
            Message::Done(number, tone, words) => {
                self.end(number);
                if number == CHECK {
                    return self.checked();
                }
                if tone == Tone::Bad {
                    self.log.forget_answers();
                }
                self.say(tone, words);
                self.log.forget_peek();
                let mut effects = vec![Effect::Look];
                effects.extend(self.follow_selected());
                effects
            }
            Message::Quiet(number) => {
                self.end(number);
                if number == CHECK {
                    return self.checked();
                }
                Vec::new()
            }
            Message::Progress(number, words) => {
                let words = text::line(words);
                if let Some(busy) = self.busy.iter_mut().find(|(known, _)| *known == number) {
                    busy.1 = words;
                }
                Vec::new()
            }
            Message::Ask(ask) => {
                self.asked(ask);
                vec![Effect::Ring]
            }
            Message::Started(number, id, words) => {
                self.end(number);
                self.say(Tone::Good, words);
                self.board.selected = Some(id.clone());
                self.board.filter.clear();
                self.log.begin(&id);
                vec![Effect::Look, Effect::Follow(Some(id))]
            }
            Message::Choices { agents, roles } => {
                for dialog in &mut self.dialogs {
                    if let Dialog::New(form) = dialog {
                        form.agents.clone_from(&agents);
                        form.roles.clone_from(&roles);
                    }
                }
                Vec::new()
            }
            Message::Loaded(number, shown) => {
                self.end(number);
                let now = self.now;
                if let Some(review) = &mut self.review
                    && review.id == shown.id
                    && review.scope == shown.scope
                {
                    review.now = now;
                    if let Some(note) = &shown.note {
                        let note = note.clone();
                        review.load(*shown);
                        self.say(Tone::Plain, note);
                    } else {
                        review.load(*shown);
                    }
                }
                Vec::new()
            }
            Message::Peeked(id, shown) => {
                if self.log.id == id {
                    self.log.peek(shown.map(|shown| Arc::new(*shown)));
                }
                Vec::new()
            }
            Message::Outdated(id) => {
                let mut effects = self.checked();
                effects.extend(self.outdated(&id));
                effects
            }
            Message::Commented(id) => {
                let mut effects = self.checked();
                effects.extend(self.reload(&id));
                effects
            }
            Message::Lines(id, file, lines) => {
                self.take_lines(&id, file, lines);
                Vec::new()
            }
            Message::Colors(id, file, hunk, tokens) => {
                if let Some(review) = self.review.as_mut().filter(|review| review.id == id) {
                    review.colors.insert((file, hunk), tokens);
                }
                Vec::new()
            }
            Message::Turns(number, id, turns) => {
                self.end(number);
                if turns.is_empty() {
                    self.say(Tone::Plain, "there is no turn to go back to");
                    return Vec::new();
                }
                let (numbers, items) = turns.into_iter().unzip();
                self.dialogs.push(Dialog::Choose(Choosing {
                    title: "go back to the end of".to_owned(),
                    items,
                    cursor: 0,
                    purpose: ChoiceFor::Rewind(id, numbers),
                }));
                Vec::new()
            }
            Message::ReviewChanged(number, id, tone, words) => {
                self.end(number);
                self.say(tone, words);
                self.log.forget_peek();
                let mut effects = vec![Effect::Look];
                effects.extend(self.reload(&id));
                effects.extend(self.follow_selected());
                effects
            }
            Message::Compared(number, versions) => {
                self.end(number);
                self.compare = Some(Compare::new(versions.into_iter().map(Arc::new).collect()));
                Vec::new()
            }
            Message::Printed(line) => {
                let line = line.trim();
                if !line.is_empty() {
                    self.say(Tone::Plain, line);
                }
                Vec::new()
            }
            Message::Edited(text) => {
                self.edited(&text);
                Vec::new()
            }
        }
    }

    /// Ends a check. One that was asked for meanwhile follows, because this one may have missed the reason.
    fn checked(&mut self) -> Vec<Effect> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        review.is_checking = false;
        if std::mem::take(&mut review.is_check_wanted) {
            self.check()
        } else {
            Vec::new()
        }
    }

    /// Compares the shown review with the session as it is now.
    fn check(&mut self) -> Vec<Effect> {
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        match review.shown.clone() {
            Some(_) if review.is_checking => {
                review.is_check_wanted = true;
                Vec::new()
            }
            Some(shown) => {
                review.is_checking = true;
                vec![Effect::Job(CHECK, Job::Check(shown))]
            }
            None => Vec::new(),
        }
    }

    fn end(&mut self, number: u64) {
        self.busy.retain(|(known, _)| *known != number);
    }

    fn asked(&mut self, ask: Ask) {
        self.dialogs.push(Dialog::Ask(Asking {
            title: ask.title,
            lines: ask.lines,
            yes: ask.yes,
            answer: Answer::Job(ask.answer),
            scroll: 0,
        }));
    }

    fn sessions(&mut self, news: News) -> Vec<Effect> {
        match news {
            News::Rows {
                rows,
                called,
                is_draft,
            } => {
                let before = self.current().map(|row| (row.session.seq, row.updated));
                // A look at the files is not thrown away for the records alone.
                if is_draft && self.is_loaded {
                    return Vec::new();
                }
                self.is_loaded = true;
                self.set_rows(rows);
                let mut effects = self.follow_selected();
                let after = self.current().map(|row| (row.session.seq, row.updated));
                if before.is_some() && before != after {
                    if self.board.pane != Pane::Log {
                        self.log.forget_peek();
                        effects.extend(self.follow_selected());
                    }
                    effects.extend(self.check());
                }
                if called {
                    effects.push(Effect::Ring);
                }
                effects
            }
            News::Events {
                id,
                events,
                is_first,
            } => {
                if self.log.id == id {
                    let added = self.log.entries.len();
                    self.log.take(events, is_first);
                    let added = self.log.entries.len().saturating_sub(added);
                    // One who reads older lines keeps them.
                    if self.board.pane == Pane::Log && self.board.scroll > 0 && !is_first {
                        self.board.scroll += added;
                    }
                }
                Vec::new()
            }
            News::Failed(error) => {
                self.say(Tone::Bad, error.with_causes());
                Vec::new()
            }
        }
    }

    /// Reads a review again after the work or its comments changed.
    fn reload(&mut self, id: &str) -> Vec<Effect> {
        match &self.review {
            Some(review) if review.id == id || id.is_empty() => {
                let (id, scope) = (review.id.clone(), review.scope);
                self.job("reading the changes", Job::Load(id, scope))
            }
            _ => Vec::new(),
        }
    }

    fn outdated(&mut self, id: &str) -> Vec<Effect> {
        let Some(review) = self.review.as_mut().filter(|review| review.id == id) else {
            return Vec::new();
        };
        review.has_changed = true;
        self.say(
            Tone::Plain,
            "the work has changed: it is shown as it is now",
        );
        self.reload(id)
    }
}
