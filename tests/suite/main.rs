//! The one test binary: each module is one topic, named `<command>_<topic>` where it belongs to a command.

mod agent_answer;
mod agent_builtin;
mod agent_completion;
mod agent_config;
mod agent_demo;
mod agent_discard;
mod agent_enter;
mod agent_exec;
mod agent_install;
mod agent_list;
mod agent_log;
mod agent_new;
mod agent_show;
mod agent_trust;
mod agent_update;
mod agent_wait;
mod agent_why;
mod bad_paths;
mod board_day;
mod board_keys;
mod board_pictures;
mod dead_turns;
mod doctor;
mod doctor_moved;
mod doctor_worktrees;
mod faults;
mod guard;
mod guard_among;
mod guard_cell;
mod guard_escapes;
mod guard_forged;
mod guard_reflogs;
mod guard_room;
mod hermetic;
mod hooks_configured;
mod hostile;
mod inside;
mod intent;
mod invoke;
mod looks_list;
mod looks_merge;
mod manual;
mod manual_format;
mod merge_apply;
mod merge_approval;
mod merge_at_once;
mod merge_conflicts;
mod merge_cover;
mod merge_gate;
mod merge_half;
mod merge_land;
mod merge_locks;
mod merge_obstacles;
mod merge_plan;
mod merge_resolve;
mod names;
mod plan_start;
mod readme;
mod review_ahead;
mod review_anchors;
mod review_exchange;
mod review_files;
mod review_loop;
mod review_more;
mod review_page;
mod review_settings;
mod review_unwritable;
mod review_verdicts;
mod right_answers;
mod session_acp;
mod session_agents;
mod session_clean;
mod session_contrary;
mod session_crash;
mod session_edges;
mod session_half;
mod session_idle;
mod session_lab;
mod session_misbehaving;
mod session_odd_files;
mod session_queue;
mod session_read_only;
mod session_record;
mod session_removal;
mod session_start;
mod session_streams;
mod session_work;
mod share;
mod share_claims;
mod share_code;
mod share_edges;
mod share_hostile;
mod share_kept;
mod share_many;
mod share_purge;
mod share_secrets;
mod share_signed;
mod share_takeover;
mod share_transport;
mod source;
mod source_rooms;
mod source_words;
mod storage;
mod trial;
mod written_before;

/// A file that no `mod` line names is never compiled, so its tests would pass by silence.
#[test]
fn no_file_is_forgotten() {
    let dir = git_agent_tests::binaries::workspace().join("tests/suite");
    let main = std::fs::read_to_string(dir.join("main.rs")).expect("this file exists");
    let named: Vec<&str> = main
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let mut sorted = named.clone();
    sorted.sort_unstable();
    assert_eq!(named, sorted, "the list is kept in order");
    for entry in std::fs::read_dir(&dir)
        .expect("the directory is readable")
        .flatten()
    {
        let path = entry.path();
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a plain name");
        let is_module = path.extension().is_some_and(|extension| extension == "rs")
            || path.join("mod.rs").is_file();
        if is_module && stem != "main" {
            assert!(
                named.contains(&stem),
                "tests/suite/main.rs lacks `mod {stem};`"
            );
        }
    }
}
