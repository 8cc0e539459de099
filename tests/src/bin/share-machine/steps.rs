//! What a clone does: one step each, in the clone and in the model of what must hold.

use std::fs;
use std::path::PathBuf;

use git_agent::error::{Error, Result};
use git_agent::git::remote::transfer::Audience;
use git_agent::model::event::Body;
use git_agent::model::review::{Action, Record};
use git_agent::model::session::{Person, Session, SessionId, State, Ulid};
use git_agent::share::forget;
use git_agent::store::list::Scope;
use git_agent::store::log::writer::SessionWriter;
use git_agent::store::notes::Kind;

use crate::views::{inside, reviews, share, take};
use crate::{CLONES, World, redactor};

impl World {
    pub(super) fn own(&self, clone: usize, open: bool) -> Vec<SessionId> {
        let model = &self.model;
        let mine = model.owners.iter().filter(|(_, owner)| **owner == clone);
        mine.map(|(sid, _)| *sid)
            .filter(|sid| !model.forgotten.contains(sid))
            .filter(|sid| !open || !model.closed.contains(sid))
            .collect()
    }

    pub(super) fn create(&mut self, clone: usize) -> Result<()> {
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

    pub(super) fn append(&mut self, clone: usize) -> Result<()> {
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
    pub(super) fn record(&mut self, clone: usize, sid: SessionId, action: Action) -> Result<Ulid> {
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
    pub(super) fn seen(&self, clone: usize) -> Result<Vec<SessionId>> {
        inside(&self.path(clone), |context| {
            let listing = context.store.list(Scope::Archived)?;
            Ok(listing.sessions.iter().map(|one| one.session.sid).collect())
        })
    }

    pub(super) fn comment(&mut self, clone: usize) -> Result<()> {
        let seen = self.seen(clone)?;
        let Some(sid) = self.dice.pick(&seen).copied() else {
            return Ok(());
        };
        self.count("comment");
        let body = self.text("comment");
        let action = Action::Comment {
            target: None,
            of: None,
            at: None,
            body: body.clone(),
            severity: None,
        };
        let id = self.record(clone, sid, action)?;
        self.model.comments.insert(id, (clone, sid, Some(body)));
        Ok(())
    }

    /// Returns the comments that a clone can see, perhaps only its own.
    pub(super) fn comments(&self, clone: usize, own: bool) -> Result<Vec<(Ulid, SessionId)>> {
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

    pub(super) fn reply(&mut self, clone: usize) -> Result<()> {
        let there = self.comments(clone, false)?;
        let Some((target, sid)) = self.dice.pick(&there).copied() else {
            return Ok(());
        };
        self.count("reply");
        let body = self.text("reply");
        let action = Action::Comment {
            target: Some(target),
            of: None,
            at: None,
            body: body.clone(),
            severity: None,
        };
        let id = self.record(clone, sid, action)?;
        self.model.comments.insert(id, (clone, sid, Some(body)));
        Ok(())
    }

    pub(super) fn edit(&mut self, clone: usize, delete: bool) -> Result<()> {
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

    pub(super) fn resolve(&mut self, clone: usize) -> Result<()> {
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

    pub(super) fn close(&mut self, clone: usize) -> Result<()> {
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

    pub(super) fn fold(&mut self, clone: usize) -> Result<()> {
        self.count("fold");
        inside(&self.path(clone), |context| {
            context.store.fold(&redactor(), &|_| true).map(|_| ())
        })
    }

    pub(super) fn forget(&mut self, clone: usize) -> Result<()> {
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
            forget::forget(context, listed, true, &mut Audience::Silent).map(|_| ())
        })?;
        self.model.forgotten.insert(sid);
        Ok(())
    }

    pub(super) fn push(&mut self, clone: usize) -> Result<()> {
        self.count("push");
        share(&self.path(clone))
    }

    pub(super) fn fetch(&mut self, clone: usize) -> Result<()> {
        self.count("fetch");
        let prune = self.dice.roll(2) == 0;
        take(&self.path(clone), prune)
    }

    /// Everybody pushes at the same time.
    pub(super) fn race(&mut self) -> Result<()> {
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
    pub(super) fn cut(&mut self, clone: usize) -> Result<()> {
        self.count("cut");
        let bytes = [0, 4, 60, 300, 1200][self.dice.roll(5)];
        let fetches = self.dice.roll(2) == 0;
        let service = if fetches {
            "upload-pack"
        } else {
            "receive-pack"
        };
        let (mark, bytes) = match &self.web {
            None => (format!("{service}.cut"), bytes),
            // Inside a packet of a push over the web git waits for itself for minutes; between two it notices.
            Some(_) if !fetches => ("cut".to_owned(), 0),
            Some(_) => ("cut".to_owned(), bytes),
        };
        let mark = self.dir.path().join(mark);
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
}
