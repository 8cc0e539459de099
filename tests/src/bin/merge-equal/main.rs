//! Compares what merges are said to give with what `git merge-tree` gives, one process a merge.
//!
//! `merge-equal [--histories N] [--seed S]` makes random histories: renames of files and directories, files added, changed
//! and deleted on both sides, modes, links, line endings, attributes, files where directories were, criss-cross merges.
//! `merge-equal --repo PATH [--limit N]` takes the merges of a real history. For each merge that is called clean because
//! the two sides touch different paths, git's result must be the changes of both and nothing else, to the tree id. For
//! each that git is asked about together with others, tree id and stages must be the same as when it is asked alone.
//! One line with numbers is printed; a difference is told and fails.

mod history;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use git_agent::env::Env;
use git_agent::git::diff::paths::Comparer;
use git_agent::git::merge::batch::Preview;
use git_agent::git::{ObjectId, Repo};

use history::{History, Random};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match Settings::parse(&words).and_then(|settings| run(&settings)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "merge-equal: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Settings {
    histories: usize,
    seed: u64,
    repo: Option<PathBuf>,
    limit: usize,
}

impl Settings {
    fn parse(words: &[OsString]) -> Result<Self, Failure> {
        let mut settings = Settings {
            histories: 1000,
            seed: 1,
            repo: None,
            limit: usize::MAX,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or("an option lacks its value")?;
            let text = value.to_string_lossy();
            match word.to_str() {
                Some("--histories") => settings.histories = text.parse()?,
                Some("--seed") => settings.seed = text.parse()?,
                Some("--repo") => settings.repo = Some(value.into()),
                Some("--limit") => settings.limit = text.parse()?,
                _ => return Err(format!("unknown option {word:?}").into()),
            }
        }
        Ok(settings)
    }
}

/// Two commits to be merged.
struct Case {
    name: String,
    ours: ObjectId,
    theirs: ObjectId,
    /// Whether their attributes say something about merging.
    attributes: bool,
}

fn run(settings: &Settings) -> Result<usize, Failure> {
    let scratch = tempfile::tempdir()?;
    let env = Env::from_process()?;
    let (repo, cases) = match &settings.repo {
        Some(path) => {
            let repo = Repo::open(&env, path)?;
            let cases = real_merges(path, &repo, settings.limit)?;
            (repo, cases)
        }
        None => {
            let path = scratch.path().join("r.git");
            let marks = make_histories(&path, settings)?;
            let repo = Repo::open(&env, &path)?;
            let mut cases = Vec::new();
            for (name, ours, theirs, attributes) in marks {
                cases.push(Case {
                    name,
                    ours: repo.parse_id(&ours)?,
                    theirs: repo.parse_id(&theirs)?,
                    attributes,
                });
            }
            (repo, cases)
        }
    };
    let mut judge = Judge {
        comparer: Comparer::new(&repo, 64 << 20),
        dir: repo.common_dir().to_owned(),
        index: scratch.path().join("index"),
        repo: &repo,
        tally: BTreeMap::new(),
        wrong: 0,
    };
    judge.all(&cases)?;
    let mut line = format!("merges={}", cases.len());
    for (what, count) in &judge.tally {
        write!(line, " {what}={count}")?;
    }
    writeln!(std::io::stdout(), "{line} differences={}", judge.wrong)?;
    Ok(judge.wrong)
}

/// What git says about a merge alone: whether it is clean, the tree, and the stages of paths in conflict.
struct Truth {
    clean: bool,
    tree: ObjectId,
    stages: BTreeSet<String>,
}

struct Judge<'r> {
    repo: &'r Repo,
    comparer: Comparer,
    dir: PathBuf,
    index: PathBuf,
    tally: BTreeMap<&'static str, usize>,
    wrong: usize,
}

