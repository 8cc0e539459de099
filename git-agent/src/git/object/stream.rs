//! Reads large blobs in parts.

use std::io::Read;
use std::process::Stdio;

use crate::error::{Context, Error, Result};
use crate::git::command::NO_REPLACE;
use crate::git::{ObjectId, Repo};

/// The size of a part.
const PART: usize = 4 << 20;
/// How much of a part is repeated at the start of the next one, so that text across the border is seen whole.
const OVERLAP: usize = 64 << 10;

impl Repo {
    /// Passes the content of a blob in parts, each of which starts with the end of the previous one, until `look`
    /// returns false.
    pub fn stream_blob(&self, id: ObjectId, look: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let mut child = self
            .git_common()
            .env(NO_REPLACE, "1")
            // git does not load larger blobs into memory either.
            .config("core.bigFileThreshold", "1m")
            .args(["cat-file", "blob"])
            .arg(id.to_string())
            .spawn(Stdio::null(), Stdio::piped(), Stdio::null())?;
        let cannot = || format!("cannot read object {id}");
        let read = match child.stdout.take() {
            Some(stdout) => in_parts(stdout, (PART, OVERLAP), look).context(cannot),
            None => Ok(true),
        };
        let whole = matches!(read, Ok(true));
        if !whole {
            let _ = child.kill();
        }
        let status = child.wait().context(cannot)?;
        if read? && !status.success() {
            Err(Error::fatal(cannot()))
        } else {
            Ok(())
        }
    }
}

/// Returns whether everything was read.
fn in_parts(
    mut reader: impl Read,
    (size, overlap): (usize, usize),
    look: &mut dyn FnMut(&[u8]) -> bool,
) -> std::io::Result<bool> {
    let mut part = Vec::with_capacity(size);
    loop {
        let room = (size - part.len()) as u64;
        let came = reader.by_ref().take(room).read_to_end(&mut part)?;
        let last = part.len() < size;
        if (came > 0 || part.is_empty()) && !look(&part) {
            return Ok(false);
        }
        if last {
            return Ok(true);
        }
        part.drain(..beginning_of_next(&part, overlap));
    }
}

/// Returns the start of the next part: the start of a line if possible, because a word that is cut in the middle looks
/// different.
fn beginning_of_next(part: &[u8], overlap: usize) -> usize {
    let at_latest = part.len() - overlap;
    let before = &part[at_latest - overlap..at_latest];
    let line = before.iter().rposition(|byte| *byte == b'\n');
    line.map_or(at_latest, |line| at_latest - overlap + line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &[u8]) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let look = &mut |part: &[u8]| {
            parts.push(part.to_vec());
            true
        };
        assert!(in_parts(text, (64, 8), look).expect("memory can be read"));
        parts
    }

    #[test]
    fn what_lies_across_two_parts_is_in_one_of_them() {
        for lines in [0, 5, 20] {
            let fill = |at: usize| {
                if lines > 0 && at.is_multiple_of(lines) {
                    b'\n'
                } else {
                    b'.'
                }
            };
            for at in 0..200 {
                let mut text: Vec<u8> = (0..208).map(fill).collect();
                text[at..at + 8].copy_from_slice(b"a-secret");
                let parts = parts(&text);
                let seen = |part: &Vec<u8>| part.windows(8).any(|found| found == b"a-secret");
                assert!(parts.iter().any(seen), "lines of {lines}, at {at}");
                assert!(parts.iter().all(|part| part.len() <= 64));
            }
        }
    }

    #[test]
    fn files_of_every_length_are_read_to_their_end() {
        for length in 0..300 {
            let text = vec![b'x'; length];
            let parts = parts(&text);
            let last = parts.last().expect("there is always one");
            assert!(text.ends_with(last));
            assert!(parts.len() <= 1 + length / 40, "{length}: {}", parts.len());
        }
    }
}
