//! Forms as they are written and read back.

use crate::env::Millis;
use crate::model::review::{Comment, Thread};
use crate::model::session::Person;

use super::*;

const HEAD: &str = "s 0123456789012345678901234567890123456789 \
    0123456789012345678901234567890123456789 0123456789012345678901234567890123456789";

fn code(old: Option<u32>, new: Option<u32>, text: &str) -> Line {
    let text = text.to_owned();
    Line::Code { old, new, text }
}

fn file(path: &str) -> Line {
    Line::File {
        old_path: path.into(),
        path: path.into(),
        gone: false,
    }
}

fn lines() -> Vec<Line> {
    vec![
        file("a.rs"),
        code(Some(1), Some(1), " same"),
        code(Some(2), None, "-old"),
        code(None, Some(2), "+new"),
        file("logo.png"),
        Line::Note("binary".to_owned()),
    ]
}

fn thread() -> Thread {
    Thread {
        at: None,
        comments: vec![Comment {
            id: Ulid::from_parts(Millis(5), [7; 10]),
            writer: "ada-1a2b".parse().expect("a writer"),
            who: Person::default(),
            claim: None,
            ts: Millis(5),
            body: "why?\n| not a bar".to_owned(),
            severity: None,
            edited: None,
            deleted: false,
        }],
        resolved_by: None,
    }
}

fn pointed(line: u32, side: Side) -> Option<Pointed> {
    Some(Pointed {
        path: b"a.rs".to_vec(),
        lines: Some((line, line)),
        side,
    })
}

fn shown(form: &str, mistake: &Mistake) -> String {
    String::from_utf8(marked(form.as_bytes(), mistake)).expect("a text")
}

#[test]
fn what_is_no_text_is_marked_and_kept() {
    for (typed, line) in [(&b"caf\xe9"[..], 0), (b"a\nb\n\xe9\nc\n", 2)] {
        let mistake = plain(typed).expect_err("no text");
        assert_eq!(mistake.line, line);
        let mark = format!("#! {NO_TEXT}\n").into_bytes();
        let draft = marked(typed, &mistake);
        assert!(draft.windows(mark.len()).any(|at| at == mark));
        let again = plain(&draft).expect_err("no text");
        assert_eq!(marked(&draft, &again), draft, "marked once");
    }
}

#[test]
fn what_is_typed_is_read() {
    let thread = thread();
    let placed = [Placed {
        thread: &thread,
        spot: Spot::Lines {
            path: b"a.rs".to_vec(),
            side: Side::New,
            first: 2,
            last: 2,
        },
    }];
    let form = Form::new(HEAD, &lines(), &placed, str::to_owned);
    assert_eq!(
        form.read(&form.text),
        Ok(Vec::new()),
        "unchanged:\n{}",
        form.text
    );
    let id = thread.comments[0].id;
    let typed = form
        .text
        .replace("-old\n", "-old\nwhy remove it?\n\n> quoted\n")
        .replace("|     1     1  same\n", "")
        .replace("> | not a bar\n", "> | not a bar\nbecause\n")
        .replace("[ ] ", "[x] ")
        .replace("|= logo.png\n", "|= logo.png\nnice\n");
    assert_eq!(
        form.read(&typed),
        Ok(vec![
            Wish::Comment(
                pointed(2, Side::Old),
                "why remove it?\n\n> quoted".to_owned()
            ),
            Wish::Resolve(id),
            Wish::Reply(
                Named {
                    id,
                    of: Some(thread.comments[0].writer.clone())
                },
                "because".to_owned()
            ),
            Wish::Comment(
                Some(Pointed {
                    path: b"logo.png".to_vec(),
                    lines: None,
                    side: Side::New
                }),
                "nice".to_owned()
            ),
        ]),
        "{typed}"
    );
    let general = format!("All in all fine.\n{}", form.text);
    assert_eq!(
        form.read(&general),
        Ok(vec![Wish::Comment(None, "All in all fine.".to_owned())])
    );
}

#[test]
fn a_forged_id_hides_no_thread() {
    let (forged, mut own) = (thread(), thread());
    own.comments[0].writer = "bob-3c4d".parse().expect("a writer");
    own.comments[0].body = "mine".to_owned();
    let placed = [&forged, &own].map(|thread| Placed {
        thread,
        spot: Spot::Session,
    });
    let form = Form::new(HEAD, &lines(), &placed, str::to_owned);
    assert_eq!(form.text.matches("[ ] ").count(), 2, "{}", form.text);
    let typed = form.text.replace("> mine\n", "> mine\nto bob\n");
    let named = Named {
        id: own.comments[0].id,
        of: Some(own.comments[0].writer.clone()),
    };
    let wish = Wish::Reply(named, "to bob".to_owned());
    assert_eq!(form.read(&typed), Ok(vec![wish]));
}

