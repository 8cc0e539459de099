//! Makes room in a conversation that nearly fills the model's context: old messages are replaced by a note with the
//! user's prompts, the last plan and the actions so far. No model is asked, so the same conversation always gives the
//! same note.

use serde_json::Value;

use crate::conversation::{Call, Message};

/// Characters of one token, about; code has fewer than prose.
const CHARACTERS: usize = 3;
/// The longest part of one prompt in the note.
const PROMPT: usize = 4_000;
/// The most actions that the note names.
const ACTIONS: usize = 60;
/// The beginning of every note.
const OPENING: &str = "(Earlier parts of this conversation were left out to save context.)";

/// Estimates the tokens of messages.
pub fn tokens(messages: &[Message]) -> u64 {
    let characters: usize = messages.iter().map(Message::size).sum();
    (characters / CHARACTERS) as u64
}

/// Returns where to cut and the note for the part before, so that the rest takes at most 40 % of the context. Returns
/// nothing if there is nothing to leave out.
pub fn plan(messages: &[Message], context: u64) -> Option<(usize, String)> {
    let room = context * 4 / 10;
    let fits = |before: &usize| tokens(&messages[*before..]) <= room;
    // A result must follow its call.
    let starts = |before: &usize| !matches!(messages[*before], Message::Tool { .. });
    let before = (1..messages.len()).filter(starts).find(fits).or_else(|| {
        // Not even the newest answer and its results fit: keep them all the same, for the model works on them.
        (1..messages.len()).rev().find(starts)
    })?;
    // The note itself is all that is left out.
    if before == 1 && matches!(&messages[0], Message::User { text } if text.starts_with(OPENING)) {
        return None;
    }
    Some((before, note(&messages[..before])))
}

fn note(left_out: &[Message]) -> String {
    let mut text = OPENING.to_owned();
    let (mut actions, mut last_plan) = (Vec::new(), None);
    text.push_str("\n\nThe user's prompts:\n");
    for message in left_out {
        match message {
            Message::User { text: prompt } => {
                text.push_str(&format!("- {}\n", start(prompt, PROMPT)));
            }
            Message::Assistant { calls, .. } => {
                for call in calls {
                    if call.name == "plan" {
                        last_plan = Some(&call.input["steps"]);
                    }
                    actions.push(action(call));
                }
            }
            Message::Tool { .. } => {}
        }
    }
    if let Some(plan) = last_plan {
        text.push_str("\nThe last plan:\n");
        for step in plan.as_array().into_iter().flatten() {
            let word = |key: &str| step[key].as_str().unwrap_or_default();
            text.push_str(&format!(
                "- [{}] {}\n",
                word("status"),
                start(word("text"), 300)
            ));
        }
    }
    let older = actions.len().saturating_sub(ACTIONS);
    if !actions.is_empty() {
        text.push_str(&format!("\nThe last of {} actions:\n", actions.len()));
    }
    for action in actions.drain(older..) {
        text.push_str(&format!("- {action}\n"));
    }
    text
}

fn action(call: &Call) -> String {
    let argument = ["command", "path", "pattern"]
        .iter()
        .find_map(|key| call.input.get(*key).and_then(Value::as_str))
        .unwrap_or_default();
    let line = argument.lines().next().unwrap_or_default();
    format!("{} {}", call.name, start(line, 160))
}

fn start(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::ToolResult;
    use serde_json::json;

    fn step(number: usize) -> [Message; 2] {
        let id = format!("c{number}");
        let call = Call {
            id: id.clone(),
            name: "shell".into(),
            input: json!({"command": format!("make step{number}")}),
        };
        let result = ToolResult {
            id,
            text: "x".repeat(3_000),
            failed: false,
        };
        [
            Message::Assistant {
                text: String::new(),
                calls: vec![call],
            },
            Message::Tool {
                results: vec![result],
            },
        ]
    }

    #[test]
    fn task_plan_and_recent_steps_are_kept() {
        let mut messages = vec![Message::user("the task")];
        let plan = Call {
            id: "p".into(),
            name: "plan".into(),
            input: json!({"steps": [{"text": "first", "status": "completed"}]}),
        };
        messages.push(Message::Assistant {
            text: String::new(),
            calls: vec![plan],
        });
        messages.push(Message::Tool { results: vec![] });
        messages.extend((0..20).flat_map(step));
        let (before, note) = super::plan(&messages, 20_000).expect("too long");
        assert!(tokens(&messages[before..]) <= 8_000);
        assert!(!matches!(messages[before], Message::Tool { .. }));
        for part in ["the task", "[completed] first", "shell make step5"] {
            assert!(note.contains(part), "{part}: {note}");
        }
        let mut rest = messages.split_off(before);
        rest.insert(0, Message::user(note));
        let (again, note) = super::plan(&rest, 3_000).expect("still too long");
        assert!(note.contains("the task"), "{note}");
        assert!(again > 0);
    }

    #[test]
    fn a_short_conversation_cannot_be_shortened() {
        assert_eq!(super::plan(&[Message::user("x")], 1_000), None);
        let note = Message::user(format!("{OPENING} ..."));
        assert_eq!(super::plan(&[note, Message::user("y")], 1_000), None);
    }
}
