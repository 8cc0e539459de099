//! Sessions and changes for tests of the screen.

use git_agent::env::{Env, Millis, Terminals};
use git_agent::listing::row::{Changes, Summary};
use git_agent::model::known::{Comments, Finding};
use git_agent::model::review::{Comment, Side, Thread};
use git_agent::model::session::{Asked, Person, Progress, Session, State};
use git_agent::output::moment::Clock;
use git_agent::review::anchors::Spot;
use git_agent::review::shown::{ChangedFile, FileChange, Shown, ShownHunk, ShownLine, ShownThread};

use crate::app::App;
use crate::keys::Keys;

/// The time of all samples.
pub const NOW: Millis = Millis(1_790_000_000_000);

/// Returns an empty screen.
pub fn app() -> App {
    let env = Env::new(
        "/".into(),
        [("TZ".into(), "UTC".into())],
        Terminals::default(),
    );
    let (keys, bad) = Keys::load(&|_| None);
    assert!(bad.is_empty());
    App::new(keys, "shop".to_owned(), NOW, Clock::local(&env))
}

/// Returns a row.
pub fn row(number: u64, name: &str, state: State) -> Summary {
    let sid = format!("01kpmk0000000000000000{number:04}");
    let sid = sid.parse().expect("a sample id");
    let writer = "ada-1234".parse().expect("a sample writer");
    let author = Person {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
    };
    let mut session = Session::new(sid, writer, name, author);
    session.status = state;
    session.agent = "claude".to_owned();
    session.task = format!("Do what {name} says");
    session.updated = Millis(NOW.0 - number * 60_000);
    session.turns = 1;
    session.branch = Some(format!("agent/{name}"));
    session.parent = Some("main".to_owned());
    Summary::of_own(&session, NOW)
}

/// Returns one row of each kind that a board shows.
pub fn rows() -> Vec<Summary> {
    let mut asks = row(1, "ask-edit", State::Waiting);
    asks.session.asks = vec![Asked {
        request: "1".to_owned(),
        title: "Edit shop/store.py".to_owned(),
    }];
    let mut running = row(2, "search-v1", State::Running);
    running.progress = Some(Progress { done: 4, total: 6 });
    running.session.activity = "Bash pytest".to_owned();
    running.group = Some("search".to_owned());
    running.session.turn_started = Some(Millis(NOW.0 - 125_000));
    running.touch(NOW);
    let mut ready = row(3, "remove-cmd", State::Ready);
    ready.changes = Finding::Known(Changes {
        files: 2,
        added: 6,
        deleted: 1,
        uncommitted: 0,
    });
    ready.comments = Finding::Known(Comments {
        open: 2,
        resolved: 0,
    });
    ready.conflicts = Finding::Known(vec!["shop/cli.py".to_owned()]);
    ready.usage.cost_usd = Some(0.42);
    let mut failed = row(4, "broken", State::Failed);
    failed.exit = Some(git_agent::model::session::Exit {
        code: Some(1),
        signal: None,
        reason: "not logged in".to_owned(),
    });
    vec![
        asks,
        running,
        ready,
        failed,
        row(5, "docs", State::Queued),
        row(6, "discount", State::Approved),
        row(7, "typo", State::Merged),
    ]
}

/// Returns a board with sessions.
pub fn board() -> App {
    let mut app = app();
    app.is_loaded = true;
    app.set_rows(rows());
    app
}

fn line(old: Option<u32>, new: Option<u32>, text: &str) -> ShownLine {
    ShownLine {
        old,
        new,
        text: text.into(),
        is_cut: false,
    }
}

/// Returns a changed file with one hunk.
pub fn file(path: &str) -> ChangedFile {
    ChangedFile {
        path: path.into(),
        old_path: None,
        change: FileChange::Changed,
        added: 2,
        deleted: 1,
        is_binary: false,
        is_generated: false,
        remarks: Vec::new(),
        hunks: vec![ShownHunk {
            heading: "class Cart:".into(),
            lines: vec![
                line(Some(22), Some(22), "    def total(self):"),
                line(Some(23), None, "        data = load(path)"),
                line(None, Some(23), "        payload = load(path)"),
                line(None, Some(24), "\treturn payload  # 日本語 👍"),
                line(Some(24), Some(25), ""),
            ],
        }],
    }
}

/// Returns a thread on a line.
pub fn thread(path: &str, at: u32, body: &str) -> ShownThread {
    let comment = Comment {
        id: "01kpmk00000000000000009999".parse().expect("a sample id"),
        writer: "ada-1234".parse().expect("a sample writer"),
        who: Person {
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
        },
        claim: None,
        ts: Millis(NOW.0 - 420_000),
        body: body.to_owned(),
        severity: None,
        edited: None,
        deleted: false,
    };
    ShownThread {
        thread: Thread {
            at: None,
            comments: vec![comment],
            resolved_by: None,
        },
        spot: Spot::Lines {
            path: path.into(),
            side: Side::New,
            first: at,
            last: at,
        },
        state: "open",
        sent: None,
    }
}

/// Returns changes with a comment.
pub fn shown(id: &str) -> Shown {
    let mut lock = file("Cargo.lock");
    lock.is_generated = true;
    let mut picture = file("logo.png");
    picture.is_binary = true;
    picture.hunks.clear();
    let threads = vec![thread(
        "shop/models.py",
        24,
        "Why not return the data itself?",
    )];
    let mut shown = Shown::of_files(
        "remove-cmd",
        vec![lock, picture, file("shop/models.py")],
        threads,
    );
    shown.id = id.to_owned();
    shown
}
