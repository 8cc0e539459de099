//! A small web server on loopback that serves the repositories below a directory through `git http-backend`.
//!
//!     git-web DIRECTORY
//!
//! Prints its port and serves until its standard input ends. Where the file `cut` in the directory holds a number, the next answer
//! is cut off after so many bytes and the file removed: that is how a connection is lost half-way. Who asks is taken to be
//! whom `X-Remote-User` names.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return ExitCode::from(129);
    };
    match serve(&root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "git-web: {error}");
            ExitCode::from(128)
        }
    }
}

fn serve(root: &Path) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?.port())?;
    out.flush()?;
    let root = root.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let root = root.clone();
            std::thread::spawn(move || {
                // A client that goes away is its own business.
                let _ = answer(&root, stream);
            });
        }
    });
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    Ok(())
}

/// Reads one request and answers it; the connection is closed afterwards.
fn answer(root: &Path, stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let header = |wanted: &str| {
        let found = headers.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    if header("expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = match (header("transfer-encoding"), header("content-length")) {
        (Some(_), _) => read_chunks(&mut reader)?,
        (None, Some(length)) => {
            let mut body = vec![0; length.parse().unwrap_or(0)];
            reader.read_exact(&mut body)?;
            body
        }
        (None, None) => Vec::new(),
    };
    let mut backend = Command::new("git");
    backend
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", header("x-remote-user").unwrap_or("tester"))
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    for (name, variable) in [
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        if let Some(value) = header(name) {
            backend.env(variable, value);
        }
    }
    let mut child = backend.spawn()?;
    let mut stdin = child.stdin.take();
    let feeder = std::thread::spawn(move || {
        if let Some(stdin) = &mut stdin {
            let _ = stdin.write_all(&body);
        }
    });
    let mut output = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let mut status = "200 OK".to_owned();
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("status") => {
                status = value.trim().to_owned();
            }
            _ => head.push_str(&format!("{}\r\n", line.trim_end())),
        }
    }
    write!(
        writer,
        "HTTP/1.1 {status}\r\n{head}Connection: close\r\n\r\n"
    )?;
    let sent = copy(root, method, &mut output, &mut writer);
    let _ = child.kill();
    let _ = child.wait();
    let _ = feeder.join();
    sent
}

/// Sends an answer, or only the beginning of it.
fn copy(root: &Path, method: &str, from: &mut impl Read, to: &mut TcpStream) -> io::Result<()> {
    let mark = root.join("cut");
    let cut = (method == "POST")
        .then(|| fs::read_to_string(&mark).ok()?.trim().parse::<u64>().ok())
        .flatten();
    match cut {
        None => io::copy(from, to)?,
        Some(length) => {
            let _ = fs::remove_file(&mark);
            io::copy(&mut from.take(length), to)?
        }
    };
    to.flush()
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = line.trim().split(';').next().unwrap_or_default();
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let start = body.len();
        body.resize(start + length, 0);
        reader.read_exact(&mut body[start..])?;
        reader.read_line(&mut line)?;
        if length == 0 {
            return Ok(body);
        }
    }
}
