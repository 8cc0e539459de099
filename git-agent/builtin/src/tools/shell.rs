//! One command in a new process group, with bounded output and time.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::cut::Cut;

/// How long the output of a command that has ended is waited for: its children may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Variables that keep programs from waiting for a person or drawing.
const VARIABLES: [(&str, &str); 9] = [
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PIP_PROGRESS_BAR", "off"),
    ("TQDM_DISABLE", "1"),
];

/// A running command.
#[derive(Debug)]
pub struct Running {
    group: Option<Pid>,
    output: Arc<Mutex<Cut>>,
    reader: std::sync::mpsc::Receiver<()>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited(Option<ExitStatus>),
    /// Its time was over.
    TimedOut(u64),
}

/// Starts a command. `ended` is called when it has ended.
pub fn start(
    argv: &[String],
    cwd: &Path,
    ended: impl FnOnce(Option<ExitStatus>) + Send + 'static,
) -> Result<Running, String> {
    let cannot = |error: std::io::Error| format!("cannot start the command: {error}");
    let (mut reading, writing) = std::io::pipe().map_err(cannot)?;
    let (program, rest) = argv.split_first().ok_or("no command given")?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .current_dir(cwd)
        .envs(VARIABLES)
        .stdin(Stdio::null())
        .stderr(writing.try_clone().map_err(cannot)?)
        .stdout(writing)
        .process_group(0);
    let mut child = command.spawn().map_err(cannot)?;
    drop(command);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let output = Arc::new(Mutex::new(Cut::default()));
    let collected = Arc::clone(&output);
    let (done, reader) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count) = reading.read(&mut buffer) {
            let Ok(mut output) = collected.lock() else {
                break;
            };
            if count == 0 {
                break;
            }
            output.push(&buffer[..count]);
        }
        let _ = done.send(());
    });
    std::thread::spawn(move || ended(child.wait().ok()));
    Ok(Running {
        group,
        output,
        reader,
    })
}

impl Running {
    /// Kills the command and its children.
    pub fn kill(&self) {
        if let Some(group) = self.group {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Returns the output and whether the command failed.
    pub fn result(self, end: End) -> (String, bool) {
        let _ = self.reader.recv_timeout(LAST_WORDS);
        let output = self.output.lock().map(|cut| cut.text()).unwrap_or_default();
        let output = output.trim_end();
        let how = match end {
            End::Exited(Some(status)) if status.success() => {
                let text = if output.is_empty() {
                    "(no output)"
                } else {
                    output
                };
                return (text.to_owned(), false);
            }
            End::Exited(Some(status)) => status.to_string(),
            End::Exited(None) => "it ended in an unknown way".to_owned(),
            End::TimedOut(seconds) => format!("it was killed after {seconds} s"),
        };
        (format!("{output}\n({how})").trim_start().to_owned(), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> (String, bool) {
        let (send, ended) = std::sync::mpsc::channel();
        let argv = ["sh", "-c", command].map(str::to_owned);
        let running = start(&argv, Path::new("/"), move |status| {
            let _ = send.send(status);
        });
        let status = ended.recv().expect("it ends");
        running.expect("started").result(End::Exited(status))
    }

    #[test]
    fn output_and_exit_code_come_back() {
        assert_eq!(run("echo a; echo b >&2"), ("a\nb".into(), false));
        assert_eq!(run("true"), ("(no output)".into(), false));
        assert_eq!(run("echo x; exit 3"), ("x\n(exit status: 3)".into(), true));
        let (long, _) = run("yes | head -c 100000");
        assert!(
            long.len() < 11_000 && long.contains("left out"),
            "{}",
            long.len()
        );
    }

    #[test]
    fn a_child_that_stays_does_not_hold_the_answer() {
        let (text, failed) = run("echo started; sleep 5 &");
        assert_eq!((text.as_str(), failed), ("started", false));
    }

    #[test]
    fn it_can_be_killed_with_its_children() {
        let (send, ended) = std::sync::mpsc::channel();
        let argv = ["sh", "-c", "echo begun; sleep 100; echo never"].map(str::to_owned);
        let running = start(&argv, Path::new("/"), move |status| {
            let _ = send.send(status);
        })
        .expect("started");
        running.kill();
        ended.recv().expect("it ends");
        let (text, failed) = running.result(End::TimedOut(7));
        assert!(
            failed && text.ends_with("(it was killed after 7 s)"),
            "{text}"
        );
    }
}
