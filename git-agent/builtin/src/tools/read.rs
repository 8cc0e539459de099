//! Lines of a file with their numbers, or the entries of a directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most characters of one line.
const LONGEST_LINE: usize = 1_000;
/// The most characters of one answer.
const LONGEST: usize = 40_000;
/// The most entries of a directory.
const ENTRIES: usize = 500;
/// The most of a file that is looked at.
const LARGEST: u64 = 256 << 20;

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
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?.take(LARGEST));
    let mut text = String::new();
    let (mut number, mut line) = (0, Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
            break;
        }
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
        let whole = String::from_utf8_lossy(&line);
        let shown: String = whole
            .trim_end_matches(['\n', '\r'])
            .chars()
            .take(LONGEST_LINE)
            .collect();
        text.push_str(&format!("{number}\t{shown}\n"));
    }
    if number == 0 {
        return Ok("(the file is empty)".to_owned());
    }
    if text.is_empty() {
        return Ok(format!("(the file has {number} lines)"));
    }
    Ok(text)
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
        fs::write(&path, b"a\0b").expect("written");
        assert!(lines(&path, 1, 9).is_err());
        assert_eq!(lines(dir.path(), 1, 9).expect("listed"), "f");
        assert!(lines(&dir.path().join("none"), 1, 9).is_err());
    }
}
