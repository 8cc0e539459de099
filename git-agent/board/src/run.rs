//! The loop: waits for keys and news, updates the state, carries out effects, and paints.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use git_agent::env::Env;
use git_agent::error::{Context as _, Result};
use git_agent::invoke::{editor, in_repo};
use git_agent::listing::live::{self, Bell, Wishes};
use git_agent::output::{self, Options};
use git_agent::review::diff_scope::Scope;
use git_agent::selection::{self, Selection};
use git_agent::session::worktree::enter;

use crate::app::effect::{Effect, Job, Message};
use crate::app::{App, Input, Tone};
use crate::effects::{self, Outbox};
use crate::screen::{self, Screen, Waiter};
use crate::view;
use crate::view::theme::Theme;

/// News lead to a new picture this often at most; keys do at once.
const FRAME: Duration = Duration::from_millis(33);

/// What to show first.
pub struct Start {
    /// The sessions.
    pub selection: Selection,
    /// The session to select, or to review.
    pub session: Option<String>,
    /// Whether the review screen of that session is opened.
    pub review: bool,
    /// Whether the background is light, where that is configured.
    pub is_light: Option<bool>,
}

/// Everything that the loop needs.
struct Desk {
    env: Arc<Env>,
    app: App,
    screen: Screen,
    waiter: Waiter,
    wishes: Wishes,
    out: Outbox,
    bell: Bell,
    messages: Receiver<Message>,
}

/// Shows the screen until the user leaves.
pub fn run(
    env: &Arc<Env>,
    mut app: App,
    start: Start,
    theme: impl FnOnce(bool) -> Theme,
) -> Result<u8> {
    let bell = Bell::new()?;
    let (sender, messages) = channel();
    let out = Outbox::new(sender, bell.clone());
    let wishes = Wishes::new()?;
    let watching = watch(env, start.selection, &wishes, &out);
    let waiter = Waiter::new()?;
    let mut screen = Screen::take()?;
    let is_light = match start.is_light {
        Some(is_light) => is_light,
        None => screen.is_light(env)?.unwrap_or(false),
    };
    app.board.selected.clone_from(&start.session);
    let mut first = Vec::new();
    if start.review
        && let Some(id) = &start.session
    {
        app.only_review = true;
        first = app.open_review(id, Scope::Branch);
    }
    let mut desk = Desk {
        env: Arc::clone(env),
        app,
        screen,
        waiter,
        wishes,
        out,
        bell,
        messages,
    };
    let ended = desk.first_then_loop(first, theme(is_light));
    desk.wishes.end();
    drop(desk);
    // It ends at once: it waits for nothing but the wishes.
    let _ = watching.map(std::thread::JoinHandle::join);
    ended.map(|()| 0)
}

/// Begins to watch the sessions in a thread.
fn watch(
    env: &Arc<Env>,
    selection: Selection,
    wishes: &Wishes,
    out: &Outbox,
) -> Option<std::thread::JoinHandle<()>> {
    let (env, wishes, out) = (Arc::clone(env), wishes.clone(), out.clone());
    let thread = std::thread::Builder::new().name("live".to_owned());
    let spawned = thread.spawn(move || {
        let told = out.clone();
        let ended = in_repo::run_without_warnings(&env, Options::default(), |context, _| {
            live::run(context, selection, &wishes, &mut |news| {
                told.send(Message::News(news))
            })?;
            Ok(0)
        });
        if let Err(error) = ended {
            out.send(Message::News(live::News::Failed(error)));
        }
    });
    spawned.ok()
}

impl Desk {
    fn first_then_loop(&mut self, first: Vec<Effect>, theme: Theme) -> Result<()> {
        if !self.carry_out(first)? {
            return Ok(());
        }
        let mut painted = Instant::now();
        let mut is_dirty = true;
        let mut at_once = true;
        loop {
            let since = painted.elapsed();
            if is_dirty && (at_once || since >= FRAME) {
                self.paint(theme)?;
                painted = Instant::now();
                (is_dirty, at_once) = (false, false);
            }
            let wait = if is_dirty {
                FRAME.saturating_sub(since)
            } else {
                self.until_tick()
            };
            let woken = self.waiter.wait(&self.screen, &self.bell, Some(wait))?;
            self.app.now = self.env.now();
            if woken.suspend {
                self.suspend()?;
                (is_dirty, at_once) = (true, true);
            }
            if woken.printed {
                for line in self.screen.messages().lines() {
                    self.app.message(Message::Printed(line.to_owned()));
                }
                is_dirty = true;
            }
            if woken.inputs.is_empty() && !woken.news && !is_dirty {
                self.app.input(Input::Tick);
                is_dirty = true;
            }
            for input in woken.inputs {
                let effects = self.app.input(input);
                if !self.carry_out(effects)? {
                    return Ok(());
                }
                (is_dirty, at_once) = (true, true);
            }
            if woken.news {
                self.bell.silence();
                while let Ok(message) = self.messages.try_recv() {
                    let effects = self.app.message(message);
                    if !self.carry_out(effects)? {
                        return Ok(());
                    }
                    is_dirty = true;
                }
            }
        }
    }

