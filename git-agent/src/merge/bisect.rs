//! Tests a batch of merged sessions; if the tests fail, finds the sessions that break them by bisection and leaves them
//! out.

use crate::error::{Error, Result};
use crate::git::ObjectId;
use crate::merge::build::Chain;
use crate::merge::testing;
use crate::model::merge::Why;

/// Result of a test of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestColour {
    /// The tests pass.
    Green,
    /// The tests fail; holds the path of the log.
    Red(String),
    /// The tests did not end in time; holds the path of the log.
    Late(String),
}

impl TestColour {
    /// Returns the reason to leave out a session with this result, or `None` if it may stay.
    fn objection(self) -> Option<Why> {
        match self {
            TestColour::Green => None,
            TestColour::Red(log) => Some(Why::Tests(log)),
            TestColour::Late(log) => Some(Why::Late(log)),
        }
    }
}

/// The operations that [`sift`] needs; unit tests replace them.
pub trait Bisection {
    /// Merges candidates into the target in this order.
    fn build(&mut self, order: &[usize]) -> Result<Chain>;
    /// Tests a commit that contains these candidates.
    fn test(&mut self, commit: ObjectId, holds: &[usize]) -> Result<TestColour>;
    /// Returns whether one candidate builds on another.
    fn builds_on(&self, one: usize, other: usize) -> bool;
    /// Returns a candidate's name.
    fn name(&self, index: usize) -> String;
}

/// The candidates that passed and those that were left out.
#[derive(Debug)]
pub struct Sifted {
    /// The merged and tested chain.
    pub chain: Chain,
    /// The candidates that were left out, each with its reason.
    pub left: Vec<(usize, Why)>,
}

/// Merges and tests all candidates together. While the tests fail, finds the first candidate that breaks them by
/// bisection and leaves it out, with every candidate that builds on it.
pub fn sift(mut order: Vec<usize>, world: &mut dyn Bisection) -> Result<Sifted> {
    let mut left: Vec<(usize, Why)> = Vec::new();
    loop {
        let chain = world.build(&order)?;
        let unmerged: Vec<(usize, Why)> = chain.left.clone();
        for (index, why) in unmerged {
            leave(index, why, &mut order, &mut left, world);
        }
        let lost_more = chain.links.iter().any(|link| !order.contains(&link.index));
        if lost_more {
            // A merged candidate builds on one that did not merge: build the chain again without both.
            continue;
        }
        let holds: Vec<usize> = chain.links.iter().map(|link| link.index).collect();
        if holds.is_empty() {
            return Ok(Sifted { chain, left });
        }
        let Some(why) = world.test(chain.tip(), &holds)?.objection() else {
            return Ok(Sifted { chain, left });
        };
        let (at, why) = first_red(&chain, &holds, why, world)?;
        leave(holds[at], why, &mut order, &mut left, world);
    }
}

/// Returns the position of the first link with which the tests fail, and the reason.
fn first_red(
    chain: &Chain,
    holds: &[usize],
    why: Why,
    world: &mut dyn Bisection,
) -> Result<(usize, Why)> {
    let (mut green, mut red, mut why) = (0, holds.len(), why);
    while red - green > 1 {
        let middle = green + (red - green) / 2;
        let tested = world.test(chain.tip_of(middle), &holds[..middle])?;
        match tested.objection() {
            None => green = middle,
            Some(found) => (red, why) = (middle, found),
        }
    }
    // Only if the first candidate is suspected must the target prove that it passes alone.
    if green == 0 {
        let (message, log) = match world.test(chain.base, &[])? {
            TestColour::Green => return Ok((red - 1, why)),
            TestColour::Red(log) => ("the tests of the target fail without any session", log),
            TestColour::Late(log) => (
                "the target's tests do not end in time ('agent.testTimeout') without any session",
                log,
            ),
        };
        let mut message = message.to_owned();
        for line in testing::last_lines(&log) {
            message += &format!("\n{line}");
        }
        return Err(Error::fatal(message)
            .hint("run the tests again: git agent merge --retest")
            .hint("merge without tests: git agent merge --no-test"));
    }
    Ok((red - 1, why))
}

