//! `git agent doctor`: every kind of damage made by hand, shown, repaired; the user's own git works afterwards, and what
//! belongs to others is as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git_agent_tests::{RefFormat, Repo, Run, Sandbox, wait_until};

/// Refs of other programs below the same prefix.
const FOREIGN: [&str; 2] = [
    "refs/agents/abc/checkpoints/turn/0",
    "refs/agents/sessions/x/y/z",
];

fn hammer(repo: &Repo<'_>, words: &[&str]) -> String {
    let run = repo.command("store-hammer").args(words).run().success();
    run.stdout().trim().to_owned()
}

/// A repository with two sessions of ours and refs of others.
struct Patient<'a> {
    repo: Repo<'a>,
    sid: String,
    other: String,
    foreign: Vec<(String, String)>,
}

impl<'a> Patient<'a> {
    fn new(sandbox: &'a Sandbox, refs: RefFormat) -> Self {
        let repo = sandbox.repo(refs.name()).refs(refs).create();
        for name in FOREIGN {
            repo.git(["update-ref", name, "HEAD"]).success();
        }
        let sid = hammer(&repo, &["create", "patient", "5"]);
        let other = hammer(&repo, &["create", "healthy", "5"]);
        hammer(&repo, &["append", &sid, "3", "later"]);
        let mut patient = Patient {
            repo,
            sid,
            other,
            foreign: Vec::new(),
        };
        patient.foreign = patient.foreign_refs();
        patient.examine(&[]).success();
        patient
    }

    fn foreign_refs(&self) -> Vec<(String, String)> {
        let refs = self.repo.refs("refs");
        let foreign = refs.into_iter().filter(|(name, _)| {
            FOREIGN.contains(&name.as_str()) || name.starts_with("refs/heads/keep")
        });
        foreign.collect()
    }

    fn ref_name(&self, sid: &str) -> String {
        let output = self
            .repo
            .git(["for-each-ref", "--format=%(refname)"])
            .whatever();
        let found = output
            .stdout()
            .lines()
            .find(|name| name.starts_with("refs/agents/sessions/") && name.ends_with(sid));
        found.expect("the session has a ref").to_owned()
    }

    fn examine(&self, more: &[&str]) -> Run {
        self.repo.agent_cmd(["doctor", "--json"]).args(more).run()
    }

    /// Returns the findings of one check, each as what and where.
    fn findings(&self, check: &str) -> Vec<String> {
        let json = self.examine(&[]).code(1).json();
        let list = json["findings"].as_array().expect("a list").clone();
        list.iter()
            .filter(|one| one["check"] == check)
            .map(|one| format!("{} {}", one["where"], one["what"]))
            .collect()
    }

    /// Asserts that the damage is shown, that `--fix` repairs all of it, and that everybody can go on.
    #[track_caller]
    fn cure(&self, check: &str, words: &str) {
        let shown = self.findings(check);
        assert!(
            shown.iter().any(|one| one.contains(words)),
            "'{words}' is not in {shown:?}"
        );
        let fixed = self.examine(&["--fix"]).whatever();
        assert!(fixed.status().success(), "not all was repaired:\n{fixed}");
        self.examine(&[]).success();
        self.repo.assert_user_can_work();
        assert_eq!(
            self.foreign_refs(),
            self.foreign,
            "what belongs to others changed"
        );
        assert_eq!(
            hammer(&self.repo, &["events", &self.other]).lines().count(),
            6
        );
    }

    fn lost(&self) -> Vec<String> {
        let dir = self.repo.common_dir().join("agents/lost");
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }
}

fn make_old(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(2 * 60 * 60);
    let file = fs::File::options()
        .write(true)
        .open(path)
        .expect("the file opens");
    file.set_modified(then).expect("its time can be set");
}

fn loose(repo: &Repo<'_>, id: &str) -> PathBuf {
    repo.common_dir()
        .join("objects")
        .join(&id[..2])
        .join(&id[2..])
}

/// Replaces an object's file, which is read-only.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("the object is loose");
    fs::write(path, bytes).expect("writes");
}

