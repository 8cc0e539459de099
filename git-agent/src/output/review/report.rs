//! Findings in the forms that other tools read: SARIF, GitHub's workflow commands, GitLab's code quality report.

use crate::error::{Error, Result};
use crate::git::sha256;
use crate::model::review::Severity;
use crate::model::review::findings::Finding;
use crate::output::terminal::sanitize::is_unsafe;
use serde_json::{Value, json};

/// The version that a report names.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A form of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// SARIF 2.1.0.
    Sarif,
    /// Commands that GitHub's runners turn into annotations.
    Github,
    /// A code quality report.
    Gitlab,
}

impl std::str::FromStr for ReportFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sarif" => Ok(ReportFormat::Sarif),
            "github" => Ok(ReportFormat::Github),
            "gitlab" => Ok(ReportFormat::Gitlab),
            _ => Err(Error::usage(format!(
                "format must be sarif, github or gitlab, not '{text}'"
            ))),
        }
    }
}

/// Returns a report of findings by an agent.
pub fn render(format: ReportFormat, agent: &str, findings: &[Finding]) -> String {
    match format {
        ReportFormat::Sarif => pretty(&sarif(agent, findings)),
        ReportFormat::Gitlab => pretty(&gitlab(agent, findings)),
        ReportFormat::Github => findings.iter().map(github).collect(),
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    // Only strings can hold anything beyond ASCII, and there this is the same text.
    text.chars()
        .map(|c| match c {
            ' '..='~' | '\n' => c.to_string(),
            c => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect(),
        })
        .collect()
}

fn sarif(agent: &str, findings: &[Finding]) -> Value {
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let level = match finding.severity {
                Severity::Blocker | Severity::Major => "error",
                Severity::Minor => "warning",
                Severity::Note => "note",
            };
            let mut result = json!({
                "ruleId": finding.severity.as_str(),
                "level": level,
                "message": { "text": finding.message },
            });
            if let Some(file) = &finding.file {
                let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
                if let Some(line) = finding.line {
                    physical["region"] =
                        json!({ "startLine": line, "endLine": finding.end.unwrap_or(line) });
                }
                result["locations"] = json!([{ "physicalLocation": physical }]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "git-agent review",
                "version": VERSION,
                "rules": Severity::ALL.map(|severity| json!({ "id": severity.as_str() })),
            }},
            "properties": { "agent": agent },
            "results": results,
        }],
    })
}

/// Returns a path as a relative reference.
fn uri(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

fn gitlab(agent: &str, findings: &[Finding]) -> Value {
    let entries: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let file = finding.file.as_deref().unwrap_or(".");
            let line = finding.line.unwrap_or(1);
            let severity = match finding.severity {
                Severity::Blocker => "blocker",
                Severity::Major => "major",
                Severity::Minor => "minor",
                Severity::Note => "info",
            };
            json!({
                "description": finding.message,
                "check_name": agent,
                "fingerprint": sha256(format!("{file}\0{line}\0{}", finding.message).as_bytes()),
                "severity": severity,
                "location": { "path": file, "lines": { "begin": line, "end": finding.end.unwrap_or(line) } },
            })
        })
        .collect();
    Value::Array(entries)
}

fn github(finding: &Finding) -> String {
    let command = match finding.severity {
        Severity::Blocker | Severity::Major => "error",
        Severity::Minor => "warning",
        Severity::Note => "notice",
    };
    let mut properties = Vec::new();
    if let Some(file) = &finding.file {
        properties.push(format!("file={}", escaped(file, true)));
        if let Some(line) = finding.line {
            properties.push(format!("line={line}"));
            properties.push(format!("endLine={}", finding.end.unwrap_or(line)));
        }
    }
    let space = if properties.is_empty() { "" } else { " " };
    format!(
        "::{command}{space}{}::{}\n",
        properties.join(","),
        escaped(&finding.message, false)
    )
}

/// Escapes characters that would end a command or begin another.
fn escaped(text: &str, property: bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '%' => out.push_str("%25"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            ':' if property => out.push_str("%3A"),
            ',' if property => out.push_str("%2C"),
            c if is_unsafe(c) && c != '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        Finding {
            file: Some("a b,c.rs".into()),
            line: Some(3),
            end: None,
            severity: Severity::Major,
            message: "bad\n::set-output name=x::y \x1b[2J ]]> é".into(),
        }
    }

    #[test]
    fn hostile_words_stay_inside() {
        let github = render(ReportFormat::Github, "x", &[finding()]);
        assert_eq!(github.lines().count(), 1, "{github}");
        assert!(
            github.starts_with("::error file=a b%2Cc.rs,line=3,endLine=3::bad%0A::set-output"),
            "{github}"
        );
        assert!(!github.contains('\x1b'));
        for format in [ReportFormat::Sarif, ReportFormat::Gitlab] {
            let text = render(format, "x", &[finding()]);
            assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
            let value: Value = serde_json::from_str(&text).expect("valid JSON");
            assert!(value.to_string().contains("]]> é"), "{value}");
        }
        let sarif: Value =
            serde_json::from_str(&render(ReportFormat::Sarif, "x", &[finding()])).expect("JSON");
        let result = &sarif["runs"][0]["results"][0];
        assert_eq!(result["level"], "error");
        assert_eq!(
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "a%20b%2Cc.rs"
        );
    }
}
