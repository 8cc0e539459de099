//! Reads git's diff of two trees into files, hunks and lines.

use crate::context::Context;
use crate::error::Result;
use crate::git::ObjectId;
use crate::git::diff::Delta;
use crate::model::review::path::unquote;
use crate::review::diff_text::outline::{HEADING, Hunk};
use crate::review::shown::generated::is_generated;
use crate::review::shown::{ChangedFile, FileChange, ShownHunk, ShownLine};

/// How git begins the one line that it shows of a binary file.
const BINARY: &[u8] = b"Binary files ";

/// Options that make git's diff the same whatever its user has configured.
const OPTIONS: [&str; 11] = [
    "--patch-with-raw",
    "--no-abbrev",
    "--color=never",
    "-M",
    "--no-ext-diff",
    "--no-textconv",
    "--word-diff=none",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--inter-hunk-context=0",
];

/// Returns the changed files between two trees. Attributes are read from a tree that the author of the changes did not write.
pub(super) fn files(
    context: &Context<'_>,
    attributes: ObjectId,
    trees: (ObjectId, ObjectId),
) -> Result<Vec<ChangedFile>> {
    let repo = context.repo;
    let options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
    let program = repo.diff_program(attributes, trees, &options, &[])?;
    let mut reader = Reader::default();
    let plain = |path: &[u8]| unquote(path).unwrap_or_else(|| path.to_vec());
    program.lines(&mut |line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if reader.current.is_none()
            && line.starts_with(b":")
            && let Some(delta) = repo.raw_line(line, &plain)
        {
            reader.files.push(file(delta));
        } else {
            reader.line(line);
        }
        Ok(true)
    })?;
    Ok(reader.files)
}

fn file(delta: Delta) -> ChangedFile {
    let change = match delta.status {
        'A' => FileChange::Added,
        'D' => FileChange::Deleted,
        'R' | 'C' => FileChange::Renamed,
        'T' => FileChange::Retyped,
        _ => FileChange::Changed,
    };
    ChangedFile {
        is_generated: is_generated(&delta.path),
        old_path: (delta.old_path != delta.path).then_some(delta.old_path),
        path: delta.path,
        change,
        added: 0,
        deleted: 0,
        is_binary: false,
        remarks: Vec::new(),
        hunks: Vec::new(),
    }
}

/// The diff as far as it was read.
#[derive(Default)]
struct Reader {
    files: Vec<ChangedFile>,
    current: Option<usize>,
    /// How many headings the current file has had: a file that became another kind has two.
    headings: usize,
    hunk: Option<Hunk>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        if let Some(hunk) = self.hunk.as_mut().filter(|hunk| !hunk.is_over())
            && let Some(numbers) = hunk.step(line)
        {
            return self.add(line, numbers);
        }
        if line.starts_with(HEADING) {
            self.hunk = None;
            let next = match self.current {
                None => 0,
                Some(at) if self.headings == 1 && self.files[at].change == FileChange::Retyped => {
                    self.headings += 1;
                    return;
                }
                Some(at) => at + 1,
            };
            self.headings = 1;
            self.current = Some(next);
            return;
        }
        let Some(file) = self.current.and_then(|at| self.files.get_mut(at)) else {
            return;
        };
        if let Some(rest) = line.strip_prefix(b"@@ -") {
            self.hunk = Hunk::parse(rest);
            if self.hunk.is_some() {
                let heading = rest
                    .windows(3)
                    .position(|three| three == b" @@")
                    .map_or(&b""[..], |at| &rest[at + 3..]);
                let heading = heading.strip_prefix(b" ").unwrap_or(heading).to_vec();
                file.hunks.push(ShownHunk {
                    heading,
                    lines: Vec::new(),
                });
            }
        } else if line.starts_with(b"\\ ") {
            let hunk = file.hunks.last_mut();
            if let Some(last) = hunk.and_then(|hunk| hunk.lines.last_mut()) {
                last.is_cut = true;
            }
        } else if line.starts_with(BINARY) {
            file.is_binary = true;
        } else if let Some(remark) = remark(line) {
            file.remarks.push(remark);
        }
    }

    fn add(&mut self, line: &[u8], (old, new): (Option<u32>, Option<u32>)) {
        let Some(file) = self.current.and_then(|at| self.files.get_mut(at)) else {
            return;
        };
        match (old, new) {
            (None, Some(_)) => file.added += 1,
            (Some(_), None) => file.deleted += 1,
            _ => {}
        }
        if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push(ShownLine {
                old,
                new,
                text: line.get(1..).unwrap_or_default().to_vec(),
                is_cut: false,
            });
        }
    }
}

/// Returns a line of a file's heading that tells more than its names.
fn remark(line: &[u8]) -> Option<String> {
    const TELLING: [&str; 6] = [
        "old mode ",
        "new mode ",
        "new file mode ",
        "deleted file mode ",
        "similarity index ",
        "Subproject commit ",
    ];
    let text = std::str::from_utf8(line).ok()?;
    let is_usual = text.ends_with("mode 100644");
    let tells = TELLING.iter().any(|start| text.starts_with(start));
    (tells && !is_usual).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, status: char) -> ChangedFile {
        file(Delta {
            status,
            old_mode: 0,
            new_mode: 0,
            old_id: None,
            new_id: None,
            old_path: path.into(),
            path: path.into(),
        })
    }

    fn read(files: Vec<ChangedFile>, text: &str) -> Vec<ChangedFile> {
        let mut reader = Reader {
            files,
            ..Reader::default()
        };
        text.lines().for_each(|line| reader.line(line.as_bytes()));
        reader.files
    }

    #[test]
    fn hunks_have_their_lines_and_numbers() {
        let text = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@ fn main() {\n one\n-two\n+diff --git a/y b/y\n three\n\\ No newline at end of file\ndiff --git a/y b/y\nold mode 100644\nnew mode 100755\n";
        let files = read(vec![named("x", 'M'), named("y", 'M')], text);
        let hunk = &files[0].hunks[0];
        assert_eq!(hunk.heading, b"fn main() {");
        assert_eq!((files[0].added, files[0].deleted), (1, 1));
        let numbers: Vec<_> = hunk.lines.iter().map(|line| (line.old, line.new)).collect();
        let expected = [
            (Some(3), Some(3)),
            (Some(4), None),
            (None, Some(4)),
            (Some(5), Some(5)),
        ];
        assert_eq!(numbers, expected);
        assert!(hunk.lines[3].is_cut);
        assert_eq!(hunk.lines[2].text, b"diff --git a/y b/y");
        assert!(files[1].hunks.is_empty());
        assert_eq!(files[1].remarks, ["new mode 100755"]);
    }

    #[test]
    fn a_file_of_another_kind_has_two_headings() {
        let text = "diff --git a/x b/x\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-old\ndiff --git a/x b/x\nnew file mode 120000\n@@ -0,0 +1 @@\n+new\ndiff --git a/z b/z\nBinary files a/z and b/z differ\n";
        let files = read(vec![named("x", 'T'), named("z", 'M')], text);
        assert_eq!(files[0].hunks.len(), 2);
        assert!(files[1].is_binary);
    }
}
