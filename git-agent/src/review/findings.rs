//! What an agent that reviews answers: findings as JSON somewhere in its words, read as forgivingly as can be told apart.

use serde::Deserialize;
use serde_json::Value;

use super::Severity;

/// The most findings that are taken from one answer.
pub const MOST: usize = 500;

/// Something a reviewing agent found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file; nothing is the work as a whole.
    pub file: Option<String>,
    /// The first line in the file as it is after the change.
    pub line: Option<u32>,
    /// The last line.
    pub end: Option<u32>,
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub message: String,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(alias = "path", default)]
    file: Option<String>,
    #[serde(alias = "start_line", alias = "startLine", default)]
    line: Option<u32>,
    #[serde(alias = "end_line", alias = "endLine", default)]
    end: Option<u32>,
    #[serde(alias = "level", default)]
    severity: Option<String>,
    #[serde(alias = "body", alias = "comment", alias = "text", alias = "title")]
    message: String,
}

/// Reads the findings of an answer; `None` when it holds nothing that can be read as such. The last list counts: agents
/// think aloud before they answer.
pub fn parse(answer: &str) -> Option<Vec<Finding>> {
    let mut found = None;
    let mut at = 0;
    while let Some(start) = answer[at..].find(['{', '[']) {
        let rest = &answer[at + start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                if let Some(findings) = findings(&value) {
                    found = Some(findings);
                }
                at += start + values.byte_offset().max(1);
            }
            _ => at += start + 1,
        }
        if at >= answer.len() {
            break;
        }
    }
    found
}

fn findings(value: &Value) -> Option<Vec<Finding>> {
    let list = match value {
        Value::Object(fields) => fields
            .get("findings")
            .or_else(|| fields.get("comments"))
            .or_else(|| fields.get("issues"))?
            .as_array()?,
        Value::Array(list) => list,
        _ => return None,
    };
    // One entry that is no finding makes the list something else: better shown than half read.
    list.iter()
        .take(MOST)
        .map(|entry| {
            let raw: Raw = serde_json::from_value(entry.clone()).ok()?;
            let line = raw.line.filter(|line| *line > 0);
            Some(Finding {
                file: raw.file.as_deref().and_then(from_top),
                end: raw.end.filter(|end| line.is_some_and(|line| *end > line)),
                line,
                severity: severity(raw.severity.as_deref()),
                message: raw.message,
            })
        })
        .collect()
}

/// Returns a path from the top as every tool takes it.
fn from_top(path: &str) -> Option<String> {
    let path = path.trim_start_matches("./");
    (!path.is_empty()).then(|| path.to_owned())
}

/// Returns the severity that a word of any house means.
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
        assert_eq!(parse("{\"findings\": []}"), Some(Vec::new()));
        assert_eq!(parse("[]"), Some(Vec::new()));
        for bad in [
            "",
            "looks good",
            "{\"findings\": [1]}",
            "{\"findings\": [{\"file\": 1}]}",
            "{\"finding",
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