#[test]
fn a_line_of_a_file_without_its_name_is_not_guessed() {
    let both = ["a.rs", "b.rs"].map(|path| vec![file(path), code(None, Some(1), "+same")]);
    let form = Form::new(HEAD, &both.concat(), &[], str::to_owned);
    let bare = "|           1 +same\nabout b\n";
    let mistake = form.read(bare).expect_err("of which file?");
    assert_eq!(mistake.what, NO_FILE);
    assert!(form.read(&shown(bare, &mistake)).is_err());
    let named = format!("|= b.rs\n{bare}");
    let [Wish::Comment(Some(at), _)] = &form.read(&named).expect("told")[..] else {
        panic!("one comment");
    };
    assert_eq!(at.path, b"b.rs");
}

#[test]
fn only_what_we_wrote_is_left_out() {
    let form = Form::new(HEAD, &lines(), &[], str::to_owned);
    let mine = "#: mine\n#! mine too\n#: see 0123456789012345678901234567890123456789";
    let typed = form.text.replace("+new\n", &format!("+new\n{mine}\n"));
    let wish = Wish::Comment(pointed(2, Side::New), mine.to_owned());
    assert_eq!(form.read(&typed), Ok(vec![wish]));
}

#[test]
fn an_answer_may_begin_with_a_quote() {
    let thread = thread();
    let placed = [Placed {
        thread: &thread,
        spot: Spot::Session,
    }];
    let form = Form::new(HEAD, &lines(), &placed, str::to_owned);
    let answer = |typed: &str| {
        let under = format!("> | not a bar\n{typed}\n");
        form.read(&form.text.replace("> | not a bar\n", &under))
    };
    let Ok(wishes) = answer("> why not?\nbecause") else {
        panic!("an answer");
    };
    let [Wish::Reply(_, said)] = &wishes[..] else {
        panic!("one answer: {wishes:?}");
    };
    assert_eq!(said, "> why not?\nbecause");
    let mistake = answer("> why, then?").expect_err("no answer");
    assert_eq!(mistake.what, NO_ANSWER);
}

#[test]
fn a_thread_whose_box_was_taken_away_was_not_typed() {
    let thread = thread();
    let on = |path: &str| Spot::Lines {
        path: path.into(),
        side: Side::New,
        first: 2,
        last: 2,
    };
    let file = Spot::File {
        path: b"logo.png".to_vec(),
        side: Side::New,
    };
    for (spot, wanted) in [
        (Spot::Session, "my words"),
        (on("a.rs"), "my words"),
        (file, "my words"),
        (on("logo.png"), NO_PLACE),
    ] {
        let placed = [Placed {
            thread: &thread,
            spot: spot.clone(),
        }];
        let form = Form::new(HEAD, &lines(), &placed, str::to_owned);
        let start = form.text.find("[ ] ").expect("a box");
        let end = start + form.text[start..].find('\n').expect("its end") + 1;
        let without = format!("{}{}", &form.text[..start], &form.text[end..]);
        assert_eq!(form.read(&without), Ok(vec![]), "{spot:?}");
        let typed = without.replace("> | not a bar\n", "> | not a bar\nmy words\n");
        let said = match form.read(&typed) {
            Ok(wishes) => match &wishes[..] {
                [Wish::Comment(_, said)] => said.clone(),
                other => panic!("one comment: {other:?}"),
            },
            Err(mistake) => mistake.what,
        };
        assert_eq!(said, wanted);
    }
}

#[test]
fn what_is_broken_is_marked_and_kept() {
    let form = Form::new(HEAD, &lines(), &[], str::to_owned);
    let broken = form.text.replace("+new", "+newer\nmy thoughts");
    let mistake = form.read(&broken).expect_err("a changed bar");
    let draft = shown(&broken, &mistake);
    assert!(draft.contains("#! this line is not"), "{draft}");
    assert!(draft.contains("my thoughts\n"), "{draft}");
    let again = form.read(&draft).expect_err("still broken");
    assert_eq!(shown(&draft, &again).matches("#! ").count(), 1);
    let note = form.text.replace("|  binary", "|  binary\nhm");
    assert!(form.read(&note).is_err());
}
