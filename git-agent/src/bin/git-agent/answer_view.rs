//! Shows an open question: who asks, what for, and the possible answers.

use std::io::Write;

use git_agent::error::Result;
use git_agent::model::session::Session;
use git_agent::output::Ui;
use git_agent::output::terminal::sanitize::one_line;
use git_agent::session::control::requests::Request;

/// Shows a question with its number among several.
pub fn question(
    ui: &Ui,
    session: &Session,
    request: &Request,
    (number, many): (usize, usize),
) -> Result<()> {
    // Paths in the worktree are shown as they are seen from there.
    let worktree = session.local.worktree.as_deref().unwrap_or_default();
    let near = |text: &str| match worktree {
        "" => text.to_owned(),
        top => text.replace(&format!("{top}/"), ""),
    };
    let mut out = ui.out();
    let name = one_line(&session.name);
    let agent = one_line(&session.agent);
    let title = near(&request.title);
    let which = match many {
        1 => String::new(),
        _ => format!("   ({number} of {many})"),
    };
    writeln!(out, "{name} ({agent}) asks: {}{which}", one_line(&title))?;
    for line in near(&request.detail).lines() {
        writeln!(out, "    {}", one_line(line))?;
    }
    for (index, option) in request.options.iter().enumerate() {
        writeln!(out, "  {}. {}", index + 1, one_line(&option.label))?;
    }
    Ok(())
}

/// Returns the line that asks for an answer.
pub fn prompt(request: &Request) -> String {
    let by_kind = |kind: &str| {
        request
            .options
            .iter()
            .any(|option| option.kind.as_str() == kind)
    };
    let mut words = Vec::new();
    match request.options.len() {
        0 => words.push("text".to_owned()),
        1 => words.push("1".to_owned()),
        many => words.push(format!("1-{many}")),
    }
    if by_kind("allow_once") {
        words.push("y".to_owned());
    }
    if by_kind("allow_always") {
        words.push("a".to_owned());
    }
    if request.kind.as_str() != "question" {
        words.push("n".to_owned());
    }
    format!("answer [{}, Enter skips, q ends]?", words.join("/"))
}
