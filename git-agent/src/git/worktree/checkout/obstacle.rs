//! Finds settings and attributes that make a checkout more than writing bytes: git would convert content, omit files,
//! fetch objects or run programs.

use gix::bstr::{BStr, ByteSlice};
use gix::objs::FindExt;

use crate::git::worktree::checkout::Refusal;
use crate::git::worktree::checkout::plan::CheckoutPlan;
use crate::git::{ObjectId, RefBackend, Repo};

/// Returns the first setting that leaves a checkout to git.
pub(crate) fn in_settings(repo: &Repo) -> Option<&'static str> {
    let config = repo.gix().config_snapshot();
    // An invalid boolean counts as set: git will report it.
    let on = |key: &str| {
        config
            .try_boolean(key)
            .map_or(true, |value| value == Some(true))
    };
    let off = |key: &str| {
        config
            .try_boolean(key)
            .is_ok_and(|value| value == Some(false))
    };
    let set = |key: &str| config.string(key).is_some();

    if repo.ref_backend() == RefBackend::Reftable {
        return Some("reftable");
    }
    if set("core.autocrlf") && !off("core.autocrlf") {
        return Some("core.autocrlf");
    }
    if config.string("core.eol").is_some_and(|value| {
        !value.eq_ignore_ascii_case(b"lf") && !value.eq_ignore_ascii_case(b"native")
    }) {
        return Some("core.eol");
    }
    if off("core.symlinks") {
        return Some("core.symlinks");
    }
    if on("core.ignorecase") {
        return Some("core.ignorecase");
    }
    if on("core.precomposeunicode") {
        return Some("core.precomposeunicode");
    }
    if on("core.sparseCheckout") || on("index.sparse") {
        return Some("sparse checkout");
    }
    if set("core.sharedRepository") {
        return Some("core.sharedRepository");
    }
    if set("worktree.useRelativePaths") && !off("worktree.useRelativePaths")
        || on("extensions.relativeWorktrees")
    {
        return Some("relative worktree paths");
    }
    if set("attr.tree") {
        return Some("attr.tree");
    }
    if on("extensions.worktreeConfig") && repo.git_dir().join("config.worktree").exists() {
        return Some("configuration per worktree");
    }
    if set("extensions.partialClone") || has_promisor(&config) {
        return Some("partial clone");
    }
    None
}

fn has_promisor(config: &gix::config::Snapshot<'_>) -> bool {
    config
        .plumbing()
        .sections_by_name("remote")
        .into_iter()
        .flatten()
        .any(|section| {
            section.value("promisor").is_some() || section.value("partialclonefilter").is_some()
        })
}

/// Returns the first attribute that leaves a checkout to git, wherever it is set.
pub(crate) fn in_attributes(
    repo: &Repo,
    plan: &CheckoutPlan,
) -> Result<Option<&'static str>, Refusal> {
    let filters = repo.config_subsections("filter");
    let entries = plan
        .entries
        .iter()
        .map(|entry| (plan.path(entry), entry.id));
    if let Some(reason) = in_blobs(repo, entries, &filters)? {
        return Ok(Some(reason));
    }
    let Some(files) = global_files(repo) else {
        return Ok(Some("an attributes file can't be read"));
    };
    for file in files {
        match std::fs::read(&file) {
            Ok(text) => {
                if let Some(reason) = in_text(&text, &filters) {
                    return Ok(Some(reason));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return Ok(Some("an attributes file can't be read")),
        }
    }
    Ok(None)
}

/// Returns whether files of a worktree with this index may have been converted on checkout.
pub(crate) fn converts(repo: &Repo, index: &gix::index::State) -> bool {
    let filters = repo.config_subsections("filter");
    let entries = index
        .entries()
        .iter()
        .map(|entry| (entry.path(index), entry.id));
    !matches!(in_blobs(repo, entries, &filters), Ok(None))
}

fn in_blobs<'a>(
    repo: &Repo,
    entries: impl Iterator<Item = (&'a BStr, ObjectId)>,
    filters: &[String],
) -> Result<Option<&'static str>, Refusal> {
    let mut buffer = Vec::new();
    for (path, id) in entries {
        if path
            .strip_suffix(b".gitattributes")
            .is_none_or(|directory| !directory.is_empty() && !directory.ends_with(b"/"))
        {
            continue;
        }
        let blob = repo
            .gix()
            .objects
            .find_blob(&id, &mut buffer)
            .map_err(|_| Refusal::Git("an object of the tree is missing"))?;
        if let Some(reason) = in_text(blob.data, filters) {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// Returns the attributes files outside the tree; `None` if one of them is unknown.
fn global_files(repo: &Repo) -> Option<Vec<std::path::PathBuf>> {
    use gix::attrs::Source;
    let mut variable = |name: &str| std::env::var_os(name);
    let mut files: Vec<_> = [Source::GitInstallation, Source::System]
        .into_iter()
        .filter_map(|source| source.storage_location(&mut variable))
        .collect();
    let configured = repo
        .gix()
        .config_snapshot()
        .trusted_path("core.attributesFile")
        .ok()?;
    files.extend(configured.or_else(|| Source::Git.storage_location(&mut variable)));
    files.push(repo.common_dir().join("info/attributes"));
    Some(files)
}

/// Examines every word of an attributes file, including macros. A pattern that reads like an attribute only costs
/// speed.
fn in_text(text: &[u8], filters: &[String]) -> Option<&'static str> {
    for line in text.lines().filter(|line| !line.starts_with(b"#")) {
        for word in line.fields().skip(1) {
            let (name, value) = match word.split_once_str("=") {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            match (name, value) {
                (b"filter", Some(driver))
                    if filters.iter().any(|filter| filter.as_bytes() == driver) =>
                {
                    return Some("content filters");
                }
                (b"ident", _) => return Some("the ident attribute"),
                (b"working-tree-encoding", Some(_)) => {
                    return Some("the working-tree-encoding attribute");
                }
                (b"eol", Some(value)) if value != b"lf" => return Some("the eol attribute"),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::in_text;

    #[test]
    fn only_converting_attributes_stand_in_the_way() {
        let filters = ["lfs".to_owned()];
        for harmless in [
            "* text=auto\n*.sh eol=lf\n",
            "*.png binary\n# *.x eol=crlf\n",
            "*.bin filter=unknown diff=lfs merge=lfs\n",
            "*.c -ident\n!filter\n",
            "",
        ] {
            assert_eq!(in_text(harmless.as_bytes(), &filters), None, "{harmless}");
        }
        for converting in [
            "*.bin filter=lfs diff=lfs -text\n",
            "*.bat text eol=crlf",
            "a b\r\n*.c ident\r\n",
            "[attr]wide working-tree-encoding=UTF-16\n",
            "\"a b\" eol=crlf\n",
        ] {
            assert!(
                in_text(converting.as_bytes(), &filters).is_some(),
                "{converting}"
            );
        }
    }
}
