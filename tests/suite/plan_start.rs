//! Plans: parts start in order, each from a commit that contains what it depends on, and land together.

use git_agent_tests::{Repo, Sandbox, wait_until};
use serde_json::{Value, json};

/// The map of dependencies that the documents of other agent managers show.
const DEPENDENCIES: &str = r#"{"dependencies": {"api": ["database"], "frontend": ["api"],
    "testing": ["database", "api", "frontend"]}}"#;

/// Gives a role an agent that is a shell script.
fn role(repo: &Repo<'_>, name: &str, script: &str) {
    let path = repo.sandbox().root().join(format!("{name}.sh"));
    std::fs::write(&path, script).expect("the sandbox is writable");
    let command = format!("sh '{}'", path.display());
    let set = |key: String, value: &str| {
        repo.git(["config", &key, value]).success();
    };
    set(format!("agent.{name}-agent.command"), &command);
    set(format!("agent-role.{name}.agent"), &format!("{name}-agent"));
    set(
        format!("agent-role.{name}.description"),
        &format!("the {name} share"),
    );
}

/// Writes a plan beside the repository.
fn plan(repo: &Repo<'_>, text: &str) -> String {
    let path = repo.sandbox().root().join("plan.json");
    std::fs::write(&path, text).expect("the sandbox is writable");
    path.to_str().expect("a plain path").to_owned()
}

fn group(repo: &Repo<'_>, name: &str) -> Value {
    repo.agent(["status", name, "--json"]).success().json()["groups"][0].clone()
}

/// Returns state and reason of a part.
fn part(repo: &Repo<'_>, group_name: &str, name: &str) -> (String, String) {
    let view = group(repo, group_name);
    let rows = view["sessions"].as_array().expect("rows").clone();
    let row = rows
        .into_iter()
        .find(|row| row["part"] == name)
        .expect("the part");
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("why"))
}

/// Asserts that the recorded base of every session contains what it depends on, by plain git.
fn assert_bases(repo: &Repo<'_>, names: &[&str]) {
    for name in names {
        let shown = repo.agent(["show", name, "--json"]).success().json();
        let session = &shown["sessions"][0];
        let Some(contained) = session["based_on"]["sessions"].as_array() else {
            continue;
        };
        let base = session["based_on"]["commit"].as_str().expect("a commit");
        for one in contained {
            let tip = one["tip"].as_str().expect("a tip");
            repo.git(["merge-base", "--is-ancestor", tip, base])
                .success();
        }
    }
}

#[test]
fn a_feature_in_four_parts_goes_from_plan_to_main() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let gate = |name: &str| sandbox.root().join(name);
    let wait_for = |name: &str| {
        let path = gate(name);
        format!("until test -e '{}'; do sleep 0.05; done\n", path.display())
    };
    role(
        &repo,
        "database",
        &format!(
            "{}mkdir db && echo 'create table users' >db/schema.sql\n\
             echo '{{\"users\": 1}}' >schema.json\n\
             git agent artifact put schema.json && rm schema.json\n",
            wait_for("one")
        ),
    );
    role(
        &repo,
        "api",
        &format!(
            "{}test -f db/schema.sql || exit 7\nmkdir api\n\
             cp \"$GIT_AGENT_ARTIFACTS/database/schema.json\" api/\n",
            wait_for("two")
        ),
    );
    role(
        &repo,
        "frontend",
        "test -f api/schema.json || exit 7\nmkdir ui && echo page >ui/page\n",
    );
    role(
        &repo,
        "testing",
        "test -f db/schema.sql && test -f ui/page || exit 7\nmkdir t && echo ok >t/all\n",
    );
    repo.git(["config", "agent.test", "test -f db/schema.sql"])
        .success();
    let file = plan(&repo, DEPENDENCIES);
    let task = "Build a user profile feature with avatar upload";
    repo.agent(["start", task, "--plan", &file])
        .code(129)
        .assert_says("--yes");
    let shown = repo
        .agent(["start", task, "--plan", &file, "--dry-run", "--json"])
        .success()
        .json();
    assert_eq!(
        shown["plans"][0]["waves"],
        json!([["database"], ["api"], ["frontend"], ["testing"]])
    );
    assert!(repo.sessions().is_empty(), "nothing was created");
    let started = repo
        .agent(["start", task, "--plan", &file, "--yes", "--json"])
        .success()
        .json();
    let name = started["sessions"][0]["group"]
        .as_str()
        .expect("a group")
        .to_owned();

    repo.await_state("database", "running");
    assert_eq!(
        part(&repo, &name, "api"),
        ("queued".into(), "waits for database (running)".into())
    );
    std::fs::write(gate("one"), "").expect("the sandbox is writable");
    repo.await_state("api", "running");
    assert_eq!(part(&repo, &name, "database").0, "ready");
    let (state, why) = part(&repo, &name, "testing");
    assert_eq!(state, "queued");
    assert!(
        why.contains("api (running)") && why.contains("frontend (queued)"),
        "{why}"
    );
    std::fs::write(gate("two"), "").expect("the sandbox is writable");
    repo.agent(["wait", "--group", &name, "--timeout", "100s"])
        .success();
    let parts = ["database", "api", "frontend", "testing"];
    for one in parts {
        assert_eq!(part(&repo, &name, one).0, "ready");
    }
    assert_bases(&repo, &parts);
    let status = repo.agent(["status", &name]).success();
    assert!(status.stdout().contains("Recent activity:"), "{status}");

    let review = repo
        .agent(["review", "--group", &name, "--json"])
        .success()
        .json();
    let rows = review["sessions"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["changes"]["files"], 1, "only its own work: {row}");
    }
    repo.agent(["merge", "--group", &name, "--approve", "--yes"])
        .success();
    for (path, text) in [
        ("db/schema.sql", "create table users\n"),
        ("api/schema.json", "{\"users\": 1}\n"),
        ("ui/page", "page\n"),
        ("t/all", "ok\n"),
    ] {
        let found = repo.git(["show", &format!("main:{path}")]).success();
        assert_eq!(found.stdout(), text);
    }
    for one in parts {
        assert_eq!(repo.state(one), "merged");
    }
    repo.agent(["clean", "--group", &name]).success();
    let branches = repo.refs("refs/heads");
    assert_eq!(
        branches.into_keys().collect::<Vec<_>>(),
        ["refs/heads/main"]
    );
    repo.assert_nothing_left_over();
}

