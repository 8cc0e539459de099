//! `git agent install`: all in place, found by git and man, nothing of others touched, and gone again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git_agent_tests::Sandbox;
use git_agent_tests::binaries::{PRODUCT, workspace};
use git_agent_tests::toolbox::on_path;

fn files(top: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.insert(path.strip_prefix(top).expect("below the top").to_owned());
            }
        }
    }
    found
}

#[test]
fn it_is_found_by_git_and_man_and_goes_again() {
    let sandbox = Sandbox::new();
    let prefix = sandbox.work().join("a prefix");
    let install = |options: &[&str]| {
        sandbox
            .command("git")
            .args(["agent", "install", "--prefix"])
            .arg(&prefix)
            .args(options)
            .run()
    };
    install(&[]).success().assert_says("is not on PATH");
    let installed = files(&prefix);
    for program in PRODUCT {
        assert!(
            installed.contains(&Path::new("bin").join(program)),
            "{installed:?}"
        );
        let meta = fs::metadata(prefix.join("bin").join(program)).expect("it is there");
        assert_eq!(meta.permissions().mode() & 0o777, 0o755);
    }
    let sections = fs::read_dir(workspace().join("man")).expect("a manual");
    let is_section = |name: OsString| name.as_encoded_bytes().starts_with(b"man");
    for section in sections.flatten().filter(|dir| is_section(dir.file_name())) {
        for page in fs::read_dir(section.path()).expect("pages").flatten() {
            let place = Path::new("share/man")
                .join(section.file_name())
                .join(page.file_name());
            assert!(
                installed.contains(&place),
                "{} is not installed",
                place.display()
            );
            assert_eq!(
                fs::read(prefix.join(&place)).expect("readable"),
                fs::read(page.path()).expect("readable")
            );
        }
    }
    for place in [
        "share/bash-completion/completions/git-agent",
        "share/zsh/site-functions/_git-agent",
        "share/fish/vendor_conf.d/git-agent.fish",
    ] {
        assert!(installed.contains(Path::new(place)), "{place}");
    }
    let version = sandbox
        .command("git")
        .args(["agent", "--version"])
        .path_first(prefix.join("bin"))
        .run();
    version.success();
    if let Some(man) = on_path("man").next() {
        let found = sandbox
            .command(man)
            .path_first(prefix.join("bin"))
            .args(["-w", "git-agent"])
            .run()
            .success();
        assert!(
            found
                .line()
                .ends_with("a prefix/share/man/man1/git-agent.1"),
            "{found}"
        );
    }
    let again = install(&[]).success();
    assert!(
        again
            .lines()
            .iter()
            .all(|line| line.starts_with("unchanged ")),
        "{again}"
    );
    install(&["--uninstall"]).success();
    assert!(files(&prefix).is_empty(), "{:?}", files(&prefix));
    install(&["--uninstall"])
        .code(1)
        .assert_says("is not installed");
}

#[test]
fn what_others_made_stays() {
    let sandbox = Sandbox::new();
    let prefix = sandbox.work().join("prefix");
    let page = prefix.join("share/man/man1/git-agent.1");
    fs::create_dir_all(page.parent().expect("a directory")).expect("writable");
    fs::write(&page, "mine").expect("writable");
    let install = |options: &[&str]| {
        sandbox
            .command("git")
            .args(["agent", "install", "--prefix"])
            .arg(&prefix)
            .args(options)
            .run()
    };
    install(&[])
        .code(128)
        .assert_says("not installed by git-agent")
        .assert_says("git-agent.1");
    assert_eq!(files(&prefix).len(), 1, "nothing else was written");
    assert_eq!(fs::read(&page).expect("readable"), b"mine");
    install(&["--force"]).success();
    assert_ne!(fs::read(&page).expect("readable"), b"mine");
    fs::write(&page, "changed").expect("writable");
    install(&[]).code(128).assert_says("git-agent.1");
    let removed = install(&["--uninstall"]).success();
    assert!(
        removed.stdout().contains("kept, because it was changed:"),
        "{removed}"
    );
    assert_eq!(files(&prefix).len(), 1);
    assert_eq!(fs::read(&page).expect("readable"), b"changed");
}

#[test]
fn the_users_own_place_is_the_default() {
    let sandbox = Sandbox::new();
    sandbox
        .command("git")
        .args(["agent", "install"])
        .run()
        .success();
    assert!(sandbox.home().join(".local/bin/git-agent").is_file());
    sandbox
        .command("git")
        .args(["agent", "install", "--uninstall"])
        .run()
        .success();
    assert!(files(&sandbox.home()).is_empty());
}
