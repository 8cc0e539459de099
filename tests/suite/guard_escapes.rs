//! Escapes: attempts of an agent at level `cell` to have an effect outside of its room. Each is a line of shell that an
//! agent's command runs; afterwards everything outside is compared with what it was before.
//!
//! The attempts run together in a few sessions, because a session costs more than an attempt. An attempt that had an effect
//! is found by running each group again, attempt by attempt.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use git_agent_tests::{Background, Hash, RefFormat, Repo, Sandbox};
use rustix::process::Signal;

/// Attempts by group. `$MAIN` is the main checkout, `$GIT` its git directory, `$SIB` the worktree of another session,
/// `$HOME` the user's home, `$OUT` a directory of the user, `$ME` the session's name.
const ATTEMPTS: [(&str, &[&str]); 11] = [
    (
        "refs by commands of git",
        &[
            "git -C \"$MAIN\" branch -f main HEAD~1",
            "git -C \"$MAIN\" branch -m main gone",
            "git -C \"$MAIN\" branch -M side main",
            "git -C \"$MAIN\" branch -C agent/$ME main",
            "git -C \"$MAIN\" branch -D side",
            "git --git-dir=\"$GIT\" update-ref refs/heads/main HEAD~1",
            "git --git-dir=\"$GIT\" update-ref -d refs/heads/side",
            "echo 'delete refs/heads/side' | git --git-dir=\"$GIT\" update-ref --stdin",
            "git push \"$MAIN\" HEAD:refs/heads/main -f",
            "git push \"$MAIN\" HEAD:refs/heads/evil",
            "git push --receive-pack='git receive-pack' \"$GIT\" HEAD:refs/heads/evil",
            "git send-pack \"$MAIN\" HEAD:refs/heads/evil",
            "git --git-dir=\"$GIT\" symbolic-ref HEAD refs/heads/side",
            "git --git-dir=\"$GIT\" symbolic-ref refs/heads/main refs/heads/side",
            "git --git-dir=\"$GIT\" fetch . side:main -f",
            "git --git-dir=\"$GIT\" tag evil",
            "git --git-dir=\"$GIT\" notes add -m evil HEAD",
            "git --git-dir=\"$GIT\" replace HEAD HEAD~1",
            "printf 'reset refs/heads/main\\nfrom HEAD~1\\n\\n' | git --git-dir=\"$GIT\" fast-import --force",
            "git -C \"$MAIN\" stash drop",
            "git -C \"$MAIN\" stash clear",
            "git -C \"$MAIN\" stash pop",
            "git -C \"$MAIN\" worktree add ../evil-worktree",
            "git -C \"$MAIN\" worktree remove -f \"$SIB\"",
            "git -C \"$MAIN\" worktree prune --expire=now",
            "git -C \"$MAIN\" pack-refs --all --prune",
        ],
    ),
    (
        "refs with hooks turned off",
        &[
            "git -c core.hooksPath=/dev/null -C \"$MAIN\" branch -f main HEAD~1",
            "env -u GIT_CONFIG_COUNT -u GIT_CONFIG_PARAMETERS git -C \"$MAIN\" branch -f main HEAD~1",
            "env -i PATH=\"$PATH\" git --git-dir=\"$GIT\" update-ref refs/heads/main HEAD~1",
            "GIT_AGENT_GUARD=refs/ git --git-dir=\"$GIT\" update-ref refs/heads/main HEAD~1",
            "GIT_CONFIG_GLOBAL=/dev/null git --git-dir=\"$GIT\" update-ref refs/heads/main HEAD~1",
            "git rev-parse HEAD~1 > \"$GIT/refs/heads/main\"",
            "git rev-parse HEAD > \"$GIT/refs/heads/evil\"",
            "rm -f \"$GIT/refs/heads/side\" \"$GIT/packed-refs\"",
            "echo junk >> \"$GIT/packed-refs\"",
            "mv \"$GIT/packed-refs\" \"$GIT/packed-refs.old\"",
            "echo 'ref: refs/heads/side' > \"$GIT/HEAD\"",
            "rm -rf \"$GIT/reftable\"",
            "touch \"$GIT/packed-refs.lock\"",
            "touch \"$GIT/HEAD.lock\" \"$GIT/index.lock\"",
            "rm -f \"$GIT/index\"; echo junk > \"$GIT/index\"",
        ],
    ),
    (
        "history that only a log holds",
        &[
            "git -C \"$MAIN\" reflog expire --expire=now --all",
            "git -C \"$MAIN\" reflog delete main@{0}",
            "git -C \"$MAIN\" gc --prune=now --quiet",
            "rm -rf \"$GIT/logs\"",
            ": > \"$GIT/logs/refs/stash\"",
        ],
    ),
    (
        "objects and configuration of the repository",
        &[
            "find \"$GIT/objects\" -type f -exec rm -f {} +",
            "find \"$GIT/objects\" -type f -exec chmod u+w {} + -exec sh -c ': > \"$1\"' x {} ';'",
            "echo \"$TMPDIR\" > \"$GIT/objects/info/alternates\"",
            "echo junk > \"$GIT/objects/pack/pack-1.pack\"",
            "git --git-dir=\"$GIT\" config core.fsmonitor 'touch $OUT/ran'",
            "git --git-dir=\"$GIT\" config core.pager 'touch $OUT/ran'",
            "git --git-dir=\"$GIT\" config agent.test 'touch $OUT/ran'",
            "printf '[core]\\n\\tfsmonitor = touch %s/ran\\n' \"$OUT\" >> \"$GIT/config\"",
            "cp \"$GIT/config\" new; echo '[alias]' >> new; mv new \"$GIT/config\"",
            "mkdir -p \"$GIT/hooks\"; echo 'touch $OUT/ran' > \"$GIT/hooks/post-checkout\"",
            "mkdir -p \"$GIT/info\"; echo '* filter=evil' > \"$GIT/info/attributes\"",
            "echo /tmp > \"$GIT/commondir\"",
            "echo x > \"$GIT/config.worktree\"",
            "echo x > \"$GIT/shallow\"",
            "mkdir -p \"$GIT/modules/evil/hooks\"",
            "git config --global core.fsmonitor 'touch $OUT/ran'",
            "git config --global include.path \"$PWD/evil\"",
        ],
    ),
    (
        "what a person's git would run in the worktree later",
        &[
            "git config core.fsmonitor \"touch '$OUT/ran'\"",
            "git config core.sshCommand \"touch '$OUT/ran'\"",
            "git config filter.evil.clean \"touch '$OUT/ran'\"; echo '* filter=evil' > .git-attributes-evil",
            "mkdir -p hooks-evil; printf '#!/bin/sh\\ntouch \"%s/ran\"\\n' \"$OUT\" > hooks-evil/post-index-change; chmod +x hooks-evil/*; git config core.hooksPath \"$PWD/hooks-evil\"",
            "git config hook.evil.command \"touch '$OUT/ran'\"; git config hook.evil.event post-index-change",
            "cell=$(git rev-parse --git-dir); mkdir -p evil-dir; cp -r \"$cell/.\" evil-dir; git --git-dir=evil-dir config core.fsmonitor \"touch '$OUT/ran'\"; printf 'gitdir: %s\\n' \"$PWD/evil-dir\" > .git",
            "rm -f .git; mkdir .git",
            "rm -f .git; ln -s \"$GIT\" .git",
            "echo ../../.. > \"$(git rev-parse --git-dir)/commondir\"",
            "rm -f \"$GIT\"/worktrees/$ME/gitdir; echo \"$MAIN/.git\" > \"$GIT/worktrees/$ME/gitdir\"",
            "echo x > \"$GIT/worktrees/$ME/commondir\"",
            "echo x > \"$GIT/worktrees/$ME/config.worktree\"",
        ],
    ),
    (
        "files of the user",
        &[
            "echo x >> \"$MAIN/a\"",
            "rm -f \"$MAIN/a\"",
            "git -C \"$MAIN\" checkout -- .",
            "git -C \"$MAIN\" reset --hard HEAD~1",
            "git -C \"$MAIN\" clean -fdx",
            "echo x > \"$SIB/evil\"",
            "git -C \"$SIB\" commit --allow-empty -m evil",
            "echo x > \"$HOME/evil\"",
            "echo x >> \"$HOME/.bashrc\"",
            "mkdir -p \"$HOME/.config/autostart\"",
            "echo x > \"$OUT/evil\"",
            "ln -s /etc/passwd \"$OUT/link\"",
            "ln \"$OUT/file\" \"$OUT/hard\"",
            "ln \"$OUT/file\" hard && echo x >> hard",
            "mv \"$OUT/file\" here",
            "echo x > here; mv here \"$OUT/file\"",
            ": > \"$OUT/file\"",
            "truncate -s 0 \"$OUT/file\"",
            "dd if=/dev/zero of=\"$OUT/file\" bs=1 count=1 conv=notrunc",
            "ln -s \"$OUT\" way; echo x > way/evil",
            "ln -s \"$OUT/file\" file-link; echo x >> file-link",
            "mkfifo \"$OUT/fifo\"",
            "rm -rf \"$OUT\"",
            "cp -a . \"$OUT/copy\"",
        ],
    ),
    (
        "modes, owners and times",
        &[
            "chmod 000 \"$OUT/file\"",
            "chmod 777 \"$HOME/.ssh\"",
            "chmod -R 000 \"$GIT/hooks\" \"$GIT/objects\"",
            "chmod u+s \"$OUT/file\"",
            "chown nobody \"$OUT/file\"",
            "touch -d 2001-01-01 \"$OUT/file\"",
            "setfattr -n user.evil -v 1 \"$OUT/file\"",
            "ln -s \"$OUT/file\" l; chmod 000 l",
        ],
    ),
    (
        "records of git-agent",
        &[
            "echo x > \"$GIT/agents/evil\"",
            "rm -rf \"$GIT/agents/spool\" \"$GIT/agents/run\"",
            "echo x > \"$GIT/agents/key\"",
            "echo x > \"$GIT/agents/writer\"",
            "mkdir -p \"$GIT/agents/inbox/evil\"",
            "for d in \"$GIT\"/agents/inbox/*; do echo '{\"type\":\"prompt\",\"text\":\"x\",\"from\":\"user\"}' > \"$d/00000000000000000000000000.json\"; done",
            "echo x > \"$GIT/agents/trust\"",
            "rm -rf \"$GIT/agents/turns\" \"$GIT/agents/cells\"",
            "for f in \"$GIT\"/agents/cells/*.json; do echo '{}' > \"$f\"; done",
            "mkdir -p \"$GIT/refs/agents/notes/review\"; git rev-parse HEAD > \"$GIT/refs/agents/notes/review/evil-0000\"",
            "git update-ref refs/agents/notes/review/evil-0000 HEAD",
            "git agent review approve $ME",
            "git agent review approve sib",
            "env -u GIT_AGENT_SOCKET git agent review approve sib",
            "git agent send sib evil",
            "git agent stop sib",
            "git agent clean --force sib",
            "git agent forget sib",
            "git agent exec sib -- touch evil",
            "git agent new evil -- true",
            "git agent trust --yes",
            "git agent push -y",
            "git agent config agent.test 'touch ran'",
            "git agent merge --into main --yes",
            "git agent review comment sib -m evil -F \"$HOME/.ssh/id\"",
        ],
    ),
    (
        "other processes",
        &[
            "kill -9 $PPID",
            "kill -STOP $PPID",
            "kill -9 $(cat \"$OUT/pid\")",
            "kill -TERM -- -$(cat \"$OUT/pid\")",
            "echo 1000 > /proc/$(cat \"$OUT/pid\")/oom_score_adj",
            "renice -n 19 -p $(cat \"$OUT/pid\")",
            "cat /proc/$(cat \"$OUT/pid\")/environ > stolen-environ",
            "ls -l /proc/$(cat \"$OUT/pid\")/fd > stolen-fd",
            "dd if=/proc/$(cat \"$OUT/pid\")/mem of=stolen-mem bs=1 count=1",
            "unshare -Urm mount -t tmpfs none \"$OUT\"",
            "mount --bind . \"$OUT\"",
            "umount -l \"$OUT\"",
            "nsenter -t 1 -m touch \"$OUT/evil\"",
        ],
    ),
    (
        "secrets",
        &[
            "cat \"$HOME/.ssh/id\" > stolen-key",
            "cp -r \"$HOME/.ssh\" stolen-ssh",
            "ln \"$HOME/.ssh/id\" stolen-link && cat stolen-link > stolen-linked",
            "ln -s \"$HOME/.ssh/id\" l2; cat l2 > stolen-symlink",
            "cat \"$HOME/.aws/credentials\" > stolen-aws",
            "cat \"$HOME/.netrc\" > stolen-netrc",
            "cat \"$GIT/agents/key\" > stolen-agent-key",
            "cat \"$GIT/config\" > stolen-config",
            "mv \"$HOME/.ssh\" stolen-moved",
            "tar cf stolen.tar -C \"$HOME\" .ssh",
            "cat \"$MAIN/../other-project/.env\" > stolen-env",
        ],
    ),
    (
        "survival of the turn",
        &[
            "setsid sh -c 'sleep 1; echo x > late-1' >/dev/null 2>&1 &",
            "nohup sh -c 'sleep 1; echo x > late-2' >/dev/null 2>&1 &",
            "(trap '' TERM HUP INT; sleep 1; echo x > late-3) >/dev/null 2>&1 &",
            "env -i setsid /bin/sh -c 'sleep 1; echo x > late-4' >/dev/null 2>&1 &",
            "(setsid sh -c '(sleep 1; echo x > late-5) &' &) >/dev/null 2>&1",
        ],
    ),
];

