//! Fetches objects without trusting them: a broken ref does not affect others, and one ref of our own holds the new
//! objects until they are checked.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::git::object::Signature;
use crate::git::refs::{Expected, RefChange, Swap};
use crate::git::remote::list_refs::Interest;
use crate::git::remote::transfer::Audience;
use crate::git::remote::{FetchFault, without_password};
use crate::git::{ObjectId, ObjectKind, Repo};
use crate::store::refname;

/// Maximum number of tries to separate good refs from those that git refuses.
const ATTEMPTS: usize = 400;

/// The refused ids, each with its reason.
pub(super) type Refused = BTreeMap<ObjectId, String>;

/// Fetched objects that are not checked yet, held by one ref.
pub(super) struct Quarantine {
    held: Vec<RefChange>,
}

impl Quarantine {
    /// Returns the objects that are still held. We have the remote's lock, so only a dead process can have left them.
    pub(super) fn left_behind(repo: &Repo, remote: &str) -> Result<Self> {
        let left = repo.refs_under(&refname::incoming_of(remote))?.refs;
        let held = left.into_iter().map(|left| RefChange {
            name: left.name,
            expected: Expected::At(left.id),
            new: None,
        });
        Ok(Quarantine {
            held: held.collect(),
        })
    }

    /// Fetches the `missing` ones of the `wanted` commits. Returns the refused ones with the reasons.
    pub(super) fn fill(
        mut self,
        context: &Context<'_>,
        remote: &str,
        wanted: &BTreeSet<ObjectId>,
        missing: &BTreeSet<ObjectId>,
        audience: &mut Audience<'_>,
    ) -> Result<(Self, Refused)> {
        let repo = context.repo;
        let missing: Vec<ObjectId> = missing.iter().copied().collect();
        let mut sorting = Sorting {
            repo,
            remote,
            attempts: ATTEMPTS,
            refused: Refused::new(),
            unfinished: BTreeSet::new(),
        };
        sorting.get(&missing, audience)?;
        let mut refused = sorting.refused;
        // If nothing arrived at all, the connection failed, not a ref.
        if sorting.unfinished.len() == missing.len()
            && let Some(why) = missing.first().and_then(|id| refused.get(id))
        {
            let remote = without_password(remote);
            return Err(Error::fatal(format!("cannot fetch from '{remote}': {why}"))
                .hint("git agent fetch"));
        }
        let mut parents = Vec::new();
        for id in wanted {
            if refused.contains_key(id) {
                continue;
            }
            let reason = match repo.object_header(*id) {
                Ok(Some((ObjectKind::Commit, _))) => {
                    parents.push(*id);
                    continue;
                }
                Ok(Some((kind, _))) => format!("it points at a {kind}, not at a commit"),
                Ok(None) => "it changed while it was fetched".to_owned(),
                Err(error) => error.message().to_owned(),
            };
            refused.insert(*id, reason);
        }
        if !parents.is_empty() {
            self.held.push(hold(context, remote, &parents)?);
        }
        Ok((self, refused))
    }

    /// Releases everything; the good refs have names by now. If this fails, the next fetch does it.
    pub(super) fn let_go(&self, context: &Context<'_>) {
        let _ = context.repo.swap_refs(&self.held);
    }
}

/// Makes one commit that has all others as parents, so that gc keeps them. Returns the change that releases it.
fn hold(context: &Context<'_>, remote: &str, parents: &[ObjectId]) -> Result<RefChange> {
    let repo = context.repo;
    let nonce: String = context
        .env
        .random::<6>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = refname::incoming(remote, &nonce);
    let mut batch = repo.batch();
    let tree = batch.tree([]);
    let signature = Signature {
        name: "git-agent".to_owned(),
        email: "fetch@git-agent.invalid".to_owned(),
        seconds: context.env.now().seconds(),
    };
    let id = batch.commit(tree, parents, &signature, "Fetched, and not checked yet\n");
    repo.write_batch(&batch)?;
    let change = RefChange {
        name: name.clone(),
        expected: Expected::Absent,
        new: Some(id),
    };
    match repo.swap_ref(&change)? {
        Swap::Done => Ok(RefChange {
            name,
            expected: Expected::At(id),
            new: None,
        }),
        Swap::Stale => Err(Error::fatal(format!("ref '{name}' already exists"))),
    }
}

/// Separates good refs from those that git refuses.
struct Sorting<'a> {
    repo: &'a Repo,
    remote: &'a str,
    /// Tries left.
    attempts: usize,
    refused: Refused,
    /// The refused ones whose transfer broke off.
    unfinished: BTreeSet<ObjectId>,
}

impl Sorting<'_> {
    /// Fetches objects. If git refuses them, leaves out the faulty ones; if the remote cannot send them at all, bisects
    /// to find the bad ones.
    fn get(&mut self, ids: &[ObjectId], audience: &mut Audience<'_>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let Some(left) = self.attempts.checked_sub(1) else {
            let reason = |id: &ObjectId| (*id, "too many broken refs came with it".to_owned());
            self.refused.extend(ids.iter().map(reason));
            return Ok(());
        };
        self.attempts = left;
        let Some(failure) = self.repo.try_fetch(self.remote, ids, audience)? else {
            return Ok(());
        };
        // If the remote cannot be reached, no ref is at fault.
        self.repo
            .ask_remote(self.remote)?
            .finish(&|_| Interest::None, 0)?;
        let said = failure.said;
        // The same holds if the disk is full.
        if failure.fault == FetchFault::NoRoom {
            let remote = without_password(self.remote);
            return Err(Error::fatal(format!(
                "cannot fetch from '{remote}': {said}"
            )));
        }
        if let [only] = ids {
            let reason = match failure.fault {
                FetchFault::Cut => {
                    self.unfinished.insert(*only);
                    format!("the transfer broke off: {said}")
                }
                _ => format!("git refuses it: {said}"),
            };
            self.refused.insert(*only, reason);
            return Ok(());
        }
        // git can usually name all objects that it refuses.
        if let Ok(faulty) = self.repo.faulty(self.remote, ids, audience)
            && !faulty.is_empty()
        {
            let rest: Vec<ObjectId> = (ids.iter().copied())
                .filter(|id| !faulty.contains_key(id))
                .collect();
            let reason = |what| format!("git refuses it: {what}");
            self.refused
                .extend(faulty.into_iter().map(|(id, what)| (id, reason(what))));
            return self.get(&rest, audience);
        }
        let (one, other) = ids.split_at(ids.len() / 2);
        self.get(one, audience)?;
        self.get(other, audience)
    }
}
