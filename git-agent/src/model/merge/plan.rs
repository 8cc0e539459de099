//! The plan: which sessions go, and in what order. By what they build on, then fewest conflicts with the others, then age.

use std::collections::{BTreeMap, BTreeSet};

use crate::env::Millis;
use crate::model::merge::{LeftOut, Why};
use crate::model::session::SessionId;

/// What the order depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The session.
    pub sid: SessionId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Millis,
    /// The sessions that it builds on.
    pub needs: Vec<SessionId>,
}

/// What is known of a session that another builds on and that is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needed {
    /// Its work is in the target already.
    Landed,
    /// It is not, and does not go in.
    Missing(String),
}

/// In how many files pairs of sessions conflict; the smaller id first.
pub type Conflicts = BTreeMap<(SessionId, SessionId), usize>;

/// Returns the entries in the order in which they go, and those that cannot because of what they build on.
pub fn order(
    entries: Vec<Entry>,
    conflicts: &Conflicts,
    outside: &dyn Fn(SessionId) -> Needed,
) -> (Vec<Entry>, Vec<LeftOut>) {
    let (mut waiting, left) = drop_unmet(entries, outside);
    let mut ordered: Vec<Entry> = Vec::new();
    while !waiting.is_empty() {
        let open: BTreeSet<SessionId> = waiting.iter().map(|entry| entry.sid).collect();
        let weight = |entry: &Entry| {
            let clashes: usize = open
                .iter()
                .filter_map(|other| conflicts.get(&pair(entry.sid, *other)))
                .sum();
            (clashes, entry.created, entry.sid)
        };
        let free = |entry: &&Entry| !entry.needs.iter().any(|sid| open.contains(sid));
        // Sessions that build on each other in a circle cannot be made; if they were, age decides.
        let next = waiting
            .iter()
            .filter(free)
            .min_by_key(|entry| weight(entry))
            .or_else(|| waiting.iter().min_by_key(|entry| weight(entry)))
            .map(|entry| entry.sid);
        let at = waiting.iter().position(|entry| Some(entry.sid) == next);
        match at {
            Some(at) => ordered.push(waiting.remove(at)),
            None => break,
        }
    }
    (ordered, left)
}

/// Takes out whatever builds on something that does not go in, and whatever builds on that.
pub fn drop_unmet(
    mut entries: Vec<Entry>,
    outside: &dyn Fn(SessionId) -> Needed,
) -> (Vec<Entry>, Vec<LeftOut>) {
    let mut left: Vec<LeftOut> = Vec::new();
    loop {
        let here: BTreeSet<SessionId> = entries.iter().map(|entry| entry.sid).collect();
        let unmet = |entry: &Entry| {
            entry.needs.iter().find_map(|sid| {
                if here.contains(sid) {
                    return None;
                }
                if let Some(known) = left.iter().find(|known| known.sid == *sid) {
                    return Some(known.name.clone());
                }
                match outside(*sid) {
                    Needed::Landed => None,
                    Needed::Missing(name) => Some(name),
                }
            })
        };
        let found = entries
            .iter()
            .enumerate()
            .find_map(|(at, entry)| unmet(entry).map(|name| (at, name)));
        let Some((at, name)) = found else {
            return (entries, left);
        };
        let entry = entries.remove(at);
        left.push(LeftOut {
            sid: entry.sid,
            name: entry.name,
            why: Why::Needs(name),
        });
    }
}

/// Returns a pair of sessions as conflicts are kept.
pub fn pair(one: SessionId, other: SessionId) -> (SessionId, SessionId) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(number: u8) -> SessionId {
        SessionId::from_parts(Millis(u64::from(number)), [number; 10])
    }

    fn entry(number: u8, needs: &[u8]) -> Entry {
        Entry {
            sid: sid(number),
            name: format!("s{number}"),
            created: Millis(u64::from(number)),
            needs: needs.iter().map(|number| sid(*number)).collect(),
        }
    }

    fn names(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    fn nothing(_: SessionId) -> Needed {
        Needed::Missing("elsewhere".to_owned())
    }

    #[test]
    fn age_decides_when_nothing_else_does() {
        let entries = vec![entry(3, &[]), entry(1, &[]), entry(2, &[])];
        let (ordered, left) = order(entries, &Conflicts::new(), &nothing);
        assert_eq!(names(&ordered), ["s1", "s2", "s3"]);
        assert!(left.is_empty());
    }

    #[test]
    fn what_is_built_on_comes_first() {
        let entries = vec![entry(1, &[3]), entry(2, &[1]), entry(3, &[])];
        let (ordered, _) = order(entries, &Conflicts::new(), &nothing);
        assert_eq!(names(&ordered), ["s3", "s1", "s2"]);
    }

    #[test]
    fn fewest_conflicts_come_before_age() {
        let mut conflicts = Conflicts::new();
        conflicts.insert(pair(sid(1), sid(2)), 1);
        conflicts.insert(pair(sid(1), sid(3)), 2);
        let entries = vec![entry(1, &[]), entry(2, &[]), entry(3, &[]), entry(4, &[])];
        let (ordered, _) = order(entries, &conflicts, &nothing);
        assert_eq!(names(&ordered), ["s4", "s2", "s1", "s3"]);
    }

    #[test]
    fn whatever_builds_on_what_stays_out_stays_out() {
        let entries = vec![entry(1, &[9]), entry(2, &[1]), entry(3, &[])];
        let (ordered, left) = order(entries, &Conflicts::new(), &nothing);
        assert_eq!(names(&ordered), ["s3"]);
        assert_eq!(left.len(), 2);
        assert_eq!(left[0].why, Why::Needs("elsewhere".into()));
        assert_eq!(left[1].why, Why::Needs("s1".into()));
        let landed = |_: SessionId| Needed::Landed;
        let (ordered, left) = order(vec![entry(1, &[9])], &Conflicts::new(), &landed);
        assert_eq!((ordered.len(), left.len()), (1, 0));
    }

    #[test]
    fn a_circle_ends() {
        let entries = vec![entry(1, &[2]), entry(2, &[1])];
        let (ordered, _) = order(entries, &Conflicts::new(), &nothing);
        assert_eq!(names(&ordered), ["s1", "s2"]);
    }
}