/// A repository with a stash, a second session and a home with secrets.
struct World<'a> {
    main: Repo<'a>,
    out: PathBuf,
    bystander: Background,
    /// How many sessions were run.
    runs: AtomicUsize,
}

fn world<'a>(sandbox: &'a Sandbox, main: Repo<'a>) -> World<'a> {
    main.write("a", "1\n");
    main.commit("one");
    main.write("a", "2\n");
    main.commit("two");
    main.git(["branch", "side", "HEAD~1"]).success();
    main.write("a", "stashed\n");
    main.git(["stash"]).success();
    main.write("a", "work of the user\n");
    main.write("untracked", "x\n");
    let home = sandbox.home();
    for (path, text) in [
        (".ssh/id", "PRIVATE"),
        (".aws/credentials", "PRIVATE"),
        (".netrc", "PRIVATE"),
        (".bashrc", "# shell\n"),
        ("out/file", "text\n"),
    ] {
        let path = home.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
    let other = main
        .path()
        .parent()
        .expect("a parent")
        .join("other-project");
    fs::create_dir_all(&other).expect("made");
    fs::write(other.join(".env"), "PRIVATE").expect("written");
    let out = home.join("out");
    let bystander = sandbox.sh("exec sleep 600").spawn();
    fs::write(out.join("pid"), bystander.pid().to_string()).expect("written");
    main.new_session(
        "sib",
        &["--guard", "cell"],
        &["write own text", "commit own"],
    );
    main.await_state("sib", "ready");
    World {
        main,
        out,
        bystander,
        runs: AtomicUsize::new(0),
    }
}

/// Everything outside of a session's room: path, mode, time of change of content, and content.
fn outside(world: &World<'_>) -> BTreeMap<PathBuf, String> {
    let common = world.main.common_dir();
    let home = world.out.parent().expect("the home").to_owned();
    let siblings = world.main.worktree_of("sib");
    let mut seen = BTreeMap::new();
    for root in [world.main.path(), &home, siblings.path(), &common] {
        note(root, &common, &mut seen);
    }
    seen
}

fn note(path: &Path, common: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    // What our own commands write: records, objects and the session's own branch. They are compared by what git says.
    let ours = [
        "agents",
        "objects",
        "worktrees",
        "logs",
        "refs",
        "packed-refs",
        "reftable",
        "index",
        "ORIG_HEAD",
    ];
    if ours.iter().any(|name| path.starts_with(common.join(name))) {
        return;
    }
    let content = if meta.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    } else {
        String::new()
    };
    let time = if meta.is_file() { meta.mtime() } else { 0 };
    let about = format!(
        "{:o} {} {time} {content}",
        meta.permissions().mode(),
        meta.uid()
    );
    seen.insert(path.to_owned(), about);
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            note(&entry.path(), common, seen);
        }
    }
}

