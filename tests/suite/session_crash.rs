//! Sessions whose supervisor, agent or machine dies: what is shown is true, nothing shown is lost, and work goes on in the
//! same conversation.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use git_agent_tests::faults::{Action, Plan};
use git_agent_tests::sessions::rounds;
use git_agent_tests::{Repo, Sandbox, wait_until};
use rustix::process::{Pid, Signal};

/// Draws numbers that are different each time and repeat with the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself just now.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

fn seen(repo: &Repo<'_>, name: &str) -> BTreeSet<String> {
    repo.events(name)
        .iter()
        .map(|event| event["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// Returns the agent's own conversations that a session told of.
fn conversations(repo: &Repo<'_>, name: &str) -> BTreeSet<String> {
    repo.events(name)
        .iter()
        .filter(|event| event["type"] == "vendor")
        .filter_map(|event| event["session"].as_str().map(str::to_owned))
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Supervisor,
    Agent,
    Both,
}

/// Kills parts of a session, and returns whether its supervisor was among them.
fn strike(sandbox: &Sandbox, victim: Victim, agent: &str) -> bool {
    let mut hit = false;
    let mut struck = Vec::new();
    for survivor in sandbox.survivors() {
        let supervises = survivor.command.contains("__supervise");
        let is_agent = survivor.command.contains(agent) && !supervises;
        let chosen = match victim {
            Victim::Supervisor => supervises,
            Victim::Agent => is_agent,
            Victim::Both => supervises || is_agent,
        };
        if chosen {
            kill(survivor.pid);
            struck.push(survivor.pid);
            hit |= supervises;
        }
    }
    // A signal is only a wish: the kernel takes its time on a busy machine.
    wait_until("those struck are dead", || {
        let left = sandbox.survivors();
        !left.iter().any(|one| struck.contains(&one.pid))
    });
    hit
}

/// Strikes at random moments; `check` judges a session that was restarted and has ended.
fn survive(agent: &str, start: &dyn Fn(&Repo<'_>, &str), check: &dyn Fn(&Repo<'_>, &str)) {
    let seed = u64::from(std::process::id()) | 1;
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let note = format!("seed {seed}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
    let mut slowest = Duration::ZERO;
    let mut hits = 0;
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    for round in 0..rounds(6) {
        let name = format!("s{round}");
        let victim = [Victim::Supervisor, Victim::Agent, Victim::Both][round % 3];
        start(&repo, &name);
        std::thread::sleep(Duration::from_millis(dice.below(600)));
        let before = seen(&repo, &name);
        let hit = strike(&sandbox, victim, agent);
        hits += usize::from(hit);
        let struck = Instant::now();
        // A supervisor whose agent was killed needs a moment to say so.
        if hit {
            wait_until("the state is told", || repo.state(&name) != "running");
        }
        let told = repo.state(&name);
        if hit {
            // Nothing but the turn's end can have come in between.
            assert!(
                ["interrupted", "ready", "failed"].contains(&told.as_str()),
                "round {round}, {victim:?}: {told}"
            );
            if told == "interrupted" {
                slowest = slowest.max(struck.elapsed());
            }
        } else {
            wait_until("the state settles", || {
                ["interrupted", "ready", "failed"].contains(&repo.state(&name).as_str())
            });
        }
        let after = seen(&repo, &name);
        let conversation = conversations(&repo, &name);
        let lost: Vec<_> = before.difference(&after).collect();
        assert!(lost.is_empty(), "round {round}, {victim:?}: lost {lost:?}");
        let turns = repo.session(&name)["turns"].as_u64().unwrap_or(0);
        repo.agent(["restart", &name]).success();
        wait_until("the restarted turn is done", || {
            let session = repo.session(&name);
            let more = session["turns"].as_u64().unwrap_or(0) > turns;
            more && ["ready", "failed", "interrupted"]
                .iter()
                .any(|state| session["state"] == *state)
        });
        assert_eq!(
            repo.state(&name),
            "ready",
            "round {round}, {victim:?}: {:#?}",
            repo.events(&name)
        );
        let kept = seen(&repo, &name);
        assert!(after.is_subset(&kept), "round {round}, {victim:?}");
        if !conversation.is_empty() {
            let now = conversations(&repo, &name);
            assert_eq!(now, conversation, "round {round}, {victim:?}");
        }
        check(&repo, &name);
        wait_until("nobody is left", || sandbox.survivors().is_empty());
        if round % 10 == 0 {
            repo.assert_whole();
        }
    }
    repo.assert_nothing_left_over();
    assert!(slowest < Duration::from_secs(20), "told after {slowest:?}");
    assert!(hits > 0, "no strike hit a supervisor; seed {seed}");
    let note = format!("told within {slowest:?} of the strike\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
}

#[test]
fn a_killed_command_goes_on() {
    survive(
        "fake-agent",
        &|repo, name| {
            let steps: Vec<String> = (0..20)
                .flat_map(|line| [format!("print line {line}"), "sleep 20".to_owned()])
                .chain(["write out.txt hello".to_owned()])
                .collect();
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            repo.new_session(name, &[], &steps);
        },
        &|repo, name| {
            assert_eq!(repo.worktree_of(name).read("out.txt"), b"hello\n");
        },
    );
}

#[test]
fn a_killed_conversation_goes_on() {
    survive(
        "fake-acp",
        &|repo, name| {
            let store = repo.sandbox().root().join("conversations");
            std::fs::create_dir_all(&store).expect("the sandbox is writable");
            let command = format!("fake-acp --store '{}'", store.display());
            repo.git(["config", "agent.fake.command", &command])
                .success();
            repo.git(["config", "agent.fake.driver", "acp"]).success();
            repo.agent([
                "new",
                "--name",
                name,
                "--agent",
                "fake",
                "stream 20 20 word\nwrite out.txt hello",
            ])
            .success();
        },
        &|repo, name| {
            // What an agent says comes in pieces.
            let said = repo
                .events(name)
                .iter()
                .filter_map(|event| event["text"].as_str())
                .collect::<String>();
            assert!(said.contains("Done. turn="), "{said}");
        },
    );
}

/// A process of somebody else's, ended with the test.
struct Stranger(std::process::Child);

impl Stranger {
    fn new() -> Self {
        let child = std::process::Command::new("sleep").arg("300").spawn();
        Stranger(child.expect("sleep starts"))
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().expect("ours").is_none()
    }

    fn start_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("alive");
        let fields = stat.rsplit_once(") ").expect("a name").1;
        fields
            .split(' ')
            .nth(19)
            .and_then(|text| text.parse().ok())
            .expect("a time")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn after_a_reboot_no_stranger_is_signalled() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let mut stranger = Stranger::new();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let start = stranger.start_time();
    let pid = stranger.0.id();
    // The pid alone, with the start time too from another boot, and with a start time of this boot that is not its.
    for (round, (start_time, boot_id, later)) in [
        (1, boot.trim(), "after-the-reboot"),
        (start, boot.trim(), "after-the-reboot"),
        (start + 1, boot.trim(), boot.trim()),
    ]
    .into_iter()
    .enumerate()
    {
        for verb in ["list", "stop", "restart", "resume", "clean", "doctor"] {
            let name = format!("{verb}-{round}");
            repo.new_session(&name, &[], &["print on", "write x.txt x", "until go-on"]);
            repo.await_state(&name, "running");
            wait_until("it writes", || {
                repo.worktree_of(&name).path().join("x.txt").exists()
            });
            let sid = repo.session(&name)["id"]
                .as_str()
                .expect("an id")
                .to_owned();
            strike(&sandbox, Victim::Both, "fake-agent");
            wait_until("all are dead", || sandbox.survivors().is_empty());
            let id = serde_json::json!({"pid": pid, "start_time": start_time, "boot_id": boot_id});
            let run = serde_json::json!({"supervisor": id, "agent": id});
            let file = repo
                .common_dir()
                .join("agents/run")
                .join(format!("{sid}.json"));
            std::fs::write(&file, run.to_string()).expect("the sandbox is writable");
            let lock = file.with_extension("lock");
            std::fs::write(&lock, format!("{id}\n")).expect("the sandbox is writable");
            let mut args = vec![verb];
            if !["list", "doctor"].contains(&verb) {
                args.push(&name);
            }
            if ["restart", "resume"].contains(&verb) {
                // It must be able to end.
                repo.worktree_of(&name).write("go-on", "");
            }
            repo.agent_cmd(&args)
                .env("GIT_AGENT_TEST_BOOT_ID", later)
                .run()
                .whatever();
            assert!(stranger.lives(), "{verb} ended a stranger");
            if ["restart", "resume"].contains(&verb) {
                repo.await_state(&name, "ready");
            } else {
                let told = repo.state(&name);
                assert!(
                    ["interrupted", "stopped"].contains(&told.as_str()),
                    "{verb}: {told}"
                );
            }
            assert!(stranger.lives(), "{verb} ended a stranger");
        }
    }
}

#[test]
fn a_making_that_was_killed_goes_on_by_restart() {
    for place in [
        "worktree.registered",
        "worktree.filled",
        "flush.done",
        "ref.renamed",
    ] {
        for nth in 1..=3 {
            let sandbox = Sandbox::new();
            let repo = sandbox.repo("r").create();
            let plan = Plan::meet(format!("{place}#{nth}"), Action::Kill);
            // It says something, as it may be started again when there is nothing left to write.
            let steps = ["write x.txt x", "print done"];
            let command = repo.agent_cmd(["new", "cut", "--", "fake-agent", steps[0], steps[1]]);
            // The supervisor follows the plan too, so it may be the one that dies.
            plan.apply(command).run().whatever();
            wait_until("it has ended or died", || {
                let sessions = repo.sessions();
                let over = |state: &str| sessions.iter().any(|one| one["state"] == state);
                sessions.is_empty() || over("ready") || over("interrupted") || over("failed")
            });
            wait_until("nobody is left", || sandbox.survivors().is_empty());
            let sessions = repo.sessions();
            if sessions.is_empty() {
                // It died before there was anything: then a second try has nothing in its way.
                repo.new_session("cut", &[], &steps);
            } else if repo.state("cut") != "ready" {
                assert_eq!(repo.state("cut"), "interrupted", "{place}#{nth}");
                repo.agent(["restart", "cut"]).success();
            }
            repo.await_state("cut", "ready");
            assert_eq!(repo.worktree_of("cut").read("x.txt"), b"x\n");
            let note = format!(
                "agents/run/{}.json",
                repo.session("cut")["id"].as_str().expect("an id")
            );
            wait_until("its supervisor is gone", || sandbox.survivors().is_empty());
            if repo.common_dir().join(note).exists() {
                // Killed after its last word was in git: nothing is missing, and the next one takes the note away.
                repo.agent(["send", "cut", "again"]).success();
                wait_until("it has gone on", || {
                    let session = repo.session("cut");
                    let over = session["state"] == "ready" || session["state"] == "failed";
                    session["turns"] == 2 && over
                });
            }
            repo.assert_nothing_left_over();
        }
    }
}

#[test]
fn one_that_finds_its_work_done_after_a_restart_has_done_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let script = "test -e out && exit; echo x >out; while :; do sleep 1; done";
    for (name, victim) in [("orphaned", Victim::Supervisor), ("killed", Victim::Agent)] {
        repo.agent(["new", name, "--", script]).success();
        let out = repo.worktree_of(name).path().join("out");
        wait_until("it has worked", || out.exists());
        strike(&sandbox, victim, "while :");
        let state = match victim {
            Victim::Agent => "failed",
            _ => "interrupted",
        };
        repo.await_state(name, state);
        repo.agent(["restart", name]).success();
        repo.await_state(name, "ready");
        // Asked for something else it has to do something.
        repo.agent(["send", name, "more"]).success();
        repo.await_state(name, "failed");
    }
    repo.assert_nothing_left_over();
}
