//! Measures sharing beside plain git moving the same objects, in one run: medians, least times, and their ratios.
//!
//! `bench-share [--runs R] [--dir PATH]` pushes and fetches sessions by path, asks for news over every protocol that needs
//! nothing but git, and measures the user's own git with many shared sessions around. Everything happens in a directory of
//! its own, which is removed at the end; nothing leaves this machine.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use git_agent::model::session::State;
use git_agent_tests::bench::{self, Failure, Options, median, millis, ratio};
use git_agent_tests::imported::{Conversations, LONG_AGO, import_conversations};

/// What a clone that writes sessions is told.
const WRITER: [(&str, &str); 4] = [
    ("user.name", "Ada"),
    ("user.email", "ada@example.com"),
    ("gc.auto", "0"),
    ("agent.writer", "ada-1a2b"),
];
/// How a clone reaches sessions that the host hides where code is pushed.
const DOOR: [(&str, &str); 3] = [
    (
        "remote.agents.receivepack",
        "git -c receive.hideRefs='!refs/agents' receive-pack",
    ),
    (
        "remote.agents.uploadpack",
        "git -c uploadpack.hideRefs='!refs/agents' upload-pack",
    ),
    ("agent.remote", "agents"),
];

fn main() -> ExitCode {
    bench::main("bench-share", |words| {
        let options = Options::parse(words, &["--runs", "--dir"])?;
        let dir = tempfile::Builder::new()
            .prefix("bench-share-")
            .tempdir_in(options.dir())?;
        let world = World {
            root: dir.path().to_owned(),
            path: bench::search_path()?,
            runs: options.runs(5)?,
        };
        world.measure()
    })
}

struct World {
    root: PathBuf,
    /// Where programs are looked for.
    path: OsString,
    runs: usize,
}

