//! Four clones of one repository work offline and share at random; at the end everybody must see the same, and nothing
//! that anybody wrote may be missing.
//!
//!     share-machine [RUNS] [SEED] [STEPS]
//!
//! Each run makes a shared repository and four clones below a temporary directory, and does random steps: new sessions,
//! events, comments, replies, edits, deletions, resolutions, folds, deleted sessions, pushes and fetches, two pushes at
//! the same time, and connections that are cut off. Beside it a model of what must hold is kept. The seed of a run that
//! fails is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use git_agent::env::{Env, Terminals};
use git_agent::error::{Error, Result};
use git_agent::git::Repo;
use git_agent::redact::{KnownSecrets, Redactor};
use git_agent::review::{self, Action, Record, Review};
use git_agent::session::context::Context;
use git_agent::session::{Person, Session, SessionId, State, Ulid};
use git_agent::share::remote::Remote;
use git_agent::share::{fetch, forget, push};
use git_agent::store::append::SessionWriter;
use git_agent::store::list::{Listed, Scope};
use git_agent::store::notes::Kind;
use git_agent::transcript::Body;

const CLONES: usize = 4;

fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        let word = std::env::args().nth(at);
        word.and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (runs, seed, steps) = (number(1, 500), number(2, 1), number(3, 40));
    for run in 0..runs {
        let seed = seed + run;
        match one(seed, steps) {
            Ok(told) => {
                let _ = writeln!(io::stdout(), "seed {seed}: {told}");
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "seed {seed} fails: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let _ = writeln!(io::stdout(), "{runs} runs hold");
    ExitCode::SUCCESS
}

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % sides as u64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        match list.len() {
            0 => None,
            length => list.get(self.roll(length)),
        }
    }
}

/// What must hold at the end.
#[derive(Default)]
struct Model {
    /// Every event ever written, by session.
    events: BTreeMap<SessionId, BTreeSet<String>>,
    owners: BTreeMap<SessionId, usize>,
    closed: BTreeSet<SessionId>,
    forgotten: BTreeSet<SessionId>,
    /// Comments: whose, on which session, and the text they have now; deleted ones have none.
    comments: BTreeMap<Ulid, (usize, SessionId, Option<String>)>,
}

struct World {
    dir: tempfile::TempDir,
    dice: Dice,
    model: Model,
    steps: BTreeMap<&'static str, usize>,
    written: usize,
}

