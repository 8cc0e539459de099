//! Writes a session: events go to the spool at once, and to git when a flush is due.
//!
//! Only one process at a time writes a session, and holds its lock. Events that a crash leaves in the spool are
//! recovered by the next writer, or by [`Store::recover`].

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::env::Millis;
use crate::error::{Context, Error, Result};
use crate::git::sha256;
use crate::model::event::{Body, Event};
use crate::model::session::fold::shorten;
use crate::model::session::{Local, Record, Session, SessionId, State, Ulid};
use crate::process::lock::Lock;
use crate::redact::{KnownSecrets, Redacted, Redactor};
use crate::store::log::ATTACHMENTS;
use crate::store::log::spool::{self, Spool};
use crate::store::{Store, limits};

/// When the spool goes to git without a change of state.
const FLUSH_TURNS: u32 = 20;
const FLUSH_BYTES: u64 = 256 << 10;
const FLUSH_MILLIS: u64 = 60_000;
/// How long a state may wait for the next one: many turns end within this time, and go to git once.
const STATUS_MILLIS: u64 = 3_000;
/// How long a short-lived writer waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

/// The one process that writes a session.
#[derive(Debug)]
pub struct SessionWriter<'a> {
    store: Store<'a>,
    redactor: Redactor,
    _lock: Lock,
    spool: Spool,
    session: Session,
    pending: Pending,
    last_seq: u64,
}

/// The events in the spool that are not in git.
#[derive(Debug, Default, Clone, Copy)]
struct Pending {
    events: u64,
    bytes: u64,
    turns: u32,
    since: Option<Millis>,
    status: Option<Millis>,
}

impl<'a> SessionWriter<'a> {
    /// Starts a new session: its first event is in git when this returns.
    pub fn create(store: &Store<'a>, session: Session, redactor: Redactor) -> Result<Self> {
        let mut writer = SessionWriter::begin(store, session, redactor)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Starts a new session that waits for its turn. Both facts go to git together: a crash leaves a queued session or
    /// none, never a draft.
    pub fn create_queued(store: &Store<'a>, session: Session, redactor: Redactor) -> Result<Self> {
        let mut writer = SessionWriter::begin(store, session, redactor)?;
        writer.set_status(State::Queued, "")?;
        Ok(writer)
    }

    fn begin(store: &Store<'a>, session: Session, redactor: Redactor) -> Result<Self> {
        let mut writer = SessionWriter::claim(store, session.sid, redactor, Duration::ZERO)?;
        if writer.session.seq > 0 {
            return Err(Error::fatal(format!(
                "session {} already exists",
                session.sid
            )));
        }
        let Value::Object(fields) = to_value(&session.record)? else {
            return Err(Error::fatal("a session is not an object"));
        };
        // Before the record: a session that is in git has its file.
        store.write_local(session.sid, &session.local)?;
        writer.session.local = session.local;
        writer.append(Body::Created { session: fields })?;
        Ok(writer)
    }

    /// Opens an existing session, including events that an earlier writer left in the spool.
    pub fn open(store: &Store<'a>, sid: SessionId, redactor: Redactor) -> Result<Self> {
        let writer = SessionWriter::claim(store, sid, redactor, PATIENCE)?;
        if writer.session.seq == 0 {
            return Err(Error::fatal(format!("session {sid} does not exist")));
        }
        if store.log_tip(sid)?.is_some_and(|tip| !tip.own) {
            return Err(Error::fatal(format!("session {sid} was written elsewhere"))
                .hint(format!("git agent fork {sid}")));
        }
        Ok(writer)
    }

    fn claim(
        store: &Store<'a>,
        sid: SessionId,
        redactor: Redactor,
        patience: Duration,
    ) -> Result<Self> {
        let lock = Lock::acquire(store.env, store.write_lock(sid), patience)?;
        let dir = store.require_dir(&format!("spool/{sid}"))?;
        let spool = Spool::open(&dir)?;
        let (session, pending) = store.session_with_spool(sid)?;
        let last_seq = session.seq;
        Ok(SessionWriter {
            store: store.clone(),
            redactor,
            _lock: lock,
            spool,
            session,
            pending,
            last_seq,
        })
    }

    /// Returns the state after all appended events.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the store that it writes to.
    pub fn store(&self) -> &Store<'a> {
        &self.store
    }

    /// Returns the redactor of all events.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Sets the secrets to redact from now on: an agent may receive more before its next turn. The redactor is rebuilt
    /// only if they changed.
    pub fn look_for(&mut self, known: KnownSecrets) {
        if !self.redactor.is_of(&known) {
            self.redactor = Redactor::new(known);
        }
    }

