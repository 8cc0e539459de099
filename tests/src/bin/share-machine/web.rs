//! The web server that a run's clones share through.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use git_agent::error::{Error, Result};

/// `git-web` in front of the repositories below a directory, until this is dropped.
pub(super) struct Web {
    server: Child,
    port: u16,
}

impl Web {
    /// Starts the one that was built beside this program.
    pub(super) fn new(root: &Path) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("git-web");
        let mut server = Command::new(program)
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = server.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let port = line.trim().parse();
        let port = port.map_err(|error| Error::fatal("git-web tells no port").because(error))?;
        Ok(Web { server, port })
    }

    /// Returns where a repository is reached.
    pub(super) fn address(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It serves until its input ends.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}
