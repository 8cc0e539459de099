//! The keys: one table of actions, with their default keys and their words. `?`, the manual and the code use the same
//! table; `agent.board.key.<action>` changes the keys of an action.

use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// On the board and in the review screen.
    Both,
    /// On the board.
    Board,
    /// In the review screen.
    Review,
    /// In the comparison of versions.
    Compare,
}

impl Place {
    /// Returns the heading in the help.
    pub fn heading(self) -> &'static str {
        match self {
            Place::Both => "everywhere",
            Place::Board => "board",
            Place::Review => "review screen",
            Place::Compare => "comparison",
        }
    }
}

macro_rules! actions {
    ($($name:ident = $word:literal, $place:ident, $keys:literal, $words:literal;)*) => {
        /// What a key does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Action {
            $(#[doc = $words] $name,)*
        }

        /// Every action: its name in the configuration, where it counts, its default keys and its words.
        pub const ACTIONS: &[Binding] = &[$(Binding {
            action: Action::$name,
            name: $word,
            place: Place::$place,
            keys: $keys,
            words: $words,
        }),*];
    };
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The action.
    pub action: Action,
    /// Its name in the configuration.
    pub name: &'static str,
    /// Where it counts.
    pub place: Place,
    /// The default keys, with blanks between them.
    pub keys: &'static str,
    /// What it does, in words.
    pub words: &'static str,
}

actions! {
    Down = "down", Both, "j down", "Next card or line";
    Up = "up", Both, "k up", "Previous card or line";
    Left = "left", Both, "h left", "Column to the left, or the file tree";
    Right = "right", Both, "l right", "Column to the right, or the diff";
    First = "first", Both, "g home", "First card or line";
    Last = "last", Both, "G end", "Last card or line";
    PageDown = "page-down", Both, "ctrl-d pagedown", "Half a page down";
    PageUp = "page-up", Both, "ctrl-u pageup", "Half a page up";
    Open = "open", Both, "enter", "Open the review screen, or a folded part";
    Search = "search", Both, "/", "Filter the cards, or search in the diff";
    Palette = "palette", Both, ":", "Run any command of git agent";
    Help = "help", Both, "?", "Show every key";
    Back = "back", Both, "q esc", "Back, or leave";
    Redraw = "redraw", Both, "ctrl-l", "Look at everything again";
    Copy = "copy", Both, "ctrl-y", "Copy the name, or the place in the code";

    NextColumn = "next-column", Board, "tab", "Next column";
    New = "new", Board, "n", "New session";
    Versions = "versions", Board, "V", "New session in three versions";
    Send = "send", Board, "s i", "Send a prompt to the agent";
    Yes = "yes", Board, "y", "Answer the question with yes, once";
    Always = "always", Board, "Y", "Answer with yes for ever";
    No = "no", Board, "N", "Answer with no";
    Approve = "approve", Board, "a", "Approve exactly the current work";
    Merge = "merge", Board, "m", "Merge this session or the marked ones: shows the plan, asks once";
    MergeAll = "merge-all", Board, "M", "Merge every approved session";
    Resolve = "resolve", Board, "R", "Resolve the conflict of this session";
    Undo = "undo", Board, "u", "Undo the last merge";
    Stop = "stop", Board, "x", "Stop the agent";
    Restart = "restart", Board, "r", "Start again, or go on after an interruption";
    Fork = "fork", Board, "f", "Start another session from this one";
    Discard = "discard", Board, "D", "Discard the session; its work is kept";
    Clean = "clean", Board, "C", "Remove merged sessions";
    Update = "update", Board, "U", "Update from the parent branch";
    Snapshot = "snapshot", Board, "t", "Take a snapshot of the worktree";
    Rewind = "rewind", Board, "w", "Go back to an earlier turn";
    Comment = "comment", Board, "c", "Comment on the session";
    Attach = "attach", Board, "A", "Attach to the agent's own interface";
    Shell = "shell", Board, "!", "Open a shell in the worktree";
    Editor = "editor", Board, "e", "Open the worktree in the editor";
    RunProgram = "run", Board, "o", "Run the program of the worktree";
    Push = "push", Board, "P", "Push sessions to the remote";
    Fetch = "fetch", Board, "F", "Fetch the sessions of teammates";
    Mark = "mark", Board, "space", "Mark or unmark the card";
    Compare = "compare", Board, "v", "Compare the marked versions, or those of the group";
    Sort = "sort", Board, "S", "Sort by urgency, name, age or cost";
    Closed = "closed", Board, "H", "Show or hide closed sessions of earlier days";
    Pane = "pane", Board, "p", "Show log, diff or comments";
    Zoom = "zoom", Board, "z", "Enlarge the pane";
    PaneDown = "pane-down", Board, "J", "Scroll the pane down";
    PaneUp = "pane-up", Board, "K", "Scroll the pane up";

    NextHunk = "next-hunk", Review, "]", "Next hunk";
    PreviousHunk = "previous-hunk", Review, "[", "Previous hunk";
    NextFile = "next-file", Review, "} J", "Next file";
    PreviousFile = "previous-file", Review, "{ K", "Previous file";
    NextComment = "next-comment", Review, "m", "Next comment";
    PreviousComment = "previous-comment", Review, "M", "Previous comment";
    NextMatch = "next-match", Review, "n", "Next match";
    PreviousMatch = "previous-match", Review, "N", "Previous match";
    NextSession = "next-session", Review, ">", "Next session";
    PreviousSession = "previous-session", Review, "<", "Previous session";
    Range = "range", Review, "v", "Begin or end a range of lines";
    Write = "write", Review, "c", "Comment on the line or the range";
    WriteFile = "write-file", Review, "C", "Comment on the file";
    Reply = "reply", Review, "r", "Reply to the comment";
    Close = "close", Review, "R", "Resolve the thread, or open it again";
    SendReview = "send-review", Review, "s", "Send the open comments to the agent";
    ApproveShown = "approve-shown", Review, "a", "Approve exactly the shown work";
    RequestChanges = "request-changes", Review, "x", "Request changes";
    Reject = "reject", Review, "X", "Reject the work";
    Land = "land", Review, "L", "Merge: shows the plan, asks once";
    Seen = "seen", Review, "space", "Mark the file as reviewed, and fold it";
    Scope = "scope", Review, "w", "All, since my last review, one turn, uncommitted";
    SideBySide = "side-by-side", Review, "z", "Side by side or unified";
    Tree = "tree", Review, "t tab", "Show or hide the file tree";
    Reload = "reload", Review, "ctrl-r", "Read the work again";
    EditLine = "edit-line", Review, "e", "Open the file at this line in the editor";
    RevertHunk = "revert-hunk", Review, "u", "Revert the hunk in the worktree, after a snapshot";
    RevertFile = "revert-file", Review, "U", "Revert the file in the worktree, after a snapshot";

    NextPath = "next-path", Compare, "} J ] tab", "Next file of the versions";
    PreviousPath = "previous-path", Compare, "{ K [", "Previous file of the versions";
    Pick = "pick", Compare, "P", "Merge this version, and close the others";
}