    /// Changes the facts of this clone. They are durable when this returns.
    pub fn set_local(&mut self, change: impl FnOnce(&mut Local)) -> Result<()> {
        let mut local = self.session.local.clone();
        change(&mut local);
        self.store.write_local(self.session.sid, &local)?;
        self.session.local = local;
        Ok(())
    }

    /// Appends an event to the spool and returns it as recorded.
    pub fn append(&mut self, body: Body) -> Result<Event> {
        self.append_as(Ulid::new(self.store.env), body)
    }

    /// Appends an event whose id is known: that of the message which brought it.
    pub fn append_as(&mut self, id: Ulid, body: Body) -> Result<Event> {
        // A failed append uses up its number: a part of it may be on disk, and numbers must be unique.
        self.last_seq = self.last_seq.max(self.session.seq) + 1;
        let prompt = matches!(body, Body::Prompt { .. });
        let event = Event {
            id,
            seq: self.last_seq,
            lc: self.session.lc.max(self.last_seq - 1) + 1,
            ts: self.store.env.now(),
            turn: self.session.turns + u32::from(prompt),
            body,
        };
        let (event, line) = self.fit(event)?;
        self.spool.append(line.as_str())?;
        let event = event.into_inner();
        self.session.apply(&event);
        self.pending.add(&event, line.as_str().len() as u64);
        Ok(event)
    }

    /// Redacts an event and makes it fit: a text that is too large for a record becomes an attachment, and is shortened
    /// here.
    fn fit(&self, event: Event) -> Result<(Redacted<Event>, Redacted<String>)> {
        let redacted = self.redactor.event(&event);
        let line = redacted.to_line();
        if line.as_str().len() <= limits::EVENT {
            return Ok((redacted, line));
        }
        let mut event = redacted.into_inner();
        let mut keep = limits::EVENT / 16;
        if let Body::ToolResult {
            output, attachment, ..
        } = &mut event.body
            && output.len() > keep
        {
            let whole = self.redactor.text(output).into_bytes();
            let whole = &whole.as_bytes()[..whole.as_bytes().len().min(limits::ATTACHMENT)];
            let name = self.keep_beside(whole)?;
            *attachment = Some(name);
        }
        loop {
            let mut value = event.to_json();
            shorten_strings(&mut value, keep);
            let shortened = self.redactor.event(&Event::from_json(value)?);
            let line = shortened.to_line();
            if line.as_str().len() <= limits::EVENT {
                return Ok((shortened, line));
            }
            if keep < 64 {
                // Not long strings but many of them: record at least that the event happened.
                let text = format!(
                    "an event of kind '{}' was too large to keep",
                    event.body.kind()
                );
                event.body = Body::Notice { text };
            }
            keep /= 4;
        }
    }

    /// Stores an attachment and returns its name for a later `Body::Set` whose value has it as `attachment`. Without
    /// such an event, it does not go to git.
    pub fn keep_attachment(&mut self, content: &Redacted<Vec<u8>>) -> Result<String> {
        let bytes = content.as_bytes();
        if bytes.len() > limits::ATTACHMENT {
            return Err(Error::fatal(format!(
                "an attachment of {} bytes is too large to keep",
                bytes.len()
            )));
        }
        self.keep_beside(bytes)
    }

    fn keep_beside(&self, bytes: &[u8]) -> Result<String> {
        let name = sha256(bytes);
        let dir = self
            .store
            .require_dir(&format!("spool/{}/{ATTACHMENTS}", self.session.sid))?;
        fs::write(dir.join(&name), bytes)
            .and_then(|()| fs::File::open(dir.join(&name))?.sync_all())
            .context(|| "cannot keep an attachment".into())?;
        Ok(name)
    }

    /// Makes all appended events durable on disk.
    pub fn sync(&self) -> Result<()> {
        self.spool.sync()
    }

    /// Changes the state if it differs, and moves all events into git.
    pub fn set_status(&mut self, to: State, reason: &str) -> Result<()> {
        self.note_status(to, reason)?;
        self.flush()
    }

    /// Changes the state if it differs. It goes to git with the next event or after a short time: for states that may
    /// be brief. Readers of the spool see it at once.
    pub fn note_status(&mut self, to: State, reason: &str) -> Result<()> {
        let from = self.session.status;
        if from != to {
            if !from.may_become(to) {
                return Err(Error::fatal(format!(
                    "session '{}' is {from}: it cannot become {to}",
                    self.session.name
                )));
            }
            self.append(Body::Status {
                from,
                to,
                reason: reason.to_owned(),
                exit: None,
            })?;
        }
        Ok(())
    }

