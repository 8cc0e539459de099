//! Looking at sessions in a repository that cannot be written: everything is shown, nothing is changed.

use git_agent_tests::{Cmd, Repo, Sandbox};

/// Returns a call of `git agent` by somebody whom modes keep out, which root is not by itself.
fn kept_out(repo: &Repo<'_>, args: &[&str]) -> Cmd {
    let caps = "-dac_override,-dac_read_search,-fowner";
    let program = std::path::Path::new("/usr/bin/setpriv");
    if is_root() && program.exists() {
        repo.command(program)
            .arg(format!("--bounding-set={caps}"))
            .arg(format!("--inh-caps={caps}"))
            .args(["git", "agent"])
            .args(args)
    } else {
        repo.agent_cmd(args)
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

/// Takes the right to write away from everybody, or gives it back to the owner.
fn set_writable(sandbox: &Sandbox, writable: bool) {
    let mode = if writable { "u+w" } else { "a-w" };
    sandbox
        .command("chmod")
        .arg("-R")
        .arg(mode)
        .arg(sandbox.work())
        .run()
        .success();
}

#[test]
fn what_cannot_be_written_is_shown_all_the_same() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let work = "echo one >code.txt; git add code.txt; git commit -qm code; echo loose >loose.txt";
    repo.agent(["new", "made", "--", "sh", "-c", work])
        .success();
    repo.await_state("made", "ready");
    repo.agent(["review", "comment", "made", "code.txt:1", "-m", "a word"])
        .success();
    // Nobody has looked at this yet, so that no object of it is there.
    repo.worktree_of("made")
        .write("fresh.txt", "just written\n");
    let refs = repo.refs("refs/");
    set_writable(&sandbox, false);
    let agents = repo.common_dir().join("agents");
    for closed in [false, true] {
        if closed {
            set_writable(&sandbox, true);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
            std::fs::set_permissions(&agents, mode).expect("ours");
            sandbox
                .command("chmod")
                .args(["-R", "a-w"])
                .arg(sandbox.work().join("r"))
                .run()
                .whatever();
        }
        let cases: [(&[&str], &[&str]); 8] = [
            (&["review"], &["made", "3", "1 open comment"]),
            (
                &["review", "diff", "made"],
                &["+one", "a word", "+loose", "+just written"],
            ),
            (&["review", "diff", "--stat", "made"], &["fresh.txt"]),
            (
                &["review", "diff", "--since-review", "made"],
                &["+just written"],
            ),
            (&["review", "list"], &["a word"]),
            (&["list"], &["made", "ready"]),
            (&["show", "made"], &["3 files", "1 comment open"]),
            (&["log", "made"], &["made"]),
        ];
        for (args, words) in cases {
            let shown = kept_out(&repo, args).run().success();
            for word in words {
                assert!(shown.stdout().contains(word), "{word} in {shown}");
            }
            let told = shown.stderr().contains("belongs to another user");
            assert_eq!(told, closed, "{shown}");
        }
        let refused = kept_out(&repo, &["review", "approve", "made"])
            .run()
            .code(128);
        assert!(refused.stderr().contains("cannot"), "{refused}");
        let mark = sandbox.root().join("opened");
        let editor = format!("touch '{}'; :", mark.display());
        let refused = kept_out(&repo, &["review", "edit", "made"]).env("GIT_EDITOR", editor);
        let refused = refused.run().code(128);
        assert!(refused.stderr().contains("cannot"), "{refused}");
        assert!(!mark.exists(), "nobody types what cannot be kept");
        // What was typed is not lost for want of a place in the repository.
        let typed = ["review", "comment", "made", "code.txt:1", "-m", "typed"];
        let refused = kept_out(&repo, &typed).run().code(128);
        let (_, kept) = refused
            .stderr()
            .split_once("the text is kept in '")
            .unwrap_or_else(|| panic!("{refused}"));
        let kept = kept.split('\'').next().expect("a path");
        assert_eq!(std::fs::read(kept).expect("a draft"), b"typed\n");
        std::fs::remove_file(kept).expect("ours");
    }
    std::fs::set_permissions(&agents, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("ours");
    set_writable(&sandbox, true);
    assert_eq!(repo.refs("refs/"), refs, "nothing is changed");
    repo.assert_whole();
    let left = sandbox.environment()[std::ffi::OsStr::new("TMPDIR")].clone();
    let left = std::fs::read_dir(left).expect("a directory").count();
    assert_eq!(left, 0, "nothing is left behind");
}
