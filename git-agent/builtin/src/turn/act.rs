//! The calls of one answer: permission, action, result.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::conversation::{Call, Message, ToolResult};
use crate::cut;
use crate::provider::failure::Failure;
use crate::screen;
use crate::tools::shell::{self, End};
use crate::tools::{self, Action, Edit};
use crate::turn::{Halt, Input, Turn};

/// How often the same call may be made in a row before the model is told, and before the turn ends.
const REPEATS: (u32, u32) = (3, 6);

/// Of larger files only the changed part is shown.
const LARGEST_DIFF: usize = 512 << 10;

/// Whether an action may be done.
enum Leave {
    Given,
    /// Why not, for the model.
    Refused(String),
}

impl Turn<'_> {
    /// Makes all calls of an answer in order. Returns whether the model is done.
    pub(super) fn call_all(&mut self, calls: &[Call]) -> Result<bool, Halt> {
        let (mut results, mut done, mut cancelled) = (Vec::new(), false, false);
        for call in calls {
            // After a cancelled call the others are not made, but each needs a result.
            let made = if cancelled {
                Err(Halt::Cancelled)
            } else {
                self.call(call, &mut done)
            };
            let (text, failed) = match made {
                Ok(result) => result,
                Err(Halt::Cancelled) => {
                    cancelled = true;
                    ("the user cancelled it".to_owned(), true)
                }
                Err(halt) => return Err(halt),
            };
            results.push(ToolResult {
                id: call.id.clone(),
                text,
                failed,
            });
        }
        self.conversation
            .say(Message::Tool { results }, self.redactor)?;
        if cancelled {
            Err(Halt::Cancelled)
        } else {
            Ok(done)
        }
    }

    /// Makes one call. Returns its result for the model, and whether it failed.
    fn call(&mut self, call: &Call, done: &mut bool) -> Result<(String, bool), Halt> {
        let repeated = self.repeated(call)?;
        let action = match tools::parse(&call.name, &call.input) {
            Ok(action) => action,
            Err(why) => return Ok((why, true)),
        };
        match &action {
            Action::Plan(steps) => {
                self.screen.plan(steps);
                return Ok(("ok".to_owned(), false));
            }
            Action::Done(summary) => {
                *done = true;
                if !summary.is_empty() {
                    self.number += 1;
                    self.screen.text(self.number, summary);
                }
                return Ok(("ok".to_owned(), false));
            }
            _ => {}
        }
        // Ids of providers repeat between answers; these do not.
        self.number += 1;
        let id = format!("call-{}", self.number);
        let shown = screen::call(&id, &action, &call.input);
        self.screen.begin(&shown);
        let allowed = self.ask_permission(&action, shown)?;
        let (mut text, failed, content) = match allowed {
            Leave::Refused(why) => (why.clone(), true, screen::text_content(&why)),
            Leave::Given => self.act(&action)?,
        };
        self.screen.end(&id, content, failed);
        if repeated {
            text.push_str("\n(the same call was made several times in a row: do something else)");
        }
        Ok((text, failed))
    }

    /// Counts identical calls in a row. Fails if there are too many.
    fn repeated(&mut self, call: &Call) -> Result<bool, Halt> {
        let this = format!("{} {}", call.name, call.input);
        if self.last_call.0 == this {
            self.last_call.1 += 1
        } else {
            self.last_call = (this, 1)
        }
        if self.last_call.1 >= REPEATS.1 {
            let text = format!(
                "stuck: the model made the same call {} times in a row",
                REPEATS.1
            );
            return Err(Failure::new(text).into());
        }
        Ok(self.last_call.1 >= REPEATS.0)
    }

    /// Does an action. Returns the result for the model, whether it failed, and the result for the user.
    fn act(&mut self, action: &Action) -> Result<(String, bool, Value), Halt> {
        let (text, failed) = match action {
            Action::Shell { command, timeout } => {
                let argv = ["sh", "-c", command].map(str::to_owned);
                self.run_command(&argv, *timeout)?
            }
            Action::Search { pattern, path } => {
                self.run_command(&tools::search_command(pattern, path), 60)?
            }
            Action::Read { path, from, lines } => told(tools::read(self.cwd, path, *from, *lines)),
            Action::Edit(edit) => match tools::edit(self.cwd, edit) {
                Ok((before, after)) => {
                    let content = self.diff(edit, &before, &after);
                    return Ok(("ok".to_owned(), false, content));
                }
                Err(why) => (why, true),
            },
            Action::Plan(_) | Action::Done(_) => (String::new(), false),
        };
        let content = screen::text_content(&text);
        Ok((text, failed, content))
    }

    /// Returns a change as the user sees it: of a large file only the replaced part.
    fn diff(&self, edit: &Edit, before: &str, after: &str) -> Value {
        let path = self.cwd.join(&edit.path);
        let path = path.to_string_lossy();
        if before.len() + after.len() > LARGEST_DIFF {
            return screen::diff_content(&path, &edit.old, &edit.new);
        }
        screen::diff_content(&path, before, after)
    }

    /// Runs a command until it ends, its time is over or the turn is cancelled.
    fn run_command(&mut self, argv: &[String], timeout: u64) -> Result<(String, bool), Halt> {
        self.number += 1;
        let number = self.number;
        let sender = self.sender.clone();
        let ended = move |status| {
            let _ = sender.send(Input::Shell(number, status));
        };
        let running = match shell::start(argv, self.cwd, ended) {
            Ok(running) => running,
            Err(why) => return Ok((why, true)),
        };
        let deadline = Instant::now() + Duration::from_secs(timeout);
        loop {
            match self.next(Some(deadline)) {
                Some(Input::Shell(of, status)) if of == number => {
                    return Ok(running.result(End::Exited(status)));
                }
                Some(Input::Cancel) => {
                    running.kill();
                    return Err(Halt::Cancelled);
                }
                Some(_) => {}
                None => {
                    running.kill();
                    return Ok(running.result(End::TimedOut(timeout)));
                }
            }
        }
    }

    /// Asks the user, where that is wanted.
    fn ask_permission(&mut self, action: &Action, mut shown: Value) -> Result<Leave, Halt> {
        if !action.is_risky(self.cwd) {
            return Ok(Leave::Given);
        }
        if self.permissions.read_only && matches!(action, Action::Edit(_)) {
            return Ok(Leave::Refused("nothing may be changed here".to_owned()));
        }
        let kind = action.kind();
        let free = self.permissions.skip || self.permissions.always.contains(kind);
        if free && !self.permissions.read_only {
            return Ok(Leave::Given);
        }
        if let Action::Edit(edit) = action {
            let (before, after) = match tools::preview(self.cwd, edit) {
                Ok(change) => change,
                Err(why) => return Ok(Leave::Refused(why)),
            };
            shown["content"] = json!([self.diff(edit, &before, &after)]);
        }
        self.number += 1;
        // The client may have several conversations open.
        let id = format!("{}/{}", self.screen.session, self.number);
        let options = json!([
            {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "allow_always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
        ]);
        let params =
            json!({"sessionId": self.screen.session, "toolCall": shown, "options": options});
        screen::send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": params}),
        );
        loop {
            match self.next(None) {
                Some(Input::Permission(of, outcome)) if of == id => {
                    return match outcome["outcome"]["optionId"].as_str() {
                        Some("allow_once") => Ok(Leave::Given),
                        Some("allow_always") => {
                            self.permissions.always.insert(kind);
                            Ok(Leave::Given)
                        }
                        Some(_) => Ok(Leave::Refused("the user refused this".to_owned())),
                        None => Err(Halt::Cancelled),
                    };
                }
                Some(Input::Cancel) | None => return Err(Halt::Cancelled),
                Some(_) => {}
            }
        }
    }

    /// Runs the command of a fenced block, and gives its output back as a message.
    pub(super) fn run_fenced(&mut self, command: String) -> Result<(), Halt> {
        let call = Call {
            id: String::new(),
            name: "shell".to_owned(),
            input: json!({"command": command}),
        };
        let (text, _) = self.call(&call, &mut false)?;
        let text = format!("Output:\n{}", cut::cut(&text));
        Ok(self.conversation.say(Message::user(text), self.redactor)?)
    }
}

fn told(result: Result<String, String>) -> (String, bool) {
    match result {
        Ok(text) => (text, false),
        Err(why) => (why, true),
    }
}
