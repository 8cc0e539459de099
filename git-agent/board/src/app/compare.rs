//! Versions of a task in columns, with the same file beside itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use git_agent::review::diff_scope::Scope;
use git_agent::review::shown::Shown;

use crate::app::dialog::Dialog;
use crate::app::effect::{Effect, Job};
use crate::app::{App, Tone};
use crate::keys::Action;
use crate::text;

/// The comparison.
#[derive(Debug)]
pub struct Compare {
    /// The versions, at most four.
    pub versions: Vec<Arc<Shown>>,
    /// The paths that any version changed.
    pub paths: Vec<Vec<u8>>,
    /// The file that is shown.
    pub file: usize,
    /// The version with the cursor.
    pub column: usize,
    /// The first visible line.
    pub scroll: usize,
}

impl Compare {
    /// Returns a comparison.
    pub fn new(versions: Vec<Arc<Shown>>) -> Self {
        let files = versions.iter().flat_map(|version| &version.files);
        let paths: BTreeSet<Vec<u8>> = files.map(|file| file.path.clone()).collect();
        Compare {
            versions,
            paths: paths.into_iter().collect(),
            file: 0,
            column: 0,
            scroll: 0,
        }
    }
}

impl App {
    /// Carries out an action in the comparison.
    pub fn compare_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(compare) = &mut self.compare else {
            return Vec::new();
        };
        let files = compare.paths.len().max(1);
        let columns = compare.versions.len().max(1);
        match action {
            Action::Down => compare.scroll += 1,
            Action::Up => compare.scroll = compare.scroll.saturating_sub(1),
            Action::PageDown => compare.scroll += usize::from(self.size.1 / 2),
            Action::PageUp => {
                compare.scroll = compare.scroll.saturating_sub(usize::from(self.size.1 / 2));
            }
            Action::First => (compare.file, compare.scroll) = (0, 0),
            Action::Last => (compare.file, compare.scroll) = (files - 1, 0),
            Action::Left => compare.column = (compare.column + columns - 1) % columns,
            Action::Right => compare.column = (compare.column + 1) % columns,
            Action::NextPath => self.compare_file(1),
            Action::PreviousPath => self.compare_file(-1),
            Action::Back => self.compare = None,
            Action::Help => self.dialogs.push(Dialog::Help { scroll: 0 }),
            Action::Palette => return self.open_palette(),
            Action::Open => {
                let id = compare.versions[compare.column].id.clone();
                return self.open_review(&id, Scope::Branch);
            }
            Action::Pick => {
                let version = compare.versions[compare.column].clone();
                let name = text::line(&version.name);
                let lines = vec![(
                    Tone::Plain,
                    "The plan of the merge is shown next; the other versions of the group are closed after it.".to_owned(),
                )];
                self.ask(
                    format!("take '{name}'?"),
                    lines,
                    "take",
                    "planning the merge",
                    Job::Pick(version.id.clone()),
                );
            }
            _ => {}
        }
        Vec::new()
    }

    /// Shows the next or previous file of the comparison.
    pub fn compare_file(&mut self, by: isize) {
        if let Some(compare) = &mut self.compare {
            let files = compare.paths.len().max(1);
            compare.file = (compare.file + files).saturating_add_signed(by) % files;
            compare.scroll = 0;
        }
    }
}
