//! Failures leave nothing behind, hooks run, and many worktrees can be added at once.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::AtomicBool;

use crate::git::worktree::tests::*;

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a\n");
    sandbox.write("d/b", "b\n");
    sandbox.commit();
    sandbox
}

fn hook(sandbox: &Sandbox, script: &str) {
    let path = sandbox.top.join(".git/hooks/post-checkout");
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a hook");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn a_taken_path_or_branch_is_refused_without_a_trace() {
    let sandbox = ready();
    let base = sandbox.base();
    fs::create_dir(base.join("full")).expect("a directory");
    fs::write(base.join("full/precious"), "precious").expect("a file");
    fs::write(base.join("file"), "file").expect("a file");
    symlink("nowhere", base.join("dangling")).expect("a link");
    fs::create_dir(base.join("empty")).expect("a directory");
    sandbox.git(&["branch", "taken"]);
    sandbox.git(&["branch", "packed/below"]);
    sandbox.git(&["pack-refs", "--all"]);
    let before = sandbox.traces();
    let head = sandbox.head();
    for (path, branch, message) in [
        ("full", "new", "already exists"),
        ("file", "new", "already exists"),
        ("dangling", "new", "already exists"),
        ("file/below", "new", "cannot create"),
        ("repo", "new", "already exists"),
        ("deep/er/wt", "taken", "already exists"),
        ("empty", "taken", "already exists"),
        ("wt", "taken/below", "branch 'taken' exists"),
        ("wt", "packed", "branch 'packed/below' exists"),
        ("wt", "bad..name", "not a valid branch name"),
        ("wt", "-dash", "not a valid branch name"),
        ("wt", "", "not a valid branch name"),
    ] {
        let error = sandbox
            .try_add(&base.join(path), branch, head)
            .expect_err("refused");
        assert!(
            error.message().contains(message),
            "{path} {branch}: {error}"
        );
        assert_eq!(sandbox.traces(), before, "{path} {branch}");
    }
    assert_eq!(
        fs::read(base.join("full/precious")).expect("kept"),
        b"precious"
    );
    let tree =
        ObjectId::from_hex(sandbox.git(&["rev-parse", "HEAD^{tree}"]).as_bytes()).expect("an id");
    sandbox
        .try_add(&base.join("wt"), "new", tree)
        .expect_err("a tree is not a commit");
    assert_eq!(sandbox.traces(), before);

    let added = sandbox
        .try_add(&base.join("empty"), "new", head)
        .expect("an empty directory is fine");
    assert_eq!(git_in(&added.path, &["status", "--porcelain"]), "");
}

#[test]
fn a_registered_but_missing_path_is_refused() {
    let sandbox = ready();
    let added = sandbox.add("ours");
    fs::remove_dir_all(&added.path).expect("removed");
    let before = sandbox.traces();
    let error = sandbox
        .try_add(&added.path, "second", sandbox.head())
        .expect_err("refused");
    assert!(error.message().contains("already registered"));
    assert_eq!(sandbox.traces(), before);
}

#[test]
fn failing_half_way_leaves_nothing() {
    let sandbox = ready();
    let before = sandbox.traces();
    // Interrupted while filling.
    let interrupted = AtomicBool::new(true);
    let path = sandbox.base().join("new/deep/wt");
    let options = AddOptions {
        path: &path,
        branch: "x/y/z",
        start: sandbox.head(),
        start_name: Some("HEAD"),
        name_hint: None,
        no_checkout: false,
        interrupt: &interrupted,
    };
    let error = add(&sandbox.repo(), &options).expect_err("interrupted");
    assert!(error.message().contains("interrupted"));
    assert_eq!(sandbox.traces(), before);

    // git fails while filling: a required filter fails.
    sandbox.write(".gitattributes", "* filter=broken\n");
    sandbox.commit();
    sandbox.git(&["config", "filter.broken.smudge", "false"]);
    sandbox.git(&["config", "filter.broken.required", "true"]);
    let before = sandbox.traces();
    for existed in [false, true] {
        if existed {
            fs::create_dir_all(&path).expect("a directory");
        }
        sandbox
            .try_add(&path, "x/y/z", sandbox.head())
            .expect_err("the filter fails");
        assert_eq!(path.exists(), existed);
        if existed {
            assert_eq!(fs::read_dir(&path).expect("readable").count(), 0);
            fs::remove_dir_all(sandbox.base().join("new")).expect("removed");
        }
        assert_eq!(sandbox.traces(), before, "existed: {existed}");
    }
}

#[test]
fn a_missing_object_leaves_nothing() {
    let sandbox = ready();
    let blob = sandbox.git(&["rev-parse", "HEAD:d/b"]);
    let (dir, file) = blob.split_at(2);
    fs::remove_file(sandbox.top.join(".git/objects").join(dir).join(file)).expect("removed");
    fs::remove_file(sandbox.top.join("d/b")).expect("removed");
    let before = sandbox.traces();
    sandbox
        .try_add(&sandbox.base().join("wt"), "new", sandbox.head())
        .expect_err("an object is missing");
    assert_eq!(sandbox.traces(), before);
}

