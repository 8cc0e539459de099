//! The spool: events on disk before they are in git. One line per event, `<crc32> <record>`, appended and never
//! changed.
//!
//! A torn line (a crash, a full disk) fails its checksum and is skipped; the next append starts a new line. The spool
//! does not record which events are in git: the state at the ref tip is the cursor, and sequence numbers decide.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::fault;
use crate::model::event::Event;

/// The name of the spool in a session's directory.
pub const FILE: &str = "events.jsonl";
/// The longest line of a spool; a longer one is damage.
const LINE: usize = crate::store::limits::EVENT + 64;

/// An open spool, for the one process that may append.
#[derive(Debug)]
pub struct Spool {
    file: File,
    path: PathBuf,
    /// Whether the last byte may not be a newline.
    torn: bool,
    length: u64,
}

impl Spool {
    /// Opens or creates the spool in a session's directory.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let cannot = || format!("cannot open '{}'", path.display());
        let file = OpenOptions::new()
            .append(true)
            .read(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .context(cannot)?;
        let length = file.metadata().context(cannot)?.len();
        let mut torn = false;
        if length > 0 {
            let mut last = [0];
            (&file).seek(SeekFrom::Start(length - 1)).context(cannot)?;
            (&file).read_exact(&mut last).context(cannot)?;
            torn = last != *b"\n";
        }
        Ok(Spool {
            file,
            path,
            torn,
            length,
        })
    }

    /// Appends one record. After an error a part of it may be on disk, which will not be read as an event.
    pub fn append(&mut self, record: &str) -> Result<()> {
        let cannot = || format!("cannot write '{}'", self.path.display());
        let mut line = String::with_capacity(record.len() + 11);
        if self.torn {
            line.push('\n');
        }
        line.push_str(&format!(
            "{:08x} {record}\n",
            crc32fast::hash(record.as_bytes())
        ));
        self.torn = true;
        fault::point("spool.before").context(cannot)?;
        let bytes = line.as_bytes();
        let half = bytes.len() / 2;
        // Normally one write; the fault point in the middle lets a test create a torn line.
        if fault::active() {
            self.file.write_all(&bytes[..half]).context(cannot)?;
            fault::point("spool.half").context(cannot)?;
            self.file.write_all(&bytes[half..]).context(cannot)?;
        } else {
            self.file.write_all(bytes).context(cannot)?;
        }
        self.torn = false;
        self.length += bytes.len() as u64;
        fault::point("spool.appended").context(cannot)?;
        Ok(())
    }

    /// Makes all appended records durable.
    pub fn sync(&self) -> Result<()> {
        let cannot = || format!("cannot sync '{}'", self.path.display());
        fault::point("spool.before-sync").context(cannot)?;
        self.file.sync_data().context(cannot)?;
        fault::point("spool.synced").context(cannot)?;
        Ok(())
    }

    /// Returns the size of the spool in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// The result of reading the spool.
#[derive(Debug, Default)]
pub struct Tail {
    /// The events after the given one, in order.
    pub events: Vec<Event>,
    /// The end of the last complete line.
    pub end: u64,
    /// The number of skipped, damaged lines.
    pub damaged: usize,
    /// The bytes after the last newline: a line being written, or one torn by a crash.
    pub torn: u64,
}

/// Reads the events with a sequence number above `after`. `hint` is their probable offset; without one, the file is
/// searched from its end, because all of it but the tail is in git. Stops after `limit` bytes of records, so that a large
/// backlog goes to git in chunks.
pub fn read_tail(dir: &Path, after: u64, hint: Option<u64>, limit: u64) -> Result<Tail> {
    let path = dir.join(FILE);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tail::default()),
        Err(error) => Err(error).context(|| format!("cannot open '{}'", path.display()))?,
    };
    let cannot = || format!("cannot read '{}'", path.display());
    let length = file.metadata().context(cannot)?.len();
    let Some(hint) = hint else {
        let start = start_of_tail(&mut file, length, after).context(cannot)?;
        file.seek(SeekFrom::Start(start)).context(cannot)?;
        return read_from(&mut file, start, after, limit).context(cannot);
    };
    if hint > 0 && hint <= length {
        let mut before = [0];
        file.seek(SeekFrom::Start(hint - 1)).context(cannot)?;
        file.read_exact(&mut before).context(cannot)?;
        if before == *b"\n" {
            let tail = read_from(&mut file, hint, after, limit).context(cannot)?;
            // The hint is from an earlier file if the next event does not continue where git ends.
            let continues = match tail.events.first() {
                Some(first) => first.seq == after + 1,
                // A line of a new file may end at the same offset by chance, so the line before must be the last event
                // in git.
                None => {
                    tail.damaged == 0
                        && last_before(&mut file, hint).context(cannot)? == Some(after)
                }
            };
            if continues {
                return Ok(tail);
            }
        }
        file.seek(SeekFrom::Start(0)).context(cannot)?;
    }
    read_from(&mut file, 0, after, limit).context(cannot)
}