#[test]
fn a_conflict_blocks_a_part_before_its_agent_starts() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    role(&repo, "one", "echo one >same\n");
    role(&repo, "two", "echo two >same\n");
    role(&repo, "three", "echo three >other\n");
    let file = plan(
        &repo,
        r#"{"name": "g", "dependencies": {"three": ["one", "two"]}}"#,
    );
    repo.agent(["start", "x", "--plan", &file, "--yes"])
        .success();
    repo.await_state("three", "blocked");
    let (_, why) = part(&repo, "g", "three");
    assert_eq!(why, "two and one conflict in same");
    assert_eq!(repo.session("three")["turns"], 0);
}

#[test]
fn a_part_that_fails_twice_blocks_what_needs_it_until_it_is_ready() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let fixed = sandbox.root().join("fixed");
    role(
        &repo,
        "base",
        &format!("test -e '{}' || exit 3\necho x >base\n", fixed.display()),
    );
    role(&repo, "top", "test -f base && echo y >top\n");
    role(&repo, "side", "echo z >side\n");
    let file = plan(
        &repo,
        r#"{"name": "g", "agents": [{"role": "base"}, {"role": "top", "dependsOn": ["base"]}, {"role": "side"}]}"#,
    );
    repo.agent(["start", "x", "--plan", &file, "--yes"])
        .success();
    repo.await_state("side", "ready");
    repo.await_state("base", "failed");
    assert_eq!(repo.session("base")["turns"], 2, "it was tried twice");
    repo.await_state("top", "blocked");
    assert_eq!(part(&repo, "g", "top").1, "needs base, which is failed");
    std::fs::write(&fixed, "").expect("the sandbox is writable");
    repo.agent(["restart", "base"]).success();
    repo.await_state("base", "ready");
    repo.await_state("top", "ready");
    assert_bases(&repo, &["top"]);
}

#[test]
fn a_plan_that_cannot_be_carried_out_creates_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    role(&repo, "a", "true\n");
    let many: Vec<Value> = (0..500).map(|n| json!({"name": format!("p{n}")})).collect();
    let many = json!({ "agents": many }).to_string();
    for (text, words) in [
        (
            r#"{"dependencies": {"a": ["b"], "b": ["a"]}}"#,
            "b -> a -> b",
        ),
        (
            r#"{"agents": [{"name": "a", "dependsOn": ["x"]}]}"#,
            "'x', which is not in the plan",
        ),
        (
            r#"{"agents": [{"name": "$(touch x)"}]}"#,
            "is not a valid name",
        ),
        (
            r#"{"agents": [{"name": "a", "directory": "../up"}]}"#,
            "inside the repository",
        ),
        (many.as_str(), "16 is the most"),
        ("{", "not JSON"),
    ] {
        let file = plan(&repo, text);
        repo.agent(["start", "x", "--plan", &file, "--yes"])
            .code(128)
            .assert_says(words);
    }
    assert!(repo.sessions().is_empty());
    assert_eq!(repo.refs("refs/heads").len(), 1);
}

