//! Compares our trees with git's: the same notes must give the same tree, whatever the steps.

use crate::store::notes::tree::{self, NotesTree};
use std::collections::BTreeSet;

use crate::git::ObjectId;
use crate::git::object::{EntryKind, TreeEntry};
use crate::store::notes::tests::World;

const NOTES: &str = "refs/notes/x";

/// A notes ref that git writes, and our tree after the same steps.
struct Pair {
    world: World,
    first: ObjectId,
    blob: ObjectId,
    ours: ObjectId,
}

impl Pair {
    fn new(world: World) -> Self {
        let repo = world.repo.clone();
        let id = |text: String| repo.parse_id(&text).expect("an id");
        let blob = id(world.git(&["hash-object", "-w", "--stdin"], "hello\n"));
        // git annotates only existing objects; all other notes are copied from this one.
        let tree = world.git(&["mktree"], "");
        let first = id(world.git(&["commit-tree", "-m", "x", &tree], ""));
        let (from, to) = (blob.to_string(), first.to_string());
        world.git(&["notes", "--ref=x", "add", "-C", &from, &to], "");
        let mut pair = Pair {
            ours: world.repo.null_id(),
            first,
            blob,
            world,
        };
        let mut notes = NotesTree::empty(&repo);
        notes.set_blob(first, blob).expect("a note is set");
        pair.keep(notes);
        pair.check("one note");
        pair
    }

    fn keep(&mut self, notes: NotesTree<'_>) {
        let (tree, batch) = notes.build().expect("a tree is built");
        self.world
            .repo
            .write_batch(&batch)
            .expect("objects are written");
        self.ours = tree;
    }

    fn add(&mut self, ids: &[ObjectId]) {
        let from = self.first;
        let lines: String = ids.iter().map(|id| format!("{from} {id}\n")).collect();
        self.world
            .git(&["notes", "--ref=x", "copy", "--stdin"], &lines);
        let repo = self.world.repo.clone();
        let mut notes = NotesTree::open(&repo, self.ours).expect("our tree opens");
        for id in ids {
            notes.set_blob(*id, self.blob).expect("a note is set");
        }
        self.keep(notes);
    }

    fn remove(&mut self, ids: &[ObjectId]) {
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        self.world
            .git(&["notes", "--ref=x", "remove", "--stdin"], &lines);
        let repo = self.world.repo.clone();
        let mut notes = NotesTree::open(&repo, self.ours).expect("our tree opens");
        for id in ids {
            notes
                .set_lines(*id, crate::store::notes::record_set::Lines::default())
                .expect("a note is removed");
        }
        self.keep(notes);
    }

    fn check(&self, what: &str) {
        let theirs = self
            .world
            .git(&["rev-parse", &format!("{NOTES}^{{tree}}")], "");
        assert_eq!(self.ours.to_string(), theirs, "{what}");
    }

    fn count(&self) -> usize {
        let mut count = 0;
        tree::walk(&self.world.repo, self.ours, &mut |_, _| {
            count += 1;
            Ok(())
        })
        .expect("our tree is walked");
        count
    }
}

fn same_as_git(hash: &str) {
    let world = World::new(hash, "files", "ada", 1_794_000_000_000);
    let ids = world.ids(6_000);
    let mut pair = Pair::new(world);
    let mut done = 0;
    for until in [1, 9, 99, 270, 400, 599, 1_500, 4_999, 5_000] {
        pair.add(&ids[done..until]);
        done = until;
        pair.check(&format!("{hash}: {} notes", done + 1));
    }
    assert_eq!(pair.count(), 5_001);
    // Removals in steps: the fan-out closes again, later than it opened.
    for until in [1, 40, 1_000, 3_000, 4_400, 4_700, 4_900, 4_990, 5_000] {
        let from = pair.count();
        let removed = 5_001 - from;
        pair.remove(&ids[removed..until]);
        pair.check(&format!("{hash}: {} notes left", 5_001 - until));
    }
    pair.add(&ids[5_000..5_700]);
    pair.check("grown again");
}

#[test]
fn trees_are_gits_own_with_sha1() {
    same_as_git("sha1");
}

#[test]
fn trees_are_gits_own_with_sha256() {
    same_as_git("sha256");
}

#[test]
fn one_dense_corner_is_laid_out_as_git_does() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    // Two notes under each pair of digits, and hundreds below one pair: only there a second level opens.
    let mut ids: Vec<ObjectId> = (0..512u32)
        .map(|n| world.id(&[(n % 256) as u8, (n / 256) as u8 * 0x80, 1]))
        .collect();
    ids.extend((0..600u32).map(|n| world.id(&[0xab, (n % 256) as u8, (n / 256) as u8, 2])));
    let mut pair = Pair::new(world);
    for chunk in ids.chunks(97) {
        pair.add(chunk);
        pair.check("growing");
    }
    let entries = pair.world.git(
        &["ls-tree", "-r", "--name-only", &pair.ours.to_string()],
        "",
    );
    assert!(
        entries
            .lines()
            .any(|path| path.starts_with("ab/") && path[3..].contains('/'))
    );
    for chunk in ids.chunks(61) {
        pair.remove(chunk);
        pair.check("shrinking");
    }
}

