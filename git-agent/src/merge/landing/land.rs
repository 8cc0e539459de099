//! Lands a merge: moves the target and the branches of the sessions in one transaction, then records it.

use crate::context::Context;
use crate::error::{Context as _, Error, Result, shell_word};
use crate::fault;
use crate::git::ObjectId;
use crate::git::merge::PatchIds;
use crate::git::merge::move_branch::{Landed, Landing};
use crate::git::refs::{Expected, RefChange, Swap};
use crate::merge::build::Chain;
use crate::merge::candidates::{Candidate, Target};
use crate::merge::hooks;
use crate::merge::landing::journal::{Journal, JournalPlace, MergeLock, Move, Part};
use crate::model::event::Body;
use crate::model::merge::{Style, Tested};
use crate::model::provenance::Provenance;
use crate::model::session::settings::set;
use crate::model::session::{Session, State};
use crate::session::worktree::work;
use crate::store::log::writer::SessionWriter;
use crate::store::notes::Kind;

/// Prefix of prepared branches.
const PREPARED: &str = "agent-merge/";

/// A chain that is ready to land.
#[derive(Debug)]
pub struct Load<'a> {
    /// The branch to move.
    pub target: &'a Target,
    /// The merged result.
    pub chain: &'a Chain,
    /// The candidates that the links refer to.
    pub candidates: &'a [Candidate],
    /// The merge style.
    pub style: Style,
    /// Whether the result was tested.
    pub tested: Tested,
}

/// Moves the target. The journal records the move before it happens; the sessions are updated afterwards.
pub fn land(
    context: &Context<'_>,
    right: &MergeLock,
    journal: &mut Journal,
    load: &Load<'_>,
) -> Result<(Landed, Vec<String>)> {
    let mut also = Vec::new();
    let mut parts = Vec::new();
    for link in &load.chain.links {
        let candidate = &load.candidates[link.index];
        let session = &candidate.session;
        let tip = candidate.work.tip;
        if link.work != tip
            && let Some(branch) = session.branch.as_deref()
            && context.repo.branch_tip(branch)?.is_some()
        {
            also.push(RefChange {
                name: format!("refs/heads/{branch}"),
                expected: Expected::At(tip),
                new: Some(link.work),
            });
        }
        parts.push(Part {
            sid: session.sid,
            name: session.name.clone(),
            branch: session.branch.clone(),
            before: tip.to_string(),
            work: link.work.to_string(),
            commit: link.commit.to_string(),
            made: link.made.iter().map(ToString::to_string).collect(),
            state: session.status,
        });
    }
    let (old, new) = (load.chain.base, load.chain.tip());
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let reflog = format!("agent merge: {}", names.join(", "));
    // Check before the journal is written: it may only name a move that the checkouts allow.
    if let Some(said) = context
        .repo
        .obstacle_to_landing(&load.target.checkouts, old, new)?
    {
        return Ok((Landed::Refused(said), Vec::new()));
    }
    journal.landing = Some(Move {
        branch: load.target.branch.clone(),
        before: old.to_string(),
        after: new.to_string(),
        parts,
        tested: load.tested,
        places: JournalPlace::of(&load.target.checkouts),
    });
    right.note(journal)?;
    let origins = Origins::begin(context, journal)?;
    let landed = context.repo.land(&Landing {
        branch: &load.target.name,
        old,
        new,
        reflog: &reflog,
        also: &also,
        checkouts: &load.target.checkouts,
    })?;
    if landed != Landed::Done {
        return Ok((landed, Vec::new()));
    }
    let troubles = record(context, journal, origins)?;
    // The next merge retries the records that could not be written.
    if troubles.is_empty() {
        right.keep(journal)?;
    }
    hooks::after(context.repo, &load.target.checkouts, load.style);
    Ok((Landed::Done, troubles))
}

/// Records a landing after the target moved: indexes of worktrees, provenance, states. Idempotent. Returns messages
/// about records that could not be written.
pub fn record(context: &Context<'_>, journal: &Journal, origins: Origins) -> Result<Vec<String>> {
    let mut troubles = Vec::new();
    let Some(landing) = &journal.landing else {
        return Ok(troubles);
    };
    fault::point("merge.recording").context(|| "cannot record a merge".into())?;
    let patches = origins.patches.found()?;
    let mut notes = Vec::new();
    for (part, brought) in landing.parts.iter().zip(origins.brought) {
        let Some(session) = context.store.session(part.sid)? else {
            continue;
        };
        if let Err(error) = settle_index(context, &session, part) {
            troubles.push(format!("{}: {}", part.name, error.message()));
        }
        fault::point("merge.index.settled").context(|| "cannot record a merge".into())?;
        for (id, _) in brought {
            let patch = patches.iter().find(|(known, _)| *known == id);
            let patch = patch.map(|(_, patch)| patch.clone());
            notes.push((id, origin(landing, &session, patch)));
        }
    }
    let redactor = context.redactor();
    let records: Vec<_> = notes
        .into_iter()
        .map(|(on, origin)| (on, redactor.json(origin.to_json())))
        .collect();
    context.store.append_notes(Kind::Provenance, &records)?;
    fault::point("merge.notes.written").context(|| "cannot record a merge".into())?;
    for part in &landing.parts {
        if let Err(error) = set_merged(context, landing, part) {
            troubles.push(format!("{}: {}", part.name, error.message()));
        }
        fault::point("merge.session.recorded").context(|| "cannot record a merge".into())?;
    }
    Ok(troubles)
}

