//! Reads the answer of a reviewing agent: findings as JSON anywhere in its text, read as leniently as is unambiguous.

use serde_json::Value;

use crate::model::review::Severity;

/// The most findings that are read from one answer.
pub const MOST: usize = 500;

/// One finding of a reviewing agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file; `None` for the work as a whole.
    pub file: Option<String>,
    /// The first line, in the file after the change.
    pub line: Option<u32>,
    /// The last line.
    pub end: Option<u32>,
    /// The severity, or [`Severity::Minor`] where the agent gives none.
    pub severity: Severity,
    /// The finding, in words.
    pub message: String,
}

/// The names under which agents list findings.
const LISTS: [&str; 3] = ["findings", "comments", "issues"];

/// Reads the findings of an answer; returns `None` if it contains no readable list. The last list counts, because
/// agents think aloud before they answer. A list without a name counts only if no list has one. A truncated list makes
/// the whole answer unreadable: an agent must state that it found nothing.
pub fn parse(answer: &str) -> Option<Vec<Finding>> {
    let (mut named, mut bare) = (None, None);
    let mut at = 0;
    while let Some(start) = answer[at..].find(['{', '[']) {
        let start = at + start;
        let mut values = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let end = start + values.byte_offset().max(1);
                match &value {
                    Value::Object(fields) => {
                        let list = LISTS.iter().find_map(|name| fields.get(*name));
                        named = list.and_then(findings).or(named);
                    }
                    Value::Array(list) if list.is_empty() && !is_alone(answer, start, end) => {}
                    value => bare = findings(value).or(bare),
                }
                at = end;
            }
            Some(Err(error)) if error.is_eof() && is_named(&answer[start..]) => return None,
            _ => at = start + 1,
        }
        if at >= answer.len() {
            break;
        }
    }
    named.or(bare)
}

/// Returns whether a part of an answer fills its lines alone.
fn is_alone(answer: &str, start: usize, end: usize) -> bool {
    let before = answer[..start].rsplit('\n').next().unwrap_or_default();
    let after = answer[end..].split('\n').next().unwrap_or_default();
    before.trim().is_empty() && after.trim().is_empty()
}

/// Returns whether a text starts like an object with a list of findings.
fn is_named(text: &str) -> bool {
    let text = text.trim_start_matches('{').trim_start();
    LISTS
        .iter()
        .any(|name| text.starts_with(&format!("\"{name}\"")))
}

/// Reads a list. If some entries are findings, the others are kept verbatim as findings about the whole work, so that
/// nothing is lost. If no entry is one, the list is something else.
fn findings(list: &Value) -> Option<Vec<Finding>> {
    let list = list.as_array()?;
    let read: Vec<_> = list.iter().take(MOST).map(finding).collect();
    if !read.is_empty() && read.iter().all(Option::is_none) {
        return None;
    }
    let kept = |(read, entry): (Option<Finding>, &Value)| {
        read.unwrap_or_else(|| Finding {
            file: None,
            line: None,
            end: None,
            severity: Severity::Minor,
            message: format!("could not be read as a finding: {entry}"),
        })
    };
    Some(read.into_iter().zip(list).map(kept).collect())
}

/// Reads one finding. Agents use different names for the fields, and write numbers as text. An invalid line number is
/// dropped, and the finding is then about the file.
fn finding(entry: &Value) -> Option<Finding> {
    let fields = entry.as_object()?;
    let field = |names: &[&str]| {
        let found = names.iter().find_map(|name| fields.get(*name));
        found.filter(|value| !value.is_null())
    };
    let text = |names: &[&str]| match field(names) {
        None => Some(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())),
    };
    let number = |names: &[&str]| -> Option<u32> {
        match field(names)? {
            Value::String(text) => text.trim().parse().ok(),
            value => u32::try_from(value.as_u64()?).ok(),
        }
        .filter(|number| *number > 0)
    };
    let title = text(&["title"])?;
    let message = text(&["message", "body", "comment", "text", "description"])?;
    // A finding without words still points at a place.
    let silent = (title.is_some() || message.is_some()).then(|| "(no message)".to_owned());
    let words = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let message = match (words(title), words(message)) {
        (Some(title), Some(message)) if !message.contains(&title) => {
            format!("{title}\n\n{message}")
        }
        (title, message) => message.or(title).or(silent)?,
    };
    let line = number(&["line", "start_line", "startLine"]);
    let end = number(&["end", "end_line", "endLine"]);
    Some(Finding {
        file: text(&["file", "path"])?.as_deref().and_then(from_top),
        end: end.filter(|end| line.is_some_and(|line| *end > line)),
        line,
        severity: severity(text(&["severity", "level"])?.as_deref()),
        message,
    })
}