/// One key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    code: KeyCode,
    ctrl: bool,
    alt: bool,
}

impl Key {
    /// Returns the key of an event.
    pub fn of(event: KeyEvent) -> Self {
        Key {
            code: event.code,
            ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
            alt: event.modifiers.contains(KeyModifiers::ALT),
        }
    }

    /// Reads a key in words, such as `x`, `ctrl-d`, `alt-enter` or `f5`.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut rest, mut ctrl, mut alt) = (text, false, false);
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-").filter(|after| !after.is_empty()) {
                (rest, ctrl) = (after, true);
            } else if let Some(after) = rest.strip_prefix("alt-").filter(|after| !after.is_empty())
            {
                (rest, alt) = (after, true);
            } else {
                break;
            }
        }
        let mut chars = rest.chars();
        let code = match (chars.next()?, chars.next()) {
            (one, None) => KeyCode::Char(one),
            _ => named(rest)?,
        };
        Some(Key { code, ctrl, alt })
    }

    /// Returns the key as the help shows it.
    pub fn shown(text: &str) -> String {
        match text {
            "down" => "↓".to_owned(),
            "up" => "↑".to_owned(),
            "left" => "←".to_owned(),
            "right" => "→".to_owned(),
            "enter" => "Enter".to_owned(),
            "esc" => "Esc".to_owned(),
            "tab" => "Tab".to_owned(),
            "space" => "Space".to_owned(),
            "home" => "Home".to_owned(),
            "end" => "End".to_owned(),
            "pagedown" => "PgDn".to_owned(),
            "pageup" => "PgUp".to_owned(),
            other => match other.strip_prefix("ctrl-") {
                Some(key) => format!("Ctrl-{key}"),
                None => other.to_owned(),
            },
        }
    }
}