/// Updates the index of a session's worktree to its branch; the files match already.
fn settle_index(context: &Context<'_>, session: &Session, part: &Part) -> Result<()> {
    if part.work == part.before {
        return Ok(());
    }
    let Some(at) = work::checkout(context, session)? else {
        return Ok(());
    };
    let head = context.repo.head_of(&at)?.map(|head| head.to_string());
    if head.as_deref() != Some(part.work.as_str()) {
        return Ok(());
    }
    let repo = context.repo;
    let branch = format!("refs/heads/{}", part.branch.as_deref().unwrap_or_default());
    repo.run_at_index(&at, Some(&branch), || {
        repo.git_at(&at.admin_dir, &at.top)
            .env_remove("GIT_OPTIONAL_LOCKS")
            .args(["reset", "--quiet", "--mixed"])
    })
}

/// The commits that the sessions bring to the target, and the patch ids that identify them after a rebase.
#[derive(Debug)]
pub struct Origins {
    /// The commits of each session, and whether each is a merge.
    brought: Vec<Vec<(ObjectId, bool)>>,
    patches: PatchIds,
}

impl Origins {
    /// Starts the search, which goes on while the target moves.
    pub fn begin(context: &Context<'_>, journal: &Journal) -> Result<Self> {
        let mut brought = Vec::new();
        if let Some(landing) = &journal.landing {
            let mut onto = context.repo.parse_id(&landing.before)?;
            for part in &landing.parts {
                let commit = context.repo.parse_id(&part.commit)?;
                brought.push(context.repo.ids_between(onto, commit)?);
                onto = commit;
            }
        }
        let plain = brought.iter().flatten().filter(|(_, is_merge)| !is_merge);
        let plain: Vec<ObjectId> = plain.map(|(id, _)| *id).collect();
        Ok(Origins {
            patches: context.repo.begin_patch_ids(&plain),
            brought,
        })
    }
}

/// Returns the provenance of a commit that a session brought to the target.
fn origin(landing: &Move, session: &Session, patch: Option<String>) -> Provenance {
    let mut origin = Provenance::new(session.sid, 1, session.seq.max(1));
    origin.agent.clone_from(&session.agent);
    origin.model.clone_from(&session.model);
    origin.patch_id = patch;
    let more = &mut origin.more;
    more.insert("into".to_owned(), landing.branch.clone().into());
    more.insert("tests".to_owned(), landing.tested.as_str().into());
    origin
}

fn set_merged(context: &Context<'_>, landing: &Move, part: &Part) -> Result<()> {
    let mut writer = SessionWriter::open(&context.store, part.sid, context.redactor())?;
    let known = writer.session();
    if known.status == State::Merged
        && known.settings.merged.as_deref() == Some(part.commit.as_str())
    {
        writer.close()?;
        return Ok(());
    }
    if landing.tested == Tested::Skipped {
        writer.append(Body::Notice {
            text: "merged without tests, as the user asked".to_owned(),
        })?;
    }
    writer.append(Body::Merged {
        into: landing.branch.clone(),
        commit: part.commit.clone(),
    })?;
    writer.append(set::merged(Some(part.commit.clone())))?;
    if writer.session().code.as_deref() != Some(part.work.as_str()) {
        writer.append(Body::Set {
            key: "code".to_owned(),
            value: part.work.clone().into(),
        })?;
    }
    let short: String = part.commit.chars().take(10).collect();
    writer.set_status(
        State::Merged,
        &format!("in '{}' as {short}", landing.branch),
    )?;
    writer.close()?;
    Ok(())
}

/// Points a branch at the result for the user to inspect, instead of moving the target.
pub fn prepare(context: &Context<'_>, target: &Target, chain: &Chain) -> Result<String> {
    let branch = format!("{PREPARED}{}", target.branch);
    let name = format!("refs/heads/{branch}");
    let before = context.repo.find_ref(&name)?;
    if let Some(at) = context.repo.checkouts_of(&name)?.first() {
        return Err(Error::fatal(format!(
            "branch '{branch}' is checked out in '{}'",
            at.top.display()
        )));
    }
    if let Some(before) = before {
        context.store.keep_lost(&name, before)?;
    }
    let change = RefChange {
        name,
        expected: before.map_or(Expected::Absent, Expected::At),
        new: Some(chain.tip()),
    };
    match context.repo.swap_refs(&[change])? {
        Swap::Done => Ok(branch),
        Swap::Stale => Err(Error::fatal(format!("branch '{branch}' moved just now"))),
    }
}

/// Verifies that the target contains the result, and that its checkouts have the merged files.
pub fn verify(context: &Context<'_>, target: &Target, chain: &Chain) -> Result<()> {
    let wrong = |what: String| {
        Error::fatal(what).hint(format!("git log --oneline {}", shell_word(&target.branch)))
    };
    let repo = context.repo;
    match repo.find_ref(&target.name)? {
        Some(tip) if repo.is_ancestor(chain.tip(), tip)? => {}
        _ => {
            return Err(wrong(format!(
                "'{}' does not contain the merge",
                target.branch
            )));
        }
    }
    for at in &target.checkouts {
        if repo.head_of(at)? == Some(chain.tip())
            && !repo.index_follows(at, chain.base, chain.tip())?
        {
            return Err(wrong(format!(
                "'{}' does not have the merged files",
                at.top.display()
            )));
        }
    }
    Ok(())
}