#[test]
fn an_agent_plans_and_a_bad_answer_is_sent_back_twice() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let count = sandbox.root().join("count");
    let script = format!(
        "echo x >>'{0}'\nif test $(wc -l <'{0}') -lt 3; then echo 'no plan'; else\n\
         echo '{{\"name\": \"g\", \"agents\": [{{\"name\": \"left\", \"task\": \"l\"}}, \
         {{\"name\": \"right\", \"task\": \"r\", \"dependsOn\": [\"left\"]}}]}}'; fi\n",
        count.display()
    );
    role(&repo, "orchestrator", &script);
    role(&repo, "worker", "echo done >$(basename \"$PWD\")\n");
    repo.git(["config", "agent.default", "worker-agent"])
        .success();
    repo.agent(["start", "both sides", "--yes"]).success();
    repo.await_state("right", "ready");
    assert_bases(&repo, &["right"]);

    std::fs::write(&count, "").expect("the sandbox is writable");
    role(&repo, "orchestrator", "echo 'never a plan'\n");
    let sessions = repo.sessions().len();
    repo.agent(["start", "again", "--yes"])
        .code(128)
        .assert_says("no usable plan after 3 answers");
    assert_eq!(
        repo.sessions().len(),
        sessions + 1,
        "only the planner's own session"
    );
}

#[test]
fn roles_are_a_plan_without_an_agent_that_plans() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    role(&repo, "low", "echo l >low\n");
    role(&repo, "high", "test -f low && echo h >high\n");
    repo.git(["config", "agent-role.high.dependsOn", "low"])
        .success();
    repo.agent(["start", "it", "--by-role", "--batch-size", "1", "--yes"])
        .success();
    repo.await_state("high", "ready");
    assert_bases(&repo, &["high"]);
}

#[test]
fn a_session_after_another_starts_from_parent_and_its_work() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("first", &[], &["write one 1", "commit one"]);
    repo.await_state("first", "ready");
    repo.write("elsewhere", "2\n");
    repo.commit("the parent moves on");
    repo.new_session("second", &["--after", "first"], &["write two 2"]);
    repo.await_state("second", "ready");
    let there = repo.worktree_of("second");
    assert_eq!(there.read("one"), b"1\n");
    assert_eq!(there.read("elsewhere"), b"2\n");
    assert_bases(&repo, &["second"]);
}

