//! Verdicts for display: the last one of each reviewer, with its message, and whether it still fits the current work.

use serde::{Serialize, Serializer};

use crate::context::Context;
use crate::env::Millis;
use crate::error::Result;
use crate::listing::row::timestamp;
use crate::model::known::Finding;
use crate::model::review::authorship::Authorship;
use crate::model::review::standing::{is_unnamed, judge, session_of};
use crate::model::review::{Review, Verdict};
use crate::model::session::SessionId;
use crate::review::{records, state};
use crate::store::list::Listed;

/// One reviewer's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// The verdict's id.
    pub id: String,
    /// The verdict itself.
    pub verdict: Verdict,
    /// The reviewer's message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reviewer's name, as claimed.
    pub who: String,
    /// Whether the name is verified or only claimed; absent for verdicts of this clone.
    #[serde(rename = "standing", skip_serializing_if = "Option::is_none")]
    pub claim: Option<Authorship>,
    /// The writer whose ref it came from.
    pub writer: String,
    /// When it was given, by the reviewer's clock.
    #[serde(serialize_with = "moment")]
    pub at: Millis,
    /// The commit that was reviewed.
    pub tip: String,
    /// The commit it was compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether the work has changed since; unknown if the work is not here.
    pub stale: Option<bool>,
    /// Why it does not count for a merge; absent if it does.
    #[serde(rename = "ignored", skip_serializing_if = "Option::is_none")]
    pub ignored: Option<&'static str>,
}

/// Why an approval by an agent does not count.
pub const INSIDE: &str = "given inside a session";

fn moment<S: Serializer>(at: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at))
}

/// Returns the verdicts that count and the approvals by other sessions, oldest first. `files` are the session's current
/// commit and tree, if they are known.
pub fn all(review: &Review, sid: SessionId, files: Option<(&str, &str)>) -> Vec<Judgement> {
    let (tip, tree) = files.unwrap_or_default();
    let mut all: Vec<Judgement> = judge(review, sid, tip, tree)
        .verdicts
        .into_iter()
        .filter(|judged| judged.counts || session_of(&judged.given.who).is_some_and(|by| by != sid))
        .map(|judged| Judgement {
            ignored: is_unnamed(review, &judged.given).then_some(INSIDE),
            id: judged.given.id.to_string(),
            verdict: judged.given.verdict,
            message: judged.given.body,
            who: judged.given.who.name,
            claim: judged.given.claim,
            writer: judged.writer.to_string(),
            at: judged.given.ts,
            tip: judged.given.commit,
            base: judged.given.base,
            stale: files.map(|_| !judged.fresh),
        })
        .collect();
    all.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    all
}

/// Returns the same for a listed session. A verdict on a teammate's session may be about files that were not shared;
/// whether it is stale is then unknown.
pub fn on(review: &Review, listed: &Listed, files: Option<(&str, &str)>) -> Vec<Judgement> {
    let mut all = all(review, listed.session.sid, files);
    if !listed.is_mine() && listed.session.unshared().is_some() {
        for one in all.iter_mut().filter(|one| one.stale == Some(true)) {
            one.stale = None;
        }
    }
    all
}

/// Returns the verdicts on one session. Unreadable ones are shown as unknown.
pub fn of(context: &Context<'_>, listed: &Listed) -> Finding<Vec<Judgement>> {
    let sid = listed.session.sid;
    let Ok(review) = records::load_one(context, sid) else {
        return Finding::Unknown;
    };
    if review.verdicts.is_empty() {
        return Finding::Nothing;
    }
    let files = state::files_now(context, listed, &review).ok();
    let files = files
        .as_ref()
        .map(|(tip, tree)| (tip.as_str(), tree.as_str()));
    match on(&review, listed, files) {
        none if none.is_empty() => Finding::Nothing,
        all => Finding::Known(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::review::Given;
    use crate::model::review::standing::agent;
    use crate::model::session::Person;

    #[test]
    fn verdicts_are_seen_from_the_work_as_it_is() {
        let sid = SessionId::from_parts(Millis(2), [2; 10]);
        let ada = Person {
            name: "Ada".into(),
            email: "ada@example.org".into(),
        };
        let mut review = Review::default();
        for (ts, who) in [(5, ada), (4, agent("claude", "fix", sid))] {
            let judge = ("ada-1a2b".parse().expect("a writer"), session_of(&who));
            let given = Given {
                id: SessionId::from_parts(Millis(ts), [1; 10]),
                verdict: Verdict::RequestChanges,
                commit: "c".into(),
                tree: Some("t".into()),
                base: None,
                body: "why".into(),
                who,
                claim: None,
                ts: Millis(ts),
            };
            review.verdicts.insert(judge, given);
        }
        let stale = |files| {
            let all = all(&review, sid, files);
            assert_eq!(all.len(), 1, "its own agent does not count: {all:?}");
            all[0].stale
        };
        assert_eq!(stale(Some(("c", "t"))), Some(false));
        assert_eq!(stale(Some(("c", "u"))), Some(true));
        assert_eq!(stale(None), None);
    }
}
