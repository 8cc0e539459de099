//! The candidates of one attempt to merge: built in memory, tested, and searched for conflict markers.

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::merge::bisect::{Bisection, TestColour};
use crate::merge::build::{Builder, Chain};
use crate::merge::candidates::Candidate;
use crate::merge::run::{MergePlan, Tell, Told};
use crate::merge::testing::Tester;
use crate::model::merge::Why;

/// The candidates of one attempt, for [`sift`](crate::merge::bisect::sift).
pub(crate) struct Batch<'a, 't> {
    base: ObjectId,
    candidates: &'a [Candidate],
    pub(crate) builder: Builder<'a>,
    /// The chain that the plan has built.
    built: &'a Chain,
    pub(crate) tester: Option<Tester<'a>>,
    pub(crate) tell: &'t mut Tell<'t>,
}

impl<'a, 't> Batch<'a, 't> {
    /// Returns the candidates of a plan, without a tester.
    pub(crate) fn of(
        context: &'a Context<'_>,
        plan: &'a MergePlan,
        tell: &'t mut Tell<'t>,
    ) -> Self {
        let builder = Builder::new(context.repo, &plan.candidates, plan.style, plan.text);
        Batch {
            base: plan.target.tip,
            candidates: &plan.candidates,
            builder: builder.knowing(&plan.built),
            built: &plan.built,
            tester: None,
            tell,
        }
    }
}

impl Bisection for Batch<'_, '_> {
    fn build(&mut self, order: &[usize]) -> Result<Chain> {
        let built = self.built.links.iter().map(|link| &link.index);
        if !order.is_empty() && built.eq(order) {
            Ok(self.built.clone())
        } else {
            self.builder.build(self.base, order)
        }
    }

    fn test(&mut self, commit: ObjectId, holds: &[usize]) -> Result<TestColour> {
        let Some(tester) = &mut self.tester else {
            return Ok(TestColour::Green);
        };
        let names = holds
            .iter()
            .map(|index| self.candidates[*index].session.name.as_str());
        (self.tell)(Told::Testing(names.collect()));
        // The target alone is tested under the first candidate's session.
        let marked = holds.first().copied().unwrap_or(0);
        let of = self.candidates[marked].session.sid;
        let verdict = tester.test(commit, of)?;
        for words in &verdict.told {
            (self.tell)(Told::Meanwhile(words));
        }
        (self.tell)(Told::Tested {
            colour: &verdict.colour,
            remembered: verdict.remembered,
        });
        Ok(verdict.colour)
    }

    fn builds_on(&self, one: usize, other: usize) -> bool {
        let other = self.candidates[other].session.sid;
        self.candidates[one].needs.contains(&other)
    }

    fn name(&self, index: usize) -> String {
        self.candidates[index].session.name.clone()
    }
}

/// Returns the first link that adds conflict markers.
pub(crate) fn marked(context: &Context<'_>, chain: &Chain) -> Result<Option<(usize, Why)>> {
    let repo = context.repo;
    if chain.links.is_empty() || repo.markers_added(chain.base, chain.tip())?.is_empty() {
        return Ok(None);
    }
    for link in &chain.links {
        let places = repo.markers_added(link.onto, link.commit)?;
        if !places.is_empty() {
            return Ok(Some((link.index, Why::Markers(places))));
        }
    }
    Ok(None)
}
