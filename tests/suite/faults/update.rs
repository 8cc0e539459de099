//! Faults while a session is brought up to date: its uncommitted work is never lost, and updating again ends well.

use git_agent_tests::faults::{self, Action, Fault};
use git_agent_tests::output::Output;
use git_agent_tests::repo::{Hash, RefFormat, Repo};

use super::{Place, no_lock_is_left, tell, user_goes_on};

const SCRIPT: &str = "echo mine >> src/code.rs; git commit -qam mine; echo loose >> src/code.rs; echo new > new; \
                      echo staged > staged; git add staged";

/// Makes a session with uncommitted work whose parent has gone on.
fn furnish(repo: &Repo<'_>) {
    repo.agent(["new", "x", "--", "sh", "-c", SCRIPT]).success();
    repo.agent(["wait", "x", "--timeout=60s"]).success();
    repo.write("later", "later\n");
    repo.commit("the parent goes on");
}

fn nothing_is_lost(repo: &Repo<'_>, fault: Option<&Fault>, output: &Output) {
    user_goes_on(repo, fault);
    let worktree = Repo::open(
        repo.sandbox(),
        repo.path().with_file_name("r-worktrees").join("x"),
    );
    let holds = |when: &str| {
        for (file, text) in [
            ("src/code.rs", "fn main() {}\nmine\nloose\n"),
            ("new", "new\n"),
            ("staged", "staged\n"),
        ] {
            let found = worktree.read(file);
            assert_eq!(found, text.as_bytes(), "{file} {when}\n{output}");
        }
    };
    holds("at once");
    repo.agent(["update", "x"]).success();
    holds("after another update");
    assert_eq!(worktree.read("later"), b"later\n");
    let seen = worktree.git(["status", "--porcelain"]).success();
    seen.assert_stdout(" M src/code.rs\nA  staged\n?? new\n");
    worktree
        .git(["merge-base", "--is-ancestor", "main", "HEAD"])
        .success();
    no_lock_is_left(repo);
}

#[test]
fn a_session_is_brought_up_to_date_whatever_happens() {
    let place = Place::new(Hash::Sha1, RefFormat::Files, furnish);
    let report = faults::sample(
        6,
        &[Action::Kill, Action::Eio],
        || place.fresh(),
        |repo, plan| plan.apply(repo.agent_cmd(["update", "x"])).run().whatever(),
        nothing_is_lost,
    );
    tell("bringing a session up to date", &place, &report);
}