fn git(dir: &Path, words: &[&str]) -> Result<()> {
    let done = Command::new("git").current_dir(dir).args(words).output();
    match done {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Error::fatal(format!(
            "git {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
        Err(error) => Err(Error::fatal("git does not start").because(error)),
    }
}

fn redactor() -> Redactor {
    Redactor::new(KnownSecrets::new())
}

impl World {
    fn new(seed: u64) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let root = dir.path();
        git(
            root,
            &["init", "--quiet", "--bare", "-b", "main", "hub.git"],
        )?;
        git(root, &["init", "--quiet", "-b", "main", "seed"])?;
        let seed_dir = root.join("seed");
        let who = ["-c", "user.name=seed", "-c", "user.email=seed@example.com"];
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "begin"];
        git(&seed_dir, &[&who[..], &commit[..]].concat())?;
        git(&seed_dir, &["push", "--quiet", "../hub.git", "main"])?;
        for service in ["upload-pack", "receive-pack"] {
            // Cuts the connection off when told to, once.
            let script = format!(
                "#!/bin/sh\ncut=\"$0.cut\"\nif [ -f \"$cut\" ]; then n=$(cat \"$cut\"); rm -f \"$cut\"; exec 3<&0; pipe=\"$0.$$\"; mkfifo \"$pipe\"; git {service} \"$@\" <&3 >\"$pipe\" & dd bs=1 count=\"$n\" <\"$pipe\" 2>/dev/null; kill $!; rm -f \"$pipe\"; exit 1; fi\nexec git {service} \"$@\"\n"
            );
            let path = root.join(service);
            fs::write(&path, script)?;
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        for at in 0..CLONES {
            let name = format!("c{at}");
            git(root, &["clone", "--quiet", "hub.git", &name])?;
            let clone = root.join(&name);
            let upload = format!("'{}'", root.join("upload-pack").display());
            let receive = format!("'{}'", root.join("receive-pack").display());
            for (key, value) in [
                ("user.name", name.as_str()),
                ("user.email", &format!("{name}@example.com")),
                ("gc.auto", "0"),
                ("remote.origin.uploadpack", &upload),
                ("remote.origin.receivepack", &receive),
            ] {
                git(&clone, &["config", key, value])?;
            }
            let address = root.join("hub.git").canonicalize()?.display().to_string();
            git(&clone, &["config", "remote.origin.url", &address])?;
            git(&clone, &["config", "agent.share", &address])?;
        }
        Ok(World {
            dir,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            model: Model::default(),
            steps: BTreeMap::new(),
            written: 0,
        })
    }

    fn path(&self, clone: usize) -> PathBuf {
        self.dir.path().join(format!("c{clone}"))
    }

    fn text(&mut self, word: &str) -> String {
        self.written += 1;
        format!("{word} {}", self.written)
    }

    fn count(&mut self, step: &'static str) {
        *self.steps.entry(step).or_default() += 1;
    }

    fn step(&mut self) -> Result<()> {
        let clone = self.dice.roll(CLONES);
        match self.dice.roll(20) {
            0..=2 => self.create(clone),
            3..=5 => self.append(clone),
            6..=8 => self.comment(clone),
            9 => self.reply(clone),
            10 => self.edit(clone, false),
            11 => self.edit(clone, true),
            12 => self.resolve(clone),
            13 => self.close(clone),
            14 => self.fold(clone),
            15 => self.forget(clone),
            16 => self.push(clone),
            17 => self.fetch(clone),
            18 => self.race(),
            _ => self.cut(clone),
        }
    }

    fn own(&self, clone: usize, open: bool) -> Vec<SessionId> {
        let model = &self.model;
        let mine = model.owners.iter().filter(|(_, owner)| **owner == clone);
        mine.map(|(sid, _)| *sid)
            .filter(|sid| !model.forgotten.contains(sid))
            .filter(|sid| !open || !model.closed.contains(sid))
            .collect()
    }

    fn create(&mut self, clone: usize) -> Result<()> {
        self.count("new");
        let text = self.text("first");
        let sid = inside(&self.path(clone), |context| {
            let sid = SessionId::new(context.env);
            let (name, email) = context.repo.committer()?;
            let writer = context.store.require_writer()?;
            let author = Person { name, email };
            let made = Session::new(sid, writer, format!("s-{sid}"), author);
            let mut writer = SessionWriter::create(&context.store, made, redactor())?;
            writer.append(Body::Notice { text: text.clone() })?;
            writer.close()?;
            Ok(sid)
        })?;
        self.model.owners.insert(sid, clone);
        self.model.events.entry(sid).or_default().insert(text);
        Ok(())
    }

    fn append(&mut self, clone: usize) -> Result<()> {
        let Some(sid) = self.dice.pick(&self.own(clone, true)).copied() else {
            return Ok(());
        };
        self.count("append");
        let text = self.text("turn");
        inside(&self.path(clone), |context| {
            let mut writer = SessionWriter::open(&context.store, sid, redactor())?;
            writer.append(Body::Notice { text: text.clone() })?;
            writer.close().map(|_| ())
        })?;
        self.model.events.entry(sid).or_default().insert(text);
        Ok(())
    }

    /// Adds a record to a clone's notes.
    fn record(&mut self, clone: usize, sid: SessionId, action: Action) -> Result<Ulid> {
        inside(&self.path(clone), |context| {
            let store = &context.store;
            let records = store.note_records::<Record>(Kind::Review)?.records;
            let lc = records.iter().map(|one| one.value.lc).max().unwrap_or(0) + 1;
            let (name, email) = context.repo.committer()?;
            let record = Record {
                id: Ulid::new(context.env),
                sid,
                after: Vec::new(),
                lc,
                ts: context.env.now(),
                who: Person { name, email },
                action,
            };
            let on = context.repo.resolve_commit("HEAD")?;
            store.append_notes(Kind::Review, &[(on, redactor().json(record.to_json()))])?;
            Ok(record.id)
        })
    }

    /// Returns the sessions that a clone knows of.
    fn seen(&self, clone: usize) -> Result<Vec<SessionId>> {
        inside(&self.path(clone), |context| {
            let listing = context.store.list(Scope::Archived)?;
            Ok(listing.sessions.iter().map(|one| one.session.sid).collect())
        })
    }

    fn comment(&mut self, clone: usize) -> Result<()> {
        let seen = self.seen(clone)?;
        let Some(sid) = self.dice.pick(&seen).copied() else {
            return Ok(());
        };
        self.count("comment");
        let body = self.text("comment");
        let action = Action::Comment {
            target: None,
            at: None,
            body: body.clone(),
            severity: None,
        };
        let id = self.record(clone, sid, action)?;
        self.model.comments.insert(id, (clone, sid, Some(body)));
        Ok(())
    }

    /// Returns the comments that a clone can see, perhaps only its own.
    fn comments(&self, clone: usize, own: bool) -> Result<Vec<(Ulid, SessionId)>> {
        let reviews = inside(&self.path(clone), reviews)?;
        let mut found = Vec::new();
        for (sid, review) in reviews {
            for comment in review.threads.iter().flat_map(|thread| &thread.comments) {
                let known = self.model.comments.get(&comment.id);
                let mine = known.is_some_and(|(owner, _, _)| *owner == clone);
                if !comment.deleted && (mine || !own) {
                    found.push((comment.id, sid));
                }
            }
        }
        Ok(found)
    }

    fn reply(&mut self, clone: usize) -> Result<()> {
        let there = self.comments(clone, false)?;
        let Some((target, sid)) = self.dice.pick(&there).copied() else {
            return Ok(());
        };
        self.count("reply");
        let body = self.text("reply");
        let action = Action::Comment {
            target: Some(target),
            at: None,
            body: body.clone(),
            severity: None,
        };
        let id = self.record(clone, sid, action)?;
        self.model.comments.insert(id, (clone, sid, Some(body)));
        Ok(())
    }

    fn edit(&mut self, clone: usize, delete: bool) -> Result<()> {
        let own = self.comments(clone, true)?;
        let Some((target, sid)) = self.dice.pick(&own).copied() else {
            return Ok(());
        };
        let body = (!delete).then(|| self.text("edited"));
        self.count(if delete { "delete" } else { "edit" });
        let action = match &body {
            Some(body) => Action::Edit {
                target,
                body: body.clone(),
            },
            None => Action::Del {
                target: Some(target),
            },
        };
        self.record(clone, sid, action)?;
        self.model.comments.insert(target, (clone, sid, body));
        Ok(())
    }

    fn resolve(&mut self, clone: usize) -> Result<()> {
        let there = self.comments(clone, false)?;
        let Some((target, sid)) = self.dice.pick(&there).copied() else {
            return Ok(());
        };
        self.count("resolve");
        let action = match self.dice.roll(3) {
            0 => Action::Reopen { target },
            _ => Action::Resolve { target },
        };
        self.record(clone, sid, action).map(|_| ())
    }

    fn close(&mut self, clone: usize) -> Result<()> {
        let Some(sid) = self.dice.pick(&self.own(clone, true)).copied() else {
            return Ok(());
        };
        self.count("close");
        inside(&self.path(clone), |context| {
            let mut writer = SessionWriter::open(&context.store, sid, redactor())?;
            writer.set_status(State::Discarded, "")?;
            writer.close().map(|_| ())
        })?;
        self.model.closed.insert(sid);
        Ok(())
    }

    fn fold(&mut self, clone: usize) -> Result<()> {
        self.count("fold");
        inside(&self.path(clone), |context| {
            context.store.fold(&redactor(), &|_| true).map(|_| ())
        })
    }

    fn forget(&mut self, clone: usize) -> Result<()> {
        let own = self.own(clone, false);
        // Not all of them: there should be something left to look at.
        if own.len() < 2 {
            return Ok(());
        }
        let Some(sid) = self.dice.pick(&own).copied() else {
            return Ok(());
        };
        self.count("forget");
        inside(&self.path(clone), |context| {
            let listing = context.store.list(Scope::Archived)?;
            let listed = listing.sessions.iter().find(|one| one.session.sid == sid);
            let listed =
                listed.ok_or_else(|| Error::fatal(format!("own session {sid} is gone")))?;
            forget::forget(context, listed, true, &mut |_| {}).map(|_| ())
        })?;
        self.model.forgotten.insert(sid);
        Ok(())
    }

    fn push(&mut self, clone: usize) -> Result<()> {
        self.count("push");
        share(&self.path(clone))
    }

    fn fetch(&mut self, clone: usize) -> Result<()> {
        self.count("fetch");
        let prune = self.dice.roll(2) == 0;
        take(&self.path(clone), prune)
    }

    /// Everybody pushes at the same time.
    fn race(&mut self) -> Result<()> {
        self.count("race");
        let paths: Vec<PathBuf> = (0..CLONES).map(|clone| self.path(clone)).collect();
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let running: Vec<_> = paths
                .iter()
                .map(|path| scope.spawn(|| share(path)))
                .collect();
            running
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(Error::fatal("a push panicked")))
                })
                .collect()
        });
        results.into_iter().collect()
    }

    /// A push or a fetch whose connection is cut off: it may fail, and must leave everything whole.
    fn cut(&mut self, clone: usize) -> Result<()> {
        self.count("cut");
        let bytes = [0, 4, 60, 300, 1200][self.dice.roll(5)];
        let fetches = self.dice.roll(2) == 0;
        let service = if fetches {
            "upload-pack"
        } else {
            "receive-pack"
        };
        let mark = self.dir.path().join(format!("{service}.cut"));
        fs::write(&mark, bytes.to_string())?;
        let path = self.path(clone);
        let _ = if fetches {
            take(&path, true)
        } else {
            share(&path)
        };
        let _ = fs::remove_file(&mark);
        Ok(())
    }

    /// Brings everybody up to date and holds what they see to the model and to each other.
    fn settle(&mut self) -> Result<()> {
        for _ in 0..2 {
            for clone in 0..CLONES {
                share(&self.path(clone))?;
            }
            for clone in 0..CLONES {
                take(&self.path(clone), true)?;
            }
        }
        let mut first: Option<View> = None;
        for clone in 0..CLONES {
            let view = inside(&self.path(clone), view)?;
            self.check(clone, &view)?;
            match &first {
                None => first = Some(view),
                Some(first) if *first == view => {}
                Some(first) => {
                    return Err(Error::fatal(format!(
                        "clones 0 and {clone} see different things:\n{first:#?}\n{view:#?}"
                    )));
                }
            }
            git(
                &self.path(clone),
                &["fsck", "--no-dangling", "--no-progress"],
            )?;
        }
        git(
            &self.dir.path().join("hub.git"),
            &["fsck", "--no-dangling", "--no-progress"],
        )
    }

    fn check(&self, clone: usize, view: &View) -> Result<()> {
        let model = &self.model;
        for (sid, events) in &model.events {
            let shown = view.sessions.get(sid);
            match (shown, model.forgotten.contains(sid)) {
                (None, true) => {}
                (Some(_), true) => {
                    return Err(Error::fatal(format!("clone {clone} shows deleted {sid}")));
                }
                (None, false) => {
                    return Err(Error::fatal(format!("clone {clone} lacks session {sid}")));
                }
                (Some((_, texts)), false) => {
                    for text in events {
                        let times = texts.iter().filter(|one| *one == text).count();
                        if times != 1 {
                            return Err(Error::fatal(format!(
                                "clone {clone} has '{text}' of {sid} {times} times"
                            )));
                        }
                    }
                }
            }
        }
        for (id, (_, sid, body)) in &model.comments {
            if model.forgotten.contains(sid) {
                continue;
            }
            let comments = view.reviews.get(sid).map(|review| &review.threads);
            let found = comments
                .into_iter()
                .flatten()
                .flat_map(|thread| &thread.comments)
                .find(|comment| comment.id == *id);
            let standing = found.filter(|one| !one.deleted).map(|one| &one.body);
            if standing != body.as_ref() {
                return Err(Error::fatal(format!(
                    "clone {clone}: comment {id} is {standing:?}, not {body:?}"
                )));
            }
        }
        Ok(())
    }
}