/// Returns the end of the last line whose event is not above `after`, or 0: every event above it comes later.
fn start_of_tail(file: &mut File, length: u64, after: u64) -> io::Result<u64> {
    // The first block is as large as the spool usually is between two flushes.
    let (mut end, mut block) = (length, 64 << 10);
    while after > 0 && end > 0 {
        let start = end.saturating_sub(block);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        // A block begins in the middle of a line, unless it is the first one.
        let first = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + 1);
        let whole = if start == 0 { Some(0) } else { first };
        let Some(whole) = whole else {
            block *= 4;
            continue;
        };
        let mut at = bytes.len();
        for line in bytes[whole..].split_inclusive(|byte| *byte == b'\n').rev() {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            if parse_line(text).is_some_and(|event| event.seq <= after) {
                return Ok(start + at as u64);
            }
            at -= line.len();
        }
        end = start + whole as u64;
        block *= 2;
    }
    Ok(0)
}

/// Returns the number of the event whose line ends at an offset; `None` if no complete line does.
fn last_before(file: &mut File, end: u64) -> io::Result<Option<u64>> {
    let mut wanted = 4096;
    loop {
        let length = end.min(wanted);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.seek(SeekFrom::Start(end - length))?;
        file.read_exact(&mut bytes)?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        match line.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => return Ok(parse_line(&line[at + 1..]).map(|event| event.seq)),
            None if length == end => return Ok(parse_line(line).map(|event| event.seq)),
            None if length > LINE as u64 => return Ok(None),
            None => wanted *= 16,
        }
    }
}

fn read_from(file: &mut File, start: u64, after: u64, limit: u64) -> io::Result<Tail> {
    let mut taken = 0;
    let mut tail = Tail {
        end: start,
        ..Tail::default()
    };
    let mut last = after;
    let mut buffer = Vec::new();
    let mut reader = io::BufReader::with_capacity(1 << 16, file);
    loop {
        buffer.clear();
        let read = read_bounded_line(&mut reader, &mut buffer)?;
        if read == 0 {
            return Ok(tail);
        }
        if buffer.last() != Some(&b'\n') && read < LINE as u64 + 1 {
            tail.torn = read;
            return Ok(tail);
        }
        tail.end += read;
        let line = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        if line.is_empty() {
            continue;
        }
        match parse_line(line) {
            Some(event) if event.seq > last => {
                last = event.seq;
                tail.events.push(event);
                taken += read;
                if taken >= limit {
                    return Ok(tail);
                }
            }
            Some(_) => {}
            None => tail.damaged += 1,
        }
    }
}

/// Reads up to a newline but keeps only a bounded part, so that damage cannot fill memory.
fn read_bounded_line(reader: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut read = 0;
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(read);
        }
        let end = available
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + 1);
        let part = &available[..end.unwrap_or(available.len())];
        let room = (LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len();
        read += used as u64;
        reader.consume(used);
        if end.is_some() {
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            return Ok(read);
        }
    }
}

/// Parses one line of the spool, without its newline; returns `None` if it is damaged.
pub fn parse_line(line: &[u8]) -> Option<Event> {
    let (checksum, record) = line.split_at_checked(9)?;
    let checksum = checksum.strip_suffix(b" ")?;
    let expected = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    (crc32fast::hash(record) == expected)
        .then(|| Event::from_line(record).ok())
        .flatten()
}

