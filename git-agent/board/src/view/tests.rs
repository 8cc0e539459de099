//! Pictures of every view at each class of width, without colours and with hostile text.

use git_agent::env::Millis;
use git_agent::listing::row::Summary;
use git_agent::model::event::{Body, Choice, Event};
use git_agent::model::session::State;
use git_agent::review::diff_scope::Scope;
use git_agent::review::shown::Shown;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::json;

use crate::app::effect::{Effect, Job, Message};
use crate::app::samples::{self, NOW};
use crate::app::{App, Input};
use crate::view;
use crate::view::theme::{Depth, Theme};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

fn paint(app: &mut App, (wide, high): (u16, u16), depth: Depth) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(wide, high)).expect("a picture in memory");
    let theme = Theme::new(depth, false);
    terminal
        .draw(|frame| view::draw(frame, app, theme))
        .expect("it paints");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let wide = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(wide);
    rows.map(|row| {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    })
    .collect()
}

fn picture(app: &mut App, size: (u16, u16)) -> String {
    lines(&paint(app, size, Depth::Mono)).join("\n")
}

fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        effects.extend(app.input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))));
    }
    effects
}

fn select(app: &mut App, name: &str) -> Summary {
    let row = app
        .rows
        .iter()
        .find(|row| row.name == name)
        .expect("a sample")
        .clone();
    app.select(Some(row.id.clone()));
    row
}

fn review(app: &mut App) -> Summary {
    let row = select(app, "remove-cmd");
    let effects = app.open_review(&row.id, Scope::Branch);
    assert!(matches!(
        effects.as_slice(),
        [Effect::Job(_, Job::Load(..))]
    ));
    app.message(Message::Loaded(1, Box::new(samples::shown(&row.id))));
    row
}

fn event(seq: u64, body: Body) -> Event {
    Event {
        id: "01kpmk00000000000000008888".parse().expect("a sample id"),
        seq,
        lc: seq,
        ts: NOW,
        turn: 1,
        body,
    }
}

#[test]
fn an_empty_board_says_how_to_begin() {
    let mut app = samples::app();
    assert!(picture(&mut app, (80, 24)).contains("reading"));
    app.is_loaded = true;
    for size in SIZES {
        let shown = picture(&mut app, size);
        assert!(shown.contains("No sessions yet."), "{shown}");
        assert!(shown.contains("nothing needs you"), "{shown}");
    }
}

#[test]
fn every_width_shows_the_columns_and_the_urgent_card_first() {
    for size in SIZES {
        let mut app = samples::board();
        let shown = picture(&mut app, size);
        for word in [
            "To Do 1",
            "Doing 2",
            "Done 4",
            "need you",
            "ask-edit",
            "asks: Edit shop/store.py",
        ] {
            assert!(shown.contains(word), "{word} at {size:?}:\n{shown}");
        }
        assert_eq!(app.current().map(|row| row.name.as_str()), Some("ask-edit"));
    }
}

#[test]
fn a_card_has_the_facts() {
    let mut app = samples::board();
    let shown = picture(&mut app, (200, 50));
    for word in [
        "+6 −1",
        "≠ 1 conflict",
        "✎ 2",
        "$0.42",
        "████░░ 4/6",
        "not logged in",
        "✗ broken",
        "✓ discount",
        "2m 05s",
    ] {
        assert!(shown.contains(word), "{word}:\n{shown}");
    }
}

#[test]
fn keys_move_over_the_board() {
    let mut app = samples::board();
    press(&mut app, "l");
    assert_eq!(app.board.column, 2);
    assert_eq!(app.current().map(|row| row.name.as_str()), Some("broken"));
    press(&mut app, "jj");
    assert_eq!(app.current().map(|row| row.name.as_str()), Some("discount"));
    press(&mut app, "G");
    assert_eq!(app.current().map(|row| row.name.as_str()), Some("typo"));
    press(&mut app, "2");
    assert_eq!(
        app.current().map(|row| row.name.as_str()),
        Some("remove-cmd")
    );
    press(&mut app, "/disc\n");
    assert_eq!(app.current().map(|row| row.name.as_str()), Some("discount"));
    assert!(picture(&mut app, (120, 40)).contains("filter: disc"));
    press(&mut app, "\x1b");
    assert!(app.board.filter.is_empty());
}