#[test]
fn a_healthy_repository_has_no_findings() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let patient = Patient::new(&sandbox, *refs);
        let report = patient.examine(&[]).success().json();
        assert_eq!(report["version"], 1);
        assert_eq!(
            report["findings"].as_array().map(Vec::len),
            Some(0),
            "{report}"
        );
        let level = |at: usize| report["guard"][at]["level"].as_str();
        assert_eq!([0, 1, 2].map(level), ["off", "refs", "cell"].map(Some));
        patient
            .repo
            .agent(["doctor"])
            .success()
            .assert_says("no problems found");
    }
}

#[test]
fn a_stale_lock_of_ours_goes_and_foreign_ones_stay() {
    let sandbox = Sandbox::new();
    let patient = Patient::new(&sandbox, RefFormat::Files);
    let common = patient.repo.common_dir();
    let name = patient.ref_name(&patient.sid);
    let ours = common.join(format!("{name}.lock"));
    fs::write(&ours, "").expect("writes");
    patient.examine(&[]).success();
    make_old(&ours);
    patient.cure("locks", "from a dead process");
    assert!(!ours.exists());

    // Held open by somebody: left alone. Packing may have taken the directory.
    fs::create_dir_all(ours.parent().expect("a directory")).expect("directories");
    fs::write(&ours, "").expect("writes");
    make_old(&ours);
    let holder = fs::File::open(&ours).expect("opens");
    patient.examine(&["--fix"]).code(1);
    assert!(ours.exists());
    drop(holder);
    patient.examine(&["--fix"]).success();

    for foreign in [
        "refs/agents/abc/checkpoints/turn/0.lock",
        "packed-refs.lock",
    ] {
        let path = common.join(foreign);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(&path, "").expect("writes");
        make_old(&path);
        let shown = patient.findings("locks");
        assert!(shown[0].contains("of another program"), "{shown:?}");
        patient.examine(&["--fix"]).code(1);
        assert!(path.exists(), "{foreign} was touched");
        fs::remove_file(&path).expect("removes");
    }
}

#[test]
fn a_lock_of_reftable_is_reported_and_left() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available()
        .iter()
        .filter(|refs| **refs == RefFormat::Reftable)
    {
        let patient = Patient::new(&sandbox, *refs);
        let path = patient.repo.common_dir().join("reftable/tables.list.lock");
        fs::write(&path, "").expect("writes");
        make_old(&path);
        assert!(patient.findings("locks")[0].contains("tables.list.lock"));
        patient.examine(&["--fix"]).code(1);
        assert!(path.exists());
    }
}

#[test]
fn a_ref_that_holds_nonsense_or_nothing_goes_aside() {
    let sandbox = Sandbox::new();
    for (content, words) in [
        ("", "the file is empty"),
        ("nonsense\n", "not an object id"),
    ] {
        let patient = Patient::new(&sandbox, RefFormat::Files);
        let name = patient.ref_name(&patient.sid);
        let before = hammer(&patient.repo, &["events", &patient.sid]);
        fs::write(patient.repo.common_dir().join(&name), content).expect("writes");
        patient.cure("refs", words);
        // The log itself was whole: it is found again.
        assert_eq!(hammer(&patient.repo, &["events", &patient.sid]), before);
        assert_eq!(patient.lost().len(), 1);
        fs::remove_dir_all(patient.repo.path()).expect("removes");
    }
}

#[test]
fn a_ref_to_a_missing_object_or_to_no_commit_goes_aside() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let patient = Patient::new(&sandbox, *refs);
        let name = patient.ref_name(&patient.sid);
        let tree = patient.repo.id("HEAD^{tree}");
        patient.repo.git(["update-ref", &name, &tree]).success();
        patient.cure("refs", "a tree, not at a commit");
        assert_eq!(
            hammer(&patient.repo, &["events", &patient.sid])
                .lines()
                .count(),
            9
        );
    }
    let patient = Patient::new(&sandbox, RefFormat::Files);
    let name = patient.ref_name(&patient.sid);
    let path = patient.repo.common_dir().join(&name);
    let digits = patient.repo.id("HEAD").len();
    fs::write(path, format!("{}\n", "1".repeat(digits))).expect("writes");
    patient.cure("refs", "does not exist");
}