/// Leaves out a candidate and every candidate that builds on it.
fn leave(
    index: usize,
    why: Why,
    order: &mut Vec<usize>,
    left: &mut Vec<(usize, Why)>,
    world: &dyn Bisection,
) {
    let mut leaving = vec![(index, why)];
    while let Some((index, why)) = leaving.pop() {
        let Some(at) = order.iter().position(|known| *known == index) else {
            continue;
        };
        order.remove(at);
        left.push((index, why));
        let name = world.name(index);
        for other in order.iter().filter(|other| world.builds_on(**other, index)) {
            leaving.push((*other, Why::Needs(name.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::build::Link;

    /// Returns whether the tests fail with these candidates.
    type Red = Box<dyn Fn(&[usize]) -> bool>;

    /// A world in which each commit is a set of candidates.
    struct Sets {
        red: Red,
        needs: Vec<(usize, usize)>,
        clash: Option<(usize, usize)>,
        tests: usize,
    }

    fn commit(number: usize) -> ObjectId {
        ObjectId::from_hex(format!("{number:040x}").as_bytes()).expect("an id")
    }

    impl Bisection for Sets {
        fn build(&mut self, order: &[usize]) -> Result<Chain> {
            let mut chain = Chain {
                base: commit(0),
                links: Vec::new(),
                left: Vec::new(),
            };
            for index in order {
                let clashes = self.clash.is_some_and(|(one, other)| {
                    other == *index && chain.links.iter().any(|link| link.index == one)
                });
                if clashes {
                    chain.left.push((*index, Why::Conflict(Vec::new())));
                    continue;
                }
                let onto = chain.tip();
                chain.links.push(Link {
                    index: *index,
                    work: commit(100 + index),
                    onto,
                    commit: commit(chain.links.len() + 1),
                    made: Vec::new(),
                });
            }
            Ok(chain)
        }

        fn test(&mut self, _: ObjectId, holds: &[usize]) -> Result<TestColour> {
            self.tests += 1;
            Ok(if (self.red)(holds) {
                TestColour::Red("log".to_owned())
            } else {
                TestColour::Green
            })
        }

        fn builds_on(&self, one: usize, other: usize) -> bool {
            self.needs.contains(&(one, other))
        }

        fn name(&self, index: usize) -> String {
            format!("s{index}")
        }
    }

    fn sets(red: impl Fn(&[usize]) -> bool + 'static) -> Sets {
        Sets {
            red: Box::new(red),
            needs: Vec::new(),
            clash: None,
            tests: 0,
        }
    }

    fn landed(sifted: &Sifted) -> Vec<usize> {
        sifted.chain.links.iter().map(|link| link.index).collect()
    }

    #[test]
    fn a_green_batch_is_tested_once() {
        let mut world = sets(|_| false);
        let sifted = sift((0..6).collect(), &mut world).expect("sifted");
        assert_eq!(landed(&sifted), [0, 1, 2, 3, 4, 5]);
        assert_eq!(world.tests, 1);
    }

    #[test]
    fn two_that_break_only_together_lose_the_later_one() {
        let mut world = sets(|holds| holds.contains(&1) && holds.contains(&4));
        let sifted = sift((0..6).collect(), &mut world).expect("sifted");
        assert_eq!(landed(&sifted), [0, 1, 2, 3, 5]);
        assert_eq!(sifted.left, [(4, Why::Tests("log".into()))]);
    }

    #[test]
    fn every_culprit_is_found_whatever_their_number() {
        for bad in 0..64_usize {
            let is_bad = move |index: &usize| bad & (1 << index) != 0;
            let mut world = sets(move |holds| holds.iter().any(is_bad));
            let sifted = sift((0..6).collect(), &mut world).expect("sifted");
            assert!(!landed(&sifted).iter().any(is_bad), "{bad:b}");
            assert_eq!(landed(&sifted).len() + sifted.left.len(), 6);
            assert_eq!(sifted.left.len(), bad.count_ones() as usize, "{bad:b}");
        }
    }

    #[test]
    fn a_red_target_blames_no_session() {
        let mut world = sets(|_| true);
        let error = sift(vec![0, 1], &mut world).expect_err("the target is red");
        assert!(error.message().contains("without any session"));
    }

    #[test]
    fn whatever_builds_on_a_culprit_goes_with_it() {
        let mut world = sets(|holds| holds.contains(&1));
        world.needs = vec![(2, 1), (3, 2)];
        let sifted = sift(vec![0, 1, 2, 3], &mut world).expect("sifted");
        assert_eq!(landed(&sifted), [0]);
        assert_eq!(sifted.left[1], (2, Why::Needs("s1".into())));
        assert_eq!(sifted.left[2], (3, Why::Needs("s2".into())));
    }

    #[test]
    fn a_conflict_leaves_out_and_the_rest_goes_on() {
        let mut world = sets(|_| false);
        world.clash = Some((0, 1));
        world.needs = vec![(2, 1)];
        let sifted = sift(vec![0, 1, 2, 3], &mut world).expect("sifted");
        assert_eq!(landed(&sifted), [0, 3]);
        assert_eq!(sifted.left.len(), 2);
    }
}
