//! Measures the disk space of directories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The unit in which the kernel counts disk space.
const BLOCK: u64 = 512;

/// Returns the bytes that directories take on the disk. Follows no links, counts a file with several names once for each,
/// and stops when it is more than `enough`.
pub(super) fn of(directories: &[PathBuf], enough: u64) -> u64 {
    let mut used = 0;
    let mut left = directories.to_vec();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            used += meta.blocks() * BLOCK;
            if meta.is_dir() {
                left.push(entry.path());
            }
            if used > enough {
                return used;
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_count_and_links_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().to_owned();
        fs::create_dir(top.join("deep")).expect("made");
        fs::write(top.join("deep/file"), vec![1; 100_000]).expect("written");
        let elsewhere = tempfile::tempdir().expect("a directory");
        fs::write(elsewhere.path().join("big"), vec![1; 1_000_000]).expect("written");
        std::os::unix::fs::symlink(elsewhere.path(), top.join("link")).expect("linked");
        let used = of(std::slice::from_ref(&top), u64::MAX);
        assert!((100_000..500_000).contains(&used), "{used}");
        assert!(of(&[top], 10) > 10);
        assert_eq!(of(&[PathBuf::from("/no/such/place")], 10), 0);
    }
}
