//! Random edits of a worktree: the snapshot restores all of them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::git::snapshot::tests::world::{
    World, files, link, private_files, run, set_mode, staged, write,
};

/// One action of a user in a worktree.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, Vec<u8>),
    Remove(usize),
    Link(usize, usize),
    Executable(usize, bool),
    Rename(usize, usize),
    Stage(usize),
    Announce(usize),
    Unstage(usize),
    StageAll,
    Mark(usize, bool),
}

const NAMES: [&str; 12] = [
    "a",
    "b",
    "a.txt",
    "dir",
    "dir/x",
    "dir/y",
    "dir/sub/z",
    "a/b",
    "deep/er/still",
    "b/c/d",
    "-odd name",
    "dir.x",
];

fn edit() -> impl Strategy<Value = Edit> {
    let name = 0..NAMES.len();
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[a-c\r\n]{0,12}".prop_map(String::into_bytes),
    ];
    prop_oneof![
        6 => (name.clone(), bytes).prop_map(|(at, mut data)| {
            // Committed under an eol attribute, `\r\r\n` looks changed right after a checkout: git itself never
            // settles.
            data.dedup_by(|a, b| *a == b'\r' && *b == b'\r');
            Edit::Write(at, data)
        }),
        2 => name.clone().prop_map(Edit::Remove),
        1 => (name.clone(), name.clone()).prop_map(|(at, to)| Edit::Link(at, to)),
        1 => (name.clone(), any::<bool>()).prop_map(|(at, on)| Edit::Executable(at, on)),
        1 => (name.clone(), name.clone()).prop_map(|(at, to)| Edit::Rename(at, to)),
        2 => name.clone().prop_map(Edit::Stage),
        1 => name.clone().prop_map(Edit::Announce),
        1 => name.clone().prop_map(Edit::Unstage),
        1 => Just(Edit::StageAll),
        1 => (name, any::<bool>()).prop_map(|(at, skip)| Edit::Mark(at, skip)),
    ]
}

fn clear(path: &Path) {
    if fs::remove_file(path).is_err() {
        let _ = fs::remove_dir_all(path);
    }
}

/// Makes room for a path: removes files in the place of directories.
fn make_room(top: &Path, name: &str) {
    clear(&top.join(name));
    let mut dir = top.to_owned();
    for part in Path::new(name).parent().expect("a parent") {
        dir.push(part);
        if !fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir()) {
            clear(&dir);
        }
    }
}

/// Applies the edit as far as possible; git may refuse it.
fn apply(top: &Path, edit: &Edit) {
    let git = |words: &[&str]| {
        crate::git::snapshot::tests::world::command(top, words)
            .output()
            .expect("git starts");
    };
    match edit {
        Edit::Write(at, data) => {
            make_room(top, NAMES[*at]);
            write(top, NAMES[*at], data);
        }
        Edit::Remove(at) => clear(&top.join(NAMES[*at])),
        Edit::Link(at, to) => {
            make_room(top, NAMES[*at]);
            write(top, NAMES[*at], "");
            clear(&top.join(NAMES[*at]));
            link(top, NAMES[*at], NAMES[*to]);
        }
        Edit::Executable(at, on) => {
            let path = top.join(NAMES[*at]);
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
                set_mode(&path, if *on { 0o755 } else { 0o644 });
            }
        }
        Edit::Rename(at, to) => {
            let _ = fs::rename(top.join(NAMES[*at]), top.join(NAMES[*to]));
        }
        Edit::Stage(at) => git(&["add", "-A", "--", NAMES[*at]]),
        Edit::Announce(at) => git(&["add", "-N", "--", NAMES[*at]]),
        Edit::Unstage(at) => git(&["rm", "-q", "-r", "--cached", "--", NAMES[*at]]),
        Edit::StageAll => git(&["add", "-A"]),
        Edit::Mark(at, true) => git(&["update-index", "--skip-worktree", "--", NAMES[*at]]),
        Edit::Mark(at, false) => git(&["update-index", "--assume-unchanged", "--", NAMES[*at]]),
    }
}

fn destroy(top: &Path) {
    for entry in fs::read_dir(top).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_name() != ".git" {
            clear(&entry.path());
        }
    }
}

fn round_trip(attributes: bool, before: &[Edit], after: &[Edit]) {
    let world = World::new();
    let at = world.main();
    if attributes {
        world.write(
            ".gitattributes",
            "*.txt text eol=crlf\na text=auto\ndir/* text\n",
        );
    }
    for edit in before.iter().filter(|edit| !matches!(edit, Edit::Mark(..))) {
        apply(&at.top, edit);
    }
    world.commit_all("seed");
    // Committed files are restored as a checkout writes them, so they start that way.
    destroy(&at.top);
    world.git(&["reset", "-q", "--hard"]);
    for edit in after {
        apply(&at.top, edit);
    }
    let untouched = private_files(&at);
    let snapshot = world.snapshot(&at);
    assert_eq!(private_files(&at), untouched);
    let (original, index) = (files(&at.top), staged(&at.top));

    let fresh = world.worktree("fresh", &[]);
    world
        .repo
        .restore(&fresh, &snapshot, None)
        .expect("restored");
    assert_eq!(files(&fresh.top), original);
    assert_eq!(staged(&fresh.top), index);

    // Removes every file and the index.
    destroy(&at.top);
    fs::remove_file(at.admin_dir.join("index")).expect("removed");
    world.repo.restore(&at, &snapshot, None).expect("restored");
    assert_eq!(files(&at.top), original);
    assert_eq!(staged(&at.top), index);
    run(&at.top, &["status", "--porcelain"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 220, max_shrink_iters: 60, ..ProptestConfig::default() })]
    #[test]
    fn whatever_was_done_comes_back(
        attributes in prop::bool::weighted(0.3),
        before in prop::collection::vec(edit(), 0..10),
        after in prop::collection::vec(edit(), 0..12),
    ) {
        round_trip(attributes, &before, &after);
    }
}
