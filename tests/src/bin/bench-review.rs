//! Measures reviewing beside the git commands it stands for, in the same run.
//!
//! `bench-review [comments] [lines] [sessions] [rounds]`: the first screen of `git agent review diff` on a diff of that
//! many lines with that many comments, against `git diff` of the two commits, and against a script of git commands that
//! does the same job (from the merge base, with what is not committed, after a look for untracked files); and the table of
//! that many sessions, against one `git diff --stat` for each. The programs are those beside this one. The least of all
//! rounds tells most on a machine that has other work.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use git_agent::env::{Env, Terminals};
use git_agent::git::Repo;
use git_agent::review::{Action, Place, Side};
use git_agent::session::anchors::{self, Pointed};
use git_agent::session::context::Context;
use git_agent::session::work::{self, Keep};
use git_agent::session::{Person, remark, select};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What a person sees before scrolling.
const SCREEN: usize = 50;
const FILES: usize = 40;

fn main() -> Outcome {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|word| word.parse::<usize>())
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let comments = numbers.next().unwrap_or(1_000);
    let lines = numbers.next().unwrap_or(20_000);
    let sessions = numbers.next().unwrap_or(20);
    let rounds = numbers.next().unwrap_or(15);
    let dir = tempfile::tempdir()?;
    let place = Bench::new(dir.path())?;
    let mut out = std::io::stdout().lock();

    place.big_session(lines)?;
    place.comment(comments, lines)?;
    let base = place.git(&["merge-base", "main", "agent/big"])?;
    let base = base.trim();
    place.script()?;
    let ours = ["agent", "review", "diff", "big"];
    let commits = ["diff", base, "agent/big"];
    let start = ["agent", "review", "--version"];
    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..rounds {
        times[0].push(place.first_screen(&ours, SCREEN)?);
        times[1].push(place.first_screen(&commits, SCREEN)?);
        times[2].push(place.first_screen(&["same-job"], SCREEN)?);
        times[3].push(place.first_screen(&start, 1)?);
        times[4].push(place.first_screen(&ours, usize::MAX)?);
        times[5].push(place.first_screen(&commits, usize::MAX)?);
    }
    let [ours, commits, same, start, all_ours, all_theirs] = times;
    writeln!(
        out,
        "{comments} comments on {lines} lines, median (and least) of {rounds} rounds"
    )?;
    let what = "first screen of git agent review diff";
    tell(
        &mut out,
        what,
        "… of git diff, two commits",
        &ours,
        &commits,
    )?;
    tell(
        &mut out,
        what,
        "… of the same job by a script",
        &ours,
        &same,
    )?;
    let begun = "starting the programs alone";
    tell(
        &mut out,
        begun,
        "… of git diff, two commits",
        &start,
        &commits,
    )?;
    let whole = "all of git agent review diff";
    tell(&mut out, whole, "all of git diff", &all_ours, &all_theirs)?;

    place.many_sessions(sessions)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        place.git(&["agent", "review"])?;
        ours.push(start.elapsed());
        let start = Instant::now();
        for number in 0..sessions {
            let tree = place
                .top
                .with_file_name("repo-worktrees")
                .join(format!("s{number}"));
            place.git_in(&tree, &["diff", "--stat", base])?;
        }
        theirs.push(start.elapsed());
    }
    writeln!(
        out,
        "{sessions} sessions, median (and least) of {rounds} rounds"
    )?;
    tell(
        &mut out,
        "git agent review",
        "git diff --stat of each",
        &ours,
        &theirs,
    )?;
    Ok(())
}

fn tell(
    out: &mut dyn Write,
    ours: &str,
    theirs: &str,
    our_times: &[Duration],
    their_times: &[Duration],
) -> Outcome {
    let (one, other) = (Figures::of(our_times), Figures::of(their_times));
    for (name, figures) in [(ours, &one), (theirs, &other)] {
        writeln!(
            out,
            "  {name:<40} {:>8.1} ({:.1}) ms",
            figures.median, figures.least
        )?;
    }
    writeln!(
        out,
        "  {:<40} {:>8.2} ({:.2})",
        "ratio",
        one.median / other.median,
        one.least / other.least
    )?;
    Ok(())
}

/// Times in milliseconds.
struct Figures {
    median: f64,
    least: f64,
}

impl Figures {
    fn of(times: &[Duration]) -> Self {
        let mut times = times.to_vec();
        times.sort();
        let millis = |at: usize| {
            times
                .get(at)
                .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
        };
        Figures {
            median: millis(times.len() / 2),
            least: millis(0),
        }
    }
}

/// A repository with sessions.
struct Bench {
    top: PathBuf,
    home: PathBuf,
    path: OsString,
}