    /// Returns how long nothing on the screen changes by itself: a second, or the rest of the minute.
    fn until_tick(&self) -> Duration {
        let millis = self.env.now().0;
        let left = if self.app.is_ticking() {
            1000 - millis % 1000
        } else {
            60_000 - millis % 60_000
        };
        Duration::from_millis(left)
    }

    fn paint(&mut self, theme: Theme) -> Result<()> {
        let app = &mut self.app;
        self.screen.draw(|frame| view::draw(frame, app, theme))?;
        // Only visible hunks get colours.
        if let Some(review) = &mut self.app.review
            && let Some(shown) = review.shown.clone()
        {
            for (file, hunk) in review.wanted_colors() {
                effects::begin(
                    &self.env,
                    &self.out,
                    0,
                    Job::Colors(Arc::clone(&shown), file, hunk),
                );
            }
        }
        Ok(())
    }

    fn suspend(&mut self) -> Result<()> {
        self.screen.give();
        screen::suspend()?;
        self.waiter.forget();
        self.screen.take_again()
    }

    /// Carries out effects. Returns false if the program ends.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<bool> {
        for effect in effects {
            match effect {
                Effect::Quit => return Ok(false),
                Effect::Suspend => self.suspend()?,
                Effect::Redraw => self.screen.clear()?,
                Effect::Follow(id) => self.wishes.follow(id),
                Effect::Look => self.wishes.look(),
                Effect::Ring => self.screen.write(b"\x07")?,
                Effect::Copy(text) => self.screen.write(&screen::copy_sequence(&text))?,
                Effect::Run(words, waits) => self.run_program(&words, waits)?,
                Effect::Edit { text } => self.edit(&text)?,
                Effect::EditLine(id, path, line) => self.edit_line(&id, &path, line)?,
                Effect::Job(number, job) => effects::begin(&self.env, &self.out, number, job),
            }
        }
        Ok(true)
    }

    /// Gives the terminal to something else for a while.
    fn give_way<T>(&mut self, act: impl FnOnce(&Env) -> Result<T>) -> Result<Option<T>> {
        self.screen.give();
        let done = act(&self.env);
        self.waiter.forget();
        self.screen.take_again()?;
        self.wishes.look();
        Ok(match done {
            Ok(done) => Some(done),
            Err(error) => {
                self.app.say(Tone::Bad, effects::words(&error));
                None
            }
        })
    }

    fn run_program(&mut self, words: &[String], waits: bool) -> Result<()> {
        let words = words.to_vec();
        self.give_way(|_| {
            let program = program();
            let status = Command::new(&program)
                .args(&words)
                .status()
                .context(|| format!("cannot run '{}'", program.display()))?;
            if waits || !status.success() {
                output::print("\n-- press Enter to go back to the board --", false)?;
                wait_for_enter();
            }
            Ok(())
        })?;
        Ok(())
    }

    fn edit(&mut self, text: &str) -> Result<()> {
        let edited = self.give_way(|env| {
            let mut edited = String::new();
            in_repo::run_without_warnings(env, Options::default(), |context, _| {
                edited = editor::ask(context, "board", text)?;
                Ok(0)
            })?;
            Ok(edited)
        })?;
        if let Some(text) = edited {
            self.app.message(Message::Edited(text));
        }
        Ok(())
    }

    fn edit_line(&mut self, id: &str, path: &[u8], line: u32) -> Result<()> {
        self.give_way(|env| {
            in_repo::run_without_warnings(env, Options::default(), |context, _| {
                let session = selection::select_mine(context, Some(id))?.session;
                let top = enter::require_worktree(context, &session)?;
                let file = top.join(std::ffi::OsStr::from_bytes(path));
                editor::open_at(context, &file, line)?;
                Ok(0)
            })
        })?;
        Ok(())
    }
}

/// Returns the program `git-agent`: the one beside this one, or else the one from PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok();
    let beside = beside.and_then(|program| Some(program.parent()?.join("git-agent")));
    beside
        .filter(|program| program.exists())
        .unwrap_or_else(|| "git-agent".into())
}

fn wait_for_enter() {
    let mut byte = [0];
    let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else {
        return;
    };
    let mut keyboard = std::fs::File::from(copy);
    while keyboard.read(&mut byte).is_ok_and(|count| count == 1) && byte[0] != b'\n' {}
}
