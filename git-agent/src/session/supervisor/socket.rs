//! The session's socket: the supervisor runs the commands that an agent in a cell asks for, as that session and no other.
//!
//! The socket belongs to this user alone, each question carries a word from the session's environment, and a thread of its
//! own answers it, so that no question can hold up the turn. The command runs below the supervisor: every check that
//! recognises an agent's command by its parent applies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::RecvFlags;

use crate::context::Context;
use crate::error::{Context as _, Result};
use crate::git::snapshot::capture::Checkout;
use crate::model::session::SessionId;
use crate::process::detach::own_program;
use crate::session::ask::{self, Ask, Channel, LONGEST, SOCKET, TOKEN, VERSION};

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
fn bind(path: &Path) -> io::Result<UnixListener> {
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

fn answer(stream: &UnixStream, answerer: &Answerer) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    if peer.uid != rustix::process::getuid() {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let line = read_line(stream)?;
    match serde_json::from_slice::<Ask>(&line) {
        Ok(ask) if ask.version == VERSION && ask.token == answerer.token => {
            match ask::refusal(&ask) {
                Some(why) => refuse(stream, &why),
                None => answerer.run(&ask, stream),
            }
        }
        _ => refuse(stream, "the supervisor does not understand this question"),
    }
}

/// Reads the question byte by byte: the rest is the standard input of the command.
fn read_line(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = [0u8; 4096];
    while !line.ends_with(b"\n") && (line.len() as u64) < LONGEST {
        // What comes after the end of the line stays in the socket.
        let (seen, _) = rustix::net::recv(stream, &mut buffer, RecvFlags::PEEK)?;
        let end = buffer[..seen].iter().position(|byte| *byte == b'\n');
        let take = end.map_or(seen, |end| end + 1);
        if take == 0 {
            break;
        }
        stream.read_exact(&mut buffer[..take])?;
        line.extend(&buffer[..take]);
    }
    Ok(line)
}

fn refuse(mut stream: &UnixStream, why: &str) -> io::Result<()> {
    let words = format!("fatal: {why}\n");
    ask::write_frame(&mut stream, Channel::Narration, words.as_bytes())?;
    ask::write_frame(&mut stream, Channel::Exit, &[128])
}

impl Answerer {
    fn run(&self, ask: &Ask, stream: &UnixStream) -> io::Result<()> {
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
            Err(error) => {
                return refuse(stream, &format!("cannot start '{}': {error}", ask.program));
            }
        };
        stream.set_read_timeout(None)?;
        let input = (child.stdin.take(), stream.try_clone()?);
        std::thread::spawn(move || {
            if let (Some(mut to), mut from) = input {
                let _ = io::copy(&mut from, &mut to);
            }
        });
        let frames = Mutex::new(stream.try_clone()?);
        let (output, narration) = (child.stdout.take(), child.stderr.take());
        let heard = std::thread::scope(|scope| {
            let narration = scope.spawn(|| forward(narration, Channel::Narration, &frames));
            let output = forward(output, Channel::Output, &frames);
            output.and(narration.join().unwrap_or(Ok(())))
        });
        if heard.is_err() {
            // The agent's program is gone.
            let _ = child.kill();
        }
        let code = child.wait()?.code();
        let code = code.map_or(128, |code| u8::try_from(code).unwrap_or(128));
        let mut stream = stream;
        ask::write_frame(&mut stream, Channel::Exit, &[code])?;
        // Ends the thread that passes the input on.
        stream.shutdown(Shutdown::Both)
    }
}

/// Passes the output of a command on until it ends.
fn forward(
    from: Option<impl Read>,
    channel: Channel,
    frames: &Mutex<UnixStream>,
) -> io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let mut stream = frames.lock().map_err(|_| io::ErrorKind::Other)?;
        ask::write_frame(&mut *stream, channel, &buffer[..read])?;
    }
}
