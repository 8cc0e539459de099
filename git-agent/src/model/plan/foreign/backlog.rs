//! Tasks of Backlog.md: one Markdown file each, with front matter.

use crate::error::{Error, Result};
use crate::model::plan::foreign::front_matter;
use crate::model::plan::foreign::{self, Foreign};
use crate::model::plan::{Plan, PlanPart, VERSION};

/// Separates the files of a directory that are read as one text.
pub const NEXT_FILE: char = '\u{c}';

/// Returns whether the text begins with such a task.
pub fn is_one(text: &str) -> bool {
    let first = text.split(NEXT_FILE).next().unwrap_or_default();
    let document = front_matter::read(first);
    document.is_some_and(|it| it.text("id").is_some() && it.text("title").is_some())
}

/// Reads the open tasks.
pub fn read(text: &str) -> Result<Plan> {
    let mut found = Vec::new();
    for file in text.split(NEXT_FILE).filter(|file| !file.trim().is_empty()) {
        let document = front_matter::read(file.trim_start())
            .ok_or_else(|| Error::fatal("a task of Backlog.md has no front matter"))?;
        let required = |key: &str| {
            let value = document.text(key).map(str::to_owned);
            value.ok_or_else(|| Error::fatal(format!("a task of Backlog.md has no '{key}'")))
        };
        let (id, title) = (required("id")?, required("title")?);
        let body = document.body.trim();
        found.push(Foreign {
            part: PlanPart {
                name: foreign::part_name(&id, &title),
                task: format!("{title}\n\n{body}").trim().to_owned(),
                ..PlanPart::default()
            },
            needs: document.list("dependencies"),
            done: foreign::is_done(document.text("status").unwrap_or_default()),
            id,
        });
    }
    Ok(Plan {
        version: VERSION,
        task: "the open tasks of Backlog.md".to_owned(),
        parts: foreign::parts(found),
        ..Plan::default()
    })
}
