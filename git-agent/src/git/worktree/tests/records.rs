//! git's records of a worktree: created, listed, moved, pruned, removed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::git::ObjectId;
use crate::git::worktree::tests::*;

/// One record of `git worktree list --porcelain -z`, and ours in the same words.
fn gits(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let text = sandbox.git(&["worktree", "list", "--porcelain", "-z"]);
    text.split("\0\0")
        .filter(|record| !record.is_empty())
        .map(|record| record.split('\0').map(str::to_owned).collect())
        .collect()
}

fn ours(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let repo = sandbox.repo();
    list(&repo)
        .expect("a list")
        .into_iter()
        .map(|worktree| {
            let mut record = vec![format!("worktree {}", worktree.path.to_string_lossy())];
            if worktree.bare {
                record.push("bare".into());
            } else {
                let head = worktree.head.unwrap_or_else(|| repo.null_id());
                record.push(format!("HEAD {head}"));
                record.push(match worktree.branch {
                    Some(branch) => format!("branch {branch}"),
                    None => "detached".into(),
                });
            }
            let mark = |word: &str, reason: Option<String>| {
                reason.map(|reason| format!("{word} {reason}").trim_end().to_owned())
            };
            record.extend(mark("locked", worktree.locked));
            record.extend(mark("prunable", worktree.prunable));
            record
        })
        .collect()
}

#[test]
fn a_worktree_is_found_by_its_path() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    sandbox.commit();
    let repo = sandbox.repo();
    let missing = sandbox.base().join("nowhere");
    assert_eq!(admin_dir_of(&repo, &missing).expect("looked for"), None);
    // The second worktree of a name gets another name below 'worktrees'.
    for place in ["x/same", "y/same", "other"] {
        let path = sandbox.base().join(place);
        let path = path.to_str().expect("a plain path");
        sandbox.git(&["worktree", "add", "-q", "--detach", path]);
    }
    for known in list(&repo).expect("a list") {
        let found = admin_dir_of(&repo, &known.path).expect("looked for");
        let linked = (!known.is_main()).then_some(known.admin_dir);
        assert_eq!(found, linked, "{}", known.path.display());
    }
    assert_eq!(admin_dir_of(&repo, &missing).expect("looked for"), None);
}

#[test]
fn the_admin_directory_is_gits() {
    for bare in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.write("a", "a\n");
        sandbox.commit();
        if bare {
            sandbox.git(&["config", "core.bare", "true"]);
        }
        let ours = sandbox.add("ours");
        let plain = sandbox.add_plain("plain");
        let plain_admin = sandbox.top.join(".git/worktrees/plain");
        let read = |dir: &Path| {
            walk(dir)
                .into_iter()
                .filter(|(path, _)| path != Path::new("index"))
                .map(|(path, (mode, content))| {
                    let text = String::from_utf8_lossy(&content).replace("ours", "plain");
                    // The same line except for its time.
                    let text = text
                        .split(' ')
                        .filter(|word| word.len() != 10 || word.parse::<u64>().is_err())
                        .collect::<Vec<_>>()
                        .join(" ");
                    (path, mode, text)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&ours.admin_dir), read(&plain_admin), "bare: {bare}");
        assert_eq!(
            fs::read_to_string(ours.path.join(".git")).expect("a link"),
            fs::read_to_string(plain.join(".git"))
                .expect("a link")
                .replace("plain", "ours")
        );
        let log = |name: &str| {
            fs::read_to_string(sandbox.top.join(".git/logs/refs/heads").join(name))
                .ok()
                .and_then(|text| text.split_once('\t').map(|(_, message)| message.to_owned()))
        };
        assert_eq!(log("ours"), log("plain"));
        assert!(
            !sandbox
                .git(&["config", "--list", "--local"])
                .contains("branch.")
        );
    }
}

#[test]
fn the_list_agrees_with_git() {
    let sandbox = Sandbox::new();
    assert_eq!(ours(&sandbox), gits(&sandbox), "unborn");
    sandbox.write("a", "a\n");
    sandbox.commit();
    for name in [
        "zeta", "alpha", "moved", "gone", "locked", "detached", "sp ace", "x/y",
    ] {
        let path = sandbox.base().join(name.replace('/', "-"));
        sandbox
            .try_add(&path, &name.replace(' ', "-"), sandbox.head())
            .expect("a worktree");
    }
    let base = sandbox.base();
    fs::remove_dir_all(base.join("gone")).expect("removed");
    fs::rename(base.join("moved"), base.join("moved-away")).expect("moved");
    sandbox.git(&["worktree", "lock", "--reason", "on a stick", "../locked"]);
    fs::remove_dir_all(base.join("locked")).expect("removed");
    sandbox.git(&["worktree", "lock", "../zeta"]);
    git_in(&base.join("detached"), &["checkout", "-q", "--detach"]);
    git_in(
        &base.join("alpha"),
        &["checkout", "-q", "--orphan", "nothing-yet"],
    );
    fs::create_dir(sandbox.top.join(".git/worktrees/empty")).expect("a directory");
    assert_eq!(ours(&sandbox), gits(&sandbox));
    sandbox.git(&["config", "core.bare", "true"]);
    assert_eq!(ours(&sandbox), gits(&sandbox), "bare");
}

