//! The standing of a session: its verdicts against today's work. A verdict applies to exactly the commit and files
//! judged.

use crate::model::review::authorship::Authorship;
use crate::model::review::{Given, Review, Verdict};
use crate::model::session::{Person, SessionId, WriterId};

/// The combined result of a session's verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The current work has no verdict.
    Unjudged,
    /// The current work is approved.
    Approved,
    /// The work changed after its approval.
    Stale,
    /// A reviewer asked for changes.
    ChangesRequested,
    /// A reviewer rejected the work.
    Rejected,
}

impl Standing {
    /// Returns the word for people and machines; empty without a verdict.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Unjudged => "",
            Standing::Approved => "approve",
            Standing::Stale => "stale",
            Standing::ChangesRequested => "request-changes",
            Standing::Rejected => "reject",
        }
    }
}

/// One reviewer's verdict, compared with the current work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The writer of the ref that holds it.
    pub writer: WriterId,
    /// The verdict as recorded.
    pub given: Given,
    /// Whether it is about exactly the current commit and files.
    pub fresh: bool,
    /// Whether it counts, as [`counts`] decides.
    pub counts: bool,
}

impl Judged {
    /// Returns whether only a known signature is missing for it to permit a merge.
    pub fn lacks_signature(&self, review: &Review) -> bool {
        let approves = self.fresh && self.given.verdict == Verdict::Approve;
        approves && review.wants_signatures && self.given.claim == Some(Authorship::Claimed)
    }

    /// Returns whether it would permit a merge from a person, or from a session that `agent.approvers` names.
    pub fn lacks_approver(&self, review: &Review) -> bool {
        self.fresh && is_unnamed(review, &self.given)
    }
}

/// Returns whether a verdict on a session counts. A session's verdict on its own work does not; an approval from a
/// session counts only if `agent.approvers` names it; and an unsigned approval does not count if signatures are
/// required. Objections count from everyone.
pub fn counts(review: &Review, sid: SessionId, given: &Given) -> bool {
    let unsigned = review.wants_signatures && given.claim == Some(Authorship::Claimed);
    let approves = given.verdict == Verdict::Approve;
    session_of(&given.who) != Some(sid) && !(approves && unsigned) && !is_unnamed(review, given)
}

/// Returns whether this is an approval from a session that is not named as an approver.
pub fn is_unnamed(review: &Review, given: &Given) -> bool {
    let inside = session_of(&given.who);
    given.verdict == Verdict::Approve && inside.is_some_and(|sid| !review.approvers.contains(&sid))
}

/// All verdicts on a session, with their combined result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The combined result.
    pub standing: Standing,
    /// Each reviewer's verdict.
    pub verdicts: Vec<Judged>,
}

impl Opinion {
    /// Returns the approvals that permit a merge of the current work.
    pub fn approvals(&self) -> impl Iterator<Item = &Judged> {
        let approves = |judged: &&Judged| {
            judged.counts && judged.fresh && judged.given.verdict == Verdict::Approve
        };
        let stands = self.standing == Standing::Approved;
        self.verdicts
            .iter()
            .filter(approves)
            .filter(move |_| stands)
    }
}

/// Returns the standing of a session whose branch is at `tip` and whose files are `tree`.
///
/// One fresh objection outweighs any number of approvals.
pub fn judge(review: &Review, sid: SessionId, tip: &str, tree: &str) -> Opinion {
    let verdicts: Vec<Judged> = review
        .verdicts
        .iter()
        .map(|((writer, _), given)| Judged {
            writer: writer.clone(),
            fresh: given.commit == tip && given.tree.as_deref() == Some(tree),
            counts: counts(review, sid, given),
            given: given.clone(),
        })
        .collect();
    let any = |verdict: Verdict, fresh: bool| {
        verdicts
            .iter()
            .any(|judged| judged.counts && judged.fresh == fresh && judged.given.verdict == verdict)
    };
    let standing = if any(Verdict::Reject, true) {
        Standing::Rejected
    } else if any(Verdict::RequestChanges, true) {
        Standing::ChangesRequested
    } else if any(Verdict::Approve, true) {
        Standing::Approved
    } else if any(Verdict::Approve, false) {
        Standing::Stale
    } else {
        Standing::Unjudged
    };
    Opinion { standing, verdicts }
}

