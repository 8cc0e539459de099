//! Records survive a round trip, and folding gives the same result in every order.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::json;

use crate::model::review::*;
use crate::model::session::WriterId;

fn header(op: &str) -> Value {
    json!({"v": 1, "id": "01arz3ndektsv4rrffq69g5fav", "sid": "01arz3ndektsv4rrffq69g5faw", "lc": 3, "ts": 5,
        "who": {"n": "Ada", "e": "ada@example.org"}, "op": op})
}

#[test]
fn every_action_reads_back() {
    let id = "01arz3ndektsv4rrffq69g5fax";
    let code = json!({"commit": "abc", "path": "src/a.rs", "side": "old", "line": 3, "end": 5, "hunk_sha": "ff",
        "blob": "12", "before": ["x"], "text": ["y"], "after": ["z"]});
    for (op, fields) in [
        (
            "comment",
            json!({"body": "why?", "at": code, "severity": "major"}),
        ),
        ("comment", json!({"body": "hm", "at": {"event": id}})),
        ("comment", json!({"body": "yes", "target": id})),
        ("edit", json!({"body": "what?", "target": id})),
        ("del", json!({"target": id})),
        ("del", json!({})),
        (
            "verdict",
            json!({"verdict": "request-changes", "commit": "abc", "tree": "def"}),
        ),
        ("resolve", json!({"target": id})),
        ("reopen", json!({"target": id, "after": [id]})),
        ("wave", json!({"hand": "left"})),
    ] {
        let mut value = header(op);
        for (key, field) in fields.as_object().expect("an object") {
            value[key] = field.clone();
        }
        let record = Record::from_json(value.clone()).expect("a record");
        assert_eq!(record.to_json(), value);
        assert_eq!(
            matches!(record.action, Action::Unknown(_)),
            op == "wave",
            "{op}"
        );
    }
}

#[test]
fn refuses_what_is_no_record() {
    let mut newer = header("del");
    newer["v"] = 2.into();
    let mut anonymous = header("del");
    anonymous["id"] = "x".into();
    for bad in [json!(1), json!({}), json!({"op": "del"}), newer, anonymous] {
        assert!(Record::from_json(bad.clone()).is_err(), "{bad}");
    }
}

fn ulid(n: u8) -> Ulid {
    Ulid::from_parts(Millis(1_700_000_000_000 + u64::from(n)), [n; 10])
}

fn writer(n: u8) -> WriterId {
    format!("w{n}-aaaa").parse().expect("a writer id")
}

fn record(id: u8, lc: u64, action: Action) -> Record {
    Record {
        id: ulid(id),
        sid: ulid(0),
        after: Vec::new(),
        lc,
        ts: Millis(lc),
        who: Person::default(),
        action,
    }
}

fn comment(id: u8, lc: u64, target: Option<u8>, body: &str) -> Record {
    record(
        id,
        lc,
        Action::Comment {
            target: target.map(ulid),
            of: None,
            at: None,
            body: body.into(),
            severity: None,
        },
    )
}

fn verdict(id: u8, lc: u64, verdict: Verdict) -> Record {
    let action = Action::Verdict {
        verdict,
        commit: "c".into(),
        tree: Some("t".into()),
        base: Some("b".into()),
        body: String::new(),
    };
    record(id, lc, action)
}

fn only(records: Vec<(u8, Record)>) -> Review {
    let records = records.into_iter().map(|(by, record)| (writer(by), record));
    fold(records).remove(&ulid(0)).expect("one session")
}

#[test]
fn edits_and_deletions_count_from_the_author_alone() {
    let edit = |id, lc, body: &str| {
        let target = ulid(1);
        let body = body.into();
        record(id, lc, Action::Edit { target, body })
    };
    let del = |id, lc| {
        let target = Some(ulid(1));
        record(id, lc, Action::Del { target })
    };
    let review = only(vec![
        (1, comment(1, 1, None, "first")),
        (2, comment(2, 2, Some(1), "answer")),
        (1, edit(3, 3, "better")),
        (2, edit(4, 4, "forged")),
        (2, del(5, 5)),
    ]);
    assert_eq!(review.threads.len(), 1);
    let bodies: Vec<&str> = review.threads[0]
        .comments
        .iter()
        .map(|comment| comment.body.as_str())
        .collect();
    assert_eq!(bodies, ["better", "answer"]);
    assert_eq!(review.ignored.len(), 2);

    // An edit after the deletion does not bring the text back.
    let review = only(vec![
        (1, comment(1, 1, None, "first")),
        (1, del(2, 2)),
        (1, edit(3, 3, "back")),
    ]);
    let gone = &review.threads[0].comments[0];
    assert!(gone.deleted && gone.body.is_empty());
    assert!(!review.threads[0].is_visible());
}