fn named(word: &str) -> Option<KeyCode> {
    Some(match word {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "insert" => KeyCode::Insert,
        word => KeyCode::F(word.strip_prefix('f')?.parse().ok()?),
    })
}

/// The keys in use.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The keys of each action in words.
    words: Vec<String>,
    board: HashMap<Key, Action>,
    review: HashMap<Key, Action>,
    compare: HashMap<Key, Action>,
}

impl Keys {
    /// Returns the keys as configured. Also returns the settings that could not be read.
    pub fn load(config: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut keys = Keys {
            words: Vec::new(),
            board: HashMap::new(),
            review: HashMap::new(),
            compare: HashMap::new(),
        };
        let mut bad = Vec::new();
        let mut chosen: Vec<(&Binding, Vec<Key>)> = Vec::new();
        for binding in ACTIONS {
            let name = format!("agent.board.key.{}", binding.name);
            let configured = config(&name).filter(|words| {
                let readable = words
                    .split_whitespace()
                    .all(|word| Key::parse(word).is_some());
                if !readable {
                    bad.push(format!("{name} is not a list of keys: '{words}'"));
                }
                readable
            });
            let is_own = configured.is_some();
            let words = configured.unwrap_or_else(|| binding.keys.to_owned());
            let parsed = words.split_whitespace().filter_map(Key::parse).collect();
            keys.words.push(words);
            if is_own {
                chosen.push((binding, parsed))
            } else {
                chosen.insert(0, (binding, parsed))
            }
        }
        // Keys that the user chose win over those of the table.
        for (binding, parsed) in chosen {
            for (place, map) in [
                (Place::Board, &mut keys.board),
                (Place::Review, &mut keys.review),
                (Place::Compare, &mut keys.compare),
            ] {
                if binding.place == place || binding.place == Place::Both {
                    map.extend(parsed.iter().map(|key| (*key, binding.action)));
                }
            }
        }
        (keys, bad)
    }

    /// Returns the action of a key at a place.
    pub fn action(&self, place: Place, key: Key) -> Option<Action> {
        let map = match place {
            Place::Both | Place::Board => &self.board,
            Place::Review => &self.review,
            Place::Compare => &self.compare,
        };
        map.get(&key).copied()
    }

    /// Returns the keys of an action as the help shows them.
    pub fn shown(&self, action: Action) -> String {
        let at = ACTIONS.iter().position(|row| row.action == action);
        let words = at.and_then(|at| self.words.get(at));
        let keys: Vec<String> = words
            .map(|words| words.split_whitespace().map(Key::shown).collect())
            .unwrap_or_default();
        keys.join(" ")
    }

    /// Returns the first key of an action, for the line at the bottom.
    pub fn first(&self, action: Action) -> String {
        let all = self.shown(action);
        all.split(' ').next().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_key_and_means_one_thing() {
        let mut seen: HashMap<(Place, Key), &str> = HashMap::new();
        for row in ACTIONS {
            for word in row.keys.split_whitespace() {
                let key = Key::parse(word).expect("a default is a key");
                for place in [Place::Board, Place::Review, Place::Compare] {
                    if row.place == place || row.place == Place::Both {
                        let other = seen.insert((place, key), row.name);
                        assert_eq!(other, None, "{word} on {place:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_fit_a_configuration_key() {
        for row in ACTIONS {
            let fits = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(row.name.chars().all(fits), "{}", row.name);
        }
    }

    #[test]
    fn a_configured_key_wins() {
        let config = |key: &str| match key {
            "agent.board.key.stop" => Some("n ctrl-k".to_owned()),
            "agent.board.key.new" => Some("nonsense".to_owned()),
            _ => None,
        };
        let (keys, bad) = Keys::load(&config);
        assert_eq!(bad.len(), 1);
        let key = |word: &str| Key::parse(word).expect("a key");
        assert_eq!(keys.action(Place::Board, key("n")), Some(Action::Stop));
        assert_eq!(keys.action(Place::Board, key("ctrl-k")), Some(Action::Stop));
        assert_eq!(keys.action(Place::Board, key("x")), None);
        assert_eq!(keys.shown(Action::Stop), "n Ctrl-k");
    }
}
