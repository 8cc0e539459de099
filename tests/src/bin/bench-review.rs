//! Measures reviewing beside the git commands it stands for, in the same run.
//!
//! `bench-review [--comments N] [--lines L] [--files F] [--sessions S] [--runs R] [--dir PATH]`: the first screen of `git
//! agent review diff` on a diff of that many lines with that many comments, in a repository with that many other files,
//! against `git diff` of the two commits, against `git diff` of the session's files with where it began, and against a
//! script of git commands that does the same job (from the merge base, with what is not committed, after a look for
//! untracked files); and the table of that many sessions, against one `git diff --stat` for each. The programs are those
//! beside this one. The least of all runs tells most on a machine that has other work.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use git_agent::context::Context;
use git_agent::env::{Env, Terminals};
use git_agent::git::Repo;
use git_agent::model::review::{Action, CommentPlace, Side};
use git_agent::model::session::Person;
use git_agent::review::anchors::{self, Pointed};
use git_agent::review::records;
use git_agent::selection;
use git_agent::session::worktree::work::{self, Keep};
use git_agent_tests::bench::{self, Failure, Options, median, millis, ratio};

/// What a person sees before scrolling.
const SCREEN: usize = 50;
const FILES: usize = 40;

fn main() -> ExitCode {
    bench::main("bench-review", |words| {
        let known = [
            "--comments",
            "--lines",
            "--files",
            "--sessions",
            "--runs",
            "--dir",
        ];
        let options = Options::parse(words, &known)?;
        measure(&Settings {
            comments: options.number("--comments", 1_000)?,
            lines: options.number("--lines", 20_000)?,
            files: options.number("--files", 5_000)?,
            sessions: options.number("--sessions", 20)?,
            runs: options.runs(15)?,
            dir: options.dir(),
        })
    })
}

struct Settings {
    comments: usize,
    lines: usize,
    files: usize,
    sessions: usize,
    runs: usize,
    dir: PathBuf,
}

