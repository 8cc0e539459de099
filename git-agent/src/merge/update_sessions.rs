//! Bringing several sessions up to date for the user; an agent may resolve their conflicts.

use crate::context::Context;
use crate::error::Result;
use crate::merge::resolve::Case;
use crate::merge::resolve::auto::{self, Consent};
use crate::merge::update::{self, How, UpdateOutcome};
use crate::model::session::Session;
use crate::session::caller::{self, Act};
use crate::store::list::Listed;

/// How to bring sessions up to date.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The branch to take from; the parent of each session otherwise.
    pub from: Option<String>,
    /// By a merge or by a rebase; as configured otherwise.
    pub how: Option<How>,
    /// How an agent resolves conflicts; none does otherwise.
    pub auto: Option<auto::Options>,
}

/// The user's side of an update.
pub trait Reporter {
    /// Receives progress.
    fn tell(&mut self, text: String);

    /// Receives the result for a session.
    fn updated(&mut self, session: &Session, outcome: UpdateOutcome);

    /// Receives the error of one session among several.
    fn failed(&mut self, session: &Session, error: crate::error::Error);

    /// Returns whether the user agreed beforehand to take resolutions.
    fn has_agreed(&self) -> bool;

    /// Returns whether the user can be asked.
    fn may_ask(&self) -> bool;

    /// Shows the diff of a resolution, and returns whether the user takes it.
    fn takes(&mut self, diff: &[u8]) -> Result<bool>;
}

/// Brings sessions up to date. Of several, those that are closed or belong to a teammate are left out.
pub fn update(
    context: &Context<'_>,
    chosen: &[Listed],
    options: &Options,
    reporter: &mut dyn Reporter,
) -> Result<()> {
    let sessions = chosen.iter().map(|listed| &listed.session);
    caller::permit(context, Act::Update, sessions)?;
    let alone = chosen.len() == 1;
    for listed in chosen {
        let session = &listed.session;
        if !listed.is_mine() || (!alone && session.status.is_closed()) {
            continue;
        }
        match update_one(context, session, options, reporter) {
            Ok(outcome) => reporter.updated(session, outcome),
            Err(error) if alone => return Err(error),
            Err(error) => reporter.failed(session, error),
        }
    }
    Ok(())
}

fn update_one(
    context: &Context<'_>,
    session: &Session,
    options: &Options,
    reporter: &mut dyn Reporter,
) -> Result<UpdateOutcome> {
    let from = match &options.from {
        Some(from) => from.as_str(),
        None => update::parent_of(session)?,
    };
    let how = match options.how {
        Some(how) => how,
        None => How::configured(context)?,
    };
    let outcome = update::update(context, session, from, how)?;
    match (&outcome, &options.auto) {
        (UpdateOutcome::Conflict(_) | UpdateOutcome::Uncommitted(_), Some(auto)) => {
            resolve(context, session, from, auto, reporter)
        }
        _ => Ok(outcome),
    }
}

/// Lets an agent resolve the conflict; the resolution is the update.
fn resolve(
    context: &Context<'_>,
    session: &Session,
    from: &str,
    options: &auto::Options,
    reporter: &mut dyn Reporter,
) -> Result<UpdateOutcome> {
    let Some(case) = Case::open(context, session, from)? else {
        // The work that stood in the way was not committed; it is now.
        return update::update(context, session, from, How::Merge);
    };
    let reporter = std::cell::RefCell::new(reporter);
    let mut ask = |diff: &[u8]| reporter.borrow_mut().takes(diff);
    let mut consent = if reporter.borrow().has_agreed() {
        Consent::Given
    } else if reporter.borrow().may_ask() {
        Consent::Ask(&mut ask)
    } else {
        Consent::Impossible
    };
    let mut tell = |text| reporter.borrow_mut().tell(text);
    let taken = auto::resolve(context, &case, options, &mut consent, &mut tell)?;
    let Some(resolution) = taken else {
        return Ok(UpdateOutcome::Conflict(case.paths()));
    };
    let (_, commits) = context.repo.ahead_behind(case.place.tip, case.theirs)?;
    Ok(UpdateOutcome::Updated {
        before: case.place.tip,
        after: resolution.commit,
        commits,
    })
}
