//! Runs any program as an agent: it gets the prompt, its output is the transcript, and its exit code is its claim.
//!
//! The prompt is in `$GIT_AGENT_PROMPT_FILE`, in `$GIT_AGENT_PROMPT` if it is short enough for a variable, and replaces
//! `{prompt}` or `{prompt_file}` in the command line. A follow-up runs the program again, with the conversation so far
//! in `$GIT_AGENT_HISTORY_FILE`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Instant;

use crate::agent::catalog::spec::{AgentSpec, COMMAND, conversation_id};
use crate::agent::catalog::template;
use crate::agent::driver::{
    Capabilities, Driver, Input, Link, Program, Trouble, TroubleKind, Turn, TurnClaim,
};
use crate::agent::retell::opening;
use crate::agent::stream::output::{Printed, Stream};
use crate::agent::stream::usage::Figures;
use crate::error::{Context, Result};
use crate::model::event::Body;
use crate::model::event_words::FileChange;
use crate::model::session::{Exit, Usage};

/// The kernel accepts at most 128 KiB in one argument or variable.
const LONGEST_WORD: usize = 100 * 1024;

fn fits_a_word(prompt: &str) -> bool {
    prompt.len() < LONGEST_WORD
}

/// Drives any program.
#[derive(Debug)]
pub struct Command {
    spec: AgentSpec,
}

impl Command {
    /// Returns a driver for a program.
    pub fn new(spec: AgentSpec) -> Self {
        Command { spec }
    }

    fn program(&self, turn: &Turn, prompt_file: PathBuf, session: Option<&str>) -> Program {
        let model = self.spec.model_of(turn);
        let short = fits_a_word(&turn.prompt);
        let prompt = if short {
            OsString::from(&turn.prompt)
        } else {
            let mut words = OsString::from("Read the file ");
            words.push(&prompt_file);
            words.push(" and do what it says.");
            words
        };
        let new_session = turn.resume.is_none().then_some(session).flatten();
        let values = [
            ("prompt", Some(prompt.as_os_str())),
            ("prompt_file", Some(prompt_file.as_os_str())),
            ("session", turn.resume.as_deref().map(OsStr::new)),
            ("new_session", new_session.map(OsStr::new)),
            ("model", model.map(OsStr::new)),
            ("scratch", Some(turn.scratch.as_os_str())),
            (
                "history_file",
                turn.history.as_deref().map(|path| path.as_os_str()),
            ),
        ];
        let argv = template::fill(&self.spec.argv, &values);
        let mut env = self.spec.variables(turn);
        let mut set = |name: &str, value: Option<&OsStr>| {
            env.extend(value.map(|value| (name.into(), value.to_owned())));
        };
        set("GIT_AGENT_PROMPT", short.then_some(prompt.as_os_str()));
        set("GIT_AGENT_PROMPT_FILE", Some(prompt_file.as_os_str()));
        set(
            "GIT_AGENT_HISTORY_FILE",
            turn.history.as_deref().map(|path| path.as_os_str()),
        );
        set("GIT_AGENT_MODEL", model.map(OsStr::new));
        set("GIT_AGENT_TURN", Some(OsStr::new(&turn.number.to_string())));
        Program {
            argv,
            env,
            stdin: false,
        }
    }

    fn claim(&self, exit: Exit, cancelled: bool, printed: &Printed) -> TurnClaim {
        let trouble = match exit.code {
            _ if cancelled => None,
            Some(0) => printed
                .last_stdout()
                .lines()
                .rev()
                .chain(printed.last_stderr().lines().rev())
                .find_map(|line| self.spec.failure_in(line)),
            _ => {
                let said = match printed.last_stderr() {
                    "" => printed.last_stdout(),
                    stderr => stderr,
                };
                let trouble = Trouble::from_exit(&exit, last_line(said));
                Some(if self.spec.name == COMMAND {
                    // A command of the user has no provider: a test that fails with "rate limit" in its output is not
                    // retried.
                    Trouble {
                        kind: TroubleKind::Crash,
                        retry_after: None,
                        ..trouble
                    }
                } else {
                    trouble
                })
            }
        };
        TurnClaim {
            ok: exit.code == Some(0) && !cancelled && trouble.is_none(),
            cancelled,
            trouble,
            final_text: printed.last_stdout().to_owned(),
            exit: Some(exit),
        }
    }
}