fn measure(settings: &Settings) -> Result<(), Failure> {
    let Settings {
        comments,
        lines,
        files,
        sessions,
        runs,
        ..
    } = *settings;
    let dir = tempfile::Builder::new()
        .prefix("bench-review-")
        .tempdir_in(&settings.dir)?;
    let place = Bench::new(dir.path(), files)?;
    let mut out = std::io::stdout().lock();

    place.big_session(lines)?;
    place.comment(comments, lines)?;
    let base = place.git(&["merge-base", "main", "agent/big"])?;
    let base = base.trim();
    place.script()?;
    let ours = ["agent", "review", "diff", "big"];
    let commits = ["diff", base, "agent/big"];
    let start = ["agent", "review", "--version"];
    let tree = place.tree("big");
    let tree = tree.to_str().ok_or("the place is no UTF-8")?;
    let in_tree = ["-C", tree, "diff", base];
    let mut times: [Vec<Duration>; 7] = Default::default();
    for _ in 0..runs {
        times[0].push(place.first_screen(&ours, SCREEN)?);
        times[1].push(place.first_screen(&commits, SCREEN)?);
        times[2].push(place.first_screen(&in_tree, SCREEN)?);
        times[3].push(place.first_screen(&["same-job"], SCREEN)?);
        times[4].push(place.first_screen(&start, 1)?);
        times[5].push(place.first_screen(&ours, usize::MAX)?);
        times[6].push(place.first_screen(&in_tree, usize::MAX)?);
    }
    let [ours, commits, in_tree, same, start, all_ours, all_theirs] = times;
    writeln!(
        out,
        "{comments} comments on {lines} lines, {files} other files, median (and least) of {runs} runs"
    )?;
    let what = "first screen of git agent review diff";
    tell(
        &mut out,
        what,
        "… of git diff, two commits",
        &ours,
        &commits,
    )?;
    tell(&mut out, what, "… of git diff, the files", &ours, &in_tree)?;
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
    for _ in 0..runs {
        let start = Instant::now();
        place.git(&["agent", "review"])?;
        ours.push(start.elapsed());
        let start = Instant::now();
        for number in 0..sessions {
            place.git_in(
                &place.tree(&format!("s{number}")),
                &["diff", "--stat", base],
            )?;
        }
        theirs.push(start.elapsed());
    }
    writeln!(
        out,
        "{sessions} sessions, median (and least) of {runs} runs"
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
) -> Result<(), Failure> {
    for (name, times) in [(ours, our_times), (theirs, their_times)] {
        writeln!(
            out,
            "  {name:<40} {:>8.1} ({:.1}) ms",
            millis(median(times.to_vec())),
            millis(least(times))
        )?;
    }
    writeln!(
        out,
        "  {:<40} {:>8.2} ({:.2})",
        "ratio",
        ratio(median(our_times.to_vec()), median(their_times.to_vec())),
        ratio(least(our_times), least(their_times))
    )?;
    Ok(())
}

fn least(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap_or_default()
}

/// A repository with sessions.
struct Bench {
    top: PathBuf,
    home: PathBuf,
    path: OsString,
}

impl Bench {
    fn new(dir: &Path, files: usize) -> Result<Self, Failure> {
        let mut path = bench::search_path()?;
        path.push(":");
        path.push(dir.join("home"));
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
        for file in 0..files {
            let folder = bench.top.join(format!("more/{}", file / 50));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{file}.txt")), format!("{file}\n"))?;
        }
        bench.git(&["add", "-A"])?;
        bench.git(&["commit", "-q", "-m", "seed"])?;
        Ok(bench)
    }

    /// Returns a session's worktree.
    fn tree(&self, session: &str) -> PathBuf {
        self.top.with_file_name("repo-worktrees").join(session)
    }

    fn command(&self, top: &Path, words: &[&str]) -> Command {
        let mut command = bench::quiet("git", top);
        command
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .args(words);
        command
    }

    fn git(&self, words: &[&str]) -> Result<String, Failure> {
        self.git_in(&self.top, words)
    }

    fn git_in(&self, top: &Path, words: &[&str]) -> Result<String, Failure> {
        let output = self.command(top, words).stdout(Stdio::piped()).output()?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("git {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }

    fn session(&self, name: &str, script: &str) -> Result<(), Failure> {
        self.git(&["agent", "new", "--name", name, "bench", "--", script])?;
        self.git(&["agent", "wait", "--timeout", "120s", name])?;
        Ok(())
    }

    fn big_session(&self, lines: usize) -> Result<(), Failure> {
        let each = lines / FILES;
        let script = format!(
            "for f in $(seq 0 {}); do seq -f \"line %.0f of file $f\" 1 {each} >file$f.txt; done; git commit -qam big",
            FILES - 1
        );
        self.session("big", &script)
    }

    /// Makes `git same-job`: what a person would type to see the same.
    fn script(&self) -> Result<(), Failure> {
        let tree = self.tree("big");
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

    fn many_sessions(&self, sessions: usize) -> Result<(), Failure> {
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
    fn comment(&self, comments: usize, lines: usize) -> Result<(), Failure> {
        let variables = vec![("HOME".into(), self.home.clone().into())];
        let env = Env::new(self.top.clone(), variables, Terminals::default());
        let repo = Repo::open(&env, &self.top.join(".git"))?;
        let context = Context::new(&env, &repo)?;
        let listed = selection::select_one(&context, Some("big"))?;
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
                of: None,
                at: Some(CommentPlace::Code(place)),
                body: format!("remark {number} on this line"),
                severity: None,
            });
        }
        let who = Person {
            name: "Bench".to_owned(),
            email: "bench@example.com".to_owned(),
        };
        records::write(&context, listed.session.sid, work.tip, &who, actions)?;
        Ok(())
    }

    /// Returns how long it takes until this many lines are there.
    fn first_screen(&self, words: &[&str], lines: usize) -> Result<Duration, Failure> {
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