    /// Moves all events into git if enough have accumulated or enough time has passed.
    pub fn flush_if_due(&mut self) -> Result<()> {
        if self.pending.is_due(self.store.env.now()) {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Returns the deadline for flushing the oldest event that is not in git.
    pub fn flush_deadline(&self) -> Option<Millis> {
        self.pending.deadline()
    }

    /// Moves all events into git.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending.events == 0 {
            return Ok(());
        }
        self.spool.sync()?;
        self.store.flush_spool(self.session.sid, &self.redactor)?;
        self.pending = Pending::default();
        Ok(())
    }

    /// Ends writing: moves all events into git and removes the spool.
    pub fn close(mut self) -> Result<Session> {
        self.flush()?;
        let dir = self.store.spool_dir(self.session.sid);
        spool::remove(&dir)?;
        let _ = fs::remove_dir_all(dir.join(ATTACHMENTS));
        Ok(self.session)
    }
}

/// Returns a record as JSON.
pub(crate) fn to_value(record: &Record) -> Result<Value> {
    serde_json::to_value(record).context(|| "cannot encode the session".into())
}

impl Pending {
    fn add(&mut self, event: &Event, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
        self.turns += u32::from(matches!(event.body, Body::Prompt { .. }));
        if matches!(event.body, Body::Status { .. } | Body::Created { .. }) {
            self.status = self.status.or(Some(event.ts));
        }
        self.since = self.since.or(Some(event.ts));
    }

    fn is_due(&self, now: Millis) -> bool {
        let late = self.deadline().is_some_and(|deadline| now >= deadline);
        late || self.turns >= FLUSH_TURNS || self.bytes >= FLUSH_BYTES
    }

    fn deadline(&self) -> Option<Millis> {
        let after = |since: Option<Millis>, wait| since.map(|since| Millis(since.0 + wait));
        let (any, status) = (
            after(self.since, FLUSH_MILLIS),
            after(self.status, STATUS_MILLIS),
        );
        any.into_iter().chain(status).min()
    }
}

/// Shortens every string of a value.
fn shorten_strings(value: &mut Value, keep: usize) {
    match value {
        Value::String(text) if text.len() > keep => *text = shorten(text, keep.max(2)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| shorten_strings(item, keep)),
        Value::Object(fields) => {
            fields
                .values_mut()
                .for_each(|field| shorten_strings(field, keep));
        }
        _ => {}
    }
}

impl<'a> Store<'a> {
    /// Returns the path of a session's writer lock.
    pub fn write_lock(&self, sid: SessionId) -> std::path::PathBuf {
        self.dir().join("locks").join(format!("{sid}.write"))
    }

    /// Returns a session's state, including events in the spool.
    pub fn session(&self, sid: SessionId) -> Result<Option<Session>> {
        let (session, _) = self.session_with_spool(sid)?;
        Ok((session.seq > 0).then_some(session))
    }

    fn session_with_spool(&self, sid: SessionId) -> Result<(Session, Pending)> {
        let mut session = match self.log_tip(sid)? {
            Some(tip) => tip.session,
            None => self.unborn(sid)?,
        };
        let tail = spool::read_tail(&self.spool_dir(sid), session.seq, None, u64::MAX)?;
        let mut pending = Pending::default();
        for event in &tail.events {
            session.apply(event);
            pending.add(event, event.to_line().len() as u64);
        }
        self.locals().attach(&mut session);
        Ok((session, pending))
    }

    /// Returns the state of a session before its first event.
    pub(crate) fn unborn(&self, sid: SessionId) -> Result<Session> {
        let (name, email) = self.repo.committer().unwrap_or_default();
        let author = crate::model::session::Person { name, email };
        Ok(Session::new(
            sid,
            self.require_writer()?,
            sid.as_str(),
            author,
        ))
    }

    /// Moves the spools of dead writers into git. Returns the recovered sessions; skips sessions that are being
    /// written.
    pub fn recover(&self, redactor: &Redactor) -> Result<Vec<SessionId>> {
        let mut helped = Vec::new();
        for sid in self.spooled_sessions()? {
            let Some(_lock) = Lock::try_acquire(self.env, self.write_lock(sid))? else {
                continue;
            };
            let before = self.log_tip(sid)?.map_or(0, |tip| tip.session.seq);
            if let Some(tip) = self.flush_spool(sid, redactor)?
                && tip.session.seq > before
            {
                helped.push(sid);
            }
        }
        Ok(helped)
    }

    /// Returns the sessions that have a spool.
    pub fn spooled_sessions(&self) -> Result<Vec<SessionId>> {
        let dir = self.dir().join("spool");
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => Err(error).context(|| format!("cannot read '{}'", dir.display()))?,
        };
        let mut sessions: Vec<SessionId> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|sid| self.spool_dir(*sid).join(spool::FILE).exists())
            .collect();
        sessions.sort();
        Ok(sessions)
    }
}
