//! The terminal: taken over and given back, whatever happens, and its keys, sizes and signals.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use git_agent::env::Env;
use git_agent::error::{Context as _, Error, Kind, Result};
use git_agent::listing::live::Bell;
use git_agent::output::terminal::raw::{self, Stderr};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};

use crate::app::Input;

/// How long the terminal may take to tell its background.
const PATIENCE: Duration = Duration::from_millis(150);

fn cannot() -> String {
    "cannot use the terminal".into()
}

/// The terminal while this program paints it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    stderr: Stderr,
    is_taken: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub fn take() -> Result<Self> {
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, raw::writer()?));
        let terminal = Terminal::new(backend).context(cannot)?;
        let mut screen = Screen {
            terminal,
            stderr: Stderr::keep()?,
            is_taken: false,
        };
        screen.take_again()?;
        Ok(screen)
    }

    /// Takes over the terminal after it was given away.
    pub fn take_again(&mut self) -> Result<()> {
        self.is_taken = true;
        enable_raw_mode().context(cannot)?;
        execute!(
            self.terminal.backend_mut(),
            EnterAlternateScreen,
            EnableMouseCapture,
            EnableBracketedPaste,
            cursor::Hide
        )
        .context(cannot)?;
        self.stderr.divert()?;
        self.terminal.clear().context(cannot)
    }

    /// Gives the terminal back. Everything is tried, because some of it may fail on a terminal that has gone.
    pub fn give(&mut self) {
        if !std::mem::take(&mut self.is_taken) {
            return;
        }
        let out = self.terminal.backend_mut();
        let _ = execute!(
            out,
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = disable_raw_mode();
        self.stderr.restore();
    }

    /// Paints.
    pub fn draw(&mut self, paint: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<()> {
        self.terminal.draw(paint).context(cannot)?;
        Ok(())
    }

    /// Makes the next painting a whole one.
    pub fn clear(&mut self) -> Result<()> {
        self.terminal.clear().context(cannot)
    }

    /// Writes a control sequence of our own.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(bytes)
            .and_then(|()| Write::flush(out))
            .context(cannot)
    }

    /// Returns the text that standard error received meanwhile.
    pub fn messages(&mut self) -> String {
        self.stderr.take()
    }

    /// Asks the terminal whether its background is light. `None` if it does not tell.
    pub fn is_light(&mut self, env: &Env) -> Result<Option<bool>> {
        if let Some(colors) = env.var("COLORFGBG")
            && let Some(background) = colors
                .rsplit(';')
                .next()
                .and_then(|text| text.parse::<u8>().ok())
        {
            return Ok(Some(matches!(background, 7 | 9..=15)));
        }
        // The second question is one that every terminal answers, so that the wait is short.
        self.write(b"\x1b]11;?\x1b\\\x1b[c")?;
        let mut answer = Vec::new();
        let end = Instant::now() + PATIENCE;
        while !is_answered(&answer) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !readable(rustix::stdio::stdin(), Some(left))? {
                break;
            }
            let mut piece = [0; 64];
            match rustix::io::read(rustix::stdio::stdin(), &mut piece) {
                Ok(count @ 1..) => answer.extend_from_slice(&piece[..count]),
                _ => break,
            }
        }
        Ok(background(&answer))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give();
    }
}

fn is_answered(answer: &[u8]) -> bool {
    answer
        .windows(3)
        .position(|three| three == b"\x1b[?")
        .is_some_and(|at| answer[at..].contains(&b'c'))
}

/// Reads `rgb:RRRR/GGGG/BBBB` and returns whether that is light.
fn background(answer: &[u8]) -> Option<bool> {
    let text = String::from_utf8_lossy(answer);
    let (_, rest) = text.split_once("rgb:")?;
    let parts: Vec<f64> = rest
        .split('/')
        .take(3)
        .filter_map(|part| {
            let digits: String = part
                .chars()
                .take_while(char::is_ascii_hexdigit)
                .take(4)
                .collect();
            let most = f64::from(16u32.pow(u32::try_from(digits.len()).ok()?) - 1);
            Some(f64::from(u32::from_str_radix(&digits, 16).ok()?) / most)
        })
        .collect();
    let [red, green, blue] = parts.as_slice() else {
        return None;
    };
    Some(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
}

fn readable(fd: impl AsFd, wait: Option<Duration>) -> Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    wait_for(&mut fds, wait)?;
    Ok(!fds[0].revents().is_empty())
}

fn wait_for(fds: &mut [PollFd<'_>], wait: Option<Duration>) -> Result<()> {
    let wait = wait.map(|wait| Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    });
    match poll(fds, wait.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::fatal("cannot wait for the keyboard").because(error)),
    }
}

