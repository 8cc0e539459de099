//! Feeds garbage to the readers of foreign bytes: `fuzz [--seconds N] [TARGET…]`.
//!
//! Each target mutates the samples of its corpus (`tests/corpus/fuzz/<target>/`) and checks what must hold for any
//! bytes. A case that breaks a law is written to the corpus under its hash, so that it is tried again for ever, and the
//! program fails. `cargo test` plays the corpus; long runs are started by hand.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use git_agent::git::sha256;
use git_agent::model::event::Event;
use git_agent::model::review::Record;
use git_agent::model::session::{self, Session, Ulid, WriterId};
use git_agent::output::terminal::sanitize;
use git_agent::store::log::spool;
use git_agent::store::refname::RefName;

/// What must hold for any bytes; the answer says what did not.
type Law = fn(&[u8]) -> Result<(), String>;

/// Every reader of foreign bytes.
const TARGETS: [(&str, Law); 6] = [
    ("event", event),
    ("state", state),
    ("note", note),
    ("refname", refname),
    ("ulid", ulid),
    ("escape", escape),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seconds = 5;
    let mut wanted = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--seconds" {
            seconds = words.next().ok_or("--seconds needs a number")?.parse()?;
        } else {
            wanted.push(word);
        }
    }
    let mut out = std::io::stdout();
    for (name, law) in TARGETS {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let cases = run(name, law, Duration::from_secs(seconds))?;
        writeln!(out, "{name}: {cases} cases in {seconds} s, no finding")?;
    }
    Ok(())
}

fn run(name: &str, law: Law, time: Duration) -> Result<u64, Box<dyn std::error::Error>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus/fuzz")
        .join(name);
    let mut samples = vec![Vec::new()];
    for entry in std::fs::read_dir(&dir)? {
        samples.push(std::fs::read(entry?.path())?);
    }
    for sample in &samples {
        check(name, law, sample, &dir)?;
    }
    let mut dice = Dice(
        sha256(format!("{name}{:?}", Instant::now()).as_bytes())
            .bytes()
            .fold(1, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(byte))
            }),
    );
    let start = Instant::now();
    let mut cases = 0;
    while start.elapsed() < time {
        for _ in 0..500 {
            let mut bytes = samples[dice.below(samples.len())].clone();
            for _ in 0..=dice.below(4) {
                mutate(&mut bytes, &samples, &mut dice);
            }
            bytes.truncate(64 << 10);
            check(name, law, &bytes, &dir)?;
            cases += 1;
        }
    }
    Ok(cases)
}

/// Tries one case; a panic counts as a broken law.
fn check(name: &str, law: Law, bytes: &[u8], dir: &std::path::Path) -> Result<(), String> {
    let broken = match std::panic::catch_unwind(|| law(bytes)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(what)) => what,
        Err(_) => "panic".to_owned(),
    };
    let path = dir.join(&sha256(bytes)[..16]);
    let kept = std::fs::write(&path, bytes);
    Err(format!(
        "{name}: {broken}; the case is in '{}' ({kept:?})",
        path.display()
    ))
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.roll() % (limit.max(1) as u64)).unwrap_or(0)
    }
}