#[test]
fn damaged_objects_take_a_session_back_to_what_is_whole() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        for (damage, words) in [
            (&b""[..], "events.jsonl"),
            (&b"x\x01torn"[..], "events.jsonl"),
        ] {
            let patient = Patient::new(&sandbox, *refs);
            let name = patient.ref_name(&patient.sid);
            let blob = patient.repo.id(&format!("{name}~1:{words}"));
            overwrite(&loose(&patient.repo, &blob), damage);
            patient.cure("objects", "contains a damaged object");
            // Before: created, five notices, three appends. The middle one of these is lost, the last is in a file.
            assert_eq!(
                hammer(&patient.repo, &["events", &patient.sid])
                    .lines()
                    .count(),
                7
            );
            assert!(
                patient
                    .lost()
                    .iter()
                    .any(|file| file.ends_with(".events.jsonl"))
            );
            fs::remove_dir_all(patient.repo.path()).expect("removes");
        }
    }
}

#[test]
fn an_empty_tip_is_replaced_by_the_commit_before_it() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let patient = Patient::new(&sandbox, *refs);
        let name = patient.ref_name(&patient.sid);
        let tip = patient.repo.id(&name);
        overwrite(&loose(&patient.repo, &tip), b"");
        let shown = patient.examine(&[]).code(1);
        assert!(shown.stdout().contains(&name), "{shown}");
        patient.cure("refs", "a broken ref");
        assert_eq!(
            hammer(&patient.repo, &["events", &patient.sid])
                .lines()
                .count(),
            8
        );
        assert!(!loose(&patient.repo, &tip).exists());
    }
}

#[test]
fn an_object_that_others_need_stays_where_it_is() {
    let sandbox = Sandbox::new();
    let patient = Patient::new(&sandbox, RefFormat::Files);
    let name = patient.ref_name(&patient.sid);
    patient
        .repo
        .git(["update-ref", "refs/heads/keep", &name])
        .success();
    let blob = patient.repo.id(&format!("{name}:events.jsonl"));
    let path = loose(&patient.repo, &blob);
    overwrite(&path, b"");
    patient.examine(&["--fix"]).code(1);
    assert!(path.exists(), "somebody else's branch leads to it");
    assert!(
        patient
            .repo
            .git(["rev-parse", "refs/heads/keep"])
            .success()
            .line()
            .len()
            >= 40
    );
}

#[test]
fn a_torn_spool_is_brought_into_git() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let patient = Patient::new(&sandbox, *refs);
        hammer(&patient.repo, &["spool", &patient.sid, "4", "spooled"]);
        let spool = patient
            .repo
            .common_dir()
            .join(format!("agents/spool/{}/events.jsonl", patient.sid));
        let mut bytes = fs::read(&spool).expect("a spool");
        bytes.extend_from_slice(b"deadbeef {\"damaged\":true}\n12345678 {\"torn");
        fs::write(&spool, &bytes).expect("writes");
        patient.cure(
            "spools",
            "4 events are not in git yet; 1 damaged lines, 15 bytes",
        );
        assert_eq!(
            hammer(&patient.repo, &["events", &patient.sid])
                .lines()
                .count(),
            13
        );
        assert!(patient.lost().iter().any(|file| file.contains("spool-")));
    }
}

#[test]
fn a_spool_without_a_ref_becomes_a_session_again() {
    let sandbox = Sandbox::new();
    let patient = Patient::new(&sandbox, RefFormat::Files);
    let sid = hammer(&patient.repo, &["create", "gone", "0"]);
    let name = patient.ref_name(&sid);
    let record = hammer(&patient.repo, &["events", &sid]);
    let dir = patient
        .repo
        .common_dir()
        .join(format!("agents/spool/{sid}"));
    fs::create_dir_all(&dir).expect("a directory");
    let line = format!("{:08x} {record}\n", crc32(record.as_bytes()));
    fs::write(dir.join("events.jsonl"), line).expect("writes");
    patient.repo.git(["update-ref", "-d", &name]).success();
    patient.cure("spools", "the session has no ref");
    assert_eq!(hammer(&patient.repo, &["events", &sid]), record);
}