/// What git says of the repository: refs but those of the session, stashes, logs, state of files.
fn told(world: &World<'_>) -> String {
    let main = &world.main;
    let mut refs = main.refs("refs/");
    let own =
        |name: &str| name.starts_with("refs/agents") || name.starts_with("refs/heads/agent/esc");
    refs.retain(|name, _| !own(name));
    let say = |words: &[&str]| main.git(words).whatever().stdout().to_owned();
    format!(
        "{refs:?}\n{}\n{}\n{}\n{}\n{}",
        say(&["stash", "list"]),
        say(&["reflog", "show", "main"]),
        say(&["status", "--porcelain=v2", "--branch"]),
        say(&["config", "--list", "--local"]),
        say(&["symbolic-ref", "HEAD"]),
    )
}

/// Runs attempts in a session and returns what they changed outside.
fn run(world: &World<'_>, attempts: &[&str]) -> Vec<String> {
    let main = &world.main;
    let sibling = main.worktree_of("sib");
    let approvals = |main: &Repo<'_>| main.session("sib")["verdict"].to_string();
    let name = format!("esc{}", world.runs.fetch_add(1, Ordering::Relaxed));
    let before = (outside(world), told(world), approvals(main));
    let mut script = format!(
        "ME={name} MAIN='{}' GIT='{}' SIB='{}' OUT='{}'\nexport ME MAIN GIT SIB OUT\n",
        main.path().display(),
        main.common_dir().display(),
        sibling.path().display(),
        world.out.display()
    );
    for attempt in attempts {
        script.push_str(&format!("( {attempt}\n) >/dev/null 2>&1 </dev/null\n"));
    }
    script.push_str("exit 0\n");
    main.agent(["new", &name, "--guard", "cell", "--", "sh", "-c", &script])
        .success();
    main.agent(["wait", &name, "--timeout", "100s"]).whatever();
    let after = (outside(world), told(world), approvals(main));
    let worktree = main.worktree_of(&name);
    // A person's own git in the worktree, and ours.
    worktree.git(["status"]).success();
    main.agent(["review", "diff", &name, "--stat"]).whatever();
    main.agent(["show", &name]).success();
    let mut found = Vec::new();
    for (path, was) in &before.0 {
        if after.0.get(path) != Some(was) {
            found.push(format!(
                "{} changed: {:?}",
                path.display(),
                after.0.get(path)
            ));
        }
    }
    for path in after.0.keys().filter(|path| !before.0.contains_key(*path)) {
        found.push(format!("{} appeared", path.display()));
    }
    if before.1 != after.1 {
        found.push(format!("git says\n{}\nnot\n{}", after.1, before.1));
    }
    if before.2 != after.2 {
        found.push(format!("verdict {}", after.2));
    }
    if world.out.join("ran").exists() {
        found.push("something of the agent's ran outside".to_owned());
    }
    for entry in fs::read_dir(worktree.path()).expect("there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let stolen = name.starts_with("stolen") && contains_secret(&entry.path());
        if stolen || name.starts_with("late") {
            found.push(format!("{name} is there"));
        }
    }
    let link = fs::read_to_string(worktree.path().join(".git")).unwrap_or_default();
    if !link.contains("/.git/worktrees/") {
        found.push(format!("the worktree leads to {link:?}"));
    }
    let alive = Path::new("/proc").join(world.bystander.pid().to_string());
    if !alive.exists() {
        found.push("the bystander is dead".to_owned());
    }
    found
}