fn mutate(bytes: &mut Vec<u8>, samples: &[Vec<u8>], dice: &mut Dice) {
    /// Pieces that readers trip over.
    const PIECES: [&[u8]; 24] = [
        b"\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\\u202e",
        b"\\ud800",
        b"null",
        b"-1",
        b"1e999",
        b"18446744073709551616",
        b"\x1b[31m",
        b"\xc2\x9b",
        b"\xe2\x80\xae",
        b"\xff\xfe",
        b"\n",
        b"\r\n",
        b"\0",
        b"..",
        b"/",
        b".lock",
        b"\"v\":2",
        b"\"type\":\"status\"",
        b"refs/agents/",
    ];
    let at = dice.below(bytes.len() + 1);
    match dice.below(7) {
        0 if !bytes.is_empty() => {
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1 << dice.below(8);
        }
        1 if !bytes.is_empty() => {
            let end = (at + 1 + dice.below(8)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        2 => {
            let piece = PIECES[dice.below(PIECES.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        3 => bytes.truncate(at),
        4 => {
            let other = &samples[dice.below(samples.len())];
            let from = dice.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        5 if bytes.len() < 4096 => {
            let copy = bytes[at.min(bytes.len())..].to_vec();
            bytes.extend(copy);
        }
        _ => {
            let byte = u8::try_from(dice.roll() & 0xff).unwrap_or(0);
            bytes.insert(at, byte);
        }
    }
}

fn event(bytes: &[u8]) -> Result<(), String> {
    // A line of the spool is never trusted either.
    let _ = spool::parse_line(bytes);
    let Ok(event) = Event::from_line(bytes) else {
        return Ok(());
    };
    let line = event.to_line();
    if !line.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err("a record is not plain ASCII".into());
    }
    let again =
        Event::from_line(line.as_bytes()).map_err(|error| format!("own record: {error}"))?;
    if again.to_line() != line {
        return Err("a record changes when it is written again".into());
    }
    let session = fresh_session();
    let mut state = session.clone();
    state.apply(&event);
    if state.sid != session.sid || state.writer != session.writer && event.body.kind() != "created"
    {
        return Err("an event changed who the session is".into());
    }
    Ok(())
}

fn fresh_session() -> Session {
    let sid: Ulid = "01jd0000000000000000000000".parse().expect("an id");
    let writer: WriterId = "ada-1a2b".parse().expect("a writer");
    Session::new(
        sid,
        writer,
        "fuzz",
        git_agent::model::session::Person::default(),
    )
}

fn state(bytes: &[u8]) -> Result<(), String> {
    let Ok(session) = serde_json::from_slice::<session::Record>(bytes) else {
        return Ok(());
    };
    let text = git_agent::model::event::to_ascii_json(&session);
    let again: session::Record =
        serde_json::from_str(&text).map_err(|error| format!("own state: {error}"))?;
    // Compared as text: a state may hold a number that is equal to nothing.
    if git_agent::model::event::to_ascii_json(&again) != text {
        return Err("a state changes when it is written again".into());
    }
    Ok(())
}

fn note(bytes: &[u8]) -> Result<(), String> {
    let Ok(value) = serde_json::from_slice(bytes) else {
        return Ok(());
    };
    let Ok(record) = Record::from_json(value) else {
        return Ok(());
    };
    let again =
        Record::from_json(record.to_json()).map_err(|error| format!("own record: {error}"))?;
    if again.to_json() != record.to_json() {
        return Err("a record changes when it is written again".into());
    }
    Ok(())
}

fn refname(bytes: &[u8]) -> Result<(), String> {
    let Ok(name) = std::str::from_utf8(bytes) else {
        return Ok(());
    };
    if let Some(parsed) = RefName::parse(name) {
        if parsed.to_string() != name {
            return Err("a name is not what it was read from".into());
        }
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/-".contains(&byte);
        if !name.bytes().all(plain) || name.contains("..") || name.contains("//") {
            return Err("a name with odd characters was taken for one of ours".into());
        }
    }
    if let Some((remote, parsed)) = RefName::parse_at_remote(name)
        && parsed.at_remote(&remote) != name
    {
        return Err("a remote's name is not what it was read from".into());
    }
    Ok(())
}

fn ulid(bytes: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Ok(());
    };
    if let Ok(id) = text.parse::<Ulid>() {
        if id.as_str() != text {
            return Err("an id is not what it was read from".into());
        }
        let month = id.month();
        if month.len() < 7 || !month.is_ascii() {
            return Err(format!("the month '{month}'"));
        }
    }
    if let Ok(writer) = text.parse::<WriterId>()
        && writer.as_str() != text
    {
        return Err("a writer is not what it was read from".into());
    }
    Ok(())
}

fn escape(bytes: &[u8]) -> Result<(), String> {
    let line = sanitize::one_line(bytes).to_text().into_owned();
    if line.chars().any(sanitize::is_unsafe) || line.contains('\n') {
        return Err("one line holds what a terminal obeys".into());
    }
    if sanitize::one_line(line.as_str()).to_text() != line {
        return Err("escaping twice is not escaping once".into());
    }
    let block = sanitize::block(bytes).to_text().into_owned();
    if block
        .chars()
        .any(|c| c != '\n' && c != '\t' && sanitize::is_unsafe(c))
    {
        return Err("a block holds what a terminal obeys".into());
    }
    for cells in [0, 1, 7, 40] {
        let cut = sanitize::one_line(bytes)
            .max_width(cells)
            .to_text()
            .into_owned();
        if sanitize::width(&cut) > cells {
            return Err(format!("wider than {cells} cells"));
        }
    }
    Ok(())
}