/// Returns a path relative to the top of the worktree, without a leading `./`.
fn from_top(path: &str) -> Option<String> {
    let path = path.trim_start_matches("./");
    (!path.is_empty()).then(|| path.to_owned())
}

/// Returns the severity that an agent's word means.
fn severity(word: Option<&str>) -> Severity {
    match word.unwrap_or_default().to_ascii_lowercase().as_str() {
        "blocker" | "critical" | "fatal" => Severity::Blocker,
        "major" | "error" | "high" => Severity::Major,
        "note" | "info" | "low" | "nit" | "suggestion" | "trivial" => Severity::Note,
        _ => Severity::Minor,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn findings_are_found_among_words() {
        let answer = "I looked at {everything} [twice].\n```json\n{\"findings\": [\
            {\"file\": \"./a.rs\", \"line\": 3, \"end_line\": 5, \"severity\": \"high\", \"message\": \"off by one\"},\
            {\"message\": \"no tests\"}]}\n```\nDone.";
        let found = parse(answer).expect("findings");
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            Finding {
                file: Some("a.rs".into()),
                line: Some(3),
                end: Some(5),
                severity: Severity::Major,
                message: "off by one".into(),
            }
        );
        assert_eq!((found[1].severity, found[1].line), (Severity::Minor, None));
        let own = parse(
            r#"[{"path": "b", "line": "7", "title": "Short", "body": "Long."}, {"file": "c", "line": -2, "text": "x"}]"#,
        )
        .expect("findings");
        assert_eq!(
            (own[0].line, own[0].message.as_str()),
            (Some(7), "Short\n\nLong.")
        );
        assert_eq!((own[1].line, own[1].file.as_deref()), (None, Some("c")));
        assert_eq!(parse("{\"findings\": []}"), Some(Vec::new()));
        assert_eq!(parse("[]"), Some(Vec::new()));
        assert_eq!(
            parse("Nothing found:\n```json\n[]\n```\n"),
            Some(Vec::new())
        );
        let first = r#"{"findings": [{"message": "x", "severity": "blocker"}]}"#;
        for after in [
            "\nI also checked that `int argv[]` and [] are handled.",
            "\n[]\n",
            "\n[{\"message\": \"y\"}]",
        ] {
            let found = parse(&format!("{first}{after}")).expect("findings");
            assert_eq!(
                (found.len(), found[0].severity),
                (1, Severity::Blocker),
                "{after}"
            );
        }
        let silent = r#"[{"message": " "}, {"title": "t", "message": ""}]"#;
        let messages: Vec<String> = (parse(silent).expect("findings").into_iter())
            .map(|finding| finding.message)
            .collect();
        assert_eq!(messages, ["(no message)", "t"]);
        let mixed = r#"{"findings": [{"message": "x"}, {"file": 7, "note": "y"}, "z"]}"#;
        let messages: Vec<String> = (parse(mixed).expect("findings").into_iter())
            .map(|finding| finding.message)
            .collect();
        assert_eq!(
            messages,
            [
                "x",
                r#"could not be read as a finding: {"file":7,"note":"y"}"#,
                r#"could not be read as a finding: "z""#
            ]
        );
        for bad in [
            "",
            "looks good",
            "{\"findings\": [1]}",
            "{\"findings\": [{\"file\": 1}]}",
            "{\"finding",
            "Error: rate limit hit; partial result: []",
            r#"{"findings":[{"tags":[],"file":"a","severity":"blocker","message":"wipes dis"#,
            "{\"findings\": [{\"file\": \"a\", \"tags\":\n[]\n, \"message\": \"cut",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(answer in "\\PC{0,80}|[\\[\\]{}\":,a-z 0-9]{0,120}") {
            let _ = parse(&answer);
        }
    }
}