#[test]
fn odd_paths_work() {
    for name in [
        "sp ace",
        "q\"uo'te",
        "new\nline",
        "$(touch x)",
        "-dash",
        "ünï",
    ] {
        let sandbox = Sandbox::with(&[], OsStr::new(name));
        sandbox.write("a/b", "b\n");
        sandbox.commit();
        let path = sandbox.base().join(format!("wt {name}"));
        let added = sandbox
            .try_add(&path, "branch", sandbox.head())
            .expect("a worktree");
        assert_eq!(git_in(&path, &["status", "--porcelain"]), "");
        assert_eq!(ours(&sandbox), gits(&sandbox));
        remove(
            &sandbox.repo(),
            &added.id,
            ProvenSafe::at(Some(sandbox.head())),
        )
        .expect("removed");
        assert!(!path.exists());
    }
    let sandbox = Sandbox::with(&[], OsStr::from_bytes(b"re\xffpo"));
    sandbox.write("a/b", "b\n");
    sandbox.commit();
    let path = sandbox.base().join(OsStr::from_bytes(b"w\xfet"));
    let added = sandbox
        .try_add(&path, "branch", sandbox.head())
        .expect("a worktree");
    assert_eq!(added.path, path);
    assert_eq!(git_in(&path, &["status", "--porcelain"]), "");
    assert_eq!(list(&sandbox.repo()).expect("a list")[1].path, path);
}

#[test]
fn removal_needs_proof_and_respects_locks() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    let head = sandbox.commit();
    let repo = sandbox.repo();
    let proof = ProvenSafe::at(Some(head));
    let added = sandbox.add("ours");
    let refuse = |id: &str, proof: ProvenSafe| {
        let error = remove(&repo, id, proof).expect_err("refused");
        assert!(added.path.join("a").exists());
        error.message().to_owned()
    };
    for id in ["", ".", "..", "../..", "missing", "../worktrees/ours"] {
        assert!(refuse(id, proof).contains("no worktree"), "{id}");
    }
    assert!(refuse("ours", ProvenSafe::at(None)).contains("moved on"));
    sandbox.git(&["worktree", "lock", "--reason", "mine", "../ours"]);
    assert!(refuse("ours", proof).contains("locked: mine"));
    sandbox.git(&["worktree", "unlock", "../ours"]);
    // Another worktree inside.
    let inner = sandbox
        .try_add(&added.path.join("inner"), "inner", head)
        .expect("a worktree");
    assert!(refuse("ours", proof).contains("contains another"));
    remove(&repo, &inner.id, proof).expect("removed");
    // The folder was replaced by another one.
    let link = fs::read(added.path.join(".git")).expect("a link");
    fs::write(added.path.join(".git"), "gitdir: /elsewhere\n").expect("a file");
    assert!(refuse("ours", proof).contains("not the worktree"));
    fs::write(added.path.join(".git"), link).expect("a file");

    let outside = sandbox.base().join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("precious"), "precious").expect("a file");
    std::os::unix::fs::symlink(&outside, added.path.join("link")).expect("a link");
    remove(&repo, "ours", proof).expect("removed");
    assert!(!added.path.exists() && !added.admin_dir.exists());
    assert!(outside.join("precious").exists());
    assert_eq!(
        sandbox.git(&["rev-parse", "ours"]),
        head.to_string(),
        "the branch stays"
    );
    assert!(!sandbox.top.join(".git/worktrees").exists());
    sandbox.git(&["fsck"]);
}

#[test]
fn moved_and_missing_worktrees_are_noticed() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    sandbox.commit();
    let (moved, gone, locked) = (
        sandbox.add("moved"),
        sandbox.add("gone"),
        sandbox.add("locked"),
    );
    let base = sandbox.base();
    fs::create_dir(base.join("new")).expect("a directory");
    fs::rename(&moved.path, base.join("new/place")).expect("moved");
    fs::remove_dir_all(&gone.path).expect("removed");
    sandbox.git(&["worktree", "lock", "../locked"]);
    fs::remove_dir_all(&locked.path).expect("removed");
    let repo = sandbox.repo();
    let by_id = |id: &str| {
        list(&repo)
            .expect("a list")
            .into_iter()
            .find(|worktree| worktree.id.as_deref() == Some(id))
    };
    let lost = by_id("moved").expect("known");
    assert_eq!(inspect(&lost), Finding::Missing);
    let found = search_moved(&lost, &[base.clone(), base.join("new")]).expect("found");
    assert_eq!(found, base.join("new/place"));
    repair(&repo, &found).expect("repaired");
    let repaired = by_id("moved").expect("known");
    assert_eq!(
        (repaired.path.clone(), inspect(&repaired)),
        (found, Finding::InPlace)
    );

    let pruned = prune_missing(&repo, |_| false).expect("nothing");
    assert!(pruned.is_empty() && gone.admin_dir.exists());
    let pruned = prune_missing(&repo, |_| true).expect("pruned");
    assert_eq!(pruned.len(), 1, "the locked one is kept");
    assert!(!gone.admin_dir.exists() && locked.admin_dir.exists());
    assert_eq!(
        sandbox.git(&["rev-parse", "gone"]),
        sandbox.head().to_string()
    );
}

#[test]
fn admin_names_never_meet() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    let head: ObjectId = sandbox.commit();
    let mut ids = Vec::new();
    for number in 0..3 {
        let path = sandbox.base().join(format!("d{number}/same"));
        let added = sandbox
            .try_add(&path, &format!("b{number}"), head)
            .expect("a worktree");
        ids.push(added.id);
    }
    assert_eq!(ids, ["same", "same1", "same2"]);
}
