//! Comments follow their lines through thousands of random edits, and never reach a wrong line.

use proptest::prelude::*;

use crate::model::review::anchor::*;

fn find(before: &str, after: &str, line: usize, count: usize) -> Option<usize> {
    let (before, after) = (lines(before.as_bytes()), lines(after.as_bytes()));
    Versions::new(Known::Whole, &before, &after)
        .find(line - 1, count)
        .map(|at| at + 1)
}

#[test]
fn lines_are_followed_through_what_people_do() {
    let before = "fn one() {\n    first_call();\n}\n\nfn two() {\n    second();\n}\n";
    for (after, line, now) in [
        (before, 2, Some(2)),
        // A line added above.
        (
            "use x;\nfn one() {\n    first_call();\n}\n\nfn two() {\n    second();\n}\n",
            2,
            Some(3),
        ),
        // The functions swap places.
        (
            "fn two() {\n    second();\n}\n\nfn one() {\n    first_call();\n}\n",
            2,
            Some(6),
        ),
        // A brace moves with its function.
        (
            "fn two() {\n    second();\n}\n\nfn one() {\n    first_call();\n}\n",
            3,
            Some(7),
        ),
        // The line changes or is deleted.
        (
            "fn one() {\n    first_call(1);\n}\n\nfn two() {\n    second();\n}\n",
            2,
            None,
        ),
        ("fn one() {\n}\n\nfn two() {\n    second();\n}\n", 2, None),
        ("fn two() {\n    second();\n}\n", 3, None),
        ("", 2, None),
        // Different line ends.
        ("fn one() {\r\n    first_call();\r\n}\r\n", 2, Some(2)),
    ] {
        assert_eq!(
            find(before, after, line, 1),
            now,
            "line {line} in:\n{after}"
        );
    }
    assert_eq!(find(before, before, 9, 1), None, "the line does not exist");
    assert_eq!(find(before, before, 1, 0), None);
}

#[test]
fn what_is_deleted_whole_leaves_its_comment_to_nobody() {
    let add = "int add(int a, int b)\n{\n\treturn a + b;\n}\n\n";
    let sub = "int sub(int a, int b)\n{\n\treturn a - b;\n}\n\n";
    let end = "int main(void)\n{\n\treturn 0;\n}\n";
    let before = format!("{add}{sub}{end}");
    for line in 6..=10 {
        assert_eq!(
            find(&before, &format!("{add}{end}"), line, 1),
            None,
            "{line}"
        );
    }
    assert_eq!(find(&before, &format!("{sub}{end}"), 4, 1), None);
    assert_eq!(find(&before, &format!("{sub}{end}"), 9, 1), Some(4));
    // Moved, and without the line that distinguished them.
    let hollow = sub.replace("\treturn a - b;\n", "");
    assert_ne!(find(&before, &format!("{hollow}{add}{end}"), 9, 1), Some(8));
}

#[test]
fn several_lines_stay_together_or_are_gone() {
    let before = "a1a1\nb2b2\nc3c3\nd4d4\n";
    assert_eq!(find(before, "new\na1a1\nb2b2\nc3c3\nd4d4\n", 2, 2), Some(3));
    assert_eq!(find(before, "a1a1\nb2b2\nnew\nc3c3\nd4d4\n", 2, 2), None);
}

#[test]
fn short_words_elsewhere_are_other_lines() {
    let before = "alpha one\nret 0\nbeta two\ngamma three\ndelta four\n";
    let after = "alpha one\nbeta two\ngamma three\ndelta four\nret 0\n";
    assert_eq!(find(before, after, 2, 1), None);
}

#[test]
fn a_line_in_another_function_is_another_line() {
    let twice = "int twice(int x)\n{\n\treturn 2 * x;\n}\n";
    for line in ["\treturn 0;", "\tsize_t length = 0;", "\t\treturn err"] {
        let check = format!("int check(int x)\n{{\n\tif (x)\n\t\tabort();\n{line}\n}}\n");
        let other = format!("int close_log(FILE *l)\n{{\n\tfclose(l);\n{line}\n}}\n");
        let before = format!("{check}\n{twice}");
        let gone = format!("{twice}\n{other}");
        assert_eq!(find(&before, &gone, 5, 1), None, "{line}");
        // The line moves with its function, even if that is edited.
        let moved = format!("{twice}\n{}", check.replace("(x)", "(!x)"));
        assert_eq!(find(&before, &moved, 5, 1), Some(10), "{line}");
        let edited = check.replace("\tif (x)\n\t\tabort();\n", "\tx--;\n");
        assert_eq!(find(&before, &format!("{edited}\n{twice}"), 5, 1), Some(4));
    }
}

#[test]
fn an_excerpt_is_found_only_with_both_sides() {
    let excerpt = lines(b"alpha one\n}\nbeta two\n");
    let look =
        |after: &str| Versions::new(Known::Excerpt, &excerpt, &lines(after.as_bytes())).find(1, 1);
    assert_eq!(look("x\nalpha one\n}\nbeta two\n"), Some(2));
    assert_eq!(look("alpha one\n}\nother\n"), None);
    assert_eq!(
        look("alpha one\n}\nbeta two\nalpha one\n}\nbeta two\n"),
        None
    );
}

/// A line with an identity apart from its text.
#[derive(Debug, Clone)]
struct Marked {
    id: usize,
    text: String,
}

#[derive(Debug, Clone)]
enum Edit {
    Insert(prop::sample::Index, Option<usize>),
    Delete(prop::sample::Index, usize),
    Replace(prop::sample::Index),
    Move(prop::sample::Index, prop::sample::Index, usize),
}