/// The start of an agent's email address, before its session id.
const AGENT: &str = "session:";

/// Returns the author of records that an agent writes inside its session.
pub fn agent(name: &str, session: &str, sid: SessionId) -> Person {
    Person {
        name: format!("{name} ({session})"),
        email: format!("{AGENT}{sid}"),
    }
}

/// Returns the session of an author that is an agent; `None` for people.
pub fn session_of(who: &Person) -> Option<SessionId> {
    who.email.strip_prefix(AGENT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Millis;

    fn given(verdict: Verdict, tree: Option<&str>, who: Person) -> Given {
        Given {
            id: SessionId::from_parts(Millis(1), [1; 10]),
            verdict,
            commit: "c".into(),
            tree: tree.map(str::to_owned),
            base: None,
            body: String::new(),
            who,
            claim: None,
            ts: Millis(1),
        }
    }

    fn review(all: &[(&str, Given)]) -> Review {
        let mut review = Review::default();
        for (writer, given) in all {
            let judge = (writer.parse().expect("a writer"), session_of(&given.who));
            review.verdicts.insert(judge, given.clone());
        }
        review
    }

    #[test]
    fn an_approval_binds_to_commit_and_files() {
        let sid = SessionId::from_parts(Millis(2), [2; 10]);
        let person = Person::default();
        let approved = review(&[(
            "ada-1a2b",
            given(Verdict::Approve, Some("t"), person.clone()),
        )]);
        let standing = |tip: &str, tree: &str| judge(&approved, sid, tip, tree).standing;
        assert_eq!(standing("c", "t"), Standing::Approved);
        assert_eq!(standing("d", "t"), Standing::Stale);
        assert_eq!(standing("c", "u"), Standing::Stale);
        assert!(judge(&approved, sid, "c", "t").approvals().next().is_some());
        assert!(judge(&approved, sid, "c", "u").approvals().next().is_none());
        let both = review(&[
            (
                "ada-1a2b",
                given(Verdict::Approve, Some("t"), person.clone()),
            ),
            (
                "bob-1a2b",
                given(Verdict::RequestChanges, Some("t"), person),
            ),
        ]);
        let opinion = judge(&both, sid, "c", "t");
        assert_eq!(opinion.standing, Standing::ChangesRequested);
        assert!(opinion.approvals().next().is_none());
        assert_eq!(
            judge(&both, sid, "d", "t").standing,
            Standing::Stale,
            "an objection to other work does not count"
        );
    }

    #[test]
    fn an_agent_does_not_approve_its_own_work() {
        let sid = SessionId::from_parts(Millis(2), [2; 10]);
        let other = SessionId::from_parts(Millis(3), [3; 10]);
        let own = agent("claude", "fix", sid);
        assert_eq!(session_of(&own), Some(sid));
        let mut approved = review(&[("ada-1a2b", given(Verdict::Approve, Some("t"), own.clone()))]);
        let standing = |review: &Review, sid| judge(review, sid, "c", "t").standing;
        assert_eq!(standing(&approved, sid), Standing::Unjudged);
        assert_eq!(standing(&approved, other), Standing::Unjudged);
        assert!(judge(&approved, other, "c", "t").verdicts[0].lacks_approver(&approved));
        approved.approvers.insert(sid);
        assert_eq!(standing(&approved, sid), Standing::Unjudged);
        assert_eq!(standing(&approved, other), Standing::Approved);
        let rejected = review(&[("ada-1a2b", given(Verdict::Reject, Some("t"), own))]);
        assert_eq!(standing(&rejected, other), Standing::Rejected);
    }
}
