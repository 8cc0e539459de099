//! How a session is named: the beginning of its name, the last one, a row of the last list, and a hint for a typo.

use git_agent_tests::Sandbox;

use crate::merge_land::{lab, session};

#[test]
fn a_unique_beginning_is_enough() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "login-page", &["print a"]);
    session(&repo, "login-form", &["print b"]);
    session(&repo, "search", &["print c"]);
    let name = |word: &str| {
        let shown = repo.agent(["show", "--json", word]).success().json();
        shown["sessions"][0]["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    assert_eq!(name("s"), "search");
    assert_eq!(name("login-p"), "login-page");
    assert_eq!(name("LOGIN-PAGE"), "login-page");
    let several = repo.agent(["show", "login"]).code(128);
    several.assert_says("'login' names 2 sessions");
    several.assert_says("hint: login-page (ready)");
    repo.agent(["show", "login-pge"])
        .code(128)
        .assert_says("hint: did you mean 'login-page'?");
    repo.agent(["show", "zzz"])
        .code(128)
        .assert_says("hint: git agent list --all");
    // The whole name comes before a beginning, and open sessions before closed ones.
    session(&repo, "login", &["print d"]);
    assert_eq!(name("login"), "login");
    repo.agent(["discard", "login"]).success();
    repo.agent(["discard", "login-page"]).success();
    assert_eq!(name("login-"), "login-form");
    // A revision is not the beginning of a name.
    repo.git(["tag", "sea"]).success();
    repo.agent(["new", "from", "--from", "sea", "--", "true"])
        .success();
    assert_eq!(repo.session("from")["parent"], "main");
}

#[test]
fn a_dash_is_the_last_session_and_a_number_a_row() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    repo.agent(["show", "-"])
        .code(128)
        .assert_says("no session was named before");
    session(&repo, "one", &["print a"]);
    session(&repo, "two", &["print b"]);
    let name = |word: &str| {
        let shown = repo.agent(["show", "--json", word]).success().json();
        shown["sessions"][0]["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    assert_eq!(name("-"), "two", "the one made last");
    assert_eq!(name("one"), "one");
    assert_eq!(name("-"), "one", "the one named last");
    let shown = repo.agent(["list"]).success();
    let at = |name: &str| shown.stdout().find(name).expect("it is listed");
    let first = if at("one") < at("two") { "one" } else { "two" };
    assert_eq!(name("@1"), first);
    repo.agent(["show", "@3"])
        .code(128)
        .assert_says("the last list here has 2 rows");
    repo.agent(["review", "diff", "@2"]).success();
    repo.agent(["log", "-"]).success();
    // An agent that names sessions does not change what the user means.
    assert_eq!(name("one"), "one");
    repo.new_session(
        "spy",
        &[],
        &["try git agent show two", "try git agent list"],
    );
    repo.await_state("spy", "ready");
    assert_eq!(name("-"), "spy", "made by the user");
    repo.agent(["doctor"])
        .success()
        .assert_says("no problems found");
}

#[test]
fn typos_of_commands_and_settings_are_explained() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    session(&repo, "x", &["print a"]);
    let wrong = repo.agent(["review", "aprove", "x"]).code(128);
    wrong.assert_says("'aprove' is neither a session nor a command of 'git agent review'");
    wrong.assert_says("hint: git agent review approve x");
    repo.agent(["merge", "conflcts"])
        .code(128)
        .assert_says("hint: git agent merge conflicts");
    let wrong = repo
        .agent(["config", "set", "agent.maxparalel", "3"])
        .code(1);
    wrong.assert_says("hint: did you mean 'agent.maxParallel'?");
    repo.git(["config", "agent.maxparalel"]).code(1);
    repo.agent(["config", "set", "--force", "agent.maxparalel", "3"])
        .success();
    repo.git(["config", "agent.maxparalel"]).success();
}

#[test]
fn names_made_from_tasks_are_short_and_readable() {
    let sandbox = Sandbox::new();
    let repo = lab(&sandbox);
    sandbox.program("mine", "echo done");
    repo.git(["config", "agent.mine.command", "mine"]).success();
    repo.git(["config", "agent.default", "mine"]).success();
    for (task, name) in [
        ("Füge einen Löschbefehl hinzu", "fuege-einen"),
        ("écris le résumé", "ecris-le-resume"),
        (
            "make every error of the shop say what to do",
            "make-every-error",
        ),
    ] {
        let made = repo.agent(["new", task]).success();
        assert_eq!(made.stdout().lines().next(), Some(name), "{made}");
        repo.await_state(name, "ready");
    }
    let made = repo.agent(["new", "検索を直す"]).success();
    let name = made.stdout().lines().next().expect("a name").to_owned();
    assert!(
        name.is_ascii() && name.contains('-') && name.len() <= 20,
        "{name}"
    );
    repo.await_state(&name, "ready");
}
