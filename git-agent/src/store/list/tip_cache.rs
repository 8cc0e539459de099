//! A cache of the states at many ref tips, so that listing thousands of sessions does not unpack thousands of objects.
//!
//! A state is stored under its commit, which never changes: an entry is right or unused, and losing the file only costs
//! time. One line per state: `<commit> <crc32> <mark><state>`, where the mark is `+` for sessions that this clone
//! wrote. Repositories with few sessions have no cache. Listing 10,000 sessions takes 0.06 s instead of 0.15 s
//! (`bench-store`).

use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use crate::file::{self, Durability};
use crate::git::ObjectId;
use crate::store::Store;

/// With fewer sessions, reading the objects is fast enough.
const FEW: usize = 256;
/// The first line; a file with another one is of another version.
const HEADER: &[u8] = b"git-agent states v2\n";
/// The largest file that is read.
const LARGEST: u64 = 256 << 20;

/// A state for the cache.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The state as it was written.
    pub(crate) state: Vec<u8>,
    /// Whether its commit has the mark of this clone.
    pub(crate) marked: bool,
}

/// The states of the cache.
#[derive(Debug, Default)]
pub(crate) struct States {
    bytes: Vec<u8>,
    lines: HashMap<ObjectId, Range<usize>>,
}

impl States {
    /// Reads the cache for a listing of this many sessions. An unreadable file counts as empty.
    pub(crate) fn load(store: &Store<'_>, sessions: usize) -> Self {
        let path = store.dir.join("cache").join("states");
        let small = |length: u64| length <= LARGEST;
        if sessions < FEW || !fs::metadata(&path).is_ok_and(|found| small(found.len())) {
            return States::default();
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let mut lines = HashMap::with_capacity(sessions);
        if bytes.starts_with(HEADER) {
            let mut start = HEADER.len();
            while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
                let line = &bytes[start..start + length];
                let id = line.split(|byte| *byte == b' ').next().unwrap_or_default();
                if let Ok(id) = ObjectId::from_hex(id) {
                    lines.insert(id, start..start + length);
                }
                start += length + 1;
            }
        }
        States { bytes, lines }
    }

    /// Returns the state at a commit, if it is here and intact, and whether the commit has the mark of this clone.
    pub(crate) fn state_at(&self, id: ObjectId) -> Option<(&[u8], bool)> {
        let line = &self.bytes[self.lines.get(&id)?.clone()];
        let mut fields = line.splitn(3, |byte| *byte == b' ').skip(1);
        let crc = std::str::from_utf8(fields.next()?).ok()?;
        let state = fields.next()?;
        let expected = u32::from_str_radix(crc, 16).ok()?;
        let (mark, rest) = state.split_first()?;
        (crc32fast::hash(state) == expected).then_some((rest, *mark == b'+'))
    }

    /// Rewrites the cache with the states read from git, if those were more than a tenth. A failure is not an error.
    pub(crate) fn keep(
        &self,
        store: &Store<'_>,
        tips: &[ObjectId],
        read: &HashMap<ObjectId, Kept>,
    ) {
        if tips.len() < FEW || read.len() <= tips.len() / 10 {
            return;
        }
        let mut bytes = HEADER.to_vec();
        for id in tips {
            let state = read
                .get(id)
                .map(|kept| (kept.state.as_slice(), kept.marked))
                .or_else(|| self.state_at(*id));
            let (state, marked) = state.unwrap_or_default();
            // A state is one line, with or without its end.
            let state = state.trim_ascii_end();
            if !state.is_empty() && !state.contains(&b'\n') {
                let state = [if marked { b"+" } else { b"-" }, state].concat();
                let state = state.as_slice();
                bytes.extend_from_slice(format!("{id} {:08x} ", crc32fast::hash(state)).as_bytes());
                bytes.extend_from_slice(state);
                bytes.push(b'\n');
            }
        }
        let Ok(dir) = store.require_dir("cache") else {
            return;
        };
        // Only a cache: the next listing writes it again.
        let _ = file::replace(&dir.join("states"), bytes, Durability::Volatile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::Fixture;

    fn ids(count: u64) -> Vec<ObjectId> {
        (0..count)
            .map(|n| ObjectId::from_hex(format!("{n:040x}").as_bytes()).expect("an id"))
            .collect()
    }

    #[test]
    fn gives_back_what_it_was_given_and_nothing_that_was_spoiled() {
        let fixture = Fixture::new(&[]);
        let repo = fixture.repo();
        let store = Store::new(&fixture.env, &repo);
        let tips = ids(300);
        let read: HashMap<_, _> = tips
            .iter()
            .map(|id| {
                let state = format!("{{\"of\":\"{id}\"}}\n").into_bytes();
                let marked = *id == tips[7];
                (*id, Kept { state, marked })
            })
            .collect();
        States::default().keep(&store, &tips, &read);
        let path = store.dir().join("cache").join("states");
        let loaded = States::load(&store, 300);
        for id in &tips {
            let state = loaded.state_at(*id).expect("kept");
            assert_eq!(state.0, read[id].state.trim_ascii_end());
            assert_eq!(state.1, read[id].marked);
        }
        assert!(States::load(&store, FEW - 1).state_at(tips[0]).is_none());

        let mut bytes = fs::read(&path).expect("written");
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        bytes.truncate(bytes.len() - 3);
        fs::write(&path, &bytes).expect("spoiled");
        let spoiled = States::load(&store, 300);
        assert!(spoiled.state_at(tips[299]).is_none());
        assert!(spoiled.state_at(tips[298]).is_some());
        fs::write(&path, b"\xff garbage").expect("spoiled");
        assert!(States::load(&store, 300).state_at(tips[0]).is_none());
    }
}
