//! Several clones of one repository and the way between them: a path, or a web server in front of `git http-backend`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use crate::output::Run;
use crate::process::{Background, Cmd, wait_until};
use crate::repo::Repo;
use crate::sandbox::Sandbox;
use crate::toolbox::on_path;

/// Protocols that clones of a team may speak.
pub const PROTOCOLS: &str = "file:http:git:ssh";

/// How clones reach the repository they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By its path.
    Path,
    /// Through a web server.
    Http,
}

impl Way {
    /// Every way there is.
    pub const BOTH: [Way; 2] = [Way::Path, Way::Http];
}

/// Runs a test once for each way, each in a world of its own.
pub fn each_way(test: impl Fn(&Sandbox, &Team<'_>)) {
    for way in Way::BOTH {
        let sandbox = Sandbox::new();
        let team = Team::new(&sandbox, way);
        test(&sandbox, &team);
    }
}

/// Returns what `git agent push` or `fetch` told as `what session-or-ref` words.
pub fn told(json: &serde_json::Value) -> BTreeSet<String> {
    let refs = json["refs"].as_array().expect("a list");
    refs.iter()
        .map(|one| {
            let name = one["session"].as_str().or(one["ref"].as_str());
            format!(
                "{} {}",
                one["what"].as_str().expect("a word"),
                name.expect("a name")
            )
        })
        .collect()
}

/// A shared bare repository, and clones of it.
#[derive(Debug)]
pub struct Team<'a> {
    sandbox: &'a Sandbox,
    /// The repository that all share.
    pub hub: Repo<'a>,
    /// How it is reached.
    pub way: Way,
    address: String,
    server: Option<Background>,
}

impl<'a> Team<'a> {
    /// Makes the shared repository with a first commit on `main`, and whatever serves it.
    pub fn new(sandbox: &'a Sandbox, way: Way) -> Self {
        let seed = sandbox.repo("seed").create();
        fs::create_dir_all(sandbox.work().join("srv")).expect("the sandbox is writable");
        let hub = sandbox.repo("srv/hub.git").bare().create();
        seed.command("git")
            .args(["push", "--quiet"])
            .arg(hub.path())
            .arg("main")
            .run()
            .success();
        hub.git(["config", "http.receivepack", "true"]).success();
        let (address, server) = match way {
            // Not the bare path: a clone of that takes every object there is, good or bad.
            Way::Path => (format!("file://{}", hub.path().display()), None),
            Way::Http => {
                let server = web_server(sandbox);
                (
                    format!("http://127.0.0.1:{}/hub.git", server.0),
                    Some(server.1),
                )
            }
        };
        Team {
            sandbox,
            hub,
            way,
            address,
            server,
        }
    }

    /// Returns where the shared repository is reached.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a clone for somebody.
    pub fn clone(&self, who: &str) -> Member<'a> {
        let path = self.sandbox.work().join(who);
        self.sandbox
            .command("git")
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
            .args(["clone", "--quiet", "--"])
            .arg(&self.address)
            .arg(&path)
            .run()
            .success();
        Member {
            repo: Repo::open(self.sandbox, path),
            who: who.to_owned(),
        }
    }

    /// Lets the web server cut its next long answer off after so many bytes.
    pub fn cut_next(&self, bytes: u64) {
        assert!(self.server.is_some(), "only a web server cuts");
        let mark = self.sandbox.work().join("srv/cut");
        fs::write(mark, bytes.to_string()).expect("the sandbox is writable");
    }

    /// Returns every object of the shared repository, reachable or not, as one text.
    pub fn everything(&self) -> Vec<u8> {
        self.hub.everything()
    }
}

/// Somebody's clone.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The clone.
    pub repo: Repo<'a>,
    who: String,
}

impl<'a> Member<'a> {
    /// Takes a clone that lies somewhere as somebody's.
    pub fn at(sandbox: &'a Sandbox, path: impl Into<PathBuf>, who: &str) -> Self {
        Member {
            repo: Repo::open(sandbox, path),
            who: who.to_owned(),
        }
    }

