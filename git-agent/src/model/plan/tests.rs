//! Plans: the formats that are read, the problems that are found, waves and overlaps.

use proptest::prelude::*;
use serde_json::json;

use crate::model::plan::read::{read, read_value};
use crate::model::plan::{Gate, Plan, PlanPart, VERSION};

fn plan(parts: &[(&str, &[&str])]) -> Plan {
    Plan {
        version: VERSION,
        parts: parts
            .iter()
            .map(|(name, needs)| PlanPart {
                name: (*name).to_owned(),
                depends_on: needs.iter().map(ToString::to_string).collect(),
                ..PlanPart::default()
            })
            .collect(),
        ..Plan::default()
    }
}

fn problems(plan: &Plan) -> Vec<String> {
    plan.check().iter().map(ToString::to_string).collect()
}

fn names<'p>(wave: &[&'p PlanPart]) -> Vec<&'p str> {
    wave.iter().map(|part| part.name.as_str()).collect()
}

#[test]
fn the_map_of_dependencies_alone_is_a_plan() {
    let plan = read(
        r#"{"dependencies": {"api": ["database"], "frontend": ["api"],
            "testing": ["database", "api", "frontend"]}}"#,
    )
    .expect("a plan");
    assert_eq!(problems(&plan), Vec::<String>::new());
    let waves = plan.waves();
    let waves: Vec<Vec<&str>> = waves.iter().map(|wave| names(wave)).collect();
    assert_eq!(waves, [["database"], ["api"], ["frontend"], ["testing"]]);
    assert_eq!(plan.parts[0].role.as_deref(), Some("database"));
}

#[test]
fn the_patterns_of_other_documents_are_read_as_they_stand() {
    let plan = read_value(json!({
        "session": {"name": "refactor-monolith", "agents": [
            {"role": "analyzer", "worktree": "refactor/analyze", "task": "Analyze"},
            {"role": "extractor", "worktree": "refactor/extract", "task": "Extract", "color": "red"}
        ]},
        "dependencies": {"extractor": ["analyzer"]},
        "resources": {"maxCpuPerAgent": 2, "maxMemoryPerAgent": "4GB",
            "maxConcurrentAgents": 4, "priorityMode": "balanced"},
        "merge": {"strategy": "auto", "requireTests": true},
        "caching": {"enabled": true}
    }))
    .expect("a plan");
    assert_eq!(problems(&plan), Vec::<String>::new());
    assert_eq!(plan.name.as_deref(), Some("refactor-monolith"));
    assert_eq!(plan.parts[1].depends_on, ["analyzer"]);
    assert_eq!(plan.batch_size, Some(4));
    assert_eq!(plan.gate, Gate::Tested);
    assert_eq!(plan.limits["maxCpu"], "200");
    assert_eq!(plan.limits["maxMemory"], "4g");
    assert_eq!(
        plan.unknown_keys(),
        ["caching", "merge", "resources", "agents.extractor.color"]
    );
    let again = read_value(serde_json::to_value(&plan).expect("JSON")).expect("a plan");
    assert_eq!(again, plan);
}

#[test]
fn agents_by_name_are_parts() {
    let plan = read_value(json!({"agents": {
        "default": {"model": "m"},
        "database": {"model": "m1", "temperature": 0.2, "skills": ["sql"]},
        "api": {"model": "m2"}
    }}))
    .expect("a plan");
    let mut found: Vec<&str> = plan.parts.iter().map(|part| part.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["api", "database"]);
    assert_eq!(plan.unknown_keys(), ["agents.database.temperature"]);
}

#[test]
fn a_bad_plan_is_refused_in_words() {
    let cycle = plan(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("d", &[])]);
    assert_eq!(
        problems(&cycle),
        ["the dependencies form a cycle: a -> c -> b -> a"]
    );
    let missing = plan(&[("a", &["x", "a"])]);
    assert_eq!(
        problems(&missing),
        [
            "part 'a' depends on 'x', which is not in the plan",
            "part 'a' depends on itself"
        ]
    );
    let many: Vec<(String, [&str; 0])> = (0..500).map(|n| (format!("p{n}"), [])).collect();
    let many: Vec<(&str, &[&str])> = many.iter().map(|(n, e)| (n.as_str(), &e[..])).collect();
    assert_eq!(
        problems(&plan(&many)),
        ["the plan has 500 parts; 16 is the most"]
    );
    for name in ["../up", "a;rm -rf", "$(id)", "-x", "a b", ""] {
        let bad = plan(&[(name, &[])]);
        assert_eq!(problems(&bad).len(), 1, "{name}");
    }
    let mut part = PlanPart {
        name: "p".to_owned(),
        ..PlanPart::default()
    };
    for path in [
        "/etc",
        "../x",
        "a/../../b",
        ".git/hooks",
        "~/x",
        "a\nb",
        "a/.GIT/x",
    ] {
        part.directory = Some(path.to_owned());
        assert_eq!(part.check().len(), 1, "{path}");
    }
    part.directory = Some("services/user".to_owned());
    part.produces = vec!["../x".to_owned(), "ok.json".to_owned()];
    assert_eq!(part.check().len(), 1);
}