impl Judge<'_> {
    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn differs(&mut self, case: &Case, what: &str) {
        self.wrong += 1;
        let _ = writeln!(
            std::io::stderr(),
            "{}: {what} ({} {})",
            case.name,
            case.ours,
            case.theirs
        );
    }

    fn all(&mut self, cases: &[Case]) -> Result<(), Failure> {
        let mut asked = Vec::new();
        for case in cases {
            match self
                .comparer
                .merge_bases(case.ours, case.theirs)?
                .as_slice()
            {
                [] => {
                    self.count("unrelated");
                    continue;
                }
                [base] => {
                    if self.decided_by_paths(case, *base)? {
                        continue;
                    }
                }
                _ => self.count("criss_cross"),
            }
            asked.push(case);
        }
        // As the product asks: all in one go, except where attributes differ.
        let (special, plain): (Vec<&Case>, Vec<&Case>) =
            asked.into_iter().partition(|case| case.attributes);
        let pairs: Vec<_> = plain.iter().map(|case| (case.ours, case.theirs)).collect();
        let previews = self.repo.preview_merges(&pairs, None, &[])?;
        for (case, preview) in plain.iter().zip(&previews) {
            let truth = self.truth(case, None)?;
            self.compare(case, preview, &truth);
        }
        for case in special {
            let pair = [(case.ours, case.theirs)];
            let previews = self.repo.preview_merges(&pair, Some(case.ours), &[])?;
            let truth = self.truth(case, Some(case.ours))?;
            self.compare(case, &previews[0], &truth);
        }
        Ok(())
    }

    /// Returns whether the paths alone decide a merge, after comparing that with git.
    fn decided_by_paths(&mut self, case: &Case, base: ObjectId) -> Result<bool, Failure> {
        let tree = |commit| self.repo.tree_of(commit);
        let (base, ours, theirs) = (tree(base)?, tree(case.ours)?, tree(case.theirs)?);
        let ours = self.comparer.touched(base, ours)?;
        let theirs = self.comparer.touched(base, theirs)?;
        if ours.may_meet(&theirs) {
            return Ok(false);
        }
        self.count("by_paths");
        let truth = self.truth(case, None)?;
        if !truth.clean {
            self.differs(case, "called clean by its paths, but git says conflict");
            return Ok(true);
        }
        let mut gone = String::new();
        let mut there = String::new();
        for change in ours.changes().iter().chain(theirs.changes()) {
            let path = String::from_utf8_lossy(&change.path);
            match &change.after {
                None => write!(gone, "0 {}\t{path}\0", self.repo.null_id())?,
                Some((kind, id)) => write!(there, "{:o} {id}\t{path}\0", *kind as u16)?,
            }
        }
        let git = |words: &[&str], input: &str| self.git(words, input);
        git(&["read-tree", &base.to_string()], "")?;
        git(&["update-index", "-z", "--index-info"], &gone)?;
        git(&["update-index", "-z", "--index-info"], &there)?;
        let sum = String::from_utf8(git(&["write-tree"], "")?)?;
        if self.repo.parse_id(sum.trim())? != truth.tree {
            self.differs(case, "the changes of both are not what git made of them");
        }
        Ok(true)
    }

    fn compare(&mut self, case: &Case, preview: &Preview, truth: &Truth) {
        self.count(if truth.clean {
            "asked_clean"
        } else {
            "asked_conflict"
        });
        if preview.clean != truth.clean {
            self.differs(case, "not the same verdict");
        } else if preview.tree != truth.tree {
            self.differs(case, "not the same tree");
        } else if stages(preview) != truth.stages {
            self.differs(case, "not the same conflicts");
        }
    }

    fn truth(&self, case: &Case, attributes: Option<ObjectId>) -> Result<Truth, Failure> {
        let mut command = plain_git(&self.dir);
        if let Some(attributes) = attributes {
            command.env("GIT_ATTR_SOURCE", attributes.to_string());
        }
        let output = command
            .args(["merge-tree", "--write-tree", "-z", "--no-messages"])
            .args([case.ours.to_string(), case.theirs.to_string()])
            .output()?;
        let clean = match output.status.code() {
            Some(0) => true,
            Some(1) => false,
            _ => return Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let mut fields = text.split('\0');
        let tree = self
            .repo
            .parse_id(fields.next().unwrap_or_default().trim())?;
        let stages = fields.filter(|field| !field.is_empty());
        Ok(Truth {
            clean,
            tree,
            stages: stages.map(str::to_owned).collect(),
        })
    }

    fn git(&self, words: &[&str], input: &str) -> Result<Vec<u8>, Failure> {
        let mut child = plain_git(&self.dir)
            .env("GIT_INDEX_FILE", &self.index)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("git {words:?} failed").into());
        }
        Ok(output.stdout)
    }
}

fn stages(preview: &Preview) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for conflict in &preview.conflicts {
        let sides = [&conflict.base, &conflict.ours, &conflict.theirs];
        for (number, stage) in sides.into_iter().enumerate() {
            if let Some(stage) = stage {
                let path = String::from_utf8_lossy(&conflict.path);
                all.insert(format!(
                    "{:06o} {} {}\t{path}",
                    stage.mode,
                    stage.id,
                    number + 1
                ));
            }
        }
    }
    all
}

fn plain_git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env("GIT_DIR", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

fn real_merges(path: &Path, repo: &Repo, limit: usize) -> Result<Vec<Case>, Failure> {
    let output = plain_git(path)
        .args(["rev-list", "--all", "--merges", "--parents"])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut cases = Vec::new();
    for line in text.lines().take(limit) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [commit, ours, theirs] = words.as_slice() {
            cases.push(Case {
                name: (*commit).to_owned(),
                ours: repo.parse_id(ours)?,
                theirs: repo.parse_id(theirs)?,
                attributes: false,
            });
        }
    }
    Ok(cases)
}

/// A history's two ends, by name, and whether its attributes matter.
type Ends = (String, String, String, bool);

/// Makes all histories in one repository, with one process.
fn make_histories(path: &Path, settings: &Settings) -> Result<Vec<Ends>, Failure> {
    let made = Command::new("git")
        .args(["init", "-q", "--bare"])
        .arg(path)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()?;
    if !made.success() {
        return Err("cannot make a repository".into());
    }
    let mut stream = Vec::new();
    let mut mark = 0;
    let mut ends = Vec::new();
    for number in 0..settings.histories {
        let mut random = Random(settings.seed.wrapping_mul(1_000_003) ^ number as u64);
        let history = History::make(&mut random);
        let (ours, theirs) = history.emit(&mut stream, &mut mark, number)?;
        ends.push((number, ours, theirs, history.attributes));
    }
    let marks = path.join("marks");
    let mut child = plain_git(path)
        .args(["fast-import", "--quiet"])
        .arg(format!("--export-marks={}", marks.display()))
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&stream)?;
    }
    if !child.wait()?.success() {
        return Err("cannot import the histories".into());
    }
    let text = std::fs::read_to_string(&marks)?;
    let ids: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let id = |mark: usize| -> Result<String, Failure> {
        let name = format!(":{mark}");
        Ok((*ids.get(name.as_str()).ok_or("a commit is missing")?).to_owned())
    };
    let mut found = Vec::new();
    for (number, ours, theirs, attributes) in ends {
        let name = format!("history {number} of seed {}", settings.seed);
        found.push((name, id(ours)?, id(theirs)?, attributes));
    }
    Ok(found)
}
