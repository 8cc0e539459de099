//! The repository of a trial: a user with work of their own in the checkout, and sessions with many uncommitted files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::output::Output;
use crate::process::Cmd;
use crate::repo::Repo;
use crate::sandbox::Sandbox;

use super::round::Usual;

/// An agent that works by the words of its prompt: `one`, `two` and `three` write other files and contents. The work is
/// the same whether it is done once or twice.
const AGENT: &str = r#"#!/bin/sh
set -e
dir=${2:-w}
case "$GIT_AGENT_PROMPT" in
*Merging*) exec sed -i -e '/^<<<<<<< /d' -e '/^||||||| /,/^=======$/d' -e '/^>>>>>>> /d' f ;;
esac
case "$GIT_AGENT_PROMPT" in *three*) k=3 ;; *two*) k=2 ;; *) k=1 ;; esac
echo "turn $k hunter-elephant-42"
if [ "$1" = commit ] && [ $k = 1 ]; then sed -i 's/^5$/session/' f; git diff --quiet || git commit -qam session; fi
mkdir -p "$dir" "$dir-2"
i=0
while [ $i -lt FILES ]; do echo "$k $i" >"$dir/$i"; i=$((i + 1)); done
if [ $k = 2 ]; then
    i=0
    while [ $i -lt 20 ]; do rm -f "$dir/$i"; echo "new $i" >"$dir-2/$i"; i=$((i + 1)); done
fi
if [ "$1" = hold ]; then while [ ! -e "GO" ]; do sleep 0.05; done; fi
"#;

/// What a round begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// Session `s0` is ready after two turns, with a commit and uncommitted files; the user's branch has moved on.
    Work,
    /// The worktree of `s0` was cleaned.
    Cleaned,
    /// `s0` was approved, and another session `s1` as well.
    Approved,
    /// Then `s0` was merged.
    Merged,
    /// Both wait in the queue.
    Queued,
    /// The user's branch changes the line that `s0` has changed.
    Conflict,
    /// The user's changes are in the checkout only, to be carried away.
    Alone,
    /// There is a remote; another clone has shared a session there.
    Remote,
    /// `s0` has an open comment.
    Commented,
}

/// One repository and everything beside it, to be made anew for each round.
#[derive(Debug)]
pub struct World {
    sandbox: Sandbox,
    base: PathBuf,
    files: usize,
    told: RefCell<Vec<String>>,
    pub(crate) usual: BTreeMap<&'static str, Usual>,
}

impl World {
    /// Makes a world whose sessions leave this many files uncommitted.
    pub fn new(files: usize) -> Self {
        let sandbox = Sandbox::new().with_grace(Duration::from_secs(30));
        let base = sandbox.work();
        Self::at(sandbox, base, files)
    }

    /// Makes a world whose repository is on a disk of its own, or says why there can't be one.
    pub fn on_disk(files: usize, mebibytes: u32) -> Result<Self, String> {
        let sandbox = Sandbox::new().with_grace(Duration::from_secs(30));
        let base = sandbox.small_disk(mebibytes)?;
        Ok(Self::at(sandbox, base, files))
    }

    fn at(sandbox: Sandbox, base: PathBuf, files: usize) -> Self {
        let go = base.join("go").display().to_string();
        let script = AGENT
            .replace("FILES", &files.to_string())
            .replace("GO", &go);
        sandbox.program("trial-agent", &script);
        fs::create_dir(sandbox.root().join("templates")).expect("the sandbox is writable");
        World {
            sandbox,
            base,
            files,
            told: RefCell::default(),
            usual: BTreeMap::new(),
        }
    }