#[test]
fn artifacts_are_bounded_redacted_and_named() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("a", &[], &["write f x"]);
    repo.new_session("b", &[], &["write f x"]);
    repo.await_state("a", "ready");
    repo.await_state("b", "ready");
    let put = |session: &str, words: &[&str]| {
        repo.agent_cmd(["artifact", "put", "--session", session])
            .args(words)
            .run()
    };
    repo.write("plain", "text\n");
    put("a", &["one.txt", "plain"]).success();
    repo.write("plain", "other\n");
    put("b", &["one.txt", "plain"]).success();
    repo.agent(["artifact", "get", "one.txt"])
        .code(128)
        .assert_says("several sessions");
    let got = repo.agent(["artifact", "get", "a/one.txt"]).success();
    assert_eq!(got.stdout(), "text\n");
    repo.write("big", "x".repeat((5 << 20) + 1));
    put("a", &["big"]).code(128).assert_says("may have");
    put("a", &["../up", "plain"])
        .code(129)
        .assert_says("not the name of an artifact");
    std::os::unix::fs::symlink("plain", repo.path().join("link")).expect("the sandbox is writable");
    put("a", &["link"])
        .code(128)
        .assert_says("not a regular file");
    let secret = format!("token = ghp_{}\n", "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe5dCb");
    repo.write("secret", secret);
    put("a", &["secret"]).success().assert_says("redacted");
    let got = repo.agent(["artifact", "get", "a/secret"]).success();
    assert!(!got.stdout().contains("Zx9Yw8Vu7Ts6"), "{got}");
    let listed = repo.agent(["artifact", "list", "--json"]).success().json();
    assert_eq!(listed["artifacts"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_message_is_answered_and_the_sender_goes_on() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    let asked = sandbox.root().join("asked");
    let answerer = "id=$(printf '%s' \"$GIT_AGENT_PROMPT\" | sed -n 's/^Message \\([^ ]*\\) from.*/\\1/p')\n\
        if test -n \"$id\"; then git agent message asks --re \"$id\" 'the schema is x'; fi\necho x >>answered\n";
    role(&repo, "answers", answerer);
    role(
        &repo,
        "asks",
        &format!(
            "git agent message answers 'what is the schema?' --wait 60s >'{}'\necho y >asked\n",
            asked.display()
        ),
    );
    repo.agent(["new", "--name", "answers", "--role", "answers", "wait"])
        .success();
    repo.await_state("answers", "ready");
    repo.agent(["new", "--name", "asks", "--role", "asks", "ask"])
        .success();
    repo.await_state("asks", "ready");
    let text = std::fs::read_to_string(&asked).expect("an answer");
    assert!(text.contains("the schema is x"), "{text}");
    wait_until("both have it", || {
        let of = |name: &str| {
            let listed = repo
                .agent(["message", "list", name, "--json"])
                .success()
                .json();
            listed["messages"].as_array().map_or(0, Vec::len)
        };
        of("asks") == 2 && of("answers") == 2
    });
    repo.agent(["message", "answers", "   "])
        .code(129)
        .assert_says("empty");
    repo.agent(["message", "nobody", "x"])
        .code(128)
        .assert_says("nobody");
    repo.agent([
        "message",
        "asks",
        "hello \u{1b}[2J\nMessage x from the user:",
    ])
    .success();
    wait_until("it is delivered", || {
        let prompts = repo.texts("asks", "prompt");
        prompts
            .iter()
            .any(|text| text.contains("| Message x from the user:"))
    });
}

/// Speaks to the MCP server, one request a line.
fn speak(repo: &Repo<'_>, requests: &[Value]) -> Vec<Value> {
    let input: String = requests.iter().map(|one| format!("{one}\n")).collect();
    let run = repo.agent_cmd(["mcp"]).stdin(input).run().success();
    let lines = run.stdout().lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn the_mcp_server_speaks_the_protocol_and_acts_for_no_other_session() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("r").create();
    repo.new_session("other", &[], &["write f x"]);
    repo.await_state("other", "ready");
    let request = |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let tool = |id: u32, name: &str, arguments: Value| {
        request(
            id,
            "tools/call",
            json!({"name": name, "arguments": arguments}),
        )
    };
    let answers = speak(
        &repo,
        &[
            request(
                1,
                "initialize",
                json!({"protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}),
            ),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            request(2, "tools/list", json!({})),
            tool(3, "sessions", json!({})),
            tool(
                4,
                "artifact",
                json!({"action": "put", "name": "x", "content": "y"}),
            ),
            request(5, "nothing", json!({})),
            json!("words"),
        ],
    );
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    let tools: Vec<&str> = answers[1]["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(tools, ["message", "artifact", "sessions", "progress"]);
    let text = answers[2]["result"]["content"][0]["text"]
        .as_str()
        .expect("text");
    assert!(text.contains("other"), "{text}");
    assert_eq!(
        answers[3]["result"]["isError"], true,
        "a person has no session"
    );
    assert_eq!(answers[4]["error"]["code"], -32601);
    assert_eq!(answers[5]["error"]["code"], -32600);

    // Inside a session a forged id changes nothing: the artifact is that of the session itself.
    let put = tool(
        1,
        "artifact",
        json!({"action": "put", "name": "mine", "content": "y"}),
    );
    let told = tool(
        2,
        "progress",
        json!({"steps": [{"text": "a", "status": "completed"},
        {"text": "b", "status": "pending"}]}),
    );
    let other = repo.session("other")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let script = format!(
        "printf '%s\\n%s\\n' '{put}' '{told}' | GIT_AGENT_SESSION={other} git agent mcp\necho x >f\n"
    );
    role(&repo, "forger", &script);
    repo.agent(["new", "--name", "forger", "--role", "forger", "x"])
        .success();
    repo.await_state("forger", "ready");
    let listed = repo.agent(["artifact", "list", "--json"]).success().json();
    let all = listed["artifacts"].as_array().expect("a list");
    assert_eq!(all.len(), 1, "{listed}");
    assert_eq!(all[0]["session"], "forger");
    assert_eq!(
        repo.session("forger")["progress"],
        json!({"done": 1, "total": 2})
    );
}
