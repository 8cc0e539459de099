//! Checks and repairs our part of a repository. The user's part is read but never changed.
//!
//! Each check is a function that reports findings and, with `--fix`, repairs them. Removed data is kept as files in
//! `agents/lost/`, where git does not look.

mod local;
mod locks;
mod merges;
mod objects;
mod places;
mod refs;
mod sessions;

use std::path::PathBuf;

use serde::Serialize;

use crate::context::Context;
use crate::error::Result;
use crate::git::version::{self, MINIMUM_VERSION};
use crate::guard::level;
use crate::session::caller::{self, Act};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Everything works.
    Note,
    /// Something of ours does not work properly.
    Warning,
    /// Something is broken, or breaks the user's own git.
    Error,
}

impl Severity {
    /// Returns the word shown to the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// The problem in words.
    pub what: String,
    /// A ref, an object, a file or a session.
    #[serde(rename = "where")]
    pub place: String,
    /// How serious it is.
    pub severity: Severity,
    /// The repair that `--fix` makes; absent if the user must decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Whether it has been repaired.
    pub fixed: bool,
    /// Why it could not be repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Finding {
    /// Returns whether it still needs attention.
    pub fn remains(&self) -> bool {
        !self.fixed && self.severity > Severity::Note
    }
}

/// The report about a repository.
#[derive(Debug)]
pub struct Report {
    /// The version of git.
    pub git: String,
    /// The ref storage format.
    pub backend: &'static str,
    /// The guard levels that this machine holds, and why not more.
    pub guard: Vec<level::Offer>,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// The state of one examination.
struct Visit<'c, 'a> {
    context: &'c Context<'a>,
    fix: bool,
    findings: Vec<Finding>,
}

type Check = fn(&mut Visit<'_, '_>) -> Result<()>;

/// The checks, in the order that repairs need: refs before the objects they reach, records before processes.
const CHECKS: [(&str, Check); 15] = [
    ("git", git_version),
    ("directories", places::permissions),
    ("writer", places::writer),
    ("key", places::key),
    ("locks", locks::stale),
    ("refs", refs::broken),
    ("objects", objects::damaged),
    ("spools", sessions::spools),
    ("local", local::lost),
    ("sessions", sessions::interrupted),
    ("processes", sessions::orphans),
    ("worktrees", sessions::worktrees),
    ("merges", merges::unfinished),
    ("files", places::leftovers),
    ("hooks", places::old_hooks),
];

/// Checks our part of a repository and, with `fix`, repairs it.
pub fn examine(context: &Context<'_>, fix: bool) -> Result<Report> {
    if fix {
        caller::permit(context, Act::Repair, [])?;
    }
    let mut visit = Visit {
        context,
        fix,
        findings: Vec::new(),
    };
    for (name, check) in CHECKS {
        if let Err(error) = check(&mut visit) {
            visit.findings.push(Finding {
                check: name,
                what: format!("cannot check: {}", error.message()),
                place: context.repo.common_dir().display().to_string(),
                severity: Severity::Error,
                repair: None,
                fixed: false,
                trouble: None,
            });
        }
    }
    Ok(Report {
        git: version::version()
            .map_or_else(|_| "unknown".to_owned(), |version| version.to_string()),
        backend: match context.repo.ref_backend() {
            crate::git::RefBackend::Files => "files",
            crate::git::RefBackend::Reftable => "reftable",
        },
        guard: level::of_machine(),
        findings: visit.findings,
    })
}

impl Visit<'_, '_> {
    /// Reports a problem that only the user can fix.
    fn found(
        &mut self,
        check: &'static str,
        severity: Severity,
        place: impl ToString,
        what: impl Into<String>,
    ) {
        self.findings.push(Finding {
            check,
            what: what.into(),
            place: place.to_string(),
            severity,
            repair: None,
            fixed: false,
            trouble: None,
        });
    }

    /// Reports a problem and, with `--fix`, repairs it.
    fn repair(
        &mut self,
        finding: (&'static str, Severity),
        place: impl ToString,
        what: impl Into<String>,
        how: impl Into<String>,
        mend: impl FnOnce(&Context<'_>) -> Result<()>,
    ) {
        let (check, severity) = finding;
        self.found(check, severity, place, what);
        let result = if self.fix {
            Some(mend(self.context))
        } else {
            None
        };
        if let Some(finding) = self.findings.last_mut() {
            finding.repair = Some(how.into());
            match result {
                Some(Ok(())) => finding.fixed = true,
                Some(Err(error)) => finding.trouble = Some(error.message().to_owned()),
                None => {}
            }
        }
    }
}

fn git_version(visit: &mut Visit<'_, '_>) -> Result<()> {
    let version = version::version()?;
    if version < MINIMUM_VERSION {
        visit.found(
            "git",
            Severity::Error,
            format!("git {version}"),
            format!("git-agent needs {MINIMUM_VERSION} or newer"),
        );
    }
    Ok(())
}

/// Returns a fresh path under `agents/lost/` for removed data.
fn lost_file(context: &Context<'_>, name: &str) -> Result<PathBuf> {
    let dir = context.store.require_dir("lost")?;
    let flat: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                ','
            }
        })
        .take(150)
        .collect();
    let seconds = context.env.now().seconds();
    let mut path = dir.join(format!("{seconds}-{flat}"));
    let mut count = 1;
    while path.exists() {
        path = dir.join(format!("{seconds}-{count}-{flat}"));
        count += 1;
    }
    Ok(path)
}