    /// Returns a command in this clone, in its owner's name.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Cmd {
        let email = format!("{}@example.com", self.who);
        self.repo
            .command(program)
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
            .env("USER", &self.who)
            .env("GIT_AUTHOR_NAME", &self.who)
            .env("GIT_AUTHOR_EMAIL", &email)
            .env("GIT_COMMITTER_NAME", &self.who)
            .env("GIT_COMMITTER_EMAIL", &email)
    }

    /// Runs `git agent …` here.
    #[track_caller]
    pub fn agent(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        self.command("git").arg("agent").args(args).run()
    }

    /// Runs git here.
    #[track_caller]
    pub fn git(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        self.command("git").args(args).run()
    }

    /// Writes to the store; see `store-hammer`.
    #[track_caller]
    pub fn hammer(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let run = self.command("store-hammer").args(args).run().success();
        run.stdout().trim().to_owned()
    }

    /// Runs a session whose agent is a shell command, until it is ready.
    #[track_caller]
    pub fn session(&self, name: &str, task: &str, script: &str) {
        self.agent(["new", "--name", name, task, "--", script])
            .success();
        self.agent(["wait", "--timeout", "120s", name]).success();
        // A supervisor that has said so still needs a moment to end; only then is its record complete.
        wait_until("the supervisor has ended", || {
            let listed = self.agent(["list", "--json", name]).success().json();
            listed["sessions"][0]["pid"].is_null()
        });
    }

    /// Shares everything.
    #[track_caller]
    pub fn push(&self) -> Run {
        self.agent(["push", "--yes"])
    }

    /// Takes in everything.
    #[track_caller]
    pub fn fetch(&self) -> Run {
        self.agent(["fetch"])
    }

    /// Asserts that a command of ours succeeds and shows these words.
    #[track_caller]
    pub fn shows(&self, args: &[&str], words: &str) {
        let run = self.agent(args).success();
        assert!(
            run.stdout().contains(words),
            "'{words}' is not shown\n{run}"
        );
    }

    /// Returns the names of the sessions that this clone shows.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let listed = self.agent(["list", "--all", "--json"]).success().json();
        let sessions = listed["sessions"].as_array().expect("a list").clone();
        let mut names: Vec<String> = sessions
            .iter()
            .map(|session| session["name"].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        names
    }
}

/// Starts a small web server of our own for `srv` in the sandbox.
fn web_server(sandbox: &Sandbox) -> (u16, Background) {
    let server = sandbox
        .command("git-web")
        .arg(sandbox.work().join("srv"))
        .stdin_open()
        .spawn();
    server.wait_for("\n");
    let port = String::from_utf8_lossy(&server.stdout_so_far())
        .trim()
        .parse()
        .expect("a port");
    (port, server)
}

/// Starts Debian's lighttpd for `srv` in the sandbox and returns the address of the hub, or why there is none.
pub fn lighttpd(sandbox: &Sandbox) -> Result<(String, Background), String> {
    let program = on_path("lighttpd")
        .next()
        .or_else(|| Some(PathBuf::from("/usr/sbin/lighttpd")).filter(|path| path.exists()))
        .ok_or("there is no lighttpd on this machine")?;
    let exec_path = sandbox.command("git").arg("--exec-path").run().success();
    let backend = PathBuf::from(exec_path.line()).join("git-http-backend");
    if !backend.exists() {
        return Err("this git has no http-backend".to_owned());
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?;
    drop(listener);
    let port = port.port();
    let root = sandbox.work().join("srv");
    let path = sandbox.environment().remove(OsStr::new("PATH"));
    let script = sandbox.program(
        "http-backend",
        &format!(
            "#!/bin/sh\nPATH='{}' GIT_PROJECT_ROOT='{}' GIT_HTTP_EXPORT_ALL=1 REMOTE_USER=tester exec '{}'\n",
            path.unwrap_or_default().to_string_lossy(),
            root.display(),
            backend.display()
        ),
    );
    let config = sandbox.root().join("lighttpd.conf");
    let settings = format!(
        "server.modules = (\"mod_alias\", \"mod_cgi\")\nserver.document-root = \"{}\"\n\
         server.port = {port}\nserver.bind = \"127.0.0.1\"\n\
         alias.url = (\"/git\" => \"{}\")\ncgi.assign = (\"\" => \"\")\n",
        root.display(),
        script.display(),
    );
    fs::write(&config, settings).map_err(|error| error.to_string())?;
    let url = format!("http://127.0.0.1:{port}/git/hub.git");
    let mut server = sandbox
        .command(&program)
        .args(["-D", "-f"])
        .arg(&config)
        .spawn();
    for _ in 0..200 {
        if !server.is_running() {
            return Err("lighttpd does not start here".to_owned());
        }
        let listed = sandbox
            .command("git")
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
            .args(["ls-remote", &url])
            .run()
            .whatever();
        if listed.status().success() {
            return Ok((url, server));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err("lighttpd does not serve the repository".to_owned())
}
