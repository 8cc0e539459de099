//! The mouse: clicks, double clicks, the wheel, and ranges that are dragged.

use git_agent::env::Millis;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};

use crate::app::App;
use crate::app::board::Pane;
use crate::app::dialog::Dialog;
use crate::app::effect::Effect;
use crate::keys::{Action, Place};

/// Two clicks within this time are a double click.
const DOUBLE: u64 = 400;

/// Where things were drawn.
#[derive(Debug, Default)]
pub struct Areas {
    /// Cards and their sessions.
    pub cards: Vec<(Rect, String)>,
    /// The columns.
    pub columns: Vec<(Rect, usize)>,
    /// The pane of the board.
    pub pane: Rect,
    /// The headings of the pane.
    pub tabs: Vec<(Rect, Pane)>,
    /// The rows of the diff.
    pub diff: Rect,
    /// The files of the tree.
    pub files: Vec<(Rect, usize)>,
    /// The items of a dialog.
    pub items: Vec<(Rect, usize)>,
    /// The keys in the last line.
    pub hints: Vec<(Rect, Action)>,
}

fn at<T: Clone>(areas: &[(Rect, T)], place: Position) -> Option<T> {
    let found = areas.iter().find(|(area, _)| area.contains(place));
    found.map(|(_, what)| what.clone())
}

impl App {
    /// Takes what the mouse did.
    pub fn mouse(&mut self, event: MouseEvent) -> Vec<Effect> {
        let place = Position::new(event.column, event.row);
        if !self.dialogs.is_empty() {
            return self.mouse_in_dialog(event, place);
        }
        match event.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                let is_double = self.is_double(event);
                if let Some(action) = at(&self.areas.hints, place) {
                    return self.act(action);
                }
                match self.place() {
                    Place::Review => self.click_review(place, is_double),
                    Place::Compare => Vec::new(),
                    _ => self.click_board(place, is_double),
                }
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                let area = self.areas.diff;
                if let Some(review) = &mut self.review
                    && area.contains(place)
                {
                    let row = review.top + usize::from(place.y - area.y);
                    if row < review.rows.len() && row != review.cursor {
                        review.range.get_or_insert(review.cursor);
                        review.cursor = row;
                    }
                }
                Vec::new()
            }
            MouseEventKind::ScrollDown => self.wheel(place, 3),
            MouseEventKind::ScrollUp => self.wheel(place, -3),
            _ => Vec::new(),
        }
    }

    /// Carries out an action on the screen that has the keyboard.
    pub fn act(&mut self, action: Action) -> Vec<Effect> {
        match self.place() {
            Place::Review => self.review_action(action),
            Place::Compare => self.compare_action(action),
            _ => self.board_action(action),
        }
    }

    fn is_double(&mut self, event: MouseEvent) -> bool {
        let now = self.now;
        let before = self.clicked.replace((now, event.column, event.row));
        let near = |(at, column, row): (Millis, u16, u16)| {
            column == event.column && row == event.row && now.0.saturating_sub(at.0) <= DOUBLE
        };
        before.is_some_and(near)
    }

    fn click_board(&mut self, place: Position, is_double: bool) -> Vec<Effect> {
        if let Some(pane) = at(&self.areas.tabs, place) {
            return self.show_pane(pane);
        }
        if let Some(id) = at(&self.areas.cards, place) {
            let mut effects = self.select(Some(id));
            if is_double {
                effects.extend(self.board_action(Action::Open));
            }
            return effects;
        }
        if self.areas.pane.contains(place) && is_double {
            return self.board_action(Action::Zoom);
        }
        if let Some(column) = at(&self.areas.columns, place) {
            let first = self.columns()[column].first().map(|row| row.id.clone());
            if first.is_some() && column != self.board.column {
                return self.select(first);
            }
        }
        Vec::new()
    }

    fn click_review(&mut self, place: Position, is_double: bool) -> Vec<Effect> {
        let area = self.areas.diff;
        let file = at(&self.areas.files, place);
        let Some(review) = &mut self.review else {
            return Vec::new();
        };
        if let Some(file) = file {
            let row = crate::app::diff::Row::File(file);
            if let Some(at) = review.rows.iter().position(|known| *known == row) {
                review.cursor = at;
                review.top = at;
                review.follow_cursor();
            }
            return Vec::new();
        }
        if !area.contains(place) {
            return Vec::new();
        }
        let row = review.top + usize::from(place.y - area.y);
        if row >= review.rows.len() {
            return Vec::new();
        }
        review.cursor = row;
        review.range = None;
        use crate::app::diff::Row;
        match review.rows[row] {
            Row::Gap(..) | Row::Folded(_) => self.review_action(Action::Open),
            Row::File(_) if is_double => self.review_action(Action::Open),
            _ if is_double => self.review_action(Action::Write),
            _ => Vec::new(),
        }
    }

    fn wheel(&mut self, place: Position, by: isize) -> Vec<Effect> {
        if let Some(review) = &mut self.review {
            let last = review.rows.len().saturating_sub(review.height);
            review.top = review.top.saturating_add_signed(by).min(last);
            let bottom = (review.top + review.height).saturating_sub(1);
            review.cursor = review.cursor.clamp(review.top, bottom.max(review.top));
            return Vec::new();
        }
        if let Some(compare) = &mut self.compare {
            compare.scroll = compare.scroll.saturating_add_signed(by);
            return Vec::new();
        }
        if self.areas.pane.contains(place) || self.board.zoomed {
            return self.scroll_pane(-by);
        }
        if let Some(column) = at(&self.areas.columns, place)
            && column == self.board.column
        {
            return self.move_card(by.signum());
        }
        Vec::new()
    }

    fn mouse_in_dialog(&mut self, event: MouseEvent, place: Position) -> Vec<Effect> {
        let key = |code: KeyCode| KeyEvent::new(code, KeyModifiers::NONE);
        match event.kind {
            MouseEventKind::ScrollDown => self.dialog_key(key(KeyCode::Down)),
            MouseEventKind::ScrollUp => self.dialog_key(key(KeyCode::Up)),
            MouseEventKind::Down(MouseButton::Left) => {
                let Some(item) = at(&self.areas.items, place) else {
                    return Vec::new();
                };
                let is_double = self.is_double(event);
                match self.dialogs.last_mut() {
                    Some(Dialog::Choose(choosing)) => choosing.cursor = item,
                    Some(Dialog::Palette(palette)) => palette.cursor = item,
                    Some(Dialog::New(form)) => {
                        form.field = item;
                        return Vec::new();
                    }
                    Some(Dialog::Ask(_)) => {
                        let answer = if item == 0 { 'y' } else { 'n' };
                        return self.dialog_key(key(KeyCode::Char(answer)));
                    }
                    _ => return Vec::new(),
                }
                if is_double {
                    self.dialog_key(key(KeyCode::Enter))
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }
}
