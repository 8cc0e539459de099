//! Tests the access that a remote gives and its cost: pushes a small ref, looks for it, and deletes it again.

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

/// From this number of refs on, pushes of all users slow down noticeably: every push gets the list of all refs.
const MANY: usize = 250;

/// Result of a probe.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Probed {
    /// The remote's name.
    pub remote: String,
    /// The remote's address.
    pub address: String,
    /// Whether the user agreed to push sessions there.
    pub allowed: bool,
    /// The number of our refs.
    pub refs: usize,
    /// The number of all refs; every push gets the whole list.
    pub advertised: usize,
    /// The size of the list of our refs in bytes.
    pub bytes: u64,
    /// Whether our refs are so many that pushes become slow.
    pub many: bool,
    /// The number of refs in our namespace with unknown names.
    pub foreign: usize,
    /// Whether it accepts our refs.
    pub accepts: bool,
    /// Whether it rejects our refs because it hides them from pushes at this address.
    pub hidden: bool,
    /// Why it rejects our refs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it supports atomic pushes.
    pub atomic: bool,
    /// Whether it lists the pushed ref.
    pub shows: bool,
    /// Whether it allows deleting the pushed ref.
    pub deletes: bool,
    /// How long listing took, in milliseconds.
    pub list_ms: u64,
    /// How long the push of one small ref took, in milliseconds.
    pub push_ms: u64,
}

/// Probes a remote. Sends none of this clone's records.
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
        "Test notes, to see whether the host accepts them\n",
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
        // It may only lack atomic pushes.
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
    let wanted = |found: &str| {
        if found == name {
            Interest::Wanted
        } else {
            Interest::None
        }
    };
    let found = repo.ask_remote(&remote.name)?;
    let found = found.finish(&wanted, 1)?;
    probed.shows = found.refs.iter().any(|one| one.id == id);
    let deleted = repo.push_refs(&remote.name, &[update(None, Some(id))], false, &mut quiet)?;
    probed.deletes = deleted.done;
    // If the host forbids deletion, every clone would fetch a fake session.
    if probed.deletes {
        try_session(context, &writer, &who, &mut probed)?;
    }
    Ok(probed)
}

/// Tries the ref of a session, because a host may accept notes and reject sessions. A host may check the writer of a
/// session, so it has one.
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
    let message = "Test session, to see whether the host accepts it\n";
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
    probed.reason = Some(format!("it accepts only comments: {told}: {}", pushed.said));
    Ok(())
}

/// Returns the length of a ref in the list that starts a push.
fn line_length(found: &Advertised) -> u64 {
    // Four digits for the length, a space, and the newline.
    (found.id.kind().len_in_hex() + found.name.len() + 6) as u64
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