/// A server that ends with the value.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn report(what: &str, ours: &[Duration], plain: &[Duration], limit: f64) -> Result<(), Failure> {
    let least = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let (our_least, plain_least) = (least(ours), least(plain));
    let (ours, plain) = (median(ours.to_vec()), median(plain.to_vec()));
    let found = ratio(ours, plain);
    let verdict = if found <= limit { "holds" } else { "FAILS" };
    say(&format!(
        "{what}: {:.1} ms, plain git {:.1} ms, ratio {found:.2} (at most {limit}): {verdict}; least {:.1} and {:.1} ms, {:.2}",
        millis(ours),
        millis(plain),
        millis(our_least),
        millis(plain_least),
        ratio(our_least, plain_least),
    ))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl World {
    fn command(&self, program: &str, dir: &Path) -> Command {
        let mut command = bench::quiet(program, dir);
        command.env("PATH", &self.path);
        command
    }

    fn git(&self, dir: &Path, words: &[&str]) -> Result<String, Failure> {
        let mut command = self.command("git", dir);
        let output = command.args(words).stdout(Stdio::piped()).output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("git {}: {said}", words.join(" ")).into())
    }

    fn timed(&self, dir: &Path, words: &[&str]) -> Result<Duration, Failure> {
        let begun = Instant::now();
        self.git(dir, words)?;
        Ok(begun.elapsed())
    }

    fn configure(&self, dir: &Path, settings: &[(&str, &str)]) -> Result<(), Failure> {
        for (key, value) in settings {
            self.git(dir, &["config", key, value])?;
        }
        Ok(())
    }

    /// Makes a repository with one commit.
    fn make(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.root.join(name);
        fs::create_dir_all(&path)?;
        self.git(&path, &["init", "--quiet", "-b", "main"])?;
        self.configure(&path, &WRITER)?;
        for at in 0..200 {
            fs::write(path.join(format!("file{at}")), format!("content {at}\n"))?;
        }
        self.git(&path, &["add", "."])?;
        self.git(&path, &["commit", "--quiet", "-m", "begin"])?;
        Ok(path)
    }

    fn bare(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.root.join(name);
        fs::create_dir_all(&path)?;
        self.git(&path, &["init", "--quiet", "--bare", "-b", "main"])?;
        Ok(path)
    }

    fn measure(&self) -> Result<(), Failure> {
        self.push_hundred()?;
        self.fetch_thousand()?;
        let writer = self.root.join("writer");
        let none = self.bare("none.git")?;
        self.git(&writer, &["push", "--quiet", &shown(&none), "main"])?;
        let thousand = self.root.join("thousand.git");
        self.own_git((&thousand, &none), "1,000 open sessions")?;
        self.hide(&thousand)?;
        let shape = "1,000 open sessions that the host hides there";
        self.own_git((&thousand, &none), shape)?;
        let folded = self.housekeeping()?;
        let shape = "40 open sessions and 960 closed";
        self.own_git((&folded, &none), shape)
    }

    fn push_hundred(&self) -> Result<(), Failure> {
        let from = self.make("pusher")?;
        import_conversations(&from, &Conversations::now(100, 50))?;
        let listed = ["for-each-ref", "--format=%(refname)", "refs/agents"];
        let listed = self.git(&from, &listed)?;
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for run in 0..self.runs {
            for side in 0..2 {
                let hub = shown(&self.bare(&format!("hub-{run}-{side}"))?);
                self.git(&from, &["push", "--quiet", &hub, "main"])?;
                if (side + run) % 2 == 0 {
                    let mut words = vec!["push", "--quiet", &hub];
                    words.extend(listed.lines());
                    plain.push(self.timed(&from, &words)?);
                } else {
                    let name = format!("r{run}");
                    self.git(&from, &["remote", "add", &name, &hub])?;
                    self.git(&from, &["config", "--add", "agent.share", &hub])?;
                    ours.push(self.timed(&from, &["agent", "push", &name])?);
                }
            }
        }
        report("push of 100 new sessions of 50 turns", &ours, &plain, 1.3)
    }

    fn fetch_thousand(&self) -> Result<(), Failure> {
        let from = self.make("writer")?;
        import_conversations(&from, &Conversations::now(1_000, 20))?;
        self.git(&from, &["repack", "-adq"])?;
        let hub = self.bare("thousand.git")?;
        let address = shown(&hub);
        let all = "refs/agents/sessions/*:refs/agents/sessions/*";
        self.git(&from, &["push", "--quiet", &address, "main", all])?;
        self.git(&hub, &["pack-refs", "--all"])?;
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        let mut reader = PathBuf::new();
        for run in 0..self.runs {
            for side in 0..2 {
                let to = self.root.join(format!("reader-{run}-{side}"));
                // By path git would take all objects of the other repository, and nothing would be left to fetch.
                let clone = ["clone", "--quiet", "--no-local", &address, &shown(&to)];
                self.git(&self.root, &clone)?;
                if (side + run) % 2 == 0 {
                    let spec = "refs/agents/sessions/*:refs/copied/*";
                    let fetch = ["fetch", "--quiet", "--no-tags", "origin", spec];
                    plain.push(self.timed(&to, &fetch)?);
                } else {
                    ours.push(self.timed(&to, &["agent", "fetch"])?);
                    reader = to;
                }
            }
        }
        report("fetch of 1,000 sessions", &ours, &plain, 1.5)?;
        self.nothing_new(&reader, "by path")?;
        let (_daemon, port) = self.daemon()?;
        let address = format!("git://127.0.0.1:{port}/thousand.git");
        self.git(&reader, &["remote", "set-url", "origin", &address])?;
        self.nothing_new(&reader, "from a git daemon")?;
        let (_web, port) = self.web()?;
        let address = format!("http://127.0.0.1:{port}/thousand.git");
        self.git(&reader, &["remote", "set-url", "origin", &address])?;
        self.nothing_new(&reader, "over the web")
    }

    fn nothing_new(&self, reader: &Path, way: &str) -> Result<(), Failure> {
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..self.runs * 4 {
            ours.push(self.timed(reader, &["agent", "fetch"])?);
            plain.push(self.timed(reader, &["ls-remote", "origin"])?);
        }
        let what = format!("a fetch with nothing new, {way}");
        report(&what, &ours, &plain, 1.2)
    }

    /// Starts a git daemon, and returns it with its port once it answers.
    fn daemon(&self) -> Result<(Served, u16), Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = self
            .command("git", &self.root)
            .args(["daemon", "--export-all", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", shown(&self.root)))
            .arg(&self.root)
            .stderr(Stdio::null())
            .spawn()?;
        let served = Served(child);
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok((served, port));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("the git daemon does not answer".into())
    }

    /// Starts the small web server beside this program, and returns it with its port.
    fn web(&self) -> Result<(Served, u16), Failure> {
        let mut command = self.command("git-web", &self.root);
        command.arg(&self.root);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take();
        let served = Served(child);
        let mut port = String::new();
        BufReader::new(stdout.ok_or("no output")?).read_line(&mut port)?;
        Ok((served, port.trim().parse()?))
    }

    /// Hides the sessions at a host as the doctor advises, and checks that they can still be shared.
    fn hide(&self, hub: &Path) -> Result<(), Failure> {
        self.configure(hub, &[("transfer.hideRefs", "refs/agents")])?;
        let writer = self.root.join("writer");
        self.configure(&writer, &DOOR)?;
        self.configure(&writer, &[("remote.agents.url", &shown(hub))])?;
        let pushed = self.git(&writer, &["agent", "push", "--yes"])?;
        let listed = self.git(&writer, &["ls-remote", "agents"])?;
        let refs = listed.lines().filter(|line| line.contains("refs/agents"));
        let told = pushed.lines().count();
        say(&format!(
            "hidden where code is pushed: {} refs at the other address, a push of ours told of {told} changes",
            refs.count()
        ))
    }

    /// Shares what a year leaves behind, as it is by itself after a push: 40 sessions at work, 460 closed long ago and 500
    /// just now.
    fn housekeeping(&self) -> Result<PathBuf, Failure> {
        let from = self.root.join("keeper");
        let hub = self.bare("folded.git")?;
        let writer = shown(&self.root.join("writer"));
        self.git(&self.root, &["clone", "--quiet", &writer, &shown(&from)])?;
        self.configure(&from, &WRITER)?;
        self.configure(&from, &[("remote.origin.url", &shown(&hub))])?;
        self.git(&from, &["push", "--quiet", "origin", "main"])?;
        import_conversations(&from, &Conversations::now(40, 20))?;
        let today = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        for (count, at) in [(460, LONG_AGO), (500, u64::try_from(today)?)] {
            let closed = Conversations {
                count,
                turns: 2,
                state: State::Merged,
                at,
            };
            import_conversations(&from, &closed)?;
        }
        self.git(&from, &["agent", "push", "--yes"])?;
        let listed = ["for-each-ref", "--format=%(refname)", "refs/agents"];
        let refs = self.git(&hub, &listed)?.lines().count();
        say(&format!("1,000 sessions, 960 of them closed: {refs} refs"))?;
        self.git(&hub, &["pack-refs", "--all"])?;
        Ok(hub)
    }

    /// What the user's own git takes with shared sessions around, beside the same without.
    fn own_git(&self, (with, without): (&Path, &Path), shape: &str) -> Result<(), Failure> {
        let place = tempfile::Builder::new()
            .prefix("own-")
            .tempdir_in(&self.root)?;
        let place = place.path();
        let mut clones = Vec::new();
        for (side, hub) in [with, without].into_iter().enumerate() {
            let to = place.join(side.to_string());
            let address = shown(hub);
            self.git(&self.root, &["clone", "--quiet", &address, &shown(&to)])?;
            self.configure(&to, &[("gc.auto", "0")])?;
            if hub == with {
                self.configure(&to, &DOOR)?;
                self.configure(&to, &[("remote.agents.url", &address)])?;
                self.git(&to, &["agent", "fetch"])?;
            }
            clones.push((to, address));
        }
        for what in ["status", "fetch", "push", "clone"] {
            let mut times = [Vec::new(), Vec::new()];
            for run in 0..self.runs * 4 {
                for (side, (clone, address)) in clones.iter().enumerate() {
                    let target = shown(&place.join(format!("clone-{run}-{side}")));
                    let time = match what {
                        "status" => self.timed(clone, &["status", "--porcelain"])?,
                        "fetch" => self.timed(clone, &["fetch", "--quiet"])?,
                        "push" => {
                            let more = ["commit", "--quiet", "--allow-empty", "-m", "more"];
                            self.git(clone, &more)?;
                            self.timed(clone, &["push", "--quiet"])?
                        }
                        _ => self.timed(&self.root, &["clone", "--quiet", address, &target])?,
                    };
                    times[side].push(time);
                }
            }
            let [ours, plain] = times;
            report(&format!("git {what} with {shape}"), &ours, &plain, 1.1)?;
        }
        Ok(())
    }
}
