//! The keyboard in dialogs.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::{Input as AreaInput, Key as AreaKey};

use crate::app::dialog::{
    Answer, Asking, ChoiceFor, Choosing, Dialog, FIELDS, NewForm, Palette, Purpose, Writing,
};
use crate::app::effect::{Effect, Job};
use crate::app::{App, Tone};

/// What a key does to a dialog.
enum Outcome {
    /// It stays.
    Stays,
    /// It closes; its words are kept.
    Closes,
    /// It is done.
    Done,
    /// Its words go to the editor.
    Editor,
}

impl App {
    /// Takes a key for the last dialog.
    pub fn dialog_key(&mut self, event: KeyEvent) -> Vec<Effect> {
        let Some(mut dialog) = self.dialogs.pop() else {
            return Vec::new();
        };
        let outcome = match &mut dialog {
            Dialog::New(form) => new_key(form, event),
            Dialog::Write(writing) => write_key(writing, event),
            Dialog::Ask(asking) => ask_key(asking, event),
            Dialog::Choose(choosing) => choose_key(choosing, event),
            Dialog::Palette(palette) => palette_key(palette, event),
            Dialog::Help { scroll } => help_key(scroll, event, usize::from(self.size.1)),
        };
        match outcome {
            Outcome::Stays => {
                let filter = match &dialog {
                    Dialog::Write(writing) if writing.purpose == Purpose::Search => {
                        Some(writing.area.lines().join(" "))
                    }
                    _ => None,
                };
                self.dialogs.push(dialog);
                match filter {
                    Some(words) => self.filter(words),
                    None => Vec::new(),
                }
            }
            Outcome::Editor => {
                let text = match &dialog {
                    Dialog::New(form) => form.task.lines().join("\n"),
                    Dialog::Write(writing) => writing.area.lines().join("\n"),
                    _ => String::new(),
                };
                self.dialogs.push(dialog);
                vec![Effect::Edit { text }]
            }
            Outcome::Closes => self.closed(dialog),
            Outcome::Done => self.done(dialog),
        }
    }