/// Lines that occur in every file.
const COMMON: [&str; 6] = ["}", "", "    }", "{", "end", "    return 0;"];

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = any::<prop::sample::Index>;
    let edit = prop_oneof![
        4 => (place(), prop::option::weighted(0.4, 0..COMMON.len())).prop_map(|(at, common)| Edit::Insert(at, common)),
        3 => (place(), 1..4usize).prop_map(|(at, count)| Edit::Delete(at, count)),
        2 => place().prop_map(Edit::Replace),
        1 => (place(), place(), 1..5usize).prop_map(|(from, to, count)| Edit::Move(from, to, count)),
    ];
    prop::collection::vec(edit, 0..12)
}

/// Returns a file: `Some` is a common line, `None` a unique one.
fn file() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(prop::option::weighted(0.35, 0..COMMON.len()), 1..40)
}

fn apply(before: &[Marked], edits: &[Edit]) -> Vec<Marked> {
    let mut file = before.to_vec();
    let mut fresh = 10_000;
    let mut new_line = |common: Option<usize>| {
        fresh += 1;
        Marked {
            id: fresh,
            text: common.map_or_else(
                || format!("added line {fresh}"),
                |which| COMMON[which].to_owned(),
            ),
        }
    };
    for edit in edits {
        match edit {
            Edit::Insert(at, common) => {
                let at = at.index(file.len() + 1);
                file.insert(at, new_line(*common));
            }
            Edit::Delete(at, count) if !file.is_empty() => {
                let at = at.index(file.len());
                let end = (at + count).min(file.len());
                file.drain(at..end);
            }
            Edit::Replace(at) if !file.is_empty() => {
                let at = at.index(file.len());
                file[at] = new_line(None);
            }
            Edit::Move(from, to, count) if !file.is_empty() => {
                let from = from.index(file.len());
                let end = (from + count).min(file.len());
                let block: Vec<Marked> = file.drain(from..end).collect();
                let to = to.index(file.len() + 1);
                file.splice(to..to, block);
            }
            _ => {}
        }
    }
    file
}

/// Returns whether a unique line is near both positions.
fn shares_surroundings(old: &[&[u8]], new: &[&[u8]], line: usize, found: usize) -> bool {
    let near = |file: &[&[u8]], at: usize| -> Vec<Vec<u8>> {
        let (from, to) = (at.saturating_sub(NEAR), (at + NEAR + 1).min(file.len()));
        file[from..to].iter().map(|line| line.to_vec()).collect()
    };
    let around = near(new, found);
    near(old, line)
        .iter()
        .any(|text| weight(text) >= TELLING && around.contains(text))
}

fn checked(kinds: &[Option<usize>], edits: &[Edit], line: usize) -> Result<(), TestCaseError> {
    let before: Vec<Marked> = kinds
        .iter()
        .enumerate()
        .map(|(id, common)| Marked {
            id,
            text: common.map_or_else(
                || format!("some code of number {id}"),
                |which| COMMON[which].to_owned(),
            ),
        })
        .collect();
    let after = apply(&before, edits);
    let bytes = |file: &[Marked]| {
        file.iter()
            .map(|line| line.text.clone().into_bytes())
            .collect::<Vec<_>>()
    };
    let (old, new) = (bytes(&before), bytes(&after));
    let old: Vec<&[u8]> = old.iter().map(Vec::as_slice).collect();
    let new: Vec<&[u8]> = new.iter().map(Vec::as_slice).collect();
    let found = Versions::new(Known::Whole, &old, &new).find(line, 1);
    let truth = after.iter().position(|marked| marked.id == line);
    let telling = kinds[line].is_none();
    match (truth, found) {
        (Some(truth), Some(found)) if telling => prop_assert_eq!(truth, found),
        (Some(_), None) if telling => {
            prop_assert!(false, "a line that is still there was not found")
        }
        (None, Some(_)) if telling => prop_assert!(false, "a line that is gone was found"),
        (truth, Some(found)) if truth != Some(found) => {
            // Only neighbours distinguish identical lines: one of them must be the same.
            let same = |before: Option<usize>, after: Option<usize>| match (before, after) {
                (Some(before), Some(after)) => {
                    old.get(before).is_some() && old.get(before) == new.get(after)
                }
                _ => false,
            };
            prop_assert_eq!(new[found], old[line]);
            prop_assert!(
                same(line.checked_sub(1), found.checked_sub(1))
                    || same(Some(line + 1), Some(found + 1))
                    || shares_surroundings(&old, &new, line, found),
                "a common line was found in other surroundings"
            );
            // A unique neighbour must not show that it is another line.
            let was = |next: Option<usize>| {
                let next = after.get(next?)?;
                kinds.get(next.id)?.is_none().then_some(next.id)
            };
            let mut others = [
                was(found.checked_sub(1)).map(|above| above + 1),
                was(Some(found + 1)).and_then(|below| below.checked_sub(1)),
            ]
            .into_iter()
            .flatten();
            prop_assert!(
                !others.any(|other| other != line && old.get(other) == Some(&new[found])),
                "a common line was taken for another one"
            );
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Follows every line of every file through the edits: some 50,000 comments.
    #[test]
    fn no_edit_leads_to_a_wrong_line(kinds in file(), edits in edits()) {
        for line in 0..kinds.len() {
            checked(&kinds, &edits, line)?;
        }
    }
}
