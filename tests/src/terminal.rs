//! A real terminal that tests type into and read: tmux, without anybody's configuration.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::process::TIME_LIMIT;
use crate::repo::Repo;
use crate::toolbox::on_path;

/// A terminal with the board in it.
pub struct Terminal<'a> {
    repo: &'a Repo<'a>,
    program: PathBuf,
    socket: PathBuf,
    /// Keys that were pressed, beside typed text.
    pub presses: usize,
}

impl<'a> Terminal<'a> {
    /// Returns nothing where there is no terminal to drive.
    pub fn open(repo: &'a Repo<'a>, (wide, high): (u16, u16), words: &[&str]) -> Option<Self> {
        let program = on_path("tmux").next()?;
        let socket = repo.sandbox().root().join("tmux");
        let terminal = Terminal {
            repo,
            program,
            socket,
            presses: 0,
        };
        let (wide, high) = (wide.to_string(), high.to_string());
        let mut line = vec!["new-session", "-d", "-x", &wide, "-y", &high, "--"];
        line.extend(words);
        terminal.tmux(&line);
        Some(terminal)
    }

    /// Runs a command of the terminal's own, and returns its answer.
    pub fn tmux(&self, words: &[&str]) -> String {
        let run = self
            .repo
            .command(&self.program)
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .args(["-f", "/dev/null", "-S"])
            .arg(&self.socket)
            .args(words)
            .run();
        run.success().stdout().to_owned()
    }

    /// Returns what is on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has some words.
    #[track_caller]
    pub fn sees(&self, words: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let screen = self.screen();
            if screen.contains(words) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the screen never shows '{words}':\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &[&str]) {
        for key in keys {
            self.presses += 1;
            self.tmux(&["send-keys", key]);
        }
    }

    /// Types text, which does not count.
    pub fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // The server may have ended with its last window.
        self.repo
            .command(&self.program)
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .run()
            .whatever();
    }
}