    /// Puts pasted text into the dialog.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        match self.dialogs.last_mut() {
            Some(Dialog::New(form)) if form.field == 0 => {
                form.task.insert_str(text);
            }
            Some(Dialog::New(form)) if form.field <= form.texts.len() => {
                form.texts[form.field - 1].push_str(text.lines().next().unwrap_or_default());
            }
            Some(Dialog::Write(writing)) => {
                writing.area.insert_str(text);
            }
            Some(Dialog::Palette(palette)) => {
                palette
                    .text
                    .push_str(text.lines().next().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Puts the text of the editor into the dialog.
    pub fn edited(&mut self, text: &str) {
        let area = crate::app::dialog::area(text.trim_end());
        match self.dialogs.last_mut() {
            Some(Dialog::New(form)) => form.task = area,
            Some(Dialog::Write(writing)) => writing.area = area,
            _ => {}
        }
    }

    /// Filters the board, or searches in the diff, while words are typed.
    fn filter(&mut self, words: String) -> Vec<Effect> {
        match &mut self.review {
            Some(review) => {
                review.search = words;
                Vec::new()
            }
            None => {
                self.board.filter = words;
                self.keep_selection();
                self.follow_selected()
            }
        }
    }

    fn closed(&mut self, dialog: Dialog) -> Vec<Effect> {
        match dialog {
            Dialog::New(form) => {
                let text = form.task.lines().join("\n");
                self.keep_draft("New".to_owned(), &text);
                Vec::new()
            }
            Dialog::Write(writing) if writing.purpose == Purpose::Search => {
                self.filter(String::new())
            }
            Dialog::Write(writing) => {
                let text = writing.area.lines().join("\n");
                self.keep_draft(format!("{:?}", writing.purpose), &text);
                Vec::new()
            }
            Dialog::Ask(Asking {
                answer: Answer::Job(sender),
                ..
            }) => {
                // A job that has gone needs no answer.
                let _ = sender.send(false);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn done(&mut self, dialog: Dialog) -> Vec<Effect> {
        match dialog {
            Dialog::New(form) => {
                let session = form.session();
                if session.task.is_empty() {
                    self.say(Tone::Bad, "the task is empty");
                    self.dialogs.push(Dialog::New(form));
                    return Vec::new();
                }
                self.job("starting", Job::Start(Box::new(session)))
            }
            Dialog::Write(writing) => self.written(*writing),
            Dialog::Ask(asking) => match asking.answer {
                Answer::Job(sender) => {
                    let _ = sender.send(true);
                    Vec::new()
                }
                Answer::Begin(words, Some(job)) => {
                    if matches!(*job, Job::Answer(..)) {
                        self.log.answer_question();
                    }
                    self.job(words, *job)
                }
                Answer::Begin(_, None) => Vec::new(),
                Answer::Leave => vec![Effect::Quit],
            },
            Dialog::Choose(choosing) => self.chosen(choosing),
            Dialog::Palette(palette) => self.command(&palette),
            Dialog::Help { .. } => Vec::new(),
        }
    }

    fn written(&mut self, writing: Writing) -> Vec<Effect> {
        let text = writing.area.lines().join("\n").trim().to_owned();
        let purpose = writing.purpose.clone();
        let may_be_empty = matches!(purpose, Purpose::Search | Purpose::Reject);
        if text.is_empty() && !may_be_empty {
            self.dialogs.push(Dialog::Write(Box::new(writing)));
            self.say(Tone::Bad, "the text is empty");
            return Vec::new();
        }
        match purpose {
            Purpose::Send(id) => self.job("sending", Job::Send(id, text)),
            Purpose::Fork(id) => self.job("forking", Job::Fork(id, text)),
            Purpose::Comment(id, target) => {
                if let Some(review) = &mut self.review {
                    review.range = None;
                }
                self.job("commenting", Job::Comment(id, target, text))
            }
            Purpose::Reply(_, comment) => self.job("replying", Job::Reply(comment, text)),
            Purpose::RequestChanges | Purpose::Reject => {
                let verdict = match purpose {
                    Purpose::Reject => git_agent::model::review::Verdict::Reject,
                    _ => git_agent::model::review::Verdict::RequestChanges,
                };
                let shown = self.review.as_ref().and_then(|review| review.shown.clone());
                match shown {
                    Some(shown) => self.job("judging", Job::Verdict(shown, verdict, text)),
                    None => Vec::new(),
                }
            }
            Purpose::Search => {
                let effects = self.filter(text);
                if self.review.is_some() {
                    self.find_next(true);
                }
                effects
            }
        }
    }

    fn chosen(&mut self, choosing: Choosing) -> Vec<Effect> {
        match choosing.purpose {
            ChoiceFor::Rewind(id, turns) => match turns.get(choosing.cursor) {
                Some(turn) => self.job("going back", Job::Rewind(id, *turn)),
                None => Vec::new(),
            },
            ChoiceFor::Scope(scopes) => match scopes.get(choosing.cursor) {
                Some(scope) => self.open_scope(*scope),
                None => Vec::new(),
            },
        }
    }

    /// Runs a typed command, or puts a chosen one into the line to be completed.
    fn command(&mut self, palette: &Palette) -> Vec<Effect> {
        let name = self.current().map(|row| row.name.clone());
        let fill = |verb: &str| match &name {
            Some(name) => verb.replace('%', name),
            None => verb.replace(" %", ""),
        };
        let matches = palette.matches();
        let chosen = matches.get(palette.cursor).copied();
        let typed = palette.text.trim();
        let is_verb = |verb: &str| typed == verb || typed.starts_with(&format!("{verb} "));
        let words = match chosen {
            Some((verb, _)) if palette.cursor > 0 || verb.starts_with(typed) => fill(verb),
            Some((verb, _)) if !is_verb(verb.split(' ').next().unwrap_or_default()) => fill(verb),
            _ => fill(typed),
        };
        let needs_more = words.ends_with(" --") || words.ends_with(" --turn") || words == "why";
        if needs_more && words != typed {
            self.dialogs.push(Dialog::Palette(Palette {
                text: format!("{words} "),
                cursor: 0,
            }));
            return Vec::new();
        }
        let words: Vec<String> = split_words(&words);
        match words.first().map(String::as_str) {
            None => Vec::new(),
            Some("new") if words.len() == 1 => self.open_new(""),
            Some(_) => vec![Effect::Run(words, true)],
        }
    }
}

/// Splits a command into words; quotes keep blanks.
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut begun = false;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                begun = true;
            }
            (None, c) if c.is_whitespace() => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, c) => word.push(c),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_ctrl(event: &KeyEvent, key: char) -> bool {
    event.modifiers.contains(KeyModifiers::CONTROL) && event.code == KeyCode::Char(key)
}

/// Converts a key for the text area.
fn to_area(event: KeyEvent) -> AreaInput {
    let key = match event.code {
        KeyCode::Char(c) => AreaKey::Char(c),
        KeyCode::Backspace => AreaKey::Backspace,
        KeyCode::Enter => AreaKey::Enter,
        KeyCode::Left => AreaKey::Left,
        KeyCode::Right => AreaKey::Right,
        KeyCode::Up => AreaKey::Up,
        KeyCode::Down => AreaKey::Down,
        KeyCode::Tab => AreaKey::Tab,
        KeyCode::Delete => AreaKey::Delete,
        KeyCode::Home => AreaKey::Home,
        KeyCode::End => AreaKey::End,
        KeyCode::PageUp => AreaKey::PageUp,
        KeyCode::PageDown => AreaKey::PageDown,
        _ => AreaKey::Null,
    };
    AreaInput {
        key,
        ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
        alt: event.modifiers.contains(KeyModifiers::ALT),
        shift: event.modifiers.contains(KeyModifiers::SHIFT),
    }
}

/// Returns whether a key ends the text, or makes a new line.
fn is_newline(event: &KeyEvent) -> bool {
    let modified = event
        .modifiers
        .intersects(KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::CONTROL);
    is_ctrl(event, 'j') || (event.code == KeyCode::Enter && modified)
}

fn new_key(form: &mut NewForm, event: KeyEvent) -> Outcome {
    let count = FIELDS.len() + 1;
    match event.code {
        KeyCode::Esc => return Outcome::Closes,
        KeyCode::Tab => form.field = (form.field + 1) % count,
        KeyCode::BackTab => form.field = (form.field + count - 1) % count,
        _ if is_ctrl(&event, 'c') => return Outcome::Closes,
        _ if is_ctrl(&event, 'e') => return Outcome::Editor,
        _ if form.field == 0 && is_newline(&event) => form.task.insert_newline(),
        KeyCode::Enter => return Outcome::Done,
        _ if form.field == 0 => {
            form.task.input(to_area(event));
        }
        KeyCode::Down => form.field = (form.field + 1) % count,
        KeyCode::Up => form.field = (form.field + count - 1) % count,
        code => field_key(form, code),
    }
    Outcome::Stays
}

fn field_key(form: &mut NewForm, code: KeyCode) {
    let field = form.field - 1;
    match FIELDS[field] {
        "carry" if code == KeyCode::Char(' ') => form.carry = !form.carry,
        "ask" if code == KeyCode::Char(' ') => form.ask = !form.ask,
        "carry" | "ask" => {}
        label => {
            let choices: &[String] = match label {
                "agent" => &form.agents,
                "role" => &form.roles,
                _ => &[],
            };
            let text = &mut form.texts[field];
            match code {
                KeyCode::Char(c) => text.push(c),
                KeyCode::Backspace => {
                    text.pop();
                }
                KeyCode::Left | KeyCode::Right if label == "versions" => {
                    let number: u32 = text.parse().unwrap_or(1);
                    let next = match code {
                        KeyCode::Right => number + 1,
                        _ => number.saturating_sub(1).max(1),
                    };
                    *text = next.min(50).to_string();
                }
                KeyCode::Left | KeyCode::Right if !choices.is_empty() => {
                    let at = choices.iter().position(|choice| choice == text);
                    let last = choices.len() - 1;
                    let next = match (at, code == KeyCode::Right) {
                        (None, true) => Some(0),
                        (None, false) => Some(last),
                        (Some(at), true) if at < last => Some(at + 1),
                        (Some(at), false) if at > 0 => Some(at - 1),
                        _ => None,
                    };
                    *text = next.map(|at| choices[at].clone()).unwrap_or_default();
                }
                _ => {}
            }
        }
    }
}

fn write_key(writing: &mut Writing, event: KeyEvent) -> Outcome {
    match event.code {
        KeyCode::Esc => return Outcome::Closes,
        _ if is_ctrl(&event, 'c') => return Outcome::Closes,
        _ if is_ctrl(&event, 'e') && writing.purpose != Purpose::Search => return Outcome::Editor,
        _ if is_newline(&event) && writing.purpose != Purpose::Search => {
            writing.area.insert_newline();
        }
        KeyCode::Enter => return Outcome::Done,
        _ if is_ctrl(&event, 's') => return Outcome::Done,
        _ => {
            writing.area.input(to_area(event));
        }
    }
    Outcome::Stays
}

fn ask_key(asking: &mut Asking, event: KeyEvent) -> Outcome {
    match event.code {
        KeyCode::Char('y' | 'Y') => return Outcome::Done,
        KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => return Outcome::Closes,
        _ if is_ctrl(&event, 'c') => return Outcome::Closes,
        KeyCode::Down | KeyCode::Char('j') => asking.scroll += 1,
        KeyCode::Up | KeyCode::Char('k') => asking.scroll = asking.scroll.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => asking.scroll += 10,
        KeyCode::PageUp => asking.scroll = asking.scroll.saturating_sub(10),
        _ => {}
    }
    asking.scroll = asking.scroll.min(asking.lines.len().saturating_sub(1));
    Outcome::Stays
}

fn choose_key(choosing: &mut Choosing, event: KeyEvent) -> Outcome {
    let last = choosing.items.len().saturating_sub(1);
    match event.code {
        KeyCode::Esc | KeyCode::Char('q') => return Outcome::Closes,
        _ if is_ctrl(&event, 'c') => return Outcome::Closes,
        KeyCode::Enter => return Outcome::Done,
        KeyCode::Down | KeyCode::Char('j') => choosing.cursor = (choosing.cursor + 1).min(last),
        KeyCode::Up | KeyCode::Char('k') => choosing.cursor = choosing.cursor.saturating_sub(1),
        KeyCode::Char(digit @ '1'..='9') => {
            let at = usize::from(digit as u8 - b'1');
            if at <= last {
                choosing.cursor = at;
                return Outcome::Done;
            }
        }
        _ => {}
    }
    Outcome::Stays
}

fn palette_key(palette: &mut Palette, event: KeyEvent) -> Outcome {
    match event.code {
        KeyCode::Esc => return Outcome::Closes,
        _ if is_ctrl(&event, 'c') => return Outcome::Closes,
        KeyCode::Enter => return Outcome::Done,
        KeyCode::Down => palette.cursor += 1,
        KeyCode::Up => palette.cursor = palette.cursor.saturating_sub(1),
        KeyCode::Tab => {
            if let Some((verb, _)) = palette.matches().get(palette.cursor) {
                palette.text = format!("{verb} ");
                palette.cursor = 0;
            }
        }
        KeyCode::Backspace => {
            palette.text.pop();
            palette.cursor = 0;
        }
        KeyCode::Char(c) if !event.modifiers.contains(KeyModifiers::CONTROL) => {
            palette.text.push(c);
            palette.cursor = 0;
        }
        _ => {}
    }
    palette.cursor = palette
        .cursor
        .min(palette.matches().len().saturating_sub(1));
    Outcome::Stays
}

fn help_key(scroll: &mut usize, event: KeyEvent, page: usize) -> Outcome {
    match event.code {
        KeyCode::Down | KeyCode::Char('j') => *scroll += 1,
        KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => *scroll += page / 2,
        KeyCode::PageUp => *scroll = scroll.saturating_sub(page / 2),
        KeyCode::Home | KeyCode::Char('g') => *scroll = 0,
        _ => return Outcome::Closes,
    }
    Outcome::Stays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        assert_eq!(
            split_words("send a 'two words' \"\""),
            ["send", "a", "two words", ""]
        );
        assert!(split_words("  ").is_empty());
    }
}