#[test]
fn the_hook_runs_as_git_runs_it() {
    let sandbox = ready();
    let heard = sandbox.base().join("heard");
    hook(
        &sandbox,
        &format!(
            "{{ pwd; echo \"$@\"; echo \"${{GIT_DIR-unset}} ${{GIT_WORK_TREE-unset}}\"; ls; }} >>'{}'; echo said; exit 3",
            heard.display()
        ),
    );
    let added = sandbox.add("ours");
    let hook_said = added.hook.expect("a hook");
    assert_eq!(hook_said.code, Some(3));
    assert_eq!(hook_said.output, b"said\n");
    assert!(added.path.join("a").exists(), "the worktree stays");
    let ours = fs::read_to_string(&heard).expect("heard");
    fs::remove_file(&heard).expect("removed");
    let output = Command::new("git")
        .current_dir(&sandbox.top)
        .args([
            "worktree",
            "add",
            "-q",
            "--no-track",
            "-b",
            "plain",
            "../plain",
        ])
        .output()
        .expect("git runs");
    assert_eq!(output.status.code(), Some(3));
    let plain = fs::read_to_string(&heard).expect("heard");
    assert_eq!(ours.replace("/ours", "/plain"), plain);

    // Without files there is nothing to report; a hook elsewhere is found through the configuration.
    fs::remove_file(&heard).expect("removed");
    fs::rename(sandbox.top.join(".git/hooks"), sandbox.base().join("hooks")).expect("moved");
    let path = sandbox.base().join("bare");
    let options = AddOptions {
        path: &path,
        branch: "bare",
        start: sandbox.head(),
        start_name: None,
        name_hint: Some("hinted name"),
        no_checkout: true,
        interrupt: &CALM,
    };
    let added = add(&sandbox.repo(), &options).expect("a worktree");
    assert_eq!((added.way, added.hook), (Way::NoCheckout, None));
    assert_eq!(added.id, "hinted-name");
    assert_eq!(files(&path), []);
    for (name, hooks) in [
        ("absolute", sandbox.base().join("hooks")),
        ("relative", "../hooks".into()),
    ] {
        sandbox.git(&["config", "core.hooksPath", hooks.to_str().expect("plain")]);
        assert_eq!(
            sandbox.add(name).hook.and_then(|hook| hook.code),
            Some(3),
            "{name}"
        );
    }
}

#[test]
fn permissions_of_the_original_do_not_matter() {
    let sandbox = ready();
    fs::set_permissions(sandbox.top.join("a"), fs::Permissions::from_mode(0o600)).expect("a mode");
    sandbox.write("x", "#!/bin/sh\n");
    fs::set_permissions(sandbox.top.join("x"), fs::Permissions::from_mode(0o700)).expect("a mode");
    sandbox.commit();
    sandbox.settle();
    let (ours, _) = sandbox.add_fast("ours");
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn many_at_once_all_succeed() {
    let sandbox = ready();
    for number in 0..40 {
        sandbox.write(&format!("many/{number}"), "many\n");
    }
    let head = sandbox.commit();
    let base = sandbox.base();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (sandbox, base) = (&sandbox, &base);
            scope.spawn(move || {
                let path = base.join("all/of/them").join(number.to_string());
                let added = sandbox
                    .try_add(&path, &format!("many/{number}"), head)
                    .expect("a worktree");
                assert!(matches!(added.way, Way::Fast(_)));
            });
        }
    });
    assert_eq!(list(&sandbox.repo()).expect("a list").len(), 17);
    for number in 0..16 {
        let path = base.join("all/of/them").join(number.to_string());
        assert_eq!(
            git_in(&path, &["status", "--porcelain", "-b"]),
            format!("## many/{number}")
        );
    }
    sandbox.git(&["fsck", "--strict"]);
    // Many processes want one name: exactly one wins, and the others leave its branch alone.
    let winners: usize = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|number| {
                let (sandbox, base) = (&sandbox, &base);
                scope.spawn(move || {
                    sandbox
                        .try_add(&base.join(format!("taker{number}")), "wanted", head)
                        .is_ok()
                })
            })
            .collect();
        takers
            .into_iter()
            .map(|taker| usize::from(taker.join().expect("no panic")))
            .sum()
    });
    assert_eq!(winners, 1);
    assert_eq!(sandbox.git(&["rev-parse", "wanted"]), head.to_string());
    assert_eq!(list(&sandbox.repo()).expect("a list").len(), 18);
}

#[test]
fn a_repository_whose_files_live_elsewhere_works() {
    let sandbox = ready();
    let elsewhere = sandbox.base().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    sandbox.git(&[
        "config",
        "core.worktree",
        elsewhere.to_str().expect("plain"),
    ]);
    sandbox.git(&["reset", "-q", "--hard"]);
    sandbox.settle();
    let (ours, report) = sandbox.add_fast("ours");
    assert_eq!(report.copied, 2);
    assert_same_as_git(&ours, &sandbox.add_plain("plain"));
}

#[test]
fn relative_links_are_left_to_git() {
    let sandbox = ready();
    sandbox.git(&["config", "worktree.useRelativePaths", "true"]);
    let added = sandbox.add("ours");
    assert_eq!(added.way, Way::Git("relative worktree paths"));
    assert_same_as_git(&added.path, &sandbox.add_plain("plain"));
    let relative = fs::read_to_string(sandbox.base().join("plain/.git")).expect("a link");
    let ours = fs::read_to_string(added.path.join(".git")).expect("a link");
    assert_eq!(ours.replace("ours", "plain"), relative);
}