/// What a wait ended for.
#[derive(Debug, Default)]
pub struct Woken {
    /// What the terminal reported.
    pub inputs: Vec<Input>,
    /// Whether other threads reported something.
    pub news: bool,
    /// Whether the program was told to suspend.
    pub suspend: bool,
    /// Whether something was written to standard error.
    pub printed: bool,
}

/// The keyboard, the signals and the bell of other threads.
pub struct Waiter {
    wake: UnixStream,
    ends: Vec<(i32, Arc<AtomicBool>)>,
    suspend: Arc<AtomicBool>,
}

impl Waiter {
    /// Begins to heed signals.
    pub fn new() -> Result<Self> {
        let context = || "cannot heed signals".to_owned();
        let (wake, ring) = UnixStream::pair().context(context)?;
        wake.set_nonblocking(true).context(context)?;
        ring.set_nonblocking(true).context(context)?;
        let mut ends = Vec::new();
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag)).context(context)?;
            ends.push((signal, flag));
        }
        let suspend = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTSTP, Arc::clone(&suspend)).context(context)?;
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGTSTP, SIGCONT, SIGWINCH] {
            let ring = ring.try_clone().context(context)?;
            signal_hook::low_level::pipe::register(signal, ring).context(context)?;
        }
        Ok(Waiter {
            wake,
            ends,
            suspend,
        })
    }

    /// Forgets signals that were meant for a program that had the terminal.
    pub fn forget(&mut self) {
        for (signal, flag) in &self.ends {
            if *signal == SIGINT {
                flag.store(false, Ordering::Relaxed);
            }
        }
        self.suspend.store(false, Ordering::Relaxed);
    }

    /// Sleeps until something happens or a time has passed. An error means that the program was told to end.
    pub fn wait(&mut self, screen: &Screen, bell: &Bell, wait: Option<Duration>) -> Result<Woken> {
        let stdin = rustix::stdio::stdin();
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(bell, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
            PollFd::new(&screen.stderr, PollFlags::IN),
        ];
        wait_for(&mut fds, wait)?;
        let [keys, news, signals, printed] = fds.map(|fd| fd.revents());
        if !signals.is_empty() {
            let mut bytes = [0; 64];
            while let Ok(1..) = (&self.wake).read(&mut bytes) {}
        }
        for (signal, flag) in &self.ends {
            if flag.load(Ordering::Relaxed) {
                return Err(Error::new(Kind::Signal(*signal), ""));
            }
        }
        let mut woken = Woken {
            news: news.contains(PollFlags::IN),
            suspend: self.suspend.swap(false, Ordering::Relaxed),
            printed: printed.contains(PollFlags::IN),
            ..Woken::default()
        };
        if keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(Error::new(Kind::Signal(SIGHUP), ""));
        }
        if keys.contains(PollFlags::IN) || !signals.is_empty() {
            while event::poll(Duration::ZERO).context(cannot)? {
                let input = match event::read().context(cannot)? {
                    event::Event::Key(key) if key.kind != event::KeyEventKind::Release => {
                        Input::Key(key)
                    }
                    event::Event::Mouse(mouse) => Input::Mouse(mouse),
                    event::Event::Paste(text) => Input::Paste(text),
                    event::Event::Resize(columns, rows) => Input::Resize(columns, rows),
                    _ => continue,
                };
                woken.inputs.push(input);
            }
        }
        Ok(woken)
    }
}

/// Suspends this process, as Ctrl-Z does. The terminal must have been given back.
pub fn suspend() -> Result<()> {
    signal_hook::low_level::emulate_default_handler(SIGTSTP).context(|| "cannot suspend".into())
}

/// Returns the control sequence that copies text to the clipboard.
pub fn copy_sequence(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = b"\x1b]52;c;".to_vec();
    for piece in text.as_bytes().chunks(3) {
        let mut three = [0; 3];
        three[..piece.len()].copy_from_slice(piece);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            let is_there = digit <= piece.len();
            let value = (bits >> (18 - 6 * digit)) & 63;
            out.push(if is_there {
                DIGITS[value as usize]
            } else {
                b'='
            });
        }
    }
    out.extend_from_slice(b"\x07");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_understood() {
        let light = b"\x1b]11;rgb:ffff/fafa/f0f0\x1b\\\x1b[?62c";
        assert_eq!(background(light), Some(true));
        assert!(is_answered(light));
        assert_eq!(background(b"\x1b]11;rgb:1a/1b/26\x07"), Some(false));
        assert_eq!(background(b"\x1b[?1;2c"), None);
        assert!(!is_answered(b"\x1b]11;rgb:ff"));
    }

    #[test]
    fn copied_text_is_encoded() {
        assert_eq!(copy_sequence("abc"), b"\x1b]52;c;YWJj\x07");
        assert_eq!(copy_sequence("ab"), b"\x1b]52;c;YWI=\x07");
        assert_eq!(copy_sequence("a"), b"\x1b]52;c;YQ==\x07");
    }
}