#[test]
fn overlaps_are_told_only_of_parts_that_may_run_together() {
    let mut plan = plan(&[("a", &[]), ("b", &[]), ("c", &["a"])]);
    plan.parts[0].files = vec!["src/api/*.rs".to_owned()];
    plan.parts[1].directory = Some("src/api".to_owned());
    plan.parts[2].files = vec!["src/api/x.rs".to_owned()];
    let found = plan.overlaps();
    let pairs: Vec<(&str, &str)> = (found.iter())
        .map(|overlap| (overlap.one.as_str(), overlap.other.as_str()))
        .collect();
    assert_eq!(pairs, [("a", "b"), ("b", "c")]);
    assert_eq!(found[0].path, "src/api/*.rs");
}

#[test]
fn task_files_of_other_tools_are_plans() {
    let text = r#"{"master": {"tasks": [
        {"id": 1, "title": "Set up", "status": "done", "dependencies": []},
        {"id": 2, "title": "Add the schema", "description": "all tables", "status": "pending", "dependencies": [1]},
        {"id": 3, "title": "Add the API", "status": "in-progress", "dependencies": [1, 2]}]}}"#;
    let plan = read(text).expect("task-master");
    assert_eq!(problems(&plan), Vec::<String>::new());
    assert_eq!(plan.parts[1].depends_on, ["2-add-schema"]);
    assert_eq!(plan.parts[0].task, "Add the schema\n\nall tables");

    let text = "# Tasks: profile\n\n## Phase 1: Setup\n- [x] T001 make\n- [ ] T002 [P] lint in x.toml\n\n\
        ## Phase 2: Core\n- [ ] T003 [US1] model in src/m.rs\n";
    let plan = read(text).expect("Spec Kit");
    assert_eq!(problems(&plan), Vec::<String>::new());
    assert_eq!(plan.parts[1].depends_on, ["phase-1-setup"]);
    assert!(plan.parts[0].task.contains("T002") && !plan.parts[0].task.contains("T001"));

    let text = "---\nid: task-1\ntitle: One\nstatus: To Do\ndependencies: []\n---\nbody\n\u{c}\
        ---\nid: task-2\ntitle: Two\nstatus: In Progress\ndependencies:\n  - task-1\n---\n";
    let plan = read(text).expect("Backlog.md");
    assert_eq!(plan.parts[1].depends_on, ["task-1-one"]);

    let text = concat!(
        r#"{"id":"bd-1","title":"One","status":"open","priority":1}"#,
        "\n",
        r#"{"id":"bd-2","title":"Two","status":"open","dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"blocks"},{"issue_id":"bd-2","depends_on_id":"bd-9","type":"related"}]}"#,
        "\n"
    );
    let plan = read(text).expect("beads");
    assert_eq!(problems(&plan), Vec::<String>::new());
    assert_eq!(plan.parts[1].depends_on, ["bd-1-one"]);
}

#[test]
fn files_that_are_no_plan_are_refused() {
    for text in [
        "",
        "words",
        "{",
        "{\"agents\": 3}",
        "{\"agents\": [1]}",
        "{\"agents\": [{\"name\": 3}]}",
        "{\"master\": {\"tasks\": [{\"id\": 1, \"title\": \"x\", \"dependencies\": {}}]}}",
        "---\nid: task-1\ntitle: x\n",
        "{\"id\":\"a\",\"title\":\"b\",\"status\":\"open\"}\n{broken",
        "{\"gate\": \"soon\", \"agents\": []}",
    ] {
        assert!(read(text).is_err(), "{text:?}");
    }
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let edges = proptest::collection::vec((0..8usize, 0..8usize), 0..16);
    (1..8usize, edges).prop_map(|(count, edges)| {
        let mut plan = plan(&[]);
        for at in 0..count {
            plan.parts.push(PlanPart {
                name: format!("p{at}"),
                ..PlanPart::default()
            });
        }
        for (from, to) in edges {
            let needed = format!("p{}", to % count);
            let part = &mut plan.parts[from % count];
            if !part.depends_on.contains(&needed) {
                part.depends_on.push(needed);
            }
        }
        plan
    })
}

proptest! {
    #[test]
    fn a_plan_has_waves_or_a_cycle(plan in any_plan()) {
        let placed: usize = plan.waves().iter().map(Vec::len).sum();
        let sound = plan.check().is_empty();
        prop_assert_eq!(placed == plan.parts.len(), sound);
        if let Some(cycle) = plan.cycle() {
            prop_assert!(cycle.len() > 2 && cycle.first() == cycle.last());
            for pair in cycle.windows(2) {
                let part = plan.parts.iter().find(|part| part.name == pair[0]).expect("a part");
                prop_assert!(part.depends_on.contains(&pair[1]));
            }
        }
        let mut seen: Vec<&str> = Vec::new();
        for wave in plan.waves() {
            for part in &wave {
                prop_assert!(part.depends_on.iter().all(|needed| seen.contains(&needed.as_str())));
            }
            seen.extend(wave.iter().map(|part| part.name.as_str()));
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = read(&text);
    }

    #[test]
    fn no_json_makes_the_reader_panic(name in "[a-z./$;\\-]{0,12}", needs in "[a-z]{0,4}") {
        let value = json!({"agents": [{"name": name, "dependsOn": needs, "files": [name]}]});
        if let Ok(plan) = read_value(value) && plan.check().is_empty() {
            prop_assert!(!plan.parts[0].name.contains(['/', '$', ';']));
        }
    }
}