/// Removes a spool whose events are all in git.
pub fn remove(dir: &Path) -> Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove the spool in '{}'", dir.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;
    use crate::model::event::Body;
    use crate::model::session::Ulid;

    fn event(seq: u64) -> Event {
        let id = Ulid::from_parts(Millis(seq), [3; 10]);
        let text = "x".repeat(usize::try_from(seq % 50).expect("small"));
        Event {
            id,
            seq,
            lc: seq,
            ts: Millis(seq),
            turn: 1,
            body: Body::Assistant { text },
        }
    }

    fn seqs(tail: &Tail) -> Vec<u64> {
        tail.events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn reads_back_what_was_appended_from_any_cursor() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        let mut cursors = vec![0];
        for seq in 1..=20 {
            spool.append(&event(seq).to_line()).expect("appends");
            cursors.push(spool.length());
        }
        for (after, cursor) in cursors.iter().enumerate() {
            let after = after as u64;
            for hint in [Some(*cursor), Some(0), Some(7), Some(1 << 30), None] {
                let tail = read_tail(dir.path(), after, hint, u64::MAX).expect("reads");
                assert_eq!(
                    seqs(&tail),
                    (after + 1..=20).collect::<Vec<_>>(),
                    "{after} {hint:?}"
                );
                assert_eq!(tail.end, spool.length());
            }
        }
    }

    #[test]
    fn a_long_spool_is_searched_from_its_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        let long = "y".repeat(100 << 10);
        for seq in 1..=40 {
            let mut event = event(seq);
            if seq % 10 == 0 {
                event.body = Body::Assistant { text: long.clone() };
            }
            spool.append(&event.to_line()).expect("appends");
        }
        let mut file = File::open(dir.path().join(FILE)).expect("opens");
        for after in 0..=41 {
            let tail = read_tail(dir.path(), after, None, u64::MAX).expect("reads");
            assert_eq!(seqs(&tail), (after + 1..=40).collect::<Vec<_>>(), "{after}");
            let start = start_of_tail(&mut file, spool.length(), after).expect("reads");
            let expected = last_before(&mut file, start).expect("reads");
            assert_eq!(start == 0, after == 0, "{after}");
            assert_eq!(expected.unwrap_or(0), after.min(40));
        }
    }

    #[test]
    fn a_new_spool_as_long_as_the_old_one_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        spool.append(&event(1).to_line()).expect("appends");
        let old = spool.length();
        remove(dir.path()).expect("removes");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        let mut next = event(1);
        next.seq = 2;
        spool.append(&next.to_line()).expect("appends");
        assert_eq!(spool.length(), old, "the lengths must agree to test this");
        let tail = read_tail(dir.path(), 1, Some(old), u64::MAX).expect("reads");
        assert_eq!(seqs(&tail), [2]);
        assert!(
            read_tail(dir.path(), 2, Some(old), u64::MAX)
                .expect("reads")
                .events
                .is_empty()
        );
    }

    #[test]
    fn a_line_torn_anywhere_is_passed_over() {
        let whole = {
            let dir = tempfile::tempdir().expect("a directory");
            let mut spool = Spool::open(dir.path()).expect("a spool");
            spool.append(&event(1).to_line()).expect("appends");
            let first = spool.length();
            spool.append(&event(2).to_line()).expect("appends");
            (
                fs::read(dir.path().join(FILE)).expect("reads"),
                usize::try_from(first).expect("small"),
            )
        };
        for cut in 0..=whole.0.len() {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join(FILE), &whole.0[..cut]).expect("writes");
            let mut spool = Spool::open(dir.path()).expect("opens");
            spool.append(&event(3).to_line()).expect("appends");
            let tail = read_tail(dir.path(), 0, None, u64::MAX).expect("reads");
            // A line that lacks only its newline is complete: the next append adds it.
            let mut expected = Vec::new();
            if cut + 1 >= whole.1 {
                expected.push(1);
            }
            if cut + 1 >= whole.0.len() {
                expected.push(2);
            }
            expected.push(3);
            assert_eq!(seqs(&tail), expected, "cut at {cut}");
        }
    }

    #[test]
    fn damage_is_counted_and_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut bytes = vec![b'a'; 3 * LINE];
        bytes.extend_from_slice(b"\n00000000 {}\n\xff\xfe\n");
        fs::write(dir.path().join(FILE), &bytes).expect("writes");
        let mut spool = Spool::open(dir.path()).expect("opens");
        spool.append(&event(5).to_line()).expect("appends");
        let tail = read_tail(dir.path(), 0, None, u64::MAX).expect("reads");
        assert_eq!((seqs(&tail), tail.damaged), (vec![5], 3));
    }
}
