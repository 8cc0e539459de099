//! What a remote allows and what it costs, found out by trying: a small ref is pushed, looked for, and deleted again.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::remote::Remote;
use crate::error::Result;
use crate::git::object::Signature;
use crate::git::remote::Update;
use crate::session::WriterId;
use crate::session::context::Context;
use crate::store::limits;
use crate::store::refname::{self, RefName};

/// From so many refs on every push of everybody takes noticeably longer.
const MANY: usize = 1_000;

/// What was found out about a remote.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Probed {
    /// Its name.
    pub remote: String,
    /// Its address.
    pub address: String,
    /// Whether sessions may be pushed there.
    pub allowed: bool,
    /// How many of our refs it has.
    pub refs: usize,
    /// How many bytes its list of them is.
    pub bytes: u64,
    /// Whether there are so many that pushes get slow.
    pub many: bool,
    /// Refs beside ours whose names are not ours.
    pub foreign: usize,
    /// Whether it takes our refs.
    pub accepts: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether several refs go together or not at all.
    pub atomic: bool,
    /// Whether it shows what it took.
    pub shows: bool,
    /// Whether it let go of what was pushed.
    pub deletes: bool,
    /// How long listing took, in milliseconds.
    pub list_ms: u64,
    /// How long a push of one small ref took, in milliseconds.
    pub push_ms: u64,
}

/// Tries out a remote. Nothing of this clone's records goes there.
pub fn probe(context: &Context<'_>, remote: &Remote) -> Result<Probed> {
    let repo = context.repo;
    let mut probed = Probed {
        remote: remote.name.clone(),
        address: remote.address.clone(),
        allowed: remote.agreed,
        ..Probed::default()
    };
    let list = |only: Option<&str>| {
        let patterns = match only {
            Some(name) => vec![name.to_owned()],
            None => refname::patterns(None),
        };
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        repo.ask_remote(&remote.name, &patterns)?
            .finish(&|name| RefName::parse(name).is_some(), limits::REMOTE_REFS)
    };
    let started = Instant::now();
    let advertised = list(None)?;
    probed.list_ms = millis(started.elapsed());
    probed.refs = advertised.refs.len();
    probed.bytes = advertised.bytes;
    probed.many = probed.refs > MANY;
    probed.foreign = advertised.other_count;

    let mut batch = repo.batch();
    let tree = batch.tree([]);
    let who = Signature {
        name: "git-agent".to_owned(),
        email: "probe@git-agent.invalid".to_owned(),
        seconds: context.env.now().seconds(),
    };
    let id = batch.commit(
        tree,
        &[],
        &who,
        "Notes of nobody, to see whether they are taken\n",
    );
    repo.write_batch(&batch)?;
    let name = RefName::ReviewNotes(WriterId::draw(context.env, "probe")).to_string();
    let update = |new, over| Update {
        name: name.clone(),
        new,
        over,
    };
    let mut quiet = |_: &str| {};
    let started = Instant::now();
    let mut pushed = repo.push_refs(&remote.name, &[update(Some(id), None)], true, &mut quiet)?;
    probed.push_ms = millis(started.elapsed());
    probed.atomic = pushed.done;
    if !pushed.done && pushed.said.contains("--atomic") {
        pushed = repo.push_refs(&remote.name, &[update(Some(id), None)], false, &mut quiet)?;
    }
    probed.accepts = pushed.done;
    if !pushed.done {
        let told = pushed.outcomes.iter().find(|outcome| outcome.flag == '!');
        let told = told.map(|outcome| outcome.summary.clone());
        probed.reason = Some(match told {
            Some(told) => format!("{told}: {}", pushed.said),
            None => pushed.said,
        });
        return Ok(probed);
    }
    let found = list(Some(&name))?;
    probed.shows = found.refs.iter().any(|one| one.id == id);
    let deleted = repo.push_refs(&remote.name, &[update(None, Some(id))], false, &mut quiet)?;
    probed.deletes = deleted.done;
    Ok(probed)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
