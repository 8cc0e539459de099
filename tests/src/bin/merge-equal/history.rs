//! Random histories: files that are edited, moved, removed and made on two sides.

use std::collections::BTreeMap;
use std::io::Write;

use crate::Failure;

/// A small generator of numbers: the same seed gives the same histories everywhere.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

type Files = BTreeMap<String, (&'static str, String)>;

const FILE: &str = "100644";
const RUN: &str = "100755";
const LINK: &str = "120000";
const DIRS: [&str; 7] = ["", "d/", "d/e/", "src/", "src/deep/er/", "o o/", "moved/"];
const NAMES: [&str; 8] = ["a.txt", "b.txt", "c", "main.rs", "x.bin", "new", "d", "ü"];

pub struct History {
    base: Files,
    sides: [Vec<Files>; 2],
    criss_cross: bool,
    pub attributes: bool,
}

impl History {
    pub fn make(random: &mut Random) -> Self {
        let mut base = Files::new();
        for _ in 0..4 + random.below(10) {
            let path = format!("{}{}", random.pick(&DIRS), random.pick(&NAMES));
            let text = new_text(random);
            put(&mut base, path, (FILE, text));
        }
        let attributes = random.one_in(8);
        if attributes {
            let rules = [
                "*.txt merge=union\n",
                "* text=auto\n*.txt text eol=crlf\n",
                "*.bin -merge\n",
                "*.rs binary\n",
                "d/** merge=ours\n*.txt -diff\n",
            ];
            let rule = (*random.pick(&rules)).to_owned();
            put(&mut base, ".gitattributes".to_owned(), (FILE, rule));
        }
        let side = |random: &mut Random, from: &Files| {
            let mut files = from.clone();
            for _ in 0..1 + random.below(4) {
                change(random, &mut files);
            }
            files
        };
        let (one, other) = (side(random, &base), side(random, &base));
        let criss_cross = random.one_in(8);
        let mut sides = [vec![one.clone()], vec![other.clone()]];
        if criss_cross {
            // Each has taken the other over in its own way and gone on.
            sides[0].push(side(random, &one));
            sides[1].push(side(random, &other));
        } else if random.one_in(3) {
            sides[0].push(side(random, &one));
        }
        History {
            base,
            sides,
            criss_cross,
            attributes,
        }
    }

    /// Writes the commits for `git fast-import`; returns the marks of both ends.
    pub fn emit(
        &self,
        out: &mut Vec<u8>,
        mark: &mut usize,
        number: usize,
    ) -> Result<(usize, usize), Failure> {
        let mut commit = |files: &Files, parents: &[usize]| -> Result<usize, Failure> {
            *mark += 1;
            let time = 1_700_000_000 + *mark;
            // A branch for each commit: without one, the first commit would go on from the last.
            write!(out, "commit refs/heads/h{number}-{mark}\nmark :{mark}\n")?;
            write!(out, "committer T <t@example.com> {time} +0000\ndata 2\nx\n")?;
            for (index, parent) in parents.iter().enumerate() {
                let word = if index == 0 { "from" } else { "merge" };
                writeln!(out, "{word} :{parent}")?;
            }
            writeln!(out, "deleteall")?;
            for (path, (mode, text)) in files {
                write!(out, "M {mode} inline {path}\ndata {}\n{text}\n", text.len())?;
            }
            writeln!(out)?;
            Ok(*mark)
        };
        let base = commit(&self.base, &[])?;
        let one = commit(&self.sides[0][0], &[base])?;
        let other = commit(&self.sides[1][0], &[base])?;
        let mut ends = [one, other];
        for side in 0..2 {
            for files in &self.sides[side][1..] {
                let parents = if self.criss_cross {
                    vec![[one, other][side], [one, other][1 - side]]
                } else {
                    vec![ends[side]]
                };
                ends[side] = commit(files, &parents)?;
            }
        }
        Ok((ends[0], ends[1]))
    }
}

/// Adds a file, and takes away what cannot be beside it: a file where its directory is, or what is below it.
fn put(files: &mut Files, path: String, file: (&'static str, String)) {
    let below = format!("{path}/");
    files.retain(|known, _| !known.starts_with(&below) && !path.starts_with(&format!("{known}/")));
    files.insert(path, file);
}

fn new_text(random: &mut Random) -> String {
    let stamp = random.next() % 100_000;
    let lines = 6 + random.below(18);
    (0..lines)
        .map(|line| format!("line {line} of {stamp}\n"))
        .collect()
}

/// Changes something, as people and agents do.
fn change(random: &mut Random, files: &mut Files) {
    let paths: Vec<String> = files
        .keys()
        .filter(|path| *path != ".gitattributes")
        .cloned()
        .collect();
    if paths.is_empty() {
        let text = new_text(random);
        put(files, "again".to_owned(), (FILE, text));
        return;
    }
    let path = random.pick(&paths).clone();
    let fresh = || -> [&str; 3] { ["moved/", "n/", ""] };
    match random.below(16) {
        0..=4 => edit(random, files, &path),
        5 => {
            files.remove(&path);
        }
        6 | 7 => {
            let name = format!("{}{}", random.pick(&DIRS), random.pick(&NAMES));
            let text = if random.one_in(3) {
                // The same on both sides, sometimes.
                "the same\nfor all\n".to_owned()
            } else {
                new_text(random)
            };
            put(files, name, (FILE, text));
        }
        8 | 9 => {
            let to = format!("{}renamed-{}", random.pick(&DIRS), random.below(4));
            if let Some(file) = files.remove(&path) {
                put(files, to.clone(), file);
                if random.one_in(2) {
                    edit(random, files, &to);
                }
            }
        }
        10 | 11 => {
            // A whole directory moves.
            let Some((dir, _)) = path.rsplit_once('/') else {
                return;
            };
            let dir = format!("{dir}/");
            let to = format!("{}{}", random.pick(&fresh()), ["p/", "q/"][random.below(2)]);
            let moving: Vec<String> = paths
                .iter()
                .filter(|known| known.starts_with(&dir))
                .cloned()
                .collect();
            for from in moving {
                if let Some(file) = files.remove(&from) {
                    put(files, format!("{to}{}", &from[dir.len()..]), file);
                }
            }
        }
        12 => {
            if let Some((mode, _)) = files.get_mut(&path) {
                *mode = if *mode == FILE { RUN } else { FILE };
            }
        }
        13 => {
            let target = (*random.pick(&["a.txt", "d/e", "nowhere"])).to_owned();
            put(files, path, (LINK, target));
        }
        14 => {
            if let Some((FILE | RUN, text)) = files.get_mut(&path) {
                *text = if text.contains("\r\n") {
                    text.replace("\r\n", "\n")
                } else {
                    text.replace('\n', "\r\n")
                };
            }
        }
        _ => {
            // A file becomes a directory, or the other way round.
            let text = new_text(random);
            match path.rsplit_once('/') {
                Some((dir, _)) if random.one_in(2) => put(files, dir.to_owned(), (FILE, text)),
                _ => put(files, format!("{path}/inside"), (FILE, text)),
            }
        }
    }
}

fn edit(random: &mut Random, files: &mut Files, path: &str) {
    let Some((FILE | RUN, text)) = files.get_mut(path) else {
        return;
    };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for _ in 0..1 + random.below(2) {
        let at = random.below(lines.len() + 1);
        let line = format!("changed {}\n", random.below(50));
        match random.below(3) {
            0 if at < lines.len() => lines[at] = line,
            1 if at < lines.len() && lines.len() > 2 => {
                lines.remove(at);
            }
            _ => lines.insert(at, line),
        }
    }
    *text = lines.concat();
}
