//! Lines of a file with their numbers, or the entries of a directory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The most bytes of one line.
const LONGEST_LINE: usize = 1_000;
/// The most characters of one answer.
const LONGEST: usize = 40_000;
/// The most entries of a directory.
const ENTRIES: usize = 500;

/// Returns lines of a file, or a directory's entries.
pub fn lines(path: &Path, from: usize, lines: usize) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read '{}': {error}", path.display());
    let meta = fs::metadata(path).map_err(cannot)?;
    if meta.is_dir() {
        return entries(path).map_err(cannot);
    }
    if !meta.is_file() {
        return Err(format!("'{}' is not a file", path.display()));
    }
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
    let mut text = String::new();
    let (mut number, mut line) = (0, Vec::new());
    while read_line(&mut reader, &mut line).map_err(cannot)? {
        number += 1;
        if number < from {
            continue;
        }
        if number >= from.saturating_add(lines) || text.len() > LONGEST {
            text.push_str(&format!("(more from line {number} on)\n"));
            break;
        }
        if line.contains(&0) {
            return Err(format!("'{}' is a binary file", path.display()));
        }
        let shown = String::from_utf8_lossy(&line);
        let shown = shown.trim_end_matches(['\u{fffd}', '\r']);
        let rest = if line.len() == LONGEST_LINE {
            " (the line is longer)"
        } else {
            ""
        };
        text.push_str(&format!("{number}\t{shown}{rest}\n"));
    }
    if number == 0 {
        return Ok("(the file is empty)".to_owned());
    }
    if text.is_empty() {
        return Ok(format!("(the file has {number} lines)"));
    }
    Ok(text)
}

/// Reads the beginning of the next line. Returns whether there was one. A file may be one endless line.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut found = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(found);
        }
        found = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LONGEST_LINE - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn entries(path: &Path) -> std::io::Result<String> {
    let mut names: Vec<String> = fs::read_dir(path)?
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                format!("{name}/")
            } else {
                name
            }
        })
        .collect();
    names.sort();
    let more = names.len().saturating_sub(ENTRIES);
    names.truncate(ENTRIES);
    if more > 0 {
        names.push(format!("(and {more} more)"));
    }
    Ok(names.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        fs::write(&path, "a\nb\nc\nd").expect("written");
        assert_eq!(
            lines(&path, 2, 2).expect("read"),
            "2\tb\n3\tc\n(more from line 4 on)\n"
        );
        assert_eq!(lines(&path, 9, 2).expect("read"), "(the file has 4 lines)");
        fs::write(&path, format!("{}\nend", "x".repeat(100_000))).expect("written");
        let text = lines(&path, 1, 9).expect("read");
        assert!(
            text.len() < 1_100 && text.contains("longer)\n2\tend\n"),
            "{text}"
        );
        fs::write(&path, b"a\0b").expect("written");
        assert!(lines(&path, 1, 9).is_err());
        assert_eq!(lines(dir.path(), 1, 9).expect("listed"), "f");
        assert!(lines(&dir.path().join("none"), 1, 9).is_err());
    }
}
