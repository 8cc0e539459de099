//! Turns the pathspecs that the user types into pathspecs relative to the top of the worktree.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::context::Context;

/// Returns paths as seen from the top of the worktree: they are typed as seen from the current directory.
pub fn all_from_top(context: &Context<'_>, typed: &[OsString]) -> Vec<OsString> {
    let Some(top) = context.repo.work_tree() else {
        return typed.to_vec();
    };
    let below = context.env.cwd.strip_prefix(top).unwrap_or(Path::new(""));
    let seen = |path: &OsString| from_top(path, below, top);
    typed.iter().map(seen).collect()
}

/// Returns a path that was typed in the directory `below` the worktree `top`, as seen from there.
fn from_top(typed: &OsStr, below: &Path, top: &Path) -> OsString {
    let bytes = typed.as_bytes();
    let Some(magic) = bytes.strip_prefix(b":") else {
        return joined(typed, below, top);
    };
    // `:(exclude,icase)path`, and the short `:!path`, `:^path` and `:/path`.
    let (words, path): (Vec<&[u8]>, &[u8]) = match magic.strip_prefix(b"(") {
        Some(long) => match long.iter().position(|byte| *byte == b')') {
            Some(end) => (
                long[..end].split(|byte| *byte == b',').collect(),
                &long[end + 1..],
            ),
            None => return typed.to_owned(),
        },
        None => {
            let end = magic.iter().position(|byte| !b"!^/".contains(byte));
            let (signs, path) = magic.split_at(end.unwrap_or(magic.len()));
            let word = |sign: &u8| -> &[u8] { if *sign == b'/' { b"top" } else { b"exclude" } };
            let path = path.strip_prefix(b":").unwrap_or(path);
            (signs.iter().map(word).collect(), path)
        }
    };
    if words.iter().any(|word| *word == b"top") {
        return typed.to_owned();
    }
    let mut seen = [b":(", words.join(&b',').as_slice(), b")"].concat();
    let path = joined(OsStr::from_bytes(path), below, top);
    seen.extend_from_slice(path.as_bytes());
    OsString::from_vec(seen)
}

fn joined(path: &OsStr, below: &Path, top: &Path) -> OsString {
    let path = Path::new(path);
    match path.strip_prefix(top) {
        // All of it.
        Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
        Ok(inside) => inside.into(),
        Err(_) => below.join(path).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_paths_is_understood() {
        let seen = |typed: &str| {
            let seen = from_top(typed.as_ref(), Path::new("sub"), Path::new("/top/r"));
            seen.into_string().expect("text")
        };
        for (typed, meant) in [
            ("b.txt", "sub/b.txt"),
            ("*.c", "sub/*.c"),
            ("../a.txt", "sub/../a.txt"),
            ("/top/r/sub/b.txt", "sub/b.txt"),
            ("/top/r", "."),
            (":!b.txt", ":(exclude)sub/b.txt"),
            (":^b.txt", ":(exclude)sub/b.txt"),
            (":/a.txt", ":/a.txt"),
            (":!/a.txt", ":!/a.txt"),
            (":(icase)B.TXT", ":(icase)sub/B.TXT"),
            (":(top,icase)A.TXT", ":(top,icase)A.TXT"),
            (":(exclude)/top/r/sub/b.txt", ":(exclude)sub/b.txt"),
            (":(unclosed", ":(unclosed"),
        ] {
            assert_eq!(seen(typed), meant, "{typed}");
        }
    }
}