#[test]
fn an_answer_can_say_whose_comment_it_is_about() {
    let mut answer = comment(3, 6, Some(1), "to the first writer");
    if let Action::Comment { of, .. } = &mut answer.action {
        *of = Some(writer(1));
    }
    let review = only(vec![
        (2, comment(1, 1, None, "forged")),
        (1, comment(1, 5, None, "mine")),
        (3, answer),
    ]);
    let texts: Vec<Vec<&str>> = review
        .threads
        .iter()
        .map(|thread| {
            thread
                .comments
                .iter()
                .map(|said| said.body.as_str())
                .collect()
        })
        .collect();
    assert_eq!(texts, [vec!["forged"], vec!["mine", "to the first writer"]]);
}

#[test]
fn anybody_resolves_and_the_last_one_decides() {
    let resolve = |id, lc| record(id, lc, Action::Resolve { target: ulid(2) });
    let reopen = |id, lc| record(id, lc, Action::Reopen { target: ulid(1) });
    let mut records = vec![
        (1, comment(1, 1, None, "first")),
        (2, comment(2, 2, Some(1), "answer")),
        (3, resolve(3, 3)),
    ];
    assert_eq!(
        only(records.clone()).threads[0].resolved_by,
        Some(writer(3))
    );
    records.push((2, reopen(4, 4)));
    assert!(only(records.clone()).threads[0].is_open());
    // Its clock is lower, but its author had seen the reopening.
    let mut late = resolve(5, 2);
    late.after = vec![ulid(4)];
    records.push((1, late));
    assert!(!only(records).threads[0].is_open());
}

#[test]
fn an_id_that_somebody_took_still_names_the_own_comment() {
    let resolve = |target| record(9, 9, Action::Resolve { target });
    let review = only(vec![
        (2, comment(1, 1, None, "forged")),
        (1, comment(1, 5, None, "mine")),
        (1, comment(2, 6, Some(1), "my answer")),
        (2, comment(3, 6, Some(1), "forger's answer")),
    ]);
    let said: Vec<Vec<&str>> = review
        .threads
        .iter()
        .map(|thread| {
            thread
                .comments
                .iter()
                .map(|said| said.body.as_str())
                .collect()
        })
        .collect();
    assert_eq!(
        said,
        [vec!["forged", "forger's answer"], vec!["mine", "my answer"]]
    );
    let review = only(vec![
        (2, comment(1, 1, None, "forged")),
        (1, comment(1, 5, None, "mine")),
        (1, resolve(ulid(1))),
    ]);
    assert!(review.threads.iter().all(|thread| !thread.is_open()));
}

#[test]
fn a_writer_has_one_verdict_and_may_take_it_back() {
    let mut records = vec![
        (1, verdict(1, 1, Verdict::Approve)),
        (2, verdict(2, 1, Verdict::Approve)),
        (1, verdict(3, 2, Verdict::Reject)),
    ];
    let review = only(records.clone());
    assert_eq!(review.verdicts[&(writer(1), None)].verdict, Verdict::Reject);
    assert_eq!(
        review.verdicts[&(writer(2), None)].tree.as_deref(),
        Some("t")
    );
    let target = Some(ulid(3));
    records.push((1, record(4, 3, Action::Del { target })));
    let review = only(records);
    assert!(!review.verdicts.contains_key(&(writer(1), None)));
    assert_eq!(review.verdicts.len(), 1);
}

#[test]
fn a_clock_that_jumps_is_not_followed() {
    let far = fold::CLOCK_JUMP + 3;
    let review = only(vec![
        (1, comment(1, 2, None, "honest")),
        (2, comment(2, far, None, "jump")),
        (2, comment(3, u64::MAX, None, "jump")),
    ]);
    assert_eq!(review.lc, 2);
    assert_eq!(review.threads.len(), 1);
    assert_eq!(review.ignored.len(), 2);
    let step = only(vec![
        (1, comment(1, 2, None, "honest")),
        (2, comment(2, far - 1, None, "far")),
    ]);
    assert_eq!(step.threads.len(), 2);
}