impl Driver for Command {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: template::has(&self.spec.argv, "session"),
            ..Capabilities::default()
        }
    }

    fn turn(&mut self, turn: &Turn, link: &mut dyn Link) -> Result<TurnClaim> {
        if let Some(trouble) = self.spec.missing(&turn.environment, &turn.worktree) {
            return Ok(TurnClaim::failed(trouble));
        }
        if turn.ask {
            link.event(Body::Notice {
                text: "this agent cannot ask for permission; it acts without asking".to_owned(),
            })?;
        }
        let retold;
        let turn = if self.spec.retold {
            retold = Turn {
                prompt: opening(turn, link)?,
                ..turn.clone()
            };
            &retold
        } else {
            turn
        };
        let prompt_file = turn.scratch.join(format!("prompt-{}.txt", turn.number));
        std::fs::write(&prompt_file, &turn.prompt)
            .context(|| format!("cannot write '{}'", prompt_file.display()))?;
        let session = match &turn.resume {
            Some(session) => Some(session.clone()),
            None => template::has(&self.spec.argv, "new_session").then(|| conversation_id(turn, 0)),
        };
        if !fits_a_word(&turn.prompt) {
            let text = format!(
                "the prompt is too long for a variable (limit {} KiB); it is only in the file that GIT_AGENT_PROMPT_FILE names",
                LONGEST_WORD / 1024
            );
            link.event(Body::Notice { text })?;
        }
        let program = self.program(turn, prompt_file, session.as_deref());
        if let (None, Some(session)) = (&turn.resume, session) {
            // Record it before the start, so that a killed run can still be resumed.
            link.event(Body::Vendor { session })?;
        }
        if let Err(error) = link.start(&program) {
            if error.is_io(std::io::ErrorKind::NotFound) {
                let text = format!("cannot start '{}'", program.argv[0].to_string_lossy());
                return Ok(TurnClaim::failed(Trouble::new(
                    TroubleKind::NotInstalled,
                    text,
                )));
            }
            return Err(error);
        }
        let mut printed = Printed::default();
        let mut told = Told::new(turn.used);
        let mut cancelled = false;
        let exit = loop {
            match link.next(printed.due())? {
                Input::Stdout { line, cut } => {
                    printed.line(Stream::Stdout, &line, cut, link)?;
                    if self.spec.figures == Figures::Words {
                        told.line(&String::from_utf8_lossy(&line), &mut printed, link)?;
                    }
                }
                Input::Stderr { line, cut } => printed.line(Stream::Stderr, &line, cut, link)?,
                Input::Exited(exit) => break exit,
                Input::Cancel => {
                    cancelled = true;
                    printed.flush(link)?;
                    break link.end()?;
                }
                // A plain program asks nothing, so there is nothing to answer.
                Input::Answer { .. } | Input::Woken => {}
            }
            printed.flush_due(Instant::now(), link)?;
        };
        printed.finish(link)?;
        Ok(self.claim(exit, cancelled, &printed))
    }

    fn close(&mut self, _link: &mut dyn Link) -> Result<()> {
        Ok(())
    }

    fn attach(&self, turn: &Turn) -> Option<Program> {
        Some(Program {
            argv: self.spec.attach_argv(turn)?,
            env: self.spec.variables(turn),
            stdin: false,
        })
    }
}

/// Figures in aider's output about its work.
struct Told {
    usage: Usage,
    cost_before: f64,
}

impl Told {
    fn new(used: Usage) -> Self {
        Told {
            usage: used,
            cost_before: used.cost_usd.unwrap_or(0.0),
        }
    }

    /// Records a changed file, or usage: `Tokens: 1.2k sent, 20 received. Cost: $0.01 message, $0.02 session.`
    fn line(&mut self, line: &str, printed: &mut Printed, link: &mut dyn Link) -> Result<()> {
        if let Some(path) = line.strip_prefix("Applied edit to ") {
            printed.flush(link)?;
            return link.event(Body::Edit {
                path: path.trim().to_owned(),
                change: FileChange::Change,
            });
        }
        let Some(figures) = line.strip_prefix("Tokens: ") else {
            return Ok(());
        };
        let before = |word: &str| {
            let (text, _) = figures.split_once(word)?;
            text.rsplit([' ', '$']).find(|text| !text.is_empty())
        };
        let sent = before(" sent").and_then(count);
        let received = before(" received").and_then(count);
        let (Some(sent), Some(received)) = (sent, received) else {
            return Ok(());
        };
        self.usage.input_tokens = Some(self.usage.input_tokens.unwrap_or(0).saturating_add(sent));
        self.usage.output_tokens = Some(
            self.usage
                .output_tokens
                .unwrap_or(0)
                .saturating_add(received),
        );
        if let Some(cost) = before(" session").and_then(|text| text.parse::<f64>().ok()) {
            self.usage.cost_usd = Some(self.cost_before + cost);
        }
        printed.flush(link)?;
        link.event(Body::Usage { usage: self.usage })
    }
}