    /// Returns the sandbox.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the directory that the repository and its worktrees are in.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns how many files a session leaves uncommitted.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Returns the user's checkout.
    pub fn repo(&self) -> Repo<'_> {
        Repo::open(&self.sandbox, self.base.join("r"))
    }

    /// Returns git with these words, about to be started in the user's checkout.
    pub fn command(&self, words: &[&str]) -> Cmd {
        self.repo()
            .command("git")
            .args(words)
            .time_limit(Duration::from_secs(180))
    }

    /// Runs git with these words and remembers what it said.
    pub fn run(&self, words: &[&str]) -> Output {
        self.tell(self.command(words).run().whatever())
    }

    /// Remembers what a command said, to be kept if the round breaks.
    pub fn tell(&self, output: Output) -> Output {
        self.note(format!("{output}"));
        output
    }

    /// Remembers a line.
    pub fn note(&self, words: String) {
        self.told.borrow_mut().push(words);
    }

    /// Lets agents that wait go on.
    pub fn go(&self) {
        // A full disk may refuse it; then the round says that a process stayed.
        let _ = fs::write(self.base.join("go"), "");
    }

    /// Keeps what is there now beside what was said, for a person, and returns where.
    pub fn keep(&self, name: &str) -> Option<PathBuf> {
        let dir = std::env::temp_dir()
            .join(format!("hostile-trial-{}", std::process::id()))
            .join(name);
        // An earlier round of this name.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).ok()?;
        let told = self.told.borrow().join("\n----\n");
        fs::write(dir.join("said.txt"), told).ok()?;
        copy(&self.base, &dir.join("files")).ok()?;
        Some(dir)
    }

    /// Puts the world back to what a scene begins with.
    pub fn reset(&self, scene: Scene) -> Result<(), String> {
        let template = self.template(scene);
        if !template.is_dir() {
            self.empty()?;
            self.build(scene)?;
            self.idle(Duration::from_secs(60))?;
            copy(&self.base, &template)?;
        }
        self.empty()?;
        copy(&template, &self.base)?;
        self.told.borrow_mut().clear();
        Ok(())
    }

    fn template(&self, scene: Scene) -> PathBuf {
        self.sandbox
            .root()
            .join("templates")
            .join(format!("{scene:?}"))
    }

    /// Takes everything away.
    pub fn empty(&self) -> Result<(), String> {
        let entries = fs::read_dir(&self.base).map_err(|error| error.to_string())?;
        for entry in entries.flatten() {
            let path = entry.path();
            let gone = if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            gone.map_err(|error| format!("cannot empty {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Waits until no process of this world is left.
    pub fn idle(&self, patience: Duration) -> Result<(), String> {
        let left = self.settled(patience);
        match left.first() {
            None => Ok(()),
            Some(one) => Err(format!(
                "{} processes were left, one of them '{}'",
                left.len(),
                one.command.trim()
            )),
        }
    }

    /// Waits until no process of this world is left, and returns those that are.
    pub fn settled(&self, patience: Duration) -> Vec<crate::survivors::Survivor> {
        let deadline = std::time::Instant::now() + patience;
        loop {
            let left = self.sandbox.survivors();
            if left.is_empty() || std::time::Instant::now() > deadline {
                return left;
            }
            // A look goes through every process of the machine.
            std::thread::sleep(Duration::from_millis(40));
        }
    }

    fn must(&self, words: &[&str]) -> Result<(), String> {
        let done = self.run(words);
        if done.status().success() {
            Ok(())
        } else {
            Err(format!("the scene can't be made: {done}"))
        }
    }

    fn must_all(&self, commands: &[&[&str]]) -> Result<(), String> {
        commands.iter().try_for_each(|words| self.must(words))
    }

    fn build(&self, scene: Scene) -> Result<(), String> {
        match scene {
            Scene::Work => {
                self.build_base()?;
                self.build_session("s0", "w")?;
                self.repo().write("main-moved", "moved\n");
                self.repo().commit("the user goes on");
                self.build_dirt()
            }
            Scene::Alone => {
                self.build_base()?;
                self.build_dirt()
            }
            Scene::Conflict => {
                self.build_base()?;
                self.build_session("s0", "w")?;
                self.repo().write("f", "1\n2\n3\n4\nmain\n6\n7\n8\n9\n");
                self.repo().commit("the same line");
                self.build_dirt()
            }
            Scene::Approved => {
                self.build_base()?;
                self.build_session("s0", "w")?;
                self.build_session("s1", "v")?;
                self.repo().write("main-moved", "moved\n");
                self.repo().commit("the user goes on");
                self.build_dirt()?;
                self.must_all(&[
                    &["agent", "review", "approve", "s0"],
                    &["agent", "review", "approve", "s1"],
                ])
            }
            Scene::Remote => {
                self.reset(Scene::Work)?;
                self.build_remote()
            }
            Scene::Cleaned => self.on_top(Scene::Work, &[&["agent", "clean", "s0"]]),
            Scene::Merged => self.on_top(
                Scene::Approved,
                &[&["agent", "merge", "--yes", "--into", "main", "s0"]],
            ),
            Scene::Queued => self.on_top(
                Scene::Approved,
                &[&["agent", "merge", "queue", "add", "s0", "s1"]],
            ),
            Scene::Commented => self.on_top(
                Scene::Work,
                &[&["agent", "review", "comment", "s0", "-m", "do three"]],
            ),
        }
    }

    fn on_top(&self, scene: Scene, commands: &[&[&str]]) -> Result<(), String> {
        self.reset(scene)?;
        self.must_all(commands)
    }

    fn build_base(&self) -> Result<(), String> {
        let repo = self.sandbox.repo_at(self.base.join("r")).create();
        repo.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        for at in 0..40 {
            repo.write(format!("src/{at}"), format!("source {at}\n"));
        }
        for name in ["staged", "dirty", "kept-1", "kept-2"] {
            repo.write(name, format!("{name}\n"));
        }
        repo.commit("the base");
        let command = format!(
            "fake-acp --store '{}'",
            self.base.join("conversations").display()
        );
        self.must_all(&[
            &["config", "agent.fake.command", &command],
            &["config", "agent.fake.driver", "acp"],
        ])?;
        fs::create_dir(self.base.join("conversations")).map_err(|error| error.to_string())?;
        for name in ["kept-1", "kept-2"] {
            repo.write(name, "in a stash\n");
            self.must(&["stash", "push", "-q", "-m", name])?;
        }
        Ok(())
    }

    fn build_session(&self, name: &str, dir: &str) -> Result<(), String> {
        let how = match name {
            "s0" => "commit",
            _ => "plain",
        };
        self.must_all(&[
            &["agent", "new", name, "--", "trial-agent", how, dir],
            &["agent", "wait", name],
            &["agent", "send", name, "do two"],
            &["agent", "wait", name],
        ])
    }

    /// Leaves work of the user in the checkout: staged, changed and untracked.
    fn build_dirt(&self) -> Result<(), String> {
        let repo = self.repo();
        repo.write("staged", "staged by the user\n");
        self.must(&["add", "staged"])?;
        repo.write("dirty", "changed by the user\n");
        repo.write("untracked", "new by the user\n");
        Ok(())
    }

    fn build_remote(&self) -> Result<(), String> {
        let hub = self.base.join("hub.git");
        let hub = hub.to_str().ok_or("a path that is no text")?;
        self.must_all(&[
            &["init", "-q", "--bare", "-b", "main", hub],
            &["remote", "add", "origin", hub],
            &["push", "-q", "origin", "main"],
        ])?;
        let mate = self.base.join("mate");
        let mate = mate.to_str().ok_or("a path that is no text")?;
        self.must_all(&[
            &["clone", "-q", hub, mate],
            &[
                "-C",
                mate,
                "agent",
                "new",
                "theirs",
                "--",
                "trial-agent",
                "commit",
            ],
            &["-C", mate, "agent", "wait", "theirs"],
            &["-C", mate, "agent", "push", "-y", "origin"],
        ])
    }
}

/// Copies a directory's content, times and links included.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| error.to_string())?;
    let done = std::process::Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .arg(from.join("."))
        .arg(to)
        .output()
        .map_err(|error| error.to_string())?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!(
            "cannot copy {} to {}: {}",
            from.display(),
            to.display(),
            String::from_utf8_lossy(&done.stderr)
        ))
    }
}
