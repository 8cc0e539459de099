//! An exact replacement in a file, which says why it cannot be made.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git_agent::file::{self, Durability};

use crate::tools::Edit;

/// A larger file is not edited.
const LARGEST: u64 = 4 << 20;

/// Makes the change. Returns the whole text before and after.
pub fn apply(path: &Path, edit: &Edit) -> Result<(String, String), String> {
    let (before, after) = replaced(path, edit)?;
    let cannot = |error: std::io::Error| format!("cannot write '{}': {error}", edit.path);
    match fs::metadata(path) {
        Ok(meta) => {
            let mode = meta.permissions().mode() & 0o7777;
            file::replace_with_mode(path, after.as_bytes(), mode, Durability::Volatile)
                .map_err(|error| error.to_string())?;
        }
        Err(_) => {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir).map_err(cannot)?;
            }
            let mut new = fs::File::create_new(path).map_err(cannot)?;
            new.write_all(after.as_bytes()).map_err(cannot)?;
        }
    }
    Ok((before, after))
}

/// Returns the text before and after the change.
pub fn replaced(path: &Path, edit: &Edit) -> Result<(String, String), String> {
    let name = &edit.path;
    if edit.old.is_empty() {
        return match fs::symlink_metadata(path) {
            Ok(meta) if meta.len() > 0 || !meta.is_file() => Err(format!(
                "'{name}' exists: name the text to replace in 'old'"
            )),
            _ => Ok((String::new(), edit.new.clone())),
        };
    }
    let meta = fs::metadata(path).map_err(|error| format!("cannot read '{name}': {error}"))?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Err(format!("'{name}' is not a file that can be edited"));
    }
    let bytes = fs::read(path).map_err(|error| format!("cannot read '{name}': {error}"))?;
    let before = String::from_utf8(bytes).map_err(|_| format!("'{name}' is not UTF-8 text"))?;
    let after = match before.matches(&edit.old).count() {
        1 => before.replacen(&edit.old, &edit.new, 1),
        0 => return Err(not_found(&before, edit)),
        many => {
            return Err(format!(
                "'old' occurs {many} times in '{name}': add the lines around it"
            ));
        }
    };
    if before == after {
        Err("'old' and 'new' are the same".to_owned())
    } else {
        Ok((before, after))
    }
}

/// Says why a text is not found: often only its white space differs.
fn not_found(before: &str, edit: &Edit) -> String {
    let first = edit
        .old
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let similar = first.and_then(|first| {
        before
            .lines()
            .position(|line| line.trim() == first)
            .map(|index| index + 1)
    });
    match similar {
        Some(line) => format!(
            "'old' does not occur in '{}'; line {line} is similar: read it and copy it exactly, with its white space",
            edit.path
        ),
        None => format!(
            "'old' does not occur in '{}': read the file first",
            edit.path
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit {
            path: "f".into(),
            old: old.into(),
            new: new.into(),
        }
    }

    #[test]
    fn only_an_exact_and_single_place_is_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/f");
        apply(&path, &edit("", "one\n  two\ntwo\n")).expect("made");
        for (old, why) in [
            ("", "exists"),
            ("two", "occurs 2 times"),
            ("\ttwo", "line 2 is similar"),
            ("nine", "read the file first"),
            ("one", "the same"),
        ] {
            let error = apply(&path, &edit(old, "one")).expect_err(old);
            assert!(error.contains(why), "{old:?}: {error}");
        }
        let (_, after) = apply(&path, &edit("one\n", "1\n")).expect("changed");
        assert_eq!(after, "1\n  two\ntwo\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), after);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        apply(&path, &edit("1\n", "2\n")).expect("changed");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let names = fs::read_dir(dir.path().join("sub")).expect("listed");
        assert_eq!(names.count(), 1);
    }
}
