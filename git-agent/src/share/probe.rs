//! What a remote allows and what it costs, found out by trying: a small ref is pushed, looked for, and deleted again.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::context::Context;
use crate::error::Result;
use crate::git::object::{BLOB, Signature, TreeEntry};
use crate::git::remote::Update;
use crate::git::remote::list_refs::{Advertised, Interest};
use crate::git::remote::transfer::Audience;
use crate::model::session::{Ulid, WriterId};
use crate::session::caller::{self, Act};
use crate::share::remote::Remote;
use crate::store::limits;
use crate::store::refname::{self, RefName};

/// From so many refs on every push of everybody takes noticeably longer: whoever pushes anything is told of all of them.
const MANY: usize = 250;

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
    /// How many refs it has in all: a push of anything is told of every one.
    pub advertised: usize,
    /// How many bytes its list of ours is.
    pub bytes: u64,
    /// Whether there are so many that pushes get slow.
    pub many: bool,
    /// Refs beside ours whose names are not ours.
    pub foreign: usize,
    /// Whether it takes our refs.
    pub accepts: bool,
    /// Whether it does not because it hides them from pushes at this address.
    pub hidden: bool,
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
    caller::permit(context, Act::Repair, [])?;
    let repo = context.repo;
    let mut probed = Probed {
        remote: remote.name.clone(),
        address: remote.address(", "),
        allowed: remote.agreed,
        ..Probed::default()
    };
    let started = Instant::now();
    let ours = |name: &str| match RefName::parse(name) {
        Some(_) => Interest::Wanted,
        None if refname::is_shared_place(name) => Interest::Beside,
        None => Interest::None,
    };
    let asking = repo.ask_remote(&remote.name)?;
    let advertised = asking.finish(&ours, limits::REMOTE_REFS)?;
    probed.list_ms = millis(started.elapsed());
    probed.refs = advertised.refs.len();
    probed.advertised = advertised.total;
    probed.bytes = advertised.refs.iter().map(line_length).sum();
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
    let writer = WriterId::draw(context.env, "probe");
    let name = RefName::ReviewNotes(writer.clone()).to_string();
    let update = |new, over| Update {
        name: name.clone(),
        new,
        over,
    };
    let mut quiet = Audience::Silent;
    let started = Instant::now();
    let mut pushed = repo.push_refs(&remote.name, &[update(Some(id), None)], true, &mut quiet)?;
    probed.push_ms = millis(started.elapsed());
    probed.atomic = pushed.done;
    if !pushed.done {
        // It may only not know how to take several together or not at all.
        pushed = repo.push_refs(&remote.name, &[update(Some(id), None)], false, &mut quiet)?;
    }
    probed.accepts = pushed.done;
    if !pushed.done {
        let told = pushed.outcomes.iter().find(|outcome| outcome.flag == '!');
        probed.hidden = told.is_some_and(|outcome| outcome.hidden);
        probed.reason = Some(match told {
            Some(told) => format!("{}: {}", told.summary, pushed.said),
            None => pushed.said,
        });
        return Ok(probed);
    }
    let wanted = |found: &str| match found == name {
        true => Interest::Wanted,
        false => Interest::None,
    };
    let found = repo.ask_remote(&remote.name)?;
    let found = found.finish(&wanted, 1)?;
    probed.shows = found.refs.iter().any(|one| one.id == id);
    let deleted = repo.push_refs(&remote.name, &[update(None, Some(id))], false, &mut quiet)?;
    probed.deletes = deleted.done;
    // Where it would stay, everybody who fetches would be told of a session that is none.
    if probed.deletes {
        try_session(context, &writer, &who, &mut probed)?;
    }
    Ok(probed)
}

/// Tries the ref of a session: a host may take notes and refuse these. What it may look at in one is whose it is.
fn try_session(
    context: &Context<'_>,
    writer: &WriterId,
    who: &Signature,
    probed: &mut Probed,
) -> Result<()> {
    let repo = context.repo;
    let mut batch = repo.batch();
    let state = batch.blob(format!("{{\"writer\":\"{writer}\"}}\n").into_bytes());
    let tree = batch.tree([TreeEntry {
        name: b"state.json".to_vec(),
        kind: BLOB,
        id: state,
    }]);
    let message = "A session of nobody, to see whether it is taken\n";
    let id = batch.commit(tree, &[], who, message);
    repo.write_batch(&batch)?;
    let name = RefName::Session(Ulid::new(context.env)).to_string();
    let update = |new, over| Update {
        name: name.clone(),
        new,
        over,
    };
    let mut quiet = Audience::Silent;
    let put = [update(Some(id), None)];
    let pushed = repo.push_refs(&probed.remote, &put, false, &mut quiet)?;
    if pushed.done {
        let back = [update(None, Some(id))];
        probed.deletes = repo
            .push_refs(&probed.remote, &back, false, &mut quiet)?
            .done;
        return Ok(());
    }
    probed.accepts = false;
    let told = pushed.outcomes.iter().find(|outcome| outcome.flag == '!');
    let told = told.map_or("", |outcome| outcome.summary.as_str());
    probed.reason = Some(format!("it takes comments alone: {told}: {}", pushed.said));
    Ok(())
}

/// Returns how long a ref is in the list that a push begins with.
fn line_length(found: &Advertised) -> u64 {
    // Four digits of its length, a space, and the end of the line.
    (found.id.kind().len_in_hex() + found.name.len() + 6) as u64
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
