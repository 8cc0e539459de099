//! The order of a merge: dependencies first, then the fewest conflicts with the others, then age.

use std::collections::{BTreeMap, BTreeSet};

use crate::env::Millis;
use crate::model::merge::{LeftOut, Why};
use crate::model::session::SessionId;

/// The properties of a session that decide its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeEntry {
    /// The session's id.
    pub sid: SessionId,
    /// The session's name.
    pub name: String,
    /// The time of creation.
    pub created: Millis,
    /// The sessions that it builds on.
    pub needs: Vec<SessionId>,
}

/// The status of a dependency outside the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needed {
    /// The target already contains its work.
    Landed,
    /// The target lacks its work, and the merge does not bring it. Holds its name.
    Missing(String),
}

/// The number of conflicting files for each pair of sessions, as [`pair`] orders them.
pub type Conflicts = BTreeMap<(SessionId, SessionId), usize>;

/// Returns the entries in merge order, and those left out because a dependency is missing.
pub fn order(
    entries: Vec<MergeEntry>,
    conflicts: &Conflicts,
    outside: &dyn Fn(SessionId) -> Needed,
) -> (Vec<MergeEntry>, Vec<LeftOut>) {
    let (mut waiting, left) = drop_unmet(entries, outside);
    let mut ordered: Vec<MergeEntry> = Vec::new();
    while !waiting.is_empty() {
        let open: BTreeSet<SessionId> = waiting.iter().map(|entry| entry.sid).collect();
        let weight = |entry: &MergeEntry| {
            let clashes: usize = open
                .iter()
                .filter_map(|other| conflicts.get(&pair(entry.sid, *other)))
                .sum();
            (clashes, entry.created, entry.sid)
        };
        let free = |entry: &&MergeEntry| !entry.needs.iter().any(|sid| open.contains(sid));
        // Dependencies cannot form a cycle. If they did, age would decide.
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

/// Removes every entry with a missing dependency, and every entry that depends on a removed one.
pub fn drop_unmet(
    mut entries: Vec<MergeEntry>,
    outside: &dyn Fn(SessionId) -> Needed,
) -> (Vec<MergeEntry>, Vec<LeftOut>) {
    let mut left: Vec<LeftOut> = Vec::new();
    loop {
        let here: BTreeSet<SessionId> = entries.iter().map(|entry| entry.sid).collect();
        let unmet = |entry: &MergeEntry| {
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

/// Returns two sessions as a key of [`Conflicts`]: the smaller id first.
pub fn pair(one: SessionId, other: SessionId) -> (SessionId, SessionId) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(number: u8) -> SessionId {
        SessionId::from_parts(Millis(u64::from(number)), [number; 10])
    }

    fn entry(number: u8, needs: &[u8]) -> MergeEntry {
        MergeEntry {
            sid: sid(number),
            name: format!("s{number}"),
            created: Millis(u64::from(number)),
            needs: needs.iter().map(|number| sid(*number)).collect(),
        }
    }

    fn names(entries: &[MergeEntry]) -> Vec<&str> {
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
