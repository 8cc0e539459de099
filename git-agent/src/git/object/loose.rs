//! Reads and writes loose objects in one pass.
//!
//! Objects of sessions stay loose until the next `git gc`, so most reads are of loose objects. The size must be known
//! before an object is loaded, and asking gix for it first would open and inflate every file twice.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use gix::zlib::stream::deflate::{Compress, FlushCompress};
use gix::zlib::{Compression, Inflate, Status};

use crate::git::ObjectKind;

/// The longest header of an object.
const HEADER: usize = 64;
/// The size of the buffer for deflated data.
const BUFFER: usize = 32 << 10;

/// A loose object.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::git) enum Loose {
    /// An object of this kind, with these bytes.
    Whole(ObjectKind, Vec<u8>),
    /// An object of this kind with this size, which is more than allowed.
    TooLarge(ObjectKind, u64),
}

thread_local! {
    /// The inflate state is expensive to create and can be reused for any number of objects.
    static INFLATE: RefCell<Inflate> = RefCell::new(Inflate::default());
    /// The same for deflating.
    static DEFLATE: RefCell<Deflate> = RefCell::new(Deflate {
        state: Compress::new(Compression::BEST_SPEED),
        buffer: vec![0; BUFFER],
    });
}

struct Deflate {
    state: Compress,
    buffer: Vec<u8>,
}

/// Writes an object in the form of its file.
pub(in crate::git) fn write(kind: ObjectKind, data: &[u8], file: &mut dyn Write) -> io::Result<()> {
    let header = gix::objs::encode::loose_header(kind, data.len() as u64);
    DEFLATE.with_borrow_mut(|Deflate { state, buffer }| {
        state.reset();
        let mut used = 0;
        for (mut rest, flush) in [
            (&header[..], FlushCompress::None),
            (data, FlushCompress::Finish),
        ] {
            loop {
                let (read, written) = (state.total_in(), state.total_out());
                let status = state
                    .compress(rest, &mut buffer[used..], flush)
                    .map_err(io::Error::other)?;
                rest = &rest[(state.total_in() - read) as usize..];
                used += (state.total_out() - written) as usize;
                match (status, flush) {
                    (Status::StreamEnd, _) => break,
                    (_, FlushCompress::None) if rest.is_empty() => break,
                    _ if used == buffer.len() => {
                        file.write_all(buffer)?;
                        used = 0;
                    }
                    _ => return Err(io::Error::other("cannot deflate an object")),
                }
            }
        }
        file.write_all(&buffer[..used])
    })
}

/// Reads an object of at most `limit` bytes from its file. Returns `None` if the file is missing or not a valid
/// object: the general path then finds the error.
pub(in crate::git) fn read(path: &Path, limit: u64) -> Option<Loose> {
    let mut opened = File::open(path).ok()?;
    // Deflating never enlarges data much, so a file of this size holds more than is allowed.
    let length = opened.metadata().ok()?.len();
    if length > limit.saturating_add(limit / 64).saturating_add(1024) {
        return None;
    }
    let mut file = Vec::with_capacity(usize::try_from(length).ok()?);
    opened.read_to_end(&mut file).ok()?;
    INFLATE.with_borrow_mut(|inflate| {
        inflate.reset();
        inflated(inflate, &file, limit)
    })
}

fn inflated(inflate: &mut Inflate, file: &[u8], limit: u64) -> Option<Loose> {
    let mut head = [0; HEADER];
    let (status, read, written) = inflate.prefix(file, &mut head).ok()?;
    let (kind, size, start) = gix::objs::decode::loose_header(&head[..written]).ok()?;
    if size > limit {
        return Some(Loose::TooLarge(kind, size));
    }
    let length = usize::try_from(size).ok()?;
    if written - start > length {
        return None;
    }
    let mut data = Vec::new();
    match status {
        Status::StreamEnd => data.extend_from_slice(&head[start..written]),
        _ => {
            let rest = file.get(read..)?;
            inflate
                .rest(rest, &head[..written], start, &mut data, length)
                .ok()?;
        }
    }
    (data.len() == length).then_some(Loose::Whole(kind, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let level = Compression::BEST_SPEED;
        let mut deflate = gix::zlib::stream::deflate::Write::new(Vec::new(), level);
        deflate.write_all(text).expect("memory takes it");
        deflate.flush().expect("memory takes it");
        deflate.into_inner()
    }

    fn read_bytes(file: &[u8], limit: u64) -> Option<Loose> {
        let mut place = tempfile::NamedTempFile::new().expect("a file");
        place.write_all(file).expect("written");
        read(place.path(), limit)
    }

    #[test]
    fn objects_of_all_sizes_are_read() {
        for size in [0_usize, 1, 50, 56, 57, 58, 59, 100, 70_000] {
            let body: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut text = format!("blob {size}\0").into_bytes();
            text.extend_from_slice(&body);
            let file = packed(&text);
            let whole = Some(Loose::Whole(ObjectKind::Blob, body));
            assert_eq!(read_bytes(&file, size as u64), whole, "{size}");
            if size > 0 {
                let large = Some(Loose::TooLarge(ObjectKind::Blob, size as u64));
                assert_eq!(read_bytes(&file, size as u64 - 1), large, "{size}");
                assert_eq!(read_bytes(&file[..file.len() / 2], 1 << 20), None, "{size}");
            }
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut seed = 1_u64;
        for size in [0_usize, 1, 64, 30_000, 32_768, 65_536, 300_000] {
            // Data that compresses well, and data that grows.
            for noise in [false, true] {
                let body: Vec<u8> = (0..size)
                    .map(|at| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        if noise {
                            (seed >> 33) as u8
                        } else {
                            (at % 7) as u8
                        }
                    })
                    .collect();
                let mut file = Vec::new();
                write(ObjectKind::Blob, &body, &mut file).expect("memory takes it");
                let whole = Some(Loose::Whole(ObjectKind::Blob, body));
                assert_eq!(read_bytes(&file, 1 << 20), whole, "{size} {noise}");
            }
        }
    }

    #[test]
    fn what_is_no_object_is_none() {
        assert_eq!(read(Path::new("/nonexistent/object"), 9), None);
        for text in [
            &b""[..],
            b"blob",
            b"blob 5\0four",
            b"blob 3\0four",
            b"blob x\0four",
            b"blob -1\0",
            b"bl\xffb 4\0four",
            b"blob 99999999999999999999\0",
        ] {
            assert_eq!(read_bytes(&packed(text), 1 << 20), None, "{text:?}");
        }
        for file in [&b""[..], b"x", b"plain text, not deflated"] {
            assert_eq!(read_bytes(file, 1 << 20), None, "{file:?}");
        }
    }
}