#[test]
fn dangerous_keys_ask() {
    for (key, word) in [
        ("x", "stop 'broken'?"),
        ("D", "discard 'broken'?"),
        ("C", "remove merged sessions?"),
    ] {
        let mut app = samples::board();
        select(&mut app, "broken");
        assert!(
            press(&mut app, key).is_empty(),
            "{key} does nothing at once"
        );
        assert!(picture(&mut app, (80, 24)).contains(word), "{key}");
        assert!(press(&mut app, "n").is_empty());
        press(&mut app, key);
        let effects = press(&mut app, "y");
        assert!(
            matches!(effects.as_slice(), [Effect::Job(..)]),
            "{key}: {effects:?}"
        );
    }
}

#[test]
fn a_question_is_shown_with_its_change_and_answered() {
    let mut app = samples::board();
    let row = select(&mut app, "ask-edit");
    app.log.begin(&row.id);
    let input = json!({"file_path": "shop/store.py", "old_string": "data = 1\n", "new_string": "payload = 1\n"});
    let option = |id: &str, kind: &str| Choice {
        id: id.into(),
        label: id.into(),
        kind: kind.into(),
    };
    app.log.take(
        vec![
            event(
                1,
                Body::Prompt {
                    text: "Rename it".into(),
                    from: "user".into(),
                },
            ),
            event(
                2,
                Body::ToolCall {
                    call: "c".into(),
                    name: "Edit".into(),
                    kind: "edit".into(),
                    input,
                },
            ),
            event(
                3,
                Body::Permission {
                    request: "c".into(),
                    kind: "permission".into(),
                    title: "Edit shop/store.py".into(),
                    detail: String::new(),
                    options: vec![option("ever", "allow_always"), option("once", "allow_once")],
                },
            ),
        ],
        true,
    );
    for size in SIZES {
        let shown = picture(&mut app, size);
        for word in [
            "? Edit shop/store.py",
            "- data = 1",
            "+ payload = 1",
            "y yes, once",
        ] {
            assert!(shown.contains(word), "{word} at {size:?}:\n{shown}");
        }
    }
    let ordered: Vec<&str> = app
        .log
        .question()
        .expect("open")
        .ordered()
        .iter()
        .map(|o| o.id.as_str())
        .collect();
    assert_eq!(
        ordered,
        ["once", "ever"],
        "the first answer never grants for ever"
    );
    let effects = press(&mut app, "y");
    assert!(
        matches!(effects.as_slice(), [Effect::Job(_, Job::Answer(id, word))] if *id == row.id && word == "yes")
    );
    assert!(press(&mut app, "Y").is_empty(), "for ever is asked about");
}

#[test]
fn a_new_session_is_started_from_its_dialog() {
    let mut app = samples::board();
    press(&mut app, "nadd a wipe command");
    for size in SIZES {
        let shown = picture(&mut app, size);
        for word in [
            "new session",
            "add a wipe command",
            "versions",
            "ask me before",
        ] {
            assert!(shown.contains(word), "{word} at {size:?}:\n{shown}");
        }
    }
    press(&mut app, "\x1b");
    assert!(app.dialogs.is_empty());
    press(&mut app, "n");
    let effects = press(&mut app, "\n");
    let [Effect::Job(_, Job::Start(session))] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(session.task, "add a wipe command", "the words were kept");
}

