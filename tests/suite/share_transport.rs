//! Sharing over the other ways git has, with signatures, and with a server that keeps writers apart.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use git_agent_tests::binaries::workspace;
use git_agent_tests::sandbox::write_program;
use git_agent_tests::team::{each_way, lighttpd};
use git_agent_tests::toolbox::on_path;
use git_agent_tests::{Background, Member, Sandbox, Team, Way, wait_until};

/// One pass of everything that goes between clones.
fn round_trip(ada: &Member<'_>, bob: &Member<'_>) {
    let sid = ada.hammer(["create", "there", "2"]);
    ada.hammer(["comment", &sid, "from ada"]);
    ada.push().success();
    bob.fetch().success();
    assert_eq!(bob.names(), ["there"]);
    bob.hammer(["comment", &sid, "from bob"]);
    bob.push().success();
    ada.fetch().success();
    assert_eq!(ada.hammer(["comments", &sid]), "ada from ada\nbob from bob");
    ada.agent(["forget", "--remote", "there"]).success();
    bob.agent(["fetch", "--prune"]).success();
    assert!(bob.names().is_empty());
    ada.agent(["doctor", "--remote", "origin"]).success();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn point(member: &Member<'_>, url: &str) {
    member.git(["remote", "set-url", "origin", url]).success();
}

#[test]
fn the_git_daemon_carries_it() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let (ada, bob) = (team.clone("ada"), team.clone("bob"));
    let port = free_port();
    let server: Background = sandbox
        .command("git")
        .args([
            "daemon",
            "--reuseaddr",
            "--export-all",
            "--enable=receive-pack",
        ])
        .arg("--listen=127.0.0.1")
        .arg(format!("--port={port}"))
        .arg(format!(
            "--base-path={}",
            sandbox.work().join("srv").display()
        ))
        .spawn();
    wait_until("the daemon answers", || answers(port));
    let url = format!("git://127.0.0.1:{port}/hub.git");
    point(&ada, &url);
    point(&bob, &url);
    round_trip(&ada, &bob);
    drop(server);
    sandbox.kill_all();
}

#[test]
fn the_web_server_of_debian_carries_it() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let (ada, bob) = (team.clone("ada"), team.clone("bob"));
    match lighttpd(&sandbox) {
        Ok((url, _server)) => {
            point(&ada, &url);
            point(&bob, &url);
            round_trip(&ada, &bob);
        }
        // The small server of our own is tried by every other test.
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "no web server of Debian: {reason}");
        }
    }
    sandbox.kill_all();
}

/// What a person's key may do at the server, as gitolite has it: the two commands of git, below one directory.
fn restricted_shell(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.root().join("restricted");
    let environment: String = sandbox
        .environment()
        .iter()
        .map(|(name, value)| {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            format!("export {name}='{}'\n", value.replace('\'', "'\\''"))
        })
        .collect();
    let script = format!(
        "#!/bin/sh\n{environment}cd '{}' || exit 1\ncase $SSH_ORIGINAL_COMMAND in\n\
         \"git-upload-pack '/hub.git'\") exec git upload-pack hub.git;;\n\
         \"git-receive-pack '/hub.git'\") exec git receive-pack hub.git;;\n\
         *) echo \"not allowed: $SSH_ORIGINAL_COMMAND\" >&2; exit 1;;\nesac\n",
        sandbox.work().join("srv").display()
    );
    write_program(&path, &script);
    path
}

/// A server that runs, the command that reaches it, and its files.
type Sshd = (Background, String, tempfile::TempDir);