#[test]
fn circles_and_orphans_are_shown() {
    let mut one = comment(1, 1, Some(2), "one");
    one.after = vec![ulid(2), ulid(1)];
    let two = comment(2, 2, Some(1), "two");
    let review = only(vec![
        (1, one),
        (1, two),
        (1, comment(3, 3, Some(99), "lost")),
    ]);
    let shown: usize = review
        .threads
        .iter()
        .map(|thread| thread.comments.len())
        .sum();
    assert_eq!(shown, 3);
}

#[test]
fn a_long_chain_folds_fast() {
    let chain = (0..20_000u64).map(|n| {
        let id = |n: u64| Ulid::from_parts(Millis(n), [0; 10]);
        let mut answer = comment(1, n, None, "x");
        answer.id = id(n);
        answer.after = n.checked_sub(1).map(id).into_iter().collect();
        let target = answer.after.first().copied();
        if let Action::Comment { target: at, .. } = &mut answer.action {
            *at = target;
        }
        (writer(1), answer)
    });
    let review = fold(chain).remove(&ulid(0)).expect("one session");
    assert_eq!(review.threads.len(), 1);
    assert_eq!(review.threads[0].comments.len(), 20_000);
}

fn actions() -> impl Strategy<Value = Action> {
    let id = || (1..12u8).prop_map(ulid);
    prop_oneof![
            3 => (proptest::option::of(id()), "[a-z]{0,3}").prop_map(|(target, body)| Action::Comment {
                target,
    of: None,
                at: None,
                body,
                severity: None,
            }),
            1 => (id(), "[a-z]{0,3}").prop_map(|(target, body)| Action::Edit { target, body }),
            1 => proptest::option::of(id()).prop_map(|target| Action::Del { target }),
            1 => id().prop_map(|target| Action::Resolve { target }),
            1 => id().prop_map(|target| Action::Reopen { target }),
            1 => select(vec![Verdict::Approve, Verdict::RequestChanges, Verdict::Reject]).prop_map(
                |verdict| Action::Verdict {
                    verdict,
                    commit: "c".into(),
                    tree: None,
                    base: None,
                    body: String::new(),
                }
            ),
        ]
}

fn records() -> impl Strategy<Value = Vec<(WriterId, Record)>> {
    let clock = prop_oneof![9 => 0..6u64, 1 => select(vec![999_999, 1_000_004, u64::MAX])];
    let after = proptest::collection::vec((1..12u8).prop_map(ulid), 0..3);
    // Few ids, clocks and writers, so that they collide in every way that a hostile writer could arrange.
    let one = (1..4u8, 1..12u8, clock, after, actions()).prop_map(|(by, id, lc, after, action)| {
        let mut record = record(id, lc, action);
        record.after = after;
        (writer(by), record)
    });
    proptest::collection::vec(one, 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn folding_ignores_order_and_repetition(
        records in records(),
        order in proptest::collection::vec(any::<Index>(), 14),
        again in proptest::collection::vec(any::<Index>(), 0..6),
    ) {
        let expected = fold(records.clone());
        let mut other = records.clone();
        for (at, with) in order.iter().enumerate().take(records.len()) {
            other.swap(at, with.index(records.len()));
        }
        if !records.is_empty() {
            // The same writer's records in a second ref as well.
            other.extend(again.iter().map(|at| records[at.index(records.len())].clone()));
        }
        prop_assert_eq!(fold(other), expected);
    }

    #[test]
    fn what_is_deleted_stays_deleted(records in records(), more in records()) {
        let gone = |reviews: &std::collections::BTreeMap<SessionId, Review>| -> Vec<(Ulid, WriterId)> {
            reviews
                .values()
                .flat_map(|review| &review.threads)
                .flat_map(|thread| &thread.comments)
                .filter(|comment| comment.deleted)
                .map(|comment| (comment.id, comment.writer.clone()))
                .collect()
        };
        // Honest writers never reuse an id or jump ahead. The rules against both may drop a record later.
        let honest = |records: Vec<(WriterId, Record)>, seen: &mut std::collections::BTreeSet<(Ulid, WriterId)>| -> Vec<_> {
            records
                .into_iter()
                .filter(|(writer, record)| record.lc < 10 && seen.insert((record.id, writer.clone())))
                .collect()
        };
        let mut seen = Default::default();
        let first = honest(records, &mut seen);
        let more = honest(more, &mut seen);
        let before = gone(&fold(first.clone()));
        let after = gone(&fold(first.into_iter().chain(more)));
        for comment in before {
            prop_assert!(after.contains(&comment));
        }
    }
}