/// Parses a number such as `512`, `1.2k` or `3M`.
fn count(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text, 1.0),
        },
    };
    let number: f64 = number.replace(',', "").parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * factor) as u64)
}

fn last_line(text: &str) -> &str {
    text.lines().next_back().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::catalog::spec::Family;
    use crate::agent::tests::script::{Script, exited, stdout};

    fn turn(scratch: &tempfile::TempDir, prompt: &str) -> Turn {
        Turn {
            session: "s".into(),
            prompt: prompt.into(),
            number: 1,
            worktree: scratch.path().into(),
            scratch: scratch.path().into(),
            environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            ..Turn::default()
        }
    }

    fn driver(words: &[&str]) -> Command {
        let argv = words.iter().map(OsString::from).collect();
        Command::new(AgentSpec::new("x", Family::Command, argv))
    }

    fn variable(program: &Program, name: &str) -> Option<String> {
        program
            .env
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn a_program_gets_its_prompt_and_its_lines_are_events() {
        let scratch = tempfile::tempdir().expect("a directory");
        let turn = turn(&scratch, "do\nit");
        let mut link = Script::printing(["one", "two"]);
        link.push(exited(0));
        let mut driver = driver(&["sh", "-c", "cat {prompt}", "--", "{prompt}"]);
        let claim = driver.turn(&turn, &mut link).expect("a claim");
        assert!(claim.ok && claim.trouble.is_none());
        assert_eq!(claim.final_text, "one\ntwo");
        let program = &link.started[0];
        assert_eq!(program.argv, ["sh", "-c", "cat {prompt}", "--", "do\nit"]);
        assert_eq!(
            variable(program, "GIT_AGENT_PROMPT").as_deref(),
            Some("do\nit")
        );
        let file = variable(program, "GIT_AGENT_PROMPT_FILE").expect("always set");
        assert_eq!(std::fs::read_to_string(file).expect("written"), "do\nit");
        assert_eq!(variable(program, "GIT_AGENT_HISTORY_FILE"), None);
        assert_eq!(link.kinds(), ["output"]);
    }

    #[test]
    fn figures_and_edits_are_told_between_the_lines() {
        let mut link = Script::default();
        let mut printed = Printed::default();
        let mut told = Told::new(Usage {
            input_tokens: Some(100),
            cost_usd: Some(1.0),
            ..Usage::default()
        });
        for line in [
            "Applied edit to src/a b.rs",
            "Tokens: 1.2k sent, 20 received. Cost: $0.01 message, $0.25 session.",
            "Tokens: many sent",
            "plain words",
        ] {
            told.line(line, &mut printed, &mut link).expect("recorded");
        }
        assert_eq!(link.kinds(), ["edit", "usage"]);
        let Body::Usage { usage } = link.events[1] else {
            panic!("figures");
        };
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (Some(1300), Some(20))
        );
        assert_eq!(usage.cost_usd, Some(1.25));
    }

    #[test]
    fn an_agent_without_a_memory_is_told_what_was_said_and_takes_any_prompt() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut turn = turn(&scratch, "-go on");
        let history = scratch.path().join("history.txt");
        std::fs::write(&history, "the history\n").expect("written");
        turn.history = Some(history);
        let started = |name: &str| {
            let mut spec = crate::agent::catalog::registry::require(name, &[]).expect("built in");
            spec.argv[0] = "sh".into();
            let mut link = Script::default();
            link.push(exited(0));
            Command::new(spec).turn(&turn, &mut link).expect("a claim");
            let words = link.started[0].argv.iter();
            words
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        let words = started("cn");
        let [.., end, prompt] = &words[..] else {
            panic!("{words:?}")
        };
        assert_eq!(end, "--");
        assert!(prompt.contains("\nthe history\n") && prompt.ends_with("\n\n-go on"));
        // An agent with a memory of its own does not get the history.
        assert_eq!(started("pi").last().map(String::as_str), Some("\n-go on"));
    }

    #[test]
    fn a_long_prompt_is_only_in_the_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let turn = turn(&scratch, &"x".repeat(200_000));
        let mut link = Script::default();
        link.push(exited(0));
        driver(&["sh", "{prompt}"])
            .turn(&turn, &mut link)
            .expect("a claim");
        let program = &link.started[0];
        assert_eq!(variable(program, "GIT_AGENT_PROMPT"), None);
        assert!(program.argv[1].len() < 4096);
        let [Body::Notice { text }] = &link.events[..] else {
            panic!("it is said")
        };
        assert!(text.contains("GIT_AGENT_PROMPT_FILE"), "{text}");
    }

    #[test]
    fn a_command_that_should_ask_says_that_it_cannot() {
        let scratch = tempfile::tempdir().expect("a directory");
        for ask in [true, false] {
            let mut link = Script::default();
            link.push(exited(0));
            let turn = Turn {
                ask,
                ..turn(&scratch, "p")
            };
            driver(&["sh"]).turn(&turn, &mut link).expect("a claim");
            let says = |event: &Body| matches!(event, Body::Notice { text } if text.contains("cannot ask"));
            assert_eq!(link.events.iter().any(says), ask);
        }
    }

    #[test]
    fn failing_is_told_with_the_last_line() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut link = Script::printing(["working"]);
        link.push(Input::Stderr {
            line: b"fatal: 401 unauthorized".to_vec(),
            cut: 0,
        });
        link.push(exited(3));
        let claim = driver(&["sh"])
            .turn(&turn(&scratch, "p"), &mut link)
            .expect("a claim");
        let trouble = claim.trouble.expect("it failed");
        assert_eq!((claim.ok, trouble.kind), (false, TroubleKind::Auth));
        assert!(trouble.text.contains("exit code 3"), "{}", trouble.text);
    }

    #[test]
    fn the_words_of_a_command_of_the_users_own_are_about_no_model() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut link = Script::printing(["error 500 in the rate limit test"]);
        link.push(exited(1));
        let spec = AgentSpec::from_words(&["make test".into()]).expect("a command");
        let claim = Command::new(spec)
            .turn(&turn(&scratch, "p"), &mut link)
            .expect("a claim");
        let trouble = claim.trouble.expect("it failed");
        assert_eq!(trouble.kind, TroubleKind::Crash);
        assert!(trouble.text.contains("rate limit test"), "{}", trouble.text);
    }

    #[test]
    fn an_exit_of_zero_after_a_known_failure_is_no_success() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut driver = driver(&["sh"]);
        driver.spec.failure_texts = vec!["litellm.".into()];
        let mut link = Script::printing(["litellm.RateLimitError: slow down", "bye"]);
        link.push(exited(0));
        let claim = driver
            .turn(&turn(&scratch, "p"), &mut link)
            .expect("a claim");
        assert_eq!(
            claim.trouble.map(|trouble| trouble.kind),
            Some(TroubleKind::RateLimit)
        );
    }

    #[test]
    fn a_missing_program_and_a_cancelled_turn_are_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        let turn = turn(&scratch, "p");
        let mut link = Script::default();
        let claim = driver(&["no-such-program-here"])
            .turn(&turn, &mut link)
            .expect("a claim");
        assert_eq!(
            claim.trouble.map(|trouble| trouble.kind),
            Some(TroubleKind::NotInstalled)
        );
        assert!(link.started.is_empty());
        link.push(stdout("begun"));
        link.push(Input::Cancel);
        let claim = driver(&["sh"]).turn(&turn, &mut link).expect("a claim");
        assert!(claim.cancelled && !claim.ok && link.ended);
        assert_eq!(link.kinds(), ["output"]);
    }

    #[test]
    fn an_id_of_our_choice_is_said_before_the_start_and_used_again() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut turn = turn(&scratch, "p");
        let mut driver = driver(&["sh", "--id", "{new_session}", "--resume", "{session}"]);
        let mut link = Script::default();
        link.push(exited(0));
        driver.turn(&turn, &mut link).expect("a claim");
        let Body::Vendor { session } = &link.events[0] else {
            panic!("the id is said")
        };
        assert_eq!(link.started[0].argv, ["sh", "--id", session]);
        turn.resume = Some(session.clone());
        turn.history = Some("/h".into());
        let mut link = Script::default();
        link.push(exited(0));
        driver.turn(&turn, &mut link).expect("a claim");
        assert!(link.events.is_empty());
        assert_eq!(
            link.started[0].argv[1..],
            ["--resume", turn.resume.as_deref().expect("set")]
        );
        assert_eq!(
            variable(&link.started[0], "GIT_AGENT_HISTORY_FILE").as_deref(),
            Some("/h")
        );
        assert!(driver.capabilities().resume);
    }
}