/// Starts a real sshd on loopback and returns the command that reaches it, or why there is none.
fn sshd(sandbox: &Sandbox, shell: &std::path::Path) -> Result<Sshd, String> {
    let sshd = on_path("sshd")
        .next()
        .or_else(|| Some(PathBuf::from("/usr/sbin/sshd")).filter(|path| path.exists()))
        .ok_or("there is no sshd on this machine")?;
    let keygen = on_path("ssh-keygen")
        .next()
        .ok_or("there is no ssh-keygen")?;
    let ssh = on_path("ssh").next().ok_or("there is no ssh")?;
    // sshd takes no path with a blank in it in some of its settings.
    let files = tempfile::Builder::new()
        .prefix("git-agent-ssh")
        .tempdir_in("/tmp")
        .map_err(|error| error.to_string())?;
    let dir = files.path();
    for name in ["host", "user"] {
        sandbox
            .command(&keygen)
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(dir.join(name))
            .run()
            .success();
    }
    let key = fs::read_to_string(dir.join("user.pub")).map_err(|error| error.to_string())?;
    let link = dir.join("shell");
    std::os::unix::fs::symlink(shell, &link).map_err(|error| error.to_string())?;
    let keys = format!("restrict,command=\"{}\" {key}", link.display());
    fs::write(dir.join("keys"), keys).map_err(|error| error.to_string())?;
    fs::set_permissions(dir.join("keys"), fs::Permissions::from_mode(0o600))
        .map_err(|error| error.to_string())?;
    let port = free_port();
    let config = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/keys\n\
         PidFile {0}/pid\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n",
        dir.display()
    );
    fs::write(dir.join("config"), config).map_err(|error| error.to_string())?;
    let _ = fs::create_dir_all("/run/sshd");
    let mut server = sandbox
        .command(&sshd)
        .args(["-D", "-e", "-f"])
        .arg(dir.join("config"))
        .spawn();
    for _ in 0..100 {
        if !server.is_running() {
            return Err("sshd does not start here".to_owned());
        }
        if answers(port) {
            let command = format!(
                "{} -F /dev/null -p {port} -i {}/user -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
                ssh.display(),
                dir.display()
            );
            let tried = sandbox
                .sh(format!(
                    "{command} 127.0.0.1 \"git-upload-pack '/hub.git'\" </dev/null"
                ))
                .run()
                .whatever();
            if String::from_utf8_lossy(tried.stdout_bytes()).contains("refs/heads/main") {
                return Ok((server, command, files));
            }
            return Err(format!("sshd lets nobody in here: {}", tried.stderr()));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err("sshd does not answer".to_owned())
}

#[test]
fn ssh_carries_it_where_a_key_may_only_do_two_things() {
    let sandbox = Sandbox::new();
    let team = Team::new(&sandbox, Way::Path);
    let (ada, bob) = (team.clone("ada"), team.clone("bob"));
    let shell = restricted_shell(&sandbox);
    let started = sshd(&sandbox, &shell);
    let command = match &started {
        Ok((_, command, _)) => command.clone(),
        Err(reason) => {
            // The nearest thing: the same restriction behind a stand-in for ssh.
            let _ = writeln!(std::io::stderr(), "no sshd: {reason}");
            let stand_in = sandbox.program(
                "stand-in-ssh",
                &format!(
                    "#!/bin/sh\nfor SSH_ORIGINAL_COMMAND; do :; done\nexport SSH_ORIGINAL_COMMAND\nexec '{}'\n",
                    shell.display()
                ),
            );
            format!("'{}'", stand_in.display())
        }
    };
    for member in [&ada, &bob] {
        member
            .git(["config", "core.sshCommand", &command])
            .success();
        member.git(["config", "ssh.variant", "ssh"]).success();
        let user = sandbox.command("id").arg("-un").run().success();
        point(member, &format!("ssh://{}@127.0.0.1/hub.git", user.line()));
    }
    round_trip(&ada, &bob);
    drop(started);
    sandbox.kill_all();
}

/// Returns a place with the machine's `ssh-keygen` in it, or says that there is none.
fn with_keys() -> Option<Sandbox> {
    let Some(keygen) = on_path("ssh-keygen").next() else {
        let _ = writeln!(std::io::stderr(), "no ssh-keygen: signatures are not tried");
        return None;
    };
    let sandbox = Sandbox::new();
    sandbox.program(
        "ssh-keygen",
        &format!("#!/bin/sh\nexec '{}' \"$@\"\n", keygen.display()),
    );
    Some(sandbox)
}

/// Runs a test once for each way, each in a world of its own where signatures can be made.
pub fn each_way_with_keys(test: impl Fn(&Sandbox, &Team<'_>)) {
    for way in Way::BOTH {
        let Some(sandbox) = with_keys() else {
            return;
        };
        let team = Team::new(&sandbox, way);
        test(&sandbox, &team);
    }
}

#[test]
fn signed_sessions_are_verified_and_forged_ones_only_claimed() {
    each_way_with_keys(|_sandbox, team| {
        let (ada, bob, eve) = (team.clone("ada"), team.clone("bob"), team.clone("eve"));
        let mut allowed = String::new();
        for member in [&ada, &eve] {
            let key = member.repo.path().join(".git/key");
            let make = member
                .command("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            make.arg(&key).run().success();
            member.git(["config", "gpg.format", "ssh"]).success();
            member
                .command("git")
                .args(["config", "user.signingKey"])
                .arg(&key)
                .run()
                .success();
            member.git(["config", "agent.sign", "true"]).success();
            let public = fs::read_to_string(key.with_extension("pub")).expect("a key");
            let who = if std::ptr::eq(member, &ada) {
                "ada"
            } else {
                "eve"
            };
            allowed += &format!("{who}@example.com {public}");
        }
        let signers = bob.repo.path().join(".git/signers");
        fs::write(&signers, allowed).expect("writable");
        bob.command("git")
            .args(["config", "gpg.ssh.allowedSignersFile"])
            .arg(&signers)
            .run()
            .success();
        ada.session("signed", "sign it", "echo hello");
        ada.push().success();
        let came = bob.fetch().success();
        assert!(
            came.stdout().contains("(verified: ada@example.com)"),
            "{came}"
        );
        let shown = bob.agent(["show", "signed"]).success();
        assert!(
            shown.stdout().contains("(verified: ada@example.com)"),
            "{shown}"
        );
        let again = ada.agent(["push", "--json"]).success().json();
        assert_eq!(again["refs"].as_array().map(Vec::len), Some(0), "{again}");
        ada.repo.assert_user_can_work();
        // Eve signs with her own key what she says is ada's.
        let forged = eve
            .command("git")
            .args([
                "agent",
                "new",
                "--name",
                "forged",
                "not mine",
                "--",
                "echo trust me",
            ])
            .env("GIT_AUTHOR_EMAIL", "ada@example.com")
            .env("GIT_COMMITTER_EMAIL", "ada@example.com");
        forged.run().success();
        eve.agent(["wait", "--timeout", "120s", "forged"]).success();
        wait_until("the supervisor has ended", || {
            let listed = eve.agent(["list", "--json", "forged"]).success().json();
            listed["sessions"][0]["pid"].is_null()
        });
        eve.push().success();
        let came = bob.fetch().success();
        assert!(
            came.stdout()
                .contains("(claimed, but signed by eve@example.com)"),
            "{came}"
        );
        // A signature that does not fit is refused.
        let name = team
            .hub
            .refs("refs/agents/sessions")
            .into_keys()
            .find(|name| {
                let state = team
                    .hub
                    .git(["cat-file", "-p", &format!("{name}:state.json")]);
                state.success().json()["name"] == "signed"
            })
            .expect("it is there");
        let tip = team.hub.git(["cat-file", "commit", &name]).success();
        let bent = tip.stdout().replace("Signed\n", "Bent!!\n");
        assert_ne!(bent, tip.stdout());
        let bent = team
            .hub
            .command("git")
            .args(["hash-object", "-t", "commit", "-w", "--stdin"])
            .stdin(bent)
            .run()
            .success();
        team.hub.git(["update-ref", &name, bent.line()]).success();
        bob.fetch().code(1).assert_says("its signature is wrong");
    });
}

#[test]
fn the_recipe_lets_only_a_writers_owner_change_its_refs() {
    let recipe = workspace().join("tests/recipes/pre-receive");
    let recipe = fs::read_to_string(recipe).expect("the recipe is there");
    let page = fs::read_to_string(workspace().join("man/man1/git-agent.1")).expect("the page");
    let shown = page
        .replace("\\-", "-")
        .replace("\\(aq", "'")
        .replace("\\e", "\\")
        .replace("\\&", "");
    assert!(
        shown.contains(recipe.trim_end()),
        "the page shows another recipe"
    );
    each_way(|_, team| {
        let hook = team.hub.path().join("hooks/pre-receive");
        fs::create_dir_all(hook.parent().expect("a directory")).expect("writable");
        write_program(&hook, &recipe);
        let (ada, eve) = (team.clone("ada"), team.clone("eve"));
        let run = |member: &Member<'_>, who: &str, words: &[&str]| {
            // By path it is the environment, and on the web the server that tells who pushes.
            let command = member.command("git").env("REMOTE_USER", who);
            let user = format!("http.extraHeader=X-Remote-User: {who}");
            command.args(["-c", &user]).args(words).run().whatever()
        };
        let sid = ada.hammer(["create", "hers", "2"]);
        ada.hammer(["comment", &sid, "mine"]);
        assert!(
            run(&ada, "ada", &["agent", "push", "--yes"])
                .status()
                .success()
        );
        ada.hammer(["append", &sid, "1", "more"]);
        assert!(run(&ada, "ada", &["agent", "push"]).status().success());
        let before = team.hub.refs("refs/agents");
        assert_eq!(before.len(), 2);
        // Eve can write what is hers, and nothing else.
        let own = eve.hammer(["create", "eves", "1"]);
        assert!(
            run(&eve, "eve", &["agent", "push", "--yes"])
                .status()
                .success()
        );
        for name in before.keys() {
            let theft = format!("+refs/heads/main:{name}");
            let stolen = run(&eve, "eve", &["push", "origin", &theft]);
            assert!(!stolen.status().success(), "{stolen}");
            let deleted = run(&eve, "eve", &["push", "origin", &format!(":{name}")]);
            deleted.assert_says("not to eve");
            assert!(!deleted.status().success(), "{deleted}");
        }
        let after = team.hub.refs("refs/agents");
        for (name, id) in &before {
            assert_eq!(after.get(name), Some(id));
        }
        assert!(after.keys().any(|name| name.ends_with(&own)));
        // Branches are nobody's business here.
        assert!(
            run(&eve, "eve", &["push", "origin", "main:refs/heads/hers"])
                .status()
                .success()
        );
    });
}
