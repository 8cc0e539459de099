//! The session's socket: the supervisor runs the commands that an agent in a cell asks for, as that session and no other.
//!
//! The socket belongs to this user alone, each question carries a word from the session's environment, and a thread of its
//! own answers it, so that no question can hold up the turn. The command runs below the supervisor: every check that
//! recognises an agent's command by its parent applies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::snapshot::capture::Checkout;
use crate::model::session::SessionId;
use crate::process::detach::own_program;
use crate::session::ask::{self, Ask, LONGEST, SOCKET, TOKEN, Told, VERSION};

/// How many questions are answered at once.
const AT_ONCE: usize = 8;
/// How long an agent may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session's socket, removed on drop.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    token: String,
}

/// The values with which a command runs for an agent.
#[derive(Debug)]
struct Answerer {
    token: String,
    programs: PathBuf,
    top: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    busy: AtomicUsize,
}

impl Socket {
    /// Listens for a session. `environment` is that of the session without its guard.
    pub fn listen(
        context: &Context<'_>,
        sid: SessionId,
        at: &Checkout,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Self> {
        let path = context
            .store
            .require_dir(&format!("doors/{sid}"))?
            .join("s");
        let token: String = context
            .env
            .random::<16>()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let listener = bind(&path).context(|| format!("cannot listen at '{}'", path.display()))?;
        let mut environment = environment.clone();
        for (name, value) in [
            ("GIT_DIR", at.admin_dir.as_os_str()),
            ("GIT_COMMON_DIR", context.repo.common_dir().as_os_str()),
            ("GIT_WORK_TREE", at.top.as_os_str()),
        ] {
            environment.insert(name.into(), value.to_owned());
        }
        let program = own_program();
        let answerer = Arc::new(Answerer {
            token: token.clone(),
            programs: program.parent().unwrap_or(Path::new("/")).to_owned(),
            top: at.top.clone(),
            environment,
            busy: AtomicUsize::new(0),
        });
        std::thread::spawn(move || serve(&listener, &answerer));
        Ok(Socket { path, token })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the variables by which commands of the agent find it.
    pub fn announce(&self, environment: &mut BTreeMap<OsString, OsString>) {
        environment.insert(SOCKET.into(), self.path.clone().into());
        environment.insert(TOKEN.into(), self.token.clone().into());
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds through the directory's descriptor: a path in a deep directory is longer than the kernel allows.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let _ = fs::remove_file(path);
    let (directory, name) = ask::parts(path)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn serve(listener: &UnixListener, answerer: &Arc<Answerer>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        let answerer = Arc::clone(answerer);
        if answerer.busy.fetch_add(1, Ordering::SeqCst) >= AT_ONCE {
            answerer.busy.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        std::thread::spawn(move || {
            let _ = answer(&stream, &answerer);
            answerer.busy.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn answer(stream: &UnixStream, answerer: &Answerer) -> std::io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    if peer.uid != rustix::process::getuid() {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream)
        .take(LONGEST)
        .read_until(b'\n', &mut line)?;
    let told = match serde_json::from_slice::<Ask>(&line) {
        Ok(ask) if ask.version == VERSION && ask.token == answerer.token => {
            match ask::refusal(&ask) {
                Some(why) => refused(&why),
                None => answerer.run(&ask),
            }
        }
        _ => refused("the supervisor does not understand this question"),
    };
    let mut bytes = serde_json::to_vec(&told)?;
    bytes.push(b'\n');
    let mut stream = stream;
    stream.write_all(&bytes)
}

fn refused(why: &str) -> Told {
    Told {
        version: VERSION,
        code: 128,
        output: String::new(),
        narration: format!("fatal: {why}\n"),
    }
}

impl Answerer {
    fn run(&self, ask: &Ask) -> Told {
        let started = Command::new(self.programs.join(&ask.program))
            .args(&ask.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.top)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return refused(&format!("cannot start '{}': {error}", ask.program)),
        };
        let input = ask.input.clone();
        let feeder = child.stdin.take().map(|mut stdin| {
            std::thread::spawn(move || {
                let _ = stdin.write_all(input.as_bytes());
            })
        });
        let ended = child.wait_with_output();
        if let Some(feeder) = feeder {
            let _ = feeder.join();
        }
        match ended {
            Ok(ended) => Told {
                version: VERSION,
                code: ended
                    .status
                    .code()
                    .map_or(128, |code| u8::try_from(code).unwrap_or(128)),
                output: String::from_utf8_lossy(&ended.stdout).into_owned(),
                narration: String::from_utf8_lossy(&ended.stderr).into_owned(),
            },
            Err(error) => refused(&error.to_string()),
        }
    }
}