impl Bench {
    fn new(dir: &Path) -> Outcome<Self> {
        let mut path = std::env::current_exe()?
            .parent()
            .ok_or("no directory")?
            .as_os_str()
            .to_owned();
        path.push(":");
        path.push(dir.join("home"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let bench = Bench {
            top: dir.join("repo"),
            home: dir.join("home"),
            path,
        };
        fs::create_dir(&bench.top)?;
        fs::create_dir(&bench.home)?;
        for words in [
            &["init", "-q", "-b", "main"][..],
            &["config", "gc.auto", "0"],
            &["config", "user.name", "Bench"],
            &["config", "user.email", "bench@example.com"],
        ] {
            bench.git(words)?;
        }
        for file in 0..FILES {
            fs::write(bench.top.join(format!("file{file}.txt")), "a file\n")?;
        }
        bench.git(&["add", "-A"])?;
        bench.git(&["commit", "-q", "-m", "seed"])?;
        Ok(bench)
    }

    fn command(&self, top: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(top)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .args(words);
        command
    }

    fn git(&self, words: &[&str]) -> Outcome<String> {
        self.git_in(&self.top, words)
    }

    fn git_in(&self, top: &Path, words: &[&str]) -> Outcome<String> {
        let output = self.command(top, words).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                Err(format!("git {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
            }
        }
    }

    fn session(&self, name: &str, script: &str) -> Outcome {
        self.git(&["agent", "new", "--name", name, "bench", "--", script])?;
        self.git(&["agent", "wait", "--timeout", "120s", name])?;
        Ok(())
    }

    fn big_session(&self, lines: usize) -> Outcome {
        let each = lines / FILES;
        let script = format!(
            "for f in $(seq 0 {}); do seq -f \"line %.0f of file $f\" 1 {each} >file$f.txt; done; git commit -qam big",
            FILES - 1
        );
        self.session("big", &script)
    }

    /// Makes `git same-job`: what a person would type to see the same.
    fn script(&self) -> Outcome {
        let tree = self.top.with_file_name("repo-worktrees").join("big");
        let text = format!(
            "#!/bin/sh\ncd '{}' || exit\ntest -z \"$(git ls-files --others --exclude-standard)\" || exit\n\
             exec git diff -M --merge-base main\n",
            tree.display()
        );
        let path = self.home.join("git-same-job");
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn many_sessions(&self, sessions: usize) -> Outcome {
        for number in 0..sessions {
            let script = format!(
                "for f in $(seq 0 9); do seq -f \"line %.0f by {number}\" 1 50 >new$f-{number}.txt; done; \
                 git add -A; git commit -qm work; echo loose >>file{}.txt",
                number % FILES
            );
            self.session(&format!("s{number}"), &script)?;
        }
        Ok(())
    }

    /// Writes comments spread over all lines, as one person's.
    fn comment(&self, comments: usize, lines: usize) -> Outcome {
        let variables = vec![("HOME".into(), self.home.clone().into())];
        let env = Env::new(self.top.clone(), variables, Terminals::default());
        let repo = Repo::open(&env, &self.top.join(".git"))?;
        let context = Context::new(&env, &repo)?;
        let listed = select::select_one(&context, Some("big"))?;
        let work = work::look(&context, &listed, Keep::Snapshot)?;
        let each = lines / FILES;
        let mut actions = Vec::with_capacity(comments);
        for number in 0..comments {
            let line = number * lines / comments;
            let at = u32::try_from(line % each + 1)?;
            let pointed = Pointed {
                path: format!("file{}.txt", line / each).into_bytes(),
                lines: Some((at, at)),
                side: Side::New,
            };
            let place = anchors::point(&context, &listed.session, &work, &pointed)?;
            actions.push(Action::Comment {
                target: None,
                at: Some(Place::Code(place)),
                body: format!("remark {number} on this line"),
                severity: None,
            });
        }
        let who = Person {
            name: "Bench".to_owned(),
            email: "bench@example.com".to_owned(),
        };
        remark::write(&context, listed.session.sid, work.tip, &who, actions)?;
        Ok(())
    }

    /// Returns how long it takes until this many lines are there.
    fn first_screen(&self, words: &[&str], lines: usize) -> Outcome<Duration> {
        let start = Instant::now();
        let mut child = self
            .command(&self.top, words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut reader = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = Vec::new();
        let mut seen = 0;
        while seen < lines && reader.read_until(b'\n', &mut line)? > 0 {
            line.clear();
            seen += 1;
        }
        let time = start.elapsed();
        drop(reader);
        child.wait()?;
        if seen < lines.min(SCREEN) {
            return Err(format!("git {words:?} shows only {seen} lines").into());
        }
        Ok(time)
    }
}