/// The checksum of spool lines, spelt out so that the format is tested and not the code.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn leftovers_go_and_unknown_files_stay() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let patient = Patient::new(&sandbox, RefFormat::Files);
    let dir = patient.repo.common_dir().join("agents");
    let left = dir.join("tmp/ref-1-2");
    fs::create_dir_all(dir.join("tmp")).expect("a directory");
    fs::write(&left, "").expect("writes");
    make_old(&left);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(dir.join("somebody's file"), "keep").expect("writes");
    // A process that was killed while it replaced a file; no process has the largest pid.
    let inbox = dir.join("inbox/one");
    fs::create_dir_all(&inbox).expect("a directory");
    let dead = [
        dir.join(".writer.4194304-9f"),
        inbox.join(".m.json.4194304-9f"),
    ];
    let kept = [
        dir.join(format!(".writer.{}-9f", std::process::id())),
        dir.join(".note.4194304"),
    ];
    for path in dead.iter().chain(&kept) {
        fs::write(path, "half").expect("writes");
        make_old(path);
    }
    assert!(patient.findings("directories")[0].contains("0755"));
    patient.cure("files", "left over by a dead process");
    assert!(!left.exists());
    assert!(dead.iter().all(|path| !path.exists()));
    assert!(kept.iter().all(|path| path.exists()));
    assert_eq!(
        fs::read(dir.join("somebody's file")).expect("still there"),
        b"keep"
    );
    let mode = fs::metadata(&dir)
        .expect("a directory")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_worktree_removed_by_hand_and_a_killed_supervisor_are_put_right() {
    let sandbox = Sandbox::new();
    for refs in RefFormat::available() {
        let patient = Patient::new(&sandbox, *refs);
        let repo = &patient.repo;
        let made = repo
            .agent(["new", "sleeper", "--json", "--", "sleep", "600"])
            .success()
            .json();
        let worktree = made["sessions"][0]["worktree"]
            .as_str()
            .expect("a path")
            .to_owned();
        let row =
            || repo.agent(["list", "--json", "sleeper"]).success().json()["sessions"][0].clone();
        wait_until("the agent runs", || row()["state"] == "running");
        let sid = made["sessions"][0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let run =
            fs::read(repo.common_dir().join(format!("agents/run/{sid}.json"))).expect("a run file");
        let run: serde_json::Value = serde_json::from_slice(&run).expect("JSON");
        let pid = run["supervisor"]["pid"].to_string();
        repo.command("kill").args(["-KILL", &pid]).run().success();
        wait_until("the supervisor is dead", || {
            !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
        });
        fs::remove_dir_all(&worktree).expect("removes");
        assert!(patient.findings("worktrees")[0].contains("is gone"));
        patient.cure("sessions", "its supervisor is dead");
        assert_eq!(row()["state"], "interrupted");
        assert!(
            !repo
                .git(["worktree", "list"])
                .success()
                .stdout()
                .contains("sleeper")
        );
    }
}

/// Makes a repository with one session that has ended a turn.
pub fn with_session<'a>(sandbox: &'a Sandbox) -> Repo<'a> {
    let repo = sandbox.repo("r").create();
    repo.new_session("m", &[], &["write m.txt m", "commit work"]);
    repo.await_state("m", "ready");
    repo
}

/// Returns what is found, in words, with an option.
pub fn told(repo: &Repo<'_>, options: &[&str]) -> Vec<String> {
    let run = repo.agent_cmd(["doctor", "--json"]).args(options).run();
    let report = run.whatever().json();
    let findings = report["findings"].as_array().expect("a list").clone();
    let what = |one: &serde_json::Value| one["what"].as_str().expect("words").to_owned();
    findings.iter().map(what).collect()
}

#[test]
fn a_merge_that_did_not_end_is_named() {
    let sandbox = Sandbox::new();
    let repo = with_session(&sandbox);
    let dir = repo.common_dir().join("agents/merge");
    fs::create_dir_all(&dir).expect("ours");
    fs::write(dir.join("now.json"), "{\"v\":1}").expect("ours");
    let found = told(&repo, &[]);
    assert!(found[0].contains("git agent merge --abort"), "{found:?}");
    assert!(dir.join("now.json").exists(), "only named");
}

#[test]
fn a_key_that_is_none_is_put_aside() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    hammer(&repo, &["create", "one", "2"]);
    let key = repo.path().join(".git/agents/key");
    fs::write(&key, "").expect("writable");
    let examined = repo.agent(["doctor"]).code(1);
    assert!(
        examined.to_string().contains("does not contain a key"),
        "{examined}"
    );
    repo.agent(["doctor", "--fix"]).success();
    repo.agent(["doctor"]).success();
    hammer(&repo, &["create", "two", "2"]);
    assert_eq!(fs::read(&key).expect("a new one").len(), 64);
    let listed = repo.agent(["list", "--json"]).success().json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2));
}
