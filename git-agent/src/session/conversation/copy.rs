//! Copies of conversations for forks: under another id, with the paths of the new worktree.

use std::path::Path;

use serde_json::Value;

use crate::agent::catalog::spec::AgentSpec;
use crate::agent::conversation_files::Native;
use crate::agent::driver::Turn;
use crate::agent::stream::bounded_json;
use crate::context::Context;
use crate::error::Result;
use crate::model::session::Session;
use crate::session::conversation::keep::{self, Origin};
use crate::session::conversation::places;

/// Returns the conversation that a session's first turn branches off from, where its agent can do that.
pub fn origin(
    context: &Context<'_>,
    spec: &AgentSpec,
    session: &Session,
) -> Result<Option<Origin>> {
    // A teammate's conversation is copied only with the user's consent.
    let kept_back = session.settings.conversation == Some(false);
    let Some(parent) = session.parent_session.filter(|_| spec.forks && !kept_back) else {
        return Ok(None);
    };
    let origin = keep::origin(context, parent)?;
    Ok(origin.filter(|origin| {
        let id = origin.session.vendor_session.as_deref();
        origin.session.agent == session.agent && id.is_some_and(is_plain)
    }))
}

/// Returns whether an id can be part of a file's name: it may come from a teammate's record.
fn is_plain(id: &str) -> bool {
    !id.is_empty()
        && !id.starts_with(['.', '-'])
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Makes a copy of a conversation for a turn in another worktree, under an id made from the given one. Returns that id,
/// or nothing when there is nothing to copy.
pub fn copy(
    context: &Context<'_>,
    spec: &AgentSpec,
    turn: &Turn,
    from: &Origin,
    id: &str,
) -> Result<Option<String>> {
    let (Some(native), Some(old)) = (spec.native, from.session.vendor_session.as_deref()) else {
        return Ok(None);
    };
    let Some(bytes) = found(context, spec, turn, from)? else {
        return Ok(None);
    };
    let copy = Copy {
        native,
        ids: (old, id),
        places: (from.session.local.worktree.as_deref(), &turn.worktree),
    };
    let id = native.copied_id(old, id);
    let bytes = copy.made_of(&String::from_utf8_lossy(&bytes));
    let (environment, scratch) = (&turn.environment, turn.scratch.as_path());
    if native == Native::Exported {
        let taken = keep::import(spec, environment, &turn.worktree, (scratch, &bytes))?;
        if taken {
            keep::note_here(environment, scratch, &id);
        }
        return Ok(taken.then_some(id));
    }
    let now = context.env.now();
    let Some(place) = native.place(environment, &turn.worktree, &id, now) else {
        return Ok(None);
    };
    let put = keep::put(&place, &bytes)?;
    keep::settle(context, native, &place, (&turn.worktree, &id, scratch))?;
    Ok(put.then_some(id))
}

/// Returns a conversation as its agent keeps it. For a teammate's it is the shared one, even if the same id exists
/// here.
fn found(
    context: &Context<'_>,
    spec: &AgentSpec,
    turn: &Turn,
    from: &Origin,
) -> Result<Option<Vec<u8>>> {
    let (Some(native), Some(old)) = (spec.native, from.session.vendor_session.as_deref()) else {
        return Ok(None);
    };
    let old_place = from.session.local.worktree.as_deref().unwrap_or_default();
    let mine = match native {
        _ if !from.mine => None,
        Native::Exported => keep::export(spec, &turn.environment, &turn.worktree, old)?,
        _ => match native.find(&turn.environment, Path::new(old_place), old) {
            Some(path) => keep::read(&path)?,
            None => None,
        },
    };
    match mine {
        Some(bytes) => Ok(Some(bytes)),
        None => keep::kept(context, native, from, &turn.worktree),
    }
}

/// The replacements in a copied conversation.
struct Copy<'a> {
    native: Native,
    /// The old id and the new one.
    ids: (&'a str, &'a str),
    /// The old worktree and the new one.
    places: (Option<&'a str>, &'a Path),
}

impl Copy<'_> {
    fn made_of(&self, text: &str) -> Vec<u8> {
        // An exported conversation is one value over many lines.
        if let Some(mut whole) = bounded_json::parse_whole(text) {
            return self.record(&mut whole).into_bytes();
        }
        let records = text.lines().filter_map(bounded_json::parse_whole);
        let lines = records.map(|mut record| self.record(&mut record));
        lines.collect::<String>().into_bytes()
    }

    /// Returns one record as a line, or nothing when nothing of it is left.
    fn record(&self, record: &mut Value) -> String {
        if !self.native.unseal(record) {
            return String::new();
        }
        let (old, new) = self.ids;
        self.native.transplant(record, self.places.1, new);
        let mut line = record.to_string();
        if self.native != Native::Exported {
            line = line.replace(old, new);
        }
        let (old_place, new_place) = (self.places.0.unwrap_or_default(), self.places.1);
        line = places::replace(&line, old_place, &new_place.to_string_lossy());
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copied(native: Native, text: &str) -> String {
        let copy = Copy {
            native,
            ids: ("ses_0123456789abXXXXXXXXXXXXXX", "new"),
            places: (Some("/old/wt"), Path::new("/new/wt")),
        };
        String::from_utf8(copy.made_of(text)).expect("text")
    }

    #[test]
    fn a_copy_speaks_of_the_new_place_and_the_new_id() {
        let old = json!({"sessionId": "ses_0123456789abXXXXXXXXXXXXXX", "projectHash": "x",
            "cwd": "/old/wt", "cut": "CUT", "text": "in /old/wt/a and /old/wt-2/b, /old/wt."});
        // Half a character, as JavaScript writes it.
        let old = old.to_string().replace("CUT", r"\ud83d");
        let text = copied(Native::Gemini, &format!("{old}\nno record\n{old}\n"));
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["sessionId"], "new");
        assert_eq!(lines[0]["cwd"], "/new/wt");
        assert_eq!(lines[0]["text"], "in /new/wt/a and /old/wt-2/b, /new/wt.");
        assert_eq!(lines[0]["projectHash"], crate::git::sha256(b"/new/wt"));
    }

    #[test]
    fn the_copy_of_a_whole_has_the_id_that_is_told() {
        let old = "ses_0123456789abXXXXXXXXXXXXXX";
        let whole = json!({"info": {"id": old, "directory": "/old/wt"}});
        let text = copied(Native::Exported, &format!("{whole:#}"));
        let new: Value = serde_json::from_str(&text).expect("one value");
        assert_eq!(new["info"]["id"], Native::Exported.copied_id(old, "new"));
        assert_eq!(new["info"]["directory"], "/new/wt");
    }
}
