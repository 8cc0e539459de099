//! Lists of comments and verdicts.

use std::io::Write;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::listing::review::reviews::{ListReporter, SessionReview, ThreadRow, VerdictRow};
use crate::model::review::Side;
use crate::output::review::threads::Look;
use crate::output::terminal::sanitize::one_line;
use crate::output::terminal::style::Slot;
use crate::output::{Format, Ui, cannot_write, json, porcelain};
use crate::store::notes::Problem;

/// Writes reviews as they are listed: for a person at once, for programs at the end.
pub struct ReviewWriter<'a> {
    context: &'a Context<'a>,
    ui: &'a Ui,
    threads: Vec<ThreadRow>,
    verdicts: Vec<VerdictRow>,
}

impl<'a> ReviewWriter<'a> {
    /// Begins a list.
    pub fn new(context: &'a Context<'a>, ui: &'a Ui) -> Self {
        ReviewWriter {
            context,
            ui,
            threads: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// Ends the list.
    pub fn finish(self) -> Result<()> {
        match self.ui.format() {
            Format::Human => Ok(()),
            Format::Json => write_json(self.ui, &self.threads, &self.verdicts),
            Format::Porcelain { nul } => self.threads.iter().try_for_each(|row| {
                porcelain::write_record(&mut self.ui.out(), nul, record(row)).context(cannot_write)
            }),
        }
    }
}

impl ListReporter for ReviewWriter<'_> {
    fn unreadable(&mut self, problem: &Problem) {
        self.ui.warning(format!(
            "cannot read a note of '{}': {}",
            problem.name, problem.what
        ));
    }

    fn session(&mut self, review: &SessionReview<'_>) -> Result<()> {
        if self.ui.format() == Format::Human {
            return write_human(self.context, self.ui, review);
        }
        self.verdicts.extend(review.verdict_rows());
        self.threads.extend(review.thread_rows(self.context)?);
        Ok(())
    }
}

/// Writes comments and verdicts into one object.
fn write_json(ui: &Ui, rows: &[ThreadRow], verdicts: &[VerdictRow]) -> Result<()> {
    let mut out = ui.out();
    let mut list = json::List::begin(&mut out, "comments", ui.table_width().is_some())?;
    for row in rows {
        list.item(row)?;
    }
    list.next("verdicts")?;
    for judged in verdicts {
        list.item(judged)?;
    }
    list.end()
}

/// Writes the review of a session for a person.
fn write_human(context: &Context<'_>, ui: &Ui, review: &SessionReview<'_>) -> Result<()> {
    if review.threads.is_empty() && review.verdicts.is_empty() {
        return Ok(());
    }
    let look = Look {
        palette: ui.palette(),
        now: context.env.now(),
    };
    let name = one_line(&review.listed.session.name).to_string();
    writeln!(ui.out(), "{}", ui.palette().paint(Slot::Header, name)).context(cannot_write)?;
    if !review.verdicts.is_empty() {
        writeln!(ui.out(), "{}", look.verdicts(&review.verdicts)).context(cannot_write)?;
    }
    for placed in &review.threads {
        let text = look.block(placed, Some(&Look::place(placed)));
        writeln!(ui.out(), "{text}").context(cannot_write)?;
    }
    Ok(())
}

/// Returns a thread's record: id, session, state, side, lines, how many comments, path.
fn record(row: &ThreadRow) -> Vec<String> {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let side = row.side.map(|side| match side {
        Side::Old => "old",
        Side::New => "new",
    });
    vec![
        row.id.clone(),
        row.session.clone(),
        row.state.to_owned(),
        side.unwrap_or_default().to_owned(),
        number(row.line),
        number(row.end.or(row.line)),
        row.comments.len().to_string(),
        row.path.clone().unwrap_or_default(),
    ]
}