#[test]
fn any_depth_is_read_and_what_is_no_note_is_kept() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let repo = &world.repo;
    let mut batch = repo.batch();
    let entry = |name: &str, kind, id| TreeEntry {
        name: name.as_bytes().to_vec(),
        kind,
        id,
    };
    let ids = [[1, 2, 3], [1, 2, 4], [0xfe, 9, 9]].map(|leading| world.id(&leading));
    let hex = ids.map(|id| id.to_string());
    let one = batch.blob(b"{\"n\":1}\n".to_vec());
    let two = batch.blob(b"{\"n\":2}\n".to_vec());
    let readme = batch.blob(b"hello\n".to_vec());
    // One object at three depths, beside foreign files at two.
    let deep = batch.tree([
        entry(&hex[0][4..], EntryKind::Blob, two),
        entry("README", EntryKind::Blob, readme),
    ]);
    let shallow = batch.tree([
        entry(&hex[0][2..], EntryKind::Blob, one),
        entry(&hex[1][2..], EntryKind::Blob, one),
        entry("02", EntryKind::Tree, deep),
        entry("zz", EntryKind::Tree, deep),
    ]);
    let top = batch.tree([
        entry(&hex[0], EntryKind::Blob, one),
        entry(&hex[2], EntryKind::Blob, two),
        entry("01", EntryKind::Tree, shallow),
        entry("README", EntryKind::Blob, readme),
        entry("ff", EntryKind::Blob, readme),
    ]);
    repo.write_batch(&batch).expect("objects are written");

    let mut seen = Vec::new();
    tree::walk(repo, top, &mut |object, _| {
        seen.push(object);
        Ok(())
    })
    .expect("walks");
    seen.sort_unstable();
    assert_eq!(seen, [ids[0], ids[0], ids[0], ids[1], ids[2]]);
    assert_eq!(tree::find(repo, top, &ids[0]).expect("finds").len(), 3);
    assert_eq!(tree::find(repo, top, &ids[2]).expect("finds"), [two]);

    let mut notes = NotesTree::open(repo, top).expect("opens");
    notes.set_blob(world.id(&[7]), one).expect("a note is set");
    let (tree, batch) = notes.build().expect("builds");
    repo.write_batch(&batch).expect("objects are written");
    let listing = world.git(&["ls-tree", "-r", "--name-only", &tree.to_string()], "");
    let mut names: Vec<&str> = listing
        .lines()
        .filter(|path| !path.starts_with("01/zz/"))
        .collect();
    names.sort_unstable();
    let seven = world.id(&[7]).to_string();
    let mut expected = vec![
        "01/02/README",
        "README",
        "ff",
        &hex[0],
        &hex[1],
        &hex[2],
        &seven,
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    let kept = world.git(&["rev-parse", &format!("{tree}:01/zz")], "");
    assert_eq!(kept, deep.to_string());
    let both = tree::find(repo, tree, &ids[0]).expect("finds");
    let lines = tree::read_lines(repo, both[0]).expect("reads");
    assert_eq!(lines.to_blob(), b"{\"n\":1}\n{\"n\":2}\n");
    world.git(&["fsck", "--strict"], "");
}

#[test]
fn a_directory_spelt_twice_keeps_its_notes() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let repo = &world.repo;
    let mut batch = repo.batch();
    let note = batch.blob(b"{\"n\":1}\n".to_vec());
    let entry = |name: &str, kind, id| TreeEntry {
        name: name.as_bytes().to_vec(),
        kind,
        id,
    };
    let mut entries = Vec::new();
    for digit in 0..16u8 {
        let hex = world.id(&[digit * 16 + 10]).to_string();
        let below = batch.tree([entry(&hex[2..], EntryKind::Blob, note)]);
        entries.push(entry(&hex[..2], EntryKind::Tree, below));
    }
    // The same directory in capitals, with only a foreign file.
    let readme = batch.tree([entry("README", EntryKind::Blob, note)]);
    entries.push(entry("AA", EntryKind::Tree, readme));
    let top = batch.tree(entries);
    repo.write_batch(&batch).expect("objects are written");
    let mut notes = NotesTree::open(repo, top).expect("opens");
    notes
        .set_blob(world.id(&[0x1a, 1]), note)
        .expect("a note is set");
    let (tree, batch) = notes.build().expect("builds");
    repo.write_batch(&batch).expect("objects are written");
    let mut seen = BTreeSet::new();
    tree::walk(repo, tree, &mut |on, _| {
        seen.insert(on);
        Ok(())
    })
    .expect("walks");
    assert_eq!(seen.len(), 17);
    assert!(seen.contains(&world.id(&[0xaa])));
}

#[test]
fn a_tree_that_holds_itself_many_times_ends_early() {
    let world = World::new("sha1", "files", "ada", 1_794_000_000_000);
    let mut batch = world.repo.batch();
    let mut below = batch.tree([]);
    for _ in 0..6 {
        below = batch.tree((0..256).map(|byte| TreeEntry {
            name: format!("{byte:02x}").into_bytes(),
            kind: EntryKind::Tree,
            id: below,
        }));
    }
    world.repo.write_batch(&batch).expect("objects are written");
    let error = tree::walk(&world.repo, below, &mut |_, _| Ok(())).expect_err("too many");
    assert!(error.message().contains("entries allowed"), "{error}");
}
