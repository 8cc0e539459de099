//! The pictures of the board and of the review screen: drawn from a real run, and still showing what the screens show.
//!
//! `GIT_AGENT_DRAW=1 cargo test -p git-agent-tests board_pictures` draws them anew.

use std::fs;

use git_agent_tests::binaries::workspace;
use git_agent_tests::terminal::Terminal;
use git_agent_tests::{Repo, Sandbox, picture};

const COLUMNS: u16 = 118;
const ROWS: u16 = 34;

const CART: &str = "class Cart:\n    def __init__(self):\n        self.lines = []\n\n    def add(self, sku, amount):\n        self.lines.append((sku, amount))\n\n    def total(self, prices):\n        data = [prices[sku] * amount for sku, amount in self.lines]\n        return sum(data)\n";

/// A shop with sessions in several states.
fn shop(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.repo("shop").create();
    repo.write("shop/cart.py", CART);
    repo.commit("first");
    let edit = "sed -i 's/data/payable/g' shop/cart.py; printf '\\n    def remove(self, sku):\\n        if all(line[0] != sku for line in self.lines):\\n            raise KeyError(sku)\\n        self.lines = [line for line in self.lines if line[0] != sku]\\n' >>shop/cart.py; echo 'Cart.remove raises KeyError.' >>NEWS; echo 'The cart can remove lines now.'";
    for (name, task, script) in [
        ("remove-cmd", "Add a remove command to the cart", edit),
        (
            "discount",
            "Give ten percent on books",
            "echo '# books' >>shop/cart.py; echo 'Done: books get ten percent.'",
        ),
        (
            "docs",
            "Say in the manual how to order",
            "mkdir docs; echo order >docs/order.md; echo 'Wrote docs/order.md'",
        ),
        (
            "broken",
            "Move prices to a database",
            "echo 'cannot reach the database'; exit 3",
        ),
        (
            "search",
            "Search the catalogue by author",
            "echo 'Reading shop/cart.py'; echo 'Trying an index'; sleep 600",
        ),
    ] {
        repo.agent(["new", "--name", name, task, "--", script])
            .success();
        let state = match name {
            "broken" => "failed",
            "search" => "running",
            _ => "ready",
        };
        repo.await_state(name, state);
    }
    repo.agent(["review", "approve", "discount"]).success();
    repo.agent([
        "review",
        "comment",
        "remove-cmd",
        "shop/cart.py:13",
        "-m",
        "Say in the message which sku it was.",
    ])
    .success();
    repo
}

/// Returns the words of a screen that do not depend on the time.
fn words(screen: &str) -> Vec<String> {
    const STEADY: [&str; 12] = [
        "git agent",
        "need you",
        "To Do",
        "Doing",
        "Done",
        "[log]",
        "approved",
        "ready",
        "running",
        "keys",
        "shop/cart.py",
        "1 to send",
    ];
    let plain = picture::plain(screen);
    STEADY
        .iter()
        .filter(|word| plain.contains(**word))
        .map(|word| (*word).to_owned())
        .collect()
}

/// Compares a screen with the stored picture, or stores it.
fn keep(name: &str, screen: &str) {
    let path = workspace().join("man/pictures").join(name);
    if std::env::var_os("GIT_AGENT_DRAW").is_some() {
        fs::create_dir_all(path.parent().expect("it has a folder"))
            .expect("the source is writable");
        fs::write(&path, picture::svg(screen, usize::from(COLUMNS)))
            .expect("the source is writable");
    }
    let stored =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let found = words(screen);
    assert!(found.len() >= 3, "{screen}");
    for word in found {
        assert!(
            stored.contains(&word),
            "{name} does not show '{word}' any more: draw it anew"
        );
    }
}

#[test]
fn the_pictures_show_the_screens_as_they_are() {
    let sandbox = Sandbox::new();
    let repo = shop(&sandbox);
    let size = (COLUMNS, ROWS);
    let line = [
        "env",
        "COLORTERM=truecolor",
        "COLORFGBG=15;0",
        "git",
        "agent",
        "board",
        "remove-cmd",
    ];
    let Some(mut board) = Terminal::open(&repo, size, &line) else {
        return;
    };
    board.sees("4 need you");
    board.sees("The cart can remove lines now.");
    keep("board.svg", &board.tmux(&["capture-pane", "-p", "-e"]));
    board.press(&["Enter"]);
    board.sees("1 to send");
    board.sees("which sku it was");
    keep("review.svg", &board.tmux(&["capture-pane", "-p", "-e"]));
    drop(board);
    repo.agent(["stop", "search"]).success();
}