fn contains_secret(path: &Path) -> bool {
    if path.is_dir() {
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.any(|entry| contains_secret(&entry.path()));
    }
    let bytes = fs::read(path).unwrap_or_default();
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let secret = bytes.windows(7).any(|part| part == b"PRIVATE");
    // Of these any content is too much.
    let any = [
        "stolen-environ",
        "stolen-mem",
        "stolen-agent-key",
        "stolen-config",
    ];
    secret || !bytes.is_empty() && any.iter().any(|one| name.as_deref() == Some(one))
}

fn nothing_gets_out(main: impl for<'s> Fn(&'s Sandbox) -> Repo<'s>) {
    let sandbox = Sandbox::new();
    let world = world(&sandbox, main(&sandbox));
    let mut escaped = Vec::new();
    for (group, attempts) in ATTEMPTS {
        if run(&world, attempts).is_empty() {
            continue;
        }
        for attempt in attempts {
            for effect in run(&world, &[attempt]) {
                escaped.push(format!("{group}: {attempt}: {effect}"));
            }
        }
        if escaped.is_empty() {
            escaped.push(format!("{group}: only together"));
        }
    }
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
    world.main.assert_whole();
    world.bystander.signal(Signal::KILL);
    let _ = world.bystander.wait().whatever();
}

#[test]
fn there_are_a_hundred_attempts() {
    let count: usize = ATTEMPTS.iter().map(|(_, attempts)| attempts.len()).sum();
    assert!(count >= 100, "{count}");
}

#[test]
fn no_attempt_has_an_effect_outside() {
    nothing_gets_out(|sandbox| sandbox.repo("r").create());
}

#[test]
fn no_attempt_has_an_effect_outside_with_other_formats() {
    nothing_gets_out(|sandbox| {
        let repo = sandbox.repo("r").hash(Hash::Sha256);
        if RefFormat::available().contains(&RefFormat::Reftable) {
            repo.refs(RefFormat::Reftable).create()
        } else {
            repo.create()
        }
    });
}