#[test]
fn the_review_screen_shows_files_lines_and_threads() {
    for size in SIZES {
        let mut app = samples::board();
        review(&mut app);
        let shown = picture(&mut app, size);
        for word in [
            "remove-cmd",
            "shop/models.py",
            "generated",
            "an image",
            "payload = load(path)",
            "日",
            "Why not return the data itself?",
            "1 to send",
        ] {
            assert!(shown.contains(word), "{word} at {size:?}:\n{shown}");
        }
        let beside = shown
            .lines()
            .any(|line| line.contains("data = load") && line.contains("payload = load"));
        assert_eq!(
            beside,
            size.0 == 200,
            "side by side only where there is room:\n{shown}"
        );
    }
}

#[test]
fn the_cursor_of_a_review_finds_its_way() {
    let mut app = samples::board();
    review(&mut app);
    picture(&mut app, (100, 30));
    press(&mut app, "g]");
    let place = app.review.as_ref().and_then(|review| review.cursor_place());
    assert_eq!(
        place,
        Some((
            b"shop/models.py".to_vec(),
            git_agent::model::review::Side::Old,
            Some(23)
        ))
    );
    press(&mut app, "m");
    let review = app.review.as_ref().expect("open");
    assert_eq!(review.thread_at_cursor(), Some(0));
    press(&mut app, "g}}}");
    let file = app
        .review
        .as_ref()
        .and_then(|review| review.file_at_cursor());
    assert_eq!(file, Some(2));
    press(&mut app, "z");
    assert!(picture(&mut app, (100, 30)).contains('│'));
    press(&mut app, "/payload\n");
    let text = app
        .review
        .as_ref()
        .map(|review| review.row_text(review.cursor));
    assert!(text.is_some_and(|text| text.contains("payload")));
}

#[test]
fn comments_and_verdicts_are_about_what_is_shown() {
    let mut app = samples::board();
    let row = review(&mut app);
    picture(&mut app, (100, 30));
    press(&mut app, "g]jvj");
    let target = app
        .review
        .as_ref()
        .and_then(|review| review.target())
        .map(|(words, _)| words);
    assert_eq!(target.as_deref(), Some("shop/models.py:23-24"));
    press(&mut app, "ctoo clever");
    let effects = press(&mut app, "\n");
    assert!(
        matches!(effects.as_slice(), [Effect::Job(_, Job::Comment(id, _, body))] if *id == row.id && body == "too clever")
    );
    assert!(
        press(&mut app, "a").is_empty(),
        "open comments are asked about"
    );
    assert!(picture(&mut app, (100, 30)).contains("1 open comment"));
    let effects = press(&mut app, "y");
    assert!(matches!(
        effects.as_slice(),
        [Effect::Job(_, Job::Verdict(..))]
    ));
    app.message(Message::Outdated(row.id.clone()));
    assert!(picture(&mut app, (100, 30)).contains("changed since it was opened"));
}

#[test]
fn hostile_text_reaches_no_cell() {
    let bad = "\x1b[2J\u{202e}evil\u{200b}\u{7}";
    let mut app = samples::board();
    let mut row = samples::row(9, bad, State::Waiting);
    row.task = format!("{bad}{}", "x".repeat(10_000));
    row.agent = bad.to_owned();
    let id = row.id.clone();
    app.repository = bad.to_owned();
    app.set_rows(vec![row]);
    app.select(Some(id.clone()));
    app.log.begin(&id);
    app.log.take(
        vec![event(
            1,
            Body::Assistant {
                text: format!("{bad}\n{}", "y".repeat(10_000)),
            },
        )],
        true,
    );
    let mut file = samples::file(bad);
    file.hunks[0].lines[1].text = [bad.as_bytes(), &[b'z'; 10_000], b"\xff\xfe"].concat();
    file.hunks[0].heading = bad.into();
    let mut shown = Shown::of_files(bad, vec![file], vec![samples::thread(bad, 24, bad)]);
    shown.id.clone_from(&id);
    let check = |buffer: &Buffer| {
        for cell in &buffer.content {
            let is_bad = |c: char| c.is_control() || matches!(c, '\u{202e}' | '\u{200b}');
            assert!(!cell.symbol().chars().any(is_bad), "{:?}", cell.symbol());
        }
    };
    for size in SIZES {
        for depth in [Depth::Mono, Depth::Sixteen, Depth::Table, Depth::True] {
            check(&paint(&mut app, size, depth));
        }
    }
    app.open_review(&id, Scope::Branch);
    app.message(Message::Loaded(1, Box::new(shown)));
    for size in SIZES {
        check(&paint(&mut app, size, Depth::True));
    }
}