/// What a clone shows.
#[derive(Debug, PartialEq)]
struct View {
    sessions: BTreeMap<SessionId, (State, Vec<String>)>,
    reviews: BTreeMap<SessionId, Review>,
}

fn view(context: &Context<'_>) -> Result<View> {
    let listing = context.store.list(Scope::Archived)?;
    if let Some(bad) = listing.unreadable.first() {
        return Err(Error::fatal(format!("{}: {}", bad.name, bad.reason)));
    }
    let mut sessions = BTreeMap::new();
    for listed in &listing.sessions {
        sessions.insert(
            listed.session.sid,
            (listed.session.status, texts(context, listed)?),
        );
    }
    let mut reviews = reviews(context)?;
    reviews.retain(|sid, _| sessions.contains_key(sid));
    Ok(View { sessions, reviews })
}

fn texts(context: &Context<'_>, listed: &Listed) -> Result<Vec<String>> {
    let Some(tip) = listed.tip else {
        return Ok(Vec::new());
    };
    let mut texts = Vec::new();
    for event in context.store.transcript(tip)? {
        if let Body::Notice { text } = event?.body {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn reviews(context: &Context<'_>) -> Result<BTreeMap<SessionId, Review>> {
    let records = context.store.note_records::<Record>(Kind::Review)?.records;
    let records = records.into_iter().map(|one| (one.writer, one.value));
    Ok(review::fold(records))
}

fn inside<T>(path: &Path, work: impl FnOnce(&Context<'_>) -> Result<T>) -> Result<T> {
    let env = Env::new(path.to_owned(), std::env::vars_os(), Terminals::default());
    let repo = Repo::open(&env, &path.join(".git"))?;
    let context = Context::new(&env, &repo)?;
    work(&context)
}

fn share(path: &Path) -> Result<()> {
    inside(path, |context| {
        let remote = Remote::choose(context, None)?;
        let changes = push::push(context, &remote, &push::Options::default(), &mut |_| {})?;
        match changes.iter().find(|one| one.reason.is_some()) {
            Some(refused) => Err(Error::fatal(format!("a push was refused: {refused:?}"))),
            None => Ok(()),
        }
    })
}

fn take(path: &Path, prune: bool) -> Result<()> {
    inside(path, |context| {
        let remote = Remote::choose_name(context, None)?;
        let options = fetch::Options {
            prune,
            ..fetch::Options::default()
        };
        let fetched = fetch::fetch(context, &remote, &options, &mut |_| {})?;
        match fetched.changes.iter().find(|one| one.reason.is_some()) {
            Some(refused) => Err(Error::fatal(format!("a fetch refused: {refused:?}"))),
            None => Ok(()),
        }
    })
}

fn one(seed: u64, steps: u64) -> Result<String> {
    let mut world = World::new(seed)?;
    for _ in 0..steps {
        world.step()?;
    }
    world.settle()?;
    let told: Vec<String> = world
        .steps
        .iter()
        .map(|(step, count)| format!("{step} {count}"))
        .collect();
    Ok(told.join(", "))
}