#[test]
fn without_colours_no_cell_has_any() {
    let mut app = samples::board();
    for keys in ["", "?", "\x1bn", "\x1b:"] {
        press(&mut app, keys);
        for cell in &paint(&mut app, (120, 40), Depth::Mono).content {
            assert_eq!(
                (cell.fg, cell.bg),
                (Color::Reset, Color::Reset),
                "{}",
                cell.symbol()
            );
        }
    }
    app.dialogs.clear();
    review(&mut app);
    for cell in &paint(&mut app, (120, 40), Depth::Mono).content {
        assert_eq!(
            (cell.fg, cell.bg),
            (Color::Reset, Color::Reset),
            "{}",
            cell.symbol()
        );
    }
}

#[test]
fn every_state_has_a_sign_of_its_own() {
    let signs: std::collections::BTreeSet<&str> =
        State::ALL.into_iter().map(view::theme::sign).collect();
    assert_eq!(signs.len(), State::ALL.len());
    for sign in signs {
        assert_eq!(crate::text::width(sign), 1, "{sign}");
    }
}

#[test]
fn the_help_has_every_key() {
    let mut app = samples::board();
    press(&mut app, "?");
    let mut seen = String::new();
    for _ in 0..120 {
        seen += &picture(&mut app, (84, 24));
        press(&mut app, "j");
    }
    for row in crate::keys::ACTIONS {
        let words: String = row.words.chars().take(50).collect();
        assert!(seen.contains(&words), "{words}");
    }
}

#[test]
fn tiny_and_odd_sizes_do_not_panic() {
    for wide in [1, 10, 29, 30, 41, 95, 96, 97, 149, 150, 171] {
        for high in [1, 7, 8, 9, 13, 24] {
            let mut app = samples::board();
            for keys in ["", "z", "?", "\x1bn", "\x1b:", "\x1bx"] {
                press(&mut app, keys);
                paint(&mut app, (wide, high), Depth::True);
            }
            app.dialogs.clear();
            review(&mut app);
            paint(&mut app, (wide, high), Depth::True);
            press(&mut app, "jjjz]]c");
            paint(&mut app, (wide, high), Depth::True);
        }
    }
}

#[test]
fn thousands_of_sessions_and_lines_are_laid_out() {
    let mut app = samples::app();
    app.is_loaded = true;
    app.set_rows(
        (0..2000)
            .map(|n| samples::row(n, &format!("s{n}"), State::Ready))
            .collect(),
    );
    press(&mut app, "GkG");
    assert!(picture(&mut app, (120, 40)).contains("2000 sessions"));
    let mut file = samples::file("big.py");
    let line = file.hunks[0].lines[2].clone();
    file.hunks[0].lines = (0..50_000)
        .map(|n| {
            let mut line = line.clone();
            line.new = Some(n + 1);
            line
        })
        .collect();
    let id = app.current().expect("a card").id.clone();
    let mut shown = Shown::of_files("big", vec![file], Vec::new());
    shown.id.clone_from(&id);
    app.open_review(&id, Scope::Branch);
    app.message(Message::Loaded(1, Box::new(shown)));
    picture(&mut app, (120, 40));
    press(&mut app, "G");
    let shown = picture(&mut app, (120, 40));
    assert!(shown.contains("50000"), "{shown}");
    assert_eq!(app.now, Millis(NOW.0));
}
